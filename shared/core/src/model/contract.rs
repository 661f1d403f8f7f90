//! The contracts of models: a sub-model at a party, a head at the coordinator, and a kind of
//! sub-model in the register. Implementations are in [`kinds`](super::kinds), [`Sum`](super::Sum)
//! and [`Concat`](super::Concat).
//!
//! One record is one column. A sub-model with d features and w outputs maps a block d × n to
//! outputs w × n. The head maps the outputs of all parties, the active party's first, to logits k ×
//! n.

use std::borrow::Cow;
use std::fmt;

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::{
    Combiner, DenseLayer, LinearParameters, Pass, Settings, SpecError, SubModelSpec, TrainingConfig,
};
use crate::types::{LogitShare, Logits, OutputGradient, ShapeError};

/// The role of a block of parameters in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterRole {
    /// Trained, and part of the penalty `l2 · Σ w²`.
    Weight,
    /// Trained and not penalised, such as a bias.
    Free,
    /// Not trained by gradients, such as a running mean.
    Statistic,
}

/// One block of parameters of a model.
#[derive(Debug)]
pub struct Tensor<V> {
    /// Its name within the model.
    pub name: Cow<'static, str>,
    /// Its dimensions, the outermost first: values lie row by row.
    pub shape: Vec<usize>,
    /// Its role in training.
    pub used: ParameterRole,
    /// The values, row by row.
    pub values: V,
}

/// A part of a model with parameters. Its blocks come in the same order every time.
///
/// Parameters are 64-bit. A model that computes in 32 bits keeps these as its master copy.
pub trait Parametrised {
    /// Returns the blocks of parameters.
    fn tensors(&self) -> Vec<Tensor<&[f64]>>;

    /// Returns the blocks for changes in place: an optimiser step, a restored checkpoint, or values
    /// read from disk.
    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>>;

    /// Copies all values, as a checkpoint.
    fn snapshot(&self) -> Vec<Vec<f64>> {
        self.tensors().into_iter().map(|tensor| tensor.values.to_vec()).collect()
    }

    /// Restores the values of a [`Parametrised::snapshot`] of this same model.
    fn put_back(&mut self, snapshot: &[Vec<f64>]) {
        for (tensor, values) in self.tensors_mut().into_iter().zip(snapshot) {
            tensor.values.copy_from_slice(values);
        }
    }
}

/// The result of a sub-model's backward pass.
pub struct Gradients {
    /// One vector for each block that is not a [`ParameterRole::Statistic`], in the order of
    /// [`Parametrised::tensors`]: the gradient of the mean loss, without the penalty.
    pub parameters: Vec<Vec<f64>>,
    /// d × n: the gradient with respect to the inputs, if it was requested.
    pub inputs: Option<DMatrix<f64>>,
}

/// One party's part of a model, in training and in service.
pub trait SubModel: Parametrised + fmt::Debug + Send + Sync {
    /// Returns kind, settings and output width.
    fn spec(&self) -> &SubModelSpec;

    /// Returns the number of features d.
    fn features(&self) -> usize;

    /// Computes the outputs (w × n) of a block (d × n), in service and where training needs no
    /// gradient.
    ///
    /// A record's outputs are the same to the last bit whatever the other records are: the
    /// coordinator recognises a share by its bits.
    ///
    /// # Errors
    /// [`ShapeError`] for another number of features, or an output that is not finite.
    fn outputs(&self, block: &DMatrix<f64>) -> Result<LogitShare, ShapeError>;

    /// Computes the outputs of a training batch. Keeps what [`SubModel::backward`] needs, and
    /// updates running statistics.
    ///
    /// # Errors
    /// As [`SubModel::outputs`].
    fn forward(&mut self, batch: DMatrix<f64>) -> Result<LogitShare, ShapeError>;

    /// Computes the gradients of the mean loss from its gradient with respect to the outputs (w ×
    /// n) of the last [`SubModel::forward`]. Consumes what forward kept. Changes no parameter.
    ///
    /// # Errors
    /// [`BackwardError`] without a forward pass before it, or for another shape.
    fn backward(
        &mut self,
        gradient: &DMatrix<f64>,
        inputs: bool,
    ) -> Result<Gradients, BackwardError>;

    /// Computes for each record of the last [`SubModel::forward`] the squared length of its part of
    /// the gradient of the parameters: what [`SubModel::backward`] would give for its column of
    /// `gradient` (w × n) alone, over all blocks. Does not consume what forward kept. `None` if the
    /// records of a batch are mixed, so that none has a part of its own.
    ///
    /// # Errors
    /// As [`SubModel::backward`].
    fn squared_norms(&self, _gradient: &DMatrix<f64>) -> Result<Option<Vec<f64>>, BackwardError> {
        Ok(None)
    }

