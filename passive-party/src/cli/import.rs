//! `import-parameters`: stages parameters that were trained elsewhere.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use vfl_shared::cli::{CliError, import_failure, withdraw};
use vfl_shared::data::FeatureStore as _;
use vfl_shared::model::{Importing, import_parameters};
use vfl_shared::types::PartyName;

use crate::config::Settings;
use crate::transform::TransformConfig;

/// `passive-party import-parameters`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party import-parameters --config passive-party.toml --parameters passive.parameters.json --active-party shop
  passive-party import-parameters --config passive-party.toml --withdraw

The file is JSON; `cloison split-parameters` makes each party's from one file of the whole model:
  {\"schema\": 1, \"class_names\": [\"no\", \"yes\"], \"feature_names\": [\"age\", \"job=clerk\"],
   \"weights\": [[-0.8, 0.1], [0.8, -0.1]]}
weights: one row per class, one number per feature. Columns are found by the features' names, which must be those of this
party's schema (a categorical column has one feature per category, COLUMN=CATEGORY). Classes must be named in the same
order by all parties. No bias: it is the active party's.

A file whose name ends in .safetensors holds a model of any kind as PyTorch names and lays it out, with 32- or 64-bit numbers:
  save_file(model.state_dict(), \"passive.safetensors\", metadata={
      \"kind\": \"mlp\", \"settings\": json.dumps({\"activation\": \"relu\"}),
      \"feature_names\": json.dumps([\"age\", \"job=clerk\"]), \"class_names\": json.dumps([\"no\", \"yes\"])})
An mlp is an nn.Sequential of nn.Linear and activations. Its outputs are added to the other parties', one per class; or they are
an embedding, for a top model that the coordinator's operator imports.

The weights are of features normalised to [0, 1] by the ranges that the schema declares. With w of a feature in its own
units, the weight here is w * (max - min), and w * min of every feature, per class, is added to the bias of the active
party. `cloison split-parameters --raw` does both. Under `transform` in [training] nothing can be imported: the features
that meet the weights would be other ones.

Staging is this party's consent: for the active party named, for one model. It runs beside the service, which reads what
is staged when the coordinator asks for it; the active party then runs `active-party publish`. Staging again replaces what
is staged. What scores under these parameters give away, `passive-party assess` predicts: ask before staging.")]
pub struct ImportArgs {
    /// The config file, which names the state directory and the schema.
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// The parameters (JSON or safetensors).
    #[arg(long, value_name = "FILE", required_unless_present = "withdraw", conflicts_with = "withdraw")]
    parameters: Option<PathBuf>,
    /// The active party that may have them published: the name in its certificate.
    #[arg(long, value_name = "NAME", required_unless_present = "withdraw", conflicts_with = "withdraw")]
    active_party: Option<PartyName>,
    /// Take back what is staged.
    #[arg(long)]
    withdraw: bool,
    /// Print JSON in place of the lines.
    #[arg(long)]
    json: bool,
}

impl ImportArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (_, settings) = Settings::read(&self.config).map_err(CliError::input)?;
        let said = match (&self.parameters, self.active_party) {
            (Some(path), Some(active_party)) => {
                let transform = &settings.training.transform;
                if *transform != (TransformConfig::None {}) {
                    return Err(CliError::Input(format!(
                        "config file {}: `transform` in [training] is {}, and imported parameters are of the features as they \
                         are: set it to none, with a state_dir of its own",
                        self.config.display(),
                        transform
                    )));
                }
                let names: Vec<String> =
                    settings.table.schema().features().iter().map(|feature| feature.name.clone()).collect();
                let imported = import_parameters(Importing {
                    path,
                    state_dir: &settings.state_dir,
                    feature_names: &names,
                    classes: None,
                    active_party: &active_party,
                });
                let imported = imported.map_err(import_failure)?;
                if self.json {
                    serde_json::to_string(&imported).map_err(CliError::failed)? + "\n"
                } else {
                    format!(
                        "{}not in service yet: active party `{active_party}` may publish it, once (`active-party publish`)\n",
                        imported.lines()
                    )
                }
            }
            _ => withdraw(&settings.state_dir, self.json).map_err(import_failure)?,
        };
        std::io::stdout().write_all(said.as_bytes()).map_err(CliError::failed)
    }
}
