//! The report of `defend` on a release: what the policy promises, and what it cost on these
//! records.

use std::fmt;

use serde::Serialize;
use vfl_core::metrics::{OrderTotals, UtilityTotals, accuracy, expected_calibration_error};
use vfl_core::types::ReleasedScores;
use vfl_defense::{Output, Pipeline, Policy};

use super::scores::ScoreFile;

/// The report. In JSON, `null` stands for an undefined, infinite or unbounded value.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Version of this structure.
    schema: u32,
    policy: String,
    records: usize,
    classes: usize,
    contract: Promise,
    notes: Vec<String>,
    utility: Utility,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<LabelMetrics>,
}

#[derive(Debug, Serialize)]
struct Promise {
    output: &'static str,
    keeps_arg_max: bool,
    keeps_ranking: bool,
    randomised: bool,
    bits_per_record: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Utility {
    kl_divergence: Option<f64>,
    total_variation: Option<f64>,
    arg_max_kept: Option<f64>,
    ranks_kept: Option<f64>,
    top: usize,
    top_kept: Option<f64>,
}

#[derive(Debug, Serialize)]
struct LabelMetrics {
    accuracy_before: f64,
    accuracy_after: f64,
    accuracy_change: f64,
    calibration_error_before: Option<f64>,
    calibration_error_after: Option<f64>,
}

impl Report {
    pub(super) fn new(
        policy: &Policy,
        pipeline: &Pipeline,
        file: &ScoreFile,
        released: &ReleasedScores,
        top: usize,
        labels: Option<&[u32]>,
    ) -> Result<Self, String> {
        let contract = pipeline.contract();
        let utility = UtilityTotals::of(&file.scores, released).map_err(|e| e.to_string())?;
        let order = OrderTotals::of(&file.scores, released, top).map_err(|e| e.to_string())?;
        let mut notes = pipeline.notes();
        if file.rescaled > 0 {
            notes.push(format!(
                "{} records did not sum to 1 within 1e-9 and were divided by their sum",
                file.rescaled
            ));
        }
        Ok(Self {
            schema: 1,
            policy: policy.to_string(),
            records: file.ids.len(),
            classes: file.classes.len(),
            contract: Promise {
                output: match contract.output {
                    Output::Logits => "logits",
                    Output::Probabilities => "probabilities",
                    Output::Numbers => "numbers",
                    Output::Label => "label",
                    Output::Ciphertexts => "ciphertexts",
                },
                keeps_arg_max: contract.keeps_arg_max,
                keeps_ranking: contract.keeps_ranking,
                randomised: contract.randomised,
                bits_per_record: contract.bits,
            },
            notes,
            utility: Utility {
                kl_divergence: utility.kl_divergence(),
                total_variation: utility.total_variation(),
                arg_max_kept: utility.arg_max_kept(),
                ranks_kept: order.ranks_kept(),
                top,
                top_kept: order.top_kept(),
            },
            labels: labels.map(|labels| LabelMetrics::new(file, released, labels)).transpose()?,
        })
    }
}

impl LabelMetrics {
    fn new(file: &ScoreFile, released: &ReleasedScores, labels: &[u32]) -> Result<Self, String> {
        let before = ReleasedScores::Probabilities(file.scores.matrix().clone()).predicted_labels();
        let before = accuracy(&before, labels).map_err(|e| e.to_string())?;
        let after = accuracy(&released.predicted_labels(), labels).map_err(|e| e.to_string())?;
        let error = |m| expected_calibration_error(m, labels).map_err(|e| e.to_string());
        Ok(Self {
            accuracy_before: before,
            accuracy_after: after,
            accuracy_change: after - before,
            calibration_error_before: error(file.scores.matrix())?,
            calibration_error_after: match released {
                ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => error(m)?,
                ReleasedScores::Labels { .. } | ReleasedScores::Ciphertexts(_) => None,
            },
        })
    }
}

/// Formats a number of the table; `-` where there is none.
fn shown(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.is_infinite() => "infinite".to_owned(),
        Some(value) => format!("{value:.6}"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, records, classes, contract, utility, .. } = self;
        writeln!(f, "{policy}\n{records} records of {classes} classes\n\nPromised")?;
        let yes = |promised: bool| if promised { "yes" } else { "no" };
        writeln!(f, "  {:<36}{:>12}", "output", contract.output)?;
        writeln!(f, "  {:<36}{:>12}", "class kept", yes(contract.keeps_arg_max))?;
        writeln!(f, "  {:<36}{:>12}", "ranking kept", yes(contract.keeps_ranking))?;
        writeln!(f, "  {:<36}{:>12}", "draws noise", yes(contract.randomised))?;
        let bits =
            contract.bits_per_record.map_or("unbounded".to_owned(), |bits| format!("{bits:.3}"));
        writeln!(f, "  {:<36}{:>12}\n\nOn these records", "bits a record at most", bits)?;
        let top = format!("share with the {} largest kept", utility.top);
        for (name, value) in [
            ("KL divergence (nats)", utility.kl_divergence),
            ("total variation", utility.total_variation),
            ("share with the class kept", utility.arg_max_kept),
            ("share with the ranking kept", utility.ranks_kept),
            (&top, utility.top_kept),
        ] {
            writeln!(f, "  {name:<36}{:>12}", shown(value))?;
        }
        if let Some(labels) = &self.labels {
            writeln!(f, "\nAgainst the labels")?;
            for (name, value) in [
                ("accuracy before", Some(labels.accuracy_before)),
                ("accuracy after", Some(labels.accuracy_after)),
                ("change of accuracy", Some(labels.accuracy_change)),
                ("calibration error before", labels.calibration_error_before),
                ("calibration error after", labels.calibration_error_after),
            ] {
                writeln!(f, "  {name:<36}{:>12}", shown(value))?;
            }
        }
        for (at, note) in self.notes.iter().enumerate() {
            writeln!(f, "{}Note: {note}", if at == 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}
