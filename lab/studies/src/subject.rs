//! The records of a study, split between the parties.

use std::fmt;

use anyhow::{Context, ensure};
use nalgebra::DMatrix;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use serde::Serialize;
use vfl_core::types::FeatureBlock;
use vfl_datasets::set_facts::SetFacts;
use vfl_datasets::{Dataset, vertical_split};

use crate::DataSpec;

/// The fewest records to draw: one in a hundred of the half that a model is not trained on is then
/// a whole record.
pub const LEAST_RECORDS: usize = 200;

/// The data set to load, and the split of its columns between the parties.
#[derive(Debug, Clone)]
pub struct SubjectSpec {
    /// The data.
    pub data: DataSpec,
    /// First passive column.
    pub first_column: usize,
    /// Number of passive features; `None`: those of the passive parties' tables, or one less than
    /// the classes.
    pub passive_features: Option<usize>,
    /// Number of passive parties that share them.
    pub passive_parties: usize,
}

/// Records with the features of all parties.
#[derive(Clone)]
pub struct Subject {
    /// The data set, and the SHA-256 of the loaded data; `None`: the caller's own records.
    pub set: Option<(SetFacts, String)>,
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// The features of each party (d_p × N), the active party's first.
    pub blocks: Vec<FeatureBlock>,
    /// The class of each record.
    pub labels: Vec<u32>,
}

impl Subject {
    /// Loads a data set, and keeps the records that `choose` names, in that order.
    pub(crate) fn load(
        spec: &SubjectSpec,
        choose: impl FnOnce(&Dataset) -> anyhow::Result<Vec<usize>>,
    ) -> anyhow::Result<Self> {
        let dataset = spec.data.load()?;
        let records = choose(&dataset)?;
        let SubjectSpec { first_column, passive_features, passive_parties, .. } = *spec;
        let split = vertical_split(&dataset, first_column, passive_features, passive_parties)?;
        let x = dataset.x().select_columns(&records);
        let passive = split.passive().iter().map(|party| party.columns.as_slice());
        let blocks = std::iter::once(split.active())
            .chain(passive)
            .map(|columns| FeatureBlock::new(x.select_rows(columns)).context("the features"));
        Ok(Self {
            set: Some((SetFacts::of(&dataset), dataset.data_hash())),
            class_names: dataset.class_names().to_vec(),
            blocks: blocks.collect::<anyhow::Result<_>>()?,
            labels: records.iter().map(|&record| dataset.labels()[record]).collect(),
        })
    }

    /// Loads a data set, and draws records of it: all of them if there are fewer.
    pub(crate) fn draw(
        spec: &SubjectSpec,
        records: usize,
        rng: &mut ChaCha20Rng,
    ) -> anyhow::Result<Self> {
        Self::load(spec, |dataset| {
            let mut drawn: Vec<usize> = (0..dataset.records()).collect();
            drawn.shuffle(rng);
            drawn.truncate(records);
            ensure!(
                drawn.len() >= LEAST_RECORDS,
                "{} has {} records, and --records takes at least {LEAST_RECORDS}: take another data set",
                dataset.name(),
                drawn.len()
            );
            Ok(drawn)
        })
    }

    /// Returns the number of classes.
    pub(crate) fn classes(&self) -> usize {
        self.class_names.len()
    }

    /// Returns the number of the active party's features.
    pub(crate) fn active_features(&self) -> usize {
        self.blocks.first().map_or(0, FeatureBlock::features)
    }

    /// Returns the number of passive features.
    pub(crate) fn passive_features(&self) -> usize {
        self.blocks.iter().skip(1).map(FeatureBlock::features).sum()
    }

    /// Returns the number of passive parties.
    pub(crate) fn passive_parties(&self) -> usize {
        self.blocks.len().saturating_sub(1)
    }

    /// Returns passive weights (k × d) that differ between classes, to try policies and transforms
    /// on before the first training.
    pub(crate) fn sample_weights(&self) -> DMatrix<f64> {
        let k = self.classes();
        DMatrix::from_fn(k, self.passive_features(), |i, j| f64::from(u8::from(i == j % k)))
    }

    /// Returns the facts about the records for a report.
    pub(crate) fn facts(&self) -> SubjectFacts {
        let (set, data_hash) = self.set.clone().unzip();
        SubjectFacts {
            set,
            data_hash,
            classes: self.classes(),
            active_features: self.active_features(),
            passive_features: self.passive_features(),
        }
    }
}

/// The first keys of a report: the data set and its split.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubjectFacts {
    /// The data set; `None`: the caller's own records.
    #[serde(flatten)]
    pub set: Option<SetFacts>,
    /// SHA-256 of the loaded data.
    pub data_hash: Option<String>,
    /// Number of classes.
    pub classes: usize,
    /// Number of the active party's features.
    pub active_features: usize,
    /// Number of passive features.
    pub passive_features: usize,
}

impl fmt::Display for SubjectFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { set, classes, active_features, passive_features, .. } = self;
        match set {
            Some(set) => write!(f, "{set}")?,
            None => f.write_str("records of the caller's own")?,
        }
        write!(
            f,
            ", {classes} classes, {active_features} active and {passive_features} passive features"
        )
    }
}
