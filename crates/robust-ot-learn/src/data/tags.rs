//! Labels given as text tags: the distinct tags, the rows that have them, and the labels they stand for.

use std::collections::HashMap;
use std::path::Path;

use robust_ot::Result;

use super::label_file::LabelFile;
use super::line_error;
use super::room::Room;

/// Bytes that a distinct tag takes besides three copies of its name: its places in two tables and in a list.
const TAG: usize = 240;

/// Rows of tags, as they are read.
#[derive(Debug, Default)]
pub(super) struct Tags {
    places: HashMap<String, usize>,
    distinct: Vec<Tag>,
    /// The tags of each row, as indices of the distinct ones.
    pub rows: Vec<Vec<usize>>,
}

#[derive(Debug)]
struct Tag {
    name: String,
    first_line: usize,
    /// The index of the last row that has the tag.
    last_row: usize,
}

impl Tags {
    /// Adds the tags of a line as a row.
    pub(super) fn push<'a>(
        &mut self,
        line: usize,
        tags: impl Iterator<Item = &'a str>,
        room: &mut Room,
    ) -> std::result::Result<(), String> {
        let mut row = Vec::new();
        for tag in tags.map(str::trim) {
            if tag.is_empty() {
                return Err("labels must not be empty, but one is".into());
            }
            if let Some(&place) = self.places.get(tag) {
                if self.distinct[place].last_row == self.rows.len() {
                    return Err(format!("a label must occur only once in a line, but '{tag}' is repeated"));
                }
                self.distinct[place].last_row = self.rows.len();
                room.push(&mut row, place)?;
            } else {
                room.take(TAG + 3 * tag.len())?;
                room.push(&mut row, self.distinct.len())?;
                self.places.insert(tag.to_owned(), self.distinct.len());
                self.distinct.push(Tag { name: tag.to_owned(), first_line: line, last_row: self.rows.len() });
            }
        }
        room.push(&mut self.rows, row)
    }

    /// Maps tags to labels: to these names, or to indices if all tags are indices. Without names, other tags become the
    /// names.
    pub(super) fn resolve(mut self, path: &Path, names: Option<&[String]>) -> Result<LabelFile> {
        let indices: Option<Vec<usize>> = self.distinct.iter().map(|tag| index(&tag.name)).collect();
        let labels = match (names, indices) {
            (None, None) => {
                let names: Vec<String> = self.distinct.into_iter().map(|tag| tag.name).collect();
                return Ok(LabelFile {
                    rows: self.rows,
                    count: names.len(),
                    names: Some(names),
                    counted: true,
                });
            }
            (None, Some(indices)) => indices,
            (Some(names), indices) => {
                let known: HashMap<&str, usize> =
                    names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
                let found = |tag: &Tag| known.get(tag.name.as_str()).copied();
                match (self.distinct.iter().map(found).collect(), indices) {
                    (Some(labels), _) => labels,
                    (None, Some(indices)) => self.check_indices(path, indices, names.len())?,
                    (None, None) => return Err(self.unknown(path, names, found)),
                }
            }
        };
        self.rows.iter_mut().flatten().for_each(|tag| *tag = labels[*tag]);
        let count = names.map_or(labels.iter().max().map_or(0, |largest| largest + 1), <[String]>::len);
        Ok(LabelFile {
            rows: self.rows,
            names: names.map(<[String]>::to_vec),
            count,
            counted: names.is_some(),
        })
    }

    fn check_indices(&self, path: &Path, indices: Vec<usize>, count: usize) -> Result<Vec<usize>> {
        match indices.iter().zip(&self.distinct).find(|&(&index, _)| index >= count) {
            Some((index, tag)) => {
                let message =
                    format!("labels must be below {count}, the number of names, but one is {index}");
                Err(line_error(path, tag.first_line, message))
            }
            None => Ok(indices),
        }
    }

    /// The error for the first tag that is not a name.
    fn unknown(
        &self,
        path: &Path,
        names: &[String],
        found: impl Fn(&Tag) -> Option<usize>,
    ) -> robust_ot::Error {
        let tag = self.distinct.iter().find(|tag| found(tag).is_none());
        let (name, line) = tag.map_or(("", 0), |tag| (tag.name.as_str(), tag.first_line));
        let hint = closest(name, names).map_or(String::new(), |near| format!("; did you mean '{near}'?"));
        line_error(path, line, format!("labels must be among the label names, but '{name}' is not{hint}"))
    }
}

/// Parses a tag as an index. '01' is not an index, since it would be the same label as '1'.
fn index(tag: &str) -> Option<usize> {
    // Below 2^32, so that adding one does not overflow.
    let index = tag.parse::<u32>().ok()? as usize;
    (index.to_string() == tag).then_some(index)
}

/// The name with the fewest edits from a tag, unless they exceed a third of its letters.
fn closest<'a>(tag: &str, names: &'a [String]) -> Option<&'a str> {
    let near = names.iter().map(|name| (edits(tag, name), name)).min_by_key(|&(edits, _)| edits);
    near.filter(|&(edits, _)| edits <= tag.chars().count().div_ceil(3)).map(|(_, name)| name.as_str())
}

/// The edit distance: letters to insert, delete or replace, ignoring case.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(lines: &[&str], names: Option<&[&str]>) -> Result<LabelFile> {
        let mut tags = Tags::default();
        for (at, line) in lines.iter().enumerate() {
            tags.push(at + 1, line.split(','), &mut Room::new()).unwrap();
        }
        let names: Option<Vec<String>> = names.map(|names| names.iter().map(|&name| name.into()).collect());
        tags.resolve(Path::new("t.txt"), names.as_deref())
    }

    #[test]
    fn tags_are_names_or_indices() {
        let own = resolve(&["sea,ship", "ship,3"], None).unwrap();
        assert_eq!((own.rows, own.count), (vec![vec![0, 1], vec![1, 2]], 3));
        assert_eq!(own.names.unwrap(), ["sea", "ship", "3"]);
        let indices = resolve(&["4,0", "4"], None).unwrap();
        assert_eq!((indices.rows, indices.count, indices.names), (vec![vec![4, 0], vec![4]], 5, None));
        assert_eq!(resolve(&["01", "1"], None).unwrap().names.unwrap(), ["01", "1"]);
        let given = resolve(&["ship", "sea"], Some(&["sea", "sky", "ship"])).unwrap();
        assert_eq!((given.rows, given.count), (vec![vec![2], vec![0]], 3));
        assert_eq!(resolve(&["2", "0"], Some(&["a", "b", "c"])).unwrap().rows, [[2], [0]]);
        // Numbers that are among the names are names, not indices.
        assert_eq!(resolve(&["7"], Some(&["5", "7"])).unwrap().rows, [[1]]);
    }

    #[test]
    fn unknown_tags_are_named_with_the_closest_name() {
        let message = |lines: &[&str], names: &[&str]| resolve(lines, Some(names)).unwrap_err().to_string();
        let near = message(&["sea", "sea,shipp"], &["sea", "ship", "shop"]);
        assert_eq!(
            near,
            "t.txt:2: labels must be among the label names, but 'shipp' is not; did you mean 'ship'?"
        );
        assert!(message(&["zebra"], &["sea"]).ends_with("'zebra' is not"));
        assert!(message(&["0", "3"], &["a", "b"]).contains("t.txt:2: labels must be below 2"));
        assert!(message(&["Sea"], &["sea"]).contains("did you mean 'sea'?"));
        assert_eq!((edits("kitten", "sitting"), edits("", "ab"), edits("ab", "")), (3, 2, 2));
    }
}
