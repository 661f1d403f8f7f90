//! `import-parameters`: stages parameters that were trained elsewhere.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use vfl_shared::cli::CliError;
use vfl_shared::data::FeatureStore as _;
use vfl_shared::model::{ImportError, Staging, import_parameters};
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
    /// The parameters (JSON).
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
                let imported = import_parameters(path, &settings.state_dir, &names, None, &active_party);
                let imported = imported.map_err(failure)?;
                if self.json {
                    serde_json::to_string(&imported).map_err(CliError::failed)? + "\n"
                } else {
                    format!(
                        "{}not in service yet: active party `{active_party}` may publish it, once (`active-party publish`)\n",
                        imported.lines()
                    )
                }
            }
            _ => {
                let staging = Staging::of(&settings.state_dir);
                let withdrawn = staging.staged().map_err(failure)?;
                let used = withdrawn.as_ref().map(|staged| staging.used_for(staged)).transpose().map_err(failure)?;
                staging.withdraw().map_err(failure)?;
                let used = used.flatten();
                if self.json {
                    let digest = withdrawn.map(|staged| staged.digest);
                    serde_json::json!({ "withdrawn": digest, "published_as": used }).to_string() + "\n"
                } else {
                    match (withdrawn, used) {
                        (None, _) => "nothing was staged\n".to_owned(),
                        (Some(staged), None) => format!("share {} is no longer staged\n", staged.digest),
                        (Some(staged), Some(version)) => format!(
                            "share {} is no longer staged; model {version}, which it was published as, is not touched\n",
                            staged.digest
                        ),
                    }
                }
            }
        };
        std::io::stdout().write_all(said.as_bytes()).map_err(CliError::failed)
    }
}

/// A file that is not good is bad input, a disk that refuses is not.
fn failure(error: ImportError) -> CliError {
    match error {
        ImportError::File { .. } => CliError::input(error),
        other => CliError::failed(other),
    }
}
