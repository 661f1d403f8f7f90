//! One prediction: logit shares in, released scores out.

mod batch;
mod private;

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::try_join_all;
use nalgebra::DMatrix;
use vfl_core::model::SubModel;
use vfl_core::types::{
    LogitShare, Logits, ModelVersion, PartyName, RecordIds, ReleasedScores, RowStatus, ShapeError,
};
use vfl_party::computation::release::ServingMode;
use vfl_party::training::max_batch;
use vfl_protocol::{
    PredictionRequest, PredictionResponse, Refusal, RefusalKind, ShareRequest, ShownModel,
};
use vfl_server::monitoring::traces;
use vfl_server::service::PeerIdentity;
use vfl_state::blocking::heavy;

pub(crate) use self::batch::Batch;
pub(crate) use self::private::{PrivatePolicy, private_fingerprint, private_version};
use crate::account::{Account, Entry};
use crate::catalogue::Catalogue;
use crate::client::PassiveParty;
use crate::config::{ServingPolicy, TopGrant, TopRelease};
use crate::meter::Meter;
use crate::policy::{DefenseOutcome, Policies, ReadyPolicy};
use crate::registry::PublishedModel;
use crate::sessions::{SessionHandle, Sessions, replaced};
use crate::share::{ShareKey, share_hashes};

/// Most scores for which the link function and the defense run inline: about half a millisecond.
/// More move to a thread of their own.
const INLINE_SCORES: usize = 50_000;
/// The same limit for defenses that take microseconds a score.
const COSTLY_INLINE_SCORES: usize = 500;

/// The engine that answers predictions: the model in service, the passive parties, the live defense
/// and the audit sessions.
#[derive(Debug)]
pub struct Engine {
    /// The catalogue of models, with the one in service.
    pub catalogue: Arc<Catalogue>,
    /// The passive parties, in the order of summation.
    pub passive: Vec<Arc<PassiveParty>>,
    /// The live policy, and those of audits.
    pub policies: Policies,
    /// The open audit sessions.
    pub audits: Sessions,
    /// Restrictions on the live service.
    pub serving: ServingPolicy,
    /// The release of the top model.
    pub release: TopRelease,
    /// The account of the live service.
    pub account: Account,
    /// The key that logit shares are hashed with.
    pub share_key: ShareKey,
    /// The measurements of predictions.
    pub meter: Meter,
}

/// Names the inputs of a top model, which have no names of their own.
fn input_names(top: &dyn SubModel) -> Vec<String> {
    (1..=top.features()).map(|at| format!("h{at}")).collect()
}

impl Engine {
    /// Returns the model in service.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when there is none.
    pub fn model(&self) -> Result<Arc<PublishedModel>, Refusal> {
        self.catalogue
            .registry()
            .current()
            .ok_or_else(|| Refusal::precondition("no model is in service; train one with `active-party train`, or publish an imported one with `active-party publish`"))
    }

    /// Returns the model in service, if it is the named version. Before it refuses, it checks
    /// whether another coordinator has published that version.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when it is another, naming both.
    pub async fn model_named(
        &self,
        version: &ModelVersion,
    ) -> Result<Arc<PublishedModel>, Refusal> {
        let here = self.catalogue.registry().current();
        if here.is_none_or(|model| model.manifest.version != *version) {
            self.catalogue.look().await?;
        }
        self.model_if(version)
    }

    fn model_if(&self, version: &ModelVersion) -> Result<Arc<PublishedModel>, Refusal> {
        let model = self.model()?;
        if model.manifest.version != *version {
            let current = &model.manifest.version;
            return Err(Refusal::precondition(format!(
                "model {version} is not in service, {current} is"
            )));
        }
        Ok(model)
    }

