//! Real numbers as elements of the ring.

use crate::error::MpcError;

/// The representation of real numbers: x is the whole number nearest to 2^f x, modulo 2^64. Its
/// error is at most 2^(−f−1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedPoint {
    fraction_bits: u32,
}

impl FixedPoint {
    /// Creates the representation with f fraction bits, 1 to 30: a product has 2 f of them before
    /// it is truncated, and must not exceed 2^62.
    ///
    /// # Errors
    /// [`MpcError::Setting`].
    pub const fn new(fraction_bits: u32) -> Result<Self, MpcError> {
        if fraction_bits == 0 || fraction_bits > 30 {
            let (name, range) = ("fraction_bits", "1 to 30");
            return Err(MpcError::Setting { name, got: fraction_bits as f64, range });
        }
        Ok(Self { fraction_bits })
    }

    /// Returns f.
    #[must_use]
    pub const fn fraction_bits(self) -> u32 {
        self.fraction_bits
    }

    /// Returns the distance of neighbouring numbers, 2^−f.
    #[must_use]
    pub fn unit(self) -> f64 {
        (-f64::from(self.fraction_bits)).exp2()
    }

    /// Returns the largest magnitude of a number that may be a factor: two of them have a product
    /// of at most 2^62.
    #[must_use]
    pub fn limit(self) -> f64 {
        (31.0 - f64::from(self.fraction_bits)).exp2()
    }

    /// Encodes numbers.
    ///
    /// # Errors
    /// [`MpcError::NotRepresentable`] for a number that is not finite or beyond
    /// [`FixedPoint::limit`].
    pub fn encode(self, values: &[f64]) -> Result<Vec<u64>, MpcError> {
        let (scale, limit) = (1.0 / self.unit(), self.limit());
        let encoded = |(at, &value): (usize, &f64)| {
            if value.abs() <= limit {
                return Ok(((value * scale).round() as i64) as u64);
            }
            Err(MpcError::NotRepresentable { at, limit })
        };
        values.iter().enumerate().map(encoded).collect()
    }

    /// Encodes one number that is known to lie within [`FixedPoint::limit`].
    pub(crate) fn encode_one(self, value: f64) -> u64 {
        ((value / self.unit()).round() as i64) as u64
    }

    /// Decodes numbers.
    #[must_use]
    pub fn decode(self, values: &[u64]) -> Vec<f64> {
        values.iter().map(|&value| (value as i64) as f64 * self.unit()).collect()
    }
}
