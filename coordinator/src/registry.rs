//! Which model is in service: one manifest per published version, and one pointer that is switched atomically.
//!
//! The switch is the coordinator's alone. Parties keep every version they confirmed, so a crash at any moment leaves the
//! old version in service, complete at every party.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use foldhash::fast::RandomState;
use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_shared::hex;
use vfl_shared::model::privacy::PrivacyStatement;
use vfl_shared::model::{
    Combiner, Head, ModelSpec, Parameters, ShareStore, SpecError, StoreError, StoredShare, TrainingConfig, heads,
};
use vfl_shared::state_file::{StateFile, StateFileError, make_state_dir};
use vfl_shared::training::journal::{Journal, JournalError, Proposal, Training};
use vfl_shared::types::{ConfidenceScores, ModelVersion, PartyName, RecordIds};

/// Of what is written now.
const SCHEMA: u32 = 2;
/// Of manifests from before there was a choice of models: all are of softmax regression.
const WITHOUT_MODEL: u32 = 1;

/// What to do about a damaged file.
const FIX: &str = "restore it from a backup, or train or import again";

/// Why the registry cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The journal of trainings.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file of the registry.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The stored parameters of a top model.
    #[error(transparent)]
    Top(#[from] StoreError),
    /// A model that this version has no code for.
    #[error("{} is of a model that this version cannot serve: {source}; use the version that published it, or train again", path.display())]
    Model {
        /// The manifest.
        path: PathBuf,
        /// Why.
        source: SpecError,
    },
}

/// One party's part in a published model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyEntry {
    /// Its name.
    pub name: PartyName,
    /// Number of its features.
    pub features: u32,
    /// Hash of its stored share.
    pub share: String,
    /// What it says of the privacy that it trained with. `None`, and not written: it trained without, or imported its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyStatement>,
}

/// How a model was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSummary {
    /// The configuration.
    pub config: TrainingConfig,
    /// Epochs run.
    pub epochs: u32,
    /// The epoch published, from 1.
    pub best_epoch: u32,
    /// Gradient steps.
    pub steps: u64,
    /// Records trained on.
    pub training_records: u32,
    /// Records set aside to choose the epoch.
    pub validation_records: u32,
}

/// Everything the coordinator keeps of a published model but the parameters of a top model, which it names by their hash.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    schema: u32,
    /// The version, a hash of everything below.
    pub version: ModelVersion,
    /// What each party holds, and how the outputs are combined. `None` in manifests of schema 1: see [`Manifest::model`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<ModelSpec>,
    /// Hash of the stored top model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    top: Option<String>,
    /// Class names, in the order of the scores.
    pub class_names: Vec<String>,
    /// The active party.
    pub active_party: PartyEntry,
    /// The passive parties, in the order of summation.
    pub passive_parties: Vec<PartyEntry>,
    /// How it was trained; `None`: it was imported, not trained here.
    pub training: Option<TrainingSummary>,
    /// Ids of all records the training saw, validation included; of an imported model those that its training elsewhere is said
    /// to have seen.
    pub training_ids: Vec<String>,
}

impl Manifest {
    /// Assigns the version: `m-` and the first 16 hexadecimal digits of the hash of everything it says. A softmax regression has the
    /// version that it had before there was a choice of models.
    ///
    /// # Errors
    /// [`SpecError::Parties`] unless the model has as many passive parties as are named.
    pub fn new(
        model: ModelSpec,
        class_names: Vec<String>,
        active_party: PartyEntry,
        passive_parties: Vec<PartyEntry>,
        training: Option<TrainingSummary>,
        training_ids: &RecordIds,
    ) -> Result<Self, SpecError> {
        Self::with_top(model, None, class_names, active_party, (passive_parties, training), training_ids)
    }

