//! Readers of scorings: what an auditor who chooses the estimates learns of single records.
//!
//! Before, an answer was the squared error to three significant digits ([`rounded`]). Every reader here reads the records from that
//! rule. With noise, through the very types the service answers with, the same readers get the whole budget of a record, ρ = 0.0869,
//! and know how the noise is distributed, the estimates, and the distribution of the truth. What they are left with is an error of at least
//! 0.9 standard deviations for a record and feature named beforehand: root mean square of 200 runs, seeds fixed.

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::metrics::mse;
use vfl_numerics::three_significant_digits;
use vfl_passive_party::evaluation::scoring::{ReducedEstimates, Scoring};
use vfl_protocol::scoring::ReportedCandidates;
use vfl_transform::scoring::accountant::{RHO, least_error};

/// Runs over which the error of the record named beforehand is taken.
const RUNS: usize = 200;

/// What the truth is drawn from.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Continuous,
    Binary,
}

impl Kind {
    fn draw(self, d: usize, n: usize, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
        DMatrix::from_fn(d, n, |_, _| match self {
            Self::Continuous => rng.random::<f64>(),
            Self::Binary => f64::from(u8::from(rng.random::<bool>())),
        })
    }

    fn variance(self) -> f64 {
        match self {
            Self::Continuous => 1.0 / 12.0,
            Self::Binary => 0.25,
        }
    }
}

/// The rule of before: three significant digits of each feature's error.
fn rounded(estimates: &DMatrix<f64>, truth: &DMatrix<f64>) -> Vec<f64> {
    mse(estimates, truth).unwrap().by_feature.into_iter().map(three_significant_digits).collect()
}

/// Today's answer, and the standard deviation of its noise.
fn noised(
    estimates: DMatrix<f64>,
    truth: &DMatrix<f64>,
    by_feature: bool,
    rho: f64,
    rng: &mut ChaCha20Rng,
) -> (Vec<f64>, f64) {
    let candidates = [ReducedEstimates::new(estimates, truth).unwrap()];
    let scoring = Scoring { by_feature, ..Scoring::of(&candidates, None, ReportedCandidates::All) };
    let told = scoring.noised(rho, rng).unwrap().errors.remove(0).error;
    if by_feature {
        (told.by_feature, told.sigma_by_feature.unwrap())
    } else {
        (vec![told.mse], told.sigma.unwrap())
    }
}

/// Entry of the Hadamard matrix.
fn hadamard(row: usize, column: usize) -> f64 {
    if (row & column).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}

/// Reads every feature of 100 records from errors of centre ± c × Hadamard rows: 129 answers. E(c h) − E(0) = c² + (2c / n) Σ h (m − x).
fn read_by_hadamard(
    centre: &DMatrix<f64>,
    c: f64,
    ask: impl Fn(&DMatrix<f64>) -> Vec<f64>,
) -> DMatrix<f64> {
    let (d, n) = centre.shape();
    // Column 0 has no −1: there the rounding of the first answer would add up.
    let rows = (n + 1).next_power_of_two();
    let base = ask(centre);
    let mut read = centre.clone();
    for row in 0..rows {
        let answer = ask(&DMatrix::from_fn(d, n, |f, i| centre[(f, i)] + c * hadamard(row, i + 1)));
        for f in 0..d {
            let sum = (answer[f] - base[f] - c * c) * n as f64 / (2.0 * c);
            for i in 0..n {
                read[(f, i)] -= hadamard(row, i + 1) * sum / rows as f64;
            }
        }
    }
    read
}

fn rms(a: &DMatrix<f64>, b: &DMatrix<f64>) -> f64 {
    ((a - b).norm_squared() / a.len() as f64).sqrt()
}

/// The rule of before loses: 129 answers read 100 × 12 uniform values to 6e-3, as many again to 1e-4, of a standard deviation of 0.29.
/// (Values that vary less have smaller errors, which three digits tell more sharply: the review read its data to 1.3e-3 and 1.5e-5.)
#[test]
fn three_digits_were_read_by_hadamard_rows() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let truth = Kind::Continuous.draw(12, 100, &mut rng);
    let ask = |e: &DMatrix<f64>| rounded(e, &truth);
    let first = read_by_hadamard(&DMatrix::from_element(12, 100, 0.5), 0.1, ask);
    let error = rms(&first, &truth);
    let second = rms(&read_by_hadamard(&first, error, ask), &truth);
    println!("three digits: rms {error:.2e} after 129 answers, {second:.2e} after 258");
    assert!(error < 1e-2 && second < 3e-4, "{error:e}, {second:e}");
}

