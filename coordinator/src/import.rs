//! Publication of parameters that the parties' operators have imported, without any training.
//!
//! The active party opens a stream and says what it has staged. Phase one: every passive party says
//! what its operator has staged for that active party. Phase two: the active party, then the
//! passive parties, bind their shares to the version; then the coordinator switches, as after a
//! training.

mod client;
mod top;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use vfl_core::model::{Combiner, Link, ModelSpec, SpecError, SubModelSpec, heads};
use vfl_core::types::{RecordIds, RecordIdsBuilder};
use vfl_defense::Policy;
use vfl_protocol::training::messages::{Binding, PublishCommand, PublishReply, PublishStart};
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, STREAM_CHUNK_RECORDS, WireError};
use vfl_server::service::PeerIdentity;

use client::ActiveStream;
pub use client::{CommandSender, ReplyStream};
use top::StagedTop;
pub use top::import_top;

use crate::client::PassiveParty;
use crate::config::PublishingPolicy;
use crate::policy::fitted_defense;
use crate::publish::{check_class_names, check_features, check_numbers, published, put_in_service};
use crate::registry::{Manifest, PartyEntry};
use crate::training::{TrainingDriver, check_live, top_inputs};

/// The most training ids of an imported model.
const MAX_RECORDS: u32 = 10_000_000;

/// The widest embedding of an imported model: the embeddings of a chunk of a stream must fit a
/// message.
const MAX_EMBEDDING: u32 = 2047;
const _: () =
    assert!(8 * MAX_EMBEDDING as usize * STREAM_CHUNK_RECORDS + 4096 <= MAX_MESSAGE_BYTES);

/// The driver that publishes imported parameters.
#[derive(Debug)]
pub struct ImportDriver {
    /// The training driver, which has the catalogue of models and the passive parties.
    pub training: Arc<TrainingDriver>,
    /// The operator's policy on publishing.
    pub policy: PublishingPolicy,
    /// The policy of the live service, which must be able to serve the model.
    pub live: Policy,
}

/// The message with which the active party opened the publication.
struct Job {
    class_names: Vec<String>,
    features: u32,
    digest: String,
    sub_model: Option<SubModelSpec>,
    training_ids: RecordIds,
}

/// The part that a passive party has staged.
struct StagedPart {
    entry: PartyEntry,
    sub_model: Option<SubModelSpec>,
}

