//! Clarabel, an interior point solver not written by us, on the three programs of
//! [`BoxSystem`](vfl_numerics::BoxSystem). Everything but the semidefinite cone is plain Rust.
//!
//! Its form is: minimise ½ xᵀP x + qᵀx with A x + s = b and s in a product of cones.

use clarabel::algebra::CscMatrix;
use clarabel::solver::SupportedConeT::{NonnegativeConeT, ZeroConeT};
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};
use nalgebra::DMatrix;

#[cfg(feature = "sdp-oracle")]
pub(crate) use semidefinite::{centre, centre_lifted};

/// What Clarabel found.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The d features.
    pub(crate) x: Vec<f64>,
    /// Value of the method's objective at `x`, as the solver has it.
    pub(crate) primal: f64,
    /// Value of the solver's dual, a bound of the same quantity once converged.
    pub(crate) dual: f64,
    /// Whether the tolerances asked for were met.
    pub(crate) solved: bool,
}

/// The accuracy a user gets who asks for nothing.
pub(crate) fn default_settings() -> DefaultSettings<f64> {
    DefaultSettings { verbose: false, max_threads: 1, ..DefaultSettings::default() }
}

/// As accurate as it gets: it goes on until it makes no progress, and says `solved` only where `tolerance` was met.
pub(crate) fn tight_settings(tolerance: f64) -> DefaultSettings<f64> {
    DefaultSettings {
        tol_gap_abs: tolerance,
        tol_gap_rel: tolerance,
        tol_feas: tolerance,
        static_regularization_constant: 1e-10,
        iterative_refinement_reltol: 1e-15,
        iterative_refinement_abstol: 1e-15,
        iterative_refinement_max_iter: 30,
        ..default_settings()
    }
}

/// A program under construction.
struct Program {
    columns: usize,
    /// (row, column, value) of A.
    entries: (Vec<usize>, Vec<usize>, Vec<f64>),
    b: Vec<f64>,
    cones: Vec<SupportedConeT<f64>>,
}

impl Program {
    fn new(columns: usize) -> Self {
        Self { columns, entries: (vec![], vec![], vec![]), b: vec![], cones: vec![] }
    }

    /// One more row of A, given by its nonzeros, and its right side.
    fn row(&mut self, nonzeros: impl IntoIterator<Item = (usize, f64)>, right: f64) {
        for (column, value) in nonzeros.into_iter().filter(|&(_, v)| v != 0.0) {
            self.entries.0.push(self.b.len());
            self.entries.1.push(column);
            self.entries.2.push(value);
        }
        self.b.push(right);
    }

    /// The rows since the last cone lie in this one.
    fn cone(&mut self, cone: SupportedConeT<f64>) {
        self.cones.push(cone);
    }

    /// 0 ≤ x_i ≤ 1 for the first `d` variables.
    fn unit_box(&mut self, d: usize) {
        for i in 0..d {
            self.row([(i, -1.0)], 0.0);
            self.row([(i, 1.0)], 1.0);
        }
        self.cone(NonnegativeConeT(2 * d));
    }

    /// A x = b on the first variables.
    fn equations(&mut self, a: &DMatrix<f64>, b: &[f64]) {
        for (row, &right) in a.row_iter().zip(b) {
            self.row(row.iter().copied().enumerate(), right);
        }
        if a.nrows() > 0 {
            self.cone(ZeroConeT(a.nrows()));
        }
    }

    fn solve(self, p: &CscMatrix<f64>, q: &[f64], settings: DefaultSettings<f64>) -> Solution {
        let (rows, columns, values) = self.entries;
        let a = CscMatrix::new_from_triplets(self.b.len(), self.columns, rows, columns, values);
        let mut solver = DefaultSolver::new(p, q, &a, &self.b, &self.cones, settings)
            .expect("a program that is valid");
        solver.solve();
        let found = &solver.solution;
        assert!(
            !matches!(found.status, SolverStatus::PrimalInfeasible | SolverStatus::DualInfeasible),
            "Clarabel: {:?} for a program that has a solution",
            found.status
        );
        Solution {
            variables: found.x.clone(),
            primal: found.obj_val,
            dual: found.obj_val_dual,
            solved: found.status == SolverStatus::Solved,
        }
    }
}

