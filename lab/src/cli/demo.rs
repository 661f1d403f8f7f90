//! `cloison demo`, and the options that name data and split.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vfl_shared::cli::CliError;
use vfl_shared::data::{BankColumns, Dataset, DatasetName, DatasetSpec, Encoding, VerticalSplit};
use vfl_shared::model::{TrainingConfig, TrainingValues};

use vfl_coordinator::defense::Pipeline;
use vfl_passive_party::config::{Grant, ReleasePolicy, check_release};
use vfl_passive_party::training_map::possible;
use vfl_passive_party::transform::TransformConfig;
use vfl_passive_party::words::parse_transform;
use vfl_shared::policy::Policy;

use crate::demo::{DEFAULT_RECORDS, DemoPlan, default_policies, every_policy, run, vertical_split};

/// Columns of the bank data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum BankChoice {
    /// Without `duration`, which leaks the label, as R's text says.
    #[default]
    WithoutDuration,
    /// Without `campaign`, with `duration`, as R's authors ran it.
    Authors,
}

/// Which data, and how its columns are dealt out.
#[derive(Debug, Clone, Args)]
pub struct DataArgs {
    /// Data set: synthetic (generated), satellite, robot, bank, pendigits (these come with the program), adult, grid, credit,
    /// drive.
    #[arg(long, value_name = "NAME", default_value = "synthetic")]
    pub dataset: String,
    /// Directory of the public data sets that do not come with the program (scripts/fetch-datasets.sh fetches them).
    #[arg(long, value_name = "DIR", env = "CLOISON_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Columns of the bank data set.
    #[arg(long, value_enum, default_value_t)]
    pub bank_columns: BankChoice,
    /// Number of passive features. Default: one less than the classes, the most that exact scores give away whole.
    #[arg(long, value_name = "D")]
    pub passive_features: Option<usize>,
    /// First passive column, from 0; the others follow it, wrapping round.
    #[arg(long, value_name = "K0", default_value_t = 0)]
    pub first_column: usize,
    /// Number of passive parties that share the passive features.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub passive_parties: u8,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 7)]
    pub seed: u64,
}

impl Default for DataArgs {
    fn default() -> Self {
        Self {
            dataset: "synthetic".into(),
            data_dir: None,
            bank_columns: BankChoice::default(),
            passive_features: None,
            first_column: 0,
            passive_parties: 1,
            seed: 7,
        }
    }
}

impl DataArgs {
    /// The data set as the loader wants it.
    ///
    /// # Errors
    /// [`CliError::Input`] for an unknown name.
    pub fn spec(&self) -> Result<DatasetSpec, CliError> {
        let name: DatasetName = self.dataset.parse().map_err(CliError::input)?;
        let mut spec = DatasetSpec::new(name, self.data_dir.clone(), self.seed);
        spec.encoding = Encoding::Ordinal;
        spec.bank_columns = match self.bank_columns {
            BankChoice::WithoutDuration => BankColumns::WithoutDuration,
            BankChoice::Authors => BankColumns::Authors,
        };
        Ok(spec)
    }

    /// The split by columns.
    ///
    /// # Errors
    /// [`CliError::Input`] if the columns do not suffice.
    pub fn split(&self, dataset: &Dataset) -> Result<VerticalSplit, CliError> {
        vertical_split(dataset, self.first_column, self.passive_features, self.passive_parties.into())
            .map_err(CliError::input)
    }
}

/// `cloison demo`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison demo                                                       embedded data, report in out/
  cloison demo --dataset satellite --passive-features 12
  cloison demo --dataset satellite --passive-features 18 --policy all --no-sweep
  cloison demo --passive-features 6 --transform complement --no-sweep
  cloison demo --passive-parties 3 --passive-features 6 --out report")]
