//! What a parameter file must hold, and what its refusals say.

use proptest::prelude::*;

use super::*;
use crate::data::Scale;
use crate::types::FeatureBlock;

const GOOD: &str = r#"{"schema": 1, "class_names": ["no", "yes", "maybe"], "feature_names": ["age", "job"],
    "weights": [[1, 2.5], [-3e-2, 0.1], [0, -7]], "bias": [0.25, -1, 1e-300]}"#;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn refused(text: &str) -> String {
    ParameterFile::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn every_fault_is_named_with_its_key_and_row() {
    ParameterFile::parse(GOOD.as_bytes()).unwrap();
    for (from, to, says) in [
        ("\"schema\": 1", "\"schema\": 2", &["`schema`", "reads schema 1"][..]),
        ("\"schema\": 1,", "", &["missing field `schema`"]),
        ("\"schema\": 1", "\"schema\": 1, \"units\": \"raw\"", &["unknown field `units`"]),
        ("\"bias\": [", "\"bias\": [1,2,3], \"bias\": [", &["duplicate field `bias`"]),
        ("\"maybe\"", "\"yes\"", &["`class_names`", "`yes` twice"]),
        ("\"maybe\"", "\"\"", &["`class_names`", "name 3"]),
        ("\"job\"", "\"age\"", &["`feature_names`", "`age` twice"]),
        ("\"job\"", "\"jo\\u0007b\"", &["`feature_names`", "name 2", "control characters"]),
        (", [0, -7]", "", &["`weights` has 2 rows for 3 `class_names`"]),
        (
            "[0, -7]",
            "[0]",
            &["`weights`, row 3 (class `maybe`) has 1 numbers for 2 `feature_names`"],
        ),
        ("[0, -7]", "[0, -7, 1]", &["row 3 (class `maybe`) has 3 numbers"]),
        ("-7", "NaN", &["`weights`, row 3 (class `maybe`), feature `job`", "finite"]),
        ("-7", "Infinity", &["row 3 (class `maybe`), feature `job`", "finite"]),
        ("-7", "-Infinity", &["row 3 (class `maybe`), feature `job`", "finite"]),
        ("-7", "null", &["row 3 (class `maybe`), feature `job`", "finite"]),
        ("-7", "1e999", &["out of range", "line 2"]),
        ("-7", "\"-7\"", &["expected a number", "line 2"]),
        (
            "-7",
            "-1.5e6",
            &["row 3 (class `maybe`), feature `job`", "normalised to [0, 1]", "convert"],
        ),
        ("[0.25, -1, 1e-300]", "[0.25, -1]", &["`bias` has 2 numbers for 3 `class_names`"]),
        ("[0.25, -1, 1e-300]", "[0.25, NaN, 0]", &["`bias`, number 2 (class `yes`)", "finite"]),
        ("}", "", &["EOF", "line 2"]),
        ("}", "} x", &["trailing", "line 2"]),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let said = refused(&GOOD.replacen(from, to, 1));
        assert!(says.iter().all(|words| said.contains(words)), "{from} -> {to}: {said}");
        assert!(!said.contains("0.25") && !said.contains("-7"), "no parameter is shown: {said}");
    }
    let one = r#"{"schema":1,"class_names":["a"],"feature_names":["x"],"weights":[[1]]}"#;
    assert!(refused(one).contains("2 to 65536"), "{}", refused(one));
    let long = "x".repeat(257);
    assert!(refused(&GOOD.replacen("job", &long, 1)).contains("256 bytes"));
}

