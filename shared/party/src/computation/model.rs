//! The model of a private training: its settings in the computation, and the parameters that its
//! numbers there stand for.

use nalgebra::{DMatrix, DVector};
use sha2::{Digest, Sha256};
use vfl_core::model::contract::{Block, InitialSeed, Parameters};
use vfl_core::model::{
    Activation, HiddenLayers, LinearParameters, Link, Schedule, SubModelSpec, TrainingConfig, kinds,
};
use vfl_mpc::{Family, FixedPoint, LARGEST_FEATURE, Network, Regression};
use vfl_numerics::Whitening;
use vfl_protocol::Refusal;

use super::labels::TrainingLabels;

/// The most fraction bits of numbers.
const FRACTION_BITS: u32 = 20;
/// The most bits of a sum of products over records.
const SUM_BITS: u32 = 60;
/// The most hidden units of all parties' networks.
const MAX_UNITS: usize = 2048;
/// The largest count, over the mean of all counts.
const LARGEST_COUNT: f64 = 1000.0;
/// The largest magnitude of a weight of whitened features on a number of mean square 1.
const LARGEST_WEIGHT: f64 = 1e4;
/// The largest magnitude of a network's parameter, far beyond those of any training that has not
/// diverged.
const LARGEST_PARAMETER: f64 = 1e6;

