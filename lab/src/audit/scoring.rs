//! The auditor's side of scorings: estimates to every passive party, errors back.
//!
//! Parties that trust the auditor tell every attack's errors, one scoring each. If one of them adds noise, the audit is frugal: the attacks
//! of one session are the candidates of one scoring, and what is told is which of them came out best, and its error.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use vfl_shared::metrics::{AttackAccuracy, Correlation, Metric};
use vfl_shared::numerics::three_significant_digits;
use vfl_shared::rpc::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_shared::rpc::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::pb::score::{Control, Told};
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, pb, require};
use vfl_shared::service::{Credentials, Peer};
use vfl_shared::transform::ShownParameters;
use vfl_shared::types::RecordIds;

use super::{Targets, connected, found, refused};
use crate::report::Status as Outcome;
use crate::report::{
    AttackResult, Baselines, Errors, MetricFigure, PartyError, PartyFigure, ScoringFacts, ScoringMode,
};

/// A passive party's scoring, open for one set of records.
struct Party {
    peer: Peer,
    asks: mpsc::Sender<pb::EvaluateReconstructionRequest>,
    answers: Streaming<pb::EvaluateReconstructionResponse>,
    opened: pb::EvaluationOpened,
    /// What the party shows the active party of its parameters.
    shown: ShownParameters,
    /// What one part of a scoring may cost, in noised mode.
    part: Option<f64>,
    /// The metrics that every scoring asks for.
    metrics: Vec<&'static dyn Metric>,
    /// What this audit has spent, in noised mode.
    spent: f64,
    /// What the records have left.
    left: f64,
    /// What guessing ½, and the column mean, achieves, once it was told.
    guesses: Option<[pb::ReconstructionError; 2]>,
}

fn gone(peer: &Peer) -> Refusal {
    Refusal::unavailable(format!("{peer} went away"))
}

