//! How tables are read: which columns, which first line, and what happens to missing values.

use std::fmt;
use std::str::FromStr;

use robust_ot::{Error, Result};

use super::columns::listed;
use super::points::Points;

/// Whether the first line of a table names its columns.
///
/// ```
/// use robust_ot_learn::data::Header;
/// assert_eq!("yes".parse::<Header>()?, Header::Yes);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Header {
    /// It does if it has names and no number; a line with both is refused.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It is data.
    No,
}

/// What happens to rows with missing values.
///
/// ```
/// use robust_ot_learn::data::Missing;
/// assert_eq!(Missing::DropRows.name(), "drop-rows");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// They are refused.
    #[default]
    Error,
    /// They are left out and counted.
    DropRows,
}

impl Header {
    /// `auto`, `yes` or `no`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Yes => "yes",
            Self::No => "no",
        }
    }
}

impl Missing {
    /// `error` or `drop-rows`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::DropRows => "drop-rows",
        }
    }
}

impl FromStr for Header {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let all = [Self::Auto, Self::Yes, Self::No];
        let found = all.into_iter().find(|header| header.name() == name);
        found.ok_or_else(|| Error::parameter("header", "auto, yes or no", name))
    }
}

impl FromStr for Missing {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = [Self::Error, Self::DropRows].into_iter().find(|missing| missing.name() == name);
        found.ok_or_else(|| Error::parameter("missing", "error or drop-rows", name))
    }
}

/// Which parts of a table are points. Columns are chosen by name, or by number from 1 where there are no names.
///
/// | field | default | meaning |
/// |---|---|---|
/// | `columns` | all | patterns of the columns to keep; each must match one |
/// | `drop` | none | patterns of columns to leave out, after `columns` |
/// | `header` | `Auto` | whether the first line has names |
/// | `missing` | `Error` | what happens to rows with missing values |
/// | `weight_column` | none | the column that holds the weights of the points |
///
/// In patterns, `*` stands for any text and `?` for any character.
///
/// ```
/// use robust_ot_learn::data::{TableOptions, read_points};
/// # let dir = tempfile::tempdir().unwrap();
/// let path = dir.path().join("wine.csv");
/// std::fs::write(&path, "name,acid_fixed,acid_free,count\nred,1,2,10\nwhite,3,4,20\n").unwrap();
/// let options = TableOptions {
///     columns: vec!["acid_*".into()],
///     weight_column: Some("count".into()),
///     ..TableOptions::default()
/// };
/// let points = read_points(&path, &options)?;
/// assert_eq!(points.table.names.unwrap(), ["acid_fixed", "acid_free"]);
/// assert_eq!(points.weights.unwrap(), ndarray::array![10.0, 20.0]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableOptions {
    /// Patterns of the columns to keep; all if it is empty.
    pub columns: Vec<String>,
    /// Patterns of columns to leave out.
    pub drop: Vec<String>,
    /// Whether the first line has names.
    pub header: Header,
    /// What happens to rows with missing values.
    pub missing: Missing,
    /// The column that holds the weights of the points.
    pub weight_column: Option<String>,
}

/// The columns that are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    /// Features, in the order of the table.
    pub kept: Vec<usize>,
    /// Weights.
    pub weight: Option<usize>,
    /// The names of the columns that `drop` left out.
    pub dropped: Vec<String>,
}

