//! Noise at the logits along the direction that hurts least squares most (R section VII-B).

use std::fmt;

use nalgebra::{DMatrix, SymmetricEigen};
use vfl_numerics::{PseudoInverse, row_differences};

use super::definition::Definition;
use super::{Contract, DefenseError, LogitDefense, MAX_SCALE, Noise, Output, checked};
use crate::DefenseConfig;
use crate::policy::{Facts, Parameter, ParameterKind, ReleaseKind};

const NAME: &str = "logit_noise";

pub(super) const FACTS: Facts = Facts {
    name: NAME,
    parameters: &[
        Parameter::required("scheme", ParameterKind::Whole, "1, 2 or 3", 1.0),
        Parameter::required(
            "alpha",
            ParameterKind::Number,
            "noise budget, at least 0; in scheme 3 below 1",
            0.5,
        ),
    ],
    examples: |_| {
        [(1, 10.0), (2, 10.0), (3, 0.75)]
            .map(|(scheme, alpha)| DefenseConfig::LogitNoise { scheme, alpha })
            .into()
    },
    at_logits: true,
    ..Facts::PLAIN
};

pub(super) fn definition(scheme: u32, alpha: f64) -> Definition<'static> {
    Definition {
        leaves: if scheme == 3 { ReleaseKind::Scaled } else { ReleaseKind::Projected },
        bits: Definition::unbounded(
            "logit_noise draws nothing at random and is undone by who knows the weights",
        ),
        needs_passive_weights: matches!(scheme, 1 | 2),
        ..Definition::at_logits(
            &FACTS,
            move || LogitNoise::check(scheme, alpha),
            move |classes, grants| LogitNoise::new(scheme, alpha, classes, grants.passive_weights),
        )
    }
}

/// Share of the logit, or of 1, by which scheme 2 lifts z̃_{i*} above the largest of the others. R
/// sets them equal, a tie in which the class stays only if ties go to i* (errata R8). The share is
/// far below what softmax shows, and above round-off.
const MARGIN: f64 = 1e-13;

#[derive(Clone)]
enum Scheme {
    /// Schemes 1 and 2: v₁, and ‖n‖ = √α.
    Along { scheme: u32, direction: Vec<f64>, length: f64 },
    /// Scheme 3: α.
    Flatten(f64),
}

/// Changes logits and keeps the predicted class.
///
/// Schemes 1 and 2 know W_pas: v₁ is the right singular vector of A⁺J of its largest singular
/// value, where A = J W_pas (theorem 4), signed so that its entry of largest magnitude is positive
/// (of several, the first). With i* the classes of largest logit (all of them, R footnote 19):
/// - 1: n = √α ñ / ‖ñ‖, ñ = v₁ with its largest entry put at i* (R (92), (93));
/// - 2: z' = z + √α v₁, and z̃ = z' with its largest entry put at i* (R (94)), 1e-13 above another
///   class's;
/// - 3: z̃ = (1 − α) z + α 1 (R section VIII-D), which only divides the log-ratios of scores by
///   1/(1 − α).
///
/// Nothing is random: whoever knows v₁ and α can remove the noise, up to what the maximum hides.
pub struct LogitNoise(Scheme);

/// Withholds v₁, which follows from the passive parameters.
impl fmt::Debug for LogitNoise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Scheme::Along { scheme, .. } => {
                write!(f, "LogitNoise(scheme {scheme}, direction withheld)")
            }
            Scheme::Flatten(alpha) => write!(f, "LogitNoise(scheme 3, alpha {alpha})"),
        }
    }
}

impl LogitNoise {
    pub(super) fn check(scheme: u32, alpha: f64) -> Result<(), DefenseError> {
        checked((1..=3).contains(&scheme), NAME, "scheme", scheme, "1, 2 or 3")?;
        if scheme == 3 {
            checked(
                (0.0..1.0).contains(&alpha),
                NAME,
                "alpha",
                alpha,
                "at least 0 and below 1 in scheme 3",
            )
        } else {
            checked((0.0..=MAX_SCALE).contains(&alpha), NAME, "alpha", alpha, "0 to 1e12")
        }
    }

