//! A party that the auditor calls.

use tonic::Status;
use tonic::transport::Channel;
use vfl_shared::rpc::{Refusal, peer_failure};
use vfl_shared::service::{Credentials, Peer, TlsError, channel};

/// The way to a party. Connects on first use.
pub(super) fn connected(credentials: &Credentials, peer: &Peer) -> Result<Channel, Refusal> {
    channel(credentials, peer).map_err(|e: TlsError| Refusal::invalid(e.to_string()))
}

/// Turns what a party says into a refusal that names the party.
pub(super) fn refused(peer: &Peer) -> impl Fn(Status) -> Refusal + '_ {
    move |status| peer_failure(&peer.to_string(), &status)
}

/// An answer of a party that makes no sense.
pub(super) fn nonsense(peer: &Peer) -> impl Fn(vfl_shared::rpc::WireError) -> Refusal + '_ {
    move |error| Refusal::internal(format!("{peer} answered with {error}"))
}
