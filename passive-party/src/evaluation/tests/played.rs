//! The adversary that knows the moments, played by the owner of the features.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::metrics::{MetricError, mse};
use vfl_numerics::{PseudoInverse, row_differences};

use super::super::scoring::{ReducedEstimates, Scoring, ScoringError};
use super::super::sensitivity::Sensitivity;
use super::super::simulated_adversary::SimulatedAdversary;
use super::*;

const SCORED: usize = 120;

/// 400 records of three features that go together, well inside of the box.
fn features(seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut x = DMatrix::zeros(3, 400);
    for mut column in x.column_iter_mut() {
        let common = 0.1 * rng.random::<f64>();
        column.iter_mut().for_each(|v| *v = 0.4 + common + 0.1 * rng.random::<f64>());
    }
    x
}

fn table_of(x: DMatrix<f64>) -> FeatureTable {
    let features = ["a", "b", "c"].map(|name| FeatureSpec::numeric(name, 0.0, 1.0)).to_vec();
    let ids = RecordIds::new((0..x.ncols()).map(|i| format!("r{i}"))).unwrap();
    FeatureTable::new(
        FeatureSchema::new(features, None).unwrap(),
        ids,
        FeatureBlock::new(x).unwrap(),
        None,
    )
    .unwrap()
}

fn weights() -> DMatrix<f64> {
    DMatrix::from_row_slice(3, 3, &[1.0, -2.0, 0.5, 0.3, 1.5, -1.0, -0.7, 0.2, 2.0])
        .rows(0, 2)
        .into_owned()
}

fn play(x: &DMatrix<f64>) -> SimulatedAdversary {
    let truth = x.columns(0, SCORED).into_owned();
    SimulatedAdversary::new(&weights(), &table_of(x.clone()), &ids(0, SCORED), &truth).unwrap()
}

/// What is told of one candidate without noise, not rounded away: differences of 1e-3 count.
fn told(scorable: &ReducedEstimates) -> f64 {
    let one = std::slice::from_ref(scorable);
    let scoring = Scoring::of(one, None, ReportedCandidates::All);
    scoring.exact().unwrap().errors[0].error.mse
}

/// The number of one output tells as much as two scores whose logits differ by it, and more than nothing.
#[test]
fn a_number_tells_as_much_as_two_scores() {
    let x = features(4);
    let truth = x.columns(0, SCORED).into_owned();
    let table = table_of(x);
    let number = DMatrix::from_row_slice(1, 3, &[1.0, -2.0, 0.5]);
    let played = |weights: &DMatrix<f64>| {
        let played = SimulatedAdversary::new(weights, &table, &ids(0, SCORED), &truth).unwrap();
        (played.attacks.each_ref().map(told), told(&played.control))
    };
    let (attacks, control) = played(&number);
    assert_eq!((attacks, control), played(&number.insert_row(0, 0.0)));
    assert!(attacks.iter().all(|error| *error < 0.9 * control), "{attacks:?} {control}");
}

/// Where the box does not matter, the estimate is m + S Aᵀ (A S Aᵀ)⁺ A (x − m), with m and S of the records that are not scored.
#[test]
fn it_conditions_the_moments_of_the_other_records_on_what_scores_tell() {
    let x = features(1);
    let others = x.columns(SCORED, 400 - SCORED).into_owned();
    let mean = others.column_mean();
    let centred = DMatrix::from_fn(3, others.ncols(), |i, j| others[(i, j)] - mean[i]);
    let s = &centred * centred.transpose() / others.ncols() as f64;
    let a = row_differences(&weights());
    let gain =
        &s * a.transpose() * PseudoInverse::new(&(&a * &s * a.transpose())).unwrap().matrix * &a;
    let truth = x.columns(0, SCORED).into_owned();
    let means = DMatrix::from_fn(3, SCORED, |i, _| mean[i]);
    let affine = &means + gain * (&truth - &means);
    assert!(affine.iter().all(|v| (0.0..=1.0).contains(v)), "the box does not matter here");

    let played = play(&x);
    let close = |got: f64, expected: f64| {
        assert!((got - expected).abs() <= 0.0051 * expected, "{got}, {expected}")
    };
    close(told(&played.attacks[0]), mse(&affine, &truth).unwrap().overall);
    close(told(&played.control), mse(&means, &truth).unwrap().overall);
    // The mean of the posterior has its mass in the box: it is the same point but for the tails.
    close(told(&played.attacks[1]), mse(&affine, &truth).unwrap().overall);
    assert!(told(&played.attacks[0]) < 0.9 * told(&played.control), "a score tells something here");
}

