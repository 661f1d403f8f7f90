//! The parties that can attack a training, and the view that each has of the others' features.

use std::fmt;

use nalgebra::DMatrix;
use rayon::prelude::*;
use serde::Serialize;
use vfl_core::model::{LearnerError, PartyLearner, Schedule, TrainingConfig, cross_entropy};
use vfl_core::types::{FeatureBlock, Logits};

use super::record::Transcript;

/// The chair of a training from which the attack is made. Its holder follows the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Adversary {
    /// The active party: it has labels, its own shares, and receives the residuals.
    #[default]
    Active,
    /// The first passive party: it has its own shares, and receives the residuals.
    Passive,
    /// The coordinator: it receives the share of each party by itself, and computes the residuals.
    Coordinator,
}

impl fmt::Display for Adversary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "the active party",
            Self::Passive => "passive party 1",
            Self::Coordinator => "the coordinator",
        })
    }
}

/// A party with features under attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The active party.
    Active,
    /// A passive party, counted from 1.
    Passive(usize),
}

impl Owner {
    /// Returns the position of the party's block, the active party's first.
    #[must_use]
    pub fn block(self) -> usize {
        match self {
            Self::Active => 0,
            Self::Passive(number) => number,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => f.write_str("active party"),
            Self::Passive(number) => write!(f, "passive party {number}"),
        }
    }
}

impl Serialize for Owner {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The view that an adversary has of the features of one or more parties, whose contributions it
/// sees only as a sum.
#[derive(Debug, Clone)]
pub struct Target {
    /// The owners of the features, in the order of their rows.
    pub owners: Vec<Owner>,
    /// The steps as the adversary sees them.
    pub transcript: Transcript,
}

impl Adversary {
    /// Returns the owners of the features of each target, among `passive` passive parties.
    fn targets(self, passive: usize) -> Vec<Vec<Owner>> {
        let others = |from: usize| (from..=passive).map(Owner::Passive);
        match self {
            Self::Active => vec![others(1).collect()],
            Self::Passive => vec![std::iter::once(Owner::Active).chain(others(2)).collect()],
            Self::Coordinator => {
                std::iter::once(Owner::Active).chain(others(1)).map(|owner| vec![owner]).collect()
            }
        }
    }

    /// Runs a training in this process, with the parties' own learners, the service's order of
    /// records and its gradient, and records the adversary's view. All epochs of `config` are run:
    /// the active party sets the patience.
    ///
    /// `blocks` holds the features of each party, the active party's first. Records are the columns
    /// of the blocks, in the order of the training's list. Validation is left out: it changes no
    /// parameter. The coordinator has one target for each party, the parties have one in all.
    ///
    /// # Errors
    /// [`LearnerError`] if training diverges, or the blocks do not fit each other.
    pub fn observe(
        self,
        config: &TrainingConfig,
        classes: usize,
        blocks: &[FeatureBlock],
        labels: &[u32],
    ) -> Result<Vec<Target>, LearnerError> {
        let n = labels.len();
        let own = match self {
            Self::Active => blocks.first(),
            Self::Passive => blocks.get(1),
            Self::Coordinator => None,
        };
        let own = own.map_or_else(|| DMatrix::zeros(0, n), |block| block.matrix().clone());
        let targets = self.targets(blocks.len().saturating_sub(1)).into_iter().map(|owners| {
            let transcript = match self {
                Self::Active => Transcript::new(config, classes, labels.to_vec(), own.clone()),
                _ => Transcript::without_labels(config, classes, n, own.clone()),
            };
            Target { owners, transcript }
        });
        let mut targets: Vec<Target> = targets.collect();
        let mut schedule = Schedule::new(config, n);
        let learner = |(party, block): (usize, &FeatureBlock)| {
            PartyLearner::new(config, classes, block.clone(), party == 0)
        };
        let mut parties = blocks.iter().enumerate().map(learner).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..config.values().epochs {
            for batch in schedule.next_epoch() {
                let shares = parties.iter_mut().map(|party| party.shares(&batch, false));
                let shares = shares.collect::<Result<Vec<_>, _>>()?;
                let seen: Vec<DMatrix<f64>> = shares.iter().map(|s| s.matrix().clone()).collect();
                let y: Vec<u32> = batch.iter().map(|&p| labels[p as usize]).collect();
                let mut shares = shares.into_iter();
                let Some(first) = shares.next() else { return Ok(targets) };
                let (_, gradient, _) = cross_entropy(Logits::sum(first, shares)?, &y);
                for Target { owners, transcript } in &mut targets {
                    match (self, owners.as_slice()) {
                        (Self::Active, _) => transcript.push(&batch, &seen[0], &gradient),
                        (Self::Passive, _) => transcript.push(&batch, &seen[1], &gradient),
                        (Self::Coordinator, owners) => {
                            let share: DMatrix<f64> =
                                owners.iter().map(|owner| &seen[owner.block()]).sum();
                            transcript.push_share(&batch, share, &gradient);
                        }
                    }
                }
                parties.par_iter_mut().try_for_each(|party| party.update(&gradient))?;
            }
            targets.iter_mut().for_each(|target| target.transcript.end_epoch());
        }
        let finished = targets.into_iter().map(|Target { owners, transcript }| {
            let transcript = match owners.contains(&Owner::Active) {
                true => transcript.without_bias()?,
                false => transcript,
            };
            Ok(Target { owners, transcript })
        });
        finished.collect()
    }
}

/// Runs a training in this process as [`Adversary::observe`], and records the active party's view.
///
/// # Errors
/// [`LearnerError`] if training diverges, or the blocks do not fit each other.
pub fn record(
    config: &TrainingConfig,
    classes: usize,
    active: FeatureBlock,
    passive: Vec<FeatureBlock>,
    labels: Vec<u32>,
) -> Result<Transcript, LearnerError> {
    let blocks: Vec<FeatureBlock> = std::iter::once(active).chain(passive).collect();
    let targets = Adversary::Active.observe(config, classes, &blocks, &labels)?;
    let own = || blocks.first().map_or_else(|| DMatrix::zeros(0, 0), |b| b.matrix().clone());
    let seen = targets.into_iter().next().map(|target| target.transcript);
    Ok(seen.unwrap_or_else(|| Transcript::new(config, classes, labels, own())))
}
