//! Ranges and levels: the same attack on the same records written in other units, and features with few values by theorems and
//! R's own example.

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::{
    AdversaryView, Attack, AttackError, Constant, FeatureKnowledge, KnowledgeError, KnownModel,
    MAX_BINARY, Method, Reconstruction, Replacement, Settings, Snap, StatedKnowledge, Termination,
};
use vfl_core::types::{FeatureBlock, ReleasedScores};

use crate::chebyshev::weights;
use crate::fixture::{column, matrix, scores, undefended};

/// A model with one active feature, its records and their exact scores.
struct World {
    w: DMatrix<f64>,
    bias: DVector<f64>,
    x: DMatrix<f64>,
    released: ReleasedScores,
}

/// The attacks that need no solver in the box.
const METHODS: [Method; 7] = [
    Method::Zero,
    Method::Half,
    Method::Random,
    Method::LeastSquares,
    Method::ClampedLeastSquares,
    Method::HalfStar,
    Method::ClampedHalfStar,
];

impl World {
    /// One active feature before `d` passive ones.
    fn new(w: DMatrix<f64>, bias: DVector<f64>, x: DMatrix<f64>) -> Self {
        let released = undefended(&scores(&w, &bias, &x));
        Self { w, bias, x, released }
    }

    fn drawn(k: usize, d: usize, n: usize, seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let w = DMatrix::from_fn(k, 1 + d, |_, _| 2.0 * rng.random::<f64>() - 1.0);
        let bias = DVector::from_fn(k, |_, _| rng.random::<f64>());
        let x = DMatrix::from_fn(1 + d, n, |_, _| rng.random::<f64>());
        Self::new(w, bias, x)
    }

    fn truth(&self) -> DMatrix<f64> {
        self.x.rows(1, self.x.nrows() - 1).into_owned()
    }

    fn model(&self) -> KnownModel {
        let d = self.w.ncols() - 1;
        KnownModel::white_box(
            self.w.columns(0, 1).into_owned(),
            self.bias.clone(),
            self.w.columns(1, d).into_owned(),
        )
        .unwrap()
    }

    fn run(&self, attack: &dyn Attack) -> Result<Reconstruction, AttackError> {
        self.run_on(&self.model(), attack)
    }

    fn run_on(
        &self,
        model: &KnownModel,
        attack: &dyn Attack,
    ) -> Result<Reconstruction, AttackError> {
        let active = FeatureBlock::new(self.x.rows(0, 1).into_owned()).unwrap();
        let view =
            AdversaryView::new(model, &active, &self.released, Replacement::default()).unwrap();
        attack.reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(1))
    }

    fn with(
        &self,
        method: Method,
        settings: &[(&str, &str)],
    ) -> Result<Reconstruction, AttackError> {
        self.run(&*method.build(&Settings::read(settings.iter().copied()).unwrap()))
    }
}

