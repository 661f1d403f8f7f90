//! The model of a private training: its settings in the computation, and the parameters that its
//! numbers there stand for.

use nalgebra::{DMatrix, DVector};
use sha2::{Digest, Sha256};
use vfl_core::model::contract::{Block, InitialSeed, Parameters};
use vfl_core::model::{
    Activation, HiddenLayers, LinearParameters, Schedule, SubModelSpec, TrainingConfig, kinds,
};
use vfl_mpc::{FixedPoint, LARGEST_FEATURE, Network, Regression};
use vfl_numerics::Whitening;
use vfl_protocol::Refusal;

/// The most fraction bits of numbers.
const FRACTION_BITS: u32 = 20;
/// The most bits of a sum of products over records.
const SUM_BITS: u32 = 60;
/// The most hidden units of all parties' networks.
const MAX_UNITS: usize = 2048;
/// The largest magnitude of a network's parameter, far beyond those of any training that has not
/// diverged.
const LARGEST_PARAMETER: f64 = 1e6;

/// The model that parties train on shares.
#[derive(Debug, Clone)]
pub(super) enum PrivateModel {
    /// A softmax regression.
    Regression(Regression),
    /// A network at each party.
    Networks {
        /// The settings of the computation.
        network: Network,
        /// The hidden layers of each party.
        layers: HiddenLayers,
        /// The model of each party.
        spec: SubModelSpec,
    },
}

/// One party's parameters, without the common bias.
pub(super) struct OwnWeights {
    spec: SubModelSpec,
    features: usize,
    blocks: Vec<Block>,
    /// The bias that comes with them, one number for each class.
    pub(super) offset: DVector<f64>,
}

impl PrivateModel {
    /// Creates the model of a training in which so many parties have features.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a model that is not trained on shares, or is too large.
    pub(super) fn new(
        config: &TrainingConfig,
        (records, classes, parties): (usize, usize, usize),
        schedule: &Schedule,
    ) -> Result<Self, Refusal> {
        let wrong = |e: &dyn std::fmt::Display| Refusal::invalid(e.to_string());
        let values = config.values();
        let scale = records.max(2).next_power_of_two().trailing_zeros();
        let bits = FRACTION_BITS.min(SUM_BITS.saturating_sub(scale) / 2);
        let fixed = FixedPoint::new(bits).map_err(|e| wrong(&e))?;
        let (epochs, patience) = (values.epochs as usize, values.patience as usize);
        let validation = schedule.validation().len();
        let Some(layers) = values.model.private_layers().map_err(|expected| {
            Refusal::invalid(format!("the model of a private training is of {expected}"))
        })?
        else {
            let (penalty, blocks) = (values.l2, parties);
            let free = 1;
            let regression =
                Regression { epochs, penalty, free, blocks, validation, patience, fixed };
            return Ok(Self::Regression(regression));
        };
        let units = layers.widths.iter().sum::<usize>().saturating_mul(parties);
        if units > MAX_UNITS {
            return Err(Refusal::invalid(format!(
                "a private training of {parties} parties with `hidden` = {:?} has {units} hidden units, {MAX_UNITS} at most; \
                 make the layers smaller",
                layers.widths
            )));
        }
        let network = Network {
            epochs,
            batch: values.batch_size as usize,
            hidden: layers.widths.clone(),
            // A sigmoid is trained as tanh of half its input.
            activation: match layers.activation {
                Activation::Relu => vfl_mpc::Activation::Relu,
                Activation::Sigmoid | Activation::Tanh => vfl_mpc::Activation::Tanh,
            },
            penalty: values.l2,
            validation,
            patience,
            fixed,
        };
        let spec = values.model.sub_model(classes as u32).map_err(|e| wrong(&e))?;
        Ok(Self::Networks { network, layers, spec })
    }

