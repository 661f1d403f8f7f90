//! What the check is tried on; never compiled.

mod by_macro;
mod by_macro_too;
mod child_only;
mod one;
mod parent;
mod three;
mod two;

// Passing a name on is no use of it.
pub use one::One;
pub use child_only::Alone;
