//! The record of trainings that a party took part in: who asked, with which configuration, on which records, how far it went.
//!
//! Training shows more of a record than serving does, whether or not a model comes of it. So each party writes a training down,
//! durably, before anything that depends on parameters leaves it, and an aborted training counts like any other.
//!
//! The journal is a file of JSON lines that only grows, and a file of record ids for each set of records. A last line that was
//! cut off by a crash is removed on opening: what it would have announced had not happened yet.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files::make_dir;
use crate::hex;
use crate::json::json_error;
use crate::model::TrainingConfig;
use crate::state_file::{StateFile, StateFileError};
use crate::types::{ModelVersion, PartyName, RecordIds};

/// The name of the file of lines.
const FILE: &str = "journal.jsonl";
/// Seconds of a day.
const DAY_S: i64 = 86_400;

/// What to do about a damaged file.
const FIX: &str = "it says which records were trained on: restore it from a backup";

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct JournalError(#[from] StateFileError);

/// What a party is asked to train.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The active party that asks.
    pub active_party: PartyName,
    /// The configuration.
    pub config: TrainingConfig,
    /// The classes.
    pub class_names: Vec<String>,
    /// The records, those of the validation among them.
    pub ids: RecordIds,
}

/// A training as the journal knows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Training {
    /// From 1, in the order in which they began.
    pub number: u64,
    /// When it began, in Unix seconds.
    pub begun_at: i64,
    /// The active party that asked.
    pub active_party: PartyName,
    /// The configuration.
    pub config: TrainingConfig,
    /// The classes.
    pub class_names: Vec<String>,
    /// How many records, those of the validation among them.
    pub records: u64,
    /// SHA-256 of the record ids in order: the name of the file that lists them.
    pub ids: String,
    /// Steps that were taken at least. After a crash the true number is below twice this one.
    pub steps: u64,
    /// When it ended, in Unix seconds; absent after a crash, and while it goes on.
    pub ended_at: Option<i64>,
    /// The version that was published; absent if none was.
    pub published: Option<ModelVersion>,
}

/// A line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Begun {
        number: u64,
        at: i64,
        active_party: PartyName,
        config: TrainingConfig,
        class_names: Vec<String>,
        records: u64,
        ids: String,
    },
    Reached {
        number: u64,
        steps: u64,
    },
    Ended {
        number: u64,
        at: i64,
        steps: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        published: Option<ModelVersion>,
    },
    /// Asked for, and refused because of records that are not held: it counts against the limit of a day, so that membership
    /// cannot be asked for without end.
    Refused {
        at: i64,
        active_party: PartyName,
    },
}

#[derive(Default)]
struct Known {
    trainings: Vec<Training>,
    refused: Vec<i64>,
}

impl Known {
    /// Takes a line in. Lines of a training that never began are damage.
    fn add(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Begun { number, at, active_party, config, class_names, records, ids } => {
                if number != self.trainings.len() as u64 + 1 {
                    return Err(format!("training {number} does not follow training {}", self.trainings.len()));
                }
                self.trainings.push(Training {
                    number,
                    begun_at: at,
                    active_party,
                    config,
                    class_names,
                    records,
                    ids,
                    steps: 0,
                    ended_at: None,
                    published: None,
                });
            }
            Line::Reached { number, steps } => self.of(number)?.steps = steps,
            Line::Ended { number, at, steps, published } => {
                let training = self.of(number)?;
                (training.ended_at, training.steps, training.published) = (Some(at), steps, published);
            }
            Line::Refused { at, .. } => self.refused.push(at),
        }
        Ok(())
    }

    fn of(&mut self, number: u64) -> Result<&mut Training, String> {
        let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        let training = index.and_then(|i| self.trainings.get_mut(i));
        training.ok_or_else(|| format!("training {number} never began"))
    }
}

/// The journal of one party, open.
pub struct Journal {
    dir: PathBuf,
    state: Mutex<(File, Known)>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({})", self.dir.display())
    }
}

