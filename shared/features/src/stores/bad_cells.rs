//! The cells of a file that its schema does not allow, counted by column and problem.

use std::collections::BTreeMap;

use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::{ColumnRole, RawRows, TableError, match_columns};

use crate::stores::DataError;
use crate::stores::table_file::{TableFile, rows_of};

/// The most columns and problems that are listed.
const LISTED: usize = 20;

/// Returns the error for a file that was refused, with all its bad cells counted if there are more
/// than the first one.
pub fn with_bad_cells<'a>(
    first: TableError,
    file: impl Into<TableFile<'a>>,
    schema: &FeatureSchema,
) -> DataError {
    let wanted: Vec<String> = schema.source_columns().into_iter().map(|of| of.name).collect();
    let file = file.into();
    let counted = || count(&mut *rows_of(file, Some(&wanted)).ok()?, schema);
    match counted().filter(|cells| first.column.is_some() && cells.values().sum::<u64>() > 1) {
        Some(cells) => DataError::BadCells { counts: listed(&cells), first: Box::new(first) },
        None => DataError::Table(first),
    }
}

/// The number of bad cells, by the column's place and name, and by problem.
type Counts = BTreeMap<(usize, String, String), u64>;

/// Counts the bad cells. A file that is malformed is read up to there.
fn count(rows: &mut dyn RawRows, schema: &FeatureSchema) -> Option<Counts> {
    let names = rows.names().to_vec();
    let targets = match_columns(schema, &names).ok()?;
    let mut cells = Counts::new();
    let mut values = vec![0.0; schema.len()];
    loop {
        let row = rows.next_row(&mut |at, cell| {
            let read = match targets.get(at).copied().flatten() {
                None => Ok(()),
                Some(ColumnRole::Id) => cell.text().map(drop),
                Some(ColumnRole::Label) => schema.read_label(cell).map(drop),
                Some(ColumnRole::Column(column)) => schema.read_feature(column, cell, &mut values),
            };
            if let (Err(problem), Some(name)) = (read, names.get(at)) {
                *cells.entry((at, name.clone(), problem.to_string())).or_default() += 1;
            }
            Ok(())
        });
        if !matches!(row, Ok(Some(_))) {
            return Some(cells);
        }
    }
}

fn listed(cells: &Counts) -> String {
    let line = |((_, column, problem), count): (&(usize, String, String), &u64)| {
        let cells = if *count == 1 { "cell" } else { "cells" };
        format!("\n  column {column}: {count} {cells}: {problem}")
    };
    let more = cells.len().saturating_sub(LISTED);
    let lines: String = cells.iter().take(LISTED).map(line).collect();
    if more > 0 { format!("{lines}\n  and {more} more") } else { lines }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::stores::DataConfig;

    /// Every column with bad cells is named with their number, and no value.
    #[test]
    fn all_bad_cells_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let (csv, schema) = (dir.path().join("x.csv"), dir.path().join("x.toml"));
        let features = "[[features]]\nname = \"f\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n\
                        [[features]]\nname = \"when\"\nkind = \"date\"\nmin = \"2020-01-01\"\nmax = \"2021-01-01\"\n";
        std::fs::write(&schema, format!("id = \"id\"\n{features}")).unwrap();
        let open = |rows: &str| {
            std::fs::write(&csv, format!("id,f,when\n{rows}")).unwrap();
            let config = DataConfig { csv: Some(csv.clone()), ..DataConfig::of(schema.clone()) };
            config.open().map(drop).map_err(|e| e.to_string())
        };
        let error = open("a,7.25,2020-01-01\nb,,31.12.2020\nc,8.5,2020-02-30\n").unwrap_err();
        assert!(error.contains("line 2, column f: the number is outside"), "{error}");
        assert!(error.contains("column f: 2 cells: the number is outside"), "{error}");
        assert!(error.contains("column f: 1 cell: the field is empty"), "{error}");
        assert!(error.contains("column when: 2 cells: not a date"), "{error}");
        assert!(!error.contains("7.25") && !error.contains("31.12"), "{error}");
        let one = open("a,7.25,2020-01-01\nb,0.5,2020-01-01\n").unwrap_err();
        assert!(!one.contains("cells"), "{one}");
        assert_eq!(open("a,0.25,2020-01-01\n"), Ok(()));
    }
}
