//! Parameters in a file, by which a model that was trained elsewhere is published here without any
//! training.
//!
//! The file is JSON. It contains one party's part of the model or the whole:
//!
//! ```json
//! {
//!   "schema": 1,
//!   "class_names": ["no", "yes"],
//!   "feature_names": ["age", "job=clerk"],
//!   "weights": [[-0.8, 0.1], [0.8, -0.1]],
//!   "bias": [0.3, -0.3]
//! }
//! ```
//!
//! `weights` has one row per class, each with one number per feature; `bias` has one number per
//! class, and stands in the active party's file alone. z = W x + b, with x the features as the
//! parties hold them: normalised to [0, 1] by the ranges that their schemas declare
//! ([`ParameterFile::rescaled`] converts from weights of features in their own units). Rows and
//! columns belong to classes and features by name, never by their place.
//!
//! `"link": "one_vs_rest"` makes the scores σ(W x + b) divided by their sum over the classes.
//! `"link": "identity"`, `"log"` or `"logit"` makes it a model of a number, g⁻¹(w x + b): the one
//! name in `class_names` is that of the label, and `weights` has one row.
//!
//! The file of a whole model may have `samples`: `[{"features": [41, 0], "scores": [0.7, 0.3]}]`,
//! with values in the order of `feature_names` and in the units of the weights, and the scores of
//! the program that trained it. They are compared when the file is read. `scales` names the scales
//! of features and the ranges that they were normalised by: `{"income": {"scale": "log", "min": 1,
//! "max": 1000}}`.

use std::fmt;
use std::io::Read;
use std::path::Path;

use nalgebra::{DMatrix, DVector};
mod content;
mod error;
mod names;

use super::feature_scales::{self, FeatureScales};
use super::{LinearParameters, Link, Parameters, SubModelSpec};
use crate::data::schema::FeatureSpec;
use crate::types::{ConfidenceScores, Logits};
use content::{Content, Number, ParameterFileJson, Sample, without_nan};
pub(super) use error::MAX_BYTES;
pub use error::ParameterFileError;
use error::{MAX_CLASSES, SCHEMA};
pub(super) use names::{check_names, places};

/// The largest distance of a sample's scores from softmax(W x + b): more than the rounding of
/// 32-bit numbers causes.
const SAMPLE_TOLERANCE: f64 = 1e-5;
/// The largest magnitude of a parameter. Features are in [0, 1], so that a difference of 40 between
/// two logits is certainty to double precision. Far larger parameters belong to features of another
/// scale, and their logits lose digits or overflow.
const MAX_MAGNITUDE: f64 = 1e6;
/// The largest magnitude of a parameter under the link identity, where outputs are in the label's
/// own units.
const MAX_NUMBER: f64 = 1e12;

/// A checked file: classes and features have distinct names, every number is finite and of at most
/// 10⁶ in magnitude.
#[derive(Clone, PartialEq)]
pub struct ParameterFile {
    link: Link,
    class_names: Vec<String>,
    feature_names: Vec<String>,
    /// k × d.
    weights: DMatrix<f64>,
    bias: Option<DVector<f64>>,
    /// Features of sample records, d each.
    samples: Vec<DVector<f64>>,
    scales: FeatureScales,
}

impl fmt::Debug for ParameterFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (k, d) = self.weights.shape();
        let bias = if self.bias.is_some() { " + bias" } else { "" };
        write!(f, "ParameterFile({k} × {d}{bias}, values withheld)")
    }
}

/// Returns the problem with a parameter of a model of this link and its fix; `None` if it is valid.
fn problem_of(link: Link, v: f64) -> Option<&'static str> {
    match link {
        Link::Identity if v.abs() > MAX_NUMBER => Some(
            "more than 1e12 in magnitude; parameters are of features normalised to [0, 1] by the declared ranges: convert them",
        ),
        Link::Identity if v.is_finite() => None,
        _ => problem(v),
    }
}

/// Returns the problem with a number and its fix; `None` if it is valid.
pub(super) fn problem(v: f64) -> Option<&'static str> {
    if !v.is_finite() {
        return Some("not a finite number; put the number there, or train again without overflow");
    }
    (v.abs() > MAX_MAGNITUDE).then_some(
        "more than 1e6 in magnitude; parameters are of features normalised to [0, 1] by the declared ranges: convert them",
    )
}

impl ParameterFile {
    /// Checks and wraps weights k × d of k distinct classes and d distinct features, and the bias
    /// (k), if any.
    ///
    /// # Errors
    /// [`ParameterFileError`] naming the key and the row.
    pub fn new(
        class_names: Vec<String>,
        feature_names: Vec<String>,
        weights: DMatrix<f64>,
        bias: Option<DVector<f64>>,
    ) -> Result<Self, ParameterFileError> {
        Self::of_link(Link::Softmax, class_names, feature_names, weights, bias)
    }

