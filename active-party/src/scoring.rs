//! The active party's side of predictions: sends its own logit shares, receives released scores.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use nalgebra::DMatrix;
use vfl_core::data::table::StoreError;
use vfl_core::types::{LogitShare, ModelVersion, RecordIds, ReleasedScores, RowStatus};
use vfl_features::features::Features;
use vfl_party::training::max_batch;
use vfl_protocol::{PredictionRequest, PredictionResponse, Refusal, STREAM_CHUNK_RECORDS};
use vfl_server::monitoring::{Monitor, traces};
use vfl_server::service::{Credentials, Peer, TlsError};
use vfl_state::blocking::heavy;
use vfl_state::{ShareStore, StoredShare};

use crate::client::Coordinator;
pub use crate::model_description::ModelDescription;
use crate::private_release::PrivateReleases;

/// The active party as a client of the coordinator.
#[derive(Debug)]
pub struct Scorer {
    /// The features and labels.
    pub features: Features,
    /// The store of this party's parameters.
    pub store: ShareStore,
    coordinator: Coordinator,
    private: PrivateReleases,
    loaded: RwLock<HashMap<ModelVersion, Arc<StoredShare>>>,
}

impl Scorer {
    /// Creates a scorer that asks this coordinator.
    ///
    /// # Errors
    /// [`TlsError`] if the address is malformed.
    pub fn new(
        credentials: &Credentials,
        coordinator: Peer,
        features: Features,
        store: ShareStore,
        timeout: Duration,
    ) -> Result<Self, TlsError> {
        let coordinator = Coordinator::new(credentials, coordinator, timeout)?;
        let private = PrivateReleases::new(credentials, timeout);
        let store = store.with_encodings(features.schema().encodings());
        Ok(Self { features, store, coordinator, private, loaded: RwLock::default() })
    }

    /// Adds measurements of the coordinator's answers.
    #[must_use]
    pub fn measured(self, monitor: &Monitor) -> Self {
        Self { coordinator: self.coordinator.measured(monitor), ..self }
    }

    /// Returns the client of the coordinator.
    #[must_use]
    pub fn coordinator(&self) -> &Coordinator {
        &self.coordinator
    }

    /// Returns the names of this party's features, in the order of the weights' columns.
    #[must_use]
    pub fn feature_names(&self) -> Vec<String> {
        self.features.schema().features().iter().map(|f| f.name.clone()).collect()
    }

    /// Asks the coordinator for the model in service.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if there is none; otherwise the coordinator's refusal.
    pub async fn describe(&self) -> Result<ModelDescription, Refusal> {
        self.coordinator.describe().await
    }

    /// Returns this party's parameters of a version.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the version is not stored here or was trained on other features;
    /// UNAVAILABLE if the store is away.
    pub fn share(&self, version: &ModelVersion) -> Result<Arc<StoredShare>, Refusal> {
        if let Some(share) = self.loaded.read().unwrap_or_else(PoisonError::into_inner).get(version)
        {
            return Ok(share.clone());
        }
        let share = self.store.load(version).map_err(|e| match e.away() {
            true => Refusal::unavailable(format!(
                "this party's parameters of model {version} cannot be read: {e}"
            )),
            false => Refusal::precondition(e.to_string()),
        })?;
        let difference = share.check_schema(self.features.schema()).err();
        let difference = difference
            .or_else(|| without_bias(&share).then(|| "a party without the bias".to_owned()));
        if let Some(difference) = difference {
            let message = format!(
                "model {version} was made for {difference}: restore the schema that it was made under, or train or import it again"
            );
            return Err(Refusal::precondition(message));
        }
        let share = Arc::new(share);
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        loaded.clear();
        loaded.insert(version.clone(), share.clone());
        Ok(share)
    }

    /// Scores records: few of them with one call, many over a stream. Records that this party does
    /// not hold get the status NOT_FOUND and are not asked about.
    ///
    /// # Errors
    /// [`Refusal`] for another model version, a spent budget, or a peer that is down, with its
    /// name.
    pub async fn score(
        &self,
        model: &ModelDescription,
        ids: &RecordIds,
        audit_session: Option<&str>,
        request_id: &str,
    ) -> Result<PredictionResponse, Refusal> {
        let own = self.questions(model, ids, audit_session, request_id);
        let (held, questions) = traces::within(traces::SpanName::OwnShare, own).await?;
        self.answers(model, questions, &held, ids.len()).await
    }

    /// Returns true if so many records fit one message: then all of them are answered under a
    /// model, or none.
    pub(crate) fn is_one_message(&self, model: &ModelDescription, records: usize) -> bool {
        let share = self.share(&model.version);
        share.is_ok_and(|share| records <= rows_of_a_message(&share, model.class_names.len()))
    }

    /// Returns the positions of the records that this party holds, and the questions about them.
    async fn questions(
        &self,
        model: &ModelDescription,
        ids: &RecordIds,
        audit_session: Option<&str>,
        request_id: &str,
    ) -> Result<(Vec<usize>, Vec<PredictionRequest>), Refusal> {
        let share = self.share(&model.version)?;
        traces::note_version(&model.version);
        let k = model.class_names.len();
        let found = async {
            self.features.lookup(ids).await.map_err(|e| vfl_features::features::refusal(&e))
        };
        let found = traces::within(traces::SpanName::StoreLookUp, found).await?;
        let (held, rows) = (found.held, found.block.matrix());
        let mut requests = Vec::new();
        // Each message is a separate request to the coordinator.
        let name = |chunk: usize| {
            if request_id.is_empty() { String::new() } else { format!("{request_id}/{chunk}") }
        };
        let chunk = rows_of_a_message(&share, k);
        for (part, held) in held.chunks(chunk).enumerate() {
            let (own, n) = (share.model(), held.len());
            let block = rows.columns(part * chunk, n).into_owned();
            let logits = heavy(own.work() * n as u64, || own.outputs(&block));
            let logits = logits.map_err(|e| Refusal::internal(e.to_string()))?;
            requests.push(PredictionRequest {
                version: model.version.clone(),
                ids: ids.select(held),
                share: logits,
                audit_session: audit_session.map(str::to_owned),
                request_id: name(requests.len()),
            });
        }
        Ok((held, requests))
    }

