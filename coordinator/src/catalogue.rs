//! The model in service, whether this coordinator or another replica published it.
//!
//! A single coordinator has only its registry. Where replicas share a ledger, the database says
//! which version is in service and holds its files; each registry is then a copy that follows the
//! database. It follows every second, when a request names another version than the one here, and
//! when the ledger reports a change in the transaction that records a request.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard};
use vfl_core::clock::now;
use vfl_core::hex;
use vfl_core::types::{ConfidenceScores, ModelVersion, RecordIds};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::journal::Proposal;

use crate::ledger::LedgerError;
use crate::registry::{Files, Manifest, Registry, RegistryError};
use crate::replicas::{Change, DatabasePublishLock, LocalModels, Publication, Replicas};

/// Interval at which a coordinator looks for what others have published.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which a coordinator that trains checks that it still has the turn.
const TURN_CHECK: Duration = Duration::from_secs(5);

/// Errors from sharing models between coordinators.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] LedgerError),
    /// An error of the registry, or of files that came from the database.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The database holds an invalid name or list of records.
    #[error("the database of the coordinators holds {0}; restore a backup")]
    Damaged(String),
}

/// The registry, and the state that keeps it in step with the other coordinators.
#[derive(Debug)]
pub struct Catalogue {
    registry: Arc<Registry>,
    shared: Option<Shared>,
    /// Held by the training or publication under way here, so that there is one at a time.
    busy: Mutex<()>,
}

#[derive(Debug)]
struct Shared {
    replicas: Arc<Replicas>,
    /// Number of changes that this registry has followed.
    seen: AtomicU64,
    /// Number of the last training whose records are known here.
    trained: AtomicI64,
    /// Held while the registry follows the database, so that only one task does.
    following: Mutex<()>,
}

impl Catalogue {
    /// Creates the catalogue of a coordinator without replicas.
    #[must_use]
    pub fn alone(registry: Arc<Registry>) -> Self {
        Self { registry, shared: None, busy: Mutex::default() }
    }

