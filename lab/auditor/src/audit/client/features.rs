//! Fetches the public schema of a passive party's features.

use vfl_core::data::schema::{FeatureSpec, check_features};
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, pb};
use vfl_server::service::{Credentials, Peer};

use super::peer::{connected, refused};

/// Asks a passive party for its features.
///
/// # Errors
/// [`Refusal`] with what the party said, that it is not reachable, or what is wrong in its
/// description.
pub(crate) async fn features(
    credentials: &Credentials,
    peer: &Peer,
) -> Result<Vec<FeatureSpec>, Refusal> {
    let client = PassivePartyClient::new(connected(credentials, peer)?);
    let mut client = client.max_decoding_message_size(MAX_MESSAGE_BYTES);
    let described = client
        .describe_features(pb::DescribeFeaturesRequest {})
        .await
        .map_err(refused(peer))?
        .into_inner();
    let wrong = |what: String| {
        Refusal::internal(format!("{peer} described features that cannot be: {what}"))
    };
    let features = described
        .features
        .into_iter()
        .map(FeatureSpec::try_from)
        .collect::<Result<Vec<_>, _>>()
        .map_err(wrong)?;
    check_features(&features).map_err(|e| wrong(e.to_string()))?;
    Ok(features)
}
