//! The auditor's side of scorings: uploads estimates to every passive party and receives errors.
//!
//! Parties that trust the auditor report every attack's errors, one scoring each. If any party adds
//! noise, the audit saves budget: the attacks of one session are the candidates of one scoring,
//! which reports only the best of them and its error.

use vfl_core::data::schema::FeatureSpec;
use vfl_core::metrics::{AttackAccuracy, Correlation, Metric};
use vfl_core::model::Combiner;
use vfl_core::types::{ModelVersion, RecordIds};
use vfl_protocol::scoring::{
    ControlKind, Question, ReportedCandidates, ReportedError, ScoringInfo, ScoringReport,
};
use vfl_protocol::{EncodedEstimates, Refusal, RefusalKind, ShownParameters, require};
use vfl_server::service::{Credentials, Peer};

use super::client::{Scoring, features};
use super::joint::joint;
use super::model::Model;
use super::plan::Targets;
use crate::report::{Baselines, ScoringFacts, ScoringMode};

/// A passive party's scoring, open for one set of records.
pub(super) struct Party {
    scoring: Scoring,
    opened: ScoringInfo,
    /// The features, as described by the party's public schema.
    features: Vec<FeatureSpec>,
    /// The most that one part of a scoring may cost, in noised mode.
    part: Option<f64>,
    /// The metrics that every scoring asks for.
    metrics: Vec<&'static dyn Metric>,
    /// The spending of this audit, in noised mode.
    spent: f64,
    /// The budget left for the records.
    left: f64,
    /// The errors of guessing ½ and the column mean, once known.
    guesses: Option<[ReportedError; 2]>,
}

impl Party {
    async fn open(
        credentials: &Credentials,
        peer: &Peer,
        version: &ModelVersion,
        ids: &RecordIds,
    ) -> Result<Self, Refusal> {
        let features = features(credentials, peer).await?;
        let (scoring, opened) = Scoring::open(credentials, peer, version, ids).await?;
        if !features.iter().map(|f| &f.name).eq(&opened.feature_names) {
            return Err(Refusal::internal(format!(
                "{peer} describes other features than it scores"
            )));
        }
        let left = opened.rho_left.unwrap_or(0.0);
        Ok(Self {
            scoring,
            opened,
            features,
            part: None,
            metrics: Vec::new(),
            spent: 0.0,
            left,
            guesses: None,
        })
    }

    pub(super) fn name(&self) -> &str {
        self.peer().name.as_str()
    }

    /// Returns the party's name and address.
    pub(super) fn peer(&self) -> &Peer {
        self.scoring.peer()
    }

    /// Returns the features, as described by the party's public schema.
    pub(super) fn features(&self) -> &[FeatureSpec] {
        &self.features
    }

    fn noised(&self) -> bool {
        self.opened.noised
    }

    /// Returns true if the party simulates the adversary that knows its moments.
    pub(super) fn plays(&self) -> bool {
        self.opened.moments
    }

    /// Has the party simulate the adversary that knows its moments, and its control. Metrics are
    /// asked for only without noise.
    ///
    /// # Errors
    /// As [`Party::score`].
    pub(super) async fn score_played(
        &mut self,
        told: ReportedCandidates,
        parts: usize,
    ) -> Result<ScoringReport, Refusal> {
        let rho =
            self.part.map(|part| (part * parts as f64).min(self.left)).filter(|_| self.noised());
        let metrics = if self.noised() { Vec::new() } else { self.metrics.clone() };
        let question = Question { moments: true, ..question(told, ControlKind::Moments) };
        self.ask(Question { rho, metrics, ..question }).await
    }

    /// Uploads the estimates of one candidate.
    pub(super) async fn upload(&mut self, estimates: EncodedEstimates) {
        self.scoring.upload(estimates, false).await;
    }

    /// Uploads the control of the next scoring's candidates.
    pub(super) async fn upload_control(&mut self, estimates: EncodedEstimates) {
        self.scoring.upload(estimates, true).await;
    }

