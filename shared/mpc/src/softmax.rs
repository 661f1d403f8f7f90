//! Softmax by Euler's method (Zheng, Zhang and Yu, ACSAC 2023): y(t) with y(0) = 1/k and
//! y′ = (x − ⟨x, y⟩) y is softmax(t x), so that r steps of length 1/r reach softmax(x).

use crate::arithmetic::product_parts;
use crate::error::{MpcError, check_length};
use crate::fixed_point::FixedPoint;
use crate::session::Session;
use crate::shares::Shares;

/// Computes r = 2^`step_bits` Euler steps in the clear, for one record's k logits: the oracle of
/// [`Session::softmax`].
#[must_use]
pub fn euler_softmax(logits: &[f64], step_bits: u32) -> Vec<f64> {
    let step = (-f64::from(step_bits)).exp2();
    let mut scores = vec![1.0 / logits.len() as f64; logits.len()];
    for _ in 0..1_u32 << step_bits {
        let mean: f64 = logits.iter().zip(&scores).map(|(x, y)| x * y).sum();
        logits.iter().zip(&mut scores).for_each(|(x, y)| *y += (x - mean) * *y * step);
    }
    scores
}

impl Session {
    /// Computes r = 2^`step_bits` Euler steps towards softmax; `step_bits` is 1 to 10. `logits`
    /// holds k vectors of one fixed-point number per record. The logits of a record should differ
    /// by less than r: beyond, a step may overshoot. 4 r rounds.
    ///
    /// The result differs from that of the steps in the clear by at most about 2 r units.
    ///
    /// # Errors
    /// [`MpcError::Setting`] for another number of steps, [`MpcError::Shape`] unless all vectors
    /// have as many elements; errors of links.
    pub fn softmax(
        &mut self,
        logits: &[Shares],
        fixed: FixedPoint,
        step_bits: u32,
    ) -> Result<Vec<Shares>, MpcError> {
        if step_bits == 0 || step_bits > 10 {
            let (name, range) = ("step_bits", "1 to 10");
            return Err(MpcError::Setting { name, got: step_bits.into(), range });
        }
        let (n, k) = (logits.first().map_or(0, Shares::len), logits.len());
        logits.iter().try_for_each(|class| check_length("a class", class.len(), n))?;
        let x = logits
            .iter()
            .skip(1)
            .fold(logits.first().cloned().unwrap_or_else(|| self.public(&[])), |all, class| {
                all.concat(class)
            });
        let even = fixed.encode_one(1.0 / k.max(1) as f64);
        let mut y = self.public(&vec![even; n * k]);
        let bits = fixed.fraction_bits();
        for _ in 0..1_u32 << step_bits {
            y = y.plus(&self.softmax_step(&y, &x, n, bits, bits + step_bits)?)?;
        }
        let mut classes = Vec::with_capacity(k);
        for _ in 0..k {
            let (class, left) = y.split_at(n);
            classes.push(class);
            y = left;
        }
        Ok(classes)
    }

    /// Returns the shares of (Δz − ⟨Δz, y⟩) y 2^(`bits` − `cut`), the change of the scores y along
    /// the change Δz of the logits. Both hold class after class of `records` numbers. Four rounds.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many elements; errors of links.
    pub(crate) fn softmax_step(
        &mut self,
        scores: &Shares,
        moved: &Shares,
        records: usize,
        bits: u32,
        cut: u32,
    ) -> Result<Shares, MpcError> {
        let mut means = vec![0_u64; records];
        for class in product_parts(moved, scores)?.chunks_exact(records.max(1)) {
            means.iter_mut().zip(class).for_each(|(mean, part)| *mean = mean.wrapping_add(*part));
        }
        let means = self.truncate_parts(means, bits)?;
        let centred = moved.minus(&means.repeat(moved.len() / records.max(1)))?;
        self.multiply_truncated(&centred, scores, cut)
    }
}
