//! Training of networks on shares.

use std::ops::Range;

use crate::error::{MpcError, check_length};
use crate::family::sum_of_squares_part;
use crate::matrix::SharedMatrix;
use crate::network::{
    Activation, LARGEST_BATCH, LayerShape, MOMENTUM, Network, NetworkData, STEP_BITS,
};
use crate::regression::TrainingResult;
use crate::release::{LOGIT_BITS, Logits};
use crate::session::Session;
use crate::shares::Shares;

/// One layer of one party on shares.
struct SharedLayer {
    /// Inputs × outputs.
    weights: SharedMatrix,
    /// Empty for the last layer.
    bias: Shares,
}

/// The parameters of all parties on shares, by layers: the first layer of each party, and so on.
struct SharedNetwork {
    levels: Vec<Vec<SharedLayer>>,
    bias: Shares,
}

/// The numbers of a batch on its way through a network.
struct SharedPass {
    /// The inputs of each layer of each party, records × inputs.
    inputs: Vec<Vec<SharedMatrix>>,
    /// The slopes of φ of each hidden layer, party after party.
    slopes: Vec<Shares>,
    /// Scores less labels, records × classes.
    residuals: SharedMatrix,
}

/// One batch on shares.
struct SharedBatch {
    blocks: Vec<SharedMatrix>,
    labels: SharedMatrix,
}

impl NetworkData {
    /// Returns the records of each range.
    fn batches(
        &self,
        ranges: impl IntoIterator<Item = Range<usize>>,
    ) -> Result<Vec<SharedBatch>, MpcError> {
        let batch = |records: Range<usize>| {
            let rows = |matrix: &SharedMatrix| matrix.row_range(records.clone());
            let blocks = self.blocks.iter().map(rows).collect::<Result<_, _>>()?;
            Ok(SharedBatch { blocks, labels: rows(&self.labels)? })
        };
        ranges.into_iter().map(batch).collect()
    }
}

impl SharedNetwork {
    /// Cuts parameters into layers.
    fn new(parameters: &Shares, shapes: &[Vec<LayerShape>]) -> Result<Self, MpcError> {
        let mut levels: Vec<Vec<SharedLayer>> = Vec::new();
        let mut left = parameters.clone();
        for (at, shape) in shapes.iter().flat_map(|layers| layers.iter().enumerate()) {
            let (weights, rest) = left.split_at(shape.weights());
            let (bias, rest) = rest.split_at(shape.parameters() - shape.weights());
            left = rest;
            let weights = SharedMatrix::new(shape.inputs, shape.outputs, weights)?;
            if levels.len() <= at {
                levels.push(Vec::new());
            }
            levels[at].push(SharedLayer { weights, bias });
        }
        Ok(Self { levels, bias: left })
    }
}

impl Session {
    /// Trains on shares. `start` are the parameters before the first step, which each owner may
    /// share for itself ([`Network::start`]). Nothing is opened but the bits that compare
    /// validation scores.
    ///
    /// `on_epoch` is as that of [`Session::regress`]. The result's weights are all parameters, as
    /// those of `start`: those of party after party, in the order of [`Network::layers`], and the
    /// common bias. They differ from those of [`Network::train_in_the_clear`] by the rounding of
    /// the fixed-point numbers, and by what later steps make of that.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for blocks or labels of another number of records, or another number of
    /// parameters; [`MpcError::Setting`] for settings out of range, among them other than 2 to 16
    /// classes; [`MpcError::Stopped`]; errors of links.
    pub fn train_network(
        &mut self,
        of: &Network,
        data: &NetworkData,
        start: Shares,
        on_epoch: &mut dyn FnMut(usize) -> bool,
    ) -> Result<TrainingResult<Shares>, MpcError> {
        let NetworkData { blocks, labels } = data;
        let (n, k) = (labels.rows(), labels.columns());
        blocks.iter().try_for_each(|x| check_length("a column of a block", x.rows(), n))?;
        of.check(n)?;
        Logits::new(0, k, self.public(&[]))?;
        let shapes: Vec<_> = blocks.iter().map(|x| of.layers(x.columns(), k)).collect();
        let all = shapes.iter().flatten();
        let count = all.map(|shape| shape.parameters()).sum::<usize>() + k;
        check_length("the parameters", start.len(), count)?;
        let mut weights = start;
        let mut velocity = self.public(&vec![0; count]);
        let trained = of.trained(n);
        let batches = data.batches(of.batches(n))?;
        let starts = (trained..n).step_by(LARGEST_BATCH);
        let validation = data.batches(starts.map(|at| at..n.min(at + LARGEST_BATCH)))?;
        let (mut epochs, mut best_epoch) = (0, 0);
        let (mut best_weights, mut best_score) = (weights.clone(), None);
        while of.goes_on(epochs, best_epoch) {
            if !on_epoch(epochs + 1) {
                return Err(self.end(MpcError::Stopped));
            }
            for batch in &batches {
                let network = SharedNetwork::new(&weights, &shapes)?;
                let pass = self.through(of, &network, batch)?;
                let gradient = self.gradient(of, &network, &pass)?;
                let step = (of.step(epochs, batch.labels.rows()), batch.labels.rows());
                velocity = self.velocity(of, (&weights, velocity), gradient, &shapes, step)?;
                weights = weights.plus(&velocity)?;
            }
            epochs += 1;
            let better = of.validation == 0 || {
                let network = SharedNetwork::new(&weights, &shapes)?;
                let mut part = 0_u64;
                for batch in &validation {
                    let residuals = self.through(of, &network, batch)?.residuals;
                    let records = residuals.rows();
                    let squares = sum_of_squares_part(&residuals.into_shares(), records, 0);
                    part = part.wrapping_add(squares);
                }
                self.keep_lowest(part, &mut best_score)?
            };
            if better {
                best_epoch = epochs;
                best_weights.clone_from(&weights);
            }
        }
        Ok(TrainingResult { weights: best_weights, epochs, best_epoch })
    }

