//! The parties of a private computation, and their places.

use vfl_core::types::PartyName;
use vfl_mpc::PartyIndex;
use vfl_protocol::training::computation::ComputationLayout;

/// One party among those of a private computation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// The active party, by its name.
    Active(PartyName),
    /// The coordinator.
    Coordinator,
    /// A passive party, by its name.
    Passive(PartyName),
}

impl Member {
    /// Returns the name of a data holder.
    #[must_use]
    pub fn name(&self) -> Option<&PartyName> {
        match self {
            Self::Active(name) | Self::Passive(name) => Some(name),
            Self::Coordinator => None,
        }
    }

    /// Returns the name of the other party as pieces to and from it have it.
    pub(super) fn of_piece(&self, own: &Self) -> Option<PartyName> {
        // The coordinator names the party at the other end of a stream by the stream alone.
        match own {
            Self::Coordinator => None,
            _ => self.name().cloned(),
        }
    }
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Active(name) => write!(f, "active party `{name}`"),
            Self::Coordinator => f.write_str("the coordinator"),
            Self::Passive(name) => write!(f, "passive party `{name}`"),
        }
    }
}

/// The places of the parties of a private computation.
#[derive(Debug, Clone)]
pub struct Places {
    active: PartyName,
    layout: ComputationLayout,
}

impl Places {
    /// Creates the places of a training for an active party.
    #[must_use]
    pub fn new(active: PartyName, layout: ComputationLayout) -> Self {
        Self { active, layout }
    }

    /// Returns the three that compute, by their places.
    pub(super) fn computing(&self) -> [Member; 3] {
        [
            Member::Active(self.active.clone()),
            Member::Coordinator,
            Member::Passive(self.layout.computing.clone()),
        ]
    }

    /// Returns the passive parties that do not compute, in their order.
    fn outsiders(&self) -> impl Iterator<Item = Member> {
        let outside = self.layout.passive.iter().filter(|name| **name != self.layout.computing);
        outside.cloned().map(Member::Passive)
    }

    /// Returns the members that one of them has a link with: of a computing party the next, the
    /// previous one, and those who do not compute; of another one the three who do.
    pub(super) fn peers(&self, own: &Member) -> (Option<PartyIndex>, Vec<Member>) {
        let computing = self.computing();
        match computing.iter().position(|member| member == own) {
            Some(at) => {
                let (next, previous) = (&computing[(at + 1) % 3], &computing[(at + 2) % 3]);
                let peers = [next.clone(), previous.clone()].into_iter().chain(self.outsiders());
                (Some(PartyIndex::ALL[at]), peers.collect())
            }
            None => (None, computing.to_vec()),
        }
    }

    /// Returns the passive party whose data has this place.
    pub(super) fn passive(&self, place: usize) -> Member {
        let name = self.layout.passive.get(place.wrapping_sub(1));
        Member::Passive(name.unwrap_or(&self.layout.computing).clone())
    }

    /// Returns the passive party with this place among those that do not compute.
    pub(super) fn outsider(&self, at: usize) -> Member {
        let found = self.outsiders().nth(at);
        found.unwrap_or_else(|| Member::Passive(self.layout.computing.clone()))
    }

    /// Returns the place of a data holder's data: 0 of the active party's, from 1 of the passive
    /// parties'.
    #[must_use]
    pub fn place(&self, own: &Member) -> Option<usize> {
        match own {
            Member::Active(_) => Some(0),
            Member::Coordinator => None,
            Member::Passive(own) => {
                self.layout.passive.iter().position(|name| name == own).map(|at| at + 1)
            }
        }
    }
}
