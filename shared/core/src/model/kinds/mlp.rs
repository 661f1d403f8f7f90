//! A perceptron: hidden layers a_l = φ(W_l a_{l−1} + b_l) from a_0 = x, and outputs W a + b of the
//! last of them, with b at the active party alone (J 6.1: two hidden layers of 8 and φ = sigmoid;
//! under the combiner `sum` the outputs are logit shares).

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::layers::Layers;
use super::pytorch::{Dense, check_inputs, dense_layers, linear};
use crate::model::affine::affine;
use crate::model::contract::{
    BackwardError, Block, ExternalParameters, Gradients, Kind, ParameterRole, Parameters,
    Parametrised, SubModel, SubModelOrigin, Tensor,
};
use crate::model::mlp_settings::{DEFAULT_ACTIVATION, MlpSettings};
use crate::model::optimiser::ADAM_REACH;
use crate::model::{
    Activation, DenseLayer, Pass, Settings, SpecError, SubModelSpec, TrainingConfig,
};
use crate::types::{LogitShare, ShapeError};

/// The entry of the kind in the register.
pub(super) struct MlpKind;

/// The name in configurations, messages and files.
const NAME: &str = "mlp";

impl Kind for MlpKind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, settings: &Settings) -> Result<(), String> {
        MlpSettings::read(settings).map(|_| ())
    }

    fn start(&self, origin: &SubModelOrigin) -> Result<Box<dyn SubModel>, SpecError> {
        let mut model = Mlp::zeros(&origin.spec, origin.features, origin.active)?;
        // Roles draw from different streams, so that equal shapes do not start equal.
        let mut rng = ChaCha20Rng::from_seed(origin.start);
        rng.set_stream(if origin.active { 1 } else { 2 });
        for layer in &mut model.layers {
            let reach = start_reach(layer.weights.ncols(), layer.weights.nrows());
            layer.weights.iter_mut().for_each(|w| *w = reach * (2.0 * rng.random::<f64>() - 1.0));
        }
        Ok(Box::new(model))
    }

    fn restore(&self, parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
        // Every layer has weights and a bias, except the last one of a passive party.
        let active = parameters.blocks.len().is_multiple_of(2);
        let mut model = Mlp::zeros(&parameters.spec, parameters.features, active)?;
        parameters.put_into(&mut model)?;
        Ok(Box::new(model))
    }

    fn tells_records_apart(&self) -> bool {
        true
    }

    /// Returns the blocks of an `nn.Sequential`: `0.weight`, `0.bias`, `2.weight`, … with the
    /// activations between them.
    fn to_pytorch(&self, parameters: &Parameters) -> Vec<Block> {
        let mut blocks = parameters.blocks.iter().peekable();
        let mut exchanged = Vec::new();
        let mut place = 0;
        while let Some(weights) = blocks.next() {
            let bias = blocks.next_if(|block| block.shape.len() == 1);
            exchanged.extend(linear(&place.to_string(), weights, bias));
            place += 2;
        }
        exchanged
    }

    fn complete(&self, settings: &Settings) -> Settings {
        let mut complete = settings.clone();
        complete.entry("activation").or_insert_with(|| DEFAULT_ACTIVATION.into());
        complete
    }

    /// Takes the widths of the layers from the blocks. Hidden layers without a bias get one of
    /// zeros.
    fn adopt_pytorch(&self, exchanged: ExternalParameters) -> Result<Parameters, String> {
        let ExternalParameters { mut settings, features, blocks, layers } = exchanged;
        let mut layers = dense_layers(blocks, layers.as_deref())?;
        check_inputs(&layers, features)?;
        let width = layers.last().ok_or("it has no layers")?.outputs;
        let hidden: Vec<usize> =
            layers.iter().rev().skip(1).rev().map(|layer| layer.outputs).collect();
        if !hidden.is_empty() && !settings.contains_key("activation") {
            return Err(
                "settings: `activation` is missing, which the parameters do not tell: sigmoid, tanh or relu".into()
            );
        }
        let found = serde_json::json!(hidden);
        if let Some(said) =
            settings.insert("hidden".into(), found.clone()).filter(|said| *said != found)
        {
            return Err(format!(
                "settings: `hidden` is {said}, and the layers have widths {found}; leave it out"
            ));
        }
        MlpSettings::read(&settings)?;
        let last = layers.len() - 1;
        let mut named = Vec::new();
        for (at, Dense { inputs, outputs, weights, bias }) in layers.drain(..).enumerate() {
            let shape = vec![inputs, outputs];
            named.push(Block { name: name("weights", at + 1).into(), shape, values: weights });
            if let Some(values) = bias.or_else(|| (at < last).then(|| vec![0.0; outputs])) {
                named.push(Block {
                    name: name("bias", at + 1).into(),
                    shape: vec![outputs],
                    values,
                });
            }
        }
        let width = u32::try_from(width).unwrap_or(u32::MAX);
        let spec = SubModelSpec::new(NAME, width, settings).map_err(|e| e.to_string())?;
        Ok(Parameters { spec, features, blocks: named })
    }

    fn reorder(&self, parameters: &Parameters, order: &[usize]) -> Option<Parameters> {
        Some(parameters.with_rows_of_first(order))
    }

    fn values(&self, spec: &SubModelSpec, _: usize) -> u64 {
        MlpSettings::read(spec.settings())
            .map_or(u64::MAX, |settings| settings.values(spec.width() as usize))
    }

    /// Uses that features lie in [0, 1], weights start within [`start_reach`], biases start at 0,
    /// and an update moves each by at most [`ADAM_REACH`] step sizes.
    fn largest_output(
        &self,
        config: &TrainingConfig,
        spec: &SubModelSpec,
        features: u32,
        updates: u64,
    ) -> f64 {
        let Ok(settings) = MlpSettings::read(spec.settings()) else { return f64::INFINITY };
        let moved = ADAM_REACH * config.values().learning_rate * updates as f64;
        let (mut inputs, mut largest) = (features as usize, 1.0);
        for (outputs, activation) in settings.layers(spec.width() as usize) {
            let weight = start_reach(inputs, outputs) + moved;
            largest = inputs as f64 * weight * largest + moved;
            largest = match activation {
                // σ(0) is ½, however small the layer's inputs are.
                Some(Activation::Sigmoid) => 1.0,
                Some(Activation::Tanh) => largest.min(1.0),
                _ => largest,
            };
            inputs = outputs;
        }
        largest
    }
}

