//! A party's side of one training: the loop that answers the coordinator's commands.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::model::{LearnerError, PartyLearner, ShareStore, StoreError, TrainingConfig};
use crate::rpc::pb::{self, training_command::Command, training_reply::Reply};
use crate::rpc::{
    MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, decode_columns, encode_columns, peer_failure, require,
};
use crate::types::{FeatureBlock, ModelVersion, PartyName, RecordIds};

use super::gate::{Admitted, TrainingGate};
use super::journal::Proposal;

/// The most records of one training.
const MAX_RECORDS: u32 = 10_000_000;
/// The most classes of a model.
const MAX_CLASSES: u32 = 65_536;

/// Where a participant gets its features from: the block of the given records, in their order.
pub type RecordSource<'a> = &'a (dyn Fn(&RecordIds) -> Result<FeatureBlock, Refusal> + Send + Sync);

/// What a participant may tell its user while training runs.
#[derive(Debug, Clone, PartialEq)]
pub enum TrainingEvent {
    /// The coordinator's word on an epoch (active party alone).
    Progress(pb::TrainingProgress),
    /// The coordinator's last word: the version is in service (active party alone).
    Published(pb::TrainingPublished),
}

/// How a training ended at this party.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingOutcome {
    /// The version this party can now serve.
    pub version: ModelVersion,
    /// The coordinator's summary (active party alone).
    pub published: Option<pb::TrainingPublished>,
}

/// One party's part in one training.
pub struct Participant<'a> {
    /// For messages: "the coordinator `c` at …".
    pub coordinator: String,
    /// This party's disk.
    pub store: &'a ShareStore,
    /// Names of its features, in the order of the block's rows.
    pub feature_names: &'a [String],
    /// The records of an active party, which knows them; a passive party is told.
    pub known_records: Option<RecordIds>,
    /// Where features come from.
    pub source: RecordSource<'a>,
    /// What this party consents to; `None` for the active party, which asked for the training.
    pub gate: Option<Arc<dyn TrainingGate>>,
}

/// The first command, checked.
struct Begin {
    config: TrainingConfig,
    class_names: Vec<String>,
    active_party: Option<PartyName>,
    records: u32,
}

