//! Parses numbers of the command line that are at least 1.

/// Parses a whole number above 0.
///
/// # Errors
/// A message for anything else.
pub fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a whole number above 0".into())
}
