//! The error curves of the published models: every window and every number of passive features, over whole test sets.
//! On the way, R theorem 1 on every record of them.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::Deserialize;
use vfl_attack::Method;
use vfl_core::metrics::{half_error, mse, squared_error_by_record};
use vfl_core::types::ReleasedScores;

use crate::fixture::{Published, golden, robot, run, satellite, undefended};

#[derive(Deserialize)]
struct File {
    data: HashMap<String, Curves>,
}

#[derive(Deserialize)]
struct Curves {
    d: Vec<usize>,
    n_records: usize,
    curves: HashMap<String, Vec<f64>>,
}

const METHODS: [(&str, Method); 6] = [
    ("ls", Method::LeastSquares),
    ("ls_clamped", Method::ClampedLeastSquares),
    ("half_star", Method::HalfStar),
    ("half_star_clamped", Method::ClampedHalfStar),
    ("half", Method::Half),
    ("zero", Method::Zero),
];

/// The error of each method in one window; asserts what must hold on each of its records.
fn window_errors(
    published: &Published,
    released: &ReleasedScores,
    k0: usize,
    d: usize,
) -> [f64; METHODS.len()] {
    let window = published.window(k0, d);
    let view = window.view(released);
    let of_record = |method: Method| {
        squared_error_by_record(&run(method, &view).estimates, &window.truth).unwrap()
    };
    let half = of_record(Method::Half);
    let half_star = of_record(Method::HalfStar);
    for (record, (half_star, half)) in half_star.iter().zip(&half).enumerate() {
        assert!(
            *half_star <= half + 1e-12,
            "k0 = {k0}, d = {d}, record {record}: {half_star} above {half}"
        );
    }
    for (clamped, free) in [
        (Method::ClampedHalfStar, &half_star),
        (Method::ClampedLeastSquares, &of_record(Method::LeastSquares)),
    ] {
        for (record, (clamped, free)) in of_record(clamped).iter().zip(free).enumerate() {
            assert!(clamped <= free, "k0 = {k0}, d = {d}, record {record}: {clamped} above {free}");
        }
    }
    let errors = METHODS
        .map(|(_, method)| mse(&run(method, &view).estimates, &window.truth).unwrap().overall);
    assert_eq!(errors[4], half_error(&window.truth).unwrap().overall);
    errors
}

fn check(published: &Published, name: &str) {
    let file: File = golden("curves_recomputed.json");
    let want = &file.data[name];
    let (total, records) = published.x.shape();
    assert_eq!((want.n_records, *want.d.last().unwrap()), (records, total * 9 / 10));
    let released = undefended(&published.scores());
    let windows: Vec<(usize, usize)> =
        want.d.iter().flat_map(|&d| (0..total).map(move |k0| (k0, d))).collect();
    let errors: Vec<[f64; METHODS.len()]> =
        windows.par_iter().map(|&(k0, d)| window_errors(published, &released, k0, d)).collect();
    for (m, (curve, _)) in METHODS.iter().enumerate() {
        for (errors, (d, want)) in
            errors.chunks_exact(total).zip(want.d.iter().zip(&want.curves[*curve]))
        {
            let got = errors.iter().map(|e| e[m]).sum::<f64>() / total as f64;
            assert!(
                (got - want).abs() <= 1e-9,
                "{name}, {curve}, d = {d}: {got:e}, expected {want:e}"
            );
        }
    }
}

#[test]
fn satellite_curves() {
    check(satellite(), "satellite/attack_repo");
}

#[test]
fn robot_curves() {
    check(robot(), "robot/attack_repo");
}
