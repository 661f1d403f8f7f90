//! The call of OTLP that takes spans.

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::resource::v1::Resource;
use tonic::Status;
use tonic::transport::Channel;

use super::record::SpanRecord;
use super::wire::{request, resource};

/// The client of a collector, for the spans of one party.
pub(super) struct Exporter {
    client: TraceServiceClient<Channel>,
    resource: Resource,
}

impl Exporter {
    pub(super) fn new(channel: Channel, role: &str, party: &str) -> Self {
        Self { client: TraceServiceClient::new(channel), resource: resource(role, party) }
    }

    /// Sends spans, and returns how many of them the collector rejected, by its own account.
    pub(super) async fn export(&mut self, spans: Vec<SpanRecord>) -> Result<u64, Status> {
        let answer = self.client.export(request(&self.resource, spans)).await?;
        let partial = answer.into_inner().partial_success.unwrap_or_default();
        Ok(u64::try_from(partial.rejected_spans).unwrap_or_default())
    }
}
