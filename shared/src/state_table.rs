//! State of a party that several of its processes share: a table of named contents elsewhere, in place of the files of one folder.
//!
//! Every change of a content gives it a new revision. What must be decided once is decided on a content that was read, and written
//! only if that is still the newest one ([`StateTable::swap`]): of two processes that decide at the same time one is first, and the
//! other reads what the first one wrote and decides again. No process holds a lock that another would wait for.

use std::fmt;

/// Which content of a name was seen; the default is none at all. In a folder, which has one process, it says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revision(Option<[u8; 16]>);

impl Revision {
    /// The revision that a table names so.
    #[must_use]
    pub fn named(name: [u8; 16]) -> Self {
        Self(Some(name))
    }

    /// What a table calls it; `None`: there was no content.
    #[must_use]
    pub fn name(&self) -> Option<&[u8; 16]> {
        self.0.as_ref()
    }
}

/// What a table says of a name.
#[derive(Clone, PartialEq, Eq)]
pub enum Reading {
    /// It is as it was seen.
    Same,
    /// There is nothing of that name.
    Absent,
    /// Its content, and which one that is.
    Content(Revision, Vec<u8>),
}

/// Shows the size alone.
impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("Same"),
            Self::Absent => f.write_str("Absent"),
            Self::Content(_, content) => write!(f, "Content({} bytes)", content.len()),
        }
    }
}

/// Why the table cannot be asked now. No content is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StateTableError(pub String);

/// Named contents that several processes share. Each call waits for its answer, within a limit, and may be made on any thread. What
/// it changes is durable when it returns. After an error it is not known whether something was changed.
pub trait StateTable: fmt::Debug + Send + Sync {
    /// The content of a name, unless it is still the one that was seen.
    ///
    /// # Errors
    /// [`StateTableError`].
    fn read(&self, name: &str, seen: Option<Revision>) -> Result<Reading, StateTableError>;

    /// Replaces the content of a name if it is still the one that was seen, and gives the new one's revision; `None`: it is another one.
    ///
    /// # Errors
    /// [`StateTableError`].
    fn swap(&self, name: &str, seen: Revision, content: &[u8]) -> Result<Option<Revision>, StateTableError>;

    /// Replaces the content of a name, whatever it is.
    ///
    /// # Errors
    /// [`StateTableError`].
    fn write(&self, name: &str, content: &[u8]) -> Result<(), StateTableError>;

    /// Removes a name; nothing to do if there is none.
    ///
    /// # Errors
    /// [`StateTableError`].
    fn remove(&self, name: &str) -> Result<(), StateTableError>;

    /// All names that begin with `prefix`, in order.
    ///
    /// # Errors
    /// [`StateTableError`].
    fn names(&self, prefix: &str) -> Result<Vec<String>, StateTableError>;
}