    /// Creates the catalogue of one of several replicas. A database without models takes over those
    /// of this state directory; otherwise this registry follows the database.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub async fn shared(
        registry: Arc<Registry>,
        replicas: Arc<Replicas>,
    ) -> Result<Self, CatalogueError> {
        let from = registry.clone();
        let offer = tokio::task::spawn_blocking(move || offer(&from)).await;
        let offer =
            offer.map_err(|_| CatalogueError::Damaged("nothing that could be read".into()))??;
        replicas.adopt(&offer, SystemTime::now()).await?;
        let (seen, trained, following) = (AtomicU64::new(0), AtomicI64::new(0), Mutex::default());
        let all = Self {
            registry,
            shared: Some(Shared { replicas, seen, trained, following }),
            busy: Mutex::default(),
        };
        all.follow(u64::MAX).await?;
        Ok(all)
    }

    /// Returns this coordinator's registry.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Follows the database if another coordinator has changed anything.
    ///
    /// # Errors
    /// [`CatalogueError`]; the model in service here then stays so.
    pub async fn refresh(&self) -> Result<(), CatalogueError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let changes = shared.replicas.changes().await?;
        self.follow(changes).await
    }

    /// Follows the database, unless this registry has followed so many changes already.
    async fn follow(&self, changes: u64) -> Result<(), CatalogueError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        if shared.seen.load(Ordering::Acquire) >= changes {
            return Ok(());
        }
        let _one = shared.following.lock().await;
        if shared.seen.load(Ordering::Acquire) >= changes {
            return Ok(());
        }
        let current = self.registry.current();
        let current = current.as_ref().map_or("", |model| model.manifest.version.as_str());
        let known = shared.trained.load(Ordering::Acquire);
        let news = shared.replicas.news(current, known).await?;
        let registry = self.registry.clone();
        let (trained, change) = (news.trained, news.change);
        let last = trained.last().map(|(number, _)| *number);
        let applied = tokio::task::spawn_blocking(move || {
            // Records first: a model must never be served before its training records are known.
            trained.iter().for_each(|(_, records)| registry.add_trained(records.lines()));
            match change {
                None => Ok(()),
                Some(Change::None) => registry.withdraw().map_err(CatalogueError::from),
                Some(Change::To(publication)) => receive(&registry, publication),
            }
        });
        applied.await.map_err(|_| CatalogueError::Damaged("what could not be read".into()))??;
        if let Some(last) = last {
            shared.trained.fetch_max(last, Ordering::AcqRel);
        }
        shared.seen.fetch_max(news.changes, Ordering::AcqRel);
        Ok(())
    }

    /// Follows the database if the ledger has seen changes that this registry has not. Returns
    /// `true` if it had to.
    ///
    /// # Errors
    /// UNAVAILABLE if it cannot follow: the model in service is then unknown.
    pub async fn catch_up(&self, changes: u64) -> Result<bool, Refusal> {
        match &self.shared {
            Some(shared) if shared.seen.load(Ordering::Acquire) < changes => {
                // Boxed: every prediction passes here, and hardly any has to follow.
                Box::pin(self.follow(changes)).await.map_err(|e| unknown(&e)).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Follows the database before a version that is not in service here is refused.
    ///
    /// # Errors
    /// UNAVAILABLE if the database does not answer.
    pub async fn look(&self) -> Result<(), Refusal> {
        Box::pin(self.refresh()).await.map_err(|e| unknown(&e))
    }

    /// Follows the database every second, for as long as this future is polled.
    pub async fn watch(&self) {
        if self.shared.is_none() {
            return std::future::pending().await;
        }
        let mut well = true;
        loop {
            tokio::time::sleep(EVERY).await;
            match self.refresh().await {
                Ok(()) => well = true,
                Err(error) => {
                    if std::mem::take(&mut well) {
                        tracing::warn!(%error, "what other coordinators have published cannot be read now");
                    }
                }
            }
        }
    }

    /// Takes the turn to train or to publish; only one coordinator has it at a time.
    ///
    /// # Errors
    /// ABORTED when another training or publication is under way; UNAVAILABLE if the database does
    /// not answer.
    pub async fn turn(&self) -> Result<PublishLock<'_>, Refusal> {
        let busy = || {
            let message =
                "another training or publication is under way; try again when it has ended";
            Refusal::new(RefusalKind::Aborted, message)
        };
        let here = self.busy.try_lock().map_err(|_| busy())?;
        let there = match &self.shared {
            None => None,
            Some(shared) => {
                let turn = shared
                    .replicas
                    .turn()
                    .await
                    .map_err(|e| unknown(&e.into()))?
                    .ok_or_else(busy)?;
                // Everything published so far must be here before this turn changes anything.
                self.look().await?;
                Some(turn)
            }
        };
        Ok(PublishLock { catalogue: self, there, _here: here })
    }
}

/// The turn to train or to publish, here and over all coordinators.
pub struct PublishLock<'a> {
    catalogue: &'a Catalogue,
    there: Option<DatabasePublishLock>,
    _here: MutexGuard<'a, ()>,
}

