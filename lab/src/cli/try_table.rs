//! The command `cloison try`.

use std::collections::{BTreeMap, HashSet};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::Args;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::FeatureStore;
use vfl_core::model::Combiner;
use vfl_defense::{DefenseConfig, Policy};
use vfl_demo::{DEFAULT_EPOCHS, DEFAULT_KNOWN_RECORDS, DEFAULT_RECORDS, DeploymentFolder};
use vfl_present::ColumnKind::{Name, Right, Text};
use vfl_present::progress::say;
use vfl_present::{Frame, Table};
use vfl_server::cli::CliError;
use vfl_studies::{PartyData, TableSpec};

use super::data::DataArgs;
use super::deliver::OutputArgs;
use super::demo::DemoArgs;
use super::model::ModelArgs;
use super::recommend::recommend_for;
use super::tables::{ColumnArgs, TableArgs};
use super::thresholds::ThresholdArgs;

/// The arguments of `cloison try`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison try credit.csv --label default --passive income,employer,debt_ratio
  cloison try credit.parquet --id customer --label default --passive income,debt_ratio --leave-out phone
  cloison try active.csv passive-1.csv --label default                one table of each party, joined by id
  cloison try credit.csv --label default --passive income --max-added-risk 0.1 --hidden 16
  cloison try credit.csv --label default --passive income --scores scores.csv     scores of any model: id, no, yes

Guesses and shows the schema (kinds, ranges, steps, dates, missing values), starts all parties over loopback sockets, trains on \
secret shares (networks in plain, which is faster), attacks the test records behind each policy, and writes the report. Then it searches for the defense that adds at most \
--max-added-risk (0.1 unless given) at the loss of accuracy that you allow, and writes a folder for each party of a deployment: configuration, certificates and its own data. \
To correct the schema, put NAME.schema.toml of that folder beside the table and run again. \
`cloison demo --table` has more options; the studies (transcript, membership, labels, properties, screen) take --table too.")]
pub struct TryArgs {
    /// A table, CSV or Parquet, of which --passive names the data provider's columns. Several: the
    /// active party's with the label first, then one of each passive party.
    #[arg(value_name = "TABLE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    columns: ColumnArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Serve a model that was trained elsewhere, in place of training one: the file of `cloison
    /// split-parameters`, a linear model or a perceptron of features in their own units.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hidden", "residual", "embedding", "epochs", "link"])]
    parameters: Option<PathBuf>,
    /// Audit the scores of a model that is not here, in place of training one: a CSV file with the
    /// record ids in its first column and a column of probabilities for each class, or of the
    /// number. No deployment is written.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parameters", "hidden", "residual", "embedding", "epochs", "link", "deployment", "hosts"])]
    scores: Option<PathBuf>,
    /// Test records to attack, at least 100.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_RECORDS)]
    records: usize,
    /// Test records that a further adversary knows with all their features.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_KNOWN_RECORDS)]
    known_records: usize,
    /// Epochs of training at most.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_EPOCHS)]
    epochs: u32,
    /// A policy to audit, as `rounding (decimals = 2)`; may be repeated. Default: none, rounding to
    /// 2 decimals, class_label.
    #[arg(long = "policy", value_name = "POLICY")]
    policies: Vec<String>,
    #[command(flatten)]
    thresholds: ThresholdArgs,
    /// The largest loss of accuracy that the recommended defense may cause, from 0 to 1: 0.02
    /// stands for two points.
    #[arg(long, value_name = "L", default_value_t = 0.02)]
    max_accuracy_loss: f64,
    /// Leave out the search for a defense. The deployment then has the first --policy, or releases
    /// labels alone.
    #[arg(long)]
    no_recommend: bool,
    /// Folder of the deployment, which must not exist. Default: OUT/deployment.
    #[arg(long, value_name = "DIR")]
    deployment: Option<PathBuf>,
    /// The host name or address of a party of the deployment, as passive-1=10.0.0.7; may be
    /// repeated. Default: each party's name.
    #[arg(long = "host", value_name = "PARTY=HOST", value_parser = host)]
    hosts: Vec<(String, String)>,
    /// Seed of everything random.
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

fn host(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((party, host)) if !party.is_empty() && is_host(host) => {
            Ok((party.to_owned(), host.to_owned()))
        }
        _ => Err("write PARTY=HOST, without a port, as passive-1=10.0.0.7".into()),
    }
}

fn is_host(host: &str) -> bool {
    !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c))
}

