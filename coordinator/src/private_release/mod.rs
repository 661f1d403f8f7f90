//! Private releases: the coordinator counts, records and carries, and computes on shares with the
//! active party and one passive party. It sees no logit and no score.

mod party;
mod session;
mod tries;

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;
use vfl_core::types::PartyName;
use vfl_party::computation::release::ServingMode;
use vfl_protocol::private_release::{
    CommandSender, ReleaseCommand, ReleaseReply, ReplyItem, ReplyStream, SESSION_BYTES,
    SessionTerms,
};
use vfl_protocol::training::computation::ComputationLayout;
use vfl_protocol::{Refusal, RefusalKind, peer_failure};
use vfl_server::service::{Credentials, PeerIdentity};

use self::party::{Party, late};
use self::session::Session;
use self::tries::Tries;
use crate::client::PassiveParty;
use crate::engine::{Engine, PrivatePolicy, private_fingerprint};

/// The most open sessions: each has a thread at every party.
const MOST_SESSIONS: usize = 8;

/// The sessions of private releases of a coordinator.
pub(crate) struct PrivateReleases {
    engine: Arc<Engine>,
    credentials: Credentials,
    /// The passive party that computes; `None`: the first of a model.
    computing: Option<PartyName>,
    timeout: Duration,
    places: Semaphore,
    tries: Arc<Tries>,
}

impl PrivateReleases {
    pub(crate) fn new(
        engine: Arc<Engine>,
        credentials: Credentials,
        computing: Option<PartyName>,
        timeout: Duration,
    ) -> Self {
        let places = Semaphore::new(MOST_SESSIONS);
        Self { engine, credentials, computing, timeout, places, tries: Arc::default() }
    }

    /// Serves one session until the active party ends it.
    ///
    /// # Errors
    /// [`Refusal`]: FAILED_PRECONDITION for a model or a policy that is not computed on shares,
    /// RESOURCE_EXHAUSTED for too many sessions, and those that name a party which refused, went
    /// away or broke the protocol.
    pub(crate) async fn run(
        &self,
        caller: &PeerIdentity,
        replies: impl Stream<Item = ReplyItem> + Send + 'static,
        commands: CommandSender,
    ) -> Result<(), Refusal> {
        self.engine.check_mode(ServingMode::Private)?;
        let mut replies: ReplyStream = Box::pin(replies);
        let opened = tokio::time::timeout(self.timeout, replies.next()).await;
        let (version, audit_session) = match opened
            .map_err(|_| late(&caller.words(), self.timeout))?
        {
            Some(Ok(message)) => match ReleaseReply::try_from(message)? {
                ReleaseReply::Open { version, audit_session } => (version, audit_session),
                _ => return Err(Refusal::invalid("a session begins with the version of a model")),
            },
            Some(Err(status)) => return Err(peer_failure(&caller.words(), &status)),
            None => return Ok(()),
        };
        let model = self.engine.model_named(&version).await?;
        let PrivatePolicy { policy, vectors } =
            self.engine.private_policy(caller, &model, audit_session.as_deref()).await?;
        // Only the model's own active party comes so far.
        let _place = self.places.try_acquire().map_err(|_| {
            let message =
                format!("{MOST_SESSIONS} sessions of private releases are open; close one");
            Refusal::new(RefusalKind::ResourceExhausted, message)
        })?;
        let passive: Vec<PartyName> =
            self.engine.passive.iter().map(|party| party.peer().name.clone()).collect();
        let computing = self.computing.clone().or_else(|| passive.first().cloned());
        let computing =
            computing.ok_or_else(|| Refusal::internal("the model has no passive party"))?;
        let mut session = [0; SESSION_BYTES];
        rand::rng().fill_bytes(&mut session);
        let terms = SessionTerms {
            session,
            version,
            active_party: caller.name().clone(),
            layout: ComputationLayout { passive, computing, calibration: false },
            classes: model.classes(),
            link: model.link,
            unit: model.unit(),
            policy: policy.policy.clone(),
            vectors,
            passive_fingerprint: private_fingerprint(&model.passive_fingerprint),
        };
        let (name, who) = (caller.name().clone(), caller.words());
        let mut parties = vec![Party { name, who, commands, timeout: self.timeout }];
        let mut streams = Vec::with_capacity(self.engine.passive.len());
        for party in &self.engine.passive {
            let (party, stream) = self.invite(party, &terms).await?;
            parties.push(party);
            streams.push(stream);
        }
        parties[0].send(ReleaseCommand::Begin(Box::new(terms.clone()))).await?;
        tracing::info!(caller = %caller, policy = %terms.policy, computing = %terms.layout.computing, "a session of private releases is open");
        let session = Session {
            engine: &self.engine,
            model: &model,
            policy,
            audit: audit_session.map(Arc::from),
            terms: &terms,
            parties: &parties,
            timeout: self.timeout,
            tries: &self.tries,
        };
        session.run(&self.credentials, replies, streams).await
    }

    /// Opens the stream to a passive party, which must consent to the session's terms.
    async fn invite(
        &self,
        party: &PassiveParty,
        terms: &SessionTerms,
    ) -> Result<(Party, ReplyStream), Refusal> {
        let who = party.peer().words();
        let (commands, outgoing): (CommandSender, _) = mpsc::channel(16);
        let name = party.peer().name.clone();
        let invited = Party { name, who: who.clone(), commands, timeout: self.timeout };
        invited.send(ReleaseCommand::Begin(Box::new(terms.clone()))).await?;
        let opened = tokio::time::timeout(self.timeout, async {
            let outgoing = ReceiverStream::new(outgoing).filter_map(Result::ok);
            let mut replies = party.client().release_privately(outgoing).await?.into_inner();
            let first = replies.message().await?;
            Ok::<_, Status>((replies, first))
        });
        let (replies, first) = opened
            .await
            .map_err(|_| late(&who, self.timeout))?
            .map_err(|status| peer_failure(&who, &status))?;
        let first = first.ok_or_else(|| Refusal::unavailable(format!("{who} went away")))?;
        match ReleaseReply::try_from(first) {
            Ok(ReleaseReply::Consent) => Ok((invited, Box::pin(replies))),
            _ => Err(Refusal::internal(format!("{who} did not consent to the session"))),
        }
    }
}
