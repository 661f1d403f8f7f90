//! Logit shares by record id: the only thing about a record that leaves this party.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use nalgebra::DMatrix;
use vfl_core::model::{GENERALIZED_LINEAR, SubModel};
use vfl_core::types::{FeatureBlock, LogitShare, ModelVersion, RecordIds, RowStatus, ShapeError};
use vfl_features::features::{Features, LookupResult};
use vfl_numerics::arg_max;
use vfl_party::training::{RecordSource, SourceFuture, TrainingRecords};
use vfl_protocol::{MAX_PREDICTION_ROWS, Refusal, RefusalKind, ShareAnswer, ShareRequest, rough};
use vfl_server::monitoring::traces;
use vfl_state::blocking::heavy;
use vfl_state::{ShareStore, StoreError, StoredShare};
use vfl_transform::{FeatureMap, TransformError};

use crate::record_outputs::RecordOutputs;

/// The most records of one message.
pub const MAX_ROWS: usize = MAX_PREDICTION_ROWS;

/// The most multiplications per record of a light model: its time goes to memory, and not to
/// arithmetic.
const LIGHT: u64 = 4096;
/// The number of values that are gathered and go through a light model together: they stay in the
/// processor's cache.
const GATHERED: usize = 4096;
/// The most and the fewest records that go through a model together.
const SOME_RECORDS: (usize, usize) = (64, 8);

/// Returns the outputs of a model for the records at some positions of a block, which are gathered
/// a few at a time.
fn outputs_at(
    model: &dyn SubModel,
    block: &FeatureBlock,
    positions: &[usize],
) -> Result<LogitShare, ShapeError> {
    let width = model.spec().width() as usize;
    let mut outputs = Vec::with_capacity(width * positions.len());
    let (most, fewest) = SOME_RECORDS;
    let together = (GATHERED / block.features().max(1)).clamp(fewest, most);
    for (group, some) in positions.chunks(together).enumerate() {
        let part = model.outputs(block.select(some).matrix()).map_err(|e| match e {
            ShapeError::NotFinite { what, record } => {
                ShapeError::NotFinite { what, record: group * together + record }
            }
            other => other,
        })?;
        outputs.extend_from_slice(part.matrix().as_slice());
    }
    LogitShare::new(DMatrix::from_vec(width, positions.len(), outputs))
}

/// The features, and the parameters of the versions in use.
#[derive(Debug)]
pub struct LogitServer {
    /// The features of this party.
    pub features: Features,
    /// The store of this party's parameters.
    pub store: ShareStore,
    /// The features under the map, if there is one and they are in memory; d × n in the order of
    /// the table.
    mapped: Option<FeatureBlock>,
    /// The map of the features before training, and its hash.
    map: Option<(FeatureMap, String)>,
    loaded: RwLock<HashMap<ModelVersion, Arc<StoredShare>>>,
    /// The outputs that another program computed.
    outputs: Option<Arc<RecordOutputs>>,
}

impl LogitServer {
    /// Creates a server of these features with the parameters of this store.
    #[must_use]
    pub fn new(features: impl Into<Features>, store: ShareStore) -> Self {
        let features = features.into();
        let store = store.with_encodings(features.schema().encodings());
        Self { features, store, mapped: None, map: None, loaded: RwLock::default(), outputs: None }
    }

    /// Sets the map of the features under which models are trained. Every record in memory is
    /// mapped now, once.
    ///
    /// # Errors
    /// [`TransformError::Input`] if the map is for another number of features.
    pub fn with_map(self, map: &FeatureMap) -> Result<Self, TransformError> {
        let mapped = self.features.memory().map(|table| map.apply(table.block())).transpose()?;
        let digest = map.digest();
        Ok(Self {
            mapped,
            map: Some((map.clone(), digest.clone())),
            store: self.store.under_map(digest),
            ..self
        })
    }

    /// Sets the outputs that another program computed.
    #[must_use]
    pub fn with_outputs(self, outputs: Option<Arc<RecordOutputs>>) -> Self {
        Self { outputs, ..self }
    }

    /// Returns the features that models are trained on, of all records: d × n in the order of the
    /// table. `None` if they are not in memory.
    #[must_use]
    pub fn block(&self) -> Option<&FeatureBlock> {
        self.mapped.as_ref().or_else(|| self.features.memory().map(|table| table.block()))
    }

