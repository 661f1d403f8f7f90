//! Scores reconstructions against the truth, which stays here.
//!
//! What scorings tell of a record is bounded: a set has at least [`MIN_RECORDS`] records, and two sets are equal or disjoint (two that
//! differ by one record would tell of that record). Then
//!
//! - by default (`noised`) every figure that depends on the truth carries noise, and all answers about a record cost at most ρ of
//!   zero-concentrated differential privacy over the life of the state directory ([`accountant`], [`sensitivity`], [`noise`]).
//!   To ask again costs again: no answer is kept.
//! - for an auditor who is trusted by name (`trusted`), figures are exact to three significant digits, and their number is bounded for each
//!   set and in all. Rounding does not hide single values from whoever chooses the estimates: some hundred answers read them.
//!
//! What an answer costs is on disk before it leaves; if the disk does not take it, nothing is answered. Where several processes share the
//! state, each decides on the newest record, and again if another one was faster.

pub mod accountant;
mod gain;
mod listing;
pub mod noise;
mod played;
mod record;
pub mod scoring;
pub mod sensitivity;
pub(crate) mod service;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nalgebra::DMatrix;
use vfl_shared::data::Features;
use vfl_shared::metrics::{Metric, MetricError};
use vfl_shared::rpc::{Refusal, RefusalKind, rough};
use vfl_shared::state_dir::StateDir;
use vfl_shared::state_file::{StateFile, StateFileError};
use vfl_shared::types::{FeatureBlock, ModelVersion, RecordIds};

pub use listing::{ScoringFacts, SetFacts, scoring_table, scorings};
pub use record::{EvaluationError, Renewal, renew};

use crate::config::{AuditMode, AuditPolicy};
use crate::logits::LogitServer;
use played::Played;
use record::{Kept, Record, ScoredSet, set_name};
use scoring::{ErrorTold, Measures, Scorable, Scored, Scoring, ScoringError, Told};

/// The fewest records of a scoring. Fewer of an opening that are not held are not counted out either.
pub const MIN_RECORDS: usize = 100;

/// The most candidates of one scoring.
pub const MAX_CANDIDATES: usize = 64;

/// The record of all scorings, on disk.
pub struct Evaluations {
    file: StateFile,
    policy: AuditPolicy,
    kept: Mutex<Kept>,
}

impl std::fmt::Debug for Evaluations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Evaluations({})", self.file.path().display())
    }
}

/// A set of records opened for scoring: the truth, and which set it is.
pub struct Evaluation {
    evaluations: Arc<Evaluations>,
    set: String,
    ids: RecordIds,
    truth: FeatureBlock,
    /// The model audited, whose share at this party classifies records; `None`: none was named.
    model: Option<(Arc<LogitServer>, ModelVersion)>,
    /// Whether the active party is shown the true parameters of that model.
    true_parameters: bool,
    /// What came of playing the adversary that knows the moments, once it was asked for.
    played: Mutex<Option<Arc<Played>>>,
}

impl std::fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Evaluation({})", self.set)
    }
}

/// What a scoring compares with.
#[derive(Debug, Clone)]
pub enum Control {
    /// Nothing.
    None,
    /// ½ everywhere.
    Half,
    /// Each feature's mean over the records.
    ColumnMean,
    /// Estimates of the auditor's.
    Given(Scorable),
    /// Each feature's mean over the records here that are not scored.
    Moments,
}

/// A scoring as it is asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The candidates.
    pub candidates: Vec<Scorable>,
    /// Whether an adversary that knows the moments is played: its likeliest point and its mean are candidates after the others.
    pub moments: bool,
    /// The control.
    pub control: Control,
    /// Whose errors are wanted.
    pub told: Told,
    /// Whether by feature too.
    pub by_feature: bool,
    /// What else is wanted of the candidates whose errors are told, and in trusted mode of the control.
    pub metrics: Vec<&'static dyn Metric>,
    /// What may be spent; in trusted mode nothing.
    pub rho: Option<f64>,
}

/// What is left after an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Left {
    /// In noised mode.
    Noised {
        /// What this answer has cost.
        spent: f64,
        /// What the set has left.
        left: f64,
    },
    /// In trusted mode: candidates.
    Trusted {
        /// How many.
        scorings: u32,
    },
}

fn internal(error: MetricError) -> Refusal {
    Refusal::internal(error.to_string())
}

