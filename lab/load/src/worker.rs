//! The entry point of the processes of a measurement.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::net::TcpListener;
use vfl_core::types::PartyName;
use vfl_defense::Policy;
use vfl_features::stores::DataConfig;
use vfl_party::computation::release::ServingMode;
use vfl_server::service::{Limits, Peer, Role, raise_descriptor_limit, shutdown_signal};

use super::bench::credentials;
use super::{echo, features};

/// The role of a process.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Part {
    Coordinator,
    /// Coordinator without a ledger.
    Bare,
    Passive,
    Echo,
    /// The passive party's feature service.
    Features,
}

/// The arguments of a process of the measurement.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    #[arg(long, value_enum)]
    role: Part,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    passive: Option<String>,
    /// The live policy of a coordinator. Default none.
    #[arg(long)]
    policy: Option<Policy>,
    /// Serve by private releases.
    #[arg(long)]
    private: bool,
}

/// Runs one process until it is ended. Prints its address on standard output first.
///
/// # Errors
/// Any error that keeps it from serving.
pub async fn worker(args: WorkerArgs) -> anyhow::Result<()> {
    raise_descriptor_limit();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    match args.role {
        Part::Passive => {
            use vfl_passive_party::config::{AuditPolicy, ReleasePolicy, Settings, TrainingPolicy};
            let data = std::fs::read_to_string(args.dir.join("data.toml"))?;
            let data: DataConfig = toml::from_str(&data)?;
            let settings = Settings {
                credentials: credentials(&args.dir, "passive")?,
                limits: Limits::default(),
                monitoring: Default::default(),
                state_dir: (&args.dir.join("state/passive")).into(),
                features: data.open()?,
                release: ReleasePolicy::default(),
                serving: Default::default(),
                training: TrainingPolicy::default(),
                audit: AuditPolicy::default(),
                collusion: Default::default(),
                alignment: Default::default(),
                outputs: None,
            };
            Ok(vfl_passive_party::service::run(settings, listener, shutdown_signal()).await?)
        }
        Part::Coordinator | Part::Bare => {
            use vfl_coordinator::config::{
                AuditPolicy, Budgets, LedgerValues, PublishingPolicy, ServingPolicy, Settings,
                TrainingPolicy,
            };
            let address = args.passive.ok_or_else(|| anyhow::anyhow!("--passive is missing"))?;
            let state_dir = args.dir.join("state/coordinator");
            let ledger = LedgerValues {
                kept: matches!(args.role, Part::Coordinator),
                ..LedgerValues::default()
            };
            let settings = Settings {
                credentials: credentials(&args.dir, "coordinator")?,
                limits: Limits::default(),
                monitoring: Default::default(),
                // Unlimited budgets, as the same records are requested again and again.
                ledger: ledger.config(&state_dir, Budgets::UNLIMITED),
                state_dir,
                passive_parties: vec![Peer {
                    role: Role::PassiveParty,
                    name: PartyName::new("passive")?,
                    address,
                }],
                peer_timeout: Duration::from_secs(10),
                active_party: None,
                training: TrainingPolicy::default(),
                publishing: PublishingPolicy::default(),
                defenses: args.policy.map(|policy| policy.defenses).unwrap_or_default(),
                serving: ServingPolicy {
                    mode: if args.private { ServingMode::Private } else { ServingMode::Plain },
                    ..ServingPolicy::default()
                },
                release: Default::default(),
                audit: AuditPolicy::default(),
            };
            Ok(vfl_coordinator::service::run(settings, listener, shutdown_signal()).await?)
        }
        Part::Features => features::serve(listener, &args.dir.join("data")).await,
        Part::Echo => echo::serve(listener, &credentials(&args.dir, "coordinator")?).await,
    }
}
