//! Figures by attribute against brute force, closed forms and a change of the declared ranges.

use nalgebra::DMatrix;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::*;
use crate::data::Scale;
use crate::data::schema::{FeatureKind, FeatureSpec};

fn spec(name: &str, kind: FeatureKind, max: f64, group: Option<&str>) -> FeatureSpec {
    FeatureSpec { kind, group: group.map(str::to_owned), ..FeatureSpec::numeric(name, 0.0, max) }
}

/// `income` (numeric), `staff` (binary), `job` (three categories), `late` (a count that is mostly 0), and a constant.
fn schema() -> Vec<FeatureSpec> {
    use FeatureKind::{Binary, Numeric, Ordinal};
    vec![
        spec("income", Numeric, 1000.0, None),
        spec("job=a", Binary, 1.0, Some("job")),
        spec("staff", Binary, 1.0, None),
        spec("job=b", Binary, 1.0, Some("job")),
        spec("job=c", Binary, 1.0, Some("job")),
        spec("late", Ordinal, 20.0, None),
        spec("nothing", Numeric, 0.0, None),
    ]
}

fn named(name: &str) -> Attribute {
    attributes(&schema()).into_iter().find(|attribute| attribute.name == name).unwrap()
}

/// Records of the schema, d × n, with tails and ties.
fn truth(n: usize, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
    let mut x = DMatrix::zeros(7, n);
    for record in 0..n {
        x[(0, record)] = rng.random::<f64>().powi(4);
        let job = [1, 3, 3, 3, 4, 4][rng.random_range(0..6)];
        x[(job, record)] = 1.0;
        x[(2, record)] = f64::from(u8::from(rng.random_bool(0.2)));
        x[(5, record)] = f64::from([0, 0, 0, 0, 1, 2][rng.random_range(0..6)]) / 20.0;
    }
    x
}

/// Estimates between the truth and its mean, with noise.
fn estimates(truth: &DMatrix<f64>, weight: f64, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
    let mean = truth.column_mean();
    DMatrix::from_fn(truth.nrows(), truth.ncols(), |i, j| {
        let noise: f64 = rng.random::<f64>() - 0.5;
        weight * truth[(i, j)] + (1.0 - weight) * (mean[i] + 0.1 * noise)
    })
}

#[test]
fn a_group_is_one_attribute_and_a_constant_is_none() {
    let all = attributes(&schema());
    let names: Vec<_> = all.iter().map(|a| (a.name.as_str(), a.columns.clone())).collect();
    let expected =
        [("income", vec![0]), ("job", vec![1, 3, 4]), ("staff", vec![2]), ("late", vec![5])];
    assert_eq!(names, expected);
    assert_eq!(
        all[1].kind,
        AttributeKind::Categories(["job=a", "job=b", "job=c"].map(String::from).to_vec())
    );
}

#[test]
fn figures_are_those_of_brute_force() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let n = 120;
    let x = truth(n, &mut rng);
    let (attack, control) = (estimates(&x, 0.5, &mut rng), estimates(&x, 0.1, &mut rng));
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");

    let job = AttributeFigures::of(&named("job"), &x, &attack, &control);
    let squares = |e: &DMatrix<f64>| {
        [1, 3, 4].map(|c| (e.row(c) - x.row(c)).norm_squared()).iter().sum::<f64>()
    };
    close(job.removed.unwrap().value.unwrap(), 1.0 - squares(&attack) / squares(&control));
    let right = (0..n).filter(|&r| {
        let best = [1, 3, 4]
            .into_iter()
            .max_by(|a, b| attack[(*a, r)].total_cmp(&attack[(*b, r)]))
            .unwrap();
        x[(best, r)] == 1.0
    });
    close(job.top_category.unwrap().attack, right.count() as f64 / n as f64);
    let EventFigures { event, having, named: asked, .. } = job.event.unwrap();
    let count = |c: usize| x.row(c).iter().filter(|v| **v == 1.0).count() as u64;
    let rarest = [1, 3, 4].into_iter().min_by_key(|c| count(*c)).unwrap();
    assert_eq!(
        (event, having, asked),
        (Event::Category { column: schema()[rarest].name.clone() }, count(rarest), 12)
    );

    let late = AttributeFigures::of(&named("late"), &x, &attack, &control);
    let pairs = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    let pairs: Vec<_> = pairs.filter(|&(i, j)| x[(5, i)] > 0.0 && x[(5, j)] == 0.0).collect();
    let won = pairs.iter().map(|&(i, j)| match attack[(5, i)].total_cmp(&attack[(5, j)]) {
        std::cmp::Ordering::Greater => 1.0,
        std::cmp::Ordering::Equal => 0.5,
        std::cmp::Ordering::Less => 0.0,
    });
    close(late.auc.unwrap().attack, won.sum::<f64>() / pairs.len() as f64);
    let told = late.event.unwrap();
    assert_eq!(told.event, Event::NotUsual { value: 0.0 });
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| attack[(5, *b)].total_cmp(&attack[(5, *a)]));
    close(told.attack, order[..12].iter().filter(|r| x[(5, **r)] > 0.0).count() as f64);

    let income = AttributeFigures::of(&named("income"), &x, &attack, &control);
    // Values within a millionth of the spread are one.
    let near = 1e-6 * (x.row(0).max() - x.row(0).min());
    let rank = |v: f64| {
        let below = x.row(0).iter().filter(|x| **x < v - near).count() as f64;
        let same = x.row(0).iter().filter(|x| (**x - v).abs() <= near).count() as f64;
        (below + 0.5 * same) / n as f64
    };
    let misranked =
        |e: &DMatrix<f64>| (0..n).map(|r| (rank(e[(0, r)]) - rank(x[(0, r)])).powi(2)).sum::<f64>();
    close(
        income.removed_ranks.unwrap().value.unwrap(),
        1.0 - misranked(&attack) / misranked(&control),
    );
    let variance =
        (x.row(0).iter().map(|v| v * v).sum::<f64>() / n as f64) - x.row(0).mean().powi(2);
    close(
        income.error.unwrap().attack * variance,
        (attack.row(0) - x.row(0)).norm_squared() / n as f64,
    );
    let ToleranceShare { tolerance, share } = income.within.unwrap();
    let reached =
        (0..n).filter(|&r| 1000.0 * (attack[(0, r)] - x[(0, r)]).abs() <= tolerance).count();
    close(share.attack, reached as f64 / n as f64);
    assert!(matches!(income.event.unwrap().event, Event::TopDecile { .. }) && income.auc.is_none());
    // Of 120 records they would be errors of single ones.
    assert!(income.percentile_1.is_none() && income.percentile_5.is_none());
}

