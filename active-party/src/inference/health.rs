//! Keeps the health status of the inference service, which follows the coordinator and the model in
//! service.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vfl_server::service::Health;

use crate::predict::Predictor;

/// The service's name in `grpc.health.v1`.
const SERVICE: &str = "inference.GRPCInferenceService";
/// The interval between calls to the coordinator, each of one small message.
const INTERVAL: Duration = Duration::from_secs(2);

/// Reports, until the service stops, if there is a model that can be asked.
pub(crate) async fn follow(predictor: Arc<Predictor>, health: Health, stop: CancellationToken) {
    health.set(SERVICE, false).await;
    let mut before = false;
    loop {
        let ready = tokio::select! {
            ready = predictor.ready() => ready.is_some(),
            () = stop.cancelled() => return,
        };
        if ready != before {
            tracing::info!(ready, "whether a model can be asked has changed");
            health.set(SERVICE, ready).await;
            before = ready;
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}
