//! Conversion of spans to OTLP messages.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use tonic::Code;

use super::record::{Kind, SpanAttributes, SpanName, SpanRecord};

/// The bits of `Span.flags`: the W3C sampled flag, that the parent's process is known, and that it
/// is another process.
const SAMPLED: u32 = 1;
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

/// Describes the sender of spans: a party by its role and name.
pub(super) fn resource(role: &str, party: &str) -> Resource {
    let attributes = vec![
        text("service.name", &format!("cloison-{role}")),
        text("service.instance.id", party),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("cloison.role", role),
        text("cloison.party", party),
    ];
    Resource { attributes, ..Resource::default() }
}

/// Creates the export message of spans.
pub(super) fn request(resource: &Resource, records: Vec<SpanRecord>) -> ExportTraceServiceRequest {
    let scope =
        InstrumentationScope { name: "cloison".to_owned(), ..InstrumentationScope::default() };
    let spans = records.into_iter().map(span).collect();
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }];
    let spans =
        ResourceSpans { resource: Some(resource.clone()), scope_spans, schema_url: String::new() };
    ExportTraceServiceRequest { resource_spans: vec![spans] }
}

fn span(record: SpanRecord) -> Span {
    // Every field is named, so that a new field of a record does not compile unless it is added
    // here.
    let SpanRecord { context, parent, name, began, ended, code, notes } = record;
    let SpanAttributes { rows, version, peer } = notes;
    let named = match &peer {
        Some(peer) if name == SpanName::Ask => format!("{} {peer}", name.words()),
        _ => name.words().to_owned(),
    };
    let kind = match name.kind() {
        Kind::Internal => SpanKind::Internal,
        Kind::Server => SpanKind::Server,
        Kind::Client => SpanKind::Client,
    };
    let mut attributes =
        vec![attribute("rpc.grpc.status_code", Value::IntValue(i64::from(code as i32)))];
    attributes.extend(rows.map(|rows| attribute("cloison.rows", Value::IntValue(rows as i64))));
    attributes.extend(version.map(|version| text("cloison.model_version", version.as_str())));
    attributes.extend(peer.map(|peer| text("cloison.peer", peer.as_str())));
    let remote = parent.is_some_and(|(_, remote)| remote);
    let status = match code {
        Code::Ok => StatusCode::Unset,
        // Without a message, which could contain anything.
        _ => StatusCode::Error,
    };
    Span {
        trace_id: context.trace.to_vec(),
        span_id: context.span.to_vec(),
        parent_span_id: parent.map(|(span, _)| span.to_vec()).unwrap_or_default(),
        flags: SAMPLED | PARENT_KNOWN | if remote { PARENT_REMOTE } else { 0 },
        name: named,
        kind: kind.into(),
        start_time_unix_nano: began,
        end_time_unix_nano: ended,
        attributes,
        status: Some(Status { code: status.into(), ..Status::default() }),
        ..Span::default()
    }
}
