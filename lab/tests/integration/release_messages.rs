//! Valid messages of a session of private releases, to be damaged.

use prost::Message;
use vfl_core::model::Link;
use vfl_core::types::{ModelVersion, PartyName, RecordIds, RowStatus};
use vfl_protocol::pb;
use vfl_protocol::private_release::{
    MaskedRequest, ReleaseCommand, ReleaseReply, RequestRows, SessionTerms, TAG_WORDS,
    write_numbers,
};
use vfl_protocol::training::computation::{ComputationLayout, ComputationPiece};

/// What the active party of a session says.
pub fn replies(version: &str, k: usize, ids: &pb::RecordIds) -> Vec<Vec<u8>> {
    let version = ModelVersion::new(version.to_owned()).unwrap();
    let ids = RecordIds::try_from(ids.clone()).unwrap();
    let numbers = (k + TAG_WORDS) * ids.len();
    let masked = write_numbers(&vec![7; numbers]);
    let request = MaskedRequest { number: 1, ids, masked, request_id: "r".into() };
    let piece = ComputationPiece { party: None, data: vec![1; 9].into() };
    [
        ReleaseReply::Open { version, audit_session: None },
        ReleaseReply::Request(request),
        ReleaseReply::Piece(piece),
    ]
    .map(|reply| pb::PrivateReleaseReply::from(reply).encode_to_vec())
    .into()
}

/// What the coordinator says to the first passive party of a session.
pub fn commands(version: &str, k: usize, ids: &pb::RecordIds) -> Vec<Vec<u8>> {
    let name = |name: &str| PartyName::new(name).unwrap();
    let terms = SessionTerms {
        link: Link::Softmax,
        unit: 1.0,
        session: [1; 16],
        version: ModelVersion::new(version.to_owned()).unwrap(),
        active_party: name("active"),
        layout: ComputationLayout {
            passive: vec![name("passive-1"), name("passive-2")],
            computing: name("passive-1"),
            calibration: false,
        },
        classes: k,
        policy: "class_label".parse().unwrap(),
        vectors: Vec::new(),
        passive_fingerprint: "p-1".into(),
    };
    let ids = RecordIds::try_from(ids.clone()).unwrap();
    let (number, tags) = (1, vec![7; TAG_WORDS * ids.len()]);
    let status = vec![RowStatus::Ok; ids.len()];
    let piece = ComputationPiece { party: Some(name("active")), data: vec![1; 9].into() };
    [
        ReleaseCommand::Begin(Box::new(terms)),
        ReleaseCommand::LookUp { number, ids, tags },
        ReleaseCommand::Compute(vec![RequestRows { number, status }]),
        ReleaseCommand::Piece(piece),
        ReleaseCommand::Refused { number, reason: None },
    ]
    .map(|command| pb::PrivateReleaseCommand::from(command).encode_to_vec())
    .into()
}
