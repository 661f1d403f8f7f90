//! Private computations: three parties compute on secret shares of the data of all. In a training
//! each learns its own parameters and the epochs alone; in a session of releases ([`release`]) the
//! active party learns what the policy releases, and no other party anything of a logit.
//!
//! All messages go in the streams of the training or of the session. Between two data holders they
//! are in a TLS session of their own, which the coordinator carries and cannot read.

mod labels;
mod links;
mod model;
mod places;
mod program;
pub mod release;
mod steps;

use std::collections::HashMap;
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tokio::sync::mpsc;
use tonic::Status;
use vfl_core::types::PartyName;
use vfl_mpc::{Link, LinkError, MpcError, PartyIndex};
use vfl_protocol::training::computation::ComputationPiece;
use vfl_protocol::{Refusal, RefusalKind};
use vfl_server::service::{Credentials, Duplex, PeerIdentity, Role, SessionEnd, SessionUse, seal};

pub use labels::TrainingLabels;
use links::{LinkTasks, PieceSender, StreamLink, carry};
pub use places::{Member, Places};
use program::{ComputationError, Links};
pub use program::{ComputationResult, OwnBlock, Program};
use release::{MaskKeyExchange, ReleaseJob, ReleaseProgram};

/// The time that a piece may wait for its link.
const DELIVERY: Duration = Duration::from_secs(20);
/// The time that two parties have to open their session.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// The entries for the pieces that arrive, by their senders.
pub struct Arrivals(HashMap<Option<PartyName>, PieceSender>);

impl Arrivals {
    /// Hands on a piece that has arrived.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a party with which there is no link.
    pub async fn deliver(&self, piece: ComputationPiece) -> Result<(), Refusal> {
        let Some(sender) = self.0.get(&piece.party) else {
            return Err(Refusal::invalid(
                "a piece of a computation came from a party without a link",
            ));
        };
        match tokio::time::timeout(DELIVERY, sender.send(piece.data)).await {
            // The last bytes of a link that is no longer read do not matter.
            Ok(_) => Ok(()),
            Err(_) => Err(Refusal::invalid(
                "a party of the computation sent more than the computation takes",
            )),
        }
    }
}

/// The channels of one party to the others, before their sessions are open.
pub struct Channels {
    own: Member,
    places: Places,
    channels: Vec<(Member, Box<dyn Duplex>)>,
}

impl Places {
    /// Opens the channels of a data holder, whose pieces all leave by `out`. `wrap` makes a message
    /// of a piece.
    ///
    /// # Errors
    /// As [`Places::channels_by`].
    pub fn channels<M: Send + 'static>(
        &self,
        own: Member,
        out: &mpsc::Sender<Result<M, Status>>,
        wrap: impl Fn(ComputationPiece) -> M + Clone + Send + 'static,
    ) -> Result<(Channels, Arrivals), Refusal> {
        self.channels_by(own, |_| Some(out.clone()), wrap)
    }

    /// Opens the channels of a party, whose pieces for each other one leave by a sender of their
    /// own.
    ///
    /// # Errors
    /// INTERNAL if there is no sender for one of them.
    pub fn channels_by<M: Send + 'static>(
        &self,
        own: Member,
        out: impl Fn(&Member) -> Option<mpsc::Sender<Result<M, Status>>>,
        wrap: impl Fn(ComputationPiece) -> M + Clone + Send + 'static,
    ) -> Result<(Channels, Arrivals), Refusal> {
        let (_, peers) = self.peers(&own);
        let (mut channels, mut arrivals) = (Vec::with_capacity(peers.len()), HashMap::new());
        for peer in peers {
            let party = peer.of_piece(&own);
            let wrap = wrap.clone();
            let out = out(&peer);
            let out = out.ok_or_else(|| Refusal::internal(format!("no channel to {peer}")))?;
            let (stream, sender) =
                carry(out, move |data| wrap(ComputationPiece { party: party.clone(), data }));
            arrivals.insert(peer.name().cloned(), sender);
            channels.push((peer, Box::new(stream) as Box<dyn Duplex>));
        }
        Ok((Channels { own, places: self.clone(), channels }, Arrivals(arrivals)))
    }
}

/// The links of one party to the others, with open sessions.
struct OpenLinks {
    member: Member,
    places: Places,
    links: Links,
    tasks: Vec<LinkTasks>,
}

impl Channels {
    /// Opens the sessions, and computes on a thread of its own. `watch` is asked before each epoch.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that did not prove its identity, went away or fell silent for
    /// `patience`, or what is wrong with the data.
    pub async fn compute(
        self,
        credentials: &Credentials,
        program: Program,
        own: Option<OwnBlock>,
        patience: Duration,
        mut watch: impl FnMut(usize) -> bool + Send + 'static,
    ) -> Result<ComputationResult, Refusal> {
        let most = program.most_bytes();
        let OpenLinks { member, places, links, tasks } =
            self.open(credentials, most, patience).await?;
        let own = own.and_then(|block| Some((places.place(&member)?, block)));
        let work = move || program.run(links, own, &mut watch);
        on_a_thread(work, &places, tasks).await
    }

    /// Opens the sessions, and computes releases on a thread of its own until the senders of jobs
    /// are gone.
    ///
    /// # Errors
    /// As [`Channels::compute`].
    pub async fn release(
        self,
        credentials: &Credentials,
        program: ReleaseProgram,
        key: MaskKeyExchange,
        patience: Duration,
        jobs: std::sync::mpsc::Receiver<ReleaseJob>,
    ) -> Result<(), Refusal> {
        let most = program.most_bytes();
        let OpenLinks { places, links, tasks, .. } = self.open(credentials, most, patience).await?;
        let work = move || program.run(links, key, &jobs);
        on_a_thread(work, &places, tasks).await
    }

