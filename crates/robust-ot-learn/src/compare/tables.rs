//! Samples from tables: which columns are compared, what happens to missing values, which columns say how rows may be
//! exchanged.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::str::FromStr;

use ndarray::Array2;
use robust_ot::{Error, Result};

use super::column_groups::GroupBy;
use super::exchange::Exchange;
use super::sample::Samples;
use crate::data::{Cells, MixedColumn, MixedTable, matches};

/// Text columns with more distinct values than this, and than half the rows, are identifiers.
const FEW_VALUES: usize = 50;
/// What a missing value of a text column is called.
const MISSING: &str = "(missing)";
/// The most names in an error.
const LISTED: usize = 20;

/// What happens to missing numbers.
///
/// ```
/// use robust_ot_learn::compare::Gaps;
/// assert_eq!("drop-columns".parse::<Gaps>()?, Gaps::DropColumns);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// They are refused.
    #[default]
    Error,
    /// Rows with missing values are left out.
    DropRows,
    /// Columns with missing values are left out.
    DropColumns,
}

impl Gaps {
    /// `error`, `drop-rows` or `drop-columns`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::DropRows => "drop-rows",
            Self::DropColumns => "drop-columns",
        }
    }
}

impl FromStr for Gaps {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found =
            [Self::Error, Self::DropRows, Self::DropColumns].into_iter().find(|gaps| gaps.name() == name);
        found.ok_or_else(|| Error::parameter("missing", "error, drop-rows or drop-columns", name))
    }
}

/// What a column says of how rows may be exchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Design {
    /// Nothing: all rows are independent.
    #[default]
    Free,
    /// Rows are paired by position.
    Pairs,
    /// The column has the stratum of each row; values are compared within strata.
    By(String),
    /// The column has the stratum of each row.
    Strata(String),
    /// The column has the block of each row.
    Blocks(String),
}

/// Which parts of two tables are compared.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `columns` | all | patterns of the columns to compare |
/// | `drop` | none | patterns of columns to leave out, after `columns` |
/// | `gaps` | `Error` | what happens to missing numbers |
/// | `group_by` | `None` | how columns form groups |
/// | `design` | `Free` | which rows may be exchanged |
///
/// ```
/// use std::path::Path;
/// use robust_ot_learn::compare::{TableChoice, load};
/// use robust_ot_learn::data::{Header, MixedTable};
///
/// let read = |text: &'static str| {
///     MixedTable::read(Box::new(text.as_bytes()), Path::new("t.csv"), Header::Auto)
/// };
/// let (before, after) = (read("gas,a\nx,1\ny,2\n")?, read("a,gas\n3,x\n4,x\n")?);
/// let loaded = load((Path::new("b"), &before), (Path::new("a"), &after), &TableChoice::default())?;
/// assert_eq!(loaded.samples.names, ["a"]);
/// assert_eq!(loaded.samples.categories[0].1, ["x", "y", "x", "x"]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableChoice {
    /// Patterns of the columns to compare; all if it is empty.
    pub columns: Vec<String>,
    /// Patterns of columns to leave out.
    pub drop: Vec<String>,
    /// What happens to missing numbers.
    pub gaps: Gaps,
    /// How columns form groups.
    pub group_by: GroupBy,
    /// Which rows may be exchanged.
    pub design: Design,
}

/// Samples from two tables, and what was left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The samples.
    pub samples: Samples,
    /// Which rows may be exchanged.
    pub exchange: Exchange,
    /// The value of the `By` column for each row before, then after.
    pub by: Option<Vec<String>>,
    /// Columns that are left out, with the reason.
    pub left_out: Vec<(String, String)>,
    /// The rows left out because of missing values, before and after; from 0.
    pub missing_rows: [Vec<usize>; 2],
    /// Whether columns were matched by name.
    pub by_name: bool,
}

