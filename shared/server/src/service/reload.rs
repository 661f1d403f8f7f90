//! Reload of credentials: their files are read again on SIGHUP and when they change.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::tls::{Credentials, TlsFiles};

/// The interval at which the files are checked.
const INTERVAL: Duration = Duration::from_secs(2);

/// The properties that change when a file is replaced or written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    inode: u64,
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = std::fs::metadata(path).ok()?;
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&file);
    #[cfg(not(unix))]
    let inode = 0;
    Some(Stamp { modified: file.modified().ok(), bytes: file.len(), inode })
}

fn stamps(files: &TlsFiles) -> Vec<Option<Stamp>> {
    let fixed = [&files.ca, &files.certificate, &files.key].into_iter();
    fixed.chain(&files.deny_list).map(|path| stamp(path)).collect()
}

/// Watches the files until it is dropped. Returns at once for credentials that were not read from
/// files.
pub(super) async fn watch(credentials: Credentials) {
    let Some(files) = credentials.files().cloned() else { return };
    let mut hangup = Hangup::new();
    let mut seen = stamps(&files);
    loop {
        let told = tokio::select! {
            () = hangup.told() => true,
            () = tokio::time::sleep(INTERVAL) => false,
        };
        let (files, credentials) = (files.clone(), credentials.clone());
        let before = seen.clone();
        // Files may be on a slow disk: they are not read on the threads that serve.
        let looked = tokio::task::spawn_blocking(move || {
            let now = stamps(&files);
            if told || now != before {
                match credentials.reload() {
                    Ok(()) => tracing::info!(
                        on_signal = told,
                        "certificates and deny list were read again"
                    ),
                    Err(error) => {
                        tracing::error!(%error, "what was read again cannot be used; the old stays in force")
                    }
                }
            }
            now
        });
        if let Ok(now) = looked.await {
            seen = now;
        }
    }
}

/// The SIGHUP listener, on systems that have the signal.
struct Hangup {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Hangup {
    fn new() -> Self {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let signal = signal(SignalKind::hangup())
                .inspect_err(|error| tracing::warn!(%error, "cannot listen for SIGHUP"))
                .ok();
            Self { signal }
        }
        #[cfg(not(unix))]
        Self {}
    }

    async fn told(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
