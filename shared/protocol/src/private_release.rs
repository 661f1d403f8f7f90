//! The messages of private releases, in which three parties compute on secret shares of logits.

use std::pin::Pin;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tonic::Status;
use vfl_core::model::{Link, is_power_of_two};
use vfl_core::types::{ModelVersion, PartyName, RecordIds, RowStatus};
use vfl_defense::Policy;

use crate::pb::private_release_command::Command as WireCommand;
use crate::pb::private_release_reply::Reply as WireReply;
use crate::prediction::{
    check_request_id, prediction_ids, read_refusal, refusal_message, statuses_of,
};
use crate::training::computation::{ComputationLayout, ComputationPiece};
use crate::{Refusal, WireError, encode_statuses, pb, require};

/// A reply on its way.
pub type ReplyItem = Result<pb::PrivateReleaseReply, Status>;
/// A command on its way.
pub type CommandItem = Result<pb::PrivateReleaseCommand, Status>;
/// The channel for commands to a party of a session.
pub type CommandSender = mpsc::Sender<CommandItem>;
/// The channel for a party's replies.
pub type ReplySender = mpsc::Sender<ReplyItem>;
/// The stream of a party's replies.
pub type ReplyStream = Pin<Box<dyn Stream<Item = ReplyItem> + Send>>;
/// The stream of the coordinator's commands.
pub type CommandStream = Pin<Box<dyn Stream<Item = CommandItem> + Send>>;

/// The most requests of a session that are not answered yet.
pub const MOST_UNANSWERED: usize = 64;
/// The number of unanswered records from which a session takes no further request.
pub const MOST_UNANSWERED_RECORDS: usize = 1 << 16;
/// The most classes of a model with private releases.
const MOST_CLASSES: u32 = 16;
/// The most vectors of a policy.
const MOST_VECTORS: usize = 256;
/// The words of a record's tag.
pub const TAG_WORDS: usize = 2;
/// The length of a session's name, in bytes.
pub const SESSION_BYTES: usize = 16;

/// The facts of a session that all parties agree on.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionTerms {
    /// The name of the session, drawn at random.
    pub session: [u8; SESSION_BYTES],
    /// The version of the model.
    pub version: ModelVersion,
    /// The active party, by the name in its certificate.
    pub active_party: PartyName,
    /// The passive parties, and which of them computes.
    pub layout: ComputationLayout,
    /// The number of classes, 2 to 16; 1 for a model of a number.
    pub classes: usize,
    /// The link: scores of classes, or a number.
    pub link: Link,
    /// The unit of the outputs in the computation, a power of two.
    pub unit: f64,
    /// The policy: the live one, or an audit session's.
    pub policy: Policy,
    /// The vectors that the policy releases, one after the other, of a number from 0 to 1 for each
    /// class: that which gives scores to ranks, the best first, or the words of a codebook. None
    /// where it has none, 256 at most.
    pub vectors: Vec<f64>,
    /// The fingerprint of the passive parties' parameters: versions that share it are one model.
    pub passive_fingerprint: String,
}

/// The active party's request within a session.
#[derive(Clone, PartialEq, Eq)]
pub struct MaskedRequest {
    /// The number of the request, from 1.
    pub number: u64,
    /// The ids of the records.
    pub ids: RecordIds,
    /// The active party's logits less their masks, and the record's tag: 8 bytes for each class of
    /// each record, and 16 for its tag.
    pub masked: Bytes,
    /// The active party's name for this request; empty if it has none.
    pub request_id: String,
}

/// Leaves out ids and logits.
impl std::fmt::Debug for MaskedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskedRequest")
            .field("number", &self.number)
            .field("ids", &self.ids)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

impl MaskedRequest {
    /// Returns the numbers of the request, record after record: a masked logit for each class, then
    /// the tag.
    ///
    /// # Errors
    /// [`WireError::Size`] unless there are as many.
    pub fn numbers(&self, classes: usize) -> Result<Vec<u64>, WireError> {
        read_numbers("masked_logits", &self.masked, (classes + TAG_WORDS) * self.ids.len())
    }
}

