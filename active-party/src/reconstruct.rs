//! Runs attacks for the auditor: asks for the session's records as any prediction does, attacks what comes back, and hands
//! over the estimates. The truth is nowhere near.

mod estimate;
mod limits;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::transport::Channel;
use vfl_shared::apart::SetsApart;
use vfl_shared::data::FeatureStore;
use vfl_shared::numerics::three_significant_digits;
use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::pb::{attack_result::Origin, attack_result::Refused, reconstruct_event::Event};
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, WireError, encode_columns, pb, require, rough};
use vfl_shared::service::{Credentials, Peer, TlsError, channel};
use vfl_shared::types::{Estimates, FeatureBlock, ModelVersion, RecordIds, ReleasedScores, RowStatus};

use crate::attack::Status as Outcome;
use crate::attack::adaptive::{Answer, Averaged, ChosenShares, Gathered, OracleError, ShareOracle, average};
use crate::attack::{AdversaryView, AttackError, Ended, KnownModel, Method, MethodError, Reconstruction, Settings};
use crate::parameters::{Known, Undone};
use crate::scoring::{ModelDescription, Scored, Scorer};

/// The most attacks of one call.
const MAX_ATTACKS: usize = 64;

/// The fewest records that an accuracy is told of: one of fewer says whether single records were predicted well.
const MIN_ACCURACY_RECORDS: usize = 100;

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
    /// The sets of records whose accuracy was told.
    sets: Arc<Mutex<SetsApart>>,
    /// One attack at a time has the cores.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// One attack to run.
struct Task {
    method: Method,
    settings: Settings,
}

impl Task {
    /// How many of the first of `records` records it needs the scores of.
    fn asks(&self, records: usize) -> usize {
        match self.method {
            Method::Agnostic => self.settings.agnostic.observed,
            _ => records,
        }
    }

    /// The method that is run in the end: the base of one that wraps another.
    fn effective_method(&self) -> Method {
        match self.method {
            Method::Agnostic | Method::UndoTransform => self.settings.agnostic.base,
            method => method,
        }
    }
}

/// A checked request.
pub struct Job {
    audit_session: String,
    version: ModelVersion,
    ids: RecordIds,
    tasks: Vec<Task>,
    seed: u64,
    /// How often every record is asked for.
    queries: usize,
}

impl Reconstructor {
    /// Attacks what this scorer is given; asks these passive parties for the parameters they release. `sets` are those whose
    /// accuracy was told before.
    ///
    /// # Errors
    /// [`ReconstructorError`] for a malformed address.
    pub fn new(
        credentials: &Credentials,
        scorer: Arc<Scorer>,
        passive: &[Peer],
        timeout: Duration,
        sets: SetsApart,
    ) -> Result<Self, ReconstructorError> {
        let passive = passive
            .iter()
            .map(|peer| {
                let client = PassivePartyClient::new(channel(credentials, peer)?);
                Ok((peer.clone(), client.max_decoding_message_size(MAX_MESSAGE_BYTES)))
            })
            .collect::<Result<_, TlsError>>()?;
        Ok(Self { scorer, passive, timeout, sets: Arc::new(Mutex::new(sets)), turn: Arc::default() })
    }