    /// Returns a pass in service that can be differentiated with respect to the features of its
    /// records and equals [`SubModel::outputs`] up to rounding. `None` if models of this kind have
    /// none.
    fn pass(&self) -> Option<Box<dyn Pass + '_>> {
        None
    }

    /// Returns the layers, the first one first, if the sub-model is a chain of dense ones;
    /// otherwise `None`.
    fn layers(&self) -> Option<Vec<DenseLayer<'_>>> {
        None
    }

    /// Returns the approximate number of multiplications for the outputs of a record.
    fn work(&self) -> u64 {
        self.tensors().iter().map(|tensor| tensor.values.len() as u64).sum()
    }

    /// Returns the parameters if the outputs are W x + b, as transforms, releases and `assess`
    /// require.
    fn linear(&self) -> Option<&LinearParameters> {
        None
    }
}

/// The coordinator's part of a model, in training and in service.
pub trait Head: Parametrised + fmt::Debug + Send + Sync {
    /// Returns the way in which the head combines outputs.
    fn combiner(&self) -> Combiner;

    /// Returns the number of classes k.
    fn classes(&self) -> usize;

    /// Returns the output widths of the parties, the active party's first.
    fn widths(&self) -> &[usize];

    /// Computes the logits (k × n) of the parties' outputs, in service and where training needs no
    /// gradient.
    ///
    /// # Errors
    /// [`ShapeError`] for other parties or widths, or a logit that is not finite.
    fn combine(&self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError>;

    /// Computes the logits of a training batch. Keeps what [`Head::backward`] needs.
    ///
    /// # Errors
    /// As [`Head::combine`].
    fn forward(&mut self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError>;

    /// Returns the approximate number of multiplications for the logits of a record.
    fn work(&self) -> u64 {
        self.top().map_or(0, SubModel::work)
    }

    /// Returns the top model, if there is one. It is the part of the head that is stored.
    fn top(&self) -> Option<&dyn SubModel> {
        None
    }

    /// Computes one gradient for each party and those of the head's own parameters, from the
    /// gradient of the mean loss with respect to the logits (k × n) of the last [`Head::forward`].
    /// Consumes what forward kept. Changes no parameter.
    ///
    /// # Errors
    /// [`BackwardError`] without a forward pass before it, or for another shape.
    fn backward(&mut self, gradient: DMatrix<f64>) -> Result<HeadGradients, BackwardError>;
}

/// The result of the head's backward pass.
pub struct HeadGradients {
    /// Gradients with respect to each party's outputs, the active party's first.
    pub parties: Vec<OutputGradient>,
    /// One vector for each block of the head that is not a [`ParameterRole::Statistic`].
    pub parameters: Vec<Vec<f64>>,
}

/// Errors from a backward pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackwardError {
    /// There was no forward pass before.
    #[error("a gradient came without a batch before it")]
    NoBatch,
    /// A head of models that are imported alone.
    #[error("models of one class against the rest each are imported, not trained")]
    NotTrained,
    /// A gradient of another shape than the outputs.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// The starting point of a sub-model.
#[derive(Debug, Clone)]
pub struct SubModelOrigin {
    /// Kind, settings and output width.
    pub spec: SubModelSpec,
    /// Number of features d.
    pub features: usize,
    /// True for the active party's sub-model.
    pub active: bool,
    /// The seed of the initial parameters: [`start_of`] the training's seed, or random bytes of the
    /// party's own.
    pub start: InitialSeed,
}

/// The seed of initial parameters.
pub type InitialSeed = [u8; 32];

/// Derives the start from a training's seed. All parties know the seed.
#[must_use]
pub fn start_of(seed: u64) -> InitialSeed {
    ChaCha20Rng::seed_from_u64(seed).get_seed()
}

/// A kind of sub-model, as the register holds it.
pub trait Kind: Sync {
    /// Returns the name in configurations, messages and files: a-z, 0-9 and _.
    fn name(&self) -> &'static str;

    /// Checks settings of this kind.
    ///
    /// # Errors
    /// The problem and its fix.
    fn check(&self, settings: &Settings) -> Result<(), String>;

    /// Returns true if models of this kind have [`LinearParameters`].
    fn linear(&self) -> bool {
        false
    }

    /// Returns true if models of this kind have [`SubModel::squared_norms`], which training with
    /// differential privacy needs.
    fn tells_records_apart(&self) -> bool {
        false
    }

    /// Creates a model before its training.
    ///
    /// # Errors
    /// [`SpecError`] for a width or settings that do not go together.
    fn start(&self, origin: &SubModelOrigin) -> Result<Box<dyn SubModel>, SpecError>;

    /// Creates a model from its stored parameters.
    ///
    /// # Errors
    /// [`SpecError::Parameters`] if names or shapes are not those of this kind.
    fn restore(&self, parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError>;

    /// Returns the parameters with PyTorch's names and layout. By default they stay as they are
    /// stored.
    fn to_pytorch(&self, parameters: &Parameters) -> Vec<Block> {
        parameters.blocks.clone()
    }

    /// Returns the settings with the defaults that cannot be derived from the parameters, for
    /// readers that do not know them. By default the settings are unchanged.
    fn complete(&self, settings: &Settings) -> Settings {
        settings.clone()
    }

    /// Converts blocks with PyTorch's names and layout to parameters, which [`Kind::restore`]
    /// checks. By default none are taken.
    ///
    /// # Errors
    /// The problem with a block or a setting, and its fix.
    fn adopt_pytorch(&self, _exchanged: ExternalParameters) -> Result<Parameters, String> {
        Err(format!(
            "models of kind `{}` are not imported from files of other programs; train them here",
            self.name()
        ))
    }

    /// Returns the same model for inputs in another order: the input at `order[i]` comes to place
    /// i. `None` if inputs of this kind have fixed places, as pixels have.
    fn reorder(&self, _: &Parameters, _order: &[usize]) -> Option<Parameters> {
        None
    }

    /// Returns how many 64-bit values a record of a training batch takes on its way through the
    /// model, without its features.
    fn values(&self, spec: &SubModelSpec, _features: usize) -> u64 {
        u64::from(spec.width())
    }

    /// Returns the same number for a record of a pass without a gradient.
    fn values_looked_at(&self, spec: &SubModelSpec, features: usize) -> u64 {
        self.values(spec, features)
    }

    /// Returns the largest magnitude that an output of an honest party can have after this many
    /// updates from the start; infinity if no bound is known. The coordinator refuses an active
    /// party whose shares exceed it (docs/protection.md): a kind without a bound loses that check.
    fn largest_output(
        &self,
        config: &TrainingConfig,
        spec: &SubModelSpec,
        features: u32,
        updates: u64,
    ) -> f64;
}

/// A sub-model as a file of another program describes it.
#[derive(Clone)]
pub struct ExternalParameters {
    /// Settings of the kind, as far as they are given.
    pub settings: Settings,
    /// Number of features d.
    pub features: usize,
    /// All blocks of parameters.
    pub blocks: Vec<Block>,
    /// The names of the layers in the order in which they are used, if the file says it.
    pub layers: Option<Vec<String>>,
}

/// The parameters of one sub-model, as they are stored.
#[derive(Clone, PartialEq)]
pub struct Parameters {
    /// Kind, settings and output width.
    pub spec: SubModelSpec,
    /// Number of features d.
    pub features: usize,
    /// All blocks, including running statistics.
    pub blocks: Vec<Block>,
}

/// One stored block of parameters.
#[derive(Clone, PartialEq)]
pub struct Block {
    /// Its name within the model.
    pub name: String,
    /// Its dimensions, the outermost first.
    pub shape: Vec<usize>,
    /// Values, row by row.
    pub values: Vec<f64>,
}

impl fmt::Debug for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { spec, features, blocks } = self;
        let (kind, width, blocks) = (spec.kind(), spec.width(), blocks.len());
        write!(f, "Parameters({kind}, {width} × {features}, {blocks} blocks, values withheld)")
    }
}

impl Parameters {
    /// Takes the parameters of a sub-model, with the values of a snapshot of it.
    #[must_use]
    pub fn of(model: &dyn SubModel, values: Vec<Vec<f64>>) -> Self {
        let blocks = model
            .tensors()
            .into_iter()
            .zip(values)
            .map(|(tensor, values)| Block {
                name: tensor.name.into_owned(),
                shape: tensor.shape,
                values,
            })
            .collect();
        Self { spec: model.spec().clone(), features: model.features(), blocks }
    }

