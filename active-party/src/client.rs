//! The coordinator as the active party calls it, in domain types.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Status, Streaming};
use vfl_shared::model::{ModelSpec, ShownModel, SubModel, SubModelSpec, TrainingConfig};
use vfl_shared::rpc::pb::coordinator_client::CoordinatorClient;
use vfl_shared::rpc::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, decode_statuses, pb, peer_failure};
use vfl_shared::service::{Credentials, Peer, TlsError, channel};
use vfl_shared::training::messages::{PublishCommand, PublishReply};
use vfl_shared::types::{LogitShare, ModelVersion, RecordIds, ReleasedScores, RowStatus};

use crate::served::{ModelDescription, Scored};

/// The coordinator.
#[derive(Debug, Clone)]
pub struct Coordinator {
    peer: Peer,
    client: CoordinatorClient<Channel>,
    timeout: Duration,
}

/// One message of a prediction.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) version: ModelVersion,
    pub(crate) ids: RecordIds,
    pub(crate) share: LogitShare,
    /// Empty for the live service.
    pub(crate) audit_session: String,
    pub(crate) request_id: String,
}

impl From<Question> for pb::PredictRequest {
    fn from(question: Question) -> Self {
        Self {
            model_version: question.version.as_str().to_owned(),
            ids: Some(question.ids.into()),
            logit_shares: Some(question.share.to_wire()),
            audit_session: question.audit_session,
            request_id: question.request_id,
        }
    }
}

impl Coordinator {
    /// The coordinator at its address. Connects on first use.
    ///
    /// # Errors
    /// [`TlsError`] if the address is malformed.
    pub fn new(credentials: &Credentials, peer: Peer, timeout: Duration) -> Result<Self, TlsError> {
        let client = CoordinatorClient::new(channel(credentials, &peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer, client, timeout })
    }

