//! The releases of this party's parameters: each is made once for a share and a role, kept durably
//! before the first answer, and never changes. Of several processes that share the state, the first
//! to store a release has made it. Two different releases of one W_pas would reveal more than
//! either.
//!
//! A release belongs to the share's content, so that a model trained again to the very same
//! parameters is shown as before, whatever its version. Parameters that are nearly the same are
//! another share and get a release of their own: releases of a model trained again and again on
//! nearly the same data are not protected against being combined.
//!
//! Other parties are told that there is no release, not why: names of transforms, paths and figures
//! are for this party's log, and statistics of W_pas are not even for that.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::fs::File;
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::clock::utc;
use vfl_core::hex;
use vfl_core::metrics::Interpretability;
use vfl_core::model::NotLinear;
use vfl_core::types::{FeatureBlock, ModelVersion};
use vfl_numerics::three_significant_digits;
use vfl_protocol::Refusal;
use vfl_server::service::Role;
use vfl_state::StoredShare;
use vfl_state::state_dir::StateDir;
use vfl_state::state_file::{StateFile, StateFileError};
use vfl_state::state_table::Revision;
use vfl_transform::{RewrittenParameters, TransformConfig, TransformError, rewrite};

use crate::logits::LogitServer;
use crate::training_map::secret;

const SCHEMA: u32 = 1;

/// The most releases kept in memory.
const MAX_LOADED: usize = 8;

/// The advice for a damaged file.
const FIX: &str = "it holds what was shown of a model: restore it from a backup, or train again";

/// The error of a stored release that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ReleaseError(#[from] StateFileError);

/// Parameters as they are shown to a role.
#[derive(Clone, PartialEq)]
pub struct Release {
    /// The transform that makes them from the true ones.
    pub transform: TransformConfig,
    /// The weights, k × d; `None` for the true ones.
    pub weights: Option<DMatrix<f64>>,
    /// The term to add to the bias when the weights are read; k entries.
    pub bias_shift: DVector<f64>,
    /// g = ‖W_pas − W_n‖²_F / (d k) (V (33)), in squared units of a weight.
    pub interpretability: f64,
    /// The number of records that a fitted transform was fitted to.
    pub records: usize,
    /// The time of the release, in seconds since 1970.
    pub released_at_s: u64,
}

/// Shows the transform, not the values.
impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Release({}, values withheld)", self.transform.name())
    }
}

/// A release without its values, for lists.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReleaseFacts {
    /// The first model version that was shown this way; others with the very same parameters may
    /// have been.
    pub version: String,
    /// The role it is shown to.
    pub role: String,
    /// The transform that makes it from the true parameters.
    pub transform: TransformConfig,
    /// The distance g (V (33)).
    pub interpretability: f64,
    /// The number of records that a fitted transform was fitted to.
    pub records: usize,
    /// The time of the release, in seconds since 1970.
    pub released_at_s: u64,
}

/// The content of a file. It is private: beside the weights shown to one role it says how they were
/// made.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseFile {
    schema: u32,
    /// The hash of the share's file.
    share: String,
    /// The first version that was shown.
    version: String,
    role: String,
    transform: TransformConfig,
    /// k rows of d weights; absent for the true ones, which the share holds.
    weights: Option<Vec<Vec<f64>>>,
    bias_shift: Vec<f64>,
    interpretability: f64,
    records: usize,
    released_at_s: u64,
    /// The hash of this file with an empty hash, so that a changed digit is found.
    sha256: String,
}

impl ReleaseFile {
    fn hashed(mut self) -> Self {
        self.sha256 = String::new();
        // Serialising numbers and strings cannot fail, and an empty text would not match on
        // reading.
        let content = serde_json::to_vec(&self).unwrap_or_default();
        self.sha256 = hex(Sha256::digest(content));
        self
    }

    fn read(state: &StateFile) -> Result<Option<Self>, ReleaseError> {
        let Some(file) = state.read_versioned::<Self>(SCHEMA)? else { return Ok(None) };
        let said = file.sha256.clone();
        let file = file.hashed();
        if file.sha256 != said {
            return Err(state.damaged("its content does not match its hash").into());
        }
        Ok(Some(file))
    }

    fn release(self, state: &StateFile, shape: (usize, usize)) -> Result<Release, ReleaseError> {
        let (k, d) = shape;
        let fits = |rows: &Vec<Vec<f64>>| rows.len() == k && rows.iter().all(|row| row.len() == d);
        if self.bias_shift.len() != k || !self.weights.as_ref().is_none_or(fits) {
            let reason = format!("it is not of {k} classes and {d} features");
            return Err(state.damaged(reason).into());
        }
        Ok(Release {
            transform: self.transform,
            weights: self
                .weights
                .map(|rows| DMatrix::from_row_iterator(k, d, rows.into_iter().flatten())),
            bias_shift: DVector::from_vec(self.bias_shift),
            interpretability: self.interpretability,
            records: self.records,
            released_at_s: self.released_at_s,
        })
    }
}

/// The releases in memory, by share and role.
type ReleaseCache = HashMap<(String, Role), Arc<Release>>;