/// The model that parties train on shares.
#[derive(Debug, Clone)]
pub(super) enum PrivateModel {
    /// A regression of classes or of a number.
    Regression {
        /// The settings of the computation.
        regression: Regression,
        /// The link, of which softmax is of classes.
        link: Link,
        /// The unit of the labels.
        label_scale: f64,
    },
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

/// The unit of labels in a computation: they are `scale` t + `origin` of those there, and so are
/// the predictors.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabelUnit {
    pub(super) scale: f64,
    /// Known to the active party; 0 elsewhere.
    pub(super) origin: f64,
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
        let fixed = fixed_point(records, 0)?;
        let (epochs, patience) = (values.epochs as usize, values.patience as usize);
        let validation = schedule.validation().len();
        let Some(layers) = values.model.private_layers().map_err(|expected| {
            Refusal::invalid(format!("the model of a private training is of {expected}"))
        })?
        else {
            let link = values.model.link().map_err(|e| wrong(&e))?;
            let family = match link {
                Link::Identity => Family::Gaussian,
                Link::Log => Family::Poisson,
                Link::Softmax | Link::OneVsRest | Link::Logit => Family::Multinomial,
            };
            if link.is_numeric() != (classes == 1) {
                return Err(Refusal::invalid(format!(
                    "a model of link {link} is not one of {classes} outputs: a number has one, and scores have two or more"
                )));
            }
            if (link == Link::Identity) != values.label_scale.is_some() {
                return Err(Refusal::invalid(
                    "`label_scale` in the training is of the link identity, which needs it",
                ));
            }
            let fixed = fixed_point(records, family.score_bits())?;
            let regression = Regression {
                family,
                epochs,
                penalty: values.l2,
                free: 1,
                blocks: parties,
                validation,
                patience,
                fixed,
            };
            let label_scale = values.label_scale.unwrap_or(1.0);
            return Ok(Self::Regression { regression, link, label_scale });
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
            Self::Regression { link: Link::Softmax, .. } => b"cloison private softmax regression 1",
            Self::Regression { .. } => b"cloison private regression of a number 1",
            Self::Networks { .. } => b"cloison private networks 1",
        }
    }

    pub(super) fn fixed(&self) -> FixedPoint {
        match self {
            Self::Regression { regression, .. } => regression.fixed,
            Self::Networks { network, .. } => network.fixed,
        }
    }

    /// Returns the number of records that validate.
    pub(super) fn validation(&self) -> usize {
        match self {
            Self::Regression { regression, .. } => regression.validation,
            Self::Networks { network, .. } => network.validation,
        }
    }

    /// Returns the labels of records as the computation takes them, record after record and class
    /// after class, and the origin of their unit.
    ///
    /// # Errors
    /// FAILED_PRECONDITION for numbers that this model cannot be trained on.
    pub(super) fn labels(
        &self,
        labels: TrainingLabels<'_>,
        (order, classes): (&[usize], usize),
    ) -> Result<(Vec<f64>, f64), Refusal> {
        let (link, label_scale) = match self {
            Self::Regression { link, label_scale, .. } => (*link, *label_scale),
            Self::Networks { .. } => (Link::Softmax, 1.0),
        };
        match (labels, link) {
            (TrainingLabels::Classes(labels), Link::Softmax) => {
                let of_class = |class: usize| {
                    let is = move |at: &usize| labels.get(*at) == Some(&(class as u32));
                    order.iter().map(move |at| f64::from(u8::from(is(at))))
                };
                Ok(((0..classes).flat_map(of_class).collect(), 0.0))
            }
            (TrainingLabels::Numbers(numbers), Link::Identity) => {
                let mean = mean(numbers);
                let of = |at: &usize| {
                    numbers.get(*at).map_or(f64::NAN, |number| (number - mean) / label_scale)
                };
                Ok((order.iter().map(of).collect(), mean))
            }
            (TrainingLabels::Numbers(numbers), Link::Log) => {
                let mean = mean(numbers);
                let fits = |v: &f64| (0.0..=LARGEST_COUNT * mean).contains(v);
                if mean.is_nan() || mean <= 0.0 || !numbers.iter().all(fits) {
                    return Err(Refusal::precondition(format!(
                        "link `log` takes labels of at least 0, of which none exceeds {LARGEST_COUNT} times their mean; take link \
                         `identity` for others"
                    )));
                }
                let of = |at: &usize| numbers.get(*at).map_or(f64::NAN, |number| number / mean);
                Ok((order.iter().map(of).collect(), mean.ln()))
            }
            _ => Err(Refusal::invalid(
                "the labels of this party are not those of the model: `generalized_linear` is of a label with `kind = \"number\"`",
            )),
        }
    }

    /// Returns the scale of the labels' unit.
    pub(super) fn label_scale(&self) -> f64 {
        match self {
            Self::Regression { label_scale, .. } => *label_scale,
            Self::Networks { .. } => 1.0,
        }
    }

    /// Returns whitened features as the computation takes them.
    pub(super) fn prepare(&self, whitened: &[f64], records: usize) -> Vec<f64> {
        match self {
            Self::Regression { regression, .. } => regression.prepare(whitened, records),
            Self::Networks { .. } => {
                let cut = |x: &f64| x.clamp(-LARGEST_FEATURE, LARGEST_FEATURE);
                whitened.iter().map(cut).collect()
            }
        }
    }

    /// Returns the factor between the weights of prepared and of whitened features.
    pub(super) fn scale(&self, records: usize) -> f64 {
        match self {
            Self::Regression { regression, .. } => regression.feature_scale(records),
            Self::Networks { .. } => 1.0,
        }
    }

    /// Returns the largest magnitude of an opened number. Predictors of classes saturate and those
    /// of networks are checked as parameters; those of a number may leave the ring.
    pub(super) fn largest_opened(&self) -> f64 {
        match self {
            Self::Regression { link, .. } if link.is_numeric() => LARGEST_WEIGHT,
            _ => f64::INFINITY,
        }
    }

    /// Returns the number of parameters in the computation of a party with so many features.
    pub(super) fn parameters(&self, features: usize, classes: usize) -> usize {
        match self {
            Self::Regression { .. } => features * classes,
            Self::Networks { network, .. } => network.parameters(features, classes),
        }
    }

    /// Returns the most numbers of a step that wait at one party for another.
    pub(super) fn numbers_of_a_step(&self, parties: usize) -> usize {
        match self {
            Self::Regression { .. } => 0,
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

    /// Returns a party's weights in a regression from its opened numbers, in the labels' unit.
    fn own_regression(
        &self,
        link: Link,
        whitening: &Whitening,
        opened: &[f64],
        (records, classes, features): (usize, usize, usize),
    ) -> OwnWeights {
        let weights = DMatrix::from_column_slice(classes, features, opened);
        let of_whitened = weights.columns(0, whitening.rank()) * self.scale(records);
        let (weights, offset) = whitening.weights_of_features(&of_whitened);
        let spec = SubModelSpec::linear(link, classes as u32);
        OwnWeights { features, blocks: vec![weights_block("weights", &weights)], spec, offset }
    }

    /// Returns a party's parameters from its opened numbers.
    pub(super) fn own_weights(
        &self,
        whitening: &Whitening,
        opened: &[f64],
        (records, classes, features): (usize, usize, usize),
    ) -> OwnWeights {
        let (network, layers, spec) = match self {
            Self::Networks { network, layers, spec } => (network, layers, spec),
            Self::Regression { link, .. } => {
                return self.own_regression(*link, whitening, opened, (records, classes, features));
            }
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

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// Returns the representation of numbers for so many records, with some bits left free.
fn fixed_point(records: usize, free: u32) -> Result<FixedPoint, Refusal> {
    let scale = records.max(2).next_power_of_two().trailing_zeros() + free;
    let bits = FRACTION_BITS.min(SUM_BITS.saturating_sub(scale) / 2);
    FixedPoint::new(bits).map_err(|e| Refusal::invalid(e.to_string()))
}

impl OwnWeights {
    /// Returns the parameters with the common bias, which the active party alone has, for labels
    /// in their own units; `None` if they cannot be what a training ends with.
    pub(super) fn with_bias(
        self,
        bias: Option<DVector<f64>>,
        LabelUnit { scale, origin }: LabelUnit,
    ) -> Option<Parameters> {
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
        let weights = DMatrix::from_vec(spec.width() as usize, features, weights) * scale;
        let bias = bias.map(|bias| (bias * scale).add_scalar(origin));
        let linear = LinearParameters::new(weights, bias).ok()?;
        Some(Parameters { spec, ..Parameters::from(&linear) })
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
