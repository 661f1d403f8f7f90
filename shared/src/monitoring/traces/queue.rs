//! Spans that wait to be sent: as many as there is room for, and a count of the others.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use super::record::Record;

/// Spans that wait at most.
pub(super) const ROOM: usize = 2048;

/// Why a span is not at the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// There was no room.
    Queue,
    /// The collector did not take the message.
    Export,
    /// The collector took the message, and said that it did not take the span.
    Rejected,
}

impl Lost {
    const ALL: [Self; 3] = [Self::Queue, Self::Export, Self::Rejected];

    fn reason(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Export => "export",
            Self::Rejected => "rejected",
        }
    }
}

/// What became of one party's spans.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    exported: Counter,
    dropped: Family<[(&'static str, &'static str); 1], Counter>,
    limited: Counter,
}

impl Counts {
    pub(super) fn register(&self, registry: &mut Registry) {
        Lost::ALL.into_iter().for_each(|why| self.dropped_by(why, 0));
        registry.register("trace_spans_exported", "Spans that the collector took", self.exported.clone());
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

    pub(super) fn dropped_by(&self, why: Lost, spans: u64) {
        self.dropped.get_or_create(&[("reason", why.reason())]).inc_by(spans);
    }

    pub(super) fn limited(&self) {
        self.limited.inc();
    }
}

/// The end of the queue that spans are put in.
#[derive(Debug)]
pub(super) struct Queue {
    records: mpsc::Sender<Record>,
    counts: Counts,
}

impl Queue {
    /// A queue, and its other end.
    pub(super) fn new(counts: Counts) -> (Self, mpsc::Receiver<Record>) {
        let (records, taken) = mpsc::channel(ROOM);
        (Self { records, counts }, taken)
    }

    /// Puts a span in if there is room. Never waits.
    pub(super) fn put(&self, record: Record) {
        if self.records.try_send(record).is_err() {
            self.counts.dropped_by(Lost::Queue, 1);
        }
    }
}