    /// Has the uploaded candidates scored. The scoring may spend `parts` parts, and one for each
    /// metric of the candidate whose error is reported.
    ///
    /// # Errors
    /// [`Refusal`] with what the party said, or that it went away or answered with nonsense.
    pub(super) async fn score(
        &mut self,
        told: ReportedCandidates,
        control: ControlKind,
        parts: usize,
    ) -> Result<ScoringReport, Refusal> {
        let rho = self.part.map(|part| (part * (parts + self.metrics.len()) as f64).min(self.left));
        let rho = rho.filter(|_| self.noised());
        let metrics = self.metrics.clone();
        self.ask(Question { rho, metrics, ..question(told, control) }).await
    }

    async fn ask(&mut self, question: Question) -> Result<ScoringReport, Refusal> {
        let scored = self.scoring.score(question).await?;
        self.spent += scored.rho_spent.unwrap_or(0.0);
        self.left = scored.rho_left.unwrap_or(self.left);
        Ok(scored)
    }

    /// Sets the metrics, and the cost of a part of a scoring: an equal share of `rho`, or of the
    /// budget left if that is less.
    fn plan(
        &mut self,
        needs: ScoringNeeds,
        rho: Option<f64>,
        metrics: &[&'static dyn Metric],
    ) -> Result<(), Refusal> {
        self.metrics = metrics.to_vec();
        let told = metrics.len();
        let peer = self.peer();
        let exhausted =
            |message: String| Err(Refusal::new(RefusalKind::ResourceExhausted, message));
        if !self.noised() {
            // The errors of the guesses come with the opening; their metrics need a scoring.
            let wanted =
                u32::try_from(needs.candidates + usize::from(told > 0)).unwrap_or(u32::MAX);
            let left = self.opened.scorings_left;
            if left < wanted {
                return exhausted(format!(
                    "{peer} has {left} scorings of these records left, this audit needs {wanted}; audit other records, or ask the \
                     party's owner to renew (passive-party scorings renew)"
                ));
            }
            return Ok(());
        }
        let parts = needs.parts + BASELINES + (needs.rounds + 1) * told;
        let most = rho.map_or(self.left, |rho| rho.min(self.left));
        let part = most / parts as f64;
        if part < LEAST_PART {
            return exhausted(format!(
                "at {peer} this audit may spend rho = {most:.6} on these records, of which {:.6} of {:.6} is left: too little for its {parts} \
                 parts; audit other records, or ask the party's owner to renew (passive-party scorings renew)",
                self.left,
                self.opened.rho_total.unwrap_or_default(),
            ));
        }
        self.part = Some(part);
        Ok(())
    }

    /// Fetches the errors of guessing ½ and the column mean on `records` records, from the opening
    /// or by a scoring.
    async fn guess(&mut self, records: usize) -> Result<(), Refusal> {
        let (half, column_mean) = if self.noised() || !self.metrics.is_empty() {
            self.upload(EncodedEstimates::halves(records, self.features().len())).await;
            let mut scored =
                self.score(ReportedCandidates::All, ControlKind::ColumnMean, BASELINES).await?;
            (scored.errors.pop().map(|of| of.error), scored.control)
        } else {
            (self.opened.half.clone(), self.opened.column_mean.clone())
        };
        self.guesses = Some([require("baseline", half)?, require("baseline", column_mean)?]);
        Ok(())
    }
}

/// Returns a question with all errors by feature, and by attribute if there is a control.
fn question(told: ReportedCandidates, control: ControlKind) -> Question {
    Question {
        told,
        by_feature: true,
        by_attribute: control != ControlKind::None,
        control,
        moments: false,
        rho: None,
        metrics: Vec::new(),
    }
}

/// The scorings of one set of records at all passive parties.
pub(super) struct Scorings {
    parties: Vec<Party>,
    metrics: Vec<&'static dyn Metric>,
    records: usize,
    /// The label of the records in the report: "audited" or "training".
    what: &'static str,
}

/// Parties that were taken out of scorings, with their places.
pub(super) struct SetAsideParties(Vec<(usize, Party)>);

/// The scorings that a plan needs, at most.
#[derive(Clone, Copy)]
pub(super) struct ScoringNeeds {
    /// The number of candidates, if each is scored by itself.
    pub(super) candidates: usize,
    /// The number of parts, if only the best of a session is reported: two for a session of several
    /// attacks, one for a single attack.
    pub(super) parts: usize,
    /// The number of scorings that report an error, if only the best of a session is reported.
    pub(super) rounds: usize,
}

impl ScoringNeeds {
    /// Adds two needs.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            candidates: self.candidates + other.candidates,
            parts: self.parts + other.parts,
            rounds: self.rounds + other.rounds,
        }
    }
}

