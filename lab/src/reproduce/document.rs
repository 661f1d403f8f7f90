//! A computed figure as one document: `FIGURE-DATASET.json` (`FIGURE-DATASET-VARIANT.json` for another variant than the figure's own) is
//! this, the table and the page are rendered from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vfl_shared::model::TrainingValues;

use super::ReproduceError;
use super::version::SCHEMA_VERSION;

/// A figure of a paper, computed again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The figure by the name it was asked for, `r-fig4`.
    pub figure: String,
    /// What it shows.
    pub title: String,
    /// Paper, figure and section.
    pub source: String,
    /// The program and its version.
    pub program: String,
    /// The data.
    pub dataset: DatasetFacts,
    /// The model.
    pub model: ModelFacts,
    /// Seed of everything random but the model.
    pub seed: u64,
    /// Records attacked at every point; single attacks may have fewer.
    pub records: usize,
    /// What the points stand for.
    pub axis: Axis,
    /// What curves hold.
    #[serde(default)]
    pub measure: Measure,
    /// The attacks that ran.
    pub attacks: Vec<AttackFacts>,
    /// One per line of the figure.
    pub curves: Vec<Curve>,
    /// What scores add to knowledge that an adversary has without them, where the figure is of that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_risk: Vec<AddedRisk>,
    /// A matrix, where the figure is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heat_map: Option<HeatMap>,
    /// What the paper says of the figure, checked against the curves.
    pub checks: Vec<Check>,
    /// What a reader should know: attacks left out, conventions.
    pub notes: Vec<String>,
}

/// What the curves of a figure hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// In words.
    pub label: String,
    /// Whether the vertical axis is drawn in equal steps; otherwise in decades.
    pub linear: bool,
}

impl Default for Measure {
    /// The error of R (7), in decades.
    fn default() -> Self {
        Self { label: "mean squared error per feature".into(), linear: false }
    }
}

impl Measure {
    /// Something drawn in equal steps.
    pub(super) fn linear(label: &str) -> Self {
        Self { label: label.into(), linear: true }
    }
}

/// What scores add: 1 − error of an attack with scores / error of its control, which knows the same and has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddedRisk {
    /// The point, as `points` of the axis counts it.
    pub point: usize,
    /// What both know of the passive features, in words.
    pub known: String,
    /// The curve of the attack.
    pub attack: String,
    /// The curve of the control.
    pub control: String,
    /// The share of the control's error that the scores take away: 0 for nothing, 1 for all, negative where they mislead.
    pub share: f64,
    /// Its interval of 95 % over the records.
    pub interval: [f64; 2],
}

/// A square matrix to be drawn in colours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatMap {
    /// What its entries are.
    pub label: String,
    /// Of rows and columns.
    pub names: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<f64>>,
}

/// Which data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetFacts {
    /// Its name.
    pub name: String,
    /// Which of its columns were taken, as in `--variant`. Documents of older versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// How many columns that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<usize>,
    /// SHA-256 of all that was loaded, see [`vfl_shared::data::Dataset::data_hash`].
    pub sha256: String,
    /// Number of features d_t, over all parties, after encoding.
    pub features: usize,
    /// Number of classes k.
    pub classes: usize,
    /// Records of the test set, which attacked ones are drawn from.
    pub test_records: usize,
}

/// Which model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFacts {
    /// Where its parameters come from.
    pub origin: ModelOrigin,
    /// Share of test records whose class it tells.
    pub accuracy: f64,
}

