//! What every metric in the register owes: a name of its own, figures in its range, and a bound that no record passes.

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;

use super::*;

/// Class of a record by its first feature.
fn classify(x: &DMatrix<f64>) -> Result<Vec<u32>, MetricError> {
    Ok(x.row(0).iter().map(|&v| u32::from(v > 0.5)).collect())
}

fn measure(metric: &dyn Metric, estimates: &DMatrix<f64>, truth: &DMatrix<f64>) -> Option<f64> {
    metric.measure(&Reconstruction { estimates, truth, classify: &classify }).unwrap()
}

#[test]
fn names_and_titles_are_distinct_and_found_again() {
    for (at, metric) in METRICS.iter().enumerate() {
        let name = metric.name();
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
            "{name}"
        );
        assert!(metric.title().chars().count() <= 20, "{}", metric.title());
        assert!(!metric.meaning().ends_with('.') && metric.meaning().len() > 20);
        assert!(
            METRICS[..at]
                .iter()
                .all(|other| other.name() != name && other.title() != metric.title())
        );
        assert_eq!(metrics_named([name]).unwrap(), [*metric]);
    }
    assert!(metrics_named([]).unwrap().is_empty());
    let unknown = metrics_named(["correlation", "mse2"]).unwrap_err().to_string();
    assert!(
        unknown.contains("`mse2`") && unknown.contains("attack_accuracy, correlation"),
        "{unknown}"
    );
    assert!(matches!(
        metrics_named(["correlation"; 2]),
        Err(MetricNameError::Twice { name: "correlation" })
    ));
}

/// Figures that are bounded, and those that are not: a bound is a promise about privacy, and none comes or goes unseen.
#[test]
fn these_have_a_bound_and_no_others() {
    let bounded: Vec<&str> = METRICS.iter().filter(|m| m.bounded()).map(|m| m.name()).collect();
    assert_eq!(bounded, ["values_within", "records_within", "permutation_matched_mse"]);
}

#[test]
fn a_perfect_reconstruction_is_the_best_there_is() {
    let truth =
        DMatrix::from_fn(3, 120, |i, j| ((j * 7 + i * 5) % (i + 2)) as f64 / (i + 1) as f64);
    let half = DMatrix::from_element(3, 120, 0.5);
    for metric in METRICS {
        let (perfect, guess) =
            (measure(*metric, &truth, &truth).unwrap(), measure(*metric, &half, &truth).unwrap());
        let (best, better) = match metric.direction() {
            Direction::Higher => (1.0, perfect > guess),
            Direction::Lower => (0.0, perfect < guess),
        };
        assert!((perfect - best).abs() < 1e-12 && better, "{}: {perfect}, {guess}", metric.name());
    }
}

#[test]
fn what_is_not_defined_says_so() {
    let truth = DMatrix::from_fn(1, 100, |_, j| j as f64 / 99.0);
    assert_eq!(measure(&ConditionalEntropy, &truth, &truth), None, "100 values are not discrete");
    let constant = DMatrix::from_element(1, 100, 0.5);
    assert_eq!(measure(&ConditionalEntropy, &truth, &constant), None, "nothing to know");
    let none = |_: &DMatrix<f64>| Err(MetricError::NoClasses { reason: "name a model".into() });
    let refused = AttackAccuracy
        .measure(&Reconstruction { estimates: &truth, truth: &truth, classify: &none })
        .unwrap_err();
    assert!(refused.to_string().contains("name a model"));
}

/// Values of the box, its ends and middle often, and a hair on either side of the tolerance.
fn unit() -> impl Strategy<Value = f64> {
    prop_oneof![2 => Just(0.0), 2 => Just(1.0), 1 => Just(0.5), 1 => Just(TOLERANCE), 1 => Just(0.100_000_1), 3 => 0.0..=1.0f64]
}

fn matrix(d: usize, n: usize) -> impl Strategy<Value = DMatrix<f64>> {
    prop::collection::vec(unit(), d * n).prop_map(move |v| DMatrix::from_vec(d, n, v))
}

fn tables() -> impl Strategy<Value = (DMatrix<f64>, DMatrix<f64>, usize)> {
    (1usize..4, 2usize..7).prop_flat_map(|(d, n)| (matrix(d, n), matrix(d, n), 0..n))
}

/// The largest change over all records of a few values each, old and new: ends of the box, the estimate itself and what lies just
/// within and just beyond the tolerance of it.
fn largest_change(
    metric: &dyn Metric,
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    at: usize,
) -> f64 {
    let d = truth.nrows();
    let candidates = |i: usize| {
        let e = estimates[(i, at)];
        [0.0, 1.0, e, (e + 0.99 * TOLERANCE).min(1.0), (e - 1.01 * TOLERANCE).max(0.0)]
    };
    let mut figures = Vec::new();
    let mut neighbour = truth.clone();
    for choice in 0..5usize.pow(d as u32) {
        let record = DVector::from_fn(d, |i, _| candidates(i)[choice / 5usize.pow(i as u32) % 5]);
        neighbour.set_column(at, &record);
        figures.push(measure(metric, estimates, &neighbour).unwrap());
    }
    let (low, high) =
        figures.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), f| (l.min(*f), h.max(*f)));
    high - low
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// For any estimates and any other records, a search over one record finds no change beyond the bound.
    #[test]
    fn no_record_passes_a_bound((truth, estimates, at) in tables()) {
        for metric in METRICS.iter().filter(|m| m.bounded()) {
            let bound = metric.sensitivity(&estimates).unwrap();
            let found = largest_change(*metric, &estimates, &truth, at);
            prop_assert!(bound > 0.0 && found <= bound + 1e-12, "{}: {found} beyond {bound}", metric.name());
        }
    }

    /// Figures lie in the range of their unit, for every metric and any estimates.
    #[test]
    fn figures_are_in_range((truth, estimates, _) in tables()) {
        for metric in METRICS {
            if let Some(figure) = measure(*metric, &estimates, &truth) {
                prop_assert!((0.0..=metric.unit().most()).contains(&figure), "{}: {figure}", metric.name());
            }
        }
    }
}

/// The bounds are not loose: some record moves each of them all the way.
#[test]
fn every_bound_is_reached() {
    let (zeros, truth) = (DMatrix::zeros(3, 7), DMatrix::from_element(3, 7, 0.0));
    for metric in METRICS.iter().filter(|m| m.bounded()) {
        let (bound, found) =
            (metric.sensitivity(&zeros).unwrap(), largest_change(*metric, &zeros, &truth, 4));
        assert!((found / bound - 1.0).abs() < 1e-9, "{}: {found} of {bound}", metric.name());
    }
}
