//! The scores that a release can have come from, class by class: intervals mapped back through the
//! defenses, last first.

use std::borrow::Cow;

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;
use vfl_defense::DefenseConfig;
use vfl_defense::policy::{ENCRYPTED_BITS, ENCRYPTED_ORDER_BITS, ENCRYPTED_UNIT_BITS, Template};

use super::KnownPolicy;
use super::privee::{Draw, Privee, Scale};
use crate::cells::Likelihood;
use crate::second_order::Fit;
use crate::{AttackError, Cell};

/// The round-off of scores computed in double precision, and of their sum.
const ROUND_OFF: f64 = 1e-14;

/// The error of a difference such as p + 2/k, relative to its terms.
const CANCELLED: f64 = 1e-15;

/// The possible scores of one record.
#[derive(Debug, Clone)]
pub(super) struct ScoreBox {
    pub(super) lower: Vec<f64>,
    pub(super) upper: Vec<f64>,
    /// The likeliest values, before Σ c = 1 is used.
    pub(super) likely: Vec<f64>,
    /// True if the ends hold only up to a common factor.
    proportional: bool,
    /// 1 if scores were multiplied by a uniform number, else 0.
    weight: f64,
}

/// One defense to be inverted.
enum Stage {
    Rounding { half_step: f64 },
    TopK,
    Privee { privee: Privee, scale: Scale },
    Encryption,
}

/// All defenses at the scores, in the order of application, and the stretch of those at the logits.
pub(super) struct Preimage {
    stages: Vec<Stage>,
    stretch: f64,
    keeps_order: bool,
    /// The estimate of σ of PRIVEE, if it was secret.
    pub(super) scale: Option<Scale>,
}

