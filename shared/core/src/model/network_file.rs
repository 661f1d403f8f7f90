//! A sub-model in a safetensors file, with PyTorch's names and layout of its parameters. Networks
//! that were trained elsewhere are imported from such files, and networks are exported to them.
//!
//! In PyTorch, with the `safetensors` package:
//!
//! ```python
//! save_file(model.state_dict(), "active.safetensors", metadata={
//!     "kind": "mlp", "settings": json.dumps({"activation": "relu"}),
//!     "feature_names": json.dumps(["age", "job=clerk"]), "class_names": json.dumps(["no", "yes"])})
//! ```
//!
//! Numbers have 32 or 64 bits. Features are those of a party's schema, normalised to [0, 1] by the
//! ranges declared there. They belong to the columns of the first layer by name; the features of
//! `residual` are pixels, in the schema's order. Outputs have the order of `class_names`, or under
//! `concat` that of the embedding. Layers are used in the order of the numbers in their names, or
//! in that of `layers`, a JSON list of their names. `scales`, a JSON map, names the scales of
//! features that have one in their schema, as in a JSON file. `samples`, a JSON list of
//! `{"features": [0.2, 1], "outputs": [0.7, -0.3]}`, are compared with what the model
//! makes of these features.

use std::collections::HashMap;
use std::fmt;
use std::io::Read as _;
use std::path::Path;

use nalgebra::DMatrix;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::Deserialize;

use super::contract::{Block, ExternalParameters, Parameters};
use super::feature_scales::{self, FeatureScales};
use super::parameter_file::{MAX_BYTES, check_names, places, problem};
use super::{ParameterFile, ParameterFileError, SpecError, SubModel, SubModelSpec, kinds};

/// The largest size of the header, which names all blocks, in bytes.
const MAX_HEADER_BYTES: u64 = 8 << 20;
/// The file name extension of such files.
pub const EXTENSION: &str = "safetensors";

/// Errors from reading a file. They name blocks, keys, features and classes, and show no parameter.
#[derive(Debug, thiserror::Error)]
pub enum NetworkFileError {
    /// The file cannot be read, is too large, or has other names than expected.
    #[error(transparent)]
    File(#[from] ParameterFileError),
    /// The file is not a safetensors file.
    #[error("is no safetensors file: {0}")]
    Format(String),
    /// An entry of the metadata that is missing or wrong.
    #[error("metadata: `{key}` {problem}")]
    Metadata {
        /// The key of the entry.
        key: &'static str,
        /// The problem and its fix.
        problem: String,
    },
    /// A block of numbers that is not accepted.
    #[error("block `{name}`: {problem}")]
    Block {
        /// The name of the block.
        name: String,
        /// The problem and its fix.
        problem: &'static str,
    },
    /// A sample of which the model makes something else.
    #[error("metadata: `samples`, number {at}: {problem}")]
    Sample {
        /// The number of the sample, from 1.
        at: usize,
        /// The problem and its fix.
        problem: String,
    },
    /// Blocks that do not make a model of the kind.
    #[error("{0}")]
    Model(String),
    /// Parameters that do not fit the kind.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Features in another order than the schema's, for inputs that cannot be reordered.
    #[error(
        "`feature_names` has another order than the schema, and inputs of `{kind}` have their places: give them in the schema's order"
    )]
    Order {
        /// The kind of sub-model.
        kind: String,
    },
    /// The file names no classes.
    #[error(
        "metadata: `class_names` is missing: a JSON list of the model's classes, in the order of its scores"
    )]
    NoClasses,
    /// Classes in another order than the schema's.
    #[error(
        "`class_names` has another order than the schema's label: {expected}; outputs come in that order"
    )]
    Classes {
        /// The classes of the schema.
        expected: String,
    },
}

