//! Decisions on requests that are computed on shares: the engine counts and records them as any
//! other, and sees no logit.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::types::{
    Logits, ModelVersion, NameError, PartyName, RecordIds, ReleasedScores, RowStatus,
};
use vfl_defense::Policy;
use vfl_party::computation::release::{ModelOutputs, PrivateRelease, ServingMode};
use vfl_protocol::Refusal;
use vfl_protocol::audit::SessionSummary;
use vfl_protocol::private_release::{MaskedRequest, TAG_WORDS};
use vfl_server::service::PeerIdentity;

use super::Engine;
use super::batch::Batch;
use crate::account::Entry;
use crate::policy::ReadyPolicy;
use crate::registry::PublishedModel;
use crate::sessions::{SessionHandle, replaced};
use crate::share::hashes_of_numbers;

/// The policy of a session of private releases.
pub(crate) struct PrivatePolicy {
    pub(crate) policy: Arc<ReadyPolicy>,
    /// The vectors that it releases, one after the other: of scores by rank, or words. None where
    /// it has none.
    pub(crate) vectors: Vec<f64>,
}

/// The most data holders of a model with private releases.
const MOST_OWNERS: usize = 8;

impl Engine {
    /// Checks that the live service is asked in the way that the operator has chosen.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if it is another one.
    pub(crate) fn check_mode(&self, mode: ServingMode) -> Result<(), Refusal> {
        if self.serving.mode == mode {
            return Ok(());
        }
        Err(Refusal::precondition(match mode {
            ServingMode::Plain => {
                "this coordinator answers in private releases alone (`mode = \"private\"` in [serving]), audits too: ask with a \
                 client that opens a session of them, as `active-party` does"
            }
            ServingMode::Private => {
                "this coordinator makes no private releases; its operator may set `mode = \"private\"` in [serving]"
            }
        }))
    }

    /// Checks that a model can be served by private releases, for this caller, and returns the
    /// policy with the vectors that it releases: the live one, or that of an audit session.
    ///
    /// # Errors
    /// FAILED_PRECONDITION naming what the model or the policy lacks, PERMISSION_DENIED for another
    /// active party, NOT_FOUND for an unknown audit session.
    pub(crate) async fn private_policy(
        &self,
        caller: &PeerIdentity,
        model: &PublishedModel,
        audit_session: Option<&str>,
    ) -> Result<PrivatePolicy, Refusal> {
        self.check_mode(ServingMode::Private)?;
        self.check_parties(model)?;
        Self::check_owner(model, caller)?;
        let k = model.classes();
        let sums =
            model.head.top().is_none() && model.head.widths().iter().all(|width| *width == k);
        if !sums {
            return Err(Refusal::precondition(
                "private releases are of models whose outputs are added (`sum`); this one has a top model, which sees embeddings: \
                 train another, or set `mode = \"plain\"` in [serving]",
            ));
        }
        if !(1..=16).contains(&k) || model.head.widths().len() > MOST_OWNERS {
            return Err(Refusal::precondition(format!(
                "private releases are of models with 2 to 16 classes and at most {MOST_OWNERS} data holders; this one has {k} classes"
            )));
        }
        let policy = match audit_session {
            None => self.policies.live_for(model).await?,
            Some(name) => {
                self.audit_session(name, caller.name(), model).await?.session().policy.clone()
            }
        };
        let mut vectors = Vec::new();
        if PrivateRelease::takes_words(&policy.policy) {
            vectors.extend(policy.words().into_iter().flatten());
        }
        if PrivateRelease::takes_ranks(&policy.policy) {
            // The release of a record whose logits fall from class to class.
            let falling = nalgebra::DMatrix::from_fn(k, 1, |class, _| -(class as f64));
            let internal = |e: &dyn std::fmt::Display| Refusal::internal(e.to_string());
            let logits = Logits::new(falling).map_err(|e| internal(&e))?;
            let id = RecordIds::new(["any"]).map_err(|e| internal(&e))?;
            match policy.release_alone(logits, &id)? {
                ReleasedScores::Probabilities(scores) => {
                    vectors.extend(scores.iter());
                }
                _ => return Err(Refusal::internal("the policy gives no scores to ranks")),
            }
        }
        let outputs = ModelOutputs { classes: k, link: model.link };
        PrivateRelease::of(&policy.policy, &vectors, outputs).map_err(Refusal::precondition)?;
        Ok(PrivatePolicy { policy, vectors })
    }

    /// Returns an audit session that is open, for each request anew: it may have been closed since.
    async fn audit_session(
        &self,
        name: &str,
        party: &PartyName,
        model: &PublishedModel,
    ) -> Result<SessionHandle, Refusal> {
        let handle = self.audits.find(name, party, model, &self.policies).await?;
        match handle.session().model_version == model.manifest.version {
            true => Ok(handle),
            false => Err(replaced()),
        }
    }

