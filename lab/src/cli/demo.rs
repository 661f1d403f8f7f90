//! The command `cloison demo`.

use std::path::PathBuf;

use clap::Args;
use vfl_auditor::audit::DEFAULT_METRICS;
use vfl_auditor::{measured, metrics_of};
use vfl_core::metrics::{Correlation, Metric};
use vfl_core::model::privacy::PrivacyConfig;
use vfl_core::model::{Combiner, Link, ModelConfig, TrainingConfig, TrainingMode, TrainingValues};
use vfl_datasets::{Dataset, VerticalSplit};
use vfl_defense::{DefenseConfig, Policy};
use vfl_demo::inference::{Inferences, Kind};
use vfl_demo::{
    DEFAULT_EPOCHS, DEFAULT_KNOWN_RECORDS, DEFAULT_RECORDS, DemoPlan, ImportedModel,
    ImportedParameters, Sharing, check_shared, predicted_range, run,
};
use vfl_passive_party::config::{Grant, ReleasePolicy, check_release};
use vfl_passive_party::training_map::possible;
use vfl_present::ShardChoice;
use vfl_present::result_cache::StoreUrl;
use vfl_server::cli::CliError;
use vfl_studies::DataSpec;
use vfl_transform::TransformConfig;

use super::data::DataArgs;
use super::deliver::OutputArgs;
use super::demo_pieces::shared;
use super::model::ModelArgs;
use super::parameters::{scored_model, whole_model};
use super::policies::{number_policies, policies};
use super::study::with_bar;
use super::thresholds::ThresholdArgs;

/// The arguments of `cloison demo`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison demo                                                       embedded data, report in out/
  cloison demo --policy 'rounding (decimals = 2)' --policy none --max-added-risk 0.1
  cloison demo --dataset satellite --passive-features 12
  cloison demo --dataset satellite --passive-features 18 --policy all --no-sweep
  cloison demo --passive-features 6 --transform complement --no-sweep
  cloison demo --dataset satellite --hidden 8,8
  cloison demo --dataset satellite --privacy-noise 4 --no-sweep
  cloison demo --dataset satellite --private-trainings 1,4,16 --no-sweep
  cloison demo --dataset satellite --inference membership,labels,properties --no-sweep
  cloison demo --dataset satellite --hidden 32 --activation relu --embedding 16
  cloison demo --passive-parties 3 --passive-features 6 --out report

On each of four machines with a folder in common, and then for the report:
  cloison demo --dataset satellite --policy all --shard 2/4 --out out/all
  cloison demo --dataset satellite --policy all --merge --out out/all")]
