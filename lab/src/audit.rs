//! An audit, run by the auditor over the sockets of any deployment: a session per defense, every attack in it, every
//! reconstruction scored by the party that holds the truth.

mod found;
mod helped;
mod scoring;
mod without;

use tonic::Status;
use tonic::transport::Channel;
use vfl_active_party::attack::{AttackConfig, Method, Settings, adaptive_for};
use vfl_shared::metrics::Metric;
use vfl_shared::policy::{DefenseConfig, Leaves, Policy};
use vfl_shared::rpc::pb::active_party_client::ActivePartyClient;
use vfl_shared::rpc::pb::attack_result::{Questions, Refused};
use vfl_shared::rpc::pb::coordinator_client::CoordinatorClient;
use vfl_shared::rpc::pb::reconstruct_event::Event;
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, pb, peer_failure};
use vfl_shared::service::{Credentials, Peer, TlsError, channel};
use vfl_shared::transform::ShownParameters;
use vfl_shared::types::RecordIds;

use helped::{Helped, Helper};
use scoring::{Needs, Round, Scorings};
use without::Without;

pub use helped::Help;

use crate::report::{
    AttackResult, Audit, DefenseKnowledge, Observations, ParameterKnowledge, Policy as PolicyFacts, ScoringFacts,
    Shares, ThreatModel, Utility,
};

/// Whom the auditor talks to, and as whom.
#[derive(Debug, Clone)]
pub struct Targets {
    /// The auditor's own credentials.
    pub credentials: Credentials,
    /// The coordinator.
    pub coordinator: Peer,
    /// The active party.
    pub active: Peer,
    /// The passive parties.
    pub passive: Vec<Peer>,
}

/// What to audit.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The records: at least 100, held by all parties, not used in training.
    pub ids: RecordIds,
    /// The policies, each in a session of its own.
    pub policies: Vec<Policy>,
    /// The attacks that take a release for the true scores. `agnostic` stands apart: it is run once on the records without
    /// asking for any of them, and once having asked for some without a defense.
    pub attacks: Vec<AttackConfig>,
    /// What every adversary knows of the passive features beside [0, 1]: settings that all attacks take.
    pub features: Settings,
    /// Records of the training, at least 100, which `agnostic` is run on as well; no score of them is asked for.
    pub training_ids: Option<RecordIds>,
    /// Whether each policy also meets an adversary that knows it.
    pub aware: bool,
    /// How often that adversary asks for each record, where averaging could help it.
    pub queries: u32,
    /// The most of each passive party's budget that the audit may spend on the records, in ρ; `None`: all that is left. For parties
    /// that answer with noise.
    pub rho: Option<f64>,
    /// What attacks are measured by beside the mean squared error; `None`: attack accuracy and correlation where all parties answer
    /// without noise, nothing where one does not, since each metric costs a part of the budget there.
    pub metrics: Option<Vec<&'static dyn Metric>>,
    /// Who helps the adversary of further audits, each behind each policy.
    pub help: Help,
    /// Seed of attacks that draw random numbers.
    pub seed: u64,
}

impl Plan {
    /// What every adversary knows of the passive features, in words.
    fn knows(&self) -> Vec<String> {
        self.features.pairs().map(|(key, value)| format!("{key} = {value}")).collect()
    }
}

/// What an audit found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The model audited.
    pub model: pb::DescribeModelResponse,
    /// Names of each passive party's features, in the order of the parties.
    pub feature_names: Vec<(String, Vec<String>)>,
    /// What each passive party shows the active party of its parameters, in the order of the parties.
    pub shown: Vec<ShownParameters>,
    /// One entry per defense and adversary.
    pub audits: Vec<Audit>,
    /// How each party scored which records, and what that has cost.
    pub scoring: Vec<ScoringFacts>,
    /// The metrics that attacks were measured by, beside the mean squared error.
    pub metrics: Vec<&'static dyn Metric>,
}

impl Findings {
    /// What the active party is shown of the parameters of all passive parties together.
    #[must_use]
    pub fn parameters(&self) -> ParameterKnowledge {
        knowledge(&self.shown)
    }
}

/// The least that any party shows decides whether there is a white box, the first transform whether it is the true one.
fn knowledge(shown: &[ShownParameters]) -> ParameterKnowledge {
    match shown {
        all if all.iter().any(|s| !s.granted) => ParameterKnowledge::Hidden,
        all if all.iter().any(|s| s.transformed() || s.trained_on_transformed()) => ParameterKnowledge::Transformed,
        _ => ParameterKnowledge::True,
    }
}

