//! Commands on parameters that are alike for the parties: withdrawing staged parameters and
//! exporting stored ones.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use vfl_core::model::{NetworkFile, ParameterFile};
use vfl_core::types::{ModelVersion, PartyName};
use vfl_state::files::write_atomic;
use vfl_state::journal::Journal;
use vfl_state::state_dir::StateDir;
use vfl_state::{ImportError, ImportReport, ShareStore, Staging, StoredShare};

use super::{CliError, PartySettings};

/// The options of `import-parameters` for a party that consents by staging parameters for a named
/// active party.
#[derive(Debug, clap::Args)]
pub struct StagingArgs {
    /// The config file (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// The parameters, in the form that is described below.
    #[arg(
        long,
        value_name = "FILE",
        required_unless_present = "withdraw",
        conflicts_with = "withdraw"
    )]
    parameters: Option<PathBuf>,
    /// The active party that may have them published: the name in its certificate.
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "withdraw",
        conflicts_with = "withdraw"
    )]
    active_party: Option<PartyName>,
    /// Withdraw the staged parameters.
    #[arg(long)]
    withdraw: bool,
    /// Print JSON in place of the lines.
    #[arg(long)]
    json: bool,
}

impl StagingArgs {
    /// Stages the file for the active party by calling `import`, or withdraws the staged
    /// parameters. Prints what was done.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid, and the errors of `import`.
    pub fn run<S: PartySettings>(
        self,
        import: impl FnOnce(&S, &Path, &PartyName) -> Result<ImportReport, CliError>,
    ) -> Result<(), CliError> {
        let (_, settings) = S::read(&self.config).map_err(CliError::input)?;
        let said = match (&self.parameters, &self.active_party) {
            (Some(path), Some(active_party)) => {
                let imported = import(&settings, path, active_party)?;
                match self.json {
                    true => serde_json::to_string(&imported).map_err(CliError::failed)? + "\n",
                    false => format!(
                        "{}not in service yet: active party `{active_party}` may publish it, once (`active-party publish`)\n",
                        imported.lines()
                    ),
                }
            }
            _ => withdraw(&settings.state_dir(), self.json).map_err(import_failure)?,
        };
        std::io::stdout().write_all(said.as_bytes()).map_err(CliError::failed)
    }
}

/// The options of `export-parameters`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  … export-parameters --config party.toml --model m-0123456789abcdef --out parameters.safetensors

A name that ends in .safetensors is written with the names and the layout of PyTorch, in 64 bits:
  mlp                 an nn.Sequential: 0.weight, 0.bias, 2.weight, … with the activation between the layers
  residual            conv.weight, bn.weight, stage1.block1.conv1.weight, …, linear.weight
  softmax_regression  an nn.Linear: weight, bias
Its metadata say kind, settings, feature_names and class_names. A name that ends in .json is the file of a softmax regression that \
import-parameters reads. Weights are of features normalised to [0, 1] by the ranges that the schema declares.

Whoever has the file has the white box of this party's part. It is readable by its owner alone; the services do not send it.")]
pub struct ExportArgs {
    /// The config file, which names the state directory (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// The version of the model.
    #[arg(long, value_name = "VERSION")]
    model: ModelVersion,
    /// The file to write: FILE.safetensors or FILE.json.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl ExportArgs {
    /// Writes the parameters of the version that the state directory stores. `classes` returns the
    /// names of the classes, if they are known.
    ///
    /// # Errors
    /// [`CliError`] if the config is invalid, the version is not stored, or the file cannot be
    /// written.
    pub fn run<S: PartySettings>(
        &self,
        classes: impl FnOnce(&S, &ModelVersion) -> Vec<String>,
    ) -> Result<(), CliError> {
        self.run_with(|settings: &S, version| {
            let store = ShareStore::open(settings.state_dir()).map_err(CliError::failed)?;
            let share = store.load(version).map_err(CliError::failed)?;
            Ok((share, classes(settings, version)))
        })
    }