struct Solution {
    variables: Vec<f64>,
    primal: f64,
    dual: f64,
    solved: bool,
}

/// A diagonal matrix; what is not given is 0.
fn diagonal(values: impl IntoIterator<Item = f64>, columns: usize) -> CscMatrix<f64> {
    let (mut at, mut nonzero) = (vec![], vec![]);
    for (i, v) in values.into_iter().enumerate().filter(|&(_, v)| v != 0.0) {
        at.push(i);
        nonzero.push(v);
    }
    CscMatrix::new_from_triplets(columns, columns, at.clone(), at, nonzero)
}

/// RCC2: minimise ½‖x − ½‖² with A x = b over the box. The objectives are turned into Σ x_i (1 − x_i) = d/4 − ‖x − ½‖².
pub(crate) fn nearest_half(a: &DMatrix<f64>, b: &[f64], settings: DefaultSettings<f64>) -> Found {
    let d = a.ncols();
    let mut program = Program::new(d);
    program.equations(a, b);
    program.unit_box(d);
    let solution = program.solve(&CscMatrix::identity(d), &vec![-0.5; d], settings);
    // ½‖x‖² − ½ 1ᵀx = −½ Σ x_i (1 − x_i).
    Found {
        x: solution.variables,
        primal: -2.0 * solution.primal,
        dual: -2.0 * solution.dual,
        solved: solution.solved,
    }
}

/// The point nearest to ½ of {x in the box : l ≤ B x ≤ u}, infinite ends left out. Its `primal` is ½‖x‖² − ½ 1ᵀx.
pub(crate) fn nearest_between(
    b: &DMatrix<f64>,
    ends: &[(f64, f64)],
    settings: DefaultSettings<f64>,
) -> Found {
    let d = b.ncols();
    let mut program = Program::new(d);
    let mut rows = 0;
    for (row, &(lower, upper)) in b.row_iter().zip(ends) {
        if lower.is_finite() {
            program.row(row.iter().map(|v| -v).enumerate(), -lower);
            rows += 1;
        }
        if upper.is_finite() {
            program.row(row.iter().copied().enumerate(), upper);
            rows += 1;
        }
    }
    if rows > 0 {
        program.cone(NonnegativeConeT(rows));
    }
    program.unit_box(d);
    let solution = program.solve(&CscMatrix::identity(d), &vec![-0.5; d], settings);
    Found {
        x: solution.variables,
        primal: solution.primal,
        dual: solution.dual,
        solved: solution.solved,
    }
}

/// The upper triangle of a symmetric matrix.
fn symmetric(m: &DMatrix<f64>) -> CscMatrix<f64> {
    let mut upper = (vec![], vec![], vec![]);
    for j in 0..m.ncols() {
        for i in 0..=j {
            upper.0.push(i);
            upper.1.push(j);
            upper.2.push(m[(i, j)]);
        }
    }
    CscMatrix::new_from_triplets(m.ncols(), m.ncols(), upper.0, upper.1, upper.2)
}

/// The likeliest point of a Gaussian: minimise (x − m)ᵀ `precision` (x − m) with A x = b over the box.
pub(crate) fn likeliest(
    precision: &DMatrix<f64>,
    mean: &[f64],
    a: &DMatrix<f64>,
    b: &[f64],
    settings: DefaultSettings<f64>,
) -> Found {
    let d = a.ncols();
    let mut program = Program::new(d);
    program.equations(a, b);
    program.unit_box(d);
    let mean = DMatrix::from_column_slice(d, 1, mean);
    let pull = precision * &mean;
    let solution = program.solve(&symmetric(precision), (-&pull).as_slice(), settings);
    let constant = mean.dot(&pull);
    Found {
        x: solution.variables,
        primal: 2.0 * solution.primal + constant,
        dual: 2.0 * solution.dual + constant,
        solved: solution.solved,
    }
}

