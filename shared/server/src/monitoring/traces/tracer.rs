//! The tracer, which opens and ends spans.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use vfl_core::types::{ModelVersion, PartyName};
use vfl_protocol::Refusal;

use super::context::{Context, HEADER, SpanId};
use super::queue::Queue;
use super::record::{SpanAttributes, SpanName, SpanRecord};
use super::sampler::Sampler;

tokio::task_local! {
    /// The current span. Work that a task hands to another task is outside of it.
    static CURRENT: Arc<Span>;
}

/// The source of the spans of one party. Clones belong to the same party. The default makes no
/// spans.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Source>>);

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Tracer" } else { "Tracer(none)" })
    }
}

struct Source {
    sampler: Sampler,
    queue: Queue,
}

/// The outcome of traced work.
pub trait Outcome {
    /// Returns the gRPC code of the outcome.
    fn code(&self) -> Code;
}

impl<T> Outcome for Result<T, Refusal> {
    fn code(&self) -> Code {
        self.as_ref().map_or_else(|refusal| refusal.kind.code(), |_| Code::Ok)
    }
}

impl<T> Outcome for Result<T, Status> {
    fn code(&self) -> Code {
        self.as_ref().map_or_else(Status::code, |_| Code::Ok)
    }
}

impl Tracer {
    pub(super) fn new(sampler: Sampler, queue: Queue) -> Self {
        Self(Some(Arc::new(Source { sampler, queue })))
    }

    /// Runs the work of a request in a span, below the caller's span if the request has a context.
    pub async fn serve<T: Outcome>(
        &self,
        name: SpanName,
        parent: Option<Context>,
        work: impl Future<Output = T>,
    ) -> T {
        let Some(source) = &self.0 else { return work.await };
        let sampled = source.sampler.takes(parent);
        // An unrecorded request has a context too: parties further on must not begin a trace of
        // their own in its middle.
        let context = parent.map_or_else(|| Context::root(sampled), |parent| parent.next(sampled));
        let parent = parent.map(|parent| (parent.span, true));
        let span = Span::open(
            source.clone(),
            context,
            parent,
            name,
            Clock::read(),
            SpanAttributes::default(),
        );
        run(span, work).await
    }
}

/// A wall clock that does not jump: read once for all spans of one request at one party, so that
/// they nest.
#[derive(Debug, Clone, Copy)]
struct Clock {
    day: Duration,
    at: Instant,
}

impl Clock {
    fn read() -> Self {
        Self {
            day: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            at: Instant::now(),
        }
    }

    /// Returns the nanoseconds since 1970.
    fn now(&self) -> u64 {
        u64::try_from((self.day + self.at.elapsed()).as_nanos()).unwrap_or(u64::MAX)
    }
}

struct Span {
    source: Arc<Source>,
    context: Context,
    parent: Option<(SpanId, bool)>,
    name: SpanName,
    clock: Clock,
    began: u64,
    notes: Mutex<SpanAttributes>,
}

impl Span {
    fn open(
        source: Arc<Source>,
        context: Context,
        parent: Option<(SpanId, bool)>,
        name: SpanName,
        clock: Clock,
        notes: SpanAttributes,
    ) -> Arc<Self> {
        if context.sampled {
            source.sampler.spend();
        }
        Arc::new(Self {
            source,
            context,
            parent,
            name,
            clock,
            began: clock.now(),
            notes: Mutex::new(notes),
        })
    }

    /// Opens a span below this one, if it is recorded.
    fn below(&self, name: SpanName, peer: Option<&PartyName>) -> Option<Arc<Self>> {
        if !self.context.sampled {
            return None;
        }
        let (context, parent) = (self.context.next(true), Some((self.context.span, false)));
        let notes = SpanAttributes { peer: peer.cloned(), ..SpanAttributes::default() };
        Some(Self::open(self.source.clone(), context, parent, name, self.clock, notes))
    }

    fn end(&self, code: Code) {
        if !self.context.sampled {
            return;
        }
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        let Self { context, parent, name, began, .. } = *self;
        self.source.queue.put(SpanRecord {
            context,
            parent,
            name,
            began,
            ended: self.clock.now(),
            code,
            notes,
        });
    }
}

/// A guard that ends a span when it is dropped: as cancelled, if the work is not complete.
struct SpanGuard {
    span: Arc<Span>,
    code: Code,
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        self.span.end(self.code);
    }
}

async fn run<T: Outcome>(span: Arc<Span>, work: impl Future<Output = T>) -> T {
    let mut open = SpanGuard { span: span.clone(), code: Code::Cancelled };
    // Boxed, so that the caller's future, which nearly always has no span, does not reserve room
    // for it twice.
    let outcome = CURRENT.scope(span, Box::pin(work)).await;
    open.code = outcome.code();
    outcome
}

async fn below<T: Outcome>(
    name: SpanName,
    peer: Option<&PartyName>,
    work: impl Future<Output = T>,
) -> T {
    match CURRENT.try_with(|span| span.below(name, peer)).ok().flatten() {
        Some(span) => run(span, work).await,
        None => work.await,
    }
}

/// Runs work in a span below the current one; without a current span, only runs it.
pub async fn within<T: Outcome>(name: SpanName, work: impl Future<Output = T>) -> T {
    below(name, None, work).await
}

/// Like [`within`], for work that calls a peer, which the span names.
pub async fn asking<T: Outcome>(
    name: SpanName,
    peer: &PartyName,
    work: impl Future<Output = T>,
) -> T {
    below(name, Some(peer), work).await
}

