//! A party's CSV file against a schema.

use std::path::Path;

use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::data::{CsvDialect, CsvRows, DecimalMark, Limits};
use vfl_core::types::RecordIds;

use crate::input::{bounded, parts};
use crate::shows_no_value;

/// A schema in TOML, a zero byte, and the CSV file, which is also read as a list of ids.
///
/// # Panics
/// If a table is not the same when written and read again, or an error shows a number of a record.
pub fn csv(data: &[u8]) {
    let [schema, file] = parts(bounded(data));
    if let Ok(text) = std::str::from_utf8(file)
        && let Ok(ids) = RecordIds::new(text.lines().filter(|line| !line.is_empty()))
    {
        assert!(ids.iter().eq(text.lines().filter(|line| !line.is_empty())));
    }
    let Ok(text) = std::str::from_utf8(schema) else { return };
    let Ok(schema) = FeatureSchema::from_toml(text) else { return };
    let name = Path::new("fuzzed.csv");
    let limits = Limits { file_bytes: 60_000, records: 300, field_bytes: 200 };
    // A number with a decimal comma is refused or read, and shown in no error.
    let comma = CsvDialect { separator: None, decimal: DecimalMark::Comma };
    let rows = CsvRows::new(name, file, comma, &limits);
    let read =
        rows.and_then(|mut rows| FeatureTable::from_rows(schema.clone(), &mut rows, &limits));
    if let Err(error) = read {
        refused(&error.to_string(), text, &schema, file);
    }
    let table = match FeatureTable::from_reader(schema.clone(), name, file, &limits) {
        Ok(table) => table,
        Err(error) => return refused(&error.to_string(), text, &schema, file),
    };
    assert!(!format!("{table:?}").contains("0."), "a table shows shapes only");
    let mut written = Vec::new();
    table.write_csv(&mut written).unwrap_or_else(|e| panic!("a table cannot be written: {e}"));
    let again = FeatureTable::from_reader(
        table.normalised_schema(),
        name,
        &written[..],
        &Limits::default(),
    )
    .unwrap_or_else(|e| panic!("a table does not read back: {e}"));
    assert_eq!(again.ids(), table.ids());
    assert_eq!(again.labels(), table.labels());
    assert!(again.block() == table.block(), "features change when written and read");
    for (position, id) in table.ids().iter().enumerate() {
        assert_eq!(table.position(id), Some(position));
    }
    assert!(table.fetch(table.ids()).is_ok_and(|block| &block == table.block()));
}

/// Checks that an error shows no field, apart from what header and schema show.
fn refused(message: &str, schema_text: &str, schema: &FeatureSchema, file: &[u8]) {
    let Ok(text) = std::str::from_utf8(file) else { return };
    // Before the header there may be a line that names the separator.
    let named = text.starts_with("sep=") || text.starts_with("\u{feff}sep=");
    let from = if named { text.find('\n').map_or(0, |end| end + 1) } else { 0 };
    let (header, rows) = text[from..].split_once('\n').unwrap_or((text, ""));
    let ranges: Vec<String> =
        schema.features().iter().flat_map(|f| [f.min.to_string(), f.max.to_string()]).collect();
    // Blank lines may stand before the header.
    let header = if header.trim().is_empty() { text } else { header };
    let public: Vec<&str> =
        ranges.iter().map(String::as_str).chain([schema_text, header]).collect();
    shows_no_value(message, rows.split(['\n', ',', ';', '\t', '|', '"', '\r']), &public);
}