fn list(values: impl Iterator<Item = f64>) -> String {
    values.map(|v| v.to_string()).collect::<Vec<_>>().join(",")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    /// To say that features lie in [0, 1] says nothing new, to the bit.
    #[test]
    fn unit_ranges_change_nothing(k in 2usize..6, d in 1usize..9, seed in any::<u64>()) {
        let world = World::drawn(k, d, 5, seed);
        for method in METHODS {
            let plain = world.with(method, &[]).unwrap();
            let ranged = world.with(method, &[("lower", "0"), ("upper", "1"), ("discrete", "exact")]).unwrap();
            prop_assert!(plain == ranged, "{}", method);
        }
    }

    /// Records in other units, under the weights that give them the same scores, are the same records.
    #[test]
    fn units_do_not_matter(k in 2usize..6, d in 1usize..9, seed in any::<u64>()) {
        let world = World::drawn(k, d, 5, seed);
        let mut rng = ChaCha20Rng::seed_from_u64(!seed);
        let ranges: Vec<(f64, f64)> = (0..d)
            .map(|_| {
                let lower = 8.0 * rng.random::<f64>() - 4.0;
                (lower, lower + 0.1 + 5.0 * rng.random::<f64>())
            })
            .collect();
        // u = (x − lower) / width, so that w u = (w / width) x − w lower / width.
        let (mut w, mut bias, mut x) = (world.w.clone(), world.bias.clone(), world.x.clone());
        for (i, (lower, upper)) in ranges.iter().enumerate() {
            w.column_mut(1 + i).apply(|v| *v /= upper - lower);
            bias -= w.column(1 + i) * *lower;
            x.row_mut(1 + i).apply(|v| *v = lower + (upper - lower) * *v);
        }
        let other = World::new(w, bias, x);
        let (lower, upper) = (list(ranges.iter().map(|r| r.0)), list(ranges.iter().map(|r| r.1)));
        for method in METHODS {
            let plain = world.with(method, &[]).unwrap();
            prop_assume!(plain.solved.as_ref().is_none_or(|s| s.condition_number < 1e3));
            let ranged = other.with(method, &[("lower", &lower), ("upper", &upper)]).unwrap();
            for (i, (lower, upper)) in ranges.iter().enumerate() {
                for (u, x) in plain.estimates.row(i).iter().zip(ranged.estimates.row(i).iter()) {
                    prop_assert!((lower + (upper - lower) * u - x).abs() < 1e-8, "{method}: {u} {x}");
                }
            }
            prop_assert_eq!(plain.status, ranged.status);
        }
    }

    /// With m ≥ 1 general equations all assignments have scores of their own: the features come back.
    #[test]
    fn binary_features_are_found(k in 2usize..5, d in 1usize..8, seed in any::<u64>()) {
        let mut world = World::drawn(k, d, 4, seed);
        world.x.rows_mut(1, d).apply(|v| *v = v.round());
        let world = World::new(world.w, world.bias, world.x);
        // Two assignments as near as round-off would be a fair tie. They differ by a sum of columns with signs.
        let model = world.model();
        let a = model.linear().unwrap().matrix();
        let apart = (1..3usize.pow(d as u32)).map(|mut code| {
            let mut sum = DVector::zeros(k - 1);
            for j in 0..d {
                sum += a.column(j) * [0.0, 1.0, -1.0][code % 3];
                code /= 3;
            }
            sum.norm()
        });
        prop_assume!(apart.fold(f64::INFINITY, f64::min) > 1e-7);
        let found = world.with(Method::HalfStar, &[("binary", "all"), ("discrete", "exact")]).unwrap();
        prop_assert_eq!(&found.estimates, &world.truth());
        prop_assert!(found.outcomes.iter().all(|o| o.ended == Termination::Solved && o.iterations == 1));
        prop_assert!(found.solved.unwrap().residuals.iter().all(|r| *r < 1e-12));
    }

    /// Once the two-valued features are decided, the others are what the attack makes of the equations left.
    #[test]
    fn other_features_are_left_to_the_attack(b in 1usize..6, c in 1usize..6, seed in any::<u64>()) {
        // More equations than features that are free, so that they decide.
        let (k, d) = (c + 3, b + c);
        let mut world = World::drawn(k, d, 4, seed);
        world.x.rows_mut(1, b).apply(|v| *v = v.round());
        let world = World::new(world.w, world.bias, world.x);
        let positions = (0..b).map(|i| i.to_string()).collect::<Vec<_>>().join(",");
        let settings = [("binary", positions.as_str()), ("discrete", "exact")];
        let found = world.with(Method::HalfStar, &settings).unwrap();
        prop_assume!(found.solved.as_ref().unwrap().condition_number < 1e3);
        prop_assert!((&found.estimates - world.truth()).amax() < 1e-9);

        // Fewer: against half_star where the adversary has the decided features as its own.
        let mut world = World::drawn(2, d, 4, seed);
        world.x.rows_mut(1, b).apply(|v| *v = v.round());
        let world = World::new(world.w, world.bias, world.x);
        let found = world.with(Method::HalfStar, &settings).unwrap();
        let own = world.w.columns(0, 1 + b).into_owned();
        let model = KnownModel::white_box(own, world.bias.clone(), world.w.columns(1 + b, c).into_owned()).unwrap();
        for record in 0..4 {
            let mut y = DMatrix::zeros(1 + b, 1);
            y[(0, 0)] = world.x[(0, record)];
            y.rows_mut(1, b).copy_from(&found.estimates.view((0, record), (b, 1)));
            prop_assert!(y.rows(1, b).iter().all(|v| *v == 0.0 || *v == 1.0));
            let y = FeatureBlock::new(y).unwrap();
            let ReleasedScores::Probabilities(scores) = &world.released else { unreachable!() };
            let released = ReleasedScores::Probabilities(scores.columns(record, 1).into_owned());
            let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
            let want = crate::fixture::run(Method::HalfStar, &view).estimates;
            prop_assert!((found.estimates.view((b, record), (c, 1)) - &want).amax() < 1e-9);
            // No other assignment leaves a solution nearer to the box, by trial.
            let past = |x: &DMatrix<f64>| x.iter().map(|v| ((v - 0.5).abs() - 0.5).max(0.0).powi(2)).sum::<f64>().sqrt();
            for assignment in 0..1usize << b {
                let mut y = DMatrix::from_element(1 + b, 1, world.x[(0, record)]);
                (0..b).for_each(|i| y[(1 + i, 0)] = ((assignment >> i) & 1) as f64);
                let y = FeatureBlock::new(y).unwrap();
                let view = AdversaryView::new(&model, &y, &released, Replacement::default()).unwrap();
                let other = crate::fixture::run(Method::HalfStar, &view).estimates;
                prop_assert!(past(&want) <= past(&other) + 1e-8, "{} {}", past(&want), past(&other));
            }
        }
    }
}

