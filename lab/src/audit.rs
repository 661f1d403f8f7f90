//! An audit, run by the auditor over the sockets of any deployment: a session per defense, every attack in it, every
//! reconstruction scored by the party that holds the truth.

mod without;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use vfl_active_party::attack::{Method, adaptive_for};
use vfl_shared::numerics::three_significant_digits;
use vfl_shared::policy::{DefenseConfig, Policy};
use vfl_shared::rpc::pb::active_party_client::ActivePartyClient;
use vfl_shared::rpc::pb::attack_result::Origin;
use vfl_shared::rpc::pb::coordinator_client::CoordinatorClient;
use vfl_shared::rpc::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_shared::rpc::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::pb::reconstruct_event::Event;
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, pb, peer_failure, require};
use vfl_shared::service::{Credentials, Peer, TlsError, channel};
use vfl_shared::types::RecordIds;

use without::Without;

use crate::report::Status as Outcome;
use crate::report::{
    AttackResult, Audit, Baselines, DefenseKnowledge, Errors, ParameterKnowledge, PartyError, Policy as PolicyFacts,
    ThreatModel, Utility,
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
    pub attacks: Vec<Method>,
    /// Records of the training, at least 100, which `agnostic` is run on as well; no score of them is asked for.
    pub training_ids: Option<RecordIds>,
    /// Whether each policy also meets an adversary that knows it.
    pub aware: bool,
    /// How often that adversary asks for each record, where averaging could help it.
    pub queries: u32,
    /// Seed of attacks that draw random numbers.
    pub seed: u64,
}

/// What an audit found.
#[derive(Debug, Clone)]
pub struct Findings {
    /// The model audited.
    pub model: pb::DescribeModelResponse,
    /// Names of each passive party's features, in the order of the parties.
    pub feature_names: Vec<(String, Vec<String>)>,
    /// What each passive party shows the active party of its parameters, in the order of the parties.
    pub shown: Vec<pb::ShownParameters>,
    /// One entry per defense and adversary.
    pub audits: Vec<Audit>,
}

impl Findings {
    /// What the active party is shown of the parameters of all passive parties together.
    #[must_use]
    pub fn parameters(&self) -> ParameterKnowledge {
        knowledge(&self.shown)
    }
}

/// The least that any party shows decides whether there is a white box, the first transform whether it is the true one.
fn knowledge(shown: &[pb::ShownParameters]) -> ParameterKnowledge {
    match shown {
        all if all.iter().any(|s| !s.granted) => ParameterKnowledge::Hidden,
        all if all.iter().any(|s| s.transformed || s.trained_on_transformed) => ParameterKnowledge::Transformed,
        _ => ParameterKnowledge::True,
    }
}

/// How many of the audited records `agnostic` asks for in its refined form.
pub const OBSERVED: usize = 100;

/// The fewest audited records at which that form is run: most of them must not have been asked for.
pub const REFINED_FROM: usize = 200;

/// δ of the vector that stands behind a label: what the attacks of an audit put in place of the scores that a label hides.
const LABEL_FLOOR: f64 = 0.01;

/// A passive party's scoring, open for one set of records.
struct Scoring {
    peer: Peer,
    asks: mpsc::Sender<pb::EvaluateReconstructionRequest>,
    answers: Streaming<pb::EvaluateReconstructionResponse>,
    opened: pb::EvaluationOpened,
}

fn refused(peer: &Peer) -> impl Fn(Status) -> Refusal + '_ {
    move |status| peer_failure(&peer.to_string(), &status)
}

fn connected(credentials: &Credentials, peer: &Peer) -> Result<Channel, Refusal> {
    channel(credentials, peer).map_err(|e: TlsError| Refusal::invalid(e.to_string()))
}

