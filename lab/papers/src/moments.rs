//! R figure 6 and V figures 2 and 6: means, variances and covariances of the features.

use nalgebra::DMatrix;

use super::document::{Axis, Check, CheckKind, Curve, CurveRole, Document, HeatMap, Measure};
use super::experiment_model::ExperimentModel;
use super::{Figure, Options, ReproduceError, blank};

/// The mean of each feature, and K_μ = E (X − μ)(X − μ)ᵀ with divisor n, over all records.
struct Moments {
    mean: Vec<f64>,
    covariance: DMatrix<f64>,
    records: usize,
}

impl Moments {
    fn of(subject: &ExperimentModel) -> Self {
        let all = subject.all_records();
        let mean = all.column_mean();
        let n = all.ncols();
        let mut centred = all;
        centred.column_iter_mut().for_each(|mut x| x -= &mean);
        Self {
            mean: mean.iter().copied().collect(),
            covariance: &centred * centred.transpose() / n as f64,
            records: n,
        }
    }

    fn variance(&self) -> Vec<f64> {
        self.covariance.diagonal().iter().copied().collect()
    }

    /// Returns |K_ij| / √(K_ii K_jj) of each pair i ≠ j; pairs with a feature that does not vary
    /// count as 0.
    fn correlations(&self) -> Vec<f64> {
        let (k, d) = (&self.covariance, self.mean.len());
        let correlation = |i: usize, j: usize| {
            let scale = (k[(i, i)] * k[(j, j)]).sqrt();
            if scale > 0.0 { (k[(i, j)] / scale).abs() } else { 0.0 }
        };
        (0..d).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| correlation(i, j)).collect()
    }

    /// Returns three other measures of the distance of K from a diagonal matrix: Σ_{i ≠ j} |K_ij| /
    /// Σ K_ii, the same of squares under a root, and the median correlation. All are 0 for a
    /// diagonal K.
    fn off_diagonal(&self) -> [f64; 3] {
        let k = &self.covariance;
        let (diagonal, all) =
            (k.diagonal(), |f: fn(f64) -> f64| k.iter().map(|v| f(*v)).sum::<f64>());
        let squares: f64 = diagonal.iter().map(|v| v * v).sum();
        let mut correlations = self.correlations();
        correlations.sort_by(f64::total_cmp);
        let median = correlations.get(correlations.len() / 2).copied().unwrap_or(0.0);
        let of = |off: f64, on: f64| off.max(0.0) / on.max(f64::MIN_POSITIVE);
        [
            of(all(f64::abs) - diagonal.sum(), diagonal.sum()),
            of(all(|v| v * v) - squares, squares).sqrt(),
            median,
        ]
    }
}

/// Computes R figure 6 or V figure 2.
pub(super) fn run(
    figure: Figure,
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let moments = Moments::of(subject);
    let d = moments.mean.len();
    let mut document = blank(figure, subject, options.seed, moments.records);
    document.axis = Axis {
        label: "feature, in the order of the data set".into(),
        symbol: "feature".into(),
        points: (1..=d).collect(),
        determined_up_to: None,
    };
    document.measure = Measure::linear("mean and variance of the features");
    let overall = moments.mean.iter().sum::<f64>() / d as f64;
    let curves = [
        ("mean", moments.mean.clone()),
        ("variance", moments.variance()),
        (MEAN_OF_MEANS, vec![overall; d]),
    ];
    for (name, mean) in curves {
        document.curves.push(Curve {
            name: name.into(),
            role: if name == MEAN_OF_MEANS { CurveRole::Guess } else { CurveRole::Measured },
            of: None,
            x: (1..=d).map(|i| i as f64).collect(),
            mean,
            standard_error: None,
            spread: None,
        });
    }
    let worst = moments
        .mean
        .iter()
        .zip(moments.variance())
        .map(|(m, v)| v - m * (1.0 - m))
        .fold(f64::MIN, f64::max);
    document.checks.push(Check {
        id: "variance_bound".into(),
        kind: CheckKind::Theorem,
        claim: "the variance of a feature in [0, 1] is at most μ (1 − μ)".into(),
        holds: worst <= 1e-12,
        comparisons: d as u64,
        detail: format!("at most μ (1 − μ) + {worst:.1e}; mean of the means {overall:.4}"),
        violations: Vec::new(),
    });
    if let Some(off) = from_half(&document) {
        document.notes.push(format!(
            "½ is {off:.4} away from the means, root mean square over the features: (1/d) Tr K_½ = (1/d) Tr K_μ + {:.5}",
            off * off
        ));
    }
    Ok(document)
}

const MEAN_OF_MEANS: &str = "mean_of_means";

/// Returns √((1/d) ‖μ − ½‖²).
pub(super) fn from_half(document: &Document) -> Option<f64> {
    let mean = document.curve("mean")?;
    Some(
        (mean.mean.iter().map(|m| (m - 0.5) * (m - 0.5)).sum::<f64>()
            / mean.mean.len().max(1) as f64)
            .sqrt(),
    )
}

/// Computes V figure 6.
pub(super) fn covariance(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let moments = Moments::of(subject);
    let mut document = blank(Figure::VFig6, subject, options.seed, moments.records);
    document.measure = Measure::linear("covariance of two features");
    document.heat_map = Some(HeatMap {
        label: "covariance of two features".into(),
        names: subject.feature_names.clone(),
        rows: moments.covariance.row_iter().map(|row| row.iter().copied().collect()).collect(),
    });
    let least = moments.covariance.clone().symmetric_eigenvalues().min();
    document.checks.push(Check {
        id: "no_negative_eigenvalue".into(),
        kind: CheckKind::Theorem,
        claim: "a covariance has no negative eigenvalue".into(),
        holds: least >= -1e-12,
        comparisons: 1,
        detail: format!("least eigenvalue {least:.2e}"),
        violations: Vec::new(),
    });
    let correlations = moments.correlations();
    let mean = correlations.iter().sum::<f64>() / correlations.len().max(1) as f64;
    document.notes.push(format!("{CORRELATION}{mean:.4}"));
    let [sums, squares, median] = moments.off_diagonal();
    document.notes.push(format!(
        "other measures of what lies off the diagonal: sum of magnitudes over that of the diagonal {sums:.2}, root of the sum of squares \
         over that of the diagonal {squares:.2}, median absolute correlation {median:.3}"
    ));
    Ok(document)
}

/// Reads the mean correlation from a document of V figure 6.
pub(super) fn correlation(document: &Document) -> Option<f64> {
    document.notes.iter().find_map(|note| note.strip_prefix(CORRELATION)?.parse().ok())
}

const CORRELATION: &str = "mean absolute correlation of two different features: ";