impl Participant<'_> {
    /// Whether this party is the active one: it knows the records, learns the bias, and hears of progress.
    fn is_active(&self) -> bool {
        self.known_records.is_some()
    }

    /// Answers commands until the version is published (passive party: confirmed), telling `on_event` on the way.
    ///
    /// Nothing is published by this party unless the coordinator said so: an error anywhere leaves the versions already on
    /// disk as they were.
    ///
    /// # Errors
    /// [`Refusal`] naming the coordinator when it goes away, breaks the protocol, or asks for records that are not here.
    pub async fn run(
        mut self,
        commands: impl Stream<Item = Result<pb::TrainingCommand, Status>> + Send,
        replies: &mpsc::Sender<Result<pb::TrainingReply, Status>>,
        mut on_event: impl FnMut(TrainingEvent) + Send,
    ) -> Result<TrainingOutcome, Refusal> {
        let mut commands = std::pin::pin!(commands);
        let begin = match self.next(&mut commands).await? {
            Command::Begin(begin) => self.check_begin(begin)?,
            other => return Err(unexpected("begin", &other)),
        };
        let ids = match self.known_records.take() {
            Some(ids) => ids,
            None => self.receive_records(&mut commands, begin.records).await?,
        };
        let (config, classes, active) = (begin.config.clone(), begin.class_names.len(), begin.records == 0);
        let mut admitted = match (self.gate.take(), begin.active_party) {
            (Some(gate), Some(active_party)) => {
                let Begin { config, class_names, .. } = begin;
                Some(Admitted::ask(gate, Proposal { active_party, config, class_names, ids: ids.clone() })?)
            }
            (Some(_), None) => return Err(Refusal::invalid("`active_party`: missing")),
            (None, _) => None,
        };
        let block = match (self.source)(&ids) {
            Ok(block) => block,
            Err(refusal) => {
                if let Some(admitted) = &admitted {
                    admitted.records_missing().await?;
                }
                return Err(refusal);
            }
        };
        let mut learner = PartyLearner::new(&config, classes, block, active);
        self.reply(&mut commands, replies, Reply::Ready(pb::TrainingReady { features: learner.features() as u32 }))
            .await?;
        let ended =
            self.obey(&mut commands, replies, &mut learner, classes, active, &mut admitted, &mut on_event).await;
        if let Some(admitted) = &admitted {
            admitted.ended(ended.as_ref().ok().map(|outcome| &outcome.version)).await;
        }
        ended
    }

    /// Answers the commands after `ready`.
    #[allow(clippy::too_many_arguments)]
    async fn obey<S>(
        &self,
        commands: &mut std::pin::Pin<&mut S>,
        replies: &mpsc::Sender<Result<pb::TrainingReply, Status>>,
        learner: &mut PartyLearner,
        classes: usize,
        active: bool,
        admitted: &mut Option<Admitted>,
        on_event: &mut (impl FnMut(TrainingEvent) + Send),
    ) -> Result<TrainingOutcome, Refusal>
    where
        S: Stream<Item = Result<pb::TrainingCommand, Status>> + Send,
    {
        let (mut version, mut stored) = (None, None);
        loop {
            match self.next(commands).await? {
                Command::Step(step) => {
                    if let Some(admitted) = admitted.as_mut() {
                        admitted.step(&step).await?;
                    }
                    if let Some(shares) = take_step(learner, classes, &step)? {
                        self.reply(commands, replies, Reply::Shares(shares)).await?;
                    }
                }
                Command::Store(store) => {
                    let parameters = learner.parameters(store.from_checkpoint).map_err(|e| learner_refusal(&e))?;
                    let digest = self.store.put(parameters, self.feature_names).map_err(|e| store_refusal(&e))?;
                    stored = Some(digest.clone());
                    self.reply(commands, replies, Reply::Stored(pb::ShareStored { digest })).await?;
                }
                Command::Publish(publish) => {
                    let named = WireError::model_version(publish.model_version)?;
                    if stored.as_ref() != Some(&publish.digest) {
                        let message = "publish: `digest` is not that of the share stored in this training";
                        return Err(Refusal::precondition(message));
                    }
                    self.store.bind(&named, &publish.digest).map_err(|e| store_refusal(&e))?;
                    self.reply(commands, replies, Reply::Published(pb::SharePublished {})).await?;
                    if !active {
                        return Ok(TrainingOutcome { version: named, published: None });
                    }
                    version = Some(named);
                }
                Command::Progress(progress) => on_event(TrainingEvent::Progress(progress)),
                Command::Published(published) => {
                    on_event(TrainingEvent::Published(published.clone()));
                    let version =
                        version.ok_or_else(|| Refusal::precondition("published without a publish command"))?;
                    return Ok(TrainingOutcome { version, published: Some(published) });
                }
                other => return Err(unexpected("a step", &other)),
            }
        }
    }

    fn check_begin(&self, begin: pb::TrainingBegin) -> Result<Begin, Refusal> {
        let config = TrainingConfig::try_from(&require("config", begin.config)?)?;
        let range = |field, reason| Refusal::from(WireError::Range { field, reason });
        if !(2..=MAX_CLASSES).contains(&begin.classes) {
            return Err(range("classes", "2 to 65536"));
        }
        if begin.class_names.len() != begin.classes as usize {
            let (expected, got) = (begin.classes as usize, begin.class_names.len());
            return Err(WireError::Size { field: "class_names", unit: "names", expected, got }.into());
        }
        if begin.record_count > MAX_RECORDS || (begin.record_count == 0) != self.is_active() {
            return Err(range("record_count", "0 to the active party, 1 to 10 million to a passive party"));
        }
        let active_party = match begin.active_party.as_str() {
            "" => None,
            _ => Some(WireError::party_name("active_party", begin.active_party)?),
        };
        Ok(Begin { config, class_names: begin.class_names, active_party, records: begin.record_count })
    }

    async fn receive_records<S>(
        &self,
        commands: &mut std::pin::Pin<&mut S>,
        expected: u32,
    ) -> Result<RecordIds, Refusal>
    where
        S: Stream<Item = Result<pb::TrainingCommand, Status>>,
    {
        let mut all = crate::types::RecordIdsBuilder::default();
        let mut received = 0usize;
        while received < expected as usize {
            match self.next(commands).await? {
                Command::Records(chunk) => {
                    let chunk = RecordIds::try_from(chunk)?;
                    received += chunk.len();
                    if chunk.is_empty() || received > expected as usize {
                        let (unit, expected) = ("records", expected as usize);
                        return Err(WireError::Size { field: "records", unit, expected, got: received }.into());
                    }
                    chunk.iter().for_each(|id| all.push(id));
                }
                other => return Err(unexpected("records", &other)),
            }
        }
        all.finish().map_err(|source| WireError::Ids { field: "records", source }.into())
    }

    /// Answers. When the coordinator takes no answer any more, what it said last tells why.
    async fn reply<S>(
        &self,
        commands: &mut std::pin::Pin<&mut S>,
        replies: &mpsc::Sender<Result<pb::TrainingReply, Status>>,
        reply: Reply,
    ) -> Result<(), Refusal>
    where
        S: Stream<Item = Result<pb::TrainingCommand, Status>>,
    {
        if replies.send(Ok(pb::TrainingReply { reply: Some(reply) })).await.is_ok() {
            return Ok(());
        }
        loop {
            self.next(commands).await?;
        }
    }

    async fn next<S>(&self, commands: &mut std::pin::Pin<&mut S>) -> Result<Command, Refusal>
    where
        S: Stream<Item = Result<pb::TrainingCommand, Status>>,
    {
        match commands.next().await {
            Some(Ok(message)) => Ok(require("command", message.command)?),
            Some(Err(status)) => Err(training_failure(&self.coordinator, &status)),
            None => {
                let message = format!("{} ended the training before a model was published", self.coordinator);
                Err(Refusal::unavailable(message))
            }
        }
    }
}

