//! The programs over the box beside Clarabel, on satellite's whole test set with the published weights: mean time per
//! record on one thread, and the ratio. `gaussian` is the likeliest point of the box with A x = b under the mean and the full
//! covariance of these records. A table rather than criterion, since the ratio of two runs of one process is the
//! result.
//!
//! Clarabel runs as a user would run it: default tolerances, a solver built for each record. That both answer alike is
//! checked first, with tight tolerances. The semidefinite program needs a BLAS:
//!
//! ```text
//! cargo bench -p vfl-attack --bench box_system --features sdp-oracle
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use nalgebra::{DMatrix, DVector};
use vfl_attack::LinearSystem;
use vfl_core::types::ReleasedScores;
use vfl_numerics::{BoxSolution, BoxSystem, GaussianSystem, PseudoInverse};

use crate::fixture::{satellite, undefended};
use crate::second_solver::{Found, default_settings, tight_settings};

#[path = "../tests/attacks/fixture.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "shared with the tests")]
mod fixture;
#[path = "../tests/oracle/second_solver.rs"]
#[allow(dead_code, unused_imports, reason = "shared with the tests")]
mod second_solver;
#[cfg(feature = "sdp-oracle")]
#[path = "../tests/oracle/subspace.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod subspace;

/// Passive features: columns 0 … d − 1 of 36.
const WINDOWS: [usize; 2] = [18, 30];
/// Records on which the answers are compared.
const COMPARED: usize = 20;
/// Each side is run again until this much time has gone, and at least three times.
const AT_LEAST: Duration = Duration::from_secs(1);

type Settings = clarabel::solver::DefaultSettings<f64>;
/// All right sides at once.
type Ours<'a> = dyn Fn(&DMatrix<f64>) -> BoxSolution + 'a;
/// One right side of A x = b.
type Theirs<'a> = dyn Fn(&DMatrix<f64>, &[f64], Settings) -> Found + 'a;

/// One line of the table.
struct Row<'a> {
    name: String,
    a: &'a DMatrix<f64>,
    /// (k − 1) × n.
    b: &'a DMatrix<f64>,
    /// Records that Clarabel solves; ours solves them all, and these again for the ratio.
    subset: usize,
    ours: &'a Ours<'a>,
    theirs: &'a Theirs<'a>,
    /// Whether x is unique and found as such by both.
    unique: bool,
}

/// Every n/`count`-th record.
fn spread(b: &DMatrix<f64>, count: usize) -> DMatrix<f64> {
    let chosen: Vec<usize> = (0..count).map(|i| i * b.ncols() / count).collect();
    b.select_columns(&chosen)
}

/// Median time of a call, over `records`.
fn per_record(records: usize, mut call: impl FnMut()) -> Duration {
    let mut times = vec![];
    let began = Instant::now();
    while times.len() < 3 || began.elapsed() < AT_LEAST {
        let at = Instant::now();
        call();
        times.push(at.elapsed());
    }
    times.sort();
    times[times.len() / 2] / u32::try_from(records).expect("thousands of records")
}

impl Row<'_> {
    /// Largest differences of the objective and of x, to Clarabel with tight tolerances.
    fn compare(&self) -> (f64, f64) {
        let b = spread(self.b, COMPARED);
        let ours = (self.ours)(&b);
        let (mut in_value, mut in_x) = (0.0f64, 0.0f64);
        for (i, b) in b.column_iter().enumerate() {
            let second = (self.theirs)(self.a, b.into_owned().as_slice(), tight_settings(1e-12));
            // Relative to objectives above 1: a distance in standard deviations has no upper end.
            in_value = in_value.max(
                (ours.outcomes[i].objective - second.primal).abs() / second.primal.abs().max(1.0),
            );
            in_x = in_x.max((ours.x.column(i) - DVector::from_vec(second.x)).amax());
        }
        (in_value, in_x)
    }

    fn print(&self) {
        let (in_value, in_x) = self.compare();
        assert!(in_value <= 1e-8, "{}: the objectives differ by {in_value:e}", self.name);
        assert!(!self.unique || in_x <= 1e-6, "{}: x differs by {in_x:e}", self.name);

        let part = spread(self.b, self.subset);
        let all = per_record(self.b.ncols(), || drop(black_box((self.ours)(black_box(self.b)))));
        let ours = per_record(self.subset, || drop(black_box((self.ours)(black_box(&part)))));
        let theirs = per_record(self.subset, || {
            for b in part.column_iter() {
                black_box((self.theirs)(
                    self.a,
                    black_box(b.into_owned().as_slice()),
                    default_settings(),
                ));
            }
        });
        let micros = |t: Duration| t.as_secs_f64() * 1e6;
        println!(
            "{:<28} {:>9.2} {:>9.2} {:>11.1} {:>8} {:>8.0} {in_value:>10.1e} {}",
            self.name,
            micros(all),
            micros(ours),
            micros(theirs),
            self.subset,
            micros(theirs) / micros(ours),
            if self.unique { format!("{in_x:>9.1e}") } else { format!("{:>9}", "-") },
        );
    }
}

