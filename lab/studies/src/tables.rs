//! The caller's own tables: one, whose columns are divided between the parties, or one of each
//! party.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::{FeatureStore as _, FeatureTable};
use vfl_core::data::{ColumnRole, CsvDialect, Limits, read_schema};
use vfl_core::types::PartyName;
use vfl_datasets::{Dataset, PartyTables, passive_names};
use vfl_features::read_ids;
use vfl_features::stores::{Inference, InferredSchema, TableFile, infer, rows_of, with_bad_cells};

/// Tables, CSV or Parquet, with the parties that hold their columns.
///
/// A file `NAME.schema.toml` beside `NAME.csv` is its schema. Without one the schema is guessed
/// from the values.
#[derive(Debug, Clone, PartialEq)]
pub struct TableSpec {
    /// One file with the columns of all parties; or the active party's, then a file of each passive
    /// party.
    pub files: Vec<PathBuf>,
    /// The separator and the decimal mark of those that are CSV.
    pub dialect: CsvDialect,
    /// The column of the record ids; `None`: the first.
    pub id: Option<String>,
    /// The column of the labels; `None`: that of the schema file.
    pub label: Option<String>,
    /// True if the label is a number, in tables without a schema file.
    pub number_label: bool,
    /// The columns of each passive party in one file. The active party has the others.
    pub passive: Vec<Vec<String>>,
    /// Columns that no party has.
    pub left_out: Vec<String>,
    /// A file with the ids of the test records; `None`: they are drawn.
    pub test_ids: Option<PathBuf>,
    /// The seed of the split into training and test records.
    pub seed: u64,
    /// True if a label that is a number is read, for a training.
    pub numbers: bool,
}

/// The table of a party, and its schema as text.
#[derive(Debug)]
pub struct PartyData {
    /// The party's name; `None`: the active party.
    pub name: Option<PartyName>,
    /// The schema file's text.
    pub schema_text: String,
    /// The file that the schema was read from; `None`: it was guessed.
    pub schema_file: Option<PathBuf>,
    /// Notes on the guess.
    pub notes: Vec<String>,
    /// The table.
    pub table: FeatureTable,
    /// The active party's label as the first feature of a table, if it is a number with a range
    /// and the file has it.
    pub numbers: Option<FeatureTable>,
}

impl TableSpec {
    /// Returns the name of the data: that of the first file, without its extension.
    #[must_use]
    pub fn name(&self) -> String {
        let stem = self.files.first().and_then(|file| file.file_stem());
        stem.map_or_else(|| "table".into(), |stem| stem.to_string_lossy().into_owned())
    }

    /// Loads the tables and joins them by record id.
    ///
    /// # Errors
    /// An error that names the file and the column.
    pub fn load(&self) -> anyhow::Result<Dataset> {
        self.join(&self.parties()?)
    }

    /// Joins the tables of the parties by record id.
    ///
    /// # Errors
    /// If they have no record in common, or the ids of the test records cannot be read.
    pub fn join(&self, parties: &[PartyData]) -> anyhow::Result<Dataset> {
        let (active, passive) = parties.split_first().context("no table is named")?;
        let (active, numbers) = (active.table.clone(), active.numbers.clone());
        let passive = passive.iter().filter_map(|of| Some((of.name.clone()?, of.table.clone())));
        let passive = passive.collect();
        let test = self.test_ids.as_deref().map(read_ids).transpose()?;
        let tables = PartyTables { active, passive, numbers };
        Ok(Dataset::join(&self.name(), &tables, test.as_ref(), self.seed)?)
    }

    /// Reads the table of each party, the active party's first.
    ///
    /// # Errors
    /// An error that names the file and the column.
    pub fn parties(&self) -> anyhow::Result<Vec<PartyData>> {
        match self.files.as_slice() {
            [] => bail!("no table is named"),
            [file] => self.divided(file),
            [active, passive @ ..] => {
                ensure!(
                    self.passive.is_empty(),
                    "--passive divides the columns of one table: of several tables, the first is the active party's, and each other one a passive party's"
                );
                self.check_left_out()?;
                let names = names_of(passive)?;
                let mut parties = vec![self.whole(active, None)?];
                for (file, name) in passive.iter().zip(names) {
                    parties.push(self.whole(file, Some(name))?);
                }
                Ok(parties)
            }
        }
    }

