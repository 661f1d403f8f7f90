//! The contract of every defense, on 10 000 random score vectors of 2 to 1000 classes.

use std::collections::HashSet;

use vfl_numerics::arg_max;

use super::*;

/// Checks a release against the contract, column by column.
fn check(name: &str, contract: &Contract, c: &DMatrix<f64>, released: &ReleasedScores) {
    let k = c.nrows();
    assert_eq!((released.records(), released.classes()), (c.ncols(), k), "{name}");
    let labels = released.predicted_labels();
    for (record, c) in c.column_iter().enumerate() {
        let c = c.as_slice();
        if contract.keeps_arg_max {
            assert_eq!(labels[record] as usize, arg_max(c), "{name}: {c:?}");
        }
        let in_order = |larger: &dyn Fn(usize, usize) -> bool| {
            let mut order: Vec<usize> = (0..k).collect();
            order.sort_by(|&i, &j| c[j].total_cmp(&c[i]));
            order.windows(2).all(|pair| c[pair[0]] == c[pair[1]] || larger(pair[0], pair[1]))
                && (1..k).all(|i| c[i] <= c[0] || larger(i, 0))
        };
        match (released, contract.output) {
            (ReleasedScores::Probabilities(p), Output::Probabilities) => {
                let p = p.column(record);
                assert!((p.sum() - 1.0).abs() < 1e-9 && p.min() >= 0.0, "{name}: {c:?} {p}");
                assert!(
                    !contract.keeps_ranking || in_order(&|i, j| p[i] > p[j]),
                    "{name}: {c:?} {p}"
                );
            }
            (ReleasedScores::Numbers(p), Output::Numbers) => {
                let p = p.column(record);
                assert!(p.iter().all(|v| v.is_finite()), "{name}: {c:?} {p}");
                assert!(
                    !contract.keeps_ranking || in_order(&|i, j| p[i] > p[j]),
                    "{name}: {c:?} {p}"
                );
            }
            (ReleasedScores::Labels { .. }, Output::Label) => {
                assert!((labels[record] as usize) < k)
            }
            (ReleasedScores::Ciphertexts(p), Output::Ciphertexts) => {
                let p = p.column(record);
                assert!(p.iter().all(|v| *v < 1 << 53), "{name}: {c:?} {p}");
                assert!(
                    !contract.keeps_ranking || in_order(&|i, j| p[i] > p[j]),
                    "{name}: {c:?} {p}"
                );
                // Alone, it keeps equal scores equal too.
                assert!(
                    name.contains(" then ") || (1..k).all(|i| c[i] != c[0] || p[i] == p[0]),
                    "{name}: {c:?} {p}"
                );
            }
            (released, output) => panic!("{name}: {released:?} is not {output:?}"),
        }
    }
}

#[test]
fn what_is_released_does_not_depend_on_whether_the_scores_are_kept() {
    let ground = Ground::new(5);
    let logits = random_scores(5, 200, 3).map(|c| if c > 0.0 { c.ln() } else { -2000.0 });
    let logits = vfl_core::types::Logits::new(logits).unwrap();
    for config in configs(5) {
        let (pipeline, noise) = (ground.build(&config), Noise::fresh([4; 32]));
        let kept = pipeline.release(logits.clone(), noise).unwrap().released;
        let alone = pipeline.release_alone(logits.clone(), noise).unwrap();
        assert_eq!(columns(&alone), columns(&kept), "{config}");
    }
}

fn contracts_hold(classes: &[(usize, usize)]) {
    for &(k, n) in classes {
        let ground = Ground::new(k);
        let scores = random_scores(k, n, 1000 + k as u64);
        for config in configs(k) {
            let pipeline = ground.build(&config);
            let contract = pipeline.contract();
            let name = format!("{config}, {k} classes");
            let PipelineOutput { scores: undefended, released } =
                release(&pipeline, &scores, Noise::fresh([k as u8; 32]));
            check(&name, &contract, undefended.matrix(), &released);
            // What is drawn has more values than it tells bits.
            if let Some(bits) = contract.bits.filter(|_| !contract.randomised) {
                let distinct: HashSet<_> = columns(&released).into_iter().collect();
                assert!(
                    (distinct.len() as f64).log2() <= bits + 1e-9,
                    "{name}: {} outputs, {bits} bits",
                    distinct.len()
                );
            }
        }
    }
}

#[test]
fn contracts_hold_for_few_classes() {
    contracts_hold(&[(2, 3000), (3, 3000), (4, 1500), (7, 1500)]);
}

#[test]
fn contracts_hold_for_many_classes() {
    contracts_hold(&[(12, 800), (60, 150), (300, 30), (1000, 20)]);
}

