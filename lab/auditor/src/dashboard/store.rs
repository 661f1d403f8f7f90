//! The audits in a folder. Each has a folder with its configuration and its report.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use time::OffsetDateTime;
use vfl_state::files::write_atomic;

use crate::report::{Report, ReportError, write};

/// The name of the main folder itself, for a report in it.
pub(super) const ITSELF: &str = "~";
/// The number of the latest audits that are listed.
const LISTED: usize = 100;
/// The largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// The file with the configuration of an audit.
const CONFIG: &str = "audit.toml";
/// The file with the reason that there is no report.
const ENDED: &str = "ended.txt";

/// A folder of audits.
#[derive(Debug, Clone)]
pub(super) struct Store {
    dir: PathBuf,
}

/// An audit in the folder.
pub(super) struct Entry {
    /// The name of its folder.
    pub(super) name: String,
    /// The time at which its report was written, or at which it ended or began without one.
    pub(super) at: SystemTime,
    /// The state of its report.
    pub(super) kept: ReportState,
}

/// The state of an audit's report.
pub(super) enum ReportState {
    Report(Box<Report>),
    /// A report that cannot be read, with the reason.
    Unreadable(String),
    /// The reason that it ended without a report.
    Ended(String),
    /// A configuration only: the audit runs, or the program stopped before it ended.
    Begun,
}

/// A file of an audit that is served unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Html,
    Json,
    Csv,
    Config,
}

impl Piece {
    /// Returns the file name.
    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Html => "report.html",
            Self::Json => "report.json",
            Self::Csv => "report.csv",
            Self::Config => CONFIG,
        }
    }

    /// Returns the piece with this file name.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Html, Self::Json, Self::Csv, Self::Config]
            .into_iter()
            .find(|piece| piece.file() == name)
    }
}

