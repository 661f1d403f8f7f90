//! The records of a demonstration: those that are attacked, and those that the adversary knows with
//! all features.

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha20Rng;
use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::types::{FeatureBlock, RecordIds};
use vfl_datasets::{Dataset, VerticalSplit};

/// The fewest known records whose moments are worth estimating.
const LEAST: usize = 20;

/// The attacked and the known records of the test set, by their rows in the data set.
pub(super) struct Records {
    /// The rows of the attacked records.
    pub(super) audited: Vec<usize>,
    /// The rows of the records that the adversary knows with all features; may be empty.
    pub(super) known: Vec<usize>,
}

impl Records {
    /// Draws both from the test records in an order given by the seed. Some data sets are in the
    /// order of time, so that their first records differ from the others. The adversary gets at
    /// most half of the records.
    pub(super) fn draw(dataset: &Dataset, audited: usize, known: usize, seed: u64) -> Self {
        let mut test = dataset.split().test.clone();
        test.shuffle(&mut ChaCha20Rng::seed_from_u64(seed));
        let known = known.min(test.len() / 2);
        let audited = audited.min((test.len() - known).max(test.len().min(100)));
        let mut known: Vec<usize> = test.iter().copied().skip(audited).take(known).collect();
        if known.len() < LEAST {
            known.clear();
        }
        test.truncate(audited);
        Self { audited: test, known }
    }

    /// Returns the passive features of the known records, those of all parties in the order of
    /// their names; `None` if no records are known.
    ///
    /// # Errors
    /// If the features do not form a table.
    pub(super) fn table(
        &self,
        dataset: &Dataset,
        split: &VerticalSplit,
    ) -> anyhow::Result<Option<FeatureTable>> {
        let Some(ids) = self.known_ids(dataset) else { return Ok(None) };
        let mut parties: Vec<_> = split.passive().iter().collect();
        parties.sort_by(|a, b| a.name.cmp(&b.name));
        let columns: Vec<usize> = parties.iter().flat_map(|p| p.columns.iter().copied()).collect();
        let x = DMatrix::from_fn(columns.len(), self.known.len(), |i, j| {
            dataset.x()[(columns[i], self.known[j])]
        });
        let features = columns
            .iter()
            .map(|&c| FeatureSpec::numeric(&dataset.features()[c].name, 0.0, 1.0))
            .collect();
        Ok(Some(FeatureTable::new(
            FeatureSchema::new(features, None)?,
            ids,
            FeatureBlock::new(x)?,
            None,
        )?))
    }

    /// Returns the ids of the known records; `None` if no records are known.
    pub(super) fn known_ids(&self, dataset: &Dataset) -> Option<RecordIds> {
        (!self.known.is_empty()).then(|| dataset.ids().select(&self.known))
    }
}