pub struct DemoArgs {
    #[command(flatten)]
    pub(super) data: DataArgs,
    /// Test records to attack, at least 100.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RECORDS)]
    pub(super) records: usize,
    /// Test records that a further adversary knows with all their features. None of them is
    /// attacked. The report says what the scores add to the estimates that this adversary can make
    /// without scores. 0 leaves it out.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_KNOWN_RECORDS)]
    pub(super) known_records: usize,
    /// Knowledge of adversaries about the passive features: their public schema (kinds, ranges,
    /// steps, one-hot groups), or nothing but the range from 0 to 1, as in the papers.
    #[arg(long, value_name = "WHAT", default_value = SCHEMA, value_parser = [SCHEMA, "nothing"])]
    features: String,
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// Serve a model that was trained elsewhere, in place of training one: the file of `cloison
    /// split-parameters`, a linear model or a perceptron of features in their own units. Its
    /// `samples`, records with scores of the program that trained it, are compared.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hidden", "residual", "link", "mode", "epochs", "privacy_noise", "private_trainings", "train_transform", "inference"])]
    pub(super) parameters: Option<PathBuf>,
    /// Serve the scores of a model that is not here, in place of training one: a CSV file with the
    /// record ids in its first column and a column of probabilities for each class (one may be left
    /// out), or of the number. Adversaries have no parameters then.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parameters", "hidden", "residual", "link", "mode", "epochs", "privacy_noise", "private_trainings", "transform", "train_transform", "inference", "show_network"])]
    pub(super) scores: Option<PathBuf>,
    /// The way of training: `private`, on secret shares, or `plain`, which gives the active party
    /// every feature. Default private; plain for networks, with noise, with --inference labels, and
    /// with --shard or --merge.
    #[arg(long, value_name = "MODE", value_parser = [PRIVATE_MODE, "plain"])]
    mode: Option<String>,
    /// Epochs of training at most. Default 150, with --privacy-noise 10: each epoch costs privacy.
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Train with differential privacy of every party's parameters: standard deviation of the noise
    /// over --privacy-clip, at least 0.01. Batches then have 512 records instead of 64. Default: no
    /// privacy.
    #[arg(long, value_name = "SIGMA")]
    privacy_noise: Option<f64>,
    /// The largest norm of a record's part of a gradient, with --privacy-noise
    /// or --private-trainings. Default 1.
    #[arg(long, value_name = "GAMMA")]
    privacy_clip: Option<f64>,
    /// Train this many further models with differential privacy, each with one of these noises, and
    /// audit the exact scores of each. Each is a row of the report beside the policies. At most 8.
    /// They have 10 epochs of batches of 512 records.
    #[arg(long, value_name = "SIGMA,…", value_delimiter = ',')]
    private_trainings: Vec<f64>,
    /// Infer more than features, with rows in the report: membership, from the scores released
    /// under each policy; labels, by a passive party, from what it receives in training;
    /// properties, here the mean of the first passive feature, from the released parameters of
    /// softmax regression. Trains many models; `cloison membership`, `labels` and `properties` have
    /// more options.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', hide_possible_values = true)]
    inference: Vec<Kind>,
    /// A policy to audit, as `rounding (decimals = 2)` or `temperature (temperature = 2.0) then
    /// rounding (decimals = 1)`; may be repeated. `all` is every defense. Default: none, rounding
    /// to 2 decimals, class_label. The first one counts as in service, so the thresholds apply to
    /// it.
    #[arg(long = "policy", value_name = "POLICY")]
    pub(super) policies: Vec<String>,
    /// Release the passive parameters under a transform, as `complement` or `stiefel (epsilon =
    /// 0.1)`. Default: the true ones.
    #[arg(long, value_name = "TRANSFORM", default_value = "none")]
    transform: String,
    /// Show the active party all of each passive party's network, and the top model. Without it a
    /// network is a black box.
    #[arg(long)]
    show_network: bool,
    /// Train on features under a transform: negate, complement, permute, `selective (features = [0,
    /// 1])`, random_orthonormal.
    #[arg(long, value_name = "TRANSFORM", default_value = "none")]
    train_transform: String,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = super::metrics::metrics_help(""))]
    metrics: Option<Vec<String>>,
    /// Leave out the error by number of passive features.
    #[arg(long)]
    pub(super) no_sweep: bool,
    #[command(flatten)]
    pub(super) thresholds: ThresholdArgs,
    /// Compute only part I of N, as 2/4, and keep it in OUT/pieces. A piece is the audits of one
    /// policy, those of records without a score, the error by number of passive features, or one
    /// private training. `slurm` takes I and N from the task of a Slurm job array, `kubernetes/N`
    /// takes I from the pod of an Indexed Job. --inference goes only with --merge.
    #[arg(long, value_name = "I/N", conflicts_with = "inference")]
    shard: Option<ShardChoice>,
    /// Make the report from the pieces in OUT/pieces or --store, and compute those that are
    /// missing.
    #[arg(long, conflicts_with = "shard")]
    merge: bool,
    /// With --shard or --merge: a store to read finished pieces from and to write them to, besides
    /// OUT: s3://BUCKET/PREFIX or file:///FOLDER. See `cloison reproduce --help`.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// The default epochs and batch size with privacy. The noise is added to the sum of a batch, so
