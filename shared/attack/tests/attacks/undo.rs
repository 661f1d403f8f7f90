//! Transforms of released parameters, undone: on simulated models, published weights and public data.

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rayon::prelude::*;
use serde::Deserialize;
use vfl_attack::adaptive::{Examination, Hypothesis, TransformEvidence, UndoTransform};
use vfl_attack::{
    AdversaryView, Attack, AuxiliaryRecords, HalfStar, KnownModel, KnownPolicy, Method,
    Replacement, Settings, StatedKnowledge,
};
use vfl_core::metrics::mse;
use vfl_core::model::train_converged;
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_datasets as data;
use vfl_datasets::{DatasetName, DatasetSpec, VerticalSplit};
use vfl_numerics::{Lbfgs, PseudoInverse, row_differences};

use crate::fixture::{golden, matrix, satellite, scores, undefended};

/// A model, its records, and what of the parameters is released.
pub(crate) struct World {
    pub(crate) w_act: DMatrix<f64>,
    pub(crate) w_pas: DMatrix<f64>,
    pub(crate) bias: DVector<f64>,
    y: DMatrix<f64>,
    x: DMatrix<f64>,
    released: ReleasedScores,
}

impl World {
    pub(crate) fn new(
        w_act: DMatrix<f64>,
        w_pas: DMatrix<f64>,
        bias: DVector<f64>,
        y: DMatrix<f64>,
        x: DMatrix<f64>,
    ) -> Self {
        let k = bias.len();
        let (d_act, d) = (w_act.ncols(), w_pas.ncols());
        let w = DMatrix::from_fn(k, d_act + d, |m, i| {
            if i < d_act { w_act[(m, i)] } else { w_pas[(m, i - d_act)] }
        });
        let all = DMatrix::from_fn(d_act + d, x.ncols(), |i, r| {
            if i < d_act { y[(i, r)] } else { x[(i - d_act, r)] }
        });
        let released = undefended(&scores(&w, &bias, &all));
        Self { w_act, w_pas, bias, y, x, released }
    }

    /// Random weights whose differences have a sum, features with mean ⅓.
    pub(crate) fn drawn(seed: u64, k: usize, d: usize, n: usize) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut weights = |columns, slope: f64| {
            DMatrix::from_fn(k, columns, |m, _| 2.0 * rng.random::<f64>() - 1.0 + slope * m as f64)
        };
        let (w_act, w_pas) = (weights(2, 0.0), weights(d, 0.5));
        let bias = DVector::from_fn(k, |_, _| rng.random::<f64>());
        let y = DMatrix::from_fn(2, n, |_, _| rng.random::<f64>());
        let x = DMatrix::from_fn(d, n, |_, _| rng.random::<f64>().powi(2));
        Self::new(w_act, w_pas, bias, y, x)
    }

    /// What is released where `truth` is what undoes it: each of these is its own inverse.
    pub(crate) fn shown(&self, truth: &Hypothesis) -> KnownModel {
        let mut weights = self.w_pas.clone();
        let mut bias = self.bias.clone();
        let (all, none) = ((0..weights.ncols()).collect(), vec![]);
        let (negated, complemented) = match truth {
            Hypothesis::Identity => (&none, &none),
            Hypothesis::Negate => (&all, &none),
            Hypothesis::Complement => (&none, &all),
            Hypothesis::Features { negated, complemented } => (negated, complemented),
            _ => unreachable!("not released here"),
        };
        // W x = W 1 − W (1 − x): the bias of the features shown is b + W 1.
        complemented.iter().for_each(|&i| bias += self.w_pas.column(i));
        negated.iter().chain(complemented).for_each(|&i| weights.column_mut(i).neg_mut());
        KnownModel::white_box(self.w_act.clone(), bias, weights).unwrap()
    }

    fn active(&self) -> FeatureBlock {
        FeatureBlock::new(self.y.clone()).unwrap()
    }

    /// The first n records, known.
    pub(crate) fn auxiliary(&self, n: usize) -> AuxiliaryRecords {
        let block = |m: &DMatrix<f64>| FeatureBlock::new(m.columns(0, n).into_owned()).unwrap();
        let ReleasedScores::Probabilities(c) = &self.released else { unreachable!() };
        let released = ReleasedScores::Probabilities(c.columns(0, n).into_owned());
        AuxiliaryRecords::new(block(&self.y), block(&self.x), released, Replacement::default())
            .unwrap()
    }

    fn means(&self) -> Vec<f64> {
        self.x.row_iter().map(|row| row.mean()).collect()
    }

    pub(crate) fn examine(&self, model: &KnownModel, grounds: TransformEvidence) -> Examination {
        let active = self.active();
        let view =
            AdversaryView::new(model, &active, &self.released, Replacement::default()).unwrap();
        undo(grounds).examine(&view).unwrap()
    }
}

