//! Checks of sizes that must be equal.

use vfl_core::types::ShapeError;

/// Checks that two sizes are equal.
///
/// # Errors
/// [`ShapeError::Size`] if they differ.
pub(super) fn same(
    what: &'static str,
    unit: &'static str,
    expected: usize,
    got: usize,
) -> Result<(), ShapeError> {
    if expected == got { Ok(()) } else { Err(ShapeError::Size { what, unit, expected, got }) }
}