/// that its share is smaller in a large batch.
const PRIVATE: (u32, u32) = (10, 512);

/// The value of `--features` for adversaries that know the public schema.
const SCHEMA: &str = "schema";

/// The name of the mode of secret shares.
const PRIVATE_MODE: &str = "private";
/// The most private trainings, as each is a deployment, a training and an audit of its own.
const MOST_PRIVATE: usize = 8;

impl Default for DemoArgs {
    fn default() -> Self {
        Self {
            data: DataArgs::default(),
            records: DEFAULT_RECORDS,
            known_records: DEFAULT_KNOWN_RECORDS,
            features: SCHEMA.into(),
            model: ModelArgs::default(),
            parameters: None,
            scores: None,
            epochs: None,
            mode: None,
            privacy_noise: None,
            privacy_clip: None,
            private_trainings: Vec::new(),
            inference: Vec::new(),
            policies: Vec::new(),
            transform: "none".into(),
            show_network: false,
            train_transform: "none".into(),
            metrics: None,
            no_sweep: false,
            thresholds: ThresholdArgs::default(),
            shard: None,
            merge: false,
            store: None,
            output: OutputArgs::default(),
        }
    }
}

impl DemoArgs {
    /// Creates the arguments of a demonstration on this data, with so many records attacked and so
    /// many known with all features.
    pub(super) fn of(data: DataArgs, records: usize, known_records: usize, epochs: u32) -> Self {
        Self { data, records, known_records, epochs: Some(epochs), ..Self::default() }
    }

    pub(super) async fn run(self) -> Result<(), CliError> {
        let plan = self.plan()?;
        let sharing = self.sharing(&plan)?;
        let inferences = Inferences::prepare(&plan, &self.inference)
            .map_err(|e| CliError::Input(format!("{e:#}")))?;
        let mut report = match sharing {
            None => run(&plan).await.map_err(|e| CliError::Failed(format!("{e:#}")))?,
            Some(sharing) => match shared(plan, sharing).await? {
                Some(report) => report,
                None => return Ok(()),
            },
        };
        if !self.inference.is_empty() {
            // Minutes of computation must not block the runtime's threads.
            let infer = move || {
                let trainings = inferences.trainings();
                let ending = format!("{trainings} models trained for inferences");
                let measured = with_bar("training models", trainings, &ending, |tell| {
                    inferences.measure(&mut report, tell)
                });
                measured.map(|()| report)
            };
            report = tokio::task::spawn_blocking(infer).await.map_err(CliError::failed)??;
        }
        self.output.deliver(&report)
    }

    /// Returns the pieces to compute in this process, or `None` if the demonstration is not
    /// divided.
    fn sharing(&self, plan: &DemoPlan) -> Result<Option<Sharing>, CliError> {
        if self.shard.is_none() && !self.merge {
            return match self.store {
                Some(_) => {
                    Err(CliError::Input("--store is for --shard and --merge: name one".into()))
                }
                None => Ok(None),
            };
        }
        let option = if self.merge { "--merge" } else { "--shard" };
        check_shared(plan)
            .map_err(|why| CliError::Input(format!("{option} does not go with this. {why}")))?;
        let shard = self.shard.map(|choice| choice.resolve(|name| std::env::var(name).ok()));
        let shard = shard.transpose().map_err(CliError::input)?;
        let store = self
            .store
            .as_deref()
            .map(str::parse::<StoreUrl>)
            .transpose()
            .map_err(CliError::input)?;
        Ok(Some(Sharing { out: self.output.folder().to_owned(), store, shard }))
    }

