//! The command `cloison dashboard`: serves the auditor's pages.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use vfl_auditor::dashboard::{Dashboard, ReadLedger, Settings, listen};
use vfl_coordinator::ledger::{self, LedgerError, RecordUse, Summary};
use vfl_present::progress::say;
use vfl_server::cli::CliError;
use vfl_server::service::shutdown_signal;

/// The arguments of `cloison dashboard`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  cloison dashboard --config audit.toml
  cloison dashboard --config audit.toml --out audits --listen 127.0.0.1:8470

Open the address that it prints. The address holds a token: whoever has it may do what the auditor may. Pages show who answers, the \
model, the policy and the budgets in service, and the audits of a folder; an audit is started, watched, stopped and compared there. The \
config is that of `cloison audit` and its fields are the defaults of the form. It listens on this machine alone. From elsewhere:
  ssh -L 8470:127.0.0.1:8470 HOST

With --ledger, for the operator of the coordinator, pages show the ledger record by record.")]
pub struct DashboardArgs {
    /// The config file of `cloison audit` (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// Address that the dashboard listens on; only browsers of this machine can reach it.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8470")]
    listen: SocketAddr,
    /// The folder of audits: each that is started here gets a folder there with its config and
    /// report. Audits of `cloison audit --out` that lie there are listed too.
    #[arg(long, value_name = "DIR", default_value = "out/audits")]
    out: PathBuf,
    /// The coordinator's ledger, which is only read: `sqlite:PATH` or `postgres://…`.
    #[arg(long, value_name = "URL", env = "CLOISON_LEDGER", hide_env_values = true)]
    ledger: Option<String>,
}

impl DashboardArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let Self { config, listen: address, out, ledger } = self;
        let listener = listen(address).await.map_err(CliError::Input)?;
        let address = listener.local_addr().map_err(CliError::failed)?;
        let ledger = ledger.map(ledger_reader);
        let dashboard = Dashboard::new(Settings { config, out, ledger }, address)?;
        say("open this address in a browser of this machine; Ctrl-C ends the dashboard");
        // On standard output, as it is for the person who started it and no line of a log.
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{}", dashboard.url())
            .and_then(|()| stdout.flush())
            .map_err(CliError::failed)?;
        dashboard.serve(listener, shutdown_signal()).await;
        Ok(())
    }
}

/// Returns a reader of the ledger at a URL, which may hold a password: nothing shows it.
#[must_use]
pub fn ledger_reader(url: String) -> ReadLedger {
    Box::new(move |record| {
        let url = url.clone();
        Box::pin(async move { read_ledger(&url, record).await.map_err(|error| error.to_string()) })
    })
}

async fn read_ledger(
    url: &str,
    record: Option<String>,
) -> Result<(Summary, Vec<RecordUse>), LedgerError> {
    let uses = match record {
        Some(record) => ledger::record_uses(url, &record, None).await?,
        None => Vec::new(),
    };
    Ok((ledger::summary(url, None).await?, uses))
}
