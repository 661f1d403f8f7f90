//! One session of private releases: requests are decided on, looked up by the passive parties, and
//! computed together with those that are ready at the same time.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, SelectAll};
use futures_util::{Stream, StreamExt};
use tokio::sync::oneshot;
use vfl_core::types::{RecordIds, ReleasedScores, RowStatus};
use vfl_party::computation::Member;
use vfl_party::computation::release::{
    MOST_RECORDS, MaskKeyExchange, PATIENCE, ReleaseInput, ReleaseJob, ReleaseProgram,
};
use vfl_protocol::private_release::{
    MOST_UNANSWERED, MOST_UNANSWERED_RECORDS, MaskedRequest, ReleaseCommand, ReleaseReply,
    ReplyItem, ReplyStream, RequestRows, SessionTerms, TAG_WORDS,
};
use vfl_protocol::training::computation::ComputationPiece;
use vfl_protocol::{Refusal, RefusalKind, WireError, peer_failure};
use vfl_server::monitoring::Predictions;
use vfl_server::service::{Credentials, own_task};

use super::party::{Party, late};
use super::tries::Tries;
use crate::engine::{Batch, Engine};
use crate::policy::ReadyPolicy;
use crate::registry::PublishedModel;

/// The groups that are computed or wait for the thread that computes: while one is computed, the
/// next one is gathered.
const GROUPS: usize = 2;
/// The time in which a party whose link ended says why.
const REASON: Duration = Duration::from_secs(1);
/// The pause between looks at the clock.
const TICK: Duration = Duration::from_secs(1);

/// The facts of a session.
pub(super) struct Session<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) model: &'a Arc<PublishedModel>,
    pub(super) policy: Arc<ReadyPolicy>,
    /// The name of the audit session, which is a secret; `None`: the live service.
    pub(super) audit: Option<Arc<str>>,
    pub(super) terms: &'a SessionTerms,
    /// The active party, then the passive ones.
    pub(super) parties: &'a [Party],
    pub(super) timeout: Duration,
    pub(super) tries: &'a Arc<Tries>,
}

/// A request on its way.
struct Pending {
    batch: Batch,
    /// The active party's logits less their masks, of all records of the request.
    masked: Vec<u64>,
    request_id: String,
    began: Instant,
    /// The time from which the passive parties are waited for.
    asked: Instant,
    /// The passive parties that have not answered yet, by their places.
    awaited: Vec<usize>,
    /// The records that all passive parties hold, of those that they were asked for.
    held: Vec<bool>,
}

/// The requests of a session, by their stage.
#[derive(Default)]
struct Stages {
    last: u64,
    /// The records of all requests that are not answered.
    records: usize,
    deciding: usize,
    looked_up: HashMap<u64, Pending>,
    ready: VecDeque<(u64, Pending)>,
    computing: usize,
}

/// A request that is decided on.
struct Decision {
    number: u64,
    /// The number of its records.
    records: usize,
    request_id: String,
    began: Instant,
    /// The numbers that came with it; none after a panic.
    numbers: Vec<u64>,
    batch: Result<Batch, Refusal>,
}

impl Stages {
    /// Takes out a request that the passive parties were asked about.
    fn leave(&mut self, number: u64) {
        if let Some(pending) = self.looked_up.remove(&number) {
            self.records -= pending.batch.ids.len();
        }
    }
}

/// The time at which each request came, and the statuses that answer it.
type Answers = Vec<(Instant, Vec<RowStatus>)>;

/// Requests that are computed together.
struct Group {
    job: ReleaseJob,
    answers: Answers,
    done: oneshot::Receiver<Result<Option<ReleasedScores>, Refusal>>,
}

