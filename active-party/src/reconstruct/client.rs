//! Passive parties that lend their logit shares, as this party calls them.

use std::time::Duration;

use nalgebra::DMatrix;
use tonic::Code;
use tonic::transport::Channel;
use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::{
    Refusal, RefusalKind, STREAM_CHUNK_RECORDS, WireError, decode_columns, pb, peer_failure, require,
};
use vfl_shared::service::Peer;
use vfl_shared::types::{ModelVersion, RecordIds};

/// The logit shares of a passive party, k × n; or its own words, if it lends this party none.
///
/// # Errors
/// [`Refusal`] naming the party that is down, does not hold a record, or answers with nonsense.
pub(super) async fn lent(
    peer: &Peer,
    mut client: PassivePartyClient<Channel>,
    timeout: Duration,
    version: &ModelVersion,
    ids: &RecordIds,
    k: usize,
) -> Result<Result<DMatrix<f64>, String>, Refusal> {
    let mut values = Vec::with_capacity(k * ids.len());
    for from in (0..ids.len()).step_by(STREAM_CHUNK_RECORDS) {
        let chunk = ids.slice(from, from + STREAM_CHUNK_RECORDS);
        let n = chunk.len();
        let request = pb::LendSharesRequest { model_version: version.as_str().to_owned(), ids: Some(chunk.into()) };
        let answer = match tokio::time::timeout(timeout, client.lend_shares(request)).await {
            Err(_) => {
                return Err(Refusal::new(RefusalKind::DeadlineExceeded, format!("{peer} did not answer in time")));
            }
            Ok(Err(status)) if status.code() == Code::PermissionDenied => return Ok(Err(status.message().to_owned())),
            Ok(Err(status)) => return Err(peer_failure(&peer.to_string(), &status)),
            Ok(Ok(answer)) => answer.into_inner(),
        };
        let wrong = |e: WireError| Refusal::internal(format!("{peer} answered with {e}"));
        let matrix = require("logit_shares", answer.logit_shares).map_err(wrong)?;
        values.extend_from_slice(decode_columns("logit_shares", &matrix, n, Some(k)).map_err(wrong)?.as_slice());
    }
    Ok(Ok(DMatrix::from_vec(k, ids.len(), values)))
}
