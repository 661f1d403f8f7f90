//! Charts as inline SVG: axes, a canvas and colours.

pub(crate) mod axis;
pub(crate) mod canvas;
pub mod ink;

pub use axis::{ErrorAxis, FLOOR_LABEL};
pub use canvas::{Anchor, At, Canvas, Marker, PlotError, svg, text_width};
