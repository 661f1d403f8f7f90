//! The inference of schemas.

#![allow(clippy::unwrap_used)]
use super::*;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::data::{CsvDialect, DecimalMark, Limits};

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
    let text = infer(&csv, &asked).unwrap().text;
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
        let guess = infer(&csv, &Inference::default()).unwrap().text;
        std::fs::write(&schema, &guess).unwrap();
        let table = FeatureTable::from_csv(&schema, &csv)
            .unwrap_or_else(|e| panic!("{first}: {e}\n{guess}"));
        let [feature] = table.schema().features() else { panic!("one feature") };
        assert_eq!(feature.step, proposed, "{first}");
    }
}

#[test]
fn a_long_tail_is_noted_and_the_line_that_is_proposed_is_taken() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let tail = |i: u32| f64::from(i).exp2();
    let rows: String = (1..=50)
        .map(|i| format!("r{i},{},{},{i}.5,{}\n", tail(i), tail(i) - 2.0, -tail(i)))
        .collect();
    std::fs::write(&file, format!("id,income,gain,flat,below\n{rows}")).unwrap();
    let guess = infer(file.path(), &Inference::default()).unwrap();
    let notes: Vec<_> = guess.notes.iter().filter(|note| note.contains("scale")).collect();
    let [income, gain] = notes[..] else { panic!("{notes:?}") };
    assert!(income.starts_with("income: ") && income.contains("`scale = \"log\"`"), "{income}");
    assert!(gain.starts_with("gain: ") && gain.contains("`scale = { yeo_johnson = 0 }`"), "{gain}");
    let with = guess.text.replace("name = \"income\"\n", "name = \"income\"\nscale = \"log\"\n");
    let with = with.replace("name = \"gain\"\n", "name = \"gain\"\nscale = { yeo_johnson = 0 }\n");
    let read = FeatureSchema::from_toml(&with).unwrap();
    assert!(read.features()[..2].iter().all(|feature| feature.scale.is_some()));
}

#[test]
fn a_file_that_is_no_table_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let names: String = (0..60).map(|i| format!("r{i};{i},5;person {i}\n")).collect();
    let commas: String = (0..60).map(|i| format!("r{i};{i},5\n")).collect();
    let codes: String = (0..60).map(|i| format!("r{i};{i}\n")).collect();
    for (text, label, says) in [
        ("customer\nc1\n".to_owned(), None, "no column beside"),
        ("c1,1.5,clerk\nc2,2.5,clerk\n".into(), None, "a third of the columns or more"),
        (
            format!("id;f;g\n{names}"),
            None,
            "column \"f\" has more than 50 different texts, most of",
        ),
        (format!("id;name\n{codes}"), Some("name"), "is it a number?"),
        ("c1,1.5,1.5\nc2,2.5,2.5\n".into(), None, "a third of the columns"),
        (format!("id;pay\n{codes}r;old\n"), None, "60 values are numbers and 1 are text"),
        (format!("id;pay\n{commas}r;1\n"), None, "most of them digits with one comma"),
        (format!("id;code\n{}", codes.replace(';', ";x")), None, "are of less than half"),
    ] {
        std::fs::write(file.path(), text).unwrap();
        let asked = Inference { label: label.map(str::to_owned), ..Default::default() };
        let error = infer(file.path(), &asked).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("person"), "{error}");
    }
}