/// All releases of a state directory.
pub struct Releases {
    dir: StateDir,
    /// The lock on the state directory. It is kept until a release in progress is on disk, even if
    /// the service stops meanwhile. State that several processes share has none.
    lock: Weak<Option<File>>,
    /// Locked while a release is made, so that it is made once.
    loaded: Arc<tokio::sync::Mutex<ReleaseCache>>,
}

impl fmt::Debug for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Releases({})", self.dir.path().display())
    }
}

impl Releases {
    /// Opens the releases in a state directory, which is locked unless several processes share it.
    /// Nothing is read before it is asked for.
    ///
    /// # Errors
    /// [`ReleaseError`] if their directory cannot be made.
    pub fn open(
        state_dir: impl Into<StateDir>,
        lock: &Arc<Option<File>>,
    ) -> Result<Self, ReleaseError> {
        let dir = dir(state_dir);
        dir.make()?;
        Ok(Self { dir, lock: Arc::downgrade(lock), loaded: Arc::default() })
    }

    /// Returns the release of a version to `role` under `transform`: the earlier one of the same
    /// share, or one that is made and stored now.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if the earlier one was made by another transform, or if the transform
    /// does not go with these parameters; INTERNAL for a damaged file or a disk that refuses,
    /// UNAVAILABLE while the database that holds the state is away. The log says more than the
    /// messages do.
    pub async fn shown(
        &self,
        logits: &Arc<LogitServer>,
        version: &ModelVersion,
        role: Role,
        transform: &TransformConfig,
    ) -> Result<Arc<Release>, Refusal> {
        let share = logits.share(version)?;
        let mut loaded = self.loaded.clone().lock_owned().await;
        let key = (share.digest.clone(), role);
        let found = match loaded.get(&key) {
            Some(found) => found.clone(),
            None => {
                let Some(lock) = self.lock.upgrade() else {
                    return Err(Refusal::unavailable("the passive party is stopping"));
                };
                let file = self.dir.file(&format!("{}-{role}.json", share.digest), FIX);
                let (logits, version, transform) =
                    (logits.clone(), version.clone(), transform.clone());
                // The locks go along: the work runs to its end even if the caller goes away.
                let work = move || {
                    let _lock = lock;
                    let made = load_or_make(&file, &logits, &share, (&version, role), &transform);
                    let release = Arc::new(made.map_err(|e| e.told(&version, role))?);
                    // Versions in use are few; a caller that walks through old ones must not fill
                    // the memory.
                    if loaded.len() >= MAX_LOADED {
                        loaded.clear();
                    }
                    loaded.insert(key, release.clone());
                    Ok::<_, Refusal>(release)
                };
                tokio::task::spawn_blocking(work)
                    .await
                    .map_err(|_| Refusal::internal("the release failed"))??
            }
        };
        if found.transform == *transform {
            return Ok(found);
        }
        tracing::warn!(
            %version, %role, released_under = %found.transform, policy = %transform,
            "these parameters were released under another transform already and are refused under this one"
        );
        // Neither transform is named: one of them may not have been disclosed.
        Err(Refusal::precondition(format!(
            "the parameters of model {version} were released to the {} under other settings already, and are not released \
             under those of now: two releases of the same parameters give more away than either; train a new model, or set \
             [release] back at the passive party",
            role.words(),
        )))
    }
}

