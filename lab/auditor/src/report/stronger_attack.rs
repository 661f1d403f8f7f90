//! Attacks without a control that find more than the informed attack: a policy is judged by the
//! attack that finds most.
//!
//! The informed adversary may know less in another respect. With known records in place of the
//! parameters, it learns the white-box knowledge only from their scores; exact scores then give a
//! white box everything.

use super::attack_result::AddedRisk;
use super::document::Audit;
use super::errors::Errors;
use super::noisy_verdict::Z;
use super::worst_attribute::worst;

/// An attack that finds more than the informed one.
pub(super) struct StrongerAttack<'a> {
    /// The audit of the attack.
    pub(super) audit: &'a Audit,
    pub(super) attack: &'a str,
    /// The added risk over the control of the informed audit. It has an interval only if the error
    /// carries noise.
    pub(super) risk: AddedRisk,
}

impl StrongerAttack<'_> {
    /// Returns the figure to compare with a threshold: the upper end if there is one.
    pub(super) fn figure(&self) -> Option<f64> {
        self.risk.high.or(self.risk.value)
    }
}

/// Returns the first audit that sees scores and whose strongest attack has a control. Adversaries
/// that know only moments are reported apart.
pub(super) fn informed<'a>(audits: &[&'a Audit]) -> Option<&'a Audit> {
    audits.iter().find(|audit| counts(audit) && audit.added_risk().is_some()).copied()
}

/// Returns the attack on the same features, among the audits of one policy, that finds more than
/// the interval of the informed one allows. `None` if the informed one is the strongest, or there
/// is none.
pub(super) fn outdone<'a>(audits: &[&'a Audit]) -> Option<StrongerAttack<'a>> {
    let informed = informed(audits)?;
    let (_, _, known) = informed.added_risk()?;
    let of_mean = known.high.or(known.value).filter(|_| known.control_mse > 0.0)?;
    // An error over all features falls by no more than that of the worst attribute.
    let most = worst(audits, None)
        .map_or(of_mean, |worst| worst.risk.high.or(worst.risk.value).unwrap_or(of_mean));
    let same = |audit: &&Audit| {
        let (one, other) = (&audit.threat_model, &informed.threat_model);
        counts(audit) && one.target == other.target && one.colluding == other.colluding
    };
    let found = audits.iter().copied().filter(same).filter_map(|audit| {
        let (attack, errors) = audit.strongest()?;
        // An attack with a control is already considered as informed.
        let risk = audit.added_risk().is_none().then(|| beyond(errors, &known))?;
        (risk.low.or(risk.value)? > most).then_some(StrongerAttack { audit, attack, risk })
    });
    found.max_by(|a, b| {
        a.risk
            .value
            .unwrap_or(f64::NEG_INFINITY)
            .total_cmp(&b.risk.value.unwrap_or(f64::NEG_INFINITY))
    })
}

fn beyond(errors: &Errors, known: &AddedRisk) -> AddedRisk {
    let share = |mse: f64| 1.0 - mse / known.control_mse;
    let end = |sign: f64| errors.sigma.map(|sigma| share(errors.mse + sign * Z * sigma));
    AddedRisk {
        control: known.control.clone(),
        control_mse: known.control_mse,
        value: Some(share(errors.mse)),
        low: end(1.0),
        high: end(-1.0),
        halves: None,
    }
}

fn counts(audit: &Audit) -> bool {
    audit.threat_model.sees_scores() && !audit.threat_model.moments
}
