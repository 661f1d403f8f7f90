//! The adversaries of a plan: the attacks to run behind each policy, and the scorings they need.

use vfl_attack::{AttackConfig, BlackBoxLattice, GRID_SETTINGS, Method, adaptive_for};
use vfl_core::data::schema::FeatureSpec;
use vfl_defense::Policy;
use vfl_defense::policy::ReleaseKind;
use vfl_protocol::ShownParameters;
use vfl_protocol::reconstruct::ReconstructionRequest;

use super::assisted_attacks::AssistedAttacks;
use super::attack_request::{AttackRequest, Helper};
use super::attack_spec::{spec, spec_behind};
use super::plan::{Plan, REFINED_FROM};
use super::scoring::ScoringNeeds;
use super::subject::Subject;
use crate::report::DefenseKnowledge;

/// The adversaries of a plan.
pub(super) struct Adversaries<'a> {
    plan: &'a Plan,
    /// The unaided attacks, which take a release for the true scores.
    pub(super) attacks: Vec<&'a AttackConfig>,
    /// True if an adversary tries to undo transforms of the parameters.
    undo: bool,
    /// The attack that estimates scores instead of asking.
    pub(super) agnostic: Option<&'a AttackConfig>,
    /// True if `agnostic` is run once more after asking for some scores.
    pub(super) refined: bool,
    /// The attacks of adversaries that have help.
    pub(super) helped: AssistedAttacks<'a>,
    /// True if an adversary without the parameters may decode exact scores to the grid of the
    /// features.
    black_box: bool,
    /// True if the model's output is a number.
    number: bool,
}

impl<'a> Adversaries<'a> {
    /// Selects the adversaries of a plan for the parameters shown to the active party, the passive
    /// features and the number of classes.
    pub(super) fn of(
        plan: &'a Plan,
        shown: &[ShownParameters],
        (features, classes): (&[FeatureSpec], usize),
    ) -> Self {
        // An adversary that knows or may suspect that parameters are transformed tries to undo it.
        let suspect = shown.iter().all(|s| s.granted)
            && shown.iter().any(|s| s.transformed() || s.trained_on_transformed() || !s.disclosed);
        let agnostic = plan.attacks.iter().find(|a| a.method() == Method::Agnostic);
        let helped = AssistedAttacks::of(plan);
        let names = |method: Method| plan.attacks.iter().any(|attack| attack.method() == method);
        let tells_grid = plan.features.pairs().any(|(key, _)| key == GRID_SETTINGS[0]);
        let on_grid = |f: &FeatureSpec| f.grid().is_some() && f.group.is_none() && f.min < f.max;
        let black_box = names(Method::Lattice) && !names(Method::BlackBoxLattice);
        let apart = |method: Method| method == Method::Agnostic || helped.runs(method);
        Self {
            plan,
            attacks: plan.attacks.iter().filter(|a| !apart(a.method())).collect(),
            undo: plan.aware && suspect,
            agnostic,
            refined: agnostic.is_some() && plan.ids.len() >= REFINED_FROM,
            helped,
            number: classes == 1,
            black_box: black_box
                && tells_grid
                && features.iter().all(on_grid)
                && BlackBoxLattice::fits(features.len(), classes.max(2), plan.ids.len()),
        }
    }

