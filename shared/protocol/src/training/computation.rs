//! The messages of a private training, in which three parties compute on secret shares.

use vfl_core::types::PartyName;

use crate::alignment::MAX_PIECE_BYTES;
use crate::{WireError, pb};

/// A piece of the messages between two parties of a private computation.
#[derive(Clone, PartialEq, Eq)]
pub struct ComputationPiece {
    /// The other party: the receiver at the sender, the sender at the receiver. `None`: the
    /// coordinator.
    pub party: Option<PartyName>,
    /// 1 to 65 536 bytes.
    pub data: bytes::Bytes,
}

impl std::fmt::Debug for ComputationPiece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComputationPiece")
            .field("party", &self.party)
            .field("bytes", &self.data.len())
            .finish()
    }
}

/// The epochs of a private training. A passive party that does not compute knows of none: 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EpochCounts {
    /// The number of epochs run.
    pub epochs: u32,
    /// The epoch whose parameters are published, from 1.
    pub best_epoch: u32,
}

/// The passive parties of a private training.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComputationLayout {
    /// All of them, in the order of their parameters.
    pub passive: Vec<PartyName>,
    /// The one that computes, with the active party and the coordinator.
    pub computing: PartyName,
    /// True if the coordinator asks for logit shares of some records in the end, with the
    /// parameters that are published: defenses are fitted on them.
    pub calibration: bool,
}

impl TryFrom<pb::ComputationLayout> for ComputationLayout {
    type Error = WireError;

    fn try_from(message: pb::ComputationLayout) -> Result<Self, WireError> {
        let pb::ComputationLayout { passive_parties, computing_party, calibration } = message;
        let names = passive_parties.into_iter();
        let passive = names
            .map(|name| WireError::party_name("passive_parties", name))
            .collect::<Result<Vec<_>, _>>()?;
        let computing = WireError::party_name("computing_party", computing_party)?;
        if !passive.contains(&computing) {
            let reason = "is not among `passive_parties`".into();
            return Err(WireError::Content { field: "computing_party", reason });
        }
        Ok(Self { passive, computing, calibration })
    }
}

impl From<ComputationLayout> for pb::ComputationLayout {
    fn from(layout: ComputationLayout) -> Self {
        let ComputationLayout { passive, computing, calibration } = layout;
        let passive_parties = passive.into_iter().map(String::from).collect();
        Self { passive_parties, computing_party: computing.into(), calibration }
    }
}

impl TryFrom<pb::ComputationPiece> for ComputationPiece {
    type Error = WireError;

    fn try_from(message: pb::ComputationPiece) -> Result<Self, WireError> {
        let pb::ComputationPiece { party, data } = message;
        if !(1..=MAX_PIECE_BYTES).contains(&data.len()) {
            let reason = "a piece has 1 to 65536 bytes";
            return Err(WireError::Range { field: "data", reason });
        }
        let party = match party.as_str() {
            "" => None,
            _ => Some(WireError::party_name("party", party)?),
        };
        Ok(Self { party, data })
    }
}

impl From<ComputationPiece> for pb::ComputationPiece {
    fn from(piece: ComputationPiece) -> Self {
        let ComputationPiece { party, data } = piece;
        Self { party: party.map(String::from).unwrap_or_default(), data }
    }
}

impl From<pb::PrivateComputed> for EpochCounts {
    fn from(message: pb::PrivateComputed) -> Self {
        let pb::PrivateComputed { epochs, best_epoch } = message;
        Self { epochs, best_epoch }
    }
}

impl From<EpochCounts> for pb::PrivateComputed {
    fn from(counts: EpochCounts) -> Self {
        let EpochCounts { epochs, best_epoch } = counts;
        Self { epochs, best_epoch }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn names(of: &[&str]) -> Vec<PartyName> {
        of.iter().map(|name| PartyName::new(*name).unwrap()).collect()
    }

    #[test]
    fn every_field_comes_back() {
        let passive = names(&["a", "b", "c"]);
        let layout =
            ComputationLayout { computing: passive[1].clone(), passive, calibration: true };
        let message = pb::ComputationLayout::from(layout.clone());
        assert_eq!(ComputationLayout::try_from(message), Ok(layout));
        for party in [None, Some(PartyName::new("b").unwrap())] {
            let piece = ComputationPiece { party, data: vec![7; MAX_PIECE_BYTES].into() };
            let message = pb::ComputationPiece::from(piece.clone());
            assert_eq!(ComputationPiece::try_from(message), Ok(piece));
        }
        let counts = EpochCounts { epochs: 12, best_epoch: 7 };
        assert_eq!(EpochCounts::from(pb::PrivateComputed::from(counts)), counts);
    }

    #[test]
    fn a_layout_without_its_computing_party_and_pieces_of_other_sizes_are_refused() {
        let layout = pb::ComputationLayout {
            passive_parties: vec!["a".into(), "b".into()],
            computing_party: "c".into(),
            calibration: false,
        };
        let refused = ComputationLayout::try_from(layout).unwrap_err().to_string();
        assert!(refused.contains("computing_party"), "{refused}");
        for bytes in [0, MAX_PIECE_BYTES + 1] {
            let piece = pb::ComputationPiece { party: String::new(), data: vec![0; bytes].into() };
            assert!(ComputationPiece::try_from(piece).is_err(), "{bytes}");
        }
    }
}
