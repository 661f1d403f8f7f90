//! The inference of schemas.

#![allow(clippy::unwrap_used)]
use super::*;
use vfl_core::data::table::{FeatureStore, FeatureTable};

#[test]
fn a_guess_reads_its_own_file() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
    std::fs::write(
        &csv,
        "customer,income,phone,degree,job,outcome\nc1,1.5,0,3,clerk,no\nc2,-2.25,1,1,\"a \"\"b\"\"\",yes\nc3,7,1,2,,no\n",
    )
    .unwrap();
    let asked = Inference { label: Some("outcome".into()), ..Default::default() };
    let text = infer(&csv, &asked).unwrap();
    assert!(text.contains("disclose the extremes"), "{text}");
    std::fs::write(&schema, &text).unwrap();
    let table = FeatureTable::from_csv(&schema, &csv).unwrap();
    let read = FeatureSchema::from_toml(&text).unwrap();
    let kinds: Vec<_> =
        read.features().iter().map(|f| (f.name.as_str(), f.kind, f.min, f.max)).collect();
    use FeatureKind::{Binary, Numeric, Ordinal};
    let jobs = ["job=a \"b\"", "job=clerk", "job=missing"].map(|name| (name, Binary, 0.0, 1.0));
    assert_eq!(
        kinds[..3],
        [
            ("income", Numeric, -2.25, 7.0),
            ("phone", Binary, 0.0, 1.0),
            ("degree", Ordinal, 1.0, 3.0)
        ]
    );
    assert_eq!(kinds[3..], jobs);
    assert_eq!(table.labels(), Some(&[0, 1, 0][..]));
    assert_eq!(read.label().unwrap().classes, ["no", "yes"]);
    let steps: Vec<_> = read.features()[..3].iter().map(|f| f.step).collect();
    assert_eq!(steps, [Some(0.01), None, Some(1.0)]);
    for (asked, says) in [
        (Inference { id: Some("x".into()), ..Default::default() }, "no column \"x\""),
        (
            Inference { id: Some("phone".into()), max_categories: Some(2), ..Default::default() },
            "\"customer\" has more",
        ),
    ] {
        assert!(infer(&csv, &asked).unwrap_err().to_string().contains(says));
    }
}

/// Whatever numbers a file holds, its guessed schema reads it: a step that round-off would lose
/// is not proposed.
#[test]
fn a_guess_reads_its_own_file_whatever_the_size_of_its_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
    for (first, step, steps, decimals, proposed) in [
        (-122.6, 1e-6, 997, 6, Some(1e-6)),
        (1_000_000.01, 0.01, 9973, 2, Some(0.01)),
        (4_500_000.12, 0.01, 99_991, 2, Some(0.01)),
        (1_700_000_000.0, 0.001, 3_599_999, 3, Some(0.001)),
        (1e15, 0.01, 9973, 2, None),
    ] {
        let mut text = "id,f\n".to_owned();
        for i in 0..1500 {
            let value = first + step * (f64::from(i) * f64::from(steps) / 1499.0).round();
            text.push_str(&format!("r{i},{value:.decimals$}\n"));
        }
        std::fs::write(&csv, text).unwrap();
        let guess = infer(&csv, &Inference::default()).unwrap();
        std::fs::write(&schema, &guess).unwrap();
        let table = FeatureTable::from_csv(&schema, &csv)
            .unwrap_or_else(|e| panic!("{first}: {e}\n{guess}"));
        let [feature] = table.schema().features() else { panic!("one feature") };
        assert_eq!(feature.step, proposed, "{first}");
    }
}

#[test]
fn a_file_without_columns_is_no_table() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for (text, says) in [
        ("customer;x;name\nc1;1;Person 1\n", "semicolons"),
        ("customer\tx\nc1\t1\n", "tabs"),
        ("customer|x\nc1|1\n", "bars"),
        ("customer\nc1\n", "no column beside"),
    ] {
        std::fs::write(file.path(), text).unwrap();
        let error = infer(file.path(), &Inference::default()).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("Person"), "{error}");
    }
}

/// Dates and truth values are recognised, and a guess of some columns is of those alone.
#[test]
fn dates_and_truth_values_are_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
    let rows = "id,opened,staff,branch,same\n\
                a,2020-01-01,True,Paris,1\nb,2024-01-01,False,Y,1\nc,,no,N,1\n";
    std::fs::write(&csv, rows).unwrap();
    let text = infer(&csv, &Inference::default()).unwrap();
    assert!(text.contains("# opened: 1 of 3 records have no value. They count as \"2022-01-01\""));
    assert!(text.contains("# same: all records have the same value. Leave it out."), "{text}");
    std::fs::write(&schema, &text).unwrap();
    let table = FeatureTable::from_csv(&schema, &csv).unwrap();
    let names: Vec<_> = table.schema().features().iter().map(|f| f.name.as_str()).collect();
    let numbers = ["opened", "opened is missing", "staff"];
    let words = ["branch=N", "branch=Paris", "branch=Y", "same"];
    assert_eq!(names, [&numbers[..], &words].concat());
    let of = |record| table.block().matrix().column(record).iter().copied().collect::<Vec<_>>();
    assert_eq!(of(1), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(of(2)[1..3], [1.0, 0.0]);
    let features = Some(vec!["staff".to_owned()]);
    let text = infer(&csv, &Inference { features, ..Default::default() }).unwrap();
    assert_eq!(FeatureSchema::from_toml(&text).unwrap().len(), 1);
    let features = Some(vec!["stuff".to_owned()]);
    let error = infer(&csv, &Inference { features, ..Default::default() }).unwrap_err();
    assert!(error.to_string().contains("no column \"stuff\""), "{error}");
}

/// A guess has a rule for the values that are missing, and reads its own file.
#[test]
fn missing_values_get_a_rule() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
    let rows = "id,f,flag,word\na,1.5,0,missing\nb,,1,x\nc,2.5,,\nd,3.5,0,x\n";
    std::fs::write(&csv, rows).unwrap();
    let text = infer(&csv, &Inference::default()).unwrap();
    assert!(text.contains("# f: 1 of 4 records have no value. They count as 2.5"), "{text}");
    assert!(text.contains("step = 0.1\nmissing = 2.5\n"), "{text}");
    std::fs::write(&schema, &text).unwrap();
    let table = FeatureTable::from_csv(&schema, &csv).unwrap();
    let names: Vec<_> = table.schema().features().iter().map(|f| f.name.as_str()).collect();
    let words = ["word=missing", "word=x", "word=missing_"];
    let numbers = ["f", "f is missing", "flag", "flag is missing"];
    assert_eq!(names, [&numbers[..], &words].concat());
    let of = |record| table.block().matrix().column(record).iter().copied().collect::<Vec<_>>();
    assert_eq!(of(1), [0.5, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]);
    assert_eq!(of(2), [0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
}
