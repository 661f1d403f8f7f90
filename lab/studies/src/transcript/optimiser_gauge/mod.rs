//! The black-box attack of an honest active party that knows the passive features of no record.
//!
//! The logits of all steps are W_t X for the passive weights W_t (k × d) and features X (d × n), up
//! to a number per record, and determine both factors up to an invertible d × d matrix. Adam
//! divides each entry of the gradient by the root of its own second moment. The weights of a
//! feature x therefore follow from x and the gradients that every party received, feature by
//! feature: they start at 0 and have the gradient R_t x + 2 l2 w_t. A combination of features has
//! weights of its own as well, but these are no combination of the features' weights. So x is a
//! feature if its weights are in the column space of the logits:
//!
//! (1 − U Uᵀ) P w(x) = 0,
//!
//! with P the difference from the mean over the classes and U an orthonormal basis of that space.
//! These are (T − 1)(k − 1) − d equations in d unknowns for T steps of k classes, so spurious
//! solutions appear below (T − 1)(k − 1) = 2 d.
//!
//! No gauge is left but the order of the features. The weights of −x are those of x with the other
//! sign: values are at least 0, which decides. They hardly depend on the scale of x, but the product
//! of weights and features does, and fixes it. A passive party has no bias, so an offset of x would
//! leave the row space of the logits. A linear dependence among features hides the features in it.

mod path;
mod search;
mod span;
mod study;
mod text;

use nalgebra::DMatrix;

use self::path::Paths;
use self::search::Search;
use self::span::Span;
pub use self::study::{AfterEpochs, Control, Matching, OptimiserReport, UnaidedExperiment};
use super::record::{Step, Transcript};

/// The features that the attack singles out.
#[derive(Clone)]
pub struct Recovery {
    /// The records of the steps, in rising order: positions in the training's list.
    pub records: Vec<usize>,
    /// The features in [0, 1], one per row, in no order: m × the number of records.
    pub features: DMatrix<f64>,
    /// The rank of the logits, at most the number of passive features: the most features to find.
    pub rank: usize,
    /// The largest misfit: the norm of a feature's weights outside the logits' column space, over
    /// the norm of its weights. 0 if no feature was found.
    pub misfit: f64,
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (found, records) = self.features.shape();
        write!(f, "Recovery({found} of {} features, {records} records, values withheld)", self.rank)
    }
}

/// Runs the attack on the steps of a training (a prefix of the transcript's) with `features`
/// passive features in all.
///
/// `iterations` is the most Newton steps from one start; starts are drawn from `seed`. Returns
/// `None` if there are fewer than two steps, or a step does not have the records of all.
#[must_use]
pub fn recover(
    transcript: &Transcript,
    steps: &[Step],
    features: usize,
    iterations: usize,
    seed: u64,
) -> Option<Recovery> {
    let span = Span::of_full_batches(steps, features, seed)?;
    let (rate, l2) = (transcript.learning_rate, transcript.l2);
    let paths = Paths { gradients: span.gradients(steps), rate, l2 };
    let search = Search { paths: &paths, span: &span, iterations };
    let found = search.run(seed);
    let mut rows = DMatrix::zeros(found.len(), span.records.len());
    for (i, candidate) in found.iter().enumerate() {
        let mut feature = span.columns.tr_mul(&candidate.a);
        if feature.mean() < 0.0 {
            feature.neg_mut();
        }
        rows.row_mut(i).tr_copy_from(&feature.map(|v| v.clamp(0.0, 1.0)));
    }
    Some(Recovery {
        records: span.records.iter().map(|&p| p as usize).collect(),
        features: rows,
        rank: span.rank(),
        misfit: found.iter().map(|c| c.misfit).fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests;
