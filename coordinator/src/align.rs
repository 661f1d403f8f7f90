//! Relays alignments between an active and a passive party. The frames are sealed, so this party
//! cannot read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use vfl_core::types::PartyName;
use vfl_protocol::alignment::{Frame, FrameSender, Frames};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_server::service::PeerIdentity;

use crate::client::PassiveParty;

/// Longest silence of both parties. Each sends a sign of life every few seconds.
const SILENCE: Duration = Duration::from_secs(90);
/// Longest time for an alignment. It exceeds the parties' own limit, so that their better error
/// comes first.
const LONGEST: Duration = Duration::from_secs(vfl_party::alignment::LONGEST.as_secs() + 600);
/// Longest wait for the first frame, and for the passive party to answer.
const OPENING: Duration = Duration::from_secs(20);
/// Most frames queued for the passive party: 256 KiB in all.
const WAITING: usize = 4;

/// The relay between the parties of an alignment; it carries one at a time.
pub(crate) struct Relay {
    passive: Vec<Arc<PassiveParty>>,
    active_party: Option<PartyName>,
    busy: tokio::sync::Mutex<()>,
}

impl Relay {
    pub(crate) fn new(passive: Vec<Arc<PassiveParty>>, active_party: Option<PartyName>) -> Self {
        Self { passive, active_party, busy: tokio::sync::Mutex::default() }
    }

    /// Carries one alignment to its end. `frames` come from the active party and `out` leads to it.
    ///
    /// # Errors
    /// [`Refusal`]: PERMISSION_DENIED for an active party that is not served here, NOT_FOUND for a
    /// passive party that is not known here, ABORTED while another alignment is under way,
    /// DEADLINE_EXCEEDED when a party is silent, or a party's own refusal.
    pub(crate) async fn run(
        &self,
        caller: &PeerIdentity,
        mut frames: Frames,
        out: &FrameSender,
    ) -> Result<(), Refusal> {
        if let Some(name) = self.active_party.as_ref().filter(|name| *name != caller.name()) {
            let message = format!(
                "this coordinator serves active party `{name}` (`active_party` in its configuration)"
            );
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        }
        let _busy = self.busy.try_lock().map_err(|_| {
            Refusal::new(
                RefusalKind::Aborted,
                "another alignment is under way; try again when it has ended",
            )
        })?;
        let first = tokio::time::timeout(OPENING, frames.next())
            .await
            .map_err(|_| late(&caller.words(), OPENING))?;
        let name = match first.transpose()? {
            Some(Frame::Start(name)) => name,
            Some(Frame::Sealed(_)) => {
                return Err(Refusal::invalid("an alignment begins with the passive party's name"));
            }
            None => return Err(Refusal::invalid("an alignment ended before it began")),
        };
        let party = self.passive.iter().find(|party| party.peer().name == name).ok_or_else(|| {
            let message = format!(
                "passive party `{name}` is not known here; see [[passive_parties]] in the coordinator's config"
            );
            Refusal::new(RefusalKind::NotFound, message)
        })?;
        let (to_passive, queue) = mpsc::channel(WAITING);
        let start = Frame::Start(caller.name().clone());
        to_passive
            .send(start)
            .await
            .map_err(|_| Refusal::internal("the alignment has no queue"))?;
        let who = party.peer().words();
        let opened = tokio::time::timeout(OPENING, party.align(queue)).await;
        let answers = opened.map_err(|_| late(&who, OPENING))??;
        tracing::info!(caller = %caller, passive_party = %name, "an alignment begins");
        let carried = carry(frames, to_passive, answers, out).await?;
        tracing::info!(caller = %caller, passive_party = %name, bytes = carried, "an alignment has ended");
        Ok(())
    }
}

/// Carries frames both ways until the passive party ends its stream; returns the number of bytes.
async fn carry(
    mut frames: Frames,
    to_passive: mpsc::Sender<Frame>,
    mut answers: Frames,
    out: &FrameSender,
) -> Result<u64, Refusal> {
    let carried = AtomicU64::new(0);
    // The directions are independent: a party that takes no frames must not hold up the other
    // direction.
    let up = async {
        while let Some(frame) = frames.next().await.transpose()? {
            let (frame, length) = sealed(frame)?;
            if to_passive.send(frame).await.is_err() {
                // The passive party no longer listens. Its reason comes the other way.
                break;
            }
            carried.fetch_add(length, Ordering::Relaxed);
        }
        // The active party has nothing more to send.
        drop(to_passive);
        std::future::pending::<Result<(), Refusal>>().await
    };
    let down = async {
        while let Some(frame) = answers.next().await.transpose()? {
            let (frame, length) = sealed(frame)?;
            let gone = |_| Refusal::unavailable("the active party went away");
            out.send(Ok(frame)).await.map_err(gone)?;
            carried.fetch_add(length, Ordering::Relaxed);
        }
        Ok::<(), Refusal>(())
    };
    let silence = async {
        let mut seen = 0;
        loop {
            tokio::time::sleep(SILENCE).await;
            let now = carried.load(Ordering::Relaxed);
            if now == seen {
                return late("both parties", SILENCE);
            }
            seen = now;
        }
    };
    tokio::select! {
        ended = down => ended?,
        ended = up => ended?,
        late = silence => return Err(late),
        () = tokio::time::sleep(LONGEST) => {
            let message = format!("alignment: it has not ended in {} minutes", LONGEST.as_secs() / 60);
            return Err(Refusal::new(RefusalKind::DeadlineExceeded, message));
        }
    }
    Ok(carried.load(Ordering::Relaxed))
}

/// Returns a frame after the first one with its length in bytes; refuses a second start.
fn sealed(frame: Frame) -> Result<(Frame, u64), Refusal> {
    match &frame {
        Frame::Sealed(bytes) => {
            let length = bytes.len() as u64;
            Ok((frame, length))
        }
        Frame::Start(_) => Err(Refusal::invalid("an alignment has begun; it is not begun twice")),
    }
}

fn late(who: &str, patience: Duration) -> Refusal {
    let message = format!("alignment: nothing came from {who} in {} s", patience.as_secs());
    Refusal::new(RefusalKind::DeadlineExceeded, message)
}