impl Party {
    async fn open(credentials: &Credentials, peer: &Peer, version: &str, ids: &RecordIds) -> Result<Self, Refusal> {
        let mut client = PassivePartyClient::new(connected(credentials, peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (asks, outgoing) = mpsc::channel(2);
        let first = pb::EvaluateReconstructionRequest {
            message: Some(Ask::Ids(ids.into())),
            model_version: version.to_owned(),
        };
        asks.send(first).await.map_err(|_| gone(peer))?;
        let answers = client.evaluate_reconstruction(ReceiverStream::new(outgoing)).await.map_err(refused(peer))?;
        let mut answers = answers.into_inner();
        let answer = answers.message().await.map_err(refused(peer))?.ok_or_else(|| gone(peer))?;
        let Some(Answer::Opened(opened)) = answer.message else {
            return Err(Refusal::internal(format!("{peer} did not open the scoring")));
        };
        let shown = require("shown", opened.shown.as_ref()).and_then(ShownParameters::try_from);
        let shown = shown.map_err(|e| Refusal::internal(format!("{peer} answered with {e}")))?;
        let left = opened.rho_left.unwrap_or(0.0);
        let metrics = Vec::new();
        Ok(Self {
            peer: peer.clone(),
            asks,
            answers,
            opened,
            shown,
            part: None,
            metrics,
            spent: 0.0,
            left,
            guesses: None,
        })
    }

    fn noised(&self) -> bool {
        self.opened.mode() != pb::ScoringMode::Trusted
    }

    async fn send(&mut self, message: Ask) {
        let ask = pb::EvaluateReconstructionRequest { message: Some(message), ..Default::default() };
        // If the stream has ended, the answer to the scoring says why.
        let _ = self.asks.send(ask).await;
    }

    /// Estimates of one candidate, in messages of as many rows as fit.
    async fn upload(&mut self, estimates: pb::Matrix) {
        let row_bytes = (estimates.columns as usize).max(1) * 8;
        let most = (MAX_MESSAGE_BYTES / 2 / row_bytes).max(1);
        let rows = estimates.rows as usize;
        if rows <= most || estimates.values.len() != rows * row_bytes {
            let whole = pb::Estimates { rows: Some(estimates), more: false, control: false };
            return self.send(Ask::Estimates(whole)).await;
        }
        for from in (0..rows).step_by(most) {
            let to = (from + most).min(rows);
            let values = estimates.values.slice(from * row_bytes..to * row_bytes);
            let piece = pb::Matrix { rows: (to - from) as u32, columns: estimates.columns, values };
            let message = pb::Estimates { rows: Some(piece), more: to < rows, control: false };
            self.send(Ask::Estimates(message)).await;
        }
    }

    /// Has the candidates scored that were uploaded; `parts` is what the scoring is divided into beside the metrics of the one whose
    /// error is told.
    async fn score(&mut self, told: Told, control: Control, parts: usize) -> Result<pb::Scored, Refusal> {
        let rho = self.part.map(|part| (part * (parts + self.metrics.len()) as f64).min(self.left));
        let score = pb::Score {
            told: told.into(),
            by_feature: true,
            control: control.into(),
            rho: rho.filter(|_| self.noised()),
            metrics: self.metrics.iter().map(|metric| metric.name().to_owned()).collect(),
        };
        self.send(Ask::Score(score)).await;
        let answer = self.answers.message().await.map_err(refused(&self.peer))?.ok_or_else(|| gone(&self.peer))?;
        let Some(Answer::Scored(scored)) = answer.message else {
            return Err(Refusal::internal(format!("{} did not score", self.peer)));
        };
        for error in scored.errors.iter().filter_map(|candidate| candidate.error.as_ref()) {
            let told = error.metrics.iter().map(|figure| figure.metric.as_str());
            if !told.eq(self.metrics.iter().map(|metric| metric.name())) {
                return Err(Refusal::internal(format!("{} told other metrics than those asked for", self.peer)));
            }
        }
        self.spent += scored.rho_spent.unwrap_or(0.0);
        self.left = scored.rho_left.unwrap_or(self.left);
        Ok(scored)
    }
}

/// The scorings of one set of records at all passive parties.
pub(super) struct Scorings {
    parties: Vec<Party>,
    metrics: Vec<&'static dyn Metric>,
    records: usize,
    /// What the records are to the report: "audited" or "training".
    what: &'static str,
}

/// Parties that were taken out of scorings, with their places.
pub(super) struct Aside(Vec<(usize, Party)>);

/// How many attacks of a session are scored, at most, and in how many sessions: what a plan needs.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// Candidates in all, where each is scored by itself.
    pub(super) candidates: usize,
    /// Parts in all, where only the best of a session is told: two for a session of several attacks, one for a single attack.
    pub(super) parts: usize,
    /// Scorings in which an error is told, where only the best of a session is.
    pub(super) rounds: usize,
}

impl Scorings {
    /// Opens the scoring of a set of records at every passive party of the model.
    pub(super) async fn open(
        targets: &Targets,
        model: &pb::DescribeModelResponse,
        ids: &RecordIds,
        what: &'static str,
    ) -> Result<Self, Refusal> {
        let mut parties = Vec::new();
        for party in &model.passive_parties {
            let peer = targets.passive.iter().find(|p| p.name.as_str() == party.name).ok_or_else(|| {
                Refusal::invalid(format!("the model has a passive party `{}` whose address was not given", party.name))
            })?;
            parties.push(Party::open(&targets.credentials, peer, &model.model_version, ids).await?);
        }
        Ok(Self { parties, metrics: Vec::new(), records: ids.len(), what })
    }

    /// Whether only the best attack of a session is told.
    fn frugal(&self) -> bool {
        self.parties.iter().any(Party::noised)
    }

    /// What each party shows the active party of its parameters.
    pub(super) fn shown(&self) -> Vec<ShownParameters> {
        self.parties.iter().map(|p| p.shown.clone()).collect()
    }

    /// Names of each party's features.
    pub(super) fn feature_names(&self) -> Vec<(String, Vec<String>)> {
        self.parties.iter().map(|p| (p.peer.name.to_string(), p.opened.feature_names.clone())).collect()
    }

    /// The metrics that attacks are measured by, beside the mean squared error.
    pub(super) fn metrics(&self) -> &[&'static dyn Metric] {
        &self.metrics
    }

