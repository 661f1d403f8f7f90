//! The residual network of P for parts of images: a convolution, three stages of three blocks, and
//! the mean over pixels, 64 values. They are the outputs if `width` is 64; otherwise a last linear
//! layer maps them to `width` outputs, with a bias at the active party alone.
//!
//! The features of a record lie channel by channel, row by row. The model computes in 32 bits; its
//! parameters are 64-bit.

mod backward;
mod batch_norm;
mod columns;
mod convolution;
mod linear;
mod maps;
mod network;
mod pass;
mod settings;
#[cfg(test)]
mod tests;
mod trace;

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use self::maps::{Maps, Real, narrowed, widened};
use self::network::Network;
use self::pass::NetworkPass;
use self::settings::ResidualSettings;
use self::trace::Trace;
use crate::model::contract::{
    BackwardError, ExternalParameters, Gradients, Kind, Parameters, Parametrised, SubModel,
    SubModelOrigin, Tensor,
};
use crate::model::{Pass, Settings, SpecError, SubModelSpec, TrainingConfig};
use crate::types::{LogitShare, ShapeError};

/// The entry of the kind in the register.
pub(super) struct ResidualKind;

/// The name in configurations, messages and files.
const NAME: &str = "residual";

impl Kind for ResidualKind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, settings: &Settings) -> Result<(), String> {
        ResidualSettings::read(settings).map(|_| ())
    }

    fn start(&self, origin: &SubModelOrigin) -> Result<Box<dyn SubModel>, SpecError> {
        Ok(Box::new(Residual::<f32>::start(origin)?))
    }

    fn restore(&self, parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
        let active = parameters.blocks.iter().any(|block| block.name == "linear.bias");
        let mut model = Residual::<f32>::zeros(&parameters.spec, parameters.features, active)?;
        parameters.put_into(&mut model)?;
        Ok(Box::new(model))
    }

    /// Takes the blocks under the names that PyTorch gives them. PyTorch's counts of batches are
    /// dropped.
    fn adopt_pytorch(&self, exchanged: ExternalParameters) -> Result<Parameters, String> {
        let ExternalParameters { settings, features, mut blocks, layers } = exchanged;
        if layers.is_some() {
            return Err(
                "`layers` in the metadata: the blocks of this kind have names of their own".into(),
            );
        }
        blocks.retain(|block| !block.name.ends_with("num_batches_tracked"));
        let variances = || blocks.iter().filter(|block| block.name.ends_with("running_var"));
        if let Some(block) = variances().find(|block| block.values.iter().any(|v| *v < 0.0)) {
            return Err(format!("block `{}` holds a variance below 0", block.name));
        }
        let last = ResidualSettings::read(&settings)?.last_filters();
        let linear = blocks.iter().find(|block| block.name == "linear.weight");
        let width = linear.and_then(|block| block.shape.first().copied()).unwrap_or(last);
        let width = u32::try_from(width).unwrap_or(u32::MAX);
        let spec = SubModelSpec::new(NAME, width, settings).map_err(|e| e.to_string())?;
        Ok(Parameters { spec, features, blocks })
    }

    fn values(&self, spec: &SubModelSpec, features: usize) -> u64 {
        let settings = ResidualSettings::read(spec.settings());
        settings.map_or(u64::MAX, |settings| settings.values(spec.width() as usize, features))
    }

    /// Counts the outputs alone, since records go through one by one.
    fn values_looked_at(&self, spec: &SubModelSpec, _: usize) -> u64 {
        u64::from(spec.width())
    }

    /// Returns infinity: no bound is known, since a batch norm in service divides by a running
    /// variance that may be small.
    fn largest_output(&self, _: &TrainingConfig, _: &SubModelSpec, _: u32, _: u64) -> f64 {
        f64::INFINITY
    }
}

/// A party's residual network, computed in numbers of type `T`: 32 bits except in tests.
struct Residual<T> {
    spec: SubModelSpec,
    /// The parameters in 64 bits.
    network: Network<f64>,
    /// The parameters that the last training batch was computed with, and the values that its
    /// forward pass kept.
    batch: Option<(Network<T>, Trace<T>)>,
}

impl<T> std::fmt::Debug for Residual<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (shape, blocks) = (self.network.input, self.network.blocks.len());
        let (channels, height, width) = (shape.channels, shape.height, shape.width);
        write!(
            f,
            "Residual({channels} × {height} × {width} features, {blocks} blocks, values withheld)"
        )
    }
}

