use std::collections::HashMap;

use super::*;

fn attack_case(
    text: &str,
    names: &[impl AsRef<str>],
    settings: &Settings,
    seed: u64,
) -> Result<Vec<u8>, String> {
    answer_case(text, names, settings, seed).map(|answer| answer.content)
}

fn rows(value: &serde_json::Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Every case of the golden vectors, through the code of the command.
#[test]
fn all_golden_cases() {
    let mut cases = 0;
    for (file, text) in vfl_testing::golden_cases("attack_") {
        cases += 1;
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        let methods = [
            Method::LeastSquares,
            Method::ClampedLeastSquares,
            Method::HalfStar,
            Method::ClampedHalfStar,
            Method::Rcc2,
            Method::Rcc1,
        ];
        let out = attack_case(&text, &methods, &Settings::default(), 1).unwrap();
        let out: serde_json::Value = serde_json::from_slice(&out).unwrap();
        for attack in out["attacks"].as_array().unwrap() {
            let name = attack["name"].as_str().unwrap();
            assert_eq!(attack["rank"], case["expected"]["rank"], "{file} {name}");
            let want = rows(&case["expected"][name]);
            assert_eq!(attack["estimates"].as_array().unwrap().len(), want.len());
            for (at, (estimate, want)) in
                attack["estimates"].as_array().unwrap().iter().zip(want).enumerate()
            {
                let tolerance = match name {
                    "rcc1" => case["expected"]["rcc1_tol"][at].as_f64().unwrap(),
                    "rcc2" => 1e-8,
                    _ => 1e-9,
                };
                let got: Vec<f64> = serde_json::from_value(estimate["x"].clone()).unwrap();
                let scale = want.iter().fold(1.0f64, |m, v| m.max(v.abs()));
                for (g, w) in got.iter().zip(&want) {
                    assert!((g - w).abs() <= tolerance * scale, "{file} {name}: {g} {w}");
                }
            }
        }
    }
    assert!(cases >= 26, "{cases} cases");
}

/// Every informed case, through the code of the command.
#[test]
fn all_golden_cases_with_moments() {
    let methods = [Method::Imputation, Method::ConditionalMean, Method::Gaussian];
    let mut cases = 0;
    for (file, text) in vfl_testing::golden_cases("informed_") {
        cases += 1;
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        let out = attack_case(&text, &methods, &Settings::default(), 1).unwrap();
        let out: serde_json::Value = serde_json::from_slice(&out).unwrap();
        for (method, attack) in methods.iter().zip(out["attacks"].as_array().unwrap()) {
            let tolerance = match method.as_str() {
                "imputation" => 1e-9,
                "conditional_mean" => 1e-8,
                _ => case["expected"]["gaussian_tol"].as_f64().unwrap(),
            };
            let want = rows(&case["expected"][method.as_str()]);
            let truth = case["truth"].as_array().unwrap();
            let (mut error, mut values) = (0.0, 0.0);
            for ((estimate, want), truth) in
                attack["estimates"].as_array().unwrap().iter().zip(want).zip(truth)
            {
                let got: Vec<f64> = serde_json::from_value(estimate["x"].clone()).unwrap();
                let truth: Vec<f64> = serde_json::from_value(truth["x_pas"].clone()).unwrap();
                let scale = want.iter().fold(1.0f64, |m, v| m.max(v.abs()));
                for ((g, w), t) in got.iter().zip(&want).zip(&truth) {
                    assert!((g - w).abs() <= tolerance * scale, "{file} {method}: {g} {w}");
                    error += (g - t) * (g - t);
                    values += 1.0;
                }
            }
            let mse = case["expected"]["mse"][method.as_str()].as_f64().unwrap();
            assert!(
                (error / values - mse).abs() <= 1e-6 * (1e-6 + mse),
                "{file} {method}: {} {mse}",
                error / values
            );
        }
    }
    assert!(cases >= 24, "{cases} cases");
}

fn small() -> serde_json::Value {
    serde_json::json!({
        "schema": 1, "kind": "attack", "w_act": [[0.5], [-0.5]], "w_pas": [[1.0, 2.0], [0.0, 1.0]], "b": [0.1, 0.2],
        "records": [{"id": "r1", "y_act": [0.3], "c": [0.4, 0.6]}]
    })
}

fn run(case: &serde_json::Value) -> Result<Vec<u8>, String> {
    attack_case(&case.to_string(), &[Method::HalfStar], &Settings::default(), 1)
}

#[test]
fn bad_cases_are_refused_by_name() {
    assert!(run(&small()).is_ok());
    let mut table: HashMap<&str, serde_json::Value> = HashMap::new();
    let mut with = |names: &'static str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut case = small();
        change(&mut case);
        table.insert(names, case);
    };
    with("schema 1", &|c| c["schema"] = 2.into());
    with("kind", &|c| c["kind"] = "assess".into());
    with("nonsense", &|c| c["nonsense"] = 1.into());
    with("`w_act` has 1 rows", &|c| c["w_act"] = serde_json::json!([[0.5]]));
    with("`w_pas` has no column", &|c| c["w_pas"] = serde_json::json!([[], []]));
    with("row 1 of `w_pas`", &|c| c["w_pas"] = serde_json::json!([[1.0, 2.0], [0.0]]));
    with("at least 2 classes", &|c| c["b"] = serde_json::json!([0.1]));
    with("`records` is empty", &|c| c["records"] = serde_json::json!([]));
    with("`y_act` of record 0", &|c| c["records"][0]["y_act"] = serde_json::json!([]));
    with("`c` of record 0", &|c| c["records"][0]["c"] = serde_json::json!([1.0]));
    with("twice", &|c| {
        let record = c["records"][0].clone();
        c["records"].as_array_mut().unwrap().push(record);
    });
    for (names, case) in table {
        let error = run(&case).unwrap_err();
        assert!(error.contains(names), "{names}: {error}");
    }
    assert!(attack_case("{\"schema\":1", &[Method::Half], &Settings::default(), 1).is_err());
    let huge = small().to_string().replace("0.3", "1e999");
    assert!(attack_case(&huge, &[Method::Half], &Settings::default(), 1).is_err());
}

