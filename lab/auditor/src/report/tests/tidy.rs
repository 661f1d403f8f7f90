//! The table of all figures, read back and compared with the JSON document.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fixture;
use crate::report::{Report, render_csv, worst};

type Row = BTreeMap<String, String>;

fn read(text: &str) -> Vec<Row> {
    csv::Reader::from_reader(text.as_bytes()).deserialize().map(Result::unwrap).collect()
}

fn number(text: &str) -> Option<f64> {
    (!text.is_empty()).then(|| text.parse().unwrap())
}

/// Metric, party, position of the feature, value, sigma.
type Figure = (String, String, Option<usize>, Option<f64>, Option<f64>);

/// Figures of one reconstruction in the JSON.
fn figures(errors: &Value) -> Vec<Figure> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
    let mut all =
        vec![("mse".into(), String::new(), None, errors["mse"].as_f64(), errors["sigma"].as_f64())];
    for part in list(&errors["per_party"]) {
        all.push((
            "mse".into(),
            text(&part["party"]),
            None,
            part["mse"].as_f64(),
            part["sigma"].as_f64(),
        ));
    }
    for (i, mse) in list(&errors["per_feature"]).iter().enumerate() {
        all.push((
            "mse".into(),
            String::new(),
            Some(i),
            mse.as_f64(),
            errors["per_feature_sigma"][i].as_f64(),
        ));
    }
    for metric in list(&errors["metrics"]) {
        let name = text(&metric["name"]);
        all.push((
            name.clone(),
            String::new(),
            None,
            metric["value"].as_f64(),
            metric["sigma"].as_f64(),
        ));
        for part in list(&metric["per_party"]) {
            all.push((
                name.clone(),
                text(&part["party"]),
                None,
                part["value"].as_f64(),
                part["sigma"].as_f64(),
            ));
        }
    }
    all
}

/// The rows of an attack's figures by attribute: the attack's figure is the value, the control's stands beside it.
fn attribute_rows<'a>(attack: &Value, rows: &mut impl Iterator<Item = &'a Row>) {
    let mut expect = |metric: &str, value: &Value, ends: [&Value; 3]| {
        let row = rows.next().unwrap();
        assert_eq!((row["metric"].as_str(), number(&row["value"])), (metric, value.as_f64()));
        for (column, end) in ["control", "low", "high"].into_iter().zip(ends) {
            assert_eq!(number(&row[column]), end.as_f64(), "{column} of {row:?}");
        }
    };
    let null = &Value::Null;
    if attack["certain"].is_number() {
        expect("certain", &attack["certain"], [null; 3]);
    }
    for of in attack["attributes"].as_array().into_iter().flatten().map(|of| &of["figures"]) {
        for metric in ["removed", "removed_ranks"] {
            expect(metric, &of[metric]["value"], [null, &of[metric]["low"], &of[metric]["high"]]);
        }
        let event = &of["event"];
        expect("event_named", &event["named"], [null; 3]);
        expect("event_having", &event["having"], [null; 3]);
        for (metric, both) in [
            ("error_in_variances", &of["error"]),
            ("event_right", event),
            ("within_tolerance", &of["within"]["share"]),
            ("rebuilt_exactly", &of["exact"]),
            ("error_percentile_1", &of["percentile_1"]),
            ("error_percentile_5", &of["percentile_5"]),
        ] {
            expect(metric, &both["attack"], [&both["control"], null, null]);
        }
    }
}

/// Walks the JSON by itself and finds the same figures in the same order, each once, and none beside them.
fn agrees(report: &Report) {
    let document: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let rows = read(&render_csv(report).unwrap());
    let mut rows = rows.iter();
    for (audit, of) in document["audits"].as_array().unwrap().iter().zip(&report.audits) {
        let utility = audit["utility"].as_object().unwrap();
        for _ in utility {
            let row = rows.next().unwrap();
            assert_eq!(number(&row["value"]), utility[&row["metric"]].as_f64());
            assert!(row["attack"].is_empty() && row["party"].is_empty());
        }
        let guesses = [&audit["baselines"]["half"], &audit["baselines"]["column_mean"]]
            .map(|e| (e, &Value::Null));
        let ran = audit["attacks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|attack| attack["outcome"]["ran"].is_object());
        let attacks = ran.map(|attack| (&attack["outcome"]["ran"]["errors"], attack));
        for (errors, attack) in guesses.into_iter().chain(attacks) {
            let risk = &attack["added_risk"];
            for (i, (metric, party, feature, value, sigma)) in
                figures(errors).into_iter().enumerate()
            {
                let row = rows.next().unwrap();
                assert_eq!(
                    (&row["metric"], number(&row["value"]), number(&row["sigma"])),
                    (&metric, value, sigma)
                );
                assert_eq!(row["feature"].is_empty(), feature.is_none(), "{row:?}");
                // Names come without control characters.
                assert!(
                    feature.is_some() || row["party"].chars().count() == party.chars().count(),
                    "{row:?} {party}"
                );
                for (column, key) in [
                    ("control", "control_mse"),
                    ("added_risk", "value"),
                    ("low", "low"),
                    ("high", "high"),
                ] {
                    let expected = if i == 0 { risk[key].as_f64() } else { None };
                    assert_eq!(number(&row[column]), expected, "{column} of {row:?}");
                }
            }
            attribute_rows(attack, &mut rows);
        }
        if worst(&[of], None).is_some() {
            let row = rows.next().unwrap();
            assert!(row["metric"] == "added_risk" && !row["feature"].is_empty());
        }
        // In these documents both halves of the records choose the same attack: the verdict's figure is that attack's.
        if of.added_risk().is_some() {
            let row = rows.next().unwrap();
            assert_eq!(row["metric"], "added_risk");
            let mut attacks = audit["attacks"].as_array().unwrap().iter();
            let risk =
                &attacks.find(|a| a["name"] == row["attack"].as_str()).unwrap()["added_risk"];
            for (column, key) in [
                ("value", "value"),
                ("control", "control_mse"),
                ("added_risk", "value"),
                ("high", "high"),
            ] {
                assert_eq!(number(&row[column]), risk[key].as_f64(), "{column} of {row:?}");
            }
        }
    }
    assert_eq!(rows.next(), None);
}

#[test]
fn every_figure_of_the_document_is_a_row_and_no_other() {
    for report in [fixture::report(), fixture::informed(), fixture::hostile()] {
        agrees(&report);
    }
}

#[test]
fn rows_name_surface_defense_adversary_party_and_feature() {
    let rows = read(&render_csv(&fixture::informed()).unwrap());
    let row =
        rows.iter().find(|r| r["attack"] == "posterior_mean" && r["feature"] == "red_1").unwrap();
    let of = |column: &str| row[column].as_str();
    assert_eq!(
        ["surface", "defense", "knowledge", "metric", "party"].map(of),
        ["score vector", "none", "informed", "mse", "insurer"]
    );
    let labels: Vec<&Row> = rows.iter().filter(|row| row["defense"] == "class_label").collect();
    assert!(labels.iter().all(|row| row["surface"] == "class label") && !labels.is_empty());
}

#[test]
fn a_name_is_no_formula_and_no_control_character() {
    let mut report = fixture::report();
    report.audits[0].attacks[3].name = "=1+1,\"x\"\n".into();
    let text = render_csv(&report).unwrap();
    assert!(read(&text).iter().any(|row| row["attack"] == "'=1+1,\"x\"\u{fffd}"), "{text}");
    assert!(text.starts_with("surface,defense,knowledge,attack,") && text.contains("\r\n"));
}
