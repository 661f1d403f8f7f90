//! Conversions of alignment frames and figures from and to messages.

use super::{Frame, IdCounts, Progress, Summary};
use crate::{WireError, pb};

/// The longest piece of a session in one frame, in bytes.
pub const MAX_PIECE_BYTES: usize = 64 << 10;

impl TryFrom<pb::AlignmentFrame> for Frame {
    type Error = WireError;

    fn try_from(frame: pb::AlignmentFrame) -> Result<Self, WireError> {
        let pb::AlignmentFrame { party, sealed } = frame;
        match (party.is_empty(), sealed.len()) {
            (true, 1..=MAX_PIECE_BYTES) => Ok(Self::Sealed(sealed)),
            (true, _) => {
                Err(WireError::Range { field: "sealed", reason: "a piece has 1 to 65536 bytes" })
            }
            (false, 0) => Ok(Self::Start(WireError::party_name("party", party)?)),
            (false, _) => Err(WireError::Content {
                field: "sealed",
                reason: "the frame with a name has no piece".into(),
            }),
        }
    }
}

impl From<Frame> for pb::AlignmentFrame {
    fn from(frame: Frame) -> Self {
        match frame {
            Frame::Start(party) => Self { party: party.as_str().to_owned(), ..Self::default() },
            Frame::Sealed(sealed) => Self { sealed, ..Self::default() },
        }
    }
}

impl From<Progress> for pb::AlignmentProgress {
    fn from(progress: Progress) -> Self {
        Self { stage: progress.stage.to_owned(), done: progress.done, total: progress.total }
    }
}

impl From<Summary> for pb::AlignmentSummary {
    fn from(s: Summary) -> Self {
        Self {
            own: s.sizes.own,
            theirs: s.sizes.theirs,
            common: s.common,
            milliseconds: s.milliseconds,
            sent_bytes: s.sent_bytes,
            received_bytes: s.received_bytes,
            run: s.run,
            runs_left: s.runs_left,
        }
    }
}

impl From<pb::AlignmentSummary> for Summary {
    fn from(s: pb::AlignmentSummary) -> Self {
        Self {
            sizes: IdCounts { own: s.own, theirs: s.theirs },
            common: s.common,
            milliseconds: s.milliseconds,
            sent_bytes: s.sent_bytes,
            received_bytes: s.received_bytes,
            run: s.run,
            runs_left: s.runs_left,
        }
    }
}
