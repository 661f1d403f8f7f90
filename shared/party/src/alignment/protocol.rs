//! The protocol of an alignment between two parties, over a session of their own. docs/alignment.md
//! shows that it reveals no more than it should.
//!
//! Each party hashes its ids into the group and multiplies them by a secret of this run. It sends
//! the products sorted. The other party multiplies them by its own secret and sends them back in
//! that order. An id is common if both parties obtain the same point for it.

use rayon::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use vfl_core::types::RecordIds;
use vfl_protocol::alignment::{CommonIds, IdCounts, Progress, Rules, Side};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::blocking::heavy;

use super::group::{Encoded, GroupHash, PointError, Secret, check};
use super::messages::{Conversation, MESSAGE_POINTS, Message, SIGN_OF_LIFE};

/// Storage of a run's state, separate from the arithmetic. Methods may wait for the disk.
pub(super) trait RunRecorder: Sync {
    /// Records durably that a run counts. Until then, nothing has left this party that depends on
    /// its ids and on a secret that the other party can remove.
    fn begin(&self, sizes: IdCounts) -> Result<(), Refusal>;

    /// Stores the result of a run that both parties have completed.
    fn keep(&self, common: &CommonIds) -> Result<(), Refusal>;
}

/// The part of one party in one run.
pub(super) struct Run<'a, S> {
    pub(super) side: Side,
    pub(super) ids: &'a RecordIds,
    /// The secret of the parties' session, to which the run is bound.
    pub(super) session: [u8; 32],
    pub(super) rules: &'a Rules,
    pub(super) conversation: Conversation<S>,
    pub(super) keeper: &'a dyn RunRecorder,
    pub(super) tell: &'a mut (dyn FnMut(Progress) + Send),
}

/// The blinded ids of this party in the order in which they are sent.
struct BlindedIds {
    secret: Secret,
    /// The blinded ids, ascending.
    points: Vec<Encoded>,
    /// `order[j]` is the position of the id that `points[j]` came from.
    order: Vec<u32>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Run<'_, S> {
    /// Runs the protocol to its end. The other party is told of every error except its own
    /// disconnection.
    ///
    /// # Errors
    /// [`Refusal`] if the run fails; no result is stored then. A run that was begun counts all the
    /// same.
    pub(super) async fn complete(mut self) -> Result<CommonIds, Refusal> {
        let ended = self.steps().await;
        match &ended {
            Ok(_) => self.conversation.close().await,
            // A refusal of the other party goes back to it as well; it no longer listens.
            Err(refusal) if refusal.kind != RefusalKind::Unavailable => {
                self.conversation.refuse(refusal).await
            }
            Err(_) => {}
        }
        ended
    }

    async fn steps(&mut self) -> Result<CommonIds, Refusal> {
        let theirs = self.greet().await?;
        let blinded = self.blind().await?;
        let sizes = IdCounts { own: self.ids.len() as u64, theirs };
        match self.side {
            Side::Active => {
                self.send_points(&blinded.points, Message::Points).await?;
                let evaluated = self.receive_points(&blinded.secret, theirs).await?;
                self.begin(sizes)?;
                self.send_points(&evaluated, Message::Answers).await?;
                let answers = self.receive_answers(blinded.points.len()).await?;
                let common = self.compare(&blinded, evaluated, &answers, sizes)?;
                self.conversation.send(&Message::Done(common.ids.len() as u64)).await?;
                self.agree(&common).await?;
                self.keep(&common)?;
                Ok(common)
            }
            Side::Passive => {
                let evaluated = self.receive_points(&blinded.secret, theirs).await?;
                self.send_points(&blinded.points, Message::Points).await?;
                let answers = self.receive_answers(blinded.points.len()).await?;
                // From here on even a refusal reveals something of the two sets.
                self.begin(sizes)?;
                let common = self.compare(&blinded, evaluated.clone(), &answers, sizes)?;
                if (common.ids.len() as u64) < self.rules.least_common {
                    let message = format!(
                        "the parties have fewer than {} records in common (`least_common` in [alignment] of the passive party)",
                        self.rules.least_common
                    );
                    return Err(Refusal::precondition(message));
                }
                self.send_points(&evaluated, Message::Answers).await?;
                self.agree(&common).await?;
                // The result is stored before the last message: the party that receives it takes
                // both results as stored.
                self.keep(&common)?;
                self.conversation.send(&Message::Done(common.ids.len() as u64)).await?;
                Ok(common)
            }
        }
    }

