//! Studies of information beside features in scores, gradients and weights: membership, labels,
//! properties, the transcript of a training, and screening for inverted labels.

pub mod labels;
pub mod membership;
pub mod properties;
pub mod screen;
pub mod transcript;