impl Preimage {
    /// Returns true if some scores are known exactly and others hardly, as top_k leaves them.
    pub(super) fn lopsided(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::TopK))
    }

    /// Builds the preimage of a policy whose defenses leave intervals. A secret σ is estimated from
    /// these releases.
    pub(super) fn new(known: &KnownPolicy, released: &ReleasedScores) -> Result<Self, AttackError> {
        let policy = || AttackError::Policy {
            attack: "interval",
            expected: "rounding, top_k, privee_dp or privee_dp_plus_plus (order kept, or its σ known), or order_preserving_encryption \
                       alone, with temperature or logit_noise scheme 3 before",
            got: known.policy.to_string(),
        };
        let matrix = &*numbers(released)?;
        let k = matrix.nrows();
        let stretch = known.stretch().ok_or_else(policy)?;
        let (_, at_scores) = known.stages();
        let (mut stages, mut keeps_order, mut estimated) = (Vec::new(), true, None);
        for (at, defense) in at_scores.iter().enumerate() {
            stages.push(match defense {
                DefenseConfig::Rounding { decimals } if *decimals <= 15 => {
                    Stage::Rounding { half_step: 0.5 * 10f64.powi(-(*decimals as i32)) }
                }
                // A shifted template may give kept numbers of 0 or below. Then zeros do not tell
                // the dropped ones.
                DefenseConfig::TopK { .. }
                    if !stages.iter().any(|s| matches!(s, Stage::Privee { .. })) =>
                {
                    Stage::TopK
                }
                DefenseConfig::OrderPreservingEncryption {} if at_scores.len() == 1 => {
                    Stage::Encryption
                }
                DefenseConfig::PriveeDp { .. } | DefenseConfig::PriveeDpPlusPlus { .. } => {
                    let privee = Privee::new(defense, k).ok_or_else(policy)?;
                    keeps_order &= privee.template != Template::Fisip;
                    let scale = if known.scale_known {
                        Scale { lower: privee.scale, likely: privee.scale, upper: privee.scale }
                    } else if privee.template != Template::Fisip && at + 1 == at_scores.len() {
                        *estimated.insert(privee.estimate(matrix))
                    } else {
                        return Err(policy());
                    };
                    Stage::Privee { privee, scale }
                }
                _ => return Err(policy()),
            });
        }
        let encrypted = matches!(released, ReleasedScores::Ciphertexts(_));
        if encrypted != matches!(stages.as_slice(), [Stage::Encryption]) {
            let expected = if encrypted { "score vectors" } else { "ciphertexts" };
            return Err(AttackError::unfit("interval", expected, released));
        }
        Ok(Self { stages, stretch, keeps_order, scale: estimated })
    }

    /// Returns the possible scores of one record.
    pub(super) fn scores(&self, released: &[f64]) -> ScoreBox {
        let k = released.len();
        let (mut lower, mut upper, mut likely) =
            (released.to_vec(), released.to_vec(), released.to_vec());
        let (mut proportional, mut weight) = (false, 0.0);
        for stage in self.stages.iter().rev() {
            match stage {
                Stage::Rounding { half_step } => {
                    for (low, high) in lower.iter_mut().zip(&mut upper) {
                        (*low, *high) =
                            (*low - half_step - CANCELLED, *high + half_step + CANCELLED);
                    }
                }
                Stage::Encryption => {
                    for j in 0..k {
                        (lower[j], upper[j], likely[j]) = decrypted(released[j]);
                    }
                }
                Stage::TopK => {
                    // A zero may also be a kept score. It says only that the score is small.
                    let dropped: Vec<usize> = (0..k).filter(|&j| released[j] == 0.0).collect();
                    let least = (0..k)
                        .filter(|&j| released[j] != 0.0)
                        .map(|j| upper[j])
                        .fold(f64::INFINITY, f64::min);
                    let sum: f64 = released.iter().sum();
                    // The kept scores were divided by their sum, or are nearly all there is.
                    proportional |= (sum - 1.0).abs() < 1e-9;
                    for j in dropped {
                        (lower[j], upper[j], likely[j]) = (0.0, least.min(1.0), 0.0);
                    }
                }
                Stage::Privee { privee, scale } => {
                    weight = 1.0;
                    let draws = privee.draws(released);
                    let offset = privee.offset(k);
                    for j in 0..k {
                        // Round-off of sums of few terms, and of a step for each lower rank if the
                        // order is kept.
                        let slack = CANCELLED * (1.0 + k as f64) * (1.0 + released[j].abs());
                        let q = (lower[j] + offset - slack, upper[j] + offset + slack);
                        (lower[j], upper[j]) = if privee.template == Template::Fisip {
                            turned(
                                offset,
                                (lower[j] - slack, upper[j] + slack),
                                scale.upper * draws[j].share,
                            )
                        } else {
                            (
                                least(q.0, draws[j], scale.upper),
                                greatest(q.1, draws[j], scale.lower),
                            )
                        };
                        likely[j] = mean(likely[j] + offset, draws[j], scale.likely);
                    }
                }
            }
        }
        for ((low, high), likely) in lower.iter_mut().zip(&mut upper).zip(&mut likely) {
            *low = (*low * (1.0 - ROUND_OFF)).clamp(0.0, 1.0);
            *high =
                (*high * (1.0 + ROUND_OFF)).clamp(0.0, if proportional { f64::MAX } else { 1.0 });
            *likely = likely.clamp(*low, high.max(*low));
        }
        if !proportional {
            // Σ c = 1 is applied twice, so that each end uses the narrowed others.
            for _ in 0..2 {
                let (least, most): (f64, f64) = (lower.iter().sum(), upper.iter().sum());
                for j in 0..k {
                    let (low, high) = (lower[j], upper[j]);
                    lower[j] = low.max(1.0 - (most - high) - ROUND_OFF);
                    upper[j] = high.min(1.0 - (least - low) + ROUND_OFF);
                }
            }
        }
        for j in 0..k {
            // If the likeliest value is not strictly between the ends, the middle is taken.
            if !(likely[j] > lower[j] && likely[j] < upper[j]) {
                likely[j] = 0.5 * (lower[j] + upper[j]);
            }
        }
        ScoreBox { lower, upper, likely, proportional, weight }
    }

    /// Returns the intervals as residuals of the logarithms of the scores; the exact scores, of
    /// stretched logits, if no defense changes them. `floor` stands for a score of 0 then.
    ///
    /// # Errors
    /// [`AttackError::Unfit`] for scores of which only the ratios are known.
    pub(super) fn fit(&self, released: &[f64], floor: f64) -> Result<Fit, AttackError> {
        if self.stages.is_empty() {
            let above = released.iter().map(|c| if *c > 0.0 { *c } else { floor });
            return Ok(Fit::exact(above, self.stretch));
        }
        let scores = self.scores(released);
        if scores.proportional {
            let (expected, got) = ("scores themselves", "scores divided by the sum of those kept");
            return Err(AttackError::Unfit { attack: "interval through networks", expected, got });
        }
        let normal = (0..released.len()).map(|j| {
            let (mean, deviation) = scores.logarithm(j);
            (mean, deviation.max(Fit::LEAST_DEVIATION))
        });
        Ok(Fit::Logarithms { normal: normal.collect(), stretch: self.stretch })
    }

    /// Returns the intervals as bounds on differences of logits.
    pub(super) fn cell(&self, released: &[f64]) -> Cell {
        let scores = self.scores(released);
        let mut cell = Cell::default();
        let k = released.len();
        for i in 0..k {
            for j in i + 1..k {
                let mut lower = -self.stretch * scores.most(j, i);
                let mut upper = self.stretch * scores.most(i, j);
                if self.keeps_order && !self.stages.is_empty() {
                    if released[i] > released[j] {
                        lower = lower.max(0.0);
                    } else if released[i] < released[j] {
                        upper = upper.min(0.0);
                    }
                }
                cell.certain(i, j, lower, upper);
            }
        }
        if !self.stages.is_empty() {
            cell.stretch = self.stretch;
            cell.likely = (0..k).map(|j| scores.logarithm(j)).collect();
        }
        if !self.stages.is_empty() && !scores.proportional {
            let ScoreBox { lower, upper, weight, .. } = scores;
            cell.likelihood = Likelihood::Scores { lower, upper, stretch: self.stretch, weight };
        }
        cell
    }
}