/// As many as are tried, each from one equation; scores behind noise give the nearest assignment and say so.
#[test]
fn all_assignments_of_the_most_features() {
    let mut world = World::drawn(2, MAX_BINARY, 300, 5);
    world.x.rows_mut(1, MAX_BINARY).apply(|v| *v = v.round());
    let world = World::new(world.w, world.bias, world.x);
    let settings = [("binary", "all"), ("discrete", "exact")];
    let found = world.with(Method::LeastSquares, &settings).unwrap();
    assert_eq!(found.estimates, world.truth());

    let ReleasedScores::Probabilities(c) = &world.released else { unreachable!() };
    let rounded = c.map(|c| (c * 1e3).round() / 1e3);
    let noisy = World { released: ReleasedScores::Numbers(rounded), ..world };
    let found = noisy.with(Method::LeastSquares, &settings).unwrap();
    assert!(found.outcomes.iter().any(|o| o.ended == Termination::NearestConsistent));
    // No record's misfit is above that of the truth.
    let model = noisy.model();
    let active = FeatureBlock::new(noisy.x.rows(0, 1).into_owned()).unwrap();
    let view =
        AdversaryView::new(&model, &active, &noisy.released, Replacement::default()).unwrap();
    let of_truth = model.linear().unwrap().matrix() * noisy.truth() - view.b_prime().unwrap();
    for (record, of_truth) in of_truth.column_iter().enumerate() {
        let misfit = found.solved.as_ref().unwrap().residuals[record];
        assert!(misfit <= of_truth.norm() + 1e-12, "{misfit}");
        assert!((found.outcomes[record].objective - misfit * misfit).abs() < 1e-12);
    }
}

