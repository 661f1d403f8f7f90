//! The command `cloison labels`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vfl_core::model::{Combiner, ModelConfig, Settings, TrainingValues};
use vfl_server::cli::CliError;
use vfl_studies::labels::{Experiment, LabelsPlan};

use super::data::DataArgs;
use super::study::{StepArgs, conduct, privacy};

/// A kind of model to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModelChoice {
    /// Softmax regression, summed.
    Softmax,
    /// A perceptron at each party, outputs summed.
    Sum,
    /// A perceptron at each party under a top model.
    Concat,
}

/// The arguments of `cloison labels`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison labels --dataset satellite --passive-features 18
  cloison labels --dataset bank --passive-features 10 --model concat --known 1 --epochs 1,2,5
  cloison labels --dataset satellite --passive-features 18 --privacy-noise 4 --batch-size 256

What does a training tell a passive party about the labels of the active party? All parties follow the protocol. The first passive party \
receives the gradient of its outputs in every step, for records whose ids it has; it knows its own features and parameters, and the labels \
of --known records of each class. Trains --trainings times each model in this process with the parties' own code, and measures after \
--epochs. Attacks:

  gradient_sign       summed: the entry of a record's gradient that is below 0
  gradient_direction  top model: the class whose known records' gradients point the same way
  gradient_sides      top model, two classes, no label known: the side of the gradients' main axis
  gradient_norm       top model, two classes, no label known: long gradients are of the rarer class
  model_completion    no gradient: a classifier on the outputs of its own sub-model, from the known records
  own_outputs         summed, no gradient: the largest output of its own sub-model
  parameter_signs     softmax regression, no gradient: the signs of its own weights

The control is the same classifier on the party's features, from the same known records, without a training. \
--privacy-noise shows what differential privacy of the parties' parameters changes. It does not change the gradients that parties receive.")]
pub struct LabelsArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The models: softmax (softmax regression), sum (a perceptron at each party, outputs summed),
    /// concat (perceptrons under a top model).
    #[arg(
        long = "model",
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "softmax,sum,concat",
        hide_possible_values = true
    )]
    models: Vec<ModelChoice>,
    /// Widths of the perceptrons' hidden layers.
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',', default_value = "32")]
    hidden: Vec<u32>,
    /// Activation function of hidden layers: sigmoid, tanh or relu.
    #[arg(long, value_name = "NAME", default_value = "relu")]
    activation: String,
    /// Outputs of each party's perceptron under the top model.
    #[arg(long, value_name = "WIDTH", default_value_t = 16)]
    embedding: u32,
    /// Hidden layers of the top model, of relu. Default: none with one passive party, 256 with
    /// more.
    #[arg(long, value_name = "WIDTHS", value_delimiter = ',')]
    top: Vec<u32>,
    /// Records of a training, drawn from training and test records together; all if there are
    /// fewer. At least 200.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    records: usize,
    /// Labels of each class that the passive party knows, 1 to 100.
    #[arg(long, value_name = "N", default_value_t = 5)]
    known: usize,
    /// Numbers of epochs to measure at. Each training has the largest.
    #[arg(long, value_name = "E,…", value_delimiter = ',', default_value = "1,5,20")]
    epochs: Vec<u32>,
    /// Trainings of each model, from 4, each with its own seed and its own known records.
    #[arg(long, value_name = "N", default_value_t = 10)]
    trainings: usize,
    #[command(flatten)]
    steps: StepArgs,
    /// Train with differential privacy of every party's parameters: standard deviation of the noise
    /// over --privacy-clip, at least 0.01. Default: no privacy.
    #[arg(long, value_name = "SIGMA")]
    privacy_noise: Option<f64>,
    /// The largest norm of a record's part of a gradient, with --privacy-noise. Default 1.
    #[arg(long, value_name = "GAMMA", requires = "privacy_noise")]
    privacy_clip: Option<f64>,
    /// Directory for labels.json.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl LabelsArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let plan = self.plan()?;
        let file = self.out.join("labels.json");
        conduct(move || Experiment::prepare(&plan), Some(file), self.json).await
    }

    /// Builds the plan from the options.
    fn plan(&self) -> Result<LabelsPlan, CliError> {
        let mut named: Vec<ModelChoice> = Vec::new();
        for model in &self.models {
            if !named.contains(model) {
                named.push(*model);
            }
        }
        Ok(LabelsPlan {
            subject: self.data.subject()?,
            models: named
                .into_iter()
                .map(|model| self.model(model))
                .collect::<Result<Vec<_>, _>>()?,
            // No validation: all epochs are run.
            training: TrainingValues { validation_share: 0.0, ..self.steps.values() },
            privacy: privacy(self.privacy_noise, self.privacy_clip)?,
            records: self.records,
            known: self.known,
            epochs: self.epochs.clone(),
            trainings: self.trainings,
            seed: self.data.seed,
        })
    }

    fn model(&self, model: ModelChoice) -> Result<ModelConfig, CliError> {
        let mut settings = Settings::new();
        settings.insert("hidden".into(), self.hidden.clone().into());
        settings.insert("activation".into(), self.activation.as_str().into());
        let made = match model {
            ModelChoice::Softmax => return Ok(ModelConfig::default()),
            ModelChoice::Sum => ModelConfig::new(Combiner::Sum, "mlp", None, settings),
            ModelChoice::Concat => {
                ModelConfig::new(Combiner::Concat, "mlp", Some(self.embedding), settings)
            }
        };
        let made = made
            .map_err(|e| CliError::Input(format!("--hidden, --activation or --embedding: {e}")))?;
        if model != ModelChoice::Concat || self.top.is_empty() {
            return Ok(made);
        }
        let mut top = Settings::new();
        top.insert("hidden".into(), self.top.clone().into());
        top.insert("activation".into(), "relu".into());
        made.with_top(top).map_err(|e| CliError::Input(format!("--top: {e}")))
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
        args: LabelsArgs,
    }

    fn plan(words: &[&str]) -> Result<LabelsPlan, CliError> {
        Line::try_parse_from(["labels"].iter().chain(words)).unwrap().args.plan()
    }

    #[test]
    fn options_become_a_plan() {
        let default = plan(&[]).unwrap();
        let combiners: Vec<Combiner> = default.models.iter().map(ModelConfig::combiner).collect();
        assert_eq!(combiners, [Combiner::Sum, Combiner::Sum, Combiner::Concat]);
        assert_eq!((default.known, default.trainings, default.epochs), (5, 10, vec![1, 5, 20]));
        let one =
            plan(&["--model", "concat,concat", "--top", "8", "--embedding", "4", "--known", "1"])
                .unwrap();
        assert_eq!((one.models.len(), one.models[0].width(), one.known), (1, Some(4), 1));
        assert!(one.models[0].top().is_some());
        let private =
            plan(&["--privacy-noise", "4", "--privacy-clip", "0.5"]).unwrap().privacy.unwrap();
        assert_eq!((private.values().noise, private.values().clip), (4.0, 0.5));
    }

    #[test]
    fn errors_name_the_option() {
        let told = |words: &[&str]| plan(words).unwrap_err().to_string();
        assert!(told(&["--privacy-noise", "0"]).contains("--privacy-noise"));
        assert!(told(&["--activation", "step"]).contains("--activation"));
        assert!(Line::try_parse_from(["labels", "--model", "forest"]).is_err());
    }
}