fn golden_cases(prefix: &str) -> Vec<(String, String, serde_json::Value)> {
    let cases = vfl_testing::golden_cases(prefix).into_iter();
    cases.map(|(name, text)| (name, text.clone(), serde_json::from_str(&text).unwrap())).collect()
}

/// No attack named.
const NONE: [&str; 0] = [];

fn answer(text: &str, names: &[&str], settings: &Settings) -> serde_json::Value {
    serde_json::from_slice(&attack_case(text, names, settings, 1).unwrap()).unwrap()
}

#[test]
fn all_golden_cases_of_one_feature() {
    let cases = golden_cases("one_feature_");
    assert!(cases.len() >= 15, "{} cases", cases.len());
    for (path, text, case) in cases {
        for names in [&[][..], &["one_feature"]] {
            let got: Vec<Option<f64>> =
                serde_json::from_value(answer(&text, names, &Settings::default())["x_hat"].clone())
                    .unwrap();
            let want: Vec<Option<f64>> =
                serde_json::from_value(case["expected"]["x_hat"].clone()).unwrap();
            assert_eq!(got.len(), want.len(), "{path}");
            for pair in got.iter().zip(&want) {
                match pair {
                    (Some(g), Some(w)) => assert!((g - w).abs() <= 1e-12, "{path}: {g} {w}"),
                    (g, w) => assert_eq!(g, w, "{path}"),
                }
            }
        }
    }
}

#[test]
fn all_golden_cases_of_shadow_models() {
    let cases = golden_cases("shadow_model_");
    assert!(cases.len() >= 4, "{} cases", cases.len());
    for (path, text, case) in cases {
        let got = answer(&text, &NONE, &Settings::default());
        let w = rows(&got["w_pas"]);
        let (n, d) = (case["auxiliary"].as_array().unwrap().len(), w[0].len());
        assert_eq!(
            (got["rank"].as_u64(), got["unknowns"].as_u64()),
            (Some(n.min(d) as u64), Some(d as u64)),
            "{path}"
        );
        let differences: Vec<Vec<f64>> = w
            .windows(2)
            .map(|pair| pair[0].iter().zip(&pair[1]).map(|(a, b)| b - a).collect())
            .collect();
        let want = rows(&case["expected"]["J_w_pas"]);
        assert_eq!(differences.len(), want.len(), "{path}");
        let scale = want.iter().flatten().fold(1.0f64, |m, v| m.max(v.abs()));
        for (got, want) in differences.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() <= 1e-9 * scale, "{path}: {got} {want}");
        }
    }
}

#[test]
fn undefined_estimates_are_null() {
    let case = |case: &str, v: &[f64]| {
        let text = serde_json::json!({"schema": 1, "kind": "one_feature", "case": case, "v": v})
            .to_string();
        answer(&text, &NONE, &Settings::default())["x_hat"].clone()
    };
    for name in ["2", "3", "+-", "-+"] {
        assert_eq!(case(name, &[0.7, 0.7]), serde_json::json!([null, null]), "{name}");
    }
    assert_eq!(case("1", &[0.7, 0.7]), serde_json::json!([1.0, 1.0]));
    assert_eq!(case("1", &[0.0]), serde_json::json!([null]));
}