/// The largest number of weights in all layers: 64 MiB, and as much for each of Adam's moments,
/// gradients and checkpoint.
const MOST_WEIGHTS: usize = 1 << 23;

/// Returns the bound r of initial weights, which are uniform in [−r, r]: with it the variance of
/// the values is kept from layer to layer, forwards and backwards (Glorot and Bengio 2010, (16)).
fn start_reach(inputs: usize, outputs: usize) -> f64 {
    (6.0 / (inputs + outputs).max(1) as f64).sqrt()
}

#[derive(Debug)]
struct Layer {
    /// Outputs × inputs.
    weights: DMatrix<f64>,
    bias: Option<DVector<f64>>,
    /// `None` for the last layer.
    activation: Option<Activation>,
}

/// A party's perceptron.
struct Mlp {
    spec: SubModelSpec,
    features: usize,
    layers: Vec<Layer>,
    /// The inputs of each layer for the last training batch.
    batch: Option<Vec<DMatrix<f64>>>,
}

impl std::fmt::Debug for Mlp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let widths: Vec<usize> = self.layers.iter().map(|layer| layer.weights.nrows()).collect();
        write!(f, "Mlp({} features, layers of {widths:?}, values withheld)", self.features)
    }
}

impl Mlp {
    /// Creates a model with all parameters 0.
    fn zeros(spec: &SubModelSpec, features: usize, active: bool) -> Result<Self, SpecError> {
        let settings = MlpSettings::read(spec.settings())
            .map_err(|reason| SpecError::Settings { kind: NAME.to_owned(), reason })?;
        let mut inputs = features;
        let each = settings.layers(spec.width() as usize).map(|(outputs, _)| {
            let weights = inputs.saturating_mul(outputs);
            inputs = outputs;
            weights
        });
        // This check comes before any allocation.
        let weights = each.fold(0, usize::saturating_add);
        if weights > MOST_WEIGHTS {
            let reason = format!(
                "{features} inputs, `hidden` and {} outputs make {weights} weights, {MOST_WEIGHTS} at most; make layers or `width` smaller",
                spec.width()
            );
            return Err(SpecError::Settings { kind: NAME.to_owned(), reason });
        }
        let mut inputs = features;
        let layers = settings
            .layers(spec.width() as usize)
            .map(|(outputs, activation)| {
                let weights = DMatrix::zeros(outputs, inputs);
                inputs = outputs;
                let bias = (activation.is_some() || active).then(|| DVector::zeros(outputs));
                Layer { weights, bias, activation }
            })
            .collect();
        Ok(Self { spec: spec.clone(), features, layers, batch: None })
    }

