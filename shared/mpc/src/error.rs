//! The errors of a computation.

use crate::link::LinkError;
use crate::party_index::PartyIndex;

/// The errors of a computation among three parties. After one of a link or a message, and
/// once stopped, the session refuses to go on.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum MpcError {
    /// The link to a party failed.
    #[error("party {party} of the computation: {error}")]
    Link {
        /// The other party.
        party: PartyIndex,
        /// The failure.
        error: LinkError,
    },
    /// Another party takes another place, or computes something else.
    #[error("party {party} does not agree on {what}: configure all three alike")]
    Disagreement {
        /// The other party.
        party: PartyIndex,
        /// The thing that differs.
        what: &'static str,
    },
    /// The session failed before. What it would send now could tell more than it should.
    #[error("this session has failed: begin another one")]
    Over,
    /// This party's caller stopped the computation.
    #[error("this party has stopped the computation")]
    Stopped,
    /// A data owner's message has another length than its numbers take.
    #[error("the data owner sent {got} bytes, its numbers take {expected}: agree on their count")]
    DealtLength {
        /// The length of the numbers' message, in bytes.
        expected: usize,
        /// The length of the message.
        got: usize,
    },
    /// A message has another length than this step of the protocol has.
    #[error("party {party} sent {got} bytes, this step has {expected}: it computes something else")]
    MessageLength {
        /// The sender.
        party: PartyIndex,
        /// The length of the step's message, in bytes.
        expected: usize,
        /// The length of the message.
        got: usize,
    },
    /// No inputs have the result that was opened. Any of the three may have caused it. After a
    /// release the session goes on: that it ended would tell the others something about the result.
    #[error("{what} was opened that no numbers of the parties have: one of the three has deviated")]
    NoResult {
        /// The result.
        what: &'static str,
    },
    /// Two operands do not fit together.
    #[error("{what} has {got} elements, expected {expected}")]
    Shape {
        /// The operand.
        what: &'static str,
        /// The number of elements that fits.
        expected: usize,
        /// Its number of elements.
        got: usize,
    },
    /// A number is not finite, or too large for the fixed-point representation.
    #[error("number {at} does not lie between -{limit} and {limit}")]
    NotRepresentable {
        /// The position of the number, from 0.
        at: usize,
        /// The largest magnitude.
        limit: f64,
    },
    /// A setting is out of its range.
    #[error("{name} is {got}, it must be {range}")]
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// Its value.
        got: f64,
        /// The values that are possible.
        range: &'static str,
    },
}

/// Checks what was opened.
///
/// # Errors
/// [`MpcError::NoResult`] unless it is a result of some inputs.
pub(crate) fn check_result(what: &'static str, possible: bool) -> Result<(), MpcError> {
    if possible { Ok(()) } else { Err(MpcError::NoResult { what }) }
}

/// Checks the number of elements of an operand.
///
/// # Errors
/// [`MpcError::Shape`] if it differs from `expected`.
pub(crate) fn check_length(
    what: &'static str,
    got: usize,
    expected: usize,
) -> Result<(), MpcError> {
    if got == expected { Ok(()) } else { Err(MpcError::Shape { what, expected, got }) }
}
