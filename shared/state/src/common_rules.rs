//! Checks that all processes of a party run with the same policy settings.
//!
//! Processes that share their state count together, but each decides by its own configuration file:
//! a forgotten file with old, wider limits would allow requests that the other processes refuse.
//! The first process writes hashes of its rules beside the state. A process with different rules is
//! refused, until an operator replaces them; those that serve under the old ones then end.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::hex;

use crate::state_dir::StateDir;
use crate::state_file::{StateFile, StateFileError};
use crate::state_table::Revision;

/// The interval at which a process checks whether its rules were replaced.
const LOOK: Duration = Duration::from_secs(5);
const SCHEMA: u32 = 1;
const FIX: &str = "write them anew with `replace-rules`";

/// Errors from agreeing on rules with the other processes.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// The database failed.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// Other processes serve under other rules.
    #[error(
        "{} is not what the processes of this party serve under. Give all of them the same, or run `replace-rules` with this \
         file: those that serve under the old rules then end", .0.join(", ")
    )]
    Others(Vec<String>),
    /// The rules were replaced while the process served.
    #[error(
        "the rules of this party were replaced (`replace-rules`): start this process with the new ones"
    )]
    Replaced,
}

/// The rules of a process, by the table of its configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommonRules {
    schema: u32,
    /// Hashes of the tables: the rules themselves may name files and persons.
    tables: BTreeMap<String, String>,
}

impl CommonRules {
    /// Creates the rules. Each table is a text that is the same for two processes with the same
    /// settings.
    #[must_use]
    pub fn new<'a>(tables: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let hashed = |(name, words): (&str, String)| {
            (name.to_owned(), hex(Sha256::digest(words.as_bytes())))
        };
        Self { schema: SCHEMA, tables: tables.into_iter().map(hashed).collect() }
    }

    /// Returns the names of the tables that differ.
    fn apart(&self, other: &Self) -> Vec<String> {
        let names = self
            .tables
            .keys()
            .chain(other.tables.keys().filter(|name| !self.tables.contains_key(*name)));
        names.filter(|name| self.tables.get(*name) != other.tables.get(*name)).cloned().collect()
    }

    /// Agrees on these rules, unless another process serves under different ones. The state in a
    /// folder has one process, so there is nothing to agree on.
    ///
    /// # Errors
    /// [`RulesError`] if the rules differ or the state cannot be read.
    pub fn agree(&self, state: &StateDir) -> Result<AgreedRules, RulesError> {
        if state.folder().is_some() {
            return Ok(AgreedRules(None));
        }
        let file = file(state);
        loop {
            match file.read_versioned::<Self>(SCHEMA)? {
                Some(others) if others == *self => {
                    return Ok(AgreedRules(Some((file, self.clone()))));
                }
                Some(others) => return Err(RulesError::Others(self.apart(&others))),
                // If another process is first, the next iteration reads its rules.
                None => drop(file.swap(Revision::default(), &file.json(self)?)?),
            }
        }
    }

    /// Replaces the stored rules with these, and returns the names of the tables that change.
    ///
    /// # Errors
    /// [`StateFileError`] if the rules cannot be read or written.
    pub fn replace(&self, state: &StateDir) -> Result<Vec<String>, StateFileError> {
        let file = file(state);
        let before = file.read_versioned::<Self>(SCHEMA)?;
        file.write_json(self)?;
        Ok(before.map(|before| self.apart(&before)).unwrap_or_default())
    }
}

fn file(state: &StateDir) -> StateFile {
    state.file("rules.json", FIX)
}

/// The agreed settings; `None` if the state is a folder.
#[derive(Debug)]
pub struct AgreedRules(Option<(StateFile, CommonRules)>);

impl AgreedRules {
    /// Completes when the rules were replaced or removed. While the database cannot be reached, the
    /// rules remain in force.
    pub async fn replaced(self) {
        let Some((file, own)) = self.0 else { return std::future::pending().await };
        loop {
            tokio::time::sleep(LOOK).await;
            let file = file.clone();
            let read =
                tokio::task::spawn_blocking(move || file.read_versioned::<CommonRules>(SCHEMA))
                    .await;
            match read {
                Ok(Ok(Some(now))) if now == own => {}
                Ok(Ok(_)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "whether the rules still stand is not known")
                }
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_differ_are_named() {
        let rules = |audit: &str| {
            CommonRules::new([("[audit]", audit.to_owned()), ("[release]", "none".to_owned())])
        };
        assert_eq!(rules("a"), rules("a"));
        assert_eq!(rules("a").apart(&rules("b")), ["[audit]"]);
        assert_eq!(rules("a").apart(&CommonRules::new([])), ["[audit]", "[release]"]);
        assert_eq!(CommonRules::new([]).apart(&rules("a")), ["[audit]", "[release]"]);
        let said = RulesError::Others(rules("a").apart(&rules("b"))).to_string();
        assert!(said.starts_with("[audit] is not") && said.contains("replace-rules"), "{said}");
    }

    #[test]
    fn a_folder_has_one_process() {
        let dir = tempfile::tempdir().unwrap();
        for audit in ["a", "b"] {
            assert!(
                CommonRules::new([("[audit]", audit.to_owned())])
                    .agree(&dir.path().into())
                    .unwrap()
                    .0
                    .is_none()
            );
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
