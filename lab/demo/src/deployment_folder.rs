//! A folder with what each party needs to serve a model of the caller's own tables: a
//! configuration, certificates, and its own data, in a folder of its own.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use vfl_auditor::recommend::coordinator_config;
use vfl_core::data::Cell;
use vfl_core::data::schema::FeatureSchema;
use vfl_core::data::table::FeatureStore;
use vfl_core::model::TrainingValues;
use vfl_core::types::{PartyName, RecordIds};
use vfl_datasets::Dataset;
use vfl_defense::Policy;
use vfl_features::stores::{TableFile, rows_of};
use vfl_state::files::{make_private_dir, write_atomic};
use vfl_studies::{PartyData, TableSpec};
use vfl_testbed::certs;

use crate::demo_deployment::{computing_party, fewest_batch, fewest_records};
use crate::plan::ImportedParameters;

const COORDINATOR: &str = "coordinator";
const ACTIVE: &str = "active";
const AUDITOR: &str = "auditor";
/// The folder of the key that signs certificates.
const AUTHORITY: &str = "authority";
/// The file of the coordinator's part of an imported network.
const TOP_FILE: &str = "top.safetensors";

/// The content of a deployment folder.
pub struct DeploymentFolder<'a> {
    /// The tables.
    pub tables: &'a TableSpec,
    /// The tables' content, the active party's first.
    pub parties: &'a [PartyData],
    /// The joined data, of which the folder gets the ids of the training and the test records.
    pub dataset: &'a Dataset,
    /// The training of the model.
    pub training: &'a TrainingValues,
    /// The parameters of a model that was trained elsewhere, of all features of the data; `None`:
    /// the parties train.
    pub parameters: Option<&'a ImportedParameters>,
    /// The policy that the coordinator is to apply.
    pub policy: &'a Policy,
    /// Host names or addresses of parties, by their names. A party that is not named has its name
    /// as its host name.
    pub hosts: BTreeMap<String, String>,
}