/// Error over standard deviation: of the record and feature named beforehand over all runs, and over all records of all runs.
#[derive(Default)]
struct Tally {
    named: f64,
    all: f64,
    values: usize,
    runs: usize,
}

impl Tally {
    fn add(&mut self, read: &DMatrix<f64>, truth: &DMatrix<f64>, variance: f64) {
        self.named += (read[(0, 7)] - truth[(0, 7)]).powi(2) / variance;
        self.all += (read - truth).norm_squared() / variance;
        self.values += truth.len();
        self.runs += 1;
    }

    /// Prints both figures and holds them against the promise.
    fn judge(&self, what: &str) {
        let named = (self.named / self.runs as f64).sqrt();
        let all = (self.all / self.values as f64).sqrt();
        println!("{what}: named {named:.3}, all {all:.3} of the standard deviation");
        assert!(self.runs >= RUNS && named >= 0.9 && all >= 0.9, "{what}: {named} {all}");
        assert!(
            named < 1.15 && all < 1.05,
            "{what}: a reader must not do worse than the mean: {named} {all}"
        );
    }
}

/// The best linear reader of pairs of answers about ½ ± signs/2: the posterior mean for normal values, known prior and noise.
///
/// E(½ + h/2) − E(½ − h/2) = (2/m) Σ h (½ − x) over the m values that an answer is a mean of.
struct LinearReader {
    /// One design per row, one value per column.
    designs: DMatrix<f64>,
    /// m⁻¹ (v A Aᵀ + s² I)⁻¹, ready to be applied: posterior = ½ − v Aᵀ K⁻¹ z.
    inverse: DMatrix<f64>,
    variance: f64,
}

impl LinearReader {
    fn new(designs: DMatrix<f64>, variance: f64, sigma: f64) -> Self {
        let (q, m) = designs.shape();
        let scale = 2.0 / m as f64;
        let kernel = variance * scale * scale * &designs * designs.transpose()
            + DMatrix::identity(q, q) * (2.0 * sigma * sigma);
        Self { designs, inverse: kernel.try_inverse().unwrap() * scale, variance }
    }

    fn read(&self, differences: &DVector<f64>) -> DVector<f64> {
        let weights = &self.inverse * differences;
        (self.variance * self.designs.tr_mul(&weights)).map(|u| 0.5 - u)
    }
}

/// One run: every design is asked as a pair, the whole budget divided among all answers. By feature the design is of the records, the
/// same for every feature; overall it is of all values.
fn run(
    designs: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    by_feature: bool,
    rng: &mut ChaCha20Rng,
) -> (Vec<DVector<f64>>, f64) {
    let (d, n) = truth.shape();
    let q = designs.nrows();
    let figures = if by_feature { d } else { 1 };
    let mut differences = vec![DVector::zeros(q); figures];
    let mut sigma = 0.0;
    for row in 0..q {
        let side = |sign: f64| {
            let at = |f: usize, i: usize| if by_feature { i } else { i * d + f };
            DMatrix::from_fn(d, n, |f, i| 0.5 + sign * 0.5 * designs[(row, at(f, i))])
        };
        let rho = RHO / (2 * q) as f64;
        let (up, s) = noised(side(1.0), truth, by_feature, rho, rng);
        let (down, _) = noised(side(-1.0), truth, by_feature, rho, rng);
        sigma = s;
        for (figure, (u, v)) in up.iter().zip(&down).enumerate() {
            differences[figure][row] = u - v;
        }
    }
    (differences, sigma)
}

fn attack(
    what: &str,
    kind: Kind,
    (d, n): (usize, usize),
    designs: &DMatrix<f64>,
    by_feature: bool,
    seed: u64,
) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut tally = Tally::default();
    let mut reader: Option<LinearReader> = None;
    for _ in 0..RUNS {
        let truth = kind.draw(d, n, &mut rng);
        let (differences, sigma) = run(designs, &truth, by_feature, &mut rng);
        let reader = reader
            .get_or_insert_with(|| LinearReader::new(designs.clone(), kind.variance(), sigma));
        let read = if by_feature {
            let rows: Vec<_> = differences.iter().map(|z| reader.read(z).transpose()).collect();
            DMatrix::from_rows(&rows)
        } else {
            DMatrix::from_column_slice(d, n, reader.read(&differences[0]).as_slice())
        };
        tally.add(&read, &truth, kind.variance());
    }
    tally.judge(&format!("{what}, {kind:?}, {n} records x {d}"));
}

fn hadamard_rows(rows: usize, columns: usize) -> DMatrix<f64> {
    DMatrix::from_fn(rows, columns, hadamard)
}