impl TryArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let input = |e: anyhow::Error| CliError::Input(format!("{e:#}"));
        let numbers = self.parameters.is_none() && self.scores.is_none();
        let tables = TableSpec { numbers, ..self.columns.spec(&self.files, self.seed) };
        let parties = tables.parties().map_err(input)?;
        let folder = self.deployment.clone();
        let folder = folder.unwrap_or_else(|| self.output.folder().join("deployment"));
        let hosts: BTreeMap<String, String> = self.hosts.iter().cloned().collect();
        if self.scores.is_none() {
            DeploymentFolder::check(&folder, &parties, &hosts).map_err(input)?;
        }
        self.check(&parties)?;
        show(&parties);
        let demo = self.demo();
        if demo.model()?.combiner() != Combiner::Sum {
            return Err(CliError::Input(
                "--embedding: such a model is not trained on secret shares; take `cloison demo --table`"
                    .into(),
            ));
        }
        let plan = demo.plan()?;
        let dataset = tables.join(&parties).map_err(input)?;
        // The search has a deployment of its own: passive parties refuse to score sets of records
        // that overlap those of the audit.
        let delivered = demo.run().await;
        // A threshold that is not met is told at the end.
        if let Err(CliError::Input(_) | CliError::Failed(_)) = &delivered {
            return delivered;
        }
        let policy = match self.no_recommend {
            _ if dataset.is_of_numbers() => self.number_policy(&plan.policies),
            true => self.first_policy(&plan.policies),
            false => self.recommended(&plan.policies).await?,
        };
        if self.scores.is_some() {
            say("no deployment is written: the model that gave the scores is not here");
            return delivered;
        }
        let training = plan.training.values();
        DeploymentFolder {
            tables: &tables,
            parties: &parties,
            dataset: &dataset,
            training,
            parameters: plan.imported.as_ref().map(|model| &model.parameters),
            policy: &policy,
            hosts,
        }
        .write(&folder)
        .map_err(|e| CliError::Failed(format!("{e:#}")))?;
        say(&format!(
            "deployment with the policy {policy}: {}",
            folder.join("README.md").display()
        ));
        delivered
    }

    /// Checks what a deployment could not serve, before anything is started.
    fn check(&self, parties: &[PartyData]) -> Result<(), CliError> {
        if !(0.0..=1.0).contains(&self.max_accuracy_loss) {
            let message = "--max-accuracy-loss: give a number from 0 to 1, as 0.02 for two points";
            return Err(CliError::Input(message.into()));
        }
        let served = usize::from(self.scores.is_none());
        for text in self.policies.iter().take(served).filter(|text| *text != "all") {
            let policy: Policy = text.parse().map_err(CliError::input)?;
            if !policy.defenses.iter().all(is_served) {
                return Err(CliError::Input(format!(
                    "--policy '{policy}': a deployment that trains on secret shares cannot serve it; take `cloison demo --table` to audit it"
                )));
            }
        }
        let mut names = HashSet::new();
        let features = parties.iter().flat_map(|party| party.table.schema().features());
        let twice = features.map(|feature| feature.name.as_str()).find(|name| !names.insert(*name));
        match twice.filter(|_| self.parameters.is_some()) {
            Some(name) => Err(CliError::Input(format!(
                "--parameters: two tables have the feature {name:?}, and a weight is of one: rename a column"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the demonstration on these tables.
    fn demo(&self) -> DemoArgs {
        let tables = TableArgs { tables: self.files.clone(), columns: self.columns.clone() };
        let data = DataArgs { seed: self.seed, tables, ..DataArgs::default() };
        let mut demo = DemoArgs::of(data, self.records, self.known_records, self.epochs);
        demo.model = self.model.clone();
        demo.parameters = self.parameters.clone();
        demo.scores = self.scores.clone();
        demo.policies = self.policies.clone();
        demo.thresholds = self.thresholds;
        demo.no_sweep = true;
        demo.output = self.output.clone();
        demo
    }

    /// Searches for the defense that adds little, and returns it; the label alone if there is none.
    async fn recommended(&self, policies: &[Policy]) -> Result<Policy, CliError> {
        let found = recommend_for(&self.demo(), self.thresholds, self.max_accuracy_loss).await?;
        let Some(found) = found else { return Ok(self.first_policy(policies)) };
        // A reader that stops early (`| head`) is not a failure.
        let _ = write!(std::io::stdout(), "\n{}", found.text());
        if let Some(trial) = found.recommended() {
            if trial.policy.defenses.iter().all(is_served) {
                return Ok(trial.policy.clone());
            }
            say(
                "the deployment trains on secret shares, and this defense is fitted on scores of a training: it releases labels alone",
            );
            return Ok(self.first_policy(&[]));
        }
        say("no defense meets the demand at this loss of accuracy");
        Ok(self.first_policy(&[]))
    }

    /// Returns the first policy, if any were named, or else the last of the default ones, which
    /// reveals the least: no search for a defense of numbers is made.
    fn number_policy(&self, policies: &[Policy]) -> Policy {
        let policy = if self.policies.is_empty() { policies.last() } else { policies.first() };
        if policy.is_none_or(Policy::is_none) {
            say("the deployment releases numbers as they are: name another policy with --policy");
        }
        if !self.no_recommend {
            say("no defense is searched for: the search is for models of classes");
        }
        policy.cloned().unwrap_or_default()
    }

    /// Returns the first policy, if any were named, or else the label alone.
    fn first_policy(&self, policies: &[Policy]) -> Policy {
        let first = policies.first().filter(|_| !self.policies.is_empty());
        let label = || Policy::of(DefenseConfig::ClassLabel { softening: 0.0 });
        first.cloned().unwrap_or_else(label)
    }
}

/// Returns true if the coordinator of a deployment folder can apply a defense: it has neither
/// scores of a training nor weights of the passive parties.
fn is_served(defense: &DefenseConfig) -> bool {
    !defense.fitted() && !defense.needs_passive_weights()
}

/// Prints the schemas of the parties.
fn show(parties: &[PartyData]) {
    let mut rows: Vec<[String; 4]> = Vec::new();
    let mut said = HashSet::new();
    for party in parties {
        let owner = party.name.as_ref().map_or("active", |name| name.as_str());
        rows.extend(
            columns(party.table.schema())
                .map(|[name, kind, values]| [name, owner.to_owned(), kind, values]),
        );
        let (records, schema) = (party.table.len(), party.table.schema());
        let label = match (schema.label(), schema.number_label()) {
            (Some(label), _) => format!(", label {} ({})", label.column, label.classes.join(", ")),
            (None, Some(column)) => format!(", label {column} (a number)"),
            (None, None) => String::new(),
        };
        let source = party.schema_file.as_ref().map_or_else(
            || "schema guessed".to_owned(),
            |file| format!("schema of {}", file.display()),
        );
        say(&format!("{owner}: {records} records by {}{label}; {source}", schema.id_column()));
        for note in &party.notes {
            // One table has the same ids for all.
            if said.insert(note.as_str()) {
                say(note);
            }
        }
    }
    let column = |at: usize| rows.iter().map(move |row| row[at].clone());
    let table = Table::new()
        .column("feature", Name, column(0))
        .column("party", Text, column(1))
        .column("kind", Text, column(2))
        .column("values", Right, column(3));
    let text = table.text(Frame::None, Some(120), std::io::stderr().is_terminal());
    // Like progress: standard output is for results.
    let _ = writeln!(std::io::stderr(), "\n{}\n", text.trim_end());
}

/// Returns name, kind and values of each column of a schema.
fn columns(schema: &FeatureSchema) -> impl Iterator<Item = [String; 3]> {
    let mut columns: Vec<[String; 3]> = Vec::new();
    let mut group: Option<(&str, usize)> = None;
    for (feature, encoding) in schema.features().iter().zip(schema.encodings()) {
        let of = feature.group.as_deref();
        if let (Some(name), Some((open, count))) = (of, group.as_mut())
            && name == *open
        {
            *count += 1;
            let count = *count;
            if let Some([.., values]) = columns.last_mut() {
                *values = format!("{count} categories");
            }
            continue;
        }
        group = of.map(|name| (name, 1));
        let kind = if of.is_some() { "categorical".into() } else { feature.kind.to_string() };
        let step = feature.step.map_or_else(String::new, |step| format!(", step {step}"));
        let name = of.unwrap_or(&feature.name).to_owned();
        columns.push([name, kind, format!("{encoding}{step}")]);
    }
    columns.into_iter()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn hosts_are_names_without_ports() {
        for (text, expected) in [
            ("passive-1=10.0.0.7", Some("10.0.0.7")),
            ("active=db.example", Some("db.example")),
            ("active=db.example:7102", None),
            ("active", None),
            ("=x", None),
            ("active=", None),
            ("active=x\"y", None),
        ] {
            assert_eq!(host(text).ok().map(|(_, host)| host).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_schema_is_shown_column_by_column() {
        let schema = FeatureSchema::from_toml(
            "id = \"id\"\n[[features]]\nname = \"age\"\nkind = \"numeric\"\nmin = 18\nmax = 90\nstep = 1\n\
             [[features]]\nname = \"job\"\nkind = \"categorical\"\ncategories = [\"a\", \"b\", \"c\"]\n\
             [[features]]\nname = \"sex\"\nkind = \"categorical\"\ncategories = [\"f\", \"m\"]\n\
             [[features]]\nname = \"opened\"\nkind = \"date\"\nmin = \"2020-01-01\"\nmax = \"2021-01-01\"\n",
        )
        .unwrap();
        let shown: Vec<_> = columns(&schema).map(|column| column.join("|")).collect();
        let expected = [
            "age|numeric|18 to 90, step 1",
            "job|categorical|3 categories",
            "sex|categorical|2 categories",
            "opened|numeric|days from 2020-01-01 to 2021-01-01, step 1",
        ];
        assert_eq!(shown, expected);
    }
}
