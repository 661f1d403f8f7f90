//! Policies, wherever they come from: their text reads back, and on any scores they give finite numbers or refuse.

use nalgebra::DMatrix;
use vfl_core::types::{ConfidenceScores, Logits, RecordIds, ReleasedScores};
use vfl_defense::policy::NoiseMode;
use vfl_defense::{Grants, Noise, NoiseSecret, Pipeline, Policy};

/// The longest policy whose text is made: a scale for each of 65 536 classes is a long text.
const MOST_SCALES: usize = 256;

/// Writes the policy, reads it, and applies it to a few scores.
pub(crate) fn exercise(policy: &Policy) {
    if policy.defenses.iter().any(|d| d.privee_scales().len() > MOST_SCALES) {
        return;
    }
    let text = policy.to_string();
    if Pipeline::check(&policy.defenses).is_err() {
        return;
    }
    let again: Policy =
        text.parse().unwrap_or_else(|e| panic!("a policy's own text is refused: {e}"));
    assert_eq!(again.to_string(), text);
    if !policy.defenses.is_empty() {
        assert_eq!(
            &again, policy,
            "two policies have the text {text}, which keys noise and the ledger"
        );
    }
    for classes in [2, 5] {
        apply(policy, classes);
    }
}

fn apply(policy: &Policy, classes: usize) {
    // Some certain, some undecided, one tie: what defenses find hard.
    let logits = |records: usize| {
        DMatrix::from_fn(classes, records, |class, record| match record % 4 {
            0 => 0.0,
            1 => 40.0 * (class as f64 - 1.0),
            2 => {
                if class == record % classes {
                    700.0
                } else {
                    -700.0
                }
            }
            _ => ((7 * class + 3 * record) % 11) as f64 / 5.0 - 1.0,
        })
    };
    let wrong = |what: &str, e: &dyn std::fmt::Display| -> ! { panic!("{what}: {e}") };
    let calibration = Logits::new(logits(60))
        .map(ConfidenceScores::softmax)
        .unwrap_or_else(|e| wrong("calibration", &e));
    let weights = DMatrix::from_fn(classes, 3, |class, feature| {
        ((5 * class + 2 * feature) % 7) as f64 / 3.0 - 1.0
    });
    let grants =
        Grants { passive_weights: Some(&weights), calibration: Some(&calibration), seed: [0; 32] };
    let Ok(pipeline) = Pipeline::build(&policy.defenses, classes, &grants) else { return };
    let ids = RecordIds::new((0..8).map(|i| format!("r{i}"))).unwrap_or_else(|e| wrong("ids", &e));
    let key = NoiseSecret::new([7; 32]).key("model", "policy");
    let noise = match policy.noise {
        NoiseMode::Keyed => Noise::keyed(&key, &ids),
        NoiseMode::Fresh => Noise::fresh([9; 32]),
    };
    let given = Logits::new(logits(8)).unwrap_or_else(|e| wrong("logits", &e));
    let Ok(released) = pipeline.release(given, noise) else { return };
    assert_eq!((released.released.records(), released.released.classes()), (8, classes));
    match &released.released {
        ReleasedScores::Probabilities(m) => {
            ConfidenceScores::new(m.clone())
                .unwrap_or_else(|e| panic!("{policy} released no probabilities: {e}"));
        }
        ReleasedScores::Numbers(m) => {
            assert!(m.iter().all(|v| v.is_finite()), "{policy} released no finite number")
        }
        ReleasedScores::Labels { labels, .. } => {
            assert!(labels.iter().all(|l| (*l as usize) < classes))
        }
        ReleasedScores::Ciphertexts(_) => {}
    }
    let contract = pipeline.contract();
    if contract.keeps_arg_max && policy.defenses.len() == 1 {
        let undefended =
            ReleasedScores::Probabilities(released.scores.into_matrix()).predicted_labels();
        assert_eq!(
            released.released.predicted_labels(),
            undefended,
            "{policy} promised to keep the arg max"
        );
    }
}