fn random_rows(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| if rng.random::<bool>() { 1.0 } else { -1.0 })
}

#[test]
fn hadamard_rows_read_nothing_from_noise() {
    attack(
        "Hadamard rows by feature",
        Kind::Continuous,
        (12, 100),
        &hadamard_rows(128, 100),
        true,
        10,
    );
    attack("Hadamard rows by feature", Kind::Binary, (3, 100), &hadamard_rows(128, 100), true, 11);
    attack("Hadamard rows by feature", Kind::Binary, (2, 1000), &hadamard_rows(32, 1000), true, 12);
    attack(
        "Hadamard rows by feature",
        Kind::Continuous,
        (1, 10_000),
        &hadamard_rows(16, 10_000),
        true,
        13,
    );
}

#[test]
fn random_designs_read_nothing_from_noise() {
    attack("random designs", Kind::Continuous, (12, 100), &random_rows(64, 1200, 1), false, 20);
    attack("random designs", Kind::Binary, (1, 1000), &random_rows(64, 1000, 2), false, 21);
    attack("one random design", Kind::Binary, (1, 100), &random_rows(1, 100, 3), false, 22);
}

/// All of the budget on one value, and everything else known to the reader: the most that can be had.
#[test]
fn one_value_at_a_time_with_all_others_known() {
    for (kind, n, seed) in
        [(Kind::Binary, 100, 30), (Kind::Continuous, 100, 31), (Kind::Binary, 10_000, 32)]
    {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut tally = Tally::default();
        for _ in 0..RUNS {
            let truth = kind.draw(1, n, &mut rng);
            // The estimate is the truth but for the record attacked, at 0: the answer is x² / n.
            let mut estimates = truth.clone();
            estimates[(0, 7)] = 0.0;
            let (told, sigma) = noised(estimates, &truth, false, RHO, &mut rng);
            // Best linear estimate of x from x² n⁻¹ + noise. For x in {0, 1} x² = x; uniform: cov(x, x²) = 1/12, var x² = 4/45, E x² = 1/3.
            let (covariance, square, mean) = match kind {
                Kind::Binary => (0.25, 0.25, 0.5),
                Kind::Continuous => (1.0 / 12.0, 4.0 / 45.0, 1.0 / 3.0),
            };
            let noise = (sigma * n as f64).powi(2);
            let read = 0.5 + covariance / (square + noise) * (told[0] * n as f64 - mean);
            let mut all = truth.clone();
            all[(0, 7)] = read;
            // The others are known: only the record named counts.
            tally.named += (read - truth[(0, 7)]).powi(2) / kind.variance();
            tally.all += (read - truth[(0, 7)]).powi(2) / kind.variance();
            tally.values += 1;
            tally.runs += 1;
        }
        let named = (tally.named / RUNS as f64).sqrt();
        println!(
            "one at a time, all else known, {kind:?}, {n} records: named {named:.3} (promised {:.3})",
            least_error(RHO)
        );
        assert!((0.9..1.1).contains(&named), "{named}");
    }
}

/// Moves the estimates of 40 records together until an answer is about to round the other way. 2000 binary records: a single one
/// moves an answer by half a step of the third digit.
struct Boundary {
    estimates: DMatrix<f64>,
    low: f64,
    answers: usize,
}

const DIAL: usize = 40;

fn walk(ask: &mut impl FnMut(&DMatrix<f64>) -> f64, n: usize, steps: usize) -> Option<Boundary> {
    let at = |u: f64| DMatrix::from_fn(1, n, |_, i| if i >= n - DIAL { u } else { 0.5 });
    let (mut from, mut to) = (0.5, 1.0);
    let low = ask(&at(from));
    if ask(&at(to)) == low {
        return None;
    }
    for _ in 0..steps {
        let middle = 0.5 * (from + to);
        if ask(&at(middle)) == low { from = middle } else { to = middle }
    }
    Some(Boundary { estimates: at(from), low, answers: steps + 2 })
}

