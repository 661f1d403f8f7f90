//! What a service lets its callers hold: connections, streams and bytes. `[limits]` of every party's config file.

use std::time::Duration;

use serde::Deserialize;

/// Descriptors left to everything that is not an incoming connection: the ledger, state files, channels to peers.
const RESERVED_DESCRIPTORS: usize = 64;
/// The most connections of the default.
const DEFAULT_CONNECTIONS: usize = 1024;
/// Descriptors of a process whose limit is not known.
#[cfg(not(unix))]
const ASSUMED_DESCRIPTORS: usize = 1024;

/// `[limits]`: what is absent follows from the limit of open files (`nofile`), which the process raises to the hard limit at
/// its start.
///
/// Connections live in three places with room of their own, so that none can use up another's: in handshake, without an
/// identity, and identified. Neither of the first two gets more than three eighths of all, whatever is set here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Connections in all. Default: what `nofile` allows less 64, at most 1024. A larger number than `nofile` allows is cut
    /// to it.
    pub max_connections: Option<usize>,
    /// Of these, connections that have not finished the TLS handshake. When they are as many, one is dropped for a new one:
    /// of the address that has most of them, the oldest of those that have sent nothing, or of the others, whichever are
    /// more. Default: a quarter of `max_connections`, at most 256.
    pub max_handshakes: Option<usize>,
    /// Of these, connections that showed no certificate or a refused one. They get one answer (UNAUTHENTICATED) or 5 s; when
    /// they are as many, the oldest is dropped. Default: an eighth of `max_connections`, at most 64.
    pub max_strangers: Option<usize>,
    /// Connections of one address (IPv6: of one /64) that are in handshake or without an identity; beyond it, the address loses
    /// an old one of its own. Default: half of `max_handshakes`, at least 32.
    pub max_connections_per_address: Option<usize>,
    /// Connections of one identity. Default 64.
    pub max_connections_per_peer: usize,
    /// Calls of one connection under way at once. Default 128.
    pub max_streams_per_connection: u32,
    /// Bytes of requests that have come in part and are not yet decoded, of all callers, in MiB. One caller may hold a quarter
    /// of it. At least 64, so that a caller can send one message of 16 MiB. Twice as many bytes of answers may wait to be read,
    /// a quarter of them by one caller. Default 256.
    pub max_request_mib: usize,
    /// How long a message may take from its first byte to its last, and a call with a single message from its start, in
    /// seconds. Default 30.
    pub upload_timeout_s: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: None,
            max_handshakes: None,
            max_strangers: None,
            max_connections_per_address: None,
            max_connections_per_peer: 64,
            max_streams_per_connection: 128,
            max_request_mib: 256,
            upload_timeout_s: 30,
        }
    }
}

