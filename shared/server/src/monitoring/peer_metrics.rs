//! Metrics of the calls that a party makes to its peers: durations and failures.

use std::time::Instant;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use vfl_protocol::{Refusal, RefusalKind};

use super::calls::code_name;

/// The upper bounds of the latency buckets, in seconds: from half a millisecond to the longest
/// default time-out.
pub const LATENCY_BUCKETS: [f64; 15] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

type Labels<const N: usize> = [(&'static str, String); N];

/// Durations by label.
pub(super) type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// Returns an empty histogram of durations.
pub(super) fn durations() -> Histogram {
    Histogram::new(LATENCY_BUCKETS)
}

/// The metrics of the calls to all peers of one party.
#[derive(Debug, Clone)]
pub(super) struct AllPeerMetrics {
    seconds: Durations<Labels<2>>,
    failed: Family<Labels<3>, Counter>,
}

impl Default for AllPeerMetrics {
    fn default() -> Self {
        Self { seconds: Durations::new_with_constructor(durations), failed: Family::default() }
    }
}

impl AllPeerMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Time a peer took to answer a call, by the peer's name and the method";
        registry.register_with_unit("peer_call", help, Unit::Seconds, self.seconds.clone());
        let help = "Calls that a peer refused or did not answer, by its name, the method and the gRPC code";
        registry.register("peer_call_failures", help, self.failed.clone());
    }

    /// Returns the metrics of one peer. Its connection failures count from zero, so that the first
    /// one shows as a rise.
    pub(super) fn to(&self, peer: &str, methods: &[&'static str]) -> PeerMetrics {
        let hop = PeerMetrics { hops: self.clone(), peer: peer.to_owned() };
        for method in methods {
            for kind in [RefusalKind::Unavailable, RefusalKind::DeadlineExceeded] {
                drop(self.failed.get_or_create(&hop.failure(method, kind)));
            }
        }
        hop
    }
}

/// The metrics of the calls to one peer. The default belongs to no registry.
#[derive(Debug, Clone, Default)]
pub struct PeerMetrics {
    hops: AllPeerMetrics,
    peer: String,
}

impl PeerMetrics {
    /// Makes a call, and measures the time of its answer, or counts the failure. A cancelled call
    /// is not counted.
    ///
    /// # Errors
    /// The errors of the call.
    pub async fn time<T>(
        &self,
        method: &'static str,
        call: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Refusal> {
        let began = Instant::now();
        let answer = call.await;
        match &answer {
            Ok(_) => {
                let labels = [("peer", self.peer.clone()), ("method", method.to_owned())];
                self.hops.seconds.get_or_create(&labels).observe(began.elapsed().as_secs_f64());
            }
            Err(refusal) => {
                self.hops.failed.get_or_create(&self.failure(method, refusal.kind)).inc();
            }
        }
        answer
    }

    fn failure(&self, method: &str, kind: RefusalKind) -> Labels<3> {
        let code = code_name(kind.code()).to_owned();
        [("peer", self.peer.clone()), ("method", method.to_owned()), ("code", code)]
    }
}
