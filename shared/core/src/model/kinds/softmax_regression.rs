//! Linear models of classes: outputs W x, and at the active party W x + b. Under the combiner `sum`
//! they are logit shares. The scores are softmax(z) in softmax regression, and σ(z) divided by its
//! sum over the classes in models of one class against the rest each.

use nalgebra::DMatrix;

use super::layers::Layers;
use super::pytorch::{self, Dense};
use crate::model::contract::{
    BackwardError, Block, ExternalParameters, Gradients, Kind, ParameterRole, Parameters,
    Parametrised, SubModel, SubModelOrigin, Tensor,
};
use crate::model::optimiser::ADAM_REACH;
use crate::model::{
    DenseLayer, LinearParameters, Pass, Settings, SpecError, SubModelSpec, TrainingConfig,
};
use crate::types::{LogitShare, ShapeError};

/// The entry of a linear kind of classes in the register.
pub(super) struct ClassesKind {
    pub(super) name: &'static str,
}

impl Kind for ClassesKind {
    fn name(&self) -> &'static str {
        self.name
    }

    fn check(&self, settings: &Settings) -> Result<(), String> {
        match settings.keys().next() {
            None => Ok(()),
            Some(key) => Err(format!("`{key}` is unknown: it has no settings")),
        }
    }

    fn linear(&self) -> bool {
        true
    }

    fn tells_records_apart(&self) -> bool {
        true
    }

    fn start(&self, origin: &SubModelOrigin) -> Result<Box<dyn SubModel>, SpecError> {
        Ok(LinearSubModel::start(origin))
    }

    fn restore(&self, parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
        match parameters.spec.width() {
            0 | 1 => Err(SpecError::Parameters {
                kind: self.name.to_owned(),
                reason: "it has one output, scores have at least 2 classes".to_owned(),
            }),
            _ => LinearSubModel::restore(parameters),
        }
    }

    /// Returns the blocks of an `nn.Linear`: `weight`, `bias`.
    fn to_pytorch(&self, parameters: &Parameters) -> Vec<Block> {
        to_linear(parameters)
    }

    fn adopt_pytorch(&self, exchanged: ExternalParameters) -> Result<Parameters, String> {
        adopt_linear(exchanged, self.name)
    }

    fn reorder(&self, parameters: &Parameters, order: &[usize]) -> Option<Parameters> {
        Some(parameters.with_rows_of_first(order))
    }

    fn largest_output(
        &self,
        config: &TrainingConfig,
        _: &SubModelSpec,
        features: u32,
        updates: u64,
    ) -> f64 {
        largest_linear_output(config, features, updates)
    }
}

/// A party's linear sub-model.
#[derive(Debug)]
pub(super) struct LinearSubModel {
    spec: SubModelSpec,
    parameters: LinearParameters,
    /// The last training batch, d × B.
    batch: Option<DMatrix<f64>>,
}

/// Converts an `nn.Linear` to parameters of a linear kind.
pub(super) fn adopt_linear(
    exchanged: ExternalParameters,
    kind: &str,
) -> Result<Parameters, String> {
    let ExternalParameters { settings, features, blocks, layers } = exchanged;
    let layers = pytorch::dense_layers(blocks, layers.as_deref())?;
    pytorch::check_inputs(&layers, features)?;
    let [Dense { inputs, outputs, weights, bias }] =
        <[Dense; 1]>::try_from(layers).map_err(|layers| {
            format!(
                "it has {} layers, a {} one; set `kind` to mlp",
                layers.len(),
                kind.replace('_', " ")
            )
        })?;
    let mut blocks =
        vec![Block { name: "weights".to_owned(), shape: vec![inputs, outputs], values: weights }];
    blocks.extend(bias.map(|values| Block {
        name: "bias".to_owned(),
        shape: vec![outputs],
        values,
    }));
    let width = u32::try_from(outputs).unwrap_or(u32::MAX);
    let spec = SubModelSpec::new(kind, width, settings).map_err(|e| e.to_string())?;
    Ok(Parameters { spec, features, blocks })
}

/// Returns the blocks of an `nn.Linear`: `weight`, `bias`.
pub(super) fn to_linear(parameters: &Parameters) -> Vec<Block> {
    let mut blocks = parameters.blocks.iter();
    let Some(weights) = blocks.next() else { return Vec::new() };
    let mut linear = pytorch::linear("", weights, blocks.next());
    linear.iter_mut().for_each(|block| block.name = block.name.trim_start_matches('.').to_owned());
    linear
}

/// Returns the largest magnitude of an output. Parameters start at 0, each weight and the bias move
/// by at most [`ADAM_REACH`] step sizes in an update, and features lie in [0, 1].
pub(super) fn largest_linear_output(config: &TrainingConfig, features: u32, updates: u64) -> f64 {
    ADAM_REACH * config.values().learning_rate * (f64::from(features) + 1.0) * updates as f64
}

impl LinearSubModel {
    /// Creates the sub-model before its training.
    pub(super) fn start(origin: &SubModelOrigin) -> Box<dyn SubModel> {
        let SubModelOrigin { spec, features, active, .. } = origin;
        let parameters = LinearParameters::zeros(spec.width() as usize, *features, *active);
        Box::new(Self { spec: spec.clone(), parameters, batch: None })
    }

