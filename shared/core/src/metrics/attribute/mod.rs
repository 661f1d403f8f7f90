//! Attributes of a schema, and the figures that compare an attack on one of them with its control.
//!
//! An attribute is a column of the schema: all one-hot columns of a group together, any other
//! feature by itself. Errors are in units of the attribute's own variance over the records scored,
//! so that neither the declared range nor the encoding weighs it.

mod error_reduction;
mod event;
mod figures;
mod ranks;
mod schema;
#[cfg(test)]
mod tests;

pub use error_reduction::{ErrorRatio, ErrorReduction, HalfErrorReduction, fieller};
pub use event::{Event, EventFigures};
pub use figures::{AttributeFigures, ControlledFigure, ToleranceShare};
pub use ranks::area_under_curve;
pub use schema::{Attribute, AttributeKind, attributes};
