//! Closed forms and bounds against a regression on the records, a second implementation, and attacks on sampled Gaussian features.

use nalgebra::DVector;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use vfl_core::metrics::mse;
use vfl_core::types::FeatureBlock;
use vfl_numerics::{GaussianSystem, row_differences};

use super::super::{AssessError, assess, before_training, bits_bounds};
use super::*;

fn normal(rows: usize, columns: usize, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
    DMatrix::from_fn(rows, columns, |_, _| StandardNormal.sample(rng))
}

/// How the variances of the principal directions fall off.
#[derive(Debug, Clone, Copy)]
enum Spectrum {
    Alike,
    Falling,
    OneLarge,
    /// A third of the directions have none.
    Singular,
    Equal,
}

/// The place of a spectrum; errors over bounds, with exact scores and with the best channel.
type Ratios = (usize, Option<f64>, Option<f64>);

const SPECTRA: [Spectrum; 5] =
    [Spectrum::Alike, Spectrum::Falling, Spectrum::OneLarge, Spectrum::Singular, Spectrum::Equal];

impl Spectrum {
    /// L (d × d) with the covariance L Lᵀ.
    fn root(self, d: usize, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
        let directions = normal(d, d, rng).qr().q();
        let variances = DVector::from_fn(d, |i, _| match self {
            Self::Alike => 0.5 + rng.random::<f64>(),
            Self::Falling => 0.3f64.powi(i as i32),
            Self::OneLarge => {
                if i == 0 {
                    1.0
                } else {
                    0.01 * (1.0 + rng.random::<f64>())
                }
            }
            Self::Singular => {
                if i % 3 == 2 {
                    0.0
                } else {
                    0.1 + rng.random::<f64>()
                }
            }
            Self::Equal => 1.0,
        });
        directions * DMatrix::from_diagonal(&variances.map(f64::sqrt))
    }
}

/// m × d of rank `rank` at most.
fn equations(m: usize, d: usize, rank: usize, rng: &mut ChaCha20Rng) -> DMatrix<f64> {
    normal(m, rank, rng) * normal(rank, d, rng)
}

/// W with J W = `a`.
fn weights(a: &DMatrix<f64>) -> DMatrix<f64> {
    let mut w = DMatrix::zeros(a.nrows() + 1, a.ncols());
    for i in 0..a.nrows() {
        let next = w.row(i) + a.row(i);
        w.set_row(i + 1, &next);
    }
    w
}