    /// Returns the policies to run attacks behind; none if no attack uses scores.
    pub(super) fn policies(&self) -> &'a [Policy] {
        if self.attacks.is_empty() && self.helped.attacks() == 0 {
            &[]
        } else {
            &self.plan.policies
        }
    }

    /// Returns true if an adversary decodes scores to the grid of the features.
    fn counts(&self) -> bool {
        self.attacks.iter().any(|attack| attack.method() == Method::Lattice)
    }

    /// Returns the attack on exact scores that needs no parameters, if the policy leaves scores
    /// exact.
    fn black_box(&self, policy: &Policy) -> Option<AttackConfig> {
        let exact = policy.defenses.iter().all(|of| of.leaves() == ReleaseKind::Everything);
        (self.black_box && exact).then(|| Method::BlackBoxLattice.into())
    }

    /// Returns the most that the scorings of all attacks need.
    pub(super) fn needs(&self) -> ScoringNeeds {
        let (policies, attacks, helped) = (self.policies().len(), self.attacks.len(), &self.helped);
        let lattice = self.plan.aware && self.counts();
        let knowing = match attacks {
            0 => 0,
            _ => usize::from(self.plan.aware) + usize::from(self.undo) + usize::from(lattice),
        };
        let alone = usize::from(self.agnostic.is_some()) + usize::from(self.refined);
        let exact =
            self.policies().iter().filter(|policy| self.black_box(policy).is_some()).count();
        // One attack alone costs one part, several attacks cost two.
        let second = if attacks == 1 { exact } else { 0 };
        ScoringNeeds {
            candidates: policies * (attacks + knowing + helped.attacks()) + exact + alone,
            parts: policies * (attacks.min(2) + knowing + helped.parts()) + second + alone,
            rounds: policies * (1 + usize::from(knowing > 0) + helped.attacks()) + alone,
        }
    }

    /// Returns the requests for all attacks behind a policy. `session` answers for the audited
    /// records, `beside` is the session for the help.
    pub(super) fn asks(
        &self,
        subject: &Subject<'_>,
        policy: &Policy,
        session: &str,
        beside: Option<&str>,
    ) -> Vec<AttackRequest> {
        let black_box = self.black_box(policy);
        let attacks = || self.attacks.iter().copied().chain(&black_box);
        let specs = attacks().map(|a| spec_behind(a, self.plan, policy)).collect();
        let request = subject.request(session, &self.plan.ids, specs);
        let mut asks = Vec::new();
        if !self.attacks.is_empty() {
            asks.push(AttackRequest {
                request: request.clone(),
                names: attacks().map(ToString::to_string).collect(),
                defense: DefenseKnowledge::Unknown,
                helper: Helper::Nobody,
            });
            asks.extend(self.knowing(&request, policy, beside));
        }
        asks.extend(self.helped.asks(&request, beside, policy));
        asks
    }

    /// Returns the request for the attacks that know the policy, otherwise like `request`; `None`
    /// if there are none.
    fn knowing(
        &self,
        request: &ReconstructionRequest,
        policy: &Policy,
        beside: Option<&str>,
    ) -> Option<AttackRequest> {
        // Shares of one's own choice move classes past each other, and a number has none.
        let on_one_release = Policy { unbound_shares: false, ..policy.clone() };
        let attacked = if self.number { &on_one_release } else { policy };
        let adaptive = if self.plan.aware { adaptive_for(attacked) } else { None };
        let mut attacks = Vec::new();
        if let Some(method) = adaptive {
            attacks.push(spec(&method.into(), self.plan).with("policy", policy));
        }
        // The attack needs to know how the policy changed the logits; rounding it can see.
        if self.plan.aware && self.counts() && !policy.is_none() {
            attacks.push(spec(&Method::Lattice.into(), self.plan).with("policy", policy));
        }
        if self.undo {
            let undo = spec_behind(&Method::UndoTransform.into(), self.plan, policy)
                .with("policy", policy);
            // The attack that runs on the recovered parameters knows the policy too, if it works on
            // one release.
            let base = adaptive.filter(|m| m.is_base() && *m != Method::Averaging);
            attacks.push(match base {
                Some(base) => undo.with("base", base),
                None => undo,
            });
        }
        if attacks.is_empty() {
            return None;
        }
        // Only an adversary that averages can use more than one answer a record.
        let queries = if adaptive == Some(Method::Averaging) { self.plan.queries } else { 0 };
        let auxiliary = self.helped.auxiliary(beside);
        let request = ReconstructionRequest { attacks, queries, auxiliary, ..request.clone() };
        Some(AttackRequest {
            request,
            names: Vec::new(),
            defense: DefenseKnowledge::Known,
            helper: Helper::Nobody,
        })
    }
}
