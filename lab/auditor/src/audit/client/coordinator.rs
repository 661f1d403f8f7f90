//! The auditor's client of the coordinator.

use tonic::transport::Channel;
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::model::{Combiner, ModelSpec};
use vfl_defense::Policy;
use vfl_protocol::audit::{Cost, OpenSession, SessionRequest, SessionSummary};
use vfl_protocol::ledger::Summary;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_protocol::{MAX_MESSAGE_BYTES, Refusal, WireError, pb};
use vfl_server::service::{Credentials, Peer};

use super::peer::{connected, nonsense, refused};
use crate::audit::model::{Model, Training};

/// A client of the coordinator.
pub(crate) struct Coordinator {
    peer: Peer,
    client: CoordinatorClient<Channel>,
}

impl Coordinator {
    /// Creates a client, which connects on first use.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the address is malformed.
    pub(crate) fn new(credentials: &Credentials, peer: &Peer) -> Result<Self, Refusal> {
        let client = CoordinatorClient::new(connected(credentials, peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer: peer.clone(), client })
    }

    /// Asks for the model in service.
    ///
    /// # Errors
    /// [`Refusal`] with what the coordinator said, or that it is not reachable.
    pub(crate) async fn describe(&self) -> Result<Model, Refusal> {
        let described = self.client.clone().describe_model(pb::DescribeModelRequest {}).await;
        let described = described.map_err(refused(&self.peer))?.into_inner();
        let training = described.training.unwrap_or_default();
        let policy = described
            .policy
            .as_ref()
            .map(Policy::try_from)
            .transpose()
            .map_err(nonsense(&self.peer))?;
        let model = described
            .model
            .as_ref()
            .map(ModelSpec::try_from)
            .transpose()
            .map_err(nonsense(&self.peer))?;
        let parties = described
            .passive_parties
            .iter()
            .map(|party| (party.name.as_str(), party.privacy.as_ref()));
        let mut privacy = Vec::new();
        for (name, stated) in
            [("the active party", described.active_privacy.as_ref())].into_iter().chain(parties)
        {
            let stated =
                stated.map(PrivacyStatement::try_from).transpose().map_err(nonsense(&self.peer))?;
            privacy.extend(stated.map(|stated| (name.to_owned(), stated)));
        }
        Ok(Model {
            version: WireError::model_version(described.model_version)
                .map_err(nonsense(&self.peer))?,
            class_names: described.class_names,
            active_features: described.active_features as usize,
            passive_features: described
                .passive_parties
                .iter()
                .map(|party| party.features as usize)
                .collect(),
            passive_parties: described
                .passive_parties
                .into_iter()
                .map(|party| party.name)
                .collect(),
            privacy,
            policy: policy.unwrap_or_default(),
            // A coordinator that does not describe the model sums the shares.
            combiner: model.map_or(Combiner::Sum, |model| model.combiner()),
            top_shown: described.top_shown,
            private_release: described.private_release,
            training: Training {
                epochs: training.epochs,
                steps: training.steps,
                training_records: training.training_records,
                validation_records: training.validation_records,
                imported: training.imported,
                private: training.config.is_some_and(|config| config.private),
            },
        })
    }

    /// Asks for each active party's use of the live service and its remaining budgets; `None` if no
    /// ledger is kept.
    ///
    /// # Errors
    /// [`Refusal`] with what the coordinator said, or that it is not reachable.
    pub(crate) async fn ledger(&self) -> Result<Option<Summary>, Refusal> {
        let described =
            self.client.clone().describe_ledger(pb::DescribeLedgerRequest::default()).await;
        Ok(described.map_err(refused(&self.peer))?.into_inner().into())
    }

    /// Opens a session in which an active party may ask for records under a policy.
    ///
    /// # Errors
    /// [`Refusal`] with what the coordinator said, or that it is not reachable.
    pub(crate) async fn open(&self, request: SessionRequest) -> Result<OpenSession, Refusal> {
        let opened = self.client.clone().open_audit(pb::OpenAuditRequest::from(request)).await;
        Ok(opened.map_err(refused(&self.peer))?.into_inner().into())
    }

    /// Closes the session of this name. Returns the cost of its policy, or the reason that it is
    /// withheld; if `summary` is false, it was not asked for.
    ///
    /// # Errors
    /// [`Refusal`] with what the coordinator said, or that it is not reachable.
    pub(crate) async fn close(
        &self,
        session: &str,
        summary: bool,
    ) -> Result<Result<Cost, String>, Refusal> {
        let request =
            pb::CloseAuditRequest { audit_session: session.to_owned(), without_summary: !summary };
        let closed = self
            .client
            .clone()
            .close_audit(request)
            .await
            .map_err(refused(&self.peer))?
            .into_inner();
        Ok(SessionSummary::from(closed).cost)
    }
}
