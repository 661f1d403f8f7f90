use nalgebra::DMatrix;
use proptest::prelude::*;
use rand::SeedableRng;
use vfl_shared::numerics::arg_max;

use super::*;

fn golden(name: &str) -> serde_json::Value {
    let dir = std::env::var("CLOISON_GOLDEN_DIR")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").to_owned());
    let path = format!("{dir}/{name}");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("golden vectors {path} are missing ({e}); set CLOISON_GOLDEN_DIR"));
    serde_json::from_str(&text).unwrap()
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

fn apply(defense: &dyn Defense, scores: Vec<f64>) -> ReleasedScores {
    let k = scores.len();
    let scores = ConfidenceScores::new(DMatrix::from_vec(k, 1, scores)).unwrap();
    defense.apply(&scores, &mut rand_chacha::ChaCha20Rng::seed_from_u64(1)).unwrap()
}

#[test]
fn rounding_matches_the_golden_vectors() {
    let file = golden("score_defences.json");
    let cases = file["rounding"].as_array().unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let defense = Rounding::new(case["decimals"].as_u64().unwrap() as u32).unwrap();
        let ReleasedScores::Numbers(out) = apply(&defense, numbers(&case["c"])) else { panic!("kind") };
        for (got, want) in out.iter().zip(numbers(&case["out"])) {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
    }
}

#[test]
fn parameters_out_of_range_are_named() {
    let error = DefenseConfig::Rounding { decimals: 16 }.build().unwrap_err().to_string();
    assert!(error.contains("decimals") && error.contains("16"), "{error}");
}

#[test]
fn config_keys_are_checked() {
    let parse = toml::from_str::<DefenseConfig>;
    assert_eq!(parse("name = \"rounding\"\ndecimals = 2").unwrap(), DefenseConfig::Rounding { decimals: 2 });
    assert!(parse("name = \"rounding\"").is_err());
    assert!(parse("name = \"rounding\"\ndecimals = 2\nk = 1").is_err());
    assert!(parse("name = \"none\"\ndecimals = 2").is_err());
    assert!(parse("name = \"privee\"").is_err());
}

/// Probability vectors of 2 to 40 classes with ties, zeros and one-hot ones among them.
fn scores() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(
        prop_oneof![3 => 0.0f64..1.0, 1 => Just(0.0), 2 => (0u8..4).prop_map(|v| f64::from(v) / 4.0)],
        2..40,
    )
    .prop_filter("some mass", |v| v.iter().sum::<f64>() > 0.1)
    .prop_map(|v| {
        let sum: f64 = v.iter().sum();
        v.iter().map(|x| x / sum).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_defense_keeps_its_contract(c in scores(), decimals in 0u32..=15) {
        for config in [DefenseConfig::None {}, DefenseConfig::Rounding { decimals }, DefenseConfig::ClassLabel {}] {
            let defense = config.build().unwrap();
            let contract = defense.contract();
            let released = apply(&*defense, c.clone());
            prop_assert_eq!((released.records(), released.classes()), (1, c.len()));
            if contract.keeps_arg_max {
                prop_assert_eq!(released.predicted_labels()[0] as usize, arg_max(&c));
            }
            match (&released, contract.output) {
                (ReleasedScores::Probabilities(p), Output::Probabilities) => prop_assert!((p.sum() - 1.0).abs() < 1e-9),
                (ReleasedScores::Numbers(p), Output::Numbers) => {
                    let step = 10f64.powi(-(decimals as i32));
                    for (p, c) in p.iter().zip(&c) {
                        prop_assert!((p - c).abs() <= step / 2.0 * (1.0 + 1e-9) + 1e-15);
                        prop_assert!((p / step - (p / step).round()).abs() < 1e-6 * (1.0 / step).max(1.0));
                    }
                }
                (ReleasedScores::Labels { .. }, Output::Label) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
