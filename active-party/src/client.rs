//! The active party's client of the coordinator, in domain types.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use vfl_core::model::{ModelSpec, SubModel, SubModelSpec, TrainingConfig};
use vfl_core::types::ModelVersion;
use vfl_protocol::alignment::{Frame, Frames};
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_protocol::private_release::{CommandStream, ReplyItem};
use vfl_protocol::training::messages::{PublishCommand, PublishReply};
use vfl_protocol::{
    MAX_MESSAGE_BYTES, PredictionRequest, PredictionResponse, Refusal, RefusalKind, ShownModel,
    WireError, broken, pb, peer_failure,
};
use vfl_server::monitoring::{Monitor, PeerMetrics, traces};
use vfl_server::service::{
    Credentials, MOST_CALLS, Peer, TlsError, channel, pause, twice, unanswered, until_answered,
};

use crate::model_description::ModelDescription;

/// A client of the coordinator.
#[derive(Debug, Clone)]
pub struct Coordinator {
    peer: Peer,
    client: CoordinatorClient<Channel>,
    timeout: Duration,
    hop: PeerMetrics,
}

/// The names of the calls whose time is measured.
const DESCRIBE: &str = "Coordinator/DescribeModel";
const PREDICT: &str = "Coordinator/Predict";
const PREDICT_STREAM: &str = "Coordinator/PredictStream";

impl Coordinator {
    /// Creates a client of the coordinator at its address. It connects on first use.
    ///
    /// # Errors
    /// [`TlsError`] if the address is malformed.
    pub fn new(credentials: &Credentials, peer: Peer, timeout: Duration) -> Result<Self, TlsError> {
        let client = CoordinatorClient::new(channel(credentials, &peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer, client, timeout, hop: PeerMetrics::default() })
    }

    /// Adds measurements of the time that the coordinator takes for predictions, and of its
    /// failures.
    #[must_use]
    pub fn measured(self, monitor: &Monitor) -> Self {
        Self {
            hop: monitor.hop(self.peer.name.as_str(), &[DESCRIBE, PREDICT, PREDICT_STREAM]),
            ..self
        }
    }

    /// Returns the role, name and address of the coordinator.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Turns a status of the coordinator into a refusal that names it.
    pub(crate) fn refused(&self, status: &Status) -> Refusal {
        match RefusalKind::from_code(status.code()) {
            RefusalKind::Unavailable | RefusalKind::DeadlineExceeded
                if std::error::Error::source(status).is_some() =>
            {
                peer_failure(&self.peer.to_string(), status)
            }
            // The coordinator's messages about a third party, or about us, pass unchanged.
            kind if !status.message().is_empty() => Refusal::new(kind, status.message()),
            _ => peer_failure(&self.peer.to_string(), status),
        }
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, Status>>) -> Result<T, Refusal> {
        match tokio::time::timeout(self.timeout, call).await {
            Ok(answer) => answer.map_err(|status| self.refused(&status)),
            Err(_) => {
                let message =
                    format!("{} did not answer in {} ms", self.peer, self.timeout.as_millis());
                Err(Refusal::new(RefusalKind::DeadlineExceeded, message))
            }
        }
    }

    /// Asks the coordinator for the model in service.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if there is none; otherwise the coordinator's refusal.
    pub(crate) async fn describe(&self) -> Result<ModelDescription, Refusal> {
        let asked = self.hop.time(DESCRIBE, self.described());
        traces::asking(traces::SpanName::DescribeModel, &self.peer.name, asked).await
    }

    async fn described(&self) -> Result<ModelDescription, Refusal> {
        let client = self.client.clone();
        let answer = self
            .within(twice(|| {
                let mut client = client.clone();
                async move { client.describe_model(pb::DescribeModelRequest {}).await }
            }))
            .await?
            .into_inner();
        let config = answer.training.and_then(|training| training.config);
        let described = ModelDescription {
            version: WireError::model_version(answer.model_version)?,
            class_names: answer.class_names,
            passive_parties: answer
                .passive_parties
                .into_iter()
                .map(|p| (p.name, p.features as usize))
                .collect(),
            spec: answer.model.as_ref().map(ModelSpec::try_from).transpose()?,
            top_shown: answer.top_shown,
            private_release: answer.private_release,
            training: config.as_ref().map(TrainingConfig::try_from).transpose()?,
        };
        // Scores have two classes or more, a number has one name.
        let (k, link) = (described.class_names.len(), described.link());
        if k == 0 || link.is_numeric() != (k == 1) {
            let peer = &self.peer;
            return Err(Refusal::internal(format!(
                "{peer} describes a model of link {link} with {k} outputs"
            )));
        }
        Ok(described)
    }

