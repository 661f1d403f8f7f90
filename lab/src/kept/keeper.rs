//! Where finished work is kept: files in a folder, and objects in a store beside it, in which other machines look too.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use vfl_shared::files::write_atomic;

use super::store::Store;
use super::store_error::StoreError;
use super::store_url::StoreUrl;
use crate::progress::say;

/// What a store is, for whoever finds an object that this program did not write.
const ABOUT: &str =
    "What `cloison reproduce --all --store` and `cloison demo --store` keep. What is deleted is computed again.\n";

/// Why finished work cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// The file and the object of one piece of work. They have the same content.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) object: String,
}

/// Keeps finished work. A file that cannot be written is an error at once. An object that cannot be put is tried again at the end:
/// its content is in a file.
pub struct Keeper {
    out: PathBuf,
    store: Option<Beside>,
}

/// A store, and what this run knows of it.
struct Beside {
    store: Store,
    /// The sizes of the objects that were there at the start, of the kind that is computed.
    found: BTreeMap<String, u64>,
    /// Objects that this run put.
    put: RefCell<BTreeSet<String>>,
    /// Objects that could not be put, and their files.
    unstored: RefCell<BTreeMap<String, PathBuf>>,
}

impl Keeper {
    /// Keeps files in a folder, and no objects.
    #[must_use]
    pub fn folder(out: impl Into<PathBuf>) -> Self {
        Self { out: out.into(), store: None }
    }

    /// Keeps files in a folder, and objects in a store if one is named; those computed are `kind` there, as `cards`.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not tell which of them it has.
    pub(crate) fn open(out: &Path, url: Option<&StoreUrl>, kind: &str) -> Result<Self, StoreError> {
        let open = |url| {
            let store = Store::open(url)?;
            let found = store.sizes(kind)?;
            Ok::<_, StoreError>(Beside { store, found, put: RefCell::default(), unstored: RefCell::default() })
        };
        Ok(Self { out: out.to_owned(), store: url.map(open).transpose()? })
    }

    /// Tries whether objects can be put.
    ///
    /// # Errors
    /// [`StoreError`] if they cannot.
    pub(crate) fn try_store(&self) -> Result<(), StoreError> {
        self.store.as_ref().map_or(Ok(()), |beside| beside.store.put("about.txt", ABOUT.into()))
    }

    /// The card `id`, computed from what `key` is the hash of. Cards of one key share an object.
    pub(crate) fn card(&self, id: &str, key: &str) -> Place {
        Place { file: self.out.join("cards").join(format!("{id}.json")), object: format!("cards/{key}.json") }
    }

    /// The piece of an audit computed from what `key` is the hash of.
    pub(crate) fn piece(&self, key: &str) -> Place {
        let object = format!("pieces/{key}.json");
        Place { file: self.out.join(&object), object }
    }

    /// The model trained on what `hash` is the hash of.
    pub(crate) fn model(&self, hash: &str) -> Place {
        let object = format!("models/{hash}.json");
        Place { file: self.out.join(&object), object }
    }

    /// What is in the file of a place, if `read` understands it. A file that is damaged is as good as none.
    pub(crate) fn in_folder<T>(&self, place: &Place, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        read(&std::fs::read(&place.file).ok()?)
    }

    /// What is in the object of a place, if `read` understands it; it then goes into the file too. An object that is damaged is as good
    /// as none.
    ///
    /// # Errors
    /// [`KeptError::Store`] if the store does not answer; [`KeptError::Write`].
    pub(crate) fn in_store<T>(&self, place: &Place, read: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, KeptError> {
        let Some(beside) = &self.store else { return Ok(None) };
        let Some(content) = beside.store.get(&place.object)? else { return Ok(None) };
        let Some(found) = read(&content) else { return Ok(None) };
        write(&place.file, &content)?;
        Ok(Some(found))
    }

    /// Keeps a piece of work that was computed.
    ///
    /// # Errors
    /// [`KeptError::Write`] if the file cannot be written.
    pub(crate) fn keep(&self, place: &Place, content: Vec<u8>) -> Result<(), KeptError> {
        write(&place.file, &content)?;
        if let Some(beside) = &self.store {
            beside.put(place, content);
        }
        Ok(())
    }

    /// Puts a file that the store does not have, or has in another length: what an earlier run could not put.
    pub(crate) fn catch_up(&self, place: &Place) {
        let Some(beside) = &self.store else { return };
        let Ok(content) = std::fs::read(&place.file) else { return };
        if beside.found.get(&place.object) != Some(&(content.len() as u64)) {
            beside.put(place, content);
        }
    }

    /// Tries once more to put what could not be put, and returns how many objects the store still lacks.
    pub(crate) fn finish(&self) -> usize {
        let Some(beside) = &self.store else { return 0 };
        let mut left = beside.unstored.take();
        while let Some((object, file)) = left.pop_first() {
            let put = std::fs::read(&file).is_ok_and(|content| beside.store.put(&object, content).is_ok());
            if !put {
                return left.len() + 1;
            }
        }
        0
    }
}

impl Beside {
    fn put(&self, place: &Place, content: Vec<u8>) {
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

fn write(path: &Path, content: &[u8]) -> Result<(), KeptError> {
    write_atomic(path, content, false).map_err(|source| KeptError::Write { path: path.to_owned(), source })
}
