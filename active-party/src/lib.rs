//! The active party: labels, predictions and reconstruction attacks.
//!
//! # Example
//!
//! Three classes give two equations. With two passive features and exact scores, the features are
//! recovered:
//!
//! ```
//! use nalgebra::{DMatrix, DVector};
//! use rand::SeedableRng;
//! use vfl_attack::{AdversaryView, Attack, HalfStar, KnownModel, Replacement};
//! use vfl_core::types::{ConfidenceScores, FeatureBlock, Logits, ReleasedScores};
//!
//! let w_act = DMatrix::from_row_slice(3, 1, &[0.5, -0.25, 0.0]);
//! let w_pas = DMatrix::from_row_slice(3, 2, &[1.0, 0.5, -1.0, 2.0, 0.25, -0.75]);
//! let bias = DVector::from_vec(vec![0.1, 0.0, -0.1]);
//!
//! // One record: what the active party holds, and what it does not.
//! let y = FeatureBlock::new(DMatrix::from_element(1, 1, 0.3))?;
//! let x = DMatrix::from_column_slice(2, 1, &[0.9, 0.2]);
//! let logits = Logits::new(&w_act * y.matrix() + &w_pas * &x + DMatrix::from_column_slice(3, 1, bias.as_slice()))?;
//! let released = ReleasedScores::Probabilities(ConfidenceScores::softmax(logits).into_matrix());
//!
//! let model = KnownModel::white_box(w_act, bias, w_pas)?;
//! let view = AdversaryView::new(&model, &y, &released, Replacement::default())?;
//! let found = HalfStar { clamped: false }.reconstruct(&view, &mut rand_chacha::ChaCha20Rng::seed_from_u64(1))?;
//! assert!((found.estimates - x).amax() < 1e-12);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod align;
pub mod cli;
pub mod client;
pub mod config;
mod inference;
mod invert_transform;
mod model_description;
mod own_logits;
mod parameters;
mod passive_party;
mod predict;
pub mod publish;
pub mod reconstruct;
pub mod scoring;
pub mod service;
