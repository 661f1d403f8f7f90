//! Keeps the health of the inference service: it follows the coordinator and the model in service.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use vfl_shared::service::Health;

use crate::predict::Predictor;

/// The service as `grpc.health.v1` names it.
const SERVICE: &str = "inference.GRPCInferenceService";
/// How often the coordinator is asked. One small message each time.
const INTERVAL: Duration = Duration::from_secs(2);

/// Says whether a model can be asked, until the service stops.
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
