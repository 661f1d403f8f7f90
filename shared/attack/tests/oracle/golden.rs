//! The second solver itself against the golden vectors: an oracle that is wrong would refuse the right answers, or share our
//! mistakes.

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;

use crate::fixture::{golden, matrix};
use crate::optimality::{off_least_squares, off_nearest_half};
use crate::second_solver::{
    Found, least_squares, least_squares_residual, nearest_half, tight_settings,
};
use crate::subspace::Subspaces;

#[derive(Deserialize)]
struct Record {
    b_prime: Vec<f64>,
    rcc2: Vec<f64>,
    rcc2_bound: f64,
    #[cfg(feature = "sdp-oracle")]
    rcc1: Vec<f64>,
    #[cfg(feature = "sdp-oracle")]
    rcc1_bound: f64,
    #[cfg(feature = "sdp-oracle")]
    rcc1_tol: f64,
}

#[derive(Deserialize)]
struct Published {
    cases: Vec<PublishedCase>,
}

#[derive(Deserialize)]
struct PublishedCase {
    #[serde(rename = "A")]
    a: Vec<Vec<f64>>,
    records: Vec<Record>,
}

#[derive(Deserialize)]
struct Degenerate {
    cases: Vec<DegenerateCase>,
}

#[derive(Deserialize)]
struct DegenerateCase {
    label: String,
    #[serde(rename = "A")]
    a: Vec<Vec<f64>>,
    #[serde(flatten)]
    record: Record,
}

/// All records with rcc1 and rcc2: name, A, and the record.
fn records() -> Vec<(String, DMatrix<f64>, Record)> {
    let mut all = vec![];
    for name in ["robot", "satellite"] {
        let file: Published = golden(&format!("attacks_{name}.json"));
        for case in file.cases {
            let a = matrix(&case.a);
            let named = case.records.into_iter().enumerate();
            all.extend(
                named
                    .map(|(i, r)| (format!("{name}, d = {}, record {i}", a.ncols()), a.clone(), r)),
            );
        }
    }
    let file: Degenerate = golden("attacks_degenerate.json");
    all.extend(file.cases.into_iter().map(|case| (case.label, matrix(&case.a), case.record)));
    assert_eq!(all.len(), 20 + 18 + 15);
    all
}

fn distance(got: &[f64], want: &[f64]) -> f64 {
    got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max)
}

fn agree(found: &Found, x: &[f64], bound: f64, tolerances: (f64, f64), what: &str) {
    let (in_bound, in_x) = tolerances;
    assert!((found.primal - bound).abs() <= in_bound, "{what}: {:e} for {bound:e}", found.primal);
    assert!(distance(&found.x, x) <= in_x, "{what}: x off by {:e}", distance(&found.x, x));
}

#[test]
fn nearest_to_half() {
    for (what, a, record) in records() {
        let spaces = Subspaces::of(&a);
        let x = DVector::from_column_slice(&record.rcc2);
        assert!(
            off_nearest_half(&spaces, &x) <= 1e-8,
            "{what}: {:e}",
            off_nearest_half(&spaces, &x)
        );

        let right = spaces.rows.transpose() * &x;
        let found = nearest_half(&spaces.rows.transpose(), right.as_slice(), tight_settings(1e-11));
        agree(&found, &record.rcc2, record.rcc2_bound, (1e-8, 1e-6), &what);
        let residual = a * DVector::from_vec(found.x) - DVector::from_vec(record.b_prime);
        assert!(residual.amax() <= 1e-7, "{what}: {residual}");
    }
}

#[derive(Deserialize)]
struct Inconsistent {
    #[serde(rename = "A")]
    a: Vec<Vec<f64>>,
    b_prime: Vec<f64>,
    cls_objective: f64,
    #[serde(rename = "cls_A_x")]
    image: Vec<f64>,
}

#[test]
fn constrained_least_squares() {
    let file: serde_json::Value = golden("cls_inconsistent.json");
    let cases: Vec<Inconsistent> = serde_json::from_value(file["cases"].clone()).unwrap();
    assert_eq!(cases.len(), 8);
    for (i, case) in cases.iter().enumerate() {
        let a = matrix(&case.a);
        for solve in [least_squares, least_squares_residual] {
            let found = solve(&a, &case.b_prime, tight_settings(1e-11));
            let off = (found.primal - case.cls_objective).abs();
            assert!(off <= 1e-7 * (1.0 + case.cls_objective), "case {i}: objective off by {off:e}");
            let x = DVector::from_vec(found.x);
            let image = &a * &x;
            assert!(distance(image.as_slice(), &case.image) <= 1e-6, "case {i}: A x");
            let off = off_least_squares(&a, &DVector::from_column_slice(&case.b_prime), &x);
            assert!(off <= 1e-5, "case {i}: gradient {off:e}");
        }
    }
}

/// Both forms of (16), so that a slip in one would show.
#[cfg(feature = "sdp-oracle")]
#[test]
fn relaxed_chebyshev() {
    for (what, a, record) in records() {
        let truth = DVector::from_column_slice(&record.rcc2);
        for lifted in [false, true] {
            let found = crate::semidefinite::solve(&a, &truth, lifted);
            // At x = ½ the file gives RCC2's value for both; both forms of the program, and ours, say less.
            let bound = if what == "x = 1/2" { 1.210_981_507 } else { record.rcc1_bound };
            let what = format!("{what}, lifted: {lifted}");
            agree(&found, &record.rcc1, bound, (1e-7, record.rcc1_tol.max(1e-5)), &what);
        }
    }
}
