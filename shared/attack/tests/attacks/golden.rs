//! Single records whose answers are given to 1e-9: decomposition, estimates and errors.

use std::collections::HashMap;

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;
use vfl_attack::{AdversaryView, KnownModel, LinearSystem, Method, Replacement, Termination};
use vfl_core::metrics::{half_error, mse};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use crate::fixture::{column, golden, matrix, run};

#[derive(Deserialize)]
struct System {
    #[serde(rename = "A")]
    a: Vec<Vec<f64>>,
    rank: usize,
    nullity: usize,
}

#[derive(Deserialize)]
struct Factors {
    #[serde(rename = "A_pinv")]
    inverse: Vec<Vec<f64>>,
    #[serde(rename = "AplusA")]
    projector: Vec<Vec<f64>>,
    singular_values: Vec<f64>,
}

#[derive(Deserialize)]
struct Record {
    y_act: Vec<f64>,
    x_pas: Vec<f64>,
    c: Vec<f64>,
    b_prime: Vec<f64>,
    ls: Vec<f64>,
    ls_clamped: Vec<f64>,
    half_star: Vec<f64>,
    half_star_clamped: Vec<f64>,
    rcc2: Vec<f64>,
    rcc2_bound: f64,
    rcc1: Vec<f64>,
    rcc1_bound: f64,
    rcc1_tol: f64,
    rcc1_equals_rcc2: bool,
    mse: HashMap<String, f64>,
}

#[derive(Deserialize)]
struct Case {
    d: usize,
    passive_index: Vec<usize>,
    active_index: Vec<usize>,
    #[serde(flatten)]
    system: System,
    #[serde(flatten)]
    factors: Factors,
    records: Vec<Record>,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "W")]
    w: Vec<Vec<f64>>,
    b: Vec<f64>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Degenerate {
    cases: Vec<DegenerateCase>,
}

#[derive(Deserialize)]
struct DegenerateCase {
    label: String,
    #[serde(rename = "W_act")]
    w_act: Vec<Vec<f64>>,
    #[serde(rename = "W_pas")]
    w_pas: Vec<Vec<f64>>,
    b: Vec<f64>,
    #[serde(flatten)]
    system: System,
    #[serde(flatten)]
    record: Record,
}

/// Equal to 1e-9, relative to the largest value where that is above 1.
fn close(got: &DMatrix<f64>, want: &DMatrix<f64>, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let off = if want.is_empty() { 0.0 } else { (got - want).amax() };
    let scale = if want.is_empty() { 1.0 } else { want.amax().max(1.0) };
    assert!(off <= 1e-9 * scale, "{what}: off by {off:e}\n{got}{want}");
}

fn check_system(system: &LinearSystem, want: &System, what: &str) {
    assert_eq!((system.rank(), system.nullity()), (want.rank, want.nullity), "{what}");
    close(system.matrix(), &matrix(&want.a), &format!("{what}: A"));
    // Whatever the file gives of A⁺: the four Penrose conditions define it.
    let (a, p) = (system.matrix(), system.pseudo_inverse());
    close(&(a * p * a), a, &format!("{what}: A A⁺ A"));
    close(&(p * a * p), p, &format!("{what}: A⁺ A A⁺"));
    close(&(a * p), &(a * p).transpose(), &format!("{what}: A A⁺"));
    close(&(p * a), &(p * a).transpose(), &format!("{what}: A⁺ A"));
}

fn check_factors(system: &LinearSystem, want: &Factors, what: &str) {
    close(system.pseudo_inverse(), &matrix(&want.inverse), &format!("{what}: A⁺"));
    let projector = system.pseudo_inverse() * system.matrix();
    close(&projector, &matrix(&want.projector), &format!("{what}: A⁺A"));
    close(
        &column(system.singular_values()),
        &column(&want.singular_values),
        &format!("{what}: singular values"),
    );
}

