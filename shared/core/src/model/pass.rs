//! Differentiable passes in service, with respect to the inputs. An adversary that is shown a
//! sub-model needs them.
//!
//! A descent on the features of many records evaluates the same small network thousands of times.
//! Here [`LANES`] records are evaluated together, with their numbers side by side, so that the
//! loops over them become vector instructions, and nothing is allocated.

/// The number of records of a block.
pub const LANES: usize = 8;

/// One number for each record of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct Lanes(pub [f64; LANES]);

impl Lanes {
    /// Returns the same number for all records.
    #[must_use]
    pub const fn all(value: f64) -> Self {
        Self([value; LANES])
    }
}

/// The outputs of one block of records as functions of their inputs. Records are independent: each
/// has its own outputs and slopes.
pub trait Pass {
    /// Computes the w outputs at the inputs `x` (d entries).
    fn outputs(&mut self, x: &[Lanes], outputs: &mut [Lanes]);

    /// Computes the slopes in the d inputs, at the `x` of the last [`Pass::outputs`], from those in
    /// the w outputs.
    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]);
}