/// Writes numbers of 64 bits, little-endian.
#[must_use]
pub fn write_numbers(numbers: &[u64]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>().into()
}

/// Reads `count` numbers that [`write_numbers`] has written into a field.
///
/// # Errors
/// [`WireError::Size`] for bytes of another number.
pub fn read_numbers(
    field: &'static str,
    bytes: &[u8],
    count: usize,
) -> Result<Vec<u64>, WireError> {
    let (unit, expected) = ("bytes", 8 * count);
    if bytes.len() != expected {
        return Err(WireError::Size { field, unit, expected, got: bytes.len() });
    }
    let number = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    Ok(bytes.chunks_exact(8).map(number).collect())
}

/// The records of a request that are computed: those whose status is [`RowStatus::Ok`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRows {
    /// The number of the request.
    pub number: u64,
    /// The status of each record.
    pub status: Vec<RowStatus>,
}

/// A command from the coordinator to a party of a session.
#[derive(Debug, Clone)]
pub enum ReleaseCommand {
    /// The first command.
    Begin(Box<SessionTerms>),
    /// To a passive party: compute the logits of these records.
    LookUp {
        /// The number of the request.
        number: u64,
        /// The ids of the records.
        ids: RecordIds,
        /// The tag of each record, two words, to the party that computes; empty to others.
        tags: Vec<u64>,
    },
    /// Compute on shares of these requests' logits.
    Compute(Vec<RequestRows>),
    /// A piece of the computation, with its sender.
    Piece(ComputationPiece),
    /// A request that is not computed.
    Refused {
        /// The number of the request.
        number: u64,
        /// The reason; `None` to a passive party.
        reason: Option<Refusal>,
    },
}

/// A reply to the coordinator from a party of a session.
#[derive(Clone)]
pub enum ReleaseReply {
    /// The first reply of the active party.
    Open {
        /// The version that it expects.
        version: ModelVersion,
        /// The audit session, which is a secret; `None` for the live service.
        audit_session: Option<String>,
    },
    /// The first reply of a passive party: it takes part.
    Consent,
    /// A request of the active party.
    Request(MaskedRequest),
    /// The records of a request that a passive party has logits of, or why it has none.
    Held {
        /// The number of the request.
        number: u64,
        /// The status of each record.
        rows: Result<Vec<RowStatus>, Refusal>,
    },
    /// A piece of the computation, with its receiver.
    Piece(ComputationPiece),
}

impl TryFrom<pb::PrivateReleaseSession> for SessionTerms {
    type Error = WireError;

    fn try_from(message: pb::PrivateReleaseSession) -> Result<Self, WireError> {
        let pb::PrivateReleaseSession {
            session,
            model_version,
            active_party,
            layout,
            classes,
            policy,
            vectors,
            passive_fingerprint,
            link,
            unit,
        } = message;
        let range = |field, reason| WireError::Range { field, reason };
        let link = match link.as_str() {
            "" => Link::Softmax,
            name => Link::named(name)
                .filter(|link| *link != Link::Softmax)
                .ok_or_else(|| range("link", "one_vs_rest, identity, log or logit, or nothing"))?,
        };
        let valid = if link.is_numeric() { 1..=1 } else { 2..=MOST_CLASSES };
        if !valid.contains(&classes) {
            return Err(range("classes", "2 to 16, or 1 for a model of a number"));
        }
        let unit = if unit == 0.0 { 1.0 } else { unit };
        if !(is_power_of_two(unit) && (link == Link::Identity || unit == 1.0)) {
            return Err(range(
                "unit",
                "a power of two, other than 1 under the link identity alone",
            ));
        }
        let whole = vectors.len().is_multiple_of(classes as usize);
        if !whole || vectors.len() > MOST_VECTORS * classes as usize {
            return Err(range("vectors", "at most 256, of a number for each class"));
        }
        if !vectors.iter().all(|score| (0.0..=1.0).contains(score)) {
            return Err(range("vectors", "0 to 1"));
        }
        if passive_fingerprint.len() > 128 || passive_fingerprint.contains(char::is_control) {
            return Err(range("passive_fingerprint", "at most 128 bytes of text"));
        }
        Ok(Self {
            session: <[u8; SESSION_BYTES]>::try_from(&session[..])
                .map_err(|_| range("session", "16 bytes"))?,
            version: WireError::model_version(model_version)?,
            active_party: WireError::party_name("active_party", active_party)?,
            layout: require("layout", layout)?.try_into()?,
            classes: classes as usize,
            policy: Policy::try_from(&require("policy", policy)?)?,
            vectors,
            passive_fingerprint,
            link,
            unit,
        })
    }
}