/// Takes the columns of two tables, each with its place for errors, matched by name if both have a header.
///
/// # Errors
/// When a column is in one table only, is numbers in one and text in the other, a pattern matches nothing, a number is
/// missing, or no column of numbers is left.
pub fn load(
    before: (&Path, &MixedTable),
    after: (&Path, &MixedTable),
    choice: &TableChoice,
) -> Result<Loaded> {
    let tables = [before, after];
    let by_name = before.1.has_header && after.1.has_header;
    let pairs = paired(tables, by_name, choice)?;
    let special = match &choice.design {
        Design::By(name) => Some(("by", name)),
        Design::Strata(name) => Some(("strata", name)),
        Design::Blocks(name) => Some(("blocks", name)),
        Design::Free | Design::Pairs => None,
    };
    let Kinds { mut numbers, texts, mut left_out } = kinds(tables, pairs, special.map(|(_, name)| name))?;
    let mut missing_rows: [Vec<usize>; 2] = Default::default();
    match choice.gaps {
        Gaps::Error => refuse_gaps(tables, &numbers)?,
        Gaps::DropRows => {
            for (side, rows) in missing_rows.iter_mut().enumerate() {
                let gap = |row: &usize| numbers.iter().any(|pair| pair[side].is_missing(*row));
                *rows = (0..tables[side].1.rows).filter(gap).collect();
            }
        }
        Gaps::DropColumns => numbers.retain(|pair| {
            let count =
                |side: usize| (0..tables[side].1.rows).filter(|&row| pair[side].is_missing(row)).count();
            let gaps = count(0) + count(1);
            if gaps > 0 {
                left_out.push((pair[0].name.clone(), format!("{gaps} missing values")));
            }
            gaps == 0
        }),
    }
    if numbers.is_empty() {
        return Err(Error::Conflict {
            name: "columns",
            rule: format!("leave a column of numbers of {}", before.0.display()),
            found: "none is left".into(),
        });
    }
    if choice.design == Design::Pairs && missing_rows.iter().any(|rows| !rows.is_empty()) {
        // A pair without one of its rows is no pair.
        let gone: HashSet<usize> = missing_rows.iter().flatten().copied().collect();
        let mut gone: Vec<usize> = gone.into_iter().collect();
        gone.sort_unstable();
        missing_rows =
            [0, 1].map(|side| gone.iter().copied().filter(|&row| row < tables[side].1.rows).collect());
    }
    let kept = [0, 1].map(|side| {
        let gone: HashSet<&usize> = missing_rows[side].iter().collect();
        (0..tables[side].1.rows).filter(|row| !gone.contains(row)).collect::<Vec<usize>>()
    });
    let values = |side: usize| {
        let number = |row: usize, pair: &[&MixedColumn; 2]| match &pair[side].cells {
            Cells::Numbers(numbers) => numbers[kept[side][row]],
            Cells::Text(_) | Cells::Missing(_) => f64::NAN,
        };
        Array2::from_shape_fn((kept[side].len(), numbers.len()), |(row, column)| {
            number(row, &numbers[column])
        })
    };
    let pooled = |pair: [&MixedColumn; 2]| -> Vec<String> {
        let text = |column: &MixedColumn, row: usize| {
            if column.is_missing(row) { MISSING.to_owned() } else { column.text(row) }
        };
        (0..2).flat_map(|side| kept[side].iter().map(move |&row| text(pair[side], row))).collect()
    };
    let names: Vec<String> = numbers.iter().map(|pair| pair[0].name.clone()).collect();
    let labels = match special {
        None => None,
        Some((option, name)) => {
            let column = |side: usize| tables[side].1.column(option, name, tables[side].0);
            Some(pooled([column(0)?, column(1)?]))
        }
    };
    let codes = labels.as_ref().map(|labels| coded(labels));
    let exchange = match (&choice.design, &codes) {
        (Design::Pairs, _) => Exchange::Pairs,
        (Design::By(_) | Design::Strata(_), Some(codes)) => Exchange::Strata(codes.clone()),
        (Design::Blocks(_), Some(codes)) => Exchange::Blocks(codes.clone()),
        _ => Exchange::Free,
    };
    let is_by = matches!(choice.design, Design::By(_));
    let samples = Samples {
        before: values(0),
        after: values(1),
        groups: choice.group_by.groups(&names)?,
        names,
        categories: texts.iter().map(|pair| (pair[0].name.clone(), pooled(*pair))).collect(),
        center_by: codes.filter(|_| is_by),
    };
    Ok(Loaded { samples, exchange, by: labels.filter(|_| is_by), left_out, missing_rows, by_name })
}

