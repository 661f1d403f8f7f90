//! A request for attacks, from the asking to the scored results.

use vfl_shared::policy::Policy;
use vfl_shared::rpc::Refusal;

use super::client::Event;
use super::findings::knowledge;
use super::found::{Found, Questions};
use super::policy::facts;
use super::request::Request;
use super::round::Round;
use super::scoring::Scorings;
use super::subject::Subject;
use crate::report::{
    AttackResult, Audit, DefenseKnowledge, Observations, ParameterKnowledge, Shares, ThreatModel, Utility,
};

/// A request for attacks behind a policy, and whose they are.
pub(super) struct Ask {
    /// What the active party is asked to run.
    pub(super) request: Request,
    /// What the report calls the attacks of the request, in its order: the same attack may run with several settings. Those beyond
    /// the list go by the name of the attack.
    pub(super) names: Vec<String>,
    /// What the adversary knows of the policy.
    pub(super) defense: DefenseKnowledge,
    /// Who helps the adversary.
    pub(super) helper: Helper,
}

/// Who helps with an attack.
pub(super) enum Helper {
    /// Nobody.
    Nobody,
    /// Records with known passive features take the place of the parameters.
    KnownRecords,
    /// Records with known passive features tell the moments of all. The first attacks of the request, as many as this, are controls.
    KnownMoments {
        /// How many controls there are.
        controls: usize,
    },
    /// Passive parties of these names do.
    Colluders(Vec<String>),
}

impl Helper {
    /// The parties whose features are no target with this help.
    fn colluders(&self) -> &[String] {
        match self {
            Self::Colluders(names) => names,
            Self::Nobody | Self::KnownRecords | Self::KnownMoments { .. } => &[],
        }
    }
}

/// What came of an [`Ask`].
pub(super) struct Answered {
    /// The audit. What the policy costs is not in it yet.
    pub(super) audit: Audit,
    /// Accuracy of the release, where it was told.
    pub(super) accuracy: Option<f64>,
}

impl Ask {
    /// Has the attacks run, and scored by the parties that do not help.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that refused or is not reachable.
    pub(super) async fn run(
        self,
        subject: &Subject<'_>,
        policy: &Policy,
        scorings: &mut Scorings,
        on_stage: impl FnMut(usize, &str),
    ) -> Result<Answered, Refusal> {
        let aside = scorings.set_aside(self.helper.colluders());
        let answered = self.run_on_targets(subject, policy, scorings, on_stage).await;
        scorings.put_back(aside);
        answered
    }

    /// Has the attacks run, and scored by the parties of `scorings`, which are those under attack.
    async fn run_on_targets(
        self,
        subject: &Subject<'_>,
        policy: &Policy,
        scorings: &mut Scorings,
        on_stage: impl FnMut(usize, &str),
    ) -> Result<Answered, Refusal> {
        let parameters = knowledge(&scorings.shown(), &subject.model);
        let controls = if let Helper::KnownMoments { controls } = self.helper { controls } else { 0 };
        let Attacked { accuracy, results, used, said } =
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
                threat_model.target = scorings.feature_names().into_iter().map(|(name, _)| name).collect();
                threat_model.colluding = names;
            }
        }
        let baselines = scorings.told_baselines()?;
        let records = subject.plan.ids.len();
        let mut audit = Audit::new(facts(policy), threat_model, records, Utility::default(), baselines);
        (audit.attacks, audit.remarks) = (results, said);
        Ok(Answered { audit, accuracy })
    }
}

/// What one request gave.
pub(super) struct Attacked {
    /// Accuracy of the release, where it was told.
    accuracy: Option<f64>,
    /// The attacks, scored.
    pub(super) results: Vec<AttackResult>,
    /// What they worked with.
    pub(super) used: Used,
    /// What asking more than once brought, and what else was found out, attack by attack.
    pub(super) said: Vec<String>,
}

/// Has the attacks of one request run and scored. `names` has what the report calls them, as in [`Ask`];
/// the first `controls` of them are what the others are compared with.
///
/// # Errors
/// [`Refusal`] naming the party that refused or is not reachable.
pub(super) async fn attack(
    subject: &Subject<'_>,
    request: Request,
    (names, mut controls): (&[String], usize),
    scorings: &mut Scorings,
    mut on_stage: impl FnMut(usize, &str),
) -> Result<Attacked, Refusal> {
    let mut events = subject.active.reconstruct(request).await?;
    let mut attacked = Attacked { accuracy: None, results: Vec::new(), used: Used::default(), said: Vec::new() };
    let (mut round, mut names) = (Round::default(), names.iter());
    while let Some(event) = events.next().await? {
        match event {
            Event::Progress { done, stage } => on_stage(done.saturating_sub(1), &stage),
            Event::Scores { accuracy } => attacked.accuracy = accuracy,
            Event::Found(found) => {
                attacked.used.add(&found);
                // Results come in the order of the request.
                let name = names.next().unwrap_or(&found.attack).clone();
                attacked.said.extend(found.said().into_iter().map(|said| format!("{name}: {said}")));
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

/// What the attacks of one request worked with, as they say themselves.
#[derive(Clone, Copy, Default)]
pub(super) struct Used {
    /// An attack lacked the passive parameters.
    hidden: bool,
    /// Answers about the record that had most.
    releases: u32,
    /// One asked with logit shares of its own choice.
    chosen_shares: bool,
    /// Records with known passive features that one was given.
    auxiliary_records: usize,
}

impl Used {
    fn add(&mut self, found: &Found) {
        self.hidden |= found.lacked_parameters();
        self.releases = self.releases.max(found.releases);
        self.chosen_shares |= matches!(found.questions, Some(Questions::Chosen { .. }));
        self.auxiliary_records = self.auxiliary_records.max(found.auxiliary_records);
    }

    /// The adversary that knows this of the policy, and is shown this of the parameters.
    pub(super) fn threat_model(self, defense: DefenseKnowledge, parameters: ParameterKnowledge) -> ThreatModel {
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