fn undo(grounds: TransformEvidence) -> UndoTransform {
    UndoTransform {
        inner: Box::new(HalfStar { clamped: true }),
        grounds,
        known: KnownPolicy::default(),
    }
}

pub(crate) fn with_auxiliary(records: AuxiliaryRecords) -> TransformEvidence {
    TransformEvidence { auxiliary: Some(records), ..TransformEvidence::default() }
}

const SIMPLE: [Hypothesis; 3] = [Hypothesis::Identity, Hypothesis::Negate, Hypothesis::Complement];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// All three releases of one model: the hypothesis that undoes it gives the true model back, is never ruled out, is the
    /// only one left after one known record, and leads to the estimates of the true model. The identity and the complement
    /// explain the same records.
    #[test]
    fn three_releases(seed in any::<u64>(), k in 2usize..6, d in 1usize..9) {
        let world = World::drawn(seed, k, d, 20);
        let active = world.active();
        for truth in SIMPLE {
            let shown = world.shown(&truth);
            let model = truth.model(&shown, None).unwrap();
            prop_assert!((model.passive_weights().unwrap() - &world.w_pas).amax() < 1e-12);
            prop_assert!((model.bias() - &world.bias).amax() < 1e-12);

            let alone = world.examine(&shown, TransformEvidence::default());
            prop_assert!(alone.undone.left.contains(&truth), "{truth}: {alone:?}");
            let count = |of: &Hypothesis| alone.undone.counts.iter().find(|v| v.hypothesis == *of).unwrap().infeasible;
            prop_assert_eq!(count(&Hypothesis::Identity), count(&Hypothesis::Complement));
            prop_assert!(alone.undone.hypothesis.is_none() || truth == Hypothesis::Negate, "{alone:?}");

            let one = world.examine(&shown, with_auxiliary(world.auxiliary(1)));
            prop_assert_eq!(one.undone.hypothesis.as_ref(), Some(&truth), "{:?}", one);

            let view = AdversaryView::new(&shown, &active, &world.released, Replacement::default()).unwrap();
            let rng = &mut ChaCha20Rng::seed_from_u64(0);
            let found = undo(with_auxiliary(world.auxiliary(1))).reconstruct(&view, rng).unwrap();
            let own = KnownModel::white_box(world.w_act.clone(), world.bias.clone(), world.w_pas.clone()).unwrap();
            let direct = AdversaryView::new(&own, &active, &world.released, Replacement::default()).unwrap();
            let direct = HalfStar { clamped: true }.reconstruct(&direct, rng).unwrap();
            prop_assert!((found.estimates - direct.estimates).amax() < 1e-7);
            prop_assert_eq!(found.remarks.len(), 1);
        }
    }
}

