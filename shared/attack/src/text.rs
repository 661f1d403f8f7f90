//! Text of other parties in messages.

/// Returns the first 80 characters.
pub(super) fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
