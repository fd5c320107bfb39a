//! How features are grouped, before their number is known.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::grouping::Grouping;

/// A rule that assigns features to groups.
///
/// ```
/// use robust_ot::sets::GroupingRule;
///
/// let rule: GroupingRule = "interleaved".parse()?;
/// assert_eq!(rule.group(5, Some(2), 0)?.assignment(), [0, 1, 0, 1, 0]);
/// assert!(GroupingRule::Contiguous.group(5, None, 0)?.is_none());
/// # Ok::<(), robust_ot::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GroupingRule {
    /// [`Grouping::contiguous`]; without a number of groups, every feature is a group of its own.
    #[default]
    Contiguous,
    /// [`Grouping::interleaved`].
    Interleaved,
    /// [`Grouping::random`].
    Random,
    /// [`Grouping::explicit`]: the group of every feature.
    Explicit(Vec<usize>),
}

impl GroupingRule {
    /// The name of the rule.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Contiguous => "contiguous",
            Self::Interleaved => "interleaved",
            Self::Random => "random",
            Self::Explicit(_) => "explicit",
        }
    }

    /// Groups `dim` features. Only [`GroupingRule::Random`] uses the seed.
    ///
    /// # Errors
    /// When the rule needs a number of groups but none is given, or the number does not fit.
    pub fn group(&self, dim: usize, groups: Option<usize>, seed: u64) -> Result<Grouping> {
        match (self, groups) {
            (Self::Contiguous, None) => Ok(Grouping::none(dim)),
            (Self::Contiguous, Some(groups)) => Grouping::contiguous(dim, groups),
            (Self::Interleaved, Some(groups)) => Grouping::interleaved(dim, groups),
            (Self::Random, Some(groups)) => Grouping::random(dim, groups, seed),
            (Self::Interleaved | Self::Random, None) => Err(Error::Conflict {
                name: "groups",
                rule: format!("be given where the grouping is {}", self.name()),
                found: "is absent".into(),
            }),
            (Self::Explicit(assignment), groups) => explicit(assignment, dim, groups),
        }
    }
}

fn explicit(assignment: &[usize], dim: usize, groups: Option<usize>) -> Result<Grouping> {
    if assignment.len() != dim {
        return Err(Error::Grouping {
            rule: format!("have one group index per feature, {dim}"),
            found: format!("it has {}", assignment.len()),
        });
    }
    let found = Grouping::explicit(assignment.to_vec())?;
    match groups.filter(|&groups| groups != found.groups()) {
        None => Ok(found),
        Some(groups) => {
            let rule = format!("the number of groups of the grouping, {}, or absent", found.groups());
            Err(Error::parameter("groups", rule, groups))
        }
    }
}

impl FromStr for GroupingRule {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Self::Contiguous, Self::Interleaved, Self::Random]
            .into_iter()
            .find(|rule| rule.name() == name)
            .ok_or_else(|| Error::parameter("grouping", "contiguous, interleaved or random", name))
    }
}

/// Reads the group of every feature, separated by commas or white space.
///
/// ```
/// let grouping: robust_ot::Grouping = "0, 0, 1".parse()?;
/// assert_eq!(grouping.groups(), 2);
/// # Ok::<(), robust_ot::Error>(())
/// ```
impl FromStr for Grouping {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let indices = text.split([',', ' ', '\t', '\n']).filter(|index| !index.is_empty());
        let whole = |index: &str| {
            index.parse().map_err(|_| Error::Grouping {
                rule: "be whole numbers from 0 on".into(),
                found: format!("one is '{index}'"),
            })
        };
        Self::explicit(indices.map(whole).collect::<Result<_>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_the_constructors() {
        assert_eq!(
            GroupingRule::Contiguous.group(7, Some(3), 0).unwrap(),
            Grouping::contiguous(7, 3).unwrap()
        );
        assert_eq!(GroupingRule::Random.group(7, Some(3), 5).unwrap(), Grouping::random(7, 3, 5).unwrap());
        assert_eq!(GroupingRule::Contiguous.group(7, None, 0).unwrap(), Grouping::none(7));
        let explicit = GroupingRule::Explicit(vec![0, 1, 0]);
        assert_eq!(explicit.group(3, Some(2), 0).unwrap(), "0,1 0".parse().unwrap());
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let message = |rule: GroupingRule, groups| rule.group(3, groups, 0).unwrap_err().to_string();
        assert_eq!(
            message(GroupingRule::Random, None),
            "groups must be given where the grouping is random, but is absent"
        );
        let explicit = GroupingRule::Explicit(vec![0, 1, 0]);
        assert!(
            message(explicit.clone(), Some(3)).contains("groups of the grouping, 2, or absent, but is 3")
        );
        assert!(explicit.group(4, None, 0).unwrap_err().to_string().contains("per feature, 4, but it has 3"));
        assert!("0,x".parse::<Grouping>().is_err());
        assert!("chance".parse::<GroupingRule>().is_err());
    }
}
