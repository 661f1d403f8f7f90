//! Presentation for people: numbers and text, tables, charts, the shell of a page, progress, and
//! finished work in a folder or a store.

pub mod number;
mod page;
pub mod plot;
pub mod progress;
pub mod result_cache;
mod shard_choice;
mod table;
pub(crate) mod text;

pub use number::{change, figure, four, ratio, significant};
pub use page::{Shell, said, style_sheet};
pub use shard_choice::{ShardChoice, ShardError};
pub use table::{Cell, ColumnKind, Frame, RowKind, Table};
pub use text::{printable, shortened, wrapped};
