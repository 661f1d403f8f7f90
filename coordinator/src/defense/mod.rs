//! Defenses of the confidence scores, one module per method, behind one trait.

mod class_label;
mod none;
mod rounding;

use rand::Rng;
use serde::{Deserialize, Serialize};
use vfl_shared::rpc::{WireError, pb, require};
use vfl_shared::types::{ConfidenceScores, ReleasedScores};

pub use class_label::ClassLabel;
pub use none::NoDefense;
pub use rounding::Rounding;

/// What a defense promises of its release, for every input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contract {
    /// What comes out.
    pub output: Output,
    /// The arg max of the release is that of the scores; ties go to the lowest index.
    pub keeps_arg_max: bool,
    /// The release sorts as the scores do.
    pub keeps_ranking: bool,
}

/// The kind of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Columns on the simplex.
    Probabilities,
    /// Numbers that need not sum to 1.
    Numbers,
    /// The predicted class alone.
    Label,
}

/// Why a defense cannot be applied, or cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DefenseError {
    /// A parameter out of range.
    #[error("defense `{defense}`: `{setting}` is {got}, expected {expected}")]
    Setting {
        /// The defense.
        defense: &'static str,
        /// The parameter.
        setting: &'static str,
        /// What came.
        got: String,
        /// What is allowed.
        expected: &'static str,
    },
}

/// Scores in, what is released of them out. Budgets and caches live elsewhere in the coordinator.
pub trait Defense: Send + Sync + std::fmt::Debug {
    /// What it promises.
    fn contract(&self) -> Contract;

    /// Applies the defense to `k × n` scores. `rng` is the coordinator's, never the requester's.
    ///
    /// # Errors
    /// [`DefenseError`] where the defense does not apply to these scores.
    fn apply(&self, scores: &ConfidenceScores, rng: &mut dyn Rng) -> Result<ReleasedScores, DefenseError>;
}

/// A defense and its parameters, as they stand in a config file (`[defense] name = "rounding"`, `decimals = 2`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum DefenseConfig {
    /// The scores as they are.
    None {},
    /// Scores rounded to `decimals`.
    Rounding {
        /// 0 to 15.
        decimals: u32,
    },
    /// The predicted class alone.
    ClassLabel {},
}

impl Default for DefenseConfig {
    fn default() -> Self {
        Self::None {}
    }
}

impl DefenseConfig {
    /// Builds the defense.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] naming a parameter out of range.
    pub fn build(&self) -> Result<Box<dyn Defense>, DefenseError> {
        Ok(match *self {
            Self::None {} => Box::new(NoDefense),
            Self::Rounding { decimals } => Box::new(Rounding::new(decimals)?),
            Self::ClassLabel {} => Box::new(ClassLabel),
        })
    }
}

impl TryFrom<&pb::Defense> for DefenseConfig {
    type Error = WireError;

    fn try_from(defense: &pb::Defense) -> Result<Self, WireError> {
        use pb::defense::Kind;
        let config = match require("defense", defense.kind.as_ref())? {
            Kind::None(_) => Self::None {},
            Kind::Rounding(r) => Self::Rounding { decimals: r.decimals },
            Kind::ClassLabel(_) => Self::ClassLabel {},
        };
        config.build().map_err(|e| WireError::Content { field: "defense", reason: e.to_string() })?;
        Ok(config)
    }
}

impl From<&DefenseConfig> for pb::Defense {
    fn from(config: &DefenseConfig) -> Self {
        use pb::defense::{ClassLabel, Kind, None, Rounding};
        let kind = match *config {
            DefenseConfig::None {} => Kind::None(None {}),
            DefenseConfig::Rounding { decimals } => Kind::Rounding(Rounding { decimals }),
            DefenseConfig::ClassLabel {} => Kind::ClassLabel(ClassLabel {}),
        };
        Self { kind: Some(kind) }
    }
}

impl std::fmt::Display for DefenseConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None {} => f.pad("none"),
            Self::Rounding { decimals } => f.pad(&format!("rounding (decimals = {decimals})")),
            Self::ClassLabel {} => f.pad("class_label"),
        }
    }
}

#[cfg(test)]
mod tests;