fn exhausted(message: String) -> Refusal {
    Refusal::new(RefusalKind::ResourceExhausted, message)
}

fn asked_wrongly(error: ScoringError) -> Refusal {
    match error {
        ScoringError::Unbounded { .. } | ScoringError::Played | ScoringError::Metric(MetricError::NoClasses { .. }) => {
            Refusal::precondition(error.to_string())
        }
        ScoringError::NotKept => exhausted(error.to_string()),
        ScoringError::Metric(error) => internal(error),
        ScoringError::Nothing | ScoringError::TooSmall { .. } => Refusal::invalid(error.to_string()),
    }
}

impl Evaluations {
    /// Opens the record in a directory.
    ///
    /// # Errors
    /// [`EvaluationError`] if it cannot be read or is damaged.
    pub fn open(dir: impl Into<StateDir>, policy: AuditPolicy) -> Result<Self, EvaluationError> {
        let file = record::file(&dir.into());
        let kept = Mutex::new(Record::read(&file)?);
        Ok(Self { file, policy, kept })
    }

    /// How scorings are answered.
    #[must_use]
    pub fn policy(&self) -> &AuditPolicy {
        &self.policy
    }

    /// The record as it was last read or written here.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record as it is now, whoever wrote it.
    fn newest(&self) -> Result<MutexGuard<'_, Kept>, Refusal> {
        let mut kept = self.kept();
        kept.refresh(&self.file).map_err(|error| self.uncounted(&error))?;
        Ok(kept)
    }

    fn uncounted(&self, error: &StateFileError) -> Refusal {
        tracing::error!(path = %self.file.path().display(), %error, "a scoring cannot be counted on disk");
        let message = "cannot count the scoring on disk, so it is not done; the passive party's log says why";
        Refusal::own_state(error.away(), message)
    }

    /// Changes the record, on disk first: if the disk does not take it, nothing has changed and nothing may be told. `None`: another
    /// process has changed it since it was read, so that all has to be decided again.
    fn change_kept<T>(
        &self,
        kept: &mut Kept,
        change: impl FnOnce(&mut Record) -> Result<T, Refusal>,
    ) -> Result<Option<T>, Refusal> {
        let mut changed = kept.record.clone();
        let done = change(&mut changed)?;
        let replaced = kept.replace(&self.file, changed).map_err(|error| self.uncounted(&error))?;
        Ok(replaced.then_some(done))
    }

    /// The same of the newest record, as often as it takes: of several processes one gets on each time.
    fn change<T>(&self, mut change: impl FnMut(&mut Record) -> Result<T, Refusal>) -> Result<T, Refusal> {
        loop {
            let mut kept = self.newest()?;
            if let Some(done) = self.change_kept(&mut kept, &mut change)? {
                return Ok(done);
            }
        }
    }

    /// Opens a set of records for scoring.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for fewer than 100 records. NOT_FOUND when some are not held here (how many only from 100 on, never which) and
    /// FAILED_PRECONDITION when the set overlaps another one; both are counted, and RESOURCE_EXHAUSTED when too many were, or in
    /// trusted mode too many sets opened. FAILED_PRECONDITION in noised mode when the set was told of without noise. UNAVAILABLE or
    /// INTERNAL, uncounted, when the features cannot be had. Waits for a store that is not in memory.
    pub fn start(self: &Arc<Self>, features: &Features, ids: &RecordIds) -> Result<Evaluation, Refusal> {
        loop {
            if let Some(evaluation) = self.try_start(features, ids)? {
                return Ok(evaluation);
            }
        }
    }

    /// The same; `None`: another process has changed the record meanwhile.
    fn try_start(self: &Arc<Self>, features: &Features, ids: &RecordIds) -> Result<Option<Evaluation>, Refusal> {
        if ids.len() < MIN_RECORDS {
            let message = format!("a scoring takes at least {MIN_RECORDS} records, {} came", ids.len());
            return Err(Refusal::invalid(message));
        }
        let mut sorted: Vec<&str> = ids.iter().collect();
        sorted.sort_unstable();
        let set = set_name(&sorted);
        let trusted = self.policy.mode == AuditMode::Trusted;
        let mut kept = self.newest()?;
        let record = &kept.record;
        let known = record.find(&set).map(|s| s.exact);
        if known == Some(true) && !trusted {
            let message =
                "these records were scored without noise before, so that no budget protects them; audit other records";
            return Err(Refusal::precondition(message));
        }
        // Whatever would be refused without a look at the records comes before the look: it must not answer for it.
        if trusted && known != Some(true) && record.sets_left(&self.policy) == 0 {
            return Err(exhausted(
                "no further set of records can be scored here; score one that was scored before, or ask the owner to renew \
                 (passive-party scorings renew)"
                    .into(),
            ));
        }
        if known.is_none() && record.refusals_left(&self.policy) == 0 {
            return Err(exhausted(
                "too many openings were refused because of their records, so that no new set is opened; score one that was scored \
                 before, or ask the owner to renew (passive-party scorings renew)"
                    .into(),
            ));
        }
        let found = features.lookup_waiting(ids).map_err(|e| e.told("this passive party"))?;
        let missing = ids.len() - found.held.len();
        if missing > 0 {
            let message = format!("{} of the {} records are not held here", rough(missing), ids.len());
            return self.refuse_opening(&mut kept, RefusalKind::NotFound, &message);
        }
        if known.is_none() {
            let wanted: HashSet<&str> = sorted.iter().copied().collect();
            if record.sets.iter().any(|s| s.ids.iter().any(|id| wanted.contains(id.as_str()))) {
                let message = "the set overlaps another one that was scored before; score that very set again, or one that shares \
                               no record with it";
                return self.refuse_opening(&mut kept, RefusalKind::FailedPrecondition, message);
            }
        }
        let truth = found.block;
        if known.is_none() || (trusted && known == Some(false)) {
            // What is not on disk must not count as known: after a restart the overlap would go unseen.
            let counted = self.change_kept(&mut kept, |record| {
                if known.is_none() {
                    let ids = sorted.iter().map(|&id| id.to_owned()).collect();
                    record.sets.push(ScoredSet::new(set.clone(), ids));
                }
                if let Some(found) = record.find_mut(&set) {
                    // The opening tells the errors of the two guesses.
                    found.exact |= trusted;
                }
                Ok(())
            })?;
            if counted.is_none() {
                return Ok(None);
            }
        }
        drop(kept);
        Ok(Some(Evaluation {
            evaluations: self.clone(),
            set,
            ids: ids.clone(),
            truth,
            model: None,
            true_parameters: false,
            played: Mutex::default(),
        }))
    }

    /// Counts an opening that is refused because of its records, before the refusal leaves; `None` as of [`Self::change_kept`].
    fn refuse_opening<T>(&self, kept: &mut Kept, kind: RefusalKind, message: &str) -> Result<Option<T>, Refusal> {
        let counted = self.change_kept(kept, |record| {
            record.refused_openings = record.refused_openings.saturating_add(1);
            Ok(record.refusals_left(&self.policy))
        })?;
        match counted {
            Some(left) => Err(Refusal::new(kind, format!("{message} ({left} more openings may be refused)"))),
            None => Ok(None),
        }
    }
}

