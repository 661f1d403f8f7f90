//! Inverts disclosed transforms of released parameters: an adversary who is told that parameters
//! are those of 1 − x needs no attack to read them.

use nalgebra::{DMatrix, DVector};
use vfl_protocol::Statement;
use vfl_transform::TransformConfig;

/// A change of signs, x → H x + t with H = diag(±1): the features that are negated, and if 1 is
/// added to these.
struct Signs {
    negated: Vec<bool>,
    shifted: bool,
}

impl Signs {
    /// Returns the signs of a transform of `d` features; `None` if its name does not determine it,
    /// because of a secret or a fit.
    fn of(transform: Option<&TransformConfig>, d: usize) -> Option<Self> {
        let signs = |negated, shifted| Some(Self { negated: vec![negated; d], shifted });
        match transform {
            None | Some(TransformConfig::None {}) => signs(false, false),
            Some(TransformConfig::Negate {}) => signs(true, false),
            Some(TransformConfig::Complement {}) => signs(true, true),
            Some(TransformConfig::Selective { features }) => {
                let mut negated = vec![false; d];
                for &at in features {
                    *negated.get_mut(at)? = true;
                }
                Some(Self { negated, shifted: true })
            }
            Some(
                TransformConfig::Permute {}
                | TransformConfig::RandomOrthonormal {}
                | TransformConfig::LeastSquaresOptimal {}
                | TransformConfig::Stiefel { .. }
                | TransformConfig::SingleFeature { .. }
                | TransformConfig::Binary { .. },
            ) => None,
        }
    }

    /// Returns the product W H.
    fn apply(&self, mut weights: DMatrix<f64>) -> DMatrix<f64> {
        for (mut column, negated) in weights.column_iter_mut().zip(&self.negated) {
            if *negated {
                column.neg_mut();
            }
        }
        weights
    }

    /// Returns the product W t.
    fn shift(&self, weights: &DMatrix<f64>) -> DVector<f64> {
        let mut shift = DVector::zeros(weights.nrows());
        for (column, _) in
            weights.column_iter().zip(&self.negated).filter(|(_, n)| **n && self.shifted)
        {
            shift += column;
        }
        shift
    }
}

/// Inverts the transforms that the owner of released weights (k × d) states. Returns the weights of
/// the features themselves, and the term to add to the bias (k). `None` if the statement does not
/// determine the inverse, or if nothing is stated.
pub(crate) fn inverted(
    released: &DMatrix<f64>,
    statement: &Statement,
) -> Option<(DMatrix<f64>, DVector<f64>)> {
    if *statement == Statement::Undisclosed {
        return None;
    }
    let d = released.ncols();
    // H is its own inverse. The shift of a release is in the bias released with it, which is not
    // used here.
    let weights = Signs::of(statement.of_weights(), d)?.apply(released.clone());
    let map = Signs::of(statement.of_features(), d)?;
    let shift = map.shift(&weights);
    Some((map.apply(weights), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(of_weights: &str, of_features: &str) -> Statement {
        let transform =
            |text: &str| Some(text).filter(|t| !t.is_empty()).map(|t| t.parse().unwrap());
        let of_features = transform(of_features);
        match transform(of_weights) {
            None => Statement::True { of_features },
            Some(of_weights) => {
                Statement::Transformed { of_weights, interpretability: None, of_features }
            }
        }
    }

    /// Logits of the features by the inverted weights are those of the model, whatever was released
    /// and trained on.
    #[test]
    fn what_is_told_gives_the_logits_of_the_model_back() {
        let trained = DMatrix::from_row_slice(3, 2, &[0.5, -1.0, 2.0, 0.25, -0.75, 3.0]);
        let x = DVector::from_vec(vec![0.2, 0.9]);
        let mapped = |map: &str| match map {
            "complement" => x.map(|v| 1.0 - v),
            "negate" => -&x,
            "selective (features = [1])" => DVector::from_vec(vec![x[0], 1.0 - x[1]]),
            _ => x.clone(),
        };
        for map in ["", "negate", "complement", "selective (features = [1])"] {
            let logits = &trained * mapped(map);
            for of in ["", "negate", "complement", "selective (features = [0])"] {
                let mut shown = trained.clone();
                match of {
                    "negate" | "complement" => shown.neg_mut(),
                    "selective (features = [0])" => shown.column_mut(0).neg_mut(),
                    _ => {}
                }
                let (weights, shift) = inverted(&shown, &statement(of, map)).unwrap();
                assert!((weights * &x + shift - &logits).amax() < 1e-12, "{of}; {map}");
            }
        }
    }

    #[test]
    fn what_its_name_does_not_tell_stays() {
        let weights = DMatrix::identity(2, 2);
        for (of, map) in [
            ("stiefel (epsilon = 0.1)", ""),
            ("permute", ""),
            ("", "random_orthonormal"),
            ("complement", "permute"),
            ("selective (features = [2])", ""),
            ("least_squares_optimal", "complement"),
        ] {
            assert!(inverted(&weights, &statement(of, map)).is_none(), "{of}; {map}");
        }
        assert!(inverted(&weights, &Statement::Undisclosed).is_none());
    }
}