    async fn open(
        self,
        credentials: &Credentials,
        most: u64,
        patience: Duration,
    ) -> Result<OpenLinks, Refusal> {
        let Self { own: member, places, channels } = self;
        let opened = channels.into_iter().map(|(peer, stream)| {
            let member = &member;
            async move {
                let stream = session(credentials, member, &peer, stream).await?;
                Ok::<_, Refusal>(links::open(stream, most, patience))
            }
        });
        let opened: Vec<(StreamLink, LinkTasks)> = try_join_all(opened).await?;
        let (mut links, mut tasks) = (Vec::with_capacity(opened.len()), Vec::new());
        for (link, task) in opened {
            links.push(Box::new(link) as Box<dyn Link>);
            tasks.push(task);
        }
        let (party, _) = places.peers(&member);
        let links = match party {
            Some(party) => {
                let outsiders = links.split_off(2);
                let [next, previous] = pair(links)?;
                Links::Computing { party, next, previous, outsiders }
            }
            None => {
                let links = <[_; 3]>::try_from(links);
                Links::Outside(links.map_err(|_| Refusal::internal("a party has no links"))?)
            }
        };
        Ok(OpenLinks { member, places, links, tasks })
    }
}

/// Computes on a thread of its own, and then waits until all that was written has left.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ComputationError> + Send + 'static,
    places: &Places,
    tasks: Vec<LinkTasks>,
) -> Result<T, Refusal> {
    let computed = tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| Refusal::internal("the private computation failed"))?;
    let computed = computed.map_err(|error| refusal(&error, places))?;
    join_all(tasks.into_iter().map(LinkTasks::finish)).await;
    Ok(computed)
}

fn pair(links: Vec<Box<dyn Link>>) -> Result<[Box<dyn Link>; 2], Refusal> {
    <[_; 2]>::try_from(links).map_err(|_| Refusal::internal("a computing party has two links"))
}

/// Opens the session of two data holders. The stream between one of them and the coordinator is
/// sealed already.
async fn session(
    credentials: &Credentials,
    own: &Member,
    peer: &Member,
    stream: Box<dyn Duplex>,
) -> Result<Box<dyn Duplex>, Refusal> {
    let (role, name) = match (own, peer) {
        (Member::Coordinator, _) | (_, Member::Coordinator) => return Ok(stream),
        (_, Member::Active(name)) => (Role::ActiveParty, name),
        (_, Member::Passive(name)) => (Role::PassiveParty, name),
    };
    let end = match (own, peer) {
        (Member::Active(_), _) => SessionEnd::Client,
        (_, Member::Active(_)) => SessionEnd::Server,
        // Two passive parties: the order of their names decides.
        _ if own.name() < peer.name() => SessionEnd::Client,
        _ => SessionEnd::Server,
    };
    let domain = credentials.identity().trust_domain();
    let identity = PeerIdentity::new(domain, role, name.clone())
        .map_err(|e| Refusal::internal(e.to_string()))?;
    let sealed = seal(credentials, &identity, end, SessionUse::Computation, stream);
    let sealed = tokio::time::timeout(HANDSHAKE, sealed).await.map_err(|_| {
        let (who, seconds) = (identity.words(), HANDSHAKE.as_secs());
        let message = format!("{who} did not open a session in {seconds} s");
        Refusal::new(RefusalKind::DeadlineExceeded, message)
    })?;
    Ok(sealed?.0)
}

/// Returns the refusal for an error of the computation, with the name of the party that it is
/// about.
fn refusal(error: &ComputationError, places: &Places) -> Refusal {
    let of_link = |who: Member, error: &LinkError| {
        let kind = match error {
            LinkError::Silent(_) => RefusalKind::DeadlineExceeded,
            _ => RefusalKind::Unavailable,
        };
        Refusal::new(kind, format!("the private computation stopped: {who}: {error}"))
    };
    let computing = |party: PartyIndex| {
        let [active, coordinator, passive] = places.computing();
        match party {
            PartyIndex::FIRST => active,
            PartyIndex::SECOND => coordinator,
            _ => passive,
        }
    };
    let differs = |who: Member, what: &str| {
        Refusal::precondition(format!(
            "{who} does not agree on {what} of the private computation: run one version of Cloison everywhere, with the same \
             records and settings"
        ))
    };
    match error {
        ComputationError::Mpc(MpcError::Link { party, error }) => of_link(computing(*party), error),
        ComputationError::Mpc(MpcError::Disagreement { party, what }) => {
            differs(computing(*party), what)
        }
        ComputationError::Mpc(error @ MpcError::MessageLength { party, .. }) => {
            let who = computing(*party);
            Refusal::invalid(format!("the private computation stopped: {who}: {error}"))
        }
        ComputationError::Outsider { place, error } => of_link(places.passive(*place), error),
        ComputationError::LostOutsider { at, error } => of_link(places.outsider(*at), error),
        ComputationError::OtherTraining(place) => differs(places.passive(*place), "the settings"),
        ComputationError::OtherSession(at) => differs(places.outsider(*at), "the session"),
        ComputationError::Mpc(MpcError::Shape { what: "the logits", .. }) => {
            Refusal::internal("the private computation has other records than its request")
        }
        ComputationError::Mpc(MpcError::NotRepresentable { .. }) | ComputationError::Diverged => {
            Refusal::precondition("training diverged: use a larger `l2`, or fewer features")
        }
        ComputationError::Mpc(MpcError::Stopped) => Refusal::internal(
            "the training cannot be written down, so it does not go on; this party's log says why",
        ),
        ComputationError::Mpc(error) => {
            Refusal::invalid(format!("the private computation stopped: {error}"))
        }
        ComputationError::NoLink => Refusal::internal("a party of the computation has no links"),
    }
}