fn auxiliary() -> serde_json::Value {
    serde_json::json!({
        "schema": 1, "kind": "shadow_model", "w_act": [[0.5], [-0.5]], "b": [0.1, 0.2],
        "auxiliary": [
            {"id": "r1", "y_act": [0.3], "x_pas": [0.5, 0.25], "c": [0.4, 0.6]},
            {"id": "r2", "y_act": [0.1], "x_pas": [0.0, 1.0], "c": [0.9, 0.1]},
            {"id": "r3", "y_act": [0.9], "x_pas": [0.75, 0.5], "c": [0.5, 0.5]}
        ]
    })
}

/// By hand: ln(c₁/c₀) − J W_act y − J b = (a₁ x₁ + a₂ x₂) of each record.
#[test]
fn the_settings_of_a_shadow_model_are_read() {
    let mut case = auxiliary();
    case["auxiliary"].as_array_mut().unwrap().pop();
    let right: Vec<f64> =
        [(0.3, 1.5f64), (0.1, 1.0 / 9.0)].iter().map(|(y, odds)| odds.ln() + y - 0.1).collect();
    let a2 = right[1];
    let a1 = (right[0] - 0.25 * a2) / 0.5;
    for fit in ["least_squares", "gradient"] {
        let settings = Settings::read([("shadow_fit", fit)]).unwrap();
        let got = answer(&case.to_string(), &["shadow_model"], &settings);
        let w = rows(&got["w_pas"]);
        assert!(
            (w[1][0] - w[0][0] - a1).abs() < 1e-8 && (w[1][1] - w[0][1] - a2).abs() < 1e-8,
            "{fit}: {w:?}"
        );
        assert_eq!(got["converged"].as_bool(), (fit == "gradient").then_some(true));
        assert!(got.get("b_shift").is_none());
    }
    let settings = Settings::read([("shadow_bias", "unknown")]).unwrap();
    let mut shifted = auxiliary();
    let known = answer(&shifted.to_string(), &NONE, &settings);
    assert_eq!((known["rank"].as_u64(), known["unknowns"].as_u64()), (Some(3), Some(3)));
    // Another guess at the bias: the same weights, and the shift makes up for it.
    shifted["b"] = serde_json::json!([0.1, 1.2]);
    let other = answer(&shifted.to_string(), &NONE, &settings);
    let shift = |v: &serde_json::Value| {
        v["b_shift"][1].as_f64().unwrap() - v["b_shift"][0].as_f64().unwrap()
    };
    assert!((shift(&known) - shift(&other) - 1.0).abs() < 1e-9);
    for (a, b) in rows(&known["w_pas"]).iter().flatten().zip(rows(&other["w_pas"]).iter().flatten())
    {
        assert!((a - b).abs() < 1e-9);
    }
    for (key, value) in [("shadow_fit", "adam"), ("shadow_bias", "0"), ("one_feature_case", "4")] {
        let error = Settings::read([(key, value)]).unwrap_err().to_string();
        assert!(error.contains(key) && error.contains(value), "{error}");
    }
}

/// One change to a case that is right, and what the refusal names.
type Change = (&'static str, &'static str, fn(&mut serde_json::Value));