/// A scale changes what an error is, and neither the event nor the distance that counts as right.
#[test]
fn distances_and_events_are_of_the_source_whatever_the_scale() {
    let mut rng = ChaCha20Rng::seed_from_u64(5);
    let scale = Some(Scale::Log);
    let tolerance = Some(40.0);
    let feature = FeatureSpec { scale, tolerance, ..FeatureSpec::numeric("income", 1.0, 1000.0) };
    let [attribute] = &attributes(std::slice::from_ref(&feature))[..] else { panic!("one") };
    let n = 120;
    let source: Vec<f64> = (0..n).map(|_| 1.0 + 999.0 * rng.random::<f64>().powi(4)).collect();
    let x = DMatrix::from_iterator(1, n, source.iter().map(|v| feature.normalise(*v)));
    let (attack, control) = (estimates(&x, 0.9, &mut rng), estimates(&x, 0.1, &mut rng));
    let told = AttributeFigures::of(attribute, &x, &attack, &control);
    let ToleranceShare { tolerance, share } = told.within.unwrap();
    let guess = |r: usize| 1000f64.powf(attack[(0, r)].clamp(0.0, 1.0));
    let reached = (0..n).filter(|&r| (guess(r) - source[r]).abs() <= 40.0).count();
    assert!((tolerance - 40.0).abs() < 1e-9 && reached > 20 && reached < n);
    assert_eq!(share.attack, reached as f64 / n as f64);
    let mut sorted = source.clone();
    sorted.sort_by(f64::total_cmp);
    match told.event.unwrap().event {
        Event::TopDecile { from } => assert!((from / sorted[n - 12] - 1.0).abs() < 1e-12),
        other => panic!("{other:?}"),
    }
    // Without a tolerance it is a tenth of the middle half of the source's values.
    let open =
        Attribute { feature: FeatureSpec { tolerance: None, ..feature }, ..attribute.clone() };
    let told = AttributeFigures::of(&open, &x, &attack, &control).within.unwrap();
    let middle = sorted[3 * n / 4] - sorted[n / 4];
    assert!((told.tolerance / (0.1 * middle) - 1.0).abs() < 0.1, "{told:?} {middle}");
}

#[test]
fn percentiles_are_told_of_many_records_alone() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    for (n, has_1) in [(1999, false), (2000, true)] {
        let x = truth(n, &mut rng);
        let (attack, control) = (estimates(&x, 0.5, &mut rng), estimates(&x, 0.1, &mut rng));
        let told = AttributeFigures::of(&named("income"), &x, &attack, &control);
        let variance =
            (x.row(0).iter().map(|v| v * v).sum::<f64>() / n as f64) - x.row(0).mean().powi(2);
        let mut each: Vec<f64> =
            (0..n).map(|r| (attack[(0, r)] - x[(0, r)]).powi(2) / variance).collect();
        each.sort_by(f64::total_cmp);
        assert!((told.percentile_5.unwrap().attack - each[99]).abs() < 1e-12);
        assert_eq!(told.percentile_1.is_some(), has_1);
        assert!(told.percentile_1.is_none_or(|p| (p.attack - each[19]).abs() < 1e-12));
    }
}

/// An attack that names all rightly is told so, whatever three digits make of the number.
#[test]
fn no_more_are_right_than_are_named() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let x = truth(12_360, &mut rng);
    let told =
        AttributeFigures::of(&named("income"), &x, &x, &estimates(&x, 0.1, &mut rng)).rounded();
    let event = told.event.unwrap();
    assert_eq!((event.named, event.attack), (1236, 1236.0));
}