/// A name may hold what would be NaN elsewhere.
#[test]
fn names_stay_as_they_are() {
    let text = GOOD.replacen("job", r#"NaN \\\" Infinity"#, 1).replacen("age", "-Infinity\\\\", 1);
    let file = ParameterFile::parse(text.as_bytes()).unwrap();
    assert_eq!(file.feature_names(), names(&["-Infinity\\", "NaN \\\" Infinity"]));
}

#[test]
fn rows_and_columns_go_by_name() {
    let file = ParameterFile::parse(GOOD.as_bytes()).unwrap();
    let turned = file.with_features(&names(&["job", "age"])).unwrap();
    assert_eq!(turned.weights().column(0), file.weights().column(1));
    assert_eq!(turned.weights().column(1), file.weights().column(0));
    let turned = file.with_classes(&names(&["maybe", "no", "yes"])).unwrap();
    assert_eq!(turned.weights().row(0), file.weights().row(2));
    assert_eq!(turned.bias().unwrap().as_slice(), [1e-300, 0.25, -1.0]);
    let said = file.with_features(&names(&["age", "town"])).unwrap_err().to_string();
    assert!(said.contains("`town` missing, `job` unknown here"), "{said}");
    let said = file.with_features(&names(&["age"])).unwrap_err().to_string();
    assert!(said.contains("`job` unknown here") && !said.contains("missing"), "{said}");
    let said = file.with_classes(&names(&["no", "yes"])).unwrap_err().to_string();
    assert!(said.contains("`class_names`") && said.contains("`maybe` unknown here"), "{said}");
    let many: Vec<String> = (0..9).map(|i| format!("f{i}")).collect();
    let said = file.with_features(&many).unwrap_err().to_string();
    assert!(said.contains("`f4` and 4 more missing"), "{said}");
    let part = file.part(&names(&["job"])).unwrap();
    assert_eq!((part.weights().column(0), part.bias()), (file.weights().column(1), None));
    assert!(file.part(&names(&["town"])).unwrap_err().to_string().contains("`town` missing"));
}

/// One class and no feature: what an active party with labels alone holds.
#[test]
fn a_party_may_hold_no_feature() {
    let text =
        r#"{"schema":1,"class_names":["a","b"],"feature_names":[],"weights":[[],[]],"bias":[1,2]}"#;
    let file = ParameterFile::parse(text.as_bytes()).unwrap();
    assert_eq!(file.parameters().unwrap().features(), 0);
}

#[test]
fn debug_shows_no_value() {
    let shown = format!("{:?}", ParameterFile::parse(GOOD.as_bytes()).unwrap());
    assert_eq!(shown, "ParameterFile(3 × 2 + bias, values withheld)");
}

/// The scale that weights were made for is that of the schema, or every score would be another.
#[test]
fn scales_of_the_file_and_of_the_schema_must_agree() {
    let file = |scales: &str| {
        let text = format!(
            r#"{{"schema": 1, "class_names": ["a", "b"], "feature_names": ["age", "income"],
                "weights": [[0, 0], [0.5, 3]], "bias": [0, 1]{scales}}}"#
        );
        ParameterFile::parse(text.as_bytes())
    };
    let log = r#", "scales": {"income": {"scale": "log", "min": 1, "max": 10000}}"#;
    let logarithm = file(log).unwrap();
    let income =
        FeatureSpec { scale: Some(Scale::Log), ..FeatureSpec::numeric("income", 1.0, 1e4) };
    let features = [FeatureSpec::numeric("age", 20.0, 60.0), income];
    let second = |features: &[FeatureSpec]| {
        let normalised = logarithm.normalised(features).unwrap();
        let weights: Vec<f64> = normalised.weights().row(1).iter().copied().collect();
        (weights[0], weights[1], normalised.bias().unwrap()[1])
    };
    // The weight of a feature with a scale is that of its normalised value, by the file's range.
    assert_eq!(second(&features), (20.0, 3.0, 11.0));
    let wider = FeatureSpec { min: 0.01, max: 1e6, ..features[1].clone() };
    let (age, income, bias) = second(&[features[0].clone(), wider]);
    assert!(age == 20.0 && (income - 6.0).abs() < 1e-12 && (bias - 9.5).abs() < 1e-12);
    let power = Some(Scale::BoxCox(0.5));
    for (file, features) in [
        (file("").unwrap(), features.clone()),
        (logarithm.clone(), [features[0].clone(), FeatureSpec::numeric("income", 1.0, 1e4)]),
        (
            logarithm.clone(),
            [features[0].clone(), FeatureSpec { scale: power, ..features[1].clone() }],
        ),
        (file(&log.replace("\"min\": 1", "\"min\": -1")).unwrap(), features.clone()),
    ] {
        let refused = file.normalised(&features).unwrap_err().to_string();
        assert!(refused.contains("feature `income`: the schema has the scale"), "{refused}");
    }
    let other = file(&log.replace("income", "incme")).unwrap();
    assert!(other.normalised(&features[..1]).unwrap_err().to_string().contains("`incme`"));
    assert!(logarithm.check_normalised().unwrap_err().to_string().contains("--raw"));
    assert!(file(r#", "scales": {"income": "log"}"#).is_err());
    assert!(file(&log.replace("log", "root")).is_err());
}

proptest! {
    #[test]
    fn a_file_comes_back_to_the_bit(k in 2usize..6, d in 0usize..6, values in prop::collection::vec(-1e6f64..1e6, 42)) {
        let weights = DMatrix::from_fn(k, d, |i, j| values[6 * i + j]);
        let bias = DVector::from_fn(k, |i, _| values[36 + i]);
        let classes = (0..k).map(|i| format!("c{i}")).collect();
        let features = (0..d).map(|j| format!("f \"{j}\"")).collect();
        let file = ParameterFile::new(classes, features, weights, Some(bias)).unwrap();
        prop_assert_eq!(ParameterFile::parse(&file.to_json()).unwrap(), file);
    }

    /// The model is the same function of the features in their own units.
    #[test]
    fn rescaling_keeps_every_logit(
        w in prop::collection::vec(-10.0f64..10.0, 9),
        ranges in prop::collection::vec((-100.0f64..100.0, 0.0f64..50.0), 2),
        u in prop::collection::vec(0.0f64..=1.0, 2),
        point in any::<bool>(),
    ) {
        let mut ranges: Vec<(f64, f64)> = ranges.into_iter().map(|(min, width)| (min, min + width)).collect();
        if point {
            ranges[0].1 = ranges[0].0;
        }
        let weights = DMatrix::from_row_slice(3, 2, &w[..6]);
        let bias = DVector::from_row_slice(&w[6..]);
        let raw = ParameterFile::new(names(&["a", "b", "c"]), names(&["x", "y"]), weights.clone(), Some(bias.clone()));
        let unit = raw.unwrap().rescaled(&ranges).unwrap().parameters().unwrap();
        let x = DVector::from_fn(2, |j, _| ranges[j].0 + (ranges[j].1 - ranges[j].0) * u[j]);
        let expected = &weights * x + bias;
        // A range of one point is 0 after normalisation, whatever u is.
        let seen = DMatrix::from_fn(2, 1, |j, _| if ranges[j].1 > ranges[j].0 { u[j] } else { 0.0 });
        let found = unit.logit_share(&FeatureBlock::new(seen).unwrap()).unwrap();
        prop_assert!((found.matrix().column(0) - expected).amax() < 1e-10);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let _ = ParameterFile::parse(&bytes);
        let mut spoiled = GOOD.as_bytes().to_vec();
        let at = at.index(spoiled.len());
        spoiled[at] = byte;
        let _ = ParameterFile::parse(&spoiled);
    }
}