impl From<SessionTerms> for pb::PrivateReleaseSession {
    fn from(terms: SessionTerms) -> Self {
        let SessionTerms {
            session,
            version,
            active_party,
            layout,
            classes,
            policy,
            vectors,
            passive_fingerprint,
            link,
            unit,
        } = terms;
        let link = match link {
            Link::Softmax => String::new(),
            other => other.as_str().to_owned(),
        };
        Self {
            session: session.to_vec().into(),
            model_version: version.as_str().to_owned(),
            active_party: active_party.into(),
            layout: Some(layout.into()),
            classes: classes as u32,
            policy: Some((&policy).into()),
            vectors,
            passive_fingerprint,
            link,
            unit,
        }
    }
}

impl TryFrom<pb::RequestRows> for RequestRows {
    type Error = WireError;

    fn try_from(message: pb::RequestRows) -> Result<Self, WireError> {
        let pb::RequestRows { number, row_status } = message;
        Ok(Self { number, status: statuses_of(&row_status)? })
    }
}

impl From<RequestRows> for pb::RequestRows {
    fn from(RequestRows { number, status }: RequestRows) -> Self {
        Self { number, row_status: encode_statuses(&status) }
    }
}

impl TryFrom<pb::PrivateReleaseCommand> for ReleaseCommand {
    type Error = WireError;

    fn try_from(message: pb::PrivateReleaseCommand) -> Result<Self, WireError> {
        Ok(match require("command", message.command)? {
            WireCommand::Begin(terms) => Self::Begin(Box::new(terms.try_into()?)),
            WireCommand::LookUp(pb::RowsLookUp { number, ids, tags }) => {
                let ids = prediction_ids(ids)?;
                let words = if tags.is_empty() { 0 } else { TAG_WORDS * ids.len() };
                Self::LookUp { number, tags: read_numbers("tags", &tags, words)?, ids }
            }
            WireCommand::Compute(pb::ReleaseComputation { requests }) => {
                if !(1..=MOST_UNANSWERED).contains(&requests.len()) {
                    return Err(WireError::Range { field: "requests", reason: "1 to 64" });
                }
                let requests = requests.into_iter().map(RequestRows::try_from);
                Self::Compute(requests.collect::<Result<_, _>>()?)
            }
            WireCommand::Piece(piece) => Self::Piece(piece.try_into()?),
            WireCommand::Refused(pb::RequestRefused { number, reason }) => {
                let reason = reason.as_ref().map(read_refusal).transpose()?;
                Self::Refused { number, reason }
            }
        })
    }
}

