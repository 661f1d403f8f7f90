//! The manifest that the coordinator keeps of a published model.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::model::{Combiner, ModelSpec, SpecError, TrainingConfig};
use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_state::state_file::{StateFile, StateFileError};

/// Schema of the manifests that are written now.
pub(super) const SCHEMA: u32 = 2;

/// Advice for a damaged file.
pub(super) const FIX: &str = "restore it from a backup, or train or import again";

/// One party's part in a published model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartyEntry {
    /// The name of the party.
    pub name: PartyName,
    /// Number of its features.
    pub features: u32,
    /// Hash of its stored share.
    pub share: String,
    /// The party's statement of the privacy that it trained with. `None`, and not written: it
    /// trained without, or imported its share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privacy: Option<PrivacyStatement>,
}

/// The summary of a model's training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingSummary {
    /// The configuration of the training.
    pub config: TrainingConfig,
    /// Number of epochs that were run.
    pub epochs: u32,
    /// The epoch that was published, from 1.
    pub best_epoch: u32,
    /// Number of gradient steps.
    pub steps: u64,
    /// Number of records trained on.
    pub training_records: u32,
    /// Number of records set aside to choose the epoch.
    pub validation_records: u32,
}

/// The manifest: everything the coordinator keeps of a published model but the parameters of a top
/// model, which it names by their hash.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    schema: u32,
    /// The version, a hash of everything below.
    pub version: ModelVersion,
    /// The part of each party, and how the outputs are combined. `None` in manifests of schema 1:
    /// see [`Manifest::model`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<ModelSpec>,
    /// Hash of the stored top model, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) top: Option<String>,
    /// Class names, in the order of the scores.
    pub class_names: Vec<String>,
    /// The active party's part.
    pub active_party: PartyEntry,
    /// The passive parties' parts, in the order of summation.
    pub passive_parties: Vec<PartyEntry>,
    /// The summary of its training; `None`: it was imported, not trained here.
    pub training: Option<TrainingSummary>,
    /// Ids of all records the training saw, validation included; for an imported model, those that
    /// its training elsewhere is said to have seen.
    pub training_ids: Vec<String>,
}

impl Manifest {
    /// Creates a manifest and assigns its version: `m-` and the first 16 hexadecimal digits of the
    /// hash of everything in it. A softmax regression has the version that it had before there was
    /// a choice of models.
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
        Self::with_top(
            model,
            None,
            class_names,
            active_party,
            (passive_parties, training),
            training_ids,
        )
    }

    /// Creates a manifest as [`Manifest::new`] does, of a model whose top model is stored under
    /// this hash.
    ///
    /// # Errors
    /// As [`Manifest::new`], and [`SpecError::Top`] unless there is a top model exactly where the
    /// model needs one.
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
            let reason =
                "its stored parameters are named exactly where the model has one".to_owned();
            return Err(SpecError::Top { reason });
        }
        let training_ids: Vec<String> = training_ids.iter().map(str::to_owned).collect();
        // With a training, the hash is as it was before models could be imported.
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
        Ok(Self {
            schema,
            version,
            model,
            top,
            class_names,
            active_party,
            passive_parties,
            training,
            training_ids,
        })
    }

    /// Returns the hash of the stored top model, if there is one.
    #[must_use]
    pub fn top(&self) -> Option<&str> {
        self.top.as_deref()
    }

    /// Returns the specification of the model: the part of each party, and how the outputs are
    /// combined.
    ///
    /// # Errors
    /// [`SpecError::Parties`] for an old manifest of more passive parties than a model can have.
    pub fn model(&self) -> Result<ModelSpec, SpecError> {
        match &self.model {
            Some(model) => Ok(model.clone()),
            None => ModelSpec::softmax_regression(
                self.class_names.len() as u32,
                self.passive_parties.len(),
            ),
        }
    }
}

impl Manifest {
    /// Returns the fingerprint of what the passive parties contribute to a record's scores: `p-`
    /// and 32 hexadecimal digits of a hash of the number of classes and, in the order of summation,
    /// of the name and the parameters' digest of each passive party.
    ///
    /// Noise, bound shares and budgets are keyed by it. Nothing that the active party supplies is
    /// in it: not the class names, not the configuration, not its own parameters. The version
    /// changes with any of them. A top model is in it: whoever has the passive parties train again
    /// with another one has another model, which counts against the models that a record is
    /// answered under.
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
        // The stored shares say their kind and width, but not how they are combined.
        if let Some(combiner) =
            self.model.as_ref().map(ModelSpec::combiner).filter(|c| *c != Combiner::Sum)
        {
            hash.update(combiner.as_str().as_bytes());
        }
        if let Some(top) = &self.top {
            hash.update(top.as_bytes());
        }
        format!("p-{}", hex(&hash.finalize()[..16]))
    }

    /// Returns the version that follows from the content. If it differs from that in the file, the
    /// file was changed.
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
