//! What a passive party says of its own transform, turned back: whoever is told that parameters are those of 1 − x needs no
//! attack to read them.

use nalgebra::{DMatrix, DVector};

/// Stands before the transform of the features that a model was trained on.
const TRAINED_ON: &str = "trained on transformed features: ";

/// A change of signs, x → H x + t with H = diag(±1): by feature, whether it is negated and whether 1 is added.
struct Signs {
    negated: Vec<bool>,
    shifted: bool,
}

impl Signs {
    /// Of a transform in words, for `d` features; `None` for those that are not told by their name alone.
    fn told(words: &str, d: usize) -> Option<Self> {
        let signs = |negated, shifted| Some(Self { negated: vec![negated; d], shifted });
        match words.trim() {
            "" | "none" => signs(false, false),
            "negate" => signs(true, false),
            "complement" => signs(true, true),
            selective => {
                let list = selective.strip_prefix("selective (features = [")?.strip_suffix("])")?;
                let mut negated = vec![false; d];
                for at in list.split(',').map(str::trim).filter(|at| !at.is_empty()) {
                    *negated.get_mut(at.parse::<usize>().ok()?)? = true;
                }
                Some(Self { negated, shifted: true })
            }
        }
    }

    /// W H.
    fn apply(&self, mut weights: DMatrix<f64>) -> DMatrix<f64> {
        for (mut column, negated) in weights.column_iter_mut().zip(&self.negated) {
            if *negated {
                column.neg_mut();
            }
        }
        weights
    }

    /// W t.
    fn shift(&self, weights: &DMatrix<f64>) -> DVector<f64> {
        let mut shift = DVector::zeros(weights.nrows());
        for (column, _) in weights.column_iter().zip(&self.negated).filter(|(_, n)| **n && self.shifted) {
            shift += column;
        }
        shift
    }
}

/// The weights (k × d) that released ones stand for, as weights of the features themselves, and what is to be added to the bias
/// (k), by what is told of them: `transform` of a release. `None` where that does not undo it.
pub(crate) fn undone(released: &DMatrix<f64>, transform: &str) -> Option<(DMatrix<f64>, DVector<f64>)> {
    let d = released.ncols();
    let (of_weights, of_features) = match transform.split_once(TRAINED_ON) {
        Some((before, map)) => (before.trim_end().trim_end_matches(';'), map),
        None => (transform, ""),
    };
    // H is its own inverse; the shift of a release is in the bias it comes with, which is not used here.
    let weights = Signs::told(of_weights, d)?.apply(released.clone());
    let map = Signs::told(of_features, d)?;
    let shift = map.shift(&weights);
    Some((map.apply(weights), shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logits of the features by the undone weights are those of the model, whatever was released and trained on.
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
                let text = match (of, map) {
                    (of, "") => of.to_owned(),
                    ("", map) => format!("{TRAINED_ON}{map}"),
                    (of, map) => format!("{of}; {TRAINED_ON}{map}"),
                };
                let (weights, shift) = undone(&shown, &text).unwrap();
                assert!((weights * &x + shift - &logits).amax() < 1e-12, "{text}");
            }
        }
    }

    #[test]
    fn what_its_name_does_not_tell_stays() {
        let weights = DMatrix::identity(2, 2);
        for text in [
            "stiefel (epsilon = 0.1)",
            "permute",
            "trained on transformed features: random_orthonormal",
            "complement; trained on transformed features: permute",
            "selective (features = [2])",
            "selective (features = [-1])",
            "anything",
        ] {
            assert!(undone(&weights, text).is_none(), "{text}");
        }
    }
}