/// Decimal commas, marks of missing values and rare texts are read, and what may be wrong is noted.
#[test]
fn awkward_columns_get_a_rule_or_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
    let mut text = "id;row;pay;city;mixed;when;size\n".to_owned();
    for i in 0..100 {
        let city = match i {
            0..40 => "Paris".to_owned(),
            40..70 => "Rome".to_owned(),
            _ => format!("town {i}"),
        };
        let (pay, when) =
            if i == 7 { ("NA", "n/a") } else { (["1,5", "2,25"][i % 2], "2020-01-06") };
        let mixed = if i == 3 { "unknown".to_owned() } else { (i % 5).to_string() };
        text += &format!("{i}.0;{};{pay};{city};{mixed};{when};{},5\n", i + 1, i % 3);
    }
    std::fs::write(&csv, text).unwrap();
    let dialect = CsvDialect { separator: None, decimal: DecimalMark::Comma };
    let file = TableFile { path: &csv, dialect };
    let asked = Inference { max_categories: Some(6), ..Default::default() };
    // The marks of a column of text are texts.
    let InferredSchema { text, notes } = infer(file, &asked).unwrap();
    let says = [
        "id: 100 ids are whole numbers with `.0`",
        "row: each value is the one before and 1, as row numbers are. Leave it out.",
        "pay: 1 of 100 records have no value. They count as `missing` says",
        "city: 32 different texts. The 2 commonest are categories. The 30 records of the others",
        "mixed: 99 records are numbers and 1 are text. All count as text.",
        "when: 1 of 100 records have no value. They count as `missing` says",
    ];
    for (note, says) in notes.iter().zip(says) {
        assert!(note.starts_with(says), "{note}");
        assert!(text.contains(&format!("# {note}\n")), "{text}");
    }
    assert_eq!(notes.len(), says.len(), "{notes:?}");
    assert!(text.contains("\"other\"]\nother = \"other\"\n"), "{text}");
    std::fs::write(&schema, &text).unwrap();
    let table = FeatureTable::from_csv_with(&schema, &csv, dialect, &Limits::default()).unwrap();
    let names: Vec<_> = table.schema().features().iter().map(|f| f.name.as_str()).collect();
    let place = |name: &str| names.iter().position(|n| *n == name).unwrap();
    let sum = |name: &str| table.block().matrix().row(place(name)).sum();
    assert_eq!([sum("city=Paris"), sum("city=Rome"), sum("city=other")], [40.0, 30.0, 30.0]);
    assert_eq!([sum("pay is missing"), sum("when is missing")], [1.0, 1.0]);
    // Without the option the numbers are text, and the note says so.
    let asked = Inference { max_categories: Some(40), ..Default::default() };
    let InferredSchema { notes, .. } = infer(&csv, &asked).unwrap();
    for says in ["size: 100 of 100 texts are digits with one", "pay: 99 of 100 texts are digits"] {
        assert!(notes.iter().any(|note| note.starts_with(says)), "{notes:?}");
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
    let text = infer(&csv, &Inference::default()).unwrap().text;
    assert!(text.contains("# opened: 1 of 3 records have no value. They count as `missing` says"));
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
    let text = infer(&csv, &Inference { features, ..Default::default() }).unwrap().text;
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
    let text = infer(&csv, &Inference::default()).unwrap().text;
    assert!(
        text.contains("# f: 1 of 4 records have no value. They count as `missing` says"),
        "{text}"
    );
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

/// A column of one common text and many rare ones is kept, however many there are.
#[test]
fn one_common_text_makes_a_category() {
    let dir = tempfile::tempdir().unwrap();
    let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
    let town = |i| if i % 10 == 0 { format!("town {i}") } else { "Paris".to_owned() };
    let rows: String = (0..30_000).map(|i| format!("r{i},{},NA\n", town(i))).collect();
    std::fs::write(&csv, format!("id,city,mark\n{rows}")).unwrap();
    let InferredSchema { text, notes } = infer(&csv, &Inference::default()).unwrap();
    let says =
        "city: more than 2000 different texts. The 1 commonest are categories. The 3000 records";
    assert!(notes.iter().any(|note| note.starts_with(says)), "{notes:?}");
    assert!(!notes.iter().any(|note| note.starts_with("city: all")), "{notes:?}");
    // A column of marks alone is one of text.
    assert!(
        notes.iter().any(|note| note.starts_with("mark: all records have the same")),
        "{notes:?}"
    );
    std::fs::write(&schema, text).unwrap();
    let table = FeatureTable::from_csv(&schema, &csv).unwrap();
    assert_eq!(table.block().matrix().row(1).sum(), 3000.0);
    // As many categories as are asked for, beyond those that are counted by default.
    let rows: String = (0..6000).map(|i| format!("r{i},t{}\n", i % 3000)).collect();
    std::fs::write(&csv, format!("id,code\n{rows}")).unwrap();
    let asked = Inference { max_categories: Some(4000), ..Default::default() };
    std::fs::write(&schema, infer(&csv, &asked).unwrap().text).unwrap();
    assert_eq!(FeatureTable::from_csv(&schema, &csv).unwrap().schema().len(), 3000);
}
