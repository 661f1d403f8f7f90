//! Baseline estimates, which do not use the scores.

use nalgebra::DMatrix;
use rand::{Rng, RngExt};

use super::entry::{Entry, Group};
use super::{AdversaryView, Attack, AttackError, Needs, Reconstruction, Status};

pub(super) static RANDOM: Entry = Entry::new("random", Group::General, |_| Box::new(Random));

pub(super) static ZERO: Entry = Entry::new("zero", Group::General, |_| Box::new(Constant(0.0)));

pub(super) static HALF: Entry = Entry::new("half", Group::General, |_| Box::new(Constant(0.5)));

/// The same value for every feature: `zero` (0) or `half` (½, the centre of the box; R section V,
/// (20)).
#[derive(Debug, Clone, Copy)]
pub struct Constant(pub f64);

impl Attack for Constant {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let estimates = DMatrix::from_element(view.target_features(), view.records(), self.0);
        Ok(Reconstruction::new(estimates, Status::Baseline))
    }
}

/// Uniform numbers in [0, 1) (R's random guess; its error exceeds that of ½ by 1/12 in the mean).
#[derive(Debug, Clone, Copy)]
pub struct Random;

impl Attack for Random {
    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let estimates =
            DMatrix::from_fn(view.target_features(), view.records(), |_, _| rng.random::<f64>());
        Ok(Reconstruction::new(estimates, Status::Baseline))
    }
}
