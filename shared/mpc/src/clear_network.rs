//! Networks in the clear, by the steps of those on shares, record by record.

use std::ops::Range;

use crate::network::{Activation, LayerShape, MOMENTUM, Network, STEP_BITS};
use crate::regression::TrainingResult;
use crate::wave::wave;

/// The data of a training in the clear, column by column.
#[derive(Debug, Clone, Copy)]
pub struct ClearData<'a> {
    /// The features of each party, records × features.
    pub blocks: &'a [Vec<f64>],
    /// Records × classes.
    pub labels: &'a [f64],
    /// The number of records.
    pub records: usize,
}

impl ClearData<'_> {
    fn classes(&self) -> usize {
        self.labels.len() / self.records.max(1)
    }

    fn features(&self, party: usize, record: usize) -> Vec<f64> {
        let columns = self.blocks[party].chunks_exact(self.records.max(1));
        columns.map(|column| column[record]).collect()
    }
}

/// The numbers of one party for a record: the inputs of each layer, and the slopes of φ below it.
struct Trace {
    inputs: Vec<Vec<f64>>,
    slopes: Vec<Vec<f64>>,
    outputs: Vec<f64>,
}

impl Network {
    /// Trains in the clear, by the same steps: the oracle of
    /// [`Session::train_network`](crate::Session::train_network). The records that validate come
    /// last.
    #[must_use]
    pub fn train_in_the_clear(
        &self,
        data: ClearData<'_>,
        start: &[f64],
    ) -> TrainingResult<Vec<f64>> {
        let mut weights = start.to_vec();
        let mut velocity = vec![0.0; weights.len()];
        let (mut epochs, mut best_epoch) = (0, 0);
        let (mut best_weights, mut best_score) = (weights.clone(), f64::INFINITY);
        while self.goes_on(epochs, best_epoch) {
            for batch in self.batches(data.records) {
                let step = self.step(epochs, batch.len()) as f64 / f64::from(1 << STEP_BITS);
                let (_, gradient) = self.slope_in_the_clear(data, batch, &weights);
                for (velocity, slope) in velocity.iter_mut().zip(gradient) {
                    *velocity = MOMENTUM * *velocity - step * slope;
                }
                weights.iter_mut().zip(&velocity).for_each(|(weight, change)| *weight += change);
            }
            epochs += 1;
            let score = self.brier(data, &weights);
            if self.validation == 0 || score < best_score {
                (best_epoch, best_score) = (epochs, score);
                best_weights.clone_from(&weights);
            }
        }
        TrainingResult { weights: best_weights, epochs, best_epoch }
    }

    /// Computes the loss in nats summed over the records of a range, λ times the squared weights
    /// for each of them among it, and its gradient.
    fn slope_in_the_clear(
        &self,
        data: ClearData<'_>,
        records: Range<usize>,
        weights: &[f64],
    ) -> (f64, Vec<f64>) {
        let shapes = self.shapes(data);
        let count = records.len() as f64;
        let (mut loss, mut gradient) = (0.0, vec![0.0; weights.len()]);
        for record in records {
            let traces = self.traces(data, record, &shapes, weights);
            let scores = scores(&traces, weights, data.classes());
            let label = |class: usize| data.labels[class * data.records + record];
            let residuals: Vec<f64> =
                scores.iter().enumerate().map(|(class, score)| score - label(class)).collect();
            loss -= (0..scores.len()).map(|class| label(class) * scores[class].ln()).sum::<f64>();
            let mut end = weights.len() - residuals.len();
            let of_bias = gradient[end..].iter_mut().zip(&residuals);
            of_bias.for_each(|(slope, residual)| *slope += residual);
            for (layers, trace) in shapes.iter().zip(&traces).rev() {
                let mut delta = residuals.clone();
                for (at, shape) in layers.iter().enumerate().rev() {
                    let from = end - shape.parameters();
                    let mut below = vec![0.0; shape.inputs];
                    for (output, delta) in delta.iter().enumerate() {
                        for (input, x) in trace.inputs[at].iter().enumerate() {
                            let place = from + output * shape.inputs + input;
                            gradient[place] += delta * x;
                            below[input] += delta * weights[place];
                        }
                        if shape.hidden {
                            gradient[from + shape.weights() + output] += delta;
                        }
                    }
                    if at > 0 {
                        let slopes = trace.slopes[at - 1].iter();
                        delta = below.iter().zip(slopes).map(|(d, slope)| d * slope).collect();
                    }
                    end = from;
                }
            }
        }
        let mut from = 0;
        for shape in shapes.iter().flatten() {
            for at in from..from + shape.weights() {
                loss += count * self.penalty * weights[at] * weights[at];
                gradient[at] += 2.0 * count * self.penalty * weights[at];
            }
            from += shape.parameters();
        }
        (loss, gradient)
    }

