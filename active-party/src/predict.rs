//! Predictions for this party's own clients. All protocols share one set of rules and one way to
//! the coordinator.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vfl_core::types::{FeatureBlock, ModelVersion, RecordIds, ReleasedScores, RowStatus};
use vfl_protocol::{MAX_MESSAGE_BYTES, PredictionResponse, Refusal, RefusalKind, WireError};
use vfl_server::monitoring::traces::{Context, Outcome, Tracer};
use vfl_server::monitoring::{Predictions, traces};
use vfl_server::service::{Credentials, PeerIdentity, TlsError};

use crate::fallback::{Fallback, FallbackService, FallbackSource, OwnModel, ServiceAnswer, fill};
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
    fallback: Option<ReadyFallback>,
    measured: Predictions,
    tracer: Tracer,
}

/// The fallback of a running service.
#[derive(Debug)]
pub(crate) struct ReadyFallback {
    rules: Arc<Fallback>,
    /// The client of another service, where that is the fallback.
    service: Option<FallbackService>,
}

impl ReadyFallback {
    /// Makes a fallback ready to answer.
    ///
    /// # Errors
    /// [`TlsError`] if the address of a service is malformed.
    pub(crate) fn new(
        rules: Arc<Fallback>,
        credentials: &Credentials,
        timeout: Duration,
    ) -> Result<Self, TlsError> {
        let service = match &rules.source {
            FallbackSource::Own(_) => None,
            FallbackSource::Service(peer) => {
                // It asks its coordinator twice: for the model, and for the scores.
                Some(FallbackService::new(credentials, peer.clone(), 2 * timeout)?)
            }
        };
        Ok(Self { rules, service })
    }
}

/// A client's request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientRequest<'a> {
    /// The records, 1 to [`MAX_SCORE_RECORDS`].
    pub(crate) ids: &'a RecordIds,
    /// The client's name for the request, or empty.
    pub(crate) request_id: &'a str,
    /// True if the client is a service of this party, whose fallback this one is: then no further
    /// service is asked.
    pub(crate) is_fallback: bool,
    /// True if the client takes an answer without the version of a model, as a fallback gives while
    /// the coordinator is away.
    pub(crate) any_version: bool,
}

/// The answer to a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Prediction {
    /// The version of the model in service; `None` if the coordinator could not be asked.
    pub(crate) version: Option<ModelVersion>,
    /// The names of the classes, or of the number.
    pub(crate) class_names: Vec<String>,
    /// The status of each record.
    pub(crate) status: Vec<RowStatus>,
    /// A row, or a label, for every record that is scored, in order.
    pub(crate) released: ReleasedScores,
}

impl Prediction {
    /// Returns the version as text, empty if it is not known.
    pub(crate) fn version(&self) -> &str {
        self.version.as_ref().map_or("", ModelVersion::as_str)
    }
}

