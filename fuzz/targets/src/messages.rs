//! Messages of the wire: whatever decodes goes through every checked conversion to a domain type, and back.

use prost::Message;
use vfl_attack::{Method, Settings};
use vfl_core::model::contract::start_of;
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::model::{ModelConfig, ModelSpec, Schedule, SubModelSpec, TrainingConfig, heads};
use vfl_core::types::{ConfidenceScores, Estimates, Logits, ModelVersion, PartyName, RecordIds};
use vfl_defense::Policy;
use vfl_protocol::training::messages::{PublishedVersion, ShareStored};
use vfl_protocol::{
    MAX_REASON_BYTES, PredictionRequest, ReleasedParameters, ReleasedSubModel, ShownModel,
    ShownParameters, audit, decode_columns, decode_statuses, encode_columns, encode_statuses,
    ledger, pb, reconstruct, scoring, stream_answer, stream_refusal,
};
use vfl_transform::TransformConfig;

use crate::input::bounded;
use crate::policies;

macro_rules! messages {
    ($($name:ident),* $(,)? ; inference: $($open:ident),* $(,)? ; later: $($later:ident),* $(,)?) => {
        /// All messages of the contract, by name. An input begins with the place of one, which is why new ones come last: the corpus
        /// stays what it is.
        pub const MESSAGES: &[(&str, crate::Target)] = &[
            $((stringify!($name), message::<pb::$name>),)*
            $((stringify!($open), message::<pb::inference::$open>),)*
            $((stringify!($later), message::<pb::$later>),)*
        ];
    };
}

messages![
    Matrix,
    RecordIds,
    Labels,
    Ciphertexts,
    Release,
    Policy,
    Defense,
    TrainingConfig,
    TrainingCommand,
    TrainingReply,
    TrainingStart,
    LabelledRecords,
    TrainingBegin,
    TrainingReady,
    TrainingStep,
    BatchShares,
    StoreShare,
    ShareStored,
    PublishShare,
    SharePublished,
    TrainingProgress,
    TrainingPublished,
    ScoreRequest,
    ScoreResponse,
    TrainJobRequest,
    TrainJobEvent,
    AttackSpec,
    ReconstructRequest,
    ReconstructEvent,
    ReconstructProgress,
    ReconstructedScores,
    AttackResult,
    DescribeModelRequest,
    DescribeModelResponse,
    PredictRequest,
    PredictResponse,
    DescribeLedgerRequest,
    DescribeLedgerResponse,
    OpenAuditRequest,
    OpenAuditResponse,
    Promise,
    CloseAuditRequest,
    CloseAuditResponse,
    DescribeFeaturesRequest,
    DescribeFeaturesResponse,
    ComputeLogitsRequest,
    ComputeLogitsResponse,
    ReleaseParametersRequest,
    ReleaseParametersResponse,
    EvaluateReconstructionRequest,
    EvaluateReconstructionResponse,
    EvaluationOpened,
    ShownParameters,
    ReconstructionError,
    PublishStart,
    PublishReply,
    PublishCommand,
    PublishJobRequest,
    PublishJobResponse,
    DescribeStagedRequest,
    DescribeStagedResponse,
    PublishStagedRequest,
    PublishStagedResponse,
    Estimates,
    Score,
    Scored,
    Gain,
    Halves,
    ShareRefusal,
    Transform,
    MetricFigure,
    LendSharesRequest,
    LendSharesResponse,
    ModelConfig,
    ModelSpec,
    SubModel,
    Privacy,
    ReleaseTopModelRequest,
    ReleaseTopModelResponse,
    AlignmentFrame,
    AlignJobRequest,
    AlignJobEvent,
    AlignmentProgress,
    AlignmentSummary,
    AttributeFigures,
    Removed;
    inference:
    ServerLiveRequest,
    ServerLiveResponse,
    ServerReadyRequest,
    ServerReadyResponse,
    ModelReadyRequest,
    ModelReadyResponse,
    ServerMetadataRequest,
    ServerMetadataResponse,
    ModelMetadataRequest,
    ModelMetadataResponse,
    ModelInferRequest,
    ModelInferResponse,
    InferParameter,
    InferTensorContents;
    later:
    TrainingConsent,
    ComputationLayout,
    PrivateComputation,
    ComputationPiece,
    PrivateComputed,
    PrivateReleaseReply,
    PrivateReleaseCommand,
    PrivateReleaseOpening,
    PrivateReleaseConsent,
    PrivateReleaseSession,
    PrivateReleaseRequest,
    RowsLookUp,
    RowsHeld,
    ReleaseComputation,
    RequestRows,
    RequestRefused,
];