    /// Returns the same parameters with the rows of the first block, one per feature, in this
    /// order.
    pub(super) fn with_rows_of_first(&self, order: &[usize]) -> Self {
        let mut reordered = self.clone();
        if let Some(block) = reordered.blocks.first_mut() {
            let row = block.values.len() / self.features.max(1);
            let values = order
                .iter()
                .flat_map(|&from| &block.values[from * row..(from + 1) * row])
                .copied()
                .collect();
            block.values = values;
        }
        reordered
    }

    /// Copies the values into a model that was started with the same specification.
    ///
    /// # Errors
    /// [`SpecError::Parameters`] if names or shapes are not those of `model`.
    pub fn put_into(&self, model: &mut dyn SubModel) -> Result<(), SpecError> {
        let wrong =
            |reason: String| SpecError::Parameters { kind: self.spec.kind().to_owned(), reason };
        let tensors = model.tensors_mut();
        if tensors.len() != self.blocks.len() {
            return Err(wrong(format!("{} blocks, expected {}", self.blocks.len(), tensors.len())));
        }
        for tensor in tensors {
            let block = self.blocks.iter().find(|block| *block.name == *tensor.name);
            let block =
                block.ok_or_else(|| wrong(format!("block `{}` is missing", tensor.name)))?;
            if tensor.shape != block.shape || tensor.values.len() != block.values.len() {
                let (name, found, expected) = (&block.name, &block.shape, &tensor.shape);
                return Err(wrong(format!(
                    "block `{name}` has shape {found:?}, expected {expected:?}"
                )));
            }
            tensor.values.copy_from_slice(&block.values);
        }
        Ok(())
    }
}

impl From<&Parameters> for Parameters {
    fn from(parameters: &Parameters) -> Self {
        parameters.clone()
    }
}
