//! The scores of a model that is not here, in a table by record.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use nalgebra::{DMatrix, DVector};
use vfl_core::model::{Link, ParameterFile};
use vfl_core::types::RecordIds;
use vfl_datasets::Dataset;
use vfl_passive_party::record_outputs::RecordOutputs;

use crate::plan::{ImportedModel, ImportedParameters};

/// The largest distance of the sum of a record's scores from 1.
const SUM_TOLERANCE: f64 = 1e-6;
/// The least score: the logarithm of 0 is not finite.
const LEAST: f64 = 1e-300;
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

/// The columns of a class, or of the number.
enum Column {
    At(usize),
    /// The rest of 1.
    Rest,
}

impl ScoredModel {
    /// Reads the scores of all records of a data set: a CSV file with the record ids in its first
    /// column, and a column for each class, of which one may be left out, or for the number.
    ///
    /// # Errors
    /// An error that names the line and the column, and the fix.
    pub fn read(file: &Path, dataset: &Dataset) -> anyhow::Result<Self> {
        let mut reader = csv::Reader::from_path(file)?;
        let header = reader.headers()?.clone();
        let names = dataset.class_names();
        let columns = columns(&header, names, dataset.is_of_numbers())?;
        let mut outputs: HashMap<String, Vec<f64>> = HashMap::new();
        for row in reader.records() {
            let row = row?;
            let line = row.position().map_or(0, csv::Position::line);
            let id = row.get(0).unwrap_or_default().trim();
            ensure!(!id.is_empty(), "line {line}: it has no record id in its first column");
            let read = |at: usize| -> anyhow::Result<f64> {
                let text = row.get(at).unwrap_or_default().trim();
                let name = header.get(at).unwrap_or_default();
                let value = text.parse().ok().filter(|value: &f64| value.is_finite());
                value.with_context(|| format!("line {line}: column {name:?} is no finite number"))
            };
            let values = match dataset.is_of_numbers() {
                true => number(&columns, read)?,
                false => logarithms(&columns, read).with_context(|| format!("line {line}"))?,
            };
            if outputs.insert(id.to_owned(), values).is_some() {
                bail!(
                    "line {line}: the record of this line has scores before: give one line a record"
                );
            }
        }
        Self::of_records(file, dataset, &outputs)
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
fn columns(
    header: &csv::StringRecord,
    names: &[String],
    number: bool,
) -> anyhow::Result<Vec<Column>> {
    let place = |name: &String| header.iter().skip(1).position(|of| of.trim() == name);
    let missing: Vec<&String> = names.iter().filter(|name| place(name).is_none()).collect();
    let optional = usize::from(!number && names.len() > 1);
    if missing.len() > optional {
        bail!(
            "the file has no column {:?}: its columns are the record ids and one of each class, {}",
            missing[0],
            names.join(", ")
        );
    }
    Ok(names.iter().map(|name| place(name).map_or(Column::Rest, |at| Column::At(at + 1))).collect())
}

/// Returns the number of a row.
fn number(
    columns: &[Column],
    read: impl Fn(usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<f64>> {
    let [Column::At(at)] = columns else { bail!("the file has no column of the number") };
    let value = read(*at)?;
    ensure!(value.abs() <= LARGEST, "a number is larger than {LARGEST:e}: take another unit");
    Ok(vec![value])
}

/// Returns the logarithms of the scores of a row.
fn logarithms(
    columns: &[Column],
    read: impl Fn(usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<f64>> {
    let mut scores = Vec::with_capacity(columns.len());
    for column in columns {
        scores.push(match column {
            Column::At(at) => read(*at)?,
            Column::Rest => f64::NAN,
        });
    }
    ensure!(
        scores.iter().all(|score| score.is_nan() || (0.0..=1.0 + SUM_TOLERANCE).contains(score)),
        "scores are from 0 to 1: decisions and logits are not taken, give probabilities"
    );
    let given: f64 = scores.iter().filter(|score| !score.is_nan()).sum();
    for score in &mut scores {
        if score.is_nan() {
            *score = (1.0 - given).max(0.0);
        }
    }
    let sum: f64 = scores.iter().sum();
    ensure!(
        (sum - 1.0).abs() <= SUM_TOLERANCE,
        "the scores of a record have the sum {sum}, expected 1: give the probabilities of all classes"
    );
    Ok(scores.iter().map(|score| (score / sum).max(LEAST).ln()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[&str], names: &[&str]) -> anyhow::Result<Vec<f64>> {
        let header = csv::StringRecord::from(vec!["id", "no", "yes"]);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let columns = columns(&header, &names, false)?;
        logarithms(&columns, |at| Ok(text[at - 1].parse()?))
    }

    #[test]
    fn scores_are_read_by_the_names_of_their_classes() {
        let both = read(&["0.25", "0.75"], &["yes", "no"]).unwrap();
        assert_eq!(both, [0.75f64.ln(), 0.25f64.ln()]);
        // One class may be left out: it has the rest.
        assert_eq!(read(&["0.25", "0.5"], &["yes", "no", "perhaps"]).unwrap()[2], 0.25f64.ln());
        assert_eq!(read(&["0", "1"], &["no", "yes"]).unwrap(), [LEAST.ln(), 0.0]);
        for (text, why) in [
            (["0.3", "0.6"], "sum 0.9"),
            (["-1.2", "2.2"], "from 0 to 1"),
            (["0.9", "0.9"], "sum 1.8"),
        ] {
            let refused = read(&text, &["no", "yes"]).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let refused = read(&["0.3", "0.6"], &["a", "b"]).unwrap_err().to_string();
        assert!(refused.contains("no column \"a\""), "{refused}");
    }
}
