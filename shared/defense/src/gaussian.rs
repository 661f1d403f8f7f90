//! Gaussian noise on every score: J section VI, and the Gaussian mechanism of P section 5.4.

use nalgebra::DMatrix;
use rand_distr::{Distribution, StandardNormal};
use vfl_core::types::ReleasedScores;
use vfl_numerics::gaussian_simplex_bits;

use super::definition::{Definition, Domain, OwnBound};
use super::order::each_column;
use super::{Contract, Defense, DefenseError, MAX_SCALE, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{
    Facts, Parameter, ParameterKind, ReleaseKind, default_delta, default_sensitivity,
};

const NAME: &str = "gaussian_noise";
const PRIVATE: &str = "dp_gaussian";
/// The smallest and the largest σ that a bound of bits chooses.
const SIGMAS: (f64, f64) = (1e-12, 1e12);

pub(super) const DELTA: Parameter =
    Parameter::optional("delta", ParameterKind::Number, "above 0 and below 1; default 1e-5");
pub(super) const AS_PUBLISHED: Parameter = Parameter::optional(
    "as_published",
    ParameterKind::Truth,
    "as the authors' code; default false",
);

pub(super) const GAUSSIAN_NOISE: Facts = Facts {
    name: NAME,
    parameters: &[Parameter::required("sigma", ParameterKind::Number, "above 0", 0.1)],
    examples: |_| vec![DefenseConfig::GaussianNoise { sigma: 0.1 }],
    within_bits: |classes, bits| {
        sigma_within(classes, bits).map(|sigma| DefenseConfig::GaussianNoise { sigma })
    },
    ..Facts::PLAIN
};

pub(super) const DP_GAUSSIAN: Facts = Facts {
    name: PRIVATE,
    parameters: &[
        Parameter::required("epsilon", ParameterKind::Number, "above 0, a guarantee up to 1", 0.5),
        DELTA,
        Parameter::optional("sensitivity", ParameterKind::Number, "above 0; default sqrt 2"),
        AS_PUBLISHED,
    ],
    examples: |_| {
        let (delta, sensitivity) = (default_delta(), default_sensitivity());
        [false, true]
            .map(|as_published| DefenseConfig::DpGaussian {
                epsilon: 0.5,
                delta,
                sensitivity,
                as_published,
            })
            .into()
    },
    ..Facts::PLAIN
};

/// Defines noise of a given standard deviation.
pub(super) fn of_sigma(sigma: f64) -> Definition<'static> {
    definition(&GAUSSIAN_NOISE, sigma, move || GaussianNoise::new(sigma))
}

/// Defines the Gaussian mechanism, or P's baseline.
pub(super) fn mechanism(
    epsilon: f64,
    delta: f64,
    sensitivity: f64,
    as_published: bool,
) -> Definition<'static> {
    let sigma = mechanism_sigma(epsilon, delta, sensitivity, as_published);
    definition(&DP_GAUSSIAN, sigma, move || match as_published {
        true => GaussianNoise::as_published(epsilon, delta, sensitivity),
        false => GaussianNoise::private(epsilon, delta, sensitivity),
    })
}

fn definition(
    facts: &'static Facts,
    sigma: f64,
    make: impl Fn() -> Result<GaussianNoise, DefenseError> + Copy + 'static,
) -> Definition<'static> {
    Definition {
        leaves: ReleaseKind::Noised,
        bits: Box::new(move |classes, domain| match domain {
            Domain::Simplex => OwnBound::Bits(gaussian_simplex_bits(classes, sigma)),
            // The sum of the others counts as one score more; the release is a part of that longer
            // vector's.
            Domain::Largest(_) => OwnBound::Bits(gaussian_simplex_bits(classes + 1, sigma)),
            Domain::Any => OwnBound::NOT_FROM_SCORES,
        }),
        draws: true,
        ..Definition::at_scores(
            facts,
            Output::Numbers,
            move || make().map(drop),
            move |_, _| make(),
        )
    }
}

