//! The attack `lattice`: golden cases decoded to their true grid points, and what it may never say.

use serde_json::{Value, json};
use vfl_active_party::attack::Settings;
use vfl_active_party::cli::attack_case;
use vfl_shared::testing::golden_cases;

/// The answer of the attack on a case.
fn decode(case: &Value, settings: &[(&str, &str)]) -> Value {
    let settings = Settings::read(settings.iter().copied()).unwrap();
    let answer = attack_case(&case.to_string(), &["lattice"], &settings, 1).unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    answer["attacks"][0].clone()
}

/// Of the records of a case: how many are rebuilt to the last digit, are certain, are certain and wrong.
fn count(case: &Value, answer: &Value) -> (usize, usize, usize) {
    let (mut exact, mut certain, mut wrong) = (0, 0, 0);
    for (estimate, truth) in answer["estimates"].as_array().unwrap().iter().zip(case["truth"].as_array().unwrap()) {
        let values = |of: &Value| of.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>();
        let (x, truth) = (values(&estimate["x"]), values(&truth["x_pas"]));
        let right = x.iter().zip(&truth).all(|(a, b)| (a - b).abs() <= 1e-9);
        let sure = estimate["certain"].as_bool().unwrap();
        exact += usize::from(right);
        certain += usize::from(sure);
        wrong += usize::from(sure && !right);
    }
    (exact, certain, wrong)
}

#[test]
fn golden_cases_decode_to_the_last_digit() {
    let mut cases = 0;
    for (file, text) in golden_cases("lattice_") {
        let case: Value = serde_json::from_str(&text).unwrap();
        let began = std::time::Instant::now();
        let answer = decode(&case, &[]);
        let (exact, certain, wrong) = count(&case, &answer);
        let n = case["records"].as_array().unwrap().len();
        println!(
            "{file}: {exact} of {n} exact, {certain} certain, {wrong} wrong, {:?} {}",
            began.elapsed(),
            answer["remarks"]
        );
        assert_eq!(wrong, 0, "{file}");
        assert_eq!(exact, n, "{file}");
        if case.get("prior").is_none() {
            assert_eq!(certain, n, "{file}");
        }
        cases += 1;
    }
    assert!(cases >= 13, "{cases} cases");
}

/// On a grid that the records do not lie on nothing is certain.
#[test]
fn a_wrong_grid_makes_nothing_certain() {
    for (file, text) in golden_cases("lattice_").into_iter().filter(|(file, _)| !file.contains("onehot")) {
        let mut case: Value = serde_json::from_str(&text).unwrap();
        let steps: Vec<f64> = case["grid"]["step"].as_array().unwrap().iter().map(|s| s.as_f64().unwrap()).collect();
        for by in [2, 3] {
            // Coarser: each count of steps is divided, rounded to a whole number.
            let coarser: Vec<f64> = steps.iter().map(|s| 1.0 / ((1.0 / s).round() / f64::from(by)).round()).collect();
            case["grid"]["step"] = json!(coarser);
            let answer = decode(&case, &[]);
            let (_, certain, _) = count(&case, &answer);
            assert_eq!(certain, 0, "{file}, steps {by} times as wide");
        }
    }
}
