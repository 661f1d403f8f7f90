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

mod class_label;
mod codebook;
mod contract;
mod encryption;
mod gaussian;
mod logit_noise;
mod noise;
mod none;
mod order;
mod pipeline;
mod privee;
mod purify;
mod randomized_label;
mod ranking;
mod recipe;
mod rounding;
mod temperature;
mod top_k;

pub use class_label::ClassLabel;
pub use codebook::Codebook;
pub use contract::{Contract, Defense, DefenseError, LogitDefense, Output};
pub use encryption::OrderPreservingEncryption;
pub use gaussian::GaussianNoise;
pub use logit_noise::LogitNoise;
pub use noise::{Noise, NoiseKey, NoiseSecret};
pub use none::NoDefense;
pub use pipeline::{Pipeline, PipelineOutput};
pub use policy::{DefenseConfig, Policy};
pub use privee::Privee;
pub use purify::Purify;
pub use randomized_label::RandomizedLabel;
pub use ranking::Ranking;
pub use recipe::Grants;
pub use rounding::Rounding;
pub use temperature::Temperature;
pub use top_k::TopK;

use contract::{MAX_SCALE, checked};
use recipe::Recipe;

/// Returns the recipe of a defense: its output, the check of its parameters as far as they do not
/// depend on the model, and the function that makes it for a number of classes from what is
/// granted.
fn recipe_of(config: &DefenseConfig) -> Recipe<'_> {
    match config {
        DefenseConfig::None {} => {
            Recipe::at_scores(Output::Probabilities, Ok(()), |_, _| Ok(NoDefense))
        }
        DefenseConfig::Rounding { decimals } => {
            Recipe::at_scores(Output::Numbers, Rounding::check(*decimals), |_, _| {
                Rounding::new(*decimals)
            })
        }
        DefenseConfig::TopK { k } => {
            Recipe::at_scores(Output::Numbers, TopK::check(*k, None), |classes, _| {
                TopK::new(*k, classes)
            })
        }
        DefenseConfig::ClassLabel { softening } => {
            let output = if *softening == 0.0 { Output::Label } else { Output::Probabilities };
            let good = ClassLabel::check(*softening, None);
            Recipe::at_scores(output, good, |classes, _| ClassLabel::new(*softening, classes))
        }
        DefenseConfig::RandomizedLabel { epsilon } => {
            Recipe::at_scores(Output::Label, RandomizedLabel::check(*epsilon), |classes, _| {
                RandomizedLabel::new(*epsilon, classes)
            })
        }
        DefenseConfig::Temperature { temperature } => {
            Recipe::at_logits(Temperature::check(*temperature), |_, _| {
                Temperature::new(*temperature)
            })
        }
        DefenseConfig::LogitNoise { scheme, alpha } => {
            Recipe::at_logits(LogitNoise::check(*scheme, *alpha), |classes, grants| {
                LogitNoise::new(*scheme, *alpha, classes, grants.passive_weights)
            })
        }
        DefenseConfig::GaussianNoise { sigma } => {
            Recipe::at_scores(Output::Numbers, GaussianNoise::check_sigma(*sigma), |_, _| {
                GaussianNoise::new(*sigma)
            })
        }
        DefenseConfig::DpGaussian { epsilon, delta, sensitivity, as_published } => {
            let make = || match as_published {
                true => GaussianNoise::as_published(*epsilon, *delta, *sensitivity),
                false => GaussianNoise::private(*epsilon, *delta, *sensitivity),
            };
            Recipe::at_scores(Output::Numbers, make().map(drop), move |_, _| make())
        }
        DefenseConfig::PriveeDp { .. } | DefenseConfig::PriveeDpPlusPlus { .. } => {
            let good = privee::check(config, None);
            Recipe::at_scores(Output::Numbers, good, |classes, _| Privee::new(config, classes))
        }
        DefenseConfig::OrderPreservingEncryption {} => {
            Recipe::at_scores(Output::Ciphertexts, Ok(()), |classes, _| {
                OrderPreservingEncryption::new(classes)
            })
        }
        DefenseConfig::Ranking {} => {
            Recipe::at_scores(Output::Probabilities, Ok(()), |classes, grants| {
                Ranking::fit(grants.calibration(config)?, classes)
            })
        }
        DefenseConfig::Codebook { size } => Recipe::at_scores(
            Output::Probabilities,
            Codebook::check(*size, None),
            |classes, grants| Codebook::fit(*size, grants.calibration(config)?, classes),
        ),
        DefenseConfig::Purifier { training, label_weight } => {
            let good = Purify::check(*label_weight, None);
            Recipe::at_scores(Output::Probabilities, good, |classes, grants| {
                Purify::train(config, (*training, *label_weight), classes, grants)
            })
        }
    }
}

pub mod policy;
pub mod purifier;
#[cfg(test)]
mod tests;
