//! The contracts of models: what a sub-model at a party does, what a head at the coordinator does, and what the register knows of
//! a kind of sub-model. Implementations are in [`kinds`](super::kinds), [`Sum`](super::Sum) and
//! [`Concat`](super::Concat).
//!
//! One record is one column. A sub-model with d features and w outputs maps a block d × n to outputs w × n. The head maps the
//! outputs of all parties, the active party's first, to logits k × n.

use std::borrow::Cow;
use std::fmt;

use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;

use super::{Combiner, DenseLayer, LinearParameters, Pass, Settings, SpecError, SubModelSpec, TrainingConfig};
use crate::types::{LogitShare, Logits, OutputGradient, ShapeError};

/// What training does with a block of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Trained, and part of the penalty `l2 · Σ w²`.
    Weight,
    /// Trained and not penalised, such as a bias.
    Free,
    /// Not trained by gradients, such as a running mean.
    Statistic,
}

/// One block of parameters as a model holds it.
#[derive(Debug)]
pub struct Tensor<V> {
    /// Its name within the model.
    pub name: Cow<'static, str>,
    /// Its dimensions, the outermost first: values lie row by row.
    pub shape: Vec<usize>,
    /// What training does with it.
    pub used: Use,
    /// The values.
    pub values: V,
}

/// What has parameters. The blocks come in the same order every time.
///
/// Parameters are 64-bit. A model that computes in 32 bits keeps these as its master copy.
pub trait Parametrised {
    /// The parameters.
    fn tensors(&self) -> Vec<Tensor<&[f64]>>;

    /// The same, to be changed in place by an optimiser step, by a checkpoint that is restored, or by reading them from disk.
    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>>;

    /// A copy of all values: a checkpoint.
    fn snapshot(&self) -> Vec<Vec<f64>> {
        self.tensors().into_iter().map(|tensor| tensor.values.to_vec()).collect()
    }

    /// Puts the values of a [`Parametrised::snapshot`] of this very model back.
    fn put_back(&mut self, snapshot: &[Vec<f64>]) {
        for (tensor, values) in self.tensors_mut().into_iter().zip(snapshot) {
            tensor.values.copy_from_slice(values);
        }
    }
}

/// What a backward pass gives a party.
pub struct Gradients {
    /// One vector for each block that is not a [`Use::Statistic`], in the order of [`Parametrised::tensors`]: the gradient of the
    /// mean loss, without the penalty.
    pub parameters: Vec<Vec<f64>>,
    /// d × n: the gradient with respect to the inputs, if it was asked for.
    pub inputs: Option<DMatrix<f64>>,
}

/// One party's part of a model, in training and in service.
pub trait SubModel: Parametrised + fmt::Debug + Send + Sync {
    /// Kind, settings and output width.
    fn spec(&self) -> &SubModelSpec;

    /// Number of features d.
    fn features(&self) -> usize;

    /// The outputs (w × n) of a block (d × n), in service and where training only looks.
    ///
    /// A record's outputs are the same to the last bit whichever records are beside it: the coordinator knows a share by its bits.
    ///
    /// # Errors
    /// [`ShapeError`] for another number of features, or an output that is not finite.
    fn outputs(&self, block: &DMatrix<f64>) -> Result<LogitShare, ShapeError>;

    /// The outputs of a training batch. Remembers what [`SubModel::backward`] needs, and moves running statistics.
    ///
    /// # Errors
    /// As [`SubModel::outputs`].
    fn forward(&mut self, batch: DMatrix<f64>) -> Result<LogitShare, ShapeError>;

    /// The gradients of the mean loss, from its gradient with respect to the outputs (w × n) of the last [`SubModel::forward`].
    /// Takes what forward remembered. Changes no parameter.
    ///
    /// # Errors
    /// [`BackwardError`] without a forward pass before it, or for another shape.
    fn backward(&mut self, gradient: &DMatrix<f64>, inputs: bool) -> Result<Gradients, BackwardError>;

    /// For each record of the last [`SubModel::forward`] the squared length of its part of the gradient of the parameters: what
    /// [`SubModel::backward`] would give for its column of `gradient` (w × n) alone, all blocks together. Leaves what forward
    /// remembered. `None`: the records of a batch are mixed, so that none has a part of its own.
    ///
    /// # Errors
    /// As [`SubModel::backward`].
    fn squared_norms(&self, _gradient: &DMatrix<f64>) -> Result<Option<Vec<f64>>, BackwardError> {
        Ok(None)
    }

