//! Measurements of the coordinator beside those of all parties: audits, and the model in service.

use std::sync::Arc;

use vfl_server::monitoring::{GaugeReading, Monitor, Predictions};

use crate::catalogue::Catalogue;

/// The measurements of predictions, of the live service and of audits. The default belongs to no
/// registry.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    /// Predictions of the live service.
    pub live: Predictions,
    /// Predictions of audit sessions.
    pub audits: Predictions,
}

impl Meter {
    /// Creates measurements that a monitor reads.
    #[must_use]
    pub fn of(monitor: &Monitor) -> Self {
        let meter = Self { live: monitor.predictions().clone(), audits: Predictions::default() };
        monitor.register(|registry| {
            meter.audits.register(registry, "audit_", "predictions of audit sessions")
        });
        meter
    }
}

/// Registers readings of the model in service.
pub(crate) fn tell_model(monitor: &Monitor, catalogue: Arc<Catalogue>) {
    let models = catalogue.clone();
    monitor.reading("model_in_service", "1 if a model is in service, 0 if none is", move || {
        vec![GaugeReading::from(f64::from(u8::from(models.registry().current().is_some())))]
    });
    monitor.reading(
        "model_info",
        "1: the version of the model in service is its label",
        move || {
            let version = |model: &crate::registry::PublishedModel| {
                model.manifest.version.as_str().to_owned()
            };
            let current = catalogue.registry().current();
            current
                .map(|model| GaugeReading {
                    labels: vec![("version", version(&model))],
                    value: 1.0,
                })
                .into_iter()
                .collect()
        },
    );
}
