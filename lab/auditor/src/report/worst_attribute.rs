//! The worst attribute, which the scores reveal most about: the verdict goes by it.

use vfl_core::metrics::{AttributeFigures, HalfErrorReduction};

use super::attack_result::{AddedRisk, AttackResult, AttributeResult};
use super::document::Audit;

/// The worst of the attributes that attacks were measured on, over attacks and passive parties.
#[derive(Debug, Clone, PartialEq)]
pub struct WorstAttribute<'a> {
    /// The name of the passive party.
    pub party: &'a str,
    /// The name of the attack.
    pub attack: &'a str,
    /// The figures of that attack on the attribute.
    pub figures: &'a AttributeFigures,
    /// The figures that have the control's values: those of the informed attack if the attack of
    /// `figures` has no control, otherwise `figures`.
    pub beside: &'a AttributeFigures,
    /// The share of the control's error that is removed. Without noise the attribute is chosen on
    /// one half of the records and evaluated on the other, both ways, and the two are averaged: the
    /// interval is about as wide as that of an attribute known in advance. With noise the intervals
    /// of all attributes hold jointly; the lower end is that of this attribute, the upper end the
    /// largest of all, or absent if noise leaves one open. An attack without a control of its own
    /// has no interval.
    pub risk: AddedRisk,
    /// True if the figures carry noise.
    pub noised: bool,
    /// The attributes whose risk the noise leaves unbounded for every attack, if it bounds others.
    pub open: Vec<&'a str>,
}

/// A candidate for the worst attribute.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    attack: &'a AttackResult,
    risk: &'a AddedRisk,
    of: &'a AttributeResult,
}

/// Returns the worst attribute of the audits of one policy, for one passive party or all. Audits of
/// adversaries that see no scores or know only moments do not count. `None` if no attack with a
/// control has figures by attribute, or no control leaves any error to remove.
#[must_use]
pub fn worst<'a>(audits: &[&'a Audit], party: Option<&str>) -> Option<WorstAttribute<'a>> {
    let counting = || audits.iter().copied().filter(|audit| counts(audit));
    let of_party = |of: &AttributeResult| party.is_none_or(|party| of.party == party);
    let all: Vec<Candidate<'a>> =
        counting().flat_map(candidates).filter(|c| of_party(c.of)).collect();
    let (noised, plain): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|c| is_noised(&c.of.figures));
    let found = match (cross_fitted(&plain), simultaneous(&noised)) {
        (Some(plain), Some(noised)) => more_of(plain, noised),
        (plain, noised) => plain.or(noised)?,
    };
    // The control must be of an adversary with the same helpers.
    let informed = counting().find(|audit| candidates(audit).next().is_some());
    let helped_alike = |audit: &&Audit| {
        let (one, other) = (&audit.threat_model, informed.map(|audit| &audit.threat_model));
        other.is_some_and(|other| one.target == other.target && one.colluding == other.colluding)
    };
    let without = counting().filter(|audit| audit.added_risk().is_none()).filter(helped_alike);
    let beyond =
        without.flat_map(|audit| outdoing(audit, &all)).filter(|other| of_party_name(other, party));
    let most = beyond.max_by(|a, b| share(&a.risk).total_cmp(&share(&b.risk)));
    Some(most.filter(|most| share(&most.risk) > found.risk.high.unwrap_or(1.0)).unwrap_or(found))
}

/// Returns true if any attack of the audits has figures by attribute: a report before version 10
/// has none, and goes by the mean.
pub(super) fn has_attributes(audits: &[&Audit]) -> bool {
    audits.iter().filter(|audit| counts(audit)).any(|audit| candidates(audit).next().is_some())
}

fn counts(audit: &Audit) -> bool {
    audit.threat_model.sees_scores() && !audit.threat_model.moments
}

fn of_party_name(worst: &WorstAttribute<'_>, party: Option<&str>) -> bool {
    party.is_none_or(|party| worst.party == party)
}

fn share(risk: &AddedRisk) -> f64 {
    risk.value.unwrap_or(f64::NEG_INFINITY)
}