    /// Sends the questions: one in a single call, several over a stream. Passes the answers to
    /// `take` in order, as they come; `k` is the number of classes. If the connection breaks, or
    /// the coordinator is stopping or without its database, questions with a request id are sent
    /// again: that costs nothing and gets the same answers.
    ///
    /// # Errors
    /// The coordinator's refusal, or that it is silent, ends the stream early or sends a malformed
    /// answer.
    pub(crate) async fn predict(
        &self,
        questions: Vec<PredictionRequest>,
        k: usize,
        take: impl FnMut(PredictionResponse) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        if questions.is_empty() {
            return Ok(());
        }
        let method = if questions.len() == 1 { PREDICT } else { PREDICT_STREAM };
        let asked = self.hop.time(method, self.answers(questions, k, take));
        traces::asking(traces::SpanName::CoordinatorCall, &self.peer.name, asked).await
    }

    async fn answers(
        &self,
        mut questions: Vec<PredictionRequest>,
        k: usize,
        mut take: impl FnMut(PredictionResponse) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let records: Vec<usize> = questions.iter().map(|question| question.ids.len()).collect();
        traces::note_rows(records.iter().sum());
        let named = questions.iter().all(|question| !question.request_id.is_empty());
        if questions.len() <= 1 {
            let Some(question) = questions.pop() else { return Ok(()) };
            let question = pb::PredictRequest::from(question);
            let ask = |question: pb::PredictRequest| {
                let mut client = self.client.clone();
                // The deadline travels with the call: a coordinator that cannot meet it stops
                // working on it.
                let mut request = tonic::Request::new(question);
                request.set_timeout(self.timeout);
                traces::carry(request.metadata_mut());
                async move { client.predict(request).await }
            };
            let asked = async {
                match named {
                    true => until_answered(|| ask(question.clone())).await,
                    false => ask(question).await.map_err(|status| self.not_again(status)),
                }
            };
            let answer = self.within(asked).await?.into_inner();
            return take(self.response(answer, records[0], k)?);
        }
        let mut done = 0;
        for _ in 1..MOST_CALLS {
            let (left, sizes) = (&questions[done..], &records[done..]);
            match self.stream(left, sizes, &mut done, k, &mut take).await? {
                Err(status) if named && unanswered(&status) => pause().await,
                Err(status) if named => return Err(self.refused(&status)),
                Err(status) => return Err(self.refused(&self.not_again(status))),
                Ok(()) => return Ok(()),
            }
        }
        let (left, sizes) = (&questions[done..], &records[done..]);
        self.stream(left, sizes, &mut done, k, &mut take)
            .await?
            .map_err(|status| self.refused(&status))
    }

    /// Says in the status that a question without a request id is not sent again after a broken
    /// connection. UNAVAILABLE is left as it is: no connection came about, so nothing was asked.
    fn not_again(&self, status: Status) -> Status {
        if !broken(&status) || status.code() == Code::Unavailable {
            return status;
        }
        Status::unavailable(format!(
            "{} was lost on the way: the request may have been recorded, and asking again costs again; a request with an id is asked \
             again by itself, at no cost",
            self.peer
        ))
    }

    /// Sends questions over a stream, and counts the answers in `done`. The inner error is the
    /// stream's.
    async fn stream(
        &self,
        questions: &[PredictionRequest],
        records: &[usize],
        done: &mut usize,
        k: usize,
        take: &mut impl FnMut(PredictionResponse) -> Result<(), Refusal>,
    ) -> Result<Result<(), Status>, Refusal> {
        let questions: Vec<PredictionRequest> = questions.to_vec();
        let outgoing = tokio_stream::iter(questions.into_iter().map(pb::PredictRequest::from));
        let mut outgoing = tonic::Request::new(outgoing);
        traces::carry(outgoing.metadata_mut());
        let mut client = self.client.clone();
        let late = |_| {
            let message =
                format!("{} did not answer in {} ms", self.peer, self.timeout.as_millis());
            Refusal::new(RefusalKind::DeadlineExceeded, message)
        };
        let opened = tokio::time::timeout(self.timeout, client.predict_stream(outgoing))
            .await
            .map_err(late)?;
        let mut answers = match opened {
            Ok(opened) => opened.into_inner(),
            Err(status) => return Ok(Err(status)),
        };
        for &n in records {
            let answer =
                match tokio::time::timeout(self.timeout, answers.message()).await.map_err(late)? {
                    Ok(answer) => answer,
                    Err(status) => return Ok(Err(status)),
                };
            let ended = || Refusal::unavailable(format!("{} ended the stream early", self.peer));
            take(self.response(answer.ok_or_else(ended)?, n, k)?)?;
            *done += 1;
        }
        Ok(Ok(()))
    }

