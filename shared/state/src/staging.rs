//! Imported parameters that wait to be published. The operator's command checks a parameter file,
//! stores the share, and writes which share it is; the running service reads that when it is asked
//! to publish. The file is the operator's consent: it names the active party that it is for, and is
//! good for one model version.

use std::path::{Path, PathBuf};

use rand::Rng as _;
use serde::{Deserialize, Serialize};
use vfl_core::hex;
use vfl_core::model::{
    NetworkFile, NetworkFileError, ParameterFile, ParameterFileError, Parameters, network_file,
};
use vfl_core::types::{ModelVersion, PartyName, ShapeError};

use super::{ShareStore, StoreError};
use crate::state_dir::StateDir;
use crate::state_file::{StateFile, StateFileError};

const SCHEMA: u32 = 1;

/// The fix for a damaged file.
const FIX: &str = "import the parameters again";

/// Errors from importing parameters, or from reading imported ones.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The parameter file is refused.
    #[error("parameter file {}: {source}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The reason for the refusal.
        source: ParameterFileError,
    },
    /// The file of a network is refused.
    #[error("parameter file {}: {source}", path.display())]
    Network {
        /// The path of the file.
        path: PathBuf,
        /// The reason for the refusal.
        source: NetworkFileError,
    },
    /// The model has more classes than the operator accepts.
    #[error(
        "parameter file {}: it is a model of {classes} classes, and --max-classes is {most}. Even of a label each answer tells up to \
         {:.1} bits of a record; if you want that, name the number", path.display(), (*classes as f64).log2()
    )]
    Classes {
        /// The path of the file.
        path: PathBuf,
        /// The number of its classes.
        classes: usize,
        /// The largest number that is accepted.
        most: usize,
    },
    /// Parameters that the party does not admit.
    #[error("parameter file {}: {reason}", path.display())]
    NotAdmitted {
        /// The file.
        path: PathBuf,
        /// The reason, with what to do.
        reason: String,
    },
    /// Parameters that do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// An error from the share store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An error from a file of staged parameters.
    #[error(transparent)]
    State(#[from] StateFileError),
}

impl ImportError {
    /// Returns true if the state's database does not answer; see [`StateFileError::away`].
    #[must_use]
    pub fn away(&self) -> bool {
        match self {
            Self::Store(error) => error.away(),
            Self::State(error) => error.away(),
            Self::File { .. }
            | Self::Network { .. }
            | Self::Classes { .. }
            | Self::NotAdmitted { .. }
            | Self::Shape(_) => false,
        }
    }
}

/// Parameters that an operator has staged. The values themselves are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StagedParameters {
    schema: u32,
    /// Distinguishes one staging from the next, also of the same parameters.
    id: String,
    /// Hash of the stored share.
    pub digest: String,
    /// The active party that may have it published.
    pub active_party: PartyName,
    /// Names of the classes, in the order of the weights' rows.
    pub class_names: Vec<String>,
    /// The encodings of the features when it was staged
    /// ([`FeatureSchema::encodings`](vfl_core::data::schema::FeatureSchema::encodings)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encodings: Option<Vec<String>>,
}

/// The version that a staging was published as. It is written by the service, never by the command.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishedStaging {
    schema: u32,
    id: String,
    version: ModelVersion,
}

/// A party's store of the parameters that its operator has staged: `imports` in its state
/// directory. The command writes one file there and the service another, so that neither undoes the
/// other's changes.
#[derive(Debug, Clone)]
pub struct Staging {
    dir: StateDir,
}

impl Staging {
    /// Returns the store of a state directory. Nothing is created.
    #[must_use]
    pub fn of(state_dir: impl Into<StateDir>) -> Self {
        Self { dir: state_dir.into().below("imports") }
    }

    fn staged_file(&self) -> StateFile {
        self.dir.file("staged.json", FIX)
    }

    fn used_file(&self) -> StateFile {
        self.dir.file("used.json", FIX)
    }

    /// Returns the staged parameters, if there are any.
    ///
    /// # Errors
    /// [`ImportError`] names the file that cannot be read.
    pub fn staged(&self) -> Result<Option<StagedParameters>, ImportError> {
        Ok(self.staged_file().read_versioned(SCHEMA)?)
    }

    /// Stages a stored share for an active party, durably, in place of what was staged before.
    ///
    /// # Errors
    /// [`ImportError::State`] if the file cannot be written.
    pub fn stage(
        &self,
        digest: String,
        active_party: PartyName,
        class_names: Vec<String>,
        encodings: Option<&[String]>,
    ) -> Result<StagedParameters, ImportError> {
        let mut id = [0; 16];
        rand::rng().fill_bytes(&mut id);
        let encodings = encodings.map(<[String]>::to_vec);
        let staged = StagedParameters {
            schema: SCHEMA,
            id: hex(id),
            digest,
            active_party,
            class_names,
            encodings,
        };
        self.staged_file().write_json(&staged)?;
        Ok(staged)
    }

