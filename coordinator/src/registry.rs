//! The registry of models: one manifest per published version, and one pointer to the version in
//! service, which is switched atomically.
//!
//! Only the coordinator switches. Parties keep every version they confirmed, so a crash at any
//! moment leaves the old version in service, complete at every party.

mod manifest;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;
use nalgebra::DMatrix;
use vfl_core::json::json_error;
use vfl_core::model::{Head, Link, ModelSpec, Parameters, SpecError, heads};
use vfl_core::types::{ConfidenceScores, ModelVersion, RecordIds};
use vfl_state::journal::{Journal, JournalError, Proposal, Training};
use vfl_state::state_file::{StateFile, StateFileError, make_state_dir};
use vfl_state::{ShareStore, StoreError, StoredShare};

use manifest::{FIX, SCHEMA};
pub use manifest::{Manifest, PartyEntry, TrainingSummary};

/// Schema of manifests from before there was a choice of models: all are of softmax regression.
const WITHOUT_MODEL: u32 = 1;

/// Errors from reading or writing the registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// An error of the journal of trainings.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// An error of a file of the registry.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// An error of the stored parameters of a top model.
    #[error(transparent)]
    Top(#[from] StoreError),
    /// The manifest is of a model that this version has no code for.
    #[error("{} is of a model that this version cannot serve: {source}; use the version that published it, or train again", path.display())]
    Model {
        /// The path of the manifest.
        path: PathBuf,
        /// The reason.
        source: SpecError,
    },
}

/// A published model, ready to serve.
#[derive(Debug)]
pub struct PublishedModel {
    /// The manifest, as published.
    pub manifest: Manifest,
    /// The result of [`Manifest::passive_fingerprint`].
    pub passive_fingerprint: String,
    /// The specification of the model: the part of each party, and how outputs are combined.
    pub spec: ModelSpec,
    /// The head, which makes logits of the parties' outputs.
    pub head: Box<dyn Head>,
    /// The link: scores of classes, or a number.
    pub link: Link,
    training_ids: HashSet<Box<str>, RandomState>,
}

impl PublishedModel {
    /// Restores a model; `top` is the share stored under [`Manifest::top`].
    fn new(mut manifest: Manifest, top: Option<&StoredShare>) -> Result<Self, SpecError> {
        let spec = manifest.model()?;
        let top = top.map(|top| Parameters::of(top.model(), top.model().snapshot()));
        let head = heads::restore(&spec, manifest.class_names.len() as u32, top.as_ref())?;
        let link = spec.link()?;
        if link.is_numeric() != (manifest.class_names.len() == 1) {
            let reason = format!("{} outputs are named", manifest.class_names.len());
            return Err(SpecError::Parameters { kind: spec.active().kind().to_owned(), reason });
        }
        let training_ids = std::mem::take(&mut manifest.training_ids)
            .into_iter()
            .map(String::into_boxed_str)
            .collect();
        let passive_fingerprint = manifest.passive_fingerprint();
        Ok(Self { manifest, passive_fingerprint, spec, head, link, training_ids })
    }

    /// Returns `true` if this model was trained on this record. Other trainings may have seen it:
    /// see [`Registry::trained_on`].
    #[must_use]
    pub fn saw_in_training(&self, id: &str) -> bool {
        self.training_ids.contains(id)
    }

    /// Returns the number of records that the training saw.
    #[must_use]
    pub fn training_records(&self) -> usize {
        self.training_ids.len()
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.manifest.class_names.len()
    }

    /// Returns the unit of its outputs on secret shares: that of the labels it was trained on.
    #[must_use]
    pub fn unit(&self) -> f64 {
        let training = self.manifest.training.as_ref();
        training.and_then(|training| training.config.values().label_scale).unwrap_or(1.0)
    }
}

/// The registry: a directory, and the model in service.
#[derive(Debug)]
pub struct Registry {
    dir: PathBuf,
    current: RwLock<Option<Arc<PublishedModel>>>,
    journal: Journal,
    /// Records of all trainings that ever began, even if no model came of them.
    trained: RwLock<HashSet<Box<str>, RandomState>>,
}

