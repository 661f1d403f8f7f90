//! The scores of a model that is not here, in a table by record.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use nalgebra::{DMatrix, DVector};
use vfl_core::data::CsvDialect;
use vfl_core::model::{Link, ParameterFile};
use vfl_core::types::RecordIds;
use vfl_datasets::Dataset;
use vfl_features::stores::{TableFile, rows_of};
use vfl_passive_party::record_outputs::RecordOutputs;

use crate::plan::{ImportedModel, ImportedParameters};

/// The largest distance of the sum of a record's scores from 1: they may be rounded.
const SUM_TOLERANCE: f64 = 2e-3;
/// The logit that stands for a score of 0, which it gives: e^−800 is 0 to a double.
const OF_ZERO: f64 = -800.0;
/// The largest magnitude of a number.
const LARGEST: f64 = 1e12;

/// The scores of a model that is not here.
#[derive(Debug, Clone)]
pub struct ScoredModel {
    /// A model without weights, whose outputs are those of the table.
    pub model: ImportedModel,
    /// The logarithms of the scores of each record, or its number.
    pub outputs: Arc<RecordOutputs>,
    /// The least and the greatest output.
    pub range: (f64, f64),
}

/// The column of a class, or of the number.
enum Column {
    At(usize),
    /// The rest of 1.
    Rest,
}

impl ScoredModel {
    /// Reads the scores of all records of a data set: a table with the record ids in its first
    /// column, and a column for each class, of which one may be left out, or for the number.
    ///
    /// # Errors
    /// An error that names the file and the place, and the fix.
    pub fn read(path: &Path, dialect: CsvDialect, dataset: &Dataset) -> anyhow::Result<Self> {
        let mut rows = rows_of(TableFile { path, dialect }, None)?;
        let columns = columns(rows.names(), dataset.class_names(), dataset.is_of_numbers())?;
        let width = rows.names().len();
        let mut outputs: HashMap<String, Vec<f64>> = HashMap::new();
        loop {
            let (mut id, mut values) = (String::new(), vec![0.0; width]);
            let place = rows.next_row(&mut |at, cell| {
                match at {
                    0 => id = cell.text()?.trim().to_owned(),
                    _ => values[at] = cell.number()?,
                }
                Ok(())
            })?;
            let Some(place) = place else { break };
            ensure!(!id.is_empty(), "{place}: it has no record id in its first column");
            let logits = match dataset.is_of_numbers() {
                true => number(&columns, &values),
                false => logarithms(&columns, &values),
            };
            let logits = logits.with_context(|| place.to_string())?;
            ensure!(
                outputs.insert(id, logits).is_none(),
                "{place}: the record of this line has scores before: give one line a record"
            );
        }
        Self::of_records(path, dataset, &outputs)
    }

    fn of_records(
        file: &Path,
        dataset: &Dataset,
        outputs: &HashMap<String, Vec<f64>>,
    ) -> anyhow::Result<Self> {
        let (ids, names): (&RecordIds, _) = (dataset.ids(), dataset.class_names());
        let missing = ids.iter().filter(|id| !outputs.contains_key(*id)).count();
        ensure!(
            missing == 0,
            "{missing} of the {} records of the table have no scores: its first column has other record ids than the table, or give the \
             scores of all records",
            ids.len()
        );
        let all = ids.iter().filter_map(|id| outputs.get(id)).flatten().copied();
        let matrix = DMatrix::from_iterator(names.len(), ids.len(), all);
        let range = (matrix.min(), matrix.max());
        let link = if dataset.is_of_numbers() { Link::Identity } else { Link::Softmax };
        let features: Vec<String> = dataset.features().iter().map(|f| f.name.clone()).collect();
        let weights = DMatrix::zeros(names.len(), features.len());
        let bias = Some(DVector::zeros(names.len()));
        let parameters = ParameterFile::of_link(link, names.to_vec(), features, weights, bias)?;
        let parameters = ImportedParameters::Linear(parameters);
        Ok(Self {
            model: ImportedModel { file: file.to_owned(), parameters },
            outputs: Arc::new(RecordOutputs::new(ids, matrix)?),
            range,
        })
    }
}