/// Column means of the population tell all three apart, on samples of it.
#[test]
fn column_means_tell_the_complement() {
    for seed in 0..20 {
        let (k, d) = (2 + seed as usize % 4, 1 + seed as usize % 7);
        let world = World::drawn(seed, k, d, 400);
        let grounds = || TransformEvidence {
            column_means: Some(vec![1.0 / 3.0; d]),
            ..TransformEvidence::default()
        };
        for truth in SIMPLE {
            let found = world.examine(&world.shown(&truth), grounds());
            assert_eq!(found.undone.hypothesis, Some(truth.clone()), "seed {seed}: {found:?}");
        }
    }
    // Too few records for a standard error.
    let world = World::drawn(1, 3, 4, 20);
    let grounds = TransformEvidence {
        column_means: Some(vec![1.0 / 3.0; 4]),
        ..TransformEvidence::default()
    };
    let found = world.examine(&world.shown(&Hypothesis::Complement), grounds);
    assert!(found.undone.counts.iter().all(|v| v.mean_off.is_none()));
    assert_eq!(found.undone.left.len() > 1, found.remarks[0].contains("cannot tell"), "{found:?}");
    // Means of other features.
    let active = world.active();
    let model = world.shown(&Hypothesis::Identity);
    let view =
        AdversaryView::new(&model, &active, &world.released, Replacement::default()).unwrap();
    let grounds =
        TransformEvidence { column_means: Some(vec![0.5; 3]), ..TransformEvidence::default() };
    assert!(undo(grounds).examine(&view).unwrap_err().to_string().contains("column means"));
}

/// Where the range of a feature is not symmetric, feasibility alone tells the complement.
#[test]
fn ranges_tell_the_complement() {
    let mut world = World::drawn(7, 4, 3, 50);
    let x = world.x.map(|v| 0.3 * v);
    world = World::new(world.w_act, world.w_pas, world.bias, world.y, x);
    let ranges = StatedKnowledge { upper: vec![0.3], ..StatedKnowledge::default() };
    for truth in SIMPLE {
        let grounds = TransformEvidence { ranges: ranges.clone(), ..TransformEvidence::default() };
        let found = world.examine(&world.shown(&truth), grounds);
        assert_eq!(found.undone.hypothesis, Some(truth), "{found:?}");
    }
}

/// Whatever is claimed of single features is right, and it is claimed as a rule.
#[test]
fn single_features() {
    let mut right = 0;
    for seed in 0..20u64 {
        let d = 3 + seed as usize % 5;
        let world = World::drawn(100 + seed, 5, d, 60);
        let truth = Hypothesis::Features { negated: vec![0], complemented: vec![d - 1] };
        let shown = world.shown(&truth);
        let found = world.examine(&shown, with_auxiliary(world.auxiliary(3)));
        if let Some(hypothesis) = &found.undone.hypothesis {
            let model = hypothesis.model(&shown, None).unwrap();
            assert!(
                (model.passive_weights().unwrap() - &world.w_pas).amax() < 1e-12,
                "seed {seed}: {found:?}"
            );
            assert!((model.bias() - &world.bias).amax() < 1e-12, "seed {seed}: {found:?}");
            assert!(
                found.remarks[0].contains("if one transform was used: the best found of "),
                "{:?}",
                found.remarks
            );
            assert!(
                found.remarks[0].contains("patterns farther away were not compared"),
                "{:?}",
                found.remarks
            );
            right += 1;
        }
    }
    println!("signs of single features: {right} of 20 undone");
    assert!(right >= 10, "{right}");
}

