//! The layers of the network in their order, and the forward pass. The backward pass is in
//! [`backward`](super::backward).

use rayon::prelude::*;

use super::batch_norm::BatchNorm;
use super::columns::Window;
use super::convolution::Convolution;
use super::linear::{Linear, pool};
use super::maps::{Maps, Real, Shape, relu};
use super::settings::ResidualSettings;
use super::trace::{BlockTrace, Trace};
use crate::model::contract::{ParameterRole, Tensor};

/// A convolution and the batch norm of its outputs.
#[derive(Clone)]
pub(super) struct Unit<T> {
    pub(super) convolution: Convolution<T>,
    pub(super) norm: BatchNorm<T>,
}

/// Two units with a relu between them, the shortcut added, and a relu.
#[derive(Clone)]
pub(super) struct Block<T> {
    pub(super) first: Unit<T>,
    pub(super) second: Unit<T>,
    /// `None` if the inputs themselves are added.
    pub(super) shortcut: Option<Unit<T>>,
}

/// The whole network, from parts of images to outputs.
#[derive(Clone)]
pub(super) struct Network<T> {
    /// The shape of a record's features.
    pub(super) input: Shape,
    pub(super) stem: Unit<T>,
    pub(super) blocks: Vec<Block<T>>,
    /// `None` if the pooled values are the outputs.
    pub(super) linear: Option<Linear<T>>,
    /// Number of blocks of one stage.
    per_stage: usize,
}

impl<T: Real> Unit<T> {
    fn new(inputs: usize, outputs: usize, window: Window) -> Self {
        Self {
            convolution: Convolution::zeros(inputs, outputs, window),
            norm: BatchNorm::new(outputs),
        }
    }

    /// Computes the outputs of one record in service, and their shape.
    pub(super) fn outputs(
        &self,
        shape: Shape,
        record: &[T],
        columns: &mut Vec<T>,
    ) -> (Shape, Vec<T>) {
        let outputs = self.convolution.shape(shape);
        let mut z = vec![T::zero(); outputs.values()];
        self.convolution.forward_one(shape, record, &mut z, columns);
        self.norm.apply(&mut z, outputs.area());
        (outputs, z)
    }
}

impl<T: Real> Block<T> {
    fn new(inputs: usize, outputs: usize, stride: usize) -> Self {
        let window = |size, stride| Window { size, stride };
        Self {
            first: Unit::new(inputs, outputs, window(3, stride)),
            second: Unit::new(outputs, outputs, window(3, 1)),
            shortcut: (stride != 1).then(|| Unit::new(inputs, outputs, window(1, stride))),
        }
    }

    /// Computes the outputs of one record in service, and their shape.
    pub(super) fn outputs(
        &self,
        shape: Shape,
        record: Vec<T>,
        columns: &mut Vec<T>,
    ) -> (Shape, Vec<T>) {
        let (inner, mut z) = self.first.outputs(shape, &record, columns);
        z.iter_mut().for_each(|v| *v = relu(*v));
        let (outputs, mut z) = self.second.outputs(inner, &z, columns);
        let added = match &self.shortcut {
            Some(shortcut) => shortcut.outputs(shape, &record, columns).1,
            None => record,
        };
        z.iter_mut().zip(added).for_each(|(v, s)| *v = relu(*v + s));
        (outputs, z)
    }

    /// Computes the outputs of a training batch, and the values that the backward pass needs.
    fn forward(&self, input: &Maps<T>) -> (Maps<T>, BlockTrace<T>) {
        let (mut inner, first) = self.first.norm.forward(self.first.convolution.forward(input));
        inner.relu();
        let (mut outputs, second) =
            self.second.norm.forward(self.second.convolution.forward(&inner));
        let shortcut = match &self.shortcut {
            Some(unit) => {
                let (added, trace) = unit.norm.forward(unit.convolution.forward(input));
                outputs.add(&added);
                Some(trace)
            }
            None => {
                outputs.add(input);
                None
            }
        };
        outputs.relu();
        (outputs, BlockTrace { first, inner, second, shortcut })
    }
}

