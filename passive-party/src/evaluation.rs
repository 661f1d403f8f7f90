//! Scores reconstructions against the truth, which stays here.
//!
//! What a scoring tells is bounded: at least [`MIN_RECORDS`] records, sets that are equal or disjoint (two sets that differ
//! by one record would tell of that record), a bounded number of scorings of each set, counted on disk before an answer
//! leaves, and three significant digits.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_shared::data::{FeatureStore, FeatureTable};
use vfl_shared::files::write_atomic;
use vfl_shared::hex;
use vfl_shared::metrics::{MetricError, SquaredError, column_mean_error, half_error, mse};
use vfl_shared::numerics::three_significant_digits;
use vfl_shared::rpc::{Refusal, RefusalKind, pb};
use vfl_shared::types::{FeatureBlock, RecordIds};

/// The fewest records of a scoring.
pub const MIN_RECORDS: usize = 100;

/// Why the record of scorings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The disk refuses.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// read or write.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is not what was written.
    #[error("{} is damaged: {reason}; it counts what auditors were told: restore it from a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// A set of records that was scored, and how often.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScoredSet {
    /// Hash of the sorted ids.
    set: String,
    ids: Vec<String>,
    scorings: u32,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    sets: Vec<ScoredSet>,
}

/// The record of all scorings, on disk.
pub struct Evaluations {
    path: PathBuf,
    max_scorings: u32,
    record: Mutex<Record>,
}

impl std::fmt::Debug for Evaluations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Evaluations({})", self.path.display())
    }
}

/// A set of records opened for scoring: the truth, and which set it is.
pub struct Evaluation {
    evaluations: Arc<Evaluations>,
    set: String,
    truth: FeatureBlock,
    half: pb::ReconstructionError,
    column_mean: pb::ReconstructionError,
}

impl Evaluations {
    /// Opens the record in a directory.
    ///
    /// # Errors
    /// [`EvaluationError`] if it cannot be read or is damaged.
    pub fn open(dir: &Path, max_scorings: u32) -> Result<Self, EvaluationError> {
        let path = dir.join("evaluations.json");
        let record = match std::fs::read(&path) {
            Ok(content) => serde_json::from_slice(&content)
                .map_err(|e| EvaluationError::Damaged { path: path.clone(), reason: e.to_string() })?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Record::default(),
            Err(source) => return Err(EvaluationError::Io { action: "read", path, source }),
        };
        Ok(Self { path, max_scorings, record: Mutex::new(record) })
    }

    /// Opens a set of records for scoring.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for fewer than 100 records, NOT_FOUND when some are not held here (how many, not which),
    /// FAILED_PRECONDITION when the set overlaps another one that was scored.
    pub fn start(self: &Arc<Self>, table: &FeatureTable, ids: &RecordIds) -> Result<Evaluation, Refusal> {
        if ids.len() < MIN_RECORDS {
            let message = format!("a scoring takes at least {MIN_RECORDS} records, {} came", ids.len());
            return Err(Refusal::invalid(message));
        }
        let missing = ids.iter().filter(|id| table.position(id).is_none()).count();
        if missing > 0 {
            let message = format!("{missing} of the {} records are not held here", ids.len());
            return Err(Refusal::new(RefusalKind::NotFound, message));
        }
        let truth = table.fetch(ids).map_err(|e| Refusal::internal(e.to_string()))?;
        let baseline = |error: Result<SquaredError, MetricError>| {
            error.as_ref().map(told).map_err(|e| Refusal::internal(e.to_string()))
        };
        let half = baseline(half_error(truth.matrix()))?;
        let column_mean = baseline(column_mean_error(truth.matrix()))?;
        let mut sorted: Vec<&str> = ids.iter().collect();
        sorted.sort_unstable();
        let mut hash = Sha256::new();
        for id in &sorted {
            hash.update((id.len() as u64).to_le_bytes());
            hash.update(id.as_bytes());
        }
        let set = hex(hash.finalize());
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.sets.iter().all(|s| s.set != set) {
            let wanted: HashSet<&str> = sorted.iter().copied().collect();
            if record.sets.iter().any(|s| s.ids.iter().any(|id| wanted.contains(id.as_str()))) {
                let message = "the set overlaps another one that was scored before; score that very set again, \
                               or one that shares no record with it";
                return Err(Refusal::precondition(message));
            }
            let ids = sorted.into_iter().map(str::to_owned).collect();
            record.sets.push(ScoredSet { set: set.clone(), ids, scorings: 0 });
            if let Err(refusal) = self.save(&record) {
                // What is not on disk must not count as known: after a restart the overlap would go unseen.
                record.sets.pop();
                return Err(refusal);
            }
        }
        Ok(Evaluation { evaluations: self.clone(), set, truth, half, column_mean })
    }

    fn save(&self, record: &Record) -> Result<(), Refusal> {
        let content = serde_json::to_vec(record).map_err(|e| Refusal::internal(e.to_string()))?;
        write_atomic(&self.path, &content, true).map_err(|error| {
            tracing::error!(path = %self.path.display(), %error, "a scoring cannot be counted on disk");
            Refusal::internal(
                "cannot count the scoring on disk, so it is not done; the passive party's log says why".to_owned(),
            )
        })
    }
}

impl Evaluation {
    /// How many scorings of this set are left.
    #[must_use]
    pub fn scorings_left(&self) -> u32 {
        let record = self.evaluations.record.lock().unwrap_or_else(PoisonError::into_inner);
        let used = record.sets.iter().find(|s| s.set == self.set).map_or(0, |s| s.scorings);
        self.evaluations.max_scorings.saturating_sub(used)
    }

    /// Number of features and of records.
    #[must_use]
    pub fn shape(&self) -> (usize, usize) {
        self.truth.matrix().shape()
    }

    /// Errors of the two estimates anyone can make: ½ everywhere, and each feature's mean over these records.
    #[must_use]
    pub fn baselines(&self) -> (pb::ReconstructionError, pb::ReconstructionError) {
        (self.half.clone(), self.column_mean.clone())
    }

    /// Errors of estimates (d × n), counted on disk before they are told.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when the shape is not [`Evaluation::shape`] or the error overflows, RESOURCE_EXHAUSTED when no
    /// scoring is left, INTERNAL when the disk does not take the count.
    pub fn score(&self, estimates: &DMatrix<f64>) -> Result<pb::ReconstructionError, Refusal> {
        let error = mse(estimates, self.truth.matrix()).map_err(|e| Refusal::invalid(e.to_string()))?;
        if !error.overall.is_finite() || !error.by_feature.iter().all(|e| e.is_finite()) {
            return Err(Refusal::invalid("the squared error of these estimates overflows"));
        }
        let mut record = self.evaluations.record.lock().unwrap_or_else(PoisonError::into_inner);
        let max = self.evaluations.max_scorings;
        let Some(entry) = record.sets.iter_mut().find(|s| s.set == self.set) else {
            return Err(Refusal::internal("the set of records is no longer open"));
        };
        if entry.scorings >= max {
            let message = format!("all {max} scorings of this set of records are used up; audit other records");
            return Err(Refusal::new(RefusalKind::ResourceExhausted, message));
        }
        entry.scorings += 1;
        self.evaluations.save(&record)?;
        Ok(told(&error))
    }
}

/// An error as it is told: three significant digits.
fn told(error: &SquaredError) -> pb::ReconstructionError {
    pb::ReconstructionError {
        mse: three_significant_digits(error.overall),
        mse_by_feature: error.by_feature.iter().map(|&e| three_significant_digits(e)).collect(),
    }
}