    /// Removes what is staged and returns it. A version that it was published as stays.
    ///
    /// # Errors
    /// [`ImportError`] names the file.
    pub fn withdraw(&self) -> Result<Option<StagedParameters>, ImportError> {
        let staged = self.staged()?;
        self.staged_file().remove()?;
        Ok(staged)
    }

    /// Returns the version that this staging was published as, if it was.
    ///
    /// # Errors
    /// [`ImportError`] names the file that cannot be read.
    pub fn used_for(&self, staged: &StagedParameters) -> Result<Option<ModelVersion>, ImportError> {
        let used = self.used_file().read_versioned::<PublishedStaging>(SCHEMA)?;
        Ok(used.filter(|used| used.id == staged.id).map(|used| used.version))
    }

    /// Stores, durably, which version this staging is published as, and returns that version: the
    /// one given, or the one that it was published as before.
    ///
    /// # Errors
    /// [`ImportError`] names the file that cannot be read or written.
    pub fn use_for(
        &self,
        staged: &StagedParameters,
        version: &ModelVersion,
    ) -> Result<ModelVersion, ImportError> {
        let file = self.used_file();
        let used = file.json(&PublishedStaging {
            schema: SCHEMA,
            id: staged.id.clone(),
            version: version.clone(),
        })?;
        loop {
            let (seen, content) = file.read_newer(None)?.unwrap_or_default();
            let before = content
                .map(|content| file.parse_one_of::<PublishedStaging>(&content, &[SCHEMA]))
                .transpose()?;
            if let Some((_, before)) = before.filter(|(_, before)| before.id == staged.id) {
                return Ok(before.version);
            }
            if file.swap(seen, &used)?.is_some() {
                return Ok(version.clone());
            }
        }
    }
}

/// The result of [`import_parameters`]. The values themselves are not in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportReport {
    /// Hash of the stored share.
    pub digest: String,
    /// The active party that may have it published.
    pub active_party: PartyName,
    /// Names of the classes, in the order in which they are stored.
    pub class_names: Vec<String>,
    /// The kind of model.
    pub kind: String,
    /// Number of outputs per record.
    pub width: u32,
    /// Number of features, or of inputs.
    pub features: usize,
    /// True if the file's features, or the active party's classes, were in another order than the
    /// schema's and were reordered.
    pub reordered: bool,
    /// Hash of the share that was staged before and not published.
    pub replaced: Option<String>,
}

/// The input of an import: the file, and the party that it must fit.
#[derive(Debug, Clone, Copy)]
pub struct ImportRequest<'a> {
    /// The path of the file.
    pub path: &'a Path,
    /// The state directory of the party.
    pub state_dir: &'a StateDir,
    /// Names of the schema's features.
    pub feature_names: &'a [String],
    /// Their encodings, see [`encodings`](vfl_core::data::schema::FeatureSchema::encodings); `None`
    /// if the inputs are not features.
    pub encodings: Option<&'a [String]>,
    /// The largest number of classes that is accepted; `None` for any number.
    pub max_classes: Option<usize>,
    /// Classes of the label, for the active party only.
    pub classes: Option<&'a [String]>,
    /// The active party that may have it published.
    pub active_party: &'a PartyName,
}

/// Checks a parameter file against a party's schema, stores the share and stages it. The file is
/// JSON of a softmax regression, or safetensors of any kind. For a softmax regression the active
/// party holds the bias, and a passive party must not have one.
///
/// It works with or without a running service.
///
/// # Errors
/// [`ImportError`] names the file, the key, the row and the fix. Nothing is staged then; what was
/// staged before stays.
pub fn import_parameters(import: ImportRequest<'_>) -> Result<ImportReport, ImportError> {
    import_parameters_if(import, |_, _| Ok(()))
}

