//! Convolution without a bias: y[o, p] = Σ_{c, k} W[o, c, k] x[c, stride · p + k], zeros around the
//! input.
//!
//! It is a product of matrices for each record: the columns of the record (B × K, [`Window`]) times
//! the weights (K × outputs). The product of a record has the same shape whatever the other records
//! are, so that its outputs have the same bits.

use nalgebra::{DMatrixView, DMatrixViewMut, Dyn};
use rayon::prelude::*;

use super::columns::Window;
use super::maps::{Maps, Real, Shape, narrowed};

/// The number of parts of a batch that are computed in parallel. The sum over a batch does not
/// depend on the number of threads.
const PARTS: usize = 8;

/// A convolution of maps.
#[derive(Clone)]
pub(super) struct Convolution<T> {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) window: Window,
    /// outputs × inputs × size × size, row by row.
    pub(super) weights: Vec<T>,
}

/// A matrix over a slice with any strides. The left factor of a product must have row stride 1:
/// with another one nalgebra 0.35 writes past the end of the product if the matrices are small.
type View<'a, T> = DMatrixView<'a, T, Dyn, Dyn>;
/// The mutable form of [`View`].
type ViewMut<'a, T> = DMatrixViewMut<'a, T, Dyn, Dyn>;

impl<T: Real> Convolution<T> {
    /// Creates a convolution with all weights 0.
    pub(super) fn zeros(inputs: usize, outputs: usize, window: Window) -> Self {
        Self { inputs, outputs, window, weights: vec![T::zero(); outputs * window.taps(inputs)] }
    }

    /// Returns K, the inputs of one sum.
    pub(super) fn taps(&self) -> usize {
        self.window.taps(self.inputs)
    }

    /// Returns the shape of its outputs.
    pub(super) fn shape(&self, input: Shape) -> Shape {
        self.window.outputs(input, self.outputs)
    }

    /// Computes the outputs of all records.
    pub(super) fn forward(&self, input: &Maps<T>) -> Maps<T> {
        let mut output = Maps::zeros(self.shape(input.shape), input.records());
        let part = input.records().div_ceil(PARTS).max(1);
        let (from, to) = (input.shape.values(), output.shape.values());
        let parts =
            output.values.par_chunks_mut(part * to).zip(input.values.par_chunks(part * from));
        parts.for_each(|(outputs, inputs)| {
            let mut columns = Vec::new();
            for (record, output) in inputs.chunks_exact(from).zip(outputs.chunks_exact_mut(to)) {
                self.forward_one(input.shape, record, output, &mut columns);
            }
        });
        output
    }

    /// Computes the outputs of one record. `columns` is a buffer.
    pub(super) fn forward_one(
        &self,
        input: Shape,
        record: &[T],
        output: &mut [T],
        columns: &mut Vec<T>,
    ) {
        let (k, area) = (self.taps(), self.shape(input).area());
        let weights = View::from_slice_with_strides(&self.weights, k, self.outputs, 1, k);
        for band in self.window.bands(input) {
            let (start, count) = (band.start, band.len());
            self.window.gather(input, record, band, columns);
            let columns = View::from_slice_with_strides(columns, count, k, 1, count);
            let output = &mut output[start..];
            let mut output =
                ViewMut::from_slice_with_strides_mut(output, count, self.outputs, 1, area);
            output.gemm(T::one(), &columns, &weights, T::zero());
        }
    }

    /// Computes the gradient of the weights from that of the outputs, and adds the gradient of the
    /// inputs to `below`.
    pub(super) fn backward(
        &self,
        input: &Maps<T>,
        gradient: &Maps<T>,
        below: Option<&mut Maps<T>>,
    ) -> Vec<f64> {
        let records = input.records();
        let part = records.div_ceil(PARTS).max(1);
        let (from, to) = (input.shape.values(), gradient.shape.values());
        let parts: Vec<Option<&mut [T]>> = match below {
            Some(maps) => maps.values.chunks_mut(part * from).map(Some).collect(),
            None => (0..records.div_ceil(part)).map(|_| None).collect(),
        };
        let parts = parts.into_par_iter().zip(input.values.par_chunks(part * from));
        let parts = parts.zip(gradient.values.par_chunks(part * to)).map(
            |((mut below, inputs), gradients)| {
                let mut weights = vec![T::zero(); self.weights.len()];
                let mut room = BackwardBuffers { columns: Vec::new(), gradient: Vec::new() };
                for (at, (record, gradient)) in
                    inputs.chunks_exact(from).zip(gradients.chunks_exact(to)).enumerate()
                {
                    let below = below.as_mut().map(|below| &mut below[at * from..(at + 1) * from]);
                    self.backward_one(
                        input.shape,
                        record,
                        gradient,
                        below,
                        &mut weights,
                        &mut room,
                    );
                }
                weights
            },
        );
        let parts: Vec<Vec<T>> = parts.collect();
        let k = self.taps();
        let mut weights = vec![0.0; self.weights.len()];
        for part in &parts {
            for (output, row) in weights.chunks_exact_mut(k).enumerate() {
                let values = part.iter().skip(output).step_by(self.outputs);
                row.iter_mut().zip(values).for_each(|(sum, v)| *sum += v.widen());
            }
        }
        weights
    }

