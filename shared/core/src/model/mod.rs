//! Vertically split models: each party holds a sub-model of its own features, the coordinator
//! combines the outputs.
//!
//! Outputs are logit shares that are added. The default is multinomial logistic regression: each
//! party holds the weights of its own features, the active party the bias. z = W_act y + Σ W_pas
//! x + b, c = softmax(z) (R section II; binary is k = 2). [`contract`] describes sub-models and
//! heads, [`kinds`] is the register of sub-models, [`heads`] that of heads.

mod affine;
pub mod binary;
mod central_training;
mod concat;
pub mod contract;
mod converged_training;
mod dense_layer;
mod feature_scales;
pub mod heads;
mod json_network;
pub mod kinds;
mod learner;
mod linear;
mod link;
mod mlp_settings;
mod network_division;
pub mod network_file;
mod optimiser;
mod parameter_file;
mod pass;
pub mod privacy;
mod schedule;
mod spec;
mod sum;

pub use central_training::{CentralFit, train_central};
pub use concat::Concat;
pub use contract::{Head, Parameters, SubModel};
pub use converged_training::{ConvergedFit, train_converged};
pub use dense_layer::{Activation, DenseLayer};
pub use json_network::JsonNetwork;
pub use learner::{HeadLearner, LearnerError, PartyLearner};
pub use linear::{LinearParameters, NotLinear};
pub use link::{Link, ln_sigmoid};
pub use mlp_settings::HiddenLayers;
pub use network_division::NetworkDivision;
pub use network_file::{NetworkFile, NetworkFileError};
pub use optimiser::Adam;
pub use parameter_file::{ParameterFile, ParameterFileError};
pub use pass::{LANES, Lanes, Pass};
pub use schedule::{
    Schedule, TrainingConfig, TrainingConfigError, TrainingMode, TrainingValues, is_power_of_two,
};
pub use spec::{
    Combiner, EMBEDDING_WIDTH, GENERALIZED_LINEAR, MAX_PASSIVE_PARTIES, MAX_SETTINGS_BYTES,
    MAX_WIDTH, ModelConfig, ModelSpec, ONE_VS_REST, SOFTMAX_REGRESSION, Settings, SpecError,
    SubModelSpec, TOP_KIND,
};
pub use sum::Sum;

use nalgebra::DMatrix;

use crate::types::{ConfidenceScores, Logits};

/// Computes the mean softmax cross-entropy in nats of a batch, its gradient with respect to the
/// logits, (c − e_y) / n as k × n, and the number of records whose arg max is the label.
#[must_use]
pub fn cross_entropy(logits: Logits, labels: &[u32]) -> (f64, DMatrix<f64>, usize) {
    let n = logits.records().max(1) as f64;
    // ln c_y = z_y − ln Σ exp z, taken from the logits: the score itself may underflow.
    let mut loss = 0.0;
    let mut right = 0;
    for (z, &y) in logits.matrix().column_iter().zip(labels) {
        let max = z.max();
        loss += max + z.iter().map(|v| (v - max).exp()).sum::<f64>().ln() - z[y as usize];
        right += usize::from(vfl_numerics::arg_max(z.as_slice()) == y as usize);
    }
    let mut gradient = ConfidenceScores::softmax(logits).into_matrix();
    for (mut g, &y) in gradient.column_iter_mut().zip(labels) {
        g[y as usize] -= 1.0;
        g /= n;
    }
    (loss / n, gradient, right)
}
