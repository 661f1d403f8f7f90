//! The active party's client of a passive party, in domain types.

use std::sync::Arc;
use std::time::Duration;

use nalgebra::DMatrix;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use vfl_attack::as_difference;
use vfl_core::model::{SubModel, SubModelSpec, kinds};
use vfl_core::types::{ModelVersion, RecordIds};
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::{
    MAX_MESSAGE_BYTES, Refusal, RefusalKind, ReleasedParameters, ReleasedSubModel,
    STREAM_CHUNK_RECORDS, WireError, decode_columns, pb, peer_failure, require,
};
use vfl_server::service::{Credentials, Peer, TlsError, channel};

/// The sub-model that a passive party shows, as an adversary takes it.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    /// The weights of a linear sub-model.
    Linear(ReleasedParameters),
    /// A nonlinear sub-model.
    Model(Arc<dyn SubModel>),
}

impl Part {
    /// Returns the weights of a number's predictor as those of two logits, the first of which is 0.
    pub(crate) fn into_difference(self) -> Self {
        match self {
            Self::Linear(part) => Self::Linear(ReleasedParameters {
                weights: as_difference(&part.weights),
                bias_shift: part.bias_shift.map(|shift| shift.insert_row(0, 0.0)),
                ..part
            }),
            model => model,
        }
    }
}

/// A client of a passive party.
#[derive(Debug, Clone)]
pub(crate) struct PassiveParty {
    peer: Peer,
    client: PassivePartyClient<Channel>,
    timeout: Duration,
}

impl PassiveParty {
    /// Creates a client of the party at its address. It connects on first use.
    ///
    /// # Errors
    /// [`TlsError`] if the address is malformed.
    pub(crate) fn new(
        credentials: &Credentials,
        peer: Peer,
        timeout: Duration,
    ) -> Result<Self, TlsError> {
        let client = PassivePartyClient::new(channel(credentials, &peer)?);
        Ok(Self { peer, client: client.max_decoding_message_size(MAX_MESSAGE_BYTES), timeout })
    }

    /// Returns the party's name.
    pub(crate) fn name(&self) -> &str {
        self.peer.name.as_str()
    }

    /// Asks for the party's release of a version: weights of `features` features and `k` classes,
    /// or the sub-model `spec` if that is nonlinear. Returns `None` if the party's policy grants
    /// nothing.
    ///
    /// # Errors
    /// [`Refusal`] that names the party if it is down or sends a malformed answer.
    pub(crate) async fn release_parameters(
        &self,
        version: &ModelVersion,
        features: usize,
        k: usize,
        spec: Option<&SubModelSpec>,
    ) -> Result<Option<Part>, Refusal> {
        let request = pb::ReleaseParametersRequest { model_version: version.as_str().to_owned() };
        let mut client = self.client.clone();
        let Ok(answer) = self.granted(client.release_parameters(request)).await? else {
            return Ok(None);
        };
        let part = match spec.filter(|spec| !kinds::is_linear(spec)) {
            Some(spec) => ReleasedSubModel::model_from_wire(&answer, spec, features)
                .map(|model| Part::Model(model.into())),
            None => ReleasedParameters::from_wire(&answer, k, features).map(Part::Linear),
        };
        part.map(Some).map_err(|e| self.nonsense(&e))
    }

    /// Asks for the logit shares that the party lends, k × n. Returns the party's own words if it
    /// lends this party none.
    ///
    /// # Errors
    /// [`Refusal`] that names the party if it is down, does not hold a record, or sends a malformed
    /// answer.
    pub(crate) async fn lend_shares(
        &self,
        version: &ModelVersion,
        ids: &RecordIds,
        k: usize,
    ) -> Result<Result<DMatrix<f64>, String>, Refusal> {
        let mut client = self.client.clone();
        let mut values = Vec::with_capacity(k * ids.len());
        for from in (0..ids.len()).step_by(STREAM_CHUNK_RECORDS) {
            let chunk = ids.slice(from, from + STREAM_CHUNK_RECORDS);
            let n = chunk.len();
            let request = pb::LendSharesRequest {
                model_version: version.as_str().to_owned(),
                ids: Some(chunk.into()),
            };
            let answer = match self.granted(client.lend_shares(request)).await? {
                Ok(answer) => answer,
                Err(said) => return Ok(Err(said)),
            };
            let matrix =
                require("logit_shares", answer.logit_shares).map_err(|e| self.nonsense(&e))?;
            let shares = decode_columns("logit_shares", &matrix, n, Some(k))
                .map_err(|e| self.nonsense(&e))?;
            values.extend_from_slice(shares.as_slice());
        }
        Ok(Ok(DMatrix::from_vec(k, ids.len(), values)))
    }

    /// Returns the answer to a call, or the party's own words if it does not permit the call.
    async fn granted<T>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<Result<T, String>, Refusal> {
        match tokio::time::timeout(self.timeout, call).await {
            Err(_) => {
                let message = format!("{} did not answer in time", self.peer);
                Err(Refusal::new(RefusalKind::DeadlineExceeded, message))
            }
            Ok(Err(status)) if status.code() == Code::PermissionDenied => {
                Ok(Err(Refusal::said(RefusalKind::PermissionDenied, status.message()).message))
            }
            Ok(Err(status)) => Err(peer_failure(&self.peer.to_string(), &status)),
            Ok(Ok(answer)) => Ok(Ok(answer.into_inner())),
        }
    }

    fn nonsense(&self, error: &WireError) -> Refusal {
        Refusal::internal(format!("{} answered with {error}", self.peer))
    }
}
