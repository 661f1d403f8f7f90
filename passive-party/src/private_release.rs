//! This party's part in sessions of private releases: it shares the logits of its records, and no
//! other party sees one.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use tokio::sync::oneshot;
use tokio::time::timeout;
use vfl_core::types::{RecordIds, RowStatus};
use vfl_mpc::{MaskKey, TAG_WORDS};
use vfl_party::computation::Member;
use vfl_party::computation::release::{
    MOST_RECORDS, MaskKeyExchange, PATIENCE, ReleaseInput, ReleaseJob, ReleaseProgram, ServingMode,
};
use vfl_protocol::private_release::{
    CommandItem, MOST_UNANSWERED, ReleaseCommand, ReleaseReply, ReplySender, RequestRows,
    SessionTerms,
};
use vfl_protocol::{Refusal, RefusalKind, ShareRequest, peer_failure};
use vfl_server::monitoring::Predictions;
use vfl_server::service::{Credentials, own_task};
use vfl_state::secret_file::{self, SecretFileError};
use vfl_state::state_dir::StateDir;

use crate::config::ServingPolicy;
use crate::logits::LogitServer;

/// Advice for a file that holds no secret.
const FIX: &str = "restore it from a backup: with another one, records that were asked for before are refused as changed";

/// The access to sessions of private releases.
pub(crate) struct PrivateReleases {
    credentials: Credentials,
    logits: Arc<LogitServer>,
    predictions: Predictions,
    state_dir: StateDir,
    serving: ServingPolicy,
}

/// The records of a request whose logits are ready.
struct Prepared {
    /// The number of the request's ids.
    ids: usize,
    /// The positions of the records that are held here, in order.
    held: Vec<usize>,
    /// This party's knowledge of these.
    input: ReleaseInput,
}

/// The state of one session.
struct SessionState {
    releases: Arc<PrivateReleases>,
    terms: Arc<SessionTerms>,
    program: ReleaseProgram,
    /// The key of masks, at the party that computes.
    key: Option<MaskKey>,
    /// The requests whose records are looked up.
    looking: HashSet<u64>,
    prepared: HashMap<u64, Prepared>,
    jobs: std::sync::mpsc::Sender<ReleaseJob>,
}

impl PrivateReleases {
    pub(crate) fn new(
        credentials: Credentials,
        logits: Arc<LogitServer>,
        predictions: Predictions,
        state_dir: StateDir,
        serving: ServingPolicy,
    ) -> Self {
        Self { credentials, logits, predictions, state_dir, serving }
    }

    /// Checks that logits may leave this party for the coordinator.
    ///
    /// # Errors
    /// PERMISSION_DENIED if the operator allows private releases alone.
    pub(crate) fn check_plain(&self) -> Result<(), Refusal> {
        match self.serving.mode {
            ServingMode::Plain => Ok(()),
            ServingMode::Private => Err(Refusal::new(
                RefusalKind::PermissionDenied,
                "this passive party shows its logits to nobody (`mode = \"private\"` in its [serving]): the coordinator needs \
                 `mode = \"private\"` in its own [serving]",
            )),
        }
    }

