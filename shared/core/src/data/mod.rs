//! Feature tables in memory, their schemas, and the bits of a record.

mod cell;
mod csv_dialect;
mod csv_error;
mod csv_file;
mod csv_lines;
mod date;
mod feature_spec;
mod grid;
mod index;
pub mod normalise;
mod record_bits;
mod rows;
mod scale;
pub mod schema;
mod schema_file;
pub mod table;

pub use cell::{Cell, ColumnRole, SourceColumn};
pub use csv_dialect::{CsvDialect, DecimalMark, Separator};
pub use csv_error::{FilePosition, TableError, TableProblem};
pub use csv_file::{CsvRows, check_columns, read_schema};
pub use csv_lines::Limits;
pub use date::{date_text, days};
pub use grid::Decimals;
pub use index::{IdIndex, IdSet};
pub use record_bits::RecordBits;
pub use rows::{RawRows, TakeCell, match_columns};
pub use scale::Scale;
pub use schema_file::one_hot;