#[test]
fn bad_cases_of_the_other_kinds_are_refused_by_name() {
    let feature =
        serde_json::json!({"schema": 1, "kind": "one_feature", "case": "2", "v": [0.1, 0.2]});
    let changes: [Change; 15] = [
        ("one", "`v` is empty", |c| c["v"] = serde_json::json!([])),
        ("one", "expected f64 at line 1", |c| c["v"] = serde_json::json!([null])),
        ("one", "\"4\"; there are: 1, 2, 3, +-, -+", |c| c["case"] = "4".into()),
        ("one", "nonsense", |c| c["nonsense"] = 1.into()),
        ("one", "w_act", |c| c["w_act"] = serde_json::json!([])),
        ("one", "missing field `v`", |c| drop(c.as_object_mut().unwrap().remove("v"))),
        ("one", "missing field `kind`", |c| drop(c.as_object_mut().unwrap().remove("kind"))),
        ("shadow", "`auxiliary` is empty", |c| c["auxiliary"] = serde_json::json!([])),
        ("shadow", "`x_pas` of record 0 is empty", |c| {
            c["auxiliary"][0]["x_pas"] = serde_json::json!([])
        }),
        ("shadow", "`x_pas` of record 1", |c| {
            c["auxiliary"][1]["x_pas"] = serde_json::json!([0.5])
        }),
        ("shadow", "`y_act` of record 2", |c| c["auxiliary"][2]["y_act"] = serde_json::json!([])),
        ("shadow", "`c` of record 0", |c| c["auxiliary"][0]["c"] = serde_json::json!([1.0])),
        ("shadow", "at least 2 classes", |c| c["b"] = serde_json::json!([0.1])),
        ("shadow", "w_pas", |c| c["w_pas"] = serde_json::json!([[0.5], [0.5]])),
        ("shadow", "label", |c| c["auxiliary"][0]["label"] = 1.into()),
    ];
    for (of, names, change) in changes {
        let mut case = if of == "one" { feature.clone() } else { auxiliary() };
        assert!(attack_case(&case.to_string(), &NONE, &Settings::default(), 1).is_ok());
        change(&mut case);
        let error = attack_case(&case.to_string(), &NONE, &Settings::default(), 1).unwrap_err();
        assert!(error.contains(names), "{names}: {error}");
    }
    // A case file holds private values; a complaint about one does not repeat it.
    for value in [serde_json::json!("0.7316123"), serde_json::json!(0.7316123)] {
        let mut case = auxiliary();
        case["auxiliary"][0]["x_pas"] =
            if value.is_string() { serde_json::json!([value]) } else { value };
        let error = attack_case(&case.to_string(), &NONE, &Settings::default(), 1).unwrap_err();
        assert!(error.contains("expected") && !error.contains("7316"), "{error}");
    }
    // What is for scoring is not read.
    for mut case in [feature, auxiliary()] {
        let without = attack_case(&case.to_string(), &NONE, &Settings::default(), 1).unwrap();
        (case["truth"], case["expected"]) =
            (serde_json::json!([1]), serde_json::json!({"x_hat": "?"}));
        assert_eq!(
            attack_case(&case.to_string(), &NONE, &Settings::default(), 1).unwrap(),
            without
        );
    }
}

#[test]
fn every_kind_says_which_attacks_it_takes() {
    let refusal = |case: &serde_json::Value, names: &[&str]| {
        attack_case(&case.to_string(), names, &Settings::default(), 1).unwrap_err()
    };
    let error = refusal(&small(), &NONE);
    assert!(error.contains("--attack") && error.contains("half_star"), "{error}");
    let error = refusal(&small(), &["half", "shadow_model"]);
    assert!(error.contains("shadow_model") && error.contains("`auxiliary`"), "{error}");
    assert!(refusal(&small(), &["rcc9"]).contains("\"rcc9\""));
    assert!(
        refusal(&small(), &["one_feature"]).contains("single passive feature, and there are 2")
    );
    for names in [&["half_star"][..], &["shadow_model", "half"], &["one_feature"]] {
        assert!(refusal(&auxiliary(), names).contains("has one method, shadow_model"));
    }
    let mut unknown = small();
    unknown["kind"] = "assess".into();
    assert!(refusal(&unknown, &["half"]).contains("one of: attack, one_feature, shadow_model"));
}

/// One passive feature and two records, the second at its end: a view's `one_feature` finds both.
#[test]
fn one_feature_is_an_attack_on_records_too() {
    let score = |x: f64| 1.0 / (1.0 + (3.0 * x).exp());
    let record = |id: &str, x: f64| serde_json::json!({"id": id, "y_act": [], "c": [score(x), 1.0 - score(x)]});
    let case = serde_json::json!({
        "schema": 1, "kind": "attack", "w_act": [[], []], "w_pas": [[0.0], [9.0]], "b": [0.0, 0.0],
        "records": [record("r1", 0.4), record("r2", 1.0)]
    });
    let got = answer(&case.to_string(), &["one_feature"], &Settings::default());
    let attack = &got["attacks"][0];
    assert_eq!(
        (attack["name"].as_str(), attack["status"].as_str()),
        (Some("one_feature"), Some("scaled"))
    );
    for (at, x) in [0.4, 1.0].iter().enumerate() {
        let found = attack["estimates"][at]["x"][0].as_f64().unwrap();
        assert!((found - x).abs() < 1e-12, "{found}");
    }
}

/// The help names what the code takes, as it comes from the same lists.
#[test]
fn help_names_all_attacks_and_settings() {
    let help = after_help();
    for name in Method::on_one_release()
        .map(Method::as_str)
        .chain(Settings::all().into_iter().map(|s| s.key()))
    {
        assert!(help.contains(name), "{name}");
    }
}

