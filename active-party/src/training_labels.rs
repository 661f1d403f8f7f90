//! The labels of a training: classes, which are read with the features, or numbers, which are read
//! for a training alone.

use vfl_core::data::table::StoreError;
use vfl_core::model::{GENERALIZED_LINEAR, Link, TrainingConfig, TrainingMode, TrainingValues};
use vfl_core::types::RecordIds;
use vfl_features::features::{Features, refusal};
use vfl_features::stores::DataConfig;
use vfl_party::computation::TrainingLabels;
use vfl_protocol::{Refusal, RefusalKind};

use crate::scoring::Scorer;

/// The least deviation of labels, over the largest of them.
const LEAST_DEVIATION: f64 = 1e-10;

/// The source of labels that are numbers.
#[derive(Debug, Clone)]
pub enum NumberSource {
    /// The source of the features, opened for the label when a training needs it.
    Data(Box<DataConfig>),
    /// The label as the first feature of a store.
    Features(Features),
}

/// The labels of a training's records, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OwnLabels {
    /// The class of each.
    Classes(Vec<u32>),
    /// The number of each, in the units of the source.
    Numbers(Vec<f64>),
}

impl OwnLabels {
    /// Reads the labels of records for a training.
    ///
    /// # Errors
    /// FAILED_PRECONDITION for a model that is not of such labels, or for numbers without a range;
    /// NOT_FOUND with the number of records that are not held here; the refusal of the store.
    pub(crate) async fn read(
        scorer: &Scorer,
        numbers: Option<&NumberSource>,
        (config, ids): (&TrainingConfig, &RecordIds),
    ) -> Result<Self, Refusal> {
        let is_number = scorer.features.schema().number_label().is_some();
        check(config, is_number)?;
        let read = match (is_number, numbers) {
            (false, _) => scorer.labels(ids).await.map(|read| read.map(Self::Classes)),
            (true, Some(source)) => {
                let opened = source.open().await?;
                read_numbers(&opened, ids).await.map(|read| read.map(Self::Numbers))
            }
            (true, None) => return Err(no_range()),
        };
        read.map_err(|e| refusal(&e))?.map_err(|missing| {
            let what = if is_number { ", or have no label" } else { "" };
            let message =
                format!("{missing} of the {} training records are not held here{what}", ids.len());
            Refusal::new(RefusalKind::NotFound, message)
        })
    }

    /// Returns the configuration with the unit of these labels, if the link is the identity.
    ///
    /// # Errors
    /// FAILED_PRECONDITION for numbers that are all equal.
    pub(crate) fn scale(&self, config: TrainingConfig) -> Result<TrainingConfig, Refusal> {
        let Self::Numbers(numbers) = self else { return Ok(config) };
        let count = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / count;
        let variance = numbers.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        let deviation = variance.sqrt();
        let largest = numbers.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
        // Less is the round-off of labels that are all equal.
        if !(deviation.is_normal() && deviation > LEAST_DEVIATION * largest) {
            return Err(Refusal::precondition(
                "the labels of the training records are all equal, or differ by less than a ten-billionth of the largest: subtract a constant \
                 from them",
            ));
        }
        let identity = config.values().model.link()? == Link::Identity;
        let label_scale = identity.then(|| deviation.log2().ceil().exp2());
        let scaled = TrainingValues { label_scale, ..config.values().clone() };
        TrainingConfig::try_from(scaled).map_err(|e| Refusal::precondition(e.to_string()))
    }

    /// Returns the labels as a computation takes them.
    pub(crate) fn of_training(&self) -> TrainingLabels<'_> {
        match self {
            Self::Classes(labels) => TrainingLabels::Classes(labels),
            Self::Numbers(numbers) => TrainingLabels::Numbers(numbers),
        }
    }

    /// Returns the classes of some records; none of numbers.
    pub(crate) fn classes(&self, records: std::ops::Range<usize>) -> &[u32] {
        match self {
            Self::Classes(labels) => labels.get(records).unwrap_or_default(),
            Self::Numbers(_) => &[],
        }
    }
}

impl NumberSource {
    /// Checks that the label has a range, and can be read.
    ///
    /// # Errors
    /// The problem, with the file and the column.
    pub(crate) async fn check(&self) -> Result<(), String> {
        self.read().await?.map(drop).ok_or_else(|| NO_RANGE.to_owned())
    }

    /// Opens the store of the label.
    async fn open(&self) -> Result<Features, Refusal> {
        let read = self.read().await.map_err(|e| {
            tracing::error!(error = %e, "the labels cannot be read");
            Refusal::precondition("the labels cannot be read; the active party's log says why")
        })?;
        read.ok_or_else(no_range)
    }