/// R section IX: x₁ + x₂ = 0.5 with x₁ of 0 or 1 has one solution, (0, 0.5).
#[test]
fn the_example_of_section_ix() {
    let a = matrix(&[vec![1.0, 1.0]]);
    let w = weights(&a).insert_column(0, 0.3);
    let world = World::new(w, DVector::zeros(2), column(&[0.2, 0.0, 0.5]));
    let found = world.with(Method::HalfStar, &[("binary", "0"), ("discrete", "exact")]).unwrap();
    assert!((found.estimates - column(&[0.0, 0.5])).amax() < 1e-12);
    // Of 0 and 1 both leave equations that can be solved, but only 0 leaves a solution in the box.
    assert_eq!(found.outcomes[0].iterations, 2);
    // Without trying: (0.25, 0.25), of which the first goes to 0.
    let found = world.with(Method::HalfStar, &[("binary", "0")]).unwrap();
    assert!((found.estimates - column(&[0.0, 0.25])).amax() < 1e-12);
    let residual = found.solved.unwrap().residuals[0];
    assert!((residual - 0.25).abs() < 1e-12, "{residual}");
}

#[test]
fn nearest_level_and_the_lower_of_two() {
    let world = World::drawn(3, 4, 1, 1);
    let levels = vec![Some(vec![1.0, 0.0]), Some(vec![0.2, 0.6, 0.45]), None, Some(vec![0.7])];
    let knowledge = FeatureKnowledge::new(vec![(0.0, 1.0); 4], levels).unwrap();
    let snapped = |x: f64| {
        let found = world.run(&Snap { inner: Constant(x), knowledge: knowledge.clone() }).unwrap();
        found.estimates.as_slice().to_vec()
    };
    assert_eq!(snapped(0.5), [0.0, 0.45, 0.5, 0.7]);
    assert_eq!(snapped(0.501), [1.0, 0.45, 0.501, 0.7]);
    assert_eq!(snapped(-3.0), [0.0, 0.2, -3.0, 0.7]);
    assert_eq!(snapped(9.0), [1.0, 0.6, 9.0, 0.7]);
}

/// Baselines are stated in units of the range, also where the parameters are hidden; attacks are not then.
#[test]
fn baselines_are_mapped() {
    let world = World::drawn(3, 3, 2, 9);
    let settings = [("lower", "-1,0,4"), ("upper", "3,0.5,4")];
    let half = world.with(Method::Half, &settings).unwrap();
    assert_eq!(half.estimates.column(0).as_slice(), [1.0, 0.25, 4.0]);
    let zero = world.with(Method::Zero, &settings).unwrap();
    assert_eq!(zero.estimates.column(1).as_slice(), [-1.0, 0.0, 4.0]);
    let hidden =
        KnownModel::black_box(world.w.columns(0, 1).into_owned(), world.bias.clone(), 3).unwrap();
    let settings = Settings::read(settings).unwrap();
    let random = world.run_on(&hidden, &*Method::Random.build(&settings)).unwrap().estimates;
    assert!(
        random.row(0).iter().all(|x| (-1.0..3.0).contains(x))
            && random.row(2).iter().all(|x| *x == 4.0)
    );
    assert!(random.row(0).iter().any(|x| *x > 1.0) || random.row(0).iter().any(|x| *x < 0.0));
    let refused = world.run_on(&hidden, &*Method::HalfStar.build(&settings));
    assert_eq!(refused.err(), Some(AttackError::NeedsParameters));
}

/// A feature with one possible value is known, and the equations are left for the others.
#[test]
fn a_range_of_one_point_is_known() {
    let world = World::drawn(3, 3, 4, 2);
    let fixed = World::new(world.w.clone(), world.bias.clone(), {
        let mut x = world.x.clone();
        x.row_mut(2).fill(0.7);
        x
    });
    // Two equations and two features that are open.
    let found =
        fixed.with(Method::LeastSquares, &[("lower", "0,0.7,0"), ("upper", "1,0.7,1")]).unwrap();
    assert!((found.estimates - fixed.truth()).amax() < 1e-10);
    assert_eq!(found.solved.unwrap().nullity, 0);
    // And all of them: nothing is left to solve.
    let found = fixed
        .with(Method::HalfStar, &[("lower", "0.1,0.7,0.2"), ("upper", "0.1,0.7,0.2")])
        .unwrap();
    assert_eq!(found.estimates.column(3).as_slice(), [0.1, 0.7, 0.2]);
}

