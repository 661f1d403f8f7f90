use std::collections::HashMap;

use super::*;

fn golden_dir() -> PathBuf {
    std::env::var_os("CLOISON_GOLDEN_DIR")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").into(), PathBuf::from)
}

fn rows(value: &serde_json::Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Every case of the golden vectors, through the code of the command.
#[test]
fn all_golden_cases() {
    let dir = golden_dir().join("cases");
    let files = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("golden cases are missing in {} ({e}); set CLOISON_GOLDEN_DIR", dir.display()));
    let mut cases = 0;
    for path in files.map(|f| f.unwrap().path()) {
        if !path.file_name().unwrap().to_string_lossy().starts_with("attack_") {
            continue;
        }
        cases += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        let methods = [Method::LeastSquares, Method::ClampedLeastSquares, Method::HalfStar, Method::ClampedHalfStar];
        let out = attack_case(&text, &methods, &Settings::default(), 1).unwrap();
        let out: serde_json::Value = serde_json::from_slice(&out).unwrap();
        for attack in out["attacks"].as_array().unwrap() {
            let name = attack["name"].as_str().unwrap();
            assert_eq!(attack["rank"], case["expected"]["rank"], "{} {name}", path.display());
            let want = rows(&case["expected"][name]);
            assert_eq!(attack["estimates"].as_array().unwrap().len(), want.len());
            for (estimate, want) in attack["estimates"].as_array().unwrap().iter().zip(want) {
                let got: Vec<f64> = serde_json::from_value(estimate["x"].clone()).unwrap();
                let scale = want.iter().fold(1.0f64, |m, v| m.max(v.abs()));
                for (g, w) in got.iter().zip(&want) {
                    assert!((g - w).abs() <= 1e-9 * scale, "{} {name}: {g} {w}", path.display());
                }
            }
        }
    }
    assert!(cases >= 26, "{cases} cases");
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

/// The truth in the file has no way into the estimates.
#[test]
fn estimates_do_not_change_when_the_truth_does() {
    let mut case = small();
    let without = run(&case).unwrap();
    for x in [0.0, 0.7] {
        case["truth"] = serde_json::json!([{"id": "r1", "x_pas": [x, x]}]);
        case["expected"] = serde_json::json!({"half_star": [[x, x]]});
        assert_eq!(run(&case).unwrap(), without);
    }
}

#[test]
fn names_and_settings_are_checked() {
    let error = "half".parse::<Method>().map(|_| ()).and("rcc9".parse::<Method>().map(|_| ())).unwrap_err();
    assert!(error.to_string().contains("rcc9") && error.to_string().contains("half_star"));
    assert!(Settings::read([("zero_floor", "0.005")]).is_ok());
    for (key, value) in
        [("zero_floor", "0"), ("zero_floor", "0.6"), ("zero_floor", "NaN"), ("zero_floor", "x"), ("floor", "1")]
    {
        let error = Settings::read([(key, value)]).unwrap_err().to_string();
        assert!(error.contains("zero_floor"), "{error}");
    }
}