impl Predictor {
    /// Creates a predictor for the clients of `identity`, which counts its answers in `measured`
    /// and traces them with `tracer`.
    pub(crate) fn new(
        identity: PeerIdentity,
        scorer: Arc<Scorer>,
        fallback: Option<ReadyFallback>,
        (measured, tracer): (Predictions, Tracer),
    ) -> Self {
        Self { identity, scorer, fallback, measured, tracer }
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
    /// asked for again under the new one: the refusal spent nothing. The fallback, if there is one,
    /// answers in its declared cases.
    ///
    /// # Errors
    /// [`Refusal`] for too many records or too long a request id, and those of `admit` and the
    /// coordinator.
    pub(crate) async fn predict(
        &self,
        request: ClientRequest<'_>,
        admit: impl Fn(&ModelDescription) -> Result<(), Refusal>,
    ) -> Result<Prediction, Refusal> {
        let ClientRequest { ids, request_id, .. } = request;
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
        let answered = match asked.await {
            Ok((model, scored)) => Ok(self.filled(model, scored, &request).await),
            Err(refusal) => self.in_place_of(refusal, &request).await,
        };
        let prediction = answered.inspect_err(|refusal: &Refusal| {
            tracing::warn!(records = ids.len(), reason = %refusal, "records were not scored");
        })?;
        self.measured.answered(&prediction.status, began.elapsed());
        Ok(prediction)
    }

    /// Returns the fallback for a request, if there is one.
    fn fallback(&self, request: &ClientRequest<'_>) -> Option<(&Fallback, FallbackAnswerer<'_>)> {
        let ready = self.fallback.as_ref()?;
        let answerer = match (&ready.rules.source, &ready.service) {
            (FallbackSource::Own(model), _) => FallbackAnswerer::Own(model),
            (FallbackSource::Service(_), Some(service)) if !request.is_fallback => {
                FallbackAnswerer::Service(service)
            }
            (FallbackSource::Service(_), _) => return None,
        };
        Some((&*ready.rules, answerer))
    }

    /// Adds the fallback's answers about records that another party does not hold.
    async fn filled(
        &self,
        model: ModelDescription,
        scored: PredictionResponse,
        request: &ClientRequest<'_>,
    ) -> Prediction {
        let PredictionResponse { version, mut status, mut released } = scored;
        let fallback = self.fallback(request).filter(|(rules, _)| rules.answers_missing());
        let has_room = !matches!(released, ReleasedScores::Ciphertexts(_));
        if let Some((_, answerer)) = fallback.filter(|_| has_room)
            && status.contains(&RowStatus::NotFound)
        {
            // The coordinator's answer is paid for: it goes out in any case.
            let filled = self.fill(answerer, request, &model, (&mut status, &released));
            match filled.await {
                Ok(filled) => released = filled,
                Err(reason) => tracing::warn!(%reason, "the fallback has no answer"),
            }
        }
        Prediction { version: Some(version), class_names: model.class_names, status, released }
    }

    /// Returns the release with the fallback's answers about records that are not found.
    async fn fill(
        &self,
        answerer: FallbackAnswerer<'_>,
        request: &ClientRequest<'_>,
        model: &ModelDescription,
        (status, released): (&mut [RowStatus], &ReleasedScores),
    ) -> Result<ReleasedScores, Refusal> {
        let ids = request.ids;
        let missing: Vec<usize> =
            (0..ids.len()).filter(|&at| status[at] == RowStatus::NotFound).collect();
        match answerer {
            FallbackAnswerer::Own(own) => {
                check_classes(own.class_names(), &model.class_names)?;
                let (held, block) = self.own_features(&ids.select(&missing)).await?;
                let rows: Vec<usize> = held.iter().map(|&at| missing[at]).collect();
                fill((status, released), &rows, &own.scores(block.matrix())?)
            }
            FallbackAnswerer::Service(service) => {
                let answer = service.predict(&ids.select(&missing), request.request_id).await?;
                check_classes(&answer.class_names, &model.class_names)?;
                let scored = answer.status.iter().zip(&missing);
                let rows = scored.clone().filter(|(status, _)| status.is_scored());
                let rows: Vec<usize> = rows.map(|(_, &row)| row).collect();
                let filled = fill((status, released), &rows, &answer.released)?;
                // A record that the other service refuses has its reason.
                for (why, &row) in scored.filter(|(why, _)| !why.is_scored()) {
                    status[row] = *why;
                }
                Ok(filled)
            }
        }
    }

    /// Returns the fallback's answers in place of a refusal, or the refusal.
    async fn in_place_of(
        &self,
        refusal: Refusal,
        request: &ClientRequest<'_>,
    ) -> Result<Prediction, Refusal> {
        let fallback = self.fallback(request).filter(|(rules, _)| rules.answers(&refusal));
        let Some((rules, answerer)) = fallback.filter(|_| request.any_version) else {
            return Err(refusal);
        };
        let answer = match answerer {
            FallbackAnswerer::Own(own) => self.alone(own, request.ids).await,
            FallbackAnswerer::Service(service) => {
                let answer = service.predict(request.ids, request.request_id).await;
                let answer = answer.and_then(|answer| {
                    check_classes(&answer.class_names, &rules.class_names).map(|()| answer)
                });
                answer.map(|mut answer| {
                    let ok = answer.status.iter_mut().filter(|status| **status == RowStatus::Ok);
                    ok.for_each(|status| *status = RowStatus::Fallback);
                    let ServiceAnswer { class_names, status, released } = answer;
                    Prediction { version: None, class_names, status, released }
                })
            }
        };
        match answer {
            Ok(prediction) if prediction.status.contains(&RowStatus::Fallback) => {
                let records = prediction.status.iter().filter(|s| s.is_scored()).count();
                tracing::warn!(records, reason = %refusal, "the fallback answers");
                Ok(prediction)
            }
            Ok(_) => Err(refusal),
            Err(reason) => {
                tracing::warn!(%reason, "the fallback has no answer");
                Err(refusal)
            }
        }
    }

    /// Returns the answers of this party's own model alone.
    async fn alone(&self, own: &OwnModel, ids: &RecordIds) -> Result<Prediction, Refusal> {
        check_answer(ids.len(), own.class_names())?;
        let (held, block) = self.own_features(ids).await?;
        let released = own.alone(block.matrix())?;
        let mut status = vec![RowStatus::NotFound; ids.len()];
        held.iter().for_each(|&at| status[at] = RowStatus::Fallback);
        let class_names = own.class_names().to_vec();
        Ok(Prediction { version: None, class_names, status, released })
    }

    /// Returns the positions of the records that this party holds, and their features.
    async fn own_features(&self, ids: &RecordIds) -> Result<(Vec<usize>, FeatureBlock), Refusal> {
        let found = self.scorer.features.lookup(ids).await;
        let found = found.map_err(|e| vfl_features::features::refusal(&e))?;
        Ok((found.held, found.block))
    }
}

/// Checks the classes of a fallback's answers, which have to be those of the others in their order.
fn check_classes(got: &[String], expected: &[String]) -> Result<(), Refusal> {
    if got == expected {
        return Ok(());
    }
    let message = format!("its answers are of the classes {got:?}, expected {expected:?}");
    Err(Refusal::precondition(message))
}

/// The origin of a fallback's answers, ready to be asked.
#[derive(Clone, Copy)]
enum FallbackAnswerer<'a> {
    Own(&'a OwnModel),
    Service(&'a FallbackService),
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
