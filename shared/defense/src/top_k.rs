//! The largest k scores.

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;

use super::definition::{Definition, Domain};
use super::order::{Order, each_column};
use super::{Contract, Defense, DefenseError, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "top_k";

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[Parameter::required(
        "k",
        ParameterKind::Whole,
        "1 to the number of classes less 1",
        1.0,
    )],
    examples: |classes| vec![DefenseConfig::TopK { k: if classes > 2 { 2 } else { 1 } }],
    ..Facts::PLAIN
};

pub(super) fn definition(k: u32) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Largest,
        bits: Definition::unbounded("top_k leaves the largest scores exact"),
        domain: Some(Domain::Largest(k as usize)),
        ..Definition::at_scores(
            &FACTS,
            Output::Numbers,
            move || TopK::check(k, None),
            move |classes, _| TopK::new(k, classes),
        )
    }
}

/// Releases the `k` largest scores as they are and 0 for the others; among equal scores the lowest
/// index is kept.
///
/// What is kept is not divided by its sum: a caller who sees 0.4 is told the model's 0.4. So the
/// release need not sum to 1. After another defense the smallest score kept may be 0 or below; the
/// others are then put at it, or the least step below where they were smaller, so that the arg max
/// stays.
#[derive(Debug, Clone, Copy)]
pub struct TopK {
    k: usize,
}

impl TopK {
    pub(super) fn check(k: u32, classes: Option<usize>) -> Result<(), DefenseError> {
        let expected = match classes {
            Some(classes) => format!(
                "1 to {} (fewer than the model's {classes} classes)",
                classes.saturating_sub(1)
            ),
            None => "at least 1, and fewer than the model's classes".to_owned(),
        };
        checked(
            k >= 1 && classes.is_none_or(|classes| (k as usize) < classes),
            NAME,
            "k",
            k,
            expected,
        )
    }

    /// Creates the defense that keeps `k` scores of `classes`, at least 1 and not all.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for any other k.
    pub fn new(k: u32, classes: usize) -> Result<Self, DefenseError> {
        Self::check(k, Some(classes)).map(|()| Self { k: k as usize })
    }
}

impl Defense for TopK {
    fn contract(&self) -> Contract {
        let output = Output::Numbers;
        Contract {
            output,
            keeps_arg_max: true,
            keeps_ranking: false,
            randomised: false,
            bits: None,
        }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        _noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let rows = scores.nrows();
        each_column(scores.as_mut_slice(), rows, Order::default, |order, _, column| {
            order.sort(column);
            let mut smallest = f64::INFINITY;
            for (rank, at) in order.best_first().enumerate() {
                let value = &mut column[at];
                if rank < self.k {
                    smallest = *value;
                } else {
                    *value = if smallest > 0.0 {
                        0.0
                    } else if *value < smallest {
                        smallest.next_down()
                    } else {
                        smallest
                    };
                }
            }
        });
        Ok(ReleasedScores::Numbers(scores))
    }
}
