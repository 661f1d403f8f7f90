//! The command `cloison screen`.

use clap::Args;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_server::cli::CliError;
use vfl_studies::screen::Experiment;

use super::data::DataArgs;
use super::study::conduct;

/// The arguments of `cloison screen`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison screen --dataset satellite
  cloison screen --dataset bank --variant without_duration --json

Does a data set suit a study of attacks on softmax regression (V section III)? Trains one on the training records in this process and \
says how often it is right on test records, how much each feature contributes, and how well features foretell each other. Features \
whose weights are near 0 hardly move the scores: attacks err on them for that reason alone. Where features do not go together, nobody \
learns anything of a record that was never scored.")]
pub struct ScreenArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Epochs of training at most.
    #[arg(long, value_name = "N", default_value_t = TrainingValues::default().epochs)]
    epochs: u32,
    /// Step size of Adam.
    #[arg(long, value_name = "X", default_value_t = TrainingValues::default().learning_rate)]
    learning_rate: f64,
    /// Weight of the squared norm of all weights. V uses none.
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    l2: f64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl ScreenArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let spec = self.data.spec()?;
        let DataArgs { passive_features, first_column, passive_parties, .. } = self.data;
        if passive_features.is_some() || (first_column, passive_parties) != (0, 1) {
            return Err(CliError::Input(
                "--passive-features, --first-column, --passive-parties: all columns are screened, whoever has them"
                    .into(),
            ));
        }
        if spec.image().is_some() {
            return Err(CliError::Input(format!(
                "--dataset {}: pixels are not screened one by one; take a table",
                self.data.dataset
            )));
        }
        let training = TrainingConfig::try_from(TrainingValues {
            epochs: self.epochs,
            learning_rate: self.learning_rate,
            l2: self.l2,
            seed: self.data.seed,
            ..Default::default()
        })
        .map_err(CliError::input)?;
        conduct(move || Experiment::prepare(&spec, training), None, self.json).await
    }
}
