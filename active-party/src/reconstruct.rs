//! Runs attacks for the auditor: asks for the scores of the session's records as any prediction
//! does, attacks them, and returns the estimates. It has no access to the truth.

mod adversary_inputs;
mod availability;
mod job;
mod limits;
mod oracle;
mod report;
mod request;
mod side_information;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use vfl_attack::adaptive::average;
use vfl_attack::{AttackError, Method, RepeatedQuestions};
use vfl_core::data::table::FeatureTable;
use vfl_core::model::Combiner;
use vfl_core::types::{RecordIds, ReleasedScores, RowStatus};
use vfl_numerics::three_significant_digits;
use vfl_protocol::reconstruct::ReconstructEvent as Event;
use vfl_protocol::{MAX_MESSAGE_BYTES, PredictionResponse, Refusal, rough};
use vfl_server::service::{Credentials, Peer, TlsError};
use vfl_state::disjoint_sets::DisjointSets;

use crate::own_logits;
use crate::parameters::ModelKnowledge;
use crate::passive_party::PassiveParty;
use crate::scoring::{ModelDescription, Scorer};
use adversary_inputs::{AdversaryInputs, AttackEstimates};
use job::{Job, Task};
use oracle::Session;
use report::{AttackOutcome, Target};

pub(crate) use request::check;

/// The fewest records for which an accuracy or a loss is reported. For fewer, it would say if
/// single records were predicted well.
const MIN_ACCURACY_RECORDS: usize = 100;

/// The error of a passive party's address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ReconstructorError(#[from] TlsError);

/// The channel for the events of a job.
type Events = mpsc::Sender<Result<Event, Refusal>>;

/// The part of the service that runs attacks for the auditor.
#[derive(Debug)]
pub(crate) struct Reconstructor {
    scorer: Arc<Scorer>,
    passive: Vec<PassiveParty>,
    /// Passive features that this party knows of some records.
    known: Option<Arc<FeatureTable>>,
    /// The sets of records whose accuracy was reported.
    sets: Arc<Mutex<DisjointSets>>,
    /// The lock that gives the cores to one attack at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// After this time of attacks a job begins no further one.
    most: Duration,
}

impl Reconstructor {
    /// Creates a reconstructor that attacks the scores of `scorer` and asks these passive parties
    /// for the parameters they release. `sets` are the sets of records whose accuracy was reported
    /// before.
    ///
    /// # Errors
    /// [`ReconstructorError`] for a malformed address.
    pub(crate) fn new(
        credentials: &Credentials,
        scorer: Arc<Scorer>,
        passive: &[Peer],
        timeout: Duration,
        sets: DisjointSets,
    ) -> Result<Self, ReconstructorError> {
        let passive =
            passive.iter().map(|peer| PassiveParty::new(credentials, peer.clone(), timeout));
        let passive = passive.collect::<Result<_, TlsError>>()?;
        let sets = Arc::new(Mutex::new(sets));
        Ok(Self { scorer, passive, known: None, sets, turn: Arc::default(), most: Duration::MAX })
    }

    /// Adds the passive features that the adversary knows of some records: those of all parties
    /// side by side, in the order of the model's parties.
    #[must_use]
    pub(crate) fn knowing(self, known: Option<Arc<FeatureTable>>) -> Self {
        Self { known, ..self }
    }

    /// Bounds the time of the attacks of a job.
    #[must_use]
    pub(crate) fn within(self, most: Duration) -> Self {
        Self { most, ..self }
    }

    /// Runs a job. Sends progress, the accuracy of the scores, and each attack's estimates.
    ///
    /// # Errors
    /// [`Refusal`] if the scores are not available. An attack that cannot run, or for which there
    /// is no time left, is a result with its reason, not an error.
    pub(crate) async fn run(&self, job: Job, events: &Events) -> Result<(), Refusal> {
        let total = job.tasks.len() as u64 + 1;
        let progress = |done, stage: &str| Event::Progress { done, total, stage: stage.into() };
        send(events, progress(0, "asking for the scores")).await?;
        let model = self.scorer.describe().await?;
        check_fit(&job, &model)?;
        let supply = self.supply(&model, &job, events).await?;
        let mut spent = Duration::ZERO;
        for (done, task) in job.tasks.into_iter().enumerate() {
            send(events, progress(done as u64 + 1, task.method.as_str())).await?;
            let colluders: &[String] =
                if task.needs.colluders.wanted() { &job.colluders } else { &[] };
            let targets = targets(&model, colluders);
            let attacked = match limits::check_time(spent, self.most, (done, total - 1)) {
                Ok(()) => {
                    let attack = self.attack(task, supply.clone(), targets, job.seed);
                    let (attacked, took) = attack.await?;
                    spent += took;
                    attacked
                }
                // What has run counts; the others are told as not run.
                Err(ended) => AttackOutcome {
                    method: task.method,
                    targets,
                    auxiliary_records: 0,
                    ended: Err(ended),
                },
            };
            send(events, Event::Attacked(Box::new(attacked.into()))).await?;
        }
        send(events, progress(total, "done")).await
    }