/// CLS: minimise ‖A x − b‖² over the box, with AᵀA as the quadratic term: the smallest program, and the fastest.
pub(crate) fn least_squares(a: &DMatrix<f64>, b: &[f64], settings: DefaultSettings<f64>) -> Found {
    let d = a.ncols();
    let (gram, column) = (a.transpose() * a, DMatrix::from_column_slice(b.len(), 1, b));
    let q = -(a.transpose() * &column);
    let mut program = Program::new(d);
    program.unit_box(d);
    let solution = program.solve(&symmetric(&gram), q.as_slice(), settings);
    let constant = column.norm_squared();
    Found {
        x: solution.variables,
        primal: 2.0 * solution.primal + constant,
        dual: 2.0 * solution.dual + constant,
        solved: solution.solved,
    }
}

/// CLS in the variables (x, r), r = A x − b: minimise ‖r‖². Larger, and more accurate, as AᵀA is never formed.
pub(crate) fn least_squares_residual(
    a: &DMatrix<f64>,
    b: &[f64],
    settings: DefaultSettings<f64>,
) -> Found {
    let (m, d) = a.shape();
    let mut program = Program::new(d + m);
    for (i, (row, &right)) in a.row_iter().zip(b).enumerate() {
        program.row(row.iter().copied().enumerate().chain([(d + i, -1.0)]), right);
    }
    program.cone(ZeroConeT(m));
    program.unit_box(d);
    let p = diagonal(std::iter::repeat_n(0.0, d).chain(std::iter::repeat_n(2.0, m)), d + m);
    let mut solution = program.solve(&p, &vec![0.0; d + m], settings);
    solution.variables.truncate(d);
    Found {
        x: solution.variables,
        primal: solution.primal,
        dual: solution.dual,
        solved: solution.solved,
    }
}

/// How far each coordinate can be from both faces: max t with t ≤ x_i ≤ 1 − t and A x = b, a linear program for each.
#[cfg(feature = "sdp-oracle")]
pub(crate) fn room(a: &DMatrix<f64>, b: &[f64]) -> Vec<f64> {
    let d = a.ncols();
    let alone = |i: usize| {
        let mut program = Program::new(d + 1);
        program.equations(a, b);
        program.unit_box(d);
        program.row([(i, -1.0), (d, 1.0)], 0.0);
        program.row([(i, 1.0), (d, 1.0)], 1.0);
        program.cone(NonnegativeConeT(2));
        let q: Vec<f64> = (0..=d).map(|j| if j == d { -1.0 } else { 0.0 }).collect();
        program.solve(&diagonal([], d + 1), &q, tight_settings(1e-11)).variables[d]
    };
    (0..d).map(alone).collect()
}

/// RCC1, the semidefinite program R (16), through its dual, which is the maximisation that R section V-B relaxes.
///
/// With x = q + N u, N (d × n) an orthonormal basis of A's null space and a_i its rows:
/// maximise tr S over u and S ⪰ 0 with a_iᵀ S a_i ≤ x_i (1 − x_i). (S is R's Δ − u uᵀ.)
#[cfg(feature = "sdp-oracle")]
mod semidefinite {
    use clarabel::solver::SupportedConeT::{PSDTriangleConeT, SecondOrderConeT};
    use nalgebra::DVector;

    use super::*;

    // Clarabel with `sdp` calls BLAS and LAPACK and leaves it to the program to name the library. The linker drops a
    // library that the program itself does not call, so this call is needed, besides being useful.
    #[allow(unsafe_code, reason = "a declaration of a C function that has no precondition")]
    #[link(name = "openblas")]
    unsafe extern "C" {
        safe fn openblas_set_num_threads(threads: std::ffi::c_int);
    }

    /// Matrices of this size are not worth a second thread, and times are compared on one.
    fn hold_to_one_thread() {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(|| openblas_set_num_threads(1));
    }

    /// Entries (i, j), i ≤ j, of the upper triangle in Clarabel's order, with the factor √2 off the diagonal.
    fn triangle(n: usize) -> impl Iterator<Item = (usize, usize, f64)> {
        (0..n).flat_map(|j| {
            (0..=j).map(move |i| (i, j, if i == j { 1.0 } else { std::f64::consts::SQRT_2 }))
        })
    }

