//! The coordinator's client of one passive party: all predictions ask for logit shares over one
//! long-lived stream.
//!
//! A call per prediction would open an HTTP/2 stream each time; a message on an open stream costs a
//! fraction of it. Questions are numbered, and each is answered as soon as its answer is known: a
//! slow one delays no other, and a refusal concerns its own question only.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;
use vfl_core::types::ModelVersion;
use vfl_protocol::alignment::{Frame, Frames};
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::pb::release_parameters_response::Kind;
use vfl_protocol::{
    MAX_MESSAGE_BYTES, Refusal, RefusalKind, ShareAnswer, ShareRequest, WireError, decode_columns,
    pb, peer_failure, require, stream_refusal,
};
use vfl_server::monitoring::{Monitor, PeerMetrics, traces};
use vfl_server::service::{Credentials, Peer, TlsError, channel, pause};

/// Questions that may wait for one passive party before callers have to wait.
const QUEUE: usize = 256;
/// The call whose time is measured.
const SHARES: &str = "PassiveParty/ComputeLogitsStream";

struct Question {
    request: pb::ComputeLogitsRequest,
    answer: AnswerSender,
}

/// The channel to a caller that waits for an answer, or for the reason why the stream ended without
/// one.
type AnswerSender = oneshot::Sender<Result<pb::ComputeLogitsResponse, Refusal>>;

/// A passive party, as the coordinator sees it.
#[derive(Debug)]
pub struct PassiveParty {
    peer: Peer,
    client: PassivePartyClient<Channel>,
    timeout: Duration,
    hop: PeerMetrics,
    questions: Mutex<Option<mpsc::Sender<Question>>>,
}

