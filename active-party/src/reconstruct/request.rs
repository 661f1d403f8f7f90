//! An auditor's request, and the checks that make a job of it.

use vfl_attack::{Method, Settings};
use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_protocol::Refusal;

use super::job::{AuxiliaryIds, Job, Task};
use super::limits;

/// An auditor's request.
pub(crate) struct ReconstructionRequest {
    /// The session that answers for the records; empty without one.
    pub(crate) audit_session: String,
    /// The version under attack.
    pub(crate) version: ModelVersion,
    /// The records under attack: one or more.
    pub(crate) ids: RecordIds,
    /// The attacks: one or more.
    pub(crate) attacks: Vec<(Method, Settings)>,
    /// The seed of attacks that draw random numbers.
    pub(crate) seed: u64,
    /// The number of times that every record is asked for; 0 means once.
    pub(crate) queries: u32,
    /// Records whose passive features this party knows.
    pub(crate) auxiliary_ids: RecordIds,
    /// The session that answers for the auxiliary records; empty without them.
    pub(crate) auxiliary_session: String,
    /// Passive parties that lend their shares.
    pub(crate) colluders: Vec<PartyName>,
}

impl ReconstructionRequest {
    /// Checks the request and turns it into a job.
    ///
    /// # Errors
    /// INVALID_ARGUMENT with the field or the limit.
    pub(crate) fn check(self) -> Result<Job, Refusal> {
        let tasks: Vec<Task> = self
            .attacks
            .into_iter()
            .map(|(method, settings)| Task::new(method, settings))
            .collect();
        // Without a session, the live service would be asked, on its budget and under its policy.
        if self.audit_session.is_empty() && tasks.iter().any(|t| t.asks(self.ids.len()) > 0) {
            let message = "`audit_session` is missing: only `agnostic` with `observed` = 0 runs without a score";
            return Err(Refusal::invalid(message));
        }
        if let Some(task) = tasks.iter().find(|t| t.needs.seen > self.ids.len()) {
            return Err(Refusal::invalid(format!(
                "`observed` is {}, the request names {} records",
                task.needs.seen,
                self.ids.len()
            )));
        }
        limits::check_steps(&tasks, self.ids.len())?;
        limits::check_trainings(&tasks)?;
        limits::check_queries(self.queries)?;
        let auxiliary = AuxiliaryIds::new(self.auxiliary_ids, self.auxiliary_session, &self.ids)?;
        let mut colluders: Vec<String> = Vec::new();
        for name in self.colluders {
            let name = name.to_string();
            if colluders.contains(&name) {
                return Err(Refusal::invalid(format!("`colluders` names `{name}` twice")));
            }
            colluders.push(name);
        }
        Ok(Job {
            auxiliary,
            colluders,
            queries: self.queries.max(1) as usize,
            audit_session: self.audit_session,
            version: self.version,
            ids: self.ids,
            tasks,
            seed: self.seed,
        })
    }
}
