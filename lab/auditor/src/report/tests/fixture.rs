//! A report with every kind of content, its figures of the size the satellite data give.

use serde_json::json;
use vfl_core::metrics::{
    AttributeFigures, ControlledFigure, ErrorReduction, Event, EventFigures, HalfErrorReduction,
    METRICS, Metric, RecordsWithin, ToleranceShare,
};

use crate::report::{
    AddedRisk, AttackResult, AttributeResult, Audit, Baselines, DataFacts, DefenseKnowledge,
    Deployment, Errors, Generated, Halves, MetricFacts, MetricFigure, Outcome, Party, PartyError,
    PartyFigure, Policy, Refused, Report, Role, ScoringFacts, ScoringMode, Status, Surface,
    SurfaceKind, Sweep, SweepError, SweepPoint, ThreatModel, Thresholds, TrainingFacts, Utility,
};

/// MSE by d, from 1: least_squares, clamped_least_squares, half_star, clamped_half_star.
const CURVES: [[f64; 4]; 14] = [
    [6.74e-31, 6.72e-31, 6.74e-31, 6.72e-31],
    [8.77e-31, 8.74e-31, 8.73e-31, 8.7e-31],
    [1.63e-30, 1.63e-30, 1.64e-30, 1.64e-30],
    [5.11e-30, 5.11e-30, 5.18e-30, 5.17e-30],
    [3.84e-27, 3.83e-27, 3.84e-27, 3.83e-27],
    [0.0374, 0.0318, 0.00355, 0.00353],
    [0.0626, 0.0513, 0.00613, 0.0061],
    [0.0821, 0.0662, 0.00803, 0.008],
    [0.0938, 0.0749, 0.0093, 0.00926],
    [0.102, 0.0801, 0.0102, 0.0101],
    [0.107, 0.0833, 0.0108, 0.0108],
    [0.114, 0.0869, 0.0115, 0.0115],
    [0.116, 0.0884, 0.0119, 0.0118],
    [0.118, 0.0899, 0.0122, 0.0122],
];
const ATTACKS: [&str; 4] =
    ["least_squares", "clamped_least_squares", "half_star", "clamped_half_star"];

/// Errors by feature that average to `mse`.
pub(super) fn errors(mse: f64, d: usize) -> Errors {
    let weight = |j: usize| 0.55 + 0.9 * j as f64 / (d.max(2) - 1) as f64;
    let total: f64 = (0..d).map(weight).sum();
    Errors::new(mse, (0..d).map(|j| mse * weight(j) * d as f64 / total).collect())
}

pub(super) fn baselines(d: usize) -> Baselines {
    Baselines { half: errors(0.0436, d), column_mean: errors(0.0264, d) }
}

/// The policy of a text.
pub(super) fn policy(text: &str) -> Policy {
    Policy::from(&text.parse::<vfl_defense::Policy>().unwrap())
}

