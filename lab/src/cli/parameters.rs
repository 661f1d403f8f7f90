//! The command `cloison split-parameters`: splits one file of a whole model into one file per
//! party.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{ArgGroup, Args};
use nalgebra::DVector;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::model::{ParameterFile, ParameterFileError};
use vfl_core::types::PartyName;
use vfl_datasets::Dataset;
use vfl_demo::ImportedModel;
use vfl_present::progress::say;
use vfl_server::cli::{CliError, key_value};
use vfl_state::files::write_atomic;

/// The name of the active party's file.
const ACTIVE: &str = "active";

/// The arguments of `cloison split-parameters`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("units").required(true).args(["raw", "normalised"])))]
#[command(after_help = "\
Example:
  cloison split-parameters --parameters model.json --active active.schema.toml \\
      --passive bank-a=bank-a.schema.toml --passive bank-b=bank-b.schema.toml --raw --out parameters

The file of the whole model is JSON, with the features of all parties by the names in their schemas (a categorical column \
has one feature per category, COLUMN=CATEGORY), in any order:
  {\"schema\": 1, \"class_names\": [\"no\", \"yes\"], \"feature_names\": [\"age\", \"job=clerk\"],
   \"weights\": [[-0.8, 0.1], [0.8, -0.1]], \"bias\": [0.3, -0.3]}
weights: one row per class; scores are softmax(W x + b). A binary model has two classes and two rows, [0, w], if its score is \
1 / (1 + exp(-w x - b)), as that of scikit-learn's LogisticRegression (`coef_`, `intercept_`): [-w, w] would double the logit. \
A few records with their scores are compared when the file is read, and show such a mistake, in the units of the weights:
  \"samples\": [{\"features\": [41, 0], \"scores\": [0.7, 0.3]}]

With --normalised, x are features normalised to [0, 1] by the ranges that the schemas declare. With --raw they are in their own \
units: weights are then multiplied by max - min, and weight times min is added to the bias, which is the active party's. \
Where a schema clamps, values outside its range are moved to it before the model sees them.

Writes active.parameters.json and NAME.parameters.json, readable by their owner alone. Give each party its own file and \
remove the whole one: whoever has a party's weights has its white box. Then each party imports its file \
(`passive-party import-parameters`, `active-party import-parameters`), and `active-party publish` puts the model in service.")]
pub struct SplitParametersArgs {
    /// The parameters of the whole model (JSON).
    #[arg(long, value_name = "FILE")]
    parameters: PathBuf,
    /// The active party's schema file, which names the classes.
    #[arg(long, value_name = "SCHEMA")]
    active: PathBuf,
    /// A passive party and its schema file; once per party.
    #[arg(long = "passive", value_name = "NAME=SCHEMA", required = true)]
    passive: Vec<PassiveSchema>,
    /// The parameters are of features in their own units, not of normalised ones.
    #[arg(long)]
    raw: bool,
    /// The parameters are of features normalised to [0, 1] by the ranges of the schemas.
    #[arg(long)]
    normalised: bool,
    /// Directory for the files.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// A passive party and its schema file, written `NAME=SCHEMA`.
#[derive(Debug, Clone)]
struct PassiveSchema {
    name: PartyName,
    schema: PathBuf,
}

impl FromStr for PassiveSchema {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, schema) = key_value(text)
            .map_err(|_| "write NAME=SCHEMA, the party's name and its schema file")?;
        let name = PartyName::new(name).map_err(|e| e.to_string())?;
        Ok(Self { name, schema: schema.into() })
    }
}

/// The features of one party, and the name of its file.
struct Part {
    name: String,
    schema: FeatureSchema,
}

fn read_schema(path: &Path) -> Result<FeatureSchema, CliError> {
    let text = std::fs::read_to_string(path).map_err(|e| {
        CliError::Input(format!("cannot read the schema file {}: {e}", path.display()))
    })?;
    FeatureSchema::from_toml(&text)
        .map_err(|e| CliError::Input(format!("schema file {}: {e}", path.display())))
}