    /// The same of a model with a top model, stored under this hash.
    ///
    /// # Errors
    /// As [`Manifest::new`], and [`SpecError::Top`] unless there is a top model exactly where the model needs one.
    pub fn with_top(
        model: ModelSpec,
        top: Option<String>,
        class_names: Vec<String>,
        active_party: PartyEntry,
        (passive_parties, training): (Vec<PartyEntry>, Option<TrainingSummary>),
        training_ids: &RecordIds,
    ) -> Result<Self, SpecError> {
        if model.passive().len() != passive_parties.len() {
            return Err(SpecError::Parties { got: passive_parties.len() });
        }
        if model.top().is_some() != top.is_some() {
            let reason = "its stored parameters are named exactly where the model has one".to_owned();
            return Err(SpecError::Top { reason });
        }
        let training_ids: Vec<String> = training_ids.iter().map(str::to_owned).collect();
        // A training that is there is hashed as it was before models could be imported.
        let content = (&class_names, &active_party, &passive_parties, &training, &training_ids);
        let content = match (&top, model.is_softmax_regression(class_names.len() as u32)) {
            (Some(top), _) => serde_json::to_vec(&(&model, top, content)),
            (None, true) => serde_json::to_vec(&content),
            (None, false) => serde_json::to_vec(&(&model, content)),
        };
        let hash = hex(Sha256::digest(content.unwrap_or_default()));
        let version = ModelVersion::new(format!("m-{}", &hash[..16]))
            .unwrap_or_else(|_| unreachable!("a prefix and hexadecimal digits are a valid name"));
        let model = Some(model);
        let schema = SCHEMA;
        Ok(Self { schema, version, model, top, class_names, active_party, passive_parties, training, training_ids })
    }

    /// Hash of the stored top model, if there is one.
    #[must_use]
    pub fn top(&self) -> Option<&str> {
        self.top.as_deref()
    }

    /// What each party holds, and how the outputs are combined.
    ///
    /// # Errors
    /// [`SpecError::Parties`] for an old manifest of more passive parties than a model can have.
    pub fn model(&self) -> Result<ModelSpec, SpecError> {
        match &self.model {
            Some(model) => Ok(model.clone()),
            None => ModelSpec::softmax_regression(self.class_names.len() as u32, self.passive_parties.len()),
        }
    }
}

impl Manifest {
    /// What the passive parties contribute to a record's scores, in short: `p-` and 32 hexadecimal digits of a hash of the
    /// number of classes and, in the order of summation, of the name and the parameters' digest of each passive party.
    ///
    /// Noise, bound shares and budgets are keyed by it. Nothing that the active party supplies is in it: not the class names,
    /// not the configuration, not its own parameters. The version moves with any of them. A top model is in it: whoever has the
    /// passive parties train again with another one has another model, which counts against the models that a record is answered
    /// under.
    #[must_use]
    pub fn passive_fingerprint(&self) -> String {
        let mut hash = Sha256::new_with_prefix(b"cloison passive parameters");
        hash.update((self.class_names.len() as u64).to_le_bytes());
        for party in &self.passive_parties {
            for text in [party.name.as_str(), party.share.as_str()] {
                hash.update((text.len() as u64).to_le_bytes());
                hash.update(text.as_bytes());
            }
        }
        // The stored shares say what kind they are and how wide; how they are combined they do not.
        if let Some(combiner) = self.model.as_ref().map(ModelSpec::combiner).filter(|c| *c != Combiner::Sum) {
            hash.update(combiner.as_str().as_bytes());
        }
        if let Some(top) = &self.top {
            hash.update(top.as_bytes());
        }
        format!("p-{}", hex(&hash.finalize()[..16]))
    }

    /// The version that the content gives: another one than the file says means that the file was changed.
    fn rehashed(&self) -> Result<ModelVersion, RegistryError> {
        let file = StateFile::new(format!("{}.json", self.version), FIX);
        let ids = RecordIds::new(&self.training_ids).map_err(|e| file.damaged(e))?;
        let contradicts = |e: SpecError| file.damaged(e);
        let again = Self::with_top(
            self.model().map_err(contradicts)?,
            self.top.clone(),
            self.class_names.clone(),
            self.active_party.clone(),
            (self.passive_parties.clone(), self.training.clone()),
            &ids,
        );
        Ok(again.map_err(contradicts)?.version)
    }
}