/// A secret order of features with known ranges, or known records.
#[test]
fn orders() {
    let mut right = 0;
    for seed in 0..10u64 {
        let d = 3 + seed as usize % 3;
        let world = World::drawn(200 + seed, 5, d, 60);
        let order: Vec<usize> = (0..d).map(|i| (i + 1) % d).collect();
        let mut weights = world.w_pas.clone();
        order
            .iter()
            .enumerate()
            .for_each(|(from, &to)| weights.column_mut(from).copy_from(&world.w_pas.column(to)));
        let shown =
            KnownModel::white_box(world.w_act.clone(), world.bias.clone(), weights).unwrap();
        let found = world.examine(&shown, with_auxiliary(world.auxiliary(3)));
        if let Some(hypothesis) = &found.undone.hypothesis {
            let model = hypothesis.model(&shown, None).unwrap();
            assert!(
                (model.passive_weights().unwrap() - &world.w_pas).amax() < 1e-12,
                "seed {seed}: {found:?}"
            );
            assert!(
                found.remarks[0].contains("patterns farther away were not compared"),
                "{:?}",
                found.remarks
            );
            right += 1;
        }
    }
    println!("orders: {right} of 10 undone");
    assert!(right >= 5, "{right}");
}

#[test]
fn what_is_not_exact_tells_nothing() {
    let world = World::drawn(3, 2, 4, 40);
    let active = world.active();
    let model = world.shown(&Hypothesis::Negate);
    let ReleasedScores::Probabilities(c) = &world.released else { unreachable!() };
    let labels = ReleasedScores::Labels { classes: 2, labels: world.released.predicted_labels() };
    let rounded = ReleasedScores::Numbers(c.map(|c| (c * 100.0).round() / 100.0));
    let defended: KnownPolicy =
        "rounding (decimals = 2)".parse::<vfl_defense::Policy>().unwrap().into();
    for (released, known) in [
        (&labels, KnownPolicy::default()),
        (&rounded, KnownPolicy::default()),
        (&world.released, defended),
    ] {
        let view = AdversaryView::new(&model, &active, released, Replacement::default()).unwrap();
        let attack = UndoTransform { known, ..undo(with_auxiliary(world.auxiliary(2))) };
        let found = attack.examine(&view).unwrap();
        assert_eq!((found.undone.hypothesis, found.undone.left.len()), (None, 3));
        assert!(
            found.remarks[0].contains("cannot tell") && found.remarks[0].contains("exact"),
            "{:?}",
            found.remarks
        );
        let rng = &mut ChaCha20Rng::seed_from_u64(0);
        let base = HalfStar { clamped: true }.reconstruct(&view, rng).unwrap();
        assert_eq!(attack.reconstruct(&view, rng).unwrap().estimates, base.estimates);
    }
}

/// A model of another passive party altogether: no hypothesis is left, and that is said.
#[test]
fn nothing_is_claimed_where_nothing_fits() {
    let (world, other) = (World::drawn(4, 5, 3, 40), World::drawn(5, 5, 3, 40));
    let shown =
        KnownModel::white_box(world.w_act.clone(), world.bias.clone(), other.w_pas).unwrap();
    let found = world.examine(&shown, TransformEvidence::default());
    assert_eq!((found.undone.hypothesis, found.undone.left.len()), (None, 0));
    assert!(found.remarks[0].starts_with("no hypothesis explains"), "{:?}", found.remarks);
}

#[derive(Deserialize)]
struct Moments {
    cases: Vec<MomentCase>,
}

#[derive(Deserialize)]
struct MomentCase {
    #[serde(rename = "W_pas")]
    w_pas: Vec<Vec<f64>>,
    #[serde(rename = "X_pas")]
    x_pas: Vec<Vec<f64>>,
    pps_theorem3: Theorem3,
}

#[derive(Deserialize)]
struct Theorem3 {
    #[serde(rename = "H_times_AplusA_K0")]
    product: Vec<Vec<f64>>,
}