    /// Returns the features that models are trained on, of those records that are held here.
    ///
    /// # Errors
    /// [`Refusal`] (UNAVAILABLE or INTERNAL) if the features are not available; the log says why.
    pub async fn lookup(&self, ids: &RecordIds) -> Result<LookupResult, Refusal> {
        let internal = |e: &dyn std::fmt::Display| Refusal::internal(e.to_string());
        if let (Some(mapped), Some(table)) = (&self.mapped, self.features.memory()) {
            let (held, positions) = table.positions(ids);
            return Ok(LookupResult { held, block: mapped.select(&positions), labels: None });
        }
        let found =
            self.features.lookup(ids).await.map_err(|e| {
                vfl_features::features::refusal_for_others(&e, "this passive party")
            })?;
        match &self.map {
            Some((map, _)) => Ok(LookupResult {
                block: map.apply(&found.block).map_err(|e| internal(&e))?,
                ..found
            }),
            None => Ok(found),
        }
    }

    /// Returns the names of the features, in the order of the weights' columns.
    #[must_use]
    pub fn feature_names(&self) -> Vec<String> {
        self.features.schema().features().iter().map(|f| f.name.clone()).collect()
    }

    /// Returns the parameters of a version, from memory or from disk.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the version is not stored here, or was trained on other features or
    /// under another map of them; INTERNAL if it cannot be read, UNAVAILABLE while the database
    /// that holds it is away. Only the log says if there is a map, and where files lie.
    pub fn share(&self, version: &ModelVersion) -> Result<Arc<StoredShare>, Refusal> {
        if let Some(share) = self.loaded.read().unwrap_or_else(PoisonError::into_inner).get(version)
        {
            return Ok(share.clone());
        }
        let share = self.store.load(version).map_err(|e| match e {
            StoreError::Unknown { .. } => {
                Refusal::precondition(format!("model {version} is not stored here"))
            }
            other => {
                tracing::error!(%version, error = %other, "a stored share cannot be used");
                let message = format!(
                    "the share of model {version} cannot be read; the passive party's log says why"
                );
                Refusal::own_state(other.away(), message)
            }
        })?;
        if share.feature_map.as_ref() != self.map.as_ref().map(|(_, digest)| digest) {
            let was =
                if share.feature_map.is_some() { "another feature map" } else { "no feature map" };
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
        if let Err(difference) = share.check_schema(self.features.schema()) {
            tracing::error!(
                %version,
                "this model was made for {difference}: restore the schema that it was made under, or train or import it again"
            );
            let message = format!(
                "model {version} was made for other features, ranges or categories than this party's schema has now; its log says \
                 more"
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

    /// Returns true if the output of a model is a number: this party's share of it has one output
    /// that is added.
    ///
    /// # Errors
    /// Those of [`LogitServer::share`].
    pub fn is_of_number(&self, version: &ModelVersion) -> Result<bool, Refusal> {
        Ok(self.share(version)?.model().spec().kind() == GENERALIZED_LINEAR)
    }

    /// Returns the class that this party's share of a model alone gives each record: arg max of its
    /// logit share, the lowest of equal ones. `x` is d × n, finite, and not mapped yet.
    ///
    /// # Errors
    /// Those of [`LogitServer::share`], and INTERNAL for features that do not fit.
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

    /// Returns about how many bytes an answer takes: a row of this party's outputs for each record.
    /// For a version that is not in memory, 8 outputs.
    pub(crate) fn answer_bytes(&self, version: &str, records: usize) -> usize {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let version = ModelVersion::new(version).ok();
        let share = version.and_then(|version| loaded.get(&version).cloned());
        let width = share.map_or(8, |share| share.model().spec().width() as usize);
        records.saturating_mul(8 * width + 1)
    }

    /// Returns the logit shares of a batch: a row for each record held here, and a status for all.
    ///
    /// # Errors
    /// [`Refusal`] for a version that is not here; those of [`LogitServer::lookup`].
    pub async fn compute(&self, request: &ShareRequest) -> Result<ShareAnswer, Refusal> {
        let answer = self.compute_model(request).await?;
        let Some(outputs) = &self.outputs else { return Ok(answer) };
        outputs.added_to(&request.ids, answer).map_err(|e| Refusal::internal(e.to_string()))
    }

    async fn compute_model(&self, request: &ShareRequest) -> Result<ShareAnswer, Refusal> {
        let share = self.share(&request.version)?;
        traces::note_version(&request.version);
        let model = share.model();
        let internal = |e: ShapeError| Refusal::internal(e.to_string());
        if let (Some(block), Some(table)) = (self.block(), self.features.memory())
            && model.work() <= LIGHT
        {
            let ids = &request.ids;
            let places = async { Ok::<_, Refusal>(table.positions(ids)) };
            let (held, positions) = traces::within(traces::SpanName::StoreLookUp, places).await?;
            let work = model.work() * positions.len() as u64;
            let share = heavy(work, || outputs_at(model, block, &positions)).map_err(internal)?;
            return Ok(ShareAnswer { status: RowStatus::of_held(&held, ids.len()), share });
        }
        let found =
            traces::within(traces::SpanName::StoreLookUp, self.lookup(&request.ids)).await?;
        let status = found.status(request.ids.len());
        let outputs = heavy(model.work() * found.block.records() as u64, || {
            model.outputs(found.block.matrix())
        });
        Ok(ShareAnswer { status, share: outputs.map_err(internal)? })
    }
}

/// The records of a training: a block in memory, or a batch at a time.
impl RecordSource for LogitServer {
    fn open<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, TrainingRecords> {
        Box::pin(async move {
            let (missing, records) = match &self.features {
                Features::Memory(_) => {
                    let found = self.lookup(ids).await?;
                    (ids.len() - found.held.len(), TrainingRecords::Here(found.block))
                }
                Features::Remote(_) => {
                    let missing = self.features.missing(ids).await.map_err(|e| {
                        vfl_features::features::refusal_for_others(&e, "this passive party")
                    })?;
                    (missing, TrainingRecords::Elsewhere { features: self.features.schema().len() })
                }
            };
            if missing > 0 {
                let (missing, all) = (rough(missing), ids.len());
                let message = format!(
                    "{missing} of the {all} training records are not held here; align the parties first"
                );
                return Err(Refusal::new(RefusalKind::NotFound, message));
            }
            Ok(records)
        })
    }

    fn fetch<'a>(&'a self, ids: &'a RecordIds) -> SourceFuture<'a, FeatureBlock> {
        Box::pin(async move {
            let found = self.lookup(ids).await?;
            match found.held.len() == ids.len() {
                true => Ok(found.block),
                false => Err(Refusal::internal(
                    "training records are gone from the feature store of this passive party",
                )),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
    use vfl_core::data::table::FeatureTable;
    use vfl_core::model::LinearParameters;

    use super::*;

    const RECORDS: usize = 150;

    /// Records `r0` to `r149` of two features, and a linear model of three outputs, stored as
    /// version `m-1`.
    fn server(dir: &std::path::Path) -> LogitServer {
        let specs = ["f", "g"].map(|f| FeatureSpec::numeric(f, 0.0, 1.0)).into();
        let schema = FeatureSchema::new(specs, None).unwrap();
        let block = DMatrix::from_fn(2, RECORDS, |i, j| ((i * 71 + j * 29) % 97) as f64 / 97.0);
        let ids = RecordIds::new((0..RECORDS).map(|i| format!("r{i}"))).unwrap();
        let table =
            FeatureTable::new(schema, ids, FeatureBlock::new(block).unwrap(), None).unwrap();
        let store = ShareStore::open(dir).unwrap();
        let weights = DMatrix::from_fn(3, 2, |i, j| (i as f64 + 0.7) / (j as f64 + 1.3));
        let share = store
            .put(&LinearParameters::new(weights, None).unwrap(), &["f".into(), "g".into()])
            .unwrap();
        store.bind(&ModelVersion::new("m-1").unwrap(), &share).unwrap();
        LogitServer::new(table, store)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn records_that_are_gathered_a_few_at_a_time_have_the_shares_that_all_of_them_have(
            asked in proptest::collection::vec(0usize..RECORDS + 40, 0..200),
        ) {
            let dir = tempfile::tempdir().unwrap();
            let server = server(dir.path());
            let mut once = std::collections::HashSet::new();
            let ids = RecordIds::new(asked.iter().filter(|at| once.insert(**at)).map(|at| format!("r{at}"))).unwrap();
            let request = ShareRequest { version: ModelVersion::new("m-1").unwrap(), ids };
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let answer = runtime.block_on(server.compute(&request)).unwrap();
            let found = runtime.block_on(server.lookup(&request.ids)).unwrap();
            let share = server.share(&request.version).unwrap();
            prop_assert_eq!(answer.status, found.status(request.ids.len()));
            prop_assert_eq!(answer.share, share.model().outputs(found.block.matrix()).unwrap());
        }
    }
}
