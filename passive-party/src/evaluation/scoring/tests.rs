//! What is told of candidates, against closed forms and by simulation. Seeds are fixed; bounds are five standard errors.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::metrics::metrics_named;

use super::*;

fn truth(d: usize, n: usize, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
    DMatrix::from_fn(d, n, |_, _| rng.random())
}

/// Estimates off by `by` towards the middle.
fn off(truth: &DMatrix<f64>, by: f64) -> ReducedEstimates {
    ReducedEstimates::new(truth.map(|x| if x < 0.5 { x + by } else { x - by }), truth).unwrap()
}

fn scoring<'a>(
    candidates: &'a [ReducedEstimates],
    control: Option<&'a ReducedEstimates>,
    told: ReportedCandidates,
) -> Scoring<'a> {
    Scoring::of(candidates, control, told)
}

#[test]
fn estimates_outside_the_box_are_clipped_and_counted() {
    let truth = DMatrix::from_row_slice(1, 4, &[0.0, 1.0, 0.25, 0.5]);
    let wild = DMatrix::from_row_slice(1, 4, &[-7.0, 1e200, 0.25, f64::NAN]);
    let scored = ReducedEstimates::new(wild, &truth).unwrap();
    assert_eq!((scored.errors.overall, scored.clipped()), (0.0, 3));
    assert!(scored.sensitivity.overall <= 0.25);
}

#[test]
fn parts_are_what_is_asked_for() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let truth = truth(2, 100, &mut rng);
    let all = [off(&truth, 0.1), off(&truth, 0.2), off(&truth, 0.3)];
    let control = ReducedEstimates::half(&truth).unwrap();
    for (candidates, control, told, parts) in [
        (3, true, ReportedCandidates::All, 4),
        (3, false, ReportedCandidates::All, 3),
        (3, true, ReportedCandidates::Best, 3),
        (3, false, ReportedCandidates::Nobody, 1),
        (1, false, ReportedCandidates::Best, 1),
        (1, true, ReportedCandidates::Nobody, 1),
        (0, true, ReportedCandidates::Best, 1),
    ] {
        let asked = scoring(&all[..candidates], control.then_some(&all[0]), told);
        assert_eq!(asked.parts(), Ok(parts));
        let answer = asked.noised(0.01, &mut rng).unwrap();
        let errors = answer.errors.len() + usize::from(answer.control.is_some());
        assert_eq!(
            errors + usize::from(asked.chooses()),
            parts,
            "nothing is told beyond the parts"
        );
    }
    for (candidates, told) in [
        (0, ReportedCandidates::All),
        (1, ReportedCandidates::Nobody),
        (0, ReportedCandidates::Nobody),
    ] {
        let asked = scoring(&all[..candidates], None, told);
        assert_eq!(asked.noised(0.01, &mut rng), Err(ScoringError::Nothing));
        assert_eq!(asked.exact(), Err(ScoringError::Nothing));
    }
    let asked = scoring(&all, Some(&control), ReportedCandidates::All);
    assert!(matches!(asked.noised(3e-7, &mut rng), Err(ScoringError::TooSmall { .. })));
}

/// Told by feature, the overall error is the mean of the features and about as sharp as told alone.
#[test]
fn noise_has_the_sigma_that_is_told_and_features_cost_nothing_beside() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let (d, n, rho, runs) = (6, 200, 0.01, 3000);
    let truth = truth(d, n, &mut rng);
    let one = [ReducedEstimates::new(truth.map(f64::round), &truth).unwrap()];
    let alone = scoring(&one, None, ReportedCandidates::Best);
    let both = Scoring { by_feature: true, ..alone };
    let told = |asked: &Scoring<'_>, rng: &mut ChaCha20Rng| {
        asked.noised(rho, rng).unwrap().errors.remove(0).error
    };
    let first = told(&both, &mut rng);
    let (sigma, by_feature) = (first.sigma.unwrap(), first.sigma_by_feature.unwrap());
    assert!(
        (by_feature - (d as f64).sqrt() / n as f64 / (2.0 * rho).sqrt()).abs() < 0.01 * by_feature
    );
    assert!(
        (sigma - told(&alone, &mut rng).sigma.unwrap()).abs() < 0.01 * sigma,
        "no dearer than alone"
    );
    let (mut overall, mut single) = (0.0, 0.0);
    for _ in 0..runs {
        let error = told(&both, &mut rng);
        let mean = error.by_feature.iter().sum::<f64>() / d as f64;
        assert_eq!(error.mse, mean);
        overall += (error.mse - one[0].errors.overall).powi(2) / sigma.powi(2);
        single += (error.by_feature[3] - one[0].errors.by_feature[3]).powi(2) / by_feature.powi(2);
    }
    let tolerance = 5.0 * (2.0 / f64::from(runs)).sqrt();
    for square in [overall, single] {
        assert!((square / f64::from(runs) - 1.0).abs() < tolerance, "{square}");
    }
}

