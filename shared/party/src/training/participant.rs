//! A party's side of one training: the loop that executes the coordinator's commands.

use std::sync::Arc;

use nalgebra::DMatrix;
use rand::TryRng;
use rand::rngs::SysRng;
use vfl_core::model::contract::{InitialSeed, start_of};
use vfl_core::model::privacy::{PrivacyConfig, PrivacyStatement};
use vfl_core::model::{LearnerError, Parameters, PartyLearner, TrainingMode};
use vfl_core::types::{RecordIds, ShapeError};
use vfl_protocol::training::messages::{
    BatchShares, Begin, Command, Ready, Reply, ShareStored, Step,
};
use vfl_protocol::training::{CommandStream, Conversation, ReplySender};
use vfl_protocol::{Refusal, RefusalKind, WireError};
use vfl_state::blocking::heavy;
use vfl_state::journal::{Proposal, Terms};
use vfl_state::{ShareStore, StoreError};

use super::blocks::RemoteRecords;
use super::events::{TrainingEvent, TrainingOutcome, max_batch, unexpected};
use super::gate::{AdmittedTraining, TrainingGate};
use super::private::{OwnModel, PrivateAccess, PrivateTask, check_private, compute};
use super::source::{RecordSource, TrainingRecords};

/// The maximum number of records in one training.
const MAX_RECORDS: u32 = 10_000_000;

/// The part of one party in one training.
pub struct Participant<'a> {
    /// The coordinator's name for messages: "the coordinator `c` at …".
    pub coordinator: String,
    /// The party's store of model shares.
    pub store: &'a ShareStore,
    /// The names of its features, in the order of the block's rows.
    pub feature_names: &'a [String],
    /// The records of an active party, which knows them; a passive party receives them.
    pub known_records: Option<RecordIds>,
    /// The source of the features.
    pub source: &'a dyn RecordSource,
    /// The consent of this party; `None` for the active party, which requested the training.
    pub gate: Option<Arc<dyn TrainingGate>>,
    /// The privacy settings of this party's parameters; `None`: they are trained without privacy.
    pub privacy: Option<PrivacyConfig>,
    /// The access that private trainings need; `None`: it takes part in plain ones alone. An active
    /// party has it for a private training, and then for no other.
    pub private: Option<PrivateAccess<'a>>,
}