    /// Checks that each column to be left out is in one of several tables.
    fn check_left_out(&self) -> anyhow::Result<()> {
        let mut unknown = self.left_out.clone();
        for file in &self.files {
            let names = rows_of(self.file(file), None)?.names().to_vec();
            unknown.retain(|name| !names.contains(name));
        }
        ensure!(unknown.is_empty(), "no table has the column {:?}", unknown.first());
        Ok(())
    }

    /// Returns the schema of one file with the columns of all parties, as text; `None` for several
    /// files.
    #[must_use]
    pub fn joined_schema(&self, parties: &[PartyData]) -> Option<String> {
        let [_] = self.files.as_slice() else { return None };
        let (active, passive) = parties.split_first()?;
        let features = passive.iter().filter_map(|party| {
            let text = &party.schema_text;
            text.get(text.find("[[features]]")?..)
        });
        let text = active.schema_text.trim_end();
        Some(
            features.fold(text.to_owned(), |text, more| format!("{text}\n\n{}", more.trim_end()))
                + "\n",
        )
    }

    /// Reads a party's own file.
    fn whole(&self, file: &Path, name: Option<PartyName>) -> anyhow::Result<PartyData> {
        let beside = schema_beside(file);
        let label = self.label.clone().filter(|_| name.is_none());
        let kept = |columns: &mut dyn Iterator<Item = String>| -> Vec<String> {
            columns.filter(|column| !self.left_out.contains(column)).collect()
        };
        let guess = match &beside {
            Some(path) if self.left_out.is_empty() => {
                self.agrees(path, &read_schema(path)?, label.as_ref())?;
                given(read_text(path)?)
            }
            Some(path) => {
                let schema = read_schema(path)?;
                self.agrees(path, &schema, label.as_ref())?;
                let columns = kept(&mut feature_columns(&schema));
                given(schema.of_columns(&columns, name.is_none()).to_toml()?)
            }
            None => {
                let names = rows_of(self.file(file), None)?.names().to_vec();
                let id = self.id.clone().or_else(|| names.first().cloned());
                let other =
                    |column: &String| Some(column) != id.as_ref() && Some(column) != label.as_ref();
                let columns = kept(&mut names.into_iter().filter(other));
                self.guess(file, label, Some(columns))?
            }
        };
        self.read(file, name, guess, beside)
    }

    /// Checks that a schema file names the same id and label as the options.
    fn agrees(
        &self,
        path: &Path,
        schema: &FeatureSchema,
        label: Option<&String>,
    ) -> anyhow::Result<()> {
        let own = [
            ("--id", self.id.as_ref(), Some(schema.id_column())),
            ("--label", label, schema.label_column()),
        ];
        for (option, given, said) in own {
            if let Some(given) = given.filter(|given| Some(given.as_str()) != said) {
                bail!(
                    "{option} {given}: {} says {}; leave the option out, or correct the schema",
                    path.display(),
                    said.unwrap_or("none")
                );
            }
        }
        Ok(())
    }

    /// Divides the columns of one file between the parties.
    fn divided(&self, file: &Path) -> anyhow::Result<Vec<PartyData>> {
        ensure!(
            !self.passive.is_empty(),
            "say which columns of {} the data provider holds: --passive COLUMN,…, once for each passive party",
            file.display()
        );
        let beside = schema_beside(file);
        let whole = beside.as_deref().map(read_schema).transpose()?;
        let (id, label, columns) = match &whole {
            Some(schema) => {
                if let Some(path) = &beside {
                    self.agrees(path, schema, self.label.as_ref())?;
                }
                let label = schema.label_column().map(str::to_owned);
                (schema.id_column().to_owned(), label, feature_columns(schema).collect())
            }
            None => {
                let names = rows_of(self.file(file), None)?.names().to_vec();
                let first = names.first().cloned().context("the table has no column")?;
                (self.id.clone().unwrap_or(first), self.label.clone(), names)
            }
        };
        let label = label.with_context(|| match &beside {
            Some(path) => format!("{} has no [label]: add it", path.display()),
            None => format!("say which column of {} is the label: --label COLUMN", file.display()),
        })?;
        let mut taken: Vec<&String> = Vec::new();
        for name in self.passive.iter().flatten().chain(&self.left_out) {
            // A column that the schema leaves out already may be left out once more.
            if whole.is_some() && self.left_out.contains(name) && !columns.contains(name) {
                continue;
            }
            ensure!(columns.contains(name), "{} has no column {name:?}", file.display());
            ensure!(!taken.contains(&name), "column {name:?} is named twice");
            ensure!(*name != id && *name != label, "column {name:?} is the id or the label");
            taken.push(name);
        }
        let active = columns.iter().filter(|c| !taken.contains(c) && **c != id && **c != label);
        let of_party = |name: Option<PartyName>, held: Vec<String>| {
            let label = name.is_none().then(|| label.clone());
            let guess = match &whole {
                Some(schema) => given(schema.of_columns(&held, label.is_some()).to_toml()?),
                None => self.guess(file, label, Some(held))?,
            };
            self.read(file, name, guess, beside.clone())
        };
        let mut parties = vec![of_party(None, active.cloned().collect())?];
        for (name, held) in passive_names(self.passive.len())?.into_iter().zip(&self.passive) {
            parties.push(of_party(Some(name), held.clone())?);
        }
        Ok(parties)
    }

