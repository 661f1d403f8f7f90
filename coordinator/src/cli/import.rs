//! `import-parameters` and `export-parameters` of the coordinator: its top model.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use vfl_shared::cli::{CliError, import_failure, withdraw};
use vfl_shared::model::StoredShare;
use vfl_shared::types::{ModelVersion, PartyName};

use crate::config::Settings;
use crate::import::import_top;
use crate::registry::{read_manifest, tops};

/// `coordinator import-parameters`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  coordinator import-parameters --config coordinator.toml --parameters top.safetensors --active-party shop
  coordinator import-parameters --config coordinator.toml --withdraw

The top model makes logits of all parties' embeddings, side by side. In PyTorch it is an nn.Sequential of nn.Linear and
activations, written with the `safetensors` package:
  save_file(top.state_dict(), \"top.safetensors\", metadata={
      \"kind\": \"mlp\", \"settings\": json.dumps({\"activation\": \"relu\"}),
      \"feature_names\": json.dumps([f\"{party}.{i}\" for party, width in parties for i in range(1, width + 1)]),
      \"class_names\": json.dumps([\"no\", \"yes\"])})
feature_names: the active party's outputs first, then the passive parties' in the order of this configuration, each party by
the name in its certificate. class_names: those of the active party's label, in that order.

Every party stages its own part (`active-party import-parameters`, `passive-party import-parameters`). Then `active-party
publish` puts the model in service, with this top model, once. While one is staged, outputs are embeddings for it; without one
they are added. Staging runs beside the service, and staging again replaces what is staged.")]
pub struct ImportArgs {
    /// The config file, which names the state directory (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// The top model (safetensors).
    #[arg(long, value_name = "FILE", required_unless_present = "withdraw", conflicts_with = "withdraw")]
    parameters: Option<PathBuf>,
    /// The active party that may have it published: the name in its certificate.
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
        let said = match (&self.parameters, &self.active_party) {
            (Some(path), Some(active_party)) => {
                let imported = import_top(path, &settings.state_dir, active_party).map_err(import_failure)?;
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

/// The stored top model of a version, with the names of its classes.
pub(super) fn top_of(settings: &Settings, version: &ModelVersion) -> Result<(StoredShare, Vec<String>), CliError> {
    let manifest = read_manifest(&settings.state_dir, version).map_err(CliError::failed)?;
    let manifest = manifest.ok_or_else(|| CliError::Input(format!("model {version} is not known here")))?;
    let digest = manifest.top().ok_or_else(|| {
        CliError::Input(format!(
            "model {version} has no top model: its logits are the sum of the parties' outputs, and the parameters are the parties'"
        ))
    })?;
    let share = tops(&settings.state_dir).and_then(|store| store.stored(digest)).map_err(CliError::failed)?;
    Ok((share, manifest.class_names))
}
