//! Adversaries of networks that no paper has: they know means and covariances of all features, with
//! scores and without.

use nalgebra::DMatrix;
use vfl_attack::{AdversaryView, Prior, SideInformation};
use vfl_core::metrics::squared_error_by_record;

use super::super::ReproduceError;
use super::super::curve_spec::{CurveRun, CurveSpec};
use super::super::experiment_model::{ExperimentModel, Purpose, generator};
use super::super::sweep::{prior_records, select};
use super::split::Split;

/// Returns the curves of both. On networks the tangents lead far out of the box if nothing keeps
/// them in it.
pub(super) fn lines() -> [CurveSpec; 2] {
    CurveSpec::beyond().map(|wanted| match wanted.method {
        "conditional_mean" => CurveSpec { method: "gaussian", ..wanted },
        _ => wanted,
    })
}

/// The largest number of passive features with an informed adversary: each step of each record
/// solves a system of this size.
pub(super) const MOST_FEATURES: usize = 128;

/// The note about them beside the figures on networks.
pub(super) const NOTE: &str = "informed and control are in no paper: both know means and covariances of all features, and of the active party's \
     own outputs, from records outside the test set. informed has the parameters and the scores: it goes by the tangents of the network \
     to the likeliest point of the box (gaussian), and may end in one that is worse than what control says. control has no score";

/// The moments in one split, of the passive features and of what the active party has.
pub(super) struct InformedPrior(Prior);

impl InformedPrior {
    /// Estimates them from records that are not in the test set.
    pub(super) fn of(subject: &ExperimentModel, split: &Split) -> Result<Self, ReproduceError> {
        let others = prior_records(subject);
        let (theirs, _) = split.served(&others)?;
        Ok(Self(Prior::of_records(
            &select(&others, &split.passive, others.ncols()),
            theirs.matrix(),
        )?))
    }

    /// Returns the squared error per feature of each of the first records of `x` (d_t × n), as many
    /// as the contender attacks.
    pub(super) fn attack(
        &self,
        split: &Split,
        contender: &CurveRun,
        x: &DMatrix<f64>,
        seed: u64,
    ) -> Result<Vec<f64>, ReproduceError> {
        let (d, k0) = (split.d, split.k0);
        let off = |error| ReproduceError::Attack { curve: contender.curve.into(), d, k0, error };
        let x = x.columns(0, contender.records.min(x.ncols())).into_owned();
        let (y, released) = split.served(&x)?;
        let view =
            AdversaryView::new(&split.known, &y, &released, contender.settings.replacement())
                .map_err(off)?;
        let view = view.with_side_information(SideInformation {
            prior: Some(&self.0),
            ..SideInformation::default()
        });
        let mut rng =
            generator(seed, Purpose::Attack, contender.place << 48 | (d as u64) << 20 | k0 as u64);
        let mut found = contender
            .method
            .build(&contender.settings)
            .reconstruct(&view, &mut rng)
            .map_err(off)?;
        // An adversary that knows the moments knows the range.
        found.estimates.apply(|v| *v = v.clamp(0.0, 1.0));
        let errors =
            squared_error_by_record(&found.estimates, &select(&x, &split.passive, x.ncols()))?;
        match errors.iter().all(|e| e.is_finite()) {
            true => Ok(errors),
            false => Err(ReproduceError::NotFinite { curve: contender.curve.into(), d, k0 }),
        }
    }
}
