//! The rule for estimates that no feature can have (V section IV-C).

use rand::Rng;

use super::super::{AdversaryView, Attack, AttackError, Needs, Reconstruction};

/// The rule for estimates outside [0, 1] (of each feature's range, if ranges are stated). Estimated
/// scores usually belong to no record at all, so even with d < k the estimates leave the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OutOfRange {
    /// Estimates stay as they are.
    Keep,
    /// Each estimate moves to the nearer end, 0 or 1 (V case i).
    #[default]
    Clamp,
    /// Each estimate out of range becomes ½ (V case ii).
    Half,
    /// If one estimate of a record is outside, all of that record become ½ (V case iii).
    AllHalf,
}

impl OutOfRange {
    /// Returns the rule of this name: `keep`, `clamp`, `half` or `all_half`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "keep" => Some(Self::Keep),
            "clamp" => Some(Self::Clamp),
            "half" => Some(Self::Half),
            "all_half" => Some(Self::AllHalf),
            _ => None,
        }
    }

    /// Applies the rule to the estimates of one record.
    pub fn apply(self, x: &mut [f64]) {
        let outside = |v: &f64| !(0.0..=1.0).contains(v);
        match self {
            Self::Keep => {}
            Self::Clamp => x.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0)),
            Self::Half => x.iter_mut().filter(|v| outside(v)).for_each(|v| *v = 0.5),
            Self::AllHalf => {
                if x.iter().any(outside) {
                    x.fill(0.5);
                }
            }
        }
    }
}

/// An attack with the rule applied to its estimates.
#[derive(Debug)]
pub(super) struct OutOfRangeCorrection {
    pub(super) inner: std::sync::Arc<dyn Attack>,
    pub(super) rule: OutOfRange,
}

impl Attack for OutOfRangeCorrection {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let mut found = self.inner.reconstruct(view, rng)?;
        let before = found.estimates.clone();
        for record in found.estimates.as_mut_slice().chunks_exact_mut(view.target_features().max(1))
        {
            self.rule.apply(record);
        }
        if found.estimates != before {
            found.solved = Some(view.linear()?.solved(&found.estimates, view.b_prime()?));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn by_hand() {
        let out = |rule: OutOfRange| {
            let mut x = vec![-0.25, 0.0, 0.75, 1.0, 3.0];
            rule.apply(&mut x);
            x
        };
        assert_eq!(out(OutOfRange::Keep), [-0.25, 0.0, 0.75, 1.0, 3.0]);
        assert_eq!(out(OutOfRange::Clamp), [0.0, 0.0, 0.75, 1.0, 1.0]);
        assert_eq!(out(OutOfRange::Half), [0.5, 0.0, 0.75, 1.0, 0.5]);
        assert_eq!(out(OutOfRange::AllHalf), [0.5; 5]);
    }

    proptest! {
        /// All rules but `keep` end in the range, leave a record within it alone, and change
        /// nothing the second time. Clipping is never farther from a truth in the range than what
        /// came.
        #[test]
        fn rules(x in proptest::collection::vec(-1.5f64..2.5, 0..8), inside in proptest::collection::vec(0.0f64..=1.0, 8)) {
            for name in ["keep", "clamp", "half", "all_half"] {
                let rule = OutOfRange::named(name).unwrap();
                let (mut once, mut within) = (x.clone(), inside.clone());
                rule.apply(&mut once);
                rule.apply(&mut within);
                prop_assert_eq!(&within, &inside);
                prop_assert!(rule == OutOfRange::Keep || once.iter().all(|v| (0.0..=1.0).contains(v)));
                let mut twice = once.clone();
                rule.apply(&mut twice);
                prop_assert_eq!(&twice, &once);
                for ((v, from), truth) in once.iter().zip(&x).zip(&inside) {
                    if rule == OutOfRange::Clamp {
                        prop_assert!((v - truth).abs() <= (from - truth).abs());
                    }
                    prop_assert!(rule == OutOfRange::AllHalf || v == from || !(0.0..=1.0).contains(from));
                }
                prop_assert!(rule != OutOfRange::AllHalf || once == x || once.iter().all(|v| *v == 0.5));
            }
        }
    }
}
