use clap::Parser;
use nalgebra::DVector;
use serde_json::json;
use vfl_numerics::{PseudoInverse, row_differences};

use super::*;
use crate::cli::Cli;

fn matrix_of(rows: &serde_json::Value) -> DMatrix<f64> {
    let rows: Vec<Vec<f64>> = serde_json::from_value(rows.clone()).unwrap();
    DMatrix::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j])
}

/// (1/d) E of the adversary that takes W_n for the true parameters, by attacking the records.
fn attacked(w: &DMatrix<f64>, w_n: &DMatrix<f64>, x: &DMatrix<f64>, half: f64) -> f64 {
    let inverse = PseudoInverse::new(&row_differences(w_n)).unwrap().matrix;
    let start = DMatrix::from_element(x.nrows(), x.ncols(), half);
    let estimate = &inverse * (row_differences(w) * x - row_differences(w_n) * &start) + start;
    (estimate - x).norm_squared() / x.len() as f64
}

/// Every `transform` case of the golden vectors, through the code of the command. All is recomputed from `w_n` alone.
#[test]
fn all_golden_cases() {
    let mut seen = std::collections::BTreeMap::new();
    for (file, text) in vfl_testing::golden_cases("transform_") {
        let case: Value = serde_json::from_str(&text).unwrap();
        let output =
            transformed(&text, None, &[], Some(1)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let written = serde_json::to_value(&output).unwrap();
        let (w, w_n, expected) =
            (matrix_of(&case["w_pas"]), matrix_of(&written["w_n"]), &case["expected"]);
        let want =
            |name: &str| expected[name].as_f64().unwrap_or_else(|| panic!("{file}: no {name}"));
        let g = (&w - &w_n).norm_squared() / w.len() as f64;
        assert!((output.summary.g - g).abs() <= 1e-12 * g.max(1.0));
        let setting = |name: &str| case["settings"][name].as_f64().unwrap();
        let transform = case["transform"].as_str().unwrap();
        *seen.entry(transform.to_owned()).or_insert(0) += 1;
        if transform == "single_feature" {
            let (a, n) = (row_differences(&w), row_differences(&w_n));
            let ratio = (1.0 - n.dot(&a) / n.norm_squared()).powi(2);
            assert!(ratio >= want("mse_ratio") * (1.0 - 1e-9), "{file}: {ratio}");
            assert!((g / setting("epsilon") - 1.0).abs() < 1e-9, "{file}: {g}");
            continue;
        }
        let x = matrix_of(&case["x_pas"]).transpose();
        let (least_squares, half_star) = (attacked(&w, &w_n, &x, 0.0), attacked(&w, &w_n, &x, 0.5));
        let mse = &serde_json::to_value(&output.summary).unwrap()["mse"];
        let told = |name: &str| mse[name].as_f64().unwrap();
        assert!(
            (told("least_squares") - least_squares).abs() <= 1e-9
                && (told("half_star") - half_star).abs() <= 1e-9
        );
        match transform {
            "least_squares_optimal" => {
                let best = want("mse_least_squares");
                assert!(
                    (least_squares - best).abs() <= 1e-9,
                    "{file}: {least_squares} is not {best}"
                );
            }
            "binary" => {
                let best = want("best_known_mse");
                assert!(half_star >= best * (1.0 - 1e-6), "{file}: {half_star} below {best}");
                assert!((g / setting("epsilon") - 1.0).abs() < 1e-9, "{file}: {g}");
            }
            _ => {
                // V (39) and (48) from the error itself: it is their f up to what does not depend on R.
                let d = w.ncols() as f64;
                let constant = |m: &DMatrix<f64>| m.norm_squared() / (d * m.ncols() as f64);
                let f = match case["case"].as_str().unwrap() {
                    "i" => constant(&x.add_scalar(-0.5)) - half_star,
                    _ => 2.0 * constant(&x) - least_squares,
                };
                let objective = f + setting("penalty") * (g - setting("epsilon")).powi(2);
                let best = want("best_known_objective");
                assert!(objective <= best + 1e-4 * best.abs(), "{file}: {objective} above {best}");
                assert!((output.summary.objective.unwrap() - objective).abs() <= 1e-8, "{file}");
                // W_n = W_pas R for an orthonormal R: the same Gram matrix.
                assert!((&w * w.transpose() - &w_n * w_n.transpose()).amax() <= 1e-9, "{file}");
            }
        }
    }
    assert_eq!(seen.values().sum::<i32>(), 35, "{seen:?}");
    assert_eq!(seen["stiefel"], 8);
}

fn small() -> Value {
    json!({
        "schema": 1, "kind": "transform", "transform": "stiefel", "w_pas": [[1.0, 2.0, 0.5], [0.0, 1.0, 0.0]],
        "x_pas": [[0.2, 0.9, 0.1], [0.4, 0.1, 1.0]], "settings": {"epsilon": 0.1, "penalty": 3.0}, "expected": {"any": 1}
    })
}

fn run(case: &Value, name: Option<&str>, set: &[&str]) -> Result<Output, String> {
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    transformed(&case.to_string(), name, &set, Some(1))
}

#[test]
fn settings_of_the_case_are_overridden() {
    let objective = |set: &[&str]| run(&small(), None, set).unwrap().summary.objective.unwrap();
    let own = objective(&[]);
    assert_eq!(own, objective(&["penalty=3", "epsilon=0.1"]));
    assert_ne!(own, objective(&["penalty=0"]));
    // Another transform takes what it knows and leaves the rest.
    let other = run(&small(), Some("binary"), &["epsilon=0.05"]).unwrap();
    assert_eq!((other.transform, other.summary.epsilon), ("binary", Some(0.05)));
    assert_eq!(run(&small(), Some("binary"), &[]).unwrap().summary.epsilon, Some(0.1));
    let mut case = small();
    case["settings"] = json!({});
    // A tenth of the mean squared weight without the mean over classes: squares of ½, ½, ¼ over 3.
    assert!(
        (run(&case, None, &[]).unwrap().summary.epsilon.unwrap()
            - 0.1 * (0.25 + 0.25 + 0.0625) / 3.0)
            .abs()
            < 1e-12
    );
    let found = run(&small(), Some("complement"), &[]).unwrap();
    assert_eq!((found.w_n[0][1], found.bias_shift), (-2.0, vec![3.5, 1.0]));
}

#[test]
fn bad_cases_are_refused_by_name() {
    let with = |path: &str, value: Value| {
        let mut case = small();
        match case.pointer_mut(path) {
            Some(place) => *place = value,
            None => case[&path[1..]] = value,
        }
        case
    };
    for (names, case) in [
        ("schema 1", with("/schema", json!(2))),
        ("kind \"transform\"", with("/kind", json!("assess"))),
        ("nonsense", with("/nonsense", json!(1))),
        ("row 1 of `w_pas` has 2 values", with("/w_pas/1", json!([0.0, 1.0]))),
        ("row 1 of `x_pas` has 2 values", with("/x_pas/1", json!([0.0, 1.0]))),
        ("`w_pas` has 1 rows", with("/w_pas", json!([[1.0]]))),
        ("`x_pas` holds no record", with("/x_pas", json!([]))),
        ("no transform `x`", with("/transform", json!("x"))),
        ("names no `transform`", with("/transform", json!(null))),
        ("x_pas", with("/x_pas", json!(null))),
        ("no setting `size` of `stiefel`; it takes epsilon", with("/settings/size", json!(3))),
        ("`epsilon` is -1", with("/settings/epsilon", json!(-1))),
        ("expected f64", with("/settings/epsilon", json!("0.123"))),
        ("settings of `stiefel`", with("/case", json!("iii"))),
    ] {
        let reason = match case.pointer("/settings/size") {
            // A pointer to a missing key of an object inside is put there by hand.
            _ if names.contains("`size`") => {
                let mut case = small();
                case["settings"]["size"] = json!(3);
                run(&case, None, &[]).unwrap_err()
            }
            _ => run(&case, None, &[]).unwrap_err(),
        };
        assert!(reason.contains(names), "{case}: {reason:?} does not say {names:?}");
        assert!(!reason.contains("0.123"), "{reason}");
    }
}

#[test]
fn the_summary_is_aligned_and_holds_no_parameter() {
    let mut case = small();
    case["w_pas"][0][0] = json!(1.234_567);
    case["x_pas"][0][0] = json!(1.5);
    let output = run(&case, None, &[]).unwrap();
    let text = table(output.transform, &output.summary);
    let rows = |from: &str, to: &str| {
        let lines: Vec<&str> = text.lines().collect();
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start)).unwrap();
        lines[at(from)..=at(to)].to_vec()
    };
    for block in [rows("epsilon", "gradient norm"), rows("attack", "half_star")] {
        assert!(
            block.iter().all(|line| line.chars().count() == block[0].chars().count()),
            "{text}"
        );
    }
    assert!(text.contains("1 of 6 values") && !text.contains("1.234567"), "{text}");
    for row in &output.w_n {
        assert!(row.iter().all(|w| !text.contains(&format!("{w:.6}"))), "{text}");
    }
    let without = json!({"schema": 1, "kind": "transform", "w_pas": [[1], [0]]});
    let output = run(&without, Some("negate"), &[]).unwrap();
    assert!(
        output.summary.mse.is_none() && table("negate", &output.summary).contains("Give `x_pas`")
    );
    assert_eq!(output.w_n, [[-1.0], [0.0]]);
}

