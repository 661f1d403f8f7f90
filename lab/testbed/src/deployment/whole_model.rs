//! A whole model that is put in service without a training.

use std::path::Path;

use nalgebra::{DMatrix, DVector};
use vfl_coordinator::registry::{Manifest, PartyEntry, Registry, TrainingSummary};
use vfl_core::model::{Combiner, Link, ModelSpec, ParameterFile};
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets::{Dataset, VerticalSplit};
use vfl_state::ShareStore;

/// A whole model in one place. The lab made all the data, so only it may assemble one, to deploy
/// the same model under another split of the columns.
pub struct WholeModel {
    /// The link: scores of classes, or a number.
    pub link: Link,
    /// The weights, k × D, in the data set's column order.
    pub weights: DMatrix<f64>,
    /// The bias, of length k.
    pub bias: DVector<f64>,
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// The summary of its training; `None`: it was trained elsewhere.
    pub summary: Option<TrainingSummary>,
    /// The ids of the training records.
    pub training_ids: RecordIds,
}

impl WholeModel {
    /// Stores the model, divided along a split of a data set's columns, in the directories of a
    /// deployment that is about to start.
    ///
    /// # Errors
    /// If a directory cannot be written.
    pub fn publish(
        &self,
        state_dir: &Path,
        dataset: &Dataset,
        split: &VerticalSplit,
    ) -> anyhow::Result<()> {
        let put = |name: &str, columns: &[usize], bias: Option<DVector<f64>>| {
            let store = ShareStore::open(&state_dir.join(name))?;
            let names = columns.iter().map(|&c| dataset.features()[c].name.clone());
            let names: Vec<String> = names.collect();
            let weights = self.weights.select_columns(columns);
            let part = ParameterFile::of_link(
                self.link,
                self.class_names.clone(),
                names.clone(),
                weights,
                bias,
            )?;
            let parameters = part.stored()?;
            let spec = parameters.spec.clone();
            let share = store.put(parameters, &names)?;
            let entry = PartyEntry {
                name: PartyName::new(name)?,
                features: columns.len() as u32,
                share,
                privacy: None,
            };
            anyhow::Ok((store, entry, spec))
        };
        let (active_store, active_entry, active_spec) =
            put("active", split.active(), Some(self.bias.clone()))?;
        let mut stores = vec![(active_store, active_entry.share.clone())];
        let (mut entries, mut specs) = (Vec::new(), Vec::new());
        for party in split.passive() {
            let (store, entry, spec) = put(party.name.as_str(), &party.columns, None)?;
            stores.push((store, entry.share.clone()));
            entries.push(entry);
            specs.push(spec);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let manifest = Manifest::new(
            ModelSpec::new(Combiner::Sum, active_spec, specs, None)?,
            self.class_names.clone(),
            active_entry,
            entries,
            self.summary.clone(),
            &self.training_ids,
        )?;
        for (store, share) in stores {
            store.bind(&manifest.version, &share)?;
        }
        Registry::open(&state_dir.join("coordinator"))?.commit(manifest, None)?;
        Ok(())
    }
}
