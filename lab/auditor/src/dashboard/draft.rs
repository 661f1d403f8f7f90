//! The draft of an audit in the form. It is checked as a config file: the dashboard's own file with
//! the fields of the form in place.

use std::path::{Path, PathBuf};

use toml::{Table, Value};
use vfl_attack::Method;
use vfl_defense::Policy;
use vfl_server::cli::CliError;
use vfl_server::config::ConfigFile;

use super::form::Fields;
use crate::audit_config::{AuditConfig, ConfiguredAudit};
use crate::report::Thresholds;

/// The config file of the dashboard, read again.
pub(super) struct Source {
    path: PathBuf,
    table: Table,
    config: ConfigFile<AuditConfig>,
    pub(super) policies: Vec<Policy>,
}

impl Source {
    /// Reads the file.
    ///
    /// # Errors
    /// [`CliError::Input`] naming the file and what is wrong in it.
    pub(super) fn read(path: &Path) -> Result<Self, CliError> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            CliError::Input(format!("cannot read the config file {}: {e}", path.display()))
        })?;
        let config = ConfigFile::<AuditConfig>::parse(path, &text).map_err(CliError::input)?;
        let (_, policies) = config.values.check().map_err(|e| CliError::input(config.error(e)))?;
        let table =
            text.parse().map_err(|_| CliError::Input(format!("{} is no TOML", path.display())))?;
        Ok(Self { path: path.to_owned(), table, config, policies })
    }

    /// Returns the audit of the file without changes.
    ///
    /// # Errors
    /// [`CliError::Input`] naming the file and what is wrong in it.
    pub(super) fn audited(&self) -> Result<ConfiguredAudit, CliError> {
        ConfiguredAudit::of(&self.config, None, Thresholds::default())
    }

    /// Returns the values of the file.
    pub(super) fn values(&self) -> &AuditConfig {
        &self.config.values
    }

    /// Returns the attacks that the file does not name and the form may add.
    pub(super) fn further(&self) -> impl Iterator<Item = Method> {
        let known = self.values().auxiliary_ids.is_some();
        let methods = Method::general().chain(Method::informed().filter(move |_| known));
        methods.filter(move |m| {
            !m.is_control() && !self.values().attacks.iter().any(|a| a.method() == *m)
        })
    }
}

/// The content of the form.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Draft {
    /// The policies that are ticked.
    pub(super) policies: Vec<String>,
    /// Further policies, one a line.
    pub(super) more: String,
    /// The attacks that are ticked: a place in the file's list, or a name.
    pub(super) attacks: Vec<String>,
    pub(super) seed: String,
    /// The budget ρ; empty for all that is left.
    pub(super) rho: String,
}

/// The errors of a draft, by field.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Errors {
    pub(super) policies: Option<String>,
    pub(super) attacks: Option<String>,
    pub(super) seed: Option<String>,
    pub(super) rho: Option<String>,
    /// The error of no single field.
    pub(super) other: Option<String>,
}

/// A checked audit, with the text of its config file.
pub(super) struct CheckedDraft {
    pub(super) audited: ConfiguredAudit,
    pub(super) config: String,
}

/// Returns the value of the checkbox for the attack at a place of the file's list.
pub(super) fn place_of(place: usize) -> String {
    format!("file:{place}")
}

impl Draft {
    /// Returns the draft that the file stands for.
    pub(super) fn of(source: &Source) -> Self {
        Self {
            policies: source.policies.iter().map(ToString::to_string).collect(),
            more: String::new(),
            attacks: (0..source.values().attacks.len()).map(place_of).collect(),
            seed: source.values().seed.to_string(),
            rho: source.values().rho.map(|rho| rho.to_string()).unwrap_or_default(),
        }
    }

    /// Reads the draft from a form.
    pub(super) fn from_form(fields: &Fields) -> Self {
        let text = |name: &str| fields.one(name).unwrap_or_default().trim().to_owned();
        let all = |name: &str| fields.all(name).map(str::to_owned).collect();
        Self {
            policies: all("policy"),
            more: text("more"),
            attacks: all("attack"),
            seed: text("seed"),
            rho: text("rho"),
        }
    }

