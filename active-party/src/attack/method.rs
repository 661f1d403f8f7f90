//! Attacks by name, with their settings.

use std::fmt;
use std::str::FromStr;

use super::{Attack, AttackError, Constant, HalfStar, LeastSquares, Random, Replacement};

/// Why a name or a setting was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MethodError {
    /// No attack of that name.
    #[error("there is no attack {name:?}; there are: {}", Method::ALL.map(Method::as_str).join(", "))]
    Name {
        /// What came, cut to 80 characters.
        name: String,
    },
    /// No setting of that name.
    #[error("there is no setting {key:?}; there are: {}", Settings::KEYS.join(", "))]
    Key {
        /// What came, cut to 80 characters.
        key: String,
    },
    /// A value that is not a number.
    #[error("setting `{key}` is {value:?}, expected a number")]
    Value {
        /// The setting.
        key: &'static str,
        /// What came, cut to 80 characters.
        value: String,
    },
    /// A number out of range.
    #[error("setting `zero_floor`: {0}")]
    Range(#[from] AttackError),
}

/// The attacks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Uniform guesses.
    Random,
    /// 0 everywhere.
    Zero,
    /// ½ everywhere.
    Half,
    /// The least-norm solution.
    LeastSquares,
    /// The same, clipped.
    ClampedLeastSquares,
    /// The solution nearest to ½.
    HalfStar,
    /// The same, clipped.
    ClampedHalfStar,
}

impl Method {
    /// All attacks.
    pub const ALL: [Self; 7] = [
        Self::Random,
        Self::Zero,
        Self::Half,
        Self::LeastSquares,
        Self::ClampedLeastSquares,
        Self::HalfStar,
        Self::ClampedHalfStar,
    ];

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Zero => "zero",
            Self::Half => "half",
            Self::LeastSquares => "least_squares",
            Self::ClampedLeastSquares => "clamped_least_squares",
            Self::HalfStar => "half_star",
            Self::ClampedHalfStar => "clamped_half_star",
        }
    }

    /// The attack itself.
    #[must_use]
    pub fn build(self) -> Box<dyn Attack> {
        match self {
            Self::Random => Box::new(Random),
            Self::Zero => Box::new(Constant(0.0)),
            Self::Half => Box::new(Constant(0.5)),
            Self::LeastSquares => Box::new(LeastSquares { clamped: false }),
            Self::ClampedLeastSquares => Box::new(LeastSquares { clamped: true }),
            Self::HalfStar => Box::new(HalfStar { clamped: false }),
            Self::ClampedHalfStar => Box::new(HalfStar { clamped: true }),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(name: &str) -> Result<Self, MethodError> {
        Self::ALL.into_iter().find(|m| m.as_str() == name).ok_or_else(|| MethodError::Name { name: clip(name) })
    }
}

/// Settings of attacks, as `key=value` pairs give them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Settings {
    /// What stands for a score of 0, and for the scores behind a label. Default 1e-12.
    pub replacement: Replacement,
}

impl Settings {
    /// The settings there are.
    pub const KEYS: [&'static str; 1] = ["zero_floor"];

    /// Reads `key`, `value` pairs; the last of a key counts.
    ///
    /// # Errors
    /// [`MethodError`] naming the setting that is unknown, not a number or out of range.
    pub fn read<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, MethodError> {
        let mut settings = Self::default();
        for (key, value) in pairs {
            if key != Self::KEYS[0] {
                return Err(MethodError::Key { key: clip(key) });
            }
            let number = value.parse().map_err(|_| MethodError::Value { key: Self::KEYS[0], value: clip(value) })?;
            settings.replacement = Replacement::new(number)?;
        }
        Ok(settings)
    }
}

fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
