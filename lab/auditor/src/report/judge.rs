//! Judges audits by thresholds.

use vfl_core::metrics::{Metric, RecordsWithin};

use super::attack_result::AttackResult;
use super::document::{Audit, Policy, Report};
use super::errors::MetricFigure;
use super::noisy_verdict::Z;
use super::stronger_attack::outdone;
use super::thresholds::{Compliance, MAX_EXACT, Threshold, ThresholdResult, Thresholds};
use super::verdicts::verdicts;
use super::worst_attribute::{WorstAttribute, has_attributes, worst};

impl Report {
    /// Sets the thresholds of the report, each audit's results, and the verdicts on all policies.
    /// Call it once all audits and the policy in service are set.
    pub fn demand(&mut self, thresholds: Thresholds) {
        self.thresholds = (!thresholds.is_empty()).then_some(thresholds);
        for audit in &mut self.audits {
            audit.thresholds = results(&thresholds, audit);
        }
        self.verdicts = verdicts(self);
    }

    /// Returns the policy that is judged: the one in service if it was audited, else the first
    /// audited.
    #[must_use]
    pub fn judged(&self) -> Option<&Policy> {
        let mut audited = self
            .audits
            .iter()
            .filter(|audit| audit.threat_model.sees_scores())
            .map(|audit| &audit.policy);
        let first = audited.clone().next();
        audited.find(|policy| Some(*policy) == self.in_service.as_ref()).or(first)
    }

    /// Returns a policy's results over all its audits, one for each threshold. Empty if there are
    /// no thresholds.
    #[must_use]
    pub fn compliance(&self, policy: &Policy) -> Vec<ThresholdResult> {
        let of_policy: Vec<&Audit> =
            self.audits.iter().filter(|audit| audit.policy == *policy).collect();
        self.thresholds.map_or_else(Vec::new, |thresholds| together(&thresholds, &of_policy))
    }

    /// Returns the thresholds that the judged policy does not meet; empty if it meets all, or if
    /// there are none.
    #[must_use]
    pub fn unmet(&self) -> Vec<ThresholdResult> {
        let results = match self.judged() {
            Some(policy) => self.compliance(policy),
            // No audit, so no threshold is met.
            None => self
                .thresholds
                .iter()
                .flat_map(Thresholds::given)
                .map(|(t, _)| unmeasured(t))
                .collect(),
        };
        results.into_iter().filter(|result| result.compliance != Compliance::Met).collect()
    }
}

/// Ranks results: of several, the worst that was measured counts.
fn severity(result: &ThresholdResult) -> f64 {
    match result.compliance {
        Compliance::NotMeasured => f64::NEG_INFINITY,
        Compliance::Met => result.figure.unwrap_or(-1.0),
        // Above every figure that meets a threshold; a figure without a bound is the worst.
        Compliance::NotMet => 2.0 + result.figure.unwrap_or(f64::INFINITY),
    }
}

/// Returns the results of all audits of one policy together for each given threshold: the worst of
/// them counts.
pub(crate) fn together(thresholds: &Thresholds, audits: &[&Audit]) -> Vec<ThresholdResult> {
    let worst = |(threshold, limit)| {
        let counting = audits.iter().filter(|audit| counts(threshold, audit));
        let of = counting
            .flat_map(|audit| results(thresholds, audit))
            .filter(|result| result.threshold == threshold);
        let of_risk =
            |of: Option<ThresholdResult>| of.filter(|_| threshold == Threshold::MaxAddedRisk);
        let attribute = worst(audits, None).map(|worst| of_attribute(&worst, limit));
        let outdone =
            outdone(audits).map(|found| compared(threshold, found.attack, found.figure(), limit));
        let of = of.chain(of_risk(attribute)).chain(of_risk(outdone));
        of.max_by(|a, b| severity(a).total_cmp(&severity(b)))
            .unwrap_or_else(|| unmeasured(threshold))
    };
    thresholds.given().map(worst).collect()
}

/// Returns true if an audit counts for a threshold. The added risk of an adversary that knows only
/// moments does not count: its control is weak, it is known only for exact scores, and the release
/// is not to blame for what a control with records would find.
fn counts(threshold: Threshold, audit: &Audit) -> bool {
    threshold != Threshold::MaxAddedRisk || !audit.threat_model.moments
}

fn unmeasured(threshold: Threshold) -> ThresholdResult {
    ThresholdResult {
        threshold,
        compliance: Compliance::NotMeasured,
        figure: None,
        attack: None,
        attribute: None,
    }
}

