//! Where an attack that has no control of its own finds more than the informed one: a policy is judged by what finds most.
//!
//! The informed adversary may know less in another respect. With known records in the place of the parameters it learns from their
//! scores what a white box is told, and exact scores then give a white box everything.

use super::attack_result::AddedRisk;
use super::document::Audit;
use super::errors::Errors;
use super::noised::Z;
use super::worst::worst;

/// An attack that finds more than the informed one.
pub(super) struct Outdone<'a> {
    /// Its audit.
    pub(super) audit: &'a Audit,
    /// Its name.
    pub(super) attack: &'a str,
    /// What it finds beyond the control of the informed audit. It has ends where its error carries noise, and none elsewhere.
    pub(super) risk: AddedRisk,
}

impl Outdone<'_> {
    /// What is compared with a threshold: the upper end if there is one.
    pub(super) fn figure(&self) -> Option<f64> {
        self.risk.high.or(self.risk.value)
    }
}

/// The first audit whose strongest attack has a control, and sees scores. Those of whoever knows moments alone are told apart.
pub(super) fn informed<'a>(audits: &[&'a Audit]) -> Option<&'a Audit> {
    audits.iter().find(|audit| counts(audit) && audit.added_risk().is_some()).copied()
}

/// Among the audits of one policy, the attack on the same features that finds more than the interval of the informed one allows.
/// `None` if the informed one is the strongest, or there is none.
pub(super) fn outdone<'a>(audits: &[&'a Audit]) -> Option<Outdone<'a>> {
    let informed = informed(audits)?;
    let (_, _, known) = informed.added_risk()?;
    let of_mean = known.high.or(known.value).filter(|_| known.control_mse > 0.0)?;
    // An error over all features falls by no more than that of the worst attribute.
    let most = worst(audits, None).map_or(of_mean, |worst| worst.risk.high.or(worst.risk.value).unwrap_or(of_mean));
    let same = |audit: &&Audit| {
        let (one, other) = (&audit.threat_model, &informed.threat_model);
        counts(audit) && one.target == other.target && one.colluding == other.colluding
    };
    let found = audits.iter().copied().filter(same).filter_map(|audit| {
        let (attack, errors) = audit.strongest()?;
        // Who has a control is in the first line already.
        let risk = audit.added_risk().is_none().then(|| beyond(errors, &known))?;
        (risk.low.or(risk.value)? > most).then_some(Outdone { audit, attack, risk })
    });
    found.max_by(|a, b| a.risk.value.unwrap_or(f64::NEG_INFINITY).total_cmp(&b.risk.value.unwrap_or(f64::NEG_INFINITY)))
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
