//! The plots of the page.

/// SVG texts; absent where there is nothing to draw.
pub(super) struct Plots {
    /// Accuracy lost against added risk: for wide screens and paper, and for narrow screens.
    pub(super) frontier: Option<(String, String)>,
    pub(super) sweep: Option<String>,
    pub(super) defenses: Option<String>,
    /// One per audit.
    pub(super) features: Vec<Option<String>>,
}