    /// Takes part in a session until the coordinator ends it.
    ///
    /// # Errors
    /// [`Refusal`]: PERMISSION_DENIED for a policy or a layout without this operator's consent,
    /// FAILED_PRECONDITION for a model that is not stored here, and those of the computation.
    pub(crate) async fn run(
        self: Arc<Self>,
        coordinator: &str,
        commands: impl Stream<Item = CommandItem> + Send,
        replies: ReplySender,
    ) -> Result<(), Refusal> {
        let mut commands = std::pin::pin!(commands);
        let terms = match next(coordinator, &mut commands).await? {
            Some(ReleaseCommand::Begin(terms)) => *terms,
            _ => return Err(Refusal::invalid("a session begins with its terms")),
        };
        self.check(&terms)?;
        let own = Member::Passive(self.credentials.identity().name().clone());
        let program = ReleaseProgram::new(&terms)?;
        let computes = Some(&terms.layout.computing) == own.name();
        let key = match computes {
            true => Some(self.mask_key(&terms).await?),
            false => None,
        };
        let exchange = match &key {
            Some(key) => MaskKeyExchange::Own(key.clone()),
            None => MaskKeyExchange::Elsewhere,
        };
        let reply = |reply: ReleaseReply| {
            let replies = replies.clone();
            async move {
                let sent = timeout(PATIENCE, replies.send(Ok(reply.into()))).await;
                let gone = || Refusal::unavailable(format!("{coordinator} went away"));
                sent.map_err(|_| gone())?.map_err(|_| gone())
            }
        };
        reply(ReleaseReply::Consent).await?;
        let wrap = |piece| ReleaseReply::Piece(piece).into();
        let (channels, arrivals) = ReleaseProgram::places(&terms).channels(own, &replies, wrap)?;
        let (jobs, queue) = std::sync::mpsc::channel();
        let work = channels.release(&self.credentials, program.clone(), exchange, PATIENCE, queue);
        let mut work = std::pin::pin!(work);
        let mut state = SessionState {
            releases: self.clone(),
            terms: Arc::new(terms),
            program,
            key,
            looking: HashSet::new(),
            prepared: HashMap::new(),
            jobs,
        };
        let mut lookups = FuturesUnordered::new();
        loop {
            tokio::select! {
                ended = &mut work => {
                    return match ended {
                        Ok(()) => Err(Refusal::internal("the private computation ended early")),
                        Err(refusal) => Err(refusal),
                    };
                }
                Some((number, prepared)) = lookups.next() => {
                    // A request that was refused meanwhile is not due any more.
                    if state.looking.remove(&number) {
                        let rows = state.keep(number, prepared);
                        reply(ReleaseReply::Held { number, rows }).await?;
                    }
                }
                command = next(coordinator, &mut commands) => match command? {
                    None => return Ok(()),
                    Some(ReleaseCommand::LookUp { number, ids, tags }) => {
                        if lookups.len() + state.prepared.len() >= MOST_UNANSWERED {
                            return Err(Refusal::invalid("the session has too many requests"));
                        }
                        state.looking.insert(number);
                        lookups.push(state.look_up(number, ids, tags));
                    }
                    Some(ReleaseCommand::Compute(requests)) => state.compute(&requests)?,
                    Some(ReleaseCommand::Refused { number, .. }) => {
                        state.looking.remove(&number);
                        state.prepared.remove(&number);
                    }
                    Some(ReleaseCommand::Piece(piece)) => arrivals.deliver(piece).await?,
                    Some(ReleaseCommand::Begin(_)) => {
                        return Err(Refusal::invalid("a session begins once"));
                    }
                },
            }
        }
    }

    /// Checks that the operator consents to a session, and that the model is stored here.
    fn check(&self, terms: &SessionTerms) -> Result<(), Refusal> {
        let own = self.credentials.identity().name();
        let SessionTerms { layout, policy, version, classes, link, .. } = terms;
        let denied = |message: String| Err(Refusal::new(RefusalKind::PermissionDenied, message));
        if !layout.passive.contains(own) {
            return denied(format!("passive party `{own}` is not one of this session"));
        }
        let computing = &layout.computing;
        if computing != own && self.serving.computing_party.as_ref() != Some(computing) {
            return denied(format!(
                "passive party `{own}` does not let `{computing}` compute on shares of its logits (`computing_party` in its [serving])"
            ));
        }
        if !self.serving.allows(policy) {
            return denied(format!(
                "passive party `{own}` takes no part in releases under `{policy}` (`policies` in its [serving])"
            ));
        }
        let share = self.logits.share(version)?;
        let spec = share.model().spec();
        if spec.width() as usize != *classes || spec.link()? != *link {
            let message = format!(
                "this party's outputs are {} numbers of link {}, the model has {classes} of link {link}",
                spec.width(),
                spec.link()?
            );
            return Err(Refusal::precondition(message));
        }
        Ok(())
    }

    /// Returns the key of the masks of an active party's logits, the same in every session under
    /// the same passive parameters.
    async fn mask_key(&self, terms: &SessionTerms) -> Result<MaskKey, Refusal> {
        let file = self.state_dir.file("masks.secret", FIX);
        let secret = tokio::task::spawn_blocking(move || secret_file::read_or_make(&file)).await;
        let secret = secret.map_err(|_| Refusal::internal("reading the secret of masks failed"))?;
        let secret = secret.map_err(|error| {
            let away = matches!(&error, SecretFileError::File(error) if error.away());
            tracing::error!(%error, "the secret of masks cannot be used");
            Refusal::own_state(
                away,
                "the secret of masks cannot be read; the passive party's log says why",
            )
        })?;
        let parts = [terms.active_party.as_str().as_bytes(), terms.passive_fingerprint.as_bytes()];
        Ok(MaskKey::derive(&secret, &parts))
    }
}

