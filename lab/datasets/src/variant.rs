//! Variants of the public sets: the papers use different columns of the same files.
//! Each set's description names its variants, and says which papers use them.

use serde::Deserialize;

use super::names::{DatasetName, named};

named! {
    /// The choice of columns of a data set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Variant {
        /// Every column that describes a record. A set whose papers agree has this variant alone.
        All = "all",
        /// `bank` without `duration`, which is known only once the outcome is, as V and the text of
        /// R say.
        WithoutDuration = "without_duration",
        /// `bank` without `campaign`, with `duration`, and with `cons.conf.idx` as a category, as
        /// in the code behind R's figures.
        Authors = "authors",
        /// `adult` without `education`, of which `education-num` is a copy in numbers. V counts 13
        /// features and does not say which of the 14 it leaves out. The choice is ours.
        WithoutEducation = "without_education",
        /// `grid` without `stab`, whose sign is the class.
        WithoutStab = "without_stab",
        /// `grid` with `stab`. V counts 13 features, which the set has with this column alone.
        WithStab = "with_stab",
    }
}

/// A variant that the data set does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("data set {dataset} has no variant {name:?}; it has: {known}")]
pub struct UnknownVariant {
    dataset: DatasetName,
    name: String,
    known: String,
}

impl DatasetName {
    /// Returns the variants of the set, its default first.
    #[must_use]
    pub fn variants(self) -> &'static [Variant] {
        &self.description().variants
    }

    /// Returns the variant that is used where none is named.
    #[must_use]
    pub fn default_variant(self) -> Variant {
        self.variants().first().copied().unwrap_or(Variant::All)
    }

    /// Returns the variant of this name; a hyphen counts as an underscore.
    ///
    /// # Errors
    /// [`UnknownVariant`], which lists the variants of the set.
    pub fn variant(self, name: &str) -> Result<Variant, UnknownVariant> {
        let plain = name.replace('-', "_");
        let known = self.variants().iter().find(|v| v.as_str() == plain).copied();
        known.ok_or_else(|| UnknownVariant {
            dataset: self,
            name: name.chars().take(80).collect(),
            known: self.variants().iter().map(|v| v.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    /// Checks that the set has a variant.
    pub(super) fn check_variant(self, variant: Variant) -> Result<(), UnknownVariant> {
        self.variant(variant.as_str()).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_variant_belongs_to_a_set_and_is_refused_by_others() {
        for &variant in Variant::ALL {
            assert!(
                DatasetName::ALL.iter().any(|set| set.variants().contains(&variant)),
                "{variant}"
            );
        }
        for &set in DatasetName::ALL {
            assert_eq!(set.variants().first(), Some(&set.default_variant()));
            for &variant in Variant::ALL {
                assert_eq!(
                    set.variant(variant.as_str()).is_ok(),
                    set.variants().contains(&variant),
                    "{set} {variant}"
                );
            }
        }
        let said = DatasetName::Grid.variant("all").unwrap_err().to_string();
        assert_eq!(said, "data set grid has no variant \"all\"; it has: without_stab, with_stab");
    }
}
