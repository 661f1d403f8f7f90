//! The table `[state]` of a party's config file, and the place of its state.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use vfl_core::types::PartyName;

#[cfg(feature = "postgres")]
use crate::postgres_state::open_table;
use crate::state_dir::StateDir;
use crate::state_table::StateTable;

/// The error of a configuration that names a PostgreSQL server, in a program that was built without
/// its client (feature `postgres`).
pub const WITHOUT_POSTGRES: &str = "\
    this program was built without PostgreSQL (feature `postgres`): build it with \
    `cargo build --release --workspace --bins --features full`";

/// The table `[state]`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateConfig {
    /// The URL `postgres://USER@HOST/DATABASE`. A password may be in it, in `url_file`, in
    /// `PGPASSWORD` or in `PGPASSFILE`.
    pub url: Option<String>,
    /// A file whose only line is the URL.
    pub url_file: Option<PathBuf>,
}

/// Omits the URL, which may hold a password.
impl fmt::Debug for StateConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateConfig")
    }
}

impl StateConfig {
    /// Creates the settings of the state at this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), url_file: None }
    }

    /// Opens the table of a party, which connects when it is first used.
    ///
    /// # Errors
    /// A message about the URL, which is never quoted.
    pub fn open(&self, party: &PartyName) -> Result<Arc<dyn StateTable>, String> {
        open_table(self.url.as_deref(), self.url_file.as_deref(), party)
    }
}

/// Returns the place of a party's state: a folder, or the table of `[state]`.
///
/// # Errors
/// A message if both or neither are named, or about the URL, which is never quoted.
pub fn place_of_state(
    folder: Option<&Path>,
    shared: Option<&StateConfig>,
    party: &PartyName,
) -> Result<StateDir, String> {
    match (folder, shared) {
        (Some(folder), None) => Ok(folder.into()),
        (None, Some(state)) => {
            state.open(party).map(StateDir::from).map_err(|e| format!("[state]: {e}"))
        }
        _ => Err("name `state_dir`, or a database in [state], and not both".into()),
    }
}

/// Refuses a table, and names the fix.
#[cfg(not(feature = "postgres"))]
fn open_table(
    _: Option<&str>,
    _: Option<&Path>,
    _: &PartyName,
) -> Result<Arc<dyn StateTable>, String> {
    Err(WITHOUT_POSTGRES.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_table_is_refused_with_the_feature_to_build_with_where_there_is_no_client_of_it() {
        let config = StateConfig::new("postgres://u:hunter2@db.example/state");
        let opened = place_of_state(None, Some(&config), &PartyName::new("p").unwrap());
        match cfg!(feature = "postgres") {
            true => drop(opened.unwrap()),
            false => {
                let said = opened.map(drop).unwrap_err();
                assert!(
                    said.contains("[state]: ") && said.contains("feature `postgres`"),
                    "{said}"
                );
                assert!(said.contains("--features full") && !said.contains("hunter2"), "{said}");
            }
        }
    }
}
