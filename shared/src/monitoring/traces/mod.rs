//! Spans of predictions, for a collector of OpenTelemetry: one trace of one prediction over all parties that trace.
//!
//! Each party has a [`Tracer`] of its own, as it has a `Monitor`. A span is opened where a request arrives ([`Tracer::serve`]) and
//! below it by [`within`] and [`asking`], which find the span under way by the task that runs them: code that is not asked within a
//! trace pays for a look at a variable of its task. What a span can hold is fixed by types: a [`Name`] of a closed list, times, a number
//! of rows, a model version, the name of a peer, a gRPC code. There is no way to put in a record id, a feature, a parameter, a score,
//! or any text.
//!
//! To other parties goes the [`Context`] alone, as `traceparent` of W3C Trace Context or in 25 bytes of a message. `tracestate` and
//! `baggage` are neither read nor sent.

mod config;
mod context;
mod export;
mod queue;
mod record;
mod sampler;
mod tracer;
mod wire;

pub use config::{Collector, TracesTable};
pub use context::{Context, WIRE_BYTES};
pub use export::Traces;
pub use record::Name;
pub use tracer::{Outcome, Tracer, asking, carried, carry, note_rows, note_version, within};
