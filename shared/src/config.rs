//! What the parties' config files have in common: TOML, unknown keys refused. Relative paths start at the
//! working directory of the process.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::service::{Credentials, Peer, Role, TlsError, TlsPem};
use crate::types::PartyName;

/// Why a config file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the config file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be; the message names line and key.
    #[error("config file {}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// The certificates it names are refused.
    #[error("config file {}, [tls]: {source}", path.display())]
    Tls {
        /// The file.
        path: PathBuf,
        /// Why.
        source: TlsError,
    },
    /// The certificate is another role's.
    #[error("config file {}, [tls]: the certificate is that of a {found}, this is the {expected}'s config", path.display())]
    Role {
        /// The file.
        path: PathBuf,
        /// Role of the certificate.
        found: &'static str,
        /// Role of the program.
        expected: &'static str,
    },
    /// A value that contradicts another.
    #[error("config file {}: {message}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// What and how to mend it.
        message: String,
    },
}

/// A config file and where it lies.
#[derive(Debug, Clone)]
pub struct ConfigFile<T> {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub values: T,
}

impl<T: DeserializeOwned> ConfigFile<T> {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError::Read`] or [`ConfigError::Parse`], naming file, line and key.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let values = toml::from_str(&text)
            .map_err(|e| ConfigError::Parse { path: path.to_owned(), message: e.to_string().trim_end().to_owned() })?;
        Ok(Self { path: path.to_owned(), values })
    }
}

impl<T> ConfigFile<T> {
    /// An error about a value of this file.
    pub fn error(&self, message: impl Into<String>) -> ConfigError {
        ConfigError::Value { path: self.path.clone(), message: message.into() }
    }

    /// Reads the certificates and checks that they are this role's.
    ///
    /// # Errors
    /// [`ConfigError::Tls`] or [`ConfigError::Role`].
    pub fn credentials(&self, files: &TlsFiles, role: Role) -> Result<Credentials, ConfigError> {
        let tls = |source| ConfigError::Tls { path: self.path.clone(), source };
        let pem = TlsPem::read(&files.ca, &files.certificate, &files.key).map_err(tls)?;
        let credentials = Credentials::new(&pem).map_err(tls)?;
        let found = credentials.identity().role();
        if found != role {
            return Err(ConfigError::Role { path: self.path.clone(), found: found.words(), expected: role.words() });
        }
        Ok(credentials)
    }
}

/// `[tls]`: PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The deployment's certificate authority.
    pub ca: PathBuf,
    /// This party's certificate.
    pub certificate: PathBuf,
    /// This party's private key.
    pub key: PathBuf,
}

/// A peer: the name its certificate must show, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerAddress {
    /// The name in its certificate.
    pub name: PartyName,
    /// `host:port`.
    pub address: String,
}

impl PeerAddress {
    /// The peer in a role.
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
        std::fs::write(&path, "name = \"../a\"\naddress = \"h:1\"\n").unwrap();
        assert!(ConfigFile::<PeerAddress>::read(&path).is_err());
    }
}