impl Evaluation {
    /// The same for an audit of this model, whose share at this party classifies records for metrics that need classes. `true_parameters`
    /// says whether the active party is shown its parameters as they are, for features as they are.
    #[must_use]
    pub(crate) fn of_model(self, logits: Arc<LogitServer>, version: ModelVersion, true_parameters: bool) -> Self {
        Self { model: Some((logits, version)), true_parameters, ..self }
    }

    /// Whether this party plays the adversary that knows its moments: by the owner's leave, and where A x is what exact scores tell.
    #[must_use]
    pub fn plays(&self) -> bool {
        let linear = |(logits, version): &(Arc<LogitServer>, ModelVersion)| {
            logits.features.memory().is_some_and(|table| played::enough(table, &self.ids))
                && logits.share(version).is_ok_and(|share| share.linear().is_ok())
        };
        self.policy().moments && self.true_parameters && self.model.as_ref().is_some_and(linear)
    }

    /// The adversary that knows the moments, played.
    fn played(&self) -> Result<Arc<Played>, Refusal> {
        if !self.policy().moments {
            let message = "this passive party plays no adversary that knows its moments (`moments` in [audit])";
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        let Some((logits, version)) = &self.model else {
            return Err(Refusal::precondition("name the model audited when the scoring opens"));
        };
        if !self.true_parameters {
            return Err(Refusal::precondition(
                "an adversary that knows the moments is played where the active party is shown the true parameters, which here it is not",
            ));
        }
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(played) = &*played {
            return Ok(played.clone());
        }
        let share = logits.share(version)?;
        let weights = share.linear()?.weights();
        let Some(table) = logits.features.memory() else {
            let message =
                "moments are those of all records at once, and the features of this passive party are not in memory";
            return Err(Refusal::precondition(message));
        };
        let done = Arc::new(Played::new(weights, table, &self.ids, self.truth.matrix())?);
        Ok(played.insert(done).clone())
    }

    /// The class of each of some records (d × n features in [0, 1]) by this party's share of the model audited.
    fn classify(&self, x: &DMatrix<f64>) -> Result<Vec<u32>, MetricError> {
        let no_classes = |reason: String| MetricError::NoClasses { reason };
        let Some((logits, version)) = &self.model else {
            return Err(no_classes("name the model audited when the scoring opens".into()));
        };
        logits.classes(version, x.clone()).map_err(|refusal| no_classes(refusal.message))
    }

    /// How scorings are answered.
    #[must_use]
    pub fn policy(&self) -> &AuditPolicy {
        &self.evaluations.policy
    }

    /// Budget of ρ of this set: all of it, and what is left, as far as this process knows.
    #[must_use]
    pub fn rho(&self) -> (f64, f64) {
        let kept = self.evaluations.kept();
        let budget = kept.record.find(&self.set).map(|s| s.budget(self.policy()));
        budget.map_or((0.0, 0.0), |b| (b.total(), b.left()))
    }

    /// How many candidates of this set can be scored in trusted mode, as far as this process knows.
    #[must_use]
    pub fn scorings_left(&self) -> u32 {
        let record = &self.evaluations.kept().record;
        record.find(&self.set).map_or(0, |s| record.scorings_left(s, self.policy()))
    }

    /// Number of features and of records.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        self.truth.matrix().shape()
    }