/// Columns by what they hold.
struct Kinds<'a> {
    numbers: Vec<[&'a MixedColumn; 2]>,
    texts: Vec<[&'a MixedColumn; 2]>,
    left_out: Vec<(String, String)>,
}

/// Separates numbers from text; one column is none of them.
fn kinds<'a>(
    tables: [(&Path, &MixedTable); 2],
    pairs: Vec<[&'a MixedColumn; 2]>,
    special: Option<&String>,
) -> Result<Kinds<'a>> {
    let mut found = Kinds { numbers: Vec::new(), texts: Vec::new(), left_out: Vec::new() };
    for pair in pairs {
        let name = pair[0].name.clone();
        if special == Some(&name) {
            continue;
        }
        match (&pair[0].cells, &pair[1].cells) {
            (Cells::Missing(_), Cells::Missing(_)) => {
                found.left_out.push((name, "all values are missing".into()));
            }
            (Cells::Numbers(_) | Cells::Missing(_), Cells::Numbers(_) | Cells::Missing(_)) => {
                found.numbers.push(pair);
            }
            (Cells::Text(_) | Cells::Missing(_), Cells::Text(_) | Cells::Missing(_)) => {
                match distinct(pair) {
                    Some(count) => found.left_out.push((name, format!("text with {count} distinct values"))),
                    None => found.texts.push(pair),
                }
            }
            (Cells::Text(_), _) => return Err(kinds_differ(tables, &name, ("text", "numbers"))),
            (_, Cells::Text(_)) => return Err(kinds_differ(tables, &name, ("numbers", "text"))),
        }
    }
    Ok(found)
}

