//! The command `cloison transcript`.

use clap::{Args, ValueEnum};
use vfl_core::model::{Combiner, EMBEDDING_WIDTH, ModelConfig, Settings, TrainingValues};
use vfl_server::cli::{CliError, positive};
use vfl_studies::transcript::embeddings::EmbeddingExperiment;
use vfl_studies::transcript::optimiser_gauge::UnaidedExperiment;
use vfl_studies::transcript::{Adversary, Experiment, TranscriptPlan};

use super::data::DataArgs;
use super::study::{StepArgs, conduct};

/// The party that attacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Chair {
    /// The active party, the features of all passive parties.
    Active,
    /// The first passive party, the features of all others and the labels.
    Passive,
    /// The coordinator, the features of each party by itself and the labels.
    Coordinator,
}

impl From<Chair> for Adversary {
    fn from(chair: Chair) -> Self {
        match chair {
            Chair::Active => Self::Active,
            Chair::Passive => Self::Passive,
            Chair::Coordinator => Self::Coordinator,
        }
    }
}

/// The combiner of the parties' outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CombinerChoice {
    /// Softmax regression: shares of logits, which are added.
    Sum,
    /// A perceptron at each party: embeddings, for a top model at the coordinator.
    Concat,
}

/// The arguments of `cloison transcript`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison transcript --passive-features 12 --epochs 1,2,5,10
  cloison transcript --dataset satellite --passive-features 12 --known 12 --epochs 1,2,5,10,20,50,100
  cloison transcript --dataset pendigits --passive-features 12 --known 24 --json
  cloison transcript --dataset satellite --passive-features 12 --known 0 --batch-size 65536 --epochs 8,16,40
  cloison transcript --chair coordinator --dataset robot --passive-features 12 --known 0 --batch-size 65536 --epochs 40
  cloison transcript --combiner concat --chair coordinator --dataset bank --passive-features 10 --known 100 --epochs 1,5,20

Trains in this process with the parties' own code and keeps what an honest party receives: the gradients of its batches, beside \
its own shares; the coordinator has each party's shares. It knows the features under attack of --known training records and no \
parameter. The table says how well it then reconstructs these features of the other training records, by number of epochs. Errors \
are of features in [0, 1]. The passive party and the coordinator also read the labels from the gradients.

With --known 0 it knows no record. It finds the features from the optimiser alone, since Adam treats each feature by itself; which \
feature is which stays open. Beside it stands a control, in which the gradients are handed to other records.

With --combiner concat the coordinator receives an embedding of each party for every record. From the --known training records it \
learns the way back to the features, by a kernel ridge regression and by a network (UIFV), and applies it to all other training \
records and, after the training, to test records. Both attacks need known records: --known 0 names them and runs none.")]
pub struct TranscriptArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The party that attacks, and follows the protocol.
    #[arg(long, value_enum, value_name = "PARTY", default_value = "active")]
    chair: Chair,
    /// The combiner of the parties' outputs.
    #[arg(long, value_enum, value_name = "NAME", default_value = "sum")]
    combiner: CombinerChoice,
    /// Widths of the perceptrons' hidden layers, of relu, with --combiner concat. Default: 128.
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',')]
    hidden: Vec<u32>,
    /// Outputs of each party's perceptron, with --combiner concat. Default: 64.
    #[arg(long, value_name = "WIDTH")]
    embedding: Option<u32>,
    /// Training records whose features under attack the attacker knows. 0: the attack uses the
    /// optimiser alone. The coordinator's takes 0, unless it is given embeddings.
    #[arg(long, value_name = "N", default_value_t = 12)]
    known: usize,
    /// Numbers of epochs to measure at. One training is run, for the largest number.
    #[arg(long, value_name = "E,…", value_delimiter = ',', default_value = "1,2,5,10,20")]
    epochs: Vec<u32>,
    #[command(flatten)]
    steps: StepArgs,
    /// The most iterations of the attack, for each number of epochs; without known records also the
    /// most from each start, and with embeddings the most epochs of the inverse network.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = positive)]
    iterations: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl TranscriptArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let plan = self.plan()?;
        match (self.combiner, plan.known) {
            (CombinerChoice::Concat, _) => {
                conduct(move || EmbeddingExperiment::prepare(&plan), None, self.json).await
            }
            (CombinerChoice::Sum, 0) => {
                conduct(move || UnaidedExperiment::prepare(&plan), None, self.json).await
            }
            (CombinerChoice::Sum, _) => {
                conduct(move || Experiment::prepare(&plan), None, self.json).await
            }
        }
    }

    /// Builds the plan from the options.
    fn plan(&self) -> Result<TranscriptPlan, CliError> {
        let training =
            TrainingValues { seed: self.data.seed, model: self.model()?, ..self.steps.values() };
        Ok(TranscriptPlan {
            subject: self.data.subject()?,
            training,
            adversary: self.chair.into(),
            known: self.known,
            epochs: self.epochs.clone(),
            iterations: self.iterations,
            seed: self.data.seed,
        })
    }

    /// Returns the model to train.
    fn model(&self) -> Result<ModelConfig, CliError> {
        match self.combiner {
            CombinerChoice::Sum if self.hidden.is_empty() && self.embedding.is_none() => {
                Ok(ModelConfig::default())
            }
            CombinerChoice::Sum => Err(CliError::Input(
                "--hidden and --embedding are of networks under a top model: add --combiner concat"
                    .into(),
            )),
            CombinerChoice::Concat => {
                let hidden = if self.hidden.is_empty() { vec![128] } else { self.hidden.clone() };
                let mut settings = Settings::new();
                settings.insert("hidden".into(), hidden.into());
                settings.insert("activation".into(), "relu".into());
                let width = Some(self.embedding.unwrap_or(EMBEDDING_WIDTH));
                ModelConfig::new(Combiner::Concat, "mlp", width, settings)
                    .map_err(|e| CliError::Input(format!("--hidden or --embedding: {e}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TranscriptArgs,
    }

    fn plan(words: &[&str]) -> Result<TranscriptPlan, CliError> {
        Line::try_parse_from(["transcript"].iter().chain(words)).unwrap().args.plan()
    }

    #[test]
    fn the_combiner_decides_the_model() {
        let summed = plan(&[]).unwrap();
        assert!(summed.training.model.is_default());
        assert_eq!((summed.adversary, summed.known), (Adversary::Active, 12));
        let default = plan(&["--combiner", "concat", "--chair", "coordinator"]).unwrap();
        let model = default.training.model;
        assert_eq!((model.combiner(), model.width()), (Combiner::Concat, Some(64)));
        assert_eq!(model.settings()["hidden"], serde_json::json!([128]));
        assert_eq!(default.adversary, Adversary::Coordinator);
        let words = ["--combiner", "concat", "--hidden", "8,4", "--embedding", "3"];
        let model = plan(&words).unwrap().training.model;
        assert_eq!(
            (model.width(), &model.settings()["hidden"]),
            (Some(3), &serde_json::json!([8, 4]))
        );
    }

    #[test]
    fn errors_name_the_option() {
        let told = |words: &[&str]| plan(words).unwrap_err().to_string();
        assert!(told(&["--hidden", "8"]).contains("--combiner concat"));
        assert!(told(&["--embedding", "8"]).contains("--combiner concat"));
        assert!(told(&["--combiner", "concat", "--embedding", "0"]).contains("--embedding"));
        assert!(Line::try_parse_from(["transcript", "--combiner", "product"]).is_err());
    }
}
