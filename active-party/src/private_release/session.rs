//! One session: requests leave under masks, and what is opened is handed to those who asked.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt};
use tokio::sync::{mpsc, oneshot};
use vfl_core::types::{ReleasedScores, RowStatus};
use vfl_mpc::MaskKey;
use vfl_party::computation::release::{
    MOST_RECORDS, MaskKeyExchange, PATIENCE, ReleaseInput, ReleaseJob, ReleaseProgram,
};
use vfl_party::computation::{Arrivals, Member};
use vfl_protocol::private_release::{
    CommandStream, MOST_UNANSWERED, MOST_UNANSWERED_RECORDS, MaskedRequest, ReleaseCommand,
    ReleaseReply, ReplySender, RequestRows, SessionTerms, TAG_WORDS, write_numbers,
};
use vfl_protocol::{Refusal, RefusalKind, WireError};
use vfl_server::service::Credentials;

use super::question::{Question, Subject, WAITING};
use crate::client::Coordinator;

/// The time after which a session that does not answer a request is given up.
const LONGEST: Duration = Duration::from_secs(60);
/// The time in which the coordinator says why a computation ended.
const REASON: Duration = Duration::from_secs(5);

type Answer = oneshot::Sender<Result<(Vec<RowStatus>, ReleasedScores), Refusal>>;
/// The number of a group, and what was released, or the refusal of what was opened.
type Computed = Pin<Box<dyn Future<Output = (u64, Option<Released>)> + Send>>;
type Released = Result<ReleasedScores, Refusal>;

/// A request that is not answered yet.
struct Pending {
    /// This party's logits, of all records of the request.
    input: ReleaseInput,
    records: usize,
    sent: Instant,
    answer: Answer,
}

/// A session's stream, in domain types.
struct Conversation {
    coordinator: Coordinator,
    commands: CommandStream,
    replies: ReplySender,
}

impl Conversation {
    async fn next(&mut self) -> Result<ReleaseCommand, Refusal> {
        let who = self.coordinator.peer();
        match self.commands.next().await {
            Some(Ok(message)) => {
                let read = ReleaseCommand::try_from(message);
                read.map_err(|e: WireError| Refusal::internal(format!("{who} sent {e}")))
            }
            None => {
                Err(Refusal::unavailable(format!("{who} ended the session of private releases")))
            }
            Some(Err(status)) => Err(self.coordinator.refused(&status)),
        }
    }

    async fn reply(&mut self, reply: ReleaseReply) -> Result<(), Refusal> {
        let sent = tokio::time::timeout(PATIENCE, self.replies.send(Ok(reply.into()))).await;
        let gone = || Refusal::unavailable(format!("{} went away", self.coordinator.peer()));
        sent.map_err(|_| gone())?.map_err(|_| gone())
    }
}

/// Opens a session for a subject with `k` classes, on a task of its own. Returns the sender of
/// questions: the session ends when all of them are dropped, or by itself after an error.
///
/// # Errors
/// The coordinator's refusal, or that of the passive party which computes.
pub(super) async fn open(
    coordinator: &Coordinator,
    credentials: &Credentials,
    (version, audit_session): &Subject,
    k: usize,
    timeout: Duration,
) -> Result<mpsc::Sender<Question>, Refusal> {
    let (replies, outgoing) = mpsc::channel(16);
    let (version, audit_session) = (version.clone(), audit_session.clone());
    let opening = ReleaseReply::Open { version: version.clone(), audit_session };
    let _ = replies.send(Ok(opening.into())).await;
    let late = |_| {
        let (who, ms) = (coordinator.peer(), timeout.as_millis());
        let message = format!("{who} did not open a session of private releases in {ms} ms");
        Refusal::new(RefusalKind::DeadlineExceeded, message)
    };
    let opened = tokio::time::timeout(timeout, coordinator.release_privately(outgoing));
    let commands = opened.await.map_err(late)??;
    let mut talk = Conversation { coordinator: coordinator.clone(), commands, replies };
    let first = tokio::time::timeout(timeout, talk.next()).await.map_err(late)??;
    let ReleaseCommand::Begin(terms) = first else {
        return Err(Refusal::internal(format!(
            "{} did not begin a session of private releases",
            coordinator.peer()
        )));
    };
    let own = credentials.identity().name();
    if terms.version != version || terms.active_party != *own || terms.classes != k {
        return Err(Refusal::internal(format!(
            "{} began a session of another model, or for another party",
            coordinator.peer()
        )));
    }
    let (questions, queue) = mpsc::channel(WAITING);
    let (ready, is_ready) = oneshot::channel();
    let credentials = credentials.clone();
    tokio::spawn(async move {
        let mut session = Session::new(*terms, queue);
        if let Err(refusal) = session.run(&mut talk, &credentials, ready).await {
            tracing::debug!(reason = %refusal, "a session of private releases ended");
            session.fail(&refusal);
        }
    });
    match tokio::time::timeout(timeout, is_ready).await {
        Ok(Ok(ready)) => ready.map(|()| questions),
        Ok(Err(_)) => Err(Refusal::unavailable("the session of private releases has ended")),
        Err(elapsed) => Err(late(elapsed)),
    }
}

