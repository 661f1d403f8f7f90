//! The worst attribute: how it is chosen, how often its interval holds what is true, and what noise bears.

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use vfl_core::data::schema::{FeatureKind, FeatureSpec};
use vfl_core::metrics::{AttributeFigures, ErrorReduction, Event, HalfErrorReduction, attributes};
use vfl_numerics::two_sided_normal;

use super::fixture;
use crate::report::{
    AddedRisk, AttackResult, AttributeResult, Audit, Compliance, DefenseKnowledge, Errors, Level,
    Report, Status, ThreatModel, Thresholds, not_met, render_html, render_summary, verdict, worst,
};

fn risk() -> AddedRisk {
    AddedRisk {
        control: "imputation".into(),
        control_mse: 0.01,
        value: Some(0.01),
        low: None,
        high: None,
        halves: None,
    }
}

/// An informed audit with one attack that has these figures by attribute.
fn audit(
    of: impl IntoIterator<Item = (&'static str, AttributeFigures)>,
    sigma: Option<f64>,
) -> Audit {
    let mut audit = fixture::informed().audits.swap_remove(4);
    let errors = Errors { sigma, ..Errors::new(0.0099, Vec::new()) };
    let attributes =
        of.into_iter().map(|(party, figures)| AttributeResult { party: party.into(), figures });
    audit.attacks = vec![
        AttackResult::ran("gaussian", Status::Unique, errors)
            .with_added_risk(Some(risk()))
            .with_attributes(attributes.collect()),
    ];
    audit
}

/// Figures that differ between the halves.
fn halves(name: &str, first: f64, second: f64) -> AttributeFigures {
    let mean = 0.5 * (first + second);
    let mut figures = fixture::attribute(name, 0, (mean, mean - 0.1, mean + 0.1));
    let half = |value| HalfErrorReduction { value, deviation: 0.06 };
    figures.removed =
        figures.removed.map(|r| ErrorReduction { halves: Some([half(first), half(second)]), ..r });
    figures
}

#[test]
fn each_half_chooses_and_the_other_tells() {
    let told = |of: Vec<AttributeFigures>| {
        let audit = audit(of.into_iter().map(|figures| ("insurer", figures)), None);
        let worst = worst(&[&audit], None).unwrap();
        let ends = worst.risk.low.zip(worst.risk.high).unwrap();
        (worst.figures.attribute.clone(), worst.risk.value.unwrap(), ends)
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    // Both halves choose the same: its own figure and interval.
    let (name, value, (low, high)) = told(vec![halves("a", 0.3, 0.4), halves("b", 0.1, 0.2)]);
    assert_eq!(name, "a");
    for (a, b) in [(value, 0.35), (low, 0.25), (high, 0.45)] {
        close(a, b);
    }
    // The first half chooses b, whose second half says 0.0; the second chooses a, whose first half says 0.3.
    let (name, value, (low, high)) = told(vec![halves("a", 0.3, 0.4), halves("b", 0.5, 0.0)]);
    assert_eq!(name, "a");
    let away = 1.959_963_984_540_054 * 0.5 * 0.06 * 2f64.sqrt();
    let high_end = 0.15 + away + 0.7 * (0.45 - 0.15 - away);
    for (a, b) in [(value, 0.15), (low, 0.15 - away), (high, high_end)] {
        close(a, b);
    }
}

#[test]
fn the_worst_hit_party_decides_and_each_has_its_own_verdict() {
    let figures = |name, value| fixture::attribute(name, 0, (value, value - 0.05, value + 0.05));
    let audit =
        audit([("a", figures("x", 0.2)), ("b", figures("y", 0.6)), ("a", figures("z", 0.1))], None);
    let of = |party| {
        worst(&[&audit], party).map(|worst| (worst.party, worst.figures.attribute.as_str()))
    };
    assert_eq!(of(None), Some(("b", "y")));
    assert_eq!(
        (of(Some("a")), of(Some("b")), of(Some("c"))),
        (Some(("a", "x")), Some(("b", "y")), None)
    );
}

/// An attack without a control of its own is measured by that of the informed one, and by its error alone.
#[test]
fn an_attack_without_a_control_outdoes_the_informed_one_by_attribute() {
    let informed = audit([("insurer", fixture::attribute("late", 0, (0.3, 0.25, 0.35)))], None);
    let mut other = informed.clone();
    other.threat_model = ThreatModel::white_box(DefenseKnowledge::Unknown);
    other.attacks[0].added_risk = None;
    other.attacks[0].name = "lattice".into();
    // The informed control leaves 0.8 of the variance.
    let mut with_error = |attack: f64| {
        let error = other.attacks[0].attributes[0].figures.error.as_mut().unwrap();
        (error.attack, error.control) = (attack, 1.0);
        let audits = [&informed, &other];
        let found = worst(&audits, None).unwrap();
        (found.attack.to_owned(), found.risk.value.unwrap(), found.risk.high)
    };
    assert_eq!(with_error(0.53), ("gaussian".into(), 0.3, Some(0.35)));
    assert_eq!(with_error(0.2), ("lattice".into(), 0.75, None));
}

/// Attributes of which an attack removes these shares, in 400 records, from a control with errors of its own on each record.
fn drawn(shares: &[f64], n: usize, rng: &mut ChaCha20Rng) -> Audit {
    let mut normal = || -> f64 { StandardNormal.sample(rng) };
    let specs: Vec<FeatureSpec> =
        (0..shares.len()).map(|i| FeatureSpec::numeric(format!("x{i}"), 0.0, 1.0)).collect();
    let common: Vec<f64> = (0..n).map(|_| normal()).collect();
    let truth = DMatrix::from_fn(shares.len(), n, |_, j| 0.5 * common[j] + normal());
    // What the control misses has a heavy tail, and the attack misses a part of it.
    let missed = DMatrix::from_fn(shares.len(), n, |_, _| normal() * (0.5 + normal().abs()));
    let left = DMatrix::from_fn(shares.len(), n, |i, j| {
        let share = 1.0 - shares[i];
        missed[(i, j)] * 0.8 * share.sqrt() + normal() * 0.6 * (share * MISSED).sqrt()
    });
    let (attack, control) = (&truth + left, &truth + missed);
    let of = |attribute| ("insurer", AttributeFigures::of(attribute, &truth, &attack, &control));
    audit(attributes(&specs).iter().map(of), None)
}

/// E (z (½ + |y|))² = ¼ + 2 · ½ √(2/π) + 1 of independent standard normal z, y.
const MISSED: f64 = 1.25 + 0.797_884_560_802_865_4;

/// 400 audits each: one attribute is told by 40 % and eleven others by 5 to 30 %; one of twelve is told by half; of twelve none is told.
#[test]
fn the_interval_of_the_worst_attribute_covers_and_is_about_as_wide_as_of_one_known_in_advance() {
    let mut rng = ChaCha20Rng::seed_from_u64(36);
    let close: Vec<f64> =
        (0..12).map(|i| if i == 7 { 0.4 } else { 0.05 + 0.0227 * f64::from(i) }).collect();
    let clear: Vec<f64> = (0..12).map(|i| if i == 7 { 0.5 } else { 0.0 }).collect();
    for (shares, truth) in [(close, 0.4), (clear, 0.5), (vec![0.0; 12], 0.0)] {
        let (mut holds, mut widths, mut known) = (0, Vec::new(), Vec::new());
        for _ in 0..400 {
            let audit = drawn(&shares, 400, &mut rng);
            let found = worst(&[&audit], None).unwrap().risk;
            let (low, high) = found.low.zip(found.high).unwrap();
            assert!(low <= found.value.unwrap() && found.value.unwrap() <= high);
            holds += usize::from(low <= truth && truth <= high);
            widths.push(high - low);
            let removed = audit.attacks[0].attributes[7].figures.removed.unwrap();
            known.push(removed.high.unwrap() - removed.low.unwrap());
        }
        let median = |of: &mut Vec<f64>| {
            of.sort_by(f64::total_cmp);
            of[of.len() / 2]
        };
        let ratio = median(&mut widths) / median(&mut known);
        println!(
            "covers in {holds} of 400, median width {ratio:.3} times that of an attribute known in advance"
        );
        assert!(holds >= 368 && ratio <= 1.3, "{holds} {ratio}");
    }
}

/// An audit with noise of `d` attributes, of which the first one is told by `share`.
fn noised(share: f64, d: usize, sigma: f64, rng: &mut ChaCha20Rng) -> Audit {
    let mut normal = || -> f64 { StandardNormal.sample(rng) };
    let z = two_sided_normal(0.05 / d as f64);
    let specs: Vec<FeatureSpec> =
        (0..d).map(|i| FeatureSpec::numeric(format!("x{i}"), 0.0, 1.0)).collect();
    let controls: Vec<f64> = (0..d).map(|_| 0.05 + sigma * normal()).collect();
    let errors: Vec<f64> = (0..d)
        .map(|i| 0.05 * (1.0 - if i == 0 { share } else { 0.0 }) + sigma * normal())
        .collect();
    let of = |attribute| {
        ("insurer", AttributeFigures::of_noised(attribute, (&errors, sigma), (&controls, sigma), z))
    };
    audit(attributes(&specs).iter().map(of), Some(sigma / (d as f64).sqrt()))
}

/// 200 headlines where nothing is told, and 200 where half of one attribute is, at noise from small to overwhelming.
#[test]
fn a_headline_states_no_more_than_the_noise_bears() {
    let mut rng = ChaCha20Rng::seed_from_u64(37);
    for sigma in [0.001, 0.004, 0.015, 0.06] {
        let mut count = |share: f64, wrong: fn(Level) -> bool| {
            let level = |_| verdict(&noised(share, 6, sigma, &mut rng)).level;
            (0..200).map(level).filter(|level| wrong(*level)).count()
        };
        let claims = count(0.0, |level| level == Level::Partial);
        let denials = count(0.5, |level| level == Level::NoMore);
        println!(
            "noise {sigma}: {claims} of 200 claim a leak that is none, {denials} of 200 deny one of 50 %"
        );
        assert!(claims <= 10 && denials <= 10, "{sigma}: {claims} {denials}");
    }
    // Little noise finds it, and too much is said to bound nothing.
    assert_eq!(verdict(&noised(0.5, 6, 0.001, &mut rng)).level, Level::Partial);
    let open = noised(0.5, 6, 0.06, &mut rng);
    let said = verdict(&open);
    assert_eq!(said.level, Level::Undecided);
    assert!(
        said.text.contains("the noise of this audit bounds nothing; audit more records"),
        "{}",
        said.text
    );
    let mut report = reported(open);
    report.demand(Thresholds::new(Some(0.3), None).unwrap());
    assert_eq!(report.unmet()[0].compliance, Compliance::NotMet);
    let text = render_summary(&report, 140, false);
    assert!(text.contains("undecided") && text.contains("Next: Audit more records"), "{text}");
}

/// One attribute that hardly varies is open, and the sentence names it.
#[test]
fn attributes_that_the_noise_leaves_open_are_named() {
    let specs: Vec<FeatureSpec> =
        ["narrow", "wide"].map(|name| FeatureSpec::numeric(name, 0.0, 1.0)).into();
    let (errors, z) = ([0.001, 0.04], two_sided_normal(0.025));
    let of = |attribute| {
        ("insurer", AttributeFigures::of_noised(attribute, (&errors, 0.001), (&errors, 0.001), z))
    };
    let said = verdict(&audit(attributes(&specs).iter().map(of), Some(0.001)));
    assert_eq!(said.level, Level::Undecided);
    assert!(
        said.text.contains("of `narrow` the noise bounds nothing; audit more records"),
        "{}",
        said.text
    );
}

/// The attack that removes most of the worst attribute need not be the one that rebuilds everything.
#[test]
fn the_attack_that_rebuilds_all_features_is_named_for_it() {
    let mut report =
        reported(audit([("insurer", fixture::attribute("late", 0, (1.0, 1.0, 1.0)))], None));
    let mut exact = report.audits[0].clone();
    exact.threat_model = ThreatModel::white_box(DefenseKnowledge::Unknown);
    exact.attacks =
        vec![AttackResult::ran("lattice", Status::Unique, Errors::new(0.0, Vec::new()))];
    report.audits.push(exact);
    let text = render_summary(&report, 140, false);
    assert!(text.contains("lattice rebuilds all passive features exactly"), "{text}");
}

/// The demonstration's report with one audit.
fn reported(audit: Audit) -> Report {
    let mut report = fixture::informed();
    report.audits = vec![audit];
    // As many features as the credit table has.
    let passive =
        report.deployment.parties.iter_mut().find(|party| party.name == "insurer").unwrap();
    (passive.features, passive.feature_names) = (6, Vec::new());
    report.deployment.d_passive = 6;
    let baselines = &mut report.audits[0].baselines;
    baselines.half.per_feature.clear();
    baselines.column_mean.per_feature.clear();
    report
}

/// The least squares estimates of `y` (d × n) from `x` (p × n) with an intercept, fitted to the first `known` records.
fn regression(x: &DMatrix<f64>, y: &DMatrix<f64>, known: usize) -> DMatrix<f64> {
    let x = x.clone().insert_row(0, 1.0);
    let fitted = x.columns(0, known);
    let gram = fitted * fitted.transpose() + DMatrix::identity(x.nrows(), x.nrows()) * 1e-9;
    let weights = y.columns(0, known) * fitted.transpose() * gram.try_inverse().unwrap();
    (weights * x).map(|v| v.clamp(0.0, 1.0))
}

/// Customers with a debt ratio, an income, an employer (three categories) and how often they were 90 days late, which a score of default
/// depends on: by the last most. Ranges are declared `wide` times as wide as need be.
fn credit(wide: f64, rng: &mut ChaCha20Rng) -> Audit {
    let n = 4000;
    let category = |name: &str| FeatureSpec {
        group: Some("employer".into()),
        kind: FeatureKind::Binary,
        ..FeatureSpec::numeric(name, 0.0, 1.0)
    };
    let specs = [
        FeatureSpec::numeric("income", 0.0, 500_000.0 * wide),
        category("public"),
        category("private"),
        category("own"),
        FeatureSpec::numeric("debt_ratio", 0.0, 1.5 * wide),
        FeatureSpec {
            kind: FeatureKind::Ordinal,
            ..FeatureSpec::numeric("late_90d", 0.0, 20.0 * wide)
        },
    ];
    let (mut raw, mut active, mut score) =
        (DMatrix::zeros(6, n), DMatrix::zeros(2, n), DMatrix::zeros(1, n));
    for j in 0..n {
        let mut normal = || -> f64 { StandardNormal.sample(rng) };
        let (age, balance) = (normal(), normal());
        let income = (10.3 + 0.7 * normal()).exp().min(500_000.0);
        let debt = (0.43 + 0.24 * normal()).clamp(0.0, 1.5);
        let employer = [0, 0, 0, 1, 1, 1, 1, 1, 1, 2][rng.random_range(0..10)];
        // Poisson of mean 0.3: the probabilities of at most 0, 1, 2 and 3.
        let u: f64 = rng.random();
        let late = [0.7408, 0.9631, 0.9964, 0.9997].iter().filter(|p| u > **p).count() as f64;
        active.column_mut(j).copy_from_slice(&[age, balance]);
        raw.column_mut(j).copy_from_slice(&[income, 0.0, 0.0, 0.0, debt, late]);
        raw[(1 + employer, j)] = 1.0;
        let own = f64::from(u8::from(employer == 2));
        score[(0, j)] =
            -3.0 + 1.2 * late + 2.5 * debt - 0.5 * (income / 3e4).ln() - 0.4 * age + 0.3 * own;
    }
    let truth = DMatrix::from_fn(6, n, |i, j| specs[i].normalise(raw[(i, j)]));
    let with = DMatrix::from_rows(
        &[active.row(0), active.row(1), score.row(0)].map(|row| row.into_owned()),
    );
    let known = 500;
    let audited = |m: DMatrix<f64>| m.columns(known, n - known).into_owned();
    let (attack, control) =
        (audited(regression(&with, &truth, known)), audited(regression(&active, &truth, known)));
    let truth = audited(truth);
    let of = |attribute| {
        ("insurer", AttributeFigures::of(attribute, &truth, &attack, &control).rounded())
    };
    let mut audit = audit(attributes(&specs).iter().map(of), None);
    let mean = |e: &DMatrix<f64>| (e - &truth).norm_squared() / truth.len() as f64;
    let risk = audit.attacks[0].added_risk.as_mut().unwrap();
    let share = 1.0 - mean(&attack) / mean(&control);
    (risk.value, risk.low, risk.high) = (Some(share), Some(share - 0.003), Some(share + 0.003));
    audit
}

/// The mean over features hides the attribute that leaks: a threshold of 5 % is met by it and not by the attribute.
#[test]
fn in_the_credit_table_who_was_late_is_told_most() {
    let audit = credit(1.0, &mut ChaCha20Rng::seed_from_u64(3));
    let mean = audit.added_risk().unwrap().2;
    assert!(mean.high.unwrap() < 0.05, "{mean:?}");
    let found = worst(&[&audit], None).unwrap();
    assert_eq!(found.figures.attribute, "late_90d");
    assert!(found.risk.low.unwrap() > 0.3, "{:?}", found.risk);
    let event = found.figures.event.as_ref().unwrap();
    assert_eq!(event.event, Event::NotUsual { value: 0.0 });
    assert!(event.attack > 2.0 * event.control && event.named == 350, "{event:?}");
    let (named, right, without) = (event.named, event.attack, event.control);
    let mut report = reported(audit.clone());
    report.demand(Thresholds::new(Some(0.05), None).unwrap());
    report.check().unwrap();
    let text = render_summary(&report, 200, false);
    let second = text.lines().nth(1).unwrap();
    let says = format!(
        "`late_90d` is told most: of the {named} records that an insider would name for late_90d other than 0, {right:.0} have it \
         ({without:.0} without the scores)"
    );
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(second.contains("`late_90d`") && flat.contains(&says), "{text}");
    assert!(flat.contains("The threshold of 5.0 % is not met"), "{text}");
    assert!(not_met(&report).unwrap().contains("on late_90d"), "{}", not_met(&report).unwrap());
    assert!(render_html(&report).unwrap().contains("late_90d"));

    // Where a control names as many of them, the first line does not count.
    let mut as_many = audit.clone();
    for of in
        as_many.attacks[0].attributes.iter_mut().filter(|of| of.figures.attribute == "late_90d")
    {
        of.figures.event.as_mut().into_iter().for_each(|event| event.control = event.attack);
    }
    let text = render_summary(&reported(as_many), 200, false);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains("`late_90d` is told most: the scores remove") && !flat.contains("would name"),
        "{text}"
    );

    // Ranges declared ten times as wide change no figure.
    let wide = credit(10.0, &mut ChaCha20Rng::seed_from_u64(3));
    let of = |audit: &Audit| {
        audit.attacks[0].attributes.iter().map(|a| a.figures.removed).collect::<Vec<_>>()
    };
    for (narrow, wide) in of(&audit).into_iter().zip(of(&wide)) {
        let (narrow, wide) = (narrow.unwrap(), wide.unwrap());
        // Three digits of the ratio are told, and a regression with a bit of ridge is not quite free of units.
        assert!((narrow.value.unwrap() - wide.value.unwrap()).abs() < 2e-3, "{narrow:?} {wide:?}");
    }
}

#[test]
fn what_a_half_has_no_records_of_chooses_nothing() {
    let mut lone = halves("lone", 0.9, 0.9);
    lone.removed = lone.removed.map(|_| ErrorReduction {
        value: Some(0.2),
        low: Some(-0.5),
        high: Some(0.9),
        halves: None,
    });
    let audit = audit([("insurer", lone), ("insurer", halves("a", 0.3, 0.4))], None);
    assert_eq!(worst(&[&audit], None).unwrap().figures.attribute, "a");
    let none = Audit { attacks: Vec::new(), ..audit };
    assert_eq!(worst(&[&none], None), None);
}