/// Levels in other units, with values that units cannot give back to the bit.
#[test]
fn exact_levels_in_ranges() {
    let mut world = World::drawn(4, 3, 6, 4);
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    world.x.row_mut(1).apply(|v| *v = if *v < 0.5 { 0.1 } else { 0.7 });
    world.x.row_mut(2).apply(|v| *v = if *v < 0.5 { -3.0 } else { 11.0 });
    world.x.row_mut(3).apply(|v| *v = 100.0 * rng.random::<f64>());
    let world = World::new(world.w, world.bias, world.x);
    let settings = [
        ("lower", "0,-3,0"),
        ("upper", "0.9,11,100"),
        ("binary", "1"),
        ("levels", "0:0.7/0.1"),
        ("discrete", "exact"),
    ];
    let found = world.with(Method::LeastSquares, &settings).unwrap();
    assert_eq!(found.estimates.rows(0, 2), world.truth().rows(0, 2));
    assert!((found.estimates.row(2) - world.truth().row(2)).amax() < 1e-6);
}

#[test]
fn what_does_not_fit_is_refused() {
    let world = World::drawn(3, 4, 2, 3);
    let why = |settings: &[(&str, &str)]| match world.with(Method::HalfStar, settings) {
        Err(AttackError::Knowledge(error)) => error,
        other => panic!("{other:?}"),
    };
    let length = |what, got| KnowledgeError::Length { what, expected: 4, got };
    assert_eq!(why(&[("lower", "0,0")]), length("lower ends", 2));
    assert_eq!(why(&[("upper", "1,1,1,1,1")]), length("upper ends", 5));
    assert_eq!(why(&[("binary", "1,4")]), KnowledgeError::Position { got: 4, features: 4 });
    assert_eq!(
        why(&[("lower", "2")]),
        KnowledgeError::Range { feature: 0, lower: 2.0, upper: 1.0 }
    );
    assert_eq!(
        why(&[("levels", "3:0/2")]),
        KnowledgeError::Levels { feature: 3, lower: 0.0, upper: 1.0 }
    );
    let message = why(&[("binary", "4")]).to_string();
    assert!(message.contains('4') && message.contains("0 to 3"), "{message}");
    for bad in [
        ("lower", "a"),
        ("lower", ""),
        ("upper", "inf"),
        ("binary", "-1"),
        ("levels", "0"),
        ("discrete", "x"),
    ] {
        assert!(Settings::read([bad]).is_err(), "{bad:?}");
    }
    assert!(FeatureKnowledge::new(vec![(f64::NEG_INFINITY, 0.0)], vec![None]).is_err());
    assert!(FeatureKnowledge::new(vec![(-f64::MAX, f64::MAX)], vec![None]).is_err());
    assert!(FeatureKnowledge::new(vec![(0.0, f64::NAN)], vec![None]).is_err());
    assert!(FeatureKnowledge::new(vec![(0.0, 1.0)], vec![Some(vec![])]).is_err());

    let wide = World::drawn(3, MAX_BINARY + 1, 1, 3);
    let refused = wide.with(Method::HalfStar, &[("binary", "all"), ("discrete", "exact")]);
    assert_eq!(refused.err(), Some(AttackError::Binary { got: MAX_BINARY + 1, limit: MAX_BINARY }));
    assert!(wide.with(Method::HalfStar, &[("binary", "all")]).is_ok());
}

/// What the settings of the public schema say of `features` features.
fn grid(features: usize, settings: &[(&str, &str)]) -> Result<FeatureKnowledge, KnowledgeError> {
    StatedKnowledge::from(&Settings::read(settings.iter().copied()).unwrap()).about(features)
}

