//! Distances between released scores c and the scores ĉ = softmax(z) of an estimate, with their
//! slopes in the logits z, for a block of records at a time.

use vfl_core::model::{LANES, Lanes};
use vfl_core::types::ReleasedScores;

/// The distance of the estimate's scores ĉ from the released scores c. All are 0 at ĉ = c and none
/// elsewhere is lower, for c that sum to 1. Logarithms are natural.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// (1/k) Σ (c − ĉ)² (J (18)).
    Mse,
    /// D(c‖ĉ) = Σ c ln(c/ĉ) (J (19) with its sign put right). Convex in the features, the only one
    /// of the four. For c that do not sum to 1 it still leads towards c, but may be negative.
    Kl,
    /// D(ĉ‖c) = Σ ĉ ln(ĉ/c) (R remark 7, which calls it convex: it is not, being bounded).
    Rkl,
    /// Σ (ln ĉ − ln c)², the loss of R's experiments.
    LogSq,
}

impl Loss {
    /// All losses, in order.
    pub const ALL: [Self; 4] = [Self::Mse, Self::Kl, Self::Rkl, Self::LogSq];

    /// Returns the name: `mse`, `kl`, `rkl`, `logsq`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mse => "mse",
            Self::Kl => "kl",
            Self::Rkl => "rkl",
            Self::LogSq => "logsq",
        }
    }

    /// Returns the loss of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|l| l.as_str() == name)
    }

    /// Returns the default loss: squared logarithms, which get nearest, unless some released score
    /// is 0 or below. The logarithm of its replacement would say more than the release does; D(c‖ĉ)
    /// gives it next to no weight.
    pub(crate) fn for_release(released: Option<&ReleasedScores>) -> Self {
        match released {
            Some(ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c))
                if c.iter().all(|c| *c > 0.0) =>
            {
                Self::LogSq
            }
            Some(ReleasedScores::Ciphertexts(_)) => Self::LogSq,
            _ => Self::Kl,
        }
    }

    /// Returns the loss of one record and its k derivatives by the logits, from the released scores
    /// c (k, above 0) and the estimate's logits z (k). The derivatives by the features are W_pasᵀ
    /// times these.
    ///
    /// # Panics
    /// If there are not as many scores as logits.
    #[must_use]
    pub fn value_and_slope(self, scores: &[f64], logits: &[f64]) -> (f64, Vec<f64>) {
        assert_eq!(scores.len(), logits.len(), "scores and logits of the same classes");
        let mut target = Target::new(scores.len());
        target.fill(|class, _| scores[class]);
        let mut slope: Vec<Lanes> = logits.iter().map(|z| Lanes::all(*z)).collect();
        let loss = self.evaluate(&target, &mut slope, &mut vec![Lanes::all(0.0); scores.len()]);
        (loss.0[0], slope.iter().map(|s| s.0[0]).collect())
    }

    /// Returns the losses of a block. `logits` holds z and then the slopes, `c_hat` becomes ĉ; one
    /// entry per class each.
    pub(crate) fn evaluate(
        self,
        target: &Target,
        logits: &mut [Lanes],
        c_hat: &mut [Lanes],
    ) -> Lanes {
        match self {
            Self::Mse => {
                softmax(logits, c_hat);
                mse(target, logits, c_hat)
            }
            Self::Kl => {
                log_softmax(logits, c_hat);
                kl(target, logits, c_hat)
            }
            Self::Rkl => {
                log_softmax(logits, c_hat);
                rkl(target, logits, c_hat)
            }
            Self::LogSq => {
                log_softmax(logits, c_hat);
                log_sq(target, logits, c_hat)
            }
        }
    }
}

/// The released scores of a block.
#[derive(Debug)]
pub(crate) struct Target {
    /// c, per class.
    c: Vec<Lanes>,
    /// ln c, per class.
    ln_c: Vec<Lanes>,
    /// Σ c: 1 for probabilities, but not with every defense.
    total: Lanes,
}

impl Target {
    /// Allocates room for the scores of `classes` classes.
    pub(crate) fn new(classes: usize) -> Self {
        let zeros = vec![Lanes::all(0.0); classes];
        Self { c: zeros.clone(), ln_c: zeros, total: Lanes::all(0.0) }
    }

    /// Loads the scores of a block, each above 0, by class and place in the block.
    pub(crate) fn fill(&mut self, score: impl Fn(usize, usize) -> f64) {
        self.total = Lanes::all(0.0);
        for (class, (c, ln_c)) in self.c.iter_mut().zip(&mut self.ln_c).enumerate() {
            for l in 0..LANES {
                c.0[l] = score(class, l);
                ln_c.0[l] = c.0[l].ln();
                self.total.0[l] += c.0[l];
            }
        }
    }
}

