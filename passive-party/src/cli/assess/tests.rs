use clap::Parser;

use super::*;
use crate::cli::Cli;

/// Every `assess` case of the golden vectors, through the code of the command.
#[test]
fn all_golden_cases() {
    let dir = std::env::var_os("CLOISON_GOLDEN_DIR")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").into(), PathBuf::from)
        .join("cases");
    let files = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("golden cases are missing in {} ({e}); set CLOISON_GOLDEN_DIR", dir.display()));
    let mut cases = 0;
    for path in files.map(|f| f.unwrap().path()) {
        if !path.file_name().unwrap().to_string_lossy().starts_with("assess_") {
            continue;
        }
        cases += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        let content = json(&assess_case(&text).unwrap()).unwrap();
        let got: serde_json::Value = serde_json::from_slice(&content).unwrap();
        let expected = case["expected"].as_object().unwrap();
        assert_eq!(expected.len(), 13);
        for (name, want) in expected {
            let (got, want) = (got[name].as_f64().unwrap(), want.as_f64().unwrap());
            assert!((got - want).abs() <= 1e-9, "{}: {name} is {got}, not {want}", path.display());
        }
    }
    assert_eq!(cases, 5);
}

fn small() -> serde_json::Value {
    serde_json::json!({
        "schema": 1, "kind": "assess", "w_pas": [[1.0, 2.0, 0.5], [0.0, 1.0, 0.0]],
        "x_pas": [[0.2, 0.9, 0.1], [0.4, 0.1, 1.0]], "expected": {"whatever": [1, "x"]}
    })
}

#[test]
fn bad_cases_are_refused_by_name() {
    assert!(assess_case(&small().to_string()).is_ok());
    let with = |path: &str, value: serde_json::Value| {
        let mut case = small();
        match case.pointer_mut(path) {
            Some(place) => *place = value,
            None => case[&path[1..]] = value,
        }
        case.to_string()
    };
    use serde_json::json;
    for (names, text) in [
        ("schema 1", with("/schema", json!(2))),
        ("kind \"assess\"", with("/kind", json!("attack"))),
        ("nonsense", with("/nonsense", json!(1))),
        ("missing field `x_pas`", json!({"schema": 1, "kind": "assess", "w_pas": [[1.0], [0.0]]}).to_string()),
        ("row 1 of `w_pas` has 2 values", with("/w_pas/1", json!([0.0, 1.0]))),
        ("row 1 of `x_pas` has 2 values", with("/x_pas/1", json!([0.0, 1.0]))),
        ("row 0 of `x_pas` has 4 values", with("/x_pas", json!([[0, 0, 0, 0], [0, 0, 0, 0]]))),
        ("`w_pas` has 1 rows", with("/w_pas", json!([[1.0, 2.0, 0.5]]))),
        ("`w_pas` has 0 rows", with("/w_pas", json!([]))),
        ("`w_pas` has no column", with("/w_pas", json!([[], []]))),
        ("`x_pas` holds no record", with("/x_pas", json!([]))),
        ("expected f64", with("/x_pas/1/0", json!(null))),
        ("expected f64", with("/w_pas/0/0", json!("1"))),
        ("number out of range", with("/x_pas/1/0", json!(0.123)).replace("0.123", "1e999")),
        ("expected value", with("/x_pas/1/0", json!(0.123)).replace("0.123", "NaN")),
        ("moments of the records overflow", with("/x_pas/1/0", json!(1e200))),
        ("differences of passive weights overflow", with("/w_pas", json!([[1e308, 0, 0], [-1e308, 0, 0]]))),
        ("EOF", String::new()),
    ] {
        let reason = assess_case(&text).unwrap_err();
        assert!(reason.contains(names), "{text}: {reason:?} does not say {names:?}");
    }
}

async fn command(arguments: &[&std::ffi::OsStr]) -> Result<(), CliError> {
    let start = ["passive-party", "assess"].map(std::ffi::OsStr::new);
    Cli::try_parse_from(start.iter().chain(arguments)).unwrap().run().await
}

#[tokio::test]
async fn the_output_file_holds_all_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let (case, out) = (dir.path().join("case.json"), dir.path().join("out.json"));
    std::fs::write(&case, small().to_string()).unwrap();
    let (option, out_option) = (std::ffi::OsStr::new("--case"), std::ffi::OsStr::new("--out"));
    command(&[option, case.as_os_str(), out_option, out.as_os_str()]).await.unwrap();
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    let found = assess_case(&small().to_string()).unwrap();
    assert_eq!(written, serde_json::to_value(&found).unwrap());
    assert_eq!(written["empirical"]["least_squares"].as_f64().unwrap(), found.empirical.least_squares);

    // Bad input is exit code 2 and names the file; a place that cannot be written is 1.
    std::fs::write(&case, "{}").unwrap();
    match command(&[option, case.as_os_str()]).await {
        Err(CliError::Input(reason)) => assert!(reason.contains("case.json"), "{reason}"),
        other => panic!("{other:?}"),
    }
    let missing = dir.path().join("missing.json");
    assert!(matches!(command(&[option, missing.as_os_str()]).await, Err(CliError::Input(_))));
    std::fs::write(&case, small().to_string()).unwrap();
    let below_a_file = case.join("out.json");
    let refused = command(&[option, case.as_os_str(), out_option, below_a_file.as_os_str()]).await;
    assert!(matches!(refused, Err(CliError::Failed(_))), "{refused:?}");
}

#[test]
fn the_table_is_aligned_and_holds_both_columns() {
    let found = assess_case(&small().to_string()).unwrap();
    let text = table(&found);
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    let head = row("attack");
    for (name, closed, empirical) in [
        ("least_squares", found.mse_ls, found.empirical.least_squares),
        ("half_star", found.mse_half_star, found.empirical.half_star),
        ("half ", found.mse_half, found.empirical.half),
        ("zero", found.mse_zero, found.empirical.zero),
    ] {
        let cells: Vec<&str> = row(name).split_whitespace().collect();
        assert_eq!(row(name).len(), head.len(), "{text}");
        assert_eq!(
            (cells.len(), cells[1], cells[2]),
            (5, &*format!("{closed:.6}"), &*format!("{empirical:.6}")),
            "{text}"
        );
    }
    assert!(text.contains("rank 1, nullity 2") && !text.contains("come back"), "{text}");
    let full = assess_case(r#"{"schema":1,"kind":"assess","w_pas":[[1],[0]],"x_pas":[[0.5]]}"#).unwrap();
    assert!(table(&full).contains("the features themselves come back"));
    assert_eq!((number(0.0).trim(), number(2e-6).trim(), number(1e7).trim()), ("0.000000", "2.000e-6", "1.000e7"));
}
