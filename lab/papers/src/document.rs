//! A computed figure as one document. It is written to `FIGURE-DATASET.json`
//! (`FIGURE-DATASET-VARIANT.json` for another variant than the figure's own); the table and the
//! page are rendered from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vfl_core::model::TrainingValues;

use super::ReproduceError;
use super::version::SCHEMA_VERSION;

/// A figure of a paper, computed again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// The version of the schema, [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The name of the figure on the command line, such as `r-fig4`.
    pub figure: String,
    /// The title: what the figure shows.
    pub title: String,
    /// Paper, figure and section.
    pub source: String,
    /// The program and its version.
    pub program: String,
    /// The data set.
    pub dataset: DatasetFacts,
    /// The attacked model.
    pub model: ModelFacts,
    /// Seed of everything random but the model.
    pub seed: u64,
    /// The number of records attacked at every point; single attacks may have fewer.
    pub records: usize,
    /// The horizontal axis.
    pub axis: Axis,
    /// The quantity on the vertical axis.
    #[serde(default)]
    pub measure: Measure,
    /// The attacks that ran.
    pub attacks: Vec<AttackFacts>,
    /// The curves of the figure.
    pub curves: Vec<Curve>,
    /// The added risk of scores for adversaries with side information, if the figure shows it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_risk: Vec<AddedRisk>,
    /// The matrix, if the figure is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat_map: Option<HeatMap>,
    /// The claims of the paper about the figure, checked against the curves.
    pub checks: Vec<Check>,
    /// Notes for the reader: attacks left out, conventions.
    pub notes: Vec<String>,
}

/// The quantity that the curves of a figure show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The label in words.
    pub label: String,
    /// True if the vertical axis is linear; otherwise it is logarithmic.
    pub linear: bool,
}

impl Default for Measure {
    /// Returns the error of R (7), on a logarithmic axis.
    fn default() -> Self {
        Self { label: "mean squared error per feature".into(), linear: false }
    }
}

impl Measure {
    /// Creates a measure on a linear axis.
    pub(super) fn linear(label: &str) -> Self {
        Self { label: label.into(), linear: true }
    }
}

/// The added risk of scores: 1 − error of an attack with scores / error of its control, which has
/// the same knowledge without scores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedRisk {
    /// The point, as in `points` of the axis.
    pub point: usize,
    /// The knowledge that both have of the passive features, in words.
    pub known: String,
    /// The curve of the attack.
    pub attack: String,
    /// The curve of the control.
    pub control: String,
    /// The share of the control's error that the scores remove: 0 for nothing, 1 for all, negative
    /// if they mislead.
    pub share: f64,
    /// The 95 % interval over the records.
    pub interval: [f64; 2],
}

/// A square matrix to be drawn in colours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatMap {
    /// The label of the entries.
    pub label: String,
    /// The names of rows and columns.
    pub names: Vec<String>,
    /// The rows of the matrix.
    pub rows: Vec<Vec<f64>>,
}

/// The data set of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetFacts {
    /// The name of the data set.
    pub name: String,
    /// The variant: the selection of columns, as in `--variant`. Documents of older versions do not
    /// have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The number of those columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<usize>,
    /// SHA-256 of all loaded data, see [`vfl_datasets::Dataset::data_hash`].
    pub sha256: String,
    /// Number of features d_t, over all parties, after encoding.
    pub features: usize,
    /// Number of classes k.
    pub classes: usize,
    /// Records of the test set, from which attacked ones are drawn.
    pub test_records: usize,
}

/// The model of a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// The origin of its parameters.
    pub origin: ModelOrigin,
    /// The share of test records that it classifies correctly.
    pub accuracy: f64,
}

/// The origin of a model's parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelOrigin {
    /// Trained for this run, with all features in one place.
    Trained {
        /// The settings of the training.
        config: TrainingValues,
        /// The epoch whose parameters were kept.
        best_epoch: u32,
    },
    /// Trained for this run by an active and a passive party and a coordinator over sockets, each
    /// with its own data; the scores of the test records are those that the coordinator served.
    OverSockets {
        /// The settings of the training.
        config: TrainingValues,
        /// The epoch whose parameters were published.
        best_epoch: u32,
        /// The number of steps, each a round trip to both parties.
        steps: u64,
        /// The version in service.
        version: String,
        /// The largest difference of a parameter from training with all features in one place.
        off_central: f64,
        /// The largest difference of a served score from the score computed from the stored
        /// parameters in one place.
        off_scores: f64,
    },
    /// Trained for this run with all features in one place, one model for every split. The accuracy
    /// is the mean over these.
    EachSplit {
        /// The settings of the training.
        config: TrainingValues,
    },
    /// Trained for this run to full convergence, with all features in one place and no penalty on
    /// the bias.
    Converged {
        /// Weight of the squared norm of the weights.
        l2: f64,
        /// Steps of L-BFGS.
        iterations: u32,
        /// Largest entry of the gradient at the end.
        gradient_norm: f64,
    },
    /// No model: the figure is of the data alone.
    None {},
    /// Read from a file.
    File {
        /// SHA-256 of the file.
        sha256: String,
    },
}