    /// Creates scheme 1, 2 or 3 for `classes` classes. α is ‖n‖² from 0 to 1e12 in schemes 1 and 2,
    /// and in [0, 1) in scheme 3. Schemes 1 and 2 need W_pas (k × d).
    ///
    /// # Errors
    /// [`DefenseError::Setting`] for a parameter out of range; [`DefenseError::Needs`] without
    /// W_pas, or for a W_pas that has another number of classes or is the same for all of them.
    pub fn new(
        scheme: u32,
        alpha: f64,
        classes: usize,
        passive_weights: Option<&DMatrix<f64>>,
    ) -> Result<Self, DefenseError> {
        Self::check(scheme, alpha)?;
        if scheme == 3 {
            return Ok(Self(Scheme::Flatten(alpha)));
        }
        let needs = |what: String| DefenseError::Needs { defense: NAME, what };
        let weights = passive_weights.ok_or_else(|| {
            needs("the passive parties' weights in schemes 1 and 2: grant their release to the coordinator, or take scheme 3".into())
        })?;
        if weights.nrows() != classes {
            return Err(needs(format!(
                "passive weights of {classes} classes; these are of {}",
                weights.nrows()
            )));
        }
        let (_, direction) = worst_direction(weights).ok_or_else(|| {
            needs("finite passive weights that are not the same for every class; these change no score's ratio".into())
        })?;
        Ok(Self(Scheme::Along { scheme, direction, length: alpha.sqrt() }))
    }
}

