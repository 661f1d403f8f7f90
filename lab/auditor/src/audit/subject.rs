//! The deployment under audit, with the plan of the audit.

use tokio_util::sync::CancellationToken;
use vfl_core::types::RecordIds;
use vfl_defense::Policy;
use vfl_protocol::audit::{OpenSession, SessionRequest};
use vfl_protocol::reconstruct::{AttackSpec, AuxiliaryIds, ReconstructionRequest};
use vfl_protocol::{Refusal, RefusalKind};

use super::client::Coordinator;
use super::model::Model;
use super::plan::{Plan, Targets};
use crate::client::ActiveParty;

/// The deployment under audit, with the plan of the audit.
pub(super) struct Subject<'a> {
    pub(super) plan: &'a Plan,
    /// The adversaries' knowledge of the passive features, in words.
    pub(super) knows: Vec<String>,
    pub(super) targets: &'a Targets,
    pub(super) coordinator: Coordinator,
    pub(super) active: ActiveParty,
    /// The model in service.
    pub(super) model: Model,
    /// The token that stops the audit.
    stop: &'a CancellationToken,
}

impl<'a> Subject<'a> {
    /// Creates the client of the active party and returns the subject of the audit.
    ///
    /// # Errors
    /// [`Refusal`] for a malformed address of the active party.
    pub(super) fn new(
        targets: &'a Targets,
        (plan, knows): (&'a Plan, Vec<String>),
        coordinator: Coordinator,
        model: Model,
        stop: &'a CancellationToken,
    ) -> Result<Self, Refusal> {
        let active = ActiveParty::new(&targets.credentials, targets.active.clone())
            .map_err(|e| Refusal::invalid(e.to_string()))?;
        Ok(Self { plan, knows, targets, coordinator, active, model, stop })
    }

    /// Runs work until the audit is stopped. The caller closes what the work leaves open.
    ///
    /// # Errors
    /// ABORTED if the audit is stopped; otherwise those of the work.
    pub(super) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        unless_stopped(self.stop, work).await
    }

    /// Opens a session about records, behind a policy.
    ///
    /// # Errors
    /// [`Refusal`] naming the coordinator.
    pub(super) async fn open(
        &self,
        policy: &Policy,
        ids: &RecordIds,
    ) -> Result<OpenSession, Refusal> {
        let request = SessionRequest {
            version: self.model.version.clone(),
            policy: policy.clone(),
            ids: ids.clone(),
            active_party: self.active.name().clone(),
        };
        self.coordinator.open(request).await
    }

    /// Returns a request for attacks on records, without help. `session` answers for the records;
    /// it is empty if no score is asked for.
    pub(super) fn request(
        &self,
        session: &str,
        ids: &RecordIds,
        attacks: Vec<AttackSpec>,
    ) -> ReconstructionRequest {
        ReconstructionRequest {
            session: session.to_owned(),
            version: self.model.version.clone(),
            ids: ids.clone(),
            attacks,
            seed: self.plan.seed,
            queries: 0,
            auxiliary: AuxiliaryIds::default(),
            colluders: Vec::new(),
        }
    }
}

/// Runs work until `stop` is cancelled.
///
/// # Errors
/// ABORTED once it is; otherwise those of the work.
pub(super) async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let stopped = || Err(Refusal::new(RefusalKind::Aborted, "the audit was stopped"));
    stop.run_until_cancelled(work).await.unwrap_or_else(stopped)
}