/// Returns the released vectors, or ciphertexts as numbers (their 53 bits fit); an error for
/// labels.
pub(super) fn numbers(released: &ReleasedScores) -> Result<Cow<'_, DMatrix<f64>>, AttackError> {
    match released {
        ReleasedScores::Ciphertexts(m) => Ok(Cow::Owned(m.map(|c| c as f64))),
        other => vectors(other).map(Cow::Borrowed),
    }
}

/// Returns the released vectors; an error for labels and ciphertexts.
pub(super) fn vectors(released: &ReleasedScores) -> Result<&DMatrix<f64>, AttackError> {
    match released {
        ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => Ok(m),
        other => Err(AttackError::unfit("interval", "score vectors", other)),
    }
}

impl ScoreBox {
    /// Returns mean and standard deviation of the logarithm of a score. The score is taken for
    /// uniform between its ends. If a uniform number was multiplied on, its logarithm is.
    fn logarithm(&self, j: usize) -> (f64, f64) {
        let (low, high) = (self.lower[j], self.upper[j].max(1e-300));
        if low < 1e-6 * high {
            // Only the upper end says something: a score that rounds to 0 may be smaller by any
            // factor. Measured on the rows of satellite and robot, where a smaller deviation is
            // worse.
            return (high.ln() - 4.0, 4.0);
        }
        let width = (high / low).ln();
        if width < 1e-4 || self.weight > 0.0 {
            return (high.ln() - 0.5 * width, (width / 12f64.sqrt()).max(1e-12));
        }
        // ∫ ln c and ∫ ln² c over the interval, in units of its upper end.
        let (a, l) = (low / high, -width);
        let first = (-1.0 - a * (l - 1.0)) / (1.0 - a);
        let second = (2.0 - a * (l * l - 2.0 * l + 2.0)) / (1.0 - a);
        (high.ln() + first, (second - first * first).max(1e-24).sqrt())
    }

    /// Returns the largest ln c_i − ln c_j.
    fn most(&self, i: usize, j: usize) -> f64 {
        let mut least = self.lower[j];
        if !self.proportional {
            let rest: f64 =
                (0..self.upper.len()).filter(|&m| m != i && m != j).map(|m| self.upper[m]).sum();
            least = least.max(1.0 - rest - self.upper[i] - ROUND_OFF);
        }
        if least > 0.0 { self.upper[i].max(1e-300).ln() - least.ln() } else { f64::INFINITY }
    }