/// The truth in the file has no way into the estimates.
#[test]
fn estimates_do_not_change_when_the_truth_does() {
    // All attacks but the one for a single feature, of which there are two here, and the one that is made for one policy.
    let runs = |m: &Method| ![Method::OneFeature, Method::ShadowPurifier].contains(m);
    let methods: Vec<Method> = Method::on_one_release().filter(runs).collect();
    let run = |case: &serde_json::Value| -> serde_json::Value {
        serde_json::from_slice(
            &attack_case(&case.to_string(), &methods, &Settings::default(), 1).unwrap(),
        )
        .unwrap()
    };
    // What is said of the estimates is taken out, the estimates are compared.
    let unscored = |mut output: serde_json::Value| {
        output.as_object_mut().unwrap().remove("active_correlation");
        for attack in output["attacks"].as_array_mut().unwrap() {
            assert!(attack.as_object_mut().unwrap().remove("errors").is_some());
        }
        output
    };
    let mut case = small();
    let without = run(&case);
    assert!(without["attacks"][0]["errors"].is_null());
    for x in [0.0, 0.7] {
        case["truth"] = serde_json::json!([{"id": "r1", "x_pas": [x, x]}]);
        case["expected"] = serde_json::json!({"half_star": [[x, x]]});
        assert_eq!(unscored(run(&case)), without);
    }
    // Those with moments as well.
    let run = |case: &serde_json::Value| {
        // Those that need records whole are not there.
        let moments =
            |m: &Method| m.build(&Settings::default()).needs().prior == vfl_attack::Need::Yes;
        let methods: Vec<Method> = Method::informed().filter(moments).collect();
        serde_json::from_slice(
            &attack_case(&case.to_string(), &methods, &Settings::default(), 1).unwrap(),
        )
        .unwrap()
    };
    case["prior"] =
        serde_json::json!({"mean": [0.4, 0.6], "covariance": [[0.04, 0.01], [0.01, 0.05]]});
    let first = run(&case);
    case["truth"] = serde_json::json!([{"id": "r1", "x_pas": [0.1, 0.2]}]);
    assert_eq!(unscored(run(&case)), unscored(first));
}

/// Half of the moments, moments of other features, and evidence that is none.
#[test]
fn bad_moments_are_refused_by_name() {
    let with = |prior: serde_json::Value, settings: &[(&str, &str)]| {
        let mut case = small();
        case["prior"] = prior;
        let settings = Settings::read(settings.iter().copied()).unwrap();
        attack_case(&case.to_string(), &[Method::Gaussian], &settings, 1).unwrap_err()
    };
    let covariance = serde_json::json!([[0.04, 0.01], [0.01, 0.05]]);
    let mean = serde_json::json!([0.4, 0.6]);
    let told = with(serde_json::json!({"mean": [0.4], "covariance": covariance}), &[]);
    assert_eq!(told, "`prior.mean` has 1 entries, expected 2");
    let told = with(
        serde_json::json!({"mean": mean, "covariance": covariance, "active_mean": [0.1]}),
        &[],
    );
    assert!(told.contains("together, or none of them"), "{told}");
    let told =
        with(serde_json::json!({"mean": mean, "covariance": [[0.04, 0.9], [0.9, 0.05]]}), &[]);
    assert!(told.contains("not positive semidefinite"), "{told}");
    let mut case = small();
    case["prior"] = serde_json::Value::Null;
    let told =
        attack_case(&case.to_string(), &[Method::Gaussian], &Settings::default(), 1).unwrap_err();
    assert!(told.contains("moments of the passive features (`prior` in a case)"), "{told}");
    for none in ["random", "gaussian", "agnostic", "imputation"] {
        assert!(Settings::read([("evidence", none)]).is_err(), "{none}");
    }
    let least_squares = Settings::read([("evidence", "gradient_inversion")]).unwrap();
    case["prior"] = serde_json::json!({"mean": mean, "covariance": covariance});
    let told = attack_case(&case.to_string(), &[Method::Gaussian], &least_squares, 1);
    assert!(
        told.as_ref().is_ok() || told.as_ref().is_err_and(|e| e.contains("evidence")),
        "{told:?}"
    );
}

#[test]
fn names_and_settings_are_checked() {
    let error =
        "half".parse::<Method>().map(|_| ()).and("rcc9".parse::<Method>().map(|_| ())).unwrap_err();
    assert!(error.to_string().contains("rcc9") && error.to_string().contains("half_star"));
    assert!(Settings::read([("zero_floor", "0.005")]).is_ok());
    for (key, value) in [
        ("zero_floor", "0"),
        ("zero_floor", "0.6"),
        ("zero_floor", "NaN"),
        ("zero_floor", "x"),
        ("floor", "1"),
    ] {
        let error = Settings::read([(key, value)]).unwrap_err().to_string();
        assert!(error.contains("zero_floor"), "{error}");
    }
}

