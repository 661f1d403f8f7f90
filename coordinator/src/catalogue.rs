//! Which model is in service, whoever put it there: this coordinator, or another one behind the same name.
//!
//! Alone, a coordinator has its registry and nothing else. Where several share a ledger, the database says which version is in
//! service and holds its files; a registry is then a copy that follows. It follows every second, when a request names another version
//! than the one here, and when the ledger says, in the transaction that records a request, that something has changed.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard};
use vfl_shared::clock::now;
use vfl_shared::hex;
use vfl_shared::rpc::{Refusal, RefusalKind};
use vfl_shared::training::journal::Proposal;
use vfl_shared::types::{ConfidenceScores, ModelVersion, RecordIds};

use crate::ledger::LedgerError;
use crate::registry::{Files, Manifest, Registry, RegistryError};
use crate::replicas::{Change, Offer, Publication, Replicas, Turn};

/// How often a coordinator looks for what others have published.
const EVERY: Duration = Duration::from_secs(1);
/// How often one that trains makes sure that it is still its turn.
const TURN_CHECK: Duration = Duration::from_secs(5);

/// Why models cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The database.
    #[error(transparent)]
    Database(#[from] LedgerError),
    /// What came from it, or is here.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A name or a list of records that is none.
    #[error("the database of the coordinators holds {0}; restore a backup")]
    Damaged(String),
}

/// The registry, and what keeps it like those of the others.
#[derive(Debug)]
pub struct Catalogue {
    registry: Arc<Registry>,
    shared: Option<Shared>,
    /// Held by the training or publication under way here: one at a time.
    busy: Mutex<()>,
}

#[derive(Debug)]
struct Shared {
    replicas: Arc<Replicas>,
    /// The changes that this registry has followed.
    seen: AtomicU64,
    /// The last training whose records are known here.
    trained: AtomicI64,
    /// Held while it follows: once is enough.
    following: Mutex<()>,
}

impl Catalogue {
    /// The models of one coordinator alone.
    #[must_use]
    pub fn alone(registry: Arc<Registry>) -> Self {
        Self { registry, shared: None, busy: Mutex::default() }
    }

    /// The models of several. A database that has none takes over those of this state directory; otherwise this registry follows the
    /// database.
    ///
    /// # Errors
    /// [`CatalogueError`].
    pub async fn shared(registry: Arc<Registry>, replicas: Arc<Replicas>) -> Result<Self, CatalogueError> {
        let from = registry.clone();
        let offer = tokio::task::spawn_blocking(move || offer(&from)).await;
        let offer = offer.map_err(|_| CatalogueError::Damaged("nothing that could be read".into()))??;
        replicas.adopt(&offer, SystemTime::now()).await?;
        let (seen, trained, following) = (AtomicU64::new(0), AtomicI64::new(0), Mutex::default());
        let all =
            Self { registry, shared: Some(Shared { replicas, seen, trained, following }), busy: Mutex::default() };
        all.follow(u64::MAX).await?;
        Ok(all)
    }

    /// The models here.
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Looks whether another coordinator has changed anything, and follows.
    ///
    /// # Errors
    /// [`CatalogueError`]; what was in service here stays so.
    pub async fn refresh(&self) -> Result<(), CatalogueError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let changes = shared.replicas.changes().await?;
        self.follow(changes).await
    }

    /// Brings the registry to what it was after so many changes, or later.
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
            // Records first: no moment must serve a model without those that its training saw.
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

    /// Follows if the ledger has seen changes that this registry has not; whether it had to.
    ///
    /// # Errors
    /// UNAVAILABLE if it cannot: what is in service is not known then.
    pub async fn catch_up(&self, changes: u64) -> Result<bool, Refusal> {
        match &self.shared {
            Some(shared) if shared.seen.load(Ordering::Acquire) < changes => {
                // Boxed: every prediction comes by, and hardly one has to follow.
                Box::pin(self.follow(changes)).await.map_err(|e| unknown(&e)).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Looks again, before a version that is not in service here is refused.
    ///
    /// # Errors
    /// UNAVAILABLE if the database does not say.
    pub async fn look(&self) -> Result<(), Refusal> {
        Box::pin(self.refresh()).await.map_err(|e| unknown(&e))
    }

    /// Looks every second, for as long as this is polled.
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

    /// The turn to train or to publish: one at a time, over all coordinators.
    ///
    /// # Errors
    /// ABORTED when another training or publication is under way; UNAVAILABLE if the database does not answer.
    pub async fn turn(&self) -> Result<Turns<'_>, Refusal> {
        let busy = || {
            let message = "another training or publication is under way; try again when it has ended";
            Refusal::new(RefusalKind::Aborted, message)
        };
        let here = self.busy.try_lock().map_err(|_| busy())?;
        let there = match &self.shared {
            None => None,
            Some(shared) => {
                let turn = shared.replicas.turn().await.map_err(|e| unknown(&e.into()))?.ok_or_else(busy)?;
                // What was published until now is what this one follows.
                self.look().await?;
                Some(turn)
            }
        };
        Ok(Turns { catalogue: self, there, _here: here })
    }
}

/// A turn, here and over all coordinators.
pub struct Turns<'a> {
    catalogue: &'a Catalogue,
    there: Option<Turn>,
    _here: MutexGuard<'a, ()>,
}

