//! One prediction: logit shares in, released scores out.

use std::sync::Arc;

use futures_util::future::try_join_all;
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use vfl_shared::rpc::pb::RowStatus;
use vfl_shared::rpc::{Refusal, RefusalKind, WireError, decode_optional_columns, pb, require, select_ok};
use vfl_shared::service::PeerIdentity;
use vfl_shared::types::{ConfidenceScores, LogitShare, Logits, PartyName, RecordIds};

use crate::audit::{Audits, Session};
use crate::config::ServingPolicy;
use crate::defense::Defense;
use crate::passive::PassiveParty;
use crate::registry::{PublishedModel, Registry};

/// The most records of one message.
pub const MAX_ROWS: usize = 16_384;
/// Above this many scores the link function and the defense move to a thread of their own: about half a millisecond.
const INLINE_SCORES: usize = 50_000;

/// What answers predictions: the model in service, the passive parties, the live defense and the audit sessions.
#[derive(Debug)]
pub struct Engine {
    /// The model in service.
    pub registry: Arc<Registry>,
    /// The passive parties, in the order of summation.
    pub passive: Vec<Arc<PassiveParty>>,
    /// The defense of the live service.
    pub defense: Arc<dyn Defense>,
    /// Audit sessions.
    pub audits: Arc<Audits>,
    /// What serving allows.
    pub serving: ServingPolicy,
}

impl Engine {
    /// The model in service.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when none is.
    pub fn model(&self) -> Result<Arc<PublishedModel>, Refusal> {
        self.registry
            .current()
            .ok_or_else(|| Refusal::precondition("no model is in service; train one with `active-party train`"))
    }

    /// The model in service, if it is the version named.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when it is another, naming both.
    pub fn model_named(&self, version: String) -> Result<Arc<PublishedModel>, Refusal> {
        let version = WireError::model_version(version)?;
        let model = self.model()?;
        if model.manifest.version != version {
            let current = &model.manifest.version;
            return Err(Refusal::precondition(format!("model {version} is not in service, {current} is")));
        }
        Ok(model)
    }

    /// A sum over other parties than the model's is another model: the config must name the very parties of the training.
    fn check_parties(&self, model: &PublishedModel) -> Result<(), Refusal> {
        let trained = || model.manifest.passive_parties.iter().map(|p| &p.name);
        let configured = || self.passive.iter().map(|p| &p.peer().name);
        if trained().eq(configured()) {
            return Ok(());
        }
        let list = |names: Vec<&PartyName>| names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ");
        let (trained, configured) = (list(trained().collect()), list(configured().collect()));
        Err(Refusal::precondition(format!(
            "the model in service is of the passive parties {trained}, this coordinator is configured with {configured}; \
             name the model's parties in [[passive_parties]] or train again"
        )))
    }