/// A checked file: a sub-model of a known kind, with finite parameters of at most 10⁶ and distinct
/// names.
#[derive(Clone, PartialEq)]
pub struct NetworkFile {
    pub(super) parameters: Parameters,
    pub(super) feature_names: Vec<String>,
    /// Empty if the file does not name them.
    pub(super) class_names: Vec<String>,
    pub(super) scales: FeatureScales,
}

impl fmt::Debug for NetworkFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetworkFile({:?})", self.parameters)
    }
}

/// The largest difference of a sample's output, as a share of the largest output, or of 1.
const SAMPLE_TOLERANCE: f64 = 1e-4;

/// A record with the outputs that the model has for it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputSample {
    features: Vec<f64>,
    outputs: Vec<f64>,
}

/// Checks the samples that the metadata have.
fn check_samples(
    metadata: &HashMap<String, String>,
    model: &dyn SubModel,
) -> Result<(), NetworkFileError> {
    let Some(text) = metadata.get("samples") else { return Ok(()) };
    let samples: Vec<OutputSample> = serde_json::from_str(text).map_err(|_| {
        wrong("samples", "is no list such as [{\"features\": [0.2, 1], \"outputs\": [0.7, -0.3]}]")
    })?;
    for (sample, at) in samples.iter().zip(1..) {
        let refused = |problem: String| NetworkFileError::Sample { at, problem };
        let (d, k) = (model.features(), model.spec().width() as usize);
        if (sample.features.len(), sample.outputs.len()) != (d, k) {
            return Err(refused(format!("give {d} features and {k} outputs")));
        }
        let outputs = model.outputs(&DMatrix::from_column_slice(d, 1, &sample.features));
        let outputs = outputs.map_err(|e| refused(e.to_string()))?.into_matrix();
        let expected = DMatrix::from_column_slice(k, 1, &sample.outputs);
        let difference = (outputs - &expected).amax();
        if difference.is_nan() || difference > SAMPLE_TOLERANCE * expected.amax().max(1.0) {
            return Err(refused(format!(
                "the model's outputs differ by {difference:.1e}: layers in another order, another activation, or features \
                 that are not scaled to [0, 1]"
            )));
        }
    }
    Ok(())
}

fn wrong(key: &'static str, problem: impl Into<String>) -> NetworkFileError {
    NetworkFileError::Metadata { key, problem: problem.into() }
}

/// Reads a list of names under a key of the metadata.
fn names(
    metadata: &HashMap<String, String>,
    key: &'static str,
) -> Result<Option<Vec<String>>, NetworkFileError> {
    let Some(text) = metadata.get(key) else { return Ok(None) };
    let names: Vec<String> = serde_json::from_str(text)
        .map_err(|_| wrong(key, "is no JSON list of texts, such as [\"age\", \"job=clerk\"]"))?;
    check_names(key, &names)?;
    Ok(Some(names))
}

/// Returns the values of a block as 64-bit numbers.
fn values(name: &str, tensor: &TensorView<'_>) -> Result<Vec<f64>, NetworkFileError> {
    let refused = |problem| NetworkFileError::Block { name: name.to_owned(), problem };
    let values: Vec<f64> = match tensor.dtype() {
        Dtype::F64 => tensor.data().as_chunks().0.iter().map(|v| f64::from_le_bytes(*v)).collect(),
        Dtype::F32 => {
            tensor.data().as_chunks().0.iter().map(|v| f64::from(f32::from_le_bytes(*v))).collect()
        }
        // Counters that PyTorch stores beside the parameters.
        Dtype::I64 if tensor.shape().is_empty() => Vec::new(),
        _ => {
            return Err(refused(
                "numbers have 32 or 64 bits: call .float() or .double() before writing it",
            ));
        }
    };
    match values.iter().find_map(|v| problem(*v)) {
        Some(problem) => Err(refused(problem)),
        None => Ok(values),
    }
}

