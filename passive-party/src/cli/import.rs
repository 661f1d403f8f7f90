//! `import-parameters`: stages parameters that were trained elsewhere.

use clap::Args;
use vfl_core::model::Parameters;
use vfl_features::features::Features;
use vfl_server::cli::{CliError, StagingArgs, import_failure};
use vfl_state::{ImportRequest, import_parameters_if};
use vfl_transform::TransformConfig;
use vfl_transform::assess::ToldFeatures;

use crate::config::Settings;

/// The arguments of `passive-party import-parameters`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party import-parameters --config passive-party.toml --parameters passive.parameters.json --active-party shop
  passive-party import-parameters --config passive-party.toml --parameters passive.safetensors --active-party shop --max-told 0.9
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
An mlp is an nn.Sequential of nn.Linear and activations. Its layers are used in the order of the numbers in their names; \
other names take \"layers\": json.dumps([\"input\", \"head\"]). With \"samples\": \
json.dumps([{\"features\": [0.2, 1], \"outputs\": [0.7, -0.3]}]) the import compares what the model makes of them. Its \
outputs are added to the other parties', one per class; or they are an embedding, for a top model that the coordinator's \
operator imports.

The weights are of features normalised to [0, 1] by the ranges that the schema declares. With w of a feature in its own \
units, the weight here is w * (max - min), and w * min of every feature, per class, is added to the bias of the active \
party. `cloison split-parameters --raw` does both. Under `transform` in [training] nothing can be imported: the features \
that meet the weights would be other ones.

Staging is this party's consent: for the active party named, for one model. It runs beside the service, which reads what \
is staged when the coordinator asks for it; the active party then runs `active-party publish`. Staging again replaces what \
is staged. The command says of which features exact scores under these parameters tell most, and with --max-told refuses what \
singles one out: behind labels too, a model of one feature tells that feature. `passive-party assess` says more.")]
pub struct ImportArgs {
    #[command(flatten)]
    staging: StagingArgs,
    /// The most classes of the model: with k classes even a label reveals up to log2(k) bits of a
    /// record.
    #[arg(long, value_name = "K", default_value_t = 16)]
    max_classes: usize,
    /// Refuse parameters whose exact scores tell more of the variance of some feature than this
    /// share, from 0 to 1. It is measured on the records of [data], which must be in memory.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    max_told: Option<f64>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is a number from 0 to 1".into()),
    }
}

/// Measures what the exact scores of parameters tell of each feature, says so on standard error,
/// and refuses too much.
fn admit(
    (parameters, classes): (&Parameters, &[String]),
    features: &Features,
    most: Option<f64>,
) -> Result<(), String> {
    let Some(table) = features.memory() else {
        return match most {
            Some(_) => Err("--max-told measures on records in memory, and [data] names a database or a service: give a file of some \
                            records in a config of its own"
                .into()),
            None => Ok(()),
        };
    };
    let told =
        ToldFeatures::measure(parameters, classes.len(), table).map_err(|e| e.to_string())?;
    let names: Vec<String> =
        features.schema().features().iter().map(|feature| feature.name.clone()).collect();
    eprint!("{}", told.lines(&names, classes.len()));
    match (most, told.worst()) {
        (Some(most), Some((worst, share))) if share > most => Err(format!(
            "exact scores of these parameters tell {:.0} % of the variance of `{}`, and --max-told allows {:.0} %; ask for a model \
             that does not single it out, or allow more",
            100.0 * share,
            names.get(worst).map(String::as_str).unwrap_or_default(),
            100.0 * most
        )),
        _ => Ok(()),
    }
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
            let import = ImportRequest { path, state_dir, feature_names, encodings, max_classes, classes: None, active_party };
            let take = |parameters: &Parameters, classes: &[String]| {
                admit((parameters, classes), &settings.features, self.max_told)
            };
            import_parameters_if(import, take).map_err(import_failure)
        })
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;
    use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
    use vfl_core::data::table::FeatureTable;
    use vfl_core::model::LinearParameters;
    use vfl_core::types::{FeatureBlock, RecordIds};

    use super::*;

    /// 400 records of two features that have nothing to do with each other.
    fn features() -> Features {
        let specs = ["income", "late_90d"].map(|name| FeatureSpec::numeric(name, 0.0, 1.0));
        let ids = RecordIds::new((0..400).map(|i| format!("c{i}"))).unwrap();
        let x =
            DMatrix::from_fn(2, 400, |f, r| ((r * [7, 53][f] + r * r * f) % 101) as f64 / 100.0);
        let schema = FeatureSchema::new(specs.to_vec(), None).unwrap();
        FeatureTable::new(schema, ids, FeatureBlock::new(x).unwrap(), None).unwrap().into()
    }

    #[test]
    fn parameters_that_single_a_feature_out_are_refused_by_name() {
        let classes = ["no", "yes"].map(String::from);
        let of = |weights: [f64; 2]| -> Parameters {
            let w = DMatrix::from_row_slice(2, 2, &[0.0, 0.0, weights[0], weights[1]]);
            (&LinearParameters::new(w, None).unwrap()).into()
        };
        let admitted = |weights, most| admit((&of(weights), &classes), &features(), most);
        assert_eq!(admitted([0.0, 3.0], None), Ok(()));
        assert_eq!(admitted([1.0, 1.0], Some(0.8)), Ok(()));
        let refused = admitted([0.01, 3.0], Some(0.8)).unwrap_err();
        assert!(refused.contains("100 % of the variance of `late_90d`"), "{refused}");
        assert_eq!(share("0.9"), Ok(0.9));
        assert!(share("1.1").is_err() && share("NaN").is_err());
    }
}
