//! Estimates that anyone can make: they do not look at the scores.

use nalgebra::DMatrix;
use rand::{Rng, RngExt};

use super::{AdversaryView, Attack, AttackError, Reconstruction, Requirements, Status};

/// The same value for every feature: `zero` (0) or `half` (½, the centre of the box; R section V, (20)).
#[derive(Debug, Clone, Copy)]
pub struct Constant(pub f64);

impl Attack for Constant {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: false }
    }

    fn reconstruct(&self, view: &AdversaryView, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let estimates = DMatrix::from_element(view.target_features(), view.records(), self.0);
        Ok(Reconstruction {
            estimates,
            status: Status::Baseline,
            solved: None,
            outcomes: Vec::new(),
            remarks: Vec::new(),
        })
    }
}

/// Uniform numbers in [0, 1) (R's random guess; its error exceeds that of ½ by 1/12 in the mean).
#[derive(Debug, Clone, Copy)]
pub struct Random;

impl Attack for Random {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: false }
    }

    fn reconstruct(&self, view: &AdversaryView, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let estimates = DMatrix::from_fn(view.target_features(), view.records(), |_, _| rng.random::<f64>());
        Ok(Reconstruction {
            estimates,
            status: Status::Baseline,
            solved: None,
            outcomes: Vec::new(),
            remarks: Vec::new(),
        })
    }
}