    /// Evaluates all layers and passes the inputs of each to `keep`.
    fn through(
        &self,
        block: &DMatrix<f64>,
        mut keep: impl FnMut(DMatrix<f64>),
    ) -> Result<LogitShare, ShapeError> {
        if block.nrows() != self.features {
            let (expected, got) = (self.features, block.nrows());
            return Err(ShapeError::Size {
                what: "feature block",
                unit: "features",
                expected,
                got,
            });
        }
        let mut a = block.clone();
        for layer in &self.layers {
            let mut z = affine(&layer.weights, layer.bias.as_ref(), &a);
            keep(a);
            if let Some(activation) = layer.activation {
                z.iter_mut().for_each(|v| *v = activation.of(*v));
            }
            a = z;
        }
        LogitShare::new(a)
    }

    fn check_gradient(
        &self,
        gradient: &DMatrix<f64>,
        kept: &[DMatrix<f64>],
    ) -> Result<(), ShapeError> {
        let size =
            |unit, expected, got| Err(ShapeError::Size { what: "gradient", unit, expected, got });
        let records = kept.first().map_or(0, DMatrix::ncols);
        let width = self.spec.width() as usize;
        if gradient.nrows() != width {
            return size("outputs", width, gradient.nrows());
        }
        if gradient.ncols() != records {
            return size("records", records, gradient.ncols());
        }
        Ok(())
    }

    /// Returns δ of the layer below, or for the first layer the gradient of the inputs. `delta` is
    /// δ of the layer at `place` (from 0), the gradient of its outputs before φ; `a` are its
    /// inputs.
    fn below(&self, place: usize, delta: &DMatrix<f64>, a: &DMatrix<f64>) -> DMatrix<f64> {
        let mut delta = self.layers[place].weights.tr_mul(delta);
        if let Some(activation) =
            place.checked_sub(1).and_then(|below| self.layers[below].activation)
        {
            delta.zip_apply(a, |slope, a| *slope *= activation.slope(a));
        }
        delta
    }
}

/// Returns the name of a block of the layer at this place, from 1.
fn name(what: &str, place: usize) -> std::borrow::Cow<'static, str> {
    format!("layer{place}.{what}").into()
}

impl Parametrised for Mlp {
    fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        let mut tensors = Vec::new();
        for (place, Layer { weights, bias, .. }) in (1..).zip(&self.layers) {
            let shape = vec![weights.ncols(), weights.nrows()];
            let values = weights.as_slice();
            tensors.push(Tensor {
                name: name("weights", place),
                shape,
                used: ParameterRole::Weight,
                values,
            });
            if let Some(bias) = bias {
                let values = bias.as_slice();
                tensors.push(Tensor {
                    name: name("bias", place),
                    shape: vec![bias.len()],
                    used: ParameterRole::Free,
                    values,
                });
            }
        }
        tensors
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        let mut tensors = Vec::new();
        for (place, Layer { weights, bias, .. }) in (1..).zip(&mut self.layers) {
            let shape = vec![weights.ncols(), weights.nrows()];
            let values = weights.as_mut_slice();
            tensors.push(Tensor {
                name: name("weights", place),
                shape,
                used: ParameterRole::Weight,
                values,
            });
            if let Some(bias) = bias {
                let shape = vec![bias.len()];
                let values = bias.as_mut_slice();
                tensors.push(Tensor {
                    name: name("bias", place),
                    shape,
                    used: ParameterRole::Free,
                    values,
                });
            }
        }
        tensors
    }
}