impl DefenseConfig {
    /// Returns the standard deviation of Gaussian noise, the same for every score; `None` for other
    /// defenses.
    #[must_use]
    pub fn gaussian_sigma(&self) -> Option<f64> {
        match *self {
            Self::GaussianNoise { sigma } => Some(sigma),
            Self::DpGaussian { epsilon, delta, sensitivity, as_published } => {
                Some(mechanism_sigma(epsilon, delta, sensitivity, as_published))
            }
            _ => None,
        }
    }
}

fn mechanism_sigma(epsilon: f64, delta: f64, sensitivity: f64, as_published: bool) -> f64 {
    let sensitivity = if as_published { PUBLISHED_SENSITIVITY } else { sensitivity };
    gaussian_scale(epsilon, delta, sensitivity)
}

/// Computes the scale of the Gaussian mechanism, √(2 ln(1.25/δ)) Δf / ε (P (9)).
#[must_use]
pub fn gaussian_scale(epsilon: f64, delta: f64, sensitivity: f64) -> f64 {
    (2.0 * (1.25 / delta).ln()).sqrt() * sensitivity / epsilon
}

/// Finds σ by bisection of its logarithm: the bits fall as it grows.
fn sigma_within(classes: usize, bits: f64) -> Option<f64> {
    let told = |sigma: f64| gaussian_simplex_bits(classes, sigma);
    if told(SIGMAS.1) > bits {
        return None;
    }
    let (mut low, mut high) = (SIGMAS.0.ln(), SIGMAS.1.ln());
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if told(middle.exp()) <= bits { high = middle } else { low = middle }
    }
    let digit = 10f64.powf((high.exp().log10()).floor() - 2.0);
    let rounded = (high.exp() / digit).ceil() * digit;
    // Twelve digits remove the rounding error of multiplying by a power of ten.
    format!("{rounded:.11e}").parse().ok().filter(|sigma| told(*sigma) <= bits)
}

/// Adds independent noise N(0, σ²) to every score.
///
/// With ε and δ it is the Gaussian mechanism, σ = √(2 ln(1.25/δ)) Δf / ε (P (9)). It promises that
/// **one** release of a score vector is (ε, δ)-differentially private with respect to any other
/// score vector within ℓ₂ distance Δf, and only for ε ≤ 1, for which the formula is proved. The
/// default Δf = √2 covers all pairs of probability vectors; a smaller one promises nothing about
/// vectors farther apart. Nothing is promised about features as such or about training records, and
/// answers under several policies or models add up. Keyed noise gives one draw per record and
/// policy: asking again tells nothing new.
#[derive(Debug, Clone, Copy)]
pub struct GaussianNoise {
    sigma: f64,
    stated: Guarantee,
}

/// The claim that the note makes about the noise.
#[derive(Debug, Clone, Copy)]
enum Guarantee {
    /// σ was given.
    Nothing,
    /// ε and δ were asked for.
    Private(f64, f64),
    /// P's baseline: its sensitivity is not that of score vectors.
    Published(f64),
}

/// The Δf of P's code, which sets the noise of its tables (errata P).
const PUBLISHED_SENSITIVITY: f64 = 0.1;

impl GaussianNoise {
    /// Creates noise of standard deviation `sigma`, above 0 and at most 1e12.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for any other.
    pub fn new(sigma: f64) -> Result<Self, DefenseError> {
        let good = sigma > 0.0 && sigma <= MAX_SCALE;
        checked(good, NAME, "sigma", sigma, "above 0, at most 1e12")?;
        Ok(Self { sigma, stated: Guarantee::Nothing })
    }

    /// Creates the Gaussian mechanism: ε above 0, δ in (0, 1), ℓ₂ sensitivity above 0, σ at most
    /// 1e12.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for anything else.
    pub fn private(epsilon: f64, delta: f64, sensitivity: f64) -> Result<Self, DefenseError> {
        check_gaussian(PRIVATE, &[epsilon], delta, sensitivity)?;
        Ok(Self {
            sigma: gaussian_scale(epsilon, delta, sensitivity),
            stated: Guarantee::Private(epsilon, delta),
        })
    }