    /// Counts the release of records in an audit session.
    ///
    /// # Errors
    /// NOT_FOUND for a session that was closed; UNAVAILABLE if the database does not answer.
    pub(crate) async fn count_in_session(
        &self,
        name: &str,
        party: &PartyName,
        model: &PublishedModel,
        ids: &RecordIds,
    ) -> Result<(), Refusal> {
        self.audit_session(name, party, model).await?.count(ids).await
    }

    /// Checks that an audit session can have a policy in the way in which this coordinator answers.
    ///
    /// # Errors
    /// FAILED_PRECONDITION naming a policy that is not computed on shares.
    pub(crate) fn check_audit_policy(
        &self,
        model: &PublishedModel,
        policy: &Policy,
    ) -> Result<(), Refusal> {
        let checked = match self.serving.mode {
            ServingMode::Plain => Ok(()),
            ServingMode::Private => PrivateRelease::check_for(policy, model.link),
        };
        checked.map_err(Refusal::precondition)
    }

    /// Returns the summary of an audit session. Of private releases nothing is known but how many
    /// there were.
    pub(crate) fn summary(&self, closed: SessionSummary) -> SessionSummary {
        match self.serving.mode {
            ServingMode::Plain => closed,
            ServingMode::Private => {
                let why = "the coordinator sees no score of a private release".to_owned();
                SessionSummary { cost: Err(why), ..closed }
            }
        }
    }

    /// Counts the rows of a request, and returns those that its session lets be computed. Nothing
    /// is in the ledger: an audit session has a budget of its own.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED for a spent session, NOT_FOUND for one that was closed;
    /// FAILED_PRECONDITION if another model is in service by now.
    pub(crate) async fn decide_in_session(
        &self,
        (name, party): (&str, &PartyName),
        model: &PublishedModel,
        request: &MaskedRequest,
        numbers: &[u64],
    ) -> Result<Batch, Refusal> {
        let version = &model.manifest.version;
        self.model_named(version).await?;
        let handle = self.audit_session(name, party, model).await?;
        let mut batch = Batch::new(request.ids.clone());
        let changes = handle.spend(batch.ids.len() as u64).await?;
        if self.catalogue.catch_up(changes).await? {
            self.model_if(version)?;
        }
        let session = handle.session();
        let outside: Vec<bool> = batch.ids.iter().map(|id| !session.contains(id)).collect();
        batch.mark(outside, RowStatus::NotInSession);
        self.keep_training_records(model, &mut batch);
        let hashes = hashes_of_numbers(&self.share_key, numbers, model.classes() + TAG_WORDS);
        let passive = private_fingerprint(&model.passive_fingerprint);
        let bound = handle.bind(&passive, &batch.ids, &hashes).await?;
        batch.mark(bound.into_iter().map(|bound| !bound), RowStatus::ShareChanged);
        batch.keep_ok((), |(), _| ());
        Ok(batch)
    }

    /// Decides on a request's rows: which of them are computed, if all parties hold them. The
    /// request is in the ledger when this returns.
    ///
    /// # Errors
    /// Those of the ledger; FAILED_PRECONDITION if another model is in service by now.
    pub(crate) async fn decide(
        &self,
        party: &PartyName,
        model: &PublishedModel,
        policy: &ReadyPolicy,
        request: &MaskedRequest,
        numbers: &[u64],
    ) -> Result<Batch, Refusal> {
        let version = &model.manifest.version;
        self.model_named(version).await?;
        let mut batch = Batch::new(request.ids.clone());
        self.keep_training_records(model, &mut batch);
        let shares = match self.account.kept() {
            true => hashes_of_numbers(&self.share_key, numbers, model.classes() + TAG_WORDS),
            false => Vec::new(),
        };
        // Masked logits cannot be compared with plain ones: in the ledger and its budgets, the
        // model is another one.
        let passive = private_fingerprint(&model.passive_fingerprint);
        let in_ledger = private_version(version);
        let in_ledger = in_ledger.map_err(|e| Refusal::internal(e.to_string()))?;
        let verdicts = self
            .account
            .spend(Entry {
                party,
                model: &in_ledger,
                passive: &passive,
                policy: policy.text(),
                bits: policy.bits(),
                request_id: &request.request_id,
                ids: &request.ids,
                shares,
            })
            .await?;
        batch.refuse(&verdicts);
        // The answer must agree with what the ledger's transaction knew of models and trainings.
        if self.catalogue.catch_up(self.account.registry_changes().await).await? {
            self.model_if(version)?;
            self.keep_training_records(model, &mut batch);
        }
        batch.keep_ok((), |(), _| ());
        Ok(batch)
    }
}

/// Returns the fingerprint of passive parameters in the ledger's entries of private releases.
pub(crate) fn private_fingerprint(passive_fingerprint: &str) -> String {
    let hash = Sha256::new_with_prefix(b"cloison private releases");
    format!("p-{}", hex(&hash.chain_update(passive_fingerprint).finalize()[..16]))
}

/// Returns the name of a version in the ledger's entries of private releases.
///
/// # Errors
/// [`NameError`] for a version whose name leaves no room.
pub(crate) fn private_version(version: &ModelVersion) -> Result<ModelVersion, NameError> {
    ModelVersion::new(format!("{version}-private"))
}
