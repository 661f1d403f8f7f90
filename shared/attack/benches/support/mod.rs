//! What the benchmarks of attacks share.

use nalgebra::{DMatrix, DVector};

/// The published weights of satellite: W (k × d_t) and b.
pub(crate) fn published_model() -> (DMatrix<f64>, DVector<f64>) {
    let model: serde_json::Value = vfl_testing::golden("model_satellite_rows.json");
    let w: Vec<Vec<f64>> = serde_json::from_value(model["W"].clone()).expect("W, rows of numbers");
    let b: Vec<f64> = serde_json::from_value(model["b"].clone()).expect("b, numbers");
    (DMatrix::from_fn(w.len(), w[0].len(), |i, j| w[i][j]), DVector::from_vec(b))
}