    /// Creates P's baseline: the same formula with Δf = 0.1. `sensitivity` is the configured one
    /// and must be left at its default.
    ///
    /// # Errors
    /// [`DefenseError::Setting`] as for the mechanism, and for any other `sensitivity`.
    pub fn as_published(epsilon: f64, delta: f64, sensitivity: f64) -> Result<Self, DefenseError> {
        let left_out = sensitivity == std::f64::consts::SQRT_2;
        let expected = "no value with `as_published`, which takes 0.1";
        checked(left_out, PRIVATE, "sensitivity", sensitivity, expected)?;
        check_gaussian(PRIVATE, &[epsilon], delta, PUBLISHED_SENSITIVITY)?;
        Ok(Self {
            sigma: gaussian_scale(epsilon, delta, PUBLISHED_SENSITIVITY),
            stated: Guarantee::Published(epsilon),
        })
    }
}

/// Checks the parameters of P (9).
pub(super) fn check_gaussian(
    defense: &'static str,
    epsilons: &[f64],
    delta: f64,
    sensitivity: f64,
) -> Result<(), DefenseError> {
    checked(delta > 0.0 && delta < 1.0, defense, "delta", delta, "above 0 and below 1")?;
    let good = sensitivity > 0.0 && sensitivity <= MAX_SCALE;
    checked(good, defense, "sensitivity", sensitivity, "above 0, at most 1e12")?;
    for &epsilon in epsilons {
        let good = epsilon > 0.0
            && epsilon.is_finite()
            && gaussian_scale(epsilon, delta, sensitivity) <= MAX_SCALE;
        checked(
            good,
            defense,
            "epsilon",
            epsilon,
            "above 0, and large enough for a scale of at most 1e12",
        )?;
    }
    Ok(())
}

/// Returns the step of the released values: a power of two, at most 2^−40 of σ. The last bits of a
/// sum of doubles depend on both of its terms in ways that noise does not cover; rounding to a far
/// coarser grid removes them.
fn grid(sigma: f64) -> f64 {
    // Scores are at most 1: below this the step of a double is larger.
    2f64.powi(sigma.log2().floor().max(-60.0) as i32 - 40)
}

fn add(column: &mut [f64], sigma: f64, normals: impl Iterator<Item = f64>) {
    let step = grid(sigma);
    column.iter_mut().zip(normals).for_each(|(c, n)| *c = ((*c + sigma * n) / step).round() * step);
}

impl Defense for GaussianNoise {
    fn contract(&self) -> Contract {
        let output = Output::Numbers;
        Contract {
            output,
            keeps_arg_max: false,
            keeps_ranking: false,
            randomised: true,
            bits: None,
        }
    }

    fn apply(
        &self,
        mut scores: DMatrix<f64>,
        noise: &Noise<'_>,
    ) -> Result<ReleasedScores, DefenseError> {
        let rows = scores.nrows();
        each_column(
            scores.as_mut_slice(),
            rows,
            || (),
            |(), record, column| {
                let mut rng = noise.record(record);
                add(column, self.sigma, std::iter::repeat_with(|| StandardNormal.sample(&mut rng)));
            },
        );
        Ok(ReleasedScores::Numbers(scores))
    }

