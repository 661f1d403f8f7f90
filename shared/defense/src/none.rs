//! No defense: the scores as they are.

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;

use super::definition::Definition;
use super::{Contract, Defense, DefenseError, Noise, Output};
use crate::DefenseConfig;
use crate::policy::{Facts, ReleaseKind};

/// The reason for which exact scores have no bound.
pub(super) const EXACT: &str =
    "exact scores give back features that lie on a grid (docs/lattice.md)";

pub(super) const FACTS: Facts =
    Facts { name: "none", examples: |_| vec![DefenseConfig::None {}], ..Facts::PLAIN };

pub(super) fn definition() -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Everything,
        bits: Definition::unbounded(EXACT),
        domain: None,
        ..Definition::at_scores(&FACTS, Output::Probabilities, || Ok(()), |_, _| Ok(NoDefense))
    }
}

/// Releases the scores as they are; in a list it changes nothing.
#[derive(Debug, Clone, Copy)]
pub struct NoDefense;

impl Defense for NoDefense {
    fn contract(&self) -> Contract {
        let output = Output::Probabilities;
        Contract { output, keeps_arg_max: true, keeps_ranking: true, randomised: false, bits: None }
    }

    fn apply(
        &self,
        scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        Ok(ReleasedScores::Probabilities(scores))
    }

    fn passes_through(&self) -> bool {
        true
    }
}