    /// Like [`ExportArgs::run`], with a share from `find` and the names of the classes.
    ///
    /// # Errors
    /// As [`ExportArgs::run`].
    pub fn run_with<S: PartySettings>(
        &self,
        find: impl FnOnce(&S, &ModelVersion) -> Result<(StoredShare, Vec<String>), CliError>,
    ) -> Result<(), CliError> {
        let (_, settings) = S::read(&self.config).map_err(CliError::input)?;
        let (share, classes) = find(&settings, &self.model)?;
        if share.feature_map.is_some() {
            return Err(CliError::Input(format!(
                "model {} was trained on features that went through a map (`transform` in [training]), without which its \
                 parameters say nothing: they are not exported",
                self.model
            )));
        }
        write_atomic(&self.out, &content(&share, &classes, &self.out)?, true)
            .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", self.out.display())))?;
        let (spec, features) = (share.model().spec(), share.model().features());
        let said = format!(
            "wrote {}: {}, {features} inputs to {} outputs, of model {}\n",
            self.out.display(),
            spec.kind(),
            spec.width(),
            self.model
        );
        std::io::stdout().write_all(said.as_bytes()).map_err(CliError::failed)
    }
}

/// Returns the content of the exported file, in the format that its name selects.
fn content(share: &StoredShare, classes: &[String], out: &Path) -> Result<Vec<u8>, CliError> {
    match out.extension().and_then(|extension| extension.to_str()) {
        Some("safetensors") => {
            let file = NetworkFile::of(share.model(), &share.feature_names, classes);
            file.to_bytes().map_err(CliError::failed)
        }
        Some("json") => {
            let linear = share
                .linear()
                .map_err(|e| CliError::Input(format!("{e}: write it to a .safetensors file")))?;
            let (features, weights) = (share.feature_names.clone(), linear.weights().clone());
            let link = share.model().spec().link().map_err(CliError::failed)?;
            let bias = linear.bias().cloned();
            let file = ParameterFile::of_link(link, classes.to_vec(), features, weights, bias);
            Ok(file.map_err(CliError::failed)?.to_json())
        }
        _ => Err(CliError::Input(format!(
            "--out {}: its name ends in .safetensors or .json",
            out.display()
        ))),
    }
}

/// Returns the class names of a version, from its training or its import; empty if neither is known
/// here.
#[must_use]
pub fn known_classes(state_dir: &StateDir, version: &ModelVersion) -> Vec<String> {
    let trainings = Journal::list(state_dir.below("trainings")).unwrap_or_default();
    if let Some(training) =
        trainings.into_iter().find(|training| training.published.as_ref() == Some(version))
    {
        return training.class_names;
    }
    let staging = Staging::of(state_dir);
    let staged = staging.staged().ok().flatten();
    let of_version = |staged: &_| staging.used_for(staged).ok().flatten().as_ref() == Some(version);
    staged.filter(of_version).map(|staged| staged.class_names).unwrap_or_default()
}

/// Withdraws the staged parameters of a state directory. Returns a report: lines for people, or
/// JSON.
fn withdraw(state_dir: &StateDir, json: bool) -> Result<String, ImportError> {
    let staging = Staging::of(state_dir);
    let withdrawn = staging.staged()?;
    let used = withdrawn.as_ref().map(|staged| staging.used_for(staged)).transpose()?.flatten();
    staging.withdraw()?;
    if json {
        let digest = withdrawn.map(|staged| staged.digest);
        return Ok(
            serde_json::json!({ "withdrawn": digest, "published_as": used }).to_string() + "\n"
        );
    }
    Ok(match (withdrawn, used) {
        (None, _) => "nothing was staged\n".to_owned(),
        (Some(staged), None) => format!("share {} is no longer staged\n", staged.digest),
        (Some(staged), Some(version)) => format!(
            "share {} is no longer staged; model {version}, which it was published as, is not touched\n",
            staged.digest
        ),
    })
}

/// Converts an import error: an invalid file is bad input, a failing disk is not.
#[must_use]
pub fn import_failure(error: ImportError) -> CliError {
    match error {
        ImportError::File { .. }
        | ImportError::Network { .. }
        | ImportError::Classes { .. }
        | ImportError::NotAdmitted { .. } => CliError::input(error),
        other => CliError::failed(other),
    }
}
