use clap::Parser;

use super::*;
use crate::cli::Cli;

/// Every `assess` case of the golden vectors, through the code of the command.
#[test]
fn all_golden_cases() {
    let mut cases = 0;
    for (file, text) in vfl_testing::golden_cases("assess_") {
        cases += 1;
        let case: serde_json::Value = serde_json::from_str(&text).unwrap();
        let content = json(&assessed(&text, None, 1, &[]).unwrap()).unwrap();
        let got: serde_json::Value = serde_json::from_slice(&content).unwrap();
        let expected = case["expected"].as_object().unwrap();
        assert_eq!(expected.len(), 13);
        the_candidates_agree(&got);
        for (name, want) in expected {
            let (got, want) = (got[name].as_f64().unwrap(), want.as_f64().unwrap());
            assert!((got - want).abs() <= 1e-9, "{file}: {name} is {got}, not {want}");
        }
    }
    assert_eq!(cases, 5);
}

/// What the closed forms of the candidates must be by the fields that were there before.
fn the_candidates_agree(got: &serde_json::Value) {
    let of = |value: &serde_json::Value, name: &str| value[name].as_f64().unwrap();
    let candidates = got["candidates"].as_array().unwrap();
    let find = |name: &str| candidates.iter().find(|c| c["transform"] == name).unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() <= 1e-9, "{a} {b}");
    let (ls, half_star, more) =
        (of(got, "mse_ls"), of(got, "mse_half_star"), of(got, "negate_mse_increase"));
    for candidate in candidates {
        close(of(&candidate["before"], "least_squares"), ls);
        close(of(&candidate["before"], "half_star"), half_star);
    }
    let (none, complement) = (find("none"), find("complement"));
    assert_eq!(of(none, "g"), 0.0);
    close(of(none, "least_squares"), ls);
    close(of(complement, "least_squares"), ls + more);
    close(of(complement, "half_star"), half_star + more);
    close(of(find("least_squares_optimal"), "least_squares"), of(got, "least_squares_optimal_mse"));
    // At most the optimum, whatever the orthonormal matrix.
    for name in ["negate", "random_orthonormal"] {
        assert!(of(find(name), "least_squares") <= of(got, "least_squares_optimal_mse") + 1e-9);
    }
    let stiefel: Vec<_> = candidates.iter().filter(|c| c["transform"] == "stiefel").collect();
    assert_eq!(stiefel.len(), 3);
    for candidate in stiefel {
        assert!((of(candidate, "g") / of(candidate, "epsilon") - 1.0).abs() < 0.1, "{candidate}");
        let name =
            if of(got, "features") >= of(got, "classes") { "half_star" } else { "least_squares" };
        assert!(of(candidate, name) > of(none, name));
    }
    assert!(candidates.windows(2).all(|pair| of(&pair[0], "g") <= of(&pair[1], "g")));
}

fn small() -> serde_json::Value {
    serde_json::json!({
        "schema": 1, "kind": "assess", "w_pas": [[1.0, 2.0, 0.5], [0.0, 1.0, 0.0]],
        "x_pas": [[0.2, 0.9, 0.1], [0.4, 0.1, 1.0]], "expected": {"whatever": [1, "x"]}
    })
}

fn trained(case: &serde_json::Value) -> TrainedAssessment {
    match assessed(&case.to_string(), None, 1, &[]).unwrap() {
        CaseAssessment::Trained(found) => *found,
        CaseAssessment::Untrained(found) => panic!("{found:?}"),
    }
}