/// The demo: one passive party, fewer features than classes, four defenses.
pub(super) fn report() -> Report {
    let d = 5;
    let k = 6;
    let names = ["nir_1", "nir_2", "red_1", "red_2", "green_1"].map(String::from).to_vec();
    let deployment = Deployment {
        parties: vec![
            Party::new("coordinator", Role::Coordinator, 0),
            Party::new("bank", Role::Active, 31),
            Party::with_feature_names("insurer", Role::Passive, names),
        ],
        model_version: "m-4f2a91c07d3e".into(),
        n_active: 31,
        d_passive: d,
        classes: k,
        training: TrainingFacts { epochs: 60, steps: 2640, imported: false, private: false },
        private_release: false,
        test_accuracy: Some(0.8305),
    };
    let data = DataFacts {
        name: "satellite".into(),
        variant: Some("all".into()),
        columns: Some(36),
        source: "UCI Machine Learning Repository, Statlog (Landsat Satellite)".into(),
        records: 6435,
        training: 3991,
        validation: 444,
        test: 2000,
        features: 36,
        classes: k,
        sha256: "9b1c6d0fd0b4c4d8a7f3a5be1a2f3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".into(),
    };
    let config = json!({"dataset": "satellite", "window": {"k0": 0, "d": d}, "learning_rate": 0.01, "batch": 64});
    let mut report = Report::new(
        "Audit of a vertically federated model on satellite",
        "cloison demo --dataset satellite --seed 7 --out out",
        7,
        Generated::new(config),
        data,
        deployment,
    );
    report.surfaces = Surface::list(&[
        SurfaceKind::ClassLabel,
        SurfaceKind::RoundedScore,
        SurfaceKind::ScoreVector,
        SurfaceKind::ParametersTrue,
    ]);

    let utility = |accuracy: f64, kl: Option<f64>, kept: f64| Utility {
        accuracy: Some(accuracy),
        accuracy_change: Some(accuracy - 0.8305),
        mean_kl_nats: kl,
        total_variation: kl.map(|x| x.sqrt() / 2.0),
        arg_max_kept: Some(kept),
        mean_change: None,
        bits: None,
    };
    report.audits = vec![
        audit(
            policy("none"),
            d,
            utility(0.8305, Some(0.0), 1.0),
            [3.84e-27, 3.83e-27, 3.84e-27, 3.83e-27],
        ),
        audit(
            policy("rounding (decimals = 3)"),
            d,
            utility(0.8305, Some(1.37e-4), 0.9995),
            [0.021, 0.0127, 0.00912, 0.00904],
        ),
        audit(
            policy("rounding (decimals = 1)"),
            d,
            utility(0.828, Some(0.0223), 0.9855),
            [3.41, 0.166, 0.0352, 0.0317],
        ),
        audit(policy("class_label"), d, utility(0.8305, None, 1.0), [1240.0, 0.311, 0.208, 0.146]),
    ];
    if let Some(last) = report.audits.last_mut() {
        last.attacks.push(AttackResult::not_run(
            "gradient_inversion",
            Refused::Unsuitable,
            "it needs scores, and a label has none",
        ));
        last.remarks.push("Scores of 0 are replaced by 1e-3 before the logarithm.".into());
    }
    report.sweep = Some(sweep(&policy("none")));
    report
        .notes
        .push("Features are normalised by the minimum and maximum over all records.".into());
    report
}

/// Figures of an attribute of which this share is removed, in both halves of the records.
pub(super) fn attribute(
    name: &str,
    column: usize,
    (value, low, high): (f64, f64, f64),
) -> AttributeFigures {
    let half = HalfErrorReduction { value, deviation: (high - low) / 2.77 };
    let removed = Some(ErrorReduction {
        value: Some(value),
        low: Some(low),
        high: Some(high),
        halves: Some([half, half]),
    });
    let both = |attack, control| Some(ControlledFigure { attack, control });
    AttributeFigures {
        attribute: name.into(),
        columns: vec![column],
        error: both(0.8 * (1.0 - value), 0.8),
        removed,
        removed_ranks: removed,
        event: Some(EventFigures {
            event: Event::TopDecile { from: 87.5 },
            named: 200,
            having: 203,
            attack: 41.0 + 186.0 * value.max(0.0),
            control: 41.0,
        }),
        auc: None,
        top_category: None,
        within: Some(ToleranceShare {
            tolerance: 4.5,
            share: ControlledFigure { attack: 0.5, control: 0.25 },
        }),
        exact: both(0.01, 0.0),
        percentile_1: both(0.001, 0.01),
        percentile_5: both(0.01, 0.1),
    }
}

/// Figures of the demo's attributes: of the first one this share is removed, of the others a quarter of it.
pub(super) fn attributes(risk: (f64, f64, f64)) -> Vec<AttributeResult> {
    let (value, low, high) = risk;
    let of = |(column, name): (usize, &str)| {
        let share = if column == 0 {
            risk
        } else {
            (value / 4.0, value / 4.0 - (value - low), value / 4.0 + high - value)
        };
        AttributeResult { party: "insurer".into(), figures: attribute(name, column, share) }
    };
    ["nir_1", "nir_2", "red_1", "red_2", "green_1"].into_iter().enumerate().map(of).collect()
}

