//! The precision of released scores, read off the scores themselves.

use nalgebra::DMatrix;

/// Half of the distance between 1 and the next double above it.
pub(super) const HALF_ULP: f64 = 1.110_223_024_625_156_5e-16;
/// Half the width of ln c if a score says nothing: no score of a model is so far from another.
const OPEN: f64 = 60.0;
/// The most decimals and significant digits that are tried.
const MOST_DIGITS: i32 = 15;

/// The form of released scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// Doubles as they were computed.
    Double,
    /// Doubles that went through 32 bits.
    Single,
    /// Rounded to so many decimals.
    Decimals(i32),
    /// Rounded to so many significant digits.
    Digits(i32),
}

impl Precision {
    /// Returns the forms that all scores have, doubles among them. An attack that takes rounded
    /// scores for exact decodes nothing, so the widest form counts for each score.
    pub(super) fn of(scores: &DMatrix<f64>, stated: Option<i32>) -> Vec<Self> {
        let decimals = (0..=MOST_DIGITS).map(Self::Decimals).find(|form| form.fits(scores));
        let digits = (1..=MOST_DIGITS).map(Self::Digits).find(|form| form.fits(scores));
        let single = Some(Self::Single).filter(|form| form.fits(scores));
        let stated = stated.map(Self::Decimals);
        [Some(Self::Double), decimals, digits, single, stated].into_iter().flatten().collect()
    }

    fn fits(self, scores: &DMatrix<f64>) -> bool {
        scores.iter().all(|&c| {
            let rounded = match self {
                Self::Double => c,
                Self::Single => f64::from(c as f32),
                Self::Decimals(decimals) => {
                    (c * 10f64.powi(decimals)).round() / 10f64.powi(decimals)
                }
                Self::Digits(digits) => {
                    let Some(unit) = unit(c, digits) else { return true };
                    (c / unit).round() * unit
                }
            };
            (rounded - c).abs() <= 4.0 * HALF_ULP * c.abs()
        })
    }

    /// Returns the largest distance of a number c ≥ 0 from the number before it was rounded.
    fn half_distance(self, c: f64) -> f64 {
        match self {
            Self::Double => c * HALF_ULP,
            Self::Single => c * 2f64.powi(-24) + 1e-45,
            Self::Decimals(decimals) => 0.5 * 10f64.powi(-decimals),
            Self::Digits(digits) => 0.5 * unit(c, digits).unwrap_or(c),
        }
    }

    /// Returns the largest distance of ln c from the logarithm of the score before it was rounded.
    pub(super) fn half_width(self, c: f64) -> f64 {
        if c <= 0.0 {
            return OPEN;
        }
        let half = self.half_distance(c);
        let least = c - half;
        if least > 0.0 { (c / least).ln().clamp(HALF_ULP, OPEN) } else { OPEN }
    }
}

/// Returns the unit of the last of so many significant digits of c; `None` for 0.
fn unit(c: f64, digits: i32) -> Option<f64> {
    (c > 0.0).then(|| 10f64.powi(c.log10().floor() as i32 + 1 - digits))
}

/// Returns the largest distance of a number c ≥ 0 from the number before it was rounded, in the
/// widest form.
pub(super) fn half_distance(forms: &[Precision], c: f64) -> f64 {
    forms.iter().map(|form| form.half_distance(c)).fold(0.0, f64::max)
}

/// Returns the largest distance of ln c from the logarithm of the score before it was rounded, in
/// the widest form.
pub(super) fn half_width(forms: &[Precision], c: f64) -> f64 {
    forms.iter().map(|form| form.half_width(c)).fold(HALF_ULP, f64::max)
}

/// Returns the largest distance of the logits of a model from exact ones, if they are computed in
/// doubles. `terms` is the sum of the absolute values of the summands.
pub(super) fn arithmetic(terms: f64, ln_score: f64) -> f64 {
    // The sums lose half a unit of the largest partial sum for each addition, with either sign; the
    // exponential, the quotient and the logarithm one unit each.
    HALF_ULP * (4.0 + 2.0 * terms + 2.0 * ln_score.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_scores_is_recognised() {
        let exact = DMatrix::from_fn(3, 40, |i, j| {
            let z = [(0.37 * j as f64).sin(), (1.1 * j as f64).cos(), 0.2];
            z[i].exp() / z.iter().map(|z: &f64| z.exp()).sum::<f64>()
        });
        // One decimal of scores between 0.1 and 1 is one significant digit as well: the widths
        // count.
        let check = |scores: DMatrix<f64>, form: Precision| {
            let forms = Precision::of(&scores, None);
            for &c in &scores {
                assert_eq!(half_width(&forms, c), form.half_width(c), "{form:?} {c}: {forms:?}");
            }
        };
        check(exact.clone(), Precision::Double);
        check(exact.map(|c| f64::from(c as f32)), Precision::Single);
        for decimals in [1, 2, 5, 9, 13] {
            let rounded = exact.map(|c| (c * 10f64.powi(decimals)).round() / 10f64.powi(decimals));
            check(rounded, Precision::Decimals(decimals));
        }
        for digits in [2, 3, 6] {
            let text =
                exact.map(|c| format!("{c:.*e}", digits as usize - 1).parse::<f64>().unwrap());
            check(text, Precision::Digits(digits));
        }
    }

    #[test]
    fn widths_hold_what_was_rounded() {
        for form in [Precision::Single, Precision::Decimals(3), Precision::Digits(3)] {
            for c in [0.7312345678912345_f64, 0.0521234567, 0.00123456] {
                let released = match form {
                    Precision::Decimals(_) => (c * 1e3).round() / 1e3,
                    Precision::Digits(_) => format!("{c:.2e}").parse().unwrap(),
                    _ => f64::from(c as f32),
                };
                assert!(
                    (released.ln() - c.ln()).abs() <= form.half_width(released),
                    "{form:?} {c}"
                );
            }
        }
        assert_eq!(Precision::Decimals(2).half_width(0.0), OPEN);
        // Few scores have several forms: the last score of these is open to a fifth, not to a
        // fortieth.
        let few = DMatrix::from_column_slice(4, 1, &[0.45, 0.45, 0.098, 0.002]);
        assert!(half_width(&Precision::of(&few, None), 0.002) > 0.2);
    }
}
