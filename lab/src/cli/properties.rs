//! The command `cloison properties`.

use std::path::PathBuf;

use clap::Args;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_server::cli::CliError;
use vfl_studies::properties::{Experiment, Group, PropertiesPlan, default_transforms};
use vfl_transform::TransformConfig;

use super::data::DataArgs;
use super::study::{StepArgs, conduct};

/// The arguments of `cloison properties`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison properties --dataset satellite --passive-features 18 --feature 3
  cloison properties --dataset bank --passive-features 8 --group class=1 --records 1000
  cloison properties --dataset satellite --passive-features 18 --group above=0 --transform none --transform permute

What do released parameters tell of the training records as a whole? The property is the mean of one passive feature over them, or over a \
group that the active party knows. The active party has its own features and the labels of the training records, half of the data set's \
other records with all features, and what is released of the passive weights. It trains --shadows models on sets with more or less of the \
property, fits a kernel ridge regression of the property on what it sees, and applies it to --targets models of records that it does not \
have. The control sees no parameters. Mean scores of the training records stand beside the releases.

Transforms are those of [release]; what is secret in one is drawn afresh for each model. Softmax regression only. A training has no early \
stopping.")]
pub struct PropertiesArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The passive feature whose mean is inferred, from 0, counted over all passive parties.
    #[arg(long, value_name = "J", default_value_t = 0)]
    feature: usize,
    /// Training records that the mean is taken over: all, class=C (a class), above=J (active
    /// feature J is above its median); C and J count from 0.
    #[arg(long, value_name = "GROUP", default_value = "all")]
    group: Group,
    /// Records of each training set, at least 100. Each quarter of the data set must have at least
    /// twice as many.
    #[arg(long, value_name = "N", default_value_t = 250)]
    records: usize,
    /// Models of the adversary's own, 50 to 1000.
    #[arg(long, value_name = "N", default_value_t = 300)]
    shadows: usize,
    /// Models attacked, 30 to 1000.
    #[arg(long, value_name = "N", default_value_t = 150)]
    targets: usize,
    /// Spread of the property between training sets, 0 to 3: records one standard deviation apart
    /// are drawn with odds of up to e^X to 1.
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    tilt: f64,
    /// A transform of the passive weights before they are shown, as in [release]; may be repeated.
    /// Default: none, negate, permute, random_orthonormal. Only transforms that need no records can
    /// be named.
    #[arg(long = "transform", value_name = "TRANSFORM")]
    transforms: Vec<String>,
    /// Epochs of training.
    #[arg(long, value_name = "N", default_value_t = 50)]
    epochs: u32,
    #[command(flatten)]
    steps: StepArgs,
    /// Directory for properties.json.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl PropertiesArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let (subject, plan) = (self.data.subject()?, self.plan()?);
        let file = self.out.join("properties.json");
        conduct(move || Experiment::prepare(&subject, &plan), Some(file), self.json).await
    }

    /// Builds the plan from the options.
    fn plan(&self) -> Result<PropertiesPlan, CliError> {
        let training = TrainingConfig::try_from(TrainingValues {
            epochs: self.epochs,
            validation_share: 0.0,
            seed: self.data.seed,
            ..self.steps.values()
        })
        .map_err(CliError::input)?;
        let named: Result<Vec<TransformConfig>, _> =
            self.transforms.iter().map(|text| text.parse()).collect();
        let named = named.map_err(|e| CliError::Input(format!("--transform: {e}")))?;
        Ok(PropertiesPlan {
            training,
            feature: self.feature,
            group: self.group,
            records: self.records,
            shadows: self.shadows,
            targets: self.targets,
            tilt: self.tilt,
            transforms: if named.is_empty() { default_transforms() } else { named },
            seed: self.data.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: PropertiesArgs,
    }

    fn plan(words: &[&str]) -> Result<PropertiesPlan, CliError> {
        Line::try_parse_from(["properties"].iter().chain(words)).unwrap().args.plan()
    }

    #[test]
    fn options_become_a_plan() {
        let default = plan(&[]).unwrap();
        assert_eq!(
            (default.group, default.shadows, default.transforms.len()),
            (Group::All, 300, 4)
        );
        assert_eq!(default.training.values().validation_share, 0.0);
        let named =
            plan(&["--group", "class=2", "--transform", "permute", "--feature", "3"]).unwrap();
        assert_eq!((named.group, named.feature), (Group::Class(2), 3));
        assert_eq!(named.transforms, [TransformConfig::Permute {}]);
    }

    #[test]
    fn errors_name_the_option() {
        assert!(plan(&["--transform", "shuffle"]).unwrap_err().to_string().contains("--transform"));
        let error = Line::try_parse_from(["properties", "--group", "men"]).unwrap_err().to_string();
        assert!(error.contains("--group") && error.contains("class=2"), "{error}");
    }
}
