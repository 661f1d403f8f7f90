//! Compares φ and likelihood ratios of a few records and models with those of NumPy
//! (`scripts/numpy/likelihood_ratio.py`).

use nalgebra::DMatrix;
use serde::Deserialize;
use vfl_core::types::ReleasedScores;

use super::{Likelihood, OWN_VARIANCES_FROM, Shadows, statistics};

#[derive(Deserialize)]
struct Ratios {
    target: usize,
    by_record: Vec<f64>,
}

#[derive(Deserialize)]
struct Case {
    labels: Vec<u32>,
    /// By record and model.
    members: Vec<Vec<bool>>,
    /// By model, record and class.
    scores: Vec<Vec<Vec<f64>>>,
    /// By model and record.
    phi: Vec<Vec<f64>>,
    ratios: Vec<Ratios>,
}

#[test]
fn ratios_are_those_of_numpy() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("numpy.json")).unwrap();
    let models: Vec<usize> = cases.iter().map(|case| case.scores.len()).collect();
    assert!(
        models[0] <= OWN_VARIANCES_FROM && models[1] > OWN_VARIANCES_FROM,
        "pooled variances and own ones"
    );
    for case in &cases {
        let by_model: Vec<Vec<f64>> = case
            .scores
            .iter()
            .map(|of_model| {
                let (k, n) = (of_model[0].len(), of_model.len());
                let released =
                    ReleasedScores::Probabilities(DMatrix::from_fn(k, n, |class, record| {
                        of_model[record][class]
                    }));
                let (found, likelihood) = statistics(&released, &case.labels);
                assert_eq!(likelihood, Likelihood::Normal);
                found
            })
            .collect();
        for (found, want) in by_model.iter().flatten().zip(case.phi.iter().flatten()) {
            assert!((found - want).abs() < 1e-13, "{found} {want}");
        }
        let members: Vec<bool> = case.members.iter().flatten().copied().collect();
        let by_model: Vec<&[f64]> = by_model.iter().map(Vec::as_slice).collect();
        let shadows = Shadows::new(&members, &by_model, Likelihood::Normal);
        for Ratios { target, by_record } in &case.ratios {
            let found = shadows.ratios(*target);
            assert_eq!(found.len(), by_record.len());
            for (record, (found, want)) in found.iter().zip(by_record).enumerate() {
                let off = (found - want).abs();
                // The floor of a variance adds a millionth of the pooled one if records have their
                // own variances and these are small.
                assert!(
                    off < 1e-10 * want.abs().max(1.0),
                    "target {target}, record {record}: {found} {want}"
                );
            }
        }
    }
}