impl Registry {
    /// Opens the directory, makes it if needed, and loads the model in service, if any.
    ///
    /// # Errors
    /// [`RegistryError`] naming the file that cannot be read or is damaged.
    pub fn open(dir: &Path) -> Result<Self, RegistryError> {
        let models = dir.join("models");
        make_state_dir(&models)?;
        let current = match read(&dir.join("current"))? {
            None => None,
            Some((path, name)) => {
                let damaged =
                    |path: PathBuf, reason: String| StateFile::new(path, FIX).damaged(reason);
                let name = String::from_utf8_lossy(&name).trim().to_owned();
                let version = ModelVersion::new(name).map_err(|e| damaged(path, e.to_string()))?;
                let path = manifest_path(dir, &version);
                let missing = || damaged(path.clone(), "it is missing".into());
                let manifest = read_manifest(dir, &version)?.ok_or_else(missing)?;
                Some(Arc::new(published(dir, path, manifest)?))
            }
        };
        let journal = Journal::open(&dir.join("trainings"))?;
        let mut trained = HashSet::default();
        for training in journal.trainings() {
            trained.extend(journal.records(&training)?.iter().map(Box::from));
        }
        Ok(Self {
            dir: dir.to_owned(),
            current: RwLock::new(current),
            journal,
            trained: RwLock::new(trained),
        })
    }