impl Limits {
    /// Checks the numbers against each other.
    ///
    /// # Errors
    /// What is wrong and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        let counts = [
            ("max_connections", self.max_connections),
            ("max_handshakes", self.max_handshakes),
            ("max_strangers", self.max_strangers),
            ("max_connections_per_address", self.max_connections_per_address),
            ("max_connections_per_peer", Some(self.max_connections_per_peer)),
            ("max_streams_per_connection", Some(self.max_streams_per_connection as usize)),
        ];
        if let Some((key, _)) = counts.iter().find(|(_, value)| *value == Some(0)) {
            return Err(format!("{key} must be at least 1"));
        }
        if self.max_request_mib < 64 {
            return Err("max_request_mib must be at least 64: a quarter of it holds one message of 16 MiB".into());
        }
        if !(1..=3600).contains(&self.upload_timeout_s) {
            return Err("upload_timeout_s takes 1 to 3600".into());
        }
        if self.max_connections.is_some_and(|all| all < 8) {
            return Err("max_connections must be at least 8: each kind of connection has room of its own".into());
        }
        Ok(())
    }

    /// The bounds that hold in this process.
    pub(super) fn bounds(&self) -> Bounds {
        let room = open_files().saturating_sub(RESERVED_DESCRIPTORS).max(8);
        let all = self.max_connections.unwrap_or(DEFAULT_CONNECTIONS);
        if all > room && self.max_connections.is_some() {
            tracing::warn!(max_connections = all, allowed = room, "the limit of open files allows fewer connections");
        }
        self.bounds_of(all.min(room))
    }

    fn bounds_of(&self, all: usize) -> Bounds {
        // What was set for a larger `nofile` must still leave identified peers at least a quarter.
        let most = all * 3 / 8;
        let handshakes = self.max_handshakes.unwrap_or((all / 4).clamp(1, 256)).min(most.max(1));
        let strangers = self.max_strangers.unwrap_or((all / 8).clamp(1, 64)).min(most.max(1));
        let per_address = self.max_connections_per_address.unwrap_or((handshakes / 2).max(32));
        let known = all.saturating_sub(handshakes + strangers).max(1);
        Bounds { handshakes, strangers, per_address, known, per_peer: self.max_connections_per_peer }
    }

    /// Bytes of the global budget of requests.
    pub(super) fn request_bytes(&self) -> usize {
        self.max_request_mib.saturating_mul(1 << 20)
    }

    /// Bytes of the global budget of answers that wait to be read.
    pub(super) fn answer_bytes(&self) -> usize {
        self.request_bytes().saturating_mul(2)
    }

    /// How long a message may take to come.
    pub(super) fn upload_timeout(&self) -> Duration {
        Duration::from_secs(self.upload_timeout_s)
    }
}

/// Room for each kind of connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// In handshake.
    pub(super) handshakes: usize,
    /// Without an identity.
    pub(super) strangers: usize,
    /// In handshake or without an identity, of one address.
    pub(super) per_address: usize,
    /// Identified.
    pub(super) known: usize,
    /// Of one identity.
    pub(super) per_peer: usize,
}

impl Bounds {
    /// Connections of all kinds.
    pub(super) fn all(&self) -> usize {
        self.handshakes + self.strangers + self.known
    }
}

/// How many files this process may have open at once.
fn open_files() -> usize {
    #[cfg(unix)]
    {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    ASSUMED_DESCRIPTORS
}

/// Raises the soft limit of open files to the hard one: each connection takes a descriptor, and many systems start processes
/// with a soft limit of 1024.
pub fn raise_descriptor_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        if limit.current == limit.maximum {
            return;
        }
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit of open files");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Limits, String> {
        let limits: Limits = toml::from_str(text).map_err(|e| e.to_string())?;
        limits.check().map(|()| limits)
    }

    #[test]
    fn limits_read_as_documented() {
        assert_eq!(read("").unwrap(), Limits::default());
        assert_eq!(read("max_connections = 136").unwrap().bounds_of(136).known, 136 - 34 - 17);
        let bounds = Limits::default().bounds_of(1024);
        assert_eq!((bounds.handshakes, bounds.strangers, bounds.per_address), (256, 64, 128));
        for (bad, says) in [
            ("max_conections = 1", "unknown field"),
            ("max_connections = 0", "max_connections must be"),
            ("max_handshakes = 0", "max_handshakes must be"),
            ("max_connections = 7", "at least 8"),
            ("max_request_mib = 63", "at least 64"),
            ("upload_timeout_s = 0", "1 to 3600"),
        ] {
            let refused = read(bad).unwrap_err();
            assert!(refused.contains(says), "{bad}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn identified_peers_always_have_room(
            all in 8usize..5000,
            handshakes in proptest::option::of(1usize..6000),
            strangers in proptest::option::of(1usize..6000),
        ) {
            let limits = Limits { max_handshakes: handshakes, max_strangers: strangers, ..Limits::default() };
            let bounds = limits.bounds_of(all);
            prop_assert!(bounds.known >= all / 4);
            prop_assert!(bounds.all() <= all);
            prop_assert!(bounds.handshakes >= 1 && bounds.strangers >= 1 && bounds.per_address >= 1);
        }
    }
}
