//! Case files of the offline commands: parsed, checked, and where they are small enough run, since solvers on hostile numbers are what
//! is likeliest to hang.

use std::io;
use std::path::Path;

use clap::Parser;
use serde_json::Value;
use vfl_active_party::cli::attack_case;
use vfl_attack::{Method, Settings};
use vfl_coordinator::cli::DefendArgs;
use vfl_core::model::{NetworkFile, ParameterFile};
use vfl_core::types::RecordIds;
use vfl_passive_party::cli::{assess_case, transform_case};

use crate::echo::Contents;
use crate::input::{bounded, parts};
use crate::shows_no_value;

/// The letter of a command (`a`ttack, `t`ransform, a`s`sess, `d`efend, import-`p`arameters, the same of a `n`etwork), a byte that chooses among its methods, then parts with zero bytes
/// between them: the case file and settings, one `key=value` a line; for `defend` the scores, the policy, settings, the case and the
/// labels.
///
/// # Panics
/// If a command shows a feature, a score or a parameter in its refusal, or gives out what is not a finite number.
pub fn case_files(data: &[u8]) {
    let [command, choice, rest @ ..] = bounded(data) else { return };
    match command {
        b'a' => attack(*choice, rest),
        b't' => transform(*choice, rest),
        b's' => assess(*choice, rest),
        b'd' => defend(*choice, rest),
        b'p' => parameters(rest),
        b'n' => network(rest),
        _ => {}
    }
}

/// What is small enough to be run on.
struct Size {
    /// Of W_pas.
    rows: usize,
    columns: usize,
    /// All of the file.
    numbers: usize,
}

impl Size {
    fn of(case: &Value, contents: &Contents) -> Self {
        let rows = case["w_pas"].as_array().map_or(0, Vec::len);
        let widest = |key: &str| {
            let rows = case[key].as_array().into_iter().flatten();
            rows.filter_map(|row| row.as_array().map(Vec::len)).max().unwrap_or(0)
        };
        // Of networks: an image may be large where the parameters are few.
        let parts = case["networks"]["passive"].as_array().into_iter().flatten();
        let inputs = parts.filter_map(|part| part["features"].as_u64()).max().unwrap_or(0);
        let columns =
            widest("w_pas").max(widest("x_pas")).max(usize::try_from(inputs).unwrap_or(usize::MAX));
        Self { rows, columns, numbers: contents.numbers.len() }
    }

    fn within(&self, rows: usize, columns: usize, numbers: usize) -> bool {
        self.rows <= rows && self.columns <= columns && self.numbers <= numbers
    }
}

/// Key and value of each line.
fn settings(bytes: &[u8]) -> Vec<(&str, &str)> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('=')).collect()
}

fn json(content: &[u8]) -> Value {
    serde_json::from_slice(content).unwrap_or_else(|e| panic!("the output is no JSON: {e}"))
}