impl From<ReleaseCommand> for pb::PrivateReleaseCommand {
    fn from(command: ReleaseCommand) -> Self {
        let command = match command {
            ReleaseCommand::Begin(terms) => WireCommand::Begin((*terms).into()),
            ReleaseCommand::LookUp { number, ids, tags } => {
                let (ids, tags) = (Some(ids.into()), write_numbers(&tags));
                WireCommand::LookUp(pb::RowsLookUp { number, ids, tags })
            }
            ReleaseCommand::Compute(requests) => {
                let requests = requests.into_iter().map(Into::into).collect();
                WireCommand::Compute(pb::ReleaseComputation { requests })
            }
            ReleaseCommand::Piece(piece) => WireCommand::Piece(piece.into()),
            ReleaseCommand::Refused { number, reason } => {
                let reason = reason.as_ref().map(refusal_message);
                WireCommand::Refused(pb::RequestRefused { number, reason })
            }
        };
        Self { command: Some(command) }
    }
}

impl TryFrom<pb::PrivateReleaseReply> for ReleaseReply {
    type Error = WireError;

    fn try_from(message: pb::PrivateReleaseReply) -> Result<Self, WireError> {
        Ok(match require("reply", message.reply)? {
            WireReply::Open(pb::PrivateReleaseOpening { model_version, audit_session }) => {
                Self::Open {
                    version: WireError::model_version(model_version)?,
                    audit_session: Some(audit_session).filter(|name| !name.is_empty()),
                }
            }
            WireReply::Consent(pb::PrivateReleaseConsent {}) => Self::Consent,
            WireReply::Request(request) => {
                let pb::PrivateReleaseRequest { number, ids, masked_logits, request_id } = request;
                let ids = prediction_ids(ids)?;
                check_request_id(&request_id)?;
                Self::Request(MaskedRequest { number, ids, masked: masked_logits, request_id })
            }
            WireReply::Held(pb::RowsHeld { number, row_status, refused }) => {
                let rows = match &refused {
                    Some(refused) => Err(read_refusal(refused)?),
                    None => Ok(statuses_of(&row_status)?),
                };
                Self::Held { number, rows }
            }
            WireReply::Piece(piece) => Self::Piece(piece.try_into()?),
        })
    }
}