/// Returns σ₁ and v₁ (k entries) of A⁺J; `None` where A is 0 or has no finite decomposition.
fn worst_direction(weights: &DMatrix<f64>) -> Option<(f64, Vec<f64>)> {
    let pseudo = PseudoInverse::new(&row_differences(weights)).ok()?.matrix;
    let (d, k) = (pseudo.nrows(), weights.nrows());
    if d == 0 {
        return None;
    }
    // B = A⁺J: column j is column j − 1 of A⁺ less column j.
    let b = DMatrix::from_fn(d, k, |i, j| {
        let minus = if j > 0 { pseudo[(i, j - 1)] } else { 0.0 };
        let plus = if j + 1 < k { pseudo[(i, j)] } else { 0.0 };
        minus - plus
    });
    // The smaller of BBᵀ and BᵀB has all of the singular values.
    let gram = if d < k { &b * b.transpose() } else { b.tr_mul(&b) };
    let eigen = SymmetricEigen::try_new(gram, f64::EPSILON, 10_000)?;
    let first = eigen.eigenvalues.imax();
    let (sigma, vector) =
        (eigen.eigenvalues[first].max(0.0).sqrt(), eigen.eigenvectors.column(first).into_owned());
    let mut v = if d < k { b.tr_mul(&vector) } else { vector };
    let norm = v.norm();
    if !(sigma > 0.0 && norm > 0.0 && norm.is_finite()) {
        return None;
    }
    v /= norm;
    // With two classes both magnitudes are equal up to round-off: the first decides.
    let most = v.amax() * (1.0 - 1e-9);
    if v.iter().find(|x| x.abs() >= most).is_some_and(|x| *x < 0.0) {
        v.neg_mut();
    }
    Some((sigma, v.iter().copied().collect()))
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn scheme_1(z: &mut [f64], direction: &[f64], length: f64) {
    let (top, most) = (largest(z), largest(direction));
    let noise = |z: f64, v: f64| if z == top { most } else { v };
    let norm = z.iter().zip(direction).map(|(&z, &v)| noise(z, v).powi(2)).sum::<f64>().sqrt();
    for (z, v) in z.iter_mut().zip(direction) {
        *z += length * noise(*z, *v) / norm;
    }
}

fn scheme_2(z: &mut [f64], direction: &[f64], length: f64) {
    let top = largest(z);
    let (mut of_top, mut of_others) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for (&z, v) in z.iter().zip(direction) {
        let side = if z == top { &mut of_top } else { &mut of_others };
        *side = side.max(z + length * v);
    }
    let most =
        if of_top > of_others { of_top } else { of_others + MARGIN * of_others.abs().max(1.0) };
    for (z, v) in z.iter_mut().zip(direction) {
        *z = if *z == top { most } else { *z + length * v };
    }
}

impl LogitDefense for LogitNoise {
    fn contract(&self) -> Contract {
        let keeps_ranking = matches!(self.0, Scheme::Flatten(_));
        Contract {
            output: Output::Logits,
            keeps_arg_max: true,
            keeps_ranking,
            randomised: false,
            bits: None,
        }
    }

    fn apply(&self, logits: &mut DMatrix<f64>, _noise: &Noise<'_>) -> Result<(), DefenseError> {
        let k = logits.nrows();
        match &self.0 {
            Scheme::Flatten(alpha) => logits.apply(|z| *z = (1.0 - alpha) * *z + alpha),
            Scheme::Along { scheme, direction, length } => {
                if direction.len() != k {
                    let what = format!("logits of {} classes; these have {k}", direction.len());
                    return Err(DefenseError::Needs { defense: NAME, what });
                }
                let change = if *scheme == 1 { scheme_1 } else { scheme_2 };
                logits
                    .as_mut_slice()
                    .chunks_exact_mut(k)
                    .for_each(|z| change(z, direction, *length));
            }
        }
        Ok(())
    }

    fn note(&self) -> Option<String> {
        let Scheme::Along { scheme: 2, .. } = self.0 else { return None };
        Some(
            "logit_noise scheme 2: the noise norm is not exactly √alpha, since the predicted class's logit is set"
                .into(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{close, golden, matrix, numbers};

    #[test]
    fn schemes_match_the_golden_vectors() {
        let file = golden("noise_schemes.json");
        let models = file["models"].as_array().unwrap();
        let softmax = |z: &[f64]| {
            let mut c = DMatrix::from_column_slice(z.len(), 1, z);
            vfl_numerics::softmax_columns(&mut c);
            c.as_slice().to_vec()
        };
        let mut ties = 0;
        for model in models {
            let weights = matrix(&model["W_pas"]);
            let k = weights.nrows();
            let (sigma, v) = worst_direction(&weights).unwrap();
            close(&[sigma], &[model["sigma1"].as_f64().unwrap()], 1e-10);
            close(&v, &numbers(&model["v1"]), 1e-12);
            for case in model["cases"].as_array().unwrap() {
                let z = numbers(&case["z"]);
                for scheme in [1, 2] {
                    let alpha = case["alpha"].as_f64().unwrap();
                    let defense = LogitNoise::new(scheme, alpha, k, Some(&weights)).unwrap();
                    let mut out = DMatrix::from_column_slice(k, 1, &z);
                    defense.apply(&mut out, &Noise::fresh([0; 32])).unwrap();
                    let name = format!("scheme{scheme}");
                    close(out.as_slice(), &numbers(&case[format!("{name}_z")]), 1e-12);
                    let c = softmax(out.as_slice());
                    close(&c, &numbers(&case[format!("{name}_c")]), 1e-12);
                    let kept = vfl_numerics::arg_max;
                    assert_eq!(kept(&c), kept(&z));
                }
                ties += u32::from(case["scheme2_tie"].as_bool().unwrap());
            }
            for case in model["scheme3"].as_array().unwrap() {
                let defense = LogitNoise::new(3, case["alpha"].as_f64().unwrap(), k, None).unwrap();
                let mut out = DMatrix::from_vec(k, 1, numbers(&case["z"]));
                defense.apply(&mut out, &Noise::fresh([0; 32])).unwrap();
                close(out.as_slice(), &numbers(&case["scheme3_z"]), 1e-12);
                close(&softmax(out.as_slice()), &numbers(&case["scheme3_c"]), 1e-12);
            }
        }
        assert!(models.len() == 3 && ties >= 5, "{ties}");
    }

    #[test]
    fn every_maximiser_is_one() {
        // Three equal logits: R's footnote 19 puts the same value at all of them.
        let weights = DMatrix::from_row_slice(4, 2, &[0.3, -1.0, 2.0, 0.5, -0.7, 0.2, 0.0, 1.1]);
        for scheme in [1, 2] {
            let defense = LogitNoise::new(scheme, 9.0, 4, Some(&weights)).unwrap();
            let mut z = DMatrix::from_column_slice(4, 1, &[1.0, 5.0, 5.0, 5.0]);
            defense.apply(&mut z, &Noise::fresh([0; 32])).unwrap();
            assert!(z[1] == z[2] && z[2] == z[3] && z[1] > z[0], "{z}");
        }
    }

    #[test]
    fn two_classes_have_one_direction() {
        let (sigma, v) = worst_direction(&DMatrix::from_row_slice(2, 1, &[1.0, -1.0])).unwrap();
        // A = −2, A⁺J = (½, −½).
        close(&[sigma], &[0.5f64.sqrt()], 1e-14);
        close(&v, &[0.5f64.sqrt(), -(0.5f64.sqrt())], 1e-14);
    }

    #[test]
    fn weights_that_say_nothing_are_refused() {
        for weights in [
            DMatrix::from_element(3, 2, 0.5),
            DMatrix::zeros(3, 0),
            DMatrix::from_element(3, 2, f64::NAN),
        ] {
            let error = LogitNoise::new(1, 1.0, 3, Some(&weights)).unwrap_err().to_string();
            assert!(error.contains("passive weights"), "{error}");
        }
        assert!(LogitNoise::new(2, 1.0, 3, None).unwrap_err().to_string().contains("scheme 3"));
        assert!(LogitNoise::new(2, 1.0, 3, Some(&DMatrix::zeros(2, 1))).is_err());
    }
}