    /// Builds the plan from the options.
    ///
    /// # Errors
    /// [`CliError::Input`] if they do not fit together or do not fit the data.
    pub fn plan(&self) -> Result<DemoPlan, CliError> {
        if self.privacy_clip.is_some()
            && self.privacy_noise.is_none()
            && self.private_trainings.is_empty()
        {
            return Err(CliError::Input(
                "--privacy-clip is for --privacy-noise or --private-trainings: name one".into(),
            ));
        }
        let private = |noise, option: &str| -> Result<(PrivacyConfig, TrainingConfig), CliError> {
            let failed = |e: &dyn std::fmt::Display| CliError::Input(format!("{option}: {e}"));
            let privacy = PrivacyConfig::new(self.privacy_clip.unwrap_or(1.0), noise)
                .map_err(|e| failed(&e))?;
            // `--epochs` sets the epochs of the report's own model.
            let epochs = self.epochs.filter(|_| self.privacy_noise.is_some()).unwrap_or(PRIVATE.0);
            let training = self.training((epochs, PRIVATE.1), true)?;
            privacy.check(&training).map_err(|e| failed(&e))?;
            Ok((privacy, training))
        };
        let (privacy, training) = match self.privacy_noise {
            Some(noise) => private(noise, "--privacy-noise")
                .map(|(privacy, training)| (Some(privacy), training))?,
            None => (
                None,
                self.training(
                    (self.epochs.unwrap_or(DEFAULT_EPOCHS), 64),
                    self.plain_by_default(),
                )?,
            ),
        };
        if self.private_trainings.len() > MOST_PRIVATE {
            return Err(CliError::Input(format!(
                "--private-trainings takes at most {MOST_PRIVATE} noises"
            )));
        }
        let further =
            self.private_trainings.iter().map(|&noise| private(noise, "--private-trainings"));
        let private_trainings = further.collect::<Result<Vec<_>, _>>()?;
        if self.show_network && self.model.linear() {
            return Err(CliError::Input(
                "--show-network is for --hidden and --residual: other parameters are shown anyway"
                    .into(),
            ));
        }
        let mut data = self.data.spec()?;
        if let DataSpec::Tables(tables) = &mut data {
            tables.numbers = self.trains();
        }
        // Invalid input must be reported before anything is started.
        let dataset = data.load_any().map_err(|e| CliError::Input(format!("{e:#}")))?;
        if self.model.link.is_some() && !dataset.is_of_numbers() {
            return Err(CliError::Input(
                "--link: the label has classes; --number-label says that it is a number".into(),
            ));
        }
        let training = match dataset.is_of_numbers() && self.trains() {
            true => self.number_training(&dataset, &training)?,
            false => training,
        };
        let split = self.data.split(&dataset)?;
        let (transform, training_transform) = self.transforms(&split)?;
        let test = dataset.split().test.len();
        if self.records.min(test) < 100 {
            return Err(CliError::Input(match test < 100 {
                true => format!("an audit takes at least 100 test records, and there are {test}"),
                false => "an audit takes at least 100 test records; raise --records".into(),
            }));
        }
        let imported = self.parameters.as_deref().map(|file| whole_model(file, &dataset));
        let dialect = self.data.tables.columns.dialect();
        let scored = self.scores.as_deref().map(|file| scored_model(file, dialect, &dataset));
        let scored = scored.transpose()?;
        let imported = imported.transpose()?;
        let mut policies = match imported.as_ref().map(|model| &model.parameters) {
            Some(ImportedParameters::Linear(file)) if dataset.is_of_numbers() => {
                number_policies(&self.policies, file.link(), predicted_range(file, &dataset))?
            }
            None if dataset.is_of_numbers() => {
                let trained = || dataset.numbers().map(|(label, _)| (label.min, label.max));
                let (link, range) = match &scored {
                    Some(scored) => (Ok(Link::Identity), Some(scored.range)),
                    None => (training.values().model.link(), trained()),
                };
                let link = link.map_err(CliError::input)?;
                number_policies(&self.policies, link, range.unwrap_or_default())?
            }
            _ => policies(&self.policies, dataset.class_names().len())?,
        };
        let network = imported.as_ref().map(|model| self.network(model, &training)).transpose()?;
        let network = network.flatten();
        let is_network = network.is_some();
        let training = network.unwrap_or(training);
        let sums = training.values().model.combiner() == Combiner::Sum;
        if !self.model.linear() || is_network || scored.is_some() {
            let weights = |policy: &Policy| {
                policy.defenses.iter().any(|d| matches!(d, DefenseConfig::LogitNoise { .. }))
            };
            if self.policies.iter().any(|text| text == "all") {
                policies.retain(|policy| !weights(policy));
            }
            if let Some(policy) = policies.iter().find(|policy| weights(policy)) {
                return Err(CliError::Input(format!(
                    "policy `{policy}`: logit_noise takes the weights of a linear model"
                )));
            }
        }
        let thresholds = self.thresholds.checked()?;
        // An embedding has no classes, so there is no attack accuracy.
        let default = if sums && scored.is_none() {
            &DEFAULT_METRICS[..]
        } else {
            &[&Correlation as &dyn Metric][..]
        };
        let metrics = self.metrics.as_deref().map(metrics_of).transpose()?;
        drop(dataset);
        let (imported, outputs) = match scored {
            Some(scored) => (Some(scored.model), Some(scored.outputs)),
            None => (imported, None),
        };
        Ok(DemoPlan {
            data,
            first_column: self.data.first_column,
            passive_features: self.data.passive_features,
            passive_parties: self.data.parties(),
            training,
            imported,
            outputs,
            privacy,
            private_trainings,
            records: self.records,
            known_records: self.known_records,
            schema: self.features == SCHEMA,
            policies,
            transform,
            training_transform,
            // Whoever trained the model had all of its parameters.
            show_network: self.show_network || is_network,
            // The passive parties of a demonstration answer without noise.
            metrics: measured(&thresholds, metrics, default),
            thresholds,
            sweep: !self.no_sweep,
            seed: self.data.seed,
        })
    }

