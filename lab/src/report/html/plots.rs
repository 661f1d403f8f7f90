//! The plots of the page.

/// SVG texts; absent where there is nothing to draw.
pub(super) struct Plots {
    pub(super) sweep: Option<String>,
    pub(super) defenses: Option<String>,
    /// One per audit.
    pub(super) features: Vec<Option<String>>,
}