impl Turns<'_> {
    /// Makes sure that it is still this coordinator's turn.
    ///
    /// # Errors
    /// UNAVAILABLE if the lock went with its connection to the database, or the database does not say: whoever asks may have it then.
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

    /// Does work for as long as it is this coordinator's turn; looks every few seconds, and at the end.
    ///
    /// # Errors
    /// What the work comes to; otherwise as [`Turns::check`].
    pub async fn during<T>(&mut self, work: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
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
            // Not cut short: a connection is of no use after half a question.
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

    /// Writes down, durably, that a training begins; its records count as training records from now on, at all coordinators. Gives its
    /// number in the journal here.
    ///
    /// # Errors
    /// [`CatalogueError`]: the training must not begin then.
    pub async fn begin_training(&mut self, proposal: Proposal) -> Result<u64, CatalogueError> {
        let text = self.there.is_some().then(|| lines(&proposal.ids));
        let registry = self.catalogue.registry.clone();
        let begun = tokio::task::spawn_blocking(move || registry.begin_training(&proposal, now())).await;
        let number = begun.map_err(|_| CatalogueError::Damaged("nothing, as the work failed".into()))??;
        if let (Some(turn), Some((digest, text))) = (&mut self.there, text) {
            turn.begin_training(&digest, &text, SystemTime::now()).await?;
        }
        Ok(number)
    }

    /// Puts a model in service, at all coordinators at once. To be called when every party has confirmed its share.
    ///
    /// # Errors
    /// INTERNAL if the disk refuses, UNAVAILABLE if the database does or the turn is lost, ABORTED if another version was put in service
    /// meanwhile; the old model then stays in service.
    pub async fn publish(&mut self, manifest: Manifest, calibration: Option<ConfidenceScores>) -> Result<(), Refusal> {
        let registry = self.catalogue.registry.clone();
        let version = manifest.version.clone();
        let Some(turn) = &mut self.there else {
            let work = move || registry.commit(manifest, calibration.as_ref());
            return blocking(work).await.inspect(|()| tracing::info!(%version, "model published"));
        };
        let publication = blocking(move || publication(&registry, &manifest, calibration.as_ref())).await?;
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
        // It is in service, whether or not this coordinator has it yet.
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
    let done = tokio::task::spawn_blocking(work).await.map_err(|_| Refusal::internal("publishing failed"))?;
    done.map_err(|error| {
        // The error names a file of this party, which is no other's business.
        tracing::error!(%error, "the model cannot be stored, so it is not published");
        Refusal::internal("the model cannot be stored; the coordinator's log says why")
    })
}

fn unknown(error: &CatalogueError) -> Refusal {
    tracing::error!(%error, "what is in service cannot be read");
    Refusal::unavailable("the coordinators' database does not say which model is in service; try again").worth_again()
}

/// One id a line, and the SHA-256 of that.
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

fn offer(registry: &Registry) -> Result<Offer, RegistryError> {
    let versions = registry.versions()?;
    let versions = versions.iter().map(|manifest| publication(registry, manifest, None));
    let trained = registry.trainings().into_iter().map(|training| Ok(lines(&registry.records_of(&training)?)));
    Ok(Offer {
        current: registry.current().map(|model| model.manifest.version.as_str().to_owned()),
        versions: versions.collect::<Result<_, _>>()?,
        trained: trained.collect::<Result<_, RegistryError>>()?,
    })
}

fn receive(registry: &Registry, publication: Publication) -> Result<(), CatalogueError> {
    let Publication { version, manifest, top, calibration, .. } = publication;
    let version =
        ModelVersion::new(version).map_err(|_| CatalogueError::Damaged("a version whose name is none".into()))?;
    registry.receive(&version, &Files { manifest, top: top.map(|(_, content)| content), calibration })?;
    tracing::info!(%version, "serving a model that another coordinator has put in service");
    Ok(())
}