/// The perceptron that messages show: two inputs, two hidden units, two outputs.
///
/// # Panics
/// Never: the settings are valid.
#[must_use]
pub fn shown_spec() -> SubModelSpec {
    let settings = SubModelSpec::parse_settings(r#"{"hidden":[2]}"#);
    let spec = settings.and_then(|settings| SubModelSpec::new("mlp", 2, settings));
    spec.unwrap_or_else(|e| unreachable!("{e}"))
}

/// The first byte is the place of a message in [`MESSAGES`], the others are the message.
///
/// # Panics
/// If a message that decodes is not the same when encoded and decoded again, or a conversion fails to come back.
pub fn messages(data: &[u8]) {
    if let Some((first, rest)) = bounded(data).split_first()
        && let Some((_, check)) = MESSAGES.get(usize::from(*first))
    {
        check(rest);
    }
}

fn message<M: Message + Default>(bytes: &[u8]) {
    let Ok(read) = M::decode(bytes) else { return };
    let written = read.encode_to_vec();
    // A negative number of 5 bytes is written with 10.
    assert!(
        written.len() <= 3 * bytes.len() + 16,
        "{} bytes became {}",
        bytes.len(),
        written.len()
    );
    let again =
        M::decode(&written[..]).unwrap_or_else(|e| panic!("what was encoded does not decode: {e}"));
    assert!(again.encode_to_vec() == written, "encoded twice, it differs");
    Walk::default().field(&written, 0);
}

/// Finds the parts of a message by its wire format alone, and tries every domain type on every part: what is added to the contract
/// is covered without a word here.
#[derive(Default)]
struct Walk {
    /// How many records the last batch of ids had: what a service expects of the matrices beside it.
    records: Option<usize>,
}

impl Walk {
    fn field(&mut self, bytes: &[u8], depth: u32) {
        self.domain_types(bytes);
        let mut rest = bytes;
        while depth < 4
            && let Some((part, after)) = next_part(rest)
        {
            if let Some(part) = part {
                self.field(part, depth + 1);
            }
            rest = after;
        }
    }

    fn domain_types(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if let Ok(ids) = pb::RecordIds::decode(bytes)
            && let Some(n) = record_ids(&ids)
        {
            self.records = Some(n);
        }
        if let Ok(matrix) = pb::Matrix::decode(bytes) {
            // A service expects as many rows as there are ids; without ids, the rows it says it has.
            let own = (matrix.rows <= 4096).then_some(matrix.rows as usize);
            for records in [own, self.records].into_iter().flatten() {
                columns(&matrix, records);
            }
        }
        if let Ok(release) = pb::Release::decode(bytes) {
            self::release(&release);
        }
        if let Ok(policy) = pb::Policy::decode(bytes) {
            self::policy(&policy);
        }
        if let Ok(wire) = pb::Transform::decode(bytes)
            && let Ok(transform) = TransformConfig::try_from(&wire)
        {
            let again = TransformConfig::try_from(&pb::Transform::from(&transform));
            assert!(again.is_ok_and(|again| again == transform), "{transform}");
        }
        if let Ok(wire) = pb::ShownParameters::decode(bytes)
            && let Ok(shown) = ShownParameters::try_from(&wire)
        {
            assert_eq!(pb::ShownParameters::from(&shown), wire, "{shown}");
        }
        if let Ok(wire) = pb::ReleaseParametersResponse::decode(bytes)
            && let Some((k, d)) =
                wire.weights.as_ref().map(|w| (w.rows, w.columns)).filter(|(k, _)| *k <= 4096)
            && let Ok(released) = ReleasedParameters::from_wire(&wire, k as usize, d as usize)
        {
            assert_eq!(
                pb::ReleaseParametersResponse::from(&released).encode_to_vec(),
                wire.encode_to_vec()
            );
        }
        if let Ok(wire) = pb::ReleaseParametersResponse::decode(bytes)
            && let Ok(model) = ReleasedSubModel::model_from_wire(&wire, &shown_spec(), 2)
        {
            assert_eq!((model.spec(), model.features()), (&shown_spec(), 2));
        }
        if let Ok(wire) = pb::PredictRequest::decode(bytes)
            && let Ok(request) = PredictionRequest::try_from(wire.clone())
        {
            // The shares may come back as 32-bit numbers: `columns` compares the numbers.
            let again = pb::PredictRequest::from(request);
            assert_eq!(
                pb::PredictRequest { logit_shares: again.logit_shares.clone(), ..wire },
                again
            );
        }
        if let Ok(wire) = pb::ComputeLogitsResponse::decode(bytes)
            && let Ok(Some(refusal)) = stream_refusal(&wire)
        {
            assert!(
                refusal.message.len() <= MAX_REASON_BYTES
                    && !refusal.message.contains(char::is_control)
            );
            assert_eq!(
                stream_refusal(&stream_answer(wire.question, Err(refusal.clone()))),
                Ok(Some(refusal))
            );
        }
        if let Ok(wire) = pb::ReleaseTopModelResponse::decode(bytes)
            && let Ok((shown, _)) = ShownModel::from_wire(&wire.top_model, &shown_spec(), 2)
        {
            assert_eq!(shown.to_wire(), wire.top_model);
        }
        if let Ok(config) = pb::TrainingConfig::decode(bytes) {
            training_config(&config);
        }
        if let Ok(model) = pb::ModelSpec::decode(bytes)
            && let Ok(model) = ModelSpec::try_from(&model)
        {
            assert_eq!(ModelSpec::try_from(&pb::ModelSpec::from(&model)).as_ref(), Ok(&model));
            // Whatever is not known or too large is refused: a top model has 64 MiB at most.
            let classes = model.top().unwrap_or(model.active()).width();
            if let Ok(head) = heads::start(&model, classes, start_of(1)) {
                assert_eq!(head.widths(), model.widths());
            }
        }
        if let Ok(model) = pb::ModelConfig::decode(bytes)
            && let Ok(model) = ModelConfig::try_from(&model)
        {
            assert_eq!(ModelConfig::try_from(&pb::ModelConfig::from(&model)).as_ref(), Ok(&model));
        }
        if let Ok(wire) = pb::Privacy::decode(bytes)
            && let Ok(privacy) = PrivacyStatement::try_from(&wire)
        {
            assert_eq!(pb::Privacy::from(&privacy), wire, "{privacy}");
        }
        if let Ok(wire) = pb::ShareStored::decode(bytes)
            && let Ok(stored) = ShareStored::try_from(wire.clone())
        {
            assert_eq!(pb::ShareStored::from(stored), wire);
        }
        if let Ok(wire) = pb::TrainingPublished::decode(bytes)
            && let Ok(published) = PublishedVersion::try_from(wire)
        {
            let again = PublishedVersion::try_from(pb::TrainingPublished::from(published.clone()));
            assert_eq!(again.as_ref().map(|again| &again.privacy), Ok(&published.privacy));
        }
        if let Ok(spec) = pb::AttackSpec::decode(bytes) {
            attack(&spec);
        }
        comes_back::<pb::DescribeLedgerResponse, Option<ledger::Summary>>(bytes);
        comes_back::<pb::OpenAuditRequest, audit::SessionRequest>(bytes);
        comes_back::<pb::CloseAuditResponse, audit::SessionSummary>(bytes);
        comes_back::<pb::ReconstructRequest, reconstruct::ReconstructionRequest>(bytes);
        comes_back::<pb::AttackResult, reconstruct::AttackReport>(bytes);
        comes_back::<pb::EvaluationOpened, scoring::ScoringInfo>(bytes);
        comes_back::<pb::Score, scoring::Question>(bytes);
        comes_back::<pb::Scored, scoring::ScoringReport>(bytes);
        if let Ok(text) = std::str::from_utf8(bytes) {
            if let Ok(version) = ModelVersion::new(text) {
                assert_eq!(version.as_str(), text);
            }
            if let Ok(name) = PartyName::new(text) {
                assert_eq!(name.as_str(), text);
            }
        }
        let statuses: Vec<i32> = bytes.iter().map(|byte| i32::from(*byte)).collect();
        if let Ok(read) = decode_statuses(&statuses, bytes.len()) {
            assert_eq!(encode_statuses(&read), statuses);
        }
    }
}

/// Asserts that the message written for an accepted one is accepted, and written the same again. A
/// field that the conversion drops is in neither: the tests of `vfl-protocol` fill every field.
fn comes_back<M: Message + Default + Clone + From<D>, D: TryFrom<M>>(bytes: &[u8]) {
    let Ok(read) = M::decode(bytes) else { return };
    let Ok(domain) = D::try_from(read) else { return };
    let written = M::from(domain);
    let again = D::try_from(written.clone()).map(M::from);
    assert!(again.is_ok_and(|again| again.encode_to_vec() == written.encode_to_vec()));
}

/// The next field of a message: its content if it is one with a length, and what follows. `None` at the end, or where it is not a
/// message.
fn next_part(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (key, rest) = varint(bytes)?;
    match key & 7 {
        0 => varint(rest).map(|(_, rest)| (None, rest)),
        1 => rest.get(8..).map(|rest| (None, rest)),
        2 => {
            let (length, rest) = varint(rest)?;
            let (part, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(part), rest))
        }
        5 => rest.get(4..).map(|rest| (None, rest)),
        _ => None,
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)? + 1;
    let (number, rest) = bytes.split_at(length);
    let value = number.iter().rev().fold(0u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, rest))
}

