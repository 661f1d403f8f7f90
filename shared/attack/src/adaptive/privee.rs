//! PRIVEE with a known policy (P algorithm 1): p = A c + u ⊙ σ ⊙ c, with A the identity, or the
//! identity less (2/k) 1 1ᵀ. So q = p (+ 2/k) = c ⊙ (1 + u σ), where u of the j-th smallest score
//! lies in [(j − 1)/k, j/k).
//!
//! If σ is secret, it follows from Σ c = 1. Σ q/(1 + u σ) falls with every u. So each record
//! confines σ between the values at which the sum is 1 with all u at their greatest and at their
//! least, and all records together leave little. The mean over records of Σ q/(1 + ū σ), with ū the
//! middle of each interval, is 1 in expectation, because q/(1 + ū σ) has mean c. That picks the
//! value within the range.

use nalgebra::DMatrix;
use vfl_defense::DefenseConfig;
use vfl_defense::policy::Template;

/// The range of u for one entry, and the entry's share of the common factor of σ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub(super) least: f64,
    pub(super) greatest: f64,
    pub(super) share: f64,
}

/// A PRIVEE defense in the adversary's notation.
#[derive(Debug, Clone)]
pub(super) struct Privee {
    pub(super) template: Template,
    /// σ by rank from the smallest score, divided by its largest value.
    shares: Vec<f64>,
    /// The largest σ.
    pub(super) scale: f64,
    span: f64,
}

/// The bounds and the likeliest value of the common factor of σ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    pub(super) lower: f64,
    pub(super) likely: f64,
    pub(super) upper: f64,
}

impl Privee {
    /// Reads the defense for k classes. Returns `None` for another defense, for scales that do not
    /// fit, and for the published variant of DP++, which keeps no order.
    pub(super) fn new(defense: &DefenseConfig, k: usize) -> Option<Self> {
        let (template, span) = match defense {
            DefenseConfig::PriveeDp { template, as_published, .. } => {
                (*template, if *as_published { 3.0 } else { 1.0 })
            }
            DefenseConfig::PriveeDpPlusPlus { template, as_published: false, .. } => {
                (*template, 1.0)
            }
            _ => return None,
        };
        let given = defense.privee_scales();
        let scales: Vec<f64> = match given.as_slice() {
            [one] => vec![*one; k],
            all if all.len() == k => all.to_vec(),
            [low, high] => {
                (0..k).map(|r| low + (high - low) * r as f64 / (k.max(2) - 1) as f64).collect()
            }
            _ => return None,
        };
        if !scales.iter().all(|s| *s >= 0.0 && s.is_finite()) {
            return None;
        }
        let scale = scales.iter().copied().fold(0.0, f64::max);
        let shares = scales.iter().map(|s| if scale > 0.0 { s / scale } else { 1.0 }).collect();
        Some(Self { template, shares, scale, span })
    }

    /// Returns the number that p is raised by to give q.
    pub(super) fn offset(&self, k: usize) -> f64 {
        if self.template == Template::Identity { 0.0 } else { 2.0 / k as f64 }
    }

    /// Returns the range of u for each entry of one record, by the order of `values`. Equal entries
    /// share their intervals. With `fisip` nothing is known of the order.
    pub(super) fn draws(&self, values: &[f64]) -> Vec<Draw> {
        let k = values.len();
        let (part, fisip) = (self.span / k as f64, self.template == Template::Fisip);
        values
            .iter()
            .map(|v| {
                let (below, upto) = if fisip {
                    (0, k)
                } else {
                    (
                        values.iter().filter(|o| *o < v).count(),
                        values.iter().filter(|o| *o <= v).count(),
                    )
                };
                let shares = &self.shares[below..upto.max(below + 1)];
                // Ranks that share a value hardly differ in σ: take the ends of u σ over all of
                // them.
                let share = shares.iter().copied().fold(0.0, f64::max);
                let least = (0..shares.len())
                    .map(|r| (below + r) as f64 * part * shares[r])
                    .fold(f64::INFINITY, f64::min);
                let greatest = (0..shares.len())
                    .map(|r| (below + r + 1) as f64 * part * shares[r])
                    .fold(0.0, f64::max);
                if share > 0.0 {
                    Draw { least: least / share, greatest: greatest / share, share }
                } else {
                    Draw { least: 0.0, greatest: 0.0, share: 0.0 }
                }
            })
            .collect()
    }

    /// Estimates σ from a release (k × n).
    pub(super) fn estimate(&self, released: &DMatrix<f64>) -> Scale {
        let offset = self.offset(released.nrows());
        let records: Vec<(Vec<f64>, Vec<Draw>)> = released
            .column_iter()
            .map(|p| (p.iter().map(|p| (p + offset).max(0.0)).collect(), self.draws(p.as_slice())))
            .collect();
        let sum = |(q, draws): &(Vec<f64>, Vec<Draw>), sigma: f64, at: fn(&Draw) -> f64| {
            q.iter().zip(draws).map(|(q, d)| q / (1.0 + at(d) * d.share * sigma)).sum::<f64>()
        };
        let (mut lower, mut upper) = (0.0f64, f64::INFINITY);
        for record in &records {
            lower = lower.max(falling(|s| sum(record, s, |d| d.greatest) - 1.0 - 1e-12).0);
            upper = upper.min(falling(|s| sum(record, s, |d| d.least) - 1.0 + 1e-12).1);
        }
        let n = records.len().max(1) as f64;
        let middle = |d: &Draw| 0.5 * (d.least + d.greatest);
        let (a, b) = falling(|s| records.iter().map(|r| sum(r, s, middle)).sum::<f64>() / n - 1.0);
        let moment = 0.5 * (a + b.min(LARGEST));
        if lower > upper {
            // The release does not fit the policy; go by the moment.
            return Scale { lower: moment, likely: moment, upper: moment };
        }
        Scale { lower, likely: moment.clamp(lower, upper), upper }
    }
}

const LARGEST: f64 = 1e9;

/// Brackets the zero of a falling function of σ ≥ 0 between two neighbouring numbers. Returns
/// (0, 0) if the function is not above 0 at σ = 0, and an infinite upper end if it stays above 0.
fn falling(f: impl Fn(f64) -> f64) -> (f64, f64) {
    if f(0.0) <= 0.0 {
        return (0.0, 0.0);
    }
    if f(LARGEST) > 0.0 {
        return (LARGEST, f64::INFINITY);
    }
    let (mut low, mut high) = (0.0, LARGEST);
    for _ in 0..200 {
        // Halving the logarithm of 1 + σ, so that small and large values are found alike.
        let middle = ((f64::ln_1p(low) + f64::ln_1p(high)) * 0.5).exp_m1();
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low, high)
}
