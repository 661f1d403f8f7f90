//! A linear model of this party's own features.

use std::fmt;
use std::path::Path;

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::model::{Link, ParameterFile, ParameterFileError};
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores};
use vfl_protocol::Refusal;

/// The form of a fallback's answers while the coordinator's are not there to show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackRelease {
    /// Scores of classes, or a number.
    #[default]
    Scores,
    /// The class with the largest score.
    Label,
}

/// A linear model of this party's own features. It asks nobody, so it tells this party nothing of
/// anybody.
#[derive(Clone, PartialEq)]
pub(crate) struct OwnModel {
    /// The form of its answers where no other answer shows it.
    pub(super) release: FallbackRelease,
    pub(super) link: Link,
    pub(super) class_names: Vec<String>,
    /// The weights of normalised features, k × d.
    pub(super) weights: DMatrix<f64>,
    /// The bias, k.
    pub(super) bias: DVector<f64>,
}

/// Withholds the parameters.
impl fmt::Debug for OwnModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { release, link, class_names, weights, .. } = self;
        f.debug_struct("OwnModel")
            .field("release", release)
            .field("link", link)
            .field("classes", &class_names.len())
            .field("features", &weights.ncols())
            .finish_non_exhaustive()
    }
}

impl OwnModel {
    /// Reads the model for the features and the label of a schema. `raw` says that its weights are
    /// of features in their own units.
    ///
    /// # Errors
    /// The reason, with the file: other features or classes, samples that do not fit.
    pub(super) fn read(
        path: &Path,
        (raw, release): (bool, FallbackRelease),
        schema: &FeatureSchema,
    ) -> Result<Self, String> {
        let of_file = || -> Result<Self, ParameterFileError> {
            let features = schema.features();
            let names: Vec<String> = features.iter().map(|f| f.name.clone()).collect();
            let file = ParameterFile::read(path)?;
            let file = file.with_classes(&schema.output_names())?.with_features(&names)?;
            let file = match raw {
                true => file.normalised(features)?,
                false => {
                    file.check_normalised()?;
                    let units = vec![(0.0, 1.0); features.len()];
                    file.check_samples(&units, "it is not of normalised features: see `raw`")?;
                    file
                }
            };
            let bias = file.bias().cloned().ok_or(ParameterFileError::NoBias)?;
            Ok(Self {
                release,
                link: file.link(),
                class_names: file.class_names().to_vec(),
                weights: file.weights().clone(),
                bias,
            })
        };
        of_file().map_err(|e| format!("parameters {}: {e}", path.display()))
    }

    /// Returns the names of the classes, or of the number.
    pub(crate) fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// Returns what processes of one party must agree on.
    pub(super) fn rules(&self) -> String {
        format!("{self:?} {:?} {:?}", self.weights, self.bias)
    }

    /// Returns its answers about features (d × n) in the form that it has alone.
    ///
    /// # Errors
    /// INTERNAL if a score is not finite.
    pub(crate) fn alone(&self, block: &DMatrix<f64>) -> Result<ReleasedScores, Refusal> {
        let scores = self.scores(block)?;
        Ok(match self.release {
            FallbackRelease::Label if !self.link.is_numeric() => ReleasedScores::Labels {
                classes: scores.classes(),
                labels: scores.predicted_labels(),
            },
            FallbackRelease::Scores | FallbackRelease::Label => scores,
        })
    }

    /// Returns the scores of features (d × n): probabilities, or numbers.
    ///
    /// # Errors
    /// INTERNAL if a score is not finite.
    pub(crate) fn scores(&self, block: &DMatrix<f64>) -> Result<ReleasedScores, Refusal> {
        let mut outputs = &self.weights * block;
        outputs.column_iter_mut().for_each(|mut column| column += &self.bias);
        let failed = |_| Refusal::internal("the fallback's scores are not finite");
        if self.link.is_numeric() {
            let numbers = outputs.map(|eta| self.link.number(eta));
            let finite = numbers.iter().all(|number| number.is_finite());
            return if finite { Ok(ReleasedScores::Numbers(numbers)) } else { Err(failed(())) };
        }
        let logits = Logits::new(outputs).and_then(|outputs| self.link.score_logits(outputs));
        let logits = logits.map_err(|_| failed(()))?;
        Ok(ReleasedScores::Probabilities(ConfidenceScores::softmax(logits).into_matrix()))
    }
}
