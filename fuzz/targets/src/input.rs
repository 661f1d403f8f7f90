//! What all targets do with their input.

/// The longest input that is looked at, in bytes: what is beyond is cut off.
pub const MAX_INPUT: usize = 64 << 10;

/// A function that is fuzzed.
pub type Target = fn(&[u8]);

/// The input up to [`MAX_INPUT`].
pub(crate) fn bounded(data: &[u8]) -> &[u8] {
    data.get(..MAX_INPUT).unwrap_or(data)
}

/// The parts of an input, which zero bytes separate: no text that is fuzzed holds any. Absent parts are empty.
pub(crate) fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut split = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| split.next().unwrap_or_default())
}
