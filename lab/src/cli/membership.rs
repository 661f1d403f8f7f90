//! The command `cloison membership`.

use std::path::PathBuf;

use clap::Args;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_defense::Policy;
use vfl_server::cli::CliError;
use vfl_studies::membership::{Experiment, MembershipPlan, default_policies};

use super::data::DataArgs;
use super::model::ModelArgs;
use super::study::{StepArgs, conduct, privacy};

/// The arguments of `cloison membership`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison membership --dataset satellite --records 2000
  cloison membership --dataset satellite --hidden 64 --activation relu --epochs 300 --l2 0
  cloison membership --hidden 64 --early-stopping --policy 'rounding (decimals = 2)' --policy class_label
  cloison membership --dataset satellite --hidden 64 --batch-size 256 --epochs 20 --privacy-noise 4

Do released scores tell who was in the training set? The adversary sees the released scores of one record and knows its true class, \
how the model was trained, and the policy. It sees no parameter. It can train models on records of the same population, some with the \
record and some without, so it has the features of all parties for them; their scores pass the same policy.

Trains --models models in this process with the parties' own code, each on a random half of --records records, so that every record \
is in half of them. Each model in turn is attacked, the others are the adversary's. Two attacks: the likelihood ratio of Carlini et al. \
2022 (online form), and one threshold for all records (Yeom et al. 2018). The table says which share of the members each attack names \
where it names 1 % of the others (TPR at 1 % FPR), over targets, for each policy; without a defense first. Members are all records \
that a model was given, those that --early-stopping sets aside too. A training without early stopping runs all its epochs.")]
pub struct MembershipArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Records, drawn from training and test records together; all if there are fewer. At least
    /// 200; 2000 for the TPR at 0.1 %.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    records: usize,
    /// Models, an even number from 8 to 1024. From 66 on each record has variances of its own.
    #[arg(long, value_name = "N", default_value_t = 64)]
    models: usize,
    /// A policy to attack, as `rounding (decimals = 2)` or `temperature (temperature = 2.0) then
    /// rounding (decimals = 1)`; may be repeated. Default: none, rounding to 1 decimal,
    /// class_label, gaussian_noise of 0.1, top_k of 1. `none` is always among them.
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// Epochs of training, with --early-stopping at most.
    #[arg(long, value_name = "N", default_value_t = TrainingValues::default().epochs)]
    epochs: u32,
    #[command(flatten)]
    steps: StepArgs,
    /// Set a tenth of each model's records aside and take the epoch that is best on them. Default:
    /// train on all, take the last epoch.
    #[arg(long)]
    early_stopping: bool,
    /// Train with differential privacy of every party's parameters: standard deviation of the noise
    /// over --privacy-clip, at least 0.01. Few epochs and large batches suit it. Default: no
    /// privacy.
    #[arg(long, value_name = "SIGMA")]
    privacy_noise: Option<f64>,
    /// The largest norm of a record's part of a gradient, with --privacy-noise. Default 1.
    #[arg(long, value_name = "GAMMA", requires = "privacy_noise")]
    privacy_clip: Option<f64>,
    /// Directory for membership.json.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl MembershipArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let plan = self.plan()?;
        let file = self.out.join("membership.json");
        conduct(move || Experiment::prepare(&plan), Some(file), self.json).await
    }

    /// Builds the plan from the options.
    fn plan(&self) -> Result<MembershipPlan, CliError> {
        let privacy = privacy(self.privacy_noise, self.privacy_clip)?;
        let subject = self.data.subject()?;
        let defaults = TrainingValues::default();
        let training = TrainingConfig::try_from(TrainingValues {
            epochs: self.epochs,
            validation_share: if self.early_stopping { defaults.validation_share } else { 0.0 },
            seed: self.data.seed,
            model: self.model.model(subject.data.image())?,
            ..self.steps.values()
        })
        .map_err(CliError::input)?;
        let named: Result<Vec<Policy>, _> = self.policies.iter().map(|text| text.parse()).collect();
        let named = named.map_err(|e| CliError::Input(format!("--policy: {e}")))?;
        Ok(MembershipPlan {
            subject,
            training,
            privacy,
            records: self.records,
            models: self.models,
            policies: if named.is_empty() { default_policies() } else { named },
            seed: self.data.seed,
        })
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
        args: MembershipArgs,
    }

    fn plan(words: &[&str]) -> Result<MembershipPlan, CliError> {
        Line::try_parse_from(["membership"].iter().chain(words)).unwrap().args.plan()
    }

    #[test]
    fn options_become_a_plan() {
        let default = plan(&[]).unwrap();
        assert_eq!((default.records, default.models, default.policies.len()), (1000, 64, 5));
        let values = default.training.values();
        assert_eq!(
            (values.epochs, values.validation_share),
            (TrainingValues::default().epochs, 0.0)
        );
        let stopped =
            plan(&["--early-stopping", "--policy", "class_label", "--hidden", "64"]).unwrap();
        assert_eq!(
            stopped.training.values().validation_share,
            TrainingValues::default().validation_share
        );
        assert_eq!((stopped.policies.len(), stopped.training.values().model.kind()), (1, "mlp"));
        let private =
            plan(&["--privacy-noise", "4", "--privacy-clip", "0.5"]).unwrap().privacy.unwrap();
        assert_eq!((private.values().noise, private.values().clip), (4.0, 0.5));
    }

    #[test]
    fn errors_name_the_option() {
        let told = |words: &[&str]| plan(words).unwrap_err().to_string();
        assert!(told(&["--policy", "privee"]).contains("--policy"));
        assert!(told(&["--privacy-noise", "0"]).contains("--privacy-noise"));
        assert!(Line::try_parse_from(["membership", "--privacy-clip", "1"]).is_err());
    }
}