    /// Checks the draft by the rules of the config file.
    ///
    /// # Errors
    /// [`Errors`] by field.
    pub(super) fn ready(&self, source: &Source) -> Result<CheckedDraft, Errors> {
        let read = |text: &Result<String, String>| -> Result<ConfigFile<AuditConfig>, String> {
            ConfigFile::parse(&source.path, text.as_ref().map_err(Clone::clone)?)
                .map_err(|e| e.to_string())
        };
        // A field is wrong if the file is wrong with this field alone replaced.
        let alone = |put: Result<Table, String>| {
            let file = read(&put.and_then(|table| written(&table)));
            file.and_then(|file| file.values.check().map(drop)).err()
        };
        let errors = Errors {
            policies: alone(self.put_policies(source.table.clone())),
            attacks: alone(self.put_attacks(source.table.clone())),
            seed: alone(self.put_seed(source.table.clone())),
            rho: alone(self.put_rho(source.table.clone())),
            other: None,
        };
        if errors != Errors::default() {
            return Err(errors);
        }
        let all = self.put_policies(source.table.clone());
        let all =
            all.and_then(|table| self.put_attacks(table)).and_then(|table| self.put_seed(table));
        let text = all.and_then(|table| self.put_rho(table)).and_then(|table| written(&table));
        let other = |other: String| Errors { other: Some(other), ..Errors::default() };
        let file = read(&text).map_err(other)?;
        let audited = ConfiguredAudit::of(&file, None, Thresholds::default())
            .map_err(|e| other(e.to_string()))?;
        let name = source.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let config = text.map_err(other)?;
        let config = format!(
            "# Of the dashboard: {name} with what its form said. Relative paths start where it ran.\n{config}"
        );
        Ok(CheckedDraft { audited, config })
    }

    fn put_policies(&self, mut table: Table) -> Result<Table, String> {
        let mut policies: Vec<Value> = Vec::new();
        for text in self.policies.iter().map(String::as_str).chain(self.more.lines()).map(str::trim)
        {
            let value = Value::from(text);
            if !text.is_empty() && !policies.contains(&value) {
                policies.push(value);
            }
        }
        if policies.is_empty() {
            return Err("tick at least one policy, or write one".into());
        }
        table.remove("defenses");
        table.insert("policies".into(), policies.into());
        Ok(table)
    }

    fn put_attacks(&self, mut table: Table) -> Result<Table, String> {
        let named = table.get("attacks").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut attacks = Vec::new();
        for chosen in &self.attacks {
            attacks.push(match chosen.strip_prefix("file:") {
                Some(place) => {
                    let attack = place.parse().ok().and_then(|place: usize| named.get(place));
                    attack
                        .cloned()
                        .ok_or("the config file has changed since the form was made: choose the attacks again")?
                }
                None => Value::from(chosen.as_str()),
            });
        }
        if attacks.is_empty() {
            return Err("tick at least one attack".into());
        }
        table.insert("attacks".into(), attacks.into());
        Ok(table)
    }

    fn put_seed(&self, mut table: Table) -> Result<Table, String> {
        let seed: i64 = self
            .seed
            .parse()
            .map_err(|_| format!("a seed is a whole number from 0 to {}", i64::MAX))?;
        if seed < 0 {
            return Err(format!("a seed is a whole number from 0 to {}", i64::MAX));
        }
        table.insert("seed".into(), seed.into());
        Ok(table)
    }

    fn put_rho(&self, mut table: Table) -> Result<Table, String> {
        if self.rho.is_empty() {
            table.remove("rho");
            return Ok(table);
        }
        let rho: f64 = self.rho.parse().map_err(
            |_| "a budget is a number above 0, as 0.04; nothing stands for all that is left",
        )?;
        table.insert("rho".into(), rho.into());
        Ok(table)
    }
}