/// How many of the audited records `agnostic` asks for in its refined form.
pub const OBSERVED: usize = 100;

/// The fewest audited records at which that form is run: most of them must not have been asked for.
pub const REFINED_FROM: usize = 200;

fn refused(peer: &Peer) -> impl Fn(Status) -> Refusal + '_ {
    move |status| peer_failure(&peer.to_string(), &status)
}

fn connected(credentials: &Credentials, peer: &Peer) -> Result<Channel, Refusal> {
    channel(credentials, peer).map_err(|e: TlsError| Refusal::invalid(e.to_string()))
}

/// Runs the audit, telling `on_stage` what is being done: (done, total, words).
///
/// # Errors
/// [`Refusal`] naming the party that refused or is not reachable. An attack that cannot run is a finding, not an error.
pub async fn run(
    targets: &Targets,
    plan: &Plan,
    mut on_stage: impl FnMut(usize, usize, &str),
) -> Result<Findings, Refusal> {
    let limit = MAX_MESSAGE_BYTES;
    let mut coordinator = CoordinatorClient::new(connected(&targets.credentials, &targets.coordinator)?)
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit);
    let mut active = ActivePartyClient::new(connected(&targets.credentials, &targets.active)?)
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit);
    let refused_by_coordinator = refused(&targets.coordinator);
    let described = coordinator.describe_model(pb::DescribeModelRequest {}).await;
    let model = described.map_err(&refused_by_coordinator)?.into_inner();

    let mut scorings = Scorings::open(targets, &model, &plan.ids, "audited").await?;
    let shown = scorings.shown();
    let parameters = knowledge(&shown);
    // Whoever is told, or may suspect, that parameters are transformed tries to undo it.
    let suspect = shown.iter().all(|s| s.granted)
        && shown.iter().any(|s| s.transformed() || s.trained_on_transformed() || !s.disclosed);
    let undo = (plan.aware && suspect).then_some(Method::UndoTransform);
    let agnostic = plan.attacks.iter().find(|a| a.method() == Method::Agnostic);
    let helped = Helped::of(plan);
    let apart = |method: Method| method == Method::Agnostic || helped.runs(method);
    let attacks: Vec<&AttackConfig> = plan.attacks.iter().filter(|a| !apart(a.method())).collect();
    // Without an attack on scores there is nothing to run behind a policy.
    let policies: &[Policy] = if attacks.is_empty() && helped.attacks() == 0 { &[] } else { &plan.policies };
    let refined = agnostic.is_some() && plan.ids.len() >= REFINED_FROM;
    let knowing = if attacks.is_empty() { 0 } else { usize::from(plan.aware) + usize::from(undo.is_some()) };
    let alone = usize::from(agnostic.is_some()) + usize::from(refined);
    let needs = Needs {
        candidates: policies.len() * (attacks.len() + knowing + helped.attacks()) + alone,
        parts: policies.len() * (attacks.len().min(2) + knowing + helped.parts()) + alone,
        rounds: policies.len() * (1 + usize::from(knowing > 0) + helped.attacks()) + alone,
    };
    scorings.plan(needs, plan.rho, plan.metrics.as_deref())?;
    let baselines = scorings.baselines().await?;

    let total = policies.len() * attacks.len();
    let mut audits: Vec<Audit> = Vec::new();
    for (round, policy) in policies.iter().enumerate() {
        // First, as it may be refused: of what is open then, nothing is left open.
        let beside = helped.open(&mut coordinator, targets, &model, policy, plan).await?;
        let open = pb::OpenAuditRequest {
            model_version: model.model_version.clone(),
            policy: Some(policy.into()),
            ids: Some((&plan.ids).into()),
            active_party: targets.active.name.as_str().to_owned(),
        };
        let opened = match coordinator.open_audit(open).await {
            Ok(opened) => opened.into_inner(),
            Err(status) => {
                helped::close(&mut coordinator, beside).await;
                return Err(refused_by_coordinator(status));
            }
        };
        let promise = opened.promise.unwrap_or_default();
        let (session, bits) = (opened.audit_session, promise.bits);
        let adaptive = if plan.aware { adaptive_for(policy) } else { None };
        let request = pb::ReconstructRequest {
            audit_session: session.clone(),
            model_version: model.model_version.clone(),
            ids: Some((&plan.ids).into()),
            attacks: attacks.iter().map(|a| attack_spec(a, plan, policy)).collect(),
            seed: plan.seed,
            ..Default::default()
        };
        let mut knowing: Vec<pb::AttackSpec> = Vec::new();
        if let Some(method) = adaptive {
            let mut spec = plain_spec(method, plan);
            spec.settings.push(setting("policy", policy));
            knowing.push(spec);
        }
        if let Some(method) = undo {
            let mut spec = attack_spec(&method.into(), plan, policy);
            spec.settings.push(setting("policy", policy));
            // What it ends in knows the policy too, where that is an attack on one release.
            if let Some(base) = adaptive.filter(|m| m.is_base() && *m != Method::Averaging) {
                spec.settings.push(setting("base", base));
            }
            knowing.push(spec);
        }
        let mut asks = Vec::new();
        if !attacks.is_empty() {
            let names = attacks.iter().map(ToString::to_string).collect();
            asks.push(Ask {
                request: request.clone(),
                names,
                defense: DefenseKnowledge::Unknown,
                helper: Helper::Nobody,
            });
            if !knowing.is_empty() {
                // Only an adversary that averages has a use for more answers than one.
                let queries = if adaptive == Some(Method::Averaging) { plan.queries } else { 0 };
                let mut request = pb::ReconstructRequest { attacks: knowing, queries, ..request.clone() };
                helped.add_auxiliary(&mut request, beside.as_deref());
                let names = Vec::new();
                asks.push(Ask { request, names, defense: DefenseKnowledge::Known, helper: Helper::Nobody });
            }
        }
        asks.extend(helped.asks(&request, beside.as_deref(), plan, policy));
        let mut answered: Vec<(Audit, Option<f64>)> = Vec::new();
        let mut failed = None;
        for (at, ask) in asks.into_iter().enumerate() {
            let stage = |stage_done, stage: &str| {
                if at == 0 {
                    on_stage(round * attacks.len() + stage_done, total, &format!("{policy}: {stage}"));
                }
            };
            let aside = scorings.set_aside(helped.colluders(ask.helper));
            let audit = ask.run(&mut active, &targets.active, &mut scorings, &helped, (plan, policy), stage).await;
            scorings.put_back(aside);
            match audit {
                Ok(audit) => answered.push(audit),
                Err(refusal) => {
                    failed = Some(refusal);
                    break;
                }
            }
        }
        // Closed whatever happened: their secret names are lost with this call, and open sessions are few.
        helped::close(&mut coordinator, beside).await;
        let close = pb::CloseAuditRequest { audit_session: session, without_summary: attacks.is_empty() };
        let closed = coordinator.close_audit(close).await;
        if let Some(refusal) = failed {
            return Err(refusal);
        }
        let closed = closed.map_err(&refused_by_coordinator)?.into_inner();
        let accuracy = answered.iter().find_map(|(_, accuracy)| *accuracy);
        let undefended = audits.iter().find(|a| a.policy.name == "none").and_then(|a| a.utility.accuracy);
        let utility = Utility {
            accuracy,
            accuracy_change: accuracy.zip(undefended).map(|(a, u)| a - u),
            // A divergence below 0 is one of releases that do not sum to 1: it says nothing. Round-off does not count.
            mean_kl_nats: closed.kl_divergence.filter(|kl| *kl > -1e-9).map(|kl| kl.max(0.0)),
            total_variation: closed.total_variation,
            arg_max_kept: closed.arg_max_kept,
            bits,
        };
        let mut said = promise.notes;
        said.extend(remarks(policy, closed.kl_divergence.is_none() && closed.withheld.is_empty()));
        if !closed.withheld.is_empty() {
            said.push(format!("what the policy costs is withheld: {}", closed.withheld));
        }
        for (mut audit, _) in answered {
            audit.utility = utility;
            audit.remarks.splice(0..0, std::mem::take(&mut said));
            audits.push(audit);
        }
    }
    let mut of_training = Vec::new();
    if let Some(agnostic) = agnostic {
        let attack = spec(agnostic, plan);
        let features = plan.knows();
        let mut without =
            Without { active: &mut active, targets, model: &model, seed: plan.seed, parameters, features, attack };
        on_stage(total, total, "estimating scores instead of asking");
        let policy = PolicyFacts::new("nothing");
        audits.push(without.asking(policy, &plan.ids, &mut scorings, &baselines).await?);
        if refined {
            audits.push(without.asking_for_some(&mut coordinator, &plan.ids, &mut scorings, &baselines).await?);
        }
        if let Some(ids) = &plan.training_ids {
            let mut scorings = Scorings::open(targets, &model, ids, "training").await?;
            scorings.plan(Needs { candidates: 1, parts: 1, rounds: 1 }, plan.rho, plan.metrics.as_deref())?;
            let baselines = scorings.baselines().await?;
            let policy = PolicyFacts::new("nothing").with("records", "training");
            let mut audit = without.asking(policy, ids, &mut scorings, &baselines).await?;
            audit.remarks.insert(
                0,
                format!("{} records of the training, whose scores training showed the active party", ids.len()),
            );
            audits.push(audit);
            of_training = scorings.facts();
        }
    }
    on_stage(total, total, "done");
    let mut scoring = scorings.facts();
    scoring.extend(of_training);
    let metrics = scorings.metrics().to_vec();
    Ok(Findings { model, feature_names: scorings.feature_names(), shown, audits, scoring, metrics })
}

