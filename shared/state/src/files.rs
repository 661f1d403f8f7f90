//! Crash-safe files, which are written beside their place, flushed, then renamed; and the lock on a
//! directory of them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::Path;

/// Writes a file atomically: after a crash at any moment, either the old or the whole new content
/// is there. If `private`, only the owner may read it.
///
/// # Errors
/// [`io::Error`] from the file system; the old content, if any, is then still in place.
pub fn write_atomic(path: &Path, content: &[u8], private: bool) -> io::Result<()> {
    let dir = parent(path);
    make_dir(dir)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".tmp-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(if private { 0o600 } else { 0o644 }));
    }
    let mut file = builder.tempfile_in(dir)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    // The rename is durable only once the directory is synced.
    File::open(dir)?.sync_all()
}

/// Makes a directory and its missing parents, so that none of them is lost in a crash.
///
/// # Errors
/// [`io::Error`] from the file system.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    make_dir_by(&fs::DirBuilder::new(), dir)
}

/// Like [`make_dir`], with a directory that only its owner may enter.
///
/// # Errors
/// As [`make_dir`].
pub fn make_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    make_dir_by(&builder, dir)
}

fn make_dir_by(builder: &fs::DirBuilder, dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let above = parent(dir);
    // Parent directories may be shared with others.
    make_dir(above)?;
    match builder.create(dir) {
        // Another process was faster.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
        made => made?,
    }
    // A new name is durable only once its parent directory is synced.
    File::open(above)?.sync_all()
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Takes the exclusive lock of a file, which is created if there is none. Returns `None` if another
/// process, or another place of this one, holds it. The operating system releases it when the file
/// is dropped or the process ends, however it ends.
///
/// # Errors
/// [`io::Error`] from the file system.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_old_content_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/file");
        write_atomic(&path, b"one", true).unwrap();
        write_atomic(&path, b"two", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        let state = dir.path().join("state/deep");
        make_private_dir(&state).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |made: &Path| fs::metadata(made).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&state), 0o700);
            assert_ne!(mode(parent(&state)), 0o700, "what lies above may be others' too");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn directories_are_made_with_those_above_them() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        make_dir(&deep).unwrap();
        make_dir(&deep).unwrap();
        assert!(deep.is_dir());
        fs::write(dir.path().join("file"), b"").unwrap();
        assert!(make_dir(&dir.path().join("file")).is_err());
        assert!(make_dir(&dir.path().join("file/below")).is_err());
    }

    #[test]
    fn a_lock_is_held_once_and_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = lock(&path).unwrap().unwrap();
        assert!(lock(&path).unwrap().is_none());
        drop(held);
        assert!(lock(&path).unwrap().is_some());
        assert!(lock(&dir.path().join("missing/lock")).is_err());
    }
}