    /// Creates the sub-model from its stored parameters.
    pub(super) fn restore(parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
        let Parameters { spec, features, blocks } = parameters;
        let active = blocks.len() > 1;
        let mut model = Self {
            spec: spec.clone(),
            parameters: LinearParameters::zeros(spec.width() as usize, *features, active),
            batch: None,
        };
        parameters.put_into(&mut model)?;
        Ok(Box::new(model))
    }

    fn check_gradient(
        &self,
        gradient: &DMatrix<f64>,
        batch: &DMatrix<f64>,
    ) -> Result<(), ShapeError> {
        let size =
            |unit, expected, got| Err(ShapeError::Size { what: "gradient", unit, expected, got });
        if gradient.nrows() != self.parameters.classes() {
            return size("classes", self.parameters.classes(), gradient.nrows());
        }
        if gradient.ncols() != batch.ncols() {
            return size("records", batch.ncols(), gradient.ncols());
        }
        Ok(())
    }
}

impl Parametrised for LinearSubModel {
    fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        let (k, d) = (self.parameters.classes(), self.parameters.features());
        let weights = self.parameters.weights().as_slice();
        let mut tensors = vec![Tensor {
            name: "weights".into(),
            shape: vec![d, k],
            used: ParameterRole::Weight,
            values: weights,
        }];
        if let Some(bias) = self.parameters.bias() {
            let values = bias.as_slice();
            tensors.push(Tensor {
                name: "bias".into(),
                shape: vec![k],
                used: ParameterRole::Free,
                values,
            });
        }
        tensors
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        let (k, d) = (self.parameters.classes(), self.parameters.features());
        let (weights, bias) = self.parameters.parts_mut();
        let values = weights.as_mut_slice();
        let mut tensors = vec![Tensor {
            name: "weights".into(),
            shape: vec![d, k],
            used: ParameterRole::Weight,
            values,
        }];
        if let Some(bias) = bias {
            let values = bias.as_mut_slice();
            tensors.push(Tensor {
                name: "bias".into(),
                shape: vec![k],
                used: ParameterRole::Free,
                values,
            });
        }
        tensors
    }
}

impl SubModel for LinearSubModel {
    fn spec(&self) -> &SubModelSpec {
        &self.spec
    }

    fn features(&self) -> usize {
        self.parameters.features()
    }

    fn outputs(&self, block: &DMatrix<f64>) -> Result<LogitShare, ShapeError> {
        self.parameters.share_of(block)
    }

    fn forward(&mut self, batch: DMatrix<f64>) -> Result<LogitShare, ShapeError> {
        let share = self.parameters.share_of(&batch)?;
        self.batch = Some(batch);
        Ok(share)
    }

    fn pass(&self) -> Option<Box<dyn Pass + '_>> {
        let (weights, bias) = (self.parameters.weights(), self.parameters.bias());
        Some(Box::new(Layers::default().then(weights, bias, None)))
    }

    fn layers(&self) -> Option<Vec<DenseLayer<'_>>> {
        let (weights, bias) = (self.parameters.weights(), self.parameters.bias());
        Some(vec![DenseLayer { weights, bias, activation: None }])
    }

    /// Computes G Xᵀ for the weights, G 1 for the bias, Wᵀ G for the inputs.
    fn backward(
        &mut self,
        gradient: &DMatrix<f64>,
        inputs: bool,
    ) -> Result<Gradients, BackwardError> {
        let batch = self.batch.take().ok_or(BackwardError::NoBatch)?;
        self.check_gradient(gradient, &batch)?;
        let weights = match batch.is_empty() {
            true => vec![0.0; self.parameters.weights().len()],
            false => (gradient * batch.transpose()).as_slice().to_vec(),
        };
        let mut parameters = vec![weights];
        if self.parameters.bias().is_some() {
            parameters.push(gradient.column_sum().as_slice().to_vec());
        }
        let inputs = inputs.then(|| self.parameters.weights().tr_mul(gradient));
        Ok(Gradients { parameters, inputs })
    }

    /// Sums ‖G_i x_iᵀ‖² = ‖G_i‖² ‖x_i‖² for the weights and ‖G_i‖² for the bias.
    fn squared_norms(&self, gradient: &DMatrix<f64>) -> Result<Option<Vec<f64>>, BackwardError> {
        let batch = self.batch.as_ref().ok_or(BackwardError::NoBatch)?;
        self.check_gradient(gradient, batch)?;
        let bias = f64::from(u8::from(self.parameters.bias().is_some()));
        let records = gradient.column_iter().zip(batch.column_iter());
        Ok(Some(records.map(|(g, x)| g.norm_squared() * (x.norm_squared() + bias)).collect()))
    }

    fn linear(&self) -> Option<&LinearParameters> {
        Some(&self.parameters)
    }
}

impl From<&LinearParameters> for Parameters {
    fn from(linear: &LinearParameters) -> Self {
        let (k, d) = (linear.classes(), linear.features());
        let block = |name: &str, shape, values: &[f64]| Block {
            name: name.to_owned(),
            shape,
            values: values.to_vec(),
        };
        let mut blocks = vec![block("weights", vec![d, k], linear.weights().as_slice())];
        blocks.extend(linear.bias().map(|bias| block("bias", vec![k], bias.as_slice())));
        Self { spec: SubModelSpec::softmax_regression(k as u32), features: d, blocks }
    }
}
