//! `[alignment]`: finding the records that this party and an active party both hold.

use std::path::PathBuf;

use serde::Deserialize;
use vfl_core::types::PartyName;
use vfl_features::features::Features;
use vfl_party::alignment::OwnIds;
use vfl_protocol::alignment::{MAX_RECORDS, Rules};

/// The `[alignment]` table: finding the records that this party and an active party both hold.
///
/// Each run tells the other party which ids of a list of its own choice are held here, so nothing
/// is allowed by default.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AlignmentTable {
    /// True if this party aligns. Default false.
    pub allowed: bool,
    /// The active party it aligns with, by the name in its certificate. No default: needed if
    /// alignment is allowed.
    pub active_party: Option<PartyName>,
    /// The number of runs over the life of the state directory. A run that was cut off counts if it
    /// sent anything that depends on this party's ids. Default 1.
    pub max_runs: u32,
    /// The largest number of ids of either party. Default 10 000 000.
    pub max_records: u64,
    /// The least number of common ids. With fewer, the active party is not told which they are, and
    /// the run counts. Default 100.
    pub least_common: u64,
    /// A second file for the ids in common, one a line, beside the one in the state directory
    /// (`alignments/`). Default none.
    pub out: Option<PathBuf>,
    /// A file with the only ids that may be aligned, one a line. Default all records; needed if the
    /// features are behind an HTTP feature service, which cannot list them. The file is read when a
    /// run begins.
    pub ids: Option<PathBuf>,
}

impl Default for AlignmentTable {
    fn default() -> Self {
        Self {
            allowed: false,
            active_party: None,
            max_runs: 1,
            max_records: MAX_RECORDS,
            least_common: 100,
            out: None,
            ids: None,
        }
    }
}

impl AlignmentTable {
    /// Returns the rules of a run.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules {
            max_runs: self.max_runs,
            max_records: self.max_records,
            least_common: self.least_common,
            out: self.out.clone(),
        }
    }

    /// Returns the ids to align, of the records with these features.
    #[must_use]
    pub fn own_ids(&self, features: &Features) -> OwnIds {
        OwnIds::new(features.clone(), self.ids.clone())
    }

    /// Checks the table, for a party with these features.
    ///
    /// # Errors
    /// A message that says what is wrong and how to mend it.
    pub fn check(&self, features: &Features) -> Result<(), String> {
        if self.allowed && self.active_party.is_none() {
            return Err(
                "`allowed = true` needs `active_party`, the name of the one active party it is for"
                    .into(),
            );
        }
        let own = self.own_ids(features);
        if self.allowed && !own.known() {
            return Err("`allowed = true` needs `ids`, a file with the ids to align, one a line: the feature service of [data.http] \
                        cannot list its records"
                .into());
        }
        own.check()?;
        self.rules().check()
    }
}
