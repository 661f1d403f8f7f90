//! The command `cloison transcript`.

use clap::{Args, ValueEnum};
use vfl_core::model::TrainingValues;
use vfl_server::cli::{CliError, positive};
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

/// The arguments of `cloison transcript`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison transcript --passive-features 12 --epochs 1,2,5,10
  cloison transcript --dataset satellite --passive-features 12 --known 12 --epochs 1,2,5,10,20,50,100
  cloison transcript --dataset pendigits --passive-features 12 --known 24 --json
  cloison transcript --dataset satellite --passive-features 12 --known 0 --batch-size 65536 --epochs 8,16,40
  cloison transcript --chair coordinator --dataset robot --passive-features 12 --known 0 --batch-size 65536 --epochs 40

Trains in this process with the parties' own code and keeps what an honest party receives: the gradients of its batches, beside \
its own shares; the coordinator has each party's shares. It knows the features under attack of --known training records and no \
parameter. The table says how well it then reconstructs these features of the other training records, by number of epochs. Errors \
are of features in [0, 1]. The passive party and the coordinator also read the labels from the gradients.

With --known 0 it knows no record. It finds the features from the optimiser alone, since Adam treats each feature by itself; which \
feature is which stays open. Beside it stands a control, in which the gradients are handed to other records.")]
pub struct TranscriptArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The party that attacks, and follows the protocol.
    #[arg(long, value_enum, value_name = "PARTY", default_value = "active")]
    chair: Chair,
    /// Training records whose features under attack the attacker knows. 0: the attack uses the
    /// optimiser alone. The coordinator's takes 0.
    #[arg(long, value_name = "N", default_value_t = 12)]
    known: usize,
    /// Numbers of epochs to measure at. One training is run, for the largest number.
    #[arg(long, value_name = "E,…", value_delimiter = ',', default_value = "1,2,5,10,20")]
    epochs: Vec<u32>,
    #[command(flatten)]
    steps: StepArgs,
    /// The most iterations of the attack, for each number of epochs; without known records also the
    /// most from each start.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = positive)]
    iterations: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl TranscriptArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let plan = TranscriptPlan {
            subject: self.data.subject()?,
            training: TrainingValues { seed: self.data.seed, ..self.steps.values() },
            adversary: self.chair.into(),
            known: self.known,
            epochs: self.epochs,
            iterations: self.iterations,
            seed: self.data.seed,
        };
        match plan.known {
            0 => conduct(move || UnaidedExperiment::prepare(&plan), None, self.json).await,
            _ => conduct(move || Experiment::prepare(&plan), None, self.json).await,
        }
    }
}