    /// Returns `true` for each of these records that a training saw: that of the model in service,
    /// or any other that is known here. The active party has seen the scores of all of them.
    #[must_use]
    pub fn trained_on<'a>(
        &self,
        model: &PublishedModel,
        ids: impl Iterator<Item = &'a str>,
    ) -> Vec<bool> {
        let trained = self.trained.read().unwrap_or_else(PoisonError::into_inner);
        ids.map(|id| model.saw_in_training(id) || trained.contains(id)).collect()
    }

    /// Records durably that a training begins; its records count as training records from now on.
    /// Returns its number.
    ///
    /// # Errors
    /// [`RegistryError::Journal`]: the training must not begin then.
    pub fn begin_training(&self, proposal: &Proposal, at: i64) -> Result<u64, RegistryError> {
        let number = self.journal.begin(proposal, at)?;
        self.trained
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(proposal.ids.iter().map(Box::from));
        Ok(number)
    }

    /// Records how far a training has come: see [`Journal::reach`].
    ///
    /// # Errors
    /// [`RegistryError::Journal`].
    pub fn training_reaches(&self, number: u64, step: u64) -> Result<(), RegistryError> {
        Ok(self.journal.reach(number, step)?)
    }

    /// Records the end of a training: see [`Journal::end`].
    ///
    /// # Errors
    /// [`RegistryError::Journal`].
    pub fn training_ended(
        &self,
        number: u64,
        steps: u64,
        published: Option<&ModelVersion>,
        at: i64,
    ) -> Result<(), RegistryError> {
        Ok(self.journal.end(number, steps, published, at)?)
    }

    /// Returns all trainings that began here.
    #[must_use]
    pub fn trainings(&self) -> Vec<Training> {
        self.journal.trainings()
    }

    /// Returns undefended scores of records of a model's training, k × n, which some defenses are
    /// fitted on; `None` if none were kept. The ids of these records are not kept.
    ///
    /// These are the scores of the first version with these passive parameters: if the active party
    /// could change them, a defense fitted on the new scores would give a new answer to the same
    /// share.
    ///
    /// # Errors
    /// [`RegistryError`] naming the file that cannot be read or is damaged.
    pub fn calibration(
        &self,
        manifest: &Manifest,
    ) -> Result<Option<ConfidenceScores>, RegistryError> {
        let of_fingerprint = calibration_path(&self.dir, &manifest.passive_fingerprint());
        let found = match read(&of_fingerprint)? {
            Some(found) => Some(found),
            // Older calibration scores are named by the version.
            None => read(&calibration_path(&self.dir, manifest.version.as_str()))?,
        };
        let Some((path, content)) = found else { return Ok(None) };
        let file = StateFile::new(path, FIX);
        let damaged = |reason: &str| RegistryError::from(file.damaged(reason));
        let (words, rest) = content.as_chunks::<8>();
        let (Some((classes, values)), true) = (words.split_first(), rest.is_empty()) else {
            return Err(damaged("it is cut off"));
        };
        let classes = usize::try_from(u64::from_le_bytes(*classes)).unwrap_or(0);
        if classes < 2 || !values.len().is_multiple_of(classes) {
            return Err(damaged("it is cut off"));
        }
        let values = values.iter().map(|v| f64::from_le_bytes(*v));
        let scores = DMatrix::from_iterator(classes, content.len() / 8 / classes, values);
        ConfidenceScores::new(scores).map(Some).map_err(|e| damaged(&e.to_string()))
    }

    /// Returns the state directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores the parameters of a top model durably; returns the hash that a manifest names them
    /// by. `inputs` are names of its inputs.
    ///
    /// # Errors
    /// [`RegistryError::Top`] if the disk fails.
    pub fn store_top(
        &self,
        parameters: Parameters,
        inputs: &[String],
    ) -> Result<String, RegistryError> {
        Ok(tops(&self.dir)?.put(parameters, inputs)?)
    }

    /// Returns the model in service.
    #[must_use]
    pub fn current(&self) -> Option<Arc<PublishedModel>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a model in service: calibration scores and manifest first, then the switch. Call it
    /// only when every party has confirmed its share.
    ///
    /// # Errors
    /// [`RegistryError::File`]; the old model then stays in service.
    pub fn commit(
        &self,
        manifest: Manifest,
        calibration: Option<&ConfidenceScores>,
    ) -> Result<(), RegistryError> {
        if let Some(scores) = calibration {
            let fingerprint = manifest.passive_fingerprint();
            let path = calibration_path(&self.dir, &fingerprint);
            // The first scores stay.
            if !path.exists() {
                // Older scores of the model in service are named by its version.
                let before = self.current().filter(|m| m.passive_fingerprint == fingerprint);
                let before =
                    before.map(|m| read(&calibration_path(&self.dir, m.manifest.version.as_str())));
                let content = match before.transpose()?.flatten() {
                    Some((_, kept)) => kept,
                    None => calibration_content(scores),
                };
                StateFile::new(path, FIX).write(&content)?;
            }
        }
        let file = StateFile::new(manifest_path(&self.dir, &manifest.version), FIX);
        let model = published(&self.dir, file.path().to_owned(), manifest.clone())?;
        file.write_json(&manifest)?;
        self.switch(model)
    }

    /// Switches the pointer on the disk, then the one in memory.
    fn switch(&self, model: PublishedModel) -> Result<(), RegistryError> {
        let name = format!("{}\n", model.manifest.version);
        StateFile::new(self.dir.join("current"), FIX).write(name.as_bytes())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(model));
        Ok(())
    }

    /// Puts a version in service that another coordinator has published: its files first,
    /// unchanged, then the switch.
    ///
    /// # Errors
    /// [`RegistryError`] if the files are not those of the version, or the disk fails; the old
    /// model then stays in service.
    pub fn receive(&self, version: &ModelVersion, files: &Files) -> Result<(), RegistryError> {
        let file = StateFile::new(manifest_path(&self.dir, version), FIX);
        let manifest: Manifest =
            serde_json::from_slice(&files.manifest).map_err(|e| file.damaged(json_error(&e)))?;
        if manifest.version != *version || manifest.rehashed()? != *version {
            return Err(file.damaged("its fields contradict each other").into());
        }
        if let (Some(digest), Some(content)) = (manifest.top(), &files.top) {
            tops(&self.dir)?.keep(digest, content)?;
        }
        if let Some(content) = &files.calibration {
            StateFile::new(calibration_path(&self.dir, &manifest.passive_fingerprint()), FIX)
                .write(content)?;
        }
        let model = published(&self.dir, file.path().to_owned(), manifest)?;
        file.write(&files.manifest)?;
        self.switch(model)
    }

    /// Takes the model out of service.
    ///
    /// # Errors
    /// [`RegistryError::File`].
    pub fn withdraw(&self) -> Result<(), RegistryError> {
        StateFile::new(self.dir.join("current"), FIX).remove()?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }

    /// Adds records of trainings that began elsewhere: they count as training records from now on.
    pub fn add_trained<'a>(&self, ids: impl Iterator<Item = &'a str>) {
        self.trained.write().unwrap_or_else(PoisonError::into_inner).extend(ids.map(Box::from));
    }

    /// Returns the files of a version that is to be published, or was.
    ///
    /// # Errors
    /// [`RegistryError`] naming the file that cannot be read or is damaged.
    pub fn files(
        &self,
        manifest: &Manifest,
        calibration: Option<&ConfidenceScores>,
    ) -> Result<Files, RegistryError> {
        let top = manifest.top().map(|digest| tops(&self.dir)?.content(digest)).transpose()?;
        let mut kept = read(&calibration_path(&self.dir, &manifest.passive_fingerprint()))?;
        if kept.is_none() {
            // Older calibration scores are named by the version.
            kept = read(&calibration_path(&self.dir, manifest.version.as_str()))?;
        }
        let calibration =
            kept.map(|(_, kept)| kept).or_else(|| calibration.map(calibration_content));
        let stored = read(&manifest_path(&self.dir, &manifest.version))?.map(|(_, stored)| stored);
        let manifest = stored.or_else(|| serde_json::to_vec(manifest).ok()).unwrap_or_default();
        Ok(Files { manifest, top, calibration })
    }

    /// Returns all versions that were published here.
    ///
    /// # Errors
    /// [`RegistryError`] naming the file that cannot be read or is damaged.
    pub fn versions(&self) -> Result<Vec<Manifest>, RegistryError> {
        let dir = self.dir.join("models");
        let listed = std::fs::read_dir(&dir).map_err(|e| StateFileError::io("read", &dir, e))?;
        let names = listed.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let versions = names.filter_map(|name| ModelVersion::new(name.strip_suffix(".json")?).ok());
        let found: Result<Vec<_>, _> =
            versions.map(|version| read_manifest(&self.dir, &version)).collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Returns the records of a training of [`Registry::trainings`].
    ///
    /// # Errors
    /// [`RegistryError::Journal`].
    pub fn records_of(&self, training: &Training) -> Result<RecordIds, RegistryError> {
        Ok(self.journal.records(training)?)
    }
}