impl Store {
    /// Opens a folder of audits, which is made if needed.
    ///
    /// # Errors
    /// A sentence if it cannot be made.
    pub(super) fn open(dir: &Path) -> Result<Self, String> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
            .create(dir)
            .map_err(|e| format!("cannot make the folder of audits {}: {e}", dir.display()))?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Starts an audit: creates its folder with its configuration. Returns its name.
    ///
    /// # Errors
    /// A sentence if it cannot be written.
    pub(super) fn begin(&self, at: SystemTime, config: &str) -> Result<String, String> {
        let failed = |e: io::Error| {
            format!("cannot write into the folder of audits {}: {e}", self.dir.display())
        };
        let stamp = OffsetDateTime::from(at);
        let (date, time) = (stamp.date(), stamp.time());
        let base = format!(
            "audit-{:04}{:02}{:02}-{:02}{:02}{:02}",
            date.year(),
            u8::from(date.month()),
            date.day(),
            time.hour(),
            time.minute(),
            time.second()
        );
        for attempt in 1..1000 {
            let name = if attempt == 1 { base.clone() } else { format!("{base}-{attempt}") };
            match fs::create_dir(self.dir.join(&name)) {
                Ok(()) => {
                    write_atomic(&self.dir.join(&name).join(CONFIG), config.as_bytes(), false)
                        .map_err(|e| {
                            format!(
                                "cannot write into the folder of audits {}: {e}",
                                self.dir.display()
                            )
                        })?;
                    return Ok(name);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Err(format!(
            "the folder of audits {} has too many audits of this second",
            self.dir.display()
        ))
    }

    /// Writes the report of an audit that was started here.
    ///
    /// # Errors
    /// [`ReportError`].
    pub(super) fn report(&self, name: &str, report: &Report) -> Result<(), ReportError> {
        write(report, &self.dir.join(name)).map(drop)
    }

    /// Writes the reason that an audit started here has no report.
    pub(super) fn ended(&self, name: &str, why: &str) {
        if let Err(error) = write_atomic(&self.dir.join(name).join(ENDED), why.as_bytes(), false) {
            tracing::warn!(%error, "cannot write how an audit ended");
        }
    }

    /// Returns the latest audits, newest first, and the number of older ones that are left out.
    ///
    /// # Errors
    /// A sentence if the folder cannot be read.
    pub(super) fn list(&self) -> Result<(Vec<Entry>, usize), String> {
        let mut found: Vec<(SystemTime, String)> = Vec::new();
        for name in self.names()? {
            found.extend(self.folder(&name).and_then(|folder| Some((changed(&folder)?, name))));
        }
        found.sort_by(|a, b| b.cmp(a));
        let more = found.len().saturating_sub(LISTED);
        found.truncate(LISTED);
        let entries =
            found.into_iter().filter_map(|(_, name)| self.find(&name).ok().flatten()).collect();
        Ok((entries, more))
    }

    /// Returns the names of the folders, and of the main folder itself.
    fn names(&self) -> Result<Vec<String>, String> {
        let failed =
            |e: io::Error| format!("cannot read the folder of audits {}: {e}", self.dir.display());
        let mut names = vec![ITSELF.to_owned()];
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // A link would lead out of the folder.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                names.extend(entry.file_name().into_string().ok().filter(|name| name != ITSELF));
            }
        }
        Ok(names)
    }

    /// Returns the folder of an audit. The name is looked up among existing names and never put
    /// into a path directly.
    fn folder(&self, name: &str) -> Option<PathBuf> {
        let known = self.names().ok()?.into_iter().find(|known| known == name)?;
        if known != ITSELF {
            return Some(self.dir.join(known));
        }
        // A configuration alone may lie there for another reason.
        Some(self.dir.clone()).filter(|dir| dir.join(Piece::Json.file()).is_file())
    }

    /// Returns the audit of this name; `None` if there is none.
    ///
    /// # Errors
    /// A sentence if the folder cannot be read.
    pub(super) fn find(&self, name: &str) -> Result<Option<Entry>, String> {
        let Some(folder) = self.folder(name) else { return Ok(None) };
        let Some(at) = changed(&folder) else { return Ok(None) };
        let kept = match read(&folder.join(Piece::Json.file())) {
            Ok(Some(text)) => match Report::from_json(&text) {
                Ok(report) => ReportState::Report(Box::new(report)),
                Err(error) => ReportState::Unreadable(error.to_string()),
            },
            Ok(None) => match read(&folder.join(ENDED)) {
                Ok(Some(why)) => ReportState::Ended(why),
                _ => ReportState::Begun,
            },
            Err(error) => ReportState::Unreadable(error.to_string()),
        };
        Ok(Some(Entry { name: name.to_owned(), at, kept }))
    }

    /// Reads a file of an audit; `None` if there is none.
    ///
    /// # Errors
    /// A sentence if it cannot be read.
    pub(super) fn piece(&self, name: &str, piece: Piece) -> Result<Option<String>, String> {
        let Some(folder) = self.folder(name).filter(|folder| changed(folder).is_some()) else {
            return Ok(None);
        };
        read(&folder.join(piece.file()))
            .map_err(|e| format!("cannot read {} of this audit: {e}", piece.file()))
    }
}

/// Returns the time at which the audit's main file was written: its report, its end or its
/// configuration. `None` if there is none of them.
fn changed(folder: &Path) -> Option<SystemTime> {
    let at = |name: &str| {
        let told = fs::symlink_metadata(folder.join(name)).ok().filter(fs::Metadata::is_file)?;
        told.modified().ok()
    };
    at(Piece::Json.file()).or_else(|| at(ENDED)).or_else(|| at(CONFIG))
}

/// Reads the text of a file that is no link; `None` if there is none.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::symlink_metadata(path) {
        Ok(told) if told.is_file() && told.len() <= LARGEST => {}
        Ok(told) if told.is_file() => {
            return Err(io::Error::other("the file is too large for a report"));
        }
        Ok(_) => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    }
    let mut text = String::new();
    File::open(path)?.take(LARGEST).read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_and_lead_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("audit.toml"), "secret").unwrap();
        let store = Store::open(&dir.path().join("audits")).unwrap();
        let name = store.begin(SystemTime::UNIX_EPOCH, "seed = 1").unwrap();
        assert_eq!(name, "audit-19700101-000000");
        assert_eq!(
            store.begin(SystemTime::UNIX_EPOCH, "seed = 2").unwrap(),
            "audit-19700101-000000-2"
        );
        assert_eq!(store.piece(&name, Piece::Config).unwrap().as_deref(), Some("seed = 1"));
        for odd in [
            "..",
            "../outside",
            ".",
            "",
            "/",
            "audit-19700101-000000/..",
            "audit-19700101-000000/../../outside",
        ] {
            assert!(store.find(odd).unwrap().is_none(), "{odd}");
            assert!(store.piece(odd, Piece::Config).unwrap().is_none(), "{odd}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&outside, dir.path().join("audits/link")).unwrap();
            assert!(store.find("link").unwrap().is_none());
            let inside = dir.path().join("audits").join(&name);
            std::os::unix::fs::symlink(outside.join("audit.toml"), inside.join("report.csv"))
                .unwrap();
            assert_eq!(store.piece(&name, Piece::Csv).unwrap(), None);
        }
        assert_eq!(store.list().unwrap().0.len(), 2);
    }

    #[test]
    fn how_an_audit_ended_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let name = store.begin(SystemTime::now(), "").unwrap();
        let kept = |store: &Store| store.find(&name).unwrap().unwrap().kept;
        assert!(matches!(kept(&store), ReportState::Begun));
        store.ended(&name, "stopped");
        assert!(matches!(kept(&store), ReportState::Ended(why) if why == "stopped"));
        fs::write(dir.path().join(&name).join("report.json"), "{}").unwrap();
        assert!(matches!(kept(&store), ReportState::Unreadable(_)));
    }
}
