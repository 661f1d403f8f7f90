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
mod input;
mod messages;
mod policies;
mod schema;

pub use self::csv::csv;
pub use case_files::case_files;
pub use config::config;
pub use echo::shows_no_value;
pub use input::{MAX_INPUT, Target};
pub use messages::{MESSAGES, messages, shown_spec};
pub use schema::schema;

/// All targets by name, which is that of their corpus and of their libFuzzer program too.
pub const TARGETS: [(&str, Target); 5] = [
    ("messages", messages),
    ("csv", csv),
    ("schema", schema),
    ("config", config),
    ("case_files", case_files),
];