    /// Computes the sum of Σₖ (yₖ − tₖ)² over the records that validate.
    fn brier(&self, data: ClearData<'_>, weights: &[f64]) -> f64 {
        let shapes = self.shapes(data);
        let of_record = |record: usize| {
            let scores =
                scores(&self.traces(data, record, &shapes, weights), weights, data.classes());
            let label = |class: usize| data.labels[class * data.records + record];
            scores.iter().enumerate().map(|(class, y)| (y - label(class)).powi(2)).sum::<f64>()
        };
        (self.trained(data.records)..data.records).map(of_record).sum()
    }

    fn shapes(&self, data: ClearData<'_>) -> Vec<Vec<LayerShape>> {
        let features = data.blocks.iter().map(|block| block.len() / data.records.max(1));
        features.map(|features| self.layers(features, data.classes())).collect()
    }

    /// Takes a record through the network of each party.
    fn traces(
        &self,
        data: ClearData<'_>,
        record: usize,
        shapes: &[Vec<LayerShape>],
        weights: &[f64],
    ) -> Vec<Trace> {
        let mut from = 0;
        let of_party = |(party, layers): (usize, &Vec<LayerShape>)| {
            let mut values = data.features(party, record);
            let (mut inputs, mut slopes) = (Vec::new(), Vec::new());
            for shape in layers {
                let sum = |output: usize| {
                    let column = &weights[from + output * shape.inputs..][..shape.inputs];
                    let sum: f64 = column.iter().zip(&values).map(|(w, x)| w * x).sum();
                    sum + if shape.hidden { weights[from + shape.weights() + output] } else { 0.0 }
                };
                let sums: Vec<f64> = (0..shape.outputs).map(sum).collect();
                inputs.push(values);
                values = sums;
                if shape.hidden {
                    let both = values.iter().map(|&u| match self.activation {
                        Activation::Tanh => wave(u),
                        Activation::Relu if u >= 0.0 => (u, 1.0),
                        Activation::Relu => (0.0, 0.0),
                    });
                    let (outputs, slope) = both.unzip();
                    values = outputs;
                    slopes.push(slope);
                }
                from += shape.parameters();
            }
            Trace { inputs, slopes, outputs: values }
        };
        shapes.iter().enumerate().map(of_party).collect()
    }
}

/// Computes the softmax of the sum of all parties' outputs and the bias, the last parameters.
fn scores(traces: &[Trace], weights: &[f64], classes: usize) -> Vec<f64> {
    let mut logits = weights[weights.len() - classes..].to_vec();
    for trace in traces {
        logits.iter_mut().zip(&trace.outputs).for_each(|(logit, output)| *logit += output);
    }
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fixed_point::FixedPoint;

    /// The gradient against central differences, of every parameter.
    #[test]
    fn the_gradient_is_that_of_differences() {
        let wave_of = |at: usize| (1.7 * at as f64).sin();
        let blocks = [(0..21).map(wave_of).collect(), (30..44).map(wave_of).collect()];
        let labels: Vec<f64> = (0..21).map(|at| f64::from(at / 7 == at % 7 % 3)).collect();
        let data = ClearData { blocks: &blocks, labels: &labels, records: 7 };
        for (activation, hidden) in [
            (Activation::Tanh, vec![2]),
            (Activation::Tanh, vec![3, 2]),
            (Activation::Relu, vec![3, 2]),
        ] {
            let fixed = FixedPoint::new(20).unwrap();
            let (penalty, patience) = (0.01, 1);
            let of = Network {
                epochs: 1,
                batch: 4,
                hidden,
                activation,
                penalty,
                validation: 0,
                patience,
                fixed,
            };
            let count = of.parameters(3, 3) + of.parameters(2, 3) + 3;
            let weights: Vec<f64> = (0..count).map(|at| (2.3 * at as f64).cos()).collect();
            let (_, gradient) = of.slope_in_the_clear(data, 1..6, &weights);
            for at in 0..count {
                let loss = |change: f64| {
                    let mut moved = weights.clone();
                    moved[at] += change;
                    of.slope_in_the_clear(data, 1..6, &moved).0
                };
                let difference = (loss(1e-5) - loss(-1e-5)) / 2e-5;
                let away = (gradient[at] - difference).abs();
                assert!(away < 1e-7, "{activation:?} {at}: {} {difference}", gradient[at]);
            }
        }
    }
}