fn main() {
    // `cargo test --benches` runs this too, unoptimised: only `cargo bench` says `--bench`.
    if !std::env::args().any(|a| a == "--bench") {
        return;
    }
    // Ours spreads records over rayon's threads.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
    pool.install(table);
}

fn table() {
    println!(
        "satellite, published weights, all 2000 test records, one thread; microseconds per record"
    );
    println!(
        "{:<28} {:>9} {:>9} {:>11} {:>8} {:>8} {:>10} {:>9}",
        "", "ours, all", "same recs", "Clarabel", "records", "ratio", "objective", "x"
    );
    for d in WINDOWS {
        let window = satellite().window(0, d);
        let scores = satellite().scores();
        let rounded =
            ReleasedScores::Numbers(scores.matrix().map(|c| (c * 100.0).round_ties_even() / 100.0));
        let exact = window.view(&undefended(&scores)).b_prime().expect("released scores").clone();
        let rounded = window.view(&rounded).b_prime().expect("released scores").clone();
        let system =
            LinearSystem::new(&satellite().w.columns(0, d).into_owned()).expect("finite weights");
        let a = system.matrix();
        let boxed = BoxSystem::new(a).expect("finite weights");
        let (mean, covariance) = moments(&window.truth);
        let gaussian = GaussianSystem::new(a, &covariance).expect("a covariance");
        let precision = PseudoInverse::new(&covariance).expect("finite features").matrix;
        let row = |name: &str,
                   b: &DMatrix<f64>,
                   subset: usize,
                   ours: &Ours<'_>,
                   theirs: &Theirs<'_>,
                   unique: bool| {
            Row { name: format!("d = {d}, {name}"), a, b, subset, ours, theirs, unique }.print();
        };
        let all = exact.ncols();
        row("RCC2", &exact, all, &|b| boxed.project_half(b), &second_solver::nearest_half, true);
        let likeliest =
            |b: &DMatrix<f64>| gaussian.likeliest_in_box(&repeated(&mean, b.ncols()), b);
        let theirs = |a: &DMatrix<f64>, b: &[f64], settings: Settings| {
            second_solver::likeliest(&precision, mean.as_slice(), a, b, settings)
        };
        row("gaussian", &exact, all, &likeliest, &theirs, true);
        row(
            "CLS, exact",
            &exact,
            all,
            &|b| boxed.least_squares(b),
            &second_solver::least_squares,
            false,
        );
        row(
            "CLS, two decimals",
            &rounded,
            all,
            &|b| boxed.least_squares(b),
            &second_solver::least_squares,
            false,
        );
        #[cfg(feature = "sdp-oracle")]
        row("RCC1", &exact, 50, &|b| boxed.relaxed_chebyshev(b), &semidefinite(&system), true);
    }
    println!(
        "objective, x: largest difference to Clarabel at tight tolerances, {COMPARED} records"
    );
    println!(
        "Clarabel: default tolerances, one solver per record; ratio: Clarabel / ours on the same records"
    );
    if cfg!(not(feature = "sdp-oracle")) {
        println!(
            "RCC1 left out: Clarabel's semidefinite cone needs OpenBLAS and --features sdp-oracle"
        );
    }
}

/// Mean (d) and covariance (d × d) of the columns.
fn moments(x: &DMatrix<f64>) -> (DVector<f64>, DMatrix<f64>) {
    let mean = x.column_mean();
    let centred = x - repeated(&mean, x.ncols());
    (mean, &centred * centred.transpose() / x.ncols() as f64)
}

fn repeated(mean: &DVector<f64>, n: usize) -> DMatrix<f64> {
    DMatrix::from_fn(mean.len(), n, |i, _| mean[i])
}

/// (16) for one right side; the null space of A, which all records share, is worked out once.
#[cfg(feature = "sdp-oracle")]
fn semidefinite(
    system: &LinearSystem,
) -> impl Fn(&DMatrix<f64>, &[f64], Settings) -> Found + use<> {
    let null = subspace::Subspaces::of(system.matrix()).null;
    let inverse = system.pseudo_inverse().clone();
    move |_, b, settings| {
        second_solver::centre(&(&inverse * DVector::from_column_slice(b)), &null, settings)
    }
}
