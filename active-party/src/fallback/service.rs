//! Another service of this party, whose model is of fewer parties.

use std::time::Duration;

use sha2::{Digest, Sha256};
use tonic::Request;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::transport::Channel;
use vfl_core::hex;
use vfl_core::types::{RecordIds, ReleasedScores, RowStatus};
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, pb, peer_failure, read_scores};
use vfl_server::service::{Credentials, Peer, TlsError, channel, twice};

/// The metadata key of a question that a service asks as a fallback.
const MARK: &str = "cloison-fallback";

/// Returns true if a service of this party asks, whose fallback the asked one is. Such a question
/// is not handed on, so that two services that are each other's fallback do not ask in circles.
pub(crate) fn is_marked(metadata: &MetadataMap) -> bool {
    metadata.contains_key(MARK)
}

/// An answer of the other service.
#[derive(Debug)]
pub(crate) struct ServiceAnswer {
    /// The names of the classes, or of the number.
    pub(crate) class_names: Vec<String>,
    /// The status of each record.
    pub(crate) status: Vec<RowStatus>,
    /// A row, or a label, for every record that is scored, in order.
    pub(crate) released: ReleasedScores,
}

/// A client of the other service.
#[derive(Debug, Clone)]
pub(crate) struct FallbackService {
    peer: Peer,
    client: ActivePartyClient<Channel>,
    timeout: Duration,
}

impl FallbackService {
    /// Creates a client, which connects on first use.
    ///
    /// # Errors
    /// [`TlsError`] if the address is malformed.
    pub(crate) fn new(
        credentials: &Credentials,
        peer: Peer,
        timeout: Duration,
    ) -> Result<Self, TlsError> {
        let client = ActivePartyClient::new(channel(credentials, &peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer, client, timeout })
    }

    /// Asks for the scores of records. `request_id` is the client's, or empty.
    ///
    /// # Errors
    /// The other service's refusal, or that it is silent or answers what cannot be.
    pub(crate) async fn predict(
        &self,
        ids: &RecordIds,
        request_id: &str,
    ) -> Result<ServiceAnswer, Refusal> {
        let question =
            pb::ScoreRequest { ids: Some(ids.into()), request_id: request_id_of(request_id, ids) };
        let ask = || {
            let (mut client, mut request) = (self.client.clone(), Request::new(question.clone()));
            request.metadata_mut().insert(MARK, MetadataValue::from_static("1"));
            request.set_timeout(self.timeout);
            async move { client.predict(request).await }
        };
        let asked = async {
            // A question with a name costs nothing when it is asked again.
            if question.request_id.is_empty() { ask().await } else { twice(ask).await }
        };
        let answer = tokio::time::timeout(self.timeout, asked).await;
        let peer = format!("the fallback, {},", self.peer);
        let answer = answer.map_err(|_| {
            let message = format!("{peer} did not answer in {} ms", self.timeout.as_millis());
            Refusal::new(RefusalKind::DeadlineExceeded, message)
        })?;
        let answer = answer.map_err(|status| peer_failure(&peer, &status))?.into_inner();
        let classes = answer.class_names.len();
        let scores = answer.release.as_ref();
        let read = read_scores(&answer.row_status, scores, ids.len(), classes);
        let (status, released) =
            read.map_err(|e| Refusal::internal(format!("{peer} answered with {e}")))?;
        Ok(ServiceAnswer { class_names: answer.class_names, status, released })
    }
}

/// Returns the name of the question about some records of a request: a retry about the same ones
/// has the same name, and a question about others has another.
fn request_id_of(request_id: &str, ids: &RecordIds) -> String {
    if request_id.is_empty() {
        return String::new();
    }
    let mut hash = Sha256::new();
    for text in std::iter::once(request_id).chain(ids.iter()) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    format!("fallback-{}", &hex(hash.finalize())[..32])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_retry_has_the_name_of_the_first_question() {
        let ids = |names: &[&str]| RecordIds::new(names.iter().copied()).unwrap();
        let first = request_id_of("x", &ids(&["a", "b"]));
        assert_eq!(first, request_id_of("x", &ids(&["a", "b"])));
        assert!(first.len() < 100);
        for (request_id, of) in [("y", &["a", "b"][..]), ("x", &["ab"]), ("x", &["a"])] {
            assert_ne!(first, request_id_of(request_id, &ids(of)));
        }
        assert_eq!(request_id_of("", &ids(&["a"])), "");
    }
}
