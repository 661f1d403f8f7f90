//! Division of a data set among parties, in memory or into the files that three separate servers
//! start from.

use std::io::Write;
use std::path::{Path, PathBuf};

use nalgebra::DMatrix;
use rand::seq::SliceRandom;
use vfl_core::data::schema::{FeatureSchema, FeatureSpec, LabelKind, LabelSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::types::{FeatureBlock, PartyName, RecordIds};

use super::dataset::{DataError, Dataset};
use super::random_streams::{Purpose, generator};
use super::vertical::{ACTIVE, VerticalSplit};

/// The tables of all parties of a divided data set.
#[derive(Debug, Clone, PartialEq)]
pub struct PartyTables {
    /// The active party's features (perhaps none) and the labels.
    pub active: FeatureTable,
    /// The passive parties' features, in the order of the split.
    pub passive: Vec<(PartyName, FeatureTable)>,
    /// The active party's label as the first feature of a table, if it is a number that is known.
    pub numbers: Option<FeatureTable>,
}

/// The two files of one party.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartyFiles {
    /// Record ids and normalised features; labels too at the active party.
    pub csv: PathBuf,
    /// Names, kinds and ranges.
    pub schema: PathBuf,
}

/// The files of a divided data set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionFiles {
    /// `active.csv` and `active.schema.toml`.
    pub active: PartyFiles,
    /// `NAME.csv` and `NAME.schema.toml` of each passive party.
    pub passive: Vec<(PartyName, PartyFiles)>,
    /// `train.ids`: the ids of the training records, one a line.
    pub train: PathBuf,
    /// `validation.ids`: the ids of the validation records.
    pub validation: PathBuf,
    /// `test.ids`: the ids of the test records.
    pub test: PathBuf,
}

/// Divides a data set in memory. Every party has all records, in an order of its own that depends
/// on the seed, so that nothing can rely on equal row orders. Features keep name, kind and group;
/// their range is 0 to 1.
///
/// # Errors
/// [`DataError::Columns`] if the split divides another number of columns.
pub fn divide(
    dataset: &Dataset,
    split: &VerticalSplit,
    seed: u64,
) -> Result<PartyTables, DataError> {
    if split.total() != dataset.features().len() {
        return Err(DataError::Columns { expected: dataset.features().len(), got: split.total() });
    }
    let label = match (dataset.class_names(), dataset.is_of_numbers()) {
        ([column], true) => LabelSpec::of_number(column, None),
        (classes, _) => LabelSpec::of_classes("label", classes.to_vec()),
    };
    let active = table(dataset, split.active(), Some(label), seed, 0)?;
    let passive = split
        .passive()
        .iter()
        .zip(1..)
        .map(|(party, item)| {
            Ok((party.name.clone(), table(dataset, &party.columns, None, seed, item)?))
        })
        .collect::<Result<_, DataError>>()?;
    let numbers = dataset.numbers().map(|(label, numbers)| {
        let schema = FeatureSchema::new(vec![label.clone()], None)?;
        let block = numbers.iter().map(|value| label.normalise(*value));
        let block = DMatrix::from_iterator(1, numbers.len(), block);
        Ok::<_, DataError>(FeatureTable::new(
            schema,
            dataset.ids().clone(),
            FeatureBlock::new(block)?,
            None,
        )?)
    });
    Ok(PartyTables { active, passive, numbers: numbers.transpose()? })
}

