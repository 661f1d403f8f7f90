//! The matrix of a convolution. For a band of B output pixels it is B × K, K = inputs · size²:
//! column (c, y, x) holds the value that each output pixel takes from input channel c at offset (y,
//! x) of the kernel. Columns are stored one after another.

use std::ops::Range;

use super::maps::{Real, Shape};

/// The largest number of values of one band: half a megabyte in 32 bits, so that a band stays in a
/// processor's cache.
const MOST_VALUES: usize = 1 << 17;

/// The size and the stride of a kernel. `size` is odd, and the input has a border of size / 2
/// zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) size: usize,
    pub(super) stride: usize,
}

impl Window {
    /// Returns the shape of the outputs: each side is divided by the stride, rounded up.
    pub(super) fn outputs(self, input: Shape, channels: usize) -> Shape {
        Shape {
            channels,
            height: input.height.div_ceil(self.stride),
            width: input.width.div_ceil(self.stride),
        }
    }

    /// Returns K for this many input channels.
    pub(super) fn taps(self, inputs: usize) -> usize {
        inputs * self.size * self.size
    }

    /// Returns the bands of output pixels. They depend on the shape alone.
    pub(super) fn bands(self, input: Shape) -> impl Iterator<Item = Range<usize>> {
        let area = self.outputs(input, 1).area();
        let step = (MOST_VALUES / self.taps(input.channels)).clamp(1, area);
        (0..area).step_by(step).map(move |from| from..area.min(from + step))
    }

    /// Fills the matrix of a band from one record.
    pub(super) fn gather<T: Real>(
        self,
        input: Shape,
        record: &[T],
        band: Range<usize>,
        columns: &mut Vec<T>,
    ) {
        let count = band.len();
        columns.resize(count * self.taps(input.channels), T::zero());
        let mut targets = columns.chunks_exact_mut(count);
        for plane in record.chunks_exact(input.area()) {
            for offset in self.offsets() {
                // One column for each channel and offset.
                let Some(target) = targets.next() else { return };
                if self.stride == 1 {
                    self.gather_shifted(input, plane, band.start, offset, target);
                } else {
                    target.fill(T::zero());
                    self.each(input, &band, offset, |to, from| target[to] = plane[from]);
                }
            }
        }
    }

    /// Adds the matrix of a band to one record, each value to the input value it came from. Changes
    /// `columns`.
    pub(super) fn scatter<T: Real>(
        self,
        input: Shape,
        record: &mut [T],
        band: Range<usize>,
        columns: &mut [T],
    ) {
        let mut sources = columns.chunks_exact_mut(band.len());
        for plane in record.chunks_exact_mut(input.area()) {
            for offset in self.offsets() {
                let Some(source) = sources.next() else { return };
                if self.stride == 1 {
                    self.scatter_shifted(input, plane, band.start, offset, source);
                } else {
                    self.each(input, &band, offset, |from, to| plane[to] += source[from]);
                }
            }
        }
    }

    /// Returns all offsets of the kernel from its middle, down and right, row by row.
    fn offsets(self) -> impl Iterator<Item = (isize, isize)> {
        let reach = (self.size / 2) as isize;
        (-reach..=reach).flat_map(move |down| (-reach..=reach).map(move |right| (down, right)))
    }

    /// Fills a column for stride 1: the plane itself, shifted, with zeros where the shift leaves
    /// the plane or a row.
    fn gather_shifted<T: Real>(
        self,
        input: Shape,
        plane: &[T],
        start: usize,
        offset: (isize, isize),
        target: &mut [T],
    ) {
        let (inside, source) = shifted(input, start, offset, target.len());
        target[..inside.start].fill(T::zero());
        target[inside.end..].fill(T::zero());
        target[inside].copy_from_slice(&plane[source]);
        clear_edges(input.width, start, offset.1, target);
    }

    fn scatter_shifted<T: Real>(
        self,
        input: Shape,
        plane: &mut [T],
        start: usize,
        offset: (isize, isize),
        source: &mut [T],
    ) {
        clear_edges(input.width, start, offset.1, source);
        let (inside, target) = shifted(input, start, offset, source.len());
        plane[target].iter_mut().zip(&source[inside]).for_each(|(v, s)| *v += *s);
    }

    /// Calls `pair` with each output pixel, counted from the start of the band, and the input pixel
    /// at the offset from it.
    fn each(
        self,
        input: Shape,
        band: &Range<usize>,
        offset: (isize, isize),
        mut pair: impl FnMut(usize, usize),
    ) {
        let width = self.outputs(input, 1).width;
        let (mut row, mut column) = (band.start / width, band.start % width);
        for at in 0..band.len() {
            let y = (row * self.stride).checked_add_signed(offset.0).filter(|y| *y < input.height);
            let x =
                (column * self.stride).checked_add_signed(offset.1).filter(|x| *x < input.width);
            if let (Some(y), Some(x)) = (y, x) {
                pair(at, y * input.width + x);
            }
            column += 1;
            if column == width {
                (row, column) = (row + 1, 0);
            }
        }
    }
}

/// Returns those pixels of a band of `count` pixels from `start` whose pixel at the offset is in
/// the plane, and the range of the latter. A pixel beyond the end of a row counts as one of the
/// next row; [`clear_edges`] corrects those.
fn shifted(
    input: Shape,
    start: usize,
    offset: (isize, isize),
    count: usize,
) -> (Range<usize>, Range<usize>) {
    let area = input.area() as isize;
    let from = start as isize + offset.0 * input.width as isize + offset.1;
    let first = (-from).clamp(0, count as isize);
    let last = (area - from).clamp(first, count as isize);
    let source = (from + first).clamp(0, area);
    (first as usize..last as usize, source as usize..(source + last - first) as usize)
}

/// Puts 0 where the pixel at the offset is beyond the left or the right end of its row.
fn clear_edges<T: Real>(width: usize, start: usize, right: isize, values: &mut [T]) {
    let out = right.unsigned_abs().min(width);
    for edge in if right < 0 { 0..out } else { width - out..width } {
        // The first pixel of the band in this column of the image.
        let first = (edge + width - start % width) % width;
        values.iter_mut().skip(first).step_by(width).for_each(|v| *v = T::zero());
    }
}