#[test]
fn grids_groups_and_widths_are_read_from_settings() {
    let known =
        grid(6, &[("step", "0.01,0,1,1,1,0.5"), ("groups", "2-4"), ("width", "20,3.5,0,0,0,2")])
            .unwrap();
    assert_eq!(known.steps(), [Some(0.01), None, Some(1.0), Some(1.0), Some(1.0), Some(0.5)]);
    assert_eq!(known.groups(), std::slice::from_ref(&(2..5)));
    assert_eq!(known.widths(), [Some(20.0), Some(3.5), None, None, None, Some(2.0)]);
    assert_eq!(known.ranges(), [(0.0, 1.0); 6]);
    let all = grid(3, &[("step", "0.25"), ("groups", "1-2, 0-0"), ("width", "7")]).unwrap();
    assert_eq!((all.steps(), all.widths()), (&[Some(0.25); 3][..], &[Some(7.0); 3][..]));
    assert_eq!(all.groups(), [0..1, 1..3]);
    let silent = grid(2, &[]).unwrap();
    assert_eq!(
        (silent.steps(), silent.widths(), silent.groups().len()),
        (&[None; 2][..], &[None; 2][..], 0)
    );
}

#[test]
fn grids_that_cannot_be_are_refused_by_name() {
    let step = |got| KnowledgeError::Step { feature: 1, got };
    let length = |what, got| KnowledgeError::Length { what, expected: 3, got };
    let cases: [(&str, &str, KnowledgeError); 14] = [
        ("step", "1,-0.5,1", step(-0.5)),
        ("step", "1,1.5,1", step(1.5)),
        ("step", "1,0.3,1", step(0.3)),
        ("step", "1,0.33333,1", step(0.33333)),
        ("step", "1,1e-320,1", step(1e-320)),
        ("step", "1,1", length("steps", 2)),
        ("width", "1,1,1,1", length("widths", 4)),
        ("width", "1,-2,1", KnowledgeError::Width { feature: 1, got: -2.0 }),
        ("groups", "0-3", KnowledgeError::Position { got: 3, features: 3 }),
        (
            "groups",
            "0-18446744073709551615",
            KnowledgeError::Position { got: usize::MAX - 1, features: 3 },
        ),
        ("groups", "0-1,1-2", KnowledgeError::Group { first: 1, last: 2 }),
        ("groups", "1-2,0-1", KnowledgeError::Group { first: 1, last: 2 }),
        ("groups", "0-1,0-1", KnowledgeError::Group { first: 0, last: 1 }),
        ("groups", "2-1", KnowledgeError::Group { first: 2, last: 1 }),
    ];
    for (key, value, refusal) in cases {
        assert_eq!(grid(3, &[(key, value)]).err(), Some(refusal), "{key} = {value}");
    }
    for bad in [
        ("step", "a"),
        ("step", "inf"),
        ("width", "nan"),
        ("groups", "1"),
        ("groups", "0-1,"),
        ("groups", "-1-2"),
    ] {
        assert!(Settings::read([bad]).is_err(), "{bad:?}");
    }
    // Thirds, as a schema writes them, divide the range.
    assert_eq!(grid(1, &[("step", "0.3333333333333333")]).unwrap().steps(), [Some(1.0 / 3.0)]);
    let known = FeatureKnowledge::new(vec![(0.0, 1.0)], vec![None]).unwrap();
    let nan = known.with_grid(vec![Some(f64::NAN)], Vec::new(), vec![None]);
    assert!(matches!(nan, Err(KnowledgeError::Step { feature: 0, .. })));
}

/// The attacks of the papers are left as they are by what only a search makes use of, to the bit,
/// and do not even look at it.
#[test]
fn grids_leave_the_attacks_of_the_papers_alone() {
    let world = World::drawn(3, 5, 6, 31);
    for method in METHODS {
        let plain = world.with(method, &[]).unwrap();
        for settings in [
            [("step", "0.5"), ("groups", "0-4"), ("width", "3")],
            [("step", "2"), ("groups", "0-9"), ("width", "1,1")],
        ] {
            assert_eq!(
                world.with(method, &settings).unwrap().estimates,
                plain.estimates,
                "{method}"
            );
        }
        let informed = world.with(method, &[("upper", "0.5"), ("step", "0.5")]).unwrap();
        assert_eq!(
            informed.estimates,
            world.with(method, &[("upper", "0.5")]).unwrap().estimates,
            "{method}"
        );
    }
}
