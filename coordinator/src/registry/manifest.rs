//! What the coordinator keeps of a published model.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_shared::hex;
use vfl_shared::model::privacy::PrivacyStatement;
use vfl_shared::model::{Combiner, ModelSpec, SpecError, TrainingConfig};
use vfl_shared::state_file::{StateFile, StateFileError};
use vfl_shared::types::{ModelVersion, PartyName, RecordIds};

/// Of what is written now.
pub(super) const SCHEMA: u32 = 2;

/// What to do about a damaged file.
pub(super) const FIX: &str = "restore it from a backup, or train or import again";

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
    pub(super) model: Option<ModelSpec>,
    /// Hash of the stored top model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) top: Option<String>,
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
    pub(super) fn rehashed(&self) -> Result<ModelVersion, StateFileError> {
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
