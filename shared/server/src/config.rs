//! The common parts of the parties' config files: TOML, unknown keys refused. Relative paths start
//! at the working directory of the process.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use crate::monitoring::MetricsTable;
use crate::monitoring::Monitoring;
pub use crate::monitoring::traces::TracesTable;
use crate::service::{Credentials, Peer, Role, TlsError};
pub use crate::service::{Limits, TlsFiles};
use vfl_core::types::PartyName;

/// Errors from reading a config file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the config file {}: {source}", path.display())]
    Read {
        /// The path of the config file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// The file is invalid. The message names line, column and key, and shows no value, which may
    /// be a password.
    #[error("config file {}: {message}", path.display())]
    Parse {
        /// The path of the config file.
        path: PathBuf,
        /// The error and its position.
        message: String,
    },
    /// The certificates that it names are refused.
    #[error("config file {}, [tls]: {source}", path.display())]
    Tls {
        /// The path of the config file.
        path: PathBuf,
        /// The reason for the refusal.
        source: TlsError,
    },
    /// The certificate belongs to another role.
    #[error("config file {}, [tls]: the certificate is one of role {found}, this is the config of role {expected}", path.display())]
    Role {
        /// The path of the config file.
        path: PathBuf,
        /// The role of the certificate.
        found: &'static str,
        /// The role of the program.
        expected: &'static str,
    },
    /// A value is invalid or contradicts another.
    #[error("config file {}: {message}", path.display())]
    Value {
        /// The path of the config file.
        path: PathBuf,
        /// The error and how to fix it.
        message: String,
    },
}

/// A config file and its path.
#[derive(Debug, Clone)]
pub struct ConfigFile<T> {
    /// The path of the file.
    pub path: PathBuf,
    /// The content of the file.
    pub values: T,
}

impl<T: DeserializeOwned> ConfigFile<T> {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError::Read`] or [`ConfigError::Parse`], naming file, line and key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// Parses the text of a file; `path` names it in errors.
    ///
    /// # Errors
    /// [`ConfigError::Parse`], naming file, line and key.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let values = toml::from_str(text).map_err(|e| ConfigError::Parse {
            path: path.to_owned(),
            message: parse_message(text, e),
        })?;
        Ok(Self { path: path.to_owned(), values })
    }
}

/// Returns the error and its position, without the text of the line, which the library's own
/// message shows: a ledger's URL may hold a password.
fn parse_message(text: &str, mut error: toml::de::Error) -> String {
    let found = error.span().and_then(|span| text.get(span));
    let reason = hide(without_value(error.message().trim()), text, found);
    let start = error.span().map(|span| span.start);
    error.set_input(None);
    let shown = error.to_string();
    // The library names the enclosing keys, if it had parsed that far.
    let under = shown.rsplit_once("\nin `").and_then(|(_, keys)| keys.trim_end().strip_suffix('`'));
    let before = start.and_then(|at| text.get(..at));
    let line = before.map_or("", |before| before.rsplit('\n').next().unwrap_or(before));
    let key = under.map(str::to_owned).or_else(|| key_of(text, before?));
    let place = before.map(|b| {
        format!("line {}, column {}", b.matches('\n').count() + 1, line.chars().count() + 1)
    });
    let key = key.map(|key| format!("key `{key}`"));
    let place: Vec<String> = place.into_iter().chain(key).collect();
    if place.is_empty() { reason } else { format!("{}: {reason}", place.join(", ")) }
}

/// Returns the key of the line at the end of `before`, if it begins with a bare one.
fn key_of(text: &str, before: &str) -> Option<String> {
    // Inside a multi-line text, anything may look like a key.
    if before.contains("\"\"\"") || before.contains("'''") {
        return None;
    }
    let line = text.get(before.rfind('\n').map_or(0, |at| at + 1)..)?.lines().next()?;
    let key = line.split_once('=')?.0.trim();
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (!key.is_empty() && key.chars().all(bare)).then(|| key.to_owned())
}

/// Returns the reason without the value that it is about, which a type of ours may quote in its own
/// message (`party "x" is not a valid name`), and without any text of the file that may be an
/// address.
fn hide(mut reason: String, text: &str, found: Option<&str>) -> String {
    fn texts(value: &toml::Value, all: &mut Vec<String>) {
        match value {
            toml::Value::String(text) => all.push(text.clone()),
            toml::Value::Array(values) => values.iter().for_each(|v| texts(v, all)),
            toml::Value::Table(values) => values.values().for_each(|v| texts(v, all)),
            _ => {}
        }
    }
    let read = |text: &str| {
        let mut all = Vec::new();
        let table: Option<toml::Table> = text.parse().ok();
        table.iter().flat_map(toml::Table::values).for_each(|value| texts(value, &mut all));
        all
    };
    let mut hidden = read(text);
    hidden.retain(|value| value.contains([':', '/', '@']));
    hidden.extend(found.map(|found| read(&format!("value = {found}"))).unwrap_or_default());
    for value in hidden.iter().filter(|value| !value.is_empty()) {
        for quoted in [format!("{value:?}"), format!("`{value}`"), format!("'{value}'")] {
            reason = reason.replace(&quoted, "\"…\"");
        }
        // A short text without quotes would be found in the middle of words.
        if value.len() > 3 {
            reason = reason.replace(value.as_str(), "…");
        }
    }
    reason
}