/// Odds of the exponential mechanism: exp(−gap n √(8ρ) / (range of the difference n)).
#[test]
fn the_best_is_chosen_with_the_odds_of_its_price() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let (n, rho, runs) = (100, 0.02, 20_000);
    let truth = DMatrix::zeros(1, n);
    // Errors 0 and 0.04 of a candidate at 0 (bound 1/n) and one of which four records are at 1 (bound 1/n).
    let mut worse = DMatrix::zeros(1, n);
    worse.columns_mut(0, 4).fill(1.0);
    let both = [
        ReducedEstimates::new(worse, &truth).unwrap(),
        ReducedEstimates::new(DMatrix::zeros(1, n), &truth).unwrap(),
    ];
    let asked = scoring(&both, None, ReportedCandidates::Nobody);
    let right =
        (0..runs).filter(|_| asked.noised(rho, &mut rng).unwrap().best == Some(1)).count() as f64;
    let ratio = (-0.04 * (8.0 * rho).sqrt() / (2.0 / n as f64)).exp();
    let p = 1.0 / (1.0 + ratio);
    assert!(
        (right / f64::from(runs) - p).abs() < 5.0 * (p * (1.0 - p) / f64::from(runs)).sqrt() + 1e-3,
        "{right} {p}"
    );
}

#[test]
fn the_interval_of_a_gain_covers_as_often_as_it_says() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let (n, runs) = (1000, 4000_usize);
    let truth = truth(3, n, &mut rng);
    let candidate = [off(&truth, 0.2)];
    let control = ReducedEstimates::column_mean(&truth).unwrap();
    let asked = scoring(&candidate, Some(&control), ReportedCandidates::Best);
    let true_gain = 1.0 - candidate[0].errors.overall / control.errors.overall;
    for rho in [0.02, 0.0005] {
        let (mut holds, mut bounded) = (0, 0);
        for _ in 0..runs {
            let gain = asked.noised(rho, &mut rng).unwrap().errors[0].gain.unwrap();
            bounded += usize::from(gain.interval.is_some());
            holds += usize::from(
                gain.interval.is_none_or(|(low, high)| low <= true_gain && true_gain <= high),
            );
        }
        let share = holds as f64 / runs as f64;
        let error = (0.05 * 0.95 / runs as f64).sqrt();
        assert!(share > 0.95 - 5.0 * error, "rho {rho}: {share}, {bounded} bounded");
        // Where it is always an interval, it is no wider than it must be.
        assert!(bounded < runs || share < 0.95 + 5.0 * error, "rho {rho}: {share}");
    }
}

#[test]
fn without_noise_the_answer_is_exact_to_three_digits() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let truth = truth(2, 100, &mut rng);
    let all = [off(&truth, 0.3), off(&truth, 0.1), off(&truth, 0.2)];
    let control = ReducedEstimates::half(&truth).unwrap();
    let asked =
        Scoring { by_feature: true, ..scoring(&all, Some(&control), ReportedCandidates::All) };
    let answer = asked.exact().unwrap();
    assert_eq!(answer.best, Some(1));
    for ScoredCandidate { candidate: at, error, gain, .. } in &answer.errors {
        assert_eq!(error.mse, three_significant_digits(all[*at].errors.overall));
        assert_eq!((error.by_feature.len(), error.sigma), (2, None));
        let gain = gain.unwrap();
        let (low, high) = gain.interval.unwrap();
        let value = 1.0 - all[*at].errors.overall / control.errors.overall;
        assert!((gain.value.unwrap() - value).abs() < 0.02, "{gain:?} {value}");
        assert!(low < value && value < high, "the records vary: {gain:?} {value}");
    }
    let best = Scoring { told: ReportedCandidates::Best, ..asked }.exact().unwrap();
    assert_eq!(best.errors.iter().map(|e| e.candidate).collect::<Vec<_>>(), [1]);
}