    /// Exchanges the numbers of ids. Returns the other party's.
    async fn greet(&mut self) -> Result<u64, Refusal> {
        let own = self.ids.len() as u64;
        let most = self.rules.max_records;
        if own > most {
            let message = format!(
                "this party has {own} ids to align, at most {most} are allowed (`max_records` in [alignment])"
            );
            return Err(Refusal::precondition(message));
        }
        self.conversation.send(&Message::Hello(own)).await?;
        loop {
            match self.conversation.receive().await? {
                // The other party is listing its ids.
                Message::Working => {}
                Message::Hello(theirs) if theirs <= most => return Ok(theirs),
                Message::Hello(theirs) => {
                    let message = format!(
                        "the other party has {theirs} ids, at most {most} are taken (`max_records` in [alignment])"
                    );
                    return Err(Refusal::new(RefusalKind::ResourceExhausted, message));
                }
                other => return Err(self.unexpected("a greeting", &other)),
            }
        }
    }

    /// Blinds this party's ids, and waits until the other one has done so. Otherwise the faster
    /// party would wait for the other to take its points.
    async fn blind(&mut self) -> Result<BlindedIds, Refusal> {
        let (secret, hash) = (Secret::draw()?, GroupHash::of_session(&self.session));
        let n = self.ids.len();
        let mut points = Vec::with_capacity(n);
        let mut said = Instant::now();
        while points.len() < n {
            let (from, ids) = (points.len(), self.ids);
            points
                .extend(heavy(u64::MAX, || secret.blind(&hash, ids, from, from + MESSAGE_POINTS)));
            (self.tell)(Progress {
                stage: "blinding ids",
                done: points.len() as u64,
                total: n as u64,
            });
            if said.elapsed() >= SIGN_OF_LIFE {
                self.conversation.send(&Message::Working).await?;
                said = Instant::now();
            }
            // A cancelled run ends here, without blinding the rest.
            tokio::task::yield_now().await;
        }
        let (points, order) = heavy(u64::MAX, || sorted(&points));
        self.conversation.send(&Message::Ready).await?;
        loop {
            match self.conversation.receive().await? {
                Message::Working => {}
                Message::Ready => return Ok(BlindedIds { secret, points, order }),
                other => return Err(self.unexpected("ready", &other)),
            }
        }
    }

    async fn send_points(
        &mut self,
        points: &[Encoded],
        message: fn(Vec<Encoded>) -> Message,
    ) -> Result<(), Refusal> {
        for chunk in points.chunks(MESSAGE_POINTS) {
            self.conversation.send(&message(chunk.to_vec())).await?;
        }
        Ok(())
    }

    /// Receives the other party's points and multiplies each by this party's secret. The products
    /// are not sent yet.
    async fn receive_points(
        &mut self,
        secret: &Secret,
        announced: u64,
    ) -> Result<Vec<Encoded>, Refusal> {
        let mut evaluated: Vec<Encoded> = Vec::new();
        let mut last: Option<Encoded> = None;
        while (evaluated.len() as u64) < announced {
            let points = match self.conversation.receive().await? {
                Message::Points(points) => points,
                other => return Err(self.too_few("points", evaluated.len(), announced, &other)),
            };
            let before = evaluated.len();
            if (before + points.len()) as u64 > announced {
                return Err(self
                    .conversation
                    .wrong(format!("it announced {announced} points and sent more")));
            }
            // Strictly ascending order: no point appears twice, and the order carries no
            // information.
            let mut previous = last;
            for (at, point) in points.iter().enumerate() {
                if previous.is_some_and(|previous| previous >= *point) {
                    let message = format!(
                        "point {} is not above the one before it: points come sorted, each once",
                        before + at
                    );
                    return Err(self.conversation.wrong(message));
                }
                previous = Some(*point);
            }
            last = previous;
            let products = heavy(u64::MAX, || secret.evaluate(&points))
                .map_err(|e| self.no_point("point", before, e))?;
            evaluated.extend(products);
            let (done, total) = (evaluated.len() as u64, announced);
            (self.tell)(Progress { stage: "multiplying the other party's points", done, total });
        }
        Ok(evaluated)
    }

