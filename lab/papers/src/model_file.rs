//! Files of the weights of a model.

use std::path::Path;

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_datasets::Dataset;

use super::{ModelFileError, ReproduceError};

/// A file of weights, as rows of classes. Other fields are ignored.
#[derive(Deserialize)]
struct ModelFile {
    #[serde(rename = "W")]
    weights: Vec<Vec<f64>>,
    #[serde(rename = "b")]
    bias: Vec<f64>,
    /// The rows of the source that were the model's test set, from 0.
    test_row_in_file: Option<Vec<usize>>,
}

/// A model that was read from a file.
pub(super) struct LoadedModel {
    /// The weights W, k × d_t.
    pub(super) weights: DMatrix<f64>,
    /// The bias b, of length k.
    pub(super) bias: DVector<f64>,
    /// The rows of the source that were the model's test set, from 0.
    pub(super) test: Option<Vec<usize>>,
    /// SHA-256 of the file.
    pub(super) sha256: String,
}

/// Reads the file of a model of `dataset`.
///
/// # Errors
/// [`ReproduceError::Model`] if it cannot be read or does not fit the data set.
pub(super) fn read_model(path: &Path, dataset: &Dataset) -> Result<LoadedModel, ReproduceError> {
    let fail = |reason| ReproduceError::Model { path: path.to_owned(), reason };
    let bytes = std::fs::read(path).map_err(|e| fail(ModelFileError::Read(e)))?;
    let file: ModelFile =
        serde_json::from_slice(&bytes).map_err(|e| fail(ModelFileError::Json(e)))?;
    let (classes, features) = (dataset.class_names().len(), dataset.x().nrows());
    let size = |what, expected, got| fail(ModelFileError::Size { what, expected, got });
    if file.weights.len() != classes {
        return Err(size("rows of `W` (classes)", classes, file.weights.len()));
    }
    if let Some(row) = file.weights.iter().find(|row| row.len() != features) {
        return Err(size("columns of `W` (features)", features, row.len()));
    }
    if file.bias.len() != classes {
        return Err(size("entries of `b` (classes)", classes, file.bias.len()));
    }
    if let Some(test) = &file.test_row_in_file {
        let mut seen = vec![false; dataset.records()];
        let fresh =
            |&row: &usize| seen.get_mut(row).is_some_and(|seen| !std::mem::replace(seen, true));
        if test.is_empty() || !test.iter().all(fresh) {
            return Err(fail(ModelFileError::TestRows { records: dataset.records() }));
        }
    }
    Ok(LoadedModel {
        weights: DMatrix::from_fn(classes, features, |i, j| file.weights[i][j]),
        bias: DVector::from_vec(file.bias),
        test: file.test_row_in_file,
        sha256: hex(Sha256::digest(&bytes)),
    })
}