    /// A pass in service over a block of records that is differentiated with respect to their features; [`SubModel::outputs`] to
    /// rounding. `None`: models of this kind have none.
    fn pass(&self) -> Option<Box<dyn Pass + '_>> {
        None
    }

    /// Its layers, the first one first, if it is a chain of dense ones. `None`: it is not.
    fn layers(&self) -> Option<Vec<DenseLayer<'_>>> {
        None
    }

    /// About how many multiplications the outputs of a record take.
    fn work(&self) -> u64 {
        self.tensors().iter().map(|tensor| tensor.values.len() as u64).sum()
    }

    /// The parameters, if the outputs are W x + b: what transforms, releases and `assess` take.
    fn linear(&self) -> Option<&LinearParameters> {
        None
    }
}

/// The coordinator's part of a model, in training and in service.
pub trait Head: Parametrised + fmt::Debug + Send + Sync {
    /// How it combines.
    fn combiner(&self) -> Combiner;

    /// Number of classes k.
    fn classes(&self) -> usize;

    /// Output widths of the parties that it takes, the active party's first.
    fn widths(&self) -> &[usize];

    /// Logits (k × n) of the parties' outputs, in service and where training only looks.
    ///
    /// # Errors
    /// [`ShapeError`] for other parties or widths, or a logit that is not finite.
    fn combine(&self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError>;

    /// Logits of a training batch. Remembers what [`Head::backward`] needs.
    ///
    /// # Errors
    /// As [`Head::combine`].
    fn forward(&mut self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError>;

    /// About how many multiplications the logits of a record take.
    fn work(&self) -> u64 {
        self.top().map_or(0, SubModel::work)
    }

    /// The top model, if there is one: what is stored of the head.
    fn top(&self) -> Option<&dyn SubModel> {
        None
    }

    /// From the gradient of the mean loss with respect to the logits (k × n) of the last [`Head::forward`]: one gradient for each
    /// party, and those of the head's own parameters. Takes what forward remembered. Changes no parameter.
    ///
    /// # Errors
    /// [`BackwardError`] without a forward pass before it, or for another shape.
    fn backward(&mut self, gradient: DMatrix<f64>) -> Result<HeadGradients, BackwardError>;
}

/// What a backward pass through the head gives.
pub struct HeadGradients {
    /// With respect to each party's outputs, the active party's first.
    pub parties: Vec<OutputGradient>,
    /// One vector for each block of the head that is not a [`Use::Statistic`].
    pub parameters: Vec<Vec<f64>>,
}

/// Why there is no backward pass.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackwardError {
    /// Nothing was remembered.
    #[error("a gradient came without a batch before it")]
    NoBatch,
    /// A gradient of another shape than the outputs.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

/// How a sub-model starts.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Kind, settings and output width.
    pub spec: SubModelSpec,
    /// Number of features d.
    pub features: usize,
    /// Whether it is the active party's.
    pub active: bool,
    /// What first parameters are drawn from: [`start_of`] the training's seed, or random bytes of the party's own.
    pub start: Start,
}

/// What first parameters are drawn from.
pub type Start = [u8; 32];

/// The start that a training's seed gives. All parties know the seed.
#[must_use]
pub fn start_of(seed: u64) -> Start {
    ChaCha20Rng::seed_from_u64(seed).get_seed()
}

/// A kind of sub-model: what the register knows of it.
pub trait Kind: Sync {
    /// The name in configurations, messages and files: a-z, 0-9 and _.
    fn name(&self) -> &'static str;

    /// Checks settings.
    ///
    /// # Errors
    /// What is wrong and how to mend it.
    fn check(&self, settings: &Settings) -> Result<(), String>;

    /// Whether models of this kind have [`LinearParameters`].
    fn linear(&self) -> bool {
        false
    }

    /// Whether models of this kind have [`SubModel::squared_norms`]: training with differential privacy needs them.
    fn tells_records_apart(&self) -> bool {
        false
    }

    /// A model before its training.
    ///
    /// # Errors
    /// [`SpecError`] for a width or settings that do not go together.
    fn start(&self, origin: &Origin) -> Result<Box<dyn SubModel>, SpecError>;