    /// Errors of the two estimates anyone can make, ½ everywhere and each feature's mean over these records: in trusted mode only,
    /// where an opening tells them. In noised mode they are asked for as a control and cost what a control costs.
    ///
    /// # Errors
    /// INTERNAL, which a set of records excludes.
    pub fn baselines(&self) -> Result<Option<(ErrorTold, ErrorTold)>, Refusal> {
        if self.policy().mode == AuditMode::Noised {
            return Ok(None);
        }
        let told = |scorable: Scorable| {
            let one = [scorable];
            let scoring =
                Scoring { candidates: &one, control: None, told: Told::All, by_feature: true, measures: None };
            let mut scored = scoring.exact().map_err(asked_wrongly)?;
            scored.errors.pop().map(|(_, error, _)| error).ok_or_else(|| Refusal::internal("no baseline was scored"))
        };
        let truth = self.truth.matrix();
        let half = told(Scorable::half(truth).map_err(internal)?)?;
        Ok(Some((half, told(Scorable::column_mean(truth).map_err(internal)?)?)))
    }

    /// Reduces estimates (d × n) to what a scoring needs. Nothing is told by this alone.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the shape is not [`Evaluation::shape`].
    pub fn scorable(&self, estimates: DMatrix<f64>) -> Result<Scorable, Refusal> {
        Scorable::new(estimates, self.truth.matrix()).map_err(|e| Refusal::invalid(e.to_string()))
    }

