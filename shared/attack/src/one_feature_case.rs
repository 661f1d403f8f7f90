//! The knowledge of the one passive feature in the black box, and the errors of its attack.

use std::fmt;
use std::str::FromStr;

use super::text::clip;

/// The adversary's knowledge of v = ω x + β besides v.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OneFeatureCase {
    /// β = 0 (R VI-A): the bias is the adversary's own.
    #[default]
    NoIntercept,
    /// ω β > 0 (R VI-B).
    SameSign,
    /// ω β < 0 (R VI-C); which of the two is negative is unknown.
    OppositeSigns,
    /// ω > 0 > β, the signs themselves.
    Rising,
    /// ω < 0 < β, the signs themselves.
    Falling,
}

/// Errors from the attack on one feature.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OneFeatureError {
    /// The name is not that of a case.
    #[error("there is no case {name:?}; there are: {}", OneFeatureCase::ALL.map(OneFeatureCase::as_str).join(", "))]
    Case {
        /// The name given, cut to 80 characters.
        name: String,
    },
    /// A value is NaN or infinite.
    #[error("the value of record {record} is not finite")]
    NotFinite {
        /// The record's position, from 0.
        record: usize,
    },
    /// The extremes coincide: nothing tells the ends of [0, 1] apart.
    #[error("the estimate is undefined in case {case}: {}", if *.case == OneFeatureCase::NoIntercept {
        "no record's value differs from 0"
    } else {
        "no two records differ in value"
    })]
    Undefined {
        /// The case of the attack.
        case: OneFeatureCase,
    },
    /// There is more than one passive feature, or none.
    #[error("one_feature attacks a single passive feature, and there are {got}")]
    Features {
        /// The number of passive features.
        got: usize,
    },
    /// The case is about the sign of one log-ratio, and there are several.
    #[error(
        "case {case} of one_feature speaks of the sign of one weight, as a model of 2 classes has; this one has {got} \
         classes and a weight for each pair (case 1 takes any number)"
    )]
    Classes {
        /// The case of the attack.
        case: OneFeatureCase,
        /// The number of classes.
        got: usize,
    },
}

impl OneFeatureCase {
    /// All cases, in order.
    pub const ALL: [Self; 5] =
        [Self::NoIntercept, Self::SameSign, Self::OppositeSigns, Self::Rising, Self::Falling];

    /// Returns the name: R's number, or the signs of ω and β.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoIntercept => "1",
            Self::SameSign => "2",
            Self::OppositeSigns => "3",
            Self::Rising => "+-",
            Self::Falling => "-+",
        }
    }

    /// Returns the values that stand for x = 0 and x = 1; `None` if the case leaves open which is
    /// which. `v` is finite.
    pub(super) fn ends(self, v: &[f64]) -> Option<(f64, f64)> {
        let least = v.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (near, far) =
            if greatest.abs() >= least.abs() { (least, greatest) } else { (greatest, least) };
        match self {
            Self::NoIntercept => Some((0.0, far)),
            // With one sign in all of v, the extreme nearest to 0 is the one of least magnitude.
            // Values of both signs contradict the case; the rule is followed to the letter and
            // leaves [0, 1].
            Self::SameSign => Some((
                v.iter()
                    .copied()
                    .reduce(|m, v| if v.abs() < m.abs() { v } else { m })
                    .unwrap_or(0.0),
                far,
            )),
            // If all v have one sign, it is that of β, and ω leads towards 0. If they have both, v
            // does not tell x̂ from 1 − x̂.
            Self::OppositeSigns if least < 0.0 && greatest > 0.0 => None,
            Self::OppositeSigns => Some((far, near)),
            Self::Rising => Some((least, greatest)),
            Self::Falling => Some((greatest, least)),
        }
    }
}

impl fmt::Display for OneFeatureCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for OneFeatureCase {
    type Err = OneFeatureError;

    fn from_str(name: &str) -> Result<Self, OneFeatureError> {
        Self::ALL
            .into_iter()
            .find(|case| case.as_str() == name)
            .ok_or_else(|| OneFeatureError::Case { name: clip(name) })
    }
}