    /// Who and where.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Turns a status of the coordinator into a refusal that names it.
    fn refused(&self, status: &Status) -> Refusal {
        match RefusalKind::from_code(status.code()) {
            RefusalKind::Unavailable | RefusalKind::DeadlineExceeded if std::error::Error::source(status).is_some() => {
                peer_failure(&self.peer.to_string(), status)
            }
            // What the coordinator says of a third party, or of us, comes through as it is.
            kind if !status.message().is_empty() => Refusal::new(kind, status.message()),
            _ => peer_failure(&self.peer.to_string(), status),
        }
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Refusal> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer.map_err(|status| self.refused(&status)),
            Err(_) => {
                let message = format!("{} did not answer in {} ms", self.peer, self.timeout.as_millis());
                Err(Refusal::new(RefusalKind::DeadlineExceeded, message))
            }
        }
    }

    /// The model in service.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when none is; otherwise what the coordinator said.
    pub(crate) async fn describe(&self) -> Result<ModelDescription, Refusal> {
        let mut client = self.client.clone();
        let answer = self.within(client.describe_model(pb::DescribeModelRequest {})).await?.into_inner();
        let k = answer.class_names.len();
        if k < 2 {
            return Err(Refusal::internal(format!("{} describes a model of {k} classes", self.peer)));
        }
        let config = answer.training.and_then(|training| training.config);
        Ok(ModelDescription {
            version: WireError::model_version(answer.model_version)?,
            class_names: answer.class_names,
            passive_parties: answer.passive_parties.into_iter().map(|p| (p.name, p.features as usize)).collect(),
            spec: answer.model.as_ref().map(ModelSpec::try_from).transpose()?,
            top_shown: answer.top_shown,
            training: config.as_ref().map(TrainingConfig::try_from).transpose()?,
        })
    }

    /// Asks: with one call if there is one question, over a stream if there are more. Gives the answers in order, as they come; `k`
    /// is the number of classes.
    ///
    /// # Errors
    /// What the coordinator says, or that it is silent, stops early or answers with nonsense.
    pub(crate) async fn predict(
        &self,
        mut questions: Vec<Question>,
        k: usize,
        mut take: impl FnMut(Scored) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let records: Vec<usize> = questions.iter().map(|question| question.ids.len()).collect();
        let mut client = self.client.clone();
        if questions.len() <= 1 {
            let Some(question) = questions.pop() else { return Ok(()) };
            // The time left travels with the call: a coordinator that cannot make it stops working on it.
            let mut request = tonic::Request::new(question.into());
            request.set_timeout(self.timeout);
            let answer = self.within(client.predict(request)).await?.into_inner();
            return take(self.scored(&answer, records[0], k)?);
        }
        let outgoing = tokio_stream::iter(questions.into_iter().map(pb::PredictRequest::from));
        let mut answers = self.within(client.predict_stream(outgoing)).await?.into_inner();
        for n in records {
            let answer = self.within(answers.message()).await?;
            let ended = || Refusal::unavailable(format!("{} ended the stream early", self.peer));
            take(self.scored(&answer.ok_or_else(ended)?, n, k)?)?;
        }
        Ok(())
    }

    fn scored(&self, answer: &pb::PredictResponse, records: usize, k: usize) -> Result<Scored, Refusal> {
        let wrong = |e: WireError| Refusal::internal(format!("{} answered with {e}", self.peer));
        let row_status = decode_statuses(&answer.row_status, records).map_err(wrong)?;
        let ok = RowStatus::positions_ok(&row_status).len();
        let released = ReleasedScores::from_wire(answer.release.as_ref(), ok, k).map_err(wrong)?;
        Ok(Scored { row_status, released })
    }

    /// The top model of a version, of `inputs` inputs.
    ///
    /// # Errors
    /// What the coordinator says; INTERNAL if it answers with another model.
    pub(crate) async fn top_model(
        &self,
        version: &ModelVersion,
        spec: &SubModelSpec,
        inputs: usize,
    ) -> Result<Box<dyn SubModel>, Refusal> {
        let mut client = self.client.clone();
        let request = pb::ReleaseTopModelRequest { model_version: version.as_str().to_owned() };
        let answer = self.within(client.release_top_model(request)).await?.into_inner();
        let read = ShownModel::from_wire(&answer.top_model, spec, inputs);
        let (_, top) = read.map_err(|e| Refusal::internal(format!("{} answered with {e}", self.peer)))?;
        Ok(top)
    }

    /// Opens a training.
    ///
    /// # Errors
    /// What the coordinator says.
    pub(crate) async fn train(
        &self,
        replies: mpsc::Receiver<Result<pb::TrainingReply, Status>>,
    ) -> Result<Streaming<pb::TrainingCommand>, Refusal> {
        let mut client = self.client.clone();
        let opened = client.train(outgoing(replies)).await;
        opened.map(tonic::Response::into_inner).map_err(|status| self.refused(&status))
    }

    /// Opens a publication of imported parameters.
    ///
    /// # Errors
    /// What the coordinator says.
    pub(crate) async fn publish(&self, first: PublishReply) -> Result<(Tell, Heard), Refusal> {
        let (replies, receiver) = mpsc::channel::<Result<pb::PublishReply, Status>>(4);
        let tell = Tell(replies);
        if !tell.send(first).await {
            return Err(self.ended());
        }
        let mut client = self.client.clone();
        let opened = client.publish(outgoing(receiver)).await;
        let commands = opened.map_err(|status| self.refused(&status))?.into_inner();
        Ok((tell, Heard { coordinator: self.clone(), commands }))
    }

    fn ended(&self) -> Refusal {
        Refusal::unavailable(format!("{} ended the publication early", self.peer))
    }
}

/// What the active party says while imported parameters are published.
pub(crate) struct Tell(mpsc::Sender<Result<pb::PublishReply, Status>>);

impl Tell {
    /// Whether the coordinator still listens.
    pub(crate) async fn send(&self, reply: PublishReply) -> bool {
        self.0.send(Ok(reply.into())).await.is_ok()
    }
}

/// What it hears.
pub(crate) struct Heard {
    coordinator: Coordinator,
    commands: Streaming<pb::PublishCommand>,
}

impl Heard {
    /// The next command.
    pub(crate) async fn next(&mut self) -> Result<PublishCommand, Refusal> {
        let message = self.commands.message().await.map_err(|status| self.coordinator.refused(&status))?;
        Ok(PublishCommand::try_from(message.ok_or_else(|| self.coordinator.ended())?)?)
    }

    /// The coordinator does not listen any more.
    pub(crate) fn ended(&self) -> Refusal {
        self.coordinator.ended()
    }
}

/// Sends items one by one, as a stream that ends when the sender is dropped.
fn outgoing<T: Send + 'static>(receiver: mpsc::Receiver<Result<T, Status>>) -> impl Stream<Item = T> + Send + 'static {
    tokio_stream::wrappers::ReceiverStream::new(receiver).filter_map(Result::ok)
}
