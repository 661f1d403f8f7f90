//! The command `cloison split-parameters`: splits one file of a whole model into one file per
//! party.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{ArgGroup, Args};
use nalgebra::DVector;
use vfl_core::data::CsvDialect;
use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::model::network_file::EXTENSION;
use vfl_core::model::{
    NetworkDivision, NetworkFile, NetworkFileError, ParameterFile, ParameterFileError,
};
use vfl_core::types::PartyName;
use vfl_datasets::Dataset;
use vfl_demo::{ImportedModel, ImportedParameters, ScoredModel};
use vfl_present::progress::say;
use vfl_server::cli::{CliError, key_value};
use vfl_state::files::write_atomic;

/// The name of the active party's file.
const ACTIVE: &str = "active";
/// The name of the coordinator's file of a network.
const TOP: &str = "top";

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
With \"link\": \"one_vs_rest\" the scores are sigmoids \
of W x + b divided by their sum; identity, log and logit are of numbers. A few records with their scores are compared when the file is read, and show such a mistake, in the units of the weights:
  \"samples\": [{\"features\": [41, 0], \"scores\": [0.7, 0.3]}]

With --normalised, x are features normalised to [0, 1] by the ranges that the schemas declare. With --raw they are in their own \
units: weights are then multiplied by max - min, and weight times min is added to the bias, which is the active party's. \
Where a schema clamps, values outside its range are moved to it before the model sees them.

A perceptron of all features is a .safetensors file, as `active-party import-parameters --help` has it, whose first layer takes the \
features of all parties. Each party gets its columns of that layer, as an embedding, and the coordinator the other layers \
(top.parameters.safetensors, for `coordinator import-parameters`):
  cloison split-parameters --parameters model.safetensors --active active.schema.toml --active-party fintech \\
      --passive bank-a=bank-a.schema.toml --raw --out parameters

