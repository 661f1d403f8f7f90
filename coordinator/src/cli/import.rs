//! `import-parameters` and `export-parameters` of the coordinator, for its top model.

use clap::Args;
use vfl_core::types::ModelVersion;
use vfl_server::cli::{CliError, StagingArgs, import_failure};
use vfl_state::StoredShare;

use crate::config::Settings;
use crate::import::import_top;
use crate::registry::{read_manifest, tops};

/// The arguments of `coordinator import-parameters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  coordinator import-parameters --config coordinator.toml --parameters top.safetensors --active-party shop
  coordinator import-parameters --config coordinator.toml --withdraw

The top model makes logits of all parties' embeddings, side by side. In PyTorch it is an nn.Sequential of nn.Linear and \
activations, written with the `safetensors` package:
  save_file(top.state_dict(), \"top.safetensors\", metadata={
      \"kind\": \"mlp\", \"settings\": json.dumps({\"activation\": \"relu\"}),
      \"feature_names\": json.dumps([f\"{party}.{i}\" for party, width in parties for i in range(1, width + 1)]),
      \"class_names\": json.dumps([\"no\", \"yes\"])})
feature_names: the active party's outputs first, then the passive parties' in the order of this configuration, each party by \
the name in its certificate. class_names: those of the active party's label, in that order. \
`layers` and `samples` are as `active-party import-parameters --help` has them.

Every party stages its own part (`active-party import-parameters`, `passive-party import-parameters`). Then `active-party \
publish` puts the model in service, with this top model, once. While one is staged, outputs are embeddings for it; without one \
they are added. Staging runs beside the service, and staging again replaces what is staged.")]
pub struct ImportArgs {
    #[command(flatten)]
    staging: StagingArgs,
}

impl ImportArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        self.staging.run(|settings: &Settings, path, active_party| {
            import_top(path, &settings.state_dir, active_party).map_err(import_failure)
        })
    }
}

/// Returns the stored top model of a version, with the names of its classes.
pub(super) fn top_of(
    settings: &Settings,
    version: &ModelVersion,
) -> Result<(StoredShare, Vec<String>), CliError> {
    let manifest = read_manifest(&settings.state_dir, version).map_err(CliError::failed)?;
    let manifest =
        manifest.ok_or_else(|| CliError::Input(format!("model {version} is not known here")))?;
    let digest = manifest.top().ok_or_else(|| {
        CliError::Input(format!(
            "model {version} has no top model: its logits are the sum of the parties' outputs, and the parameters are the parties'"
        ))
    })?;
    let share = tops(&settings.state_dir)
        .and_then(|store| store.stored(digest))
        .map_err(CliError::failed)?;
    Ok((share, manifest.class_names))
}