impl Participant<'_> {
    /// Returns true if this party is the active one: it knows the records, learns the bias, and
    /// receives progress reports.
    fn is_active(&self) -> bool {
        self.known_records.is_some()
    }

    /// Executes commands until the version is published (passive party: confirmed), and reports
    /// events to `on_event`.
    ///
    /// This party publishes nothing unless the coordinator commands it: an error anywhere leaves
    /// the versions on disk unchanged.
    ///
    /// # Errors
    /// [`Refusal`] that names the coordinator if it disconnects, breaks the protocol, or asks for
    /// records that are not here.
    pub async fn run(
        mut self,
        commands: impl CommandStream,
        replies: &ReplySender,
        mut on_event: impl FnMut(TrainingEvent) + Send,
    ) -> Result<TrainingOutcome, Refusal> {
        let commands = std::pin::pin!(commands);
        let coordinator = std::mem::take(&mut self.coordinator);
        let mut talk = Conversation::new(&coordinator, commands, replies);
        let begin = match talk.next().await? {
            Command::Begin(begin) => begin,
            other => return Err(unexpected("begin", &other)),
        };
        if begin.record_count > MAX_RECORDS || (begin.record_count == 0) != self.is_active() {
            let reason = "0 to the active party, 1 to 10 million to a passive party";
            return Err(WireError::Range { field: "record_count", reason }.into());
        }
        let Begin { config, class_names, record_count, active_party, layout } = begin;
        let (classes, active) = (class_names.len(), record_count == 0);
        let gate = match (self.gate.take(), &active_party) {
            (Some(gate), Some(active_party)) => {
                let records = record_count as usize;
                let (asks, config, class_names) = (active_party, &config, &*class_names);
                gate.propose(&Terms { active_party: asks, config, class_names, records })?;
                Some(gate)
            }
            (Some(_), None) => return Err(Refusal::invalid("`active_party`: missing")),
            (None, _) => None,
        };
        let private = match config.values().mode {
            TrainingMode::Private => {
                let access = check_private(self.private, layout.as_ref(), self.privacy.is_some())?;
                if let (Some(gate), Some(layout)) = (&gate, &layout) {
                    let own = access.credentials.identity().name();
                    let other = Some(&layout.computing).filter(|computing| *computing != own);
                    gate.agree(other, layout.calibration)?;
                }
                Some(access)
            }
            TrainingMode::Plain if active && self.private.is_some() => {
                let message =
                    "the coordinator begins a plain training, and a private one was asked for";
                return Err(Refusal::precondition(message));
            }
            TrainingMode::Plain => None,
        };
        // A model that cannot be trained here is refused before any record is named or looked up.
        config.values().model.sub_model(u32::try_from(classes).unwrap_or(u32::MAX))?;
        if let Some(privacy) = &self.privacy {
            privacy.check(&config)?;
        }
        let ids = match self.known_records.take() {
            Some(ids) => ids,
            None => {
                talk.reply(Reply::Consent).await?;
                receive_records(&mut talk, record_count).await?
            }
        };
        let proposal = active_party.map(|active_party| {
            let (config, ids) = (config.clone(), ids.clone());
            Proposal { active_party, config, class_names, ids }
        });
        let mut admitted = gate
            .zip(proposal.clone())
            .map(|(gate, proposal)| AdmittedTraining::new(gate, proposal));
        let records = match self.source.open(&ids).await {
            Ok(records) => records,
            Err(refusal) => {
                // A store that does not answer has revealed nothing about any record.
                if let (Some(admitted), true) =
                    (&admitted, refusal.kind != RefusalKind::Unavailable)
                {
                    admitted.records_missing().await?;
                }
                return Err(refusal);
            }
        };
        if let (Some(access), Some(layout)) = (private, layout) {
            let proposal = proposal.ok_or_else(|| Refusal::invalid("`active_party`: missing"))?;
            let task = PrivateTask { proposal, layout, records };
            let ended = async {
                let own =
                    compute(&mut talk, self.source, access, task, &mut admitted, &mut on_event)
                        .await?;
                self.store_and_publish(&mut talk, own, active, &mut on_event).await
            };
            let ended = ended.await;
            if let Some(admitted) = &admitted {
                admitted.ended(ended.as_ref().ok().map(|outcome| &outcome.version)).await;
            }
            return ended;
        }
        let own_start = admitted.as_ref().map(AdmittedTraining::start).transpose()?.flatten();
        let start = own_start.unwrap_or_else(|| start_of(config.values().seed));
        let (mut learner, mut elsewhere) = match records {
            TrainingRecords::Here(block) => {
                (PartyLearner::starting(&config, classes, block, active, start)?, None)
            }
            TrainingRecords::Elsewhere { features } => {
                let learner = PartyLearner::elsewhere(
                    &config,
                    classes,
                    (features, ids.len()),
                    active,
                    start,
                )?;
                (
                    learner,
                    Some(RemoteRecords::new(
                        self.source,
                        ids,
                        features,
                        config.values().shuffle_block,
                    )),
                )
            }
        };
        if let Some(privacy) = self.privacy {
            learner = learner
                .with_privacy(privacy, &config, noise_seed()?)
                .map_err(|e| learner_refusal(&e))?;
        }
        let (features, sub_model) = (learner.features() as u32, Some(learner.spec().clone()));
        talk.reply(Reply::Ready(Ready { features, sub_model })).await?;
        let ended = self
            .obey(&mut talk, (&mut learner, &mut elsewhere), active, &mut admitted, &mut on_event)
            .await;
        if let Some(admitted) = &admitted {
            admitted.ended(ended.as_ref().ok().map(|outcome| &outcome.version)).await;
        }
        ended
    }

    /// Executes the commands after `ready`. `elsewhere` has the records that are not in memory.
    async fn obey<S: CommandStream>(
        &self,
        talk: &mut Conversation<'_, S>,
        (learner, elsewhere): (&mut PartyLearner, &mut Option<RemoteRecords<'_>>),
        active: bool,
        admitted: &mut Option<AdmittedTraining>,
        on_event: &mut (impl FnMut(TrainingEvent) + Send),
    ) -> Result<TrainingOutcome, Refusal> {
        loop {
            match talk.next().await? {
                Command::Step(step) => {
                    if let Some(admitted) = admitted.as_mut() {
                        admitted.step(&step).await?;
                    }
                    let rows = match elsewhere {
                        Some(elsewhere) if !step.batch.is_empty() => {
                            check_batch(learner, &step)?;
                            learner
                                .check_positions(&step.batch)
                                .map_err(|e| learner_refusal(&e))?;
                            Some(elsewhere.rows(&step).await?)
                        }
                        _ => None,
                    };
                    if let Some(shares) =
                        heavy(learner.work(step.batch.len()), || take_step(learner, &step, rows))?
                    {
                        talk.reply(Reply::Shares(shares)).await?;
                    }
                }
                Command::Store { from_checkpoint } => {
                    let parameters =
                        learner.parameters(from_checkpoint).map_err(|e| learner_refusal(&e))?;
                    let privacy = learner.privacy();
                    if let Some(privacy) = &privacy {
                        tracing::info!(%privacy, "this party's parameters are private");
                    }
                    let stored = self.store(talk, (&parameters, privacy), active).await?;
                    return self.publish(talk, &stored, active, on_event).await;
                }
                Command::Progress(progress) => on_event(TrainingEvent::Progress(progress)),
                Command::Publish(_) => return Err(not_stored()),
                other => return Err(unexpected("a step", &other)),
            }
        }
    }

    /// Stores the parameters as the coordinator has commanded; returns their digest.
    async fn store<S: CommandStream>(
        &self,
        talk: &mut Conversation<'_, S>,
        (parameters, privacy): (&Parameters, Option<PrivacyStatement>),
        active: bool,
    ) -> Result<String, Refusal> {
        let digest = self
            .store
            .put(parameters, self.feature_names)
            .map_err(|e| store_refusal(&e, active))?;
        talk.reply(Reply::Stored(ShareStored { digest: digest.clone(), privacy })).await?;
        Ok(digest)
    }

    /// Waits for the command to store the parameters of a private training, and publishes them.
    pub(super) async fn store_and_publish<S: CommandStream>(
        &self,
        talk: &mut Conversation<'_, S>,
        mut own: OwnModel,
        active: bool,
        on_event: &mut (impl FnMut(TrainingEvent) + Send),
    ) -> Result<TrainingOutcome, Refusal> {
        loop {
            match talk.next().await? {
                Command::Step(step) => {
                    let share = heavy(own.work(&step), || own.calibrate(&step))?;
                    talk.reply(Reply::Shares(BatchShares { step: step.number, share })).await?;
                }
                Command::Store { .. } => {
                    let parameters = own.parameters();
                    let stored = self.store(talk, (&parameters, None), active).await?;
                    return self.publish(talk, &stored, active, on_event).await;
                }
                // The others may close their sessions later.
                Command::Piece(_) => {}
                Command::Publish(_) => return Err(not_stored()),
                other => return Err(unexpected("store", &other)),
            }
        }
    }

    /// Publishes the share stored under `stored`, as the coordinator commands.
    async fn publish<S: CommandStream>(
        &self,
        talk: &mut Conversation<'_, S>,
        stored: &str,
        active: bool,
        on_event: &mut (impl FnMut(TrainingEvent) + Send),
    ) -> Result<TrainingOutcome, Refusal> {
        let mut version = None;
        loop {
            match talk.next().await? {
                Command::Publish(binding) => {
                    if stored != binding.digest {
                        return Err(not_stored());
                    }
                    self.store
                        .bind(&binding.version, &binding.digest)
                        .map_err(|e| store_refusal(&e, active))?;
                    talk.reply(Reply::Published).await?;
                    if !active {
                        return Ok(TrainingOutcome { version: binding.version, published: None });
                    }
                    version = Some(binding.version);
                }
                Command::Published(published) => {
                    on_event(TrainingEvent::Published(published.clone()));
                    let version = version.ok_or_else(|| {
                        Refusal::precondition("published without a publish command")
                    })?;
                    return Ok(TrainingOutcome { version, published: Some(published) });
                }
                other => return Err(unexpected("publish", &other)),
            }
        }
    }
}

