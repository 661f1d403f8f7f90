//! What a service says of itself to `grpc.health.v1`. The process as a whole is serving from its start on: it takes calls, also where
//! these are refused. A service by name may depend on more.

use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// Sets the health of services by name.
#[derive(Debug, Clone)]
pub struct Health(HealthReporter);

impl Health {
    pub(super) fn new(reporter: HealthReporter) -> Self {
        Self(reporter)
    }

    /// Says whether a service can be used, `package.Service`. A service that nothing was said of is NOT_FOUND.
    pub async fn set(&self, service: &'static str, serving: bool) {
        let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        self.0.set_service_status(service, status).await;
    }
}