impl Scorings {
    /// Opens the scoring of a set of records at every passive party of the model.
    ///
    /// # Errors
    /// [`Refusal`] naming a party whose address is missing, that is not reachable, or that refuses.
    pub(super) async fn open(
        targets: &Targets,
        model: &Model,
        ids: &RecordIds,
        what: &'static str,
    ) -> Result<Self, Refusal> {
        let mut parties = Vec::new();
        for name in &model.passive_parties {
            let peer = targets.passive.iter().find(|peer| peer.name.as_str() == name).ok_or_else(
                || {
                    Refusal::invalid(format!(
                        "the model has a passive party `{name}` whose address was not given"
                    ))
                },
            )?;
            parties.push(Party::open(&targets.credentials, peer, &model.version, ids).await?);
        }
        Ok(Self { parties, metrics: Vec::new(), records: ids.len(), what })
    }

    /// Returns true if only the best attack of a session is reported, to save budget.
    pub(super) fn frugal(&self) -> bool {
        self.parties.iter().any(Party::noised)
    }

    /// Returns the parties under attack.
    pub(super) fn parties(&mut self) -> &mut [Party] {
        &mut self.parties
    }

    /// Returns the party under attack, if there is only one.
    pub(super) fn only_party(&self) -> Option<&Party> {
        if let [party] = self.parties.as_slice() { Some(party) } else { None }
    }

    /// Returns the features of all parties under attack side by side. Group names carry the party's
    /// name, so that groups of two parties differ.
    pub(super) fn features(&self) -> Vec<FeatureSpec> {
        let of_party = |party: &Party, f: &FeatureSpec| {
            let group = f.group.as_ref().map(|group| format!("{}: {group}", party.name()));
            FeatureSpec { group, ..f.clone() }
        };
        self.parties
            .iter()
            .flat_map(|party| party.features.iter().map(move |f| of_party(party, f)))
            .collect()
    }

    /// Returns the number of records.
    pub(super) fn records(&self) -> usize {
        self.records
    }

    /// Returns the parameters that each party shows the active party.
    pub(super) fn shown(&self) -> Vec<ShownParameters> {
        self.parties.iter().map(|p| p.opened.shown.clone()).collect()
    }

    /// Returns the feature names of each party.
    pub(super) fn feature_names(&self) -> Vec<(String, Vec<String>)> {
        self.parties.iter().map(|p| (p.name().to_owned(), p.opened.feature_names.clone())).collect()
    }

    /// Returns the metrics of the attacks beside the mean squared error.
    pub(super) fn metrics(&self) -> &[&'static dyn Metric] {
        &self.metrics
    }