/// A case of records that were never asked about.
fn never_asked() -> serde_json::Value {
    let mut case = small();
    case["records"] =
        serde_json::json!([{"id": "r1", "y_act": [0.3]}, {"id": "r2", "y_act": [0.8], "c": null}]);
    case["training"] = serde_json::json!([
        {"id": "t1", "y_act": [0.1], "label": 0}, {"y_act": [0.9], "label": 1}, {"y_act": [0.4], "label": 1}
    ]);
    case["observed"] = serde_json::json!([{"id": "o1", "y_act": [0.2], "c": [0.7, 0.3]}]);
    case
}

#[test]
fn agnostic_needs_no_scores_of_the_records() {
    let case = never_asked();
    let got = answer(&case.to_string(), &["agnostic"], &Settings::default());
    let attack = &got["attacks"][0];
    assert_eq!(
        (attack["name"].as_str(), attack["model"]["converged"].as_bool()),
        (Some("agnostic"), Some(true))
    );
    assert_eq!(attack["model"]["mismatch"]["records"], 1);
    let c: Vec<f64> = serde_json::from_value(attack["estimates"][1]["c"].clone()).unwrap();
    assert!((c.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    // Scores of the records, where a case has them, are not looked at.
    let mut with = case.clone();
    with["records"][0]["c"] = serde_json::json!([0.9, 0.1]);
    assert_eq!(answer(&with.to_string(), &["agnostic"], &Settings::default()), got);
    // What was observed is; `observed` takes the first of it.
    let mut more = case.clone();
    more["observed"]
        .as_array_mut()
        .unwrap()
        .push(serde_json::json!({"y_act": [0.9], "c": [0.6, 0.4]}));
    assert_ne!(answer(&more.to_string(), &["agnostic"], &Settings::default()), got);
    let first = Settings::read([("observed", "1")]).unwrap();
    assert_eq!(answer(&more.to_string(), &["agnostic"], &first), got);

    let refusal = |case: &serde_json::Value, names: &[&str]| {
        attack_case(&case.to_string(), names, &Settings::default(), 1).unwrap_err()
    };
    let error = refusal(&case, &["half_star"]);
    assert!(
        error.contains("record 0 of `records` has no scores `c`") && error.contains("agnostic"),
        "{error}"
    );
    assert!(refusal(&small(), &["agnostic"]).contains("`training`"));
    let changes: [Change; 4] = [
        ("agnostic", "`label` of record 1 of `training`", |c| c["training"][1]["label"] = 2.into()),
        ("agnostic", "`training`: `y_act` of record 2", |c| {
            c["training"][2]["y_act"] = serde_json::json!([])
        }),
        ("agnostic", "`observed`: `c` of record 0", |c| {
            c["observed"][0]["c"] = serde_json::json!([1.0])
        }),
        ("agnostic", "x_pas", |c| c["observed"][0]["x_pas"] = serde_json::json!([1.0])),
    ];
    for (attack, names, change) in changes {
        let mut case = never_asked();
        change(&mut case);
        let error = refusal(&case, &[attack]);
        assert!(error.contains(names), "{names}: {error}");
    }
}

/// Two records of softmax((−x) · W_n): the released weights are negated. One of them, known, settles it.
#[test]
fn undo_transform_says_what_it_undid() {
    let score = |x: [f64; 2]| {
        let z = 1.0 * x[0] + 1.5 * x[1];
        vec![1.0 / (1.0 + z.exp()), z.exp() / (1.0 + z.exp())]
    };
    let record = |id: &str, x: [f64; 2]| serde_json::json!({"id": id, "y_act": [], "c": score(x)});
    let mut case = serde_json::json!({
        "schema": 1, "kind": "attack", "w_act": [[], []], "w_pas": [[0.0, 0.0], [-1.0, -1.5]], "b": [0.0, 0.0],
        "records": [record("r1", [0.37, 0.91]), record("r2", [0.83, 0.12])]
    });
    case["auxiliary"] =
        serde_json::json!([{"y_act": [], "x_pas": [0.37, 0.91], "c": score([0.37, 0.91])}]);
    let found =
        answer_case(&case.to_string(), &["undo_transform"], &Settings::default(), 1).unwrap();
    assert!(found.remarks[0].starts_with("undo_transform: undone: negate"), "{:?}", found.remarks);
    let undone: serde_json::Value = serde_json::from_slice(&found.content).unwrap();
    assert!(
        undone["attacks"][0]["remarks"][0].as_str().unwrap().contains("2 of 2 records"),
        "{undone}"
    );
    case.as_object_mut().unwrap().remove("auxiliary");
    case["w_pas"] = serde_json::json!([[0.0, 0.0], [1.0, 1.5]]);
    let direct = answer(&case.to_string(), &["clamped_half_star"], &Settings::default());
    for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let x =
            |from: &serde_json::Value| from["attacks"][0]["estimates"][a]["x"][b].as_f64().unwrap();
        assert!((x(&undone) - x(&direct)).abs() < 1e-12);
    }
}

/// Cases whose `expected.runs` name an attack, its settings, its estimates and what is said of them
/// (`scripts/numpy/network_cases.py`).
fn check_runs(prefix: &str) -> Vec<String> {
    let close = |got: &serde_json::Value, want: &serde_json::Value, tolerance: f64, what: &str| {
        let (got, want) = (got.as_f64().unwrap_or(f64::NAN), want.as_f64().unwrap());
        assert!((got - want).abs() <= tolerance * want.abs().max(1.0), "{what}: {got:e} {want:e}");
    };
    let mut ran = Vec::new();
    for (file, text, case) in golden_cases(prefix) {
        for run in case["expected"]["runs"].as_array().unwrap() {
            let attack = run["attack"].as_str().unwrap();
            let what = format!("{file}, {attack} {}", run["settings"]);
            let pairs = run["settings"].as_object().unwrap().iter();
            let settings =
                Settings::read(pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap())))
                    .unwrap();
            let got = answer(&text, &[attack], &settings);
            let found = &got["attacks"][0];
            let tolerance = run["tolerance"].as_f64().unwrap();
            let (mut furthest, mut largest) = (0.0f64, 1.0f64);
            for (estimate, want) in
                found["estimates"].as_array().unwrap().iter().zip(rows(&run["x"]))
            {
                let x: Vec<f64> = serde_json::from_value(estimate["x"].clone()).unwrap();
                assert_eq!(x.len(), want.len(), "{what}");
                for (x, want) in x.iter().zip(&want) {
                    furthest = furthest.max((x - want).abs());
                    largest = largest.max(want.abs());
                }
            }
            println!("{what}: off by {furthest:e}");
            assert!(furthest <= tolerance * largest, "{what}: off by {furthest:e}");
            let scale = 10.0 * tolerance;
            close(&found["score_mismatch"], &run["score_mismatch"], scale, &what);
            close(&found["errors"]["mse"], &run["mse"], scale, &what);
            close(&found["errors"]["half"], &run["half"], 1e-12, &what);
            for (metric, want) in run["metrics"].as_object().unwrap() {
                close(
                    &found["errors"]["metrics"][metric],
                    want,
                    scale,
                    &format!("{what}: {metric}"),
                );
            }
            let correlations = case["expected"]["active_correlation"].as_array().unwrap();
            for (feature, want) in correlations.iter().enumerate() {
                close(&got["active_correlation"]["by_feature"][feature], want, 1e-12, &what);
            }
            ran.push(attack.to_owned());
        }
    }
    ran
}

