//! The limits of what callers may hold: connections, streams and bytes. The table `[limits]` of
//! every party's config file.

use std::time::Duration;

use serde::Deserialize;

/// The descriptors reserved for everything but incoming connections: the ledger, state files,
/// channels to peers.
const RESERVED_DESCRIPTORS: usize = 64;
/// The maximum number of connections by default.
const DEFAULT_CONNECTIONS: usize = 1024;
/// The descriptors of a process whose limit is not known.
#[cfg(not(unix))]
const ASSUMED_DESCRIPTORS: usize = 1024;

/// The table `[limits]`. Absent values follow from the limit of open files (`nofile`), which the
/// process raises to the hard limit at its start.
///
/// Connections are of three kinds with a limit each, so that none can use up another's room: in
/// handshake, without an identity, and identified. Neither of the first two gets more than three
/// eighths of all, whatever is set here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The maximum number of connections. Default: the limit `nofile` less 64, at most 1024. A
    /// larger number than `nofile` allows is cut to it.
    pub max_connections: Option<usize>,
    /// The maximum number of connections that have not finished the TLS handshake. At the limit, a
    /// new one evicts another of the address that has most of them: the oldest of those that have
    /// sent nothing, or of the others, whichever are more. Default: a quarter of `max_connections`,
    /// at most 256.
    pub max_handshakes: Option<usize>,
    /// The maximum number of connections that showed no certificate or a refused one. They get one
    /// answer (UNAUTHENTICATED) or 5 s; at the limit, the oldest is dropped. Default: an eighth of
    /// `max_connections`, at most 64.
    pub max_strangers: Option<usize>,
    /// The maximum number of connections of one address (IPv6: of one /64) that are in handshake or
    /// without an identity. Beyond it, the address loses an old one of its own. Default: half of
    /// `max_handshakes`, at least 32.
    pub max_connections_per_address: Option<usize>,
    /// The maximum number of connections of one identity. Default 64.
    pub max_connections_per_peer: usize,
    /// The maximum number of concurrent calls on one connection. Default 128.
    pub max_streams_per_connection: u32,
    /// The maximum size of partly received, undecoded requests of all callers together, in MiB. One
    /// caller may hold a quarter of it. At least 64, so that a caller can send one message of 16
    /// MiB. Twice as many bytes of answers may wait to be read, a quarter of them by one caller.
    /// Default 256.
    pub max_request_mib: usize,
    /// The time limit of a message from its first byte to its last, and of a call with a single
    /// message from its start, in seconds. Default 30.
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
    /// Checks the numbers, also against each other.
    ///
    /// # Errors
    /// A message that says what is wrong and how to fix it.
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
            return Err(
                "max_request_mib must be at least 64: a quarter of it holds one message of 16 MiB"
                    .into(),
            );
        }
        if !(1..=3600).contains(&self.upload_timeout_s) {
            return Err("upload_timeout_s takes 1 to 3600".into());
        }
        if self.max_connections.is_some_and(|all| all < 8) {
            return Err(
                "max_connections must be at least 8: each kind of connection has room of its own"
                    .into(),
            );
        }
        Ok(())
    }

    /// Returns the limits that apply in this process.
    pub(super) fn bounds(&self) -> ConnectionLimits {
        let room = open_files().saturating_sub(RESERVED_DESCRIPTORS).max(8);
        let all = self.max_connections.unwrap_or(DEFAULT_CONNECTIONS);
        if all > room && self.max_connections.is_some() {
            tracing::warn!(
                max_connections = all,
                allowed = room,
                "the limit of open files allows fewer connections"
            );
        }
        self.bounds_of(all.min(room))
    }

    fn bounds_of(&self, all: usize) -> ConnectionLimits {
        // Limits that were set for a larger `nofile` must still leave identified peers at least a
        // quarter.
        let most = all * 3 / 8;
        let handshakes = self.max_handshakes.unwrap_or((all / 4).clamp(1, 256)).min(most.max(1));
        let strangers = self.max_strangers.unwrap_or((all / 8).clamp(1, 64)).min(most.max(1));
        let per_address = self.max_connections_per_address.unwrap_or((handshakes / 2).max(32));
        let known = all.saturating_sub(handshakes + strangers).max(1);
        ConnectionLimits {
            handshakes,
            strangers,
            per_address,
            known,
            per_peer: self.max_connections_per_peer,
        }
    }

    /// Returns the global budget of requests in bytes.
    pub(super) fn request_bytes(&self) -> usize {
        self.max_request_mib.saturating_mul(1 << 20)
    }

    /// Returns the size of all answers together that may wait to be read, in bytes.
    pub(super) fn answer_bytes(&self) -> usize {
        self.request_bytes().saturating_mul(2)
    }

    /// Returns the time limit of a message.
    pub(super) fn upload_timeout(&self) -> Duration {
        Duration::from_secs(self.upload_timeout_s)
    }
}

/// The limit of each kind of connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// Connections in handshake.
    pub(super) handshakes: usize,
    /// Connections without an identity.
    pub(super) strangers: usize,
    /// Connections of one address in handshake or without an identity.
    pub(super) per_address: usize,
    /// Connections of identified peers.
    pub(super) known: usize,
    /// Connections of one identity.
    pub(super) per_peer: usize,
}

impl ConnectionLimits {
    /// Returns the limit of connections of all kinds.
    pub(super) fn all(&self) -> usize {
        self.handshakes + self.strangers + self.known
    }
}

/// Returns the number of files that this process may have open at once.
fn open_files() -> usize {
    #[cfg(unix)]
    {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX))
    }
    #[cfg(not(unix))]
    ASSUMED_DESCRIPTORS
}

/// Raises the soft limit of open files to the hard one: each connection takes a descriptor, and
/// many systems start processes with a soft limit of 1024.
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
