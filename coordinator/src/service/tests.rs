//! The room that a prediction takes, read off its message.

use super::*;

#[test]
fn all_fields_of_a_request_count() {
    let text = |bytes: usize| "x".repeat(bytes);
    let request = pb::PredictRequest {
        model_version: text(1),
        ids: Some(pb::RecordIds::new(text(20), vec![5, 20])),
        logit_shares: Some(pb::Matrix { rows: 0, columns: 0, values: vec![0; 300].into() }),
        audit_session: text(4000),
        request_id: text(50_000),
    };
    assert_eq!(bytes_of(&request, 6), 54_329);
    assert_eq!(bytes_of(&pb::PredictRequest::default(), 6), 0);
    // Two records of many classes: their answer is larger than the message.
    assert_eq!(bytes_of(&request, 65_536), 2 * (8 * 65_536 + 1));
}