    /// Checks a request.
    ///
    /// # Errors
    /// INVALID_ARGUMENT naming the field, the attack or the setting.
    pub fn check(&self, request: pb::ReconstructRequest) -> Result<Job, Refusal> {
        let ids = RecordIds::try_from(require("ids", request.ids)?)?;
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
        // Without a session the live service would be asked, on its budget and under its policy.
        if request.audit_session.is_empty() && tasks.iter().any(|t| t.asks(ids.len()) > 0) {
            let message = "`audit_session` is missing: only `agnostic` with `observed` = 0 runs without a score";
            return Err(Refusal::invalid(message));
        }
        let most = |t: &&Task| t.method == Method::Agnostic && t.settings.agnostic.observed > ids.len();
        if let Some(task) = tasks.iter().find(most) {
            return Err(Refusal::invalid(format!(
                "`observed` is {}, the request names {} records",
                task.settings.agnostic.observed,
                ids.len()
            )));
        }
        limits::check_steps(&tasks, ids.len())?;
        limits::check_queries(request.queries)?;
        Ok(Job {
            queries: request.queries.max(1) as usize,
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
        limits::check_size(&job, model.class_names.len(), target)?;
        // A record that no attack needs the score of is not asked about.
        let asked = job.tasks.iter().map(|t| t.asks(job.ids.len())).max().unwrap_or(0);
        let released = match asked {
            0 => None,
            _ => Some(self.first_release(&model, &job, asked, events).await?),
        };
        let Known { released: known, undone } =
            Known::ask(&self.scorer, &self.passive, self.timeout, &model, target).await?;
        let y = Arc::new(self.scorer.table.fetch(&job.ids).map_err(|e| Refusal::internal(e.to_string()))?);
        let own = match job.tasks.iter().any(|t| t.method == Method::Agnostic) {
            true => Some(Arc::new(self.own_records(&job.ids)?)),
            false => None,
        };
        let (released, averaged) = match released {
            Some(released) => self.repeated(&model, &job, released).await?,
            // Nothing was asked for, and nothing looks at it.
            None => (ReleasedScores::Probabilities(DMatrix::zeros(model.class_names.len(), 0)), None),
        };
        let released = Arc::new(released);
        for (done, mut task) in job.tasks.into_iter().enumerate() {
            let name = task.method.as_str();
            send(events, progress(done as u64 + 1, name)).await?;
            let (known, y, seed) = (known.clone(), y.clone(), job.seed);
            if task.method == Method::ChosenShares {
                let gathered = self.choose_shares(&model, &job.audit_session, &job.ids, known, y, &task, seed).await?;
                let found = match gathered {
                    Ok(gathered) => pb::AttackResult {
                        questions: chosen(&gathered),
                        releases: gathered.most_answers as u32,
                        chosen_shares: true,
                        ..result(name, &model, Ok(gathered.reconstruction))
                    },
                    // It may not have come to a question.
                    Err(error) => result(name, &model, Err(error)),
                };
                send(events, Event::Result(found)).await?;
                continue;
            }
            if let (Method::Agnostic, Some(own)) = (task.method, &own) {
                let ended = self.estimate_scores(own.clone(), known, y, released.clone(), &task, seed).await?;
                let releases = u32::from(task.settings.agnostic.observed > 0);
                let found = pb::AttackResult { releases, ..result(name, &model, ended) };
                send(events, Event::Result(found)).await?;
                continue;
            }
            let (mut questions, mut releases) = (String::new(), 1);
            let released = match (&averaged, task.method) {
                (Some((mean, facts)), Method::Averaging) => {
                    task.settings.averaged = facts.distinct;
                    releases = facts.queries as u32;
                    questions = format!("{} questions, {} distinct answers a record", facts.queries, facts.distinct);
                    mean.clone()
                }
                _ => released.clone(),
            };
            // Held by the attack itself, which goes on to its end even if the auditor goes away.
            let turn = self.turn.clone().lock_owned().await;
            let undone = undone.clone().filter(|_| task.method == Method::UndoTransform);
            let run = move || -> Result<Reconstruction, AttackError> {
                let _turn = turn;
                if let Some(Undone { model, told }) = undone {
                    let view = AdversaryView::new(&model, &y, &released, task.settings.replacement)?;
                    let base = task.settings.agnostic.base.build(&task.settings);
                    let mut found = base.reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(seed))?;
                    found.remarks.insert(0, format!("undone as told, without an attack on the transform: {told}"));
                    return Ok(found);
                }
                let view = AdversaryView::new(&known, &y, &released, task.settings.replacement)?;
                // Each attack draws from a generator of its own, so that a list of attacks gives each what it gives alone.
                task.method.build(&task.settings).reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(seed))
            };
            let ended = tokio::task::spawn_blocking(run).await.map_err(|_| Refusal::internal("an attack panicked"))?;
            let mut found = pb::AttackResult { questions, ..result(name, &model, ended) };
            found.releases = if found.origin() == Origin::Guess { 0 } else { releases };
            send(events, Event::Result(found)).await?;
        }
        send(events, progress(total, "done")).await
    }

    /// The release of the first `asked` records of a job, and a word on its worth.
    async fn first_release(
        &self,
        model: &ModelDescription,
        job: &Job,
        asked: usize,
        events: &mpsc::Sender<Result<pb::ReconstructEvent, Status>>,
    ) -> Result<ReleasedScores, Refusal> {
        let ids = job.ids.slice(0, asked);
        let scored = self.scorer.score(model, &ids, &job.audit_session, "").await?;
        let failed = scored.row_status.iter().filter(|&&s| s != RowStatus::Ok).count();
        if scored.row_status.contains(&RowStatus::ShareChanged) {
            let message = "records were audited before with other logit shares of this party; the coordinator answers none but \
                           the first until it restarts";
            return Err(Refusal::precondition(message));
        }
        if failed > 0 {
            let message = format!(
                "{} of the {asked} records were not scored; audit records that all parties hold",
                rough(failed)
            );
            return Err(Refusal::precondition(message));
        }
        // Part of the records named is a set of the auditor's choosing, for each request another one.
        let accuracy = if asked == job.ids.len() { self.accuracy(&ids, &scored).await } else { None };
        let rows = scored.released.records() as u64;
        send(events, Event::Scores(pb::ReconstructedScores { rows, accuracy })).await?;
        Ok(scored.released)
    }

    /// Asks again, as often as the job says; gives the first release, and the mean of all with what they showed.
    async fn repeated(
        &self,
        model: &ModelDescription,
        job: &Job,
        first: ReleasedScores,
    ) -> Result<(ReleasedScores, Option<(Arc<ReleasedScores>, Averaged)>), Refusal> {
        if job.queries < 2 || !job.tasks.iter().any(|t| t.method == Method::Averaging) {
            return Ok((first, None));
        }
        let mut releases = vec![first];
        for _ in 1..job.queries {
            let again = self.scorer.score(model, &job.ids, &job.audit_session, "").await?;
            if again.row_status.iter().any(|&s| s != RowStatus::Ok) {
                return Err(Refusal::precondition("a record was not answered again"));
            }
            releases.push(again.released);
        }
        let averaged = average(&releases).map_err(|e| Refusal::invalid(e.to_string()))?;
        Ok((releases.swap_remove(0), Some((Arc::new(averaged.0), averaged.1))))
    }