/// The demo with an informed adversary beside the others, who knows 200 records: the scores behind `none` add 71 % to what it can
/// estimate without, those behind labels 6.3 %.
pub(super) fn informed() -> Report {
    let mut report = report();
    let control = 0.005;
    // The equations leave some features open, so that who knows more finds more.
    for attack in &mut report.audits[0].attacks {
        if let Outcome::Ran { status, errors: found, .. } = &mut attack.outcome
            && *status != Status::Guess
        {
            *found = errors(0.00613, 5);
        }
    }
    report.metrics = vec![MetricFacts::of(&RecordsWithin)];
    let found = [(0.71, 0.69, 0.74), (0.36, 0.31, 0.40), (0.24, 0.19, 0.28), (0.063, 0.034, 0.093)];
    for (i, (value, low, high)) in found.into_iter().enumerate() {
        let mut audit = report.audits[i].clone();
        audit.threat_model.defense = DefenseKnowledge::Known;
        audit.threat_model.known_records = 200;
        let with_share = |mut errors: Errors, share| {
            let name = RecordsWithin.name().into();
            errors.metrics =
                vec![MetricFigure { name, value: Some(share), sigma: None, per_party: Vec::new() }];
            errors
        };
        let risk = |value, low, high| AddedRisk {
            control: "imputation".into(),
            control_mse: control,
            value: Some(value),
            low: Some(low),
            high: Some(high),
            halves: Some(Halves { first: value, second: value }),
        };
        let error = control * (1.0 - value);
        audit.attacks = vec![
            AttackResult::ran("imputation", Status::Guess, with_share(errors(control, 5), 0.12)),
            AttackResult::ran(
                "gaussian",
                Status::Unique,
                with_share(errors(error * 1.2, 5), 0.31 * value),
            )
            .with_added_risk(Some(risk(1.0 - 1.2 * error / control, low - 0.2, high - 0.1)))
            .with_attributes(attributes((0.9 * value, 0.9 * low, 0.9 * high))),
            AttackResult::ran(
                "posterior_mean",
                Status::Unique,
                with_share(errors(error, 5), 0.3 * value),
            )
            .with_added_risk(Some(risk(value, low, high)))
            .with_attributes(attributes((value, low, high))),
        ];
        report.audits.push(audit);
    }
    report.in_service = Some(policy("none"));
    report
}

fn audit(policy: Policy, d: usize, utility: Utility, mse: [f64; 4]) -> Audit {
    let threat_model = ThreatModel::white_box(DefenseKnowledge::Unknown);
    let mut audit = Audit::new(policy, threat_model, 2000, utility, baselines(d));
    for (name, mse) in [("random", 0.127), ("zero", 0.286), ("half", 0.0436)] {
        audit.attacks.push(AttackResult::ran(name, Status::Guess, errors(mse, d)));
    }
    for (name, mse) in ATTACKS.into_iter().zip(mse) {
        audit.attacks.push(AttackResult::ran(name, Status::Unique, errors(mse, d)));
    }
    audit
}

pub(super) fn sweep(policy: &Policy) -> Sweep {
    let points = CURVES.iter().enumerate().map(|(i, row)| SweepPoint {
        d: i + 1,
        half: 0.0436,
        column_mean: 0.0264,
        attacks: ATTACKS
            .iter()
            .zip(row)
            .map(|(name, mse)| SweepError { name: (*name).into(), mse: Some(*mse) })
            .collect(),
    });
    Sweep {
        policy: policy.clone(),
        threat_model: ThreatModel::white_box(DefenseKnowledge::Unknown),
        records: 2000,
        points: points.collect(),
    }
}

