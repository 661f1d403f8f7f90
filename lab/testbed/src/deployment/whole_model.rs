//! A whole model that is put in service without a training.

use std::path::Path;

use nalgebra::{DMatrix, DVector};
use vfl_coordinator::registry::{Manifest, PartyEntry, Registry, TrainingSummary};
use vfl_core::model::{Combiner, Link, ModelSpec, NetworkFile, ParameterFile, Parameters};
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets::{Dataset, VerticalSplit};
use vfl_state::ShareStore;

use super::spec::active_name;

/// A whole model in one place. The lab made all the data, so only it may assemble one, to deploy
/// the same model under another split of the columns.
pub struct WholeModel {
    /// The parameters of all features.
    pub parameters: WholeParameters,
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// The summary of its training; `None`: it was trained elsewhere.
    pub summary: Option<TrainingSummary>,
    /// The ids of the training records.
    pub training_ids: RecordIds,
}

/// The parameters of all features of a data set, normalised.
pub enum WholeParameters {
    /// Those of a linear model, in the data set's column order.
    Linear {
        /// The link: scores of classes, or a number.
        link: Link,
        /// The weights, k × D.
        weights: DMatrix<f64>,
        /// The bias, of length k.
        bias: DVector<f64>,
    },
    /// Those of a perceptron, of features by their names.
    Network(NetworkFile),
}

/// A party's name, its columns in the order of its features, and its stored parameters.
type Part = (PartyName, Vec<usize>, Parameters);

impl WholeModel {
    /// Stores the model, divided along a split of a data set's columns, in the directories of a
    /// deployment that is about to start.
    ///
    /// # Errors
    /// If a directory cannot be written, or the parameters are of other features.
    pub fn publish(
        &self,
        state_dir: &Path,
        dataset: &Dataset,
        split: &VerticalSplit,
    ) -> anyhow::Result<()> {
        let registry = Registry::open(&state_dir.join("coordinator"))?;
        let (parts, top) = self.parts(dataset, split)?;
        let top = top.map(|top| {
            let parameters = top.parameters().clone();
            anyhow::Ok((
                parameters.spec.clone(),
                registry.store_top(parameters, top.feature_names())?,
            ))
        });
        let (top, top_digest) = top.transpose()?.unzip();
        let (mut stores, mut entries, mut specs) = (Vec::new(), Vec::new(), Vec::new());
        for (name, columns, parameters) in parts {
            let store = ShareStore::open(&state_dir.join(name.as_str()))?;
            let (features, spec) = (columns.len() as u32, parameters.spec.clone());
            let share = store.put(parameters, &feature_names(dataset, &columns))?;
            stores.push((store, share.clone()));
            entries.push(PartyEntry { name, features, share, privacy: None });
            specs.push(spec);
        }
        let (active_entry, active_spec) = (entries.remove(0), specs.remove(0));
        let combiner = if top.is_some() { Combiner::Concat } else { Combiner::Sum };
        let manifest = Manifest::with_top(
            ModelSpec::new(combiner, active_spec, specs, top)?,
            top_digest,
            self.class_names.clone(),
            active_entry,
            (entries, self.summary.clone()),
            &self.training_ids,
        )?;
        for (store, share) in stores {
            store.bind(&manifest.version, &share)?;
        }
        registry.commit(manifest, None)?;
        Ok(())
    }

    /// Returns the part of each party, the active one's first and the others by name, and the top
    /// model of a network.
    fn parts(
        &self,
        dataset: &Dataset,
        split: &VerticalSplit,
    ) -> anyhow::Result<(Vec<Part>, Option<NetworkFile>)> {
        let mut passive: Vec<_> = split.passive().iter().collect();
        passive.sort_by(|a, b| a.name.cmp(&b.name));
        let parties = std::iter::once((active_name(), split.active().to_vec()))
            .chain(passive.into_iter().map(|party| (party.name.clone(), party.columns.clone())));
        match &self.parameters {
            WholeParameters::Linear { link, weights, bias } => {
                let part = |(at, (name, columns)): (usize, (PartyName, Vec<usize>))| {
                    let file = ParameterFile::of_link(
                        *link,
                        self.class_names.clone(),
                        feature_names(dataset, &columns),
                        weights.select_columns(&columns),
                        // The bias is the active party's.
                        (at == 0).then(|| bias.clone()),
                    )?;
                    Ok((name, columns, file.stored()?))
                };
                Ok((parties.enumerate().map(part).collect::<anyhow::Result<_>>()?, None))
            }
            WholeParameters::Network(network) => {
                let parties: Vec<_> = parties.collect();
                let named = parties.iter();
                let named = named.map(|(name, of)| (name.clone(), feature_names(dataset, of)));
                let division = network.divide(&named.collect::<Vec<_>>())?;
                let parameters = division.parts.iter().map(|part| part.parameters().clone());
                let parts = parties.into_iter().zip(parameters);
                let parts = parts.map(|((name, columns), parameters)| (name, columns, parameters));
                Ok((parts.collect(), Some(division.top)))
            }
        }
    }
}

/// Returns the names of columns of a data set.
fn feature_names(dataset: &Dataset, columns: &[usize]) -> Vec<String> {
    columns.iter().map(|&column| dataset.features()[column].name.clone()).collect()
}
