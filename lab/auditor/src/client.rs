//! The client of a deployment's active party, in domain types.

use tonic::transport::Channel;
use tonic::{Status, Streaming};
use vfl_core::model::TrainingConfig;
use vfl_core::types::{PartyName, RecordIds, ReleasedScores, RowStatus};
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::train_job_event::Event;
use vfl_protocol::reconstruct::{ReconstructEvent, ReconstructionRequest};
use vfl_protocol::training::messages::{Progress, PublishedVersion};
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, pb, peer_failure, read_scores};
use vfl_server::service::{Credentials, Peer, TlsError, channel};

/// A client of the active party.
pub struct ActiveParty {
    peer: Peer,
    client: ActivePartyClient<Channel>,
}

impl ActiveParty {
    /// Creates a client for an address. Connects on first use.
    ///
    /// # Errors
    /// [`TlsError`] if the address is malformed.
    pub fn new(credentials: &Credentials, peer: Peer) -> Result<Self, TlsError> {
        let client = ActivePartyClient::new(channel(credentials, &peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer, client })
    }

    /// Trains a model on these records, and calls `on_progress` after each epoch.
    ///
    /// # Errors
    /// [`Refusal`] with the parties' messages.
    pub async fn train(
        &mut self,
        config: &TrainingConfig,
        ids: &RecordIds,
        mut on_progress: impl FnMut(&Progress),
    ) -> Result<PublishedVersion, Refusal> {
        let request = pb::TrainJobRequest { config: Some(config.into()), ids: Some(ids.into()) };
        let refused = |status: Status| match (status.code(), status.message()) {
            (_, "") => peer_failure(&self.peer.to_string(), &status),
            (code, said) => Refusal::new(RefusalKind::from_code(code), said),
        };
        let mut events = self.client.train(request).await.map_err(refused)?.into_inner();
        while let Some(event) = events.message().await.map_err(refused)? {
            match event.event {
                Some(Event::Progress(progress)) => on_progress(&progress.into()),
                Some(Event::Published(published)) => {
                    let peer = &self.peer;
                    return published
                        .try_into()
                        .map_err(|e| Refusal::internal(format!("{peer} answered with {e}")));
                }
                None => {}
            }
        }
        Err(Refusal::internal("training ended without a word"))
    }

    /// Requests the scores of test records, of a model with `classes` classes. All of the records
    /// must be scored.
    ///
    /// # Errors
    /// The active party's refusal, or the number of records that it did not score.
    pub async fn predict(
        &mut self,
        ids: &RecordIds,
        classes: usize,
    ) -> anyhow::Result<ReleasedScores> {
        let answer = self
            .client
            .predict(pb::ScoreRequest { ids: Some(ids.into()), ..Default::default() })
            .await;
        let answer = answer
            .map_err(|status| {
                Refusal::new(RefusalKind::from_code(status.code()), status.message())
            })?
            .into_inner();
        let (status, released) =
            read_scores(&answer.row_status, answer.release.as_ref(), ids.len(), classes)?;
        let failed = status.iter().filter(|status| **status != RowStatus::Ok).count();
        anyhow::ensure!(failed == 0, "{failed} test records were not scored");
        Ok(released)
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
    ) -> Result<ReconstructEvents<'_>, Refusal> {
        let peer = &self.peer;
        let events = self.client.clone().reconstruct(pb::ReconstructRequest::from(request)).await;
        let events = events.map_err(|status| peer_failure(&peer.to_string(), &status))?;
        Ok(ReconstructEvents { peer, events: events.into_inner() })
    }
}

/// The events of one request for attacks, as they arrive.
pub(crate) struct ReconstructEvents<'a> {
    peer: &'a Peer,
    events: Streaming<pb::ReconstructEvent>,
}

impl ReconstructEvents<'_> {
    /// Returns the next event; `None` after the last one.
    ///
    /// # Errors
    /// [`Refusal`] with what the active party said, or that it went away or answered with nonsense.
    pub(crate) async fn next(&mut self) -> Result<Option<ReconstructEvent>, Refusal> {
        let peer = self.peer.to_string();
        let gone = |status| peer_failure(&peer, &status);
        while let Some(message) = self.events.message().await.map_err(gone)? {
            // Without an event it is one of a later version.
            if let Some(event) = message.event {
                return Ok(Some(event.try_into()?));
            }
        }
        Ok(None)
    }
}