impl<T: Real> Network<T> {
    /// Creates a network with convolutions and the last layer 0 and the initial state of batch
    /// norms. `outputs` is the output width.
    pub(super) fn zeros(
        settings: &ResidualSettings,
        input: Shape,
        outputs: usize,
        active: bool,
    ) -> Self {
        let mut channels = settings.first_filters();
        let stem = Unit::new(input.channels, channels, Window { size: 3, stride: 1 });
        let mut blocks = Vec::new();
        for (stage, &filters) in settings.filters().iter().enumerate() {
            for block in 0..settings.blocks() {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                blocks.push(Block::new(channels, filters, stride));
                channels = filters;
            }
        }
        let linear = (outputs != channels).then(|| Linear::zeros(channels, outputs, active));
        Self { input, stem, blocks, linear, per_stage: settings.blocks() }
    }

    /// Computes the outputs of one record in service. They depend only on the record and the
    /// parameters.
    fn outputs_one(&self, record: &[T], columns: &mut Vec<T>) -> Vec<T> {
        let (mut shape, mut values) = self.stem.outputs(self.input, record, columns);
        values.iter_mut().for_each(|v| *v = relu(*v));
        for block in &self.blocks {
            (shape, values) = block.outputs(shape, values, columns);
        }
        let pooled = pool(&Maps { shape, values });
        match &self.linear {
            Some(linear) => linear.forward(&pooled),
            None => pooled,
        }
    }

    /// Computes the outputs of all records in service, record after record.
    pub(super) fn outputs(&self, input: &Maps<T>) -> Vec<T> {
        let records = input.values.par_chunks_exact(input.shape.values());
        let outputs: Vec<Vec<T>> = records
            .map_init(Vec::new, |columns, record| self.outputs_one(record, columns))
            .collect();
        outputs.concat()
    }

    /// Computes the outputs of a training batch, record after record, and the values that the
    /// backward pass needs.
    pub(super) fn forward(&self, input: Maps<T>) -> (Vec<T>, Trace<T>) {
        let (mut maps, stem) = self.stem.norm.forward(self.stem.convolution.forward(&input));
        maps.relu();
        let mut kept = vec![input];
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let (outputs, trace) = block.forward(&maps);
            kept.push(std::mem::replace(&mut maps, outputs));
            blocks.push(trace);
        }
        let pooled = pool(&maps);
        kept.push(maps);
        let outputs = match &self.linear {
            Some(linear) => linear.forward(&pooled),
            None => pooled.clone(),
        };
        (outputs, Trace { maps: kept, stem, blocks, pooled })
    }

    /// Returns all units: the stem, and for each block the first, the second and the shortcut.
    pub(super) fn units(&self) -> Vec<&Unit<T>> {
        let mut units = vec![&self.stem];
        for block in &self.blocks {
            units.extend([&block.first, &block.second].into_iter().chain(&block.shortcut));
        }
        units
    }

    /// Counts the multiplications of all convolutions for a record.
    pub(super) fn multiplications(&self) -> u64 {
        let of = |unit: &Unit<T>, outputs: Shape| {
            (unit.convolution.weights.len() * outputs.height * outputs.width) as u64
        };
        let mut shape = self.stem.convolution.shape(self.input);
        let mut all = of(&self.stem, shape);
        for block in &self.blocks {
            let halved = block.first.convolution.shape(shape);
            all += of(&block.first, halved) + of(&block.second, halved);
            all += block.shortcut.as_ref().map_or(0, |unit| of(unit, halved));
            shape = halved;
        }
        all
    }

    /// Returns the same units for changes in place.
    pub(super) fn units_mut(&mut self) -> Vec<&mut Unit<T>> {
        units_of(&mut self.stem, &mut self.blocks)
    }

    /// Returns the names of all units' convolutions and batch norms.
    fn names(&self) -> Vec<(String, String)> {
        let mut names = vec![("conv".to_owned(), "bn".to_owned())];
        for (at, block) in self.blocks.iter().enumerate() {
            let block_name =
                format!("stage{}.block{}", at / self.per_stage + 1, at % self.per_stage + 1);
            names.extend((1..=2).map(|unit| {
                (format!("{block_name}.conv{unit}"), format!("{block_name}.bn{unit}"))
            }));
            if block.shortcut.is_some() {
                names.push((
                    format!("{block_name}.shortcut.conv"),
                    format!("{block_name}.shortcut.bn"),
                ));
            }
        }
        names
    }
}

/// Returns all units in the same order.
fn units_of<'a, T>(stem: &'a mut Unit<T>, blocks: &'a mut [Block<T>]) -> Vec<&'a mut Unit<T>> {
    let mut units = vec![stem];
    for block in blocks {
        units.extend([&mut block.first, &mut block.second].into_iter().chain(&mut block.shortcut));
    }
    units
}

