//! The three services that are measured side by side: with a ledger, without a ledger, and the bare
//! echo.

use std::path::Path;
use std::time::Duration;

use prost::Message;
use vfl_protocol::pb;

use super::bench::{Bench, Hop, coordinator_at};
use super::measure::{Echo, Sample, Service};
use super::source::Source;

/// The running processes, and a client of each.
pub(super) struct Services {
    pub(super) bench: Bench,
    pub(super) service: Service,
    pub(super) no_ledger: Service,
    echo: Echo,
    _processes: [Hop; 2],
}

impl Services {
    /// Starts all processes.
    ///
    /// # Errors
    /// As [`Bench::with`].
    pub(super) async fn start(
        program: &Path,
        source: &Source,
        delay: Duration,
    ) -> anyhow::Result<Self> {
        let bench = Bench::with(program, None, source, delay).await?;
        let (without, echo) =
            (bench.another(program, "bare").await?, bench.another(program, "echo").await?);
        let credentials = bench.credentials("active")?;
        Ok(Self {
            service: Service::new(&credentials, &bench.coordinator()?)?,
            no_ledger: Service::new(&credentials, &coordinator_at(without.address())?)?,
            echo: Echo::new(&credentials, &coordinator_at(echo.address())?)?,
            bench,
            _processes: [without, echo],
        })
    }

    /// Returns the first `most` requests of `rows` records each.
    pub(super) fn requests(&self, rows: usize, most: usize) -> Vec<pb::PredictRequest> {
        (0..(self.bench.ids.len() / rows).min(most))
            .map(|i| self.bench.request(i * rows, (i + 1) * rows))
            .collect()
    }

    /// Returns the bytes of a request and of its answer.
    ///
    /// # Errors
    /// If the service does not answer.
    pub(super) async fn sizes(
        &self,
        request: &pb::PredictRequest,
    ) -> anyhow::Result<(usize, usize)> {
        Ok((request.encoded_len(), self.service.once(request.clone()).await?.encoded_len()))
    }

    /// Runs one round of unary calls: the echo, the service, the service without a ledger.
    ///
    /// # Errors
    /// If a call fails.
    pub(super) async fn unary(
        &self,
        requests: &[pb::PredictRequest],
        (question, answer): (usize, usize),
        in_flight: usize,
        time: Duration,
    ) -> anyhow::Result<[Sample; 3]> {
        Ok([
            self.echo.unary(question, answer, in_flight, time).await?,
            self.service.unary(requests, in_flight, time).await?,
            self.no_ledger.unary(requests, in_flight, time).await?,
        ])
    }

    /// Runs one round of streams.
    ///
    /// # Errors
    /// If a stream ends.
    pub(super) async fn stream(
        &self,
        requests: &[pb::PredictRequest],
        (question, answer): (usize, usize),
        time: Duration,
    ) -> anyhow::Result<[Sample; 3]> {
        Ok([
            self.echo.stream(question, answer, time).await?,
            self.service.stream(requests, time).await?,
            self.no_ledger.stream(requests, time).await?,
        ])
    }
}