impl PassiveParty {
    /// Creates a client of a passive party. It connects on first use, and again whenever the
    /// connection is lost.
    ///
    /// # Errors
    /// [`TlsError`] if the address is malformed.
    pub fn new(credentials: &Credentials, peer: Peer, timeout: Duration) -> Result<Self, TlsError> {
        let client = PassivePartyClient::new(channel(credentials, &peer)?)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { peer, client, timeout, hop: PeerMetrics::default(), questions: Mutex::new(None) })
    }

    /// Measures with `monitor` how long the party takes for logit shares, and how it fails.
    #[must_use]
    pub fn measured(self, monitor: &Monitor) -> Self {
        Self { hop: monitor.hop(self.peer.name.as_str(), &[SHARES]), ..self }
    }

    /// Returns the party's name and address.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns a gRPC client for other calls.
    #[must_use]
    pub fn client(&self) -> PassivePartyClient<Channel> {
        self.client.clone()
    }

    /// Asks for the logit shares of a batch; `width` is the party's output width.
    ///
    /// # Errors
    /// [`Refusal`] naming the party: UNAVAILABLE when it is down, DEADLINE_EXCEEDED when it is
    /// silent, INTERNAL when its answer is not of this size, or what it said.
    pub async fn compute_logits(
        &self,
        request: ShareRequest,
        width: usize,
    ) -> Result<ShareAnswer, Refusal> {
        let asked = self.hop.time(SHARES, self.shares(request, width));
        traces::asking(traces::SpanName::Ask, &self.peer.name, asked).await
    }

    async fn shares(&self, request: ShareRequest, width: usize) -> Result<ShareAnswer, Refusal> {
        let records = request.ids.len();
        traces::note_rows(records);
        let question = || pb::ComputeLogitsRequest {
            trace_context: traces::carried(),
            ..request.clone().into()
        };
        // A question always has the same answer, so it is asked once more if the stream breaks.
        let answer = match self.ask(question()).await {
            Err(refusal) if refusal.kind == RefusalKind::Unavailable => {
                pause().await;
                self.ask(question()).await?
            }
            answer => answer?,
        };
        let wrong =
            |e: WireError| Refusal::internal(format!("{} answered with {e}", self.peer.words()));
        match stream_refusal(&answer).map_err(wrong)? {
            // A refusal is an answer and is not asked for again: a store that is down has enough to
            // do.
            Some(said) => {
                Err(Refusal::new(said.kind, format!("{} refused: {said}", self.peer.words())))
            }
            None => ShareAnswer::from_wire(&answer, records, width).map_err(wrong),
        }
    }

    /// Asks a question on the stream and returns its answer. An error means that the stream broke
    /// or that the party was silent.
    async fn ask(
        &self,
        request: pb::ComputeLogitsRequest,
    ) -> Result<pb::ComputeLogitsResponse, Refusal> {
        let mut used = None;
        let asked = async {
            let (answer, answered) = oneshot::channel();
            let mut question = Question { request, answer };
            // A stream that broke while nobody asked fails here; a new one is opened once.
            for _ in 0..2 {
                let sender = used.insert(self.sender());
                match sender.send(question).await {
                    Ok(()) => return answered.await.unwrap_or_else(|_| Err(self.lost())),
                    Err(mpsc::error::SendError(back)) => question = back,
                }
            }
            Err(self.lost())
        };
        let ended = tokio::time::timeout(self.timeout, asked).await;
        match ended {
            Ok(answer) => answer,
            Err(_) => {
                // A party that is connected but silent gets a new stream from the next question on.
                let mut slot = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
                if slot
                    .as_ref()
                    .zip(used.as_ref())
                    .is_some_and(|(now, used)| now.same_channel(used))
                {
                    *slot = None;
                }
                drop(slot);
                let ms = self.timeout.as_millis();
                Err(Refusal::new(
                    RefusalKind::DeadlineExceeded,
                    format!("{} did not answer in {ms} ms", self.peer.words()),
                ))
            }
        }
    }

    /// Asks for the party's parameters, W_pas of its features (k × d). Its release policy must
    /// grant them to the coordinator.
    ///
    /// # Errors
    /// [`Refusal`] naming the party: PERMISSION_DENIED without a grant, UNAVAILABLE when it is
    /// down.
    pub async fn release_parameters(
        &self,
        version: &ModelVersion,
        classes: usize,
    ) -> Result<nalgebra::DMatrix<f64>, Refusal> {
        let mut client = self.client();
        let request = pb::ReleaseParametersRequest { model_version: version.as_str().to_owned() };
        let answer =
            match tokio::time::timeout(self.timeout, client.release_parameters(request)).await {
                Ok(Ok(answer)) => answer.into_inner(),
                Ok(Err(status)) => return Err(peer_failure(&self.peer.words(), &status)),
                Err(_) => {
                    let message = format!(
                        "{} did not answer in {} ms",
                        self.peer.words(),
                        self.timeout.as_millis()
                    );
                    return Err(Refusal::new(RefusalKind::DeadlineExceeded, message));
                }
            };
        let wrong =
            |e: WireError| Refusal::internal(format!("{} answered with {e}", self.peer.words()));
        if matches!(answer.kind(), Kind::Transformed | Kind::Undisclosed) {
            // Noise along the directions of other parameters would not protect as promised.
            return Err(Refusal::internal(format!(
                "{} did not answer with its true parameters",
                self.peer.words()
            )));
        }
        let weights = require("weights", answer.weights).map_err(wrong)?;
        // Each row is a class: read as one class per column, then transposed.
        Ok(decode_columns("weights", &weights, classes, None).map_err(wrong)?.transpose())
    }

    /// Opens an alignment: sends `frames` to the party and returns the party's frames.
    ///
    /// # Errors
    /// The party's refusal, or UNAVAILABLE when it is down.
    pub(crate) async fn align(&self, frames: mpsc::Receiver<Frame>) -> Result<Frames, Refusal> {
        let who = self.peer.words();
        let mut client = self.client();
        let opened = client.align(ReceiverStream::new(frames).map(pb::AlignmentFrame::from)).await;
        let answers = opened.map_err(|status| peer_failure(&who, &status))?.into_inner();
        Ok(Box::pin(answers.map(move |frame| {
            let frame = frame.map_err(|status| peer_failure(&who, &status))?;
            Frame::try_from(frame).map_err(|e| Refusal::internal(format!("{who} sent {e}")))
        })))
    }

    fn lost(&self) -> Refusal {
        Refusal::unavailable(format!("{} went away", self.peer.words()))
    }

    fn sender(&self) -> mpsc::Sender<Question> {
        let mut slot = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.as_ref() {
            Some(sender) if !sender.is_closed() => sender.clone(),
            _ => {
                let (sender, questions) = mpsc::channel(QUEUE);
                tokio::spawn(converse(self.client.clone(), self.peer.words(), questions));
                *slot = Some(sender.clone());
                sender
            }
        }
    }
}