fn record_ids(wire: &pb::RecordIds) -> Option<usize> {
    let ids = RecordIds::try_from(wire.clone()).ok()?;
    assert_eq!(&pb::RecordIds::from(&ids), wire);
    let n = ids.len();
    assert_eq!(ids.iter().len(), n);
    let again = RecordIds::new(ids.iter())
        .unwrap_or_else(|e| panic!("accepted ids are refused one by one: {e}"));
    assert_eq!(again, ids);
    let backwards: Vec<usize> = (0..n).rev().collect();
    assert_eq!(ids.select(&backwards).select(&backwards), ids);
    let (head, tail) = (ids.slice(0, n / 2), ids.slice(n / 2, usize::MAX));
    assert!(head.iter().chain(tail.iter()).eq(ids.iter()));
    assert_eq!(pb::RecordIds::from(ids), *wire);
    Some(n)
}

fn columns(wire: &pb::Matrix, records: usize) {
    let Ok(columns) = decode_columns("matrix", wire, records, None) else { return };
    assert_eq!(columns.shape(), (wire.columns as usize, records));
    // A matrix has two forms: the same numbers come back, and in the same form the same bytes.
    let same = |again: &pb::Matrix| {
        assert_eq!(decode_columns("matrix", again, records, None).as_ref(), Ok(&columns));
        assert!(again.values.len() != wire.values.len() || again == wire);
    };
    same(&encode_columns(&Estimates::new(columns.clone())));
    let entries = Some(columns.nrows());
    let Ok(share) = vfl_protocol::read_share("matrix", Some(wire), records, entries) else {
        assert!(columns.nrows() < 1, "a matrix of a row or more is a logit share");
        return;
    };
    same(&share.clone().into());
    assert!(vfl_protocol::read_share("matrix", Some(wire), records + 1, entries).is_err());
    assert!(
        vfl_protocol::read_logits("matrix", Some(wire), records, entries.map(|k| k + 1)).is_err()
    );
    // The sum may overflow, the link function of what did not is a score.
    if let Some(logits) = Logits::sum(share.clone(), [share]).ok().filter(|z| z.classes() > 1) {
        let scores = ConfidenceScores::softmax(logits).into_matrix();
        ConfidenceScores::new(scores).unwrap_or_else(|e| panic!("softmax gave no scores: {e}"));
    }
}

