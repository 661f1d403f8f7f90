//! Requests for attacks: sends them to the active party and collects the scored results.

use vfl_defense::Policy;
use vfl_protocol::Refusal;
use vfl_protocol::reconstruct::{AttackReport, Questions, ReconstructEvent, ReconstructionRequest};

use super::attack_report::{lacked_parameters, said};
use super::findings::knowledge;
use super::round::AttackRound;
use super::scoring::Scorings;
use super::subject::Subject;
use crate::report::{
    AttackResult, Audit, DefenseKnowledge, Observations, ParameterKnowledge, Shares, ThreatModel,
    Utility,
};

/// A request for attacks behind a policy, with the knowledge and the help of the adversary.
pub(super) struct AttackRequest {
    /// The request to the active party.
    pub(super) request: ReconstructionRequest,
    /// The names of the attacks in the report, in the order of the request: the same attack may run
    /// with several settings. Attacks beyond the list go by their own name.
    pub(super) names: Vec<String>,
    /// The adversary's knowledge of the policy.
    pub(super) defense: DefenseKnowledge,
    pub(super) helper: Helper,
}

/// The help that an adversary has.
pub(super) enum Helper {
    /// No help.
    Nobody,
    /// Records with known passive features, in place of the parameters.
    KnownRecords,
    /// Records with known passive features, from which the moments of all are estimated. The first
    /// `controls` attacks of the request are controls.
    KnownMoments {
        /// The number of controls.
        controls: usize,
    },
    /// Passive parties, by name, that lend their logit shares.
    Colluders(Vec<String>),
}

impl Helper {
    /// Returns the parties whose features are no target, since they help.
    fn colluders(&self) -> &[String] {
        match self {
            Self::Colluders(names) => names,
            Self::Nobody | Self::KnownRecords | Self::KnownMoments { .. } => &[],
        }
    }
}

/// The result of an [`AttackRequest`].
pub(super) struct AttackAnswer {
    /// The audit, without the cost of the policy so far.
    pub(super) audit: Audit,
    /// The accuracy of the release, if it was reported.
    pub(super) accuracy: Option<f64>,
}

impl AttackRequest {
    /// Runs the attacks and has them scored by the parties that do not help.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that refused or is not reachable.
    pub(super) async fn run(
        self,
        subject: &Subject<'_>,
        policy: &Policy,
        scorings: &mut Scorings,
        on_stage: impl FnMut(usize, &str),
    ) -> Result<AttackAnswer, Refusal> {
        let aside = scorings.set_aside(self.helper.colluders());
        let answered = self.run_on_targets(subject, policy, scorings, on_stage).await;
        scorings.put_back(aside);
        answered
    }

    /// Runs the attacks and has them scored by the parties of `scorings`, which are those under
    /// attack.
    async fn run_on_targets(
        self,
        subject: &Subject<'_>,
        policy: &Policy,
        scorings: &mut Scorings,
        on_stage: impl FnMut(usize, &str),
    ) -> Result<AttackAnswer, Refusal> {
        let parameters = knowledge(&scorings.shown(), &subject.model);
        let controls =
            if let Helper::KnownMoments { controls } = self.helper { controls } else { 0 };
        let RequestResults { accuracy, results, used, said } =
            attack(subject, self.request, (&self.names, controls), scorings, on_stage).await?;
        let mut threat_model = used.threat_model(self.defense, parameters);
        threat_model.features = subject.knows.clone();
        match self.helper {
            Helper::Nobody => {}
            Helper::KnownMoments { .. } => threat_model.known_records = used.auxiliary_records,
            Helper::KnownRecords => {
                threat_model.parameters = match used.auxiliary_records {
                    0 => ParameterKnowledge::Hidden,
                    records => ParameterKnowledge::Auxiliary { records },
                };
            }
            Helper::Colluders(names) => {
                threat_model.target =
                    scorings.feature_names().into_iter().map(|(name, _)| name).collect();
                threat_model.colluding = names;
            }
        }
        let baselines = scorings.told_baselines()?;
        let records = subject.plan.ids.len();
        let mut audit =
            Audit::new(policy.into(), threat_model, records, Utility::default(), baselines);
        (audit.attacks, audit.remarks) = (results, said);
        Ok(AttackAnswer { audit, accuracy })
    }
}

/// The results of one request.
pub(super) struct RequestResults {
    /// The accuracy of the release, if it was reported.
    accuracy: Option<f64>,
    pub(super) results: Vec<AttackResult>,
    /// The knowledge and answers that the attacks used.
    pub(super) used: UsedKnowledge,
    /// Remarks on each attack: the gain from asking more than once, and other findings.
    pub(super) said: Vec<String>,
}

/// Runs the attacks of one request and has them scored. `names` has their names in the report, as
/// in [`AttackRequest`]; the first `controls` of them are the controls of the others.
///
/// # Errors
/// [`Refusal`] naming the party that refused or is not reachable.
pub(super) async fn attack(
    subject: &Subject<'_>,
    request: ReconstructionRequest,
    (names, mut controls): (&[String], usize),
    scorings: &mut Scorings,
    mut on_stage: impl FnMut(usize, &str),
) -> Result<RequestResults, Refusal> {
    let mut events = subject.active.reconstruct(request).await?;
    let mut attacked = RequestResults {
        accuracy: None,
        results: Vec::new(),
        used: UsedKnowledge::default(),
        said: Vec::new(),
    };
    let (mut round, mut names) = (AttackRound::default(), names.iter());
    while let Some(event) = events.next().await? {
        match event {
            ReconstructEvent::Progress { done, stage, .. } => {
                on_stage((done as usize).saturating_sub(1), &stage);
            }
            ReconstructEvent::Scores { accuracy, .. } => attacked.accuracy = accuracy,
            ReconstructEvent::Attacked(found) => {
                attacked.used.add(&found);
                // Results arrive in the order of the request.
                let name = names.next().unwrap_or(&found.attack).clone();
                attacked
                    .said
                    .extend(said(&found).into_iter().map(|said| format!("{name}: {said}")));
                if controls > 0 {
                    controls -= 1;
                    round.compare_with(scorings, name, *found).await?;
                } else {
                    round.add(scorings, name, *found).await?;
                }
            }
        }
    }
    round.finish(scorings).await?;
    attacked.results = round.results;
    attacked.said.append(&mut round.said);
    Ok(attacked)
}

/// The knowledge and answers that the attacks of one request report to have used.
#[derive(Clone, Copy, Default)]
pub(super) struct UsedKnowledge {
    /// True if an attack lacked the passive parameters.
    hidden: bool,
    /// The most answers about one record.
    releases: u32,
    /// True if an attack asked with logit shares of its own choice.
    chosen_shares: bool,
    /// The number of records with known passive features that an attack was given.
    auxiliary_records: usize,
}

impl UsedKnowledge {
    fn add(&mut self, found: &AttackReport) {
        self.hidden |= lacked_parameters(found);
        self.releases = self.releases.max(found.releases);
        self.chosen_shares |= matches!(found.questions, Some(Questions::Chosen { .. }));
        self.auxiliary_records = self.auxiliary_records.max(found.auxiliary_records);
    }

    /// Returns the threat model of an adversary with this knowledge of the policy and the
    /// parameters.
    pub(super) fn threat_model(
        self,
        defense: DefenseKnowledge,
        parameters: ParameterKnowledge,
    ) -> ThreatModel {
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
