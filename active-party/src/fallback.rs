//! The fallback: a model of this party's own features, which answers where the parties together
//! cannot.
//!
//! It asks nobody, so it tells this party nothing of anybody. Audits do not use it.

use std::fmt;
use std::path::PathBuf;

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::model::{Link, ParameterFile, ParameterFileError};
use vfl_core::types::{ConfidenceScores, Logits, ReleasedScores, RowStatus};
use vfl_protocol::{Refusal, RefusalKind};

/// The `[fallback]` table.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackTable {
    /// The linear model of this party's own features (JSON), as `import-parameters` takes it.
    pub parameters: PathBuf,
    /// True if its weights are of features in their own units, false of normalised ones.
    #[serde(default)]
    pub raw: bool,
    /// The cases in which it answers. Default both.
    #[serde(default = "both_cases")]
    pub when: Vec<FallbackCase>,
    /// The form of its answers where no other answer shows it. Default scores.
    #[serde(default)]
    pub release: FallbackRelease,
}

/// A case in which a fallback answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCase {
    /// Another party does not hold the record.
    NotFound,
    /// The coordinator or a passive party is down, or does not answer in time.
    Unavailable,
}

/// The form of a fallback's answers while the coordinator's are not there to show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackRelease {
    /// Scores of classes, or a number.
    #[default]
    Scores,
    /// The class with the largest score.
    Label,
}

fn both_cases() -> Vec<FallbackCase> {
    vec![FallbackCase::NotFound, FallbackCase::Unavailable]
}

/// A model of this party's own features.
#[derive(Clone, PartialEq)]
pub struct Fallback {
    when: Vec<FallbackCase>,
    release: FallbackRelease,
    link: Link,
    class_names: Vec<String>,
    /// The weights of normalised features, k × d.
    weights: DMatrix<f64>,
    /// The bias, k.
    bias: DVector<f64>,
}

/// Withholds the parameters.
impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { when, release, link, class_names, weights, .. } = self;
        f.debug_struct("Fallback")
            .field("when", when)
            .field("release", release)
            .field("link", link)
            .field("classes", &class_names.len())
            .field("features", &weights.ncols())
            .finish_non_exhaustive()
    }
}

impl Fallback {
    /// Reads the model for the features and the label of a schema.
    ///
    /// # Errors
    /// The reason, with the file: other features or classes, samples that do not fit, no case.
    pub fn read(table: &FallbackTable, schema: &FeatureSchema) -> Result<Self, String> {
        if table.when.is_empty() {
            return Err("`when` names no case: `not_found`, `unavailable` or both".into());
        }
        let of_file = || -> Result<Self, ParameterFileError> {
            let features = schema.features();
            let names: Vec<String> = features.iter().map(|f| f.name.clone()).collect();
            let file = ParameterFile::read(&table.parameters)?;
            let file = file.with_classes(&schema.output_names())?.with_features(&names)?;
            let file = match table.raw {
                true => file.normalised(features)?,
                false => {
                    file.check_normalised()?;
                    let units = vec![(0.0, 1.0); features.len()];
                    file.check_samples(&units, "it is not of normalised features: see `raw`")?;
                    file
                }
            };
            let bias = file.bias().cloned().ok_or(ParameterFileError::NoBias)?;
            Ok(Self {
                when: table.when.clone(),
                release: table.release,
                link: file.link(),
                class_names: file.class_names().to_vec(),
                weights: file.weights().clone(),
                bias,
            })
        };
        of_file().map_err(|e| format!("parameters {}: {e}", table.parameters.display()))
    }

    /// Returns what processes of one party must agree on.
    pub(crate) fn rules(&self) -> String {
        format!("{self:?} {:?} {:?}", self.weights, self.bias)
    }

    /// Returns the names of the classes, or of the number.
    pub(crate) fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// Returns true if it answers for records that another party does not hold, in place of a
    /// model of these outputs.
    pub(crate) fn answers_missing(&self, class_names: &[String]) -> bool {
        self.when.contains(&FallbackCase::NotFound) && self.class_names == class_names
    }