/// The chosen columns of both tables.
fn paired<'a>(
    tables: [(&Path, &'a MixedTable); 2],
    by_name: bool,
    choice: &TableChoice,
) -> Result<Vec<[&'a MixedColumn; 2]>> {
    let [(first_place, first), (second_place, second)] = tables;
    let named = if first.has_header { first } else { second };
    let any = |patterns: &[String], name: &str| patterns.iter().any(|pattern| matches(pattern, name));
    for (option, patterns) in [("columns", &choice.columns), ("drop", &choice.drop)] {
        let known = |pattern: &String| {
            let columns = named.columns.iter().chain(&second.columns);
            columns.map(|column| &column.name).any(|name| matches(pattern, name))
        };
        if let Some(pattern) = patterns.iter().find(|pattern| !known(pattern)) {
            return Err(Error::Conflict {
                name: option,
                rule: format!("match a column of {}", first_place.display()),
                found: format!("'{pattern}' matches none"),
            });
        }
    }
    let wanted =
        |name: &str| (choice.columns.is_empty() || any(&choice.columns, name)) && !any(&choice.drop, name);
    if !by_name {
        if first.columns.len() != second.columns.len() {
            return Err(Error::Conflict {
                name: "columns",
                rule: "be as many in both tables where one has no header".into(),
                found: format!("there are {} and {}", first.columns.len(), second.columns.len()),
            });
        }
        let all = named.columns.iter().zip(first.columns.iter().zip(&second.columns));
        let chosen = all.filter(|(named, _)| wanted(&named.name));
        return Ok(chosen.map(|(_, (x, y))| [x, y]).collect());
    }
    let places: BTreeMap<&str, &MixedColumn> =
        second.columns.iter().map(|column| (column.name.as_str(), column)).collect();
    let known: HashSet<&str> = first.columns.iter().map(|column| column.name.as_str()).collect();
    for (table, place) in [(first, first_place), (second, second_place)] {
        let names: HashSet<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        if names.len() < table.columns.len() {
            let twice = table
                .columns
                .iter()
                .enumerate()
                .find(|(at, column)| table.columns[..*at].iter().any(|other| other.name == column.name));
            return Err(Error::Conflict {
                name: "columns",
                rule: format!("have different names in {}", place.display()),
                found: format!("'{}' is there twice", twice.map_or("", |(_, column)| &column.name)),
            });
        }
    }
    let only = |names: Vec<&str>, place: &Path| {
        let names: Vec<&str> = names.into_iter().filter(|name| wanted(name)).collect();
        (!names.is_empty()).then(|| {
            let more = if names.len() > LISTED { ", …" } else { "" };
            let listed =
                names.iter().take(LISTED).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
            Error::Conflict {
                name: "drop",
                rule: "leave out columns that are in one table only".into(),
                found: format!("only {} has {listed}{more}", place.display()),
            }
        })
    };
    let first_only = first.columns.iter().map(|column| column.name.as_str());
    let first_only = first_only.filter(|name| !places.contains_key(name)).collect();
    let second_only = places.keys().copied().filter(|name| !known.contains(name)).collect();
    if let Some(error) = only(first_only, first_place).or_else(|| only(second_only, second_place)) {
        return Err(error);
    }
    let chosen = first.columns.iter().filter(|column| wanted(&column.name));
    Ok(chosen.filter_map(|column| Some([column, *places.get(column.name.as_str())?])).collect())
}

/// The number of distinct values of a text column if it holds identifiers.
fn distinct(pair: [&MixedColumn; 2]) -> Option<usize> {
    let mut values = HashSet::new();
    let mut rows = 0;
    for column in pair {
        if let Cells::Text(texts) = &column.cells {
            rows += texts.len();
            values.extend(texts.iter().flatten());
        }
    }
    (values.len() > FEW_VALUES && 2 * values.len() > rows).then_some(values.len())
}

fn kinds_differ(tables: [(&Path, &MixedTable); 2], name: &str, kinds: (&str, &str)) -> Error {
    let places = tables.map(|(place, _)| place.display().to_string());
    Error::Conflict {
        name: "columns",
        rule: "hold numbers or text in both tables".into(),
        found: format!("'{name}' holds {} in {} and {} in {}", kinds.0, places[0], kinds.1, places[1]),
    }
}

fn refuse_gaps(tables: [(&Path, &MixedTable); 2], numbers: &[[&MixedColumn; 2]]) -> Result<()> {
    for (side, (place, table)) in tables.into_iter().enumerate() {
        let gap = |row: usize| numbers.iter().find(|pair| pair[side].is_missing(row)).map(|pair| (row, pair));
        if let Some((row, pair)) = (0..table.rows).find_map(gap) {
            return Err(Error::Conflict {
                name: "missing",
                rule: "be drop-rows or drop-columns where values are missing".into(),
                found: format!("row {} of {} has no '{}'", row + 1, place.display(), pair[side].name),
            });
        }
    }
    Ok(())
}

/// The number of each label's first occurrence among distinct labels.
fn coded(labels: &[String]) -> Vec<usize> {
    let mut codes = HashMap::new();
    let code = |label: &String| {
        let next = codes.len();
        *codes.entry(label.clone()).or_insert(next)
    };
    labels.iter().map(code).collect()
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;
    use crate::data::Header;

    fn table(text: &str) -> MixedTable {
        MixedTable::read(Box::new(std::io::Cursor::new(text.to_owned())), Path::new("t.csv"), Header::Auto)
            .unwrap()
    }

    fn loaded(before: &str, after: &str, choice: &TableChoice) -> Result<Loaded> {
        load((Path::new("b.csv"), &table(before)), (Path::new("a.csv"), &table(after)), choice)
    }

    fn message(before: &str, after: &str, choice: &TableChoice) -> String {
        loaded(before, after, choice).unwrap_err().to_string()
    }

    #[test]
    fn columns_are_matched_by_name_and_by_position_without_a_header() {
        let all = TableChoice::default();
        let found = loaded("a,b\n1,2\n3,4\n", "b,a\n5,6\n", &all).unwrap();
        assert_eq!((found.samples.after, found.by_name), (array![[6.0, 5.0]], true));
        for (before, after) in [("a,b\n1,2\n", "5,6\n"), ("1,2\n", "a,b\n5,6\n")] {
            let found = loaded(before, after, &all).unwrap();
            assert_eq!((found.samples.before, found.by_name), (array![[1.0, 2.0]], false));
            assert_eq!(found.samples.after, array![[5.0, 6.0]]);
        }
        assert!(message("1,2\n", "1\n", &all).contains("there are 2 and 1"));
        assert_eq!(
            message("a,b\n1,2\n", "a,c\n1,2\n", &all),
            "drop must leave out columns that are in one table only, but only b.csv has 'b'"
        );
        let drop = TableChoice { drop: vec!["b".into(), "c".into()], ..all.clone() };
        assert_eq!(loaded("a,b\n1,2\n", "a,c\n1,2\n", &drop).unwrap().samples.names, ["a"]);
        assert!(message("a,a\n1,2\n", "a,b\n1,2\n", &all).contains("'a' is there twice"));
        let unknown = TableChoice { columns: vec!["z*".into()], ..all };
        assert!(message("a\n1\n", "a\n1\n", &unknown).contains("'z*' matches none"));
    }

    #[test]
    fn text_is_compared_by_shares_unless_it_identifies_rows() {
        let all = TableChoice::default();
        let many: Vec<String> = (0..80).map(|row| format!("id{row},{row},x")).collect();
        let many = many.join("\n");
        let found = loaded(&format!("id,v,k\n{many}"), "id,v,k\nq,1,y\n", &all).unwrap();
        assert_eq!(found.left_out, [("id".into(), "text with 81 distinct values".into())]);
        assert_eq!(found.samples.categories[0].0, "k");
        assert_eq!(
            message("a,b\n1,x\n", "a,b\n1,2\n", &all),
            "columns must hold numbers or text in both tables, but 'b' holds text in b.csv and numbers in a.csv"
        );
        assert!(message("b\nx\n", "b\ny\n", &all).contains("leave a column of numbers of b.csv"));
    }

    #[test]
    fn gaps_are_refused_or_left_out() {
        let (before, after) = ("a,b\n1,2\n,4\n", "a,b\n5,6\n7,NA\n");
        let with = |gaps| TableChoice { gaps, ..TableChoice::default() };
        assert_eq!(
            message(before, after, &with(Gaps::Error)),
            "missing must be drop-rows or drop-columns where values are missing, but row 2 of b.csv has no 'a'"
        );
        let rows = loaded(before, after, &with(Gaps::DropRows)).unwrap();
        assert_eq!((rows.samples.before, rows.missing_rows), (array![[1.0, 2.0]], [vec![1], vec![1]]));
        let columns = loaded("a,b\n1,2\n,4\n", "a,b\n5,6\n7,8\n", &with(Gaps::DropColumns)).unwrap();
        assert_eq!((columns.samples.names, columns.left_out.len()), (vec!["b".to_owned()], 1));
        let empty = loaded("a,b\n1,\n2,\n", "a,b\n5,\n7,\n", &with(Gaps::Error)).unwrap();
        assert_eq!(empty.left_out, [("b".into(), "all values are missing".into())]);
        let pairs = TableChoice { design: Design::Pairs, ..with(Gaps::DropRows) };
        let pairs = loaded("a\n1\n\"\"\n3\n4\n", "a\n5\n6\nNA\n7\n", &pairs).unwrap();
        assert_eq!((pairs.samples.before, pairs.samples.after), (array![[1.0], [4.0]], array![[5.0], [7.0]]));
    }

    #[test]
    fn a_column_can_hold_strata_and_names_can_form_groups() {
        let choice = TableChoice {
            design: Design::By("gas".into()),
            group_by: GroupBy::Prefix,
            ..TableChoice::default()
        };
        let found =
            loaded("gas,s1_a,s1_b,x\nu,1,2,3\nv,1,2,3\n", "gas,s1_a,s1_b,x\nv,1,2,3\n", &choice).unwrap();
        assert_eq!(found.exchange, Exchange::Strata(vec![0, 1, 1]));
        assert_eq!((found.samples.center_by, found.by.unwrap().len()), (Some(vec![0, 1, 1]), 3));
        assert_eq!(found.samples.groups, [("s1".into(), vec![0, 1])]);
        assert!(found.samples.categories.is_empty());
        let missing = TableChoice { design: Design::Blocks("z".into()), ..TableChoice::default() };
        assert!(message("a\n1\n", "a\n1\n", &missing).contains("blocks must be a column of b.csv"));
    }
}
