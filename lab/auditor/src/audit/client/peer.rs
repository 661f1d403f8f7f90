//! The connections to parties, and refusals that name the party.

use tonic::Status;
use tonic::transport::Channel;
use vfl_protocol::{Refusal, peer_failure};
use vfl_server::service::{Credentials, Peer, TlsError, channel};

/// Returns a channel to a party, which connects on first use.
pub(super) fn connected(credentials: &Credentials, peer: &Peer) -> Result<Channel, Refusal> {
    channel(credentials, peer).map_err(|e: TlsError| Refusal::invalid(e.to_string()))
}

/// Returns a conversion of a party's status to a refusal that names the party.
pub(super) fn refused(peer: &Peer) -> impl Fn(Status) -> Refusal + '_ {
    move |status| peer_failure(&peer.to_string(), &status)
}

/// Returns a conversion of an invalid answer to a refusal that names the party.
pub(super) fn nonsense(peer: &Peer) -> impl Fn(vfl_protocol::WireError) -> Refusal + '_ {
    move |error| Refusal::internal(format!("{peer} answered with {error}"))
}