impl NetworkFile {
    /// Creates the file of a stored sub-model. `class_names` may be empty if they are not known.
    #[must_use]
    pub fn of(model: &dyn SubModel, feature_names: &[String], class_names: &[String]) -> Self {
        let parameters = Parameters::of(model, model.snapshot());
        Self {
            parameters,
            feature_names: feature_names.to_vec(),
            class_names: class_names.to_vec(),
            scales: FeatureScales::new(),
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`NetworkFileError`]: it cannot be read, is too large, or as [`NetworkFile::parse`].
    pub fn read(path: &Path) -> Result<Self, NetworkFileError> {
        let mut content = Vec::new();
        let file = std::fs::File::open(path).map_err(ParameterFileError::from)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut content).map_err(ParameterFileError::from)?;
        if content.len() as u64 > MAX_BYTES {
            return Err(ParameterFileError::TooLarge.into());
        }
        Self::parse(&content)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// [`NetworkFileError`] naming the key or the block, and the fix.
    pub fn parse(content: &[u8]) -> Result<Self, NetworkFileError> {
        let header = content.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
        if header > MAX_HEADER_BYTES {
            return Err(NetworkFileError::Format("its header is too long".to_owned()));
        }
        let format = |e: safetensors::SafeTensorError| NetworkFileError::Format(e.to_string());
        let (_, metadata) = SafeTensors::read_metadata(content).map_err(format)?;
        let metadata = metadata.metadata().clone().unwrap_or_default();
        let kind = metadata.get("kind").ok_or_else(|| {
            let known = kinds::names().collect::<Vec<_>>().join(", ");
            wrong("kind", format!("is missing: write the file with metadata={{\"kind\": \"mlp\", …}}; kinds: {known}"))
        })?;
        let settings = metadata.get("settings").map_or("", String::as_str);
        let settings = SubModelSpec::parse_settings(settings)
            .map_err(|e| wrong("settings", format!("is refused: {e}")))?;
        let feature_names = names(&metadata, "feature_names")?.ok_or_else(|| {
            wrong("feature_names", "is missing: a JSON list of the inputs' names, in their order")
        })?;
        let class_names = names(&metadata, "class_names")?.unwrap_or_default();
        let mut blocks = Vec::new();
        for (name, tensor) in SafeTensors::deserialize(content).map_err(format)?.iter() {
            let values = values(name, &tensor)?;
            if tensor.dtype() != Dtype::I64 {
                blocks.push(Block {
                    name: name.to_owned(),
                    shape: tensor.shape().to_vec(),
                    values,
                });
            }
        }
        let scales = metadata.get("scales").map(|text| {
            let no_map =
                |_| wrong("scales", "is no JSON map such as {\"age\": {\"scale\": \"log\", \"min\": 18, \"max\": 99}}");
            serde_json::from_str(text).map_err(no_map)
        });
        let scales = scales.transpose()?.unwrap_or_default();
        let layers = names(&metadata, "layers")?;
        let features = feature_names.len();
        let exchanged = ExternalParameters { settings, features, blocks, layers };
        let parameters =
            kinds::find(kind)?.adopt_pytorch(exchanged).map_err(NetworkFileError::Model)?;
        // Restoring brings the parameters into the order and form in which such a model is stored.
        let model = kinds::restore(&parameters)?;
        check_samples(&metadata, &*model)?;
        let parameters = Parameters::of(&*model, model.snapshot());
        Ok(Self { parameters, feature_names, class_names, scales })
    }

    /// Encodes the file's content: 64-bit numbers, which [`NetworkFile::parse`] reads back to the
    /// bit.
    ///
    /// # Errors
    /// [`NetworkFileError::Format`], which no checked file causes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, NetworkFileError> {
        let spec = &self.parameters.spec;
        let kind = kinds::find(spec.kind())?;
        let blocks = kind.to_pytorch(&self.parameters);
        let settings = serde_json::to_string(&kind.complete(spec.settings())).unwrap_or_default();
        let bytes: Vec<Vec<u8>> = blocks
            .iter()
            .map(|block| block.values.iter().flat_map(|v| v.to_le_bytes()).collect())
            .collect();
        let format = |e: safetensors::SafeTensorError| NetworkFileError::Format(e.to_string());
        let views = blocks.into_iter().zip(&bytes).map(|(block, bytes)| {
            Ok((block.name, TensorView::new(Dtype::F64, block.shape, bytes).map_err(format)?))
        });
        let views: Vec<_> = views.collect::<Result<_, NetworkFileError>>()?;
        let list = |names: &[String]| serde_json::to_string(names).unwrap_or_default();
        let mut metadata = HashMap::from([
            ("format".to_owned(), "pt".to_owned()),
            ("kind".to_owned(), spec.kind().to_owned()),
            ("settings".to_owned(), settings),
            ("feature_names".to_owned(), list(&self.feature_names)),
        ]);
        if !self.class_names.is_empty() {
            metadata.insert("class_names".to_owned(), list(&self.class_names));
        }
        serialize(views, Some(metadata)).map_err(format)
    }

