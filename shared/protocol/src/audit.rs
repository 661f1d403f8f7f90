//! The messages that open and close an audit session.

use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_defense::Policy;

use super::convert::{WireError, require};
use super::pb;

/// A request to open a session in which an active party may ask for records under a policy.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// The version under audit.
    pub version: ModelVersion,
    /// The policy under audit.
    pub policy: Policy,
    /// The records that may be asked for.
    pub ids: RecordIds,
    /// The active party that may use the session.
    pub active_party: PartyName,
}

/// A session that was opened.
#[derive(Clone, PartialEq)]
pub struct OpenSession {
    /// The session's name, which is a secret.
    pub name: String,
    /// The number of rows that it answers.
    pub row_budget: u64,
    /// The promise of the policy.
    pub promise: Promise,
}

/// The promise of a policy about every release.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Promise {
    /// True if the arg max of a release is that of the scores.
    pub keeps_arg_max: bool,
    /// True if strictly larger scores stay strictly larger.
    pub keeps_ranking: bool,
    /// True if noise is drawn.
    pub randomised: bool,
    /// The most bits that the release of one record reveals, if the policy bounds it.
    pub bits: Option<f64>,
    /// The policy's guarantees and their limits, in sentences.
    pub notes: Vec<String>,
}

/// The summary that a session returns when it ends.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    /// The number of rows released.
    pub rows: u64,
    /// The number of distinct records released.
    pub records: u64,
    /// The cost of the policy, or why it is withheld.
    pub cost: Result<Cost, String>,
}

/// The cost of a policy: means over the first release of each record of a session, to three
/// significant digits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// D(undefended || released) in nats; `None` where a release is not a positive vector.
    pub kl_divergence: Option<f64>,
    /// Half the L1 distance; `None` for labels.
    pub total_variation: Option<f64>,
    /// Share of records whose arg max is that of the undefended scores.
    pub arg_max_kept: Option<f64>,
    /// The mean relative change of a number, in [0, 1]; `None` for scores of classes.
    pub mean_change: Option<f64>,
}

impl From<SessionRequest> for pb::OpenAuditRequest {
    fn from(request: SessionRequest) -> Self {
        let SessionRequest { version, policy, ids, active_party } = request;
        Self {
            model_version: version.as_str().to_owned(),
            policy: Some((&policy).into()),
            ids: Some(ids.into()),
            active_party: active_party.as_str().to_owned(),
        }
    }
}

impl TryFrom<pb::OpenAuditRequest> for SessionRequest {
    type Error = WireError;

    fn try_from(request: pb::OpenAuditRequest) -> Result<Self, WireError> {
        let pb::OpenAuditRequest { model_version, policy, ids, active_party } = request;
        Ok(Self {
            version: WireError::model_version(model_version)?,
            policy: Policy::try_from(&require("policy", policy)?)?,
            ids: RecordIds::try_from(require("ids", ids)?)?,
            active_party: WireError::party_name("active_party", active_party)?,
        })
    }
}

impl From<OpenSession> for pb::OpenAuditResponse {
    fn from(session: OpenSession) -> Self {
        let OpenSession { name, row_budget, promise } = session;
        let Promise { keeps_arg_max, keeps_ranking, randomised, bits, notes } = promise;
        let promise = pb::Promise { keeps_arg_max, keeps_ranking, randomised, bits, notes };
        Self { audit_session: name, row_budget, promise: Some(promise) }
    }
}

impl From<pb::OpenAuditResponse> for OpenSession {
    fn from(opened: pb::OpenAuditResponse) -> Self {
        let pb::OpenAuditResponse { audit_session, row_budget, promise } = opened;
        let pb::Promise { keeps_arg_max, keeps_ranking, randomised, bits, notes } =
            promise.unwrap_or_default();
        let promise = Promise { keeps_arg_max, keeps_ranking, randomised, bits, notes };
        Self { name: audit_session, row_budget, promise }
    }
}

impl From<SessionSummary> for pb::CloseAuditResponse {
    fn from(closed: SessionSummary) -> Self {
        let SessionSummary { rows, records, cost } = closed;
        match cost {
            Ok(Cost { kl_divergence, total_variation, arg_max_kept, mean_change }) => Self {
                rows,
                kl_divergence,
                total_variation,
                arg_max_kept,
                records,
                withheld: String::new(),
                mean_change,
            },
            Err(withheld) => Self { rows, records, withheld, ..Self::default() },
        }
    }
}

impl From<pb::CloseAuditResponse> for SessionSummary {
    fn from(closed: pb::CloseAuditResponse) -> Self {
        let pb::CloseAuditResponse {
            rows,
            kl_divergence,
            total_variation,
            arg_max_kept,
            records,
            withheld,
            mean_change,
        } = closed;
        let cost = match withheld.is_empty() {
            true => Ok(Cost { kl_divergence, total_variation, arg_max_kept, mean_change }),
            false => Err(withheld),
        };
        Self { rows, records, cost }
    }
}

#[cfg(test)]
mod tests {
    use std::array::from_fn;

    use super::*;
    use crate::convert::tests::comes_back;

    #[test]
    fn every_field_of_a_request_comes_back() {
        for options in ["fresh noise", "unbound shares"] {
            let policy = format!("gaussian_noise (sigma = 0.25) then class_label, {options}");
            comes_back::<_, SessionRequest>(pb::OpenAuditRequest {
                model_version: "m-1".into(),
                policy: Some((&policy.parse::<Policy>().unwrap()).into()),
                ids: Some(RecordIds::new(["a", "b"]).unwrap().into()),
                active_party: "clinic".into(),
            });
        }
    }

    #[test]
    fn every_field_of_an_opened_session_comes_back() {
        for at in 0..3 {
            let [keeps_arg_max, keeps_ranking, randomised] = from_fn(|flag| flag == at);
            let notes = vec!["one".into(), "two".into()];
            let bits = Some(2.5);
            let promise = pb::Promise { keeps_arg_max, keeps_ranking, randomised, bits, notes };
            comes_back::<_, OpenSession>(pb::OpenAuditResponse {
                audit_session: "session".into(),
                row_budget: 3,
                promise: Some(promise),
            });
        }
    }

    #[test]
    fn every_field_of_a_summary_comes_back() {
        let summary = pb::CloseAuditResponse {
            rows: 1,
            kl_divergence: Some(2.5),
            total_variation: Some(3.5),
            arg_max_kept: Some(4.5),
            records: 5,
            withheld: String::new(),
            mean_change: Some(6.5),
        };
        comes_back::<_, SessionSummary>(summary);
        let withheld = "too few records".into();
        let withheld = pb::CloseAuditResponse { rows: 1, records: 5, withheld, ..<_>::default() };
        comes_back::<_, SessionSummary>(withheld);
    }
}
