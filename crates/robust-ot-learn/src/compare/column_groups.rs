//! Groups of columns by their names.

use std::collections::HashMap;
use std::str::FromStr;

use regex::Regex;
use robust_ot::{Error, Result};

/// How columns form groups.
///
/// ```
/// use robust_ot_learn::compare::GroupBy;
///
/// assert_eq!("prefix".parse::<GroupBy>()?, GroupBy::Prefix);
/// assert!(matches!("^s([0-9]+)_".parse::<GroupBy>()?, GroupBy::Pattern(_)));
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GroupBy {
    /// They do not.
    #[default]
    None,
    /// By the part of the name before the last `_`, `-`, `.` or `:`; `s01_3` is in group `s01`.
    Prefix,
    /// By what the first parentheses of a regular expression match, or all of it if it has none.
    Pattern(NamePattern),
    /// By a table of column and group.
    Map(HashMap<String, String>),
}

/// A regular expression for names of columns.
#[derive(Debug, Clone)]
pub struct NamePattern(Regex);

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for NamePattern {}

impl FromStr for GroupBy {
    type Err = Error;

    /// `prefix` or a regular expression.
    fn from_str(rule: &str) -> Result<Self> {
        if rule == "prefix" {
            return Ok(Self::Prefix);
        }
        let pattern = Regex::new(rule).map_err(|error| {
            // The last line of the message names the error; those before repeat the pattern.
            let message = error.to_string();
            let why = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            Error::parameter("group_by", "prefix or a regular expression", format!("'{rule}' ({why})"))
        })?;
        Ok(Self::Pattern(NamePattern(pattern)))
    }
}

impl GroupBy {
    /// The group of a column.
    fn group_of(&self, name: &str) -> Option<String> {
        match self {
            Self::None => None,
            Self::Prefix => {
                name.rfind(['_', '-', '.', ':']).filter(|at| *at > 0).map(|at| name[..at].to_owned())
            }
            Self::Pattern(NamePattern(pattern)) => {
                let found = pattern.captures(name)?;
                let group = found.get(1).or_else(|| found.get(0).filter(|_| found.len() == 1))?;
                Some(group.as_str().to_owned())
            }
            Self::Map(map) => map.get(name).cloned(),
        }
    }

    /// Groups of columns, in the order of their first columns.
    pub(super) fn groups(&self, names: &[String]) -> Result<Vec<(String, Vec<usize>)>> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (column, name) in names.iter().enumerate() {
            let Some(group) = self.group_of(name) else { continue };
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, columns)) => columns.push(column),
                None => groups.push((group, vec![column])),
            }
        }
        if groups.is_empty() && *self != Self::None {
            return Err(Error::Conflict {
                name: "group_by",
                rule: "put a column into a group".into(),
                found: "no column is in any".into(),
            });
        }
        Ok(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(rule: &GroupBy, names: &[&str]) -> Vec<(String, Vec<usize>)> {
        rule.groups(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn names_form_groups_by_prefix_pattern_or_map() {
        let names = ["s01_1", "s02_1", "s01_2", "time"];
        let both = vec![("s01".to_owned(), vec![0, 2]), ("s02".to_owned(), vec![1])];
        assert_eq!(groups(&GroupBy::Prefix, &names), both);
        assert_eq!(groups(&"^s[0-9]+".parse().unwrap(), &names), both);
        let numbers = groups(&"^s([0-9]+)_".parse().unwrap(), &names);
        assert_eq!(numbers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["01", "02"]);
        // The parentheses may match nothing: such a column is in no group.
        assert_eq!(groups(&"^s.*_(2)?".parse().unwrap(), &names), [("2".to_owned(), vec![2])]);
        let map = GroupBy::Map([("time".to_owned(), "clock".to_owned())].into());
        assert_eq!(groups(&map, &names), [("clock".to_owned(), vec![3])]);
        assert_eq!(groups(&GroupBy::None, &names), []);
    }

    #[test]
    fn rules_without_a_group_and_broken_patterns_are_refused() {
        let nothing = GroupBy::Prefix.groups(&["a".to_owned()]).unwrap_err().to_string();
        assert_eq!(nothing, "group_by must put a column into a group, but no column is in any");
        let broken = "(".parse::<GroupBy>().unwrap_err().to_string();
        assert_eq!(broken, "group_by must be prefix or a regular expression, but is '(' (unclosed group)");
    }
}