/// R theorem 3's transform out of the golden H A⁺A K₀: W_n = W Hᵀ, so that A_n = A K₀⁻¹ (H A⁺A K₀)ᵀ. Known moments undo it.
#[test]
fn the_optimal_transform_falls_to_known_moments() {
    let golden: Moments = golden("theorem2_pps.json");
    for case in golden.cases {
        let (w, x) = (matrix(&case.w_pas), matrix(&case.x_pas).transpose());
        let moments = &x * x.transpose() / x.ncols() as f64;
        let inverse = PseudoInverse::new(&moments).unwrap();
        if inverse.rank < w.ncols() || inverse.condition_number() > 1e6 {
            continue;
        }
        let mean = w.row_mean();
        let mut centred = w.clone();
        centred.row_iter_mut().for_each(|mut row| row -= &mean);
        let shown = centred * inverse.matrix * matrix(&case.pps_theorem3.product).transpose();
        let k = w.nrows();
        let own = DMatrix::zeros(k, 0);
        let model = KnownModel::white_box(own.clone(), DVector::zeros(k), shown).unwrap();
        let undone = Hypothesis::LeastSquaresOptimal.model(&model, Some(&moments)).unwrap();
        let (got, want) = (row_differences(undone.passive_weights().unwrap()), row_differences(&w));
        assert!((got - &want).amax() <= 1e-7 * want.amax(), "{} features", w.ncols());

        let world = World::new(own, w.clone(), DVector::zeros(k), DMatrix::zeros(0, x.ncols()), x);
        let grounds =
            TransformEvidence { second_moments: Some(moments), ..TransformEvidence::default() };
        let found = world.examine(&model, grounds);
        println!("{} features: {:?}", w.ncols(), found.remarks);
        assert!(
            found.undone.left.contains(&Hypothesis::LeastSquaresOptimal),
            "{:?}",
            found.remarks
        );
        // With all of A determined, the transform is the negation; that is one model, not two.
        assert!(found.undone.hypothesis.is_some(), "{:?}", found.remarks);
    }
}

/// In how many windows each release was undone.
#[derive(Debug, Default)]
struct Windows {
    all: usize,
    /// With a record that the negated parameters do not explain.
    telling: usize,
    negated: usize,
    by_means: usize,
    by_record: usize,
}

/// Every window of `d` features: −x, and 1 − x without grounds, with column means, with one known record.
fn windows(w: &DMatrix<f64>, bias: &DVector<f64>, x: &DMatrix<f64>, d: usize) -> Windows {
    let of_window = |k0: usize| {
        let split = VerticalSplit::window(k0, d, w.ncols()).unwrap();
        let (passive, active) = (&split.passive()[0].columns, split.active());
        let world = World::new(
            w.select_columns(active),
            w.select_columns(passive),
            bias.clone(),
            x.select_rows(active),
            x.select_rows(passive),
        );
        let shown = world.shown(&Hypothesis::Negate);
        let negated = world.examine(&shown, TransformEvidence::default());
        let telling = negated.undone.counts[0].infeasible > 0;
        if w.nrows() == 2 {
            // By hand: A x fills the interval between the sums of the negative and of the positive weights.
            let a = row_differences(&world.w_pas);
            let ends = |s: f64| a.iter().map(|a| (s * a).max(0.0)).sum::<f64>();
            let margin = 1e-5 * a.norm();
            let outside = |v: &f64| *v > ends(-1.0) + margin || -*v > ends(1.0) + margin;
            assert_eq!((&a * &world.x).iter().any(outside), telling, "window {k0}, d = {d}");
        }
        let done = negated.undone.hypothesis == Some(Hypothesis::Negate);
        assert_eq!(done, telling, "window {k0}, d = {d}: {:?}", negated.remarks);
        if done {
            // The estimates are then those of who was shown the true parameters, with an error of no more than ½'s.
            let y = world.active();
            let view =
                AdversaryView::new(&shown, &y, &world.released, Replacement::default()).unwrap();
            let found = undo(TransformEvidence::default())
                .reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(0))
                .unwrap();
            let half = DMatrix::from_element(d, x.ncols(), 0.5);
            let error = |e: &DMatrix<f64>| mse(e, &world.x).unwrap().overall;
            // Where b' is nearly nothing, round-off is what is left of it.
            let (error, half) = (error(&found.estimates), error(&half));
            assert!(error <= half + 1e-9, "window {k0}, d = {d}: {error} {half}");
        }
        let shown = world.shown(&Hypothesis::Complement);
        let complement = Some(Hypothesis::Complement);
        let alone = world.examine(&shown, TransformEvidence::default()).undone;
        assert!(alone.hypothesis.is_none() && alone.left.contains(&Hypothesis::Complement));
        let means =
            TransformEvidence { column_means: Some(world.means()), ..TransformEvidence::default() };
        let means = world.examine(&shown, means).undone;
        assert!(means.left.contains(&Hypothesis::Complement), "window {k0}, d = {d}: {means:?}");
        let record = world.examine(&shown, with_auxiliary(world.auxiliary(1))).undone;
        assert!(record.left.contains(&Hypothesis::Complement), "window {k0}, d = {d}: {record:?}");
        Windows {
            all: 1,
            telling: usize::from(telling),
            negated: usize::from(done),
            by_means: usize::from(means.hypothesis == complement),
            by_record: usize::from(record.hypothesis == complement),
        }
    };
    let add = |a: Windows, b: Windows| Windows {
        all: a.all + b.all,
        telling: a.telling + b.telling,
        negated: a.negated + b.negated,
        by_means: a.by_means + b.by_means,
        by_record: a.by_record + b.by_record,
    };
    (0..w.ncols()).into_par_iter().map(of_window).reduce(Windows::default, add)
}