    /// Returns true if it answers in place of this refusal.
    pub(crate) fn answers(&self, refusal: &Refusal) -> bool {
        let is_away =
            matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::DeadlineExceeded);
        is_away && self.when.contains(&FallbackCase::Unavailable)
    }

    /// Returns its answers about features (d × n) in the form that it has alone.
    ///
    /// # Errors
    /// INTERNAL if a score is not finite.
    pub(crate) fn alone(&self, block: &DMatrix<f64>) -> Result<ReleasedScores, Refusal> {
        let scores = self.scores(block)?;
        Ok(match (self.release, self.link.is_numeric()) {
            (_, true) => ReleasedScores::Numbers(scores),
            (FallbackRelease::Scores, _) => ReleasedScores::Probabilities(scores),
            (FallbackRelease::Label, _) => labels(scores),
        })
    }

    /// Writes its answers about the records of some rows, of which `block` has the features
    /// (d × n), into an answer, in the form of the others. An answer of ciphertexts stays as it is.
    ///
    /// # Errors
    /// INTERNAL if a score is not finite.
    pub(crate) fn fill(
        &self,
        (status, released): (&mut [RowStatus], &ReleasedScores),
        rows: &[usize],
        block: &DMatrix<f64>,
    ) -> Result<ReleasedScores, Refusal> {
        if rows.is_empty() || matches!(released, ReleasedScores::Ciphertexts(_)) {
            return Ok(released.clone());
        }
        let scores = self.scores(block)?;
        let mut own = vec![None; status.len()];
        rows.iter().enumerate().for_each(|(at, &row)| own[row] = Some(at));
        // For each row that is scored: its column among ours, or the next one of the others.
        let mut others = 0..;
        let columns: Vec<Result<usize, usize>> = (0..status.len())
            .filter(|&row| own[row].is_some() || status[row].is_scored())
            .filter_map(|row| own[row].map_or_else(|| others.next().map(Err), |at| Some(Ok(at))))
            .collect();
        rows.iter().for_each(|&row| status[row] = RowStatus::Fallback);
        let merged = |released: &DMatrix<f64>| {
            let value = |i: usize, j: usize| match columns[j] {
                Ok(own) => scores[(i, own)],
                Err(other) => released[(i, other)],
            };
            DMatrix::from_fn(scores.nrows(), columns.len(), value)
        };
        Ok(match released {
            ReleasedScores::Probabilities(m) => ReleasedScores::Probabilities(merged(m)),
            ReleasedScores::Numbers(m) => ReleasedScores::Numbers(merged(m)),
            ReleasedScores::Labels { classes, labels: others } => {
                let ours = ReleasedScores::Numbers(scores).predicted_labels();
                let label = |column: &Result<usize, usize>| match column {
                    Ok(own) => ours[*own],
                    Err(other) => others[*other],
                };
                let labels = columns.iter().map(label).collect();
                ReleasedScores::Labels { classes: *classes, labels }
            }
            ReleasedScores::Ciphertexts(_) => released.clone(),
        })
    }

    /// Returns the scores of features (d × n): probabilities, or numbers.
    fn scores(&self, block: &DMatrix<f64>) -> Result<DMatrix<f64>, Refusal> {
        let mut outputs = &self.weights * block;
        outputs.column_iter_mut().for_each(|mut column| column += &self.bias);
        let failed = |_| Refusal::internal("the fallback's scores are not finite");
        if self.link.is_numeric() {
            let numbers = outputs.map(|eta| self.link.number(eta));
            let finite = numbers.iter().all(|number| number.is_finite());
            return if finite { Ok(numbers) } else { Err(failed(())) };
        }
        let logits = Logits::new(outputs).and_then(|outputs| self.link.score_logits(outputs));
        let logits = logits.map_err(|_| failed(()))?;
        Ok(ConfidenceScores::softmax(logits).into_matrix())
    }
}

fn labels(scores: DMatrix<f64>) -> ReleasedScores {
    let classes = scores.nrows();
    ReleasedScores::Labels { classes, labels: ReleasedScores::Numbers(scores).predicted_labels() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use RowStatus::{BudgetSpent, Fallback as Own, NotFound, Ok as Scored};

    use super::*;

    fn fallback() -> Fallback {
        Fallback {
            when: both_cases(),
            release: FallbackRelease::Label,
            link: Link::Softmax,
            class_names: vec!["no".into(), "yes".into()],
            weights: DMatrix::from_row_slice(2, 1, &[0.0, 2.0]),
            bias: DVector::from_column_slice(&[0.0, -1.0]),
        }
    }

    #[test]
    fn its_answers_stand_in_their_rows_among_the_others() {
        let block = DMatrix::from_row_slice(1, 2, &[0.0, 1.0]);
        let (low, high) = (1.0 / (1.0 + 1f64.exp()), 1.0 / (1.0 + (-1f64).exp()));
        let mut status = [NotFound, Scored, BudgetSpent, NotFound, Scored, NotFound];
        let others = DMatrix::from_column_slice(2, 2, &[0.9, 0.1, 0.3, 0.7]);
        let filled = fallback()
            .fill((&mut status, &ReleasedScores::Probabilities(others)), &[0, 5], &block)
            .unwrap();
        assert_eq!(status, [Own, Scored, BudgetSpent, NotFound, Scored, Own]);
        let ReleasedScores::Probabilities(m) = filled else { panic!("{filled:?}") };
        let yes: Vec<f64> = m.row(1).iter().copied().collect();
        let expected = [low, 0.1, 0.7, high];
        assert!(yes.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{yes:?}");
        let mut status = [NotFound, Scored, NotFound];
        let others = ReleasedScores::Labels { classes: 2, labels: vec![1] };
        let filled = fallback().fill((&mut status, &others), &[0, 2], &block).unwrap();
        assert_eq!(filled, ReleasedScores::Labels { classes: 2, labels: vec![0, 1, 1] });
        assert_eq!(
            fallback().alone(&block).unwrap(),
            ReleasedScores::Labels { classes: 2, labels: vec![0, 1] }
        );
        let ciphertexts = ReleasedScores::Ciphertexts(DMatrix::zeros(2, 0));
        let mut status = [NotFound];
        let left = fallback().fill((&mut status, &ciphertexts), &[0], &block).unwrap();
        assert_eq!((left, status), (ciphertexts, [NotFound]));
    }

    #[test]
    fn it_answers_in_the_declared_cases_alone() {
        let names = fallback().class_names;
        let away = Refusal::unavailable("away");
        let both = fallback();
        assert!(both.answers_missing(&names) && both.answers(&away));
        assert!(!both.answers_missing(&names[..1]) && !both.answers(&Refusal::invalid("odd")));
        let missing = Fallback { when: vec![FallbackCase::NotFound], ..fallback() };
        assert!(missing.answers_missing(&names) && !missing.answers(&away));
        let down = Fallback { when: vec![FallbackCase::Unavailable], ..fallback() };
        assert!(!down.answers_missing(&names) && down.answers(&away));
    }
}