fn release(wire: &pb::Release) {
    use pb::release::Kind;
    let (records, classes) = match &wire.kind {
        None => (0, 0),
        Some(Kind::Probabilities(m) | Kind::Numbers(m)) => (m.rows, m.columns),
        Some(Kind::Labels(labels)) => (labels.labels.len() as u32, labels.classes),
        Some(Kind::Ciphertexts(m)) => (m.rows, m.columns),
    };
    if records > 4096 {
        // As many as no request has: without columns they would take no byte.
        return;
    }
    let (records, classes) = (records as usize, classes as usize);
    let Ok(scores) = vfl_protocol::read_release(Some(wire), records, classes) else { return };
    assert_eq!((scores.records(), scores.classes()), (records, classes));
    assert_eq!(pb::Release::from(scores.clone()), *wire);
    let labels = scores.predicted_labels();
    assert_eq!(labels.len(), records);
    assert!(labels.iter().all(|label| (*label as usize) < classes.max(1)));
    assert!(vfl_protocol::read_release(Some(wire), records + 1, classes).is_err());
    assert!(vfl_protocol::read_release(Some(wire), records, classes + 1).is_err());
}

fn policy(wire: &pb::Policy) {
    let Ok(policy) = Policy::try_from(wire) else { return };
    // Parameters may come in any order, and at their default: the policy comes back, not the bytes.
    let written = pb::Policy::from(&policy);
    let again = Policy::try_from(&written)
        .unwrap_or_else(|e| panic!("a policy's own message is refused: {e}"));
    assert_eq!(again, policy);
    assert_eq!(pb::Policy::from(&again).encode_to_vec(), written.encode_to_vec());
    policies::exercise(&policy);
}