/// Before: after 18 answers that find a rounding boundary, every further one reads one binary value of 2000 records.
#[test]
fn a_rounding_boundary_reads_one_value_an_answer_and_noise_has_none() {
    let n = 2000;
    let mut rng = ChaCha20Rng::seed_from_u64(40);
    let truth = Kind::Binary.draw(1, n, &mut rng);
    let mut ask = |e: &DMatrix<f64>| rounded(e, &truth)[0];
    let found = walk(&mut ask, n, 16).expect("40 records move the third digit");
    // At the boundary: a record that is 1 brings the answer down, one that is 0 up.
    let up = ask(&DMatrix::from_fn(1, n, |_, i| if i >= n - DIAL { 1.0 } else { 0.5 })) > found.low;
    let wrong = (0..500).filter(|&i| {
        let mut estimates = found.estimates.clone();
        estimates[(0, i)] = 1.0;
        let crossed = ask(&estimates) != found.low;
        let read = if up { !crossed } else { crossed };
        read != (truth[(0, i)] == 1.0)
    });
    let wrong = wrong.count();
    println!(
        "three digits: {} answers to a boundary, then 500 read {} of 500 values right",
        found.answers,
        500 - wrong
    );
    assert_eq!(wrong, 0);

    // The same walk on noisy answers, taken to three digits: how much of the value does the last answer explain, over all runs?
    let (mut pairs, steps) = (Vec::new(), 16);
    for _ in 0..RUNS {
        let truth = Kind::Binary.draw(1, n, &mut rng);
        let rho = RHO / (steps + 3) as f64;
        let mut ask = |e: &DMatrix<f64>| {
            three_significant_digits(noised(e.clone(), &truth, false, rho, &mut rng).0[0])
        };
        let found = walk(&mut ask, n, steps)
            .map_or_else(|| DMatrix::from_element(1, n, 0.5), |b| b.estimates);
        let mut estimates = found;
        estimates[(0, 7)] = 1.0;
        pairs.push((ask(&estimates), truth[(0, 7)]));
    }
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / RUNS as f64;
    let (a, x) = (mean(&|p| p.0), mean(&|p| p.1));
    let covariance = mean(&|p| (p.0 - a) * (p.1 - x));
    let explained =
        covariance.powi(2) / (mean(&|p| (p.0 - a).powi(2)) * mean(&|p| (p.1 - x).powi(2)));
    let left = (1.0 - explained).sqrt();
    println!("with noise: the answer at the boundary leaves {left:.3} of the standard deviation");
    assert!(left >= 0.9, "{left}");
}

/// Several sets of other records add nothing about a record: what is told of one set does not depend on another.
#[test]
fn several_sets_have_a_budget_each_and_say_nothing_of_each_other() {
    let mut rng = ChaCha20Rng::seed_from_u64(50);
    let designs = hadamard_rows(64, 100);
    let mut tally = Tally::default();
    let mut reader: Option<LinearReader> = None;
    for _ in 0..RUNS / 4 {
        for _ in 0..8 {
            let truth = Kind::Binary.draw(1, 100, &mut rng);
            let (differences, sigma) = run(&designs, &truth, true, &mut rng);
            let reader =
                reader.get_or_insert_with(|| LinearReader::new(designs.clone(), 0.25, sigma));
            let read = DMatrix::from_rows(&[reader.read(&differences[0]).transpose()]);
            tally.add(&read, &truth, 0.25);
        }
    }
    tally.judge("eight sets of 100, all budgets spent");
}

/// What an audit still tells: the default plan of the examples (three policies, aware adversaries, records without a score) has 13
/// parts, all of ρ = 0.0869 is spent.
#[test]
fn a_large_audit_still_tells_an_error() {
    let parts = 13.0;
    println!(
        "| records | sigma of an error, worst case | estimates like the truth | one scoring with all of rho | error by feature, d = 12 |"
    );
    println!("|---|---|---|---|---|");
    let mut rng = ChaCha20Rng::seed_from_u64(60);
    for (n, most) in [(100, 0.1), (1000, 0.01), (10_000, 0.001)] {
        let truth = Kind::Continuous.draw(12, n, &mut rng);
        let near = truth.map(|x| 0.8 * x + 0.1);
        let sigma = |e: &DMatrix<f64>, rho: f64, by_feature: bool| {
            noised(e.clone(), &truth, by_feature, rho, &mut ChaCha20Rng::seed_from_u64(0)).1
        };
        let worst = sigma(&truth.map(f64::round), RHO / parts, false);
        let typical = sigma(&near, RHO / parts, false);
        let all = sigma(&near, RHO, false);
        let feature = sigma(&near, RHO / parts, true);
        println!("| {n} | {worst:.5} | {typical:.5} | {all:.5} | {feature:.5} |");
        assert!(worst < most && typical < worst && all < typical && feature > typical);
        // It is what is derived: 1 / (n √(2ρ)), to one in a hundred.
        let derived = 1.0 / (n as f64 * (2.0 * RHO / parts).sqrt());
        assert!((worst / derived - 1.0).abs() < 0.01, "{worst} {derived}");
    }
}