impl DeploymentFolder<'_> {
    /// Checks that a folder can be written: it must not exist, and hosts must be of parties.
    ///
    /// # Errors
    /// The problem.
    pub fn check(
        folder: &Path,
        parties: &[PartyData],
        hosts: &BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        ensure!(
            !folder.exists(),
            "{} exists and is not overwritten: name another folder with --deployment",
            folder.display()
        );
        let passive = || parties.iter().filter_map(|of| Some(of.name.as_ref()?.as_str()));
        let taken = [COORDINATOR, ACTIVE, AUDITOR, AUTHORITY, "ca"];
        let is_taken = |name: &&str| taken.iter().any(|other| other.eq_ignore_ascii_case(name));
        if let Some(name) = passive().find(is_taken) {
            bail!("a passive party cannot be called {name}: rename its file");
        }
        let mut names = vec![COORDINATOR, ACTIVE];
        names.extend(passive());
        match hosts.keys().find(|host| !names.contains(&host.as_str())) {
            Some(unknown) => bail!("--host {unknown}: the parties are {}", names.join(", ")),
            None => Ok(()),
        }
    }

    /// Writes the folder, all of it or nothing. Only its owner can read it.
    ///
    /// # Errors
    /// An error that names the file.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        Self::check(folder, self.parties, &self.hosts)?;
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        make_private_dir(parent)?;
        let mut partial = tempfile::Builder::new();
        partial.prefix(".deployment-");
        #[cfg(unix)]
        partial.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let partial = partial.tempdir_in(parent)?;
        self.fill(partial.path())?;
        let made = partial.keep();
        let moved = std::fs::rename(&made, folder);
        moved.with_context(|| format!("cannot move {} to {}", made.display(), folder.display()))
    }

    fn fill(&self, root: &Path) -> anyhow::Result<()> {
        self.certificates(root)?;
        let put = |path: PathBuf, text: &str| {
            let written = write_atomic(&path, text.as_bytes(), true);
            written.with_context(|| format!("cannot write {}", path.display()))
        };
        for (at, party) in self.parties.iter().enumerate() {
            let name = party.name.as_ref().map_or(ACTIVE, |name| name.as_str());
            let data = root.join(name).join("data");
            make_private_dir(&data)?;
            let file = self.tables.files.get(at).or(self.tables.files.first());
            let file = file.context("no table is named")?;
            put(
                data.join(format!("{name}.csv")),
                &rows(self.tables.file(file), party.table.schema())?,
            )?;
            put(data.join(format!("{name}.schema.toml")), &party.schema_text)?;
        }
        for (path, content) in self.parameter_files()? {
            write_atomic(&root.join(path), &content, true)?;
        }
        let ids = |records: &[usize]| lines(&self.dataset.ids().select(records));
        let split = self.dataset.split();
        put(root.join(ACTIVE).join("data/train.ids"), &ids(&split.train))?;
        put(root.join(ACTIVE).join("data/test.ids"), &ids(&split.test))?;
        make_private_dir(&root.join(AUDITOR).join("data"))?;
        put(root.join(AUDITOR).join("data/test.ids"), &ids(&split.test))?;
        put(root.join(COORDINATOR).join("coordinator.toml"), &self.coordinator()?)?;
        put(root.join(ACTIVE).join("active.toml"), &self.active()?)?;
        put(root.join(AUDITOR).join("audit.toml"), &self.audit()?)?;
        for name in self.passive() {
            put(root.join(name).join(format!("{name}.toml")), &self.passive_config(name))?;
        }
        if let Some(schema) = self.tables.joined_schema(self.parties) {
            put(root.join(format!("{}.schema.toml", self.tables.name())), &schema)?;
        }
        put(root.join("README.md"), &self.readme())
    }

    /// Returns the files of an imported model: each party's part, and the coordinator's of a
    /// network.
    fn parameter_files(&self) -> anyhow::Result<Vec<(PathBuf, Vec<u8>)>> {
        let Some(whole) = self.parameters else { return Ok(Vec::new()) };
        let parties = self.parties.iter().map(|party| {
            let name = party.name.as_ref().map_or(ACTIVE, |name| name.as_str());
            let features = party.table.schema().features().iter();
            anyhow::Ok((PartyName::new(name)?, features.map(|f| f.name.clone()).collect()))
        });
        let parties = parties.collect::<anyhow::Result<Vec<(PartyName, Vec<String>)>>>()?;
        let place = |party: &str| Path::new(party).join(whole.part_name());
        match whole {
            ImportedParameters::Linear(whole) => {
                let part = |(name, features): &(PartyName, Vec<String>)| {
                    let bias = whole.bias().filter(|_| name.as_str() == ACTIVE).cloned();
                    let part = whole.part(features)?.with_bias(bias);
                    Ok((place(name.as_str()), part.to_json()))
                };
                parties.iter().map(part).collect()
            }
            ImportedParameters::Network(whole) => {
                let division = whole.divide(&parties)?;
                let top = (Path::new(COORDINATOR).join(TOP_FILE), division.top.to_bytes()?);
                let parts = division
                    .parts
                    .iter()
                    .zip(&parties)
                    .map(|(part, (name, _))| Ok((place(name.as_str()), part.to_bytes()?)));
                parts.chain([Ok(top)]).collect()
            }
        }
    }

    /// Makes the certificates, and gives each party its own key and no other.
    fn certificates(&self, root: &Path) -> anyhow::Result<()> {
        let mut parties = vec![
            format!("coordinator/{COORDINATOR}"),
            format!("active-party/{ACTIVE}"),
            format!("auditor/{AUDITOR}"),
        ];
        parties.extend(self.passive().map(|name| format!("passive-party/{name}")));
        let authority = root.join(AUTHORITY);
        make_private_dir(&authority)?;
        certs::write(&authority, "cloison.local", 365, &parties)?;
        let passive = self.passive().map(str::to_owned);
        let own = [COORDINATOR, ACTIVE, AUDITOR].map(str::to_owned);
        for name in own.into_iter().chain(passive) {
            let tls = root.join(&name).join("tls");
            make_private_dir(&root.join(&name))?;
            make_private_dir(&tls)?;
            for file in [format!("{name}.pem"), format!("{name}.key")] {
                std::fs::rename(authority.join(&file), tls.join(&file))?;
            }
            std::fs::copy(authority.join("ca.pem"), tls.join("ca.pem"))?;
        }
        Ok(())
    }

    /// Returns the names of the passive parties.
    fn passive(&self) -> impl Iterator<Item = &str> {
        self.parties.iter().filter_map(|of| Some(of.name.as_ref()?.as_str()))
    }

    /// Returns the address of a party. Every passive party has a port of its own, so that several
    /// parties may share a host.
    fn address(&self, name: &str) -> String {
        let host = self.hosts.get(name).map_or(name, String::as_str);
        format!("{host}:{}", self.port(name))
    }

    fn port(&self, name: &str) -> usize {
        match (name, self.passive().position(|passive| passive == name)) {
            (COORDINATOR, _) => 7100,
            (_, None) => 7102,
            (_, Some(0)) => 7101,
            (_, Some(at)) => 7102 + at,
        }
    }

    /// Returns the beginning of a service's configuration.
    fn head(&self, name: &str, what: &str) -> String {
        let port = self.port(name);
        format!(
            "# {what} Relative paths start at the working directory: start it in this folder.\n\
             listen = \"0.0.0.0:{port}\"\nstate_dir = \"state\"\n\n{}",
            tls(name)
        )
    }

    fn passive_parties(&self) -> String {
        let one = |name: &str| {
            let address = self.address(name);
            format!("[[passive_parties]]\nname = \"{name}\"\naddress = \"{address}\"\n\n")
        };
        self.passive().map(one).collect()
    }

    fn coordinator(&self) -> anyhow::Result<String> {
        let head = self.head(COORDINATOR, "The coordinator.");
        let policy = coordinator_config(self.policy)?;
        let training = match self.parameters {
            None => "[training]\nallowed = true\n\n",
            Some(_) => "",
        };
        Ok(format!(
            "{}{}{training}[audit]\nallowed = true\n\n# The policy: {}.\n{policy}",
            head.replace("state_dir", &format!("active_party = \"{ACTIVE}\"\nstate_dir")),
            self.passive_parties(),
            self.policy
        ))
    }

    fn active(&self) -> anyhow::Result<String> {
        let coordinator = self.address(COORDINATOR);
        let training = match self.parameters {
            Some(_) => String::new(),
            None => self.training()?,
        };
        Ok(format!(
            "{}[data]\ncsv = \"data/{ACTIVE}.csv\"\nschema = \"data/{ACTIVE}.schema.toml\"\n\n\
             [coordinator]\nname = \"{COORDINATOR}\"\naddress = \"{coordinator}\"\n\n{}\
             [audit]\nallowed = true\n\n{training}\
             [client]\naddress = \"127.0.0.1:{}\"\n",
            self.head(ACTIVE, "The active party."),
            self.passive_parties(),
            self.port(ACTIVE)
        ))
    }

    /// Returns the active party's settings of the training.
    fn training(&self) -> anyhow::Result<String> {
        let TrainingValues { epochs, l2, validation_share, patience, seed, model, .. } =
            self.training;
        let model = toml::to_string(&BTreeMap::from([("model", model)]))?;
        Ok(format!(
            "# On secret shares: nobody sees another's features, labels, scores or parameters.\n\
             [training]\ntrain_ids = \"data/train.ids\"\nepochs = {epochs}\nl2 = {l2:?}\n\
             validation_share = {validation_share:?}\npatience = {patience}\nseed = {seed}\n\n{model}\n"
        ))
    }

    fn passive_config(&self, name: &str) -> String {
        let (records, batch) = (fewest_records(self.dataset), fewest_batch(self.dataset));
        let mut fewest = String::new();
        if records < 1000 {
            fewest.push_str(&format!("min_records = {records}\n"));
        }
        if batch < 64 {
            fewest.push_str(&format!("min_batch = {batch}\n"));
        }
        let names = self.parties.iter().filter_map(|party| party.name.as_ref());
        let computing = computing_party(names).filter(|first| first.as_str() != name);
        let computing = computing.map_or_else(String::new, |first| {
            format!("# Shares of this party's features go to the active party, the coordinator and:\ncomputing_party = \"{first}\"\n")
        });
        let (k, kind) = (self.dataset.class_names().len(), self.training.model.kind());
        let training = match self.parameters {
            None => format!(
                "# Consent to trainings on secret shares alone.\n\
                 [training]\nallowed = true\nactive_party = \"{ACTIVE}\"\nmax_classes = {k}\n\
                 kinds = [\"{kind}\"]\n{fewest}{computing}\n"
            ),
            Some(_) => String::new(),
        };
        format!(
            "{}[data]\ncsv = \"data/{name}.csv\"\nschema = \"data/{name}.schema.toml\"\n\n\
             # The active party learns nothing of this party's parameters.\n\
             [release]\nto_active_party = \"nothing\"\n\n{training}\
             # Audits get figures with noise, within a budget of each record.\n[audit]\nallowed = true\n",
            self.head(name, "A passive party."),
        )
    }

    fn audit(&self) -> anyhow::Result<String> {
        let policy = serde_json::to_string(&self.policy.to_string())?;
        let (coordinator, active) = (self.address(COORDINATOR), self.address(ACTIVE));
        let attacks = match self.dataset.is_of_numbers() {
            true => "\"half\", \"kernel_ridge\", \"shadow_model (base = lattice)\"",
            false => "\"half\", \"gradient_inversion\", \"agnostic\"",
        };
        Ok(format!(
            "# An audit of the deployment: cloison audit --config audit.toml --out out\n\
             ids = \"data/test.ids\"\nseed = 7\n\
             attacks = [{attacks}]\npolicies = [{policy}]\n\n{}\
             [coordinator]\nname = \"{COORDINATOR}\"\naddress = \"{coordinator}\"\n\n\
             [active_party]\nname = \"{ACTIVE}\"\naddress = \"{active}\"\n\n{}",
            tls(AUDITOR),
            self.passive_parties()
        ))
    }

    fn readme(&self) -> String {
        let mut text = String::from(
            "# A deployment\n\nOne folder for each party. Give each its own folder and no other; keep `authority/` (the key that signs \
             certificates) to yourself.\n\nBefore you do: the schemas are public. Where they were guessed, their ranges are extremes of \
             the data: replace them by ranges that are known without the data.\n\nOn each machine, in the party's folder:\n\n```console\n",
        );
        let part = self.parameters.map_or("", ImportedParameters::part_name);
        let import = format!("import-parameters --parameters {part} --config");
        let imported = self.parameters.is_some();
        if let Some(ImportedParameters::Network(_)) = self.parameters {
            let _ = writeln!(
                text,
                "coordinator import-parameters --parameters {TOP_FILE} --config coordinator.toml --active-party {ACTIVE}"
            );
        }
        let _ = writeln!(text, "coordinator serve --config coordinator.toml");
        for name in self.passive() {
            if imported {
                let _ =
                    writeln!(text, "passive-party {import} {name}.toml --active-party {ACTIVE}");
            }
            let _ = writeln!(text, "passive-party serve --config {name}.toml");
        }
        if imported {
            let _ = writeln!(text, "active-party {import} active.toml");
        }
        let _ = writeln!(text, "active-party serve --config active.toml\n```\n");
        if let Some(ImportedParameters::Network(_)) = self.parameters {
            text.push_str(
                "The coordinator receives linear combinations of each party's features, from which it can learn them: trust it with \
                 them, or serve a linear model.\n\n",
            );
        }
        text.push_str(match self.parameters {
            Some(_) => {
                "Then, in the active party's folder, put the model in service, and ask for predictions:\n\n```console\n\
                 # --training-ids FILE names the records that it was trained on: no score is given of them.\n\
                 active-party publish --config active.toml\n"
            }
            None => {
                "Then, in the active party's folder, train on secret shares, and ask for predictions:\n\n```console\n\
                 active-party train --config active.toml\n"
            }
        });
        text.push_str(
            "active-party predict --config active.toml --ids data/test.ids --out scores.csv\n```\n\n\
             In the auditor's folder, `cloison audit --config audit.toml --out report` audits what is served. The parameters stay with \
             their owners; to learn what the scores add, name records that the active party may know whole (`auxiliary_ids` there, \
             `known_csv` in active.toml).\n\n\
             `check --config FILE` of each program says what is wrong with a configuration.\n\n| party | address |\n|---|---|\n",
        );
        for name in [COORDINATOR, ACTIVE].into_iter().chain(self.passive()) {
            let _ = writeln!(text, "| {name} | {} |", self.address(name));
        }
        text
    }
}

