//! The map that features go through before a model is trained on them (R section VII-A). It is made
//! once for a state directory and kept there, since every model stored beside it is of features
//! under this very map.

use std::path::PathBuf;

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_state::state_dir::StateDir;
use vfl_state::state_file::{StateFile, StateFileError};
use vfl_state::state_table::Revision;
use vfl_transform::{FeatureMap, TransformConfig, TransformError};

const SCHEMA: u32 = 1;

/// Errors from reading or making the map.
#[derive(Debug, thiserror::Error)]
pub enum TrainingMapError {
    /// The file of the map, or the directory.
    #[error(transparent)]
    File(#[from] StateFileError),
    /// The models in the directory belong to another map.
    #[error(
        "the models in {} were trained on features transformed by {stored}, `transform` is now {configured}: set it back, or \
         name another state_dir and train there", dir.display()
    )]
    Other {
        /// The state directory.
        dir: PathBuf,
        /// The stored transform.
        stored: String,
        /// The configured transform.
        configured: String,
    },
    /// A map of another transform, under which no model was trained.
    #[error(
        "{} holds the map of {stored}, `transform` is now {configured}; no model was trained under it yet: remove that file, or \
         set `transform` back", path.display()
    )]
    Unused {
        /// The file of the map.
        path: PathBuf,
        /// The stored transform.
        stored: String,
        /// The configured transform.
        configured: String,
    },
    /// Models without their map.
    #[error(
        "there are models in {} and no feature_map.json, `transform` is {configured}: restore that file from a backup if the \
         models were trained under it; if they were trained on the features as they are, set `transform` to none, or name \
         another state_dir and train there", dir.display()
    )]
    Missing {
        /// The state directory.
        dir: PathBuf,
        /// The configured transform.
        configured: String,
    },
    /// A transform that is not a map of the features.
    #[error(transparent)]
    Transform(#[from] TransformError),
}

/// The content of the file. Anyone who has it can undo the transform.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MapFile {
    schema: u32,
    transform: TransformConfig,
    /// H, d rows of d values.
    matrix: Vec<Vec<f64>>,
    /// t, d values.
    shift: Vec<f64>,
    /// The hash of this file with an empty hash, so that a changed digit is found.
    sha256: String,
}

impl MapFile {
    fn hash(&self) -> String {
        let Self { schema, transform, matrix, shift, .. } = self;
        let content = serde_json::to_vec(&(schema, transform, matrix, shift)).unwrap_or_default();
        hex(Sha256::digest(content))
    }
}

/// Creates a generator for maps that are made only to check that they can be.
pub(crate) fn trial() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(0)
}

/// Creates a generator seeded by the operating system.
pub(crate) fn secret() -> ChaCha20Rng {
    let mut seed = [0; 32];
    rand::rng().fill_bytes(&mut seed);
    ChaCha20Rng::from_seed(seed)
}

/// Checks that a state directory and a config agree, without making anything. `features` is this
/// party's d.
///
/// # Errors
/// As [`open`].
pub fn check(
    state_dir: impl Into<StateDir>,
    config: &TransformConfig,
    features: usize,
) -> Result<(), TrainingMapError> {
    match stored(&state_dir.into(), config, features)? {
        Some(_) => Ok(()),
        None => Ok(possible(config, features)?),
    }
}

/// Checks that a model can be trained on `features` features under a transform.
///
/// # Errors
/// The reason, as from [`FeatureMap::new`].
pub fn possible(config: &TransformConfig, features: usize) -> Result<(), TransformError> {
    match config {
        TransformConfig::None {} => Ok(()),
        other => FeatureMap::new(other, features, &mut trial()).map(drop),
    }
}

/// Opens the map of a state directory, and makes it if there is none yet; `None` for `none`, which
/// leaves no file. Of several processes that share the state, the first makes the map, and the
/// others take that one.
///
/// # Errors
/// [`TrainingMapError`]: a transform that is not a map of `features` features, a directory whose
/// models belong to another one, a damaged file, or a disk that refuses.
pub fn open(
    state_dir: impl Into<StateDir>,
    config: &TransformConfig,
    features: usize,
) -> Result<Option<FeatureMap>, TrainingMapError> {
    let state_dir = &state_dir.into();
    let found = stored(state_dir, config, features)?;
    if found.is_some() || *config == (TransformConfig::None {}) {
        return Ok(found);
    }
    let map = FeatureMap::new(config, features, &mut secret())?;
    let mut file = MapFile {
        schema: SCHEMA,
        transform: config.clone(),
        matrix: map.matrix().row_iter().map(|r| r.iter().copied().collect()).collect(),
        shift: map.shift().iter().copied().collect(),
        sha256: String::new(),
    };
    file.sha256 = file.hash();
    let state = state_file(state_dir);
    match state.swap(Revision::default(), &state.json(&file)?)? {
        Some(_) => Ok(Some(map)),
        None => stored(state_dir, config, features),
    }
}

fn state_file(state_dir: &StateDir) -> StateFile {
    let fix = "without it no model stored beside it can be served: restore it from a backup";
    state_dir.file("feature_map.json", fix)
}