impl Journal {
    /// Opens (and makes) the journal in a directory of its own.
    ///
    /// # Errors
    /// [`JournalError`] naming the file that cannot be read or is damaged.
    pub fn open(dir: &Path) -> Result<Self, JournalError> {
        let path = dir.join(FILE);
        let io = |action| {
            let path = path.clone();
            move |source| StateFileError::io(action, path, source)
        };
        make_dir(dir).map_err(io("make"))?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path).map_err(io("read"))?;
        let (known, whole) = read(&path)?;
        // What a crash cut off had not happened.
        file.set_len(whole).map_err(io("write"))?;
        file.sync_all().map_err(io("write"))?;
        File::open(dir).and_then(|d| d.sync_all()).map_err(io("write"))?;
        let file = OpenOptions::new().append(true).open(&path).map_err(io("write"))?;
        Ok(Self { dir: dir.to_owned(), state: Mutex::new((file, known)) })
    }

    /// What the journal in a directory says, without opening it for writing; nothing if there is none.
    ///
    /// # Errors
    /// [`JournalError`] naming the file that cannot be read or is damaged.
    pub fn list(dir: &Path) -> Result<Vec<Training>, JournalError> {
        let path = dir.join(FILE);
        if path.exists() { Ok(read(&path)?.0.trainings) } else { Ok(Vec::new()) }
    }

    /// Writes down that a training begins, durably, and gives its number.
    ///
    /// # Errors
    /// [`JournalError`]: the training must not begin then.
    pub fn begin(&self, proposal: &Proposal, at: i64) -> Result<u64, JournalError> {
        let mut content = String::new();
        for id in proposal.ids.iter() {
            content.push_str(id);
            content.push('\n');
        }
        let ids = hex(Sha256::digest(content.as_bytes()));
        let path = self.ids_path(&ids);
        if !path.exists() {
            StateFile::new(path, FIX).write(content.as_bytes())?;
        }
        let mut state = self.lock();
        let number = state.1.trainings.len() as u64 + 1;
        self.append(
            &mut state,
            Line::Begun {
                number,
                at,
                active_party: proposal.active_party.clone(),
                config: proposal.config.clone(),
                class_names: proposal.class_names.clone(),
                records: proposal.ids.len() as u64,
                ids,
            },
        )?;
        Ok(number)
    }

    /// Says that step `step` (from 1) of a training is about to be taken. Powers of two are written down, so that a crash loses
    /// at most half of the count.
    ///
    /// # Errors
    /// [`JournalError`]: the step must not be taken then.
    pub fn reach(&self, number: u64, step: u64) -> Result<(), JournalError> {
        if !step.is_power_of_two() {
            return Ok(());
        }
        self.append(&mut self.lock(), Line::Reached { number, steps: step })
    }

    /// Writes down how a training ended.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn end(&self, number: u64, steps: u64, published: Option<&ModelVersion>, at: i64) -> Result<(), JournalError> {
        let published = published.cloned();
        self.append(&mut self.lock(), Line::Ended { number, at, steps, published })
    }

    /// Writes down that a training was refused because of records that are not held here.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn refuse(&self, active_party: &PartyName, at: i64) -> Result<(), JournalError> {
        self.append(&mut self.lock(), Line::Refused { at, active_party: active_party.clone() })
    }

    /// How many trainings there were within a day before `now` (refused ones among them), and how many ever. What a clock that
    /// was set back makes look like the future counts as today.
    #[must_use]
    pub fn counts(&self, now: i64) -> (u64, u64) {
        let state = self.lock();
        let recent = |at: &i64| *at > now.saturating_sub(DAY_S);
        let begun = state.1.trainings.iter().filter(|t| recent(&t.begun_at)).count();
        let refused = state.1.refused.iter().filter(|at| recent(at)).count();
        ((begun + refused) as u64, state.1.trainings.len() as u64)
    }

    /// All trainings, in the order in which they began.
    #[must_use]
    pub fn trainings(&self) -> Vec<Training> {
        self.lock().1.trainings.clone()
    }

    /// The records of a training, in its order.
    ///
    /// # Errors
    /// [`JournalError`] if the file is missing or not what was written.
    pub fn records(&self, training: &Training) -> Result<RecordIds, JournalError> {
        let file = StateFile::new(self.ids_path(&training.ids), FIX);
        let content = file.read()?.ok_or_else(|| file.damaged("it is missing"))?;
        if hex(Sha256::digest(&content)) != training.ids {
            return Err(file.damaged("its content does not match its name").into());
        }
        let content = String::from_utf8(content).map_err(|e| file.damaged(e.utf8_error()))?;
        Ok(RecordIds::new(content.split_terminator('\n')).map_err(|e| file.damaged(e))?)
    }

    fn append(&self, state: &mut (File, Known), line: Line) -> Result<(), JournalError> {
        let file = StateFile::new(self.dir.join(FILE), FIX);
        let io = file.io("write");
        let mut text = serde_json::to_vec(&line).map_err(|e| io(e.into()))?;
        text.push(b'\n');
        let before = state.0.metadata().map_err(&io)?.len();
        if let Err(error) = state.0.write_all(&text).and_then(|()| state.0.sync_data()) {
            // A half-written line in the middle would be damage.
            let _ = state.0.set_len(before);
            return Err(io(error).into());
        }
        Ok(state.1.add(line).map_err(|reason| file.damaged(reason))?)
    }

    fn ids_path(&self, digest: &str) -> PathBuf {
        self.dir.join(format!("{digest}.ids"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (File, Known)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of a file, and how many bytes of it are whole lines.
fn read(path: &Path) -> Result<(Known, u64), JournalError> {
    let file = StateFile::new(path, FIX);
    let content = file.read()?.unwrap_or_default();
    let whole = content.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1);
    let mut known = Known::default();
    for (position, line) in content[..whole].split_inclusive(|&b| b == b'\n').enumerate() {
        let damaged = |reason: String| file.damaged(format!("line {}: {reason}", position + 1));
        let line = serde_json::from_slice(line).map_err(|e| damaged(json_error(&e)))?;
        known.add(line).map_err(damaged)?;
    }
    Ok((known, whole as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::TrainingValues;

    fn proposal(ids: &[&str]) -> Proposal {
        Proposal {
            active_party: PartyName::new("active").unwrap(),
            config: TrainingConfig::try_from(TrainingValues::default()).unwrap(),
            class_names: vec!["a".into(), "b".into()],
            ids: RecordIds::new(ids).unwrap(),
        }
    }

    #[test]
    fn what_was_begun_is_known_after_a_restart_whether_or_not_it_ended() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let version = ModelVersion::new("m-1").unwrap();
        assert_eq!(journal.begin(&proposal(&["r1", "r2"]), 1000).unwrap(), 1);
        for step in 1..=9 {
            journal.reach(1, step).unwrap();
        }
        assert_eq!(journal.begin(&proposal(&["r2", "r3"]), 2000).unwrap(), 2);
        journal.end(2, 7, Some(&version), 2001).unwrap();
        journal.refuse(&PartyName::new("active").unwrap(), 2002).unwrap();
        let before = journal.trainings();
        drop(journal);
        let again = Journal::open(dir.path()).unwrap();
        assert_eq!(again.trainings(), before);
        assert_eq!((before[0].steps, before[0].ended_at), (8, None));
        assert_eq!((before[1].steps, before[1].published.as_ref()), (7, Some(&version)));
        assert_eq!(again.records(&before[1]).unwrap(), RecordIds::new(["r2", "r3"]).unwrap());
        assert_eq!(again.counts(2003), (3, 2));
        assert_eq!(again.counts(1000 + DAY_S), (2, 2));
        assert_eq!(again.counts(2002 + DAY_S), (0, 2));
        // A clock that was set back.
        assert_eq!(again.counts(0), (3, 2));
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_forgotten_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let journal = Journal::open(dir.path()).unwrap();
        journal.begin(&proposal(&["r1"]), 1).unwrap();
        journal.begin(&proposal(&["r2"]), 2).unwrap();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let first = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
        for cut in first..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let journal = Journal::open(dir.path()).unwrap();
            assert_eq!(journal.trainings().len(), 1, "cut at {cut}");
            assert_eq!(journal.begin(&proposal(&["r2"]), 2).unwrap(), 2);
            drop(journal);
            assert_eq!(std::fs::read(&path).unwrap(), whole);
        }
        let mut torn = whole.clone();
        torn[first / 2] = 0;
        std::fs::write(&path, &torn).unwrap();
        let error = Journal::open(dir.path()).unwrap_err().to_string();
        assert!(error.contains("line 1") && error.contains("damaged"), "{error}");
        std::fs::write(&path, &whole[first..]).unwrap();
        assert!(
            matches!(Journal::open(dir.path()), Err(JournalError(StateFileError::Damaged { .. }))),
            "its first line is gone"
        );
    }

    #[test]
    fn changed_ids_are_damage() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        journal.begin(&proposal(&["r1", "r2"]), 1).unwrap();
        let training = journal.trainings().remove(0);
        let path = journal.ids_path(&training.ids);
        std::fs::write(&path, "r1\n").unwrap();
        assert!(matches!(journal.records(&training), Err(JournalError(StateFileError::Damaged { .. }))));
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(journal.records(&training), Err(JournalError(StateFileError::Damaged { .. }))));
    }
}