/// The files of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// The content of the manifest.
    pub manifest: Vec<u8>,
    /// The content of the top model, if it has one.
    pub top: Option<Vec<u8>>,
    /// The scores that defenses are fitted on, if any were kept.
    pub calibration: Option<Vec<u8>>,
}

/// Returns the manifest of a version, in service or not; `None` if there is none.
///
/// # Errors
/// [`RegistryError`] naming the file that cannot be read or is damaged.
pub fn read_manifest(
    state_dir: &Path,
    version: &ModelVersion,
) -> Result<Option<Manifest>, RegistryError> {
    let file = StateFile::new(manifest_path(state_dir, version), FIX);
    let Some((schema, manifest)) = file.read_one_of::<Manifest>(&[SCHEMA, WITHOUT_MODEL])? else {
        return Ok(None);
    };
    let with_model = schema == SCHEMA;
    if manifest.model.is_some() != with_model
        || manifest.version != *version
        || manifest.rehashed()? != *version
    {
        return Err(file.damaged("its fields contradict each other").into());
    }
    Ok(Some(manifest))
}

/// Opens the store of top models.
pub(crate) fn tops(dir: &Path) -> Result<ShareStore, StoreError> {
    ShareStore::open(&dir.join("top"))
}

/// Loads a model whose manifest lies at `path`, with its top model.
fn published(
    dir: &Path,
    path: PathBuf,
    manifest: Manifest,
) -> Result<PublishedModel, RegistryError> {
    let top = manifest.top.as_deref().map(|digest| tops(dir)?.stored(digest)).transpose()?;
    PublishedModel::new(manifest, top.as_ref())
        .map_err(|source| RegistryError::Model { path, source })
}

fn manifest_path(dir: &Path, version: &ModelVersion) -> PathBuf {
    dir.join("models").join(format!("{version}.json"))
}

/// Returns the path of calibration scores. `of` is a passive fingerprint; before there were any, it
/// was the version.
fn calibration_path(dir: &Path, of: &str) -> PathBuf {
    dir.join("models").join(format!("{of}.scores"))
}

/// Encodes the number of classes, then the score vectors in rising order, so that their place does
/// not tell whose they are.
fn calibration_content(scores: &ConfidenceScores) -> Vec<u8> {
    let mut columns: Vec<_> = scores.matrix().column_iter().collect();
    columns.sort_by(|a, b| {
        let pairs = a.iter().zip(b.iter());
        pairs.map(|(a, b)| a.total_cmp(b)).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    let values = columns.iter().flat_map(|c| c.iter()).flat_map(|v| v.to_le_bytes());
    (scores.classes() as u64).to_le_bytes().into_iter().chain(values).collect()
}

fn read(path: &Path) -> Result<Option<(PathBuf, Vec<u8>)>, RegistryError> {
    Ok(StateFile::new(path, FIX).read()?.map(|content| (path.to_owned(), content)))
}

#[cfg(test)]
mod tests;
