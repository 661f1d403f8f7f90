//! The measured deployment: certificates, data, a published model, and the processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nalgebra::{DMatrix, DVector};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use tempfile::TempDir;
use vfl_coordinator::registry::TrainingSummary;
use vfl_core::model::{Link, TrainingConfig};
use vfl_core::types::{LogitShare, PartyName, RecordIds};
use vfl_datasets as data;
use vfl_datasets::{
    DatasetName, DatasetSpec, SyntheticFields, SyntheticParameters, VerticalSplit, partition,
};
use vfl_protocol::pb;
use vfl_server::service::{Credentials, Peer, Role, TlsFiles};
use vfl_testbed::certs;
use vfl_testbed::deployment::{WholeModel, WholeParameters};

use super::process::Worker;
use super::relay::Relay;
use super::source::{FilledStore, Source};

/// The shape of the measured deployment: that of satellite, with more records.
pub(super) const CLASSES: usize = 6;
const FEATURES: usize = 36;
pub(super) const PASSIVE: usize = 18;
pub(super) const RECORDS: usize = 20_000;

/// A coordinator with its ledger and a passive party, as processes on loopback. They end when this
/// value is dropped.
pub struct Bench {
    dir: TempDir,
    /// Records that the model was not trained on.
    pub(super) ids: RecordIds,
    /// The model in service.
    pub(super) version: String,
    passive: Hop,
    coordinator: Hop,
    delay: Duration,
    loaded: FilledStore,
}

/// A process, and the relay to it if there is a delay.
pub(super) struct Hop {
    worker: Worker,
    relay: Option<Relay>,
}

impl Hop {
    async fn to(worker: Worker, delay: Duration) -> anyhow::Result<Self> {
        let relay = match delay.is_zero() {
            true => None,
            false => Some(Relay::start(&worker.address, delay).await?),
        };
        Ok(Self { worker, relay })
    }

    /// Returns the address to call.
    pub(super) fn address(&self) -> &str {
        self.relay.as_ref().map_or(&self.worker.address, |relay| &relay.address)
    }
}

impl Bench {
    /// Starts both with `program`, which is `cloison-load`. `descriptors` limits the coordinator's
    /// file descriptors.
    ///
    /// # Errors
    /// If the data cannot be made or a process does not start.
    pub async fn start(program: &Path, descriptors: Option<u32>) -> anyhow::Result<Self> {
        Self::with(program, descriptors, &Source::Csv, Duration::ZERO).await
    }

    /// Does the same as [`Bench::start`] with features from a source, and `delay` more in each
    /// round trip between two processes.
    ///
    /// # Errors
    /// As [`Bench::start`]; if the store cannot be filled.
    pub(super) async fn with(
        program: &Path,
        descriptors: Option<u32>,
        source: &Source,
        delay: Duration,
    ) -> anyhow::Result<Self> {
        Self::with_options(program, descriptors, source, delay, &[]).await
    }

    /// Does the same as [`Bench::with`]; the coordinator's process has further options.
    ///
    /// # Errors
    /// As [`Bench::with`].
    pub(super) async fn with_options(
        program: &Path,
        descriptors: Option<u32>,
        source: &Source,
        delay: Duration,
        options: &[String],
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let (ids, version) = prepare(dir.path())?;
        let loaded = FilledStore::fill(source, program, dir.path()).await?;
        std::fs::write(dir.path().join("data.toml"), &loaded.config)?;
        let passive = Worker::start(program, dir.path(), "passive", None, None, &[]).await?;
        let passive = Hop::to(passive, delay).await?;
        let address = Some(passive.address());
        let coordinator =
            Worker::start(program, dir.path(), "coordinator", address, descriptors, options)
                .await?;
        let coordinator = Hop::to(coordinator, delay).await?;
        Ok(Self { dir, ids, version, passive, coordinator, delay, loaded })
    }

