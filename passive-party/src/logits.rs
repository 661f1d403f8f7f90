//! Logit shares by record id: the only thing about a record that leaves this party.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use nalgebra::DMatrix;
use vfl_shared::data::{FeatureStore, FeatureTable};
use vfl_shared::heavy::heavy;
use vfl_shared::model::{ShareStore, StoreError, StoredShare};
use vfl_shared::numerics::arg_max;
use vfl_shared::rpc::{MAX_PREDICTION_ROWS, Refusal};
use vfl_shared::types::{FeatureBlock, ModelVersion, RowStatus, ShapeError, ShareAnswer, ShareRequest};

use crate::transform::{FeatureMap, TransformError};

/// The most records of one message.
pub const MAX_ROWS: usize = MAX_PREDICTION_ROWS;

/// The features, and the parameters of the versions in use.
#[derive(Debug)]
pub struct LogitServer {
    /// The features.
    pub table: Arc<FeatureTable>,
    /// This party's disk.
    pub store: ShareStore,
    /// The features as models are trained on them, where a map stands between; d × n in the order of the table.
    mapped: Option<FeatureBlock>,
    /// That map, and its hash.
    map: Option<(FeatureMap, String)>,
    loaded: RwLock<HashMap<ModelVersion, Arc<StoredShare>>>,
}

impl LogitServer {
    /// Serves these features with the parameters of this store.
    #[must_use]
    pub fn new(table: Arc<FeatureTable>, store: ShareStore) -> Self {
        Self { table, store, mapped: None, map: None, loaded: RwLock::default() }
    }

    /// The same with models trained on the features under this map: every record is mapped now, once.
    ///
    /// # Errors
    /// [`TransformError::Input`] if the map is for another number of features.
    pub fn with_map(self, map: &FeatureMap) -> Result<Self, TransformError> {
        let mapped = Some(map.apply(self.table.block())?);
        let digest = map.digest();
        Ok(Self { mapped, map: Some((map.clone(), digest.clone())), store: self.store.under_map(digest), ..self })
    }

    /// What models are trained on, of all records: d × n in the order of the table.
    #[must_use]
    pub fn block(&self) -> &FeatureBlock {
        self.mapped.as_ref().unwrap_or_else(|| self.table.block())
    }

    /// What models are trained on, of the records at these positions of the table: d × n in the order given.
    ///
    /// # Errors
    /// [`Refusal`] (INTERNAL) for a position past the end of the table.
    pub fn rows(&self, positions: &[usize]) -> Result<FeatureBlock, Refusal> {
        let Some(mapped) = &self.mapped else {
            return self.table.fetch_at(positions).map_err(|e| Refusal::internal(e.to_string()));
        };
        if positions.iter().any(|&p| p >= mapped.records()) {
            return Err(Refusal::internal("a position past the end of the table"));
        }
        let rows = mapped.matrix().select_columns(positions);
        FeatureBlock::new(rows).map_err(|e: ShapeError| Refusal::internal(e.to_string()))
    }

    /// Names of the features, in the order of the weights' columns.
    #[must_use]
    pub fn feature_names(&self) -> Vec<String> {
        self.table.schema().features().iter().map(|f| f.name.clone()).collect()
    }

    /// The parameters of a version, from memory or from disk.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when the version is not stored here, or was trained on other features or under another map of
    /// them; INTERNAL when it cannot be read. Whether there is a map, and where files lie, the log alone says.
    pub fn share(&self, version: &ModelVersion) -> Result<Arc<StoredShare>, Refusal> {
        if let Some(share) = self.loaded.read().unwrap_or_else(PoisonError::into_inner).get(version) {
            return Ok(share.clone());
        }
        let share = self.store.load(version).map_err(|e| match e {
            StoreError::Unknown { .. } => Refusal::precondition(format!("model {version} is not stored here")),
            other => {
                tracing::error!(%version, error = %other, "a stored share cannot be used");
                Refusal::internal(format!(
                    "the share of model {version} cannot be read; the passive party's log says why"
                ))
            }
        })?;
        if share.feature_map.as_ref() != self.map.as_ref().map(|(_, digest)| digest) {
            let was = if share.feature_map.is_some() { "another feature map" } else { "no feature map" };
            let now = if self.map.is_some() { "feature_map.json in state_dir" } else { "no map" };
            tracing::error!(
                %version,
                "this model was trained under {was} than this party has now ({now}): restore feature_map.json and \
                 `transform` in [training], or train again"
            );
            let message = format!(
                "model {version} was trained under other settings than this passive party has now; its log says more"
            );
            return Err(Refusal::precondition(message));
        }
        if share.feature_names != self.feature_names() {
            let message = format!(
                "model {version} was trained on other features than this party now holds; train or import it again"
            );
            return Err(Refusal::precondition(message));
        }
        let share = Arc::new(share);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        // Versions in use are few; a caller that walks through old ones must not fill the memory.
        if loaded.len() >= 8 {
            loaded.clear();
        }
        loaded.insert(version.clone(), share.clone());
        Ok(share)
    }

    /// The class that this party's share of a model alone gives each of some records: arg max of its logit share, of equal ones the
    /// lowest. `x` is d × n, features as they are, finite.
    ///
    /// # Errors
    /// As [`LogitServer::share`], and INTERNAL for features that do not fit.
    pub fn classes(&self, version: &ModelVersion, x: DMatrix<f64>) -> Result<Vec<u32>, Refusal> {
        let share = self.share(version)?;
        let internal = |e: &dyn std::fmt::Display| Refusal::internal(e.to_string());
        let mut block = FeatureBlock::new(x).map_err(|e| internal(&e))?;
        if let Some((map, _)) = &self.map {
            block = map.apply(&block).map_err(|e| internal(&e))?;
        }
        let model = share.model();
        let logits = heavy(model.work() * block.records() as u64, || model.outputs(block.matrix()));
        let logits = logits.map_err(|e| internal(&e))?;
        Ok(logits.matrix().column_iter().map(|z| arg_max(z.as_slice()) as u32).collect())
    }

    /// Logit shares of a batch: a row for each record held here, a status for all.
    ///
    /// # Errors
    /// [`Refusal`] for a version that is not here.
    pub fn compute(&self, request: &ShareRequest) -> Result<ShareAnswer, Refusal> {
        let share = self.share(&request.version)?;
        let ids = &request.ids;
        let mut held = Vec::with_capacity(ids.len());
        let status = ids
            .iter()
            .map(|id| match self.table.position(id) {
                Some(position) => {
                    held.push(position);
                    RowStatus::Ok
                }
                None => RowStatus::NotFound,
            })
            .collect();
        let internal = |e: &dyn std::fmt::Display| Refusal::internal(e.to_string());
        let block = self.rows(&held)?;
        let model = share.model();
        let share =
            heavy(model.work() * block.records() as u64, || model.outputs(block.matrix())).map_err(|e| internal(&e))?;
        Ok(ShareAnswer { status, share })
    }
}
