//! What the benchmarks of attacks share.

use std::path::PathBuf;

use nalgebra::{DMatrix, DVector};

/// The published weights of satellite: W (k × d_t) and b.
pub(crate) fn published_model() -> (DMatrix<f64>, DVector<f64>) {
    let default = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden"));
    let dir = std::env::var_os("CLOISON_GOLDEN_DIR").map_or_else(default, PathBuf::from);
    let path = dir.join("model_satellite_rows.json");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("golden vectors: {} ({e}); set CLOISON_GOLDEN_DIR", path.display()));
    let model: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let w: Vec<Vec<f64>> = serde_json::from_value(model["W"].clone()).expect("W, rows of numbers");
    let b: Vec<f64> = serde_json::from_value(model["b"].clone()).expect("b, numbers");
    (DMatrix::from_fn(w.len(), w[0].len(), |i, j| w[i][j]), DVector::from_vec(b))
}