    /// Asks within a session about records, with logit shares (k × n) of the caller's own choice,
    /// as an adversary may.
    ///
    /// # Errors
    /// As [`Scorer::score`].
    pub async fn ask(
        &self,
        model: &ModelDescription,
        ids: &RecordIds,
        shares: &DMatrix<f64>,
        audit_session: &str,
    ) -> Result<PredictionResponse, Refusal> {
        let all: Vec<usize> = (0..ids.len()).collect();
        let request = |held: &[usize]| {
            let chosen = LogitShare::new(shares.select_columns(held))
                .map_err(|e| Refusal::internal(e.to_string()))?;
            Ok(PredictionRequest {
                version: model.version.clone(),
                ids: ids.select(held),
                share: chosen,
                audit_session: Some(audit_session.to_owned()),
                request_id: String::new(),
            })
        };
        let requests =
            all.chunks(STREAM_CHUNK_RECORDS).map(request).collect::<Result<_, Refusal>>()?;
        self.answers(model, requests, &all, ids.len()).await
    }

    /// Sends requests about those of `n` records that are `held`, and joins the answers.
    async fn answers(
        &self,
        model: &ModelDescription,
        requests: Vec<PredictionRequest>,
        held: &[usize],
        n: usize,
    ) -> Result<PredictionResponse, Refusal> {
        let k = model.class_names.len();
        let mut status = vec![RowStatus::NotFound; n];
        let mut parts = Vec::with_capacity(requests.len());
        let mut places = held.iter();
        let take = |part: PredictionResponse| {
            if part.version != model.version {
                let peer = self.coordinator.peer();
                return Err(Refusal::internal(format!(
                    "{peer} answered with scores of model {}, asked about {}",
                    part.version, model.version
                )));
            }
            for (of_part, &at) in part.status.into_iter().zip(places.by_ref()) {
                status[at] = of_part;
            }
            parts.push(part.released);
            Ok(())
        };
        match model.private_release {
            true => self.private.predict(&self.coordinator, requests, k, take).await?,
            false => self.coordinator.predict(requests, k, take).await?,
        }
        let released = concatenate(parts, k)?;
        Ok(PredictionResponse { version: model.version.clone(), status, released })
    }

    /// Returns the labels of records. The inner error is the number of records that this party does
    /// not hold.
    ///
    /// # Errors
    /// [`StoreError`] if the labels cannot be read.
    pub async fn labels(&self, ids: &RecordIds) -> Result<Result<Vec<u32>, usize>, StoreError> {
        let (missing, labels) = self.features.labels(ids).await?;
        Ok(if missing == 0 && labels.len() == ids.len() { Ok(labels) } else { Err(missing) })
    }
}

/// Returns the number of records in one message: half of it is for the outputs, or for the scores
/// that answer them, however wide they are.
fn rows_of_a_message(share: &StoredShare, classes: usize) -> usize {
    let width = (share.model().spec().width() as usize).max(classes);
    STREAM_CHUNK_RECORDS.min(max_batch(2 * width)).max(1)
}

/// Returns true for a linear share without a bias, which is a passive party's.
fn without_bias(share: &StoredShare) -> bool {
    share.linear().is_ok_and(|linear| linear.bias().is_none())
}

/// Concatenates the parts of a release.
fn concatenate(parts: Vec<ReleasedScores>, classes: usize) -> Result<ReleasedScores, Refusal> {
    let Some(first) = parts.first() else {
        return Ok(ReleasedScores::Probabilities(DMatrix::zeros(classes, 0)));
    };
    let mut all = first.clone();
    for part in parts.into_iter().skip(1) {
        all = match (all, part) {
            (ReleasedScores::Probabilities(a), ReleasedScores::Probabilities(b)) => {
                ReleasedScores::Probabilities(beside(a, b))
            }
            (ReleasedScores::Numbers(a), ReleasedScores::Numbers(b)) => {
                ReleasedScores::Numbers(beside(a, b))
            }
            (ReleasedScores::Ciphertexts(a), ReleasedScores::Ciphertexts(b)) => {
                ReleasedScores::Ciphertexts(beside(a, b))
            }
            (
                ReleasedScores::Labels { mut labels, .. },
                ReleasedScores::Labels { labels: more, .. },
            ) => {
                labels.extend(more);
                ReleasedScores::Labels { classes, labels }
            }
            _ => {
                return Err(Refusal::internal(
                    "the coordinator answered with different kinds of releases",
                ));
            }
        };
    }
    Ok(all)
}

/// Returns the columns of `a`, then those of `b`, which has as many rows.
fn beside<T: nalgebra::Scalar>(a: DMatrix<T>, b: DMatrix<T>) -> DMatrix<T> {
    let (rows, columns) = (a.nrows(), a.ncols() + b.ncols());
    let mut values: Vec<T> = a.data.into();
    values.extend_from_slice(b.as_slice());
    DMatrix::from_vec(rows, columns, values)
}

/// Returns the refusal for a training that the coordinator ended early.
pub(crate) fn ended_early(coordinator: &Peer) -> Refusal {
    Refusal::unavailable(format!("{coordinator} ended the training before a model was published"))
}