#[test]
fn all_golden_cases_of_networks() {
    let ran = check_runs("network_");
    for (attack, runs) in [
        ("gradient_inversion", 40),
        ("half_star_layerwise", 7),
        ("conditional_mean", 5),
        ("gaussian", 3),
        ("imputation", 3),
        ("posterior_mean", 1),
    ] {
        assert_eq!(ran.iter().filter(|name| *name == attack).count(), runs, "{attack}");
    }
}

/// The point of half_star_layerwise where every layer determines what goes into it: the features themselves.
#[test]
fn layers_that_determine_their_inputs_are_turned_back_exactly() {
    let (_, text, _) = golden_cases("network_layerwise_exact").remove(0);
    let got = answer(&text, &["half_star_layerwise", "half"], &Settings::default());
    assert!(got["attacks"][0]["errors"]["mse"].as_f64().unwrap() < 1e-20);
    assert!(got["attacks"][1]["errors"]["mse"].as_f64().unwrap() > 1e-2);
}

/// Attacks on equations do not run on networks; the generator does. What it draws stands in no case file: its vector is
/// `generative_regression/pytorch.json`.
#[test]
fn attacks_on_equations_say_that_networks_are_not_linear() {
    for (file, text, case) in golden_cases("network_") {
        for attack in ["least_squares", "half_star", "rcc1", "rcc2", "constrained_least_squares"] {
            let error = attack_case(&text, &[attack], &Settings::default(), 1).unwrap_err();
            assert!(
                error.contains("the scores are no softmax of linear outputs"),
                "{file} {attack}: {error}"
            );
        }
        let settings = Settings::read([("epochs", "3")]).unwrap();
        let got = answer(&text, &["generative_regression"], &settings);
        let x = rows(&case["expected"]["runs"][0]["x"]);
        let first: Vec<f64> =
            serde_json::from_value(got["attacks"][0]["estimates"][0]["x"].clone()).unwrap();
        assert!(
            first.len() == x[0].len() && first.iter().all(|v| (0.0..=1.0).contains(v)),
            "{file}"
        );
    }
    let relu = golden_cases("network_sum_relu").remove(0).1;
    let error = attack_case(&relu, &["half_star_layerwise"], &Settings::default(), 1).unwrap_err();
    assert!(error.contains("relu has no inverse"), "{error}");
}