/// Removes the value from serde's messages: `invalid type: VALUE, expected KIND` and its like.
fn without_value(reason: &str) -> String {
    let kinds = ["invalid type", "invalid value", "invalid length", "unknown variant"];
    match (kinds.iter().find(|kind| reason.starts_with(**kind)), reason.rfind(", expected ")) {
        (Some(&kind), Some(expected)) => {
            // The expected variants are a list, which contains no value of the file.
            let expected = if kind == "unknown variant" {
                reason.find("`, expected ").map_or(expected, |at| at + 1)
            } else {
                expected
            };
            format!("{kind}{}", reason.get(expected..).unwrap_or_default())
        }
        (Some(&kind), None) => kind.to_owned(),
        (None, _) => reason.to_owned(),
    }
}

impl<T> ConfigFile<T> {
    /// Creates an error about a value of this file.
    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::Value { path: self.path.clone(), message: message.into() }
    }

    /// Checks the table `[limits]`.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if a limit is out of range.
    pub fn limits(&self, limits: &Limits) -> Result<Limits, ConfigError> {
        limits.check().map(|()| *limits).map_err(|e| self.error(format!("[limits]: {e}")))
    }

    /// Checks the tables `[metrics]` and `[traces]`; `listen` is the address of the service itself.
    ///
    /// # Errors
    /// [`ConfigError::Value`] if a table is invalid.
    pub fn monitoring(
        &self,
        metrics: &MetricsTable,
        traces: &TracesTable,
        listen: SocketAddr,
    ) -> Result<Monitoring, ConfigError> {
        metrics.check(listen).map_err(|e| self.error(format!("[metrics]: {e}")))?;
        let traces = traces.check().map_err(|e| self.error(format!("[traces]: {e}")))?;
        Ok(Monitoring { metrics: metrics.listen, traces })
    }

    /// Reads the certificates and checks that they belong to this role.
    ///
    /// # Errors
    /// [`ConfigError::Tls`] if they cannot be read, [`ConfigError::Role`] if they belong to another
    /// role.
    pub fn credentials(&self, files: &TlsFiles, role: Role) -> Result<Credentials, ConfigError> {
        let tls = |source| ConfigError::Tls { path: self.path.clone(), source };
        let credentials = Credentials::read(files).map_err(tls)?;
        let found = credentials.identity().role();
        if found != role {
            return Err(ConfigError::Role {
                path: self.path.clone(),
                found: found.words(),
                expected: role.words(),
            });
        }
        Ok(credentials)
    }
}

/// A peer: the name in its certificate, and its address.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "PeerValues")]
pub struct PeerAddress {
    /// The name in its certificate.
    pub name: PartyName,
    /// `host:port`; for several processes of one name each address, separated by commas.
    pub address: String,
}

/// The address of a service in a config file: `address`, or `addresses` of several processes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Addresses {
    address: Option<String>,
    addresses: Option<Vec<String>>,
}

impl Addresses {
    /// Returns the addresses of all processes, separated by commas.
    ///
    /// # Errors
    /// A message if there is no address, or both forms are given.
    pub fn joined(self) -> Result<String, &'static str> {
        match (self.address, self.addresses) {
            (Some(address), None) => Ok(address),
            (None, Some(addresses)) if !addresses.is_empty() => Ok(addresses.join(", ")),
            _ => Err("name an `address`, or a list of `addresses` where there are several"),
        }
    }
}

/// The fields of a peer in a config file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PeerValues {
    name: PartyName,
    address: Option<String>,
    addresses: Option<Vec<String>>,
}

impl TryFrom<PeerValues> for PeerAddress {
    type Error = &'static str;

    fn try_from(values: PeerValues) -> Result<Self, Self::Error> {
        let address =
            Addresses { address: values.address, addresses: values.addresses }.joined()?;
        Ok(Self { name: values.name, address })
    }
}