    /// Returns the name of the program, for the parties' agreement. Another one has another name.
    pub(super) fn program(&self) -> &'static [u8] {
        match self {
            Self::Regression(_) => b"cloison private softmax regression 1",
            Self::Networks { .. } => b"cloison private networks 1",
        }
    }

    pub(super) fn fixed(&self) -> FixedPoint {
        match self {
            Self::Regression(regression) => regression.fixed,
            Self::Networks { network, .. } => network.fixed,
        }
    }

    /// Returns the number of records that validate.
    pub(super) fn validation(&self) -> usize {
        match self {
            Self::Regression(regression) => regression.validation,
            Self::Networks { network, .. } => network.validation,
        }
    }

    /// Returns whitened features as the computation takes them.
    pub(super) fn prepare(&self, whitened: &[f64], records: usize) -> Vec<f64> {
        match self {
            Self::Regression(regression) => regression.prepare(whitened, records),
            Self::Networks { .. } => {
                let cut = |x: &f64| x.clamp(-LARGEST_FEATURE, LARGEST_FEATURE);
                whitened.iter().map(cut).collect()
            }
        }
    }

    /// Returns the factor between the weights of prepared and of whitened features.
    pub(super) fn scale(&self, records: usize) -> f64 {
        match self {
            Self::Regression(regression) => regression.feature_scale(records),
            Self::Networks { .. } => 1.0,
        }
    }

    /// Returns the number of parameters in the computation of a party with so many features.
    pub(super) fn parameters(&self, features: usize, classes: usize) -> usize {
        match self {
            Self::Regression(_) => features * classes,
            Self::Networks { network, .. } => network.parameters(features, classes),
        }
    }

    /// Returns the most numbers of a step that wait at one party for another.
    pub(super) fn numbers_of_a_step(&self, parties: usize) -> usize {
        match self {
            Self::Regression(_) => 0,
            Self::Networks { network, layers, .. } => {
                // Batches have less than twice as many, the parts of a validation at most 1024.
                let records = (2 * network.batch).max(1024);
                32 * records * layers.widths.iter().sum::<usize>() * parties
            }
        }
    }

    /// Draws a party's first parameters; none of a regression, which begins at 0. The seed may be
    /// common to all: places draw different numbers.
    pub(super) fn start(
        &self,
        (seed, place): (&InitialSeed, usize),
        features: usize,
        classes: usize,
    ) -> Vec<f64> {
        let Self::Networks { network, .. } = self else { return Vec::new() };
        let seed = Sha256::new_with_prefix(seed).chain_update((place as u64).to_le_bytes());
        network.start(&seed.finalize().into(), features, classes)
    }

    /// Returns a party's parameters from its opened numbers.
    pub(super) fn own_weights(
        &self,
        whitening: &Whitening,
        opened: &[f64],
        (records, classes, features): (usize, usize, usize),
    ) -> OwnWeights {
        let Self::Networks { network, layers, spec } = self else {
            let weights = DMatrix::from_column_slice(classes, features, opened);
            let of_whitened = weights.columns(0, whitening.rank()) * self.scale(records);
            let (weights, offset) = whitening.weights_of_features(&of_whitened);
            let spec = SubModelSpec::softmax_regression(classes as u32);
            return OwnWeights {
                features,
                blocks: vec![weights_block("weights", &weights)],
                spec,
                offset,
            };
        };
        let sigmoid = layers.activation == Activation::Sigmoid;
        let (mut blocks, mut left) = (Vec::new(), opened);
        let mut offset = DVector::zeros(classes);
        for (at, shape) in network.layers(features, classes).into_iter().enumerate() {
            let (own, rest) = left.split_at(shape.parameters().min(left.len()));
            left = rest;
            let (weights, bias) = own.split_at(shape.weights().min(own.len()));
            let mut weights =
                DMatrix::from_column_slice(shape.inputs, shape.outputs, weights).transpose();
            let mut bias = match shape.hidden {
                true => DVector::from_column_slice(bias),
                false => DVector::zeros(shape.outputs),
            };
            if at == 0 {
                let of_whitened = weights.columns(0, whitening.rank()).into_owned();
                let (of_features, shift) = whitening.weights_of_features(&of_whitened);
                (weights, bias) = (of_features, bias + shift);
            } else if sigmoid {
                // tanh(z / 2) of the layer below is 2 σ(z) − 1.
                bias -= weights.column_sum();
                weights *= 2.0;
            }
            if sigmoid && shape.hidden {
                // tanh(u) is that of half of z = 2 u.
                (weights, bias) = (weights * 2.0, bias * 2.0);
            }
            blocks.push(weights_block(&format!("layer{}.weights", at + 1), &weights));
            match shape.hidden {
                true => blocks.push(bias_block(&format!("layer{}.bias", at + 1), &bias)),
                false => offset = bias,
            }
        }
        OwnWeights { spec: spec.clone(), features, blocks, offset }
    }
}

impl OwnWeights {
    /// Returns the parameters with the common bias, which the active party alone has; `None` if
    /// they cannot be what a training ends with.
    pub(super) fn with_bias(self, bias: Option<DVector<f64>>) -> Option<Parameters> {
        let Self { spec, features, mut blocks, .. } = self;
        if !kinds::is_linear(&spec) {
            if let Some(bias) = &bias {
                let name = format!("layer{}.bias", blocks.len().div_ceil(2));
                blocks.push(bias_block(&name, bias));
            }
            let values = blocks.iter().flat_map(|block| &block.values);
            let within = values.into_iter().all(|value| value.abs() <= LARGEST_PARAMETER);
            return within.then_some(Parameters { spec, features, blocks });
        }
        let weights = blocks.pop()?.values;
        let weights = DMatrix::from_vec(spec.width() as usize, features, weights);
        LinearParameters::new(weights, bias).ok().map(|linear| Parameters::from(&linear))
    }
}

/// Returns the block of the weights of a layer, outputs × inputs.
fn weights_block(name: &str, weights: &DMatrix<f64>) -> Block {
    let shape = vec![weights.ncols(), weights.nrows()];
    Block { name: name.to_owned(), shape, values: weights.as_slice().to_vec() }
}

fn bias_block(name: &str, bias: &DVector<f64>) -> Block {
    Block { name: name.to_owned(), shape: vec![bias.len()], values: bias.as_slice().to_vec() }
}
