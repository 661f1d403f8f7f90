//! What a passive party says of its features in public.

use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::{Refusal, pb};
use vfl_shared::service::{Credentials, Peer};

use super::peer::{connected, refused};
use crate::audit::model::Feature;

/// Asks a passive party for its features.
///
/// # Errors
/// [`Refusal`] with what the party said, or that it is not reachable.
pub(crate) async fn features(credentials: &Credentials, peer: &Peer) -> Result<Vec<Feature>, Refusal> {
    let mut client = PassivePartyClient::new(connected(credentials, peer)?);
    let described = client.describe_features(pb::DescribeFeaturesRequest {}).await.map_err(refused(peer))?.into_inner();
    let feature =
        |f: pb::describe_features_response::Feature| Feature { name: f.name, kind: f.kind, range: (f.min, f.max) };
    Ok(described.features.into_iter().map(feature).collect())
}
