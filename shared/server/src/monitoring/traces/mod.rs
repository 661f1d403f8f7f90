//! Spans of predictions, for an OpenTelemetry collector: one trace for one prediction across all
//! parties that trace.
//!
//! Each party has a [`Tracer`] of its own, like its `Monitor`. A span is opened where a request
//! arrives ([`Tracer::serve`]) and below it by [`within`] and [`asking`], which find the current
//! span in a task-local variable: code outside a trace pays only for reading that variable. Types
//! limit what a span can hold: a [`SpanName`] of a closed list, times, a number of rows, a model
//! version, the name of a peer, a gRPC code. It cannot hold a record id, a feature, a parameter, a
//! score, or any free text.
//!
//! Other parties receive the [`Context`] alone, as `traceparent` of W3C Trace Context or as 25
//! bytes of a message. `tracestate` and `baggage` are neither read nor sent.

mod config;
mod context;
mod export;
#[cfg(feature = "otlp")]
mod otlp;
mod queue;
// The exporter alone reads what a record holds.
#[cfg_attr(not(feature = "otlp"), allow(dead_code))]
mod record;
mod sampler;
mod tracer;
#[cfg(feature = "otlp")]
mod wire;
#[cfg(not(feature = "otlp"))]
mod without_otlp;

pub use config::{Collector, TracesTable};
pub use context::{Context, WIRE_BYTES};
pub use export::Traces;
pub use record::SpanName;
pub use tracer::{Outcome, Tracer, asking, carried, carry, note_rows, note_version, within};