/// Splits the whole model into one part per party, the active party's first.
fn split(
    whole: &ParameterFile,
    parts: &[Part],
    raw: bool,
) -> Result<Vec<ParameterFile>, ParameterFileError> {
    let features: Vec<_> = parts.iter().flat_map(|part| part.schema.features()).collect();
    let names: Vec<String> = features.iter().map(|feature| feature.name.clone()).collect();
    let mut whole = whole.with_features(&names)?;
    if raw {
        let ranges: Vec<(f64, f64)> =
            features.iter().map(|feature| (feature.min, feature.max)).collect();
        whole.check_samples(&ranges, "it lies outside the ranges that the schemas declare")?;
        whole = whole.rescaled(&ranges)?;
    } else {
        let units = vec![(0.0, 1.0); features.len()];
        whole.check_samples(
            &units,
            "it is not of normalised features: is the model one of raw ones (`--raw`)?",
        )?;
    }
    let bias: DVector<f64> = whole.bias().cloned().ok_or(ParameterFileError::NoBias)?;
    let mut bias = Some(bias);
    let of = |part: &Part| {
        let names: Vec<String> =
            part.schema.features().iter().map(|feature| feature.name.clone()).collect();
        // The first part is the active party's and gets the bias.
        Ok(whole.part(&names)?.with_bias(bias.take()))
    };
    parts.iter().map(of).collect()
}

/// Reads the parameters of a whole model for the features of a data set.
///
/// # Errors
/// [`CliError::Input`] unless they are of these classes and features, and give their samples'
/// scores.
pub(super) fn whole_model(file: &Path, dataset: &Dataset) -> Result<ImportedModel, CliError> {
    let features = dataset.features();
    let names: Vec<String> = features.iter().map(|feature| feature.name.clone()).collect();
    let ranges: Vec<(f64, f64)> =
        features.iter().map(|feature| (feature.min, feature.max)).collect();
    let read = || -> Result<ParameterFile, ParameterFileError> {
        let whole = ParameterFile::read(file)?.with_classes(dataset.class_names())?;
        let whole = whole.with_features(&names)?;
        whole.check_samples(&ranges, "it lies outside the ranges of the schema")?;
        whole.rescaled(&ranges)
    };
    match read() {
        Ok(parameters) => Ok(ImportedModel { file: file.to_owned(), parameters }),
        Err(e) => Err(CliError::Input(format!("--parameters {}: {e}", file.display()))),
    }
}