fn centred(x: &DMatrix<f64>) -> DMatrix<f64> {
    let mean = x.column_mean();
    let mut centred = x.clone();
    centred.column_iter_mut().for_each(|mut c| c -= &mean);
    centred
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Over the very records: the residual of a regression of x on A x with an intercept, and `GaussianSystem`.
    #[test]
    fn the_closed_form_is_the_error_of_a_regression(
        k in 2usize..8, d in 1usize..12, n in 2usize..40, spectrum in 0usize..5, rank in 1usize..8, seed in any::<u64>(),
    ) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let w = weights(&equations(k - 1, d, rank, &mut rng));
        let x = (SPECTRA[spectrum].root(d, &mut rng) * normal(d, n, &mut rng)).map(|v| 0.5 + 0.1 * v);
        let found = assess(&w, &FeatureBlock::new(x.clone()).unwrap()).unwrap();

        let (from, to) = (centred(&(row_differences(&w) * &x)), centred(&x));
        let fitted = &to * PseudoInverse::new(&from).unwrap().matrix * &from;
        let residual = mse(&fitted, &to).unwrap().overall;
        prop_assert!((found.mse_informed_linear - residual).abs() < 1e-9, "{} {residual}", found.mse_informed_linear);
        prop_assert!((found.empirical.informed_linear - residual).abs() < 1e-9);
        let covariance = &to * to.transpose() / n as f64;
        let second = GaussianSystem::new(&row_differences(&w), &covariance).unwrap();
        prop_assert!((found.mse_informed_linear - second.covariance_left().trace() / d as f64).abs() < 1e-9);
        prop_assert!((found.mse_informed_control - covariance.trace() / d as f64).abs() < 1e-12);
        prop_assert!((found.empirical.informed_control - found.mse_informed_control).abs() < 1e-12);
        // It knows more than any adversary that fills in fixed values, and the bounds are the same before training.
        prop_assert!(found.mse_informed_linear <= found.lb_mu.min(found.mse_informed_control) + 1e-12);
        let risk = found.informed_added_risk.unwrap();
        prop_assert!((risk - (1.0 - residual / found.mse_informed_control)).abs() < 1e-6 * (1.0 + risk));
        let before = before_training(k, &FeatureBlock::new(x).unwrap()).unwrap();
        let of_rank = &before.by_rank[found.rank];
        prop_assert_eq!(
            (of_rank.lb_informed_linear, of_rank.ub_informed_linear, before.by_rank[0].lb_informed_linear),
            (found.lb_informed_linear, found.ub_informed_linear, before.mse_informed_control)
        );
    }

    /// No A of its rank leaves the bounds, and eigenvectors attain both.
    #[test]
    fn the_bounds_of_a_rank_hold_and_are_attained(
        d in 1usize..10, rank in 0usize..10, spectrum in 0usize..5, n in 2usize..30, seed in any::<u64>(),
    ) {
        let (rank, mut rng) = (rank.min(d), ChaCha20Rng::seed_from_u64(seed));
        let x = (SPECTRA[spectrum].root(d, &mut rng) * normal(d, n, &mut rng)).map(|v| 0.5 + 0.1 * v);
        let block = FeatureBlock::new(x.clone()).unwrap();
        let bounds = before_training(rank + 2, &block).unwrap().by_rank.swap_remove(rank);
        for _ in 0..10 {
            // A is (rank + 1) × d, of this rank.
            let found = assess(&weights(&equations(rank + 1, d, rank, &mut rng)), &block).unwrap();
            prop_assert_eq!(found.rank, rank);
            let error = found.mse_informed_linear;
            prop_assert!(bounds.lb_informed_linear <= error + 1e-12 && error <= bounds.ub_informed_linear + 1e-12, "{bounds:?} {error}");
        }
        let (values, vectors) = symmetric_eigen(&Moments::of(&x).unwrap().about_mean).unwrap();
        let mut order: Vec<usize> = (0..d).collect();
        order.sort_by(|&i, &j| values[j].total_cmp(&values[i]));
        for attained in [bounds.lb_informed_linear, bounds.ub_informed_linear] {
            let rows = DMatrix::from_fn(rank + 1, d, |i, j| if i < rank { vectors[(j, order[i])] } else { 0.0 });
            let found = assess(&weights(&rows), &block).unwrap();
            prop_assert!((found.mse_informed_linear - attained).abs() < 1e-12, "{bounds:?} {found:?}");
            order.reverse();
        }
    }

    #[test]
    fn bits_lead_from_the_control_to_exact_scores(
        k in 2usize..7, d in 1usize..10, n in 1usize..20, spectrum in 0usize..5, seed in any::<u64>(),
    ) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let w = weights(&normal(k - 1, d, &mut rng));
        let x = (SPECTRA[spectrum].root(d, &mut rng) * normal(d, n, &mut rng)).map(|v| 0.5 + 0.1 * v);
        let block = FeatureBlock::new(x).unwrap();
        let found = assess(&w, &block).unwrap();
        let bounds = bits_bounds(&w, &block, &[0.0, 0.5, 2.0, 8.0, 400.0]).unwrap();
        prop_assert!((bounds[0].mse - found.mse_informed_control).abs() < 1e-12);
        prop_assert!((bounds[4].mse - found.mse_informed_linear).abs() < 1e-12);
        prop_assert!(bounds.windows(2).all(|pair| pair[1].mse <= pair[0].mse && pair[0].added_risk <= pair[1].added_risk));
        prop_assert_eq!(bounds[4].added_risk.is_some(), n > 1);
    }
}

/// Whether errors fall below a bound by more than four standard errors of their mean.
fn below(bound: f64, errors: &[f64]) -> bool {
    let n = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / n;
    let variance = errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / (n - 1.0);
    // Errors at rounding have no standard error to speak of.
    mean < bound * (1.0 - 1e-9) - 1e-12 - 4.0 * (variance / n).sqrt()
}

/// Gaussian features and what an attacker sees of them.
struct Sampled {
    spectrum: Spectrum,
    a: DMatrix<f64>,
    covariance: DMatrix<f64>,
    mean: DVector<f64>,
    /// d × n.
    x: DMatrix<f64>,
    /// As many others, for what an attack has to learn.
    others: DMatrix<f64>,
}

const RECORDS: usize = 2000;