    /// Returns true if the parties train a model here.
    fn trains(&self) -> bool {
        self.parameters.is_none() && self.scores.is_none()
    }

    /// Returns the training of a model of a number.
    fn number_training(
        &self,
        dataset: &Dataset,
        training: &TrainingConfig,
    ) -> Result<TrainingConfig, CliError> {
        if dataset.numbers().is_none() {
            return Err(CliError::Input(
                "the label is a number without a range, or no table has it: a training needs its column, with `min` and `max` in [label] \
                 of the schema; --parameters serves a model that was trained elsewhere"
                    .into(),
            ));
        }
        if self.privacy_noise.is_some() || !self.private_trainings.is_empty() {
            return Err(CliError::Input(
                "--privacy-noise, --private-trainings: a model of a number is trained on secret shares, without noise"
                    .into(),
            ));
        }
        if self.mode.as_deref() == Some("plain") || self.shard.is_some() || self.merge {
            return Err(CliError::Input(
                "--mode plain, --shard, --merge: a model of a number is trained on secret shares alone"
                    .into(),
            ));
        }
        let (mode, model) = (TrainingMode::Private, self.model.number_model()?);
        let values = TrainingValues { mode, model, ..training.values().clone() };
        TrainingConfig::try_from(values).map_err(CliError::input)
    }

    /// Returns the training with the model that an imported network makes; `None` for a linear
    /// model.
    fn network(
        &self,
        imported: &ImportedModel,
        training: &TrainingConfig,
    ) -> Result<Option<TrainingConfig>, CliError> {
        let ImportedParameters::Network(network) = &imported.parameters else { return Ok(None) };
        if self.transform != "none" {
            return Err(CliError::Input(
                "--transform: transforms are of linear models; leave it out".into(),
            ));
        }
        let model = network.divided_model().map_err(CliError::input)?;
        let mode = TrainingMode::Plain;
        let values = TrainingValues { mode, model, ..training.values().clone() };
        TrainingConfig::try_from(values).map(Some).map_err(CliError::input)
    }

