//! The commands `schema infer` and `load-features`, for the parties that hold features.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use vfl_core::data::{CsvDialect, DecimalMark, Separator, read_schema};
use vfl_features::stores::{DataConfig, Inference, LoadError, TableFile, infer, load_sqlite};
use vfl_server::cli::CliError;

/// The options of `schema`
#[derive(Debug, Args)]
pub struct SchemaArgs {
    #[command(subcommand)]
    command: SchemaCommand,
}

#[derive(Debug, Subcommand)]
enum SchemaCommand {
    /// Guess a schema from a file, for its owner to correct: kinds, categories, and the ranges
    /// observed.
    Infer(InferArgs),
}

/// The file that is read.
#[derive(Debug, Args)]
struct FileArgs {
    /// The file: Parquet if its name ends in .parquet, otherwise CSV with a header.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
    /// The separator of a CSV file: `,`, `;`, `|` or `tab`. Default: that of its header.
    #[arg(long, value_name = "CHARACTER")]
    separator: Option<Separator>,
    /// The decimal mark of a CSV file's numbers: `.` or `,`. Default a point.
    #[arg(long, value_name = "MARK")]
    decimal: Option<DecimalMark>,
}

impl FileArgs {
    fn file(&self) -> TableFile<'_> {
        let decimal = self.decimal.unwrap_or_default();
        TableFile { path: &self.from, dialect: CsvDialect { separator: self.separator, decimal } }
    }
}

/// The options of `schema infer`
#[derive(Debug, Args)]
#[command(after_help = "\
The guess is a beginning. A schema is public: the ranges observed are values of single records, and must be replaced by ranges \
that are known without the data. The file says so too.")]
pub struct InferArgs {
    #[command(flatten)]
    from: FileArgs,
    /// The column of the record ids. Default the first.
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// The column of the labels (active party).
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// The label is a number.
    #[arg(long, requires = "label")]
    number_label: bool,
    /// The maximum number of categories of a text column.
    #[arg(long, value_name = "N", default_value_t = vfl_features::stores::MAX_CATEGORIES)]
    max_categories: usize,
    /// The file to write the schema to; an existing file is not replaced. Default: standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl SchemaArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] that names the file or the column.
    pub fn run(self) -> Result<(), CliError> {
        let SchemaCommand::Infer(args) = self.command;
        let asked = Inference {
            id: args.id,
            label: args.label,
            number_label: args.number_label,
            max_categories: Some(args.max_categories),
            features: None,
        };
        let text = infer(args.from.file(), &asked).map_err(CliError::input)?.text;
        let Some(out) = args.out else {
            return std::io::stdout().write_all(text.as_bytes()).map_err(CliError::failed);
        };
        let written =
            std::fs::File::create_new(&out).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|e| CliError::failed(format!("cannot write {}: {e}", out.display())))
    }
}

/// The options of `load-features`
#[derive(Debug, Args)]
#[command(after_help = "\
Fills the SQLite file that [data.sqlite] names. Every value is checked against the schema. The file appears when all of it is \
written. A running service reads the new file after a restart.")]
pub struct LoadArgs {
    /// The config file (TOML), whose [data] names the schema and `sqlite`.
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    #[command(flatten)]
    from: FileArgs,
    /// Replace the old file by the new one.
    #[arg(long)]
    replace: bool,
}

impl LoadArgs {
    /// Loads the file; `data` reads `[data]` of the config file.
    ///
    /// # Errors
    /// [`CliError`] that names file, row and column.
    pub async fn run(
        self,
        data: impl FnOnce(&Path) -> Result<DataConfig, vfl_server::config::ConfigError>,
    ) -> Result<(), CliError> {
        let data = data(&self.config).map_err(CliError::input)?;
        let Some(sqlite) = &data.sqlite else {
            let message = format!("{}: [data] names no `sqlite` to fill", self.config.display());
            return Err(CliError::input(message));
        };
        let schema = read_schema(&data.schema).map_err(CliError::input)?;
        let count = load_sqlite(sqlite, &schema, self.from.file(), self.replace).await.map_err(
            |e| match e {
                LoadError::Write { .. } => CliError::failed(e),
                _ => CliError::input(e),
            },
        )?;
        let file = sqlite.file.display();
        writeln!(std::io::stdout(), "{count} records in {file}, table {}", sqlite.table)
            .map_err(CliError::failed)
    }
}
