//! The options that name the caller's own tables.

use std::path::PathBuf;

use clap::Args;
use vfl_core::data::{CsvDialect, DecimalMark, Separator};
use vfl_studies::TableSpec;

/// The caller's own tables in place of a data set.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Your own tables")]
pub struct TableArgs {
    /// A table of your own, CSV or Parquet, in place of --dataset. Several: the active party's with
    /// the label first, then one of each passive party, joined by record id. NAME.schema.toml
    /// beside NAME.csv is its schema; without one it is guessed.
    #[arg(long = "table", value_name = "FILE", conflicts_with_all = ["dataset", "variant", "passive_features", "first_column", "passive_parties"])]
    pub tables: Vec<PathBuf>,
    /// Their columns.
    #[command(flatten)]
    pub columns: ColumnArgs,
}

/// The columns of the caller's own tables.
#[derive(Debug, Clone, Default, Args)]
pub struct ColumnArgs {
    /// The column to predict.
    #[arg(long, value_name = "COLUMN")]
    pub label: Option<String>,
    /// The label is a number, of which --link names the model unless --parameters brings one.
    #[arg(long, requires = "label")]
    pub number_label: bool,
    /// The columns of the data provider, of one table; once for each passive party. The active
    /// party has the others.
    #[arg(long, value_name = "COLUMN,…")]
    pub passive: Vec<String>,
    /// Columns that nobody is to have.
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub leave_out: Vec<String>,
    /// The column of the record ids. Default the first.
    #[arg(long, value_name = "COLUMN")]
    pub id: Option<String>,
    /// The separator of a CSV table: `,`, `;`, `|` or `tab`. Default: that of its header.
    #[arg(long, value_name = "CHARACTER")]
    pub separator: Option<Separator>,
    /// The decimal mark of a CSV table's numbers: `.` or `,`. Default a point.
    #[arg(long, value_name = "MARK")]
    pub decimal: Option<DecimalMark>,
    /// A file with the ids of the test records. Default: a tenth of the records; 1000 or two fifths
    /// of fewer than 10 000.
    #[arg(long, value_name = "FILE")]
    pub test_ids: Option<PathBuf>,
}

impl ColumnArgs {
    /// Returns the specification of these tables.
    pub(super) fn spec(&self, files: &[PathBuf], seed: u64) -> TableSpec {
        let columns = |list: &String| list.split(',').map(|name| name.trim().to_owned()).collect();
        TableSpec {
            files: files.to_vec(),
            dialect: self.dialect(),
            id: self.id.clone(),
            label: self.label.clone(),
            number_label: self.number_label,
            passive: self.passive.iter().map(columns).collect(),
            left_out: self.leave_out.clone(),
            test_ids: self.test_ids.clone(),
            seed,
            numbers: true,
        }
    }

    /// Returns the dialect of the tables that are CSV.
    pub(super) fn dialect(&self) -> CsvDialect {
        CsvDialect { separator: self.separator, decimal: self.decimal.unwrap_or_default() }
    }

    /// Returns the first of these options that is given.
    fn given(&self) -> Option<&'static str> {
        let given = [
            (self.label.is_some(), "--label"),
            (self.number_label, "--number-label"),
            (!self.passive.is_empty(), "--passive"),
            (!self.leave_out.is_empty(), "--leave-out"),
            (self.id.is_some(), "--id"),
            (self.separator.is_some(), "--separator"),
            (self.decimal.is_some(), "--decimal"),
            (self.test_ids.is_some(), "--test-ids"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
    }
}

impl TableArgs {
    /// Returns the specification of the tables, if there are any.
    ///
    /// # Errors
    /// The first option that is of a table, if there is none.
    pub(super) fn spec(&self, seed: u64) -> Result<Option<TableSpec>, &'static str> {
        match (self.tables.as_slice(), self.columns.given()) {
            ([], Some(option)) => Err(option),
            ([], None) => Ok(None),
            (files, _) => Ok(Some(self.columns.spec(files, seed))),
        }
    }

    /// Returns the number of passive parties.
    pub(super) fn parties(&self) -> usize {
        match self.tables.len() {
            0 | 1 => self.columns.passive.len(),
            files => files - 1,
        }
    }
}
