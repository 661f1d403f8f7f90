//! What is fuzzed: everything that reads bytes from outside. One function per kind of input; each takes any bytes, and must neither
//! panic nor hang nor grow beyond what its input justifies.
//!
//! The functions know nothing of a fuzzer. libFuzzer runs them in `fuzz/` (`scripts/fuzz.sh`); the tests of this crate replay the
//! corpus that it found, so that what was mended stays mended without an instrumented build.
//!
//! Beside not failing, the functions check what their inputs allow to be checked:
//! - what is read, written and read again is the same;
//! - an error shows no feature, score or parameter of the input (see [`shows_no_value`]);
//! - what is computed is finite.

mod case_files;
mod config;
mod csv;
mod echo;
mod messages;
mod policies;
mod schema;

pub use self::csv::csv;
pub use case_files::case_files;
pub use config::config;
pub use echo::shows_no_value;
pub use messages::{MESSAGES, messages};
pub use schema::schema;

/// The longest input that is looked at, in bytes: what is beyond is cut off.
pub const MAX_INPUT: usize = 64 << 10;

/// A function that is fuzzed.
pub type Target = fn(&[u8]);

/// All targets by name, which is that of their corpus and of their libFuzzer program too.
pub const TARGETS: [(&str, Target); 5] =
    [("messages", messages), ("csv", csv), ("schema", schema), ("config", config), ("case_files", case_files)];

/// The input up to [`MAX_INPUT`].
fn bounded(data: &[u8]) -> &[u8] {
    data.get(..MAX_INPUT).unwrap_or(data)
}

/// The parts of an input, which zero bytes separate: no text that is fuzzed holds any. Absent parts are empty.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut split = data.splitn(N, |byte| *byte == 0);
    std::array::from_fn(|_| split.next().unwrap_or_default())
}
