//! The plots of the page.

/// The SVG texts of the plots; absent if there is nothing to draw.
pub(super) struct Plots {
    /// The accuracy lost against the added risk: for wide screens and paper, and for narrow
    /// screens.
    pub(super) frontier: Option<(String, String)>,
    pub(super) sweep: Option<String>,
    pub(super) defenses: Option<String>,
    /// The plots by feature, one per audit.
    pub(super) features: Vec<Option<String>>,
}