    /// Starts another process of the measurement: the coordinator without a ledger (`bare`), or the
    /// `echo`.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) async fn another(&self, program: &Path, role: &str) -> anyhow::Result<Hop> {
        let address = Some(self.passive.address());
        let worker = Worker::start(program, self.dir.path(), role, address, None, &[]).await?;
        Hop::to(worker, self.delay).await
    }

    /// Ends the processes, and removes what was created outside the directory.
    ///
    /// # Errors
    /// If the database does not drop the table.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        self.coordinator.worker.child.kill().await?;
        self.passive.worker.child.kill().await?;
        self.loaded.remove().await
    }

    /// Returns the coordinator as a peer.
    ///
    /// # Errors
    /// Never: its name is valid.
    pub fn coordinator(&self) -> anyhow::Result<Peer> {
        coordinator_at(self.coordinator.address())
    }

    /// Returns the credentials of `active`, `auditor`, `passive` or `coordinator`.
    ///
    /// # Errors
    /// If there is no such party.
    pub fn credentials(&self, name: &str) -> anyhow::Result<Credentials> {
        credentials(self.dir.path(), name)
    }

    /// Returns the `[data]` table of the active party.
    pub(super) fn active_data(&self) -> String {
        let file = |end: &str| self.dir.path().join("data").join(format!("active.{end}"));
        let (schema, csv) = (file("schema.toml"), file("csv"));
        format!("schema = '{}'\ncsv = '{}'\n", schema.display(), csv.display())
    }

    /// Returns the folder of the active party's state.
    pub(super) fn active_state(&self) -> PathBuf {
        self.dir.path().join("state").join("active")
    }

    /// Returns a request for the records `from` to `to`.
    #[must_use]
    pub fn request(&self, from: usize, to: usize) -> pb::PredictRequest {
        request(&self.ids, from, to, &self.version)
    }

    /// Tells the coordinator to stop (SIGTERM).
    ///
    /// # Errors
    /// If it has ended.
    #[cfg(unix)]
    pub fn terminate(&self) -> anyhow::Result<()> {
        self.signal(rustix::process::Signal::TERM)
    }

    /// Tells the coordinator to reload its certificates and its deny list (SIGHUP).
    ///
    /// # Errors
    /// If it has ended.
    #[cfg(unix)]
    pub fn hang_up(&self) -> anyhow::Result<()> {
        self.signal(rustix::process::Signal::HUP)
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) -> anyhow::Result<()> {
        let pid = self.coordinator.worker.child.id().map(i32::try_from).transpose()?;
        let pid = pid.and_then(rustix::process::Pid::from_raw);
        let pid = pid.ok_or_else(|| anyhow::anyhow!("the coordinator has ended"))?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// Returns the current memory of the coordinator's process (resident set), in bytes.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn memory(&self) -> anyhow::Result<u64> {
        self.coordinator.worker.memory()
    }

    /// Returns the current memory of the passive party's process, in bytes.
    ///
    /// # Errors
    /// As [`Bench::memory`].
    pub(super) fn passive_memory(&self) -> anyhow::Result<u64> {
        self.passive.worker.memory()
    }
}

/// Returns a coordinator of the measurement as a peer.
pub(super) fn coordinator_at(address: &str) -> anyhow::Result<Peer> {
    Ok(Peer {
        role: Role::Coordinator,
        name: PartyName::new("coordinator")?,
        address: address.to_owned(),
    })
}

/// Makes certificates, data and a published model for the processes. Its weights are random, as
/// speed does not depend on them.
fn prepare(dir: &Path) -> anyhow::Result<(RecordIds, String)> {
    let parties = [
        "coordinator/coordinator",
        "passive-party/passive",
        "active-party/active",
        "auditor/auditor",
    ];
    certs::write(&dir.join("tls"), "cloison.load", 2, &parties.map(str::to_owned))?;
    std::fs::write(dir.join("tls").join("denied"), "")?;
    let mut spec = DatasetSpec::new(DatasetName::Synthetic, None, 1);
    let fields = SyntheticFields {
        records: RECORDS,
        features: FEATURES,
        classes: CLASSES,
        ..spec.synthetic.fields().clone()
    };
    spec.synthetic = SyntheticParameters::new(fields)?;
    let dataset = data::load(&spec)?;
    let split = VerticalSplit::shared_window(0, PASSIVE, FEATURES, &[PartyName::new("passive")?])?;
    partition::partition(&dataset, &split, &dir.join("data"), 1)?;
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let training_ids = dataset.ids().slice(0, 2);
    let whole = WholeModel {
        parameters: WholeParameters::Linear {
            link: Link::Softmax,
            weights: DMatrix::from_fn(CLASSES, FEATURES, |_, _| rng.random::<f64>() - 0.5),
            bias: DVector::zeros(CLASSES),
        },
        class_names: dataset.class_names().to_vec(),
        summary: Some(TrainingSummary {
            config: TrainingConfig::default(),
            epochs: 0,
            best_epoch: 0,
            steps: 0,
            training_records: 2,
            validation_records: 0,
        }),
        training_ids,
    };
    let state = dir.join("state");
    whole.publish(&state, &dataset, &split)?;
    let current = std::fs::read_to_string(state.join("coordinator").join("current"))?;
    let ids = dataset.ids().slice(2, dataset.records());
    Ok((ids, current.trim().to_owned()))
}

/// Returns a request for the records `from` to `to`. Each record has the same share in every
/// request, as a different one would be refused.
pub(super) fn request(
    all: &RecordIds,
    from: usize,
    to: usize,
    version: &str,
) -> pb::PredictRequest {
    let ids = all.slice(from, to);
    let share = DMatrix::from_fn(CLASSES, ids.len(), |i, j| {
        ((i * 31 + (from + j) * 7) % 17) as f64 * 0.1 - 0.8
    });
    pb::PredictRequest {
        model_version: version.to_owned(),
        ids: Some(ids.into()),
        logit_shares: LogitShare::new(share).ok().map(vfl_protocol::pb::Matrix::from),
        audit_session: String::new(),
        request_id: String::new(),
    }
}

/// Returns the credentials of one of the measured parties.
pub(super) fn credentials(dir: &Path, name: &str) -> anyhow::Result<Credentials> {
    let tls = dir.join("tls");
    let at = |end: &str| -> PathBuf { tls.join(format!("{name}.{end}")) };
    let deny_list = Some(tls.join("denied")).filter(|path| path.exists());
    let files =
        TlsFiles { ca: tls.join("ca.pem"), certificate: at("pem"), key: at("key"), deny_list };
    Ok(Credentials::read(&files)?)
}