    fn response(
        &self,
        answer: pb::PredictResponse,
        records: usize,
        k: usize,
    ) -> Result<PredictionResponse, Refusal> {
        PredictionResponse::from_wire(answer, records, k)
            .map_err(|e| Refusal::internal(format!("{} answered with {e}", self.peer)))
    }

    /// Fetches the top model of a version. It must have `inputs` inputs.
    ///
    /// # Errors
    /// The coordinator's refusal; INTERNAL if it answers with another model.
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
        let (_, top) =
            read.map_err(|e| Refusal::internal(format!("{} answered with {e}", self.peer)))?;
        Ok(top)
    }

    /// Opens a training.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub(crate) async fn train(
        &self,
        replies: mpsc::Receiver<Result<pb::TrainingReply, Status>>,
    ) -> Result<Streaming<pb::TrainingCommand>, Refusal> {
        let mut client = self.client.clone();
        let opened = client.train(outgoing(replies)).await;
        opened.map(tonic::Response::into_inner).map_err(|status| self.refused(&status))
    }

    /// Opens a session of private releases.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub(crate) async fn release_privately(
        &self,
        replies: mpsc::Receiver<ReplyItem>,
    ) -> Result<CommandStream, Refusal> {
        let mut client = self.client.clone();
        let opened = client.release_privately(outgoing(replies)).await;
        Ok(Box::pin(opened.map_err(|status| self.refused(&status))?.into_inner()))
    }

    /// Opens an alignment: `frames` go to the coordinator, and its frames are returned.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub(crate) async fn align(
        &self,
        frames: mpsc::Receiver<Result<Frame, Refusal>>,
    ) -> Result<Frames, Refusal> {
        let mut client = self.client.clone();
        let frames = tokio_stream::wrappers::ReceiverStream::new(frames).filter_map(Result::ok);
        let opened = client.align(frames.map(pb::AlignmentFrame::from)).await;
        let answers = opened.map_err(|status| self.refused(&status))?.into_inner();
        let coordinator = self.clone();
        Ok(Box::pin(answers.map(move |frame| {
            let frame = frame.map_err(|status| coordinator.refused(&status))?;
            Frame::try_from(frame)
                .map_err(|e| Refusal::internal(format!("{} sent {e}", coordinator.peer)))
        })))
    }

    /// Opens a publication of imported parameters.
    ///
    /// # Errors
    /// The coordinator's refusal.
    pub(crate) async fn publish(
        &self,
        first: PublishReply,
    ) -> Result<(PublishReplies, PublishCommands), Refusal> {
        let (replies, receiver) = mpsc::channel::<Result<pb::PublishReply, Status>>(4);
        let tell = PublishReplies(replies);
        if !tell.send(first).await {
            return Err(self.ended());
        }
        let mut client = self.client.clone();
        let opened = client.publish(outgoing(receiver)).await;
        let commands = opened.map_err(|status| self.refused(&status))?.into_inner();
        Ok((tell, PublishCommands { coordinator: self.clone(), commands }))
    }

    fn ended(&self) -> Refusal {
        Refusal::unavailable(format!("{} ended the publication early", self.peer))
    }
}

/// The sender of the active party's replies while imported parameters are published.
pub(crate) struct PublishReplies(mpsc::Sender<Result<pb::PublishReply, Status>>);

impl PublishReplies {
    /// Sends a reply. Returns true if the coordinator still listens.
    pub(crate) async fn send(&self, reply: PublishReply) -> bool {
        self.0.send(Ok(reply.into())).await.is_ok()
    }
}

/// The receiver of the coordinator's commands while imported parameters are published.
pub(crate) struct PublishCommands {
    coordinator: Coordinator,
    commands: Streaming<pb::PublishCommand>,
}

impl PublishCommands {
    /// Waits for the next command.
    pub(crate) async fn next(&mut self) -> Result<PublishCommand, Refusal> {
        let message =
            self.commands.message().await.map_err(|status| self.coordinator.refused(&status))?;
        Ok(PublishCommand::try_from(message.ok_or_else(|| self.coordinator.ended())?)?)
    }

    /// Returns the refusal for a publication that the coordinator ended early.
    pub(crate) fn ended(&self) -> Refusal {
        self.coordinator.ended()
    }
}

/// Returns the items as a stream that ends when the sender is dropped.
fn outgoing<T: Send + 'static>(
    receiver: mpsc::Receiver<Result<T, Status>>,
) -> impl Stream<Item = T> + Send + 'static {
    tokio_stream::wrappers::ReceiverStream::new(receiver).filter_map(Result::ok)
}
