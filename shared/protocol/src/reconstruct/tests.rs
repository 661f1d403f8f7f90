//! Tests of the messages of attacks: every field comes back.

use super::*;
use crate::convert::tests::comes_back;
use crate::pb::{self, attack_result as wire, reconstruct_event};

#[test]
fn an_attack_that_gives_no_reason_in_kind_has_not_run_all_the_same() {
    let read = |result: pb::AttackResult| AttackReport::try_from(result).unwrap().outcome;
    let not_run =
        read(pb::AttackResult { refusal: "why".into(), ..Default::default() }).err().unwrap();
    assert_eq!((not_run.why, not_run.reason.as_str()), (Refused::Unknown, "why"));
    assert!(read(pb::AttackResult::default()).is_ok());
}

#[test]
fn every_field_of_a_request_comes_back() {
    let spec = |name: &str| pb::AttackSpec {
        name: name.into(),
        settings: vec![pb::attack_spec::Setting { key: format!("{name}-key"), value: "1".into() }],
    };
    comes_back::<_, ReconstructionRequest>(pb::ReconstructRequest {
        audit_session: "session".into(),
        model_version: "m-1".into(),
        ids: Some(RecordIds::new(["a", "b"]).unwrap().into()),
        attacks: vec![spec("rcc2"), spec("esa")],
        seed: 2,
        queries: 3,
        auxiliary_ids: Some(RecordIds::new(["c"]).unwrap().into()),
        auxiliary_session: "auxiliary".into(),
        colluders: vec!["bank-a".into(), "bank-b".into()],
    });
}

#[test]
fn every_field_of_an_event_comes_back() {
    use reconstruct_event::Event;
    for event in [
        Event::Progress(pb::ReconstructProgress { done: 1, total: 2, stage: "scores".into() }),
        Event::Scores(pb::ReconstructedScores { rows: 3, accuracy: Some(0.5) }),
        Event::Result(result()),
    ] {
        let read = ReconstructEvent::try_from(event.clone()).unwrap();
        assert_eq!(pb::ReconstructEvent::from(read), pb::ReconstructEvent { event: Some(event) });
    }
}

/// The result of an attack that ran, with every field but those of a refusal.
fn result() -> pb::AttackResult {
    let block = |party: &str, value: f64| wire::Block {
        passive_party: party.into(),
        estimates: Some(pb::Matrix {
            rows: 1,
            columns: 1,
            values: value.to_le_bytes().to_vec().into(),
        }),
    };
    pb::AttackResult {
        attack: "rcc2".into(),
        blocks: vec![block("bank-a", 0.25), block("bank-b", 0.5)],
        refusal: String::new(),
        refused: 0,
        outcome: wire::Outcome::Centre.into(),
        rank: Some(1),
        unknowns: Some(2),
        condition_number: Some(3.0),
        nearest_consistent: 4,
        step_limit: 5,
        remarks: vec!["one".into(), "two".into()],
        certain: Some(6),
        releases: 7,
        estimated_scores: Some(wire::EstimatedScores {
            labelled: 8,
            seen: 9,
            own_scores: 10,
            records: 11,
        }),
        evidence: wire::Evidence::Cells.into(),
        auxiliary_records: 12,
        score_mismatch: Some(13.0),
        questions: Some(wire::Questions::Repeated(wire::RepeatedQuestions {
            queries: 14,
            distinct: 15,
        })),
    }
}

#[test]
fn every_field_of_a_result_comes_back() {
    let (outcomes, evidence, refusals) = (1..=12, 1..=4, 0..=7);
    assert!(wire::Outcome::try_from(13).is_err() && wire::Evidence::try_from(5).is_err());
    assert!(wire::Refused::try_from(8).is_err());
    for outcome in outcomes {
        comes_back::<_, AttackReport>(pb::AttackResult { outcome, ..result() });
    }
    for evidence in evidence {
        comes_back::<_, AttackReport>(pb::AttackResult { evidence, ..result() });
    }
    let chosen =
        wire::ChosenQuestions { questions: 16, asked: 17, refused: 18, gained: 19, records: 20 };
    let questions = Some(wire::Questions::Chosen(chosen));
    comes_back::<_, AttackReport>(pb::AttackResult { questions, ..result() });
    for refused in refusals {
        let pb::AttackResult {
            attack,
            remarks,
            releases,
            estimated_scores,
            auxiliary_records,
            questions,
            ..
        } = result();
        comes_back::<_, AttackReport>(pb::AttackResult {
            attack,
            remarks,
            releases,
            estimated_scores,
            auxiliary_records,
            questions,
            refused,
            refusal: "why".into(),
            ..Default::default()
        });
    }
}