impl Scoring {
    async fn open(credentials: &Credentials, peer: &Peer, version: &str, ids: &RecordIds) -> Result<Self, Refusal> {
        let mut client = PassivePartyClient::new(connected(credentials, peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let (asks, outgoing) = mpsc::channel(2);
        let first = pb::EvaluateReconstructionRequest {
            message: Some(Ask::Ids(ids.into())),
            model_version: version.to_owned(),
        };
        let gone = || Refusal::unavailable(format!("{peer} went away"));
        asks.send(first).await.map_err(|_| gone())?;
        let answers = client.evaluate_reconstruction(ReceiverStream::new(outgoing)).await.map_err(refused(peer))?;
        let mut answers = answers.into_inner();
        let answer = answers.message().await.map_err(refused(peer))?.ok_or_else(gone)?;
        match answer.message {
            Some(Answer::Opened(opened)) => Ok(Self { peer: peer.clone(), asks, answers, opened }),
            _ => Err(Refusal::internal(format!("{peer} did not open the scoring"))),
        }
    }

    async fn score(&mut self, estimates: pb::Matrix) -> Result<pb::ReconstructionError, Refusal> {
        let gone = || Refusal::unavailable(format!("{} went away", self.peer));
        let message = Some(Ask::Estimates(estimates));
        let ask = pb::EvaluateReconstructionRequest { message, ..Default::default() };
        // If the stream has ended, the answer below says why.
        let _ = self.asks.send(ask).await;
        let answer = self.answers.message().await.map_err(refused(&self.peer))?.ok_or_else(gone)?;
        match answer.message {
            Some(Answer::Error(error)) => Ok(error),
            _ => Err(Refusal::internal(format!("{} did not score", self.peer))),
        }
    }
}

/// Puts the errors of several passive parties together: the mean over all features, and each feature's own.
fn joint(parties: &[(String, pb::ReconstructionError)]) -> Errors {
    let per_feature: Vec<f64> = parties.iter().flat_map(|(_, e)| e.mse_by_feature.iter().copied()).collect();
    let weighted: f64 = parties.iter().map(|(_, e)| e.mse * e.mse_by_feature.len() as f64).sum();
    let errors = Errors::new(three_significant_digits(weighted / per_feature.len().max(1) as f64), per_feature);
    if parties.len() < 2 {
        return errors;
    }
    errors.with_parties(parties.iter().map(|(party, e)| PartyError { party: party.clone(), mse: e.mse }).collect())
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

    let scorings = open_all(targets, &model, &plan.ids).await?;
    let shown: Vec<pb::ShownParameters> = scorings.iter().map(|s| s.opened.shown.clone().unwrap_or_default()).collect();
    let parameters = knowledge(&shown);
    // Whoever is told, or may suspect, that parameters are transformed tries to undo it.
    let suspect = shown.iter().all(|s| s.granted)
        && shown.iter().any(|s| s.transformed || s.trained_on_transformed || !s.disclosed);
    let undo = (plan.aware && suspect).then_some(Method::UndoTransform);
    let agnostic = plan.attacks.contains(&Method::Agnostic);
    let attacks: Vec<Method> = plan.attacks.iter().copied().filter(|m| *m != Method::Agnostic).collect();
    // Without another attack there is nothing to run behind a policy.
    let policies: &[Policy] = if attacks.is_empty() { &[] } else { &plan.policies };
    let refined = agnostic && plan.ids.len() >= REFINED_FROM;
    let wanted = policies.len() * (attacks.len() + usize::from(plan.aware) + usize::from(undo.is_some()))
        + usize::from(agnostic)
        + usize::from(refined);
    let mut scorings = enough(scorings, wanted)?;
    let baselines = baselines(&scorings)?;

    let total = policies.len() * attacks.len();
    let mut audits: Vec<Audit> = Vec::new();
    for (round, policy) in policies.iter().enumerate() {
        let open = pb::OpenAuditRequest {
            model_version: model.model_version.clone(),
            policy: Some(policy.into()),
            ids: Some((&plan.ids).into()),
            active_party: targets.active.name.as_str().to_owned(),
        };
        let opened = coordinator.open_audit(open).await.map_err(&refused_by_coordinator)?.into_inner();
        let promise = opened.promise.unwrap_or_default();
        let (session, bits) = (opened.audit_session, promise.bits);
        let adaptive = if plan.aware { adaptive_for(policy) } else { None };
        let request = pb::ReconstructRequest {
            audit_session: session.clone(),
            model_version: model.model_version.clone(),
            ids: Some((&plan.ids).into()),
            attacks: attacks.iter().map(|m| attack_spec(*m, policy)).collect(),
            seed: plan.seed,
            queries: 0,
        };
        let attacked = attack(&mut active, &targets.active, request.clone(), &mut scorings, |stage_done, stage| {
            on_stage(round * attacks.len() + stage_done, total, &format!("{policy}: {stage}"));
        })
        .await;
        let mut knowing: Vec<pb::AttackSpec> = Vec::new();
        if let Some(method) = adaptive {
            knowing.push(pb::AttackSpec { name: method.as_str().into(), settings: vec![setting("policy", policy)] });
        }
        if let Some(method) = undo {
            let mut spec = attack_spec(method, policy);
            spec.settings.push(setting("policy", policy));
            // What it ends in knows the policy too, where that is an attack on one release.
            if let Some(base) = adaptive.filter(|m| m.is_base() && *m != Method::Averaging) {
                spec.settings.push(setting("base", base));
            }
            knowing.push(spec);
        }
        let aware = match &attacked {
            Ok(_) if !knowing.is_empty() => {
                // Only an adversary that averages has a use for more answers than one.
                let queries = if adaptive == Some(Method::Averaging) { plan.queries } else { 0 };
                let request = pb::ReconstructRequest { attacks: knowing, queries, ..request };
                Some(attack(&mut active, &targets.active, request, &mut scorings, |_, _| ()).await)
            }
            _ => None,
        };
        // Closed whatever happened: its secret name is lost with this call, and open sessions are few.
        let close = pb::CloseAuditRequest { audit_session: session };
        let closed = coordinator.close_audit(close).await;
        let Attacked { accuracy, results, hidden, said: found } = attacked?;
        let closed = closed.map_err(&refused_by_coordinator)?.into_inner();
        let undefended = audits.iter().find(|a| a.policy.name == "none").and_then(|a| a.utility.accuracy);
        let utility = Utility {
            accuracy,
            accuracy_change: accuracy.zip(undefended).map(|(a, u)| a - u),
            mean_kl_nats: closed.kl_divergence.map(|kl| kl.max(0.0)),
            total_variation: closed.total_variation,
            arg_max_kept: Some(closed.arg_max_kept),
            bits,
        };
        let mut add = |knowledge, hidden: bool, results, remarks| {
            let mut threat_model = ThreatModel::white_box(knowledge);
            threat_model.parameters = if hidden { ParameterKnowledge::Hidden } else { parameters };
            let mut audit = Audit::new(facts(policy), threat_model, plan.ids.len(), utility, baselines.clone());
            (audit.attacks, audit.remarks) = (results, remarks);
            audits.push(audit);
        };
        let mut said = promise.notes;
        said.extend(remarks(policy, closed.kl_divergence.is_none()));
        said.extend(found);
        add(DefenseKnowledge::Unknown, hidden, results, said);
        if let Some(aware) = aware {
            let Attacked { results, hidden, said, .. } = aware?;
            add(DefenseKnowledge::Known, hidden, results, said);
        }
    }
    if agnostic {
        let mut without = Without { active: &mut active, targets, model: &model, seed: plan.seed, parameters };
        on_stage(total, total, "estimating scores instead of asking");
        let policy = PolicyFacts::new("nothing");
        audits.push(without.asking(policy, &plan.ids, &mut scorings, &baselines).await?);
        if refined {
            audits.push(without.asking_for_some(&mut coordinator, &plan.ids, &mut scorings, &baselines).await?);
        }
        if let Some(ids) = &plan.training_ids {
            let mut scorings = enough(open_all(targets, &model, ids).await?, 1)?;
            let baselines = self::baselines(&scorings)?;
            let policy = PolicyFacts::new("nothing").with("records", "training");
            let mut audit = without.asking(policy, ids, &mut scorings, &baselines).await?;
            audit.remarks.insert(
                0,
                format!("{} records of the training, whose scores training showed the active party", ids.len()),
            );
            audits.push(audit);
        }
    }
    on_stage(total, total, "done");
    let feature_names = scorings.iter().map(|s| (s.peer.name.to_string(), s.opened.feature_names.clone())).collect();
    Ok(Findings { model, feature_names, shown, audits })
}

/// Opens the scoring of a set of records at every passive party of the model.
async fn open_all(
    targets: &Targets,
    model: &pb::DescribeModelResponse,
    ids: &RecordIds,
) -> Result<Vec<Scoring>, Refusal> {
    let mut scorings = Vec::new();
    for party in &model.passive_parties {
        let peer = targets.passive.iter().find(|p| p.name.as_str() == party.name).ok_or_else(|| {
            Refusal::invalid(format!("the model has a passive party `{}` whose address was not given", party.name))
        })?;
        scorings.push(Scoring::open(&targets.credentials, peer, &model.model_version, ids).await?);
    }
    Ok(scorings)
}

/// The same scorings, if they suffice for `wanted` more.
fn enough(scorings: Vec<Scoring>, wanted: usize) -> Result<Vec<Scoring>, Refusal> {
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    if let Some(short) = scorings.iter().find(|s| s.opened.scorings_left < wanted) {
        let (left, peer) = (short.opened.scorings_left, &short.peer);
        let message =
            format!("{peer} has {left} scorings of these records left, this audit needs {wanted}; audit other records");
        return Err(Refusal::new(RefusalKind::ResourceExhausted, message));
    }
    Ok(scorings)
}

/// What guessing achieves on the records of these scorings.
fn baselines(scorings: &[Scoring]) -> Result<Baselines, Refusal> {
    let baseline = |pick: fn(&pb::EvaluationOpened) -> Option<&pb::ReconstructionError>| -> Result<Errors, Refusal> {
        let parties = scorings
            .iter()
            .map(|s| Ok((s.peer.name.to_string(), require("baseline", pick(&s.opened))?.clone())))
            .collect::<Result<Vec<_>, Refusal>>()?;
        Ok(joint(&parties))
    };
    Ok(Baselines { half: baseline(|o| o.half.as_ref())?, column_mean: baseline(|o| o.column_mean.as_ref())? })
}

/// What one session gave.
struct Attacked {
    accuracy: Option<f64>,
    results: Vec<AttackResult>,
    /// Whether an attack lacked the passive parameters.
    hidden: bool,
    /// What asking more than once brought, and what else was found out, attack by attack.
    said: Vec<String>,
}

/// Has the attacks of one session run, and scores each as it comes.
async fn attack(
    active: &mut ActivePartyClient<Channel>,
    peer: &Peer,
    request: pb::ReconstructRequest,
    scorings: &mut [Scoring],
    mut on_stage: impl FnMut(usize, &str),
) -> Result<Attacked, Refusal> {
    let mut events = active.reconstruct(request).await.map_err(refused(peer))?.into_inner();
    let mut found = Attacked { accuracy: None, results: Vec::new(), hidden: false, said: Vec::new() };
    while let Some(event) = events.message().await.map_err(refused(peer))? {
        match event.event {
            Some(Event::Progress(p)) => on_stage((p.done as usize).saturating_sub(1), &p.stage),
            Some(Event::Scores(scores)) => found.accuracy = scores.accuracy,
            Some(Event::Result(result)) => {
                found.hidden |= result.refusal.contains("hidden");
                let asked = Some(&result.questions).filter(|q| !q.is_empty());
                let said = asked.into_iter().chain(&result.remarks);
                found.said.extend(said.map(|s| format!("{}: {s}", result.attack)));
                found.results.push(score(scorings, result).await?);
            }
            None => {}
        }
    }
    Ok(found)
}

/// Scores one attack's estimates at every party, or says why it did not run.
async fn score(scorings: &mut [Scoring], result: pb::AttackResult) -> Result<AttackResult, Refusal> {
    if !result.refusal.is_empty() {
        return Ok(AttackResult::not_run(result.attack, result.refusal));
    }
    let mut parties = Vec::with_capacity(scorings.len());
    let mut unknowns = 0;
    for scoring in scorings {
        let name = scoring.peer.name.as_str();
        let block = result.blocks.iter().find(|b| b.passive_party == name);
        let block = block.ok_or_else(|| Refusal::internal(format!("no estimates for passive party `{name}` came")))?;
        let estimates = require("estimates", block.estimates.clone())?;
        unknowns += estimates.columns as usize;
        parties.push((name.to_owned(), scoring.score(estimates).await?));
    }
    let status = match (result.origin(), result.rank) {
        (Origin::Search, _) => Outcome::Search,
        (Origin::Guess, _) | (_, None) => Outcome::Guess,
        (_, Some(rank)) if rank as usize >= unknowns => Outcome::Unique,
        (_, Some(rank)) => Outcome::LeastNorm { rank: rank as usize, unknowns },
    };
    Ok(AttackResult::ran(result.attack, status, joint(&parties)))
}

/// What stands for a score of 0 behind a policy, for attacks that take the release for the true scores: half a step of
/// rounded ones, δ of a softened vector for a label.
fn zero_floor(policy: &Policy) -> Option<f64> {
    policy.defenses.iter().rev().find_map(|defense| match defense {
        DefenseConfig::Rounding { decimals } => Some(0.5 * 10f64.powi(-(*decimals as i32))),
        DefenseConfig::ClassLabel { softening: 0.0 } => Some(LABEL_FLOOR),
        _ => None,
    })
}

fn setting(key: &str, value: impl ToString) -> pb::attack_spec::Setting {
    pb::attack_spec::Setting { key: key.into(), value: value.to_string() }
}

/// An attack that takes the release for the true scores, as the auditor asks for it.
fn attack_spec(method: Method, policy: &Policy) -> pb::AttackSpec {
    let settings = zero_floor(policy).map(|floor| setting("zero_floor", floor)).into_iter().collect();
    pb::AttackSpec { name: method.as_str().into(), settings }
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
    match (policy.defenses.last(), zero_floor(policy)) {
        (Some(DefenseConfig::Rounding { .. }), Some(floor)) => {
            remarks.push(format!("a score rounded to 0 was taken for {floor}, half a step"));
            if no_divergence {
                remarks.push("KL is infinite: some positive scores were rounded to 0".into());
            }
        }
        (Some(DefenseConfig::ClassLabel { .. }), Some(floor)) => {
            remarks.push(format!("a label was taken for scores of {floor} everywhere but at the label"));
        }
        _ => {}
    }
    remarks
}