    /// Answers a scoring, having counted on disk what it costs.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it asks for nothing, or for more than its ρ can tell, or names ρ in trusted mode; FAILED_PRECONDITION when a
    /// metric is not told in this mode, or needs a model that was not named, or an adversary that knows the moments cannot be played;
    /// PERMISSION_DENIED when it may not; RESOURCE_EXHAUSTED when the set has not as much left, or
    /// more candidates came than can be kept for metrics; INTERNAL when the disk does not take the count or there is no randomness, UNAVAILABLE
    /// while the database that holds the state is away.
    pub fn score(&self, asked: &Asked) -> Result<(Scored, Left), Refusal> {
        let truth = self.truth.matrix();
        let plays = asked.moments || matches!(asked.control, Control::Moments);
        if plays {
            self.affordable(asked)?;
        }
        let played = if plays { Some(self.played()?) } else { None };
        let mut candidates = asked.candidates.clone();
        if let Some(played) = played.as_ref().filter(|_| asked.moments) {
            candidates.extend(played.attacks.iter().cloned());
        }
        let control = match &asked.control {
            Control::None => None,
            Control::Half => Some(Scorable::half(truth).map_err(internal)?),
            Control::ColumnMean => Some(Scorable::column_mean(truth).map_err(internal)?),
            Control::Given(given) => Some(given.clone()),
            Control::Moments => played.map(|played| played.control.clone()),
        };
        let (told, by_feature) = (asked.told, asked.by_feature);
        let classify = |x: &DMatrix<f64>| self.classify(x);
        let measures = Measures { wanted: &asked.metrics, truth, classify: &classify };
        let measures = Some(measures).filter(|m| !m.wanted.is_empty());
        let scoring = Scoring { candidates: &candidates, control: control.as_ref(), told, by_feature, measures };
        match self.policy().mode {
            AuditMode::Noised => {
                let rho = asked.rho.unwrap_or(self.policy().rho_per_scoring);
                if !(rho.is_finite() && rho > 0.0) {
                    return Err(Refusal::invalid(format!("`rho` is {rho}, it must be above 0")));
                }
                scoring.check(rho).map_err(asked_wrongly)?;
                // Before the budget: without randomness nothing is spent.
                let mut rng = noise::generator()?;
                let left = self.spend(rho)?;
                Ok((scoring.noised(rho, &mut rng).map_err(asked_wrongly)?, Left::Noised { spent: rho, left }))
            }
            AuditMode::Trusted => {
                if asked.rho.is_some() {
                    return Err(Refusal::invalid("`rho` is for noised answers; here they are exact: leave it out"));
                }
                let scored = scoring.exact().map_err(asked_wrongly)?;
                let given = usize::from(matches!(asked.control, Control::Given(_)));
                let scorings = self.count((candidates.len() + given).max(1))?;
                Ok((scored, Left::Trusted { scorings }))
            }
        }
    }

    /// Refuses what would be refused for its cost anyway, before there is work for it.
    fn affordable(&self, asked: &Asked) -> Result<(), Refusal> {
        drop(self.evaluations.newest()?);
        match self.policy().mode {
            AuditMode::Noised => {
                let (rho, (_, left)) = (asked.rho.unwrap_or(self.policy().rho_per_scoring), self.rho());
                if rho > 0.0 && rho <= left {
                    return Ok(());
                }
                Err(exhausted(format!("`rho` is {rho}, of these records {left:.6} is left")))
            }
            AuditMode::Trusted if self.scorings_left() == 0 => {
                Err(exhausted("no scoring of these records is left".into()))
            }
            AuditMode::Trusted => Ok(()),
        }
    }

    /// Takes ρ from the budget, durably, and says what is left.
    fn spend(&self, rho: f64) -> Result<f64, Refusal> {
        let (evaluations, policy) = (&self.evaluations, self.policy());
        evaluations.change(|record| {
            let found = record.find_mut(&self.set).ok_or_else(closed)?;
            let budget = found.budget(policy).spend(rho).map_err(|over| {
                exhausted(format!(
                    "this scoring would spend rho = {}, of the {:.6} for these records {:.6} is left; name a smaller rho, audit other \
                     records, or ask the owner to renew (passive-party scorings renew)",
                    over.asked,
                    found.budget(policy).total(),
                    over.left
                ))
            })?;
            found.rho_spent = budget.spent();
            found.answers = found.answers.saturating_add(1);
            Ok(budget.left())
        })
    }

    /// Counts candidates scored without noise, durably, and says how many are left.
    fn count(&self, candidates: usize) -> Result<u32, Refusal> {
        let (evaluations, policy) = (&self.evaluations, self.policy());
        let wanted = u32::try_from(candidates).unwrap_or(u32::MAX);
        evaluations.change(|record| {
            let left = record.find(&self.set).map(|s| record.scorings_left(s, policy)).ok_or_else(closed)?;
            if wanted > left {
                return Err(exhausted(format!(
                    "this scoring has {wanted} candidates, and {left} scorings of these records are left (at most {} of one set, {} of \
                     all); audit other records, or ask the owner to renew (passive-party scorings renew)",
                    policy.max_scorings, policy.max_total_scorings
                )));
            }
            let found = record.find_mut(&self.set).ok_or_else(closed)?;
            found.scorings = found.scorings.saturating_add(wanted);
            found.exact = true;
            Ok(left - wanted)
        })
    }
}

fn closed() -> Refusal {
    Refusal::internal("the set of records is no longer open")
}