#[test]
fn bad_cases_are_refused_by_name() {
    assert!(trained(&small()).assessment.rank == 1);
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
        (
            "no `w_pas`; give `classes`",
            json!({"schema": 1, "kind": "assess", "x_pas": [[0.5]]}).to_string(),
        ),
        ("`classes` is 3, `w_pas` has 2 rows", with("/classes", json!(3))),
        (
            "missing field `x_pas`",
            json!({"schema": 1, "kind": "assess", "w_pas": [[1.0], [0.0]]}).to_string(),
        ),
        ("row 1 of `w_pas` has 2 values", with("/w_pas/1", json!([0.0, 1.0]))),
        ("row 1 of `x_pas` has 2 values", with("/x_pas/1", json!([0.0, 1.0]))),
        ("row 0 of `x_pas` has 4 values", with("/x_pas", json!([[0, 0, 0, 0], [0, 0, 0, 0]]))),
        ("`w_pas` has 1 rows", with("/w_pas", json!([[1.0, 2.0, 0.5]]))),
        ("`w_pas` has 0 rows", with("/w_pas", json!([]))),
        ("`w_pas` has no column", with("/w_pas", json!([[], []]))),
        ("`x_pas` holds no record", with("/x_pas", json!([]))),
        ("expected f64", with("/x_pas/1/0", json!(null))),
        ("expected f64", with("/w_pas/0/0", json!("1"))),
        ("bits must be finite and at least 0", with("/bits", json!([-1]))),
        ("expected f64", with("/bits", json!([null]))),
        ("number out of range", with("/x_pas/1/0", json!(0.123)).replace("0.123", "1e999")),
        ("expected value", with("/x_pas/1/0", json!(0.123)).replace("0.123", "NaN")),
        ("moments of the records overflow", with("/x_pas/1/0", json!(1e200))),
        (
            "differences of passive weights overflow",
            with("/w_pas", json!([[1e308, 0, 0], [-1e308, 0, 0]])),
        ),
        ("EOF", String::new()),
    ] {
        let reason = assessed(&text, None, 1, &[]).unwrap_err();
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
    let found = trained(&small());
    assert_eq!(written, serde_json::to_value(&found).unwrap());
    assert_eq!(
        written["empirical"]["least_squares"].as_f64().unwrap(),
        found.assessment.empirical.least_squares
    );
    let plot = dir.path().join("plot.svg");
    let plot_option = std::ffi::OsStr::new("--plot");
    command(&[
        option,
        case.as_os_str(),
        out_option,
        out.as_os_str(),
        plot_option,
        plot.as_os_str(),
    ])
    .await
    .unwrap();
    assert!(std::fs::read_to_string(&plot).unwrap().contains("least_squares_optimal"));

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

#[tokio::test]
async fn the_bits_of_a_record_stand_beside_those_of_the_policies() {
    use std::ffi::OsStr;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("case.json"), small().to_string()).unwrap();
    let schema = r#"
        id = "customer"
        features = [
            { name = "phone", kind = "binary" },
            { name = "grade", kind = "ordinal", categories = ["a", "b", "c", "d", "e", "f", "g", "h"] },
            { name = "age", kind = "numeric", min = 17, max = 98 },
        ]"#;
    std::fs::write(at("features.toml"), schema).unwrap();
    let (case, schema, out) = (at("case.json"), at("features.toml"), at("out.json"));
    let options = ["--case", "--schema", "--out"].map(OsStr::new);
    let arguments =
        [options[0], case.as_os_str(), options[1], schema.as_os_str(), options[2], out.as_os_str()];
    command(&arguments).await.unwrap();
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&out).unwrap()).unwrap();
    assert_eq!(written["record_bits"], serde_json::json!({"bits": 4.0, "unlimited": 1}));
    assert_eq!(written["released_bits"][0]["policy"], "none");
    let mut found = trained(&small());
    found.told.record_bits = Some(RecordBits { bits: 4.0, unlimited: 1 });
    let text = table(&found);
    assert!(
        text.contains("A record of this schema has 4.0 bits, and those of 1 numeric features"),
        "{text}"
    );
    // A transform is called `none` as well.
    let line = |policy: &str, bits: &str| {
        text.lines().any(|line| line.starts_with(policy) && line.ends_with(bits))
    };
    assert!(line("none", "no bound") && line("class_label", "1.00"), "{text}");

    std::fs::write(at("features.toml"), "id = 1").unwrap();
    match command(&arguments).await {
        Err(CliError::Input(reason)) => assert!(reason.contains("features.toml"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table_is_aligned_and_holds_both_columns() {
    let report = trained(&small());
    let (found, text) = (&report.assessment, table(&report));
    let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
    let head = row("attack");
    for (name, closed, empirical) in [
        ("least_squares", found.mse_ls, found.empirical.least_squares),
        ("half_star", found.mse_half_star, found.empirical.half_star),
        ("half ", found.mse_half, found.empirical.half),
        ("zero", found.mse_zero, found.empirical.zero),
        ("informed_linear", found.mse_informed_linear, found.empirical.informed_linear),
        ("informed_control", found.mse_informed_control, found.empirical.informed_control),
    ] {
        let cells: Vec<&str> = row(name).split_whitespace().collect();
        assert_eq!(row(name).len(), head.len(), "{text}");
        assert_eq!(
            (cells.len(), cells[1], cells[2]),
            (5, number(closed).trim(), number(empirical).trim()),
            "{text}"
        );
    }
    assert!(text.contains("rank 1, nullity 2") && !text.contains("come back"), "{text}");
    let full = trained(
        &serde_json::json!({"schema": 1, "kind": "assess", "w_pas": [[1], [0]], "x_pas": [[0.5]]}),
    );
    assert!(table(&full).contains("the features themselves come back"));
    assert_eq!(
        (number(0.0).trim(), number(2e-6).trim(), number(1e7).trim()),
        ("0.000000", "2.000e-6", "1.000e7")
    );
}

#[test]
fn candidates_are_in_the_table_with_what_fits() {
    use serde_json::json;
    let names = |case: &serde_json::Value| -> Vec<&str> {
        trained(case).candidates.iter().map(|c| c.transform).collect()
    };
    let always = ["none", "negate", "complement", "least_squares_optimal", "random_orthonormal"];
    let one_feature =
        json!({"schema": 1, "kind": "assess", "w_pas": [[1], [0], [3]], "x_pas": [[0.5], [1.5]]});
    for (case, fits, not) in [
        (small(), &["stiefel", "binary"][..], &["single_feature"][..]),
        (one_feature.clone(), &["single_feature"], &["stiefel", "binary"]),
    ] {
        let names = names(&case);
        assert!(always.iter().chain(fits).all(|name| names.contains(name)), "{names:?}");
        assert!(not.iter().all(|name| !names.contains(name)), "{names:?}");
    }
    let text = table(&trained(&small()));
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("transform")).collect();
    let rows: Vec<&&str> = lines[1..].iter().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 11, "{text}");
    let width = lines[0].chars().count();
    assert!(rows.iter().all(|row| row.chars().count() == width), "{text}");
    assert!(table(&trained(&one_feature)).contains("Note: 1 of 2 values"));
}

#[test]
fn before_training_there_are_bounds_for_each_rank() {
    use serde_json::json;
    let with_classes =
        json!({"schema": 1, "kind": "assess", "classes": 2, "x_pas": small()["x_pas"]});
    let of = |case: &serde_json::Value, before| match assessed(&case.to_string(), before, 1, &[])
        .unwrap()
    {
        CaseAssessment::Untrained(found) => found,
        CaseAssessment::Trained(found) => panic!("{found:?}"),
    };
    let found = of(&with_classes, None);
    assert_eq!(found.bounds, of(&small(), Some(2)).bounds);
    // At the rank of a model that is trained, its own bounds; at rank 0 nothing is known.
    let (trained, last) = (trained(&small()).assessment, &found.bounds.by_rank[1]);
    assert_eq!(
        (last.rank, last.nul, last.lb_ls, last.ub_ls, last.lb_half_star, last.ub_half_star),
        (
            trained.rank,
            trained.nul,
            trained.lb_ls,
            trained.ub_ls,
            trained.lb_half_star,
            trained.ub_half_star
        )
    );
    for (found, trained) in [
        (last.lb_informed_linear, trained.lb_informed_linear),
        (last.ub_informed_linear, trained.ub_informed_linear),
        (found.bounds.mse_informed_control, trained.mse_informed_control),
    ] {
        assert!((found - trained).abs() < 1e-15, "{found} {trained}");
    }
    let none = &found.bounds.by_rank[0];
    assert!(
        (none.lb_ls - trained.mse_zero).abs() < 1e-12
            && (none.ub_half_star - trained.mse_half).abs() < 1e-12
    );
    let many = of(&small(), Some(9)).bounds.by_rank;
    assert_eq!((many.len(), many[3].nul, many[3].ub_ls), (4, 0, 0.0));
    let text = bounds_table(&found);
    let rows: Vec<&str> = text.lines().filter(|line| line.len() == 92).collect();
    assert!(rows.len() >= 3, "{text}");
    for (classes, said) in [(0, "at least 2 classes"), (1, "at least 2 classes")] {
        assert!(assessed(&small().to_string(), Some(classes), 1, &[]).unwrap_err().contains(said));
    }
}

/// Bits come from the option, else from the case, else from the number of classes.
#[test]
fn bits_are_asked_for_in_three_ways() {
    let bits = |found: CaseAssessment| match found {
        CaseAssessment::Trained(found) => {
            found.informed_bits.iter().map(|b| b.bits).collect::<Vec<_>>()
        }
        CaseAssessment::Untrained(found) => panic!("{found:?}"),
    };
    let (mut case, asked) = (small(), |case: &serde_json::Value, bits: &[f64]| {
        assessed(&case.to_string(), None, 1, bits)
    });
    assert_eq!(bits(asked(&case, &[]).unwrap()), [1.0, 5.0, 10.0]);
    case["bits"] = serde_json::json!([0.5]);
    assert_eq!(bits(asked(&case, &[]).unwrap()), [0.5]);
    assert_eq!(bits(asked(&case, &[3.0, 2.0]).unwrap()), [3.0, 2.0]);
    case["bits"] = serde_json::json!([]);
    assert!(bits(asked(&case, &[]).unwrap()).is_empty());
    let (label, ranking) = (6f64.log2(), 720f64.log2());
    let usual = usual_bits(6);
    assert_eq!(usual.len(), 5);
    for (got, want) in usual.iter().zip([1.0, label, 5.0, ranking, 10.0]) {
        assert!((got - want).abs() < 1e-12, "{usual:?}");
    }
    for refused in [&[-1.0][..], &[f64::NAN], &[f64::INFINITY]] {
        assert!(asked(&case, refused).unwrap_err().contains("finite and at least 0"));
    }
    assert!(asked(&case, &[1.0; 65]).unwrap_err().contains("at most 64"));
    let untrained =
        serde_json::json!({"schema": 1, "kind": "assess", "classes": 2, "x_pas": [[0.5]]});
    assert!(asked(&untrained, &[1.0]).unwrap_err().contains("--bits needs `w_pas`"));
}

/// The table has a row for each number of bits, as wide as its head, between the control and exact scores.
#[test]
fn the_table_says_what_bits_leave() {
    let mut case = small();
    case["x_pas"] =
        serde_json::json!([[0.2, 0.9, 0.1], [0.4, 0.1, 1.0], [0.9, 0.3, 0.6], [0.1, 0.2, 0.3]]);
    let found = trained(&case);
    let (a, text) = (&found.assessment, table(&found));
    let lines: Vec<&str> =
        text.lines().skip_while(|line| !line.contains("bits     at least")).collect();
    assert!(lines.len() > 3, "{text}");
    for (line, bound) in lines[1..].iter().zip(&found.informed_bits) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let risk = format!("{:.1}", 100.0 * bound.added_risk.unwrap());
        assert_eq!(
            cells,
            [&*format!("{:.6}", bound.bits), &*format!("{:.6}", bound.mse), &*risk, "%"],
            "{text}"
        );
        assert_eq!(line.len(), lines[0].len(), "{text}");
        assert!(a.mse_informed_linear < bound.mse && bound.mse < a.mse_informed_control, "{text}");
    }
    let risk = 100.0 * (1.0 - a.mse_informed_linear / a.mse_informed_control);
    assert!(text.contains(&format!("Exact scores take {risk:.1} % of its error away")), "{text}");
    assert!(text.contains("proved for Gaussian features"), "{text}");
    // No feature varies: there is no ratio to tell.
    case["x_pas"] = serde_json::json!([[0.2, 0.9, 0.1]]);
    let still = table(&trained(&case));
    assert!(
        !still.contains("of its error away") && still.contains("    0.000000              -"),
        "{still}"
    );
}
