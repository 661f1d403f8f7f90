//! The registry of one party, and the metrics that all parties have in common.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::calls::Calls;
use super::peer_metrics::{AllPeerMetrics, PeerMetrics};
use super::predictions::Predictions;

/// The metrics of one party. Clones share them. The default measures into a registry that nobody
/// reads.
#[derive(Clone, Default)]
pub struct Monitor {
    registry: Arc<Mutex<Registry>>,
    calls: Calls,
    hops: AllPeerMetrics,
    predictions: Predictions,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Monitor")
    }
}

impl Monitor {
    /// Creates the metrics of a party, with its role and name.
    #[must_use]
    pub fn new(role: &str, party: &str) -> Self {
        let monitor = Self {
            registry: Arc::new(Mutex::new(Registry::with_prefix("cloison"))),
            ..Self::default()
        };
        let build = Family::<[(&'static str, String); 2], Gauge>::default();
        let identity = format!("{role}/{party}");
        build
            .get_or_create(&[
                ("identity", identity),
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ])
            .set(1);
        monitor.register(|registry| {
            registry.register(
                "build_info",
                "1: who this party is, and the version of its program, are its labels",
                build,
            );
            monitor.calls.register(registry);
            monitor.hops.register(registry);
            monitor.predictions.register(registry, "", "predictions of the live service");
        });
        monitor
    }

    /// Registers the metrics of this party alone.
    pub fn register(&self, add: impl FnOnce(&mut Registry)) {
        add(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Registers a gauge that is read on demand: `read` returns its value for each value of its
    /// labels.
    pub fn reading(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> Vec<GaugeReading> + Send + Sync + 'static,
    ) {
        let read = Box::new(read);
        self.register(|registry| {
            registry.register_collector(Box::new(Readings { name, help, read }))
        });
    }

    /// Returns the current metrics in the text format of OpenMetrics 1.0.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing into a string does not fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }

    /// Returns the metrics of the calls that this party answers.
    pub(crate) fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Returns the metrics of the calls that this party makes to one peer; `methods` are those
    /// whose failures count from zero.
    #[must_use]
    pub fn hop(&self, peer: &str, methods: &[&'static str]) -> PeerMetrics {
        self.hops.to(peer, methods)
    }

    /// Returns the metrics of the live service's predictions.
    #[must_use]
    pub fn predictions(&self) -> &Predictions {
        &self.predictions
    }
}

/// A value and its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct GaugeReading {
    /// The names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value, in base units.
    pub value: f64,
}

impl From<f64> for GaugeReading {
    fn from(value: f64) -> Self {
        Self { labels: Vec::new(), value }
    }
}

struct Readings {
    name: &'static str,
    help: &'static str,
    read: Box<dyn Fn() -> Vec<GaugeReading> + Send + Sync>,
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Readings({})", self.name)
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = format!("{}.", self.help);
        let mut metric = encoder.encode_descriptor(self.name, &help, None, MetricType::Gauge)?;
        for GaugeReading { labels, value } in (self.read)() {
            ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
