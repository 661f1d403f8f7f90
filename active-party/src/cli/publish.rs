//! `import-parameters` and `publish`: put a model that was trained elsewhere in service, without
//! any training.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use vfl_protocol::pb;
use vfl_server::cli::{CliError, import_failure};
use vfl_state::{ImportRequest, import_parameters};

use super::client::{connect, failure, read_ids};
use crate::config::{ClientSettings, Settings};

/// The arguments of `active-party import-parameters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  active-party import-parameters --config active.toml --parameters active.parameters.json

The file is JSON; `cloison split-parameters` makes each party's from one file of the whole model:
  {\"schema\": 1, \"class_names\": [\"no\", \"yes\"], \"feature_names\": [\"age\", \"job=clerk\"],
   \"weights\": [[-0.8, 0.1], [0.8, -0.1]], \"bias\": [0.3, -0.3]}
weights: one row per class, one number per feature of this party; bias: one number per class, of the whole model. Columns \
are found by the features' names and rows by the classes' names, which must be those of this party's schema (a categorical \
column has one feature per category, COLUMN=CATEGORY). A binary model has two classes: [0, w] of a logistic regression's w.

The parameters are of features normalised to [0, 1] by the ranges that the schemas declare. With w of a feature in its own \
units, the weight here is w * (max - min), and w * min is added to the bias of its class: of every party's features, since \
the bias is here. `cloison split-parameters --raw` does both.

A file whose name ends in .safetensors holds a model of any kind as PyTorch names and lays it out, with 32- or 64-bit numbers:
  save_file(model.state_dict(), \"active.safetensors\", metadata={
      \"kind\": \"mlp\", \"settings\": json.dumps({\"activation\": \"relu\"}),
      \"feature_names\": json.dumps([\"age\", \"job=clerk\"]), \"class_names\": json.dumps([\"no\", \"yes\"])})
An mlp is an nn.Sequential of nn.Linear and activations. Its layers are used in the order of the numbers in their names; \
other names take \"layers\": json.dumps([\"input\", \"head\"]). With \"samples\": \
json.dumps([{\"features\": [0.2, 1], \"outputs\": [0.7, -0.3]}]) the import compares what the model makes of them. Outputs \
are added, one per class; or they are embeddings, side by side, if the coordinator's operator has imported a top model for them \
(`coordinator import-parameters`).

Every passive party stages its own part: `passive-party import-parameters`. Then `active-party publish` puts the model in \
service. Importing runs beside the service and changes nothing that is in service; importing again replaces what is staged.")]
pub struct ImportArgs {
    /// The config file, which names the state directory and the schema (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// The parameters (JSON or safetensors).
    #[arg(long, value_name = "FILE")]
    parameters: PathBuf,
    /// Print JSON in place of the lines.
    #[arg(long)]
    json: bool,
}

/// The arguments of `active-party publish`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  active-party publish --config active.toml --training-ids train.ids

The service must be running (`active-party serve`), and every party must have staged its part (`import-parameters`). No \
training takes place, and none need be allowed. If a party fails on the way, the model in service stays in service; run the \
command again when the party is back.")]
pub struct PublishArgs {
    /// The config file of the running service (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// A file with the ids of the records that the training elsewhere used, one a line: they are
    /// not served by default, as after a training here.
    #[arg(long, value_name = "FILE")]
    training_ids: Option<PathBuf>,
    /// Print JSON in place of the lines.
    #[arg(long)]
    json: bool,
}

impl ImportArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (_, settings) = Settings::read(&self.config).map_err(CliError::input)?;
        let schema = settings.features.schema();
        let names: Vec<String> =
            schema.features().iter().map(|feature| feature.name.clone()).collect();
        let classes = schema.output_names();
        let name = settings.credentials.identity().name();
        let imported = import_parameters(ImportRequest {
            path: &self.parameters,
            state_dir: &settings.state_dir,
            feature_names: &names,
            encodings: Some(&schema.encodings()),
            max_classes: None,
            classes: Some(&classes),
            active_party: name,
        });
        let imported = imported.map_err(import_failure)?;
        let said = if self.json {
            serde_json::to_string(&imported).map_err(CliError::failed)? + "\n"
        } else {
            format!(
                "{}not in service yet: run `active-party publish` when every passive party has staged its part\n",
                imported.lines()
            )
        };
        std::io::stdout().write_all(said.as_bytes()).map_err(CliError::failed)
    }
}

impl PublishArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let settings = ClientSettings::read(&self.config).map_err(CliError::input)?;
        let ids = self.training_ids.as_deref().map(read_ids).transpose()?;
        let request = pb::PublishJobRequest { training_ids: ids.as_ref().map(Into::into) };
        let mut client = connect(&settings)?;
        let answer =
            client.publish(request).await.map_err(|s| failure(&settings.service, &s))?.into_inner();
        let published = answer
            .published
            .ok_or_else(|| CliError::failed("our own service answered without a model"))?;
        let (version, records) = (&published.model_version, published.training_records);
        let said = if self.json {
            let unknown = answer.unknown_training_ids;
            serde_json::json!({
                "model_version": version,
                "imported": published.imported,
                "training_ids": records,
                "unknown_training_ids": unknown,
            })
            .to_string()
        } else {
            format!(
                "model {version} is in service: imported, not trained here; {records} training ids given"
            )
        };
        writeln!(std::io::stdout(), "{said}").map_err(CliError::failed)?;
        let warning = match (records, answer.unknown_training_ids) {
            (0, _) => "no --training-ids were given: every record is served, also those that the model was trained on"
                .to_owned(),
            (_, 0) => return Ok(()),
            (all, unknown) => {
                format!("{unknown} of the {all} training ids are not held by this party: is it the right file?")
            }
        };
        let _ = writeln!(std::io::stderr(), "{warning}");
        Ok(())
    }
}
