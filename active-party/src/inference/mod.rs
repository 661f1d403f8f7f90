//! The Open Inference Protocol, version 2: a second interface to `Predict`, for clients of KServe
//! and Triton.

mod elements;
mod health;
mod output;
mod service;
mod wire;

pub(crate) use health::follow;
pub(crate) use service::Inference;

/// The name of the model. There is one, in one version at a time.
const MODEL: &str = "cloison";