    /// Takes records through the network. Five rounds for each hidden layer of tanh, twelve for
    /// one of rectifiers, and those of the softmax and one more.
    ///
    /// # Errors
    /// Those of links.
    fn through(
        &mut self,
        of: &Network,
        network: &SharedNetwork,
        batch: &SharedBatch,
    ) -> Result<SharedPass, MpcError> {
        let bits = of.fixed.fraction_bits();
        let SharedBatch { blocks, labels } = batch;
        let (records, classes) = (labels.rows(), labels.columns());
        let (mut inputs, mut slopes) = (vec![blocks.clone()], Vec::new());
        let Some((last, hidden)) = network.levels.split_last() else {
            return Err(MpcError::Shape { what: "the layers", expected: 1, got: 0 });
        };
        for (at, level) in hidden.iter().enumerate() {
            let mut parts = Vec::new();
            for (layer, inputs) in level.iter().zip(&inputs[at]) {
                let mut sums = inputs.product_parts(&layer.weights)?;
                add_bias(&mut sums, &layer.bias, bits);
                parts.append(&mut sums);
            }
            let sums = self.truncate_parts(parts, bits)?;
            let (outputs, slope) = match of.activation {
                Activation::Tanh => self.tanh(&sums, of.fixed)?,
                Activation::Relu => self.rectify(&sums)?,
            };
            let widths: Vec<usize> = level.iter().map(|layer| layer.weights.columns()).collect();
            inputs.push(cut(outputs, records, &widths)?);
            slopes.push(slope);
        }
        let mut logits = vec![0_u64; records * classes];
        for (layer, inputs) in last.iter().zip(&inputs[hidden.len()]) {
            let parts = inputs.product_parts(&layer.weights)?;
            logits.iter_mut().zip(parts).for_each(|(sum, part)| *sum = sum.wrapping_add(part));
        }
        add_bias(&mut logits, &network.bias, bits);
        // Logits have twice as many fraction bits as numbers here, or more.
        logits.iter_mut().for_each(|sum| *sum <<= LOGIT_BITS - 2 * bits);
        let logits = Logits::new(records, classes, self.reshare(logits)?)?;
        let (scores, _) = self.scores_and_winners(&logits, bits)?;
        let residuals = scores.minus(&labels.clone().into_shares())?;
        let residuals = SharedMatrix::new(records, classes, residuals)?;
        Ok(SharedPass { inputs, slopes, residuals })
    }

    /// Computes max(u, 0), and 1 as the slope of numbers that are not negative. Ten rounds, 90
    /// bytes per number.
    ///
    /// # Errors
    /// Those of links.
    fn rectify(&mut self, numbers: &Shares) -> Result<(Shares, Shares), MpcError> {
        let negative = self.is_negative(numbers)?;
        let negative = self.bit_to_number(&negative)?;
        let kept = self.public(&vec![1; numbers.len()]).minus(&negative)?;
        Ok((self.multiply(&kept, numbers)?, kept))
    }

