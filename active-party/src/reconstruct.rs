//! Runs attacks for the auditor: asks for the session's records as any prediction does, attacks what comes back, and hands
//! over the estimates. The truth is nowhere near.

use std::sync::Arc;
use std::time::Duration;

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::transport::Channel;
use vfl_shared::data::FeatureStore;
use vfl_shared::numerics::three_significant_digits;
use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::pb::{RowStatus, attack_result::Origin, reconstruct_event::Event};
use vfl_shared::rpc::{
    MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, decode_columns, encode_columns, pb, peer_failure, require,
};
use vfl_shared::service::{Credentials, Peer, TlsError, channel};
use vfl_shared::types::{ModelVersion, RecordIds};

use crate::attack::Status as Outcome;
use crate::attack::{AdversaryView, AttackError, Ended, KnownModel, Method, MethodError, Reconstruction, Settings};
use crate::scoring::{ModelDescription, Scored, Scorer};

/// The most attacks of one call.
const MAX_ATTACKS: usize = 64;

/// The most steps of gradient inversion over all records and attacks of one call: a minute or two of two cores.
const MAX_DESCENT_STEPS: u64 = 1_000_000_000;

/// A passive party's address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ReconstructorError(#[from] TlsError);

/// Runs attacks.
#[derive(Debug)]
pub struct Reconstructor {
    scorer: Arc<Scorer>,
    passive: Vec<(Peer, PassivePartyClient<Channel>)>,
    timeout: Duration,
    /// One attack at a time has the cores.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// One attack to run.
struct Task {
    method: Method,
    settings: Settings,
}

/// A checked request.
pub struct Job {
    audit_session: String,
    version: ModelVersion,
    ids: RecordIds,
    tasks: Vec<Task>,
    seed: u64,
}

impl Reconstructor {
    /// Attacks what this scorer is given; asks these passive parties for the parameters they release.
    ///
    /// # Errors
    /// [`ReconstructorError`] for a malformed address.
    pub fn new(
        credentials: &Credentials,
        scorer: Arc<Scorer>,
        passive: &[Peer],
        timeout: Duration,
    ) -> Result<Self, ReconstructorError> {
        let passive = passive
            .iter()
            .map(|peer| {
                let client = PassivePartyClient::new(channel(credentials, peer)?);
                Ok((peer.clone(), client.max_decoding_message_size(MAX_MESSAGE_BYTES)))
            })
            .collect::<Result<_, TlsError>>()?;
        Ok(Self { scorer, passive, timeout, turn: Arc::default() })
    }

    /// Checks a request.
    ///
    /// # Errors
    /// INVALID_ARGUMENT naming the field, the attack or the setting.
    pub fn check(&self, request: pb::ReconstructRequest) -> Result<Job, Refusal> {
        let ids = RecordIds::try_from(require("ids", request.ids)?)?;
        // Without a session the live service would be asked, on its budget and under its policy.
        if request.audit_session.is_empty() {
            return Err(WireError::Missing { field: "audit_session" }.into());
        }
        if ids.is_empty() {
            return Err(Refusal::invalid("no records were named"));
        }
        if !(1..=MAX_ATTACKS).contains(&request.attacks.len()) {
            return Err(Refusal::invalid(format!("a request takes 1 to {MAX_ATTACKS} attacks")));
        }
        let tasks = request
            .attacks
            .iter()
            .map(|spec| {
                let method = spec.name.parse()?;
                let settings = Settings::read(spec.settings.iter().map(|s| (s.key.as_str(), s.value.as_str())))?;
                Ok(Task { method, settings })
            })
            .collect::<Result<Vec<_>, MethodError>>()
            .map_err(|e| Refusal::invalid(e.to_string()))?;
        let descents = tasks.iter().filter(|t| t.method == Method::GradientInversion);
        let steps: u64 = descents.map(|t| u64::from(t.settings.gradient_inversion.steps())).sum();
        if steps.saturating_mul(ids.len() as u64) > MAX_DESCENT_STEPS {
            return Err(Refusal::invalid(format!(
                "{steps} `steps` of gradient_inversion on {} records are more than {MAX_DESCENT_STEPS} in all; set fewer \
                 steps or name fewer records",
                ids.len()
            )));
        }
        Ok(Job {
            audit_session: request.audit_session,
            version: WireError::model_version(request.model_version)?,
            ids,
            tasks,
            seed: request.seed,
        })
    }