Writes active.parameters.json and NAME.parameters.json, or .safetensors, readable by their owner alone. Give each party its own file and \
remove the whole one: whoever has a party's weights has its white box. Then each party imports its file \
(`passive-party import-parameters`, `active-party import-parameters`), and `active-party publish` puts the model in service.")]
pub struct SplitParametersArgs {
    /// The parameters of the whole model (JSON; a network as .safetensors).
    #[arg(long, value_name = "FILE")]
    parameters: PathBuf,
    /// The active party's schema file, which names the classes.
    #[arg(long, value_name = "SCHEMA")]
    active: PathBuf,
    /// The name of the active party in its certificate, for a network.
    #[arg(long, value_name = "NAME")]
    active_party: Option<PartyName>,
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

/// Returns the features of all parts, in their order.
fn features_of(parts: &[Part]) -> Vec<FeatureSpec> {
    parts.iter().flat_map(|part| part.schema.features()).cloned().collect()
}

/// Splits the whole model into one part per party, the active party's first.
fn split(
    whole: &ParameterFile,
    parts: &[Part],
    raw: bool,
) -> Result<Vec<ParameterFile>, ParameterFileError> {
    let features = features_of(parts);
    let names: Vec<String> = features.iter().map(|feature| feature.name.clone()).collect();
    let mut whole = whole.with_features(&names)?;
    if raw {
        whole = whole.normalised(&features)?;
    } else {
        whole.check_normalised()?;
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
    let read = || -> Result<ImportedParameters, NetworkFileError> {
        match read_whole(file)? {
            ImportedParameters::Linear(whole) => {
                let whole = whole.with_classes(dataset.class_names())?.with_features(&names)?;
                Ok(ImportedParameters::Linear(whole.normalised(features)?))
            }
            ImportedParameters::Network(_) if dataset.is_of_numbers() => {
                Err(NetworkFileError::Model(NUMBERS.to_owned()))
            }
            ImportedParameters::Network(whole) => {
                let whole = whole.with_classes(dataset.class_names())?.with_features(&names)?;
                Ok(ImportedParameters::Network(whole.normalised(features)?))
            }
        }
    };
    match read() {
        Ok(parameters) => Ok(ImportedModel { file: file.to_owned(), parameters }),
        Err(e) => Err(CliError::Input(format!("--parameters {}: {e}", file.display()))),
    }
}

/// Reads the scores of a model that is not here, of all records of a data set.
///
/// # Errors
/// [`CliError::Input`] with the line and the column of the file.
pub(super) fn scored_model(
    file: &Path,
    dialect: CsvDialect,
    dataset: &Dataset,
) -> Result<ScoredModel, CliError> {
    let failed = |e| CliError::Input(format!("--scores {}: {e:#}", file.display()));
    ScoredModel::read(file, dialect, dataset).map_err(failed)
}

/// The refusal of a network whose output is a number.
const NUMBERS: &str =
    "a network of all parties' features has scores of classes; models of a number are linear ones";

/// Reads the file of a whole model: JSON of a linear one, or safetensors.
fn read_whole(file: &Path) -> Result<ImportedParameters, NetworkFileError> {
    if file.extension().is_none_or(|extension| extension != EXTENSION) {
        return Ok(ImportedParameters::Linear(ParameterFile::read(file)?));
    }
    let file = NetworkFile::read(file)?;
    Ok(match file.linear()? {
        Some(linear) => ImportedParameters::Linear(linear),
        None => ImportedParameters::Network(file),
    })
}

impl SplitParametersArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let refused = |e: NetworkFileError| {
            CliError::Input(format!("parameter file {}: {e}", self.parameters.display()))
        };
        let mut parts = vec![Part { name: ACTIVE.into(), schema: read_schema(&self.active)? }];
        for PassiveSchema { name, schema } in &self.passive {
            if name.as_str() == TOP || parts.iter().any(|part| part.name == name.as_str()) {
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
        match read_whole(&self.parameters).map_err(refused)? {
            ImportedParameters::Linear(whole) => {
                let whole = whole.with_classes(&outputs).map_err(|e| refused(e.into()))?;
                let files = split(&whole, &parts, self.raw).map_err(|e| refused(e.into()))?;
                for (part, file) in parts.iter().zip(&files) {
                    let bias = if file.bias().is_some() { " and the bias" } else { "" };
                    let (k, d) = file.weights().shape();
                    let outputs =
                        if k == 1 { "a number".to_owned() } else { format!("{k} classes") };
                    let name = format!("{}.parameters.json", part.name);
                    self.write(&name, &file.to_json(), &format!("{outputs} x {d} features{bias}"))?;
                }
                Ok(())
            }
            ImportedParameters::Network(whole) => {
                let whole = whole.with_classes(&outputs).map_err(refused)?;
                self.divide(&whole, &parts)
            }
        }
    }

    /// Divides a network, and writes the parties' files and the coordinator's.
    fn divide(&self, whole: &NetworkFile, parts: &[Part]) -> Result<(), CliError> {
        let Some(active) = &self.active_party else {
            return Err(CliError::Input(
                "--active-party: name the active party, as in its certificate: the inputs of the coordinator's part are called by it"
                    .into(),
            ));
        };
        if let Some(party) = self.passive.iter().find(|party| party.name == *active) {
            return Err(CliError::Input(format!(
                "--active-party {active}: --passive {} has the same name",
                party.name
            )));
        }
        let divided = || -> Result<NetworkDivision, NetworkFileError> {
            if whole.class_names().len() < 2 {
                return Err(NetworkFileError::Model(NUMBERS.to_owned()));
            }
            let features = features_of(parts);
            let names: Vec<String> = features.iter().map(|feature| feature.name.clone()).collect();
            let mut whole = whole.with_features(&names)?;
            if self.raw {
                whole = whole.normalised(&features)?;
            } else {
                whole.check_normalised()?;
            }
            let passive = self.passive.iter().map(|party| &party.name);
            let parties = std::iter::once(active).chain(passive).zip(parts);
            let parties = parties.map(|(name, part)| {
                let names = part.schema.features().iter().map(|feature| feature.name.clone());
                (name.clone(), names.collect::<Vec<String>>())
            });
            whole.divide(&parties.collect::<Vec<_>>())
        };
        let refused = |e: NetworkFileError| {
            CliError::Input(format!("parameter file {}: {e}", self.parameters.display()))
        };
        let division = divided().map_err(refused)?;
        let files = parts.iter().map(|part| part.name.as_str()).zip(&division.parts);
        for (name, file) in files.chain([(TOP, &division.top)]) {
            let content = file.to_bytes().map_err(refused)?;
            let parameters = file.parameters();
            let (inputs, outputs) = (parameters.features, parameters.spec.width());
            let shape = format!("{inputs} inputs, {outputs} outputs");
            self.write(&format!("{name}.parameters.{EXTENSION}"), &content, &shape)?;
        }
        Ok(())
    }

    /// Writes a file that its owner alone can read.
    fn write(&self, name: &str, content: &[u8], shape: &str) -> Result<(), CliError> {
        let path = self.out.join(name);
        write_atomic(&path, content, true)
            .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))?;
        say(&format!("wrote {}: {shape}", path.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use vfl_core::data::table::FeatureStore as _;
    use vfl_core::model::contract::{SubModelOrigin, start_of};
    use vfl_core::model::{SubModelSpec, kinds};
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

    /// The files that a network is divided into are those of its parties and of the coordinator.
    #[test]
    fn a_network_is_written_in_parts() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let label = "[label]\ncolumn = \"y\"\nclasses = [\"no\", \"yes\"]\n";
        for (name, features, label) in [("a", ["x", "w"], label), ("b", ["u", "v"], "")] {
            let features = features.map(|name| {
                format!("[[features]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = 10\nmax = 20\n")
            });
            let text = format!("id = \"id\"\n{label}{}", features.concat());
            std::fs::write(at(&format!("{name}.schema.toml")), text).unwrap();
        }
        let settings = serde_json::json!({ "hidden": [3], "activation": "relu" });
        let spec = SubModelSpec::new("mlp", 2, settings.as_object().unwrap().clone()).unwrap();
        let origin = SubModelOrigin { spec, features: 4, active: true, start: start_of(5) };
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let model = kinds::start(&origin).unwrap();
        let whole = NetworkFile::of(&*model, &names(&["v", "w", "x", "u"]), &names(&["no", "yes"]));
        std::fs::write(at("model.safetensors"), whole.to_bytes().unwrap()).unwrap();
        let args = |active_party: Option<&str>, name: &str| SplitParametersArgs {
            parameters: at("model.safetensors"),
            active: at("a.schema.toml"),
            active_party: active_party.map(|name| PartyName::new(name).unwrap()),
            passive: vec![PassiveSchema {
                name: PartyName::new(name).unwrap(),
                schema: at("b.schema.toml"),
            }],
            raw: true,
            normalised: false,
            out: at("out"),
        };
        let refused = args(None, "bank").run().unwrap_err().to_string();
        assert!(refused.contains("--active-party"), "{refused}");
        let refused = args(Some("shop"), "top").run().unwrap_err().to_string();
        assert!(refused.contains("--passive top"), "{refused}");
        args(Some("shop"), "bank").run().unwrap();
        let read = |name: &str| {
            NetworkFile::read(&at(&format!("out/{name}.parameters.safetensors"))).unwrap()
        };
        let (active, passive, top) = (read(ACTIVE), read("bank"), read(TOP));
        assert_eq!(top.feature_names()[2..4], ["shop.3", "bank.1"]);
        // A record in the units of the file, and normalised.
        let own = [12.0, 15.0, 11.0, 19.0];
        let normalised = own.map(|value| (value - 10.0) / 10.0);
        let column = |values: &[f64]| nalgebra::DMatrix::from_column_slice(values.len(), 1, values);
        let outputs = |file: &NetworkFile, values: &[f64]| {
            kinds::restore(file.parameters())
                .unwrap()
                .outputs(&column(values))
                .unwrap()
                .into_matrix()
        };
        let [v, w, x, u] = normalised;
        let mut embeddings = outputs(&active, &[x, w]).as_slice().to_vec();
        embeddings.extend_from_slice(outputs(&passive, &[u, v]).as_slice());
        let off = (outputs(&top, &embeddings) - outputs(&whole, &own)).amax();
        assert!(off < 1e-12, "{off}");
    }
}
