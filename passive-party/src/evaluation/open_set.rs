//! A set of records that is open for scoring. It counts the cost of a scoring first, then answers
//! it.

use std::sync::{Arc, Mutex, PoisonError};

use nalgebra::DMatrix;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::metrics::{Attribute, MetricError, attributes};
use vfl_core::model::ONE_VS_REST;
use vfl_core::types::{FeatureBlock, ModelVersion, RecordIds};
use vfl_protocol::scoring::{ReportedCandidates, ReportedError};
use vfl_protocol::{Refusal, RefusalKind};

use super::by_attribute::AttributeScoring;
use super::counting::{Evaluations, exhausted};
use super::noise;
use super::request::{Control, RemainingBudget, ScoringRequest};
use super::scoring::{Measures, ReducedEstimates, Scoring, ScoringAnswer, ScoringError};
use super::simulated_adversary::{self, SimulatedAdversary};
use crate::config::{AuditMode, AuditPolicy};
use crate::logits::LogitServer;

/// A set of records that is open for scoring: the truth, and the name of the set.
pub struct Evaluation {
    evaluations: Arc<Evaluations>,
    set: String,
    ids: RecordIds,
    truth: FeatureBlock,
    /// The attributes of the schema.
    attributes: Vec<Attribute>,
    /// The audited model, whose share at this party classifies records; `None` if none was named.
    model: Option<(Arc<LogitServer>, ModelVersion)>,
    /// True if the active party is shown the true parameters of that model.
    true_parameters: bool,
    /// The simulated adversary that knows the moments, once it was asked for.
    played: Mutex<Option<Arc<SimulatedAdversary>>>,
}

impl std::fmt::Debug for Evaluation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Evaluation({})", self.set)
    }
}

impl Evaluation {
    /// Creates the evaluation of a set that is counted as opened, for no model yet.
    pub(super) fn new(
        evaluations: Arc<Evaluations>,
        set: String,
        ids: RecordIds,
        truth: FeatureBlock,
        schema: &FeatureSchema,
    ) -> Self {
        let (model, true_parameters, played) = (None, false, Mutex::default());
        let attributes = attributes(schema.features());
        Self { evaluations, set, ids, truth, attributes, model, true_parameters, played }
    }

    /// Names the audited model, whose share at this party classifies records for metrics that need
    /// classes. `true_parameters` says if the active party is shown its parameters unchanged, for
    /// unchanged features.
    #[must_use]
    pub(crate) fn of_model(
        self,
        logits: Arc<LogitServer>,
        version: ModelVersion,
        true_parameters: bool,
    ) -> Self {
        Self { model: Some((logits, version)), true_parameters, ..self }
    }

    /// Returns true if this party simulates the adversary that knows its moments: the owner allows
    /// it, exact scores determine A x, and enough other records are in memory.
    #[must_use]
    pub fn plays(&self) -> bool {
        let linear = |(logits, version): &(Arc<LogitServer>, ModelVersion)| {
            logits
                .features
                .memory()
                .is_some_and(|table| simulated_adversary::enough(table, &self.ids))
                && logits.share(version).is_ok_and(|share| {
                    // Of sigmoids, exact scores do not determine A x.
                    share.linear().is_ok() && share.model().spec().kind() != ONE_VS_REST
                })
        };
        self.policy().moments && self.true_parameters && self.model.as_ref().is_some_and(linear)
    }

    /// Returns the simulated adversary that knows the moments. It is computed once.
    fn played(&self) -> Result<Arc<SimulatedAdversary>, Refusal> {
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
        if share.model().spec().kind() == ONE_VS_REST {
            return Err(Refusal::precondition(
                "an adversary that knows the moments is played on softmax scores and numbers, and the model is one-vs-rest",
            ));
        }
        let weights = share.linear()?.weights();
        let Some(table) = logits.features.memory() else {
            let message = "moments are those of all records at once, and the features of this passive party are not in memory";
            return Err(Refusal::precondition(message));
        };
        let done =
            Arc::new(SimulatedAdversary::new(weights, table, &self.ids, self.truth.matrix())?);
        Ok(played.insert(done).clone())
    }

    /// Classifies records (d × n features in [0, 1]) by this party's share of the audited model.
    fn classify(&self, x: &DMatrix<f64>) -> Result<Vec<u32>, MetricError> {
        let no_classes = |reason: String| MetricError::NoClasses { reason };
        let Some((logits, version)) = &self.model else {
            return Err(no_classes("name the model audited when the scoring opens".into()));
        };
        if logits.is_of_number(version).unwrap_or(false) {
            return Err(no_classes("the model's output is a number".into()));
        }
        logits.classes(version, x.clone()).map_err(|refusal| no_classes(refusal.message))
    }

    /// Returns the rules for the answers to scorings.
    #[must_use]
    pub fn policy(&self) -> &AuditPolicy {
        self.evaluations.policy()
    }

    /// Returns the budget of ρ of this set: all of it, and the part that is left, as far as this
    /// process knows.
    #[must_use]
    pub fn rho(&self) -> (f64, f64) {
        let kept = self.evaluations.kept();
        let budget = kept.record.find(&self.set).map(|s| s.budget(self.policy()));
        budget.map_or((0.0, 0.0), |b| (b.total(), b.left()))
    }

    /// Returns how many candidates of this set can still be scored in trusted mode, as far as this
    /// process knows.
    #[must_use]
    pub fn scorings_left(&self) -> u32 {
        let record = &self.evaluations.kept().record;
        record.find(&self.set).map_or(0, |s| record.scorings_left(s, self.policy()))
    }

