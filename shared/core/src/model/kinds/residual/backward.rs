//! The backward pass: gradients from the last layer to the first.

use super::batch_norm::NormalisedBatch;
use super::linear::pool_backward;
use super::maps::{Maps, Real};
use super::network::{Block, Network, Unit};
use super::trace::{BlockTrace, Trace};

/// The gradients of a network.
pub(super) struct NetworkGradients<T> {
    /// The gradients of each trained block of parameters, in the order of [`Network::tensors`].
    pub(super) parameters: Vec<Vec<f64>>,
    /// The gradient with respect to the features, if it was requested.
    pub(super) below: Option<Maps<T>>,
}

impl<T: Real> Trace<T> {
    /// Moves the running statistics of a network towards those of this batch.
    pub(super) fn move_statistics(&self, network: &mut Network<f64>) {
        let blocks = self
            .blocks
            .iter()
            .flat_map(|block| [&block.first, &block.second].into_iter().chain(&block.shortcut));
        for (unit, normed) in
            network.units_mut().into_iter().zip(std::iter::once(&self.stem).chain(blocks))
        {
            unit.norm.follow(normed);
        }
    }
}

impl<T: Real> Network<T> {
    /// Computes the gradients of a batch from that of its outputs (n × outputs, record after
    /// record).
    pub(super) fn backward(
        &self,
        mut trace: Trace<T>,
        gradient: Vec<T>,
        inputs: bool,
    ) -> NetworkGradients<T> {
        let mut reversed = Vec::new();
        let pooled = match &self.linear {
            None => gradient,
            Some(linear) => {
                let gradients = linear.backward(&trace.pooled, &gradient);
                reversed.extend(gradients.bias);
                reversed.push(gradients.weights);
                gradients.below
            }
        };
        let mut below = None;
        // The last maps are the outputs of the last block, which go into the mean.
        if let Some(mut outputs) = trace.maps.pop() {
            let mut gradient = pool_backward(outputs.shape, &pooled);
            for ((block, left), input) in
                self.blocks.iter().zip(trace.blocks).rev().zip(trace.maps.drain(1..).rev())
            {
                gradient.through_relu(&outputs);
                gradient = block.backward(&input, left, gradient, &mut reversed);
                outputs = input;
            }
            gradient.through_relu(&outputs);
            if let Some(input) = trace.maps.pop() {
                below = inputs.then(|| Maps::zeros(input.shape, input.records()));
                self.stem.backward(&input, &trace.stem, gradient, below.as_mut(), &mut reversed);
            }
        }
        reversed.reverse();
        NetworkGradients { parameters: reversed, below }
    }
}

impl<T: Real> Block<T> {
    /// Propagates the gradient before the last relu to the inputs. Gradients of parameters go to
    /// `reversed`, the last first.
    fn backward(
        &self,
        input: &Maps<T>,
        left: BlockTrace<T>,
        gradient: Maps<T>,
        reversed: &mut Vec<Vec<f64>>,
    ) -> Maps<T> {
        let mut below = match (&self.shortcut, &left.shortcut) {
            (Some(unit), Some(normed)) => {
                let mut below = Maps::zeros(input.shape, input.records());
                unit.backward(input, normed, gradient.clone(), Some(&mut below), reversed);
                below
            }
            _ => gradient.clone(),
        };
        let mut inner = Maps::zeros(left.inner.shape, left.inner.records());
        self.second.backward(&left.inner, &left.second, gradient, Some(&mut inner), reversed);
        inner.through_relu(&left.inner);
        self.first.backward(input, &left.first, inner, Some(&mut below), reversed);
        below
    }
}

impl<T: Real> Unit<T> {
    /// Propagates the gradient of the unit's outputs and adds that of its inputs to `below`.
    /// Gradients of parameters go to `reversed`, the last first.
    fn backward(
        &self,
        input: &Maps<T>,
        normed: &NormalisedBatch<T>,
        gradient: Maps<T>,
        below: Option<&mut Maps<T>>,
        reversed: &mut Vec<Vec<f64>>,
    ) {
        let norm = self.norm.backward(normed, gradient);
        let weights = self.convolution.backward(input, &norm.below, below);
        reversed.extend([norm.beta, norm.gamma, weights]);
    }
}
