//! The public view of a dense layer, a = φ(W x + b).

use nalgebra::{DMatrix, DVector};

/// One layer of a sub-model that is a chain of them.
#[derive(Debug, Clone, Copy)]
pub struct DenseLayer<'a> {
    /// W, outputs × inputs.
    pub weights: &'a DMatrix<f64>,
    /// b; `None` stands for 0.
    pub bias: Option<&'a DVector<f64>>,
    /// φ; `None` if there is no activation, as after the last layer.
    pub activation: Option<Activation>,
}

/// The activation function φ of a hidden layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// 1 / (1 + e^−z).
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// The rectifier, max(z, 0).
    Relu,
}

impl Activation {
    /// Computes φ(z).
    #[must_use]
    pub fn of(self, z: f64) -> f64 {
        match self {
            Self::Sigmoid => 1.0 / (1.0 + (-z).exp()),
            Self::Tanh => z.tanh(),
            Self::Relu => z.max(0.0),
        }
    }

    /// Computes φ'(z) from a = φ(z); for relu at its kink it is 0.
    #[must_use]
    pub fn slope(self, a: f64) -> f64 {
        match self {
            Self::Sigmoid => a * (1.0 - a),
            Self::Tanh => 1.0 - a * a,
            Self::Relu => f64::from(a > 0.0),
        }
    }

    /// Computes φ⁻¹(a) for a strictly within φ's range; `None` if φ has no inverse.
    #[must_use]
    pub fn inverse(self, a: f64) -> Option<f64> {
        match self {
            Self::Sigmoid => Some((a / (1.0 - a)).ln()),
            Self::Tanh => Some(a.atanh()),
            Self::Relu => None,
        }
    }

    /// Returns the infimum and the supremum of φ; for relu the latter is infinite.
    #[must_use]
    pub fn range(self) -> (f64, f64) {
        match self {
            Self::Sigmoid => (0.0, 1.0),
            Self::Tanh => (-1.0, 1.0),
            Self::Relu => (0.0, f64::INFINITY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_undo() {
        for activation in [Activation::Sigmoid, Activation::Tanh] {
            let (low, high) = activation.range();
            for z in [-4.0, -0.3, 0.0, 1.7, 5.0] {
                let a = activation.of(z);
                assert!(low < a && a < high);
                assert!((activation.inverse(a).unwrap() - z).abs() < 1e-9, "{activation:?} {z}");
            }
        }
        assert_eq!(Activation::Relu.inverse(0.5), None);
    }
}
