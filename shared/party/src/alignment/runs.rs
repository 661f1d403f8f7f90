//! The record of a party's alignments on disk: peer, numbers of ids and outcome of each. The limit
//! on runs is counted from it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::clock::{now, utc};
use vfl_core::hex;
use vfl_core::types::{PartyName, RecordIds};
use vfl_protocol::alignment::{CommonIds, IdCounts, Rules, Side};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::files::write_atomic;
use vfl_state::state_dir::StateDir;
use vfl_state::state_file::{StateFile, StateFileError};
use vfl_state::state_table::Revision;

/// The advice for a damaged record.
const FIX: &str = "it counts alignments: restore it from a backup";

/// The schema version of the file.
const SCHEMA: u32 = 1;

/// A run that counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEntry {
    /// The number of the run, from 1.
    pub number: u32,
    /// The name of the other party.
    pub peer: PartyName,
    /// The start of the run in Unix seconds.
    pub begun_at: i64,
    /// The number of ids of this party.
    pub own: u64,
    /// The number of ids of the other party.
    pub theirs: u64,
    /// SHA-256 of this party's sorted ids: the same for the same set.
    pub set: String,
    /// The outcome. Absent if the run was interrupted, was refused, or is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnd>,
}

/// The end of a run that both parties completed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// The end of the run in Unix seconds.
    pub at: i64,
    /// The number of common ids.
    pub common: u64,
    /// The error from writing the file that `[alignment] out` names, if it failed. The party has
    /// the ids in its state directory all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub out_failed: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    schema: u32,
    runs: Vec<RunEntry>,
}

/// The runs of a state directory.
pub(super) struct Runs {
    /// The role of the party whose runs they are.
    side: Side,
    dir: StateDir,
    /// Serialises the changes of this process to the file. Of several processes, the faster one
    /// changes it.
    turn: Mutex<()>,
}

fn dir(state_dir: impl Into<StateDir>) -> StateDir {
    state_dir.into().below("alignments")
}

fn file(dir: &StateDir) -> StateFile {
    dir.file("runs.json", FIX)
}

/// Reads the record and its revision.
fn read(dir: &StateDir) -> Result<(Revision, Record), StateFileError> {
    let file = file(dir);
    let (revision, content) = file.read_newer(None)?.unwrap_or_default();
    let record = content.map(|content| file.parse_one_of(&content, &[SCHEMA])).transpose()?;
    Ok((revision, record.map_or(Record { schema: SCHEMA, runs: Vec::new() }, |(_, record)| record)))
}

/// Returns the runs that a state directory records, in their order.
///
/// # Errors
/// [`StateFileError`] if the record cannot be read.
pub fn runs(state_dir: impl Into<StateDir>) -> Result<Vec<RunEntry>, StateFileError> {
    Ok(read(&dir(state_dir))?.1.runs)
}

/// Describes the newest complete alignment with each other party: how many of the ids were in
/// common. Nothing is asked of anybody.
#[must_use]
pub fn common_ids(state_dir: impl Into<StateDir>) -> Vec<String> {
    // A record that cannot be read is told of where it is used.
    let runs = runs(state_dir).unwrap_or_default();
    let mut newest = BTreeMap::new();
    newest.extend(
        runs.iter().filter_map(|run| Some((run.peer.as_str(), (run, run.ended.as_ref()?)))),
    );
    let line = |(peer, (run, ended)): (&str, (&RunEntry, &RunEnd))| {
        let (own, common, at) =
            (run.own, ended.common, utc(u64::try_from(ended.at).unwrap_or_default()));
        let few = match 2 * common < own.min(run.theirs) {
            true => "; compare the forms of the ids with the other party's `check`",
            false => "",
        };
        format!(
            "aligned with `{peer}` on {at} UTC: {common} of the {own} ids here are in common{few}"
        )
    };
    newest.into_iter().map(line).collect()
}

impl Runs {
    /// Opens the record of a state directory, which may not exist yet.
    ///
    /// # Errors
    /// [`StateFileError`] if the record exists and cannot be read.
    pub(super) fn open(side: Side, state_dir: impl Into<StateDir>) -> Result<Self, StateFileError> {
        let runs = Self { side, dir: dir(state_dir), turn: Mutex::default() };
        read(&runs.dir)?;
        Ok(runs)
    }

    /// Returns the number of runs left with another party.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if none is left.
    pub(super) fn left(&self, peer: &PartyName, rules: &Rules) -> Result<u32, Refusal> {
        let (_, record) = read(&self.dir).map_err(|e| self.unreadable(&e))?;
        left(&record, peer, rules)
    }

    /// Changes the newest record, and retries if another process was faster.
    fn change<T>(
        &self,
        mut change: impl FnMut(&mut Record) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let file = file(&self.dir);
        loop {
            let (seen, mut record) = read(&self.dir).map_err(|e| self.unreadable(&e))?;
            let done = change(&mut record)?;
            let written = file.json(&record).and_then(|content| file.swap(seen, &content));
            if written.map_err(|e| self.unwritten(&e))?.is_some() {
                return Ok(done);
            }
        }
    }

