//! A party's side of alignments: its rules, its record of runs, and one run at a time.

use std::borrow::Borrow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use vfl_core::types::{PartyName, RecordIds};
use vfl_protocol::alignment::{
    CommonIds, CompletedRun, FrameSender, Frames, IdCounts, Progress, Rules, Side, Summary, Tunnel,
};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_server::service::{Credentials, PeerIdentity, Role, SessionEnd, SessionUse, seal};
use vfl_state::state_dir::StateDir;
use vfl_state::state_file::StateFileError;

use super::messages::Conversation;
use super::protocol::{Run, RunRecorder};
use super::runs::Runs;

/// The time for which the other party may be silent or take nothing. While it blinds its ids, it
/// sends a sign of life every few seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time that the parties have to open their session.
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
    /// Opens the aligner of a party, with its rules and the record in its state directory.
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
        Ok(Self {
            side,
            credentials: credentials.clone(),
            rules,
            runs: Runs::open(side, state_dir)?,
            busy,
        })
    }

    /// Takes this party's turn for one run with `peer`.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if no run is left, ABORTED while another one is under way.
    pub fn turn(&self, peer: PartyName) -> Result<RunPermit<'_>, Refusal> {
        let busy = self.busy.try_lock().map_err(|_| {
            Refusal::new(
                RefusalKind::Aborted,
                "another alignment is under way; try again when it has ended",
            )
        })?;
        self.runs.left(&peer, &self.rules)?;
        Ok(RunPermit { aligner: self, peer, _busy: busy })
    }
}

/// The permission for one run.
pub struct RunPermit<'a> {
    aligner: &'a Aligner,
    peer: PartyName,
    _busy: tokio::sync::MutexGuard<'a, ()>,
}

impl RunPermit<'_> {
    /// Aligns `ids` with the peer, whose frames pass through the coordinator. `tell` receives the
    /// progress.
    ///
    /// # Errors
    /// [`Refusal`] if the run cannot be completed. No file of ids is left then.
    pub async fn run(
        self,
        ids: &RecordIds,
        frames: Frames,
        out: FrameSender,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CompletedRun, Refusal> {
        self.run_listing(std::future::ready(Ok(ids)), frames, out, tell).await
    }

    /// Like [`Self::run`], with ids that are listed once the parties' session is open. However long
    /// that takes, the other party receives signs of life meanwhile. If the ids cannot be listed,
    /// it receives the refusal.
    ///
    /// # Errors
    /// As [`Self::run`], and the refusal from `ids`.
    pub async fn run_listing<I: Borrow<RecordIds> + Send + Sync>(
        self,
        ids: impl Future<Output = Result<I, Refusal>> + Send,
        frames: Frames,
        out: FrameSender,
        tell: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<CompletedRun, Refusal> {
        let Self { aligner, peer, _busy } = &self;
        let since = Instant::now();
        let (role, end) = match aligner.side {
            Side::Active => (Role::PassiveParty, SessionEnd::Client),
            Side::Passive => (Role::ActiveParty, SessionEnd::Server),
        };
        let domain = aligner.credentials.identity().trust_domain();
        let identity = PeerIdentity::new(domain, role, peer.clone())
            .map_err(|e| Refusal::internal(e.to_string()))?;
        let (carried, mut tunnel) = Tunnel::open(frames, out);
        let begun = Mutex::default();
        let ended = async {
            let sealed = tokio::time::timeout(
                HANDSHAKE,
                seal(&aligner.credentials, &identity, end, SessionUse::Alignment, carried),
            )
            .await;
            let (stream, session) = sealed.map_err(|_| {
                let message = format!(
                    "{} did not open a session in {} s",
                    identity.words(),
                    HANDSHAKE.as_secs()
                );
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
            // The stream ended: its carrier may have given the reason.
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
        Ok(CompletedRun { common, summary })
    }
}

/// The entry of a run in the record.
struct Entry<'a> {
    aligner: &'a Aligner,
    peer: &'a PartyName,
    ids: &'a RecordIds,
    /// The number of the run and the runs left after it; 0 before it counts.
    begun: &'a Mutex<(u32, u32)>,
}

fn number(begun: &Mutex<(u32, u32)>) -> (u32, u32) {
    *begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl RunRecorder for Entry<'_> {
    fn begin(&self, sizes: IdCounts) -> Result<(), Refusal> {
        let begun = self.aligner.runs.begin(self.peer, sizes, self.ids, &self.aligner.rules)?;
        *self.begun.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = begun;
        Ok(())
    }

    fn keep(&self, common: &CommonIds) -> Result<(), Refusal> {
        self.aligner.runs.keep(number(self.begun).0, common, &self.aligner.rules)
    }
}
