//! Defenses of the confidence scores, one module per method, behind one trait for each stage.
//!
//! Names and parameters of defenses are data, [`DefenseConfig`], which all parties share; their
//! implementations are here. A [`Pipeline`] combines the defenses of a policy.
//!
//! # Example
//!
//! A policy of one defense, applied to the logits of one record:
//!
//! ```
//! use nalgebra::DMatrix;
//! use vfl_core::types::Logits;
//! use vfl_defense::{Grants, Noise, Pipeline, Policy};
//!
//! let policy: Policy = "rounding (decimals = 1)".parse()?;
//! let pipeline = Pipeline::build(&policy.defenses, 2, &Grants::default())?;
//! let logits = Logits::new(DMatrix::from_column_slice(2, 1, &[1.0, 0.0]))?;
//! let released = pipeline.release(logits, Noise::fresh([0; 32]))?;
//! // softmax gives 0.731 and 0.269.
//! assert_eq!(released.released.predicted_labels(), [0]);
//! assert!((released.scores.matrix()[0] - 0.731).abs() < 1e-3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bins;
mod class_label;
mod codebook;
mod contract;
mod definition;
mod encryption;
mod gaussian;
mod logit_noise;
mod noise;
mod none;
mod numbers;
mod order;
mod pipeline;
mod privee;
mod purify;
mod randomized_label;
mod ranking;
mod rounding;
mod temperature;
mod top_k;

pub use bins::Bins;
pub use class_label::ClassLabel;
pub use codebook::Codebook;
pub use contract::{Contract, Defense, DefenseError, LogitDefense, Output};
pub use definition::Grants;
pub use encryption::OrderPreservingEncryption;
pub use gaussian::GaussianNoise;
pub use logit_noise::LogitNoise;
pub use noise::{Noise, NoiseKey, NoiseSecret};
pub use none::NoDefense;
pub use numbers::{NumberOutput, NumberPipeline};
pub use pipeline::{Pipeline, PipelineOutput};
pub use policy::{DefenseConfig, Policy};
pub use privee::Privee;
pub use purify::Purify;
pub use randomized_label::RandomizedLabel;
pub use ranking::Ranking;
pub use rounding::Rounding;
pub use temperature::Temperature;
pub use top_k::TopK;

use contract::{MAX_SCALE, checked};
use definition::Definition;
use policy::{Facts, ReleaseKind};

/// Makes the register: the facts of all defenses, and the definition of a configured one.
macro_rules! register {
    ($config:ident: $($variant:ident $parameters:tt = $facts:path, $definition:expr;)*) => {
        impl DefenseConfig {
            /// The facts of all defenses, in the order in which the demo audits them.
            pub const ALL: &'static [&'static Facts] = &[$(&$facts),*];
        }

        /// Returns the definition of a defense with its parameters.
        fn definition_of($config: &DefenseConfig) -> Definition<'_> {
            match $config {
                $(DefenseConfig::$variant $parameters => $definition,)*
            }
        }
    };
}

// A new defense is a variant of `DefenseConfig`, a module and a line here.
register! {
    config:
    None {} = none::FACTS, none::definition();
    Rounding { decimals } = rounding::FACTS, rounding::definition(*decimals);
    TopK { k } = top_k::FACTS, top_k::definition(*k);
    ClassLabel { softening } = class_label::FACTS, class_label::definition(*softening);
    RandomizedLabel { epsilon } = randomized_label::FACTS, randomized_label::definition(*epsilon);
    Temperature { temperature } = temperature::FACTS, temperature::definition(*temperature);
    LogitNoise { scheme, alpha } = logit_noise::FACTS, logit_noise::definition(*scheme, *alpha);
    GaussianNoise { sigma } = gaussian::GAUSSIAN_NOISE, gaussian::of_sigma(*sigma);
    DpGaussian { epsilon, delta, sensitivity, as_published } = gaussian::DP_GAUSSIAN,
        gaussian::mechanism(*epsilon, *delta, *sensitivity, *as_published);
    PriveeDp { .. } = privee::DP, privee::definition(&privee::DP, config);
    PriveeDpPlusPlus { .. } = privee::DP_PLUS_PLUS,
        privee::definition(&privee::DP_PLUS_PLUS, config);
    OrderPreservingEncryption {} = encryption::FACTS, encryption::definition();
    Ranking {} = ranking::FACTS, ranking::definition();
    Bins { lower, upper, count } = bins::FACTS, bins::definition(*lower, *upper, *count);
    Codebook { size } = codebook::FACTS, codebook::definition(*size);
    Purifier { training, label_weight } = purify::FACTS,
        purify::definition(*training, *label_weight);
}

impl DefenseConfig {
    /// The names of all defenses.
    pub const NAMES: [&'static str; Self::ALL.len()] = {
        let mut names = [""; Self::ALL.len()];
        let mut at = 0;
        while at < names.len() {
            names[at] = Self::ALL[at].name;
            at += 1;
        }
        names
    };

    /// Returns the name, as in a config file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.facts().name
    }

    /// Returns the facts that are the same for every setting of the defense.
    #[must_use]
    pub fn facts(&self) -> &'static Facts {
        definition_of(self).facts
    }

    /// Returns true if it is fitted on undefended scores of the model's training.
    #[must_use]
    pub fn fitted(&self) -> bool {
        definition_of(self).fitted
    }

    /// Returns the kind of its release. Attacks that adapt to a policy are chosen by it.
    #[must_use]
    pub fn leaves(&self) -> ReleaseKind {
        definition_of(self).leaves
    }

    /// Returns the substitute for a score of 0 in the release, for attacks that take the release
    /// for the true scores: half a step for rounded ones, 0.01 behind a label. `None` if the
    /// defense makes no zeros of positive scores, or if its zeros say nothing about them.
    #[must_use]
    pub fn zero_floor(&self) -> Option<f64> {
        definition_of(self).zero_floor
    }

    /// Returns true if the coordinator needs the parameters of the passive parties to apply it.
    #[must_use]
    pub fn needs_passive_weights(&self) -> bool {
        definition_of(self).needs_passive_weights
    }
}

pub mod policy;
pub mod purifier;
#[cfg(test)]
mod tests;