/// The most records whose logit shares fit one message.
#[must_use]
pub fn max_batch(classes: usize) -> usize {
    // What is left is for the fields around the matrix.
    (MAX_MESSAGE_BYTES - 4096) / (8 * classes.max(1))
}

/// What the coordinator says of a third party must come through as it is; what stands for its own silence names it.
fn training_failure(coordinator: &str, status: &Status) -> Refusal {
    let relayed = RefusalKind::from_code(status.code());
    let message = status.message();
    if !message.is_empty() && std::error::Error::source(status).is_none() {
        return Refusal::new(relayed, message.to_owned());
    }
    peer_failure(coordinator, status)
}

fn take_step(
    learner: &mut PartyLearner,
    classes: usize,
    step: &pb::TrainingStep,
) -> Result<Option<pb::BatchShares>, Refusal> {
    if let Some(gradient) = &step.gradient {
        let gradient = decode_columns("gradient", gradient, gradient.rows as usize, Some(classes))?;
        learner.update(&gradient).map_err(|e| learner_refusal(&e))?;
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
    // The answer must fit a message; memory for one that would not is never asked for.
    let most = max_batch(classes);
    if step.batch.len() > most {
        let (unit, got) = ("records", step.batch.len());
        let message = format!("`batch` has {got} {unit}, logit shares of {classes} classes fit a message up to {most}");
        return Err(Refusal::invalid(message));
    }
    let share = learner.shares(&step.batch, step.evaluation).map_err(|e| learner_refusal(&e))?;
    Ok(Some(pb::BatchShares { step: step.step, shares: Some(encode_columns(&share)) }))
}

fn unexpected(wanted: &str, got: &Command) -> Refusal {
    let got = match got {
        Command::Begin(_) => "begin",
        Command::Records(_) => "records",
        Command::Step(_) => "a step",
        Command::Store(_) => "store",
        Command::Publish(_) => "publish",
        Command::Progress(_) => "progress",
        Command::Published(_) => "published",
    };
    Refusal::invalid(format!("training protocol: expected {wanted}, got {got}"))
}

fn learner_refusal(error: &LearnerError) -> Refusal {
    match error {
        LearnerError::NoCheckpoint => Refusal::precondition(error.to_string()),
        // An overflow is the configuration's doing, not the peer's.
        LearnerError::Shape(crate::types::ShapeError::NotFinite { .. }) => {
            Refusal::precondition(format!("training diverged: {error}; lower the learning rate"))
        }
        _ => Refusal::invalid(error.to_string()),
    }
}

fn store_refusal(error: &StoreError) -> Refusal {
    match error {
        StoreError::Digest(_) => Refusal::invalid(error.to_string()),
        _ => Refusal::internal(error.to_string()),
    }
}