/// Reads the map on disk, if there is one. Fails if it or the models there belong to another
/// transform than `config`.
fn stored(
    state_dir: &StateDir,
    config: &TransformConfig,
    features: usize,
) -> Result<Option<FeatureMap>, TrainingMapError> {
    let state = state_file(state_dir);
    let other = |stored: String| {
        let configured = config.to_string();
        Err(match holds_models(state_dir)? {
            true => TrainingMapError::Other { dir: state_dir.path(), stored, configured },
            false => TrainingMapError::Unused { path: state.path().to_owned(), stored, configured },
        })
    };
    let Some(file) = state.read_versioned::<MapFile>(SCHEMA)? else {
        // Models without a map were trained on unchanged features, or their map is lost.
        if *config != (TransformConfig::None {}) && holds_models(state_dir)? {
            return Err(TrainingMapError::Missing {
                dir: state_dir.path(),
                configured: config.to_string(),
            });
        }
        return Ok(None);
    };
    let d = file.shift.len();
    if file.sha256 != file.hash() || file.matrix.len() != d {
        return Err(state.damaged("its content does not match its hash").into());
    }
    if file.matrix.iter().any(|row| row.len() != d) {
        return Err(state.damaged("its rows are of different lengths").into());
    }
    if file.transform != *config {
        return other(file.transform.to_string());
    }
    if d != features {
        return other(format!(
            "{} for {d} features (this party now holds {features})",
            file.transform.name()
        ));
    }
    let matrix = DMatrix::from_row_iterator(d, d, file.matrix.into_iter().flatten());
    Ok(Some(FeatureMap::from_parts(matrix, DVector::from_vec(file.shift))?))
}

fn holds_models(state_dir: &StateDir) -> Result<bool, TrainingMapError> {
    Ok(!state_dir.below("versions").names()?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLEMENT: TransformConfig = TransformConfig::Complement {};
    const NONE: TransformConfig = TransformConfig::None {};

    #[test]
    fn a_map_is_made_once_and_belongs_to_its_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert!(open(dir.path(), &NONE, 3).unwrap().is_none());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no map, no file");
        check(dir.path(), &COMPLEMENT, 3).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "checking makes nothing");
        let map = open(dir.path(), &COMPLEMENT, 3).unwrap().unwrap();
        let content = std::fs::read(state_file(&dir.path().into()).path()).unwrap();
        assert_eq!(open(dir.path(), &COMPLEMENT, 3).unwrap().unwrap(), map);
        assert_eq!(std::fs::read(state_file(&dir.path().into()).path()).unwrap(), content);
        for other in [TransformConfig::Negate {}, NONE] {
            let refused = open(dir.path(), &other, 3).unwrap_err().to_string();
            assert!(refused.contains("complement") && refused.contains(other.name()), "{refused}");
            assert!(
                refused.contains("no model was trained") && refused.contains("feature_map.json"),
                "{refused}"
            );
            assert_eq!(check(dir.path(), &other, 3).unwrap_err().to_string(), refused);
        }
        let refused = open(dir.path(), &COMPLEMENT, 4).unwrap_err().to_string();
        assert!(refused.contains("3 features") && refused.contains('4'), "{refused}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(state_file(&dir.path().into()).path())
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn models_without_a_map_keep_one_from_being_made() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("versions")).unwrap();
        open(dir.path(), &COMPLEMENT, 2).map(drop).unwrap();
        std::fs::remove_file(state_file(&dir.path().into()).path()).unwrap();
        std::fs::write(dir.path().join("versions/m-1.json"), "{}").unwrap();
        assert!(open(dir.path(), &NONE, 2).unwrap().is_none());
        let refused = open(dir.path(), &COMPLEMENT, 2).unwrap_err().to_string();
        for says in ["none", "state_dir", "restore that file"] {
            assert!(refused.contains(says), "{refused}");
        }
    }

    #[test]
    fn maps_are_told_apart() {
        let digest =
            |config: &TransformConfig| FeatureMap::new(config, 3, &mut trial()).unwrap().digest();
        let selective = TransformConfig::Selective { features: vec![0, 1, 2] };
        assert_ne!(
            digest(&COMPLEMENT),
            digest(&TransformConfig::Negate {}),
            "the same H, another t"
        );
        assert_eq!(digest(&COMPLEMENT), digest(&selective), "the same map by another name");
        assert_ne!(digest(&COMPLEMENT), digest(&NONE));
    }

    #[test]
    fn a_changed_file_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), &COMPLEMENT, 2).unwrap();
        let content = std::fs::read_to_string(state_file(&dir.path().into()).path()).unwrap();
        for bad in [
            content.replacen("-1.0", "-1.5", 1),
            content[..content.len() / 2].to_owned(),
            "{}".to_owned(),
        ] {
            assert_ne!(bad, content);
            std::fs::write(state_file(&dir.path().into()).path(), bad).unwrap();
            let refused = open(dir.path(), &COMPLEMENT, 2).unwrap_err().to_string();
            assert!(
                refused.contains("feature_map.json") && refused.contains("damaged"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_is_no_map_of_features_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused =
            check(dir.path(), &TransformConfig::LeastSquaresOptimal {}, 2).unwrap_err().to_string();
        assert!(
            refused.contains("least_squares_optimal") && refused.contains("trained parameters"),
            "{refused}"
        );
    }
}
