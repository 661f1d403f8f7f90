//! The checks that make a job of an auditor's request.

use vfl_attack::{MethodError, Settings};
use vfl_protocol::Refusal;
use vfl_protocol::reconstruct::{AttackSpec, ReconstructionRequest};

use super::job::{Job, Task, check_auxiliary};
use super::limits;

/// The most attacks of one call.
const MAX_ATTACKS: usize = 64;

/// The most settings of one attack, more than there are. Of each name only the last counts, so
/// there is no use in reading more.
const MAX_SETTINGS: usize = 64;

/// Checks a request and turns it into a job.
///
/// # Errors
/// INVALID_ARGUMENT with the field, the attack, the setting or the limit.
pub(crate) fn check(request: ReconstructionRequest) -> Result<Job, Refusal> {
    if request.ids.is_empty() {
        return Err(Refusal::invalid("no records were named"));
    }
    let tasks = tasks(&request.attacks)?;
    // Without a session, the live service would be asked, on its budget and under its policy.
    if request.session.is_empty() && tasks.iter().any(|t| t.asks(request.ids.len()) > 0) {
        let message =
            "`audit_session` is missing: only `agnostic` with `observed` = 0 runs without a score";
        return Err(Refusal::invalid(message));
    }
    if let Some(task) = tasks.iter().find(|t| t.needs.seen > request.ids.len()) {
        return Err(Refusal::invalid(format!(
            "`observed` is {}, the request names {} records",
            task.needs.seen,
            request.ids.len()
        )));
    }
    limits::check_steps(&tasks, request.ids.len())?;
    limits::check_trainings(&tasks)?;
    limits::check_queries(request.queries)?;
    let auxiliary = check_auxiliary(request.auxiliary, &request.ids)?;
    let mut colluders: Vec<String> = Vec::new();
    for name in request.colluders {
        let name = name.to_string();
        if colluders.contains(&name) {
            return Err(Refusal::invalid(format!("`colluders` names `{name}` twice")));
        }
        colluders.push(name);
    }
    Ok(Job {
        auxiliary,
        colluders,
        queries: request.queries.max(1) as usize,
        audit_session: request.session,
        version: request.version,
        ids: request.ids,
        tasks,
        seed: request.seed,
    })
}

/// Reads the attacks of a request and their settings.
fn tasks(attacks: &[AttackSpec]) -> Result<Vec<Task>, Refusal> {
    if !(1..=MAX_ATTACKS).contains(&attacks.len()) {
        return Err(Refusal::invalid(format!("a request takes 1 to {MAX_ATTACKS} attacks")));
    }
    if let Some(spec) = attacks.iter().find(|spec| spec.settings.len() > MAX_SETTINGS) {
        return Err(Refusal::invalid(format!(
            "an attack has {} settings, at most {MAX_SETTINGS} are read",
            spec.settings.len()
        )));
    }
    let task = |spec: &AttackSpec| {
        let settings = spec.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Ok(Task::new(spec.name.parse()?, Settings::read(settings)?))
    };
    let tasks: Result<_, MethodError> = attacks.iter().map(task).collect();
    tasks.map_err(|e| Refusal::invalid(e.to_string()))
}