/// Adds the context of the current span, if any, to a call. For calls to parties of the deployment
/// alone.
pub fn carry(metadata: &mut MetadataMap) {
    let header = CURRENT.try_with(|span| MetadataValue::try_from(span.context.header()));
    if let Ok(Ok(header)) = header {
        metadata.insert(HEADER, header);
    }
}

/// Returns the context of the current span for a message: 25 bytes, or none.
#[must_use]
pub fn carried() -> Vec<u8> {
    CURRENT.try_with(|span| span.context.to_wire()).unwrap_or_default()
}

fn note(add: impl FnOnce(&mut SpanAttributes)) {
    let _ = CURRENT.try_with(|span| {
        if span.context.sampled {
            add(&mut span.notes.lock().unwrap_or_else(PoisonError::into_inner));
        }
    });
}

/// Records the number of rows in the current span.
pub fn note_rows(rows: usize) {
    note(|notes| notes.rows = Some(rows));
}

/// Records the model version in the current span. It must be a version of this party: a caller may
/// have made up its own.
pub fn note_version(version: &ModelVersion) {
    note(|notes| notes.version = Some(version.clone()));
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::Receiver;

    use super::super::queue::{Counts, ROOM};
    use super::*;

    fn tracer(share: f64) -> (Tracer, Receiver<SpanRecord>) {
        let (queue, records) = Queue::new(Counts::default());
        (Tracer::new(Sampler::new(share, 1_000_000, Counts::default()), queue), records)
    }

    fn ended(records: &mut Receiver<SpanRecord>) -> Vec<SpanRecord> {
        std::iter::from_fn(|| records.try_recv().ok()).collect()
    }

    async fn fine() -> Result<(), Refusal> {
        Ok(())
    }

    #[tokio::test]
    async fn spans_nest_and_end_with_their_code() {
        let (tracer, mut records) = tracer(1.0);
        let peer = PartyName::new("bank").unwrap();
        let version = ModelVersion::new("m-1").unwrap();
        let mut told = None;
        let work = async {
            note_rows(3);
            note_version(&version);
            within(SpanName::LedgerCommit, fine()).await?;
            let asked = asking(SpanName::Ask, &peer, async {
                told = Context::from_wire(&carried());
                Err::<(), _>(Refusal::unavailable("gone"))
            });
            asked.await
        };
        assert!(tracer.serve(SpanName::Predict, None, work).await.is_err());
        let [commit, ask, root]: [SpanRecord; 3] = ended(&mut records).try_into().unwrap();
        assert_eq!(
            (root.name, root.parent, root.code),
            (SpanName::Predict, None, Code::Unavailable)
        );
        assert_eq!((root.notes.rows, root.notes.version.as_ref()), (Some(3), Some(&version)));
        for (span, code) in [(&commit, Code::Ok), (&ask, Code::Unavailable)] {
            assert_eq!((span.parent, span.code), (Some((root.context.span, false)), code));
            assert_eq!(span.context.trace, root.context.trace);
            assert!(
                root.began <= span.began && span.began <= span.ended && span.ended <= root.ended
            );
        }
        assert_eq!(told, Some(ask.context), "what the peer is told");
        assert_eq!(ask.notes, SpanAttributes { peer: Some(peer), ..SpanAttributes::default() });
        assert!(commit.ended <= ask.began);
    }

    #[tokio::test]
    async fn work_that_is_given_up_ends_its_spans_as_cancelled_from_the_inside_out() {
        let (tracer, mut records) = tracer(1.0);
        let silent =
            async { within(SpanName::Ask, std::future::pending::<Result<(), Refusal>>()).await };
        let mut call = Box::pin(tracer.serve(SpanName::Predict, None, silent));
        tokio::select! {
            biased;
            _ = &mut call => panic!("nobody answers"),
            () = std::future::ready(()) => {}
        }
        drop(call);
        let [inner, root]: [SpanRecord; 2] = ended(&mut records).try_into().unwrap();
        assert_eq!((inner.name, inner.code), (SpanName::Ask, Code::Cancelled));
        assert_eq!((root.name, root.code), (SpanName::Predict, Code::Cancelled));
        assert!(inner.ended <= root.ended);
    }

    #[tokio::test]
    async fn without_a_trace_nothing_is_recorded_and_nothing_sent() {
        let outside = || async {
            let mut metadata = MetadataMap::new();
            carry(&mut metadata);
            note_rows(1);
            within(SpanName::Release, async {
                Ok::<_, Refusal>((metadata.is_empty(), carried().is_empty()))
            })
            .await
        };
        assert_eq!(outside().await.unwrap(), (true, true));
        let parent = Some(Context::root(true));
        assert_eq!(
            Tracer::default().serve(SpanName::Predict, parent, outside()).await.unwrap(),
            (true, true)
        );
        // A party that traces, but not this request, says so to the next one.
        let (tracer, mut records) = tracer(0.0);
        let told = async { Ok::<_, Refusal>(Context::from_wire(&carried())) };
        let told = tracer.serve(SpanName::Predict, None, told).await.unwrap().unwrap();
        assert!(!told.sampled);
        assert!(ended(&mut records).is_empty());
    }

    #[tokio::test]
    async fn a_full_queue_drops_and_counts_and_never_waits() {
        let counts = Counts::default();
        let (queue, mut records) = Queue::new(counts.clone());
        let tracer = Tracer::new(Sampler::new(1.0, 1_000_000, counts.clone()), queue);
        for _ in 0..ROOM + 3 {
            tracer.serve(SpanName::Predict, None, fine()).await.unwrap();
        }
        let mut registry = prometheus_client::registry::Registry::default();
        counts.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert!(text.contains("trace_spans_dropped_total{reason=\"queue\"} 3\n"), "{text}");
        assert_eq!(ended(&mut records).len(), ROOM);
    }
}
