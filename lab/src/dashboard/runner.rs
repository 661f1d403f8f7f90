//! The audit that runs: one at a time, watched and stopped from the pages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::draft::Ready;
use super::store::Store;
use crate::audit::run_unless_stopped;

/// How long an audit under way may take to close its sessions once the dashboard is told to stop.
const CLOSING: Duration = Duration::from_secs(20);

/// Where an audit stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// It runs: steps done, steps in all, and what is being done.
    Running { done: usize, total: usize, words: String },
    /// It was told to stop, and closes its sessions.
    Stopping,
    /// Its report is written.
    Done,
    /// Somebody stopped it.
    Stopped,
    /// It failed, and why.
    Failed(String),
}

impl Stage {
    /// Whether it has come to an end.
    pub(super) fn ended(&self) -> bool {
        matches!(self, Self::Done | Self::Stopped | Self::Failed(_))
    }
}

/// An audit, as it is watched.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    /// Its name in the folder of audits.
    pub(super) name: String,
    /// When it began.
    pub(super) began: SystemTime,
    /// Where it stands.
    pub(super) stage: Stage,
}

/// The audit that runs, or ran last, and what stops it.
type Current = Arc<Mutex<Option<(Watched, CancellationToken)>>>;

/// Runs one audit at a time.
pub(super) struct Runner {
    store: Store,
    current: Current,
    tasks: TaskTracker,
}

/// Why no audit was begun.
#[derive(Debug)]
pub(super) enum NotBegun {
    /// Another one runs.
    Busy,
    /// The folder cannot be written.
    Store(String),
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner {
    /// Keeps its audits in a folder.
    pub(super) fn new(store: Store) -> Self {
        Self { store, current: Current::default(), tasks: TaskTracker::new() }
    }

    /// The audit that runs, or that ran last.
    pub(super) fn watch(&self) -> Option<Watched> {
        locked(&self.current).as_ref().map(|(watched, _)| watched.clone())
    }

    /// The name of the audit that runs.
    pub(super) fn running(&self) -> Option<String> {
        self.watch().filter(|watched| !watched.stage.ended()).map(|watched| watched.name)
    }

    /// Begins an audit.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub(super) fn start(&self, ready: Ready) -> Result<(), NotBegun> {
        let mut current = locked(&self.current);
        if current.as_ref().is_some_and(|(watched, _)| !watched.stage.ended()) || self.tasks.is_closed() {
            return Err(NotBegun::Busy);
        }
        let began = SystemTime::now();
        let name = self.store.begin(began, &ready.config).map_err(NotBegun::Store)?;
        let total = ready.audited.plan.policies.len() * ready.audited.plan.attacks.len();
        let stage = Stage::Running { done: 0, total, words: "asking the parties".into() };
        let stop = CancellationToken::new();
        *current = Some((Watched { name: name.clone(), began, stage }, stop.clone()));
        drop(current);
        let (store, at) = (self.store.clone(), self.current.clone());
        self.tasks.spawn(async move {
            let work = tokio::spawn(work(ready, store.clone(), name.clone(), at.clone(), stop));
            // A defect ends the audit, not the dashboard.
            let stage =
                work.await.unwrap_or_else(|_| Stage::Failed("the audit ended by a defect of this program".into()));
            match &stage {
                Stage::Stopped => store.ended(&name, "stopped"),
                Stage::Failed(why) => store.ended(&name, why),
                _ => {}
            }
            tell(&at, stage);
        });
        Ok(())
    }

    /// Has the audit that runs stopped. Gives whether one ran.
    pub(super) fn stop(&self) -> bool {
        let mut current = locked(&self.current);
        let Some((watched, stop)) = current.as_mut().filter(|(watched, _)| !watched.stage.ended()) else {
            return false;
        };
        watched.stage = Stage::Stopping;
        stop.cancel();
        true
    }

    /// Begins no more audits, and stops the one that runs.
    pub(super) async fn close(&self) {
        self.tasks.close();
        self.stop();
        if tokio::time::timeout(CLOSING, self.tasks.wait()).await.is_err() {
            tracing::warn!("an audit did not end in time: its sessions expire by themselves");
        }
    }
}

/// Runs the audit and writes its report.
async fn work(ready: Ready, store: Store, name: String, at: Current, stop: CancellationToken) -> Stage {
    let audited = ready.audited;
    let on_stage = |done, total, words: &str| {
        let stage = Stage::Running { done, total, words: words.to_owned() };
        if let Some((watched, _)) = locked(&at).as_mut().filter(|(watched, _)| watched.stage != Stage::Stopping) {
            watched.stage = stage;
        }
    };
    let findings = match run_unless_stopped(&audited.targets, &audited.plan, &stop, on_stage).await {
        Ok(findings) => findings,
        Err(_) if stop.is_cancelled() => return Stage::Stopped,
        Err(refusal) => return Stage::Failed(refusal.to_string()),
    };
    let written = tokio::task::spawn_blocking(move || store.report(&name, &audited.report(findings)));
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