    /// Chooses the metrics, unless they are named: `DEFAULT_METRICS` where every party answers without noise, otherwise none. Divides
    /// what is left, or `rho` if that is less, equally among the parts of the plan, the two baselines and the metrics.
    ///
    /// FAILED_PRECONDITION if a party with noise would refuse a metric, RESOURCE_EXHAUSTED if one has not enough left for the plan.
    pub(super) fn plan(
        &mut self,
        needs: Needs,
        rho: Option<f64>,
        metrics: Option<&[&'static dyn Metric]>,
    ) -> Result<(), Refusal> {
        self.metrics = match metrics {
            Some(named) => named.to_vec(),
            None if self.frugal() => Vec::new(),
            None => DEFAULT_METRICS.to_vec(),
        };
        let unbounded = self.metrics.iter().find(|metric| !metric.bounded());
        if let (Some(metric), Some(party)) = (unbounded, self.parties.iter().find(|p| p.noised())) {
            return Err(Refusal::precondition(format!(
                "{} answers with noise (mode = \"noised\"), and for metric `{}` no bound is known on what one record changes; leave it out",
                party.peer,
                metric.name()
            )));
        }
        let told = self.metrics.len();
        let exhausted =
            |message: String| -> Result<(), Refusal> { Err(Refusal::new(RefusalKind::ResourceExhausted, message)) };
        // Errors of the guesses come with the opening, their metrics are a scoring.
        let wanted = u32::try_from(needs.candidates + usize::from(told > 0)).unwrap_or(u32::MAX);
        let parts = needs.parts + BASELINES + (needs.rounds + 1) * told;
        for party in &mut self.parties {
            party.metrics.clone_from(&self.metrics);
            let peer = &party.peer;
            if !party.noised() {
                let left = party.opened.scorings_left;
                if left < wanted {
                    return exhausted(format!(
                        "{peer} has {left} scorings of these records left, this audit needs {wanted}; audit other records"
                    ));
                }
                continue;
            }
            let most = rho.map_or(party.left, |rho| rho.min(party.left));
            let part = most / parts as f64;
            if part < LEAST_PART {
                return exhausted(format!(
                    "at {peer} this audit may spend rho = {most:.6} on these records, of which {:.6} of {:.6} is left: too little for its {parts} \
                     parts; audit other records, or ask the party's owner to renew (passive-party scorings renew)",
                    party.left,
                    party.opened.rho_total.unwrap_or_default(),
                ));
            }
            party.part = Some(part);
        }
        Ok(())
    }

    /// What guessing achieves on these records: told by the opening, or asked for.
    pub(super) async fn baselines(&mut self) -> Result<Baselines, Refusal> {
        let records = self.records;
        for party in &mut self.parties {
            let (half, column_mean) = if party.noised() || !party.metrics.is_empty() {
                let d = party.opened.feature_names.len();
                let values: Vec<u8> = std::iter::repeat_n(0.5f64.to_le_bytes(), d * records).flatten().collect();
                let halves = pb::Matrix { rows: records as u32, columns: d as u32, values: values.into() };
                party.upload(halves).await;
                let mut scored = party.score(Told::All, Control::ColumnMean, BASELINES).await?;
                (scored.errors.pop().and_then(|c| c.error), scored.control)
            } else {
                (party.opened.half.clone(), party.opened.column_mean.clone())
            };
            party.guesses = Some([require("baseline", half)?, require("baseline", column_mean)?]);
        }
        self.told_baselines()
    }

    /// What guessing achieves on the features of the parties that are there now, as told before.
    pub(super) fn told_baselines(&self) -> Result<Baselines, Refusal> {
        let of = |which: usize| {
            let told =
                |p: &Party| Ok((p.peer.name.to_string(), require("baseline", p.guesses.clone())?[which].clone()));
            Ok::<_, Refusal>(joint(&self.parties.iter().map(told).collect::<Result<Vec<_>, Refusal>>()?))
        };
        Ok(Baselines { half: of(0)?, column_mean: of(1)? })
    }

    /// Takes the parties of these names out: their features are no target of what comes next.
    pub(super) fn set_aside(&mut self, names: &[String]) -> Aside {
        let all = std::mem::take(&mut self.parties).into_iter().enumerate();
        let (aside, kept): (Vec<_>, Vec<_>) = all.partition(|(_, p)| names.iter().any(|n| n == p.peer.name.as_str()));
        self.parties = kept.into_iter().map(|(_, party)| party).collect();
        Aside(aside)
    }

    /// Puts parties back to where they were.
    pub(super) fn put_back(&mut self, aside: Aside) {
        for (at, party) in aside.0 {
            self.parties.insert(at.min(self.parties.len()), party);
        }
    }

    /// What the report says of these scorings.
    pub(super) fn facts(&self) -> Vec<ScoringFacts> {
        let facts = |p: &Party| ScoringFacts {
            party: p.peer.name.to_string(),
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

/// Parts that the baselines take: ½, and the column mean.
const BASELINES: usize = 2;

/// What attacks are measured by where nothing else is asked for and no noise has to be paid for.
const DEFAULT_METRICS: [&dyn Metric; 2] = [&AttackAccuracy, &Correlation];

/// The least ρ of a part that is worth asking for: σ of an error over n records is then 70 / n.
const LEAST_PART: f64 = 1e-4;

/// Why an attack that ran has no error of its own.
pub(super) const NOT_BEST: &str =
    "ran; only the error of the attack that came out best was asked for, to spend less of the budget";
const A_GUESS: &str = "guesses were not scored beside the two baselines, to spend less of the budget";

/// The attacks of one session, scored.
#[derive(Default)]
pub(super) struct Round {
    pub(super) results: Vec<AttackResult>,
    /// Candidates that wait for the scoring: their places in `results`.
    waiting: Vec<(usize, Outcome)>,
    /// Remarks on what was clipped.
    pub(super) said: Vec<String>,
}

impl Round {
    /// Takes one attack's estimates: to be scored at once, or with the others.
    pub(super) async fn add(&mut self, scorings: &mut Scorings, result: pb::AttackResult) -> Result<(), Refusal> {
        if let Some(why) = found::not_run(&result) {
            self.results.push(AttackResult::not_run(result.attack, why, result.refusal));
            return Ok(());
        }
        let frugal = scorings.frugal();
        let status = found::status(&result);
        let limits = (result.nearest_consistent, result.step_limit);
        if frugal && status == Outcome::Guess {
            self.results.push(AttackResult::not_scored(result.attack, status, A_GUESS));
            return Ok(());
        }
        let (mut told, mut clipped, mut values) = (Vec::new(), 0u64, 0u64);
        for party in &mut scorings.parties {
            let name = party.peer.name.as_str();
            let block = result.blocks.iter().find(|b| b.passive_party == name);
            let block =
                block.ok_or_else(|| Refusal::internal(format!("no estimates for passive party `{name}` came")))?;
            let estimates = require("estimates", block.estimates.clone())?;
            values += u64::from(estimates.rows) * u64::from(estimates.columns);
            party.upload(estimates).await;
            if !frugal {
                let mut scored = party.score(Told::All, Control::Unspecified, 1).await?;
                clipped += scored.clipped.iter().sum::<u64>();
                let error = scored.errors.pop().and_then(|c| c.error);
                told.push((party.peer.name.to_string(), require("error", error)?));
            }
        }
        if frugal {
            self.waiting.push((self.results.len(), status));
            self.results
                .push(AttackResult::not_scored(result.attack, status, NOT_BEST).with_limits(limits.0, limits.1));
            return Ok(());
        }
        self.clip(&result.attack, clipped, values);
        self.results.push(AttackResult::ran(result.attack, status, joint(&told)).with_limits(limits.0, limits.1));
        Ok(())
    }

    fn clip(&mut self, attack: &str, clipped: u64, of: u64) {
        if clipped > 0 {
            let percent = 100.0 * clipped as f64 / of.max(1) as f64;
            let percent = if percent < 1.0 { "less than 1 %".into() } else { format!("{percent:.0} %") };
            self.said.push(format!("{attack}: {percent} of the estimates lay outside [0, 1] and were clipped to it"));
        }
    }

    /// Has the waiting candidates scored.
    pub(super) async fn finish(&mut self, scorings: &mut Scorings) -> Result<(), Refusal> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let parts = self.waiting.len().min(2);
        let mut told = Vec::new();
        let mut best = Vec::new();
        let mut clipped = vec![0u64; self.waiting.len()];
        let mut values = 0;
        for party in &mut scorings.parties {
            let mut scored = party.score(Told::Best, Control::Unspecified, parts).await?;
            values += scorings.records as u64 * party.opened.feature_names.len() as u64;
            clipped.iter_mut().zip(&scored.clipped).for_each(|(sum, c)| *sum += c);
            let error = scored.errors.pop().and_then(|c| c.error);
            let at = scored.best.map(|b| b as usize).filter(|b| *b < self.waiting.len());
            best.push(at.ok_or_else(|| Refusal::internal(format!("{} named no best candidate", party.peer)))?);
            told.push((party.peer.name.to_string(), require("error", error)?));
        }
        let waiting = std::mem::take(&mut self.waiting);
        let all: Vec<String> =
            waiting.iter().filter_map(|(place, _)| self.results.get(*place)).map(|r| r.name.clone()).collect();
        let names: Vec<String> = best.iter().filter_map(|b| all.get(*b).cloned()).collect();
        for (name, clipped) in all.iter().zip(clipped) {
            self.clip(name, clipped, values);
        }
        let Some(&(place, status)) = best.first().and_then(|b| waiting.get(*b)) else { return Ok(()) };
        if names.iter().all(|n| Some(n) == names.first()) {
            if let (Some(result), Some(name)) = (self.results.get_mut(place), names.into_iter().next()) {
                let (near, steps) = (result.nearest_consistent, result.step_limit);
                *result = AttackResult::ran(name, status, joint(&told)).with_limits(near, steps);
            }
            return Ok(());
        }
        // Each party's features are best rebuilt by an attack of their own; an adversary may mix.
        let mixed: Vec<String> =
            names.iter().zip(&told).map(|(attack, (party, _))| format!("{attack} on {party}")).collect();
        self.results.push(AttackResult::ran(mixed.join(", "), status, joint(&told)));
        Ok(())
    }
}

/// Puts the errors of several passive parties together: the mean over all features, and each feature's own. Noise of different parties is
/// independent.
fn joint(parties: &[(String, pb::ReconstructionError)]) -> Errors {
    let per_feature: Vec<f64> = parties.iter().flat_map(|(_, e)| e.mse_by_feature.iter().copied()).collect();
    let d = per_feature.len().max(1) as f64;
    let weighted: f64 = parties.iter().map(|(_, e)| e.mse * e.mse_by_feature.len() as f64).sum();
    let noised = parties.iter().any(|(_, e)| e.sigma.is_some());
    let mse = weighted / d;
    let mut errors = Errors::new(if noised { mse } else { three_significant_digits(mse) }, per_feature);
    if noised {
        let share = |e: &pb::ReconstructionError| e.sigma.unwrap_or(0.0) * e.mse_by_feature.len() as f64 / d;
        errors.sigma = Some(parties.iter().map(|(_, e)| share(e).powi(2)).sum::<f64>().sqrt());
        let each = |e: &pb::ReconstructionError| {
            std::iter::repeat_n(e.sigma_by_feature.unwrap_or(0.0), e.mse_by_feature.len())
        };
        errors.per_feature_sigma = parties.iter().flat_map(|(_, e)| each(e)).collect();
    }
    errors.metrics = joint_metrics(parties);
    if parties.len() < 2 {
        return errors;
    }
    let part = |(party, e): &(String, pb::ReconstructionError)| PartyError {
        party: party.clone(),
        mse: e.mse,
        sigma: e.sigma,
    };
    errors.with_parties(parties.iter().map(part).collect())
}

/// Puts the metrics of several passive parties together: the mean weighted by features, over the parties where a metric is defined.
/// One that a party was not asked for, as that of a guess with noise, is left out.
fn joint_metrics(parties: &[(String, pb::ReconstructionError)]) -> Vec<MetricFigure> {
    let Some((_, first)) = parties.first() else { return Vec::new() };
    let mut joint = Vec::new();
    for name in first.metrics.iter().map(|m| &m.metric) {
        let told = parties.iter().filter_map(|(party, e)| {
            let figure = e.metrics.iter().find(|m| m.metric == *name)?;
            Some((party, e.mse_by_feature.len() as f64, figure))
        });
        let told: Vec<_> = told.collect();
        if told.len() < parties.len() {
            continue;
        }
        let defined: Vec<_> = told.into_iter().filter_map(|(p, d, m)| m.value.map(|v| (p, d, v, m.sigma))).collect();
        let features: f64 = defined.iter().map(|(_, d, ..)| d).sum();
        let mean = defined.iter().map(|(_, d, value, _)| d * value).sum::<f64>() / features;
        let noise = defined.iter().map(|(_, d, _, sigma)| (d * sigma.unwrap_or(0.0) / features).powi(2)).sum::<f64>();
        let noised = defined.iter().any(|(.., sigma)| sigma.is_some());
        let value = if noised { mean } else { three_significant_digits(mean) };
        let part = |(party, _, value, sigma): &(&String, f64, f64, Option<f64>)| PartyFigure {
            party: (*party).clone(),
            value: *value,
            sigma: *sigma,
        };
        joint.push(MetricFigure {
            name: name.clone(),
            value: (!defined.is_empty()).then_some(value),
            sigma: noised.then(|| noise.sqrt()),
            per_party: if parties.len() < 2 { Vec::new() } else { defined.iter().map(part).collect() },
        });
    }
    joint
}