pub struct DemoArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Test records to attack, at least 100.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RECORDS)]
    records: usize,
    /// Epochs of training at most.
    #[arg(long, value_name = "N", default_value_t = 150)]
    epochs: u32,
    /// A policy to audit, as `rounding (decimals = 2)` or `temperature (temperature = 2.0) then rounding (decimals = 1)`; may be
    /// repeated. `all` is every defense. Default: none, rounding to 2 decimals, class_label.
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    /// Release the passive parameters under a transform, as `complement` or `stiefel (epsilon = 0.1)`. Default: the true ones.
    #[arg(long, value_name = "TRANSFORM", default_value = "none")]
    transform: String,
    /// Train on features under a transform: negate, complement, permute, `selective (features = [0, 1])`, random_orthonormal.
    #[arg(long, value_name = "TRANSFORM", default_value = "none")]
    train_transform: String,
    /// Leave out the error by number of passive features.
    #[arg(long)]
    no_sweep: bool,
    /// Where report.json and report.html go.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print the report as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

impl Default for DemoArgs {
    fn default() -> Self {
        Self {
            data: DataArgs::default(),
            records: DEFAULT_RECORDS,
            epochs: 150,
            policies: Vec::new(),
            transform: "none".into(),
            train_transform: "none".into(),
            no_sweep: false,
            out: "out".into(),
            json: false,
        }
    }
}

impl DemoArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let training = TrainingConfig::try_from(TrainingValues {
            epochs: self.epochs,
            batch_size: 64,
            learning_rate: 0.05,
            l2: 1e-5,
            validation_share: 0.1,
            patience: 15,
            seed: self.data.seed,
            ..TrainingValues::default()
        })
        .map_err(CliError::input)?;
        let data = self.data.spec()?;
        // What is wrong with the input is known before anything is started.
        let dataset = vfl_shared::data::load(&data).map_err(CliError::input)?;
        let split = self.data.split(&dataset)?;
        let (transform, training_transform) = self.transforms(&split)?;
        if self.records.min(dataset.split().test.len()) < 100 {
            return Err(CliError::Input("an audit takes at least 100 test records; raise --records".into()));
        }
        let policies = policies(&self.policies, dataset.class_names().len())?;
        drop(dataset);
        let plan = DemoPlan {
            data,
            first_column: self.data.first_column,
            passive_features: self.data.passive_features,
            passive_parties: self.data.passive_parties.into(),
            training,
            records: self.records,
            policies,
            transform,
            training_transform,
            sweep: !self.no_sweep,
            seed: self.data.seed,
        };
        let report = run(&plan).await.map_err(|e| CliError::Failed(format!("{e:#}")))?;
        super::deliver(&report, &self.out, self.json)
    }

    /// Both transforms, checked against the features of each passive party.
    fn transforms(&self, split: &VerticalSplit) -> Result<(TransformConfig, TransformConfig), CliError> {
        let released = parse_transform(&self.transform).map_err(|e| CliError::Input(format!("--transform: {e}")))?;
        let trained = parse_transform(&self.train_transform);
        let trained = trained.map_err(|e| CliError::Input(format!("--train-transform: {e}")))?;
        let policy =
            ReleasePolicy { to_active_party: Grant::Transformed(released.clone()), ..ReleasePolicy::default() };
        for party in split.passive() {
            let d = party.columns.len();
            check_release(&policy, d).map_err(|e| CliError::Input(format!("--transform: {e}")))?;
            possible(&trained, d).map_err(|e| CliError::Input(format!("--train-transform: {e}")))?;
        }
        Ok((released, trained))
    }
}

/// The policies named, `all` for every defense; those of the demo if none is.
fn policies(texts: &[String], classes: usize) -> Result<Vec<Policy>, CliError> {
    let mut policies = Vec::new();
    for text in texts {
        if text == "all" {
            policies.extend(every_policy(classes).map_err(CliError::input)?);
            continue;
        }
        let policy: Policy = text.parse().map_err(CliError::input)?;
        Pipeline::check(&policy.defenses).map_err(|e| CliError::Input(format!("policy `{policy}`: {e}")))?;
        policies.push(policy);
    }
    if policies.is_empty() {
        policies = default_policies();
    }
    Ok(policies)
}
