//! Predictions for this party's own clients. All protocols share one set of rules and one way to
//! the coordinator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vfl_core::types::RecordIds;
use vfl_protocol::{MAX_MESSAGE_BYTES, PredictionResponse, Refusal, RefusalKind, WireError};
use vfl_server::monitoring::traces::{Context, Outcome, Tracer};
use vfl_server::monitoring::{Predictions, traces};
use vfl_server::service::PeerIdentity;

use crate::scoring::{ModelDescription, Scorer};

/// The most records of one request; the command line sends more in several.
pub const MAX_SCORE_RECORDS: usize = 65_536;

/// The longest request id, in bytes. The id that goes on to the coordinator is a little longer.
const MAX_REQUEST_ID: usize = 100;

/// The longest time that the coordinator may take to say that a model is in service, if a caller
/// waits for a yes or no.
const READY_PATIENCE: Duration = Duration::from_secs(5);

/// The part of the service that predicts for this party's own clients.
#[derive(Debug)]
pub(crate) struct Predictor {
    identity: PeerIdentity,
    scorer: Arc<Scorer>,
    measured: Predictions,
    tracer: Tracer,
}

impl Predictor {
    /// Creates a predictor for the clients of `identity`, which counts its answers in `measured`
    /// and traces them with `tracer`.
    pub(crate) fn new(
        identity: PeerIdentity,
        scorer: Arc<Scorer>,
        measured: Predictions,
        tracer: Tracer,
    ) -> Self {
        Self { identity, scorer, measured, tracer }
    }

    /// Does the work of a client's call, as part of the client's trace if there is one.
    pub(crate) async fn traced<T: Outcome>(
        &self,
        parent: Option<Context>,
        work: impl Future<Output = T>,
    ) -> T {
        self.tracer.serve(traces::SpanName::Predict, parent, work).await
    }

    /// Checks that the caller is one of this party's own clients. The role is not enough: another
    /// active party of the deployment has no business with this one's records.
    pub(crate) fn own(&self, caller: &PeerIdentity) -> Result<(), Refusal> {
        if *caller == self.identity {
            return Ok(());
        }
        let message = format!(
            "this service is for {} alone, the caller is {}",
            self.identity.words(),
            caller.words()
        );
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }

    /// Returns the model in service, and checks that this party holds its part.
    ///
    /// # Errors
    /// FAILED_PRECONDITION if there is none; otherwise the coordinator's refusal.
    pub(crate) async fn model(&self) -> Result<ModelDescription, Refusal> {
        let model = self.scorer.describe().await?;
        self.scorer.share(&model.version)?;
        Ok(model)
    }

    /// Returns the model that can be asked now, if there is one. Takes a few seconds at most.
    pub(crate) async fn ready(&self) -> Option<ModelDescription> {
        tokio::time::timeout(READY_PATIENCE, self.model()).await.ok()?.ok()
    }

    /// Scores records under the model in service, if `admit` accepts it. Nothing is spent before
    /// that. If another model comes into service meanwhile, the records of a single message are
    /// asked for again under the new one: the refusal spent nothing.
    ///
    /// # Errors
    /// [`Refusal`] for too many records or too long a request id, and those of `admit` and the
    /// coordinator.
    pub(crate) async fn predict(
        &self,
        ids: &RecordIds,
        request_id: &str,
        admit: impl Fn(&ModelDescription) -> Result<(), Refusal>,
    ) -> Result<(ModelDescription, PredictionResponse), Refusal> {
        if request_id.len() > MAX_REQUEST_ID {
            return Err(
                WireError::Range { field: "request_id", reason: "at most 100 bytes" }.into()
            );
        }
        check_count(ids.len())?;
        let began = Instant::now();
        traces::note_rows(ids.len());
        let asked = async {
            let model = self.scorer.describe().await?;
            let score = async |model: &ModelDescription| {
                traces::note_version(&model.version);
                admit(model)?;
                self.scorer.score(model, ids, None, request_id).await
            };
            let refused = match score(&model).await {
                Ok(scored) => return Ok((model, scored)),
                Err(refused) => refused,
            };
            if refused.kind == RefusalKind::FailedPrecondition
                && self.scorer.is_one_message(&model, ids.len())
            {
                let now = self.scorer.describe().await?;
                if now.version != model.version {
                    let scored = score(&now).await?;
                    return Ok((now, scored));
                }
            }
            Err(refused)
        };
        let (model, scored) = asked.await.inspect_err(|refusal: &Refusal| {
            tracing::warn!(records = ids.len(), reason = %refusal, "records were not scored");
        })?;
        self.measured.answered(&scored.status, began.elapsed());
        Ok((model, scored))
    }
}

/// Returns the most records whose answer fits a message, for a model of these classes. At least 1.
pub(crate) fn most_records(classes: &[String]) -> usize {
    // Beside the scores: a status of one byte for each record, and once the names, version and
    // lengths.
    let once: usize = 4096 + classes.iter().map(|name| name.len() + 8).sum::<usize>();
    (MAX_MESSAGE_BYTES.saturating_sub(once) / (8 * classes.len() + 1)).clamp(1, MAX_SCORE_RECORDS)
}

/// Refuses records whose answer would be larger than a message, before anything is asked or spent.
///
/// # Errors
/// INVALID_ARGUMENT with the largest number that is allowed.
pub(crate) fn check_answer(records: usize, classes: &[String]) -> Result<(), Refusal> {
    let most = most_records(classes);
    if records <= most {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "the scores of {records} records and {} classes are larger than a message; ask for at most {most}",
        classes.len()
    )))
}

/// Checks the number of records of a request.
///
/// # Errors
/// INVALID_ARGUMENT unless there are 1 to [`MAX_SCORE_RECORDS`].
pub(crate) fn check_count(records: usize) -> Result<(), Refusal> {
    if (1..=MAX_SCORE_RECORDS).contains(&records) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "a request takes 1 to {MAX_SCORE_RECORDS} records, {records} came"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use vfl_protocol::pb;

    /// The largest number allowed fits for any number of classes; one sixteenth more would not.
    #[test]
    fn what_is_allowed_fits_a_message() {
        for k in [2, 31, 32, 100, 1000, 65_536] {
            let classes: Vec<String> = (0..k).map(|class| format!("class {class}")).collect();
            let bytes = |records: usize| {
                let values = vec![0u8; 8 * records * k].into();
                let matrix = pb::Matrix { rows: records as u32, columns: k as u32, values };
                let kind = Some(pb::release::Kind::Probabilities(matrix));
                let answer = pb::ScoreResponse {
                    model_version: "m".repeat(100),
                    class_names: classes.clone(),
                    row_status: vec![1; records],
                    release: Some(pb::Release { kind }),
                };
                answer.encoded_len()
            };
            let most = most_records(&classes);
            assert!(bytes(most) <= MAX_MESSAGE_BYTES, "{k}: {most}");
            assert!(
                most == MAX_SCORE_RECORDS || bytes(most + most / 16 + 1) > MAX_MESSAGE_BYTES,
                "{k}: {most}"
            );
            assert!(check_answer(most, &classes).is_ok());
            assert!(
                check_answer(most + 1, &classes)
                    .unwrap_err()
                    .to_string()
                    .contains(&most.to_string())
            );
        }
    }
}