    /// Returns true if rows of the report are of plain trainings, beside which the report's own
    /// model must be of one.
    fn plain_by_default(&self) -> bool {
        !self.private_trainings.is_empty() || self.inference.contains(&Kind::Labels)
    }

    /// Returns the training settings for so many epochs with batches of so many records.
    fn training(
        &self,
        (epochs, batch_size): (u32, u32),
        plain: bool,
    ) -> Result<TrainingConfig, CliError> {
        let model = self.model()?;
        let mode = match self.mode.as_deref() {
            Some(PRIVATE_MODE) if plain => {
                return Err(CliError::Input(
                    "--mode private: noise and labels are of plain trainings; leave one out".into(),
                ));
            }
            Some(PRIVATE_MODE) => TrainingMode::Private,
            None if model.is_default() && !plain && self.shard.is_none() && !self.merge => {
                TrainingMode::Private
            }
            _ => TrainingMode::Plain,
        };
        TrainingConfig::try_from(TrainingValues {
            mode,
            epochs,
            batch_size,
            learning_rate: 0.05,
            l2: 1e-5,
            validation_share: 0.1,
            patience: 15,
            seed: self.data.seed,
            shuffle_block: 0,
            label_scale: None,
            model,
        })
        .map_err(CliError::input)
    }

    /// Returns the model that the options describe.
    pub(super) fn model(&self) -> Result<ModelConfig, CliError> {
        if !self.model.linear() && (self.transform != "none" || self.train_transform != "none") {
            return Err(CliError::Input(
                "--hidden, --residual: transforms are of linear models; leave --transform and --train-transform out"
                    .into(),
            ));
        }
        // The link is of a label that is a number, whose model is made of the data.
        let mut of_classes = self.model.clone();
        of_classes.link = None;
        of_classes.model(self.data.spec()?.image())
    }

    /// Parses both transforms and checks them against the features of each passive party.
    fn transforms(
        &self,
        split: &VerticalSplit,
    ) -> Result<(TransformConfig, TransformConfig), CliError> {
        let read = |option: &str, text: &str| {
            text.parse::<TransformConfig>().map_err(|e| CliError::Input(format!("{option}: {e}")))
        };
        let released = read("--transform", &self.transform)?;
        let trained = read("--train-transform", &self.train_transform)?;
        let policy = ReleasePolicy {
            to_active_party: Grant::Transformed(released.clone()),
            ..ReleasePolicy::default()
        };
        for party in split.passive() {
            let d = party.columns.len();
            check_release(&policy, d).map_err(|e| CliError::Input(format!("--transform: {e}")))?;
            possible(&trained, d)
                .map_err(|e| CliError::Input(format!("--train-transform: {e}")))?;
        }
        Ok((released, trained))
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
        demo: DemoArgs,
    }

    fn plan(words: &[&str]) -> Result<DemoPlan, CliError> {
        let all = ["demo", "--dataset", "synthetic"].iter().chain(words);
        Line::try_parse_from(all).unwrap().demo.plan()
    }

    /// An inference that is not possible is reported before anything is started.
    #[test]
    fn inferences_are_checked_beforehand() {
        let prepare = |words: &[&str]| {
            Inferences::prepare(&plan(words).unwrap(), &[Kind::Properties, Kind::Properties])
        };
        assert_eq!(prepare(&[]).unwrap().trainings(), 450);
        let refused = format!("{:#}", prepare(&["--hidden", "8,8"]).err().unwrap());
        assert!(
            refused.contains("--inference properties") && refused.contains("softmax regression"),
            "{refused}"
        );
    }

    /// A network can only be shown if there is one.
    #[test]
    fn only_networks_are_asked_to_be_shown() {
        let refused = plan(&["--show-network"]).unwrap_err().to_string();
        assert!(refused.contains("--hidden"), "{refused}");
        assert!(plan(&["--hidden", "8,8", "--show-network"]).unwrap().show_network);
        assert!(!plan(&["--hidden", "8,8"]).unwrap().show_network);
    }
}