    /// Returns the number of features and of records.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        self.truth.matrix().shape()
    }

    /// Returns the errors of the two estimates anyone can make, ½ everywhere and each feature's
    /// mean over these records: in trusted mode only, where an opening reports them. In noised mode
    /// they are asked for as a control and cost as much as a control.
    ///
    /// # Errors
    /// INTERNAL, which cannot happen for a set of records.
    pub fn baselines(&self) -> Result<Option<(ReportedError, ReportedError)>, Refusal> {
        if self.policy().mode == AuditMode::Noised {
            return Ok(None);
        }
        let told = |scorable: ReducedEstimates| {
            let one = [scorable];
            let scoring =
                Scoring { by_feature: true, ..Scoring::of(&one, None, ReportedCandidates::All) };
            let mut scored = scoring.exact().map_err(asked_wrongly)?;
            scored
                .errors
                .pop()
                .map(|of| of.error)
                .ok_or_else(|| Refusal::internal("no baseline was scored"))
        };
        let truth = self.truth.matrix();
        let half = told(ReducedEstimates::half(truth).map_err(internal)?)?;
        Ok(Some((half, told(ReducedEstimates::column_mean(truth).map_err(internal)?)?)))
    }

    /// Reduces estimates (d × n) to the data that a scoring needs. This alone reveals nothing.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the shape is not [`Evaluation::shape`].
    pub fn scorable(&self, estimates: DMatrix<f64>) -> Result<ReducedEstimates, Refusal> {
        ReducedEstimates::new(estimates, self.truth.matrix())
            .map_err(|e| Refusal::invalid(e.to_string()))
    }

    /// Answers a scoring, after its cost is counted on disk.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it asks for nothing, or for more than its ρ allows, or names ρ in
    /// trusted mode; FAILED_PRECONDITION if a metric is not reported in this mode, or needs a model
    /// that was not named, or if an adversary that knows the moments cannot be simulated;
    /// PERMISSION_DENIED if it may not be; RESOURCE_EXHAUSTED if the set has too little left, or if
    /// more candidates came than can be kept for metrics; INTERNAL if the disk does not take the
    /// count or there is no randomness, UNAVAILABLE while the database that holds the state is
    /// away.
    pub fn score(
        &self,
        asked: &ScoringRequest,
    ) -> Result<(ScoringAnswer, RemainingBudget), Refusal> {
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
            Control::Half => Some(ReducedEstimates::half(truth).map_err(internal)?),
            Control::ColumnMean => Some(ReducedEstimates::column_mean(truth).map_err(internal)?),
            Control::Given(given) => Some(given.clone()),
            Control::Moments => played.map(|played| played.control.clone()),
        };
        let (told, by_feature) = (asked.told, asked.by_feature);
        let classify = |x: &DMatrix<f64>| self.classify(x);
        let measures = Measures { wanted: &asked.metrics, truth, classify: &classify };
        let measures = Some(measures).filter(|m| !m.wanted.is_empty());
        let attributes =
            asked.by_attribute.then_some(AttributeScoring { attributes: &self.attributes, truth });
        let scoring = Scoring {
            by_feature,
            measures,
            attributes,
            ..Scoring::of(&candidates, control.as_ref(), told)
        };
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
                Ok((
                    scoring.noised(rho, &mut rng).map_err(asked_wrongly)?,
                    RemainingBudget::Noised { spent: rho, left },
                ))
            }
            AuditMode::Trusted => {
                if asked.rho.is_some() {
                    return Err(Refusal::invalid(
                        "`rho` is for noised answers; here they are exact: leave it out",
                    ));
                }
                let scored = scoring.exact().map_err(asked_wrongly)?;
                let given = usize::from(matches!(asked.control, Control::Given(_)));
                let scorings = self.count((candidates.len() + given).max(1))?;
                Ok((scored, RemainingBudget::Trusted { scorings }))
            }
        }
    }

    /// Refuses a scoring that would be refused for its cost anyway, before any work on it.
    fn affordable(&self, asked: &ScoringRequest) -> Result<(), Refusal> {
        drop(self.evaluations.newest()?);
        match self.policy().mode {
            AuditMode::Noised => {
                let (rho, (_, left)) =
                    (asked.rho.unwrap_or(self.policy().rho_per_scoring), self.rho());
                if rho > 0.0 && rho <= left {
                    return Ok(());
                }
                Err(exhausted(format!(
                    "`rho` is {rho}, of these records {left:.6} is left; name a smaller rho, audit other records, or ask the \
                     owner to renew (passive-party scorings renew)"
                )))
            }
            AuditMode::Trusted if self.scorings_left() == 0 => {
                let message = "no scoring of these records is left; audit other records, or ask the owner to renew (passive-party \
                               scorings renew)";
                Err(exhausted(message.into()))
            }
            AuditMode::Trusted => Ok(()),
        }
    }

    /// Spends ρ of the budget, durably, and returns the ρ that is left.
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

    /// Counts candidates scored without noise, durably, and returns how many are left.
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

fn internal(error: MetricError) -> Refusal {
    Refusal::internal(error.to_string())
}

fn asked_wrongly(error: ScoringError) -> Refusal {
    match error {
        ScoringError::Unbounded { .. }
        | ScoringError::Played
        | ScoringError::Metric(MetricError::NoClasses { .. }) => {
            Refusal::precondition(error.to_string())
        }
        ScoringError::NotKept => exhausted(error.to_string()),
        ScoringError::Metric(error) => internal(error),
        ScoringError::Nothing | ScoringError::Attributes | ScoringError::TooSmall { .. } => {
            Refusal::invalid(error.to_string())
        }
    }
}
