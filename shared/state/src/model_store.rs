//! A party's parameters on its own disk: each share in a file named by the hash of its content,
//! each published version a small file that names a share. Publishing a version never touches the
//! files of another one.
//!
//! A share of a softmax regression is JSON, with the same bytes as in every earlier version; one of
//! another kind is a binary file.

use std::path::PathBuf;
use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::data::schema::FeatureSchema;
use vfl_core::hex;
use vfl_core::model::{
    LinearParameters, NotLinear, Parameters, SOFTMAX_REGRESSION, SpecError, SubModel, binary, kinds,
};
use vfl_core::types::ModelVersion;

use crate::state_dir::StateDir;
use crate::state_file::{StateFile, StateFileError};
use crate::state_table::Revision;

const SCHEMA: u32 = 1;

/// The fix for a damaged file.
const FIX: &str = "restore it from a backup, or train or import again";

/// Errors from storing or reading a share.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// An error from a file of the store.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// No share of that version is stored.
    #[error("model version {version} is not stored here (in {}); train or import it again, or restore this party's state directory", dir.display())]
    Unknown {
        /// The version of the model.
        version: ModelVersion,
        /// The directory of the store.
        dir: PathBuf,
    },
    /// Parameters that this version of the program cannot use.
    #[error("{} holds a model that this version cannot use: {source}; use the version that stored it, or train again", path.display())]
    Model {
        /// The path of the file.
        path: PathBuf,
        /// The reason, in terms of the model.
        source: SpecError,
    },
    /// The version is already bound to another share.
    #[error(
        "model version {version} is published here with another share, or for features of another schema; a published version never changes"
    )]
    Rebound {
        /// The version of the model.
        version: ModelVersion,
    },
    /// A digest that is not valid.
    #[error("{0:?} is not a SHA-256 digest in lower-case hexadecimal")]
    Digest(String),
}

impl StoreError {
    /// Returns true if the state's database does not answer; see [`StateFileError::away`].
    #[must_use]
    pub fn away(&self) -> bool {
        matches!(self, Self::File(error) if error.away())
    }

    /// Returns true if the disk is full; see [`StateFileError::disk_full`].
    #[must_use]
    pub fn disk_full(&self) -> bool {
        matches!(self, Self::File(error) if error.disk_full())
    }
}

/// The content of a share file. Its fields are private to the party that owns the directory.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShareFile {
    schema: u32,
    feature_names: Vec<String>,
    /// k rows of d weights.
    weights: Vec<Vec<f64>>,
    bias: Option<Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VersionFile {
    schema: u32,
    share: String,
    /// The hash of the feature map. It is here and not in the share, whose hash goes to the
    /// coordinator: the coordinator must not be able to test maps against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    feature_map: Option<String>,
    /// See [`StoredShare::encodings`]. They are here and not in the share, whose hash names the
    /// model to the ledger and must depend on the numbers alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encodings: Option<Vec<String>>,
}

/// A share that was read back.
#[derive(Debug, Clone)]
pub struct StoredShare {
    model: Arc<dyn SubModel>,
    /// Names of the features, in the order of the model's inputs.
    pub feature_names: Vec<String>,
    /// The encodings of the features ([`FeatureSchema::encodings`]). `None` if an earlier program
    /// published it without storing them, if it is not published, or if its inputs are not
    /// features.
    pub encodings: Option<Vec<String>>,
    /// The hash of its file.
    pub digest: String,
    /// The hash of the map that the features went through before training; `None` without a map.
    pub feature_map: Option<String>,
}

impl StoredShare {
    /// Returns the sub-model.
    #[must_use]
    pub fn model(&self) -> &dyn SubModel {
        &*self.model
    }

    /// Returns the parameters of a linear sub-model.
    ///
    /// # Errors
    /// [`NotLinear`] for another kind.
    pub fn linear(&self) -> Result<&LinearParameters, NotLinear> {
        self.model.linear().ok_or_else(|| NotLinear { kind: self.model.spec().kind().to_owned() })
    }

    /// Checks that the sub-model was made for features of this schema.
    ///
    /// # Errors
    /// The first difference, in words.
    pub fn check_schema(&self, schema: &FeatureSchema) -> Result<(), String> {
        let names: Vec<&str> =
            schema.features().iter().map(|feature| feature.name.as_str()).collect();
        if self.feature_names != names {
            return Err("other features, or features in another order".to_owned());
        }
        let Some(before) = &self.encodings else { return Ok(()) };
        let now = schema.encodings();
        match names.iter().zip(before.iter().zip(&now)).find(|(_, (before, now))| before != now) {
            Some((name, (before, now))) => {
                Err(format!("`{name}` with {before}, which has {now} now"))
            }
            None => Ok(()),
        }
    }
}

/// The directory of one party's shares.
#[derive(Debug, Clone)]
pub struct ShareStore {
    dir: StateDir,
    feature_map: Option<String>,
    encodings: Option<Vec<String>>,
}