    /// Runs a job, sending progress, the worth of the scores, and each attack's estimates.
    ///
    /// # Errors
    /// [`Refusal`] when the scores cannot be had. An attack that cannot run is a result with its reason, not an error.
    pub async fn run(
        &self,
        job: Job,
        events: &mpsc::Sender<Result<pb::ReconstructEvent, Status>>,
    ) -> Result<(), Refusal> {
        let total = job.tasks.len() as u64 + 1;
        let progress =
            |done, stage: &str| Event::Progress(pb::ReconstructProgress { done, total, stage: stage.into() });
        send(events, progress(0, "asking for the scores")).await?;
        let model = self.scorer.describe().await?;
        if model.version != job.version {
            let message = format!("model {} is not in service, {} is", job.version, model.version);
            return Err(Refusal::precondition(message));
        }
        let target: usize = model.passive_parties.iter().map(|(_, d)| d).sum();
        if job.ids.len().saturating_mul(target).saturating_mul(8) > MAX_MESSAGE_BYTES - 4096 {
            let most = (MAX_MESSAGE_BYTES - 4096) / (8 * target.max(1));
            return Err(Refusal::invalid(format!(
                "estimates of so many records do not fit a message; name at most {most}"
            )));
        }
        let scored = self.scorer.score(&model, &job.ids, &job.audit_session).await?;
        let failed = scored.row_status.iter().filter(|&&s| s != RowStatus::Ok).count();
        if failed > 0 {
            let message = format!(
                "{failed} of the {} records were not scored; audit records that all parties hold",
                job.ids.len()
            );
            return Err(Refusal::precondition(message));
        }
        send(events, Event::Scores(self.worth(&job.ids, &scored))).await?;
        let known = self.known_model(&model, target).await?;
        let known = Arc::new(known);
        let y = self.scorer.table.fetch(&job.ids).map_err(|e| Refusal::internal(e.to_string()))?;
        let (y, released) = (Arc::new(y), Arc::new(scored.released));
        for (done, task) in job.tasks.into_iter().enumerate() {
            let name = task.method.as_str();
            send(events, progress(done as u64 + 1, name)).await?;
            let (known, y, released, seed) = (known.clone(), y.clone(), released.clone(), job.seed);
            // Held by the attack itself, which goes on to its end even if the auditor goes away.
            let turn = self.turn.clone().lock_owned().await;
            let run = move || -> Result<Reconstruction, AttackError> {
                let _turn = turn;
                let view = AdversaryView::new(&known, &y, &released, task.settings.replacement)?;
                // Each attack draws from a generator of its own, so that a list of attacks gives each what it gives alone.
                task.method.build(&task.settings).reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(seed))
            };
            let ended = tokio::task::spawn_blocking(run).await.map_err(|_| Refusal::internal("an attack panicked"))?;
            send(events, Event::Result(result(name, &model, ended))).await?;
        }
        send(events, progress(total, "done")).await
    }

    /// Accuracy of the released scores, where labels are known.
    fn worth(&self, ids: &RecordIds, scored: &Scored) -> pb::ReconstructedScores {
        let accuracy = self.scorer.labels(ids).map(|labels| {
            let predicted = scored.released.predicted_labels();
            let right = predicted.iter().zip(&labels).filter(|(p, l)| p == l).count();
            three_significant_digits(right as f64 / labels.len().max(1) as f64)
        });
        pb::ReconstructedScores { rows: scored.released.records() as u64, accuracy }
    }

    /// What this party knows of the model: its own share, and the passive parties' if all of them release theirs.
    async fn known_model(&self, model: &ModelDescription, target: usize) -> Result<KnownModel, Refusal> {
        let share = self.scorer.share(&model.version)?;
        let internal = |e: AttackError| Refusal::internal(e.to_string());
        let Some(bias) = share.parameters.bias().cloned() else {
            return Err(Refusal::internal("this party's share has no bias"));
        };
        let w_act = share.parameters.weights().clone();
        let k = w_act.nrows();
        let mut w_pas = DMatrix::zeros(k, 0);
        for (name, features) in &model.passive_parties {
            let Some(weights) = self.released_weights(model, name, *features, k).await? else {
                return KnownModel::black_box(w_act, bias, target).map_err(internal);
            };
            let from = w_pas.ncols();
            w_pas = w_pas.insert_columns(from, *features, 0.0);
            w_pas.columns_mut(from, *features).copy_from(&weights);
        }
        KnownModel::white_box(w_act, bias, w_pas).map_err(internal)
    }

