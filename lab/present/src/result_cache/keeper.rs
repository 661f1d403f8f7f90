//! Keeps finished work in files of a folder, and in objects of a store that other machines read
//! too.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use vfl_state::files::write_atomic;

use super::store::Store;
use super::store_error::StoreError;
use super::store_url::StoreUrl;
use crate::progress::say;

/// The description of a store, for a reader of its objects.
const ABOUT: &str = "What `cloison reproduce --all --store` and `cloison demo --store` keep. What is deleted is computed again.\n";

/// Errors from keeping finished work.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

/// The file and the object of one piece of work, which have the same content.
#[derive(Debug, Clone)]
pub struct CachePath {
    pub(crate) file: PathBuf,
    pub(crate) object: String,
}

/// Keeps finished work. A file that cannot be written is an error at once. An object that cannot be
/// put is retried at the end, since its content is in a file.
pub struct ResultCache {
    out: PathBuf,
    store: Option<SharedStore>,
}

/// A store with the state of this run.
struct SharedStore {
    store: Store,
    /// The sizes of the objects of the computed kind that existed at the start.
    found: BTreeMap<String, u64>,
    /// The objects that this run put.
    put: RefCell<BTreeSet<String>>,
    /// The objects that could not be put, with their files.
    unstored: RefCell<BTreeMap<String, PathBuf>>,
}

impl ResultCache {
    /// Creates a keeper of files in a folder, without a store.
    #[must_use]
    pub fn folder(out: impl Into<PathBuf>) -> Self {
        Self { out: out.into(), store: None }
    }

    /// Creates a keeper of files in a folder and, if `url` is given, of objects in a store. `kind`
    /// is the folder of the computed objects there, such as `cards`.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not list its objects.
    pub fn open(out: &Path, url: Option<&StoreUrl>, kind: &str) -> Result<Self, StoreError> {
        let open = |url| {
            let store = Store::open(url)?;
            let found = store.sizes(kind)?;
            Ok::<_, StoreError>(SharedStore {
                store,
                found,
                put: RefCell::default(),
                unstored: RefCell::default(),
            })
        };
        Ok(Self { out: out.to_owned(), store: url.map(open).transpose()? })
    }

    /// Checks that objects can be put.
    ///
    /// # Errors
    /// [`StoreError`] if they cannot.
    pub fn try_store(&self) -> Result<(), StoreError> {
        self.store.as_ref().map_or(Ok(()), |beside| beside.store.put("about.txt", ABOUT.into()))
    }

    /// Returns the place of card `id`, where `key` is the hash of its inputs. Cards with the same
    /// key share an object.
    pub fn card(&self, id: &str, key: &str) -> CachePath {
        CachePath {
            file: self.out.join("cards").join(format!("{id}.json")),
            object: format!("cards/{key}.json"),
        }
    }

    /// Returns the place of a piece of an audit, where `key` is the hash of its inputs.
    pub fn piece(&self, key: &str) -> CachePath {
        let object = format!("pieces/{key}.json");
        CachePath { file: self.out.join(&object), object }
    }

    /// Returns the place of a trained model, where `hash` is the hash of its inputs.
    pub fn model(&self, hash: &str) -> CachePath {
        let object = format!("models/{hash}.json");
        CachePath { file: self.out.join(&object), object }
    }

    /// Reads the file of a place with `read`. A missing or damaged file gives `None`.
    pub fn in_folder<T>(&self, place: &CachePath, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        read(&std::fs::read(&place.file).ok()?)
    }

    /// Reads the object of a place with `read` and copies it to the file. A missing or damaged
    /// object gives `None`.
    ///
    /// # Errors
    /// [`CacheError::Store`] if the store does not answer; [`CacheError::Write`].
    pub fn in_store<T>(
        &self,
        place: &CachePath,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, CacheError> {
        let Some(beside) = &self.store else { return Ok(None) };
        let Some(content) = beside.store.get(&place.object)? else { return Ok(None) };
        let Some(found) = read(&content) else { return Ok(None) };
        write(&place.file, &content)?;
        Ok(Some(found))
    }

    /// Keeps a piece of work that was computed.
    ///
    /// # Errors
    /// [`CacheError::Write`] if the file cannot be written.
    pub fn keep(&self, place: &CachePath, content: Vec<u8>) -> Result<(), CacheError> {
        write(&place.file, &content)?;
        if let Some(beside) = &self.store {
            beside.put(place, content);
        }
        Ok(())
    }

    /// Puts a file that the store lacks, or has with another length, since an earlier run could not
    /// put it.
    pub fn catch_up(&self, place: &CachePath) {
        let Some(beside) = &self.store else { return };
        let Ok(content) = std::fs::read(&place.file) else { return };
        if beside.found.get(&place.object) != Some(&(content.len() as u64)) {
            beside.put(place, content);
        }
    }

    /// Retries to put the objects that could not be put, and returns the number that the store
    /// still lacks.
    pub fn finish(&self) -> usize {
        let Some(beside) = &self.store else { return 0 };
        let mut left = beside.unstored.take();
        while let Some((object, file)) = left.pop_first() {
            let put = std::fs::read(&file)
                .is_ok_and(|content| beside.store.put(&object, content).is_ok());
            if !put {
                return left.len() + 1;
            }
        }
        0
    }
}

impl SharedStore {
    fn put(&self, place: &CachePath, content: Vec<u8>) {
        if self.put.borrow().contains(&place.object) {
            return;
        }
        match self.store.put(&place.object, content) {
            Ok(()) => {
                self.put.borrow_mut().insert(place.object.clone());
            }
            Err(why) => {
                say(&format!("not put into the store yet: {}: {why}", place.object));
                self.unstored.borrow_mut().insert(place.object.clone(), place.file.clone());
            }
        }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), CacheError> {
    write_atomic(path, content, false)
        .map_err(|source| CacheError::Write { path: path.to_owned(), source })
}
