//! The choice of an array among several in a file.

use std::path::Path;

use robust_ot::Result;

use super::format_error;

/// The maximum number of variables that a message lists by name.
const LISTED: usize = 20;

/// The purpose of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Features,
    Labels,
}

impl Role {
    /// The names that indicate this role.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Features => &["x", "X", "features", "data", "fts"],
            Self::Labels => &["y", "Y", "labels", "label"],
        }
    }
}

/// A named variable in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub name: String,
    /// What the variable is, if not a rectangle of numbers.
    pub obstacle: Option<String>,
}

/// The index of the variable with a name of this role, or else of the only numeric one.
pub(super) fn choose(path: &Path, role: Role, all: &[Variable]) -> Result<usize> {
    let only = |fits: &dyn Fn(&Variable) -> bool| {
        let mut places = all.iter().enumerate().filter(|(_, variable)| fits(variable)).map(|(at, _)| at);
        places.next().filter(|_| places.next().is_none())
    };
    let named = |variable: &Variable| role.names().contains(&variable.name.as_str());
    // Names take precedence: if X is not numeric, the only numeric array may be y.
    let chosen = if all.iter().any(named) { only(&named) } else { only(&|v| v.obstacle.is_none()) };
    let Some(at) = chosen else {
        let wanted = role.names().join(", ");
        let listed = all.iter().take(LISTED).map(describe).collect::<Vec<_>>().join(", ");
        let found = match all.len() {
            0 => "nothing".into(),
            1..=LISTED => listed,
            count => format!("{count}: {listed}, …"),
        };
        let message = format!("must hold one array of numbers, or one named {wanted}, but holds {found}");
        return Err(format_error(path, message));
    };
    match &all[at].obstacle {
        None => Ok(at),
        Some(what) => Err(format_error(
            path,
            format!("'{}' must be a dense table of real numbers, but is {what}", all[at].name),
        )),
    }
}

fn describe(variable: &Variable) -> String {
    match &variable.obstacle {
        None => variable.name.clone(),
        Some(what) => format!("{} ({what})", variable.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(role: Role, all: &[(&str, Option<&str>)]) -> Result<usize> {
        let all: Vec<Variable> = all
            .iter()
            .map(|&(name, what)| Variable { name: name.into(), obstacle: what.map(str::to_owned) })
            .collect();
        choose(Path::new("a.mat"), role, &all)
    }

    #[test]
    fn a_name_comes_before_being_alone() {
        assert_eq!(chosen(Role::Features, &[("a", None)]).unwrap(), 0);
        assert_eq!(chosen(Role::Features, &[("a", Some("a cell array")), ("b", None)]).unwrap(), 1);
        assert_eq!(chosen(Role::Features, &[("y", None), ("X", None)]).unwrap(), 1);
        assert_eq!(chosen(Role::Labels, &[("y", None), ("X", None)]).unwrap(), 0);
        let message = |all: &[(&str, Option<&str>)]| chosen(Role::Features, all).unwrap_err().to_string();
        let sparse = message(&[("X", Some("sparse")), ("y", None)]);
        assert!(
            sparse.contains("a.mat: 'X' must be a dense table of real numbers, but is sparse"),
            "{sparse}"
        );
        let several = message(&[("a", None), ("b", None), ("c", Some("text"))]);
        assert!(
            several.contains("one named x, X, features, data, fts, but holds a, b, c (text)"),
            "{several}"
        );
        assert!(message(&[("x", None), ("X", None)]).contains("but holds x, X"));
        assert!(message(&[]).contains("but holds nothing"));
        let many = message(&vec![("name", None); 30_000]);
        assert!(many.contains("but holds 30000: name, name") && many.ends_with("name, …"), "{many}");
        assert!(many.len() < 400);
    }
}