fn tls(name: &str) -> String {
    format!(
        "[tls]\nca = \"tls/ca.pem\"\ncertificate = \"tls/{name}.pem\"\nkey = \"tls/{name}.key\"\n\n"
    )
}

fn lines(ids: &RecordIds) -> String {
    ids.iter().map(|id| format!("{id}\n")).collect()
}

/// Returns the columns of a file that a schema declares, as CSV: the values as they are.
fn rows(file: TableFile<'_>, schema: &FeatureSchema) -> anyhow::Result<String> {
    // A label that is a number is a column beside the features, if the file has it.
    let columns = schema.with_number(rows_of(file, None)?.names()).source_columns();
    let declared: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let mut rows = rows_of(file, Some(&declared))?;
    let names = rows.names().to_vec();
    let wanted: Vec<Option<usize>> =
        declared.iter().map(|column| names.iter().position(|name| name == column)).collect();
    let place = |at: usize| wanted.iter().position(|column| *column == Some(at));
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(&declared)?;
    let mut record = vec![String::new(); wanted.len()];
    loop {
        record.iter_mut().for_each(String::clear);
        let row = rows.next_row(&mut |at, cell| {
            if let Some(place) = place(at).filter(|_| !cell.is_missing(false)) {
                record[place] = match cell {
                    // A number of 1 or 0 where the schema has numbers.
                    Cell::Bool(value) if columns[place].number => u8::from(value).to_string(),
                    Cell::CommaText(text) if columns[place].number => text.replacen(',', ".", 1),
                    _ => cell.text()?.into_owned(),
                };
            }
            Ok(())
        })?;
        if row.is_none() {
            break;
        }
        out.write_record(&record)?;
    }
    Ok(String::from_utf8(out.into_inner()?)?)
}