type Lookup = Pin<Box<dyn Future<Output = (u64, Result<Prepared, Refusal>)> + Send>>;

impl SessionState {
    /// Computes this party's logits of records, on a task of its own.
    fn look_up(&self, number: u64, ids: RecordIds, tags: Vec<u64>) -> Lookup {
        let (releases, terms) = (self.releases.clone(), self.terms.clone());
        let (program, key) = (self.program.clone(), self.key.clone());
        let prepared = own_task(async move {
            if ids.len() > MOST_RECORDS {
                let message = format!("a private release is of at most {MOST_RECORDS} records");
                return Err(Refusal::invalid(message));
            }
            let began = Instant::now();
            let request = ShareRequest { version: terms.version.clone(), ids };
            let answer = releases.logits.compute(&request).await?;
            let held = RowStatus::positions_ok(&answer.status);
            let own = program.encode(answer.share.matrix().as_slice()).map_err(|_| {
                // The value is this party's own, and is told to nobody.
                Refusal::precondition("a logit is too large for a private release")
            })?;
            let masks = match key {
                Some(_) if tags.len() != TAG_WORDS * request.ids.len() => {
                    return Err(Refusal::invalid("`tags` has not two words for each record"));
                }
                Some(key) => {
                    let of_held = |at: &usize| &tags[TAG_WORDS * at..TAG_WORDS * (at + 1)];
                    let tags: Vec<u64> = held.iter().flat_map(of_held).copied().collect();
                    program.masks(&key, &request.ids.select(&held), &tags)
                }
                None => Vec::new(),
            };
            releases.predictions.answered(&answer.status, began.elapsed());
            let input = ReleaseInput { own, masks, masked: Vec::new() };
            Ok(Prepared { ids: request.ids.len(), held, input })
        });
        Box::pin(async move { (number, prepared.await.and_then(|prepared| prepared)) })
    }

    /// Keeps what was prepared, and returns the status of each record.
    fn keep(
        &mut self,
        number: u64,
        prepared: Result<Prepared, Refusal>,
    ) -> Result<Vec<RowStatus>, Refusal> {
        let prepared = prepared?;
        let status = RowStatus::of_held(&prepared.held, prepared.ids);
        self.prepared.insert(number, prepared);
        Ok(status)
    }

    /// Hands a group of requests to the thread that computes.
    fn compute(&mut self, requests: &[RequestRows]) -> Result<(), Refusal> {
        let wrong = || Refusal::invalid("the session computes records that were not looked up");
        let (mut records, mut input) = (0, ReleaseInput::default());
        for RequestRows { number, status } in requests {
            let prepared = self.prepared.remove(number).ok_or_else(wrong)?;
            if prepared.ids != status.len() {
                return Err(wrong());
            }
            let chosen = RowStatus::positions_ok(status);
            let places = chosen.iter().map(|at| prepared.held.binary_search(at));
            let places: Vec<usize> = places.collect::<Result<_, _>>().map_err(|_| wrong())?;
            input.extend(&prepared.input, &places, self.program.classes());
            records += places.len();
        }
        if records > MOST_RECORDS {
            return Err(wrong());
        }
        let (done, _) = oneshot::channel();
        let sent = self.jobs.send(ReleaseJob { records, input, done });
        sent.map_err(|_| Refusal::internal("the private computation has ended"))
    }
}

/// Receives the coordinator's next command; `None` at the end of the session.
async fn next(
    coordinator: &str,
    commands: &mut Pin<&mut (impl Stream<Item = CommandItem> + Send)>,
) -> Result<Option<ReleaseCommand>, Refusal> {
    match commands.next().await {
        None => Ok(None),
        Some(Ok(message)) => Ok(Some(ReleaseCommand::try_from(message)?)),
        Some(Err(status)) => Err(peer_failure(coordinator, &status)),
    }
}