    /// Computes the gradient of inputs of this shape from that of the outputs.
    pub(super) fn pull_back(&self, input: Shape, gradient: &Maps<T>) -> Maps<T> {
        let (k, area) = (self.taps(), self.shape(input).area());
        let turned = View::from_slice_with_strides(&self.weights, self.outputs, k, k, 1);
        let mut below = Maps::zeros(input, gradient.records());
        let records = gradient.values.chunks_exact(gradient.shape.values());
        let mut columns = Vec::new();
        for (gradient, below) in records.zip(below.values.chunks_exact_mut(input.values())) {
            for band in self.window.bands(input) {
                let (start, count) = (band.start, band.len());
                columns.resize(count * k, T::zero());
                let gradient =
                    View::from_slice_with_strides(&gradient[start..], count, self.outputs, 1, area);
                let mut given =
                    ViewMut::from_slice_with_strides_mut(&mut columns, count, k, 1, count);
                given.gemm(T::one(), &gradient, &turned, T::zero());
                self.window.scatter(input, below, band, &mut columns);
            }
        }
        below
    }

    /// Adds one record's gradient of the weights, Gᵀ · columns (outputs × K, column by column), to
    /// `weights`, and that of its inputs, G Wᵀ, to `below`.
    fn backward_one(
        &self,
        input: Shape,
        record: &[T],
        gradient: &[T],
        mut below: Option<&mut [T]>,
        weights: &mut [T],
        room: &mut BackwardBuffers<T>,
    ) {
        let (k, outputs, area) = (self.taps(), self.outputs, self.shape(input).area());
        let turned = View::from_slice_with_strides(&self.weights, outputs, k, k, 1);
        let mut weights = ViewMut::from_slice_with_strides_mut(weights, outputs, k, 1, outputs);
        for band in self.window.bands(input) {
            let (start, count) = (band.start, band.len());
            self.window.gather(input, record, band.clone(), &mut room.columns);
            let columns = View::from_slice_with_strides(&room.columns, count, k, 1, count);
            transpose(&gradient[start..], area, count, &mut room.gradient);
            let rows = View::from_slice_with_strides(&room.gradient, outputs, count, 1, outputs);
            weights.gemm(T::one(), &rows, &columns, T::one());
            if let Some(below) = &mut below {
                let gradient =
                    View::from_slice_with_strides(&gradient[start..], count, outputs, 1, area);
                let mut given =
                    ViewMut::from_slice_with_strides_mut(&mut room.columns, count, k, 1, count);
                given.gemm(T::one(), &gradient, &turned, T::zero());
                self.window.scatter(input, below, band, &mut room.columns);
            }
        }
    }
}

/// Buffers of the backward pass, reused for each record.
struct BackwardBuffers<T> {
    columns: Vec<T>,
    /// The gradient of a band: one pixel after another.
    gradient: Vec<T>,
}

/// Transposes the first `count` columns of a matrix whose rows are `stride` values apart. The last
/// row may be shorter.
fn transpose<T: Real>(rows: &[T], stride: usize, count: usize, turned: &mut Vec<T>) {
    let outputs = rows.len().div_ceil(stride);
    turned.resize(outputs * count, T::zero());
    for (output, row) in rows.chunks(stride).enumerate() {
        turned.iter_mut().skip(output).step_by(outputs).zip(row).for_each(|(to, from)| *to = *from);
    }
}