/// Nothing is excluded where the control may be 0, and a ratio below 0 is cut off.
#[test]
fn a_gain_over_a_control_lost_in_noise_excludes_nothing() {
    assert_eq!(Gain::of((0.01, 0.001), (0.01, 0.02)).interval, None);
    assert_eq!(
        Gain::of((0.01, 0.001), (-0.01, 0.001)),
        Gain { value: None, interval: None, halves: None }
    );
    let below = Gain::of((-0.02, 0.001), (0.1, 0.001));
    assert_eq!(below.value, Some(1.0), "noise takes an error below 0");
    let below = below.interval.unwrap();
    assert_eq!(below, (1.0, 1.0));
    let (low, high) = Gain::of((0.02, 0.001), (0.1, 0.000_001)).interval.unwrap();
    assert!(
        (low - (0.8 - 0.0196)).abs() < 1e-4 && (high - (0.8 + 0.0196)).abs() < 1e-4,
        "{low} {high}"
    );
}

fn no_classes(_: &DMatrix<f64>) -> Result<Vec<u32>, MetricError> {
    Err(MetricError::NoClasses { reason: "no model".into() })
}

/// A metric told with noise is a part like any other: it has the σ that is told, and that its bound and its share of ρ give.
#[test]
fn a_metric_with_noise_has_its_own_share_of_rho() {
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let (n, rho, runs) = (200, 0.02, 3000);
    let truth = truth(3, n, &mut rng);
    let one = [off(&truth, 0.08)];
    let wanted = metrics_named(["records_within", "permutation_matched_mse"]).unwrap();
    let measures = Measures { wanted: &wanted, truth: &truth, classify: &no_classes };
    let asked =
        Scoring { measures: Some(measures), ..scoring(&one, None, ReportedCandidates::Best) };
    assert_eq!(asked.parts(), Ok(3));
    let exact: Vec<f64> =
        asked.exact().unwrap().errors[0].error.metrics.iter().map(|m| m.value.unwrap()).collect();
    assert_eq!(exact[0], 1.0, "all off by 0.08");
    let mut squares = [0.0; 2];
    for _ in 0..runs {
        let told = asked.noised(rho, &mut rng).unwrap().errors.remove(0).error;
        let sigma = told.metrics[0].sigma.unwrap();
        let derived = 1.0 / n as f64 / (2.0 * rho / 3.0).sqrt();
        assert!((sigma / derived - 1.0).abs() < 0.01, "{sigma} {derived}");
        for ((square, metric), exact) in squares.iter_mut().zip(&told.metrics).zip(&exact) {
            *square +=
                ((metric.value.unwrap() - exact) / metric.sigma.unwrap()).powi(2) / f64::from(runs);
        }
    }
    for square in squares {
        // The exact figures here are rounded to three digits, far below σ.
        assert!((square - 1.0).abs() < 5.0 * (2.0 / f64::from(runs)).sqrt() + 1e-2, "{square}");
    }
    // The control is told without any.
    let control = ReducedEstimates::column_mean(&truth).unwrap();
    let with_control = Scoring { control: Some(&control), ..asked };
    assert_eq!(with_control.parts(), Ok(4));
    assert!(with_control.noised(rho, &mut rng).unwrap().control.unwrap().metrics.is_empty());
    assert_eq!(with_control.exact().unwrap().control.unwrap().metrics.len(), 2);
}

#[test]
fn a_metric_that_cannot_be_told_is_refused_before_anything_is() {
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let truth = truth(2, 100, &mut rng);
    let kept = [off(&truth, 0.1)];
    let dropped = [off(&truth, 0.1).without_estimates()];
    let ask = |candidates: &[ReducedEstimates], name: &'static str| {
        let wanted = metrics_named([name]).unwrap();
        let measures = Measures { wanted: &wanted, truth: &truth, classify: &no_classes };
        let asked = Scoring {
            measures: Some(measures),
            ..scoring(candidates, None, ReportedCandidates::All)
        };
        (asked.check(0.01), asked.exact().map(|_| ()))
    };
    for name in ["correlation", "attack_accuracy", "conditional_entropy"] {
        let (noised, _) = ask(&kept, name);
        assert_eq!(
            noised,
            Err(ScoringError::Unbounded { metric: metrics_named([name]).unwrap()[0].name() })
        );
        assert!(noised.unwrap_err().to_string().contains("mode = \"noised\""));
    }
    assert_eq!(ask(&kept, "values_within"), (Ok(()), Ok(())));
    assert_eq!(
        ask(&dropped, "values_within"),
        (Err(ScoringError::NotKept), Err(ScoringError::NotKept))
    );
    assert!(matches!(
        ask(&kept, "attack_accuracy").1,
        Err(ScoringError::Metric(MetricError::NoClasses { .. }))
    ));
}