#[tokio::test]
async fn the_command_writes_its_output_and_says_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let (case, out) = (dir.path().join("case.json"), dir.path().join("out.json"));
    std::fs::write(&case, small().to_string()).unwrap();
    let command = async |more: &[&str]| {
        let start = ["passive-party", "transform", "--case", case.to_str().unwrap()];
        Cli::try_parse_from(start.iter().chain(more)).unwrap().run().await
    };
    let out_text = out.to_str().unwrap();
    command(&["--out", out_text, "--transform", "negate", "--json"]).await.unwrap();
    let written: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let found = serde_json::to_value(run(&small(), Some("negate"), &[]).unwrap()).unwrap();
    assert_eq!(written, found);
    let keys: Vec<&String> = written.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["bias_shift", "schema", "transform", "w_n"],
        "what is released and nothing of the true parameters"
    );
    assert_eq!((&written["schema"], &written["transform"]), (&json!(1), &json!("negate")));
    let shift: DVector<f64> =
        DVector::from_vec(serde_json::from_value(written["bias_shift"].clone()).unwrap());
    assert_eq!(shift, DVector::zeros(2));
    // Seeds draw other secrets.
    command(&["--out", out_text, "--transform", "random_orthonormal", "--seed", "2"])
        .await
        .unwrap();
    let second: Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_ne!(
        second["w_n"],
        serde_json::to_value(run(&small(), Some("random_orthonormal"), &[]).unwrap().w_n).unwrap()
    );

    let refused = command(&["--out", out_text, "--set", "nothing=1"]).await;
    assert!(
        matches!(&refused, Err(CliError::Input(e)) if e.contains("case.json") && e.contains("starts")),
        "{refused:?}"
    );
    let below_a_file = case.join("out.json");
    let refused = command(&["--out", below_a_file.to_str().unwrap()]).await;
    assert!(matches!(refused, Err(CliError::Failed(_))), "{refused:?}");
}

/// Without a seed two releases of one case differ: the secret is drawn, not a default.
#[test]
fn what_is_secret_has_no_default() {
    let w = [[0.5, 1.0, -0.3], [0.0, 2.0, 0.4]];
    let case = serde_json::json!({ "schema": 1, "kind": "transform", "w_pas": w }).to_string();
    let drawn = || transformed(&case, Some("random_orthonormal"), &[], None).unwrap().w_n;
    assert_ne!(drawn(), drawn());
    let seeded = || transformed(&case, Some("random_orthonormal"), &[], Some(5)).unwrap().w_n;
    assert_eq!(seeded(), seeded());
}
