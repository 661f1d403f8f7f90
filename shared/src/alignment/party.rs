//! A party's side of alignments: its rules, its record of runs, and one run at a time.

use std::borrow::Borrow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::messages::Conversation;
use super::protocol::{Keeper, Run};
use super::runs::Runs;
use super::tunnel::Tunnel;
use super::{Common, Completed, Progress, Rules, Side, Sizes, Summary};
use crate::rpc::{Refusal, RefusalKind};
use crate::service::{Credentials, End, PeerIdentity, Role, seal};
use crate::state_dir::StateDir;
use crate::state_file::StateFileError;
use crate::types::{PartyName, RecordIds};

pub use super::tunnel::{Frames, Out};

/// How long the other party may say or take nothing. While it blinds its ids, it says every few seconds that it is there.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the parties may take to open their session.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// Runs alignments for one party.
pub struct Aligner {
    side: Side,
    credentials: Credentials,
    rules: Rules,
    runs: Runs,
    busy: tokio::sync::Mutex<()>,
}

impl Aligner {
    /// A party with its rules, and the record in its state directory.
    ///
    /// # Errors
    /// [`StateFileError`] if there is a record that cannot be read.
    pub fn open(
        side: Side,
        credentials: &Credentials,
        state_dir: impl Into<StateDir>,
        rules: Rules,
    ) -> Result<Self, StateFileError> {
        let busy = tokio::sync::Mutex::default();
        Ok(Self { side, credentials: credentials.clone(), rules, runs: Runs::open(side, state_dir)?, busy })
    }

    /// Takes this party's turn for one run with `peer`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if no run is left, ABORTED while another one is under way.
    pub fn turn(&self, peer: PartyName) -> Result<Turn<'_>, Refusal> {
        let busy = self.busy.try_lock().map_err(|_| {
            Refusal::new(RefusalKind::Aborted, "another alignment is under way; try again when it has ended")
        })?;
        self.runs.left(&peer, &self.rules)?;
        Ok(Turn { aligner: self, peer, _busy: busy })
    }
}

/// One run that may begin.
pub struct Turn<'a> {
    aligner: &'a Aligner,
    peer: PartyName,
    _busy: tokio::sync::MutexGuard<'a, ()>,
}

impl Turn<'_> {
    /// Aligns `ids` with the peer, whose frames come and go through the coordinator. `tell` hears how far it is.
    ///
    /// # Errors
    /// [`Refusal`]: whatever keeps the two parties from the end. No file of ids is left then.
    pub async fn run(
        self,
        ids: &RecordIds,
        frames: Frames,
        out: Out,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Completed, Refusal> {
        self.run_listing(std::future::ready(Ok(ids)), frames, out, tell).await
    }

    /// The same with ids that are listed once the parties' session is open: however long that takes, the other party hears meanwhile that
    /// this one is there. If they cannot be listed, it is told the refusal.
    ///
    /// # Errors
    /// As [`Self::run`], and that of `ids`.
    pub async fn run_listing<I: Borrow<RecordIds> + Send + Sync>(
        self,
        ids: impl Future<Output = Result<I, Refusal>> + Send,
        frames: Frames,
        out: Out,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Completed, Refusal> {
        let Self { aligner, peer, _busy } = &self;
        let since = Instant::now();
        let (role, end) = match aligner.side {
            Side::Active => (Role::PassiveParty, End::Client),
            Side::Passive => (Role::ActiveParty, End::Server),
        };
        let domain = aligner.credentials.identity().trust_domain();
        let identity = PeerIdentity::new(domain, role, peer.clone()).map_err(|e| Refusal::internal(e.to_string()))?;
        let (carried, mut tunnel) = Tunnel::open(frames, out);
        let begun = Mutex::default();
        let ended = async {
            let sealed = tokio::time::timeout(HANDSHAKE, seal(&aligner.credentials, &identity, end, carried)).await;
            let (stream, session) = sealed.map_err(|_| {
                let message = format!("{} did not open a session in {} s", identity.words(), HANDSHAKE.as_secs());
                Refusal::new(RefusalKind::DeadlineExceeded, message)
            })??;
            let mut conversation = Conversation::new(stream, identity.words(), PATIENCE);
            let listed = match conversation.while_working(ids).await? {
                Ok(listed) => listed,
                Err(refusal) => {
                    conversation.refuse(&refusal).await;
                    conversation.close().await;
                    return Err(refusal);
                }
            };
            let ids = listed.borrow();
            let entry = Entry { aligner, peer, ids, begun: &begun };
            let (side, rules, keeper) = (aligner.side, &aligner.rules, &entry);
            Run { side, ids, session, rules, conversation, keeper, tell }.complete().await
        };
        let ended = ended.await;
        tunnel.finish().await;
        let common = ended.map_err(|refusal| match (refusal.kind, tunnel.why()) {
            // The stream ended: whoever carries it may have said why.
            (RefusalKind::Unavailable | RefusalKind::Unauthenticated, Some(why)) => why,
            _ => refusal,
        })?;
        let (run, runs_left) = number(&begun);
        let (sent_bytes, received_bytes) = tunnel.bytes();
        let summary = Summary {
            sizes: common.sizes,
            common: common.ids.len() as u64,
            milliseconds: since.elapsed().as_millis() as u64,
            sent_bytes,
            received_bytes,
            run,
            runs_left,
        };
        tracing::info!(%peer, run, own = summary.sizes.own, theirs = summary.sizes.theirs, "an alignment is complete");
        Ok(Completed { common, summary })
    }
}

/// A run's entry in the record.
struct Entry<'a> {
    aligner: &'a Aligner,
    peer: &'a PartyName,
    ids: &'a RecordIds,
    /// Its number and the runs left after it; 0 before it counts.
    begun: &'a Mutex<(u32, u32)>,
}

fn number(begun: &Mutex<(u32, u32)>) -> (u32, u32) {
    *begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Keeper for Entry<'_> {
    fn begin(&self, sizes: Sizes) -> Result<(), Refusal> {
        let begun = self.aligner.runs.begin(self.peer, sizes, self.ids, &self.aligner.rules)?;
        *self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = begun;
        Ok(())
    }

    fn keep(&self, common: &Common) -> Result<(), Refusal> {
        self.aligner.runs.keep(number(self.begun).0, common, &self.aligner.rules)
    }
}
