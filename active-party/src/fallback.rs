//! The fallback: what answers where the parties together cannot. It is a model of this party's own
//! features, or another service of this party, whose model is of fewer parties.
//!
//! Audits do not use it.

mod own_model;
mod service;

use std::path::PathBuf;

use nalgebra::DMatrix;
use serde::Deserialize;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::types::{ReleasedScores, RowStatus};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_server::service::Peer;

pub use self::own_model::FallbackRelease;
pub(crate) use self::own_model::OwnModel;
pub(crate) use self::service::{FallbackService, ServiceAnswer, is_marked};
use crate::own_service::OwnService;

/// The `[fallback]` table. It names `parameters` or a `service`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FallbackTable {
    /// The linear model of this party's own features (JSON), as `import-parameters` takes it.
    pub parameters: Option<PathBuf>,
    /// Another service of this party, which asks another coordinator for a model of fewer parties.
    pub service: Option<OwnService>,
    /// True if the weights are of features in their own units, false of normalised ones.
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

fn both_cases() -> Vec<FallbackCase> {
    vec![FallbackCase::NotFound, FallbackCase::Unavailable]
}

/// A fallback, and the cases in which it answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Fallback {
    when: Vec<FallbackCase>,
    /// The names of the classes, or of the number, that its answers have.
    pub(crate) class_names: Vec<String>,
    pub(crate) source: FallbackSource,
}

/// The origin of a fallback's answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FallbackSource {
    /// A model of this party's own features.
    Own(Box<OwnModel>),
    /// Another service of this party.
    Service(Peer),
}

impl Fallback {
    /// Reads the model for the features and the label of a schema. `own` makes a peer of the
    /// address of another service of this party.
    ///
    /// # Errors
    /// The reason: no model and no service or both, no case; with the file, other features or
    /// classes, or samples that do not fit.
    pub fn read(
        table: &FallbackTable,
        schema: &FeatureSchema,
        own: impl FnOnce(String) -> Peer,
    ) -> Result<Self, String> {
        if table.when.is_empty() {
            return Err("`when` names no case: `not_found`, `unavailable` or both".into());
        }
        let source = match (&table.parameters, &table.service) {
            (Some(path), None) => {
                let form = (table.raw, table.release);
                FallbackSource::Own(Box::new(OwnModel::read(path, form, schema)?))
            }
            (None, Some(_)) if table.raw || table.release != FallbackRelease::default() => {
                return Err("`raw` and `release` are of a model in `parameters`; a `service` \
                            answers as its coordinator releases"
                    .into());
            }
            (None, Some(service)) => FallbackSource::Service(own(service.address.clone())),
            _ => return Err("it names one of `parameters` and `service`".into()),
        };
        Ok(Self { when: table.when.clone(), class_names: schema.output_names(), source })
    }

    /// Returns what processes of one party must agree on.
    pub(crate) fn rules(&self) -> String {
        let source = match &self.source {
            FallbackSource::Own(model) => model.rules(),
            // Each process may reach it at another address.
            FallbackSource::Service(_) => "a service".into(),
        };
        format!("{:?} {source}", self.when)
    }

    /// Returns true if it answers for records that another party does not hold.
    pub(crate) fn answers_missing(&self) -> bool {
        self.when.contains(&FallbackCase::NotFound)
    }

    /// Returns true if it answers in place of this refusal.
    pub(crate) fn answers(&self, refusal: &Refusal) -> bool {
        let is_away =
            matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::DeadlineExceeded);
        is_away && self.when.contains(&FallbackCase::Unavailable)
    }
}

/// Writes a fallback's answers about the records of some rows, in their order, into an answer, in
/// the form of the others: where scores of one side need not sum to 1, those of the whole answer
/// need not. An answer of ciphertexts stays as it is.
///
/// # Errors
/// INTERNAL if the fallback's answers are labels or ciphertexts, and the others are scores.
pub(crate) fn fill(
    (status, released): (&mut [RowStatus], &ReleasedScores),
    rows: &[usize],
    ours: &ReleasedScores,
) -> Result<ReleasedScores, Refusal> {
    if rows.is_empty() || matches!(released, ReleasedScores::Ciphertexts(_)) {
        return Ok(released.clone());
    }
    let mut own = vec![None; status.len()];
    rows.iter().enumerate().for_each(|(at, &row)| own[row] = Some(at));
    // For each row that is scored: its column among ours, or the next one of the others.
    let mut others = 0..;
    let columns: Vec<Result<usize, usize>> = (0..status.len())
        .filter(|&row| own[row].is_some() || status[row].is_scored())
        .filter_map(|row| own[row].map_or_else(|| others.next().map(Err), |at| Some(Ok(at))))
        .collect();
    let filled = match (released, ours) {
        // No other row has an answer, and so a form.
        (_, ours) if released.records() == 0 => ours.clone(),
        (ReleasedScores::Labels { classes, labels: others }, ours) => {
            let ours = ours.predicted_labels();
            let label = |column: &Result<usize, usize>| match column {
                Ok(own) => ours[*own],
                Err(other) => others[*other],
            };
            ReleasedScores::Labels {
                classes: *classes,
                labels: columns.iter().map(label).collect(),
            }
        }
        (ReleasedScores::Probabilities(others), ReleasedScores::Probabilities(ours)) => {
            ReleasedScores::Probabilities(merged(others, ours, &columns))
        }
        (
            ReleasedScores::Probabilities(others) | ReleasedScores::Numbers(others),
            ReleasedScores::Probabilities(ours) | ReleasedScores::Numbers(ours),
        ) => ReleasedScores::Numbers(merged(others, ours, &columns)),
        _ => {
            let message =
                "the fallback answers with labels or ciphertexts, and the others are scores";
            return Err(Refusal::internal(message));
        }
    };
    rows.iter().for_each(|&row| status[row] = RowStatus::Fallback);
    Ok(filled)
}