    fn note(&self) -> Option<String> {
        match self.stated {
            Guarantee::Nothing => None,
            Guarantee::Published(epsilon) => Some(format!(
                "{PRIVATE}: no guarantee: as published, with sensitivity {PUBLISHED_SENSITIVITY} where score vectors lie up to the square \
                 root of 2 apart; epsilon = {epsilon} sets the scale of the noise and nothing else"
            )),
            Guarantee::Private(epsilon, _) if epsilon > 1.0 => Some(format!(
                "{PRIVATE}: no guarantee at epsilon = {epsilon}: the formula of its scale is proved for epsilon up to 1"
            )),
            Guarantee::Private(epsilon, delta) => Some(format!(
                "{PRIVATE}: one answer is ({epsilon}, {delta:e})-differentially private between score vectors within the \
                 sensitivity; nothing is said of training records, and answers under several policies add up"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{close, golden, number, numbers};

    #[test]
    fn the_mechanism_matches_the_golden_vectors() {
        let file = golden("score_defences.json");
        let cases = file["gaussian"].as_array().unwrap();
        assert!(cases.len() >= 4);
        for case in cases {
            let private = GaussianNoise::private(
                number(&case["eps"]),
                number(&case["delta"]),
                number(&case["sensitivity"]),
            )
            .unwrap();
            close(&[private.sigma], &[number(&case["sigma"])], 1e-12);
            let mut c = numbers(&case["c"]);
            add(&mut c, private.sigma, numbers(&case["std_normal"]).into_iter());
            // Ours is rounded to the grid.
            close(&c, &numbers(&case["out"]), 1e-12 + grid(private.sigma));
        }
    }

    #[test]
    fn released_values_are_on_a_grid_far_above_their_last_bits() {
        for sigma in [1e-300, 1e-12, 0.05, 1.0, 3.0, 1e12] {
            let step = grid(sigma);
            if sigma > 1e-15 {
                assert!(
                    step <= sigma * 2f64.powi(-40) && step > sigma * 2f64.powi(-41),
                    "{sigma:e}"
                );
            }
            let (mut column, normals) = ([0.1, 0.7, 0.2], [0.3, -1.1, 2.5]);
            add(&mut column, sigma, normals.into_iter());
            for ((value, c), n) in column.iter().zip([0.1, 0.7, 0.2]).zip(normals) {
                assert_eq!((value / step).fract(), 0.0, "{sigma:e}: {value:e}");
                assert!(
                    (value - (c + sigma * n)).abs()
                        <= 0.5001 * step.max(f64::EPSILON * value.abs()),
                    "{sigma:e}"
                );
            }
        }
    }

    #[test]
    fn noise_has_the_variance_asked_for() {
        let defense = GaussianNoise::new(0.3).unwrap();
        let n = 20_000;
        let ReleasedScores::Numbers(out) =
            defense.apply(DMatrix::zeros(2, n), &Noise::fresh([5; 32])).unwrap()
        else {
            panic!("kind")
        };
        let (mean, square) = (out.sum() / (2 * n) as f64, out.norm_squared() / (2 * n) as f64);
        // Five standard errors.
        assert!(
            mean.abs() < 5.0 * 0.3 / 200.0
                && (square / 0.09 - 1.0).abs() < 5.0 * 2f64.sqrt() / 200.0
        );
    }

    #[test]
    fn the_guarantee_is_said_and_its_limit_too() {
        assert!(
            GaussianNoise::private(0.5, 1e-5, 1.0).unwrap().note().unwrap().contains("one answer")
        );
        assert!(
            GaussianNoise::private(2.0, 1e-5, 1.0)
                .unwrap()
                .note()
                .unwrap()
                .contains("no guarantee")
        );
        assert_eq!(GaussianNoise::new(1.0).unwrap().note(), None);
    }

    /// The scales of P's tables 1 to 3 and 8: σ² = 0.939 at ε = 0.5, 0.479 at 0.7.
    #[test]
    fn the_published_baseline_has_the_published_scale_and_promises_nothing() {
        let published =
            |epsilon| GaussianNoise::as_published(epsilon, 1e-5, std::f64::consts::SQRT_2).unwrap();
        for (epsilon, variance) in [(0.5, 0.939), (0.7, 0.479)] {
            assert!(
                (published(epsilon).sigma.powi(2) - variance).abs() < 1e-3,
                "{}",
                published(epsilon).sigma
            );
            assert!(published(epsilon).note().unwrap().contains("no guarantee"));
        }
        let error = GaussianNoise::as_published(0.5, 1e-5, 0.3).unwrap_err().to_string();
        assert!(error.contains("sensitivity") && error.contains("as_published"), "{error}");
    }
}
