//! `import-parameters`: stages parameters that were trained elsewhere.

use clap::Args;
use vfl_shared::cli::{CliError, StagingArgs, import_failure};
use vfl_shared::model::{Importing, import_parameters};

use crate::config::Settings;
use crate::transform::TransformConfig;

/// The arguments of `passive-party import-parameters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party import-parameters --config passive-party.toml --parameters passive.parameters.json --active-party shop
  passive-party import-parameters --config passive-party.toml --withdraw

The file is JSON; `cloison split-parameters` makes each party's from one file of the whole model:
  {\"schema\": 1, \"class_names\": [\"no\", \"yes\"], \"feature_names\": [\"age\", \"job=clerk\"],
   \"weights\": [[-0.8, 0.1], [0.8, -0.1]]}
weights: one row per class, one number per feature. Columns are found by the features' names, which must be those of this \
party's schema (a categorical column has one feature per category, COLUMN=CATEGORY). Classes must be named in the same \
order by all parties. No bias: it is the active party's.

A file whose name ends in .safetensors holds a model of any kind as PyTorch names and lays it out, with 32- or 64-bit numbers:
  save_file(model.state_dict(), \"passive.safetensors\", metadata={
      \"kind\": \"mlp\", \"settings\": json.dumps({\"activation\": \"relu\"}),
      \"feature_names\": json.dumps([\"age\", \"job=clerk\"]), \"class_names\": json.dumps([\"no\", \"yes\"])})
An mlp is an nn.Sequential of nn.Linear and activations. Its outputs are added to the other parties', one per class; or they are \
an embedding, for a top model that the coordinator's operator imports.

The weights are of features normalised to [0, 1] by the ranges that the schema declares. With w of a feature in its own \
units, the weight here is w * (max - min), and w * min of every feature, per class, is added to the bias of the active \
party. `cloison split-parameters --raw` does both. Under `transform` in [training] nothing can be imported: the features \
that meet the weights would be other ones.

Staging is this party's consent: for the active party named, for one model. It runs beside the service, which reads what \
is staged when the coordinator asks for it; the active party then runs `active-party publish`. Staging again replaces what \
is staged. What scores under these parameters give away, `passive-party assess` predicts: ask before staging.")]
pub struct ImportArgs {
    #[command(flatten)]
    staging: StagingArgs,
    /// The most classes of the model: with k classes even a label reveals up to log2(k) bits of a
    /// record.
    #[arg(long, value_name = "K", default_value_t = 16)]
    max_classes: usize,
}

impl ImportArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        self.staging.run(|settings: &Settings, path, active_party| {
            let transform = &settings.training.transform;
            if *transform != (TransformConfig::None {}) {
                return Err(CliError::Input(format!(
                    "`transform` in [training] is {transform}, and imported parameters are of the features as they are: set it to \
                     none, with a state_dir of its own"
                )));
            }
            let schema = settings.features.schema();
            let names: Vec<String> = schema.features().iter().map(|feature| feature.name.clone()).collect();
            let (state_dir, feature_names, encodings) = (&settings.state_dir, &*names, schema.encodings());
            let encodings = Some(&*encodings);
            let max_classes = Some(self.max_classes);
            let import = Importing { path, state_dir, feature_names, encodings, max_classes, classes: None, active_party };
            import_parameters(import).map_err(import_failure)
        })
    }
}