impl ShareStore {
    /// Opens the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`StoreError::File`] if it cannot be created.
    pub fn open(dir: impl Into<StateDir>) -> Result<Self, StoreError> {
        let dir = dir.into();
        for sub in ["shares", "versions"] {
            dir.below(sub).make()?;
        }
        Ok(Self { dir, feature_map: None, encodings: None })
    }

    /// Sets the map of the features under which models are trained. Versions published from now on
    /// store its hash.
    #[must_use]
    pub fn under_map(self, hash: String) -> Self {
        Self { feature_map: Some(hash), ..self }
    }

    /// Sets the encodings of the features ([`FeatureSchema::encodings`]). Versions published from
    /// now on store them.
    #[must_use]
    pub fn with_encodings(self, encodings: Vec<String>) -> Self {
        Self { encodings: Some(encodings), ..self }
    }

    /// Returns, for the operator, a line for each version in a state directory that was made under
    /// another schema than this one, with the difference. Versions that cannot be read are left
    /// out. Nothing is created.
    #[must_use]
    pub fn of_other_schemas(dir: impl Into<StateDir>, schema: &FeatureSchema) -> Vec<String> {
        let store = Self { dir: dir.into(), feature_map: None, encodings: None };
        let names = store.dir.below("versions").names().unwrap_or_default();
        let versions =
            names.iter().filter_map(|name| ModelVersion::new(name.strip_suffix(".json")?).ok());
        let line = |version: ModelVersion| {
            let difference = store.load(&version).ok()?.check_schema(schema).err()?;
            Some(format!(
                "model {version} was made for {difference}; if it is still in service, its requests are refused: restore the schema that it was made \
                 under, or train or import it again"
            ))
        };
        versions.filter_map(line).collect()
    }

    /// Logs the lines of [`ShareStore::of_other_schemas`], without holding up the start of a
    /// service.
    pub fn warn_of_other_schemas(dir: &StateDir, schema: &FeatureSchema) {
        let (dir, schema) = (dir.clone(), schema.clone());
        let warn = move || {
            Self::of_other_schemas(dir, &schema).iter().for_each(|line| tracing::warn!("{line}"))
        };
        drop(tokio::task::spawn_blocking(warn));
    }

    /// Stores a share durably and returns the hash of its file.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be written; [`StoreError::Model`] for parameters
    /// that do not fit their kind.
    pub fn put(
        &self,
        parameters: impl Into<Parameters>,
        feature_names: &[String],
    ) -> Result<String, StoreError> {
        let parameters = parameters.into();
        let model = kinds::restore(&parameters).map_err(|source| StoreError::Model {
            path: self.dir.below("shares").path(),
            source,
        })?;
        let (content, form) = match model.linear() {
            Some(linear) if parameters.spec.kind() == SOFTMAX_REGRESSION => {
                let file = ShareFile {
                    schema: SCHEMA,
                    feature_names: feature_names.to_vec(),
                    weights: linear
                        .weights()
                        .row_iter()
                        .map(|r| r.iter().copied().collect())
                        .collect(),
                    bias: linear.bias().map(|b| b.iter().copied().collect()),
                };
                (to_json(&file), ShareFormat::Json)
            }
            _ => (binary::encode(&parameters, feature_names), ShareFormat::Binary),
        };
        let digest = digest(&content);
        self.share_file(&digest, form)?.write(&content)?;
        Ok(digest)
    }

    /// Binds a version to the share with this hash.
    ///
    /// # Errors
    /// [`StoreError`] if no such share is stored or the binding cannot be written.
    pub fn bind(&self, version: &ModelVersion, digest: &str) -> Result<(), StoreError> {
        let share = self.read_share(digest)?;
        let encodings =
            self.encodings.clone().filter(|encodings| encodings.len() == share.feature_names.len());
        let (share, feature_map) = (digest.to_owned(), self.feature_map.clone());
        let file = VersionFile { schema: SCHEMA, share, feature_map, encodings };
        loop {
            match self.bound(version) {
                Ok(bound) if bound.share == digest && bound.feature_map == self.feature_map => {
                    // Earlier programs did not store the encodings.
                    let same = bound.encodings.is_none()
                        || file.encodings.is_none()
                        || bound.encodings == file.encodings;
                    return if same {
                        Ok(())
                    } else {
                        Err(StoreError::Rebound { version: version.clone() })
                    };
                }
                Ok(_) => return Err(StoreError::Rebound { version: version.clone() }),
                Err(StoreError::Unknown { .. }) => {}
                Err(error) => return Err(error),
            }
            // If another process binds it meanwhile, the next pass reads that binding.
            if self.version_file(version).swap(Revision::default(), &to_json(&file))?.is_some() {
                return Ok(());
            }
        }
    }

    /// Reads the share of a version, checking its hash.
    ///
    /// # Errors
    /// [`StoreError::Unknown`] for a version never published here, [`StoreError::File`] for a
    /// changed file.
    pub fn load(&self, version: &ModelVersion) -> Result<StoredShare, StoreError> {
        let bound = self.bound(version)?;
        Ok(StoredShare {
            feature_map: bound.feature_map,
            encodings: bound.encodings,
            ..self.read_share(&bound.share)?
        })
    }