/// Returns the results of an audit for each given threshold.
pub(super) fn results(thresholds: &Thresholds, audit: &Audit) -> Vec<ThresholdResult> {
    let of = |(threshold, limit): (Threshold, f64)| match threshold {
        Threshold::MaxAddedRisk => added_risk(audit, limit),
        Threshold::MaxExactShare => exact_share(audit, limit),
        Threshold::MaxExact => certain(audit, limit),
        Threshold::MaxBits => bits(audit, limit),
    };
    thresholds.given().map(of).collect()
}

fn compared(
    threshold: Threshold,
    attack: &str,
    figure: Option<f64>,
    limit: f64,
) -> ThresholdResult {
    let met = figure.is_some_and(|figure| figure <= limit);
    let compliance = if met { Compliance::Met } else { Compliance::NotMet };
    ThresholdResult {
        threshold,
        compliance,
        figure,
        attack: Some(attack.to_owned()),
        attribute: None,
    }
}

/// Compares the worst attribute with a threshold. Without noise an attack without an interval is
/// compared by its figure.
fn of_attribute(worst: &WorstAttribute<'_>, limit: f64) -> ThresholdResult {
    let figure = worst.risk.high.or(worst.risk.value.filter(|_| !worst.noised));
    let attribute = Some(worst.figures.attribute.clone());
    ThresholdResult { attribute, ..compared(Threshold::MaxAddedRisk, worst.attack, figure, limit) }
}

/// Compares the upper end of the worst attribute's interval; in reports without figures by
/// attribute, that of the mean over features. An interval that the noise leaves open does not meet
/// the threshold.
fn added_risk(audit: &Audit, limit: f64) -> ThresholdResult {
    if has_attributes(&[audit]) {
        return match worst(&[audit], None) {
            Some(worst) => of_attribute(&worst, limit),
            None => unmeasured(Threshold::MaxAddedRisk),
        };
    }
    match audit.added_risk() {
        // A control without error leaves no error to remove, so nothing is measured.
        Some((_, _, risk))
            if risk.value.is_none() && risk.high.is_none() && risk.control_mse == 0.0 =>
        {
            unmeasured(Threshold::MaxAddedRisk)
        }
        Some((name, _, risk)) => compared(Threshold::MaxAddedRisk, name, risk.high, limit),
        None => unmeasured(Threshold::MaxAddedRisk),
    }
}

/// Compares the largest share of records that an attack is certain of. Attacks that cannot tell are
/// certain of none.
fn certain(audit: &Audit, limit: f64) -> ThresholdResult {
    let shares = audit.attacks.iter().filter_map(|attack| Some((attack, attack.certain?)));
    match shares.max_by_key(|(_, certain)| *certain) {
        Some((attack, certain)) => {
            let share = certain as f64 / audit.records.max(1) as f64;
            compared(Threshold::MaxExact, &attack.name, Some(share), limit)
        }
        // The default applies only if an attack can be certain. A user who asks for a share wants
        // it measured.
        None if limit == MAX_EXACT && audit.attacks.iter().any(AttackResult::has_run) => {
            let compliance = Compliance::Met;
            ThresholdResult { compliance, figure: Some(0.0), ..unmeasured(Threshold::MaxExact) }
        }
        None => unmeasured(Threshold::MaxExact),
    }
}

/// Compares the most bits that the policy reveals of a record, without any attack. Without a finite
/// bound the threshold is not met.
fn bits(audit: &Audit, limit: f64) -> ThresholdResult {
    if !audit.threat_model.sees_scores() {
        return unmeasured(Threshold::MaxBits);
    }
    let figure = audit.utility.bits;
    let met = figure.is_some_and(|bits| bits <= limit);
    let compliance = if met { Compliance::Met } else { Compliance::NotMet };
    ThresholdResult { compliance, figure, ..unmeasured(Threshold::MaxBits) }
}

/// Compares the largest share of any attack and any party: the mean over parties would hide a party
/// whose records are rebuilt.
fn exact_share(audit: &Audit, limit: f64) -> ThresholdResult {
    let figures = audit.scored().filter_map(|(name, errors)| {
        let figure = errors.metrics.iter().find(|m| m.name == RecordsWithin.name())?;
        Some((name, largest(figure)?))
    });
    match figures.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((name, share)) => compared(Threshold::MaxExactShare, name, Some(share), limit),
        None => unmeasured(Threshold::MaxExactShare),
    }
}

fn largest(figure: &MetricFigure) -> Option<f64> {
    let upper = |value: f64, sigma: Option<f64>| value + Z * sigma.unwrap_or(0.0);
    let parties = figure.per_party.iter().map(|part| upper(part.value, part.sigma));
    figure
        .value
        .map(|value| upper(value, figure.sigma))
        .into_iter()
        .chain(parties)
        .max_by(f64::total_cmp)
}