/// Returns the columns of both, in order.
fn merged(
    others: &DMatrix<f64>,
    ours: &DMatrix<f64>,
    columns: &[Result<usize, usize>],
) -> DMatrix<f64> {
    let value = |i: usize, j: usize| match columns[j] {
        Ok(own) => ours[(i, own)],
        Err(other) => others[(i, other)],
    };
    DMatrix::from_fn(ours.nrows(), columns.len(), value)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use RowStatus::{BudgetSpent, Fallback as Own, NotFound, Ok as Scored};
    use nalgebra::DVector;
    use vfl_core::model::Link;

    use super::*;

    fn own_model() -> OwnModel {
        OwnModel {
            release: FallbackRelease::Label,
            link: Link::Softmax,
            class_names: vec!["no".into(), "yes".into()],
            weights: DMatrix::from_row_slice(2, 1, &[0.0, 2.0]),
            bias: DVector::from_column_slice(&[0.0, -1.0]),
        }
    }

    fn fallback(when: Vec<FallbackCase>) -> Fallback {
        let class_names = vec!["no".into(), "yes".into()];
        Fallback { when, class_names, source: FallbackSource::Own(Box::new(own_model())) }
    }

    #[test]
    fn its_answers_stand_in_their_rows_among_the_others() {
        let block = DMatrix::from_row_slice(1, 2, &[0.0, 1.0]);
        let ours = own_model().scores(&block).unwrap();
        let (low, high) = (1.0 / (1.0 + 1f64.exp()), 1.0 / (1.0 + (-1f64).exp()));
        let mut status = [NotFound, Scored, BudgetSpent, NotFound, Scored, NotFound];
        let others =
            ReleasedScores::Probabilities(DMatrix::from_column_slice(2, 2, &[0.9, 0.1, 0.3, 0.7]));
        let filled = fill((&mut status, &others), &[0, 5], &ours).unwrap();
        assert_eq!(status, [Own, Scored, BudgetSpent, NotFound, Scored, Own]);
        let ReleasedScores::Probabilities(m) = filled else { panic!("{filled:?}") };
        let yes: Vec<f64> = m.row(1).iter().copied().collect();
        let expected = [low, 0.1, 0.7, high];
        assert!(yes.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{yes:?}");
        // Rounded scores of either side need not sum to 1, and so the whole answer need not.
        let rounded = ReleasedScores::Numbers(DMatrix::from_element(2, 2, 0.3));
        let mut status = [NotFound, Scored, Scored, NotFound];
        let filled = fill((&mut status, &others), &[0, 3], &rounded).unwrap();
        assert!(matches!(filled, ReleasedScores::Numbers(_)));
        // Without another answer the form is the fallback's.
        let labels = |labels| ReleasedScores::Labels { classes: 2, labels };
        let nothing = ReleasedScores::Probabilities(DMatrix::zeros(2, 0));
        let mut status = [NotFound];
        let filled = fill((&mut status, &nothing), &[0], &labels(vec![1])).unwrap();
        assert_eq!((filled, status), (labels(vec![1]), [Own]));
        let mut status = [NotFound, Scored, NotFound];
        let filled = fill((&mut status, &labels(vec![1])), &[0, 2], &ours).unwrap();
        assert_eq!(filled, labels(vec![0, 1, 1]));
        let ours = own_model().alone(&block).unwrap();
        assert_eq!(ours, labels(vec![0, 1]));
        // Scores beside labels have no common form, and the rows stay without an answer.
        let mut status = [NotFound, Scored, Scored, NotFound];
        fill((&mut status, &others), &[0, 3], &ours).unwrap_err();
        assert_eq!(status, [NotFound, Scored, Scored, NotFound]);
        let ciphertexts = ReleasedScores::Ciphertexts(DMatrix::zeros(2, 0));
        let mut status = [NotFound];
        let left = fill((&mut status, &ciphertexts), &[0], &ours).unwrap();
        assert_eq!((left, status), (ciphertexts, [NotFound]));
    }

    #[test]
    fn it_answers_in_the_declared_cases_alone() {
        let away = Refusal::unavailable("away");
        let both = fallback(both_cases());
        assert!(both.answers_missing() && both.answers(&away));
        assert!(!both.answers(&Refusal::invalid("odd")));
        let missing = fallback(vec![FallbackCase::NotFound]);
        assert!(missing.answers_missing() && !missing.answers(&away));
        let down = fallback(vec![FallbackCase::Unavailable]);
        assert!(!down.answers_missing() && down.answers(&away));
    }
}