    /// Scores the records of one request.
    ///
    /// # Errors
    /// [`Refusal`]: INVALID_ARGUMENT for malformed input, FAILED_PRECONDITION for another model version, RESOURCE_EXHAUSTED
    /// for a spent session, UNAVAILABLE or DEADLINE_EXCEEDED naming a passive party.
    pub async fn predict(
        &self,
        caller: &PeerIdentity,
        request: pb::PredictRequest,
    ) -> Result<pb::PredictResponse, Refusal> {
        let model = self.model_named(request.model_version)?;
        self.check_parties(&model)?;
        let owner = &model.manifest.active_party.name;
        if caller.name() != owner {
            let message = format!("the model in service is active party `{owner}`'s, the caller is {}", caller.words());
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        let ids = require("ids", request.ids)?;
        check_count(ids.ends.len())?;
        let ids = RecordIds::try_from(ids)?;
        let n = ids.len();
        tracing::Span::current().record("records", n);
        let k = model.classes();
        let share = LogitShare::from_wire("logit_shares", request.logit_shares.as_ref(), n, Some(k))?;
        let session = match request.audit_session.as_str() {
            "" => None,
            name => Some(self.audits.find(name, caller.name())?),
        };
        let mut status = vec![RowStatus::Ok; n];
        if let Some(session) = &session {
            if session.model_version != model.manifest.version {
                return Err(Refusal::precondition(
                    "another model has been published since the audit session was opened",
                ));
            }
            session.spend(n as u64)?;
        }
        for (id, status) in ids.iter().zip(&mut status) {
            if session.as_ref().is_some_and(|s| !s.contains(id)) {
                *status = RowStatus::NotInSession;
            } else if !self.serving.training_records && model.saw_in_training(id) {
                *status = RowStatus::TrainingRecord;
            }
        }
        let (ids, share, asked) = keep(ids, share.into_matrix(), &status);
        let (logits, ok) = self.sum(&model, ids, share).await?;
        for (position, ok) in asked.iter().zip(&ok) {
            if !ok {
                status[*position] = RowStatus::NotFound;
            }
        }
        let logits = Logits::new(logits).map_err(|e| Refusal::invalid(e.to_string()))?;
        let release = self.release(logits, session).await?;
        Ok(pb::PredictResponse {
            model_version: model.manifest.version.as_str().to_owned(),
            row_status: status.into_iter().map(i32::from).collect(),
            release: Some(release),
        })
    }

    /// Adds the passive parties' shares to the active party's, in the order of the parties; drops the records that one of
    /// them does not hold, and says which stay.
    async fn sum(
        &self,
        model: &PublishedModel,
        ids: RecordIds,
        mut z: DMatrix<f64>,
    ) -> Result<(DMatrix<f64>, Vec<bool>), Refusal> {
        let n = ids.len();
        let mut ok = vec![true; n];
        if n == 0 {
            return Ok((z, ok));
        }
        let k = model.classes();
        let request = pb::ComputeLogitsRequest {
            model_version: model.manifest.version.as_str().to_owned(),
            ids: Some(ids.into()),
        };
        let answers = try_join_all(self.passive.iter().map(|p| p.compute_logits(request.clone()))).await?;
        for (party, answer) in self.passive.iter().zip(&answers) {
            let wrong = |e: WireError| Refusal::internal(format!("{} answered with {e}", party.peer()));
            let held = select_ok(&answer.row_status, n).map_err(wrong)?;
            let share = decode_optional_columns("logit_shares", answer.logit_shares.as_ref(), held.len(), Some(k))
                .map_err(wrong)?;
            if held.len() == n {
                z += share;
                continue;
            }
            let mut held_here = vec![false; n];
            for (column, &position) in held.iter().enumerate() {
                held_here[position] = true;
                let mut z = z.column_mut(position);
                z += share.column(column);
            }
            for (ok, held) in ok.iter_mut().zip(held_here) {
                *ok &= held;
            }
        }
        if ok.contains(&false) {
            let columns: Vec<usize> = (0..n).filter(|&i| ok[i]).collect();
            z = z.select_columns(&columns);
        }
        Ok((z, ok))
    }

    async fn release(&self, logits: Logits, session: Option<Arc<Session>>) -> Result<pb::Release, Refusal> {
        let live = self.defense.clone();
        let large = logits.records() * logits.classes() > INLINE_SCORES;
        let work = move || -> Result<pb::Release, Refusal> {
            let scores = ConfidenceScores::softmax(logits);
            let defense: &dyn Defense = session.as_ref().map_or(&*live, |s| &*s.defense);
            // No defense of today draws noise; those that will draw it from a generator keyed by the server's secret.
            let mut rng = ChaCha20Rng::seed_from_u64(0);
            let released = defense.apply(&scores, &mut rng).map_err(|e| Refusal::internal(e.to_string()))?;
            if let Some(session) = &session {
                session.measure(&scores, &released);
            }
            Ok((&released).into())
        };
        if large {
            tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::internal("the defense failed"))?
        } else {
            work()
        }
    }
}

fn check_count(n: usize) -> Result<(), Refusal> {
    match n {
        1..=MAX_ROWS => Ok(()),
        _ => Err(Refusal::invalid(format!("a request takes 1 to {MAX_ROWS} records, {n} came"))),
    }
}

/// The ids and shares of the records whose status is OK, and their positions.
fn keep(ids: RecordIds, share: DMatrix<f64>, status: &[RowStatus]) -> (RecordIds, DMatrix<f64>, Vec<usize>) {
    let asked: Vec<usize> = (0..status.len()).filter(|&i| status[i] == RowStatus::Ok).collect();
    if asked.len() == status.len() {
        return (ids, share, asked);
    }
    (ids.select(&asked), share.select_columns(&asked), asked)
}
