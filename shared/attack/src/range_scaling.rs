//! Features in ranges other than [0, 1].

use nalgebra::{DMatrix, DVector};
use rand::Rng;

use super::sizes::same;
use super::{
    AdversaryView, Attack, AttackError, Evidence, FeatureKnowledge, KnownModel, Needs,
    Reconstruction, Status,
};

/// An attack that runs on u ∈ [0, 1]^d, where x = lower + (upper − lower) ∘ u: on the weights W_pas
/// diag(upper − lower) and the bias b + W_pas lower. So distances, and with them "nearest" and
/// "centre", and objectives are measured in units of each feature's range. A feature whose range is
/// one point is known, and is not left to the attack.
#[derive(Debug, Clone)]
pub struct RangeScaling<A> {
    /// The attack on u.
    pub inner: A,
    /// The ranges. Levels are ignored.
    pub knowledge: FeatureKnowledge,
}

impl<A: Attack> Attack for RangeScaling<A> {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    /// Runs the inner attack on u, and converts its estimates to x.
    ///
    /// # Errors
    /// [`AttackError::NotLinear`] for sub-models that are not linear; [`AttackError::Knowledge`] if
    /// the number of ranges is not that of the features; [`AttackError::NeedsParameters`] if the
    /// parameters are hidden and the attack is not a baseline: without them its model cannot be put
    /// in terms of u.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        self.knowledge.fits(view.target_features())?;
        if view.model().network().is_some() {
            return Err(AttackError::NotLinear);
        }
        let ranges = self.knowledge.ranges();
        let open: Vec<usize> = (0..ranges.len()).filter(|&i| ranges[i].0 < ranges[i].1).collect();
        let width = |i: usize| ranges[i].1 - ranges[i].0;
        let model = view.model();
        let (w_act, bias) = (model.active_weights().clone(), model.bias().clone());
        let mapped = match model.output_weights() {
            Ok(w_pas) => {
                let lower = DVector::from_iterator(ranges.len(), ranges.iter().map(|r| r.0));
                let scaled = DMatrix::from_fn(w_pas.nrows(), open.len(), |m, i| {
                    w_pas[(m, open[i])] * width(open[i])
                });
                KnownModel::white_box(w_act, bias + w_pas * lower, scaled)?.with_link(model.link())
            }
            Err(_) => KnownModel::black_box(w_act, bias, open.len())?.with_link(model.link()),
        };
        let mut side = view.side_information();
        let prior = match side.prior {
            Some(prior) => {
                same("moments", "features", ranges.len(), prior.features())?;
                Some(prior.in_ranges(&open, ranges))
            }
            None => None,
        };
        side.prior = prior.as_ref();
        let auxiliary = side.auxiliary.and_then(|records| records.in_ranges(&open, ranges));
        side.auxiliary = auxiliary.as_ref();
        let found =
            self.inner.reconstruct(&view.under(&mapped)?.with_side_information(side), rng)?;
        if model.output_weights().is_err() && found.status != Status::Baseline {
            return Err(AttackError::NeedsParameters);
        }
        let mut estimates = DMatrix::from_fn(ranges.len(), view.records(), |i, _| ranges[i].0);
        for (&feature, u) in open.iter().zip(found.estimates.row_iter()) {
            let (lower, upper) = ranges[feature];
            for (x, u) in estimates.row_mut(feature).iter_mut().zip(u.iter()) {
                // At u = 1 the sum may miss the end by round-off.
                *x = if *u == 1.0 { upper } else { lower + (upper - lower) * u };
            }
        }
        let evidence = match (model.passive_weights(), &found.evidence) {
            (_, Evidence::Nothing) | (Err(_), _) => Evidence::Nothing,
            (Ok(w_pas), _) => {
                let lower = DVector::from_iterator(ranges.len(), ranges.iter().map(|r| r.0));
                found.evidence.in_ranges(w_pas, view.linear()?.shared_matrix(), &lower)
            }
        };
        Ok(Reconstruction { estimates, evidence, ..found })
    }
}