impl Sampled {
    fn draw(index: u64) -> (Self, ChaCha20Rng) {
        let mut rng = ChaCha20Rng::seed_from_u64(0x1B17_5000 + index);
        let (d, m) = (rng.random_range(1..9), rng.random_range(1..6));
        let spectrum = SPECTRA[index as usize % SPECTRA.len()];
        let root = spectrum.root(d, &mut rng);
        let rank = if rng.random() { m } else { rng.random_range(1..=m) };
        let mean = DVector::from_fn(d, |_, _| rng.random::<f64>());
        let mut records = || {
            let mut x = &root * normal(d, RECORDS, &mut rng);
            x.column_iter_mut().for_each(|mut x| x += &mean);
            x
        };
        let (x, others) = (records(), records());
        let a = equations(m, d, rank, &mut rng);
        (Self { spectrum, a, covariance: &root * root.transpose(), mean, x, others }, rng)
    }

    /// The squared error of each record, per feature.
    fn errors(&self, estimates: &DMatrix<f64>) -> Vec<f64> {
        let d = self.x.nrows() as f64;
        (estimates - &self.x).column_iter().map(|off| off.norm_squared() / d).collect()
    }

    fn means(&self) -> DMatrix<f64> {
        DMatrix::from_fn(self.x.nrows(), RECORDS, |i, _| self.mean[i])
    }

    /// From exact scores: E[x | A x], and two that know less.
    fn with_exact_scores(&self, system: &GaussianSystem) -> [DMatrix<f64>; 3] {
        let b = &self.a * &self.x;
        let best = system.conditional_mean(&self.means(), &b);
        let half = DMatrix::from_element(self.x.nrows(), RECORDS, 0.5);
        let inverse = PseudoInverse::new(&self.a).unwrap().matrix;
        let half_star = &half + inverse * (b - &self.a * &half);
        [best, half_star, self.means()]
    }

    /// One bit: the sign of a direction g that the scores tell. E[x | sign] = μ ± S g √(2 / π gᵀS g).
    fn with_a_sign(&self, rng: &mut ChaCha20Rng) -> Option<(f64, DMatrix<f64>)> {
        let g = self.a.transpose() * normal(self.a.nrows(), 1, rng);
        let variance = (g.transpose() * &self.covariance * &g)[(0, 0)];
        let step = (variance > 1e-12)
            .then(|| &self.covariance * &g * (std::f64::consts::FRAC_2_PI / variance).sqrt())?;
        let signs = (g.transpose() * (&self.x - self.means())).map(f64::signum);
        Some((1.0, self.means() + step * signs))
    }

    /// log2 k bits: the arg max of k logits. The mean of each class is learnt from other records.
    fn with_a_label(&self) -> (f64, DMatrix<f64>) {
        let w = weights(&self.a);
        let labels = |x: &DMatrix<f64>| -> Vec<usize> {
            (&w * x).column_iter().map(|z| z.argmax().0).collect()
        };
        let (mut sums, mut counts) =
            (DMatrix::zeros(self.x.nrows(), w.nrows()), vec![0.0f64; w.nrows()]);
        for (label, x) in labels(&self.others).into_iter().zip(self.others.column_iter()) {
            counts[label] += 1.0;
            let sum = sums.column(label) + x;
            sums.set_column(label, &sum);
        }
        let mut estimates = self.means();
        for (mut estimate, label) in estimates.column_iter_mut().zip(labels(&self.x)) {
            if counts[label] > 0.0 {
                estimate.copy_from(&(sums.column(label) / counts[label]));
            }
        }
        ((w.nrows() as f64).log2(), estimates)
    }

    /// The principal components of E[x | A x]: variances, directions, and scores of the records (a row each).
    fn components(&self, system: &GaussianSystem) -> (DVector<f64>, DMatrix<f64>, DMatrix<f64>) {
        let (values, vectors) =
            symmetric_eigen(&(&self.covariance - system.covariance_left())).unwrap();
        let conditional =
            system.conditional_mean(&self.means(), &(&self.a * &self.x)) - self.means();
        let scores = vectors.transpose() * conditional;
        (values.map(|v| if v > 1e-9 { v } else { 0.0 }), vectors, scores)
    }