/// The horizontal axis of all curves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The label of the horizontal axis, in words.
    pub label: String,
    /// The symbol of the quantity in `points`.
    pub symbol: String,
    /// The value of that quantity at each point; curves hold their own positions on the axis.
    pub points: Vec<usize>,
    /// The position up to which exact scores determine the features, so that a solver's error is
    /// round-off.
    pub determined_up_to: Option<f64>,
}

/// An attack that ran, with everything needed to run it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackFacts {
    /// The name of its curve.
    pub curve: String,
    /// The name of the attack.
    pub method: String,
    /// The settings that are not the attack's defaults.
    pub settings: BTreeMap<String, String>,
    /// Records attacked in every split.
    pub records: usize,
    /// The processor time in all, in seconds; the only figure here that differs from run to run.
    pub cpu_seconds: f64,
}

/// One line of the figure: mean squared error per feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The name, unique in the document.
    pub name: String,
    /// The role of the curve.
    pub role: CurveRole,
    /// The curve that this one is a bound or a closed form of.
    pub of: Option<String>,
    /// Positions on the horizontal axis.
    pub x: Vec<f64>,
    /// The value at each position.
    pub mean: Vec<f64>,
    /// The standard error over the drawn records or repetitions, with fixed splits; `None` if
    /// nothing was drawn.
    pub standard_error: Option<Vec<f64>>,
    /// The standard deviation over the splits at a point, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Vec<f64>>,
}

/// The role of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CurveRole {
    /// An attack's error, measured.
    Attack,
    /// The error of a guess, measured.
    Guess,
    /// An expected error, from a formula.
    ClosedForm,
    /// A bound from above.
    UpperBound,
    /// A bound from below.
    LowerBound,
    /// A measured quantity that is not an error.
    Measured,
    /// The values that a paper published for the curve named in `of`.
    Published,
    /// An adversary that the paper does not have. `informed`, or a name with that suffix, knows
    /// means and covariances of all features; `control`, or a name with that prefix, knows them and
    /// has no score.
    Beyond,
}

/// The origin of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// It follows from a theorem, whatever the data.
    Theorem,
    /// The paper claims it of its figure.
    Paper,
    /// Our own check: no paper claims it, or not with this threshold.
    Ours,
}

impl CheckKind {
    /// Returns the kind in words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Theorem => "theorem",
            Self::Paper => "claim of the paper",
            Self::Ours => "ours",
        }
    }
}

/// A checked claim about a figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The name by which cards refer to the check, unique in the document.
    pub id: String,
    /// The origin of the claim.
    pub kind: CheckKind,
    /// The claim, and its place in the paper.
    pub claim: String,
    /// True if the claim holds here.
    pub holds: bool,
    /// The number of comparisons behind the result.
    pub comparisons: u64,
    /// The figures behind the result.
    pub detail: String,
    /// The cases that violate the claim.
    pub violations: Vec<String>,
}

impl Document {
    /// Returns the document as JSON that ends with a newline.
    ///
    /// # Errors
    /// [`ReproduceError::Json`] if it cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, ReproduceError> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        Ok(json)
    }

    /// Reads a document back.
    ///
    /// # Errors
    /// [`ReproduceError::Json`] if it is not a document; [`ReproduceError::Version`] if it has
    /// another version.
    pub fn from_json(json: &str) -> Result<Self, ReproduceError> {
        #[derive(Deserialize)]
        struct Versioned {
            schema_version: u64,
        }
        let Versioned { schema_version: got } = serde_json::from_str(json)?;
        if got != u64::from(SCHEMA_VERSION) {
            return Err(ReproduceError::Version { got });
        }
        Ok(serde_json::from_str(json)?)
    }

    /// Removes the processor times, so that two runs of one plan are equal.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        self.attacks.iter_mut().for_each(|a| a.cpu_seconds = 0.0);
        self
    }

    /// Returns the curve with this name.
    #[must_use]
    pub fn curve(&self, name: &str) -> Option<&Curve> {
        self.curves.iter().find(|c| c.name == name)
    }
}