    /// Records that a run counts. Returns its number and the runs left after it.
    ///
    /// # Errors
    /// As [`Self::left`]; INTERNAL if the record cannot be written.
    pub(super) fn begin(
        &self,
        peer: &PartyName,
        sizes: IdCounts,
        ids: &RecordIds,
        rules: &Rules,
    ) -> Result<(u32, u32), Refusal> {
        let set = set_name(ids);
        let IdCounts { own, theirs } = sizes;
        let (number, left) = self.change(|record| {
            let left = left(record, peer, rules)? - 1;
            let number = record.runs.last().map_or(0, |run| run.number) + 1;
            let (peer, set) = (peer.clone(), set.clone());
            record.runs.push(RunEntry {
                number,
                peer,
                begun_at: now(),
                own,
                theirs,
                set,
                ended: None,
            });
            Ok((number, left))
        })?;
        tracing::info!(%peer, number, own, theirs, left, "an alignment is written down: it counts from here on");
        Ok((number, left))
    }

    /// Stores the result of a run: first the ids in a file of the state directory that only its
    /// owner may read, then the entry, then the file that the operator configured. Both parties
    /// have the result by then, so a failure of that last file concerns the operator alone.
    ///
    /// # Errors
    /// INTERNAL if a file of the state directory cannot be written.
    pub(super) fn keep(
        &self,
        number: u32,
        common: &CommonIds,
        rules: &Rules,
    ) -> Result<(), Refusal> {
        let text: String = common.ids.iter().flat_map(|id| [id, "\n"]).collect();
        let own = self.change(|record| {
            let Some(run) = record.runs.iter_mut().find(|run| run.number == number) else {
                return Err(Refusal::internal(
                    "the record of alignments has lost a run; restore it from a backup",
                ));
            };
            run.ended =
                Some(RunEnd { at: now(), common: common.ids.len() as u64, out_failed: None });
            let own = self.dir.file(&format!("{number}-{}.ids", run.peer), FIX);
            own.write(text.as_bytes()).map_err(|e| self.unwritten(&e))?;
            Ok(own)
        })?;
        let Some(out) = &rules.out else { return Ok(()) };
        let Err(error) = write_atomic(out, text.as_bytes(), true) else { return Ok(()) };
        let failed = format!("cannot write {}: {error}", out.display());
        tracing::error!(
            number,
            "the ids in common are not where `out` in [alignment] says: {failed}; the run stands, copy them from {}",
            own.path().display()
        );
        // The error is in the log, and the run is valid without this entry.
        let _ = self.change(|record| {
            let run = record.runs.iter_mut().find(|run| run.number == number);
            if let Some(ended) = run.and_then(|run| run.ended.as_mut()) {
                ended.out_failed = Some(failed.clone());
            }
            Ok(())
        });
        Ok(())
    }

    /// Names the party whose log has the reason. The other party learns no more.
    fn whose(&self) -> &'static str {
        match self.side {
            Side::Active => "the active party's",
            Side::Passive => "the passive party's",
        }
    }

    fn unreadable(&self, error: &StateFileError) -> Refusal {
        tracing::error!(%error, "the record of alignments cannot be read");
        let whose = self.whose();
        let reason = format!(
            "{whose} record of alignments cannot be read, so none begins; {whose} log says why"
        );
        Refusal::own_state(error.away(), reason)
    }

    fn unwritten(&self, error: &StateFileError) -> Refusal {
        tracing::error!(%error, "an alignment cannot be written down");
        let reason = format!("the alignment cannot be written down; {} log says why", self.whose());
        Refusal::own_state(error.away(), reason)
    }
}

fn left(record: &Record, peer: &PartyName, rules: &Rules) -> Result<u32, Refusal> {
    let begun = record.runs.iter().filter(|run| run.peer == *peer).count();
    let left = rules.max_runs.saturating_sub(u32::try_from(begun).unwrap_or(u32::MAX));
    if left > 0 {
        return Ok(left);
    }
    let message = format!(
        "{begun} alignments with `{peer}` have begun here, and `max_runs = {}` in [alignment] allows no more; each tells which ids of \
         a list are held, so raise it only for a party that may ask again",
        rules.max_runs
    );
    Err(Refusal::new(RefusalKind::ResourceExhausted, message))
}

