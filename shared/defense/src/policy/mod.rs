//! The policies applied to scores before they leave the coordinator, as data: config files, the
//! wire, reports and adversaries name defenses with these types. The modules beside this one
//! implement them.
//!
//! A policy has a text form, which reads back:
//! `temperature (temperature = 2.0) then rounding (decimals = 1)`.
//!
//! `config.rs` has the parameters of each defense; its name, the help of its parameters and the
//! kind of its release are stated once, in the module that implements it. The parameters have one
//! typed form (`parameters.rs`), from which policy texts, the command line and messages are read.

mod config;
mod facts;
mod leakage;
mod parameters;
mod text;

use serde::{Deserialize, Serialize};

pub use config::{DefenseConfig, PurifierTraining, Template};
pub(crate) use config::{default_delta, default_privee_sensitivity, default_sensitivity};
pub use facts::{DefaultValue, Facts, Parameter, ParameterKind, ReleaseKind};
pub use leakage::{BOUND_ASSUMES, Leakage, MULTIPLIER_MEANS};
pub use parameters::ParameterError;
pub use text::PolicyTextError;

pub use crate::encryption::{ENCRYPTED_BITS, ENCRYPTED_ORDER_BITS, ENCRYPTED_UNIT_BITS};
pub use crate::gaussian::gaussian_scale;
pub use crate::randomized_label::kept_label_probability;

/// The way in which noise is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoiseMode {
    /// Keyed by (server secret, model, policy, record): a repeated request gets the same answer.
    #[default]
    Keyed,
    /// Fresh for every answer, so that repeated requests average it away. For audits and offline
    /// work only.
    Fresh,
}

/// The defenses of a release, and protections that an audit may switch off to measure their worth.
/// The live service always keys its noise and binds shares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The defenses in order; those at the logits come first. Empty for no defense.
    #[serde(default)]
    pub defenses: Vec<DefenseConfig>,
    /// The way in which noise is drawn.
    #[serde(default)]
    pub noise: NoiseMode,
    /// True if a record is answered again after its logit share has changed.
    #[serde(default)]
    pub unbound_shares: bool,
}

impl Policy {
    /// Creates a policy of one defense.
    #[must_use]
    pub fn of(defense: DefenseConfig) -> Self {
        Self { defenses: vec![defense], ..Self::default() }
    }

    /// Returns true if the scores leave unchanged.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.defenses.iter().all(|d| matches!(d, DefenseConfig::None {}))
    }
}

impl From<DefenseConfig> for Policy {
    fn from(defense: DefenseConfig) -> Self {
        Self::of(defense)
    }
}

#[cfg(test)]
mod leakage_tests;

pub use parameters::cut;