fn table(
    dataset: &Dataset,
    columns: &[usize],
    label: Option<LabelSpec>,
    seed: u64,
    item: u32,
) -> Result<FeatureTable, DataError> {
    let mut order: Vec<usize> = (0..dataset.records()).collect();
    order.shuffle(&mut generator(seed, Purpose::RowOrder, item));
    // The columns of a group that is cut are no group at either party: all of them may be 0.
    let of_group =
        |group: &Option<String>| dataset.features().iter().filter(|f| f.group == *group).count();
    let held = |group: &Option<String>| {
        columns.iter().filter(|&&c| dataset.features()[c].group == *group).count()
    };
    let whole = |f: &FeatureSpec| f.group.clone().filter(|_| held(&f.group) == of_group(&f.group));
    let features = columns.iter().map(|&c| &dataset.features()[c]);
    // The file of the table has normalised values either way. Here a scale is still needed for
    // figures in the units of the source.
    let own = |f: &FeatureSpec| if f.scale.is_some() { f.clone() } else { f.normalised() };
    let features = features.map(|f| FeatureSpec { group: whole(f), ..own(f) }).collect();
    let x = dataset.x();
    let block = DMatrix::from_fn(columns.len(), order.len(), |i, j| x[(columns[i], order[j])]);
    let labels = label.as_ref().is_some_and(|label| label.kind == LabelKind::Class);
    let labels = labels.then(|| order.iter().map(|&r| dataset.labels()[r]).collect());
    let schema = FeatureSchema::new(features, label)?;
    Ok(FeatureTable::new(schema, dataset.ids().select(&order), FeatureBlock::new(block)?, labels)?)
}

/// Divides a data set into files that only their owner can read: `active.csv` and `NAME.csv` with
/// their `.schema.toml`, and the ids of the split's parts. Each is written as a temporary file in
/// the same directory and then renamed. Numbers are written so that reading them gives the same
/// bits.
///
/// # Errors
/// As [`divide`]; [`DataError::Write`] names the file that could not be written.
pub fn partition(
    dataset: &Dataset,
    split: &VerticalSplit,
    directory: &Path,
    seed: u64,
) -> Result<PartitionFiles, DataError> {
    let tables = divide(dataset, split, seed)?;
    let made = std::fs::create_dir_all(directory);
    made.map_err(|source| DataError::Write { file: directory.to_owned(), source })?;
    let active = write_party(directory, ACTIVE, &tables.active)?;
    let passive = tables
        .passive
        .iter()
        .map(|(name, table)| Ok((name.clone(), write_party(directory, name.as_str(), table)?)))
        .collect::<Result<_, DataError>>()?;
    let ids = |name: &str, positions: &[usize]| {
        write_ids(&directory.join(name), &dataset.ids().select(positions))
    };
    let parts = dataset.split();
    Ok(PartitionFiles {
        active,
        passive,
        train: ids("train.ids", &parts.train)?,
        validation: ids("validation.ids", &parts.validation)?,
        test: ids("test.ids", &parts.test)?,
    })
}

fn write_party(
    directory: &Path,
    name: &str,
    table: &FeatureTable,
) -> Result<PartyFiles, DataError> {
    let files = PartyFiles {
        csv: directory.join(format!("{name}.csv")),
        schema: directory.join(format!("{name}.schema.toml")),
    };
    let schema = table.normalised_schema().to_toml()?;
    write_atomically(&files.schema, |out| out.write_all(schema.as_bytes()))?;
    write_atomically(&files.csv, |out| table.write_csv(out))?;
    Ok(files)
}

fn write_ids(path: &Path, ids: &RecordIds) -> Result<PathBuf, DataError> {
    write_atomically(path, |out| ids.iter().try_for_each(|id| writeln!(out, "{id}")))?;
    Ok(path.to_owned())
}

fn write_atomically(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), DataError> {
    let written = || -> std::io::Result<()> {
        // In the same directory, so that the move cannot become a copy.
        let directory = path.parent().unwrap_or(Path::new("."));
        let mut file = tempfile::Builder::new().prefix(".partial-").tempfile_in(directory)?;
        let mut buffered = std::io::BufWriter::new(file.as_file_mut());
        fill(&mut buffered)?;
        buffered.flush()?;
        drop(buffered);
        file.as_file().sync_all()?;
        file.persist(path).map_err(|e| e.error)?;
        Ok(())
    };
    written().map_err(|source| DataError::Write { file: path.to_owned(), source })
}
