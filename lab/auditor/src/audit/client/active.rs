//! The auditor's client of the active party.

use tonic::Streaming;
use tonic::transport::Channel;
use vfl_core::types::PartyName;
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::reconstruct::{ReconstructEvent, ReconstructionRequest};
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, pb};
use vfl_server::service::{Credentials, Peer};

use super::peer::{connected, refused};

/// A client of the active party.
pub(crate) struct ActiveParty {
    peer: Peer,
    client: ActivePartyClient<Channel>,
}

/// The events of one request, as they arrive.
pub(crate) struct Events<'a> {
    peer: &'a Peer,
    events: Streaming<pb::ReconstructEvent>,
}

impl ActiveParty {
    /// Creates a client, which connects on first use.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the address is malformed.
    pub(crate) fn new(credentials: &Credentials, peer: &Peer) -> Result<Self, Refusal> {
        let client = ActivePartyClient::new(connected(credentials, peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer: peer.clone(), client })
    }

    pub(crate) fn name(&self) -> &PartyName {
        &self.peer.name
    }

    /// Requests attacks and returns the stream of their events.
    ///
    /// # Errors
    /// [`Refusal`] with what the active party said, or that it is not reachable.
    pub(crate) async fn reconstruct(
        &self,
        request: ReconstructionRequest,
    ) -> Result<Events<'_>, Refusal> {
        let events = self.client.clone().reconstruct(pb::ReconstructRequest::from(request)).await;
        Ok(Events { peer: &self.peer, events: events.map_err(refused(&self.peer))?.into_inner() })
    }
}

impl Events<'_> {
    /// Returns the next event; `None` after the last one.
    ///
    /// # Errors
    /// [`Refusal`] with what the active party said, or that it went away or answered with nonsense.
    pub(crate) async fn next(&mut self) -> Result<Option<ReconstructEvent>, Refusal> {
        while let Some(message) = self.events.message().await.map_err(refused(self.peer))? {
            // Without an event it is one of a later version.
            if let Some(event) = message.event {
                return Ok(Some(event.try_into()?));
            }
        }
        Ok(None)
    }
}