impl<T: Real> Residual<T> {
    /// Creates a network with weights 0 and the initial state of batch norms.
    fn zeros(spec: &SubModelSpec, features: usize, active: bool) -> Result<Self, SpecError> {
        let refused = |reason| SpecError::Settings { kind: NAME.to_owned(), reason };
        let settings = ResidualSettings::read(spec.settings()).map_err(refused)?;
        let outputs = spec.width() as usize;
        settings.check_parameters(outputs).map_err(refused)?;
        let input = settings.shape(features).map_err(refused)?;
        let network = Network::zeros(&settings, input, outputs, active);
        Ok(Self { spec: spec.clone(), network, batch: None })
    }

    /// Creates a model before its training. The weights of a convolution are uniform with variance
    /// 2 / K, K the inputs of one of its sums (He et al. 2015, (10)); those of the last layer are
    /// drawn as in `mlp`.
    fn start(origin: &SubModelOrigin) -> Result<Self, SpecError> {
        let mut model = Self::zeros(&origin.spec, origin.features, origin.active)?;
        // Roles draw from different streams, so that equal shapes do not start equal.
        let mut rng = ChaCha20Rng::from_seed(origin.start);
        rng.set_stream(if origin.active { 1 } else { 2 });
        let mut draw = |weights: &mut [f64], reach: f64| {
            weights.iter_mut().for_each(|w| *w = reach * (2.0 * rng.random::<f64>() - 1.0));
        };
        for unit in model.network.units_mut() {
            let reach = (6.0 / unit.convolution.taps() as f64).sqrt();
            draw(&mut unit.convolution.weights, reach);
        }
        if let Some(linear) = &mut model.network.linear {
            let reach = (6.0 / (linear.inputs + model.spec.width() as usize) as f64).sqrt();
            draw(&mut linear.weights, reach);
        }
        Ok(model)
    }

    /// Converts the features of a block (d × n) to maps.
    fn maps(&self, block: &DMatrix<f64>) -> Result<Maps<T>, ShapeError> {
        let (expected, got) = (self.features(), block.nrows());
        if got != expected {
            return Err(ShapeError::Size {
                what: "feature block",
                unit: "features",
                expected,
                got,
            });
        }
        Ok(Maps { shape: self.network.input, values: narrowed(block.as_slice()) })
    }

    /// Converts the outputs of n records, record after record, to a share (w × n).
    fn share(&self, outputs: &[T], records: usize) -> Result<LogitShare, ShapeError> {
        LogitShare::new(DMatrix::from_vec(self.spec.width() as usize, records, widened(outputs)))
    }
}

impl<T: Real> Parametrised for Residual<T> {
    fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        self.network.tensors()
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        self.network.tensors_mut()
    }
}

impl<T: Real> SubModel for Residual<T> {
    fn spec(&self) -> &SubModelSpec {
        &self.spec
    }

    fn features(&self) -> usize {
        self.network.input.values()
    }

    /// Counts each weight of a convolution once for each of its output pixels.
    fn work(&self) -> u64 {
        self.network.multiplications()
    }

    fn outputs(&self, block: &DMatrix<f64>) -> Result<LogitShare, ShapeError> {
        let outputs = self.network.narrow().outputs(&self.maps(block)?);
        self.share(&outputs, block.ncols())
    }

    fn forward(&mut self, batch: DMatrix<f64>) -> Result<LogitShare, ShapeError> {
        let records = batch.ncols();
        let maps = self.maps(&batch)?;
        let network = self.network.narrow();
        let (outputs, trace) = network.forward(maps);
        let share = self.share(&outputs, records)?;
        trace.move_statistics(&mut self.network);
        self.batch = Some((network, trace));
        Ok(share)
    }

    fn pass(&self) -> Option<Box<dyn Pass + '_>> {
        Some(Box::new(NetworkPass::of(self.network.narrow::<T>())))
    }

    fn backward(
        &mut self,
        gradient: &DMatrix<f64>,
        inputs: bool,
    ) -> Result<Gradients, BackwardError> {
        let (network, trace) = self.batch.take().ok_or(BackwardError::NoBatch)?;
        let size = |unit, expected, got| ShapeError::Size { what: "gradient", unit, expected, got };
        let (width, records) = (self.spec.width() as usize, trace.records());
        if gradient.nrows() != width {
            return Err(size("outputs", width, gradient.nrows()).into());
        }
        if gradient.ncols() != records {
            return Err(size("records", records, gradient.ncols()).into());
        }
        let gradients = network.backward(trace, narrowed(gradient.as_slice()), inputs);
        let inputs = gradients
            .below
            .map(|maps| DMatrix::from_vec(self.features(), records, widened(&maps.values)));
        Ok(Gradients { parameters: gradients.parameters, inputs })
    }
}