    /// Checks that the config names exactly the passive parties of the training: a sum over other
    /// parties is another model.
    fn check_parties(&self, model: &PublishedModel) -> Result<(), Refusal> {
        let trained = || model.manifest.passive_parties.iter().map(|p| &p.name);
        let configured = || self.passive.iter().map(|p| &p.peer().name);
        if trained().eq(configured()) {
            return Ok(());
        }
        let list = |names: Vec<&PartyName>| {
            names.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ")
        };
        let (trained, configured) = (list(trained().collect()), list(configured().collect()));
        Err(Refusal::precondition(format!(
            "the model in service is of the passive parties {trained}, this coordinator is configured with {configured}; \
             name the model's parties in [[passive_parties]] or train again"
        )))
    }

    /// Refuses a caller that is not the active party of the model in service.
    fn check_owner(model: &PublishedModel, caller: &PeerIdentity) -> Result<(), Refusal> {
        let owner = &model.manifest.active_party.name;
        if caller.name() == owner {
            return Ok(());
        }
        let message = format!(
            "the model in service is active party `{owner}`'s, the caller is {}",
            caller.words()
        );
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }

    /// Returns `true` if the active party may see the top model of `model`.
    #[must_use]
    pub fn shows_top(&self, model: &PublishedModel) -> bool {
        let granted = self.release.to_active_party == TopGrant::TrueParameters;
        granted
            && model.head.top().is_some_and(|top| ShownModel::fits(top, &input_names(top)).is_ok())
    }