    /// The weights (k × d) a passive party releases; `None` if it grants none or its address is not configured.
    async fn released_weights(
        &self,
        model: &ModelDescription,
        name: &str,
        features: usize,
        k: usize,
    ) -> Result<Option<DMatrix<f64>>, Refusal> {
        let Some((peer, client)) = self.passive.iter().find(|(peer, _)| peer.name.as_str() == name) else {
            return Ok(None);
        };
        let request = pb::ReleaseParametersRequest { model_version: model.version.as_str().to_owned() };
        let mut client = client.clone();
        let asked = tokio::time::timeout(self.timeout, client.release_parameters(request)).await;
        let answer = match asked {
            Err(_) => {
                return Err(Refusal::new(RefusalKind::DeadlineExceeded, format!("{peer} did not answer in time")));
            }
            Ok(Err(status)) if status.code() == tonic::Code::PermissionDenied => return Ok(None),
            Ok(Err(status)) => return Err(peer_failure(&peer.to_string(), &status)),
            Ok(Ok(answer)) => answer.into_inner(),
        };
        let matrix = require("weights", answer.weights)?;
        // One row per class on the wire: the transpose of one record per row.
        let weights = decode_columns("weights", &matrix, k, Some(features))
            .map_err(|e| Refusal::internal(format!("{peer} answered with {e}")))?;
        Ok(Some(weights.transpose()))
    }
}

/// The wire form of what an attack gave: its estimates dealt out to the passive parties they are about.
fn result(name: &str, model: &ModelDescription, ended: Result<Reconstruction, AttackError>) -> pb::AttackResult {
    let mut out = pb::AttackResult { attack: name.to_owned(), ..Default::default() };
    match ended {
        Err(error) => out.refusal = error.to_string(),
        Ok(found) => {
            let mut from = 0;
            for (party, features) in &model.passive_parties {
                let block = found.estimates.rows(from, *features).into_owned();
                let estimates = Some(encode_columns(&block));
                out.blocks.push(pb::attack_result::Block { passive_party: party.clone(), estimates });
                from += features;
            }
            // Features that are known beforehand are no unknowns.
            let d = found.solved.as_ref().map_or(found.estimates.nrows(), |s| s.rank + s.nullity);
            out.status = match found.status {
                Outcome::Baseline => "baseline".to_owned(),
                Outcome::Unique => "unique".to_owned(),
                Outcome::LeastNorm { rank } => format!("least norm, rank {rank} of {d}"),
                Outcome::NearestHalf { rank } => format!("nearest to 1/2, rank {rank} of {d}"),
                Outcome::BestFit { rank } => format!("best fit in the box, rank {rank} of {d}"),
                Outcome::Centre { rank } => format!("centre of the box's solutions, rank {rank} of {d}"),
                Outcome::Descent => "end of a descent".to_owned(),
                Outcome::Scaled => "spread put on [0, 1]".to_owned(),
            };
            let origin = match found.status {
                Outcome::Baseline => Origin::Guess,
                Outcome::Descent | Outcome::Scaled => Origin::Search,
                _ => Origin::Equations,
            };
            out.origin = origin.into();
            let count = |ended| found.outcomes.iter().filter(|o| o.ended == ended).count() as u64;
            (out.nearest_consistent, out.step_limit) = (count(Ended::NearestConsistent), count(Ended::StepLimit));
            out.rank = found.solved.as_ref().map(|s| s.rank as u32);
            out.condition_number = found.solved.as_ref().map(|s| s.condition_number);
        }
    }
    out
}

async fn send(events: &mpsc::Sender<Result<pb::ReconstructEvent, Status>>, event: Event) -> Result<(), Refusal> {
    let message = pb::ReconstructEvent { event: Some(event) };
    events.send(Ok(message)).await.map_err(|_| Refusal::unavailable("the auditor has gone away"))
}