impl fmt::Debug for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Manifest({}, {} passive parties)", self.version, self.passive_parties.len())
    }
}

/// A published model, ready to serve.
#[derive(Debug)]
pub struct PublishedModel {
    /// What was published.
    pub manifest: Manifest,
    /// [`Manifest::passive_fingerprint`].
    pub passive_fingerprint: String,
    /// What each party holds.
    pub spec: ModelSpec,
    /// What makes logits of the parties' outputs.
    pub head: Box<dyn Head>,
    training_ids: HashSet<Box<str>, RandomState>,
}

impl PublishedModel {
    /// `top` is what is stored under [`Manifest::top`].
    fn new(mut manifest: Manifest, top: Option<&StoredShare>) -> Result<Self, SpecError> {
        let spec = manifest.model()?;
        let top = top.map(|top| Parameters::of(top.model(), top.model().snapshot()));
        let head = heads::restore(&spec, manifest.class_names.len() as u32, top.as_ref())?;
        let training_ids = std::mem::take(&mut manifest.training_ids).into_iter().map(String::into_boxed_str).collect();
        let passive_fingerprint = manifest.passive_fingerprint();
        Ok(Self { manifest, passive_fingerprint, spec, head, training_ids })
    }

    /// Whether this model was trained on this record. Others may have been: see [`Registry::trained_on`].
    #[must_use]
    pub fn saw_in_training(&self, id: &str) -> bool {
        self.training_ids.contains(id)
    }

    /// How many records the training saw.
    #[must_use]
    pub fn training_records(&self) -> usize {
        self.training_ids.len()
    }

    /// Number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.manifest.class_names.len()
    }
}

/// The registry: a directory, and the model in service.
#[derive(Debug)]
pub struct Registry {
    dir: PathBuf,
    current: RwLock<Option<Arc<PublishedModel>>>,
    journal: Journal,
    /// Records of all trainings that ever began, whether or not a model came of them.
    trained: RwLock<HashSet<Box<str>, RandomState>>,
}