/// What the attacks of one session worked with, as they say themselves.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    /// An attack lacked the passive parameters.
    hidden: bool,
    /// Answers about the record that had most.
    releases: u32,
    /// One asked with logit shares of its own choice.
    chosen_shares: bool,
    /// Records with known passive features that one was given.
    auxiliary: u64,
}

impl Used {
    fn add(&mut self, result: &pb::AttackResult) {
        self.hidden |= result.refused() == Refused::ParametersHidden;
        self.releases = self.releases.max(result.releases);
        self.chosen_shares |= matches!(result.questions, Some(Questions::Chosen(_)));
        self.auxiliary = self.auxiliary.max(result.auxiliary_records);
    }

    fn threat_model(self, defense: DefenseKnowledge, parameters: ParameterKnowledge) -> ThreatModel {
        let mut threat_model = ThreatModel::white_box(defense);
        threat_model.parameters = if self.hidden { ParameterKnowledge::Hidden } else { parameters };
        if self.releases > 1 {
            threat_model.observations = Observations::Repeated { times: self.releases.into() };
        }
        if self.chosen_shares {
            threat_model.shares = Shares::Chosen;
        }
        threat_model
    }
}

/// A request for attacks, and whose they are.
struct Ask {
    request: pb::ReconstructRequest,
    /// What the report calls the attacks of the request, in its order: the same attack may run with several settings. Those beyond
    /// the list go by the name of the attack.
    names: Vec<String>,
    defense: DefenseKnowledge,
    helper: Helper,
}