    /// Reads a share by the hash of its file, published or not, checking that hash.
    ///
    /// # Errors
    /// [`StoreError`] for a hash that no file can have, or a file that is missing or changed.
    pub fn stored(&self, digest: &str) -> Result<StoredShare, StoreError> {
        self.read_share(digest)
    }

    /// Returns the content of a share's file, by its hash, for [`ShareStore::keep`] elsewhere.
    ///
    /// # Errors
    /// As [`ShareStore::stored`].
    pub fn content(&self, digest: &str) -> Result<Vec<u8>, StoreError> {
        self.read_share(digest)?;
        Ok(self.read_content(digest)?.2)
    }

    /// Stores the file of a share that was stored elsewhere under this hash.
    ///
    /// # Errors
    /// [`StoreError`] if it is not that file, or it cannot be written.
    pub fn keep(&self, digest: &str, content: &[u8]) -> Result<(), StoreError> {
        let form = if content.starts_with(b"{") { ShareFormat::Json } else { ShareFormat::Binary };
        let file = self.share_file(digest, form)?;
        if self::digest(content) != digest {
            return Err(file.damaged("its content does not match its name").into());
        }
        Ok(file.write(content)?)
    }

    /// Returns the binding of a version to its share.
    fn bound(&self, version: &ModelVersion) -> Result<VersionFile, StoreError> {
        let unknown = || StoreError::Unknown { version: version.clone(), dir: self.dir.path() };
        self.version_file(version).read_versioned(SCHEMA)?.ok_or_else(unknown)
    }

    fn read_share(&self, digest: &str) -> Result<StoredShare, StoreError> {
        let (file, form, content) = self.read_content(digest)?;
        let damaged = |reason: String| file.damaged(reason);
        if self::digest(&content) != digest {
            return Err(damaged("its content does not match its name".into()).into());
        }
        let (parameters, feature_names) = match form {
            ShareFormat::Json => parse(&content).map_err(damaged)?,
            ShareFormat::Binary => binary::decode(&content).map_err(damaged)?,
        };
        let model = kinds::restore(&parameters)
            .map_err(|source| StoreError::Model { path: file.path().to_owned(), source })?;
        let digest = digest.to_owned();
        Ok(StoredShare {
            model: model.into(),
            feature_names,
            encodings: None,
            digest,
            feature_map: None,
        })
    }

    /// Returns the file of a share, its form, and its bytes.
    fn read_content(&self, digest: &str) -> Result<(StateFile, ShareFormat, Vec<u8>), StoreError> {
        let json = self.share_file(digest, ShareFormat::Json)?;
        if let Some(content) = json.read()? {
            return Ok((json, ShareFormat::Json, content));
        }
        let binary = self.share_file(digest, ShareFormat::Binary)?;
        match binary.read()? {
            Some(content) => Ok((binary, ShareFormat::Binary, content)),
            // If there is neither, the first one is reported as missing.
            None => Err(json.damaged("it is missing").into()),
        }
    }

    fn share_file(&self, digest: &str, form: ShareFormat) -> Result<StateFile, StoreError> {
        // The digest comes from a peer and becomes a path.
        let hex = digest.len() == 64
            && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !hex {
            return Err(StoreError::Digest(digest.chars().take(80).collect()));
        }
        Ok(self.dir.below("shares").file(&format!("{digest}.{}", form.extension()), FIX))
    }

    fn version_file(&self, version: &ModelVersion) -> StateFile {
        self.dir.below("versions").file(&format!("{version}.json"), FIX)
    }
}

/// The file format of a share.
#[derive(Debug, Clone, Copy)]
enum ShareFormat {
    Json,
    Binary,
}

impl ShareFormat {
    fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Binary => "safetensors",
        }
    }
}

/// Reads a share of a softmax regression.
fn parse(content: &[u8]) -> Result<(Parameters, Vec<String>), String> {
    let file: ShareFile = serde_json::from_slice(content).map_err(|e| e.to_string())?;
    let d = file.feature_names.len();
    if file.schema != SCHEMA || file.weights.iter().any(|row| row.len() != d) {
        return Err("its fields contradict each other".into());
    }
    let weights =
        DMatrix::from_row_iterator(file.weights.len(), d, file.weights.into_iter().flatten());
    let linear = LinearParameters::new(weights, file.bias.map(DVector::from_vec))
        .map_err(|e| e.to_string())?;
    Ok(((&linear).into(), file.feature_names))
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    // Plain structs of numbers and strings: serialisation cannot fail, and an empty file would be
    // refused on reading.
    let mut content = serde_json::to_vec(value).unwrap_or_default();
    content.push(b'\n');
    content
}

fn digest(content: &[u8]) -> String {
    hex(Sha256::digest(content))
}

#[cfg(test)]
mod tests;