/// Returns the name of a set of ids, independent of their order.
fn set_name(ids: &RecordIds) -> String {
    let mut sorted: Vec<&str> = ids.iter().collect();
    sorted.sort_unstable();
    let mut hash = Sha256::new();
    for id in sorted {
        hash.update((id.len() as u64).to_le_bytes());
        hash.update(id.as_bytes());
    }
    hex(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(max_runs: u32) -> Rules {
        Rules { max_runs, max_records: 10, least_common: 0, out: None }
    }

    fn name(name: &str) -> PartyName {
        PartyName::new(name).unwrap()
    }

    #[test]
    fn runs_are_counted_on_disk_for_each_peer() {
        let dir = tempfile::tempdir().unwrap();
        let (ids, sizes) = (RecordIds::new(["b", "a"]).unwrap(), IdCounts { own: 2, theirs: 3 });
        let open = || Runs::open(Side::Active, dir.path()).unwrap();
        assert_eq!(open().begin(&name("a"), sizes, &ids, &rules(2)).unwrap(), (1, 1));
        assert_eq!(open().begin(&name("b"), sizes, &ids, &rules(1)).unwrap(), (2, 0));
        // A run that was cut off counts, also after a restart.
        assert_eq!(open().left(&name("a"), &rules(2)).unwrap(), 1);
        let spent = open().begin(&name("b"), sizes, &ids, &rules(1)).unwrap_err();
        assert!(
            spent.kind == RefusalKind::ResourceExhausted && spent.message.contains("max_runs = 1"),
            "{spent}"
        );
        assert!(open().left(&name("c"), &rules(0)).is_err());
        let listed = runs(dir.path()).unwrap();
        assert_eq!(listed.iter().map(|run| run.peer.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(listed[0].set, set_name(&RecordIds::new(["a", "b"]).unwrap()));
        assert!(listed.iter().all(|run| run.ended.is_none()));
    }

    #[test]
    fn results_are_private_files_and_an_entry() {
        let dir = tempfile::tempdir().unwrap();
        let rules = Rules { out: Some(dir.path().join("out/common.ids")), ..rules(1) };
        let (ids, sizes) = (RecordIds::new(["a", "b"]).unwrap(), IdCounts { own: 2, theirs: 2 });
        let runs_of = Runs::open(Side::Passive, dir.path()).unwrap();
        let (number, _) = runs_of.begin(&name("p"), sizes, &ids, &rules).unwrap();
        assert!(common_ids(dir.path()).is_empty(), "nothing has come of it yet");
        runs_of.keep(number, &CommonIds { ids, sizes }, &rules).unwrap();
        let [line] = common_ids(dir.path()).try_into().unwrap();
        assert!(
            line.starts_with("aligned with `p` on ")
                && line.ends_with("2 of the 2 ids here are in common"),
            "{line}"
        );
        for path in ["alignments/1-p.ids", "out/common.ids"] {
            let path = dir.path().join(path);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt;
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            }
        }
        assert_eq!(runs(dir.path()).unwrap()[0].ended.as_ref().unwrap().common, 2);
        assert!(runs_of.keep(9, &CommonIds { ids: RecordIds::default(), sizes }, &rules).is_err());
    }

    /// A place for the operator's own copy that cannot be written costs nobody the run.
    #[test]
    fn a_result_stands_without_the_operators_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (ids, sizes) = (RecordIds::new(["a", "b"]).unwrap(), IdCounts { own: 2, theirs: 2 });
        // A file where a directory would have to be.
        std::fs::write(dir.path().join("taken"), "").unwrap();
        let rules = Rules { out: Some(dir.path().join("taken/common.ids")), ..rules(1) };
        let runs_of = Runs::open(Side::Passive, dir.path()).unwrap();
        let (number, _) = runs_of.begin(&name("p"), sizes, &ids, &rules).unwrap();
        runs_of.keep(number, &CommonIds { ids, sizes }, &rules).unwrap();
        assert_eq!(
            std::fs::read_to_string(dir.path().join("alignments/1-p.ids")).unwrap(),
            "a\nb\n"
        );
        let ended = runs(dir.path()).unwrap()[0].ended.clone().unwrap();
        assert_eq!(ended.common, 2);
        assert!(ended.out_failed.unwrap().contains("taken/common.ids"));
    }

    /// A failure to store the result in the state directory is a refusal that names the party whose
    /// log has the reason, and no path.
    #[test]
    fn a_result_that_cannot_be_kept_names_the_party() {
        for (side, whose) in
            [(Side::Active, "the active party's log"), (Side::Passive, "the passive party's log")]
        {
            let dir = tempfile::tempdir().unwrap();
            let (ids, sizes) = (RecordIds::new(["a"]).unwrap(), IdCounts { own: 1, theirs: 1 });
            let runs_of = Runs::open(side, dir.path()).unwrap();
            std::fs::write(dir.path().join("alignments"), "").unwrap();
            let refused = runs_of.begin(&name("p"), sizes, &ids, &rules(1)).unwrap_err();
            assert!(refused.message.contains(whose), "{refused}");
            assert!(!refused.message.contains(&dir.path().display().to_string()), "{refused}");
        }
    }

    #[test]
    fn a_damaged_record_lets_nothing_begin() {
        let dir = tempfile::tempdir().unwrap();
        let runs_of = Runs::open(Side::Passive, dir.path()).unwrap();
        std::fs::create_dir(dir.path().join("alignments")).unwrap();
        std::fs::write(dir.path().join("alignments/runs.json"), "{\"schema\": 1, \"runs\": [")
            .unwrap();
        assert!(matches!(
            Runs::open(Side::Passive, dir.path()),
            Err(StateFileError::Damaged { .. })
        ));
        let refused = runs_of.left(&name("a"), &rules(5)).unwrap_err();
        assert!(!refused.message.contains("runs.json"), "{refused}");
        assert!(refused.message.contains("the passive party's log says why"), "{refused}");
    }
}