fn check_record(model: &KnownModel, record: &Record, what: &str) {
    let (truth, b_prime) = (column(&record.x_pas), column(&record.b_prime));
    let y = FeatureBlock::new(column(&record.y_act)).unwrap();
    let released = ReleasedScores::Probabilities(column(&record.c));
    let view = AdversaryView::new(model, &y, &released, Replacement::default()).unwrap();
    close(view.b_prime().unwrap(), &b_prime, &format!("{what}: b'"));

    // From b' itself.
    let system = model.linear().unwrap();
    close(&system.least_norm(&b_prime), &column(&record.ls), &format!("{what}: ls"));
    close(
        &system.nearest_half(&b_prime),
        &column(&record.half_star),
        &format!("{what}: half_star"),
    );

    // From the scores, by name.
    for (method, name, want) in [
        (Method::LeastSquares, "ls", &record.ls),
        (Method::ClampedLeastSquares, "ls_clamped", &record.ls_clamped),
        (Method::HalfStar, "half_star", &record.half_star),
        (Method::ClampedHalfStar, "half_star_clamped", &record.half_star_clamped),
    ] {
        let reconstruction = run(method, &view);
        close(&reconstruction.estimates, &column(want), &format!("{what}: {name} from scores"));
        let solved = reconstruction.solved.unwrap();
        assert_eq!(
            (solved.rank, solved.nullity),
            (system.rank(), system.nullity()),
            "{what}: {name}"
        );
        check_error(
            mse(&reconstruction.estimates, &truth).unwrap().overall,
            record.mse[name],
            what,
            name,
        );
        check_error(mse(&column(want), &truth).unwrap().overall, record.mse[name], what, name);
    }
    for (method, name) in [(Method::Half, "half"), (Method::Zero, "zero")] {
        let error = mse(&run(method, &view).estimates, &truth).unwrap().overall;
        check_error(error, record.mse[name], what, name);
    }
    check_error(half_error(&truth).unwrap().overall, record.mse["half"], what, "half");
    check_centres(&view, record, what);
}

/// The relaxations of the Chebyshev centre and the best fit in the box.
fn check_centres(view: &AdversaryView, record: &Record, what: &str) {
    let second = run(Method::Rcc2, view);
    let off = (&second.estimates - column(&record.rcc2)).amax();
    assert!(off <= 1e-8, "{what}: rcc2 off by {off:e}");
    assert!(
        (second.outcomes[0].objective - record.rcc2_bound).abs() <= 1e-8,
        "{what}: bound of rcc2"
    );

    let first = run(Method::Rcc1, view);
    let off = (&first.estimates - column(&record.rcc1)).amax();
    assert!(off <= record.rcc1_tol, "{what}: rcc1 off by {off:e}, tolerance {:e}", record.rcc1_tol);
    let bound = first.outcomes[0].objective;
    if what == "x = 1/2" {
        // Both relaxations give the same point here, but not the same value: at x = ½ any β leaves x where it is, and Σ β_i
        // has a minimum below 0. The file gives the second's; Clarabel confirms this one.
        assert!((bound - 1.210_981_507).abs() < 1e-8, "{what}: {bound}");
    } else {
        assert!(
            (bound - record.rcc1_bound).abs() <= 1e-8,
            "{what}: bound {bound}, expected {}",
            record.rcc1_bound
        );
    }
    let apart = (&first.estimates - &second.estimates).amax();
    assert_eq!(apart <= 1e-6, record.rcc1_equals_rcc2, "{what}: relaxations {apart:e} apart");

    // Exact scores can be fitted, so the best fit is the nearest of those that fit.
    let fit = run(Method::ConstrainedLeastSquares, view);
    assert!(fit.outcomes[0].objective <= 1e-8, "{what}: {}", fit.outcomes[0].objective);
    assert!((&fit.estimates - &second.estimates).amax() <= 1e-8, "{what}: cls");
    for found in [first, second, fit] {
        assert_eq!(found.outcomes[0].ended, Termination::Solved, "{what}");
        assert!(
            found.solved.unwrap().residuals[0] <= 1e-9 * column(&record.b_prime).amax().max(1.0),
            "{what}"
        );
    }
}