#[test]
fn windows_of_satellite() {
    let published = satellite();
    let x = published.x.columns(0, 500).into_owned();
    for d in [3, 6, 12, 18, 24, 32] {
        let found = windows(&published.w, &published.bias, &x, d);
        println!("satellite d = {d}: {found:?}");
        assert_eq!(found.negated, found.telling);
        assert!(found.by_record == found.all, "{found:?}");
        assert!(d > 6 || found.negated == found.all, "{found:?}");
    }
}

#[test]
fn windows_of_bank() {
    let spec = DatasetSpec::new(DatasetName::Bank, None, 1);
    let set = data::load(&spec).unwrap_or_else(|e| panic!("data set bank: {e} (CLOISON_DATA_DIR)"));
    let fit = train_converged(
        2,
        set.x(),
        set.labels(),
        1e-4,
        Lbfgs { max_iterations: 200, ..Lbfgs::default() },
    )
    .unwrap();
    let x = set.x().columns(0, 500).into_owned();
    for d in [1, 3, 6, 10, 14] {
        let found = windows(&fit.weights, &fit.bias, &x, d);
        println!("bank d = {d}: {found:?}");
        assert_eq!(found.negated, found.telling);
    }
}

/// By name, with settings: as `undo_transform` with a base.
#[test]
fn the_method_reads_its_settings() {
    let world = World::drawn(11, 4, 5, 200);
    let active = world.active();
    let shown = world.shown(&Hypothesis::Complement);
    let view =
        AdversaryView::new(&shown, &active, &world.released, Replacement::default()).unwrap();
    let means: Vec<String> = world.means().iter().map(ToString::to_string).collect();
    let settings =
        Settings::read([("column_means", means.join(",").as_str()), ("base", "rcc2")]).unwrap();
    let rng = &mut ChaCha20Rng::seed_from_u64(0);
    let found = Method::UndoTransform.build(&settings).reconstruct(&view, rng).unwrap();
    assert!(found.remarks[0].contains("undone: complement"), "{:?}", found.remarks);
    let own = KnownModel::white_box(world.w_act.clone(), world.bias.clone(), world.w_pas.clone())
        .unwrap();
    let direct =
        AdversaryView::new(&own, &active, &world.released, Replacement::default()).unwrap();
    let direct = Method::Rcc2.build(&settings).reconstruct(&direct, rng).unwrap();
    assert!((found.estimates - direct.estimates).amax() < 1e-7);
    assert!(
        Settings::read([("column_means", "0.1;x")]).is_err()
            && Settings::read([("base", "undo_transform")]).is_err()
    );
}