    /// Checks that the weights are of features that are normalised by their schemas, as far as the
    /// file shows it.
    ///
    /// # Errors
    /// [`NetworkFileError::File`] if it names scales.
    pub fn check_normalised(&self) -> Result<(), NetworkFileError> {
        Ok(feature_scales::check_normalised(&self.scales)?)
    }

    /// Returns the sub-model's parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Returns the names of the features, in the order of the inputs.
    #[must_use]
    pub fn feature_names(&self) -> &[String] {
        &self.feature_names
    }

    /// Returns the names of the classes; empty if the file does not name them.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// Converts the file to that of a linear model, if it is one: a softmax regression, or a model
    /// of a number.
    ///
    /// # Errors
    /// [`NetworkFileError::NoClasses`] without names of the classes.
    pub fn linear(&self) -> Result<Option<ParameterFile>, NetworkFileError> {
        let model = kinds::restore(&self.parameters)?;
        let Some(linear) = model.linear() else { return Ok(None) };
        let link = self.parameters.spec.link()?;
        if self.class_names.is_empty() {
            return Err(NetworkFileError::NoClasses);
        }
        let (classes, features) = (self.class_names.clone(), self.feature_names.clone());
        let (weights, bias) = (linear.weights().clone(), linear.bias().cloned());
        let file = ParameterFile::of_link(link, classes, features, weights, bias)?;
        Ok(Some(file.with_scales(self.scales.clone())))
    }

    /// Returns the same file with the features in this order. Inputs are found by their names.
    ///
    /// # Errors
    /// [`NetworkFileError::File`] unless the file names these features and no other;
    /// [`NetworkFileError::Order`] for inputs with fixed places.
    pub fn with_features(&self, names: &[String]) -> Result<Self, NetworkFileError> {
        let places = places("feature_names", "features", &self.feature_names, names)?;
        if places.iter().enumerate().all(|(at, place)| at == *place) {
            return Ok(self.clone());
        }
        let kind = self.parameters.spec.kind();
        let reordered = kinds::find(kind)?.reorder(&self.parameters, &places);
        let parameters =
            reordered.ok_or_else(|| NetworkFileError::Order { kind: kind.to_owned() })?;
        Ok(Self { parameters, feature_names: names.to_vec(), ..self.clone() })
    }

    /// Returns the same file with these classes. If the file names classes, they must be these in
    /// this order.
    ///
    /// # Errors
    /// [`NetworkFileError::File`] for other classes; [`NetworkFileError::Classes`] for another
    /// order.
    pub fn with_classes(&self, names: &[String]) -> Result<Self, NetworkFileError> {
        if !self.class_names.is_empty() && self.class_names != names {
            places("class_names", "classes", &self.class_names, names)?;
            return Err(NetworkFileError::Classes { expected: names.join(", ") });
        }
        Ok(Self { class_names: names.to_vec(), ..self.clone() })
    }
}
