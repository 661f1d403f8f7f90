//! Runs audits, one at a time, which the pages watch and stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::draft::CheckedDraft;
use super::store::Store;
use crate::audit::run_unless_stopped;

/// The time for a running audit to close its sessions when the dashboard is stopped.
const CLOSING: Duration = Duration::from_secs(20);

/// The stage of an audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// The audit runs: steps done, steps in all, and the current step.
    Running { done: usize, total: usize, words: String },
    /// The audit was told to stop, and closes its sessions.
    Stopping,
    /// The report is written.
    Done,
    /// The auditor stopped it.
    Stopped,
    /// The audit failed, for this reason.
    Failed(String),
}

impl Stage {
    /// Returns true if the audit has ended.
    pub(super) fn ended(&self) -> bool {
        matches!(self, Self::Done | Self::Stopped | Self::Failed(_))
    }
}

/// The state of an audit that the pages show.
#[derive(Debug, Clone)]
pub(super) struct AuditProgress {
    /// The audit's name in the folder of audits.
    pub(super) name: String,
    /// The time of its start.
    pub(super) began: SystemTime,
    pub(super) stage: Stage,
}

/// The audit that runs or ran last, with the token that stops it.
type Current = Arc<Mutex<Option<(AuditProgress, CancellationToken)>>>;

/// Runs one audit at a time.
pub(super) struct Runner {
    store: Store,
    current: Current,
    tasks: TaskTracker,
}

/// Errors from starting an audit.
#[derive(Debug)]
pub(super) enum StartError {
    /// Another audit runs.
    Busy,
    /// The folder cannot be written.
    Store(String),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    /// Creates a runner that keeps its audits in a folder.
    pub(super) fn new(store: Store) -> Self {
        Self { store, current: Current::default(), tasks: TaskTracker::new() }
    }

    /// Returns the state of the audit that runs or ran last.
    pub(super) fn watch(&self) -> Option<AuditProgress> {
        locked(&self.current).as_ref().map(|(watched, _)| watched.clone())
    }

    /// Returns the name of the running audit.
    pub(super) fn running(&self) -> Option<String> {
        self.watch().filter(|watched| !watched.stage.ended()).map(|watched| watched.name)
    }

    /// Starts an audit.
    ///
    /// # Errors
    /// [`StartError`].
    pub(super) fn start(&self, ready: CheckedDraft) -> Result<(), StartError> {
        let mut current = locked(&self.current);
        if current.as_ref().is_some_and(|(watched, _)| !watched.stage.ended())
            || self.tasks.is_closed()
        {
            return Err(StartError::Busy);
        }
        let began = SystemTime::now();
        let name = self.store.begin(began, &ready.config).map_err(StartError::Store)?;
        let total = ready.audited.plan.policies.len() * ready.audited.plan.attacks.len();
        let stage = Stage::Running { done: 0, total, words: "asking the parties".into() };
        let stop = CancellationToken::new();
        *current = Some((AuditProgress { name: name.clone(), began, stage }, stop.clone()));
        drop(current);
        let (store, at) = (self.store.clone(), self.current.clone());
        self.tasks.spawn(async move {
            let work = tokio::spawn(work(ready, store.clone(), name.clone(), at.clone(), stop));
            // A defect ends the audit, not the dashboard.
            let stage = work.await.unwrap_or_else(|_| {
                Stage::Failed("the audit ended by a defect of this program".into())
            });
            match &stage {
                Stage::Stopped => store.ended(&name, "stopped"),
                Stage::Failed(why) => store.ended(&name, why),
                _ => {}
            }
            tell(&at, stage);
        });
        Ok(())
    }

    /// Stops the running audit. Returns true if there was one.
    pub(super) fn stop(&self) -> bool {
        let mut current = locked(&self.current);
        let Some((watched, stop)) = current.as_mut().filter(|(watched, _)| !watched.stage.ended())
        else {
            return false;
        };
        watched.stage = Stage::Stopping;
        stop.cancel();
        true
    }

    /// Refuses new audits, and stops the running one.
    pub(super) async fn close(&self) {
        self.tasks.close();
        self.stop();
        if tokio::time::timeout(CLOSING, self.tasks.wait()).await.is_err() {
            tracing::warn!("an audit did not end in time: its sessions expire by themselves");
        }
    }
}

/// Runs the audit and writes its report.
async fn work(
    ready: CheckedDraft,
    store: Store,
    name: String,
    at: Current,
    stop: CancellationToken,
) -> Stage {
    let audited = ready.audited;
    let on_stage = |done, total, words: &str| {
        let stage = Stage::Running { done, total, words: words.to_owned() };
        if let Some((watched, _)) =
            locked(&at).as_mut().filter(|(watched, _)| watched.stage != Stage::Stopping)
        {
            watched.stage = stage;
        }
    };
    let findings = match run_unless_stopped(&audited.targets, &audited.plan, &stop, on_stage).await
    {
        Ok(findings) => findings,
        Err(_) if stop.is_cancelled() => return Stage::Stopped,
        Err(refusal) => return Stage::Failed(refusal.to_string()),
    };
    let written =
        tokio::task::spawn_blocking(move || store.report(&name, &audited.report(findings)));
    match written.await {
        Ok(Ok(())) => Stage::Done,
        Ok(Err(error)) => Stage::Failed(error.to_string()),
        Err(_) => Stage::Failed("the report could not be made, by a defect of this program".into()),
    }
}

fn tell(at: &Current, stage: Stage) {
    if let Some((watched, _)) = locked(at).as_mut() {
        watched.stage = stage;
    }
}