impl PublishLock<'_> {
    /// Checks that this coordinator still has the turn.
    ///
    /// # Errors
    /// UNAVAILABLE if the lock was lost with its connection to the database, or the database does
    /// not answer: another coordinator may then have the turn.
    pub async fn check(&mut self) -> Result<(), Refusal> {
        let Some(turn) = &mut self.there else { return Ok(()) };
        match turn.held().await {
            Ok(true) => return Ok(()),
            Ok(false) => tracing::error!("the lock of the one that trains is no longer held"),
            Err(error) => tracing::error!(%error, "the lock of the one that trains was lost"),
        }
        Err(Refusal::unavailable(
            "the coordinator has lost its turn to train or to publish with its connection to the coordinators' database: another one may \
             have it, so this one ends and the model in service stays; try again",
        ))
    }

    /// Does work for as long as this coordinator has the turn; checks that every few seconds, and
    /// at the end.
    ///
    /// # Errors
    /// The error of the work; otherwise as [`PublishLock::check`].
    pub async fn during<T>(
        &mut self,
        work: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        if self.there.is_none() {
            return work.await;
        }
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => {
                    let done = done?;
                    return self.check().await.map(|()| done);
                }
                () = tokio::time::sleep(TURN_CHECK) => {}
            }
            // The check is not cancelled: a connection is of no use after half a query.
            let mut check = std::pin::pin!(self.check());
            tokio::select! {
                checked = &mut check => checked?,
                done = &mut work => {
                    let done = done?;
                    return check.await.map(|()| done);
                }
            }
        }
    }

    /// Records durably that a training begins. Its records count as training records from now on,
    /// at all coordinators. Returns its number in the local journal.
    ///
    /// # Errors
    /// [`CatalogueError`]: the training must not begin then.
    pub async fn begin_training(&mut self, proposal: Proposal) -> Result<u64, CatalogueError> {
        let text = self.there.is_some().then(|| lines(&proposal.ids));
        let registry = self.catalogue.registry.clone();
        let begun =
            tokio::task::spawn_blocking(move || registry.begin_training(&proposal, now())).await;
        let number =
            begun.map_err(|_| CatalogueError::Damaged("nothing, as the work failed".into()))??;
        if let (Some(turn), Some((digest, text))) = (&mut self.there, text) {
            turn.begin_training(&digest, &text, SystemTime::now()).await?;
        }
        Ok(number)
    }

    /// Puts a model in service at all coordinators at once. Call it only when every party has
    /// confirmed its share.
    ///
    /// # Errors
    /// INTERNAL if the disk fails, UNAVAILABLE if the database fails or the turn is lost, ABORTED
    /// if another version was put in service meanwhile; the old model then stays in service.
    pub async fn publish(
        &mut self,
        manifest: Manifest,
        calibration: Option<ConfidenceScores>,
    ) -> Result<(), Refusal> {
        let registry = self.catalogue.registry.clone();
        let version = manifest.version.clone();
        let Some(turn) = &mut self.there else {
            let work = move || registry.commit(manifest, calibration.as_ref());
            return blocking(work).await.inspect(|()| tracing::info!(%version, "model published"));
        };
        let publication =
            blocking(move || publication(&registry, &manifest, calibration.as_ref())).await?;
        let switched = turn.publish(&publication, SystemTime::now()).await.map_err(|error| {
            tracing::error!(%error, "a model was not put in service");
            Refusal::unavailable(
                "the database of the coordinators was lost before it said that the model is in service; ask which one is before \
                 you train again",
            )
        })?;
        if !switched {
            let message = "another model was put in service meanwhile; this one is not";
            return Err(Refusal::new(RefusalKind::Aborted, message));
        }
        tracing::info!(%version, "model published");
        // The model is in service even if this coordinator does not have it yet.
        if let Err(error) = self.catalogue.refresh().await {
            tracing::warn!(%error, "the published model could not be read back; this coordinator tries again");
        }
        Ok(())
    }

    /// Ends the turn, so that the next one may begin.
    pub async fn end(self) {
        if let Some(turn) = self.there {
            turn.end().await;
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RegistryError> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Refusal::internal("publishing failed"))?;
    done.map_err(|error| {
        // The error names a local file, which no other party should see.
        tracing::error!(%error, "the model cannot be stored, so it is not published");
        Refusal::internal("the model cannot be stored; the coordinator's log says why")
    })
}

fn unknown(error: &CatalogueError) -> Refusal {
    tracing::error!(%error, "what is in service cannot be read");
    Refusal::unavailable(
        "the coordinators' database does not say which model is in service; try again",
    )
    .worth_again()
}

/// Returns the ids as text, one per line, and before it the SHA-256 of that text.
fn lines(ids: &RecordIds) -> (String, String) {
    let mut text = String::new();
    for id in ids.iter() {
        text.push_str(id);
        text.push('\n');
    }
    (hex(Sha256::digest(text.as_bytes())), text)
}

fn publication(
    registry: &Registry,
    manifest: &Manifest,
    calibration: Option<&ConfidenceScores>,
) -> Result<Publication, RegistryError> {
    let Files { manifest: content, top, calibration } = registry.files(manifest, calibration)?;
    let top = manifest.top().map(str::to_owned).zip(top);
    let (version, passive) = (manifest.version.as_str().to_owned(), manifest.passive_fingerprint());
    Ok(Publication { version, manifest: content, top, passive, calibration })
}

fn offer(registry: &Registry) -> Result<LocalModels, RegistryError> {
    let versions = registry.versions()?;
    let versions = versions.iter().map(|manifest| publication(registry, manifest, None));
    let trained = registry
        .trainings()
        .into_iter()
        .map(|training| Ok(lines(&registry.records_of(&training)?)));
    Ok(LocalModels {
        current: registry.current().map(|model| model.manifest.version.as_str().to_owned()),
        versions: versions.collect::<Result<_, _>>()?,
        trained: trained.collect::<Result<_, RegistryError>>()?,
    })
}

fn receive(registry: &Registry, publication: Publication) -> Result<(), CatalogueError> {
    let Publication { version, manifest, top, calibration, .. } = publication;
    let version = ModelVersion::new(version)
        .map_err(|_| CatalogueError::Damaged("a version whose name is none".into()))?;
    registry.receive(
        &version,
        &Files { manifest, top: top.map(|(_, content)| content), calibration },
    )?;
    tracing::info!(%version, "serving a model that another coordinator has put in service");
    Ok(())
}