impl PeerAddress {
    /// Returns the peer with this role.
    #[must_use]
    pub fn peer(&self, role: Role) -> Peer {
        Peer { role, name: self.name.clone(), address: self.address.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_and_missing_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        let missing = ConfigFile::<PeerAddress>::read(&path).unwrap_err().to_string();
        assert!(missing.contains("x.toml"), "{missing}");
        std::fs::write(&path, "name = \"a\"\naddress = \"h:1\"\nadress = 2\n").unwrap();
        let unknown = ConfigFile::<PeerAddress>::read(&path).unwrap_err().to_string();
        assert!(unknown.contains("adress") && unknown.contains("line 3"), "{unknown}");
        assert!(!unknown.contains("= 2"), "{unknown}");
        std::fs::write(&path, "name = \"../a\"\naddress = \"h:1\"\n").unwrap();
        assert!(ConfigFile::<PeerAddress>::read(&path).is_err());
    }

    #[test]
    fn a_peer_is_at_one_address_or_at_several() {
        let read = |text: &str| {
            ConfigFile::<PeerAddress>::parse(Path::new("x.toml"), text).map(|f| f.values)
        };
        let peer = |text: &str| read(text).unwrap().peer(Role::Coordinator);
        assert_eq!(
            peer("name = \"a\"\naddress = \"h:1\"").addresses().collect::<Vec<_>>(),
            ["h:1"]
        );
        let several = peer("name = \"a\"\naddresses = [\"h:1\", \"i:2\"]");
        assert_eq!(several.addresses().collect::<Vec<_>>(), ["h:1", "i:2"]);
        assert_eq!(several.to_string(), "coordinator `a` at h:1, i:2");
        for neither in [
            "name = \"a\"",
            "name = \"a\"\naddresses = []",
            "name = \"a\"\naddress = \"h:1\"\naddresses = [\"i:2\"]",
        ] {
            let error = read(neither).unwrap_err().to_string();
            assert!(error.contains("a list of `addresses`"), "{error}");
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only parsed")]
    struct Sample {
        #[serde(default)]
        kept: bool,
        url: Option<String>,
        count: Option<u64>,
        engine: Option<Engine>,
        name: Option<PartyName>,
        listen: Option<std::net::SocketAddr>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Engine {
        Sqlite,
        Postgres,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only parsed")]
    struct Outer {
        ledger: Sample,
    }

    /// Whatever is wrong with a line, and wherever a password stands in it, no message shows it.
    #[test]
    fn no_value_is_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.toml");
        let secret = "postgres://u:hunter2@db/ledger";
        let cases = [
            (format!("[ledger]\nurl = \"{secret}\" x\n"), "line 2, column", "key `url`"),
            (format!("[ledger]\nurl = \"{secret}\n"), "line 2, column", "key `url`"),
            (format!("[ledger]\nurl = {secret}\n"), "line 2, column", "key `url`"),
            (format!("[ledger]\nurl = \'{secret}\n"), "line 2, column", "key `url`"),
            (format!("[ledger]\nurl \"{secret}\"\n"), "line 2, column", ""),
            (format!("[ledger]\n{secret}\n"), "line 2, column", ""),
            (format!("[ledger]\nkept = \"{secret}\"\n"), "line 2, column 8", "key `ledger.kept`"),
            (
                format!("[ledger]\n\ncount = \"{secret}, expected\"\n"),
                "line 3, column 9",
                "key `ledger.count`",
            ),
            (
                format!("[ledger]\nengine = \"{secret}\"\n"),
                "line 2, column 10",
                "key `ledger.engine`",
            ),
            (format!("[ledger]\nname = \"{secret}\"\n"), "line 2, column 8", "key `ledger.name`"),
            (
                format!("[ledger]\nlisten = \"{secret}\"\n"),
                "line 2, column 10",
                "key `ledger.listen`",
            ),
            (format!("[ledger]\nurl = [\"{secret}\"]\n"), "line 2, column 7", "key `ledger.url`"),
            (format!("[ledger]\nurl = \"{secret}\"\nurl = \"{secret}\"\n"), "line 3", ""),
            (format!("ledger = \"{secret}\"\n"), "line 1, column 10", "key `ledger`"),
            (format!("[ledger]\nurl = \"\"\"\nhunter2={secret}\n"), "line", ""),
        ];
        for (text, place, key) in cases {
            std::fs::write(&path, &text).unwrap();
            let error = ConfigFile::<Outer>::read(&path).unwrap_err();
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains("hunter2"), "{text}{shown}");
            assert!(shown.contains(place) && shown.contains(key), "{text}{shown}");
        }
        std::fs::write(&path, "[ledger]\nname = \"a b\"\n").unwrap();
        let error = ConfigFile::<Outer>::read(&path).unwrap_err().to_string();
        assert!(error.contains("is not a valid name: 1 to 64"), "{error}");
        std::fs::write(&path, "[ledger]\nengine = \"sqlight\"\n").unwrap();
        let error = ConfigFile::<Outer>::read(&path).unwrap_err().to_string();
        assert!(error.contains("expected `sqlite` or `postgres`"), "{error}");
    }
}