impl SubModel for Mlp {
    fn spec(&self) -> &SubModelSpec {
        &self.spec
    }

    fn features(&self) -> usize {
        self.features
    }

    fn outputs(&self, block: &DMatrix<f64>) -> Result<LogitShare, ShapeError> {
        self.through(block, drop)
    }

    fn forward(&mut self, batch: DMatrix<f64>) -> Result<LogitShare, ShapeError> {
        let mut kept = Vec::with_capacity(self.layers.len());
        let outputs = self.through(&batch, |a| kept.push(a))?;
        self.batch = Some(kept);
        Ok(outputs)
    }

    fn pass(&self) -> Option<Box<dyn Pass + '_>> {
        let layers = self.layers.iter().fold(
            Layers::default(),
            |layers, Layer { weights, bias, activation }| {
                layers.then(weights, bias.as_ref(), *activation)
            },
        );
        Some(Box::new(layers))
    }

    fn layers(&self) -> Option<Vec<DenseLayer<'_>>> {
        let layers = self.layers.iter().map(|layer| DenseLayer {
            weights: &layer.weights,
            bias: layer.bias.as_ref(),
            activation: layer.activation,
        });
        Some(layers.collect())
    }

    /// Goes from the last layer to the first. With δ the gradient of a layer's outputs before φ,
    /// the gradients are δ aᵀ for its weights, δ 1 for its bias, and Wᵀ δ ⊙ φ' for the layer below.
    fn backward(
        &mut self,
        gradient: &DMatrix<f64>,
        inputs: bool,
    ) -> Result<Gradients, BackwardError> {
        let mut kept = self.batch.take().ok_or(BackwardError::NoBatch)?;
        self.check_gradient(gradient, &kept)?;
        let mut delta = gradient.clone();
        let mut reversed = Vec::new();
        for (place, layer) in self.layers.iter().enumerate().rev() {
            // There is one for each layer.
            let Some(a) = kept.pop() else { break };
            if layer.bias.is_some() {
                reversed.push(delta.column_sum().as_slice().to_vec());
            }
            reversed.push(match gradient.ncols() {
                0 => vec![0.0; layer.weights.len()],
                _ => (&delta * a.transpose()).as_slice().to_vec(),
            });
            if place == 0 && !inputs {
                break;
            }
            delta = self.below(place, &delta, &a);
        }
        reversed.reverse();
        Ok(Gradients { parameters: reversed, inputs: inputs.then_some(delta) })
    }

    /// Sums ‖δ_i a_iᵀ‖² = ‖δ_i‖² ‖a_i‖² for the weights of a layer and ‖δ_i‖² for its bias.
    fn squared_norms(&self, gradient: &DMatrix<f64>) -> Result<Option<Vec<f64>>, BackwardError> {
        let kept = self.batch.as_ref().ok_or(BackwardError::NoBatch)?;
        self.check_gradient(gradient, kept)?;
        let mut squares = vec![0.0; gradient.ncols()];
        let mut delta = gradient.clone();
        for (place, (layer, a)) in self.layers.iter().zip(kept).enumerate().rev() {
            let bias = f64::from(u8::from(layer.bias.is_some()));
            for ((square, delta), a) in
                squares.iter_mut().zip(delta.column_iter()).zip(a.column_iter())
            {
                *square += delta.norm_squared() * (a.norm_squared() + bias);
            }
            if place > 0 {
                delta = self.below(place, &delta, a);
            }
        }
        Ok(Some(squares))
    }
}

#[cfg(test)]
mod tests;