/// Errors from making a release.
#[derive(Debug, thiserror::Error)]
enum MakeReleaseError {
    #[error(transparent)]
    File(#[from] ReleaseError),
    #[error("{}", .0.without_statistics())]
    Transform(#[from] TransformError),
    #[error(transparent)]
    NotLinear(#[from] NotLinear),
    #[error("transform `{0}` gave parameters that are not finite or not of this shape")]
    Unfit(&'static str),
}

impl MakeReleaseError {
    /// Logs the reason, and returns the refusal for another party.
    fn told(&self, version: &ModelVersion, role: Role) -> Refusal {
        tracing::error!(%version, %role, reason = %self, "parameters cannot be released");
        let refused = format!("the parameters of model {version} cannot be released");
        match self {
            Self::File(ReleaseError(error)) => Refusal::own_state(
                error.away(),
                format!(
                    "{refused}: a file of the passive party cannot be used; the passive party's log says which and why"
                ),
            ),
            Self::NotLinear(_) | Self::Transform(_) | Self::Unfit(_) => {
                Refusal::precondition(format!(
                    "{refused}: the transform in [release] does not go with these parameters; the passive party's log says why"
                ))
            }
        }
    }
}

fn dir(state_dir: impl Into<StateDir>) -> StateDir {
    state_dir.into().below("releases")
}

fn load_or_make(
    state: &StateFile,
    logits: &LogitServer,
    share: &StoredShare,
    (version, role): (&ModelVersion, Role),
    transform: &TransformConfig,
) -> Result<Release, MakeReleaseError> {
    // (k, d). For a nonlinear sub-model: its outputs and inputs.
    let shape = (share.model().spec().width() as usize, share.model().features());
    let stored = || -> Result<Option<Release>, MakeReleaseError> {
        let Some(file) = ReleaseFile::read(state)? else { return Ok(None) };
        if file.share != share.digest || file.role != role.as_str() {
            return Err(ReleaseError(state.damaged("it is of another model or role")).into());
        }
        Ok(Some(file.release(state, shape)?))
    };
    if let Some(release) = stored()? {
        return Ok(release);
    }
    let true_ones = *transform == TransformConfig::None {};
    let made = match true_ones {
        true => NewRelease { weights: None, bias_shift: DVector::zeros(shape.0), g: 0.0 },
        false => made(share.linear()?.weights(), logits, transform)?,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
    let rows = |m: &DMatrix<f64>| m.row_iter().map(|r| r.iter().copied().collect()).collect();
    let file = ReleaseFile {
        schema: SCHEMA,
        share: share.digest.clone(),
        version: version.as_str().to_owned(),
        role: role.as_str().to_owned(),
        transform: transform.clone(),
        weights: made.weights.as_ref().map(rows),
        bias_shift: made.bias_shift.iter().copied().collect(),
        interpretability: made.g,
        records: logits.block().map_or(0, FeatureBlock::records),
        released_at_s: now,
        sha256: String::new(),
    }
    .hashed();
    let written = state.json(&file).and_then(|content| state.swap(Revision::default(), &content));
    if written.map_err(ReleaseError)?.is_none() {
        // Another process was first: the release that it stored is shown.
        let gone = || ReleaseError(state.damaged("it was there and is gone"));
        return stored()?.ok_or_else(|| gone().into());
    }
    tracing::info!(%version, %role, transform = transform.name(), "parameters made ready for release");
    Ok(file.release(state, shape)?)
}

/// A release before it is stored.
struct NewRelease {
    /// The weights, k × d; `None` for the true ones.
    weights: Option<DMatrix<f64>>,
    bias_shift: DVector<f64>,
    g: f64,
}

/// Rewrites the weights by a transform.
fn made(
    w_pas: &DMatrix<f64>,
    logits: &LogitServer,
    transform: &TransformConfig,
) -> Result<NewRelease, MakeReleaseError> {
    // A number's predictor is the difference of two logits, the first of which is 0.
    let number = w_pas.nrows() == 1;
    let w_pas = &if number { w_pas.clone().insert_row(0, 0.0) } else { w_pas.clone() };
    let RewrittenParameters { weights, bias_shift, .. } =
        rewrite(transform, w_pas, logits.block(), &mut secret())?;
    let unfit = || MakeReleaseError::Unfit(transform.name());
    if weights.shape() != w_pas.shape() || bias_shift.len() != w_pas.nrows() {
        return Err(unfit());
    }
    // A number that is not finite would be written but not read back. g is refused with the weights
    // that make it so.
    let Interpretability { g, .. } = Interpretability::of(w_pas, &weights).map_err(|_| unfit())?;
    if !weights.iter().chain(&bias_shift).all(|v| v.is_finite()) {
        return Err(unfit());
    }
    if number {
        let shift = DVector::from_vec(vec![bias_shift[1] - bias_shift[0]]);
        let difference = weights.rows(1, 1) - weights.rows(0, 1);
        return Ok(NewRelease { weights: Some(difference), bias_shift: shift, g });
    }
    Ok(NewRelease { weights: Some(weights), bias_shift, g })
}

/// Returns the releases of a state directory, oldest first.
///
/// # Errors
/// [`ReleaseError`] naming the file.
pub fn releases(state_dir: impl Into<StateDir>) -> Result<Vec<ReleaseFacts>, ReleaseError> {
    let dir = dir(state_dir);
    let mut found = Vec::new();
    for name in dir.names()? {
        // Beside them may lie the rest of a file that a crash interrupted.
        if !name.ends_with(".json") {
            continue;
        }
        if let Some(file) = ReleaseFile::read(&dir.file(&name, FIX))? {
            found.push(ReleaseFacts {
                version: file.version,
                role: file.role,
                transform: file.transform,
                interpretability: file.interpretability,
                records: file.records,
                released_at_s: file.released_at_s,
            });
        }
    }
    found.sort_by(|a, b| {
        (a.released_at_s, &a.version, &a.role).cmp(&(b.released_at_s, &b.version, &b.role))
    });
    Ok(found)
}

/// Returns releases as a table for people.
#[must_use]
pub fn release_table(releases: &[ReleaseFacts]) -> String {
    if releases.is_empty() {
        return "No parameters have been released.\n".into();
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{:<20} {:<20} {:<14} {:>10} {:>9}  transform",
        "released (UTC)", "model (first)", "to", "g", "records"
    );
    for r in releases {
        let _ = writeln!(
            out,
            "{:<20} {:<20} {:<14} {:>10} {:>9}  {}",
            utc(r.released_at_s),
            r.version,
            r.role,
            three_significant_digits(r.interpretability),
            r.records,
            r.transform
        );
    }
    out.push_str("g: mean squared distance of the released parameters from the true ones, per weight (V (33)).\n");
    out
}

#[cfg(test)]
mod tests;
