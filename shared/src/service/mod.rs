//! Transport: mutual TLS on every link, the caller's identity from its certificate, one table of RPC × role, and the helpers
//! that serve and connect.
//!
//! There is no plaintext mode: a service without a certificate does not start.

mod authorize;
mod connect;
mod identity;
mod listen;
mod serve;
mod tls;

pub use authorize::{ACCESS_TABLE, Authorize, allowed_roles, caller};
pub use connect::{Peer, channel};
#[cfg(feature = "test-util")]
pub use connect::{anonymous_channel, channel_expecting};
pub use identity::{IdentityError, PeerIdentity, Role};
pub use listen::{PeerInfo, TlsConnection, connections};
pub use serve::{ServeError, check_health, serve, shutdown_signal};
pub use tls::{Credentials, TlsError, TlsPem};