/// Where a model's parameters come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ModelOrigin {
    /// Trained for this run, with all features in one place.
    Trained {
        /// How.
        config: TrainingValues,
        /// The epoch whose parameters were kept.
        best_epoch: u32,
    },
    /// Trained for this run by an active and a passive party and a coordinator over sockets, each holding what is its own;
    /// the scores of the test records are what the coordinator served.
    OverSockets {
        /// How.
        config: TrainingValues,
        /// The epoch whose parameters were published.
        best_epoch: u32,
        /// Steps, each a round trip to both parties.
        steps: u64,
        /// The version in service.
        version: String,
        /// Largest difference of a parameter from training with all features in one place.
        off_central: f64,
        /// Largest difference of a served score from what the stored parameters give in one place.
        off_scores: f64,
    },
    /// Trained for this run with all features in one place, a model for every split. The accuracy is the mean over these.
    EachSplit {
        /// How.
        config: TrainingValues,
    },
    /// Trained for this run to full convergence, with all features in one place and the bias free.
    Converged {
        /// Weight of the squared norm of the weights.
        l2: f64,
        /// Steps of L-BFGS.
        iterations: u32,
        /// Largest entry of the gradient at the end.
        gradient_norm: f64,
    },
    /// None: the figure is of the data alone.
    None {},
    /// Read from a file.
    File {
        /// Its SHA-256.
        sha256: String,
    },
}

/// What the points of all curves stand for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Of the horizontal axis, in words.
    pub label: String,
    /// What is counted in `points`, a symbol.
    pub symbol: String,
    /// That count, for each point; curves hold their own positions on the axis.
    pub points: Vec<usize>,
    /// Up to this position exact scores determine the features, and a solver's error is round-off.
    pub determined_up_to: Option<f64>,
}

/// An attack that ran, with all that it takes to run it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttackFacts {
    /// Name of its curve.
    pub curve: String,
    /// Name of the attack.
    pub method: String,
    /// Settings that are not the attack's defaults.
    pub settings: BTreeMap<String, String>,
    /// Records attacked in every split.
    pub records: usize,
    /// Processor time it took in all, in seconds; the only figure here that differs from run to run.
    pub cpu_seconds: f64,
}

/// One line of the figure: mean squared error per feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// A name, unique in the document.
    pub name: String,
    /// What it is.
    pub role: CurveRole,
    /// The curve it belongs to: a bound, or a closed form, of that one.
    pub of: Option<String>,
    /// Positions on the horizontal axis.
    pub x: Vec<f64>,
    /// The value at each.
    pub mean: Vec<f64>,
    /// How well it is known, where records (or repetitions) were drawn: the standard error over these, the splits being
    /// fixed.
    pub standard_error: Option<Vec<f64>>,
    /// Its standard deviation over the splits at a point, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Vec<f64>>,
}

/// What a curve is.
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
    /// Something measured that is not an error.
    Measured,
    /// What a paper published of the curve it is `of`.
    Published,
    /// Of an adversary that the paper does not have: `informed`, or what ends so, knows means and covariances of all features; `control`, or
    /// what begins so, knows them and has no score.
    Beyond,
}

/// Whose a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckKind {
    /// It follows from a theorem, whatever the data.
    Theorem,
    /// The paper says so of its figure.
    Paper,
    /// Ours: no paper says it, or not with this threshold.
    Ours,
}

impl CheckKind {
    /// In words.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Theorem => "theorem",
            Self::Paper => "claim of the paper",
            Self::Ours => "ours",
        }
    }
}

/// Something that is said of a figure, checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// Whose it is.
    pub kind: CheckKind,
    /// What is said, and where.
    pub claim: String,
    /// Whether it is so here.
    pub holds: bool,
    /// How many comparisons that rests on.
    pub comparisons: u64,
    /// The figures behind the answer.
    pub detail: String,
    /// Where it is not so.
    pub violations: Vec<String>,
}

impl Document {
    /// The document as JSON that ends with a newline.
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
    /// [`ReproduceError::Json`] if it is none; [`ReproduceError::Version`] if it is of another version.
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

    /// The same without processor times: equal for two runs of one plan.
    #[must_use]
    pub fn without_times(mut self) -> Self {
        self.attacks.iter_mut().for_each(|a| a.cpu_seconds = 0.0);
        self
    }

    /// The curve of this name.
    #[must_use]
    pub fn curve(&self, name: &str) -> Option<&Curve> {
        self.curves.iter().find(|c| c.name == name)
    }
}