fn training_config(wire: &pb::TrainingConfig) {
    let Ok(config) = TrainingConfig::try_from(wire) else { return };
    // What is written for the default model is nothing.
    let written = pb::TrainingConfig::from(&config);
    assert_eq!(TrainingConfig::try_from(&written).as_ref(), Ok(&config));
    assert_eq!(pb::TrainingConfig { model: wire.model.clone(), ..written }, *wire);
    for records in [1u32, 2, 37] {
        let mut schedule = Schedule::new(&config, records as usize);
        for _ in 0..2 {
            let mut seen: Vec<u32> = schedule.next_epoch().concat();
            seen.extend(schedule.validation());
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..records), "an epoch sees every record once");
        }
    }
}

fn attack(wire: &pb::AttackSpec) {
    if let Ok(method) = wire.name.parse::<Method>() {
        assert_eq!(method.as_str(), wire.name);
    }
    let pairs = wire.settings.iter().map(|s| (s.key.as_str(), s.value.as_str()));
    if let Err(error) = Settings::read(pairs) {
        // What came is cut before it is shown.
        assert!(error.to_string().len() < 4096, "{error}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A message that is added to the contract and not to the list here fails this test.
    #[test]
    fn every_message_of_the_contract_is_listed() {
        let of = |dir| {
            std::fs::read_dir(format!("{}/../../proto/{dir}", env!("CARGO_MANIFEST_DIR"))).unwrap()
        };
        let mut declared = Vec::new();
        for file in of("vfl/v1").chain(of("inference")) {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let names = text
                .lines()
                .filter_map(|line| line.strip_prefix("message ")?.split([' ', '{']).next());
            declared.extend(names.map(str::to_owned));
        }
        let mut listed: Vec<&str> = MESSAGES.iter().map(|(name, _)| *name).collect();
        declared.sort_unstable();
        listed.sort_unstable();
        assert!(declared.len() > 60);
        assert_eq!(listed, declared);
    }

    #[test]
    fn parts_of_a_message_are_found() {
        let ids = pb::RecordIds::new("ab", vec![1, 2]);
        let matrix = pb::Matrix { rows: 2, columns: 1, values: vec![0; 16].into() };
        let wire =
            pb::PredictRequest { ids: Some(ids), logit_shares: Some(matrix), ..Default::default() }
                .encode_to_vec();
        let mut walk = Walk::default();
        walk.field(&wire, 0);
        assert_eq!(walk.records, Some(2));
    }
}
