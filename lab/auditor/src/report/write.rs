//! Writes `report.json`, `report.html` and `report.csv` to disk, each atomically.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::{Report, ReportError, render_csv, render_html};

/// The paths of a written report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportPaths {
    /// The path of the document.
    pub json: PathBuf,
    /// The path of the page.
    pub html: PathBuf,
    /// The path of the table of all figures.
    pub csv: PathBuf,
}

/// Writes `report.json`, `report.html` and `report.csv` into `out_dir`, which is made if needed.
/// Each file is written to a temporary file and moved into place, so that a reader sees the old one
/// or the new one; nothing is written unless all can be rendered.
///
/// # Errors
/// [`ReportError::Invalid`], [`ReportError::Plot`] or [`ReportError::Csv`] if the report cannot be
/// rendered; [`ReportError::Io`] with the path if it cannot be written.
pub fn write(report: &Report, out_dir: &Path) -> Result<ReportPaths, ReportError> {
    let json = report.to_json()?;
    let html = render_html(report)?;
    let csv = render_csv(report)?;
    fs::create_dir_all(out_dir).map_err(|source| ReportError::Io {
        action: "create the directory",
        path: out_dir.to_owned(),
        source,
    })?;
    Ok(ReportPaths {
        json: replace(out_dir, "report.json", &json)?,
        html: replace(out_dir, "report.html", &html)?,
        csv: replace(out_dir, "report.csv", &csv)?,
    })
}

fn replace(dir: &Path, name: &str, text: &str) -> Result<PathBuf, ReportError> {
    let path = dir.join(name);
    let failed = |action: &'static str| {
        let path = path.clone();
        move |source| ReportError::Io { action, path, source }
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".report-").suffix(".part");
    #[cfg(unix)]
    {
        // A temporary file is private by default; a report is for reading (the process's umask
        // still applies).
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o644));
    }
    let mut file = builder.tempfile_in(dir).map_err(failed("create a temporary file for"))?;
    file.write_all(text.as_bytes()).map_err(failed("write"))?;
    file.as_file().sync_all().map_err(failed("write"))?;
    file.persist(&path).map_err(|e| e.error).map_err(failed("replace"))?;
    Ok(path)
}
