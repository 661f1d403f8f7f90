//! The record of the trainings that a party took part in: who asked, with which configuration, on
//! which records, and how many steps.
//!
//! Training reveals more about a record than serving does, whether or not it results in a model. So
//! each party records a training durably before anything that depends on parameters leaves it, and
//! an aborted training counts like any other.
//!
//! The journal is an append-only file of JSON lines, with a file of record ids for each set of
//! records. A last line that was cut off by a crash is removed on opening: the event that it
//! announced had not happened yet. If several processes share the state, a line is added to the
//! newest content, whichever process wrote that.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::json::json_error;
use vfl_core::model::TrainingConfig;
use vfl_core::types::{ModelVersion, PartyName, RecordIds};

use crate::state_dir::StateDir;
use crate::state_file::{StateFile, StateFileError};
use crate::state_table::Revision;

/// The name of the journal file.
const FILE: &str = "journal.jsonl";
/// Seconds of a day.
const DAY_S: i64 = 86_400;

/// The advice for a damaged file.
const FIX: &str = "it says which records were trained on: restore it from a backup";

/// Errors from reading or writing the journal.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct JournalError(#[from] StateFileError);

impl JournalError {
    /// Returns true if the database could not be reached; see [`StateFileError::away`].
    #[must_use]
    pub fn away(&self) -> bool {
        self.0.away()
    }
}

/// A training that a party is asked to take part in.
#[derive(Debug, Clone)]
pub struct Proposal {
    /// The active party that asks.
    pub active_party: PartyName,
    /// The training configuration.
    pub config: TrainingConfig,
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// The records, including those for validation.
    pub ids: RecordIds,
}

/// The terms of a training: a proposal before its records are named.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The active party that asks.
    pub active_party: &'a PartyName,
    /// The configuration.
    pub config: &'a TrainingConfig,
    /// The classes.
    pub class_names: &'a [String],
    /// The number of records, those of the validation among them.
    pub records: usize,
}

impl Proposal {
    /// Returns the terms, which do not depend on which records they are.
    #[must_use]
    pub fn terms(&self) -> Terms<'_> {
        let Self { active_party, config, class_names, ids } = self;
        Terms { active_party, config, class_names, records: ids.len() }
    }
}

/// A training in the journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Training {
    /// The number, from 1, in the order in which the trainings began.
    pub number: u64,
    /// The start, in Unix seconds.
    pub begun_at: i64,
    /// The active party that asked.
    pub active_party: PartyName,
    /// The training configuration.
    pub config: TrainingConfig,
    /// The names of the classes.
    pub class_names: Vec<String>,
    /// The number of records, including those for validation.
    pub records: u64,
    /// SHA-256 of the record ids in order: the name of the file that lists them.
    pub ids: String,
    /// The number of steps taken, or a lower bound. After a crash the true number is below twice
    /// this one.
    pub steps: u64,
    /// The end, in Unix seconds; absent after a crash, and while the training runs.
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
        config: Box<TrainingConfig>,
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
    /// A training that was refused because of records that are not held. It counts against the
    /// daily limit, so that membership cannot be queried without end.
    Refused {
        at: i64,
        active_party: PartyName,
    },
}

#[derive(Default)]
struct JournalState {
    trainings: Vec<Training>,
    refused: Vec<i64>,
}