    /// Returns the top model of the model in service.
    ///
    /// # Errors
    /// PERMISSION_DENIED without a grant, for another active party or a model that does not fit a
    /// message, FAILED_PRECONDITION for another version or a model without a top model.
    pub async fn release_top(
        &self,
        caller: &PeerIdentity,
        version: &ModelVersion,
    ) -> Result<ShownModel, Refusal> {
        if self.release.to_active_party == TopGrant::Nothing {
            let message =
                "this coordinator does not show its top model (`to_active_party` in [release])";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        let model = self.model_named(version).await?;
        Self::check_owner(&model, caller)?;
        let top = model.head.top();
        let top = top.ok_or_else(|| {
            Refusal::precondition(format!("model {version} adds outputs: it has no top model"))
        })?;
        ShownModel::of(top, &input_names(top))
    }

    /// Scores the records of one request.
    ///
    /// # Errors
    /// [`Refusal`]: INVALID_ARGUMENT for shares of another width, FAILED_PRECONDITION for another
    /// model version, RESOURCE_EXHAUSTED for a spent session, UNAVAILABLE or DEADLINE_EXCEEDED
    /// naming a passive party.
    pub async fn predict(
        &self,
        caller: &PeerIdentity,
        request: PredictionRequest,
    ) -> Result<PredictionResponse, Refusal> {
        let began = Instant::now();
        self.check_mode(ServingMode::Plain)?;
        let model = self.admit(caller, &request).await?;
        let PredictionRequest { ids, share, audit_session, request_id, .. } = request;
        let batch = Batch::new(ids);
        let (meter, response) = match &audit_session {
            None => {
                let response = self.answer_live(caller, &model, batch, share, &request_id).await?;
                (&self.meter.live, response)
            }
            Some(name) => {
                // Boxed: the future of every prediction would hold space for it.
                let answer = Box::pin(self.answer_session(caller, &model, batch, share, name));
                let response = answer.await?;
                (&self.meter.audits, response)
            }
        };
        meter.answered(&response.status, began.elapsed());
        Ok(response)
    }

    /// Returns the model that a request is for, after the checks that need neither the ledger nor
    /// a session.
    async fn admit(
        &self,
        caller: &PeerIdentity,
        request: &PredictionRequest,
    ) -> Result<Arc<PublishedModel>, Refusal> {
        let model = self.model_named(&request.version).await?;
        self.check_parties(&model)?;
        Self::check_owner(&model, caller)?;
        let n = request.ids.len();
        tracing::Span::current().record("records", n);
        traces::note_rows(n);
        traces::note_version(&model.manifest.version);
        let width = model.head.widths().first().copied().unwrap_or_default();
        vfl_protocol::check_share_size(&request.share, "logit_shares", n, width)?;
        // Under a top model a small request may have a large answer, and make other parties send
        // large ones.
        let widest = model.head.widths().iter().copied().fold(model.classes(), usize::max);
        let most = max_batch(widest).max(1);
        if n > most {
            let message = format!(
                "scores or outputs of {widest} numbers fit a message up to {most} records, got {n}"
            );
            return Err(Refusal::invalid(message));
        }
        Ok(model)
    }

    /// Answers a request to the live service: the ledger decides on each row.
    async fn answer_live(
        &self,
        caller: &PeerIdentity,
        model: &PublishedModel,
        mut batch: Batch,
        share: LogitShare,
        request_id: &str,
    ) -> Result<PredictionResponse, Refusal> {
        self.keep_training_records(model, &mut batch);
        // Hashing would take a third of the coordinator's time, so it is left out where nothing
        // compares the hashes.
        let shares = match self.account.kept() {
            true => share_hashes(&self.share_key, share.matrix()),
            false => Vec::new(),
        };
        let policy = self.policies.live_for(model).await?;
        let ids = batch.ids.clone();
        let recorded = self.account.spend(Entry {
            party: caller.name(),
            model: &model.manifest.version,
            passive: &model.passive_fingerprint,
            policy: policy.text(),
            bits: policy.bits(),
            request_id,
            ids: &ids,
            shares,
        });
        let recorded = traces::within(traces::SpanName::LedgerCommit, recorded);
        let logits = if self.account.limited() {
            // A spent budget must not cost the passive parties anything, neither for the request as
            // a whole nor for a row of it.
            let verdicts = recorded.await?;
            batch.refuse(&verdicts);
            self.combine(model, &mut batch, share).await?
        } else {
            // The passive parties work while the ledger writes to disk; their answers stay here
            // until the entry is durable.
            let combined = self.combine(model, &mut batch, share);
            let (logits, verdicts) = tokio::try_join!(combined, recorded)?;
            batch.refuse(&verdicts);
            logits
        };
        self.answer(model, batch, logits, policy, None).await
    }

    /// Answers a request within an audit session: the session has a budget, records and a policy of
    /// its own, and the ledger is not asked.
    async fn answer_session(
        &self,
        caller: &PeerIdentity,
        model: &PublishedModel,
        mut batch: Batch,
        share: LogitShare,
        name: &str,
    ) -> Result<PredictionResponse, Refusal> {
        let handle = self.audits.find(name, caller.name(), model, &self.policies).await?;
        let session = handle.session();
        if session.model_version != model.manifest.version {
            return Err(replaced());
        }
        let changes = handle.spend(batch.ids.len() as u64).await?;
        if self.catalogue.catch_up(changes).await? {
            self.model_if(&model.manifest.version)?;
        }
        let outside: Vec<bool> = batch.ids.iter().map(|id| !session.contains(id)).collect();
        batch.mark(outside, RowStatus::NotInSession);
        self.keep_training_records(model, &mut batch);
        let hashes = share_hashes(&self.share_key, share.matrix());
        let bound = handle.bind(&model.passive_fingerprint, &batch.ids, &hashes).await?;
        batch.mark(bound.into_iter().map(|bound| !bound), RowStatus::ShareChanged);
        let policy = session.policy.clone();
        let logits = self.combine(model, &mut batch, share).await?;
        self.answer(model, batch, logits, policy, Some(handle)).await
    }

    /// Releases the scores of the records that are still OK.
    async fn answer(
        &self,
        model: &PublishedModel,
        mut batch: Batch,
        logits: Logits,
        policy: Arc<ReadyPolicy>,
        session: Option<SessionHandle>,
    ) -> Result<PredictionResponse, Refusal> {
        // The answer must agree with what the ledger's transaction knew of models and trainings.
        if self.catalogue.catch_up(self.account.registry_changes().await).await? {
            self.model_if(&model.manifest.version)?;
            self.keep_training_records(model, &mut batch);
        }
        let (ids, logits) = batch.keep_ok(logits, Logits::select);
        let released = release(policy, logits, ids, session);
        let released = traces::within(traces::SpanName::Release, released).await?;
        let version = model.manifest.version.clone();
        Ok(PredictionResponse { version, status: batch.status, released })
    }

    /// Marks training records among the rows that would be answered, unless they are served.
    fn keep_training_records(&self, model: &PublishedModel, batch: &mut Batch) {
        if self.serving.training_records {
            return;
        }
        let trained = self.catalogue.registry().trained_on(model, batch.ids.iter());
        batch.mark(trained, RowStatus::TrainingRecord);
    }

    /// Asks the passive parties about the records that are OK, and combines all parties' outputs,
    /// in the order of the parties, into logits. A record that one of the parties does not hold is
    /// NOT_FOUND.
    async fn combine(
        &self,
        model: &PublishedModel,
        batch: &mut Batch,
        share: LogitShare,
    ) -> Result<Logits, Refusal> {
        let (ids, share) = batch.keep_ok(share, LogitShare::select);
        let n = ids.len();
        let wrong = |e: ShapeError| Refusal::invalid(e.to_string());
        if n == 0 {
            return Logits::new(DMatrix::zeros(model.classes(), 0)).map_err(wrong);
        }
        let request = ShareRequest { version: model.manifest.version.clone(), ids };
        let widths = model.head.widths().get(1..).unwrap_or_default();
        let asked = self
            .passive
            .iter()
            .zip(widths)
            .map(|(party, &width)| party.compute_logits(request.clone(), width));
        let answers = try_join_all(asked).await?;
        let mut ok = vec![true; n];
        for answer in &answers {
            for (ok, status) in ok.iter_mut().zip(&answer.status) {
                *ok &= *status == RowStatus::Ok;
            }
        }
        let outputs = match ok.contains(&false) {
            false => std::iter::once(share)
                .chain(answers.into_iter().map(|answer| answer.share))
                .collect(),
            true => {
                let all: Vec<usize> = (0..n).filter(|&column| ok[column]).collect();
                let mut outputs = vec![share.select(&all)];
                for answer in answers {
                    // Of the columns that this party sent, keep those of records that all parties
                    // hold.
                    let held = RowStatus::positions_ok(&answer.status);
                    let kept: Vec<usize> =
                        (0..held.len()).filter(|&column| ok[held[column]]).collect();
                    outputs.push(if kept.len() == held.len() {
                        answer.share
                    } else {
                        answer.share.select(&kept)
                    });
                }
                outputs
            }
        };
        let head = &*model.head;
        let logits = heavy(head.work() * n as u64, || head.combine(outputs)).map_err(wrong)?;
        batch.keep_held(&ok);
        Ok(logits)
    }
}

/// Applies the policy, and adds its cost to the session, if there is one.
async fn release(
    policy: Arc<ReadyPolicy>,
    logits: Logits,
    ids: RecordIds,
    session: Option<SessionHandle>,
) -> Result<ReleasedScores, Refusal> {
    let large = logits.records() * logits.classes()
        > if policy.costly() { COSTLY_INLINE_SCORES } else { INLINE_SCORES };
    let (asked, measured) = (ids.clone(), session.is_some());
    let work = move || -> Result<_, Refusal> {
        if measured {
            let DefenseOutcome { undefended, released } = policy.release(logits, &asked)?;
            return Ok((Some(undefended), released));
        }
        Ok((None, policy.release_alone(logits, &asked)?))
    };
    let (undefended, released) = if large {
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|_| Refusal::internal("the defense failed"))??
    } else {
        work()?
    };
    if let (Some(session), Some(undefended)) = (&session, &undefended) {
        // Boxed, like everything that only a session does: the future of every prediction would
        // hold space for it.
        Box::pin(session.measure(&ids, undefended, &released)).await?;
    }
    Ok(released)
}

#[cfg(test)]
mod tests;