/// Two passive parties attacked together, more features than the scores determine, and names that mean harm.
pub(super) fn hostile() -> Report {
    const EVIL: &str = "<script>alert(1)</script>";
    let mut report = report();
    let (first, second) = (format!("tele\"com' {EVIL}"), "保険\u{202e}\x1b[31m & co".to_owned());
    report.title = format!("Title </title>{EVIL}");
    report.data.name = EVIL.into();
    report.data.variant = Some(EVIL.into());
    report.data.source = format!("{EVIL} https://evil.example/x");
    report.command = format!("demo {EVIL}");
    report.notes = vec![EVIL.into()];
    report.deployment.parties = vec![
        Party::new(EVIL, Role::Active, 29),
        Party::with_feature_names(
            &first,
            Role::Passive,
            vec![EVIL.into(), "a\"b".into(), "c&d".into(), "d".into()],
        ),
        Party::with_feature_names(&second, Role::Passive, vec!["x".into(), "y".into(), "z".into()]),
    ];
    report.deployment.n_active = 29;
    report.deployment.d_passive = 7;
    let parted = |mse: f64| {
        let part = |party: &String, mse: f64| PartyError { party: party.clone(), mse, sigma: None };
        errors(mse, 7).with_parties(vec![part(&first, mse * 0.8), part(&second, mse * 1.27)])
    };
    let threat_model = ThreatModel {
        target: vec![first.clone(), second.clone()],
        ..ThreatModel::white_box(DefenseKnowledge::Known)
    };
    let baselines = Baselines { half: parted(0.0436), column_mean: parted(0.0264) };
    let policy = Policy::new(EVIL).with("x", EVIL);
    let mut audit = Audit::new(policy, threat_model, 2000, Utility::default(), baselines);
    report.metrics = METRICS.iter().take(2).map(|m| MetricFacts::of(*m)).collect();
    report.metrics[0].title = EVIL.into();
    report.metrics[0].meaning = EVIL.into();
    let names: Vec<String> = report.metrics.iter().map(|m| m.name.clone()).collect();
    let figure = |name: &String, value, sigma| MetricFigure {
        name: name.clone(),
        value,
        sigma,
        per_party: value
            .map(|value| PartyFigure { party: first.clone(), value, sigma })
            .into_iter()
            .collect(),
    };
    let mut measured = parted(0.00613);
    measured.metrics = vec![figure(&names[0], Some(0.734), None), figure(&names[1], None, None)];
    let status = Status::LeastNorm { rank: 5, unknowns: 7 };
    audit.attacks = vec![
        AttackResult::ran("half", Status::Guess, parted(0.0436)),
        AttackResult::ran(EVIL, status, parted(0.0626)),
        AttackResult::ran("half_star", status, measured)
            .with_added_risk(Some(AddedRisk {
                control: EVIL.into(),
                control_mse: 0.01,
                value: Some(0.387),
                low: None,
                high: None,
                halves: None,
            }))
            .with_attributes(vec![AttributeResult {
                party: first.clone(),
                figures: attribute(EVIL, 3, (0.4, 0.3, 0.5)),
            }])
            .with_certain(Some(7)),
        AttackResult::not_run("rcc2", Refused::Numerics, EVIL),
    ];
    audit.attacks.push(AttackResult::not_scored(EVIL, Status::Descent, EVIL));
    audit.remarks.push(EVIL.into());
    // The same with noise, which may take a figure below 0.
    let mut noised = audit.clone();
    let part = |party: &String| PartyError { party: party.clone(), mse: -0.001, sigma: Some(0.02) };
    let mut errors = errors(0.0123, 7).with_parties(vec![part(&first), part(&second)]);
    (errors.mse, errors.sigma, errors.per_feature_sigma) = (-0.001, Some(0.0123), vec![0.03; 7]);
    errors.metrics = vec![figure(&names[1], Some(-0.02), Some(0.05))];
    noised.baselines.half.sigma = Some(0.004);
    noised.attacks[1] = AttackResult::ran(EVIL, status, errors);
    report.audits = vec![audit, noised];
    let scoring = |party: &String, mode, rho| ScoringFacts {
        party: party.clone(),
        records: 2000,
        what: EVIL.into(),
        mode,
        rho_spent: rho,
        rho_left: rho,
        rho_total: rho,
    };
    report.scoring = vec![
        scoring(&first, ScoringMode::Noised, Some(0.08)),
        scoring(&second, ScoringMode::Trusted, None),
    ];
    if let Some(attack) =
        report.sweep.as_mut().and_then(|s| s.points.first_mut()?.attacks.first_mut())
    {
        attack.name = EVIL.into();
    }
    report.in_service = Some(Policy::new(EVIL).with("x", EVIL));
    report.demand(Thresholds::new(Some(0.1), Some(0.1)).unwrap());
    report
}
