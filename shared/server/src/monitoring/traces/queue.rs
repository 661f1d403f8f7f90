//! A bounded queue of spans to send, with a count of those that were dropped.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::record::SpanRecord;

/// The capacity of the queue, in spans.
pub(super) const ROOM: usize = 2048;

/// The reasons why a span did not reach the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DropReason {
    /// The queue was full.
    Queue,
    /// The collector did not take the message.
    Export,
    /// The collector accepted the message, and rejected the span.
    Rejected,
}

impl DropReason {
    const ALL: [Self; 3] = [Self::Queue, Self::Export, Self::Rejected];

    fn reason(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Export => "export",
            Self::Rejected => "rejected",
        }
    }
}

/// The counts of one party's spans by outcome.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    exported: Counter,
    dropped: Family<[(&'static str, &'static str); 1], Counter>,
    limited: Counter,
}

impl Counts {
    pub(super) fn register(&self, registry: &mut Registry) {
        DropReason::ALL.into_iter().for_each(|why| self.dropped_by(why, 0));
        registry.register(
            "trace_spans_exported",
            "Spans that the collector took",
            self.exported.clone(),
        );
        registry.register(
            "trace_spans_dropped",
            "Spans that are not at the collector, by reason",
            self.dropped.clone(),
        );
        let help = "Requests whose spans were not recorded because of spans_per_second";
        registry.register("trace_requests_limited", help, self.limited.clone());
    }

    pub(super) fn exported(&self, spans: u64) {
        self.exported.inc_by(spans);
    }

    pub(super) fn dropped_by(&self, why: DropReason, spans: u64) {
        self.dropped.get_or_create(&[("reason", why.reason())]).inc_by(spans);
    }

    pub(super) fn limited(&self) {
        self.limited.inc();
    }
}

/// The sending end of the queue.
#[derive(Debug)]
pub(super) struct Queue {
    records: mpsc::Sender<SpanRecord>,
    counts: Counts,
}

impl Queue {
    /// Creates a queue, and returns both of its ends.
    pub(super) fn new(counts: Counts) -> (Self, mpsc::Receiver<SpanRecord>) {
        let (records, taken) = mpsc::channel(ROOM);
        (Self { records, counts }, taken)
    }

    /// Adds a span if there is room. Never waits.
    pub(super) fn put(&self, record: SpanRecord) {
        if self.records.try_send(record).is_err() {
            self.counts.dropped_by(DropReason::Queue, 1);
        }
    }
}
