//! The coordinator's part of a private training: it computes on shares with the active party and
//! one passive party, and carries the pieces between the data holders.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use vfl_core::types::PartyName;
use vfl_party::computation::{Arrivals, Member, Places, Program};
use vfl_protocol::Refusal;
use vfl_protocol::training::computation::{ComputationLayout, ComputationPiece, EpochCounts};
use vfl_protocol::training::messages::Command;
use vfl_server::service::Credentials;
use vfl_state::journal::Proposal;

use super::client::{ComputationReply, Link};
use super::job::JournaledTraining;

/// The time in which a party whose link ended says why.
const REASON: Duration = Duration::from_secs(3);

/// Computes with the parties behind the links, the active one first, until all of them have their
/// parameters. Returns the epochs.
///
/// # Errors
/// [`Refusal`] naming the party that went away, fell silent or broke the protocol.
pub(super) async fn compute(
    links: &mut [Link],
    credentials: &Credentials,
    (proposal, layout): (&Proposal, &ComputationLayout),
    features: &[u32],
    recorded: &mut JournaledTraining,
) -> Result<EpochCounts, Refusal> {
    let program = Program::new(proposal, layout, features)?;
    let patience = links.iter().map(|link| link.timeout).max().unwrap_or_default();
    for link in links.iter_mut() {
        link.stage = "the private computation".into();
        link.send(Command::Compute { features: features.to_vec() }).await?;
    }
    let places = Places::new(proposal.active_party.clone(), layout.clone());
    let senders: Vec<(PartyName, _)> =
        links.iter().map(|link| (link.name.clone(), link.commands().clone())).collect();
    let out = |member: &Member| {
        let of = senders.iter().find(|(name, _)| Some(name) == member.name());
        of.map(|(_, commands)| commands.clone())
    };
    let wrap = |piece| Command::Piece(piece).into();
    let (channels, arrivals) = places.channels_by(Member::Coordinator, out, wrap)?;
    let (registry, number) = (recorded.registry.clone(), recorded.number);
    let reached = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let steps = reached.clone();
    let watch = move |epoch: usize| {
        let step = epoch as u64;
        steps.store(step, std::sync::atomic::Ordering::Relaxed);
        !step.is_power_of_two() || registry.training_reaches(number, step).is_ok()
    };
    let own = channels.compute(credentials, program, None, patience, watch);
    let relays = links.iter_mut().map(|link| relay(link, &arrivals, &senders));
    let relays = try_join_all(relays);
    let computed = {
        let (mut own, mut relays) = (std::pin::pin!(own), std::pin::pin!(relays));
        tokio::select! {
            computed = &mut own => match computed {
                Ok(computed) => Ok((computed.epochs, relays.await?)),
                // The party that is at fault says so itself, or is gone from its stream.
                Err(refusal) => match tokio::time::timeout(REASON, relays).await {
                    Ok(Err(why)) => Err(why),
                    _ => Err(refusal),
                },
            },
            told = &mut relays => match told {
                Ok(told) => own.await.map(|computed| (computed.epochs, told)),
                Err(refusal) => Err(refusal),
            },
        }
    };
    recorded.steps = reached.load(std::sync::atomic::Ordering::Relaxed);
    let (epochs, told) = computed?;
    for (link, told) in links.iter().zip(told) {
        let computes = link.name == layout.computing || link.name == proposal.active_party;
        if computes && told != epochs {
            return Err(link.wrong(&"it counts other epochs of this training"));
        }
    }
    Ok(epochs)
}

/// Passes on a party's pieces until it has computed; returns the epochs that it counts.
async fn relay(
    link: &mut Link,
    arrivals: &Arrivals,
    senders: &[(PartyName, super::CommandSender)],
) -> Result<EpochCounts, Refusal> {
    loop {
        match link.computation_reply().await? {
            ComputationReply::Computed(epochs) => return Ok(epochs),
            ComputationReply::Piece(ComputationPiece { party: None, data }) => {
                let piece = ComputationPiece { party: Some(link.name.clone()), data };
                arrivals.deliver(piece).await?;
            }
            ComputationReply::Piece(ComputationPiece { party: Some(to), data }) => {
                let receiver = senders.iter().find(|(name, _)| *name == to && *name != link.name);
                let Some((_, commands)) = receiver else {
                    return Err(
                        link.wrong(&"its piece is for a party that is not in this training")
                    );
                };
                let piece = ComputationPiece { party: Some(link.name.clone()), data };
                // A party that no longer listens is told of by its own stream.
                let _ = commands.send(Ok(Command::Piece(piece).into())).await;
            }
        }
    }
}