impl Session<'_> {
    /// Serves the session until the active party ends it.
    pub(super) async fn run(
        self,
        credentials: &Credentials,
        active: ReplyStream,
        passive: Vec<ReplyStream>,
    ) -> Result<(), Refusal> {
        let program = ReleaseProgram::new(self.terms)?;
        let out = |member: &Member| {
            let of = self.parties.iter().find(|party| Some(&party.name) == member.name());
            of.map(|party| party.commands.clone())
        };
        let wrap = |piece| ReleaseCommand::Piece(piece).into();
        let places = ReleaseProgram::places(self.terms);
        let (channels, arrivals) = places.channels_by(Member::Coordinator, out, wrap)?;
        let (jobs, queue) = std::sync::mpsc::channel();
        // Where the active party waits longer for an answer, it hears from here who was silent.
        let patience = self.timeout.min(PATIENCE);
        let work =
            channels.release(credentials, program, MaskKeyExchange::Elsewhere, patience, queue);
        let mut work = std::pin::pin!(work);
        let mut replies = SelectAll::new();
        for (place, stream) in std::iter::once(active).chain(passive).enumerate() {
            let ends = futures_util::stream::once(async { None });
            replies.push(Box::pin(stream.map(Some).chain(ends).map(move |reply| (place, reply))));
        }
        let mut stages = Stages::default();
        let mut decisions = FuturesUnordered::new();
        let mut computed = FuturesUnordered::new();
        let mut clock = tokio::time::interval(TICK);
        // The time at which each party last sent something.
        let mut heard = vec![Instant::now(); self.parties.len()];
        loop {
            tokio::select! {
                ended = &mut work => {
                    let refusal = match ended {
                        Ok(()) => Refusal::internal("the private computation ended early"),
                        Err(refusal) => self.silent_longest(&heard, refusal),
                    };
                    return Err(self.reason(&mut replies, refusal).await);
                }
                Some((place, reply)) = replies.next() => match self.read(place, reply)? {
                    None => return Ok(()),
                    Some(ReleaseReply::Piece(ComputationPiece { party: None, data })) => {
                        heard[place] = Instant::now();
                        let party = Some(self.parties[place].name.clone());
                        arrivals.deliver(ComputationPiece { party, data }).await?;
                    }
                    Some(ReleaseReply::Piece(piece)) => {
                        heard[place] = Instant::now();
                        self.relay(place, piece).await?;
                    }
                    Some(ReleaseReply::Request(request)) if place == 0 => {
                        decisions.push(self.decide(&mut stages, request)?);
                    }
                    Some(ReleaseReply::Held { number, rows }) if place != 0 => {
                        self.held(&mut stages, place, number, rows).await?;
                    }
                    Some(_) => return Err(self.wrong(place, &"it sent a message that is not due")),
                },
                Some(decision) = decisions.next() => self.look_up(&mut stages, decision).await?,
                Some((answers, alive)) = computed.next() => {
                    let (answers, alive): (Answers, bool) = (answers, alive);
                    stages.computing -= 1;
                    if alive {
                        for (began, status) in answers {
                            self.meter().answered(&status, began.elapsed());
                        }
                    }
                }
                _ = clock.tick() => self.check_time(&mut stages).await?,
            }
            while stages.computing < GROUPS && !stages.ready.is_empty() {
                let Group { job, answers, done } = self.gather(&mut stages).await?;
                // Where the computation has ended, it says why itself.
                let _ = jobs.send(job);
                stages.computing += 1;
                computed.push(async move { (answers, done.await.is_ok()) });
            }
        }
    }

    fn meter(&self) -> &Predictions {
        match self.audit {
            None => &self.engine.meter.live,
            Some(_) => &self.engine.meter.audits,
        }
    }

    /// Reads a reply; `None` where the active party has ended the session.
    fn read(
        &self,
        place: usize,
        reply: Option<ReplyItem>,
    ) -> Result<Option<ReleaseReply>, Refusal> {
        let who = &self.parties[place].who;
        match reply {
            Some(Ok(message)) => {
                let read = ReleaseReply::try_from(message);
                read.map(Some).map_err(|e: WireError| self.wrong(place, &e))
            }
            None if place == 0 => Ok(None),
            None => Err(Refusal::unavailable(format!("{who} went away"))),
            // The active party's client ends its call by dropping it.
            Some(Err(_)) if place == 0 => Ok(None),
            Some(Err(status)) => Err(peer_failure(who, &status)),
        }
    }

    fn wrong(&self, place: usize, error: &dyn std::fmt::Display) -> Refusal {
        let message = format!("{}: {error}", self.parties[place].who);
        // The active party is not at fault for what others send.
        if place == 0 { Refusal::invalid(message) } else { Refusal::internal(message) }
    }

    /// Passes on a piece to another data holder.
    async fn relay(&self, from: usize, piece: ComputationPiece) -> Result<(), Refusal> {
        let ComputationPiece { party, data } = piece;
        let receiver = self.parties.iter().enumerate();
        let receiver = receiver.filter(|(place, _)| *place != from);
        let receiver = receiver.map(|(_, to)| to).find(|to| Some(&to.name) == party.as_ref());
        let receiver = receiver.ok_or_else(|| {
            self.wrong(from, &"its piece is for a party that is not in this session")
        })?;
        let party = Some(self.parties[from].name.clone());
        match receiver.send(ReleaseCommand::Piece(ComputationPiece { party, data })).await {
            // A party that no longer listens is told of by its own stream.
            Err(refusal) if refusal.kind == RefusalKind::Unavailable => Ok(()),
            sent => sent,
        }
    }

    /// Begins to decide on a request.
    fn decide(
        &self,
        stages: &mut Stages,
        request: MaskedRequest,
    ) -> Result<Pin<Box<dyn Future<Output = Decision> + Send>>, Refusal> {
        let unanswered = stages.deciding + stages.looked_up.len() + stages.ready.len();
        let too_many = unanswered >= MOST_UNANSWERED || stages.records >= MOST_UNANSWERED_RECORDS;
        if request.number != stages.last + 1 || too_many {
            return Err(self.wrong(0, &"its requests are too many, or not numbered one by one"));
        }
        stages.last = request.number;
        stages.deciding += 1;
        stages.records += request.ids.len();
        let numbers = request.numbers(self.terms.classes).map_err(|e| self.wrong(0, &e))?;
        let (engine, model, policy, tries) =
            (self.engine.clone(), self.model.clone(), self.policy.clone(), self.tries.clone());
        let (party, audit) = (self.terms.active_party.clone(), self.audit.clone());
        let (number, records, began) = (request.number, request.ids.len(), Instant::now());
        let request_id = request.request_id.clone();
        Ok(Box::pin(async move {
            let decided = own_task(async move {
                let n = request.ids.len();
                if n > MOST_RECORDS {
                    let message =
                        format!("a private release is of at most {MOST_RECORDS} records, got {n}");
                    return (numbers, Err(Refusal::invalid(message)));
                }
                let decided = match (&audit, tries.check(&request.request_id)) {
                    (_, Err(refusal)) => Err(refusal),
                    (Some(name), _) => {
                        let session = (&**name, &party);
                        engine.decide_in_session(session, &model, &request, &numbers).await
                    }
                    (None, _) => engine.decide(&party, &model, &policy, &request, &numbers).await,
                };
                (numbers, decided)
            });
            let (numbers, batch) =
                decided.await.unwrap_or_else(|refusal| (Vec::new(), Err(refusal)));
            Decision { number, records, request_id, began, numbers, batch }
        }))
    }

    /// Asks the passive parties for the records that are answered, once they are decided on.
    async fn look_up(&self, stages: &mut Stages, decision: Decision) -> Result<(), Refusal> {
        let Decision { number, records, request_id, began, numbers, batch } = decision;
        stages.deciding -= 1;
        let batch = match batch {
            Ok(batch) => batch,
            Err(refusal) => {
                stages.records -= records;
                return self.refuse(number, refusal, &[]).await;
            }
        };
        if batch.rows.is_empty() {
            stages.records -= records;
            return self.nothing(number, batch, began).await;
        }
        let ids: RecordIds = batch.ids.select(&batch.rows);
        let each = self.terms.classes + TAG_WORDS;
        let (mut masked, mut tags) = (Vec::with_capacity(numbers.len()), Vec::new());
        for of_record in numbers.chunks_exact(each) {
            masked.extend_from_slice(&of_record[..self.terms.classes]);
        }
        for row in &batch.rows {
            tags.extend_from_slice(&numbers[each * row + self.terms.classes..each * (row + 1)]);
        }
        for party in &self.parties[1..] {
            let computes = party.name == self.terms.layout.computing;
            let tags = if computes { tags.clone() } else { Vec::new() };
            party.send(ReleaseCommand::LookUp { number, ids: ids.clone(), tags }).await?;
        }
        let (awaited, held) = ((1..self.parties.len()).collect(), vec![true; ids.len()]);
        let asked = Instant::now();
        let pending = Pending { batch, masked, request_id, began, asked, awaited, held };
        stages.looked_up.insert(number, pending);
        Ok(())
    }

    /// Takes note of the records that a passive party holds.
    async fn held(
        &self,
        stages: &mut Stages,
        place: usize,
        number: u64,
        rows: Result<Vec<RowStatus>, Refusal>,
    ) -> Result<(), Refusal> {
        let not_due = || self.wrong(place, &"it answered a request that it was not asked");
        let Some(pending) = stages.looked_up.get_mut(&number) else {
            // Another party has refused this request.
            return if number <= stages.last { Ok(()) } else { Err(not_due()) };
        };
        let awaited = pending.awaited.iter().position(|awaited| *awaited == place);
        pending.awaited.swap_remove(awaited.ok_or_else(not_due)?);
        let status = match rows {
            Ok(status) => status,
            Err(refusal) => {
                stages.leave(number);
                let who = &self.parties[place].who;
                let refusal = Refusal::new(refusal.kind, format!("{who} refused: {refusal}"));
                return self.refuse(number, refusal, &self.parties[1..]).await;
            }
        };
        if status.len() != pending.held.len() {
            return Err(self.wrong(place, &"it answered for another number of records"));
        }
        for (held, status) in pending.held.iter_mut().zip(&status) {
            *held &= *status == RowStatus::Ok;
        }
        if !pending.awaited.is_empty() {
            return Ok(());
        }
        let Some(mut pending) = stages.looked_up.remove(&number) else { return Ok(()) };
        let held = std::mem::take(&mut pending.held);
        pending.batch.keep_held(&held);
        if pending.batch.rows.is_empty() {
            stages.records -= pending.batch.ids.len();
            for party in &self.parties[1..] {
                party.send(ReleaseCommand::Refused { number, reason: None }).await?;
            }
            return self.nothing(number, pending.batch, pending.began).await;
        }
        pending.held = held;
        stages.ready.push_back((number, pending));
        Ok(())
    }

    /// Tells the active party why a request is not computed, and `others` that it is not.
    async fn refuse(&self, number: u64, refusal: Refusal, others: &[Party]) -> Result<(), Refusal> {
        for party in others {
            party.send(ReleaseCommand::Refused { number, reason: None }).await?;
        }
        self.parties[0].send(ReleaseCommand::Refused { number, reason: Some(refusal) }).await
    }

    /// Answers a request none of whose records is computed.
    async fn nothing(&self, number: u64, batch: Batch, began: Instant) -> Result<(), Refusal> {
        self.meter().answered(&batch.status, began.elapsed());
        let rows = RequestRows { number, status: batch.status };
        self.parties[0].send(ReleaseCommand::Compute(vec![rows])).await
    }

    /// Gathers requests that are ready, tells all parties to compute them, and returns this party's
    /// own part.
    async fn gather(&self, stages: &mut Stages) -> Result<Group, Refusal> {
        let (mut records, mut input, mut answers) = (0, ReleaseInput::default(), Vec::new());
        let (mut to_active, mut to_passive) = (Vec::new(), Vec::new());
        while let Some((number, pending)) = stages.ready.pop_front() {
            let rows = pending.batch.rows.len();
            if records > 0 && records + rows > MOST_RECORDS {
                stages.ready.push_front((number, pending));
                break;
            }
            records += rows;
            stages.records -= pending.batch.ids.len();
            if let Some(audit) = &self.audit {
                // Before anything is released, as the ledger is for the live service.
                let ids = pending.batch.ids.select(&pending.batch.rows);
                let party = &self.terms.active_party;
                self.engine.count_in_session(audit, party, self.model, &ids).await?;
            }
            let Pending { batch, masked, request_id, began, held, .. } = pending;
            self.tries.computed(request_id);
            let masked = ReleaseInput { masked, ..ReleaseInput::default() };
            input.extend(&masked, &batch.rows, self.terms.classes);
            let of_held = |held: bool| if held { RowStatus::Ok } else { RowStatus::NotFound };
            let held = held.into_iter().map(of_held).collect();
            to_passive.push(RequestRows { number, status: held });
            to_active.push(RequestRows { number, status: batch.status.clone() });
            answers.push((began, batch.status));
        }
        for party in &self.parties[1..] {
            party.send(ReleaseCommand::Compute(to_passive.clone())).await?;
        }
        self.parties[0].send(ReleaseCommand::Compute(to_active)).await?;
        let (done, receiver) = oneshot::channel();
        Ok(Group { job: ReleaseJob { records, input, done }, answers, done: receiver })
    }

    /// Refuses the requests that a passive party has not answered in time.
    async fn check_time(&self, stages: &mut Stages) -> Result<(), Refusal> {
        let waited = |pending: &Pending| pending.asked.elapsed() > self.timeout;
        let silent = stages.looked_up.iter().filter(|(_, pending)| waited(pending));
        let silent: Vec<(u64, usize)> = silent
            .filter_map(|(number, pending)| Some((*number, *pending.awaited.first()?)))
            .collect();
        for (number, place) in silent {
            stages.leave(number);
            let refusal = late(&self.parties[place].who, self.timeout);
            self.refuse(number, refusal, &self.parties[1..]).await?;
        }
        Ok(())
    }

    /// Returns a refusal that names the passive party which computes, where the active party sends
    /// nothing because it waits for that one: it was heard of later.
    fn silent_longest(&self, heard: &[Instant], refusal: Refusal) -> Refusal {
        let active = &self.parties[0].who;
        let computing = &self.terms.layout.computing;
        let place = self.parties.iter().position(|party| party.name == *computing);
        let Some(place) = place.filter(|place| heard[*place] < heard[0]) else { return refusal };
        match refusal.kind {
            RefusalKind::DeadlineExceeded => {
                let message = refusal.message.replace(active.as_str(), &self.parties[place].who);
                Refusal::new(refusal.kind, message)
            }
            _ => refusal,
        }
    }

    /// Returns why the computation ended: a party that is at fault says so itself, or is gone from
    /// its stream.
    async fn reason<S>(&self, replies: &mut S, refusal: Refusal) -> Refusal
    where
        S: Stream<Item = (usize, Option<ReplyItem>)> + Unpin,
    {
        let told = async {
            while let Some((place, reply)) = replies.next().await {
                if let Err(why) = self.read(place, reply) {
                    return why;
                }
            }
            std::future::pending().await
        };
        tokio::time::timeout(REASON, told).await.unwrap_or(refusal)
    }
}