fn written(table: &Table) -> Result<String, String> {
    toml::to_string(table).map_err(|e| format!("the configuration cannot be written: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "ids = \"test.ids\"\nseed = 7\nrho = 0.04\n\
        attacks = [\"half\", { name = \"half_star\", binary = \"all\" }]\n\
        [tls]\nca = \"ca.pem\"\ncertificate = \"a.pem\"\nkey = \"a.key\"\n\
        [coordinator]\nname = \"c\"\naddress = \"127.0.0.1:1\"\n[active_party]\nname = \"a\"\naddress = \"127.0.0.1:2\"\n\
        [[passive_parties]]\nname = \"p\"\naddress = \"127.0.0.1:3\"\n\
        [[defenses]]\nname = \"none\"\n[[defenses]]\nname = \"rounding\"\ndecimals = 2\n";

    fn source(dir: &Path) -> Source {
        let path = dir.join("audit.toml");
        std::fs::write(&path, FILE).unwrap();
        Source::read(&path).unwrap()
    }

    fn errors(draft: &Draft, source: &Source) -> Errors {
        match draft.ready(source) {
            Err(errors) => errors,
            Ok(_) => panic!("the certificates of this file are missing"),
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let draft = Draft::of(&source(dir.path()));
        assert_eq!(draft.policies, ["none", "rounding (decimals = 2)"]);
        assert_eq!(
            (draft.attacks.len(), draft.seed.as_str(), draft.rho.as_str()),
            (2, "7", "0.04")
        );
    }

    #[test]
    fn errors_stand_beside_their_field_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let source = source(dir.path());
        let good = Draft::of(&source);
        // The fields are valid; the missing certificates are an error of no field.
        let other = errors(&good, &source);
        assert_eq!(other, Errors { other: other.other.clone(), ..Errors::default() });
        assert!(other.other.unwrap().contains("[tls]"));
        let text = str::to_owned;
        type Field = fn(&Errors) -> &Option<String>;
        let cases: [(Draft, Field, &str); 9] = [
            (Draft { policies: vec![], ..good.clone() }, |e| &e.policies, "at least one policy"),
            (
                Draft { more: text("rounding (decimals = 99)"), ..good.clone() },
                |e| &e.policies,
                "decimals",
            ),
            (Draft { more: text("<b>bold</b>"), ..good.clone() }, |e| &e.policies, "policies:"),
            (Draft { attacks: vec![], ..good.clone() }, |e| &e.attacks, "at least one attack"),
            (
                Draft { attacks: vec![text("file:9")], ..good.clone() },
                |e| &e.attacks,
                "has changed",
            ),
            (
                Draft { attacks: vec![text("shadow_model")], ..good.clone() },
                |e| &e.attacks,
                "auxiliary_ids",
            ),
            (Draft { seed: text("-1"), ..good.clone() }, |e| &e.seed, "whole number"),
            (Draft { rho: text("0"), ..good.clone() }, |e| &e.rho, "above 0"),
            (Draft { rho: text("nan"), ..good.clone() }, |e| &e.rho, "above 0"),
        ];
        for (draft, field, says) in cases {
            let errors = errors(&draft, &source);
            let said = field(&errors).clone().unwrap_or_else(|| panic!("{draft:?}: {errors:?}"));
            assert!(said.contains(says), "{said}");
            let all = [&errors.policies, &errors.attacks, &errors.seed, &errors.rho, &errors.other];
            assert_eq!(all.into_iter().flatten().count(), 1, "{errors:?}");
        }
    }

    /// The file that is written asks for the same audit again.
    #[test]
    fn the_file_that_is_kept_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let source = source(dir.path());
        let draft = Draft {
            more: "temperature (temperature = 2.0) then rounding (decimals = 1)\n\nclass_label"
                .into(),
            attacks: vec![place_of(1), "rcc1".into()],
            seed: "9".into(),
            rho: String::new(),
            ..Draft::of(&source)
        };
        let put = draft
            .put_policies(source.table.clone())
            .and_then(|t| draft.put_attacks(t))
            .and_then(|t| draft.put_seed(t));
        let text = put.and_then(|t| draft.put_rho(t)).and_then(|t| written(&t)).unwrap();
        let file = ConfigFile::<AuditConfig>::parse(Path::new("x.toml"), &text).unwrap();
        let (_, policies) = file.values.check().unwrap();
        let policies: Vec<String> = policies.iter().map(ToString::to_string).collect();
        assert_eq!(policies.len(), 4);
        assert_eq!(policies[2], "temperature (temperature = 2.0) then rounding (decimals = 1)");
        let attacks: Vec<String> = file.values.attacks.iter().map(ToString::to_string).collect();
        assert_eq!(attacks, ["half_star (binary = all)", "rcc1"]);
        assert_eq!((file.values.seed, file.values.rho), (9, None));
    }
}