    /// Does the same for a model of any link: a model of a number has one name in `class_names`,
    /// the label's, and one row.
    ///
    /// # Errors
    /// As [`ParameterFile::new`].
    pub fn of_link(
        link: Link,
        class_names: Vec<String>,
        feature_names: Vec<String>,
        weights: DMatrix<f64>,
        bias: Option<DVector<f64>>,
    ) -> Result<Self, ParameterFileError> {
        let (k, d) = (class_names.len(), feature_names.len());
        match link.is_numeric() {
            true if k != 1 => return Err(ParameterFileError::Outputs(k)),
            false if !(2..=MAX_CLASSES).contains(&k) => {
                return Err(ParameterFileError::Classes(k));
            }
            _ => {}
        }
        check_names("class_names", &class_names)?;
        check_names("feature_names", &feature_names)?;
        if weights.nrows() != k {
            return Err(ParameterFileError::Rows { rows: weights.nrows(), classes: k });
        }
        if weights.ncols() != d {
            let class = class_names[0].clone();
            return Err(ParameterFileError::Row {
                row: 1,
                class,
                got: weights.ncols(),
                expected: d,
            });
        }
        for (column, feature) in weights.column_iter().zip(&feature_names) {
            for ((&v, class), row) in column.iter().zip(&class_names).zip(1..) {
                if let Some(problem) = problem_of(link, v) {
                    let (class, feature) = (class.clone(), feature.clone());
                    return Err(ParameterFileError::Weight { row, class, feature, problem });
                }
            }
        }
        if let Some(bias) = &bias {
            if bias.len() != k {
                return Err(ParameterFileError::BiasLength { got: bias.len(), classes: k });
            }
            for ((&v, class), at) in bias.iter().zip(&class_names).zip(1..) {
                if let Some(problem) = problem_of(link, v) {
                    return Err(ParameterFileError::Bias { at, class: class.clone(), problem });
                }
            }
        }
        let (samples, scales) = (Vec::new(), FeatureScales::new());
        Ok(Self { link, class_names, feature_names, weights, bias, samples, scales })
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ParameterFileError`]: it cannot be read, is too large, or as [`ParameterFile::parse`].
    pub fn read(path: &Path) -> Result<Self, ParameterFileError> {
        let mut content = Vec::new();
        // The limit applies to the bytes that are read: the file may change after a check of its
        // size.
        std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut content)?;
        if content.len() as u64 > MAX_BYTES {
            return Err(ParameterFileError::TooLarge);
        }
        Self::parse(&content)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// [`ParameterFileError`]: not JSON, a key that is missing, unknown or given twice, or as
    /// [`ParameterFile::new`].
    pub fn parse(content: &[u8]) -> Result<Self, ParameterFileError> {
        let content: Content = serde_json::from_slice(&without_nan(content))
            .map_err(|e| ParameterFileError::Json(crate::json::json_error(&e)))?;
        if content.schema != SCHEMA {
            return Err(ParameterFileError::Schema(content.schema));
        }
        let (k, d) = (content.weights.len(), content.feature_names.len());
        if k != content.class_names.len() {
            return Err(ParameterFileError::Rows { rows: k, classes: content.class_names.len() });
        }
        for ((row, class), at) in content.weights.iter().zip(&content.class_names).zip(1..) {
            if row.len() != d {
                let (class, got) = (class.clone(), row.len());
                return Err(ParameterFileError::Row { row: at, class, got, expected: d });
            }
        }
        let weights =
            DMatrix::from_row_iterator(k, d, content.weights.iter().flatten().map(|n| n.0));
        let bias = content.bias.map(|b| DVector::from_iterator(b.len(), b.iter().map(|n| n.0)));
        let (classes, features) = (content.class_names, content.feature_names);
        let mut file = Self::of_link(content.link, classes, features, weights, bias)?;
        file.scales = content.scales;
        for (sample, at) in content.samples.iter().zip(1..) {
            let features = file
                .sample(sample)
                .map_err(|problem| ParameterFileError::Sample { at, problem })?;
            file.samples.push(features);
        }
        Ok(file)
    }

    /// Returns the features of a sample, if its scores are those of this model.
    fn sample(&self, sample: &Sample) -> Result<DVector<f64>, &'static str> {
        let vector =
            |numbers: &[Number]| DVector::from_iterator(numbers.len(), numbers.iter().map(|n| n.0));
        let (features, scores) = (vector(&sample.features), vector(&sample.scores));
        if features.len() != self.feature_names.len() || scores.len() != self.class_names.len() {
            return Err("give one number per name of `feature_names`, and one score per class");
        }
        if !features.iter().chain(&scores).all(|v| v.is_finite()) {
            return Err("not all of its numbers are finite");
        }
        let bias = self.bias.as_ref().ok_or("samples are of a whole model, which has a `bias`")?;
        let logits = DMatrix::from_column_slice(
            bias.len(),
            1,
            (&self.weights * &features + bias).as_slice(),
        );
        if self.link.is_numeric() {
            let ours = self.link.number(logits[0]);
            // Relative to the terms of a sum, or to the number itself where it is small.
            let terms: f64 = self.weights.iter().zip(&features).map(|(w, x)| (w * x).abs()).sum();
            let size = match self.link {
                Link::Softmax | Link::OneVsRest | Link::Identity => terms + bias[0].abs(),
                Link::Log | Link::Logit => scores[0].abs(),
            };
            return match (ours - scores[0]).abs() <= SAMPLE_TOLERANCE * size {
                true => Ok(features),
                false => Err(
                    "its number is not that of the link at w x + b: features in other units than the weights, or another link",
                ),
            };
        }
        let logits = Logits::new(logits).and_then(|outputs| self.link.score_logits(outputs));
        let ours = ConfidenceScores::softmax(logits.map_err(|_| "its logits are not finite")?);
        if (ours.matrix().column(0) - scores).amax() > SAMPLE_TOLERANCE {
            if self.link == Link::OneVsRest {
                return Err(
                    "its scores are not σ(W x + b) divided by their sum: features in other units than the weights, classes in another \
                     order, or another link",
                );
            }
            return Err(
                "its scores are not softmax(W x + b): features in other units than the weights, classes in another order, or a binary \
                 model written as [-w, w] where the program that trained it has [0, w]",
            );
        }
        Ok(features)
    }

    /// Checks that the samples lie within these ranges, (min, max) per feature.
    ///
    /// # Errors
    /// [`ParameterFileError::Sample`] with the first one that does not.
    pub fn check_samples(
        &self,
        ranges: &[(f64, f64)],
        problem: &'static str,
    ) -> Result<(), ParameterFileError> {
        let outside = |sample: &DVector<f64>| {
            sample.iter().zip(ranges).any(|(v, (min, max))| !(min..=max).contains(&v))
        };
        match self.samples.iter().position(outside) {
            Some(at) => Err(ParameterFileError::Sample { at: at + 1, problem }),
            None => Ok(()),
        }
    }

    /// Encodes the file's content, which [`ParameterFile::parse`] reads back to the bit.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let written = ParameterFileJson {
            schema: SCHEMA,
            link: self.link,
            class_names: &self.class_names,
            feature_names: &self.feature_names,
            weights: self.weights.row_iter().map(|row| row.iter().copied().collect()).collect(),
            bias: self.bias.as_ref().map(|b| b.as_slice()),
        };
        // Plain lists of finite numbers and strings: serialisation cannot fail, and an empty file
        // would be refused on reading.
        let mut content = serde_json::to_vec(&written).unwrap_or_default();
        content.push(b'\n');
        content
    }

    /// Returns the link of the model.
    #[must_use]
    pub fn link(&self) -> Link {
        self.link
    }

    /// Returns the names of the classes, in the order of the rows; of a model of a number the name
    /// of its label.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// Returns the names of the features, in the order of the columns.
    #[must_use]
    pub fn feature_names(&self) -> &[String] {
        &self.feature_names
    }

    /// Returns the weights, k × d.
    #[must_use]
    pub fn weights(&self) -> &DMatrix<f64> {
        &self.weights
    }

    /// Returns the bias (k), if there is one.
    #[must_use]
    pub fn bias(&self) -> Option<&DVector<f64>> {
        self.bias.as_ref()
    }

    /// Returns the same file with the features in this order. Columns are found by their names.
    ///
    /// # Errors
    /// [`ParameterFileError::Names`] unless the file names these features and no other.
    pub fn with_features(&self, names: &[String]) -> Result<Self, ParameterFileError> {
        let places = places("feature_names", "features", &self.feature_names, names)?;
        let weights = self.weights.select_columns(&places);
        let samples = self.samples.iter().map(|sample| sample.select_rows(&places)).collect();
        Ok(Self { feature_names: names.to_vec(), weights, samples, ..self.clone() })
    }

    /// Returns the same file with the classes in this order. Rows are found by their names.
    ///
    /// # Errors
    /// [`ParameterFileError::Names`] unless the file names these classes and no other.
    pub fn with_classes(&self, names: &[String]) -> Result<Self, ParameterFileError> {
        let places = places("class_names", "classes", &self.class_names, names)?;
        let bias = self.bias.as_ref().map(|b| b.select_rows(&places));
        Ok(Self {
            class_names: names.to_vec(),
            weights: self.weights.select_rows(&places),
            bias,
            ..self.clone()
        })
    }

    /// Returns the part of these features, in this order, without the bias.
    ///
    /// # Errors
    /// [`ParameterFileError::Names`] for a feature that the file does not name.
    pub fn part(&self, names: &[String]) -> Result<Self, ParameterFileError> {
        let own: std::collections::HashSet<&String> = names.iter().collect();
        let kept: Vec<usize> = (0..self.feature_names.len())
            .filter(|&column| own.contains(&self.feature_names[column]))
            .collect();
        let feature_names = kept.iter().map(|&column| self.feature_names[column].clone()).collect();
        let weights = self.weights.select_columns(&kept);
        Self { feature_names, weights, bias: None, samples: Vec::new(), ..self.clone() }
            .with_features(names)
    }

    /// Returns the same file with this bias in place of its own.
    #[must_use]
    pub fn with_bias(self, bias: Option<DVector<f64>>) -> Self {
        Self { bias, ..self }
    }

    /// Converts parameters of features in their own units to those of features in [0, 1]. `ranges`
    /// are (min, max) per feature, as its schema declares them. With x = min + (max − min) u, W x +
    /// b is (W diag(max − min)) u + (b + W min): the ranges of all features change the bias, so
    /// this takes the whole model. A feature of one point, which becomes 0, keeps its constant
    /// part.
    ///
    /// # Errors
    /// [`ParameterFileError`] without a bias, with another number of ranges than of features, or if
    /// a result is beyond 10⁶.
    pub fn rescaled(&self, ranges: &[(f64, f64)]) -> Result<Self, ParameterFileError> {
        let bias = self.bias.as_ref().ok_or(ParameterFileError::NoBias)?;
        let (got, expected) = (ranges.len(), self.feature_names.len());
        if got != expected {
            return Err(ParameterFileError::Row {
                row: 1,
                class: self.class_names[0].clone(),
                got,
                expected,
            });
        }
        let mins = DVector::from_iterator(expected, ranges.iter().map(|r| r.0));
        let mut weights = self.weights.clone();
        for (mut column, &(min, max)) in weights.column_iter_mut().zip(ranges) {
            column *= max - min;
        }
        let bias = bias + &self.weights * mins;
        let (classes, features) = (self.class_names.clone(), self.feature_names.clone());
        Self::of_link(self.link, classes, features, weights, Some(bias))
    }

    /// Returns the parameters of features that are normalised by their schemas, from those of
    /// features in their own units, or in those of the scale and range that the file names.
    ///
    /// # Errors
    /// [`ParameterFileError`] for another scale than that of the schema or a sample outside the
    /// declared ranges, and as [`ParameterFile::rescaled`].
    pub fn normalised(&self, features: &[FeatureSpec]) -> Result<Self, ParameterFileError> {
        let ranges = feature_scales::ends(&self.scales, features)?;
        self.check_samples(&ranges, "it lies outside the ranges that the schemas declare")?;
        self.rescaled(&ranges)
    }

    /// Checks that the weights are of features that are normalised by their schemas, as far as the
    /// file shows it.
    ///
    /// # Errors
    /// [`ParameterFileError::Normalised`] if it names scales.
    pub fn check_normalised(&self) -> Result<(), ParameterFileError> {
        feature_scales::check_normalised(&self.scales)
    }

    /// Returns the same file with these scales of its features.
    #[must_use]
    pub(super) fn with_scales(self, scales: FeatureScales) -> Self {
        Self { scales, ..self }
    }

    /// Returns the parameters with the kind that the link determines, as a party stores them.
    ///
    /// # Errors
    /// As [`ParameterFile::parameters`].
    pub fn stored(&self) -> Result<Parameters, crate::types::ShapeError> {
        let parameters = Parameters::from(&self.parameters()?);
        let spec = SubModelSpec::linear(self.link, parameters.spec.width());
        Ok(Parameters { spec, ..parameters })
    }

    /// Returns the parameters alone.
    ///
    /// # Errors
    /// [`crate::types::ShapeError`], which the checks above rule out.
    pub fn parameters(&self) -> Result<LinearParameters, crate::types::ShapeError> {
        LinearParameters::new(self.weights.clone(), self.bias.clone())
    }
}

#[cfg(test)]
#[path = "parameter_file/tests.rs"]
mod tests;
