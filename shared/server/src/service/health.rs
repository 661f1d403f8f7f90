//! The health that a service reports through `grpc.health.v1`. The process as a whole serves from
//! its start: it accepts calls, even where they are refused. A service by name may depend on more.

use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The health of services by name.
#[derive(Debug, Clone)]
pub struct Health(HealthReporter);

impl Health {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self(reporter)
    }

    /// Sets whether a service, `package.Service`, can be used. A service that was never set is
    /// NOT_FOUND.
    pub async fn set(&self, service: &'static str, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.0.set_service_status(service, status).await;
    }
}