    /// A model from its stored parameters.
    ///
    /// # Errors
    /// [`SpecError::Parameters`] if names or shapes are not those of this kind.
    fn restore(&self, parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError>;

    /// The parameters as PyTorch names them and lays them out. Default: as they are stored.
    fn to_pytorch(&self, parameters: &Parameters) -> Vec<Block> {
        parameters.blocks.clone()
    }

    /// The settings with all that the parameters do not tell, for readers that do not know the defaults. Default: as they are.
    fn complete(&self, settings: &Settings) -> Settings {
        settings.clone()
    }

    /// The parameters of blocks that PyTorch named and laid out. [`Kind::restore`] checks what comes of it. Default: none are taken.
    ///
    /// # Errors
    /// What is wrong with a block or a setting, and how to mend it.
    fn adopt_pytorch(&self, _exchanged: Exchanged) -> Result<Parameters, String> {
        Err(format!("models of kind `{}` are not imported from files of other programs; train them here", self.name()))
    }

    /// The same model of inputs in another order: the input at `order[i]` comes to place i. `None`: inputs of this kind have their
    /// places, as pixels have.
    fn reorder(&self, _: &Parameters, _order: &[usize]) -> Option<Parameters> {
        None
    }

    /// How many 64-bit values a record of a training batch takes on its way through the model of so many features, these not counted.
    fn values(&self, spec: &SubModelSpec, _features: usize) -> u64 {
        u64::from(spec.width())
    }

    /// The same of a record that training only looks at.
    fn values_looked_at(&self, spec: &SubModelSpec, features: usize) -> u64 {
        self.values(spec, features)
    }

    /// The largest magnitude that an output of an honest party can have after so many updates from the start; infinity if no bound
    /// is known. The coordinator refuses an active party whose shares pass it (SECURITY.md): a kind without a bound loses that
    /// check.
    fn largest_output(&self, config: &TrainingConfig, spec: &SubModelSpec, features: u32, updates: u64) -> f64;
}

/// What a file of another program says of a sub-model.
#[derive(Clone)]
pub struct Exchanged {
    /// Settings of the kind, as far as they are given.
    pub settings: Settings,
    /// Number of features d.
    pub features: usize,
    /// All blocks.
    pub blocks: Vec<Block>,
}

/// The parameters of one sub-model apart from it: what is stored.
#[derive(Clone, PartialEq)]
pub struct Parameters {
    /// Kind, settings and output width.
    pub spec: SubModelSpec,
    /// Number of features d.
    pub features: usize,
    /// All blocks, running statistics among them.
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
    /// Those of a sub-model, with the values of a snapshot of it.
    #[must_use]
    pub fn of(model: &dyn SubModel, values: Vec<Vec<f64>>) -> Self {
        let blocks = model
            .tensors()
            .into_iter()
            .zip(values)
            .map(|(tensor, values)| Block { name: tensor.name.into_owned(), shape: tensor.shape, values })
            .collect();
        Self { spec: model.spec().clone(), features: model.features(), blocks }
    }

    /// The same with the rows of the first block, which stand for features, in this order.
    pub(super) fn with_rows_of_first(&self, order: &[usize]) -> Self {
        let mut reordered = self.clone();
        if let Some(block) = reordered.blocks.first_mut() {
            let row = block.values.len() / self.features.max(1);
            let values = order.iter().flat_map(|&from| &block.values[from * row..(from + 1) * row]).copied().collect();
            block.values = values;
        }
        reordered
    }

    /// Puts the values into a model that was started with the same spec.
    ///
    /// # Errors
    /// [`SpecError::Parameters`] if names or shapes are not those of `model`.
    pub fn put_into(&self, model: &mut dyn SubModel) -> Result<(), SpecError> {
        let wrong = |reason: String| SpecError::Parameters { kind: self.spec.kind().to_owned(), reason };
        let tensors = model.tensors_mut();
        if tensors.len() != self.blocks.len() {
            return Err(wrong(format!("{} blocks, expected {}", self.blocks.len(), tensors.len())));
        }
        for tensor in tensors {
            let block = self.blocks.iter().find(|block| *block.name == *tensor.name);
            let block = block.ok_or_else(|| wrong(format!("block `{}` is missing", tensor.name)))?;
            if tensor.shape != block.shape || tensor.values.len() != block.values.len() {
                let (name, found, expected) = (&block.name, &block.shape, &tensor.shape);
                return Err(wrong(format!("block `{name}` has shape {found:?}, expected {expected:?}")));
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