/// The same of parameters that `admit` takes: it is given them and the names of the classes before
/// anything is stored.
///
/// # Errors
/// As [`import_parameters`]; [`ImportError::NotAdmitted`] with the reason that `admit` gives.
pub fn import_parameters_if(
    import: ImportRequest<'_>,
    admit: impl FnOnce(&Parameters, &[String]) -> Result<(), String>,
) -> Result<ImportReport, ImportError> {
    let CheckedFile { parameters, class_names, reordered } = match import.path.extension() {
        Some(extension) if extension == network_file::EXTENSION => checked_network(import)?,
        _ => {
            let refused = |source| ImportError::File { path: import.path.to_owned(), source };
            let file = ParameterFile::read(import.path).map_err(refused)?;
            file.check_normalised().map_err(refused)?;
            checked_linear(file, import)?
        }
    };
    if let Some(most) = import.max_classes.filter(|most| class_names.len() > *most) {
        let (path, classes) = (import.path.to_owned(), class_names.len());
        return Err(ImportError::Classes { path, classes, most });
    }
    admit(&parameters, &class_names)
        .map_err(|reason| ImportError::NotAdmitted { path: import.path.to_owned(), reason })?;
    let store = ShareStore::open(import.state_dir)?;
    let (kind, width) = (parameters.spec.kind().to_owned(), parameters.spec.width());
    let digest = store.put(parameters, import.feature_names)?;
    let (staged, replaced) =
        restage(import.state_dir, digest, import.active_party, class_names, import.encodings)?;
    Ok(ImportReport {
        digest: staged.digest,
        active_party: staged.active_party,
        class_names: staged.class_names,
        kind,
        width,
        features: import.feature_names.len(),
        reordered,
        replaced,
    })
}

/// A file that fits the schema.
struct CheckedFile {
    parameters: Parameters,
    class_names: Vec<String>,
    reordered: bool,
}

fn checked_linear(
    file: ParameterFile,
    import: ImportRequest<'_>,
) -> Result<CheckedFile, ImportError> {
    let refused = |source| ImportError::File { path: import.path.to_owned(), source };
    let mut own = file.with_features(import.feature_names).map_err(refused)?;
    match (import.classes, file.bias()) {
        (Some(_), None) => return Err(refused(ParameterFileError::NoBias)),
        (None, Some(_)) => return Err(refused(ParameterFileError::BiasOfPassive)),
        (Some(classes), Some(_)) => own = own.with_classes(classes).map_err(refused)?,
        (None, None) => {}
    }
    let reordered = own != file;
    Ok(CheckedFile {
        parameters: own.stored()?,
        class_names: own.class_names().to_vec(),
        reordered,
    })
}

fn checked_network(import: ImportRequest<'_>) -> Result<CheckedFile, ImportError> {
    let refused = |source| ImportError::Network { path: import.path.to_owned(), source };
    let file = NetworkFile::read(import.path).map_err(refused)?;
    file.check_normalised().map_err(refused)?;
    if let Some(linear) = file.linear().map_err(refused)? {
        return checked_linear(linear, import);
    }
    let mut own = file.with_features(import.feature_names).map_err(refused)?;
    if let Some(classes) = import.classes {
        own = own.with_classes(classes).map_err(refused)?;
    }
    if own.class_names().is_empty() {
        return Err(refused(NetworkFileError::NoClasses));
    }
    let reordered = own.feature_names() != file.feature_names();
    Ok(CheckedFile {
        parameters: own.parameters().clone(),
        class_names: own.class_names().to_vec(),
        reordered,
    })
}

/// Stages a stored share in place of what was staged before. Also returns the hash of the earlier
/// share if that was not published.
///
/// # Errors
/// [`ImportError::State`] if the file cannot be written.
pub fn restage(
    state_dir: &StateDir,
    digest: String,
    active_party: &PartyName,
    class_names: Vec<String>,
    encodings: Option<&[String]>,
) -> Result<(StagedParameters, Option<String>), ImportError> {
    let staging = Staging::of(state_dir);
    // A staging that cannot be read any more is replaced as well.
    let before = staging.staged().ok().flatten();
    let replaced = match &before {
        Some(before) if staging.used_for(before).ok().flatten().is_none() => {
            Some(before.digest.clone())
        }
        _ => None,
    };
    Ok((staging.stage(digest, active_party.clone(), class_names, encodings)?, replaced))
}

impl ImportReport {
    /// Describes the result in lines for people. The caller adds the next steps.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut lines = format!(
            "staged for publication: {}, {} inputs to {} outputs, for active party `{}`\nclasses in order: {}\nshare (SHA-256): {}\n",
            self.kind,
            self.features,
            self.width,
            self.active_party,
            shortened(&self.class_names),
            self.digest
        );
        if self.reordered {
            lines.push_str(
                "the file had another order; rows and columns were put in the schema's order by their names\n",
            );
        }
        if let Some(before) = &self.replaced {
            lines.push_str(&format!(
                "replaces share {}, which was staged and not published\n",
                before
            ));
        }
        lines
    }
}

fn shortened(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
    let more = names.len().saturating_sub(8);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

#[cfg(test)]
mod tests;
