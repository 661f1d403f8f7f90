//! Calls the service and the echo, and measures their times.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status};
use vfl_protocol::pb;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_server::service::{Credentials, Peer, channel};

use super::echo::{Payload, STREAM, UNARY};

/// The messages of a stream in flight at once.
const WINDOW: usize = 32;
/// The time before the measurement starts.
const WARM_UP: Duration = Duration::from_millis(300);

/// The result of one measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Messages answered per second.
    pub(super) per_second: f64,
    /// The median time to the answer, in microseconds.
    pub(super) p50_us: f64,
    /// The 99th percentile of the time to the answer, in microseconds.
    pub(super) p99_us: f64,
}

fn sample(mut times: Vec<f64>, elapsed: Duration) -> Sample {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or(0.0);
    Sample {
        per_second: times.len() as f64 / elapsed.as_secs_f64(),
        p50_us: at(0.5),
        p99_us: at(0.99),
    }
}

/// Returns the median of values, of which there is at least one.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Keeps `in_flight` calls in flight for a time.
pub(super) async fn drive<F, C>(in_flight: usize, time: Duration, call: C) -> Result<Sample, Status>
where
    C: Fn(usize) -> F + Clone,
    F: Future<Output = Result<(), Status>>,
{
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let (from, until) = (started + WARM_UP, started + WARM_UP + time);
    let lanes = (0..in_flight).map(|_| {
        let (call, next) = (call.clone(), next.clone());
        async move {
            let mut times = Vec::new();
            loop {
                let asked = Instant::now();
                if asked >= until {
                    return Ok::<_, Status>(times);
                }
                call(next.fetch_add(1, Ordering::Relaxed)).await?;
                if asked >= from {
                    times.push(asked.elapsed().as_secs_f64() * 1e6);
                }
            }
        }
    });
    let times = try_join_all(lanes).await?.concat();
    Ok(sample(times, time))
}

/// A client of the measured service.
pub(super) struct Service {
    client: CoordinatorClient<Channel>,
}

impl Service {
    pub(super) fn new(credentials: &Credentials, peer: &Peer) -> anyhow::Result<Self> {
        Ok(Self { client: CoordinatorClient::new(channel(credentials, peer)?) })
    }

    /// Makes one prediction, to learn the size of an answer.
    pub(super) async fn once(
        &self,
        request: pb::PredictRequest,
    ) -> anyhow::Result<pb::PredictResponse> {
        let answer = self.client.clone().predict(request).await;
        let answer = answer.map_err(|s| anyhow::anyhow!("{}", s.message()))?.into_inner();
        anyhow::ensure!(answer.row_status.iter().all(|&s| s == 1), "not all rows were scored");
        Ok(answer)
    }

    pub(super) async fn unary(
        &self,
        requests: &[pb::PredictRequest],
        in_flight: usize,
        time: Duration,
    ) -> anyhow::Result<Sample> {
        let call = |i: usize| {
            let mut client = self.client.clone();
            let request = requests[i % requests.len()].clone();
            async move { client.predict(request).await.map(drop) }
        };
        Ok(drive(in_flight, time, call).await?)
    }

    pub(super) async fn stream(
        &self,
        requests: &[pb::PredictRequest],
        time: Duration,
    ) -> anyhow::Result<Sample> {
        let mut client = self.client.clone();
        let (questions, outgoing) = mpsc::channel(WINDOW);
        let mut answers = client.predict_stream(ReceiverStream::new(outgoing)).await?.into_inner();
        let question = |i: usize| requests[i % requests.len()].clone();
        pump(time, None, questions, question, async || answers.message().await).await
    }

    /// Streams as [`Service::stream`], with at most `rate` messages per second.
    pub(super) async fn paced(
        &self,
        requests: &[pb::PredictRequest],
        rate: f64,
        time: Duration,
    ) -> anyhow::Result<Sample> {
        let mut client = self.client.clone();
        let (questions, outgoing) = mpsc::channel(WINDOW);
        let mut answers = client.predict_stream(ReceiverStream::new(outgoing)).await?.into_inner();
        let question = |i: usize| requests[i % requests.len()].clone();
        pump(time, Some(rate), questions, question, async || answers.message().await).await
    }
}

/// Keeps a window of messages in flight on a stream for a time, and starts at most `rate` of them a
/// second.
async fn pump<Q, A>(
    time: Duration,
    rate: Option<f64>,
    questions: mpsc::Sender<Q>,
    question: impl Fn(usize) -> Q,
    mut answer: impl AsyncFnMut() -> Result<Option<A>, Status>,
) -> anyhow::Result<Sample> {
    let started = Instant::now();
    let (from, until) = (started + WARM_UP, started + WARM_UP + time);
    let mut asked = std::collections::VecDeque::with_capacity(WINDOW);
    let mut times = Vec::new();
    let mut i = 0;
    loop {
        while asked.len() < WINDOW && Instant::now() < until {
            let due = rate.map(|rate| started + Duration::from_secs_f64(i as f64 / rate));
            match due.filter(|due| *due > Instant::now()) {
                // There are answers to read in the meantime.
                Some(_) if !asked.is_empty() => break,
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => {}
            }
            asked.push_back(Instant::now());
            questions.send(question(i)).await.map_err(|_| anyhow::anyhow!("the stream ended"))?;
            i += 1;
        }
        let Some(at) = asked.pop_front() else { break };
        answer().await?.ok_or_else(|| anyhow::anyhow!("the stream ended"))?;
        let now = Instant::now();
        if now >= from && now < until {
            times.push((now - at).as_secs_f64() * 1e6);
        }
    }
    Ok(sample(times, time))
}

/// A client of the bare echo.
pub(super) struct Echo {
    grpc: Grpc<Channel>,
}

fn payload(question: usize, answer: usize) -> Payload {
    // The two field keys and lengths count in the message's size.
    let filling = Bytes::from(vec![0; question.saturating_sub(8)]);
    Payload { answer_bytes: answer.saturating_sub(4) as u32, filling }
}

impl Echo {
    pub(super) fn new(credentials: &Credentials, peer: &Peer) -> anyhow::Result<Self> {
        Ok(Self { grpc: Grpc::new(channel(credentials, peer)?) })
    }

    pub(super) async fn unary(
        &self,
        question: usize,
        answer: usize,
        in_flight: usize,
        time: Duration,
    ) -> anyhow::Result<Sample> {
        let message = payload(question, answer);
        let call = |_| {
            let (mut grpc, message) = (self.grpc.clone(), message.clone());
            async move {
                grpc.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
                let codec = tonic_prost::ProstCodec::<Payload, Payload>::default();
                let path = http::uri::PathAndQuery::from_static(UNARY);
                grpc.unary(Request::new(message), path, codec).await.map(drop)
            }
        };
        Ok(drive(in_flight, time, call).await?)
    }

    pub(super) async fn stream(
        &self,
        question: usize,
        answer: usize,
        time: Duration,
    ) -> anyhow::Result<Sample> {
        let mut grpc = self.grpc.clone();
        grpc.ready().await?;
        let (questions, outgoing) = mpsc::channel(WINDOW);
        let codec = tonic_prost::ProstCodec::<Payload, Payload>::default();
        let path = http::uri::PathAndQuery::from_static(STREAM);
        let request = Request::new(ReceiverStream::new(outgoing));
        let mut answers = grpc.streaming(request, path, codec).await?.into_inner();
        let message = payload(question, answer);
        pump(time, None, questions, |_| message.clone(), async || answers.message().await).await
    }
}
