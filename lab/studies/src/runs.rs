//! The runs of a study: the loop over them, their seeds, their learners, and the bound on them.

use std::fmt::Display;
use std::ops::RangeInclusive;

use anyhow::{Context, ensure};
use nalgebra::DMatrix;
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use vfl_core::model::{PartyLearner, SubModel, TrainingConfig, TrainingValues};
use vfl_datasets::local_training::learners;

use crate::study::{Event, Listener};
use crate::subject::Subject;

/// The most multiplications of all trainings: about a day of one core.
const MOST_WORK: f64 = 1e14;

/// Does the runs 0 … `count` − 1 on all cores, and tells the end of each. `name` is the name of a
/// run in errors.
pub(crate) fn repeat<T: Send>(
    count: usize,
    tell: &Listener<'_>,
    name: impl Fn(usize) -> String + Sync,
    run: impl Fn(usize) -> anyhow::Result<T> + Sync,
) -> anyhow::Result<Vec<T>> {
    let one = |at: usize| -> anyhow::Result<T> {
        let result = run(at).with_context(|| name(at))?;
        tell(Event::End(""));
        Ok(result)
    };
    (0..count).into_par_iter().map(one).collect()
}

/// The seeds of a study. Each use of randomness has its own, so that neither the order of the work
/// nor another use changes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds {
    /// The name of the study.
    pub(crate) study: &'static str,
    /// The seed of the plan.
    pub(crate) seed: u64,
}

impl Seeds {
    /// Derives the seed of one use.
    pub(crate) fn of(&self, what: impl Display) -> [u8; 32] {
        Sha256::digest(format!("{}, seed {}, {what}", self.study, self.seed)).into()
    }

    /// Returns the configuration of a training with the seed of this use.
    pub(crate) fn config(
        &self,
        values: &TrainingValues,
        what: impl Display,
    ) -> anyhow::Result<TrainingConfig> {
        let seed = number(self.of(what));
        Ok(TrainingConfig::try_from(TrainingValues { seed, ..values.clone() })?)
    }
}

/// Returns the first eight bytes as a number.
fn number([a, b, c, d, e, f, g, h, ..]: [u8; 32]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Checks a number against its range.
pub(crate) fn check_range(
    option: &str,
    given: usize,
    range: &RangeInclusive<usize>,
) -> anyhow::Result<()> {
    let (least, most) = (range.start(), range.end());
    ensure!(range.contains(&given), "{option} is {given}: give {least} to {most}");
    Ok(())
}

/// Returns the learners of all parties on one record, which tell the size of a training.
pub(crate) fn sample_learners(
    config: &TrainingConfig,
    subject: &Subject,
) -> anyhow::Result<Vec<PartyLearner>> {
    let blocks = subject.blocks.iter().map(|block| block.select(&[0]));
    Ok(learners(config, subject.classes(), blocks, None)?)
}

/// Returns the multiplications of a training for one record in one epoch.
pub(crate) fn work_of_record(learners: &[PartyLearner]) -> f64 {
    learners.iter().map(|learner| learner.work(1)).sum::<u64>() as f64
}

/// Checks that the multiplications of all trainings do not take too long.
pub(crate) fn check_work(work: f64, what: impl Display, remedy: &str) -> anyhow::Result<()> {
    ensure!(
        work <= MOST_WORK,
        "{what} take about {work:.0e} multiplications, at most {MOST_WORK:.0e} are done: lower {remedy}"
    );
    Ok(())
}

/// Returns the weights of all passive parties side by side, k × d, from the sub-models of all
/// parties, the active party's first; `None` for networks.
pub(crate) fn passive_weights(sub_models: &[Box<dyn SubModel>]) -> Option<DMatrix<f64>> {
    let linear = sub_models.iter().skip(1).map(|party| party.linear());
    let linear = linear.collect::<Option<Vec<_>>>()?;
    let columns: Vec<_> = linear.iter().flat_map(|party| party.weights().column_iter()).collect();
    (!columns.is_empty()).then(|| DMatrix::from_columns(&columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No two draws of a run are alike, and none depends on what else is done.
    #[test]
    fn seeds_are_of_their_use() {
        let of = |seed| Seeds { study: "membership", seed };
        let first = of(7).of("model 3, training");
        assert_eq!(first, of(7).of("model 3, training"));
        assert_ne!(first, of(7).of("model 4, training"));
        assert_ne!(first, of(7).of("model 3, noise of none"));
        assert_ne!(first, of(8).of("model 3, training"));
        assert_eq!(number([1; 32]), 0x0101_0101_0101_0101);
    }
}