    /// Up to 6 cells for each component, with the mean of its cell as its estimate.
    fn with_cells(&self, system: &GaussianSystem, rng: &mut ChaCha20Rng) -> (f64, DMatrix<f64>) {
        let (values, vectors, mut scores) = self.components(system);
        let mut bits = 0.0;
        for (mut row, variance) in scores.row_iter_mut().zip(&values) {
            let cells = rng.random_range(1..7);
            if *variance == 0.0 {
                row.fill(0.0);
                continue;
            }
            bits += f64::from(cells).log2();
            let mut ends: Vec<f64> = (1..cells).map(|_| 4.0 * rng.random::<f64>() - 2.0).collect();
            ends.sort_by(f64::total_cmp);
            let (ends, deviation) = ([vec![-9.0], ends, vec![9.0]].concat(), variance.sqrt());
            let means: Vec<f64> =
                ends.windows(2).map(|cell| mean_between(cell[0], cell[1])).collect();
            row.apply(|v| {
                let cell =
                    ends[1..ends.len() - 1].iter().filter(|end| *v / deviation > **end).count();
                *v = deviation * means[cell];
            });
        }
        (bits, self.means() + vectors * scores)
    }

    /// The channel that attains the bound: component i with variance λ_i above a level θ is told as (1 − θ/λ_i) p + noise of variance
    /// θ (1 − θ/λ_i). It has ½ log2(λ_i/θ) bits of mutual information and leaves θ. Nothing of it comes from `WaterFilling`.
    fn with_the_best_channel(
        &self,
        system: &GaussianSystem,
        rng: &mut ChaCha20Rng,
    ) -> Option<(f64, DMatrix<f64>)> {
        let (values, vectors, mut scores) = self.components(system);
        if values.max() <= 0.0 {
            return None;
        }
        let level = values.max() * rng.random_range(0.01..1.0f64);
        let mut bits = 0.0;
        for (mut row, &variance) in scores.row_iter_mut().zip(&values) {
            let kept = (1.0 - level / variance).max(0.0);
            bits += if kept > 0.0 { 0.5 * (variance / level).log2() } else { 0.0 };
            row.apply(|v| {
                *v = kept * *v
                    + (level * kept).sqrt() * {
                        let z: f64 = StandardNormal.sample(rng);
                        z
                    }
            });
        }
        Some((bits, self.means() + vectors * scores))
    }
}

/// E[z | a < z < b] of a standard normal z: (φ(a) − φ(b)) / ∫ φ, by Simpson's rule.
fn mean_between(a: f64, b: f64) -> f64 {
    let density = |t: f64| (-0.5 * t * t).exp();
    let (steps, width) = (400, (b - a) / 400.0);
    let sum: f64 = (0..=steps)
        .map(|i| {
            density(a + width * f64::from(i))
                * if i == 0 || i == steps { 1.0 } else { f64::from(2 + 2 * (i % 2)) }
        })
        .sum();
    let mass = sum * width / 3.0;
    if mass > 0.0 { (density(a) - density(b)) / mass } else { 0.5 * (a + b) }
}

/// 1000 cases of Gaussian features. No attack falls below its bound. The two that are the best possible meet it, and a bound
/// raised by a tenth would be caught.
#[test]
fn no_attack_on_gaussian_features_errs_less() {
    let cases = 1000u64;
    let ratios: Vec<_> = (0..cases)
        .into_par_iter()
        .map(|index| {
            let (case, mut rng) = Sampled::draw(index);
            let what = format!("case {index}, {:?}, {:?}", case.spectrum, case.a.shape());
            let informed = InformedBounds::of(&case.a, &case.covariance).unwrap();
            let system = GaussianSystem::new(&case.a, &case.covariance).unwrap();
            let (linear, control) = (informed.linear_mse(), informed.control_mse());
            let exact = case.with_exact_scores(&system).map(|estimates| case.errors(&estimates));
            for errors in &exact {
                assert!(!below(linear, errors), "{what}: exact scores");
            }
            assert!(!below(control, &exact[2]), "{what}: the control");
            let best = case.with_the_best_channel(&system, &mut rng);
            let defenses = [
                Some(case.with_a_label()),
                case.with_a_sign(&mut rng),
                Some(case.with_cells(&system, &mut rng)),
                best,
            ];
            let mut last = None;
            for (at, (bits, estimates)) in
                defenses.into_iter().enumerate().filter_map(|(at, told)| Some((at, told?)))
            {
                let (bound, errors) =
                    (informed.with_bits(bits).unwrap().mse, case.errors(&estimates));
                assert!(
                    linear <= bound && bound <= control * (1.0 + 1e-12),
                    "{what}: {linear} {bound} {control}"
                );
                assert!(!below(bound, &errors), "{what}: defense {at} with {bits} bits, {bound}");
                last = Some((at == 3).then(|| relative(&errors, bound))).flatten();
            }
            let of_exact = (linear > 1e-6 * control).then(|| relative(&exact[0], linear));
            (index as usize % SPECTRA.len(), of_exact, last)
        })
        .collect();
    for (at, spectrum) in SPECTRA.iter().enumerate() {
        let of = |pick: fn(&Ratios) -> Option<f64>| -> Vec<f64> {
            ratios.iter().filter(|r| r.0 == at).filter_map(pick).collect()
        };
        for (what, ratios) in [("exact scores", of(|r| r.1)), ("the best channel", of(|r| r.2))] {
            assert!(ratios.len() > 100, "{spectrum:?}, {what}: {}", ratios.len());
            assert!(!below(1.0, &ratios), "{spectrum:?}, {what}: below the bound");
            assert!(
                below(1.1, &ratios),
                "{spectrum:?}, {what}: a bound that is a tenth too high goes unseen"
            );
            // As high as it can be: errors are not above it either.
            let negated: Vec<f64> = ratios.iter().map(|r| -r).collect();
            assert!(!below(-1.0, &negated), "{spectrum:?}, {what}: above the bound");
        }
    }
}