/// Checks that no `null`, which stands for what is not finite, is anywhere in a part of an output.
fn finite(output: &Value) {
    match output {
        Value::Null => panic!("a number of the output is not finite"),
        Value::Array(all) => all.iter().for_each(finite),
        Value::Object(all) => all.values().for_each(finite),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn attack(choice: u8, rest: &[u8]) {
    let [text, set] = parts(rest);
    let Ok(text) = std::str::from_utf8(text) else { return };
    // What is no JSON at all is for the parser alone.
    let case: Value = serde_json::from_str(text).unwrap_or_default();
    let contents = Contents::of(&case);
    // A user may ask for a million steps or epochs; the fuzzer waits for none of them.
    let most = |key: &str| match key {
        "steps" => Some(100),
        "epochs" => Some(3),
        _ => None,
    };
    let capped = |(key, value): &(&str, &str)| {
        most(key.trim()).is_none_or(|most| value.parse().is_ok_and(|got: u32| got <= most))
    };
    let pairs = [("steps", "50"), ("epochs", "2")]
        .into_iter()
        .chain(settings(set).into_iter().filter(capped));
    let Ok(settings) = Settings::read(pairs) else { return };
    let methods: Vec<Method> = Method::on_one_release().chain([Method::Agnostic]).collect();
    // The others are costly on what is larger; everything of the file is read and checked in any case.
    let small = Size::of(&case, &contents).within(5, 6, 120);
    let method = if small { methods[usize::from(choice) % methods.len()] } else { Method::Zero };
    let names: &[Method] = if case["kind"] == "attack" { &[method] } else { &[] };
    match attack_case(text, names, &settings, 1) {
        Ok(content) => {
            let output = json(&content);
            for attack in output["attacks"].as_array().into_iter().flatten() {
                let estimates = attack["estimates"].as_array().into_iter().flatten();
                estimates.for_each(|estimate| finite(&estimate["x"]));
            }
            finite(&output["w_pas"].as_array().map_or(Value::Bool(true), |w| w.clone().into()));
        }
        Err(reason) => {
            contents.are_not_in(&reason, &[std::str::from_utf8(set).unwrap_or_default()])
        }
    }
}

const TRANSFORMS: [&str; 10] = [
    "none",
    "negate",
    "complement",
    "permute",
    "selective",
    "random_orthonormal",
    "least_squares_optimal",
    "stiefel",
    "single_feature",
    "binary",
];

fn transform(choice: u8, rest: &[u8]) {
    let [text, set] = parts(rest);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let case: Value = serde_json::from_str(text).unwrap_or_default();
    let contents = Contents::of(&case);
    if !Size::of(&case, &contents).within(6, 8, 150) {
        return;
    }
    let named = usize::from(choice).checked_sub(1).map(|at| TRANSFORMS[at % TRANSFORMS.len()]);
    let mut pairs: Vec<String> =
        settings(set).iter().map(|(key, value)| format!("{key}={value}")).collect();
    if named.or(case["transform"].as_str()) == Some("stiefel") {
        // The last counts: a search from two starts shows what one from a thousand does.
        pairs.push("starts=2".into());
    }
    match transform_case(text, named, &pairs, Some(1), choice.is_multiple_of(2)) {
        Ok((content, summary)) => {
            finite(&json(&content));
            assert!(!summary.is_empty());
            contents.are_not_in(&summary, &[set_text(set)]);
        }
        Err(reason) => contents.are_not_in(&reason, &[set_text(set)]),
    }
}

fn set_text(set: &[u8]) -> &str {
    std::str::from_utf8(set).unwrap_or_default()
}

fn assess(choice: u8, rest: &[u8]) {
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let case: Value = serde_json::from_str(text).unwrap_or_default();
    let contents = Contents::of(&case);
    if !Size::of(&case, &contents).within(4, 5, 60) {
        return;
    }
    let before = (choice > 0).then_some(usize::from(choice));
    match assess_case(text, before, 1) {
        Ok((content, table)) => {
            let mut output = json(&content);
            // A transform without a distance has none.
            for candidate in
                output.get_mut("candidates").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if let Some(candidate) = candidate.as_object_mut() {
                    candidate.remove("epsilon");
                }
            }
            finite(&output);
            assert!(table.contains("half_star"));
        }
        Err(reason) => contents.are_not_in(&reason, &[]),
    }
}

#[derive(Debug, Parser)]
struct Defend {
    #[command(flatten)]
    args: DefendArgs,
}

fn defend(choice: u8, rest: &[u8]) {
    let [scores, policy, set, case, labels] = parts(rest);
    let (Ok(policy), Ok(set)) = (std::str::from_utf8(policy), std::str::from_utf8(set)) else {
        return;
    };
    let (columns, records) = shape(scores);
    if columns > 12 || records > 120 {
        return;
    }
    let mut words = vec!["defend".to_owned(), "--scores=scores.csv".into(), "--out=-".into()];
    words.extend(policy.lines().map(|line| format!("--defense={line}")));
    words.extend(set.lines().map(|line| format!("--set={line}")));
    if !case.is_empty() {
        words.push("--parameters=case.json".into());
    }
    if !labels.is_empty() {
        words.push("--labels=labels.csv".into());
    }
    if choice > 0 {
        words.push(format!("--top={choice}"));
    }
    let Ok(Defend { args }) = Defend::try_parse_from(words) else { return };
    let read = |path: &Path| match path.to_str() {
        Some("scores.csv") => Ok(scores.to_vec()),
        Some("case.json") => Ok(case.to_vec()),
        Some("labels.csv") => Ok(labels.to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    match args.answer(&read) {
        Ok((content, report)) => {
            assert!(report.contains("Promised"), "{report}");
            released(scores, &content);
        }
        Err(reason) => {
            let text = String::from_utf8_lossy(scores);
            let header = text.lines().next().unwrap_or_default();
            let rows = text.split(['\n', '\r']).skip(1).flat_map(|line| line.split([',', '"']));
            // A key of the case may be shown, whatever it is.
            let keys = String::from_utf8_lossy(case);
            shows_no_value(&reason, rows, &[policy, set, header, &keys]);
            Contents::of(&serde_json::from_slice(case).unwrap_or_default())
                .are_not_in(&reason, &[policy, set, header]);
        }
    }
}

/// A file of a network, written and read again. Metadata are shown in errors; numbers, which are not text, are not.
fn network(rest: &[u8]) {
    let Ok(file) = NetworkFile::parse(rest) else { return };
    let written = file.to_bytes().unwrap_or_else(|e| panic!("a network is not written: {e}"));
    let again = NetworkFile::parse(&written)
        .unwrap_or_else(|e| panic!("a network does not read back: {e}"));
    assert!(again == file, "what is written is not what was read");
    let kept = file.with_features(file.feature_names());
    assert!(kept.is_ok_and(|kept| kept == file), "its own names are refused");
}

/// A parameter file, written and read again, and taken apart.
fn parameters(rest: &[u8]) {
    let file = match ParameterFile::parse(rest) {
        Ok(file) => file,
        Err(error) => {
            let contents = Contents::of(&serde_json::from_slice(rest).unwrap_or_default());
            return contents.are_not_in(&error.to_string(), &[]);
        }
    };
    let same =
        |other: &ParameterFile, what: &str| assert!(other == &file, "{what} is not what was read");
    let again = ParameterFile::parse(&file.to_json())
        .unwrap_or_else(|e| panic!("a parameter file does not read back: {e}"));
    same(&again, "what is written");
    let turned = |names: &[String]| names.iter().rev().cloned().collect::<Vec<_>>();
    let (classes, features) = (file.class_names().to_vec(), file.feature_names().to_vec());
    let there = file
        .with_classes(&turned(&classes))
        .and_then(|file| file.with_features(&turned(&features)));
    let back = there
        .and_then(|file| file.with_classes(&classes))
        .and_then(|file| file.with_features(&features));
    same(
        &back.unwrap_or_else(|e| panic!("its own names are refused: {e}")),
        "the file turned round twice",
    );
    let ranges = vec![(0.0, 1.0); features.len()];
    match file.rescaled(&ranges) {
        Ok(rescaled) => same(&rescaled, "the file at ranges from 0 to 1"),
        Err(error) => assert!(file.bias().is_none(), "{error}"),
    }
    if let Some(half) = features.get(..features.len() / 2) {
        assert!(
            file.part(half).is_ok_and(|part| part.bias().is_none() && part.feature_names() == half)
        );
    }
    let parameters =
        file.parameters().unwrap_or_else(|e| panic!("what was checked is refused: {e}"));
    assert_eq!((parameters.classes(), parameters.features()), (classes.len(), features.len()));
}

/// Columns and lines of a CSV text, roughly.
fn shape(text: &[u8]) -> (usize, usize) {
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    let fields = |line: &[u8]| line.iter().filter(|byte| **byte == b',').count() + 1;
    lines.fold((0, 0), |(columns, records), line| (columns.max(fields(line)), records + 1))
}

/// Checks a file that was released: the records and classes of the scores, and finite numbers.
fn released(scores: &[u8], content: &[u8]) {
    let read = |text: &[u8]| -> Vec<Vec<String>> {
        let rows = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(text)
            .into_records();
        rows.map_while(Result::ok)
            .map(|row| row.iter().map(|field| field.trim().to_owned()).collect())
            .collect()
    };
    let (given, out) = (read(scores), read(content));
    assert_eq!(given.len(), out.len());
    for (given, out) in given.iter().zip(&out).skip(1) {
        assert_eq!((given.len(), given.first()), (out.len(), out.first()));
        assert!(
            out.iter().skip(1).all(|field| field.parse::<f64>().is_ok_and(f64::is_finite)),
            "{out:?}"
        );
    }
    assert!(RecordIds::new(out.iter().skip(1).filter_map(|row| row.first())).is_ok());
}