    /// Computes this party's part of the gradient of the loss summed over a batch, with twice the
    /// fraction bits and without the penalty. Four rounds for each hidden layer of tanh, three for
    /// one of rectifiers.
    ///
    /// # Errors
    /// Those of links.
    fn gradient(
        &mut self,
        of: &Network,
        network: &SharedNetwork,
        pass: &SharedPass,
    ) -> Result<Vec<u64>, MpcError> {
        let bits = of.fixed.fraction_bits();
        let records = pass.residuals.rows();
        let parties = pass.inputs.first().map_or(0, Vec::len);
        let mut deltas = vec![pass.residuals.clone(); parties];
        let mut of_parties = vec![Vec::new(); parties];
        for (at, level) in network.levels.iter().enumerate().rev() {
            let hidden = at + 1 < network.levels.len();
            for (party, (inputs, delta)) in pass.inputs[at].iter().zip(&deltas).enumerate() {
                let mut parts = inputs.transposed_product_parts(delta, records)?;
                if hidden {
                    parts.extend(sums_of_columns(delta, bits));
                }
                of_parties[party].push(parts);
            }
            let Some(slopes) = at.checked_sub(1).and_then(|below| pass.slopes.get(below)) else {
                break;
            };
            let mut parts = Vec::new();
            for (layer, delta) in level.iter().zip(&deltas) {
                parts.extend(delta.product_parts(&layer.weights.transpose())?);
            }
            let below = self.truncate_parts(parts, bits)?;
            let below = match of.activation {
                Activation::Tanh => self.multiply_truncated(&below, slopes, bits)?,
                Activation::Relu => self.multiply(&below, slopes)?,
            };
            let widths: Vec<usize> = level.iter().map(|layer| layer.weights.rows()).collect();
            deltas = cut(below, records, &widths)?;
        }
        let of_layers = of_parties.into_iter().flat_map(|layers| layers.into_iter().rev());
        let of_bias = sums_of_columns(&pass.residuals, bits);
        Ok(of_layers.flatten().chain(of_bias).collect())
    }

    /// Returns the change μ v − η (g + 2 λ w) of the weights. `gradient` holds this party's parts
    /// of the gradient summed over the records of a batch. Two rounds.
    ///
    /// # Errors
    /// Those of links.
    fn velocity(
        &mut self,
        of: &Network,
        (weights, velocity): (&Shares, Shares),
        gradient: Vec<u64>,
        shapes: &[Vec<LayerShape>],
        (step, records): (u64, usize),
    ) -> Result<Shares, MpcError> {
        let momentum = of.fixed.encode_one(MOMENTUM);
        let penalty = of.fixed.encode_one(2.0 * of.penalty * records as f64);
        let mut parts = gradient;
        let mut at = 0;
        for shape in shapes.iter().flatten() {
            let penalised = at..at + shape.weights();
            let own = weights.own[penalised.clone()].iter();
            for (part, weight) in parts[penalised].iter_mut().zip(own) {
                *part = part.wrapping_add(weight.wrapping_mul(penalty));
            }
            at += shape.parameters();
        }
        for (part, velocity) in parts.iter_mut().zip(&velocity.own) {
            let drift = velocity.wrapping_mul(momentum) << STEP_BITS;
            *part = drift.wrapping_sub(part.wrapping_mul(step));
        }
        self.truncate_parts(parts, of.fixed.fraction_bits() + STEP_BITS)
    }
}

/// Adds a bias to this party's parts of products, column by column: one number for each column.
fn add_bias(sums: &mut [u64], bias: &Shares, bits: u32) {
    let rows = sums.len() / bias.len().max(1);
    for (column, bias) in sums.chunks_exact_mut(rows.max(1)).zip(&bias.own) {
        column.iter_mut().for_each(|sum| *sum = sum.wrapping_add(bias << bits));
    }
}

/// Returns this party's parts of the sum of each column, with `bits` more fraction bits.
fn sums_of_columns(matrix: &SharedMatrix, bits: u32) -> Vec<u64> {
    let columns = matrix.own_values().chunks_exact(matrix.rows().max(1));
    columns
        .map(|column| column.iter().fold(0_u64, |sum, value| sum.wrapping_add(*value)) << bits)
        .collect()
}

/// Cuts numbers into matrices of so many columns each.
fn cut(numbers: Shares, records: usize, widths: &[usize]) -> Result<Vec<SharedMatrix>, MpcError> {
    let (mut left, mut matrices) = (numbers, Vec::with_capacity(widths.len()));
    for width in widths {
        let (own, rest) = left.split_at(records * width);
        matrices.push(SharedMatrix::new(records, *width, own)?);
        left = rest;
    }
    Ok(matrices)
}