    /// Sets the metrics, and divides the budget, or `rho` if that is less, equally among the parts
    /// of the plan, the two baselines and the metrics. Metrics that are not named are
    /// `DEFAULT_METRICS` if every party answers without noise, otherwise none.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if a party with noise would refuse a metric, RESOURCE_EXHAUSTED if one
    /// has not enough left for the plan.
    pub(super) fn plan(
        &mut self,
        needs: ScoringNeeds,
        rho: Option<f64>,
        (metrics, combiner, classes): (Option<&[&'static dyn Metric]>, Combiner, usize),
    ) -> Result<(), Refusal> {
        // An embedding gives no class, and a number has none.
        let classified = combiner == Combiner::Sum && classes > 1;
        let means_something =
            |metric: &&'static dyn Metric| classified || metric.name() != AttackAccuracy.name();
        self.metrics = match metrics {
            Some(named) => named.to_vec(),
            None if self.frugal() => Vec::new(),
            None => DEFAULT_METRICS.into_iter().filter(means_something).collect(),
        };
        if let Some(metric) = self.metrics.iter().find(|metric| !means_something(metric)) {
            return Err(Refusal::precondition(format!(
                "metric `{}` takes the class that a passive party's logit share alone gives, and this model's parties have embeddings, or \
                 it is one of a number; leave it out",
                metric.name()
            )));
        }
        let unbounded = self.metrics.iter().find(|metric| !metric.bounded());
        if let (Some(metric), Some(party)) = (unbounded, self.parties.iter().find(|p| p.noised())) {
            return Err(Refusal::precondition(format!(
                "{} answers with noise (mode = \"noised\"), and for metric `{}` no bound is known on what one record changes; leave it out",
                party.peer(),
                metric.name()
            )));
        }
        self.parties.iter_mut().try_for_each(|party| party.plan(needs, rho, &self.metrics))
    }

    /// Fetches the errors of guessing on these records.
    ///
    /// # Errors
    /// [`Refusal`] if a party does not tell.
    pub(super) async fn baselines(&mut self) -> Result<Baselines, Refusal> {
        for party in &mut self.parties {
            party.guess(self.records).await?;
        }
        self.told_baselines()
    }

    /// Returns the errors of guessing on the features of the current parties, as fetched before.
    ///
    /// # Errors
    /// [`Refusal`] if they were not fetched before.
    pub(super) fn told_baselines(&self) -> Result<Baselines, Refusal> {
        let of = |which: usize| {
            let told = |p: &Party| {
                Ok((p.name().to_owned(), require("baseline", p.guesses.clone())?[which].clone()))
            };
            Ok::<_, Refusal>(joint(
                &self.parties.iter().map(told).collect::<Result<Vec<_>, Refusal>>()?,
            ))
        };
        Ok(Baselines { half: of(0)?, column_mean: of(1)? })
    }

    /// Takes the parties of these names out: their features are no target of the next scorings.
    pub(super) fn set_aside(&mut self, names: &[String]) -> SetAsideParties {
        let all = std::mem::take(&mut self.parties).into_iter().enumerate();
        let (aside, kept): (Vec<_>, Vec<_>) =
            all.partition(|(_, p)| names.iter().any(|n| n == p.name()));
        self.parties = kept.into_iter().map(|(_, party)| party).collect();
        SetAsideParties(aside)
    }

    /// Puts parties back in their places.
    pub(super) fn put_back(&mut self, aside: SetAsideParties) {
        for (at, party) in aside.0 {
            self.parties.insert(at.min(self.parties.len()), party);
        }
    }

    /// Returns the report's facts on these scorings.
    pub(super) fn facts(&self) -> Vec<ScoringFacts> {
        let facts = |p: &Party| ScoringFacts {
            party: p.name().to_owned(),
            records: self.records,
            what: self.what.into(),
            mode: if p.noised() { ScoringMode::Noised } else { ScoringMode::Trusted },
            rho_spent: p.noised().then_some(p.spent),
            rho_left: p.noised().then_some(p.left),
            rho_total: p.opened.rho_total.filter(|_| p.noised()),
        };
        self.parties.iter().map(facts).collect()
    }
}

/// The number of parts for the baselines: ½ and the column mean.
const BASELINES: usize = 2;

/// The default metrics if no metrics are named and no party adds noise.
pub const DEFAULT_METRICS: [&'static dyn Metric; 2] = [&AttackAccuracy, &Correlation];

/// The least useful ρ of a part: σ of an error over n records is then 70 / n.
const LEAST_PART: f64 = 1e-4;