impl Convolution<f64> {
    /// Converts the layer to another number type.
    pub(super) fn narrow<T: Real>(&self) -> Convolution<T> {
        let Self { inputs, outputs, window, .. } = *self;
        Convolution { inputs, outputs, window, weights: narrowed(&self.weights) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, random};
    use super::*;

    /// The oracle: six loops for each record.
    fn naive(layer: &Convolution<f64>, input: &Maps<f64>) -> Maps<f64> {
        let (size, stride) = (layer.window.size, layer.window.stride);
        let (from, to) = (input.shape, layer.shape(input.shape));
        let mut output = Maps::zeros(to, input.records());
        let records = input.values.chunks(from.values()).zip(output.values.chunks_mut(to.values()));
        for (record, output) in records {
            for o in 0..layer.outputs {
                for (y, x) in (0..to.height).flat_map(|y| (0..to.width).map(move |x| (y, x))) {
                    for c in 0..layer.inputs {
                        for (down, right) in (0..size).flat_map(|d| (0..size).map(move |r| (d, r)))
                        {
                            let (row, column) = (y * stride + down, x * stride + right);
                            let (row, column) =
                                (row.wrapping_sub(size / 2), column.wrapping_sub(size / 2));
                            if row < from.height && column < from.width {
                                let weight = layer.weights
                                    [((o * layer.inputs + c) * size + down) * size + right];
                                let value = record[(c * from.height + row) * from.width + column];
                                output[(o * to.height + y) * to.width + x] += weight * value;
                            }
                        }
                    }
                }
            }
        }
        output
    }

    fn layer(inputs: usize, outputs: usize, size: usize, stride: usize) -> Convolution<f64> {
        let mut layer = Convolution::zeros(inputs, outputs, Window { size, stride });
        layer.weights = random(layer.weights.len(), 1);
        layer
    }

    fn dot(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// Sizes, strides and shapes: odd and even sides, sides of 1, few channels and many, and images
    /// of more than one band. The outputs are linear in the input and in the weights, so that
    /// products with the gradients give the value again.
    #[test]
    fn convolutions_are_those_of_six_loops() {
        let shapes = [
            (1, 1, 1),
            (2, 1, 5),
            (3, 4, 1),
            (2, 5, 7),
            (8, 6, 9),
            (7, 7, 2),
            (16, 31, 31),
            (16, 62, 61),
        ];
        for (channels, height, width) in shapes {
            let shape = Shape { channels, height, width };
            for (size, stride) in [(3, 1), (3, 2), (1, 1), (1, 2)] {
                let at = format!("{shape:?}, {size} × {size}, stride {stride}");
                let layer = layer(channels, 7, size, stride);
                // Large images are for bands: one size and stride each is enough.
                let large = shape.area() > 500;
                if large && (size == 1 || (stride == 1) != (shape.height == 31)) {
                    continue;
                }
                let records = if large { 1 } else { 3 };
                let input = Maps { shape, values: random(shape.values() * records, 2) };
                let found = layer.forward(&input);
                let expected = naive(&layer, &input);
                assert_eq!(found.shape, expected.shape, "{at}");
                for (found, expected) in found.values.iter().zip(&expected.values) {
                    assert!((found - expected).abs() < 1e-12, "{at}: {found}, {expected}");
                }
                let gradient = Maps { shape: found.shape, values: random(found.values.len(), 3) };
                let mut below = Maps::zeros(shape, records);
                let weights = layer.backward(&input, &gradient, Some(&mut below));
                let value = dot(&found.values, &gradient.values);
                assert!(
                    (dot(&layer.weights, &weights) - value).abs() < 1e-9,
                    "{at}: gradient of the weights"
                );
                assert!(
                    (dot(&input.values, &below.values) - value).abs() < 1e-9,
                    "{at}: gradient of the inputs"
                );
                assert_eq!(
                    layer.backward(&input, &gradient, None),
                    weights,
                    "{at}: without the inputs"
                );
            }
        }
        for (stride, height, width) in [(1, 31, 31), (2, 62, 61)] {
            let bands =
                Window { size: 3, stride }.bands(Shape { channels: 16, height, width }).count();
            assert_eq!(bands, 2, "a large image has more than one band");
        }
    }

    #[test]
    fn gradients_are_those_of_central_differences() {
        for (size, stride) in [(3, 1), (3, 2), (1, 2)] {
            let shape = Shape { channels: 2, height: 5, width: 4 };
            let mut layer = layer(2, 3, size, stride);
            let mut input = Maps { shape, values: random(shape.values() * 2, 4) };
            let outputs = layer.forward(&input);
            let direction = Maps { shape: outputs.shape, values: random(outputs.values.len(), 5) };
            let mut below = Maps::zeros(shape, 2);
            let weights = layer.backward(&input, &direction, Some(&mut below));
            check("weights", &weights, |at, by| {
                layer.weights[at] += by;
                let value = dot(&layer.forward(&input).values, &direction.values);
                layer.weights[at] -= by;
                value
            });
            check("inputs", &below.values, |at, by| {
                input.values[at] += by;
                let value = dot(&layer.forward(&input).values, &direction.values);
                input.values[at] -= by;
                value
            });
        }
    }

    /// The gradient of the inputs is added to what is there. Without a record the gradients are 0.
    #[test]
    fn gradients_are_added_and_no_record_gives_none() {
        let shape = Shape { channels: 2, height: 3, width: 3 };
        let layer = layer(2, 6, 3, 1);
        let empty = Maps::zeros(shape, 0);
        let outputs = layer.forward(&empty);
        assert_eq!(outputs.records(), 0);
        assert_eq!(layer.backward(&empty, &outputs, Some(&mut empty.clone())), vec![0.0; 108]);

        let input = Maps { shape, values: random(shape.values(), 2) };
        let gradient = Maps { shape: outputs.shape, values: random(outputs.shape.values(), 3) };
        let (mut first, mut second) = (Maps::zeros(shape, 1), Maps::zeros(shape, 1));
        layer.backward(&input, &gradient, Some(&mut first));
        layer.backward(&input, &gradient, Some(&mut second));
        layer.backward(&input, &gradient, Some(&mut second));
        for (once, twice) in first.values.iter().zip(&second.values) {
            assert!((2.0 * once - twice).abs() < 1e-12);
        }
    }
}