struct Session {
    terms: SessionTerms,
    questions: mpsc::Receiver<Question>,
    pending: HashMap<u64, Pending>,
    last: u64,
    /// The requests that are computed, by the number of their group.
    computing: HashMap<u64, Vec<(Vec<RowStatus>, Answer)>>,
    groups: u64,
    /// The receiver of the news that the session is open, or why it is not.
    ready: Option<oneshot::Sender<Result<(), Refusal>>>,
}

impl Session {
    fn new(terms: SessionTerms, questions: mpsc::Receiver<Question>) -> Self {
        let (pending, computing) = (HashMap::new(), HashMap::new());
        Self { terms, questions, pending, last: 0, computing, groups: 0, ready: None }
    }

    /// Serves the session until nobody asks any more.
    async fn run(
        &mut self,
        talk: &mut Conversation,
        credentials: &Credentials,
        ready: oneshot::Sender<Result<(), Refusal>>,
    ) -> Result<(), Refusal> {
        self.ready = Some(ready);
        let program = Arc::new(ReleaseProgram::new(&self.terms)?);
        let own = Member::Active(credentials.identity().name().clone());
        let wrap = |piece| ReleaseReply::Piece(piece).into();
        let (channels, arrivals) =
            ReleaseProgram::places(&self.terms).channels(own, &talk.replies, wrap)?;
        let (jobs, queue) = std::sync::mpsc::channel();
        let (wanted, key) = oneshot::channel();
        let exchange = MaskKeyExchange::Wanted(wanted);
        let work = channels.release(credentials, (*program).clone(), exchange, PATIENCE, queue);
        let mut work = std::pin::pin!(work);
        // No key after this one is due.
        let mut coming = std::pin::pin!(key.fuse());
        let mut key: Option<MaskKey> = None;
        let mut computed: FuturesUnordered<Computed> = FuturesUnordered::new();
        let mut clock = tokio::time::interval(Duration::from_secs(1));
        loop {
            let may_ask = key.is_some()
                && self.pending.len() + computed.len() < MOST_UNANSWERED
                && self.records() < MOST_UNANSWERED_RECORDS;
            tokio::select! {
                ended = &mut work => {
                    return Err(match ended {
                        Ok(()) => Refusal::internal("the private computation ended early"),
                        Err(refusal) => reason(talk, refusal).await,
                    });
                }
                Ok(came) = &mut coming, if key.is_none() => {
                    key = Some(came);
                    if let Some(ready) = self.ready.take() {
                        let _ = ready.send(Ok(()));
                    }
                }
                question = self.questions.recv(), if may_ask => match (question, &key) {
                    (Some(question), Some(key)) => self.send(talk, &program, key, question).await?,
                    _ => return Ok(()),
                },
                command = talk.next() => {
                    computed.extend(self.obey(command?, &program, &arrivals, &jobs).await?);
                }
                _ = clock.tick() => {
                    if self.pending.values().any(|pending| pending.sent.elapsed() > LONGEST) {
                        let who = talk.coordinator.peer();
                        let message = format!("{who} did not answer in {} s", LONGEST.as_secs());
                        return Err(Refusal::new(RefusalKind::DeadlineExceeded, message));
                    }
                }
                Some(group) = computed.next() => {
                    // Without a release, the end of the computation says why.
                    if let (number, Some(released)) = group
                        && let Some(answers) = self.computing.remove(&number)
                    {
                        match released {
                            Ok(released) => hand_out(answers, &released),
                            Err(refusal) => refuse(answers, &refusal),
                        }
                    }
                }
            }
        }
    }

    /// Returns the number of records that are not answered yet.
    fn records(&self) -> usize {
        self.pending.values().map(|pending| pending.records).sum()
    }

    /// Sends a question under its masks.
    async fn send(
        &mut self,
        talk: &mut Conversation,
        program: &ReleaseProgram,
        key: &MaskKey,
        question: Question,
    ) -> Result<(), Refusal> {
        let Question { ids, logits, request_id, answer } = question;
        if answer.is_closed() {
            return Ok(());
        }
        let logits = match program.encode(logits.matrix().as_slice()) {
            Ok(logits) if logits.len() == program.classes() * ids.len() => logits,
            wrong => {
                let why =
                    wrong.err().map_or("another number of them".to_owned(), |e| e.to_string());
                let message = format!("this party's logits do not fit a private release: {why}");
                let _ = answer.send(Err(Refusal::precondition(message)));
                return Ok(());
            }
        };
        let tags = program.tags(key, &ids, &logits);
        let masks = program.masks(key, &ids, &tags);
        let less = |(logit, mask): (&u64, &u64)| logit.wrapping_sub(*mask);
        let masked: Vec<u64> = logits.iter().zip(&masks).map(less).collect();
        let of_records = masked.chunks_exact(program.classes()).zip(tags.chunks_exact(TAG_WORDS));
        let numbers = of_records.flat_map(|(masked, tag)| masked.iter().chain(tag)).copied();
        let masked_logits = write_numbers(&numbers.collect::<Vec<_>>());
        self.last += 1;
        let (number, records) = (self.last, ids.len());
        let input = ReleaseInput { masks, masked, own: Vec::new() };
        let sent = Instant::now();
        self.pending.insert(number, Pending { input, records, sent, answer });
        let request = MaskedRequest { number, ids, masked: masked_logits, request_id };
        talk.reply(ReleaseReply::Request(request)).await
    }