impl ImportDriver {
    /// Publishes what the parties have staged, for the active party behind the two streams.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that has staged nothing that fits, went away, or refused. The
    /// model in service stays in service.
    pub async fn run(
        &self,
        caller: &PeerIdentity,
        replies: impl ReplyStream,
        commands: CommandSender,
    ) -> Result<(), Refusal> {
        if !self.policy.allowed {
            let message = "publishing imported parameters is not allowed here; the operator may set `allowed = true` in \
                           [publishing]";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        if let Some(defense) = fitted_defense(&self.live) {
            return Err(Refusal::precondition(format!(
                "the coordinator's [defense] is `{defense}`, which is fitted on scores of a training here, and imported \
                 parameters have none; configure another defense, or train the model here"
            )));
        }
        let (driver, timeout) =
            (&*self.training, Duration::from_secs(self.training.policy.step_timeout_s));
        let mut turn = driver.catalogue.turn().await?;
        driver.check_caller(caller.name(), "publish another")?;
        let mut active = ActiveStream::new(caller.words(), replies, commands, timeout);
        // Each message has a deadline, and so have all of them together: a trickle must not keep
        // others from training.
        let job = tokio::time::timeout(10 * timeout, receive_job(&mut active)).await.map_err(
            |_| {
                let message =
                    format!("the training ids did not arrive in {} s", 10 * timeout.as_secs());
                Refusal::new(RefusalKind::DeadlineExceeded, message)
            },
        )??;
        tracing::info!(caller = %caller, training_ids = job.training_ids.len(), "publishing imported parameters");
        let asked = driver.passive.iter().map(|party| describe(party, caller, &job, timeout));
        let passive = try_join_all(asked).await?;
        let top =
            StagedTop::find(driver.catalogue.registry(), caller.name(), &job.class_names).await?;
        let (manifest, top) = self.manifest(caller, &job, passive, top)?;
        let version = manifest.version.clone();
        if driver
            .catalogue
            .registry()
            .current()
            .is_some_and(|model| model.manifest.version == version)
        {
            let message = format!(
                "these very parameters are in service already, as model {version}; stage others"
            );
            return Err(Refusal::precondition(message));
        }
        let entries = manifest.passive_parties.clone();
        let confirmed = async {
            let binding =
                |digest: &str| Binding { version: version.clone(), digest: digest.to_owned() };
            // Before the passive parties: if the claim fails, their operators' consent is not used
            // up.
            if let Some(top) = &top {
                top.claim(&version).await?;
            }
            active.send(PublishCommand::Publish(binding(&job.digest))).await?;
            let PublishReply::Published = active.receive().await? else {
                return Err(active.unexpected("published"));
            };
            let told = driver.passive.iter().zip(&entries).map(|(party, entry)| {
                client::bind(party, caller.name(), &job.class_names, binding(&entry.share), timeout)
            });
            try_join_all(told).await.map(drop)
        };
        put_in_service(&mut turn, manifest, None, confirmed).await?;
        if let Some(top) = top {
            top.done().await;
        }
        // Before the last message: whoever has it may publish or train again at once.
        turn.end().await;
        let published = published(&version, None, job.training_ids.len());
        // The model is in service even if the active party is no longer there to hear it.
        if let Err(refusal) = active.send(PublishCommand::Published(published)).await {
            tracing::warn!(reason = %refusal, "the active party was not told that its model is in service");
        }
        Ok(())
    }
}

impl ImportDriver {
    /// Builds the manifest of the staged parts, and checks it as a model that the live service can
    /// serve. With a top model staged here outputs are embeddings for it; without one they are
    /// added.
    fn manifest(
        &self,
        caller: &PeerIdentity,
        job: &Job,
        described: Vec<StagedPart>,
        top: Option<StagedTop>,
    ) -> Result<(Manifest, Option<StagedTop>), Refusal> {
        let k = u32::try_from(job.class_names.len()).unwrap_or(u32::MAX);
        let plain = || SubModelSpec::softmax_regression(k);
        let active = job.sub_model.clone().unwrap_or_else(plain);
        let (name, share) = (caller.name().clone(), job.digest.clone());
        let entry = PartyEntry { name, features: job.features, share, privacy: None };
        let (entries, passive): (Vec<PartyEntry>, Vec<SubModelSpec>) = described
            .into_iter()
            .map(|one| (one.entry, one.sub_model.unwrap_or_else(plain)))
            .unzip();
        for sub_model in std::iter::once(&active).chain(&passive) {
            check_live(&self.live, sub_model.kind())?;
        }
        let wide = std::iter::once(&active)
            .chain(&passive)
            .map(SubModelSpec::width)
            .find(|width| *width > MAX_EMBEDDING);
        if let Some(width) = wide.filter(|_| top.is_some()) {
            return Err(Refusal::precondition(format!(
                "embeddings have at most {MAX_EMBEDDING} numbers here, so that those of {STREAM_CHUNK_RECORDS} records fit a message, and \
                 a party has staged outputs of {width}"
            )));
        }
        let combiner = if top.is_some() { Combiner::Concat } else { Combiner::Sum };
        let model = ModelSpec::new(combiner, active, passive, top.as_ref().map(StagedTop::spec))?;
        let link = model.link().map_err(|error| not_together(&error))?;
        if link.is_numeric() != (job.class_names.len() == 1) {
            return Err(Refusal::precondition(format!(
                "what the parties have staged is a model of link {link}, and the active party names {} outputs; scores have 2 or \
                 more classes, a number has the name of its label",
                job.class_names.len()
            )));
        }
        check_numbers(&self.live, link)?;
        let all: Vec<PartyEntry> = std::iter::once(&entry).chain(&entries).cloned().collect();
        top.as_ref().map_or(Ok(()), |top| top.check_inputs(&top_inputs(&all, &model)))?;
        let parameters = top.as_ref().map(StagedTop::parameters);
        heads::restore(&model, k, parameters.as_ref()).map_err(|error| not_together(&error))?;
        let (digest, classes) =
            (top.as_ref().map(|top| top.digest().to_owned()), job.class_names.clone());
        let manifest =
            Manifest::with_top(model, digest, classes, entry, (entries, None), &job.training_ids)?;
        Ok((manifest, top))
    }
}

/// Returns the refusal of staged parts that make no model.
fn not_together(error: &SpecError) -> Refusal {
    let mend = match error {
        SpecError::SumWidth { .. } => {
            "; if the outputs are embeddings, the coordinator's operator stages a top model for them (`coordinator \
             import-parameters`)"
        }
        _ => "",
    };
    Refusal::precondition(format!("what the parties have staged makes no model: {error}{mend}"))
}

/// Asks a passive party what it has staged for the caller; returns it as the manifest has it.
async fn describe(
    party: &PassiveParty,
    caller: &PeerIdentity,
    job: &Job,
    timeout: Duration,
) -> Result<StagedPart, Refusal> {
    let staged = client::staged(party, caller.name(), &job.class_names, timeout).await?;
    let wrong = |e: WireError| Refusal::internal(format!("{} answered with {e}", party.peer()));
    check_share(&staged.digest, staged.features).map_err(wrong)?;
    let entry = PartyEntry {
        name: party.peer().name.clone(),
        features: staged.features,
        share: staged.digest,
        privacy: None,
    };
    Ok(StagedPart { entry, sub_model: staged.sub_model })
}

fn check_share(digest: &str, features: u32) -> Result<(), WireError> {
    let hex = digest.len() == 64
        && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if !hex {
        return Err(WireError::Range {
            field: "digest",
            reason: "a SHA-256 in lower-case hexadecimal",
        });
    }
    check_features(features)
}

async fn receive_job(active: &mut ActiveStream) -> Result<Job, Refusal> {
    let PublishReply::Start(start) = active.receive().await? else {
        return Err(active.unexpected("start"));
    };
    let link = start.sub_model.as_ref().map_or(Ok(Link::Softmax), SubModelSpec::link)?;
    check_class_names(&start.class_names, if link.is_numeric() { 1 } else { 2 })?;
    check_share(&start.digest, start.features)?;
    if start.training_id_count > MAX_RECORDS {
        return Err(
            WireError::Range { field: "training_id_count", reason: "at most 10 million" }.into()
        );
    }
    let expected = start.training_id_count as usize;
    let (mut ids, mut received) = (RecordIdsBuilder::default(), 0);
    while received < expected {
        let PublishReply::TrainingIds(chunk) = active.receive().await? else {
            return Err(active.unexpected("training ids"));
        };
        received += chunk.len();
        if chunk.is_empty() || received > expected {
            return Err(WireError::Size {
                field: "training_ids",
                unit: "records",
                expected,
                got: received,
            }
            .into());
        }
        chunk.iter().for_each(|id| ids.push(id));
    }
    let training_ids =
        ids.finish().map_err(|source| WireError::Ids { field: "training_ids", source })?;
    let PublishStart { class_names, features, digest, sub_model, .. } = start;
    Ok(Job { class_names, features, digest, sub_model, training_ids })
}
