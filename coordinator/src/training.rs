//! The driver of a training: batches out, logit shares in, gradients out; then it publishes in two
//! phases.

mod checks;
mod client;
mod job;
mod private;
mod steps;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use vfl_core::model::contract::start_of;
use vfl_core::model::{
    HeadLearner, ModelSpec, Parameters, Schedule, SubModelSpec, TrainingMode, heads, kinds,
};
use vfl_core::types::{ConfidenceScores, PartyName, RecordIds, RecordIdsBuilder};
use vfl_defense::Policy;
use vfl_party::training::max_batch;
use vfl_protocol::training::computation::ComputationLayout;
use vfl_protocol::training::messages::{
    Begin, Binding, Command, PublishedVersion, ShareStored, Start,
};
use vfl_protocol::{LIST_CHUNK_RECORDS, Refusal, RefusalKind, WireError};
use vfl_server::service::{Credentials, PeerIdentity};
use vfl_state::blocking::heavy;

use crate::catalogue::{Catalogue, PublishLock};
use crate::client::PassiveParty;
use crate::config::TrainingPolicy;
use crate::publish::{
    check_class_names, check_features, check_numbers, check_owner, published, put_in_service,
};
use crate::registry::{Manifest, PartyEntry, TrainingSummary};
use checks::ShareBound;
pub use checks::check_residuals;
use client::Link;
pub use client::{CommandSender, ReplyStream};
use job::{Job, JournaledTraining, not_recorded};
use steps::{Outcome, Parties, VALIDATION_CHUNK, calibrate_alone, head_refusal, learn};

/// The most records of one training.
const MAX_RECORDS: u32 = 10_000_000;

/// The driver of trainings.
#[derive(Debug)]
pub struct TrainingDriver {
    /// The catalogue where models are published, one at a time.
    pub catalogue: Arc<Catalogue>,
    /// The passive parties, in the order of summation.
    pub passive: Vec<Arc<PassiveParty>>,
    /// The operator's policy on training.
    pub policy: TrainingPolicy,
    /// The one active party that this coordinator serves; `None`: the first one to have a model
    /// published.
    pub active_party: Option<PartyName>,
    /// The policy of the live service, which must be able to serve the model.
    pub live: Policy,
    /// The identity of this coordinator, which computes in private trainings.
    pub credentials: Credentials,
}

