//! Runs attacks for the auditor: asks for the session's records as any prediction does, attacks what comes back, and hands
//! over the estimates. The truth is nowhere near.

mod client;
mod had;
mod helped;
mod job;
mod limits;
mod oracle;
mod supply;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tonic::Status;
use tonic::transport::Channel;
use vfl_shared::data::{FeatureStore, FeatureTable};
use vfl_shared::disjoint_sets::DisjointSets;
use vfl_shared::numerics::three_significant_digits;
use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::pb::reconstruct_event::Event;
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, WireError, pb, require, rough};
use vfl_shared::service::{Credentials, Peer, TlsError, channel};
use vfl_shared::types::{RecordIds, ReleasedScores, RowStatus};

use job::{AuxiliaryIds, Task};
use oracle::Session;
use supply::Supply;

use crate::attack::adaptive::average;
use crate::attack::{Averaged, MethodError, Settings};
use crate::parameters::Known;
use crate::scoring::{ModelDescription, Scored, Scorer};

pub use job::Job;

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
    /// Passive features that this party knows of some records.
    known: Option<Arc<FeatureTable>>,
    /// The sets of records whose accuracy was told.
    sets: Arc<Mutex<DisjointSets>>,
    /// One attack at a time has the cores.
    turn: Arc<tokio::sync::Mutex<()>>,
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
        sets: DisjointSets,
    ) -> Result<Self, ReconstructorError> {
        let passive = passive
            .iter()
            .map(|peer| {
                let client = PassivePartyClient::new(channel(credentials, peer)?);
                Ok((peer.clone(), client.max_decoding_message_size(MAX_MESSAGE_BYTES)))
            })
            .collect::<Result<_, TlsError>>()?;
        let sets = Arc::new(Mutex::new(sets));
        Ok(Self { scorer, passive, timeout, known: None, sets, turn: Arc::default() })
    }

    /// The same of an adversary that knows the passive features of some records: those of all parties side by side, in the order
    /// of the model's parties.
    #[must_use]
    pub fn knowing(self, known: Option<Arc<FeatureTable>>) -> Self {
        Self { known, ..self }
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
                Ok(Task::new(method, settings))
            })
            .collect::<Result<Vec<_>, MethodError>>()
            .map_err(|e| Refusal::invalid(e.to_string()))?;
        // Without a session the live service would be asked, on its budget and under its policy.
        if request.audit_session.is_empty() && tasks.iter().any(|t| t.asks(ids.len()) > 0) {
            let message = "`audit_session` is missing: only `agnostic` with `observed` = 0 runs without a score";
            return Err(Refusal::invalid(message));
        }
        if let Some(task) = tasks.iter().find(|t| t.needs.seen > ids.len()) {
            return Err(Refusal::invalid(format!(
                "`observed` is {}, the request names {} records",
                task.needs.seen,
                ids.len()
            )));
        }
        limits::check_steps(&tasks, ids.len())?;
        limits::check_queries(request.queries)?;
        let auxiliary = RecordIds::try_from(request.auxiliary_ids.unwrap_or_default())?;
        let auxiliary = AuxiliaryIds::new(auxiliary, request.auxiliary_session, &ids)?;
        let mut colluders: Vec<String> = Vec::new();
        for name in request.colluders {
            let name = WireError::party_name("colluders", name)?.to_string();
            if colluders.contains(&name) {
                return Err(Refusal::invalid(format!("`colluders` names `{name}` twice")));
            }
            colluders.push(name);
        }
        Ok(Job {
            auxiliary,
            colluders,
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
        let auxiliary = self.auxiliary(&model, &job, target).await?;
        let colluders = self.colluders(&model, &job).await?;
        let lenders: &[String] = if matches!(colluders, Some(Ok(_))) { &job.colluders } else { &[] };
        let Known { released: known, lent, undone } =
            Known::ask(&self.scorer, &self.passive, self.timeout, &model, target, lenders).await?;
        let y = Arc::new(self.scorer.table.fetch(&job.ids).map_err(|e| Refusal::internal(e.to_string()))?);
        let labelled = match job.tasks.iter().any(|t| t.needs.labelled.wanted()) {
            true => Some(Arc::new(supply::labelled(&self.scorer.table, &job.ids)?)),
            false => None,
        };
        let (released, mean) = match released {
            Some(released) => self.repeated(&model, &job, released).await?,
            None => (None, None),
        };
        let session = Arc::new(Session {
            scorer: self.scorer.clone(),
            model: model.clone(),
            audit_session: job.audit_session.clone(),
            ids: job.ids.clone(),
            runtime: tokio::runtime::Handle::current(),
        });
        let supply = Supply { known, lent, undone, y, released, mean, labelled, session, auxiliary, colluders };
        for (done, task) in job.tasks.into_iter().enumerate() {
            let name = task.method.as_str();
            send(events, progress(done as u64 + 1, name)).await?;
            // Held by the attack itself, which goes on to its end even if the auditor goes away.
            let turn = self.turn.clone().lock_owned().await;
            let given = wire::Given {
                colluders: if task.needs.colluders.wanted() { &job.colluders } else { &[] },
                auxiliary: if task.needs.auxiliary.wanted() { supply.auxiliary_records() } else { 0 },
            };
            let (supply, seed) = (supply.clone(), job.seed);
            let run = move || {
                let _turn = turn;
                supply.run(&*task.method.build(&task.settings), task.settings.replacement(), seed)
            };
            let ended = tokio::task::spawn_blocking(run).await.map_err(|_| Refusal::internal("an attack panicked"))?;
            send(events, Event::Result(wire::result(name, &model, given, ended))).await?;
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
    ) -> Result<(Option<Arc<ReleasedScores>>, Option<(Arc<ReleasedScores>, Averaged)>), Refusal> {
        if job.queries < 2 || !job.tasks.iter().any(|t| t.needs.repeated.wanted()) {
            return Ok((Some(Arc::new(first)), None));
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
        Ok((Some(Arc::new(releases.swap_remove(0))), Some((Arc::new(averaged.0), averaged.1))))
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

async fn send(events: &mpsc::Sender<Result<pb::ReconstructEvent, Status>>, event: Event) -> Result<(), Refusal> {
    let message = pb::ReconstructEvent { event: Some(event) };
    events.send(Ok(message)).await.map_err(|_| Refusal::unavailable("the auditor has gone away"))
}