/// Returns true for figures with noise, which have only the share removed.
pub(super) fn is_noised(figures: &AttributeFigures) -> bool {
    figures.error.is_none()
}

fn candidates(audit: &Audit) -> impl Iterator<Item = Candidate<'_>> {
    let compared =
        audit.attacks.iter().filter_map(|attack| Some((attack, attack.added_risk.as_ref()?)));
    compared.flat_map(|(attack, risk)| {
        let removable = attack.attributes.iter().filter(|of| of.figures.removed.is_some());
        removable.map(move |of| Candidate { attack, risk, of })
    })
}

impl<'a> Candidate<'a> {
    fn value(&self) -> f64 {
        self.of.figures.removed.and_then(|removed| removed.value).unwrap_or(f64::NEG_INFINITY)
    }

    /// Returns the share removed less its standard deviation, or the share where none is known.
    fn sure(&self) -> f64 {
        let value = self.value();
        self.low().map_or(value, |low| value - (value - low) / Z)
    }

    fn low(&self) -> Option<f64> {
        self.of.figures.removed.and_then(|removed| removed.low)
    }

    fn high(&self) -> Option<f64> {
        self.of.figures.removed.and_then(|removed| removed.high)
    }

    fn halves(&self) -> Option<[HalfErrorReduction; 2]> {
        self.of.figures.removed.and_then(|removed| removed.halves)
    }

    fn worst(&self, value: Option<f64>, ends: Option<(f64, f64)>) -> WorstAttribute<'a> {
        let figures = &self.of.figures;
        let (low, high) = ends.unzip();
        let control_mse = figures.error.map_or(self.risk.control_mse, |error| error.control);
        let risk = AddedRisk {
            control: self.risk.control.clone(),
            control_mse,
            value,
            low,
            high,
            halves: None,
        };
        let noised = is_noised(figures);
        let (party, attack) = (&self.of.party, &self.attack.name);
        WorstAttribute { party, attack, figures, beside: figures, risk, noised, open: Vec::new() }
    }
}

/// The fraction by which the upper end moves towards that of all records if the halves choose
/// differently. In simulated audits of 400 records (one clear attribute, several close ones, all
/// equal) the interval then covers the worst in 92 to 98 % and is 1.0 to 1.35 times as wide as that
/// of an attribute known in advance; without it, it covers in 73 to 96 %.
const UPWARD: f64 = 0.7;

/// The number of standard deviations that contain 95 % of a normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// Returns the worst attribute without noise. The best of many looks better than it is on the
/// records that it was chosen on: each half of the records chooses, and the other evaluates. If
/// both choose the worst on all records, its own figure already is the average of the two. If not,
/// attributes are close to each other, and the average is partly of lesser ones: the upper end
/// moves most of the way to that of the figure on all records, which errs on the other side
/// ([`UPWARD`]).
fn cross_fitted<'a>(all: &[Candidate<'a>]) -> Option<WorstAttribute<'a>> {
    let own = all.iter().rev().max_by(|a, b| a.sure().total_cmp(&b.sure()))?;
    let by = |half: usize| {
        // Less its deviation: a figure that varies much is large on one half by chance, and would
        // hide one that is as large on both.
        let key = |c: &Candidate<'_>| {
            let halves = c.halves();
            halves.map_or(f64::NEG_INFINITY, |of| of[half].value - of[half].deviation)
        };
        let best = all.iter().rev().max_by(|a, b| key(a).total_cmp(&key(b)))?;
        // The worst on all records comes first among equals, so that round-off chooses nothing.
        if key(best) > key(own) { Some(best) } else { Some(own) }
    };
    let (by_first, by_second) = (by(0)?, by(1)?);
    let same = |chosen: &Candidate<'_>| std::ptr::eq(chosen.of, own.of);
    let read =
        by_first.halves().zip(by_second.halves()).filter(|_| !(same(by_first) && same(by_second)));
    let Some((first, second)) = read else {
        return Some(own.worst(Some(own.value()), own.low().zip(own.high())));
    };
    let (a, b) = (first[1], second[0]);
    let value = 0.5 * (a.value + b.value);
    let away = Z * 0.5 * a.deviation.hypot(b.deviation);
    let high = value + away;
    let high = high + UPWARD * (own.high().unwrap_or(high) - high).max(0.0);
    Some(own.worst(Some(value), Some((value - away, high.min(1.0)))))
}