impl TrainingDriver {
    /// Checks that this active party may have a model put in service: the configuration names none
    /// or this one, and the model in service, if any, is its own.
    ///
    /// # Errors
    /// PERMISSION_DENIED naming the party whose service this is.
    pub(crate) fn check_caller(&self, caller: &PartyName, doing: &str) -> Result<(), Refusal> {
        if let Some(name) = self.active_party.as_ref().filter(|name| *name != caller) {
            let message = format!(
                "this coordinator serves active party `{name}` (`active_party` in its configuration)"
            );
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        check_owner(self.catalogue.registry(), caller, doing)
    }

    /// Runs one training for the active party behind the two streams.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that went away, refused or broke the protocol. The model in
    /// service stays in service.
    pub async fn run(
        &self,
        caller: &PeerIdentity,
        replies: impl ReplyStream,
        commands: CommandSender,
    ) -> Result<(), Refusal> {
        if !self.policy.allowed {
            let message =
                "training is not allowed here; the operator may set `allowed = true` in [training]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        self.check_caller(caller.name(), "train another")?;
        let mut turn = self.catalogue.turn().await?;
        // Another coordinator may have published since the first check.
        self.check_caller(caller.name(), "train another")?;
        let timeout = Duration::from_secs(self.policy.step_timeout_s);
        let mut active =
            Link::to_caller((caller.name().clone(), caller.words()), replies, commands, timeout);
        let start = active.start().await?;
        check_start(&start)?;
        check_live(&self.live, start.config.values().model.kind())?;
        check_numbers(&self.live, start.config.values().model.link()?)?;
        let layout = self.layout(&start)?;
        // Every passive party has consented before a record is received: nothing is held for a
        // training that nobody takes part in.
        let asks = &active.name;
        let passive = try_join_all(
            self.passive.iter().map(|party| open(party, begin(asks, &start, &layout), timeout)),
        )
        .await?;
        // Each message has a deadline, and so have all of them together: a trickle must not keep
        // others from training.
        let received = receive_job(&mut active, start, layout);
        let job = tokio::time::timeout(10 * timeout, received).await.map_err(|_| {
            let message = format!("the records did not arrive in {} s", 10 * timeout.as_secs());
            Refusal::new(RefusalKind::DeadlineExceeded, message)
        })??;
        tracing::info!(caller = %caller, records = job.ids.len(), "training starts");
        let mut links = vec![active];
        links.extend(
            try_join_all(passive.into_iter().map(|link| send_records(link, &job.ids))).await?,
        );
        links[0].send(Command::Begin(job.begin())).await?;
        let (mut features, mut sub_models) =
            (Vec::with_capacity(links.len()), Vec::with_capacity(links.len()));
        for link in &mut links {
            let ready = link.ready().await?;
            check_features(ready.features).map_err(|e| link.wrong(&e))?;
            features.push(ready.features);
            sub_models.push(sub_model(&job, ready.sub_model).map_err(|e| link.wrong(&e))?);
        }
        let passive = sub_models.split_off(1);
        let Some(active) = sub_models.pop() else {
            return Err(Refusal::internal("no active party in training"));
        };
        let k = job.class_names.len() as u32;
        let model = job.config.values().model.model(k, active, passive)?;
        if job.layout.is_none() {
            check_head(&model, &job)?;
        }
        // Durable before anything that depends on parameters is asked for, and for good, even if
        // the training is aborted.
        let mut recorded = self.record(&mut turn, &job).await?;
        let trained = match &job.layout {
            Some(layout) => {
                let (proposal, credentials) = (job.proposal(), &self.credentials);
                let parties = (&proposal, layout);
                let computed =
                    private::compute(&mut links, credentials, parties, &features, &mut recorded);
                let epochs = turn.during(computed).await?;
                let calibration = match layout.calibration {
                    true => Some(turn.during(calibrate_fresh(&mut links, &job, &model)).await?),
                    false => None,
                };
                Trained { outcome: Outcome::of_epochs(epochs, calibration), top: None }
            }
            None => {
                let learnt = learn_plainly(&mut links, &job, &model, &features, &mut recorded);
                turn.during(learnt).await?
            }
        };
        let Trained { outcome, top } = trained;
        let published =
            self.publish(&mut turn, &mut links, &job, (model, top, &features), &outcome).await?;
        recorded.published = Some(published.version.clone());
        drop(recorded);
        // Before the last message: whoever has it may ask for the next training at once.
        turn.end().await;
        // The model is in service even if the active party is no longer there to hear it.
        if let Err(refusal) = links[0].send(Command::Published(published)).await {
            tracing::warn!(reason = %refusal, "the active party was not told that its model is in service");
        }
        Ok(())
    }

    /// Returns the parties of a private training: which of them computes is this coordinator's
    /// setting, and each of them consents to it.
    fn layout(&self, start: &Start) -> Result<Option<ComputationLayout>, Refusal> {
        if start.config.values().mode == TrainingMode::Plain {
            return Ok(None);
        }
        let passive: Vec<PartyName> =
            self.passive.iter().map(|party| party.peer().name.clone()).collect();
        let first = passive.first();
        let Some(computing) = self.policy.computing_party.as_ref().or(first).cloned() else {
            return Err(Refusal::precondition("a private training needs a passive party"));
        };
        // Defenses that are fitted are of scores.
        let calibration = self.policy.calibration && start.class_names.len() > 1;
        Ok(Some(ComputationLayout { passive, computing, calibration }))
    }

    /// Records the training. Its records count as training records from now on.
    async fn record(
        &self,
        turn: &mut PublishLock<'_>,
        job: &Job,
    ) -> Result<JournaledTraining, Refusal> {
        let number = turn.begin_training(job.proposal()).await.map_err(|e| not_recorded(&e))?;
        Ok(JournaledTraining {
            registry: self.catalogue.registry().clone(),
            number,
            steps: 0,
            published: None,
        })
    }

    /// Publishes in two phases. Phase one: every party stores its share. Phase two: every party is
    /// told the version and confirms; then the coordinator switches. A failure before the switch
    /// leaves the old version in service, whole at every party.
    async fn publish(
        &self,
        turn: &mut PublishLock<'_>,
        links: &mut [Link],
        job: &Job,
        (model, top, features): (ModelSpec, Option<Parameters>, &[u32]),
        outcome: &Outcome,
    ) -> Result<PublishedVersion, Refusal> {
        let mut entries = Vec::with_capacity(links.len());
        for link in links.iter_mut() {
            link.stage = "storing the shares".into();
            link.send(Command::Store { from_checkpoint: outcome.from_checkpoint }).await?;
        }
        for (link, &features) in links.iter_mut().zip(features) {
            let ShareStored { digest: share, privacy } = link.stored().await?;
            entries.push(PartyEntry { name: link.name.clone(), features, share, privacy });
        }
        let privacy =
            entries.iter().filter_map(|entry| Some((entry.name.clone(), entry.privacy?))).collect();
        let top = match top {
            Some(top) => Some(self.store_top(top, &entries, &model).await?),
            None => None,
        };
        let validation = Schedule::new(&job.config, job.ids.len()).validation().len();
        let summary = TrainingSummary {
            config: job.config.clone(),
            epochs: outcome.epochs,
            best_epoch: outcome.best_epoch,
            steps: outcome.steps,
            training_records: (job.ids.len() - validation) as u32,
            validation_records: validation as u32,
        };
        let passive = entries.split_off(1);
        let Some(active) = entries.pop() else {
            return Err(Refusal::internal("no active party in training"));
        };
        let digests: Vec<String> =
            std::iter::once(&active).chain(&passive).map(|e| e.share.clone()).collect();
        let classes = job.class_names.clone();
        let manifest = Manifest::with_top(
            model,
            top,
            classes,
            active,
            (passive, Some(summary.clone())),
            &job.ids,
        )?;
        let version = manifest.version.clone();
        let confirmed = async {
            for (link, digest) in links.iter_mut().zip(digests) {
                link.stage = "publishing".into();
                link.send(Command::Publish(Binding { version: version.clone(), digest })).await?;
            }
            for link in links.iter_mut() {
                link.published().await?;
            }
            Ok(())
        };
        let calibration = outcome.calibration.clone();
        put_in_service(turn, manifest, calibration, confirmed).await?;
        Ok(PublishedVersion { privacy, ..published(&version, Some(&summary), job.ids.len()) })
    }
}

impl TrainingDriver {
    /// Stores the top model, with the parties' outputs by name and number as names of its inputs;
    /// returns its hash.
    async fn store_top(
        &self,
        top: Parameters,
        parties: &[PartyEntry],
        model: &ModelSpec,
    ) -> Result<String, Refusal> {
        let inputs = top_inputs(parties, model);
        let registry = self.catalogue.registry().clone();
        let stored = tokio::task::spawn_blocking(move || registry.store_top(top, &inputs)).await;
        let stored = stored.map_err(|_| Refusal::internal("storing the top model failed"))?;
        stored.map_err(|error| {
            tracing::error!(%error, "the top model cannot be stored, so nothing is published");
            Refusal::internal("the top model cannot be stored; the coordinator's log says why")
        })
    }
}

/// Names a top model's inputs: the parties' outputs by name and number.
pub(crate) fn top_inputs(parties: &[PartyEntry], model: &ModelSpec) -> Vec<String> {
    let numbers = parties.iter().zip(model.widths());
    numbers
        .flat_map(|(party, width)| (1..=width).map(move |n| format!("{}.{n}", party.name)))
        .collect()
}

/// Refuses a model that the live defense could not be applied to: it would replace one that is
/// served.
pub(crate) fn check_live(live: &Policy, kind: &str) -> Result<(), Refusal> {
    let kind = kinds::find(kind)?;
    match live.defenses.iter().find(|defense| defense.needs_passive_weights()) {
        Some(defense) if !kind.linear() => Err(Refusal::precondition(format!(
            "the coordinator's [defense] is `{defense}`, which takes the passive weights of a linear model, and `{}` is none",
            kind.name()
        ))),
        _ => Ok(()),
    }
}

/// The most values of a batch in the head: 512 MiB.
const MAX_HEAD_VALUES: u64 = 1 << 26;

/// Refuses a model whose batches would not fit in memory here, before anything of its size is asked
/// for.
fn check_head(model: &ModelSpec, job: &Job) -> Result<(), Refusal> {
    let inputs: usize = model.widths().iter().sum();
    let top = match model.top() {
        Some(top) => kinds::find(top.kind())?.values(top, inputs),
        None => job.class_names.len() as u64,
    };
    let each = top.saturating_add(inputs as u64);
    let records =
        Schedule::largest_batch(&job.config).max(VALIDATION_CHUNK).min(job.ids.len()) as u64;
    let values = records.saturating_mul(each);
    if values > MAX_HEAD_VALUES {
        return Err(Refusal::invalid(format!(
            "a batch of {records} records would take {values} values at the coordinator, {MAX_HEAD_VALUES} at most; make batches, \
             `width` or `top` smaller"
        )));
    }
    Ok(())
}

/// Returns the sub-model that a party says it trains; refuses any but the one that was asked for.
fn sub_model(job: &Job, said: Option<SubModelSpec>) -> Result<SubModelSpec, Refusal> {
    let classes = job.class_names.len() as u32;
    let asked = job.config.values().model.sub_model(classes)?;
    let said = said.unwrap_or_else(|| SubModelSpec::softmax_regression(classes));
    if said == asked {
        return Ok(asked);
    }
    let (kind, width) = (asked.kind(), asked.width());
    let (got, got_width) = (said.kind(), said.width());
    Err(Refusal::invalid(format!(
        "trains `{got}` of width {got_width}, this training is of `{kind}` of width {width}"
    )))
}

/// Returns the terms that a passive party is asked to consent to.
fn begin(active_party: &PartyName, start: &Start, layout: &Option<ComputationLayout>) -> Begin {
    Begin {
        config: start.config.clone(),
        class_names: start.class_names.clone(),
        record_count: start.record_count,
        active_party: Some(active_party.clone()),
        layout: layout.clone(),
    }
}

/// The result of a training, with the top model if there is one.
struct Trained {
    outcome: Outcome,
    top: Option<Parameters>,
}

/// Trains by batches of logit shares.
async fn learn_plainly(
    links: &mut [Link],
    job: &Job,
    model: &ModelSpec,
    features: &[u32],
    recorded: &mut JournaledTraining,
) -> Result<Trained, Refusal> {
    let k = job.class_names.len();
    let start = start_of(job.config.values().seed);
    let started = heavy(u64::MAX, || heads::start(model, k as u32, start))?;
    let mut head = HeadLearner::new(&job.config, started);
    let own = features.first().copied().unwrap_or_default();
    let bound = ShareBound::new(&job.config, model.active(), own)?;
    let mut parties = Parties { links, head: &mut head, classes: k };
    let outcome = learn(&mut parties, job, recorded, bound).await?;
    let top = head.parameters(outcome.from_checkpoint).map_err(|e| head_refusal(&e))?;
    Ok(Trained { outcome, top })
}

/// Scores records of a private training under the parameters that will be published.
async fn calibrate_fresh(
    links: &mut [Link],
    job: &Job,
    model: &ModelSpec,
) -> Result<ConfidenceScores, Refusal> {
    let k = job.class_names.len();
    let started = heads::start(model, k as u32, start_of(job.config.values().seed))?;
    let mut head = HeadLearner::new(&job.config, started);
    calibrate_alone(&mut Parties { links, head: &mut head, classes: k }, job).await
}

/// Checks what the active party asks for, before anybody is asked for anything.
fn check_start(start: &Start) -> Result<(), Refusal> {
    let config = &start.config;
    let k = start.class_names.len();
    let link = config.values().model.link()?;
    check_class_names(&start.class_names, if link.is_numeric() { 1 } else { 2 })?;
    let width = (config.values().model.sub_model(k as u32)?.width() as usize).max(k);
    let most = max_batch(width);
    let plain = config.values().mode == TrainingMode::Plain;
    if plain && Schedule::largest_batch(config) > most {
        let fits = most.div_ceil(2);
        let message = format!(
            "`batch_size`: with {width} outputs or classes at most {fits}, so that those of a batch fit a message"
        );
        return Err(Refusal::invalid(message));
    }
    if !(2..=MAX_RECORDS).contains(&start.record_count) {
        return Err(WireError::Range { field: "record_count", reason: "2 to 10 million" }.into());
    }
    Ok(())
}

/// Receives the records of a training and their labels.
async fn receive_job(
    active: &mut Link,
    start: Start,
    layout: Option<ComputationLayout>,
) -> Result<Job, Refusal> {
    let k = start.class_names.len();
    let expected = start.record_count as usize;
    let (mut ids, mut labels) =
        (RecordIdsBuilder::default(), Vec::with_capacity(expected.min(1 << 20)));
    let mut received = 0;
    while received < expected {
        let chunk = active.labelled().await?;
        let chunk_ids = chunk.ids;
        received += chunk_ids.len();
        if chunk_ids.is_empty() || received > expected {
            let got = received;
            return Err(WireError::Size { field: "ids", unit: "records", expected, got }.into());
        }
        // The labels of a private training are none of this coordinator's business.
        let labelled = if layout.is_none() { chunk_ids.len() } else { 0 };
        if chunk.labels.len() != labelled {
            let (expected, got) = (labelled, chunk.labels.len());
            return Err(WireError::Size { field: "labels", unit: "entries", expected, got }.into());
        }
        if chunk.labels.iter().any(|&l| l as usize >= k) {
            let reason = "a label is not below the number of classes";
            return Err(WireError::Range { field: "labels", reason }.into());
        }
        chunk_ids.iter().for_each(|id| ids.push(id));
        labels.extend(chunk.labels);
    }
    let ids = ids.finish().map_err(|source| WireError::Ids { field: "ids", source })?;
    let Start { config, class_names, .. } = start;
    Ok(Job { active_party: active.name.clone(), config, class_names, ids, labels, layout })
}

/// Opens a passive party's training stream and waits for its consent.
async fn open(party: &PassiveParty, begin: Begin, timeout: Duration) -> Result<Link, Refusal> {
    let mut link = Link::open(party, timeout).await?;
    link.send(Command::Begin(begin)).await?;
    link.consent().await?;
    Ok(link)
}

/// Sends a passive party that takes part the list of records.
async fn send_records(mut link: Link, ids: &RecordIds) -> Result<Link, Refusal> {
    link.stage = "the list of records".into();
    for from in (0..ids.len()).step_by(LIST_CHUNK_RECORDS) {
        link.send(Command::Records(ids.slice(from, from + LIST_CHUNK_RECORDS))).await?;
    }
    Ok(link)
}