/// Subtracts each record's largest logit from `logits`, writes ĉ to `c_hat`, and returns Σ exp of
/// the reduced logits.
fn softmax(logits: &mut [Lanes], c_hat: &mut [Lanes]) -> Lanes {
    let mut max = Lanes::all(f64::NEG_INFINITY);
    for z in logits.iter() {
        for l in 0..LANES {
            max.0[l] = if z.0[l] > max.0[l] { z.0[l] } else { max.0[l] };
        }
    }
    let mut sum = Lanes::all(0.0);
    for (z, p) in logits.iter_mut().zip(c_hat.iter_mut()) {
        for l in 0..LANES {
            z.0[l] -= max.0[l];
        }
        for l in 0..LANES {
            p.0[l] = z.0[l].exp();
        }
        for l in 0..LANES {
            sum.0[l] += p.0[l];
        }
    }
    let inverse = Lanes(sum.0.map(|s| 1.0 / s));
    for p in c_hat {
        for l in 0..LANES {
            p.0[l] *= inverse.0[l];
        }
    }
    sum
}

/// Turns `logits` into ln ĉ and `c_hat` into ĉ, with one logarithm per record: ln ĉ = z − ln Σ exp
/// z. It is finite even where ĉ is too small for a double.
fn log_softmax(logits: &mut [Lanes], c_hat: &mut [Lanes]) {
    let sum = softmax(logits, c_hat);
    let ln_sum = Lanes(sum.0.map(f64::ln));
    for z in logits {
        for l in 0..LANES {
            z.0[l] -= ln_sum.0[l];
        }
    }
}

/// Computes the loss (1/k) Σ e² and the slope (2/k) ĉ ⊙ (e − Σ ĉ e), with e = ĉ − c.
fn mse(target: &Target, slope: &mut [Lanes], c_hat: &[Lanes]) -> Lanes {
    let (mut loss, mut mean) = (Lanes::all(0.0), Lanes::all(0.0));
    for ((s, p), c) in slope.iter_mut().zip(c_hat).zip(&target.c) {
        for l in 0..LANES {
            let e = p.0[l] - c.0[l];
            loss.0[l] += e * e;
            mean.0[l] += p.0[l] * e;
            s.0[l] = e;
        }
    }
    let by_class = 1.0 / slope.len() as f64;
    for (s, p) in slope.iter_mut().zip(c_hat) {
        for l in 0..LANES {
            s.0[l] = 2.0 * by_class * p.0[l] * (s.0[l] - mean.0[l]);
        }
    }
    Lanes(loss.0.map(|sum| sum * by_class))
}

/// Computes the loss Σ c (ln c − ln ĉ) and the slope ĉ Σ c − c. `slope` comes in as ln ĉ, here and
/// below.
fn kl(target: &Target, slope: &mut [Lanes], c_hat: &[Lanes]) -> Lanes {
    let mut loss = Lanes::all(0.0);
    for (((s, p), c), ln_c) in slope.iter_mut().zip(c_hat).zip(&target.c).zip(&target.ln_c) {
        for l in 0..LANES {
            loss.0[l] += c.0[l] * (ln_c.0[l] - s.0[l]);
            s.0[l] = p.0[l] * target.total.0[l] - c.0[l];
        }
    }
    loss
}

/// Computes the loss Σ ĉ r and the slope ĉ ⊙ (r − Σ ĉ r), with r = ln ĉ − ln c.
fn rkl(target: &Target, slope: &mut [Lanes], c_hat: &[Lanes]) -> Lanes {
    let mut loss = Lanes::all(0.0);
    for ((s, p), ln_c) in slope.iter_mut().zip(c_hat).zip(&target.ln_c) {
        for l in 0..LANES {
            s.0[l] -= ln_c.0[l];
            loss.0[l] += p.0[l] * s.0[l];
        }
    }
    for (s, p) in slope.iter_mut().zip(c_hat) {
        for l in 0..LANES {
            s.0[l] = p.0[l] * (s.0[l] - loss.0[l]);
        }
    }
    loss
}

/// Computes the loss Σ r² and the slope 2 (r − ĉ Σ r), with r = ln ĉ − ln c.
fn log_sq(target: &Target, slope: &mut [Lanes], c_hat: &[Lanes]) -> Lanes {
    let (mut loss, mut sum) = (Lanes::all(0.0), Lanes::all(0.0));
    for (s, ln_c) in slope.iter_mut().zip(&target.ln_c) {
        for l in 0..LANES {
            s.0[l] -= ln_c.0[l];
            loss.0[l] += s.0[l] * s.0[l];
            sum.0[l] += s.0[l];
        }
    }
    for (s, p) in slope.iter_mut().zip(c_hat) {
        for l in 0..LANES {
            s.0[l] = 2.0 * (s.0[l] - p.0[l] * sum.0[l]);
        }
    }
    loss
}