/// Returns the column of each class, or of the number.
fn columns(header: &[String], names: &[String], number: bool) -> anyhow::Result<Vec<Column>> {
    let given: Vec<&str> = header.iter().skip(1).map(|name| name.trim()).collect();
    let expected = || {
        let one = if number { "one of the number" } else { "one of each class" };
        format!("the columns are the record ids and {one}, {}", names.join(", "))
    };
    for (at, name) in given.iter().enumerate() {
        ensure!(
            names.iter().any(|of| of == name),
            "column {name:?} is of no class: {}",
            expected()
        );
        ensure!(!given[..at].contains(name), "column {name:?} is there twice: {}", expected());
    }
    let place = |name: &String| given.iter().position(|of| of == name);
    let missing: Vec<&String> = names.iter().filter(|name| place(name).is_none()).collect();
    let optional = usize::from(!number && names.len() > 1);
    if missing.len() > optional {
        bail!("there is no column {:?}: {}", missing[0], expected());
    }
    Ok(names.iter().map(|name| place(name).map_or(Column::Rest, |at| Column::At(at + 1))).collect())
}

/// Returns the number of a row.
fn number(columns: &[Column], values: &[f64]) -> anyhow::Result<Vec<f64>> {
    let [Column::At(at)] = columns else { bail!("there is no column of the number") };
    ensure!(values[*at].abs() <= LARGEST, "a number is larger than {LARGEST:e}: take another unit");
    Ok(vec![values[*at]])
}

/// Returns the logarithms of the scores of a row.
fn logarithms(columns: &[Column], values: &[f64]) -> anyhow::Result<Vec<f64>> {
    let given = columns.iter().filter_map(|column| match column {
        Column::At(at) => Some(values[*at]),
        Column::Rest => None,
    });
    let given: Vec<f64> = given.collect();
    ensure!(
        given.iter().all(|score| (0.0..=1.0 + SUM_TOLERANCE).contains(score)),
        "scores are from 0 to 1: decisions and logits are not taken, give probabilities"
    );
    let rest = (1.0 - given.iter().sum::<f64>()).max(0.0);
    let scores: Vec<f64> = columns
        .iter()
        .map(|column| match column {
            Column::At(at) => values[*at],
            Column::Rest => rest,
        })
        .collect();
    let sum: f64 = scores.iter().sum();
    ensure!(
        (sum - 1.0).abs() <= SUM_TOLERANCE,
        "the scores have the sum {sum:.6}, expected 1: give the probabilities of all classes"
    );
    Ok(scores.iter().map(|score| (score / sum).ln().max(OF_ZERO)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(values: [f64; 2], names: &[&str]) -> anyhow::Result<Vec<f64>> {
        let header = ["id", "no", "yes"].map(str::to_owned);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        logarithms(&columns(&header, &names, false)?, &[&[0.0][..], &values].concat())
    }

    #[test]
    fn scores_are_read_by_the_names_of_their_classes() {
        assert_eq!(read([0.25, 0.75], &["yes", "no"]).unwrap(), [0.75f64.ln(), 0.25f64.ln()]);
        // One class may be left out: it has the rest.
        let third = read([0.25, 0.5], &["yes", "no", "perhaps"]).unwrap()[2];
        assert_eq!(third, 0.25f64.ln());
        assert_eq!(read([0.0, 1.0], &["no", "yes"]).unwrap(), [OF_ZERO, 0.0]);
        assert_eq!(OF_ZERO.exp(), 0.0);
        // Rounded scores have the sum 1 after they are read.
        let rounded: f64 =
            read([0.333, 0.666], &["no", "yes"]).unwrap().iter().map(|l| l.exp()).sum();
        assert!((rounded - 1.0).abs() < 1e-15);
        for (values, names, why) in [
            ([0.3, 0.6], ["no", "yes"], "sum 0.9"),
            ([-1.2, 2.2], ["no", "yes"], "from 0 to 1"),
            ([0.9, 0.9], ["no", "yes"], "sum 1.8"),
            ([0.3, 0.7], ["a", "yes"], "\"no\" is of no class"),
        ] {
            let refused = read(values, &names).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let header = ["id", "no", "no"].map(str::to_owned);
        assert!(columns(&header, &["no".to_owned(), "yes".to_owned()], false).is_err());
    }
}
