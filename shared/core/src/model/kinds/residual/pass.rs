//! A differentiable pass in service, with respect to the features: batch norms are the affine maps
//! that they are in service.

use super::linear::{pool, pool_backward};
use super::maps::{Maps, Real, Shape};
use super::network::{Block, Network, Unit};
use crate::model::pass::{LANES, Lanes, Pass};

/// The outputs of each relu, which a pass keeps.
struct Tape<T> {
    stem: Maps<T>,
    /// The outputs within each block, and at its end.
    blocks: Vec<(Maps<T>, Maps<T>)>,
}

impl<T: Real> Unit<T> {
    fn serve(&self, input: &Maps<T>) -> Maps<T> {
        let mut z = self.convolution.forward(input);
        let (area, size) = (z.shape.area(), z.shape.values());
        z.values.chunks_exact_mut(size).for_each(|record| self.norm.apply(record, area));
        z
    }

    /// Propagates the gradient of the unit's outputs to its inputs, which have this shape.
    fn pull_back(&self, input: Shape, mut gradient: Maps<T>) -> Maps<T> {
        let (area, size) = (gradient.shape.area(), gradient.shape.values());
        for record in gradient.values.chunks_exact_mut(size) {
            for (channel, plane) in record.chunks_exact_mut(area).enumerate() {
                let scale = T::narrow(self.norm.affine(channel).0);
                plane.iter_mut().for_each(|g| *g *= scale);
            }
        }
        self.convolution.pull_back(input, &gradient)
    }
}

impl<T: Real> Block<T> {
    fn serve(&self, input: &Maps<T>) -> (Maps<T>, Maps<T>) {
        let mut inner = self.first.serve(input);
        inner.relu();
        let mut outputs = self.second.serve(&inner);
        match &self.shortcut {
            Some(shortcut) => outputs.add(&shortcut.serve(input)),
            None => outputs.add(input),
        }
        outputs.relu();
        (inner, outputs)
    }

    fn pull_back(
        &self,
        input: Shape,
        (inner, outputs): &(Maps<T>, Maps<T>),
        mut gradient: Maps<T>,
    ) -> Maps<T> {
        gradient.through_relu(outputs);
        let mut within = self.second.pull_back(inner.shape, gradient.clone());
        within.through_relu(inner);
        let mut below = self.first.pull_back(input, within);
        match &self.shortcut {
            Some(shortcut) => below.add(&shortcut.pull_back(input, gradient)),
            None => below.add(&gradient),
        }
        below
    }
}

impl<T: Real> Network<T> {
    fn serve(&self, input: &Maps<T>) -> (Vec<T>, Tape<T>) {
        let mut stem = self.stem.serve(input);
        stem.relu();
        let mut blocks: Vec<(Maps<T>, Maps<T>)> = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let served = block.serve(blocks.last().map_or(&stem, |(_, outputs)| outputs));
            blocks.push(served);
        }
        let pooled = pool(blocks.last().map_or(&stem, |(_, outputs)| outputs));
        let outputs = match &self.linear {
            Some(linear) => linear.forward(&pooled),
            None => pooled,
        };
        (outputs, Tape { stem, blocks })
    }

    fn pull_back(&self, tape: &Tape<T>, slopes: Vec<T>) -> Maps<T> {
        let pooled = match &self.linear {
            Some(linear) => linear.pull_back(&slopes),
            None => slopes,
        };
        let last = tape.blocks.last().map_or(&tape.stem, |(_, outputs)| outputs);
        let mut gradient = pool_backward(last.shape, &pooled);
        for (place, (block, kept)) in self.blocks.iter().zip(&tape.blocks).enumerate().rev() {
            let input = place.checked_sub(1).and_then(|below| tape.blocks.get(below));
            gradient = block.pull_back(
                input.map_or(tape.stem.shape, |(_, outputs)| outputs.shape),
                kept,
                gradient,
            );
        }
        gradient.through_relu(&tape.stem);
        self.stem.pull_back(self.input, gradient)
    }
}

/// A network as a [`Pass`].
pub(super) struct NetworkPass<T> {
    network: Network<T>,
    tape: Option<Tape<T>>,
}

impl<T: Real> NetworkPass<T> {
    pub(super) fn of(network: Network<T>) -> Self {
        Self { network, tape: None }
    }
}

/// Converts the values of [`LANES`] records from side by side to one record after another.
fn apart<T: Real>(values: &[Lanes]) -> Vec<T> {
    (0..LANES).flat_map(|l| values.iter().map(move |v| T::narrow(v.0[l]))).collect()
}

/// Converts the same values back to side by side.
fn together<T: Real>(values: &[T], lanes: &mut [Lanes]) {
    let count = lanes.len().max(1);
    for (l, record) in values.chunks_exact(count).enumerate() {
        lanes.iter_mut().zip(record).for_each(|(to, v)| to.0[l] = v.widen());
    }
}

impl<T: Real> Pass for NetworkPass<T> {
    fn outputs(&mut self, x: &[Lanes], outputs: &mut [Lanes]) {
        let (values, tape) =
            self.network.serve(&Maps { shape: self.network.input, values: apart(x) });
        together(&values, outputs);
        self.tape = Some(tape);
    }

    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]) {
        match &self.tape {
            Some(tape) => together(&self.network.pull_back(tape, apart(slopes)).values, gradient),
            None => gradient.fill(Lanes::all(0.0)),
        }
    }
}