    /// Gathers the inputs of a job's attacks.
    async fn supply(
        &self,
        model: &ModelDescription,
        job: &Job,
        events: &Events,
    ) -> Result<AdversaryInputs, Refusal> {
        let target = model.passive_features();
        // Records whose scores no attack needs are not asked about.
        let asked = job.tasks.iter().map(|t| t.asks(job.ids.len())).max().unwrap_or(0);
        let released = match asked {
            0 => None,
            _ => Some(self.first_release(model, job, asked, events).await?),
        };
        let auxiliary = self.auxiliary(model, job, target).await?;
        let colluders = self.colluders(model, job).await?;
        let lenders: &[String] =
            if matches!(colluders, Some(Ok(_))) { &job.colluders } else { &[] };
        let ModelKnowledge { released: known, lent, undone } =
            ModelKnowledge::ask(&self.scorer, &self.passive, model, target, lenders).await?;
        let share = self.scorer.share(&model.version)?;
        let y = self
            .scorer
            .features
            .fetch(&job.ids)
            .await
            .map_err(|e| vfl_features::features::refusal_for_others(&e, "this active party"))?;
        let y = Arc::new(own_logits::features(&share, y)?);
        let table = self.scorer.features.memory();
        let labelled = match (job.tasks.iter().any(|t| t.needs.labelled.wanted()), table) {
            (true, Some(table)) => {
                Some(Arc::new(adversary_inputs::labelled(table, &share, &job.ids)?))
            }
            (true, None) => {
                tracing::info!(
                    "attacks that learn from labelled records get none: the features are not in memory"
                );
                None
            }
            (false, _) => None,
        };
        let (released, mean) = match released {
            Some(released) => self.repeated(model, job, released).await?,
            None => (None, None),
        };
        let session = Arc::new(Session {
            scorer: self.scorer.clone(),
            model: model.clone(),
            audit_session: job.audit_session.clone(),
            ids: job.ids.clone(),
            runtime: tokio::runtime::Handle::current(),
        });
        let recipe = model.training.clone();
        Ok(AdversaryInputs {
            known,
            lent,
            undone,
            y,
            released,
            mean,
            labelled,
            recipe,
            session,
            auxiliary,
            colluders,
        })
    }

    /// Runs one attack when its turn comes. Returns the time that it took, too.
    async fn attack(
        &self,
        task: Task,
        supply: AdversaryInputs,
        targets: Vec<Target>,
        seed: u64,
    ) -> Result<(AttackOutcome, Duration), Refusal> {
        // The attack itself holds the lock, because it runs to its end even if the auditor goes
        // away.
        let turn = self.turn.clone().lock_owned().await;
        let began = Instant::now();
        let method = task.method;
        let auxiliary_records =
            if task.needs.known_records().wanted() { supply.auxiliary_records() } else { 0 };
        let summed = supply.session.model.combiner() == Combiner::Sum;
        let records = supply.y.records();
        let methods = [task.method, task.effective_method()];
        let of_sums =
            methods.contains(&Method::ShadowModel).then_some("a linear part").or_else(|| {
                // Without the top model's parameters, no score separates one party's part.
                methods.contains(&Method::ShadowNetwork).then_some("a network to a part")
            });
        let run = move || {
            let _turn = turn;
            if let Some(part) = of_sums.filter(|_| !summed) {
                let reason =
                    format!("it fits {part} of a sum of logits, and this model has a top model");
                return Err(AttackError::NotGranted { reason });
            }
            supply.run(&*task.method.build(&task.settings), task.settings.replacement(), seed)
        };
        let ended = tokio::task::spawn_blocking(run)
            .await
            .map_err(|_| Refusal::internal("an attack panicked"))?;
        // As for an accuracy: for few records, or with all digits, it would say much about single
        // scores.
        let told = |loss: Option<f64>| {
            loss.filter(|_| records >= MIN_ACCURACY_RECORDS).map(three_significant_digits)
        };
        let ended =
            ended.map(|ran| AttackEstimates { score_mismatch: told(ran.score_mismatch), ..ran });
        Ok((AttackOutcome { method, targets, auxiliary_records, ended }, began.elapsed()))
    }