/// Draws the seed of the noise. It is never the seed of the training, which all parties know.
fn noise_seed() -> Result<InitialSeed, Refusal> {
    let mut seed = InitialSeed::default();
    SysRng.try_fill_bytes(&mut seed).map_err(|_| {
        Refusal::internal("the operating system gives no random numbers, so no training begins")
    })?;
    Ok(seed)
}

async fn receive_records<S: CommandStream>(
    talk: &mut Conversation<'_, S>,
    expected: u32,
) -> Result<RecordIds, Refusal> {
    let mut all = vfl_core::types::RecordIdsBuilder::default();
    let mut received = 0usize;
    while received < expected as usize {
        match talk.next().await? {
            Command::Records(chunk) => {
                received += chunk.len();
                if chunk.is_empty() || received > expected as usize {
                    let (unit, expected) = ("records", expected as usize);
                    return Err(WireError::Size {
                        field: "records",
                        unit,
                        expected,
                        got: received,
                    }
                    .into());
                }
                chunk.iter().for_each(|id| all.push(id));
            }
            other => return Err(unexpected("records", &other)),
        }
    }
    all.finish().map_err(|source| WireError::Ids { field: "records", source }.into())
}

fn take_step(
    learner: &mut PartyLearner,
    step: &Step,
    rows: Option<DMatrix<f64>>,
) -> Result<Option<BatchShares>, Refusal> {
    let width = learner.width();
    if let Some(gradient) = &step.gradient {
        let got = gradient.matrix().nrows();
        if got != width {
            return Err(WireError::Size {
                field: "gradient",
                unit: "columns",
                expected: width,
                got,
            }
            .into());
        }
        learner.update(gradient.matrix()).map_err(|e| learner_refusal(&e))?;
    }
    if step.checkpoint {
        learner.checkpoint();
    }
    if step.restore {
        learner.restore().map_err(|e| learner_refusal(&e))?;
    }
    if step.batch.is_empty() {
        return Ok(None);
    }
    check_batch(learner, step)?;
    let share = match rows {
        Some(rows) => learner.shares_of(&step.batch, rows, step.evaluation),
        None => learner.shares(&step.batch, step.evaluation),
    };
    let share = share.map_err(|e| learner_refusal(&e))?;
    Ok(Some(BatchShares { step: step.number, share }))
}

