//! The adversary that knows the means and covariances of the passive features, simulated by their
//! owner. The owner has the true parameters and exact scores, so that the moments never leave it.

use vfl_protocol::Refusal;
use vfl_protocol::scoring::{ReportedCandidates, ScoredCandidate};

use super::joint::{added_risk, joint};
use super::scoring::{ScoringNeeds, Scorings};
use super::subject::Subject;
use crate::report::{
    AttackResult, AttributeResult, Audit, Baselines, DefenseKnowledge, Status, ThreatModel, Utility,
};

/// The attacks that the owner simulates, in the order of its answer, and the control.
const ATTACKS: [&str; 2] = ["gaussian (moments = own)", "posterior_mean (moments = own)"];
const CONTROL: &str = "imputation (moments = own)";

/// Returns true if the plan needs the simulation and its only passive party supports it. With
/// several parties the scores depend on the sum of their shares, which no owner knows.
pub(super) fn plays(subject: &Subject<'_>, scorings: &Scorings) -> bool {
    scorings.only_party().is_some_and(|party| party.plays())
        && subject.plan.policies.iter().any(|policy| policy.is_none())
}

/// Returns the scorings that the simulation needs.
pub(super) fn needs() -> ScoringNeeds {
    // If only the better attack is reported, the choice costs a part, and so do its error and that
    // of the control.
    ScoringNeeds { candidates: ATTACKS.len(), parts: 3, rounds: 0 }
}

/// Has the owner simulate the adversary. `utility` is of scores without a defense.
///
/// # Errors
/// [`Refusal`] naming the party that refused or is not reachable.
pub(super) async fn audit(
    subject: &Subject<'_>,
    scorings: &mut Scorings,
    utility: Utility,
    baselines: Baselines,
) -> Result<Audit, Refusal> {
    let told = if scorings.frugal() { ReportedCandidates::Best } else { ReportedCandidates::All };
    let classes = subject.model.class_names.len();
    let records = subject.plan.ids.len();
    let [party] = scorings.parties() else {
        return Err(Refusal::internal("one passive party plays, not several"));
    };
    let unknowns = party.features().len();
    // A number is one equation, scores of k classes are k − 1.
    let rank = classes.saturating_sub(1).max(1).min(unknowns);
    let status = Status::Posterior { rank, unknowns };
    let name = party.name().to_owned();
    let mut scored = party.score_played(told, needs().parts).await?;
    let missing = || Refusal::internal(format!("{} did not play", party.peer()));
    let control = [(name.clone(), scored.control.take().ok_or_else(missing)?)];
    let attacks: Vec<&str> = match told {
        ReportedCandidates::All => ATTACKS.to_vec(),
        _ => vec![*ATTACKS.get(scored.best.ok_or_else(missing)?).ok_or_else(missing)?],
    };
    if attacks.len() != scored.errors.len() {
        return Err(missing());
    }
    let mut threat_model = ThreatModel::white_box(DefenseKnowledge::Unknown);
    threat_model.moments = true;
    let policy = &vfl_defense::Policy::default();
    let mut audit = Audit::new(policy.into(), threat_model, records, utility, baselines);
    audit.attacks.push(AttackResult::ran(CONTROL, Status::Guess, joint(&control)));
    for (attack, scored) in attacks.into_iter().zip(scored.errors) {
        let ScoredCandidate { error, gain, attributes, .. } = scored;
        let told = [(name.clone(), error)];
        let added = added_risk(CONTROL, &told, &control, &[gain]);
        let attributes =
            attributes.into_iter().map(|figures| AttributeResult { party: name.clone(), figures });
        audit.attacks.push(
            AttackResult::ran(attack, status, joint(&told))
                .with_added_risk(Some(added))
                .with_attributes(attributes.collect()),
        );
    }
    audit.remarks.push(
        "played by the owner of the features with the means and covariances of the records that are not audited, which are not sent"
            .into(),
    );
    Ok(audit)
}