impl TableOptions {
    /// The columns to read of a table with these names, from the given one on.
    pub(super) fn select(
        &self,
        place: &dyn fmt::Display,
        names: &[String],
        from: usize,
    ) -> Result<Selection> {
        let all: Vec<&String> = names[from..].iter().collect();
        let conflict = |name: &'static str, rule: &str, given: &str| {
            let found = format!("'{given}' is not among {}", listed(&all));
            Err(Error::Conflict { name, rule: format!("{rule} of {place}"), found })
        };
        let weight = match &self.weight_column {
            None => None,
            Some(wanted) => match (from..names.len()).find(|&at| names[at] == *wanted) {
                None => return conflict("weight_column", "be a column", wanted),
                found => found,
            },
        };
        if let Some(pattern) =
            self.columns.iter().find(|pattern| !all.iter().any(|name| matches(pattern, name)))
        {
            return conflict("columns", "match columns", pattern);
        }
        let matched =
            |patterns: &[String], at: usize| patterns.iter().any(|pattern| matches(pattern, &names[at]));
        let wanted = |at: usize| self.columns.is_empty() || matched(&self.columns, at);
        let chosen: Vec<usize> = (from..names.len()).filter(|&at| Some(at) != weight && wanted(at)).collect();
        let (dropped, kept): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|&at| matched(&self.drop, at));
        if kept.is_empty() {
            let found = format!("none of {} is left", listed(&all));
            let name = if self.drop.is_empty() { "columns" } else { "drop" };
            return Err(Error::Conflict { name, rule: format!("leave a feature of {place}"), found });
        }
        let dropped = dropped.into_iter().map(|at| names[at].clone()).collect();
        Ok(Selection { kept, weight, dropped })
    }

    /// Fails if a pattern of `drop` matched no column of any table.
    ///
    /// # Errors
    /// When a pattern has no effect.
    pub fn check_dropped(&self, tables: &[Points]) -> Result<()> {
        let used = |pattern: &String| {
            tables.iter().flat_map(|points| &points.dropped_columns).any(|name| matches(pattern, name))
        };
        match self.drop.iter().find(|pattern| !used(pattern)) {
            None => Ok(()),
            Some(pattern) => {
                let rule = "match a column of some file".to_owned();
                Err(Error::Conflict { name: "drop", rule, found: format!("'{pattern}' matches none") })
            }
        }
    }
}

/// Whether a name has the form of a pattern, in which `*` stands for any text and `?` for any character.
///
/// ```
/// assert!(robust_ot_learn::data::matches("s0?_*", "s01_mean"));
/// ```
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // After a mismatch, the last `*` takes one character more.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, n));
            p += 1;
        } else if pattern.get(p).is_some_and(|&c| c == '?' || c == name[n]) {
            (p, n) = (p + 1, n + 1);
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            (p, n) = (at + 1, taken + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name) in
            [("a", "a"), ("*", ""), ("a*", "abc"), ("*c", "abc"), ("a?c", "aüc"), ("*b*d", "abcbd")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("a", "ab"), ("", "a"), ("?", ""), ("a*c", "ab"), ("*b", "abc"), ("[a]", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn columns_come_before_drop_and_weights_are_no_feature() {
        let names = ["id", "a1", "a2", "b", "w"].map(str::to_owned);
        let owned =
            |patterns: &[&str]| patterns.iter().map(|&pattern| pattern.to_owned()).collect::<Vec<_>>();
        let options = |columns: &[&str], drop: &[&str]| TableOptions {
            columns: owned(columns),
            drop: owned(drop),
            weight_column: Some("w".into()),
            ..TableOptions::default()
        };
        let select = |columns: &[&str], drop: &[&str]| options(columns, drop).select(&"t.csv", &names, 1);
        let found = select(&[], &["a2"]).unwrap();
        assert_eq!((found.kept, found.weight, found.dropped), (vec![1, 3], Some(4), vec!["a2".to_owned()]));
        assert_eq!(select(&["b", "a*"], &[]).unwrap().kept, [1, 2, 3]);
        let message = |columns: &[&str], drop: &[&str]| select(columns, drop).unwrap_err().to_string();
        assert_eq!(
            message(&["c"], &[]),
            "columns must match columns of t.csv, but 'c' is not among 'a1', 'a2', 'b', 'w'"
        );
        assert!(message(&[], &["*"]).starts_with("drop must leave a feature of t.csv"));
        assert!(message(&["w"], &[]).starts_with("columns must leave a feature"));
        let other = TableOptions { weight_column: Some("v".into()), ..TableOptions::default() };
        let message = other.select(&"t.csv", &names, 0).unwrap_err().to_string();
        assert!(
            message.starts_with("weight_column must be a column of t.csv, but 'v' is not among 'id'"),
            "{message}"
        );
    }

    proptest! {
        #[test]
        fn a_star_stands_for_any_text(a in "[ab*?]{0,6}", b in "[ab]{0,6}", c in "[ab]{0,6}") {
            let plain = a.replace(['*', '?'], "");
            let pattern = format!("{plain}*{c}");
            let name = format!("{plain}{b}{c}");
            prop_assert!(matches(&pattern, &name));
            prop_assert!(matches(&a, &a.replace('*', &b)));
        }
    }
}