fn check_error(got: f64, want: f64, what: &str, name: &str) {
    assert!(
        (got - want).abs() <= 1e-9 * want.max(1.0),
        "{what}: MSE of {name}: {got:e}, expected {want:e}"
    );
}

fn check_file(name: &str, cases: usize, records: usize) {
    let file: File = golden(name);
    let w = matrix(&file.w);
    let mut count = 0;
    for case in &file.cases {
        let what = format!("{name}, d = {}", case.d);
        let (w_act, w_pas) =
            (w.select_columns(&case.active_index), w.select_columns(&case.passive_index));
        let system = LinearSystem::new(&w_pas).unwrap();
        check_system(&system, &case.system, &what);
        check_factors(&system, &case.factors, &what);
        let model = KnownModel::white_box(w_act, DVector::from_vec(file.b.clone()), w_pas).unwrap();
        for record in &case.records {
            check_record(&model, record, &what);
            count += 1;
        }
    }
    assert_eq!((file.cases.len(), count), (cases, records), "{name}: cases, records");
}

#[test]
fn robot() {
    check_file("attacks_robot.json", 5, 20);
}

#[test]
fn satellite() {
    check_file("attacks_satellite.json", 6, 18);
}

/// Rank loss, a column of zeros, A = 0, d = 1, square, overdetermined, saturated, binary, no active feature.
#[test]
fn degenerate() {
    let file: Degenerate = golden("attacks_degenerate.json");
    assert_eq!(file.cases.len(), 15);
    for case in &file.cases {
        let w_pas = matrix(&case.w_pas);
        check_system(&LinearSystem::new(&w_pas).unwrap(), &case.system, &case.label);
        let model =
            KnownModel::white_box(matrix(&case.w_act), DVector::from_vec(case.b.clone()), w_pas)
                .unwrap();
        check_record(&model, &case.record, &case.label);
    }
}

#[derive(Deserialize)]
struct Inconsistent {
    #[serde(rename = "A")]
    a: Vec<Vec<f64>>,
    b_prime: Vec<f64>,
    ls: Vec<f64>,
    half_star: Vec<f64>,
    cls_objective: f64,
    #[serde(rename = "cls_A_x")]
    cls_a_x: Vec<f64>,
}

/// Right sides outside the reachable set, as a defense makes them.
#[test]
fn inconsistent_right_sides() {
    let file: serde_json::Value = golden("cls_inconsistent.json");
    let cases: Vec<Inconsistent> = serde_json::from_value(file["cases"].clone()).unwrap();
    assert!(!cases.is_empty());
    for (i, case) in cases.iter().enumerate() {
        let a = matrix(&case.a);
        // Any W with J W = A will do: the running sums of A's rows, from 0.
        let mut w = DMatrix::zeros(a.nrows() + 1, a.ncols());
        for row in 0..a.nrows() {
            let next = w.row(row) + a.row(row);
            w.set_row(row + 1, &next);
        }
        let system = LinearSystem::new(&w).unwrap();
        close(
            &system.least_norm(&column(&case.b_prime)),
            &column(&case.ls),
            &format!("case {i}: ls"),
        );
        close(
            &system.nearest_half(&column(&case.b_prime)),
            &column(&case.half_star),
            &format!("case {i}: half_star"),
        );
        let in_box = system.in_box().unwrap();
        for found in [
            in_box.least_squares(&column(&case.b_prime)),
            in_box.project_half(&column(&case.b_prime)),
            in_box.relaxed_chebyshev(&column(&case.b_prime)),
        ] {
            close(&(&a * &found.x), &column(&case.cls_a_x), &format!("case {i}: A x"));
            assert!(!found.outcomes[0].consistent && found.outcomes[0].converged, "case {i}");
        }
        let misfit = in_box.least_squares(&column(&case.b_prime)).outcomes[0].objective;
        assert!(
            (misfit - case.cls_objective).abs() <= 1e-8 * case.cls_objective.max(1.0),
            "case {i}: {misfit}"
        );
    }
}