/// Creates the tensor of these values.
fn tensor<V>(
    layer: &str,
    what: &str,
    shape: Vec<usize>,
    used: ParameterRole,
    values: V,
) -> Tensor<V> {
    Tensor { name: format!("{layer}.{what}").into(), shape, used, values }
}

impl Network<f64> {
    /// Converts the network to another number type.
    pub(super) fn narrow<T: Real>(&self) -> Network<T> {
        let unit = |unit: &Unit<f64>| Unit {
            convolution: unit.convolution.narrow(),
            norm: unit.norm.narrow(),
        };
        let block = |block: &Block<f64>| Block {
            first: unit(&block.first),
            second: unit(&block.second),
            shortcut: block.shortcut.as_ref().map(unit),
        };
        Network {
            input: self.input,
            stem: unit(&self.stem),
            blocks: self.blocks.iter().map(block).collect(),
            linear: self.linear.as_ref().map(Linear::narrow),
            per_stage: self.per_stage,
        }
    }

    /// Returns the parameters, named as PyTorch names those of such modules.
    pub(super) fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        let mut tensors = Vec::new();
        for ((conv, bn), Unit { convolution, norm }) in self.names().iter().zip(self.units()) {
            let Convolution { inputs, outputs, window, weights } = convolution;
            let shape = vec![*outputs, *inputs, window.size, window.size];
            tensors.push(tensor(conv, "weight", shape, ParameterRole::Weight, &weights[..]));
            tensors.push(tensor(
                bn,
                "weight",
                vec![*outputs],
                ParameterRole::Free,
                &norm.gamma[..],
            ));
            tensors.push(tensor(bn, "bias", vec![*outputs], ParameterRole::Free, &norm.beta[..]));
            tensors.push(tensor(
                bn,
                "running_mean",
                vec![*outputs],
                ParameterRole::Statistic,
                &norm.mean[..],
            ));
            tensors.push(tensor(
                bn,
                "running_var",
                vec![*outputs],
                ParameterRole::Statistic,
                &norm.variance[..],
            ));
        }
        if let Some(Linear { inputs, weights, bias }) = &self.linear {
            let outputs = weights.len() / inputs;
            tensors.push(tensor(
                "linear",
                "weight",
                vec![outputs, *inputs],
                ParameterRole::Weight,
                &weights[..],
            ));
            tensors.extend(bias.as_ref().map(|bias| {
                tensor("linear", "bias", vec![outputs], ParameterRole::Free, &bias[..])
            }));
        }
        tensors
    }

    /// Returns the same parameters for changes in place.
    pub(super) fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        let mut tensors = Vec::new();
        let names = self.names();
        let Self { stem, blocks, linear, .. } = self;
        for ((conv, bn), Unit { convolution, norm }) in names.iter().zip(units_of(stem, blocks)) {
            let Convolution { inputs, outputs, window, weights } = convolution;
            let shape = vec![*outputs, *inputs, window.size, window.size];
            tensors.push(tensor(conv, "weight", shape, ParameterRole::Weight, &mut weights[..]));
            tensors.push(tensor(
                bn,
                "weight",
                vec![*outputs],
                ParameterRole::Free,
                &mut norm.gamma[..],
            ));
            tensors.push(tensor(
                bn,
                "bias",
                vec![*outputs],
                ParameterRole::Free,
                &mut norm.beta[..],
            ));
            tensors.push(tensor(
                bn,
                "running_mean",
                vec![*outputs],
                ParameterRole::Statistic,
                &mut norm.mean[..],
            ));
            tensors.push(tensor(
                bn,
                "running_var",
                vec![*outputs],
                ParameterRole::Statistic,
                &mut norm.variance[..],
            ));
        }
        if let Some(Linear { inputs, weights, bias }) = linear {
            let outputs = weights.len() / *inputs;
            tensors.push(tensor(
                "linear",
                "weight",
                vec![outputs, *inputs],
                ParameterRole::Weight,
                &mut weights[..],
            ));
            tensors.extend(bias.as_mut().map(|bias| {
                tensor("linear", "bias", vec![outputs], ParameterRole::Free, &mut bias[..])
            }));
        }
        tensors
    }
}