impl From<ReleaseReply> for pb::PrivateReleaseReply {
    fn from(reply: ReleaseReply) -> Self {
        let reply = match reply {
            ReleaseReply::Open { version, audit_session } => {
                WireReply::Open(pb::PrivateReleaseOpening {
                    model_version: version.as_str().to_owned(),
                    audit_session: audit_session.unwrap_or_default(),
                })
            }
            ReleaseReply::Consent => WireReply::Consent(pb::PrivateReleaseConsent {}),
            ReleaseReply::Request(request) => {
                let MaskedRequest { number, ids, masked, request_id } = request;
                WireReply::Request(pb::PrivateReleaseRequest {
                    number,
                    ids: Some(ids.into()),
                    masked_logits: masked,
                    request_id,
                })
            }
            ReleaseReply::Held { number, rows } => {
                let (row_status, refused) = match rows {
                    Ok(rows) => (encode_statuses(&rows), None),
                    Err(refusal) => (Vec::new(), Some(refusal_message(&refusal))),
                };
                WireReply::Held(pb::RowsHeld { number, row_status, refused })
            }
            ReleaseReply::Piece(piece) => WireReply::Piece(piece.into()),
        };
        Self { reply: Some(reply) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use prost::Message;

    use super::*;

    fn name(name: &str) -> PartyName {
        PartyName::new(name).unwrap()
    }

    fn terms() -> SessionTerms {
        SessionTerms {
            session: [7; SESSION_BYTES],
            version: ModelVersion::new("m-1").unwrap(),
            active_party: name("a"),
            layout: ComputationLayout {
                passive: vec![name("p"), name("q")],
                computing: name("q"),
                calibration: false,
            },
            classes: 3,
            link: Link::Softmax,
            unit: 1.0,
            policy: "class_label".parse().unwrap(),
            vectors: vec![0.7, 0.2, 0.1],
            passive_fingerprint: "f1".into(),
        }
    }

    /// Each message is written, read, and written again.
    #[test]
    fn every_field_comes_back() {
        use RowStatus::{BudgetSpent, NotFound, Ok as Held};
        let piece = ComputationPiece { party: Some(name("p")), data: vec![1, 2].into() };
        let refusal = Refusal::unavailable("the store is away");
        let rows = RequestRows { number: 9, status: vec![Held, BudgetSpent, NotFound] };
        let commands = [
            ReleaseCommand::Begin(Box::new(terms())),
            ReleaseCommand::LookUp {
                number: 4,
                ids: RecordIds::new(["x", "y"]).unwrap(),
                tags: vec![1, 2, 3, u64::MAX],
            },
            ReleaseCommand::Compute(vec![rows]),
            ReleaseCommand::Piece(piece.clone()),
            ReleaseCommand::Refused { number: 5, reason: Some(refusal.clone()) },
            ReleaseCommand::Refused { number: 6, reason: None },
        ];
        for command in commands {
            let wire = pb::PrivateReleaseCommand::from(command);
            let read = ReleaseCommand::try_from(wire.clone()).unwrap();
            assert_eq!(pb::PrivateReleaseCommand::from(read), wire);
        }
        let masked: Vec<u8> = (0..48).collect();
        let replies = [
            ReleaseReply::Open {
                version: ModelVersion::new("m-1").unwrap(),
                audit_session: Some("s".into()),
            },
            ReleaseReply::Consent,
            ReleaseReply::Request(MaskedRequest {
                number: 3,
                ids: RecordIds::new(["x", "y"]).unwrap(),
                masked: masked.into(),
                request_id: "r".into(),
            }),
            ReleaseReply::Held { number: 8, rows: Ok(vec![Held, NotFound]) },
            ReleaseReply::Held { number: 8, rows: Err(refusal) },
            ReleaseReply::Piece(piece),
        ];
        for reply in replies {
            let wire = pb::PrivateReleaseReply::from(reply);
            let again = pb::PrivateReleaseReply::decode(&wire.encode_to_vec()[..]).unwrap();
            let read = ReleaseReply::try_from(again).unwrap();
            assert_eq!(pb::PrivateReleaseReply::from(read), wire);
        }
    }

    #[test]
    fn masked_numbers_are_as_many_as_classes_and_records() {
        let ids = RecordIds::new(["x", "y"]).unwrap();
        let numbers: Vec<u64> = (0..8).map(|at| u64::MAX - at).collect();
        let masked = write_numbers(&numbers);
        let request = MaskedRequest { number: 1, ids, masked, request_id: String::new() };
        assert_eq!(request.numbers(2).unwrap(), numbers);
        assert!(request.numbers(3).is_err());
        assert!(!format!("{request:?}").contains("255"));
    }

    #[test]
    fn terms_out_of_range_are_refused_by_their_field() {
        let good = pb::PrivateReleaseSession::from(terms());
        let cases = [
            ("session", pb::PrivateReleaseSession { session: vec![1].into(), ..good.clone() }),
            ("classes", pb::PrivateReleaseSession { classes: 17, ..good.clone() }),
            ("vectors", pb::PrivateReleaseSession { vectors: vec![1.0], ..good.clone() }),
            ("vectors", pb::PrivateReleaseSession { vectors: vec![f64::NAN; 3], ..good.clone() }),
            ("layout", pb::PrivateReleaseSession { layout: None, ..good.clone() }),
            ("policy", pb::PrivateReleaseSession { policy: None, ..good.clone() }),
            (
                "passive_fingerprint",
                pb::PrivateReleaseSession { passive_fingerprint: "\n".into(), ..good },
            ),
        ];
        for (field, message) in cases {
            let refused = SessionTerms::try_from(message).unwrap_err().to_string();
            assert!(refused.contains(field), "{refused}");
        }
        let empty = pb::PrivateReleaseCommand {
            command: Some(WireCommand::Compute(pb::ReleaseComputation::default())),
        };
        assert!(ReleaseCommand::try_from(empty).is_err());
    }
}