/// What a refusal says, and a change to a case that is right.
type Refused = (&'static str, fn(&mut serde_json::Value));

#[test]
fn bad_networks_are_refused_by_name() {
    let (_, _, good) = golden_cases("network_concat").remove(0);
    let changes: [Refused; 15] = [
        ("leave these out", |c| c["b"] = serde_json::json!([0.0, 0.0])),
        ("unknown variant `stack`", |c| c["networks"]["combiner"] = "stack".into()),
        ("unknown field `bottom`", |c| c["networks"]["bottom"] = 1.into()),
        ("missing field `active`", |c| {
            drop(c["networks"].as_object_mut().unwrap().remove("active"))
        }),
        ("top model", |c| drop(c["networks"].as_object_mut().unwrap().remove("top"))),
        ("top model", |c| c["networks"]["combiner"] = "sum".into()),
        ("passive part", |c| c["networks"]["passive"] = serde_json::json!([])),
        ("`networks.passive[1]`: the first layer takes 2 inputs", |c| {
            c["networks"]["passive"][1]["features"] = 3.into()
        }),
        ("`networks.active`: the first layer takes 2 inputs", |c| {
            c["networks"]["active"]["features"] = 3.into()
        }),
        ("`networks.active`: model: `kind` is `lstm`", |c| {
            c["networks"]["active"]["kind"] = "lstm".into()
        }),
        ("`networks.top`", |c| {
            c["networks"]["top"]["parameters"]["0.bias"] = serde_json::json!([0.1])
        }),
        ("takes 9 inputs, and the sub-models have 7 outputs", |c| {
            drop(c["networks"]["passive"].as_array_mut().unwrap().pop())
        }),
        ("`y_act` of record 0 has 1", |c| c["records"][0]["y_act"] = serde_json::json!([0.5])),
        ("`c` of record 0 has 2 entries, expected 4", |c| {
            c["records"][0]["c"] = serde_json::json!([0.5, 0.5])
        }),
        ("`colluders` are of a case with weights", |c| {
            c["colluders"] = serde_json::json!([0]);
            for record in c["records"].as_array_mut().unwrap() {
                record["x_colluders"] = serde_json::json!([0.5]);
            }
        }),
    ];
    for (says, change) in changes {
        let mut case = good.clone();
        change(&mut case);
        let error = attack_case(&case.to_string(), &["half"], &Settings::default(), 1).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    for (key, says) in [
        ("w_act", "missing field `w_act`"),
        ("w_pas", "missing field `w_pas`"),
        ("b", "missing field `b`"),
    ] {
        let mut case = small();
        case.as_object_mut().unwrap().remove(key);
        let error = run(&case).unwrap_err();
        assert!(error.contains(says) && error.contains("`networks`"), "{error}");
    }
}

/// The truth is checked as everything else, and found by id.
#[test]
fn the_truth_is_found_by_id_and_checked() {
    let (_, _, case) = golden_cases("scored_linear").remove(0);
    let first = answer(&case.to_string(), &["half"], &Settings::default());
    let mut turned = case.clone();
    turned["truth"].as_array_mut().unwrap().reverse();
    assert_eq!(answer(&turned.to_string(), &["half"], &Settings::default()), first);
    let changes: [Refused; 4] = [
        ("`truth` does not have record \"r12\"", |c| {
            drop(c["truth"].as_array_mut().unwrap().pop())
        }),
        ("`truth` has 13 records", |c| {
            c["truth"]
                .as_array_mut()
                .unwrap()
                .push(serde_json::json!({"id": "else", "x_pas": [0.1, 0.2, 0.3]}));
        }),
        ("`truth`: `x_pas` of record 1 has 1", |c| {
            c["truth"][1]["x_pas"] = serde_json::json!([0.5])
        }),
        ("unknown field `x`", |c| c["truth"][1]["x"] = 1.into()),
    ];
    for (says, change) in changes {
        let mut case = case.clone();
        change(&mut case);
        let error = attack_case(&case.to_string(), &["half"], &Settings::default(), 1).unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn all_golden_cases_with_scores_of_the_estimates() {
    assert_eq!(check_runs("scored_").len(), 2);
}