/// The scored records are not among those whose moments are taken: without that, 120 records far off would move the mean.
#[test]
fn scored_records_do_not_tell_of_themselves() {
    let mut x = features(2);
    x.columns_mut(0, SCORED).fill(0.0);
    let mean = x.columns(SCORED, 400 - SCORED).column_mean();
    let expected = mean.iter().map(|m| m * m).sum::<f64>() / 3.0;
    let got = told(&play(&x).control);
    assert!((got - expected).abs() <= 0.0051 * expected, "{got}, {expected}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Noise for 1/n hides a scored record, whatever takes its place: the estimates of the other records stay what they are.
    #[test]
    fn one_scored_record_moves_an_error_by_1_over_n_at_most(
        seed in 0u64..50,
        at in 0usize..SCORED,
        other in prop::array::uniform3(prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0f64]),
    ) {
        let x = features(seed);
        let mut neighbour = x.clone();
        neighbour.set_column(at, &nalgebra::DVector::from_row_slice(&other));
        let (here, there) = (play(&x), play(&neighbour));
        let pairs = here.attacks.iter().zip(&there.attacks).chain([(&here.control, &there.control)]);
        for (a, b) in pairs {
            let bound = Sensitivity::of_played(3, SCORED);
            // Three digits are told, of errors of at most 0.02.
            prop_assert!((told(a) - told(b)).abs() <= bound.overall + 2e-4);
            prop_assert_eq!(a.others(at), b.others(at));
        }
    }
}

#[test]
fn too_few_other_records_have_no_moments() {
    let x = features(3).columns(0, SCORED + 99).into_owned();
    let truth = x.columns(0, SCORED).into_owned();
    let refused =
        SimulatedAdversary::new(&weights(), &table_of(x), &ids(0, SCORED), &truth).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    assert!(refused.message.contains("score fewer"), "{refused:?}");
}

/// Without the owner's leave nothing is played, and nothing is spent; nor without a model.
#[test]
fn it_takes_the_owners_leave_and_a_model() {
    for (moments, kind) in
        [(false, RefusalKind::PermissionDenied), (true, RefusalKind::FailedPrecondition)]
    {
        let dir = tempfile::tempdir().unwrap();
        let evaluations = open(dir.path(), AuditPolicy { moments, ..policy(AuditMode::Noised) });
        let set = evaluations.start(&table(), &ids(0, 100)).unwrap();
        assert!(!set.plays());
        for wish in [
            ScoringRequest { moments: true, ..asked(&set, Some(0.01)) },
            ScoringRequest { control: Control::Moments, ..asked(&set, Some(0.01)) },
        ] {
            assert_eq!(set.score(&wish).unwrap_err().kind, kind);
        }
        assert_eq!(set.rho(), (RHO, RHO));
    }
}

/// The bounds of metrics are for estimates that do not depend on the truth.
#[test]
fn metrics_of_what_is_played_are_not_told_with_noise() {
    let x = features(4);
    let (truth, played) = (x.columns(0, SCORED).into_owned(), play(&x));
    let wanted = vfl_core::metrics::metrics_named(["values_within"]).unwrap();
    let classify = |_: &DMatrix<f64>| Err(MetricError::NoClasses { reason: String::new() });
    let measures = Some(scoring::Measures { wanted: &wanted, truth: &truth, classify: &classify });
    let candidates = played.attacks.to_vec();
    let scoring = Scoring { measures, ..Scoring::of(&candidates, None, ReportedCandidates::All) };
    assert_eq!(scoring.check(0.05), Err(ScoringError::Played));
    assert!(scoring.exact().is_ok(), "without noise they are");
    assert!(Scoring { measures: None, ..scoring }.check(0.05).is_ok());
}