    /// Opens the store of the label; `None` if it has no range.
    async fn read(&self) -> Result<Option<Features>, String> {
        let data = match self {
            Self::Features(features) => return Ok(Some(features.clone())),
            Self::Data(data) => data.clone(),
        };
        let opened = tokio::task::spawn_blocking(move || data.open_number()).await;
        let opened = opened.map_err(|_| "reading it failed".to_owned())?;
        let Some(features) = opened.map_err(|e| e.to_string())? else { return Ok(None) };
        features.check().await.map_err(|e| e.to_string())?;
        Ok(Some(features))
    }
}

/// Reads the labels of records, in their own units. The inner error is the number of records that
/// are not held, or have no label.
async fn read_numbers(
    features: &Features,
    ids: &RecordIds,
) -> Result<Result<Vec<f64>, usize>, StoreError> {
    let read = features.lookup(ids).await?;
    let Some(spec) = features.schema().features().first() else { return Ok(Err(ids.len())) };
    let records = read.block.matrix();
    // The second feature says that the label is missing.
    let missing = records.column_iter().filter(|r| r.iter().skip(1).any(|v| *v > 0.0)).count();
    let lacking = ids.len() - read.held.len() + missing;
    if lacking > 0 {
        return Ok(Err(lacking));
    }
    let own = |record: usize| spec.min + (spec.max - spec.min) * records[(0, record)];
    Ok(Ok((0..records.ncols()).map(own).collect()))
}

/// Checks that a model is one of numbers exactly if the label is a number.
fn check(config: &TrainingConfig, is_number: bool) -> Result<(), Refusal> {
    let values = config.values();
    match (is_number, values.model.kind() == GENERALIZED_LINEAR) {
        (true, false) => Err(Refusal::precondition(
            "the label is a number: train it with `kind = \"generalized_linear\"` and `link = \"identity\"` or `\"log\"` in [model]",
        )),
        (false, true) => Err(Refusal::precondition(
            "`generalized_linear` in [model] is of a label that is a number (`kind = \"number\"` in the schema)",
        )),
        (true, true) if values.mode == TrainingMode::Plain => Err(Refusal::precondition(
            "a model of a number is trained on secret shares: leave `mode` out of [training]",
        )),
        _ => Ok(()),
    }
}

/// Returns the refusal of labels whose range is not known.
fn no_range() -> Refusal {
    Refusal::precondition(NO_RANGE)
}

/// The refusal of labels whose range is not known.
const NO_RANGE: &str = "the label is a number without a range: a training needs `min` and `max` in [label] of the schema, in the units \
                        of the source";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;
    use vfl_core::model::{Combiner, ModelConfig};

    use super::*;

    fn config(link: &str) -> TrainingConfig {
        let settings = json!({ "link": link }).as_object().unwrap().clone();
        let model = ModelConfig::new(Combiner::Sum, GENERALIZED_LINEAR, None, settings).unwrap();
        let mode = TrainingMode::Private;
        TrainingConfig::try_from(TrainingValues { mode, model, ..Default::default() }).unwrap()
    }

    #[test]
    fn the_unit_is_the_next_power_of_two_of_the_deviation() {
        let scale = |numbers: &[f64], link: &str| {
            let scaled = OwnLabels::Numbers(numbers.to_vec()).scale(config(link));
            scaled.map(|config| config.values().label_scale)
        };
        // Deviations of 3, 4 and 0.3.
        assert_eq!(scale(&[-3.0, 3.0], "identity").unwrap(), Some(4.0));
        assert_eq!(scale(&[96.0, 104.0], "identity").unwrap(), Some(4.0));
        assert_eq!(scale(&[0.0, 0.6], "identity").unwrap(), Some(0.5));
        assert_eq!(scale(&[0.0, 0.6], "log").unwrap(), None);
        for equal in [&[5.0, 5.0][..], &[0.1, 0.1, 0.1], &[1e9 + 1e-8, 1e9]] {
            assert!(scale(equal, "identity").unwrap_err().message.contains("all equal"));
        }
    }

    #[test]
    fn models_of_other_labels_are_refused_with_the_fix() {
        let (number, classes) = (config("log"), TrainingConfig::default());
        assert!(check(&number, true).is_ok() && check(&classes, false).is_ok());
        assert!(check(&classes, true).unwrap_err().message.contains("generalized_linear"));
        assert!(check(&number, false).unwrap_err().message.contains("kind = \"number\""));
    }
}
