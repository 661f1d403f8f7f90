//! The command `cloison fallback`.

use std::path::PathBuf;

use clap::Args;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::PartyName;
use vfl_server::cli::CliError;
use vfl_studies::fallback::{Experiment, FallbackPlan};

use super::data::DataArgs;
use super::study::{StepArgs, conduct};

/// The arguments of `cloison fallback`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison fallback --dataset satellite --passive-features 12 --passive-parties 2
  cloison fallback --table credit.csv --label default --passive income,debt --passive limit,age --without passive-2

While a passive party is away, a fallback of the others may score a record that all parties score later. What do the two answers tell \
together of the parties that are in both? Trains a softmax regression of all parties and one without --without in this process, and \
attacks the exact scores of either and of both: they are two systems of equations in the same features. The adversary knows both models, \
and moments of the features. A coarser release of k answers tells at most the bits of each, added.")]
pub struct FallbackArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The passive party that the fallback does without. Default: the last.
    #[arg(long, value_name = "NAME")]
    without: Option<String>,
    /// Test records to attack, 30 to 2000; all if there are fewer.
    #[arg(long, value_name = "N", default_value_t = 200)]
    records: usize,
    /// Epochs of each training at most.
    #[arg(long, value_name = "N", default_value_t = TrainingValues::default().epochs)]
    epochs: u32,
    #[command(flatten)]
    steps: StepArgs,
    /// Directory for fallback.json.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl FallbackArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let without = self.without.as_deref().map(PartyName::new).transpose();
        let values =
            TrainingValues { epochs: self.epochs, seed: self.data.seed, ..self.steps.values() };
        let plan = FallbackPlan {
            subject: self.data.subject()?,
            without: without.map_err(|e| CliError::Input(format!("--without: {e}")))?,
            training: TrainingConfig::try_from(values).map_err(CliError::input)?,
            records: self.records,
            seed: self.data.seed,
        };
        let file = self.out.join("fallback.json");
        conduct(move || Experiment::prepare(&plan), Some(file), self.json).await
    }
}
