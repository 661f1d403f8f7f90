//! The active party's part in sessions of private releases: it shares its logits under masks, and
//! alone learns what is released.

mod question;
mod session;

use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use vfl_core::types::{LogitShare, RecordIds, ReleasedScores, RowStatus};
use vfl_protocol::{PredictionRequest, PredictionResponse, Refusal, RefusalKind};
use vfl_server::service::{Credentials, MOST_CALLS, pause};

use self::question::{Question, Subject, WAITING};
use crate::client::Coordinator;

/// A session that this party has open.
#[derive(Clone)]
struct OpenSession {
    subject: Subject,
    questions: mpsc::Sender<Question>,
}

/// The private releases of a coordinator: opens a session on first use, and another one when that
/// has ended.
pub(crate) struct PrivateReleases {
    credentials: Credentials,
    timeout: Duration,
    /// The session of the live service, and that of the last audit session.
    sessions: [Mutex<Option<OpenSession>>; 2],
}

impl std::fmt::Debug for PrivateReleases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrivateReleases").finish_non_exhaustive()
    }
}

impl PrivateReleases {
    /// Creates the access; nothing is opened yet.
    pub(crate) fn new(credentials: &Credentials, timeout: Duration) -> Self {
        Self { credentials: credentials.clone(), timeout, sessions: Default::default() }
    }

    /// Answers requests in a session, all of them on their way at the same time. Passes the answers
    /// to `take` in the order of the requests. `k` is the number of classes.
    ///
    /// # Errors
    /// The refusal of a request; UNAVAILABLE if the session breaks. Requests with an id are then
    /// sent again in another session, which costs nothing.
    pub(crate) async fn predict(
        &self,
        coordinator: &Coordinator,
        requests: Vec<PredictionRequest>,
        k: usize,
        mut take: impl FnMut(PredictionResponse) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        use futures_util::StreamExt as _;
        let answers = requests.into_iter().map(|request| self.answer(coordinator, request, k));
        let mut answers = futures_util::stream::iter(answers).buffered(WAITING / 2);
        while let Some(answer) = answers.next().await {
            take(answer?)?;
        }
        Ok(())
    }

    async fn answer(
        &self,
        coordinator: &Coordinator,
        request: PredictionRequest,
        k: usize,
    ) -> Result<PredictionResponse, Refusal> {
        let PredictionRequest { version, ids, share, request_id, audit_session } = request;
        let subject = (version, audit_session);
        let mut calls = 1;
        loop {
            let answered = self.ask(coordinator, &subject, (&ids, &share, &request_id), k).await;
            match answered {
                Ok((status, released)) => {
                    return Ok(PredictionResponse { version: subject.0, status, released });
                }
                Err(refusal)
                    if refusal.kind == RefusalKind::Unavailable
                        && !request_id.is_empty()
                        && calls < MOST_CALLS =>
                {
                    calls += 1;
                    pause().await;
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    async fn ask(
        &self,
        coordinator: &Coordinator,
        subject: &Subject,
        (ids, share, request_id): (&RecordIds, &LogitShare, &str),
        k: usize,
    ) -> Result<(Vec<RowStatus>, ReleasedScores), Refusal> {
        let (answer, answered) = oneshot::channel();
        let question = Question {
            ids: ids.clone(),
            logits: share.clone(),
            request_id: request_id.to_owned(),
            answer,
        };
        let mut used = None;
        let asked = async {
            let lost = || Refusal::unavailable("the session of private releases has ended");
            let mut question = question;
            // A session that ended while nobody asked has not taken the question: a new one is
            // opened once.
            for _ in 0..2 {
                let session = used.insert(self.session(coordinator, subject, k).await?);
                match session.questions.send(question).await {
                    Ok(()) => return answered.await.map_err(|_| lost())?,
                    Err(mpsc::error::SendError(back)) => question = back,
                }
            }
            Err(lost())
        };
        let asked = tokio::time::timeout(self.timeout, asked).await;
        match asked {
            Ok(answer) => answer,
            Err(_) => {
                if let Some(session) = used {
                    self.forget(&session);
                }
                let (who, ms) = (coordinator.peer(), self.timeout.as_millis());
                let message = format!("{who} did not answer in {ms} ms");
                Err(Refusal::new(RefusalKind::DeadlineExceeded, message))
            }
        }
    }

    fn slot(&self, subject: &Subject) -> &Mutex<Option<OpenSession>> {
        &self.sessions[usize::from(subject.1.is_some())]
    }

    /// Returns the open session for a subject, or opens one.
    async fn session(
        &self,
        coordinator: &Coordinator,
        subject: &Subject,
        k: usize,
    ) -> Result<OpenSession, Refusal> {
        let mut slot = self.slot(subject).lock().await;
        let open =
            slot.as_ref().filter(|open| open.subject == *subject && !open.questions.is_closed());
        if let Some(open) = open {
            return Ok(open.clone());
        }
        let opened = session::open(coordinator, &self.credentials, subject, k, self.timeout);
        let questions = opened.await?;
        let open = OpenSession { subject: subject.clone(), questions };
        *slot = Some(open.clone());
        Ok(open)
    }

    /// Leaves a session that does not answer: the next request opens another one.
    fn forget(&self, session: &OpenSession) {
        // Whoever holds the lock opens another one.
        let Ok(mut slot) = self.slot(&session.subject).try_lock() else { return };
        if slot.as_ref().is_some_and(|open| open.questions.same_channel(&session.questions)) {
            *slot = None;
        }
    }
}