    /// Guesses the schema of a file, of some of its columns or of all.
    fn guess(
        &self,
        file: &Path,
        label: Option<String>,
        columns: Option<Vec<String>>,
    ) -> anyhow::Result<InferredSchema> {
        let (id, number_label) = (self.id.clone(), self.number_label);
        let asked = Inference { id, label, number_label, features: columns, max_categories: None };
        infer(self.file(file), &asked).with_context(|| format!("{}", file.display()))
    }

    /// Returns one of the files, with the dialect of all.
    #[must_use]
    pub fn file<'a>(&self, path: &'a Path) -> TableFile<'a> {
        TableFile { path, dialect: self.dialect }
    }

    fn read(
        &self,
        file: &Path,
        name: Option<PartyName>,
        InferredSchema { text, notes }: InferredSchema,
        schema_file: Option<PathBuf>,
    ) -> anyhow::Result<PartyData> {
        let named = schema_file.as_deref().unwrap_or(file).display();
        let schema = FeatureSchema::from_toml(&text).with_context(|| format!("{named}"))?;
        let wanted: Vec<String> = schema.source_columns().into_iter().map(|of| of.name).collect();
        let mut rows = rows_of(self.file(file), Some(&wanted))?;
        let table = FeatureTable::from_rows(schema.clone(), &mut *rows, &Limits::default());
        let table = table.map_err(|e| with_bad_cells(e, self.file(file), &schema))?;
        let numbers = self.numbers(file, &schema)?;
        Ok(PartyData { name, schema_text: text, schema_file, notes, table, numbers })
    }

    /// Reads a label that is a number with a range, if the file has it.
    fn numbers(&self, file: &Path, schema: &FeatureSchema) -> anyhow::Result<Option<FeatureTable>> {
        let alone = schema.number_schema().filter(|_| self.numbers);
        let (Some(alone), Some(label)) = (alone, schema.number_label()) else {
            return Ok(None);
        };
        let mut rows = rows_of(self.file(file), None)?;
        if !rows.names().iter().any(|name| name == label) {
            return Ok(None);
        }
        let table = FeatureTable::from_rows(alone.clone(), &mut *rows, &Limits::default());
        let table = table.map_err(|e| with_bad_cells(e, self.file(file), &alone))?;
        let block = table.fetch(table.ids())?;
        let missing = block.matrix().row(1).iter().filter(|missing| **missing > 0.0).count();
        ensure!(
            missing == 0,
            "{}: {missing} records have no {label:?}, which is the label: leave these records out of the table",
            file.display()
        );
        Ok(Some(table))
    }
}

/// Returns a schema that nobody guessed.
fn given(text: String) -> InferredSchema {
    InferredSchema { text, notes: Vec::new() }
}

/// Returns the columns of a schema's features.
fn feature_columns(schema: &FeatureSchema) -> impl Iterator<Item = String> + use<> {
    let columns = schema.source_columns().into_iter();
    let columns = columns.filter(|column| matches!(column.target, ColumnRole::Column(_)));
    columns.map(|column| column.name)
}

/// Returns the names of passive parties: those of their files where these are names, and
/// `passive-1` and so on otherwise.
fn names_of(files: &[PathBuf]) -> anyhow::Result<Vec<PartyName>> {
    let own = |file: &PathBuf| PartyName::new(file.file_stem()?.to_str()?).ok();
    match files.iter().map(own).collect() {
        Some(names) => Ok(names),
        None => Ok(passive_names(files.len())?),
    }
}

/// Returns the schema file beside a table, if there is one.
fn schema_beside(file: &Path) -> Option<PathBuf> {
    Some(file.with_extension("schema.toml")).filter(|schema| schema.is_file())
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