    /// Receives this party's points as multiplied by the other one.
    async fn receive_answers(&mut self, asked: usize) -> Result<Vec<Encoded>, Refusal> {
        let mut answers: Vec<Encoded> = Vec::new();
        while answers.len() < asked {
            let points = match self.conversation.receive().await? {
                Message::Answers(points) => points,
                other => return Err(self.too_few("answers", answers.len(), asked as u64, &other)),
            };
            let before = answers.len();
            if before + points.len() > asked {
                return Err(self
                    .conversation
                    .wrong(format!("it was asked {asked} points and sent more answers")));
            }
            heavy(u64::MAX, || check(&points)).map_err(|e| self.no_point("answer", before, e))?;
            answers.extend(points);
            (self.tell)(Progress {
                stage: "taking answers",
                done: answers.len() as u64,
                total: asked as u64,
            });
        }
        Ok(answers)
    }

    /// Returns the ids whose answer is among the other party's points multiplied by this party's
    /// secret.
    fn compare(
        &self,
        blinded: &BlindedIds,
        mut evaluated: Vec<Encoded>,
        answers: &[Encoded],
        sizes: IdCounts,
    ) -> Result<CommonIds, Refusal> {
        let ids = heavy(u64::MAX, || {
            evaluated.par_sort_unstable();
            let (answers, places) = sorted(answers);
            if answers.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err("it gave two different points the same answer");
            }
            let mut positions: Vec<usize> = Vec::new();
            let mut theirs = evaluated.iter().peekable();
            for (answer, place) in answers.iter().zip(&places) {
                while theirs.next_if(|point| *point < answer).is_some() {}
                if theirs.next_if(|point| *point == answer).is_some() {
                    positions.push(blinded.order[*place as usize] as usize);
                }
            }
            // Sorted by id: an order that both parties can compute, and that does not reveal the
            // order in which this one stores its records.
            positions.sort_unstable_by(|a, b| self.ids.get(*a).cmp(&self.ids.get(*b)));
            Ok(self.ids.select(&positions))
        })
        .map_err(|what| self.conversation.wrong(what))?;
        Ok(CommonIds { ids, sizes })
    }

    /// Waits for the other party's last message, which must have the same number of common ids.
    async fn agree(&mut self, common: &CommonIds) -> Result<(), Refusal> {
        match self.conversation.receive().await? {
            Message::Done(theirs) if theirs == common.ids.len() as u64 => Ok(()),
            Message::Done(_) => Err(self
                .conversation
                .wrong("the two parties do not find the same number of records in common")),
            other => Err(self.unexpected("done", &other)),
        }
    }

    fn begin(&self, sizes: IdCounts) -> Result<(), Refusal> {
        heavy(u64::MAX, || self.keeper.begin(sizes))
    }

    fn keep(&self, common: &CommonIds) -> Result<(), Refusal> {
        heavy(u64::MAX, || self.keeper.keep(common))
    }

    fn unexpected(&self, wanted: &str, came: &Message) -> Refusal {
        self.conversation.wrong(format!("expected {wanted}, {} came", came.words()))
    }

    fn too_few(&self, what: &str, came: usize, announced: u64, then: &Message) -> Refusal {
        self.conversation.wrong(format!("{came} of {announced} {what} came, then {}", then.words()))
    }

    fn no_point(&self, what: &str, before: usize, (at, error): (usize, PointError)) -> Refusal {
        self.conversation.wrong(format!("{what} {} {error}", before + at))
    }
}

/// Sorts the points. Returns them with their original positions.
fn sorted(points: &[Encoded]) -> (Vec<Encoded>, Vec<u32>) {
    let mut order: Vec<u32> = (0..points.len() as u32).collect();
    order.par_sort_unstable_by_key(|at| points[*at as usize]);
    (order.iter().map(|at| points[*at as usize]).collect(), order)
}