    /// Returns one vector of scores: the likeliest values, moved to Σ c = 1 in proportion to the
    /// square of each interval's width, within the intervals.
    pub(super) fn point(&self) -> Vec<f64> {
        let mut c = self.likely.clone();
        if self.proportional {
            let sum: f64 = c.iter().sum();
            c.iter_mut().for_each(|c| *c /= sum.max(f64::MIN_POSITIVE));
            return c;
        }
        for _ in 0..50 {
            let missing = 1.0 - c.iter().sum::<f64>();
            let room = |j: usize, c: f64| {
                if missing > 0.0 { self.upper[j] - c } else { c - self.lower[j] }
            };
            let weights: Vec<f64> = (0..c.len())
                .map(|j| {
                    if room(j, c[j]) > 0.0 { (self.upper[j] - self.lower[j]).powi(2) } else { 0.0 }
                })
                .collect();
            let total: f64 = weights.iter().sum();
            if missing.abs() < 1e-15 || total <= 0.0 {
                break;
            }
            for (j, c) in c.iter_mut().enumerate() {
                *c = (*c + missing * weights[j] / total)
                    .clamp(self.lower[j], self.upper[j].max(self.lower[j]));
            }
        }
        c
    }
}

/// The number of standard deviations that bounds a score behind a ciphertext.
const DEVIATIONS: f64 = 8.0;

/// Returns the least, the greatest and the likeliest score behind a ciphertext. Under a random
/// order-preserving function from M units to N numbers, the image of unit m is the mth smallest of
/// M numbers drawn from N. It lies within a few √m of m N/M.
fn decrypted(ciphertext: f64) -> (f64, f64, f64) {
    let units = f64::from(2u32).powi(ENCRYPTED_UNIT_BITS as i32);
    let spread = f64::from(2u32).powi((ENCRYPTED_BITS - ENCRYPTED_UNIT_BITS) as i32);
    let unit = ciphertext / f64::from(2u32).powi(ENCRYPTED_ORDER_BITS as i32) / spread;
    // A unit was floored, and may have been raised to keep the order of scores that share it.
    let slack = DEVIATIONS * (unit.max(1.0) * (1.0 - unit / units).max(0.0)).sqrt() + DEVIATIONS;
    ((unit - slack).max(0.0) / units, (unit + slack).min(units) / units, (unit + 0.5) / units)
}

/// Returns the least c with q = c (1 + u σ).
fn least(q: f64, draw: Draw, sigma: f64) -> f64 {
    if sigma.is_finite() { q.max(0.0) / (1.0 + draw.greatest * draw.share * sigma) } else { 0.0 }
}

/// Returns the greatest c with q = c (1 + u σ).
fn greatest(q: f64, draw: Draw, sigma: f64) -> f64 {
    q.max(0.0) / (1.0 + draw.least * draw.share * sigma)
}

/// Returns the mean of q/(1 + u σ).
fn mean(q: f64, draw: Draw, sigma: f64) -> f64 {
    let (a, b) = (draw.least * draw.share * sigma, draw.greatest * draw.share * sigma);
    let by = if b - a > 1e-9 { ((1.0 + b) / (1.0 + a)).ln() / (b - a) } else { 1.0 / (1.0 + a) };
    q.max(0.0) * by
}

/// Returns the ends of c under `fisip`, p = 2/k − c (1 − u σ) with u anywhere in [0, 1).
fn turned(offset: f64, p: (f64, f64), sigma: f64) -> (f64, f64) {
    let q = (offset - p.1, offset - p.0);
    if q.0 > 0.0 {
        (q.0, if sigma < 1.0 { q.1 / (1.0 - sigma) } else { 1.0 })
    } else if q.1 < 0.0 && sigma > 1.0 {
        (-q.1 / (sigma - 1.0), 1.0)
    } else {
        (0.0, 1.0)
    }
}
