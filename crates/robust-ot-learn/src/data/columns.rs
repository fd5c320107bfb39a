//! Columns of several tables, matched by name.

use std::collections::{HashMap, HashSet};

use robust_ot::{Error, Result};

/// The maximum number of names listed in an error.
const LISTED: usize = 20;

/// What decides which columns of some tables correspond.
///
/// ```
/// use robust_ot_learn::data::Matching;
/// assert_eq!(Matching::Name.name(), "name");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matching {
    /// Their names: at least two tables have some.
    Name,
    /// Their positions.
    Position,
}

impl Matching {
    /// `name` or `position`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Position => "position",
        }
    }
}

/// How the columns of some tables correspond.
///
/// ```
/// use robust_ot_learn::data::match_columns;
///
/// let names = [["a", "b"], ["b", "a"]].map(|names| names.map(str::to_owned));
/// let found = match_columns(&[("x.csv", Some(&names[0])), ("y.csv", Some(&names[1]))])?;
/// assert_eq!(found.orders, [None, Some(vec![1, 0])]);
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMatch {
    /// What decided.
    pub by: Matching,
    /// For each table, the columns in the order of the first table with names; None if they are in that order or have no
    /// names.
    pub orders: Vec<Option<Vec<usize>>>,
}

/// Matches the columns of tables by name. Each table has a label for errors, and names if it has a header. Tables without
/// names keep their order.
///
/// ```
/// use robust_ot_learn::data::{Matching, match_columns};
///
/// let names = ["a".to_owned(), "b".to_owned()];
/// assert_eq!(match_columns(&[("x", Some(&names)), ("y", None)])?.by, Matching::Position);
/// assert!(match_columns(&[("x", Some(&names)), ("y", Some(&names[..1]))]).is_err());
/// # Ok::<(), robust_ot::Error>(())
/// ```
///
/// # Errors
/// When the names of two tables differ, or are in different orders and one is repeated.
pub fn match_columns(tables: &[(&str, Option<&[String]>)]) -> Result<ColumnMatch> {
    let mut orders = vec![None; tables.len()];
    let mut named =
        tables.iter().enumerate().filter_map(|(at, (label, names))| Some((at, *label, (*names)?)));
    let Some((_, first_label, first)) = named.next() else {
        return Ok(ColumnMatch { by: Matching::Position, orders });
    };
    let mut by = Matching::Position;
    for (at, label, names) in named {
        by = Matching::Name;
        if names != first {
            check_same((first_label, first), (label, names))?;
            let places: HashMap<&String, usize> =
                names.iter().enumerate().map(|(place, name)| (name, place)).collect();
            orders[at] = Some(first.iter().map(|name| places[name]).collect());
        }
    }
    Ok(ColumnMatch { by, orders })
}

/// Fails unless both tables have the same distinct names.
fn check_same((first_label, first): (&str, &[String]), (label, names): (&str, &[String])) -> Result<()> {
    let refuse =
        |message: String| Err(Error::Format { place: format!("{first_label} and {label}"), message });
    let (first_set, set): (HashSet<_>, HashSet<_>) = (first.iter().collect(), names.iter().collect());
    let only = |label: &str, names: &[String], others: &HashSet<&String>| {
        let missing: Vec<_> = names.iter().filter(|name| !others.contains(name)).collect();
        (!missing.is_empty()).then(|| format!("only {label} has {}", listed(&missing)))
    };
    let differences = [only(first_label, first, &set), only(label, names, &first_set)];
    let differences: Vec<_> = differences.into_iter().flatten().collect();
    if !differences.is_empty() {
        let found = differences.join(" and ");
        return refuse(format!("columns must have the same names, but {found}"));
    }
    for (label, names, set) in [(first_label, first, &first_set), (label, names, &set)] {
        if names.len() > set.len() {
            let mut seen = HashSet::new();
            let repeated = names.iter().find(|name| !seen.insert(*name)).map_or("", String::as_str);
            return refuse(format!(
                "columns in different orders must have distinct names, but {label} repeats '{repeated}'"
            ));
        }
    }
    Ok(())
}

/// Names in quotes, the first ones if there are many.
pub(super) fn listed(names: &[&String]) -> String {
    let shown = names.iter().take(LISTED).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED { format!("{shown}, … ({} in all)", names.len()) } else { shown }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn matched(tables: &[Option<&[&str]>]) -> Result<ColumnMatch> {
        let names: Vec<_> = tables.iter().map(|names| names.map(owned)).collect();
        let labels: Vec<_> = (0..tables.len()).map(|at| format!("t{at}")).collect();
        let tables: Vec<_> =
            labels.iter().zip(&names).map(|(label, names)| (label.as_str(), names.as_deref())).collect();
        match_columns(&tables)
    }

    #[test]
    fn tables_without_names_are_matched_by_position() {
        assert_eq!(matched(&[None, None]).unwrap().by, Matching::Position);
        assert_eq!(matched(&[None, Some(&["a"])]).unwrap().by, Matching::Position);
        let three = matched(&[Some(&["a", "b"]), None, Some(&["b", "a"])]).unwrap();
        assert_eq!((three.by, three.orders), (Matching::Name, vec![None, None, Some(vec![1, 0])]));
        // Repeated names in one order need no matching.
        assert_eq!(matched(&[Some(&["a", "a"]), Some(&["a", "a"])]).unwrap().orders, [None, None]);
    }

    #[test]
    fn names_that_differ_are_listed() {
        let message = |tables: &[Option<&[&str]>]| matched(tables).unwrap_err().to_string();
        assert_eq!(
            message(&[Some(&["a", "b", "c"]), Some(&["a", "x", "c"])]),
            "t0 and t1: columns must have the same names, but only t0 has 'b' and only t1 has 'x'"
        );
        assert_eq!(
            message(&[Some(&["a"]), Some(&["a"]), Some(&["b", "a", "c"])]),
            "t0 and t2: columns must have the same names, but only t2 has 'b', 'c'"
        );
        assert!(message(&[Some(&["a", "a", "b"]), Some(&["b", "a", "a"])]).contains("t0 repeats 'a'"));
        let many: Vec<_> = (0..30).map(|at| at.to_string()).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(message(&[Some(&many), Some(&["0"])]).contains("'20', … (29 in all)"));
    }

    proptest! {
        #[test]
        fn the_order_restores_any_permutation(names in Just((0..12).collect::<Vec<usize>>()).prop_shuffle()) {
            let shuffled: Vec<_> = names.iter().map(ToString::to_string).collect();
            let sorted: Vec<_> = (0..12).map(|at: usize| at.to_string()).collect();
            let found = match_columns(&[("x", Some(&sorted)), ("y", Some(&shuffled))]).unwrap();
            let order = found.orders[1].clone().unwrap_or_else(|| (0..12).collect());
            let restored: Vec<_> = order.iter().map(|&place| shuffled[place].clone()).collect();
            prop_assert_eq!(restored, sorted);
        }
    }
}
