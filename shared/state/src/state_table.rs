//! State that several processes of a party share: a table of named contents, in place of the files
//! of one folder.
//!
//! Every change of a content gives it a new revision. A decision that must be made once is based on
//! a content that was read, and is written only if that is still the newest one
//! ([`StateTable::swap`]): of two concurrent processes one is first, and the other reads what the
//! first one wrote and decides again. No process holds a lock for which another would wait.

use std::fmt;

/// The revision of a content that was seen; the default stands for no content. In a folder, which
/// has one process, it carries no information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revision(Option<[u8; 16]>);

impl Revision {
    /// Creates the revision with this name in the table.
    #[must_use]
    pub fn named(name: [u8; 16]) -> Self {
        Self(Some(name))
    }

    /// Returns the table's name of the revision; `None`: there was no content.
    #[must_use]
    pub fn name(&self) -> Option<&[u8; 16]> {
        self.0.as_ref()
    }
}

/// The result of reading a name.
#[derive(Clone, PartialEq, Eq)]
pub enum TableReading {
    /// The content is still the one seen.
    Same,
    /// There is no content of that name.
    Absent,
    /// The revision and the content.
    Content(Revision, Vec<u8>),
}

/// Shows the size alone.
impl fmt::Debug for TableReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("Same"),
            Self::Absent => f.write_str("Absent"),
            Self::Content(_, content) => write!(f, "Content({} bytes)", content.len()),
        }
    }
}

/// An error of the table. It contains no content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StateTableError(pub String);

/// Named contents that several processes share. Each call waits for its answer, within a limit, and
/// may be made on any thread. Changes are durable when the call returns. After an error it is
/// unknown whether anything was changed.
pub trait StateTable: fmt::Debug + Send + Sync {
    /// Reads the content of a name, unless it is still the one seen.
    ///
    /// # Errors
    /// [`StateTableError`] if the table cannot be reached.
    fn read(&self, name: &str, seen: Option<Revision>) -> Result<TableReading, StateTableError>;

    /// Replaces the content of a name if it is still the one seen, and returns the new revision.
    /// Returns `None` if the content has changed.
    ///
    /// # Errors
    /// [`StateTableError`] if the table cannot be reached.
    fn swap(
        &self,
        name: &str,
        seen: Revision,
        content: &[u8],
    ) -> Result<Option<Revision>, StateTableError>;

    /// Replaces the content of a name unconditionally.
    ///
    /// # Errors
    /// [`StateTableError`] if the table cannot be reached.
    fn write(&self, name: &str, content: &[u8]) -> Result<(), StateTableError>;

    /// Removes a name, if it exists.
    ///
    /// # Errors
    /// [`StateTableError`] if the table cannot be reached.
    fn remove(&self, name: &str) -> Result<(), StateTableError>;

    /// Returns all names that begin with `prefix`, in order.
    ///
    /// # Errors
    /// [`StateTableError`] if the table cannot be reached.
    fn names(&self, prefix: &str) -> Result<Vec<String>, StateTableError>;
}