impl JournalState {
    /// Applies a line. Lines of a training that never began are damage.
    fn add(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::Begun { number, at, active_party, config, class_names, records, ids } => {
                if number != self.trainings.len() as u64 + 1 {
                    return Err(format!(
                        "training {number} does not follow training {}",
                        self.trainings.len()
                    ));
                }
                self.trainings.push(Training {
                    number,
                    begun_at: at,
                    active_party,
                    config: *config,
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
                (training.ended_at, training.steps, training.published) =
                    (Some(at), steps, published);
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

/// The numbers of trainings within a day (including refused ones) and in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// The trainings within a day, including refused ones.
    pub today: u64,
    /// All trainings that began.
    pub ever: u64,
}

impl JournalState {
    /// Counts the trainings; see [`Journal::counts`].
    fn counts(&self, now: i64) -> Counts {
        let recent = |at: &i64| *at > now.saturating_sub(DAY_S);
        let begun = self.trainings.iter().filter(|t| recent(&t.begun_at)).count();
        let refused = self.refused.iter().filter(|at| recent(at)).count();
        Counts { today: (begun + refused) as u64, ever: self.trainings.len() as u64 }
    }
}

/// The store to which lines are added.
enum LineStore {
    /// A file of this process alone, open at its end.
    Own(File),
    /// The content of all processes, as last read.
    Shared { seen: Revision, content: Vec<u8> },
}

struct OpenJournal {
    lines: LineStore,
    known: JournalState,
}

/// The open journal of one party.
pub struct Journal {
    dir: StateDir,
    state: Mutex<OpenJournal>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({})", self.dir.path().display())
    }
}

impl Journal {
    /// Opens the journal in a directory of its own, and creates it if necessary.
    ///
    /// # Errors
    /// [`JournalError`] with the file that cannot be read or is damaged.
    pub fn open(dir: impl Into<StateDir>) -> Result<Self, JournalError> {
        let dir = dir.into();
        let file = dir.file(FILE, FIX);
        let (known, content, seen) = read(&file)?;
        let Some(folder) = dir.folder() else {
            let open = OpenJournal { lines: LineStore::Shared { seen, content }, known };
            return Ok(Self { dir, state: Mutex::new(open) });
        };
        dir.make()?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = options.open(file.path()).map_err(file.io("read"))?;
        // A line that a crash cut off records nothing that happened.
        opened.set_len(content.len() as u64).map_err(file.io("write"))?;
        opened.sync_all().map_err(file.io("write"))?;
        File::open(folder).and_then(|d| d.sync_all()).map_err(file.io("write"))?;
        let opened = OpenOptions::new().append(true).open(file.path()).map_err(file.io("write"))?;
        Ok(Self { dir, state: Mutex::new(OpenJournal { lines: LineStore::Own(opened), known }) })
    }

    /// Reads the trainings of the journal in a directory, without opening it for writing; none if
    /// there is no journal.
    ///
    /// # Errors
    /// [`JournalError`] with the file that cannot be read or is damaged.
    pub fn list(dir: impl Into<StateDir>) -> Result<Vec<Training>, JournalError> {
        Ok(read(&dir.into().file(FILE, FIX))?.0.trainings)
    }

    /// Reads the lines of other processes, if several share the state.
    ///
    /// # Errors
    /// [`JournalError`] if the state cannot be read.
    pub fn refresh(&self) -> Result<(), JournalError> {
        refresh(&self.file(), &mut self.lock())
    }

    /// Records durably that a training begins, and returns its number.
    ///
    /// # Errors
    /// [`JournalError`]; the training must not begin then.
    pub fn begin(&self, proposal: &Proposal, at: i64) -> Result<u64, JournalError> {
        self.begin_if(proposal, at, |_| Ok(()))
    }

    /// Like [`Journal::begin`], if `allowed` accepts the earlier trainings. Of two trainings that
    /// begin at the same time in any processes, one is first, and counts for the other.
    ///
    /// # Errors
    /// The error of `allowed`, or [`JournalError`]; the training must not begin then.
    pub fn begin_if<E: From<JournalError>>(
        &self,
        proposal: &Proposal,
        at: i64,
        allowed: impl Fn(Counts) -> Result<(), E>,
    ) -> Result<u64, E> {
        let mut content = String::new();
        for id in proposal.ids.iter() {
            content.push_str(id);
            content.push('\n');
        }
        let ids = hex(Sha256::digest(content.as_bytes()));
        let records = self.ids_file(&ids);
        if records.read().map_err(JournalError)?.is_none() {
            records.write(content.as_bytes()).map_err(JournalError)?;
        }
        let mut number = 0;
        self.append(|known| {
            allowed(known.counts(at))?;
            number = known.trainings.len() as u64 + 1;
            Ok::<_, E>(Line::Begun {
                number,
                at,
                active_party: proposal.active_party.clone(),
                config: Box::new(proposal.config.clone()),
                class_names: proposal.class_names.clone(),
                records: proposal.ids.len() as u64,
                ids: ids.clone(),
            })
        })?;
        Ok(number)
    }

    /// Records that step `step` (from 1) of a training is about to be taken. Only powers of two are
    /// written, so that a crash loses at most half of the count.
    ///
    /// # Errors
    /// [`JournalError`]; the step must not be taken then.
    pub fn reach(&self, number: u64, step: u64) -> Result<(), JournalError> {
        if !step.is_power_of_two() {
            return Ok(());
        }
        self.append(|_| Ok(Line::Reached { number, steps: step }))
    }

    /// Records the end of a training.
    ///
    /// # Errors
    /// [`JournalError`] if it cannot be written.
    pub fn end(
        &self,
        number: u64,
        steps: u64,
        published: Option<&ModelVersion>,
        at: i64,
    ) -> Result<(), JournalError> {
        self.append(|_| Ok(Line::Ended { number, at, steps, published: published.cloned() }))
    }

    /// Records that a training was refused because of records that are not held here.
    ///
    /// # Errors
    /// [`JournalError`] if it cannot be written.
    pub fn refuse(&self, active_party: &PartyName, at: i64) -> Result<(), JournalError> {
        self.append(|_| Ok(Line::Refused { at, active_party: active_party.clone() }))
    }

    /// Returns the numbers of trainings within a day before `now` (including refused ones) and in
    /// total, as far as known here. If the clock was set back, trainings that seem to be in the
    /// future count as today.
    #[must_use]
    pub fn counts(&self, now: i64) -> Counts {
        self.lock().known.counts(now)
    }

    /// Returns all trainings, in the order in which they began, as far as known here.
    #[must_use]
    pub fn trainings(&self) -> Vec<Training> {
        self.lock().known.trainings.clone()
    }

    /// Reads the records of a training, in its order.
    ///
    /// # Errors
    /// [`JournalError`] if the file is missing or damaged.
    pub fn records(&self, training: &Training) -> Result<RecordIds, JournalError> {
        let file = self.ids_file(&training.ids);
        let content = file.read()?.ok_or_else(|| file.damaged("it is missing"))?;
        if hex(Sha256::digest(&content)) != training.ids {
            return Err(file.damaged("its content does not match its name").into());
        }
        let content = String::from_utf8(content).map_err(|e| file.damaged(e.utf8_error()))?;
        Ok(RecordIds::new(content.split_terminator('\n')).map_err(|e| file.damaged(e))?)
    }

    /// Adds a line computed from the newest content, and retries if another process was faster.
    fn append<E: From<JournalError>>(
        &self,
        mut line: impl FnMut(&JournalState) -> Result<Line, E>,
    ) -> Result<(), E> {
        let file = self.file();
        let mut state = self.lock();
        loop {
            refresh(&file, &mut state)?;
            let line = line(&state.known)?;
            if add(&file, &mut state, line)? {
                return Ok(());
            }
        }
    }

    fn file(&self) -> StateFile {
        self.dir.file(FILE, FIX)
    }

    fn ids_file(&self, digest: &str) -> StateFile {
        self.dir.file(&format!("{digest}.ids"), FIX)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, OpenJournal> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the lines of other processes.
fn refresh(file: &StateFile, state: &mut OpenJournal) -> Result<(), JournalError> {
    let LineStore::Shared { seen, content } = &mut state.lines else { return Ok(()) };
    let Some((revision, newer)) = file.read_newer(Some(*seen))? else { return Ok(()) };
    let newer = newer.unwrap_or_default();
    state.known = parse(file, &newer)?;
    (*seen, *content) = (revision, newer);
    Ok(())
}

/// Adds a line durably. Returns false if another process has added one meanwhile.
fn add(file: &StateFile, state: &mut OpenJournal, line: Line) -> Result<bool, JournalError> {
    let io = file.io("write");
    let mut text = serde_json::to_vec(&line).map_err(|e| io(e.into()))?;
    text.push(b'\n');
    match &mut state.lines {
        LineStore::Own(opened) => {
            let before = opened.metadata().map_err(&io)?.len();
            if let Err(error) = opened.write_all(&text).and_then(|()| opened.sync_data()) {
                // A half-written line in the middle would count as damage.
                let _ = opened.set_len(before);
                return Err(io(error).into());
            }
        }
        LineStore::Shared { seen, content } => {
            let longer = [&**content, &*text].concat();
            let Some(revision) = file.swap(*seen, &longer)? else { return Ok(false) };
            (*seen, *content) = (revision, longer);
        }
    }
    state.known.add(line).map_err(|reason| file.damaged(reason))?;
    Ok(true)
}

/// Reads a file: its parsed lines, the bytes of its complete lines, and its revision.
fn read(file: &StateFile) -> Result<(JournalState, Vec<u8>, Revision), JournalError> {
    let (revision, content) = file.read_newer(None)?.unwrap_or_default();
    let mut content = content.unwrap_or_default();
    content.truncate(content.iter().rposition(|&b| b == b'\n').map_or(0, |last| last + 1));
    Ok((parse(file, &content)?, content, revision))
}

fn parse(file: &StateFile, content: &[u8]) -> Result<JournalState, JournalError> {
    let mut known = JournalState::default();
    for (position, line) in content.split_inclusive(|&b| b == b'\n').enumerate() {
        let damaged = |reason: String| file.damaged(format!("line {}: {reason}", position + 1));
        let line = serde_json::from_slice(line).map_err(|e| damaged(json_error(&e)))?;
        known.add(line).map_err(damaged)?;
    }
    Ok(known)
}

#[cfg(test)]
mod tests;