    /// Carries out a command of the coordinator. Returns the group that is computed then.
    async fn obey(
        &mut self,
        command: ReleaseCommand,
        program: &ReleaseProgram,
        arrivals: &Arrivals,
        jobs: &std::sync::mpsc::Sender<ReleaseJob>,
    ) -> Result<Option<Computed>, Refusal> {
        match command {
            ReleaseCommand::Piece(piece) => arrivals.deliver(piece).await.map(|()| None),
            ReleaseCommand::Refused { number, reason } => {
                let pending = self.pending.remove(&number).ok_or_else(not_asked)?;
                let reason = reason
                    .unwrap_or_else(|| Refusal::internal("a request was refused without a reason"));
                let _ = pending.answer.send(Err(reason));
                Ok(None)
            }
            ReleaseCommand::Compute(requests) => {
                let Some(records) = self.gather(program, requests)? else { return Ok(None) };
                let (number, (records, input)) = (self.groups, records);
                let (done, receiver) = oneshot::channel();
                // Where the computation has ended, it says why itself.
                let _ = jobs.send(ReleaseJob { records, input, done });
                Ok(Some(Box::pin(async move {
                    (number, receiver.await.ok().and_then(Result::transpose))
                })))
            }
            ReleaseCommand::Begin(_) | ReleaseCommand::LookUp { .. } => {
                Err(Refusal::internal("the coordinator sent a command that is not due"))
            }
        }
    }

    /// Gathers the requests that are computed together. Returns the number of their records that
    /// are computed, and what this party knows of these; `None` if there are none.
    fn gather(
        &mut self,
        program: &ReleaseProgram,
        requests: Vec<RequestRows>,
    ) -> Result<Option<(usize, ReleaseInput)>, Refusal> {
        let k = program.classes();
        let (mut records, mut input, mut answers) = (0, ReleaseInput::default(), Vec::new());
        for RequestRows { number, status } in requests {
            let pending = self.pending.remove(&number).ok_or_else(not_asked)?;
            if pending.records != status.len() {
                return Err(not_asked());
            }
            let rows = RowStatus::positions_ok(&status);
            input.extend(&pending.input, &rows, k);
            records += rows.len();
            answers.push((status, pending.answer));
        }
        if records > MOST_RECORDS {
            return Err(not_asked());
        }
        if records == 0 {
            hand_out(answers, &program.release().empty(k));
            return Ok(None);
        }
        self.groups += 1;
        self.computing.insert(self.groups, answers);
        Ok(Some((records, input)))
    }

    /// Tells all that wait why the session has ended.
    fn fail(&mut self, refusal: &Refusal) {
        if let Some(ready) = self.ready.take() {
            let _ = ready.send(Err(refusal.clone()));
        }
        self.questions.close();
        let pending = self.pending.drain().map(|(_, pending)| pending.answer);
        let computing = self.computing.drain().flat_map(|(_, answers)| answers);
        for answer in pending.chain(computing.map(|(_, answer)| answer)) {
            let _ = answer.send(Err(refusal.clone()));
        }
        while let Ok(question) = self.questions.try_recv() {
            let _ = question.answer.send(Err(refusal.clone()));
        }
    }
}

fn not_asked() -> Refusal {
    Refusal::internal("the coordinator computes a request that was not asked")
}

/// Hands each request its part of what was released.
fn hand_out(answers: Vec<(Vec<RowStatus>, Answer)>, released: &ReleasedScores) {
    let mut from = 0;
    for (status, answer) in answers {
        let to = from + status.iter().filter(|status| **status == RowStatus::Ok).count();
        let part = match (from, to == released.records()) {
            (0, true) => released.clone(),
            _ => released.select(&(from..to).collect::<Vec<_>>()),
        };
        from = to;
        // A caller that has stopped waiting does not matter.
        let _ = answer.send(Ok((status, part)));
    }
}

/// Tells each request why nothing was released.
fn refuse(answers: Vec<(Vec<RowStatus>, Answer)>, refusal: &Refusal) {
    for (_, answer) in answers {
        let _ = answer.send(Err(refusal.clone()));
    }
}

/// Returns why a computation ended: the coordinator knows who went away.
async fn reason(talk: &mut Conversation, refusal: Refusal) -> Refusal {
    if !matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::DeadlineExceeded) {
        return refusal;
    }
    let told = async {
        loop {
            if let Err(told) = talk.next().await {
                return told;
            }
        }
    };
    tokio::time::timeout(REASON, told).await.unwrap_or(refusal)
}