/// Returns the worst attribute with noise, whose intervals hold jointly: the largest lower end
/// above 0, else the largest figure with an interval. The upper end is the largest of all.
fn simultaneous<'a>(all: &[Candidate<'a>]) -> Option<WorstAttribute<'a>> {
    let bounded = || all.iter().rev().filter(|c| c.low().is_some());
    let by_low =
        bounded().max_by(|a, b| a.low().unwrap_or(-1.0).total_cmp(&b.low().unwrap_or(-1.0)));
    let leaking = by_low.filter(|c| c.low().is_some_and(|low| low > 0.0));
    let largest = || bounded().max_by(|a, b| a.value().total_cmp(&b.value()));
    let own = leaking.or_else(largest).or_else(|| all.first())?;
    let ends = all.iter().map(Candidate::high).collect::<Option<Vec<f64>>>();
    let high = ends.and_then(|ends| ends.into_iter().max_by(f64::total_cmp));
    let mut worst =
        own.worst(Some(own.value()).filter(|v| v.is_finite() && own.low().is_some()), None);
    (worst.risk.low, worst.risk.high) = (own.low(), high);
    if all.iter().any(|c| c.high().is_some()) {
        let same = |a: &AttributeResult, b: &AttributeResult| {
            (&a.party, &a.figures.attribute) == (&b.party, &b.figures.attribute)
        };
        let is_open = |c: &Candidate<'a>| {
            all.iter().filter(|other| same(c.of, other.of)).all(|c| c.high().is_none())
        };
        let open = all.iter().filter(|c| is_open(c)).map(|c| c.of.figures.attribute.as_str());
        worst.open = open.collect();
        worst.open.sort_unstable();
        worst.open.dedup();
    }
    Some(worst)
}

/// Returns the worse of two, with the larger upper end.
fn more_of<'a>(one: WorstAttribute<'a>, other: WorstAttribute<'a>) -> WorstAttribute<'a> {
    let high = one.risk.high.zip(other.risk.high).map(|(a, b)| a.max(b));
    let low = |worst: &WorstAttribute<'_>| worst.risk.low.unwrap_or(f64::NEG_INFINITY);
    let mut worse = if low(&other) > low(&one).max(0.0) { other } else { one };
    worse.risk.high = high;
    worse
}

/// Compares the attacks of an audit without a control with the control of the informed attacks on
/// the same attribute. Only their errors are compared, so that there is no interval.
fn outdoing<'a>(audit: &'a Audit, informed: &[Candidate<'a>]) -> Vec<WorstAttribute<'a>> {
    let scored: Vec<&str> = audit.scored().map(|(name, _)| name).collect();
    let attacks = audit.attacks.iter().filter(|attack| scored.contains(&attack.name.as_str()));
    let beyond = |(attack, of): (&'a AttackResult, &'a AttributeResult)| {
        let same = |c: &&Candidate<'a>| {
            c.of.party == of.party && c.of.figures.attribute == of.figures.attribute
        };
        let left =
            |c: &Candidate<'_>| c.of.figures.error.map_or(f64::INFINITY, |error| error.control);
        let control = informed.iter().filter(same).min_by(|a, b| left(a).total_cmp(&left(b)))?;
        let control_mse = left(control);
        let value = 1.0 - of.figures.error?.attack / control_mse;
        let (control_name, beside) = (control.risk.control.clone(), &control.of.figures);
        let risk = AddedRisk {
            control: control_name,
            control_mse,
            value: Some(value),
            low: None,
            high: None,
            halves: None,
        };
        Some(WorstAttribute {
            party: &of.party,
            attack: &attack.name,
            figures: &of.figures,
            beside,
            risk,
            noised: false,
            open: Vec::new(),
        })
    };
    attacks
        .flat_map(|attack| attack.attributes.iter().map(move |of| (attack, of)))
        .filter_map(beyond)
        .collect()
}
