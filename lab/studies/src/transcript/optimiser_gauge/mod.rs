//! The black-box attack of an honest party that knows the features of no record.
//!
//! The contributions of the features under attack to the logits of all steps are W_t X for
//! weights W_t (k × d) and features X (d × n), up to a number per record, and determine both
//! factors up to an invertible d × d matrix. Adam divides each entry of the gradient by the
//! root of its own second moment. The weights of a feature x therefore follow from x and the
//! gradients that every party received, feature by feature: they start at 0 and have the
//! gradient R_t x + 2 l2 w_t. A combination of features has weights of its own as well, but
//! these are no combination of the features' weights. So x is a feature if its weights are in
//! the column space of the logits:
//!
//! (1 − U Uᵀ) P w(x) = 0,
//!
//! with P the difference from the mean over the classes and U an orthonormal basis of that space.
//! These are (T − 1)(k − 1) − d equations in d unknowns for T steps of k classes, so spurious
//! solutions appear below (T − 1)(k − 1) = 2 d.
//!
//! One batch of all records has factors by linear algebra, to rounding. In small batches every step
//! has other records, and the factors come from expectation maximisation, to its noise.
//!
//! No gauge is left but the order of the features. The weights of −x are those of x with the other
//! sign: values are at least 0, which decides. They hardly depend on the scale of x, but the
//! product of weights and features does, and fixes it. The bias is known and taken off before, so
//! an offset of x would leave the row space of the logits. A linear dependence among features hides
//! the features in it.

mod batches;
mod path;
mod search;
mod span;
mod study;
mod text;

use std::collections::BTreeSet;

use nalgebra::DMatrix;

use self::path::Paths;
use self::search::Search;
use self::span::{Span, stride};
pub use self::study::{AfterEpochs, Matching, OptimiserReport, TargetResults, UnaidedExperiment};
use super::record::{Step, Transcript};

/// The features that the attack singles out.
#[derive(Clone)]
pub struct Recovery {
    /// The records of the steps, in rising order: positions in the training's list.
    pub records: Vec<usize>,
    /// The features in [0, 1], one per row, in no order: m × the number of records.
    pub features: DMatrix<f64>,
    /// The rank of the logits, at most the number of features under attack: the most to find.
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
/// features under attack in all.
///
/// `iterations` is the most iterations from each start of the factors of small batches, and the
/// most Newton steps from each start of a feature. Starts are drawn from `seed`. Returns `None` if
/// there are fewer than two steps, or small batches of so few epochs that epochs times classes is
/// below the number of features.
#[must_use]
pub fn recover(
    transcript: &Transcript,
    steps: &[Step],
    features: usize,
    iterations: usize,
    seed: u64,
) -> Option<Recovery> {
    let span = factors(transcript, steps, features, iterations, seed)?;
    Some(features_of(&span, transcript, steps, iterations, seed))
}

/// Returns weights and features up to one invertible matrix, or `None` as [`recover`].
fn factors(
    transcript: &Transcript,
    steps: &[Step],
    features: usize,
    iterations: usize,
    seed: u64,
) -> Option<Span> {
    let whole = steps.iter().map(|step| step.positions.len()).max()?;
    let records: BTreeSet<u32> = steps.iter().flat_map(|step| step.positions.clone()).collect();
    match whole == records.len() {
        true => Span::of_full_batches(steps, features, seed),
        false => Span::of_batches(transcript, steps, features, iterations, seed),
    }
}

/// Singles out the features among the combinations that `span` leaves open, with the gradients of
/// `steps`.
fn features_of(
    span: &Span,
    transcript: &Transcript,
    steps: &[Step],
    iterations: usize,
    seed: u64,
) -> Recovery {
    let paths = Paths {
        gradients: span.gradients(steps),
        stride: stride(steps),
        rate: transcript.learning_rate,
        l2: transcript.l2,
    };
    // With fewer equations than this, candidates fit that are no features.
    let equations = paths.gradients.len() / paths.stride * transcript.classes.saturating_sub(1);
    let found = match equations >= 2 * span.rank() {
        true => Search { paths: &paths, span, iterations }.run(seed),
        false => Vec::new(),
    };
    let mut rows = DMatrix::zeros(found.len(), span.records.len());
    for (i, candidate) in found.iter().enumerate() {
        let mut feature = span.columns.tr_mul(&candidate.a);
        if feature.mean() < 0.0 {
            feature.neg_mut();
        }
        rows.row_mut(i).tr_copy_from(&feature.map(|v| v.clamp(0.0, 1.0)));
    }
    Recovery {
        records: span.records.iter().map(|&p| p as usize).collect(),
        features: rows,
        rank: span.rank(),
        misfit: found.iter().map(|c| c.misfit).fold(0.0, f64::max),
    }
}

#[cfg(test)]
mod adversary_tests;
#[cfg(test)]
mod tests;