impl Ask {
    /// Has the attacks run and scored by the parties of `scorings`, which are those under attack. Gives the audit, whose utility is
    /// not known yet, and the accuracy.
    async fn run(
        self,
        active: &mut ActivePartyClient<Channel>,
        peer: &Peer,
        scorings: &mut Scorings,
        helped: &Helped<'_>,
        (plan, policy): (&Plan, &Policy),
        on_stage: impl FnMut(usize, &str),
    ) -> Result<(Audit, Option<f64>), Refusal> {
        let parameters = knowledge(&scorings.shown());
        let Attacked { accuracy, results, used, said } =
            attack(active, peer, self.request, &self.names, scorings, on_stage).await?;
        let mut threat_model = used.threat_model(self.defense, parameters);
        threat_model.features = plan.knows();
        match self.helper {
            Helper::Nobody => {}
            Helper::KnownRecords => {
                threat_model.parameters = match used.auxiliary {
                    0 => ParameterKnowledge::Hidden,
                    records => ParameterKnowledge::Auxiliary { records: records as usize },
                };
            }
            Helper::Colluders => {
                threat_model.target = scorings.feature_names().into_iter().map(|(name, _)| name).collect();
                threat_model.colluding = helped.colluders(self.helper).to_vec();
            }
        }
        let baselines = scorings.told_baselines()?;
        let mut audit = Audit::new(facts(policy), threat_model, plan.ids.len(), Utility::default(), baselines);
        (audit.attacks, audit.remarks) = (results, said);
        Ok((audit, accuracy))
    }
}

/// What one session gave.
struct Attacked {
    accuracy: Option<f64>,
    results: Vec<AttackResult>,
    used: Used,
    /// What asking more than once brought, and what else was found out, attack by attack.
    said: Vec<String>,
}

