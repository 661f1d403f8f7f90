//! A store beside the folder of the results: a bucket of S3, or a folder that several machines
//! reach.

use std::collections::BTreeMap;
use std::path::Path as FilePath;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use vfl_state::files::make_dir;

use super::bucket::open_bucket;
use super::store_error::{StoreError, cause, code, status};
use super::store_url::StoreUrl;

/// The largest size of an object, in bytes. Larger objects are foreign and not read.
const LARGEST: u64 = 256 << 20;

/// An open store. Its calls block.
pub(super) struct Store {
    url: StoreUrl,
    prefix: String,
    objects: Box<dyn ObjectStore>,
    /// True if the environment has a key, so that the machine is not asked for one.
    has_keys: bool,
    runtime: tokio::runtime::Runtime,
}

impl Store {
    /// Opens a store without sending anything.
    ///
    /// # Errors
    /// [`StoreError`] if settings of the environment are invalid, or the folder cannot be made.
    pub(super) fn open(url: &StoreUrl) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StoreError::Runtime)?;
        let (objects, prefix, has_keys) = match url {
            StoreUrl::S3 { bucket, prefix } => {
                let (objects, has_keys) = open_bucket(url, bucket)?;
                (objects, prefix.clone(), has_keys)
            }
            StoreUrl::Folder(path) => (folder(url, path)?, String::new(), true),
        };
        Ok(Self { url: url.clone(), prefix, objects, has_keys, runtime })
    }

    fn path(&self, name: &str) -> Path {
        Path::from_iter(self.prefix.split('/').chain(name.split('/')).filter(|s| !s.is_empty()))
    }

    /// Returns the sizes of the objects in `folder`, by their names from `folder` on.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer.
    pub(super) fn sizes(&self, folder: &str) -> Result<BTreeMap<String, u64>, StoreError> {
        let under = self.path(folder);
        let found = self.objects.list(Some(&under)).try_fold(BTreeMap::new(), |mut all, object| {
            if let Some(name) = object.location.filename() {
                all.insert(format!("{folder}/{name}"), object.size);
            }
            std::future::ready(Ok(all))
        });
        self.runtime.block_on(found).map_err(|e| self.fault(&e))
    }

    /// Returns the object of this name; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer.
    pub(super) fn get(&self, name: &str) -> Result<Option<Bytes>, StoreError> {
        let path = self.path(name);
        let got = self.runtime.block_on(async {
            let found = self.objects.get(&path).await?;
            if found.meta.size > LARGEST { Ok(None) } else { found.bytes().await.map(Some) }
        });
        match got {
            Err(Error::NotFound { source, .. })
                if code(&source.to_string()) != Some("NoSuchBucket") =>
            {
                Ok(None)
            }
            got => got.map_err(|e| self.fault(&e)),
        }
    }

    /// Puts an object, replacing one of the same name. Readers see the old or the new object, never
    /// a part.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not take it.
    pub(super) fn put(&self, name: &str, content: Vec<u8>) -> Result<(), StoreError> {
        let path = self.path(name);
        self.runtime
            .block_on(self.objects.put(&path, content.into()))
            .map_err(|e| self.fault(&e))?;
        Ok(())
    }

    /// Converts an error to one that says how to correct it. The answer of a server is not shown:
    /// it may repeat the credentials.
    fn fault(&self, error: &Error) -> StoreError {
        let (url, text) = (self.url.clone(), error.to_string());
        let reason = cause(error);
        let StoreUrl::S3 { bucket, .. } = &self.url else {
            return StoreError::Folder { url, reason };
        };
        match (code(&text), status(&text)) {
            (Some("NoSuchBucket"), _) => StoreError::NoBucket { bucket: bucket.clone(), url },
            // The addresses at which an Amazon machine gives credentials.
            _ if !self.has_keys && text.contains("//169.254.") => StoreError::NoKeys { url },
            (_, Some(401 | 403)) => StoreError::Refused { url, reason },
            (None, None) => StoreError::Unreachable { url, reason },
            _ => StoreError::Answer { url, reason },
        }
    }
}

/// Opens a folder, which is made if needed.
fn folder(url: &StoreUrl, path: &FilePath) -> Result<Box<dyn ObjectStore>, StoreError> {
    let failed = |reason: String| StoreError::Folder { url: url.clone(), reason };
    make_dir(path).map_err(|e| failed(e.to_string()))?;
    let objects = LocalFileSystem::new_with_prefix(path).map_err(|e| failed(cause(&e)))?;
    Ok(Box::new(objects.with_fsync(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_put_replaced_listed_and_read() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&StoreUrl::Folder(folder.path().join("new/folder"))).unwrap();
        assert!(store.sizes("cards").unwrap().is_empty());
        assert_eq!(store.get("cards/a.json").unwrap(), None);
        for content in ["one", "three"] {
            store.put("cards/a.json", content.into()).unwrap();
            assert_eq!(store.get("cards/a.json").unwrap().unwrap(), content);
        }
        assert_eq!(store.sizes("cards").unwrap(), BTreeMap::from([("cards/a.json".to_owned(), 5)]));
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let url = StoreUrl::Folder(file.path().join("under"));
        let error = Store::open(&url).err().unwrap().to_string();
        assert!(error.contains(&url.to_string()), "{error}");
    }
}
