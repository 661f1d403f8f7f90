//! The perturbation by golden vectors and a dense matrix, and the checks of parameters.

use super::*;
use crate::tests::{close, golden, number, numbers};
use proptest::prelude::*;

fn plus(sigma: &[f64], template: Template, as_published: bool) -> DefenseConfig {
    let (epsilon, delta, sensitivity) = (Vec::new(), 1e-5, 0.1);
    DefenseConfig::PriveeDpPlusPlus {
        sigma: sigma.to_vec(),
        epsilon,
        delta,
        sensitivity,
        template,
        as_published,
    }
}

fn dp(sigma: f64, template: Template, as_published: bool) -> DefenseConfig {
    let (sigma, epsilon, delta, sensitivity) = (Some(sigma), None, 1e-5, 0.1);
    DefenseConfig::PriveeDp { sigma, epsilon, delta, sensitivity, template, as_published }
}

fn perturbed(config: &DefenseConfig, c: &[f64], u: &[f64]) -> Vec<f64> {
    let defense = Privee::new(config, c.len()).unwrap();
    let mut order = Order::default();
    order.sort(c);
    let mut p = c.to_vec();
    defense.perturb(&order, u, &mut p);
    p
}

#[test]
fn perturbation_matches_the_golden_vectors() {
    let file = golden("score_defences.json");
    let cases = file["privee"].as_array().unwrap();
    assert!(cases.len() >= 20);
    for case in cases {
        let template: Template = serde_json::from_value(case["template"].clone()).unwrap();
        let config = match case["variant"].as_str().unwrap() {
            "DP" => dp(number(&case["sigma"]), template, false),
            _ => plus(&numbers(&case["sigma_by_rank_ascending_score"]), template, false),
        };
        let (c, u) = (numbers(&case["c"]), numbers(&case["u01"]));
        close(&perturbed(&config, &c, &u), &numbers(&case["p"]), 1e-12);
    }
    let ranks = file["rank"].as_array().unwrap();
    assert!(!ranks.is_empty());
    for case in ranks
        .iter()
        .map(|case| (&case["c"], &case["rank_descending"]))
        .chain(cases.iter().map(|c| (&c["c"], &c["rank"])))
    {
        let mut order = Order::default();
        order.sort(&numbers(case.0));
        let expected = numbers(case.1);
        for (rank, at) in order.best_first().enumerate() {
            assert_eq!(expected[at], (rank + 1) as f64);
        }
    }
}

#[test]
fn published_scales_fall_with_the_rank() {
    // u = 0.5 in every part of [0, 1]: (r + ½) / 3 for ranks from below; scales 2 (smallest score)
    // to 1.
    let p = perturbed(&plus(&[1.0, 2.0], Template::Identity, true), &[0.5, 0.2, 0.3], &[0.5; 3]);
    close(&p, &[0.5 * (11.0 / 6.0), 0.2 * (4.0 / 3.0), 0.3 * 1.75], 1e-15);
    // PRIVEE-DP draws from [0, 3].
    let p = perturbed(&dp(2.0, Template::Identity, true), &[0.5, 0.2, 0.3], &[0.5; 3]);
    close(&p, &[0.5 * 6.0, 0.2 * 2.0, 0.3 * 4.0], 1e-15);
}

#[test]
fn lists_are_checked() {
    let refused = |config: DefenseConfig, part: &str| {
        let error = Privee::new(&config, 4).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(plus(&[1.0], Template::Identity, false), "a list of 1");
    refused(plus(&[1.0, 2.0, 3.0], Template::Identity, false), "a list of 3");
    refused(plus(&[2.0, 1.0], Template::Identity, false), "2 before 1");
    refused(plus(&[0.0, f64::NAN], Template::Identity, false), "NaN");
    refused(plus(&[-1.0, 1.0], Template::Identity, false), "-1");
    refused(dp(f64::INFINITY, Template::Identity, false), "inf");
    assert!(check(&plus(&[1.0, 2.0, 3.0], Template::Identity, false), None).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// P (8) as it is printed: a dense matrix with true ranks by counting.
    #[test]
    fn a_dense_matrix_is_the_oracle(
        raw in prop::collection::vec((prop_oneof![0.0f64..1.0, Just(0.0), Just(0.25)], 0.0f64..1.0), 2..30),
        ends in (0.0f64..5.0, 0.0f64..5.0),
        kind in 0usize..6,
    ) {
        let (c, u): (Vec<f64>, Vec<f64>) = raw.into_iter().unzip();
        let k = c.len();
        let template = [Template::Identity, Template::Householder, Template::Fisip][kind % 3];
        let (least, most) = (ends.0.min(ends.1), ends.0.max(ends.1));
        let config = if kind < 3 { dp(most, template, false) } else { plus(&[least, most], template, false) };
        let rank = |i: usize| 1 + (0..k).filter(|&j| c[j] > c[i] || c[j] == c[i] && j < i).count();
        let matrix = DMatrix::from_fn(k, k, |i, j| {
            let ones = 2.0 / k as f64;
            let a = match template {
                Template::Identity => f64::from(i == j),
                Template::Householder => f64::from(i == j) - ones,
                Template::Fisip => ones - f64::from(i == j),
            };
            let from_below = (k - rank(i)) as f64;
            let sigma = if kind < 3 { most } else { least + from_below / (k - 1) as f64 * (most - least) };
            a + if i == j { (from_below + u[i]) / k as f64 * sigma } else { 0.0 }
        });
        let expected = matrix * DMatrix::from_column_slice(k, 1, &c);
        close(&perturbed(&config, &c, &u), expected.as_slice(), 1e-12);
    }
}