/// Carries questions and answers over one stream until either side ends; then every open question
/// gets the reason.
async fn converse(
    mut client: PassivePartyClient<Channel>,
    peer: String,
    mut questions: mpsc::Receiver<Question>,
) {
    let (requests, outgoing) = mpsc::channel(QUEUE);
    let mut waiting: HashMap<u64, AnswerSender> = HashMap::new();
    let refusal = match client.compute_logits_stream(ReceiverStream::new(outgoing)).await {
        Err(status) => peer_failure(&peer, &status),
        Ok(response) => {
            let mut answers = response.into_inner();
            let mut number = 0;
            loop {
                tokio::select! {
                    // A place in the queue first, then a question for it: while the queue is full,
                    // answers are still read, or both sides would wait for each other.
                    (place, question) = async { (requests.reserve().await, questions.recv().await) } => {
                        match (place, question) {
                            (Err(_), question) => {
                                number += 1;
                                waiting.extend(question.map(|q| (number, q.answer)));
                                break Refusal::unavailable(format!("{peer} went away"));
                            }
                            (Ok(_), None) => return,
                            // The caller has stopped waiting, so the party need not work on it.
                            (Ok(_), Some(question)) if question.answer.is_closed() => {}
                            (Ok(place), Some(Question { request, answer })) => {
                                number += 1;
                                waiting.insert(number, answer);
                                place.send(pb::ComputeLogitsRequest { question: number, ..request });
                            }
                        }
                    },
                    answer = answers.message() => match answer {
                        Ok(Some(answer)) => match waiting.remove(&answer.question) {
                            Some(asker) => drop(asker.send(Ok(answer))),
                            None => break Refusal::internal(format!("{peer} answered a question that was not asked")),
                        },
                        Ok(None) => break Refusal::unavailable(format!("{peer} ended the stream")),
                        Err(status) => break ended(&peer, &status),
                    },
                }
            }
        }
    };
    match waiting.len() {
        // Nobody waits, and the next question opens another stream: parties stop at some time.
        0 => tracing::debug!(reason = %refusal, "the stream to a passive party ended"),
        waiting => {
            tracing::warn!(waiting, reason = %refusal, "the stream to a passive party ended")
        }
    }
    // New questions find the channel closed and open another stream.
    questions.close();
    for asker in waiting.into_values() {
        let _ = asker.send(Err(refusal.clone()));
    }
    while let Some(Question { answer, .. }) = questions.recv().await {
        let _ = answer.send(Err(refusal.clone()));
    }
}

/// Returns the refusal of the questions under way when a status ends their stream. The status
/// answers none of them, so they may be asked again (UNAVAILABLE), unless the party sends what
/// cannot be read or reports that it failed (INTERNAL).
fn ended(peer: &str, status: &Status) -> Refusal {
    let refusal = peer_failure(peer, status);
    match refusal.kind {
        RefusalKind::Unavailable | RefusalKind::Internal => refusal,
        _ => Refusal::unavailable(format!(
            "{peer} ended the stream: {}",
            Refusal::said(refusal.kind, status.message())
        )),
    }
}