    /// Asks for the release of the first `asked` records of a job, and reports their number and
    /// accuracy.
    async fn first_release(
        &self,
        model: &ModelDescription,
        job: &Job,
        asked: usize,
        events: &Events,
    ) -> Result<ReleasedScores, Refusal> {
        let ids = job.ids.slice(0, asked);
        let scored = self.scorer.score(model, &ids, Some(&job.audit_session), "").await?;
        let failed = scored.status.iter().filter(|&&s| s != RowStatus::Ok).count();
        if scored.status.contains(&RowStatus::ShareChanged) {
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
        // A part of the named records is a set of the auditor's choice, another one for each
        // request.
        let accuracy =
            if asked == job.ids.len() { self.accuracy(&ids, &scored).await } else { None };
        let rows = scored.released.records() as u64;
        send(events, Event::Scores { rows, accuracy }).await?;
        Ok(scored.released)
    }

    /// Asks again, as often as the job says. Returns the first release, and the mean of all
    /// releases with the number of releases and of distinct answers.
    async fn repeated(
        &self,
        model: &ModelDescription,
        job: &Job,
        first: ReleasedScores,
    ) -> Result<
        (Option<Arc<ReleasedScores>>, Option<(Arc<ReleasedScores>, RepeatedQuestions)>),
        Refusal,
    > {
        if job.queries < 2 || !job.tasks.iter().any(|t| t.needs.repeated.wanted()) {
            return Ok((Some(Arc::new(first)), None));
        }
        let mut releases = vec![first];
        for _ in 1..job.queries {
            let again = self.scorer.score(model, &job.ids, Some(&job.audit_session), "").await?;
            if again.status.iter().any(|&s| s != RowStatus::Ok) {
                return Err(Refusal::precondition("a record was not answered again"));
            }
            releases.push(again.released);
        }
        let averaged = average(&releases).map_err(|e| Refusal::invalid(e.to_string()))?;
        Ok((Some(Arc::new(releases.swap_remove(0))), Some((Arc::new(averaged.0), averaged.1))))
    }

    /// Returns the accuracy of the released scores if labels are known. There must be at least
    /// [`MIN_ACCURACY_RECORDS`] records, and the sets of records must be equal or disjoint: the
    /// accuracies of two sets that differ in one record would tell about that record.
    async fn accuracy(&self, ids: &RecordIds, scored: &PredictionResponse) -> Option<f64> {
        let labels = self.scorer.labels(ids).await.inspect_err(|error| {
            tracing::warn!(%error, "no accuracy is told: the labels cannot be read");
        });
        let labels = labels.ok()?.ok().filter(|labels| labels.len() >= MIN_ACCURACY_RECORDS)?;
        let (sets, ids) = (self.sets.clone(), ids.clone());
        let admit = move || sets.lock().unwrap_or_else(PoisonError::into_inner).admit(&ids);
        match tokio::task::spawn_blocking(admit).await.ok()? {
            Ok(Ok(())) => {}
            Ok(Err(known)) => {
                tracing::info!(
                    known,
                    "no accuracy is told: records of the set were part of another one"
                );
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

/// Refuses a job for a model that is not in service, and one that would not fit a message or in
/// memory.
fn check_fit(job: &Job, model: &ModelDescription) -> Result<(), Refusal> {
    if model.version != job.version {
        let message = format!("model {} is not in service, {} is", job.version, model.version);
        return Err(Refusal::precondition(message));
    }
    let target = model.passive_features();
    if job.ids.len().saturating_mul(target).saturating_mul(8) > MAX_MESSAGE_BYTES - 4096 {
        let most = (MAX_MESSAGE_BYTES - 4096) / (8 * target.max(1));
        return Err(Refusal::invalid(format!(
            "estimates of so many records do not fit a message; name at most {most}"
        )));
    }
    limits::check_size(job, model.class_names.len(), target)
}

/// Returns the passive parties that are attacked: those that do not collude.
fn targets(model: &ModelDescription, colluders: &[String]) -> Vec<Target> {
    let mut from = 0;
    let mut targets = Vec::new();
    for (party, features) in &model.passive_parties {
        if !colluders.contains(party) {
            targets.push(Target { party: party.clone(), features: from..from + features });
        }
        from += features;
    }
    targets
}

async fn send(events: &Events, event: Event) -> Result<(), Refusal> {
    events.send(Ok(event)).await.map_err(|_| Refusal::unavailable("the auditor has gone away"))
}