#[test]
fn who_knows_everything_removes_all_and_names_the_right_records() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let x = truth(200, &mut rng);
    let mean = DMatrix::from_fn(7, 200, |i, _| x.row(i).mean());
    for attribute in attributes(&schema()) {
        let told = AttributeFigures::of(&attribute, &x, &x, &mean);
        assert_eq!(told.removed.unwrap().value, Some(1.0), "{}", attribute.name);
        assert!(
            (told.error.unwrap().control - 1.0).abs() < 1e-12,
            "the mean's error is the variance"
        );
        assert_eq!(told.exact, Some(ControlledFigure { attack: 1.0, control: 0.0 }));
        let event = told.event.unwrap();
        assert_eq!(event.attack, 20.0_f64.min(event.having as f64));
        // All are equal to the control, which names at random.
        assert!((event.control - 20.0 * event.having as f64 / 200.0).abs() < 1e-9);
        assert!(told.auc.is_none_or(|auc| auc == ControlledFigure { attack: 1.0, control: 0.5 }));
        // Nothing is left to remove of a control that knows everything, and nothing at all of what does not vary.
        assert_eq!(AttributeFigures::of(&attribute, &x, &mean, &x).removed, None);
        assert_eq!(AttributeFigures::of(&attribute, &mean, &x, &mean).error, None);
    }
}

#[test]
fn an_event_on_both_sides_of_the_usual_value_is_named_by_distance() {
    let x = DMatrix::from_row_slice(1, 10, &[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.1, 0.9]);
    let attribute = &attributes(&[FeatureSpec::numeric("x", 0.0, 10.0)])[0];
    let told = AttributeFigures::of(attribute, &x, &x, &DMatrix::from_element(1, 10, 0.5));
    assert_eq!(told.auc, Some(ControlledFigure { attack: 1.0, control: 0.5 }));
    assert_eq!(told.event.unwrap().event, Event::NotUsual { value: 5.0 });
}

#[test]
fn noise_tells_the_share_removed_alone() {
    let attribute = named("job");
    let (attack, control) = ([0.0, 0.01, 9.0, 0.02, 0.03, 9.0], [0.0, 0.04, 9.0, 0.04, 0.04, 9.0]);
    let told = AttributeFigures::of_noised(&attribute, (&attack, 0.001), (&control, 0.001), 1.96);
    let removed = told.removed.unwrap();
    assert!((removed.value.unwrap() - 0.5).abs() < 1e-12 && removed.halves.is_none());
    // By hand: (0.06 − 0.12 r)² ≤ 1.96² · 3e-6 (1 + r²).
    let at = |share: f64| {
        let r = 1.0 - share;
        (0.06 - 0.12 * r).powi(2) - 1.96_f64.powi(2) * 3e-6 * (1.0 + r * r)
    };
    assert!(at(removed.low.unwrap()).abs() < 1e-12 && at(removed.high.unwrap()).abs() < 1e-12);
    assert_eq!((told.error, told.event, told.exact), (None, None, None));
    let open = AttributeFigures::of_noised(&attribute, (&attack, 0.1), (&control, 0.1), 1.96)
        .removed
        .unwrap();
    assert_eq!((open.low, open.high), (None, None));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Ranges declared `wide` times wider, wherever the records lie in them, change nothing.
    #[test]
    fn declared_ranges_do_not_matter(seed in 0u64..1000, wide in 1.0..20.0f64, from in 0.0..1.0f64) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let x = truth(150, &mut rng);
        let (attack, control) = (estimates(&x, 0.6, &mut rng), estimates(&x, 0.2, &mut rng));
        let shrunk = |m: &DMatrix<f64>| m.map(|v| from * (1.0 - 1.0 / wide) + v / wide);
        for name in ["income", "late"] {
            let attribute = named(name);
            let figures = |f: &dyn Fn(&DMatrix<f64>) -> DMatrix<f64>| {
                let told = AttributeFigures::of(&attribute, &f(&x), &f(&attack), &f(&control));
                let removed = [told.removed.unwrap(), told.removed_ranks.unwrap()];
                let removed = removed.into_iter().flat_map(|r| {
                    let halves = r.halves.unwrap().map(|h| [h.value, h.deviation]).concat();
                    [r.value.unwrap(), r.low.unwrap(), r.high.unwrap()].into_iter().chain(halves)
                });
                let errors = [told.error, told.percentile_1, told.percentile_5, told.exact, told.auc];
                let errors = errors.into_iter().flatten().flat_map(|b| [b.attack, b.control]);
                let event = told.event.unwrap();
                removed.chain(errors).chain([event.attack, event.control]).collect::<Vec<f64>>()
            };
            let (plain, other) = (figures(&|m| m.clone()), figures(&shrunk));
            for (a, b) in plain.iter().zip(&other) {
                prop_assert!((a - b).abs() < 1e-9, "{name}: {plain:?} {other:?}");
            }
        }
    }
}