    /// Runs the attack that asks with shares of its own choice.
    #[allow(clippy::too_many_arguments, reason = "the parts of a job, moved to the attack's thread")]
    async fn choose_shares(
        &self,
        model: &ModelDescription,
        audit_session: &str,
        ids: &RecordIds,
        known: Arc<KnownModel>,
        y: Arc<FeatureBlock>,
        task: &Task,
        seed: u64,
    ) -> Result<Result<Gathered, AttackError>, Refusal> {
        let mut oracle = Session {
            scorer: self.scorer.clone(),
            model: model.clone(),
            audit_session: audit_session.to_owned(),
            ids: ids.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        let attack = ChosenShares { known: task.settings.adaptive.clone(), ..ChosenShares::default() };
        let turn = self.turn.clone().lock_owned().await;
        let run = move || {
            let _turn = turn;
            attack.reconstruct(&known, &y, &mut oracle, &mut ChaCha20Rng::seed_from_u64(seed))
        };
        tokio::task::spawn_blocking(run).await.map_err(|_| Refusal::internal("an attack panicked"))
    }

    /// Accuracy of the released scores, where labels are known: of at least [`MIN_ACCURACY_RECORDS`] records, and of sets that are
    /// equal or have no record in common. The accuracies of two sets that differ in one record would tell of that record.
    async fn accuracy(&self, ids: &RecordIds, scored: &Scored) -> Option<f64> {
        let labels = self.scorer.labels(ids).filter(|labels| labels.len() >= MIN_ACCURACY_RECORDS)?;
        let (sets, ids) = (self.sets.clone(), ids.clone());
        let admit = move || sets.lock().unwrap_or_else(PoisonError::into_inner).admit(&ids);
        match tokio::task::spawn_blocking(admit).await.ok()? {
            Ok(Ok(())) => {}
            Ok(Err(known)) => {
                tracing::info!(known, "no accuracy is told: records of the set were part of another one");
                return None;
            }
            Err(error) => {
                tracing::warn!(%error, "no accuracy is told: its set of records cannot be recorded");
                return None;
            }
        }
        let predicted = scored.released.predicted_labels();
        let right = predicted.iter().zip(&labels).filter(|(p, l)| p == l).count();
        Some(three_significant_digits(right as f64 / labels.len() as f64))
    }
}

/// The coordinator, behind one audit session, for attacks that ask by themselves.
struct Session {
    scorer: Arc<Scorer>,
    model: ModelDescription,
    audit_session: String,
    ids: RecordIds,
    runtime: tokio::runtime::Handle,
}

impl ShareOracle for Session {
    fn ask(&mut self, records: &[usize], shares: &DMatrix<f64>) -> Result<Vec<Answer>, OracleError> {
        let ids = self.ids.select(records);
        let asked = self.scorer.ask(&self.model, &ids, shares, &self.audit_session);
        // On a thread that is not the runtime's.
        let scored = self.runtime.block_on(asked).map_err(|refusal| OracleError(refusal.message))?;
        let mut released = 0;
        let answers = scored.row_status.iter().map(|status| {
            if *status != RowStatus::Ok {
                return Answer::Refused;
            }
            let record = released;
            released += 1;
            match &scored.released {
                ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
                    Answer::Scores(m.column(record).iter().copied().collect())
                }
                ReleasedScores::Labels { labels, .. } => Answer::Label(labels[record]),
                ReleasedScores::Ciphertexts(m) => Answer::Ciphertexts(m.column(record).iter().copied().collect()),
            }
        });
        Ok(answers.collect())
    }
}

/// What asking with chosen shares brought, in words.
fn chosen(gathered: &Gathered) -> String {
    let Gathered { questions, asked, refused, .. } = gathered;
    let gained = gathered.gained.iter().filter(|g| **g).count();
    let records = gathered.gained.len();
    format!(
        "{questions} questions, {refused} of {asked} rows refused, {gained} of {records} records gave more than once"
    )
}

/// The wire form of what an attack gave: its estimates dealt out to the passive parties they are about.
fn result(name: &str, model: &ModelDescription, ended: Result<Reconstruction, AttackError>) -> pb::AttackResult {
    let mut out = pb::AttackResult { attack: name.to_owned(), ..Default::default() };
    match ended {
        Err(error) => {
            if matches!(error, AttackError::NeedsParameters) {
                out.set_refused(Refused::ParametersHidden);
            }
            out.refusal = error.to_string();
        }
        Ok(found) => {
            let mut from = 0;
            for (party, features) in &model.passive_parties {
                let block = Estimates::new(found.estimates.rows(from, *features).into_owned());
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
            out.remarks = found.remarks;
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