/// Checks that the answer will fit into a message, before any memory for it is allocated.
fn check_batch(learner: &PartyLearner, step: &Step) -> Result<(), Refusal> {
    let width = learner.width();
    let most = max_batch(width);
    if step.batch.len() > most {
        let (unit, got) = ("records", step.batch.len());
        let message = format!(
            "`batch` has {got} {unit}, logit shares of {width} classes fit a message up to {most}"
        );
        return Err(Refusal::invalid(message));
    }
    Ok(())
}

fn not_stored() -> Refusal {
    Refusal::precondition("publish: `digest` is not that of the share stored in this training")
}

fn learner_refusal(error: &LearnerError) -> Refusal {
    match error {
        LearnerError::NoCheckpoint => Refusal::precondition(error.to_string()),
        LearnerError::Privacy(error) => error.clone().into(),
        // An overflow is caused by the configuration, not by the peer.
        LearnerError::Shape(ShapeError::NotFinite { .. }) => {
            Refusal::precondition(format!("training diverged: {error}; lower the learning rate"))
        }
        _ => Refusal::invalid(error.to_string()),
    }
}

/// Returns the refusal for a failing store. It names the party, since the participant's errors
/// reach the active party's user unchanged.
fn store_refusal(error: &StoreError, active: bool) -> Refusal {
    match error {
        StoreError::Digest(_) => Refusal::invalid(error.to_string()),
        // The error names a file of this party, which other parties must not see.
        _ => {
            tracing::error!(%error, "the parameters cannot be stored, so nothing is published");
            let who = if active { "the active party" } else { "the passive party" };
            let why = if error.disk_full() { ": its disk is full" } else { "; its log says why" };
            Refusal::own_state(error.away(), format!("{who} cannot store the parameters{why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use vfl_state::state_file::StateFileError;

    #[test]
    fn a_store_that_refuses_is_told_by_its_party_and_without_its_path() {
        let told = |kind, active| {
            let error = StateFileError::io("write", "/var/lib/secret/share", io::Error::from(kind));
            store_refusal(&error.into(), active).message
        };
        let full = "the active party cannot store the parameters: its disk is full";
        assert_eq!(told(io::ErrorKind::StorageFull, true), full);
        assert_eq!(told(io::ErrorKind::QuotaExceeded, true), full);
        let full = "the passive party cannot store the parameters: its disk is full";
        assert_eq!(told(io::ErrorKind::StorageFull, false), full);
        let other = "the passive party cannot store the parameters; its log says why";
        assert_eq!(told(io::ErrorKind::PermissionDenied, false), other);
    }
}