#[test]
fn ranking_has_at_most_k_factorial_outputs_and_codebook_its_size() {
    let ground = Ground::new(3);
    let scores = random_scores(3, 5000, 1);
    for (config, most) in [(DefenseConfig::Ranking {}, 6), (DefenseConfig::Codebook { size: 9 }, 9)]
    {
        let pipeline = ground.build(&config);
        let released = release(&pipeline, &scores, Noise::fresh([0; 32])).released;
        let distinct: HashSet<_> = columns(&released).into_iter().collect();
        assert!(distinct.len() <= most && distinct.len() >= 3, "{config}: {}", distinct.len());
        // Released again, a release stays: each word is nearest to itself, each ranking of its own order.
        let again = release(
            &pipeline,
            match &released {
                ReleasedScores::Probabilities(p) => p,
                _ => panic!("kind"),
            },
            Noise::fresh([0; 32]),
        )
        .released;
        assert_eq!(again, released, "{config}");
    }
}

/// Defenses in a list get what is not on the simplex; what they promise of any numbers holds there too.
#[test]
fn lists_keep_what_all_of_their_defenses_keep() {
    let k = 6;
    let ground = Ground::new(k);
    let scores = random_scores(k, 400, 3);
    let all = configs(k);
    let mut built = 0;
    for first in &all {
        for second in &all {
            let Ok(pipeline) =
                Pipeline::build(&[first.clone(), second.clone()], k, &ground.grants())
            else {
                continue;
            };
            built += 1;
            let PipelineOutput { scores: undefended, released } =
                release(&pipeline, &scores, Noise::fresh([1; 32]));
            check(
                &format!("{first} then {second}"),
                &pipeline.contract(),
                undefended.matrix(),
                &released,
            );
        }
    }
    assert!(built > 300, "{built}");
}

#[test]
fn top_k_keeps_the_largest_as_they_are() {
    let defense = TopK::new(2, 4).unwrap();
    let apply = |c: [f64; 4]| match defense
        .apply(DMatrix::from_column_slice(4, 1, &c), &Noise::fresh([0; 32]))
        .unwrap()
    {
        ReleasedScores::Numbers(p) => p.as_slice().to_vec(),
        _ => panic!("kind"),
    };
    assert_eq!(apply([0.1, 0.4, 0.2, 0.3]), [0.0, 0.4, 0.0, 0.3]);
    assert_eq!(apply([0.25; 4]), [0.25, 0.25, 0.0, 0.0]);
    assert_eq!(apply([0.0, 0.0, 0.0, 1.0]), [0.0, 0.0, 0.0, 1.0]);
    // After noise: a 0 among negative numbers would be the largest.
    assert_eq!(arg_max(&apply([-3.0, -1.0, -2.0, -5.0])), 1);
}

#[test]
fn class_labels_match_the_golden_vectors() {
    let file = golden("noise_schemes.json");
    let mut cases = 0;
    for case in
        file["models"].as_array().unwrap().iter().flat_map(|m| m["class_label"].as_array().unwrap())
    {
        let c = numbers(&case["c"]);
        let defense = ClassLabel::new(number(&case["delta"]), c.len()).unwrap();
        let released = defense
            .apply(DMatrix::from_column_slice(c.len(), 1, &c), &Noise::fresh([0; 32]))
            .unwrap();
        let ReleasedScores::Probabilities(p) = released else { panic!("kind") };
        close(p.as_slice(), &numbers(&case["out"]), 1e-12);
        cases += 1;
    }
    assert!(cases >= 6);
}

#[test]
fn rounding_matches_the_golden_vectors() {
    let file = golden("score_defences.json");
    let cases = file["rounding"].as_array().unwrap();
    assert!(cases.len() >= 10);
    for case in cases {
        let decimals = case["decimals"].as_u64().unwrap() as u32;
        let c = DMatrix::from_vec(numbers(&case["c"]).len(), 1, numbers(&case["c"]));
        let released =
            Rounding::new(decimals).unwrap().apply(c.clone(), &Noise::fresh([0; 32])).unwrap();
        let ReleasedScores::Numbers(out) = released else { panic!("kind") };
        close(out.as_slice(), &numbers(&case["out"]), 1e-12);
        // Half a step at most, and a whole number of steps.
        let step = 10f64.powi(-(decimals as i32));
        for (out, c) in out.iter().zip(&c) {
            assert!((out - c).abs() <= step / 2.0 * (1.0 + 1e-9));
            assert!((out / step - (out / step).round()).abs() < 1e-9);
        }
    }
    let released = Rounding::new(15)
        .unwrap()
        .apply(DMatrix::from_element(2, 1, 1e300), &Noise::fresh([0; 32]))
        .unwrap();
    assert_eq!(released, ReleasedScores::Numbers(DMatrix::from_element(2, 1, 1e300)));
}