impl SplitParametersArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let refused = |e: ParameterFileError| {
            CliError::Input(format!("parameter file {}: {e}", self.parameters.display()))
        };
        let mut parts = vec![Part { name: ACTIVE.into(), schema: read_schema(&self.active)? }];
        for PassiveSchema { name, schema } in &self.passive {
            if parts.iter().any(|part| part.name == name.as_str()) {
                return Err(CliError::Input(format!(
                    "--passive {name}: the name is taken by another party's file"
                )));
            }
            parts.push(Part { name: name.as_str().to_owned(), schema: read_schema(schema)? });
        }
        let mut holders: HashMap<&str, &str> = HashMap::new();
        for (part, feature) in
            parts.iter().flat_map(|part| part.schema.features().iter().map(move |f| (part, f)))
        {
            if let Some(other) = holders.insert(&feature.name, &part.name) {
                return Err(CliError::Input(format!(
                    "feature `{}` is in the schemas of {other} and {}: a weight is of one party's feature; rename one",
                    feature.name, part.name
                )));
            }
        }
        let outputs = parts[0].schema.output_names();
        if outputs.is_empty() {
            let message = format!(
                "schema file {}: it declares no label; it must be the active party's",
                self.active.display()
            );
            return Err(CliError::Input(message));
        }
        let whole = ParameterFile::read(&self.parameters).map_err(refused)?;
        let whole = whole.with_classes(&outputs).map_err(refused)?;
        let files = split(&whole, &parts, self.raw).map_err(refused)?;
        for (part, file) in parts.iter().zip(&files) {
            let path = self.out.join(format!("{}.parameters.json", part.name));
            write_atomic(&path, &file.to_json(), true)
                .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))?;
            let bias = if file.bias().is_some() { " and the bias" } else { "" };
            let (k, d) = file.weights().shape();
            let outputs = if k == 1 { "a number".to_owned() } else { format!("{k} classes") };
            say(&format!("wrote {}: {outputs} x {d} features{bias}", path.display()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vfl_core::data::table::FeatureStore as _;
    use vfl_core::types::LogitShare;
    use vfl_datasets::{DatasetName, DatasetSpec, PassiveColumns, VerticalSplit, load, partition};

    use super::*;

    fn part(name: &str, schema: &FeatureSchema) -> Part {
        Part { name: name.into(), schema: schema.clone() }
    }

    /// The parts add up to the whole model, for every record.
    #[test]
    fn the_parts_add_up_to_the_whole() {
        let dataset = load(&DatasetSpec::new(DatasetName::Synthetic, None, 3)).unwrap();
        let total = dataset.features().len();
        let columns = |from, to| (from..to).collect();
        let passive =
            |name: &str, columns| PassiveColumns { name: PartyName::new(name).unwrap(), columns };
        let split_columns = VerticalSplit::new(
            total,
            vec![passive("b", columns(1, 3)), passive("a", columns(4, 6))],
        )
        .unwrap();
        let tables = partition::divide(&dataset, &split_columns, 1).unwrap();
        let k = dataset.class_names().len();
        let weights =
            nalgebra::DMatrix::from_fn(k, total, |i, j| (i as f64 - 1.3) * (j as f64 + 0.7) / 3.0);
        let bias = DVector::from_fn(k, |i, _| 0.1 * i as f64);
        // The columns are in an order that no schema has.
        let order: Vec<usize> = (0..total).rev().collect();
        let names = order.iter().map(|&c| dataset.features()[c].name.clone()).collect();
        let turned = weights.select_columns(&order);
        let whole =
            ParameterFile::new(dataset.class_names().to_vec(), names, turned, Some(bias.clone()))
                .unwrap();
        let mut all = vec![(ACTIVE.to_owned(), tables.active.clone())];
        all.extend(tables.passive.iter().map(|(name, table)| (name.to_string(), table.clone())));
        let parts: Vec<Part> = all.iter().map(|(name, table)| part(name, table.schema())).collect();
        let files = split(&whole, &parts, false).unwrap();
        assert!(files[0].bias().is_some() && files[1..].iter().all(|file| file.bias().is_none()));
        let ids = dataset.ids().slice(0, 50);
        let mut sum = nalgebra::DMatrix::zeros(k, 50);
        for (file, (_, table)) in files.iter().zip(&all) {
            let share: LogitShare =
                file.parameters().unwrap().logit_share(&table.fetch(&ids).unwrap()).unwrap();
            sum += share.matrix();
        }
        let mut expected = &weights * dataset.x().columns(0, 50);
        expected.column_iter_mut().for_each(|mut column| column += &bias);
        assert!((sum - expected).amax() < 1e-12);
        let one_party_less = split(&whole, &parts[..2], false).unwrap_err().to_string();
        assert!(one_party_less.contains("unknown here"), "{one_party_less}");
        assert!(matches!(
            split(&whole.with_bias(None), &parts, false),
            Err(ParameterFileError::NoBias)
        ));
    }

    /// A few records with their scores reveal wrong units and swapped coefficients.
    #[test]
    fn samples_are_compared() {
        let sample = r#"{"schema":1,"class_names":["no","yes"],"feature_names":["a","b"],"weights":[[0,0],[WEIGHTS]],"bias":[0,-1.5],
            "samples":[{"features":[40,1],"scores":[0.6224593312018546,0.3775406687981454]}]}"#;
        let schema = |name: &str, max: f64, label: &str| {
            let text = format!(
                "id = \"id\"\n{label}[[features]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = 0\nmax = {max}\n"
            );
            Part { name: name.into(), schema: FeatureSchema::from_toml(&text).unwrap() }
        };
        let parts = [
            schema("a", 100.0, "[label]\ncolumn = \"y\"\nclasses = [\"no\", \"yes\"]\n"),
            schema("b", 1.0, ""),
        ];
        let good = ParameterFile::parse(sample.replace("WEIGHTS", "0.025,0").as_bytes()).unwrap();
        assert!(split(&good, &parts, true).is_ok());
        let normalised = split(&good, &parts, false).unwrap_err().to_string();
        assert!(
            normalised.contains("`samples`, number 1") && normalised.contains("--raw"),
            "{normalised}"
        );
        let narrow = [
            schema("a", 30.0, "[label]\ncolumn = \"y\"\nclasses = [\"no\", \"yes\"]\n"),
            schema("b", 1.0, ""),
        ];
        assert!(
            split(&good, &narrow, true).unwrap_err().to_string().contains("outside the ranges")
        );
        let doubled = ParameterFile::parse(sample.replace("WEIGHTS", "0.05,0").as_bytes())
            .unwrap_err()
            .to_string();
        assert!(doubled.contains("not softmax(W x + b)"), "{doubled}");
    }
}