/// Mean error in units of the bound.
fn relative(errors: &[f64], bound: f64) -> f64 {
    errors.iter().sum::<f64>() / errors.len() as f64 / bound
}

/// One feature and two classes: exact scores tell x, B bits leave 4^(−B) of its variance.
#[test]
fn one_feature_by_hand() {
    let w = DMatrix::from_column_slice(2, 1, &[0.0, 3.0]);
    let block = |values: &[f64]| {
        FeatureBlock::new(DMatrix::from_row_slice(1, values.len(), values)).unwrap()
    };
    let x = block(&[0.1, 0.5, 0.9, 0.5]);
    let found = assess(&w, &x).unwrap();
    assert!((found.mse_informed_control - 0.08).abs() < 1e-15 && found.mse_informed_linear < 1e-30);
    assert_eq!((found.informed_added_risk, found.ub_informed_linear), (Some(1.0), 0.0));
    let bounds = bits_bounds(&w, &x, &[1.0, 0.0, 3.0]).unwrap();
    for (bound, (bits, mse)) in bounds.iter().zip([(1.0, 0.02), (0.0, 0.08), (3.0, 0.00125)]) {
        assert!(bound.bits == bits && (bound.mse - mse).abs() < 1e-15, "{bound:?}");
        assert!((bound.added_risk.unwrap() - (1.0 - mse / 0.08)).abs() < 1e-12, "{bound:?}");
    }
    // Nothing varies: nothing is at risk, and there is no ratio.
    let still = block(&[0.3, 0.3, 0.3]);
    let found = assess(&w, &still).unwrap();
    assert_eq!(
        (found.mse_informed_control, found.mse_informed_linear, found.informed_added_risk),
        (0.0, 0.0, None)
    );
    assert_eq!(
        bits_bounds(&w, &still, &[2.0]).unwrap()[0],
        BitsBound { bits: 2.0, mse: 0.0, added_risk: None }
    );
    for bits in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(bits_bounds(&w, &x, &[1.0, bits]), Err(AssessError::Bits));
    }
    assert!(matches!(
        bits_bounds(&w, &FeatureBlock::new(DMatrix::zeros(2, 3)).unwrap(), &[]),
        Err(AssessError::Features { .. })
    ));
}

/// Scores that depend on features which do not vary tell nothing. Round-off in A S Aᵀ is no direction.
#[test]
fn scores_of_constant_features_tell_nothing() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut x = normal(4, 30, &mut rng).map(|v| 0.5 + 0.1 * v);
    x.row_mut(0).fill(0.1);
    x.row_mut(1).fill(0.7);
    let w = DMatrix::from_fn(3, 4, |i, j| if j < 2 { 1.0 + (i * (j + 1)) as f64 } else { 0.0 });
    let found = assess(&w, &FeatureBlock::new(x).unwrap()).unwrap();
    assert!(found.rank > 0 && found.mse_informed_control > 1e-3);
    assert!((found.mse_informed_linear - found.mse_informed_control).abs() < 1e-15, "{found:?}");
    assert!(
        (found.empirical.informed_linear - found.mse_informed_control).abs() < 1e-12,
        "{found:?}"
    );
    assert!(found.informed_added_risk.unwrap() < 1e-12);
}