impl Registry {
    /// Opens (and makes) the directory, and loads the model in service, if any.
    ///
    /// # Errors
    /// [`RegistryError`] naming the file that cannot be read or is damaged.
    pub fn open(dir: &Path) -> Result<Self, RegistryError> {
        let models = dir.join("models");
        make_state_dir(&models)?;
        let current = match read(&dir.join("current"))? {
            None => None,
            Some((path, name)) => {
                let damaged = |path: PathBuf, reason: String| StateFile::new(path, FIX).damaged(reason);
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
        Ok(Self { dir: dir.to_owned(), current: RwLock::new(current), journal, trained: RwLock::new(trained) })
    }

    /// Which of these records a training saw: that of the model in service, or any that began here since. The active party has
    /// seen the scores of all of them.
    #[must_use]
    pub fn trained_on<'a>(&self, model: &PublishedModel, ids: impl Iterator<Item = &'a str>) -> Vec<bool> {
        let trained = self.trained.read().unwrap_or_else(PoisonError::into_inner);
        ids.map(|id| model.saw_in_training(id) || trained.contains(id)).collect()
    }

    /// Writes down, durably, that a training begins; its records count as training records from now on. Gives its number.
    ///
    /// # Errors
    /// [`RegistryError::Journal`]: the training must not begin then.
    pub fn begin_training(&self, proposal: &Proposal, at: i64) -> Result<u64, RegistryError> {
        let number = self.journal.begin(proposal, at)?;
        self.trained.write().unwrap_or_else(PoisonError::into_inner).extend(proposal.ids.iter().map(Box::from));
        Ok(number)
    }

    /// See [`Journal::reach`].
    ///
    /// # Errors
    /// [`RegistryError::Journal`].
    pub fn training_reaches(&self, number: u64, step: u64) -> Result<(), RegistryError> {
        Ok(self.journal.reach(number, step)?)
    }

    /// See [`Journal::end`].
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

    /// All trainings that began here.
    #[must_use]
    pub fn trainings(&self) -> Vec<Training> {
        self.journal.trainings()
    }

    /// Undefended scores of records of a model's training, k × n, which some defenses are fitted on; `None` if none were kept.
    /// Whose they are is not kept.
    ///
    /// They are those of the first version with these passive parameters: a defense fitted anew on scores that the active party
    /// had moved would answer the same share anew.
    ///
    /// # Errors
    /// [`RegistryError`] naming the file that cannot be read or is damaged.
    pub fn calibration(&self, manifest: &Manifest) -> Result<Option<ConfidenceScores>, RegistryError> {
        let of_fingerprint = calibration_path(&self.dir, &manifest.passive_fingerprint());
        let found = match read(&of_fingerprint)? {
            Some(found) => Some(found),
            // Written before calibration scores went by the fingerprint.
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

    /// The state directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stores the parameters of a top model durably; gives the hash that a manifest names them by. `inputs` are names of its inputs.
    ///
    /// # Errors
    /// [`RegistryError::Top`] if the disk refuses.
    pub fn store_top(&self, parameters: Parameters, inputs: &[String]) -> Result<String, RegistryError> {
        Ok(tops(&self.dir)?.put(parameters, inputs)?)
    }

    /// The model in service.
    #[must_use]
    pub fn current(&self) -> Option<Arc<PublishedModel>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a model in service: calibration scores and manifest first, then the switch. To be called when every party has
    /// confirmed its share.
    ///
    /// # Errors
    /// [`RegistryError::File`]; the old model then stays in service.
    pub fn commit(&self, manifest: Manifest, calibration: Option<&ConfidenceScores>) -> Result<(), RegistryError> {
        if let Some(scores) = calibration {
            let fingerprint = manifest.passive_fingerprint();
            let path = calibration_path(&self.dir, &fingerprint);
            // The first ones stay.
            if !path.exists() {
                // Before they went by the fingerprint, those of the model in service stood under its version.
                let before = self.current().filter(|m| m.passive_fingerprint == fingerprint);
                let before = before.map(|m| read(&calibration_path(&self.dir, m.manifest.version.as_str())));
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
        let name = format!("{}\n", manifest.version);
        StateFile::new(self.dir.join("current"), FIX).write(name.as_bytes())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(model));
        Ok(())
    }
}

/// The manifest of a version, in service or not; `None` if there is none.
///
/// # Errors
/// [`RegistryError`] naming the file that cannot be read or is damaged.
pub fn read_manifest(state_dir: &Path, version: &ModelVersion) -> Result<Option<Manifest>, RegistryError> {
    let file = StateFile::new(manifest_path(state_dir, version), FIX);
    let Some((schema, manifest)) = file.read_one_of::<Manifest>(&[SCHEMA, WITHOUT_MODEL])? else { return Ok(None) };
    let with_model = schema == SCHEMA;
    if manifest.model.is_some() != with_model || manifest.version != *version || manifest.rehashed()? != *version {
        return Err(file.damaged("its fields contradict each other").into());
    }
    Ok(Some(manifest))
}

/// Where top models are stored.
pub(crate) fn tops(dir: &Path) -> Result<ShareStore, StoreError> {
    ShareStore::open(&dir.join("top"))
}

/// A model whose manifest lies at `path`, with its top model.
fn published(dir: &Path, path: PathBuf, manifest: Manifest) -> Result<PublishedModel, RegistryError> {
    let top = manifest.top.as_deref().map(|digest| tops(dir)?.stored(digest)).transpose()?;
    PublishedModel::new(manifest, top.as_ref()).map_err(|source| RegistryError::Model { path, source })
}

fn manifest_path(dir: &Path, version: &ModelVersion) -> PathBuf {
    dir.join("models").join(format!("{version}.json"))
}

/// `of` is a passive fingerprint; before there were any, it was the version.
fn calibration_path(dir: &Path, of: &str) -> PathBuf {
    dir.join("models").join(format!("{of}.scores"))
}

/// Number of classes, then the score vectors in rising order, so that their place does not tell whose they are.
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
