//! Transport: mutual TLS on every link, the caller's identity from its certificate, one table of
//! RPC × role, and the helpers that serve and connect. The resources that a caller may hold are
//! limited here too: connections (`connection_table`), time (`connection`) and bytes, of what they
//! send (`upload_limits`) and of what they do not read (`unread`).
//!
//! There is no plaintext mode: a service without a certificate does not start.

mod authorize;
mod budget;
mod call_metrics;
mod connect;
mod connection;
mod connection_table;
mod deny;
mod health;
mod identity;
mod identity_verifier;
mod limits;
mod listen;
mod own_task;
mod reflection;
mod reload;
mod retry;
mod sealed;
mod serve;
mod tls;
mod unread;
mod upload_limits;

pub use authorize::{ACCESS_TABLE, Authorize, allowed_roles, caller};
pub use connect::{Peer, anonymous_connection, channel};
#[cfg(feature = "test-util")]
pub use connect::{anonymous_channel, channel_expecting};
pub use connection::{PeerInfo, TlsConnection};
pub use deny::DenyListError;
pub use health::Health;
pub use identity::{IdentityError, PeerIdentity, Role};
pub use limits::{Limits, raise_descriptor_limit};
pub use listen::connections;
pub use own_task::{off_thread, own_task};
pub use retry::{MOST_CALLS, pause, twice, unanswered, until_answered};
pub use sealed::{Duplex, Sealed, SessionEnd, SessionUse, seal};
pub use serve::{
    ServeError, check_health, serve, serve_with_health, shutdown_signal, until_stopped,
};
pub use tls::{Credentials, TlsError, TlsFiles, TlsPem};
pub use unread::{Unread, UnreadAnswer};