/// Has the attacks of one session run and scored.
async fn attack(
    active: &mut ActivePartyClient<Channel>,
    peer: &Peer,
    request: pb::ReconstructRequest,
    names: &[String],
    scorings: &mut Scorings,
    mut on_stage: impl FnMut(usize, &str),
) -> Result<Attacked, Refusal> {
    let mut events = active.reconstruct(request).await.map_err(refused(peer))?.into_inner();
    let mut found = Attacked { accuracy: None, results: Vec::new(), used: Used::default(), said: Vec::new() };
    let (mut round, mut names) = (Round::default(), names.iter());
    while let Some(event) = events.message().await.map_err(refused(peer))? {
        match event.event {
            Some(Event::Progress(p)) => on_stage((p.done as usize).saturating_sub(1), &p.stage),
            Some(Event::Scores(scores)) => found.accuracy = scores.accuracy,
            Some(Event::Result(mut result)) => {
                found.used.add(&result);
                // Results come in the order of the request.
                if let Some(name) = names.next() {
                    result.attack.clone_from(name);
                }
                let said = found::said(&result);
                found.said.extend(said.into_iter().map(|s| format!("{}: {s}", result.attack)));
                round.add(scorings, result).await?;
            }
            None => {}
        }
    }
    round.finish(scorings).await?;
    found.results = round.results;
    found.said.append(&mut round.said);
    Ok(found)
}

/// What stands for a score of 0 behind a policy, for attacks that take the release for the true scores, and behind which
/// defense: the last that says.
fn zero_floor(policy: &Policy) -> Option<(&DefenseConfig, f64)> {
    policy.defenses.iter().rev().find_map(|defense| Some((defense, defense.zero_floor()?)))
}

fn setting(key: &str, value: impl ToString) -> pb::attack_spec::Setting {
    pb::attack_spec::Setting { key: key.into(), value: value.to_string() }
}

/// An attack that takes the release for the true scores, as the auditor asks for it.
fn attack_spec(attack: &AttackConfig, plan: &Plan, policy: &Policy) -> pb::AttackSpec {
    let mut spec = spec(attack, plan);
    if let Some((_, floor)) = zero_floor(policy).filter(|_| spec.settings.iter().all(|s| s.key != "zero_floor")) {
        spec.settings.push(setting("zero_floor", floor));
    }
    spec
}

/// An attack without settings but what is known of the features.
fn plain_spec(method: Method, plan: &Plan) -> pb::AttackSpec {
    spec(&method.into(), plan)
}

/// An attack as it is asked for: what is known of the features, then its own settings, which count where both say something.
fn spec(attack: &AttackConfig, plan: &Plan) -> pb::AttackSpec {
    let all = plan.features.pairs().chain(attack.settings().pairs());
    let settings = all.map(|(key, value)| setting(key, value)).collect();
    pb::AttackSpec { name: attack.method().as_str().into(), settings }
}

/// The report's form of a policy.
#[must_use]
pub fn facts(policy: &Policy) -> PolicyFacts {
    let [defense] = policy.defenses.as_slice() else { return PolicyFacts::new(policy.to_string()) };
    let parameters = match serde_json::to_value(defense) {
        Ok(serde_json::Value::Object(fields)) => fields.into_iter().filter(|(key, _)| key != "name").collect(),
        _ => serde_json::Map::new(),
    };
    parameters.into_iter().fold(PolicyFacts::new(defense.name()), |facts, (key, value)| facts.with(key, value))
}

fn remarks(policy: &Policy, no_divergence: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some((defense, floor)) = zero_floor(policy) {
        match defense.leaves() {
            Leaves::Rounded => {
                remarks.push(format!("a score rounded to 0 was taken for {floor}, half a step"));
                if no_divergence {
                    remarks.push("KL is infinite: some positive scores were rounded to 0".into());
                }
            }
            Leaves::Label => {
                remarks.push(format!("a label was taken for scores of {floor} everywhere but at the label"));
            }
            Leaves::Everything
            | Leaves::Scaled
            | Leaves::Projected
            | Leaves::Word
            | Leaves::Ciphertexts
            | Leaves::Order
            | Leaves::Largest
            | Leaves::Noised
            | Leaves::OrderNoised
            | Leaves::Unstudied => remarks.push(format!("a score of 0 was taken for {floor}")),
        }
    }
    for defense in policy.defenses.iter().filter(|defense| defense.leaves() == Leaves::Unstudied) {
        remarks.push(format!("no attack here knows `{}`: an adversary that does may find more", defense.name()));
    }
    remarks
}