    fn triangle_len(n: usize) -> usize {
        n * (n + 1) / 2
    }

    fn found(solution: &Solution, q: &DVector<f64>, basis: &DMatrix<f64>, u: &[f64]) -> Found {
        let x = q + basis * DVector::from_column_slice(u);
        Found {
            x: x.as_slice().to_vec(),
            primal: -solution.primal,
            dual: -solution.dual,
            solved: solution.solved,
        }
    }

    /// In (u, S): each constraint is (x_i − ½)² ≤ ¼ − a_iᵀ S a_i, a second-order cone of three dimensions.
    pub(crate) fn centre(
        q: &DVector<f64>,
        basis: &DMatrix<f64>,
        settings: DefaultSettings<f64>,
    ) -> Found {
        hold_to_one_thread();
        let n = basis.ncols();
        let columns = n + triangle_len(n);
        let mut program = Program::new(columns);
        for (q, row) in q.iter().zip(basis.row_iter()) {
            // τ = ¼ − a_iᵀ S a_i; (2 x_i − 1)² ≤ 4 τ · 1 is ‖(2 x_i − 1, τ − 1)‖ ≤ τ + 1.
            let quadratic: Vec<(usize, f64)> = triangle(n)
                .enumerate()
                .map(|(at, (i, j, scale))| (n + at, scale * row[i] * row[j]))
                .collect();
            program.row(quadratic.iter().copied(), 1.25);
            program.row(quadratic.iter().copied(), -0.75);
            program.row(row.iter().map(|&v| -2.0 * v).enumerate(), 2.0 * q - 1.0);
            program.cone(SecondOrderConeT(3));
        }
        for at in 0..triangle_len(n) {
            program.row([(n + at, -1.0)], 0.0);
        }
        program.cone(PSDTriangleConeT(n));
        let mut cost = vec![0.0; columns];
        for (at, (i, j, _)) in triangle(n).enumerate() {
            cost[n + at] = if i == j { -1.0 } else { 0.0 };
        }
        let solution = program.solve(&diagonal([], columns), &cost, settings);
        found(&solution, q, basis, &solution.variables[..n])
    }

    /// As R writes it, in (u, Δ) with [Δ u; uᵀ 1] ⪰ 0: maximise tr Δ − ‖u‖² with linear constraints
    /// a_iᵀ Δ a_i + (2 q_i − 1) a_iᵀ u ≤ q_i (1 − q_i).
    pub(crate) fn centre_lifted(
        q: &DVector<f64>,
        basis: &DMatrix<f64>,
        settings: DefaultSettings<f64>,
    ) -> Found {
        hold_to_one_thread();
        let n = basis.ncols();
        let columns = n + triangle_len(n);
        let mut program = Program::new(columns);
        for (q, row) in q.iter().zip(basis.row_iter()) {
            let linear = row.iter().map(|&v| (2.0 * q - 1.0) * v).enumerate();
            let quadratic = triangle(n)
                .enumerate()
                .map(|(at, (i, j, scale))| (n + at, scale * row[i] * row[j]));
            program.row(linear.chain(quadratic), q * (1.0 - q));
        }
        program.cone(NonnegativeConeT(q.len()));
        for at in 0..triangle_len(n) {
            program.row([(n + at, -1.0)], 0.0);
        }
        for j in 0..n {
            program.row([(j, -std::f64::consts::SQRT_2)], 0.0);
        }
        program.row([], 1.0);
        program.cone(PSDTriangleConeT(n + 1));
        let mut cost = vec![0.0; columns];
        for (at, (i, j, _)) in triangle(n).enumerate() {
            cost[n + at] = if i == j { -1.0 } else { 0.0 };
        }
        let solution =
            program.solve(&diagonal(std::iter::repeat_n(2.0, n), columns), &cost, settings);
        found(&solution, q, basis, &solution.variables[..n])
    }
}
