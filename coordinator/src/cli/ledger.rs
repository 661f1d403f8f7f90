//! `coordinator ledger`: shows and verifies the query ledger; backup, retention, erasure and
//! approval.

mod text;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde::Serialize;
use vfl_core::types::ModelVersion;
use vfl_server::cli::CliError;
use vfl_server::config::ConfigFile;

use self::text::{summary_text, uses_text, verified_text};
use crate::config::ConfigValues;
use crate::engine::{private_fingerprint, private_version};
use crate::ledger::{self, LedgerError};
use crate::registry::read_manifest;

/// The options of `coordinator ledger`.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  coordinator ledger show --ledger sqlite:state/ledger.db
  coordinator ledger show --ledger sqlite:state/ledger.db --record 4711 --json
  coordinator ledger verify --config coordinator.toml
  coordinator ledger backup --ledger sqlite:state/ledger.db --out ledger-2026-01-31.db
  coordinator ledger retain --ledger postgres://ledger@db/cloison --days 365
  coordinator ledger erase --ledger sqlite:state/ledger.db --record 4711
  coordinator ledger approve m-0123456789abcdef --config coordinator.toml

All of them work while a coordinator runs. A PostgreSQL password belongs in PGPASSWORD or \
~/.pgpass, not on the command line."
)]
pub struct LedgerArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct LedgerLocationArgs {
    /// The ledger: `sqlite:PATH` or `postgres://…`.
    #[arg(long, value_name = "URL", env = "CLOISON_LEDGER", hide_env_values = true)]
    ledger: String,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what was asked, under which model and policy, and what is left of the budgets.
    Show {
        #[command(flatten)]
        place: LedgerLocationArgs,
        /// One active party only.
        #[arg(long, value_name = "NAME")]
        party: Option<String>,
        /// The uses of one record.
        #[arg(long, value_name = "ID")]
        record: Option<String>,
    },
    /// Check the chain of releases for changes behind the coordinators' backs.
    ///
    /// The commits of each second add a link to a chain: their additions to the sums, and the hash
    /// of the previous link, signed with `ledger.key` of its coordinator's state directory. This
    /// command checks every link, and the ledger's sums against all of them. With --config it also
    /// checks that the chain has the last link that this coordinator saw, and that every signature
    /// is by a known key: name the keys of other coordinators with --trust. Exit code 1 if any
    /// check fails.
    #[command(after_help = "\
Examples:
  coordinator ledger verify --config coordinator.toml
  coordinator ledger verify --config coordinator-a.toml --trust 5f0c…64 digits in all…
  coordinator ledger verify --ledger sqlite:backup.db --json")]
    Verify {
        /// The coordinator's config file, which names its state directory and its ledger.
        #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
        config: Option<PathBuf>,
        /// The ledger: `sqlite:PATH` or `postgres://…`. With --config, another copy of the one that
        /// it names.
        #[arg(long, value_name = "URL", env = "CLOISON_LEDGER", hide_env_values = true)]
        ledger: Option<String>,
        /// The public key of another coordinator of the ledger, as its own `verify` prints it. May
        /// be repeated.
        #[arg(long, value_name = "KEY")]
        trust: Vec<String>,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },
    /// Copy a SQLite ledger into a new file, while the coordinator runs.
    ///
    /// A restored backup hands back the budgets that were spent since it was made, and forgets
    /// which shares were bound: restore one only when the ledger is lost. A ledger in PostgreSQL is
    /// backed up with pg_dump.
    Backup {
        #[command(flatten)]
        place: LedgerLocationArgs,
        /// The file to make; it must not be there yet.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// Forget request ids and times that are older than a number of days.
    ///
    /// How often each record was answered, and which share is bound to it, is kept: no budget is
    /// freed. A request id that is forgotten costs again when it is repeated. While it runs,
    /// requests wait for one short step at a time.
    Retain {
        #[command(flatten)]
        place: LedgerLocationArgs,
        /// Keep this many days.
        #[arg(long, value_name = "N")]
        days: u32,
        /// Also delete the records that nobody has asked for since. This FREES their budgets and
        /// bindings: the active parties may ask for them as if for the first time, which weakens
        /// every defense that draws noise.
        #[arg(long)]
        free_budgets: bool,
    },
    /// Erase a person's entries.
    ///
    /// The record id and its times go; a keyed hash of the id stands in their place, with the count
    /// and the bound share. So the budget is not handed back, and later requests for the record are
    /// counted under the hash: the id never stands in the ledger again. The key lies in the ledger,
    /// so whoever holds the whole ledger can still test a guess. Older backups keep the id.
    Erase {
        #[command(flatten)]
        place: LedgerLocationArgs,
        /// The id of the record.
        #[arg(long, value_name = "ID")]
        record: String,
    },
    /// Approve a version beyond `models_per_record`.
    ///
    /// `models_per_record` limits how many models answer about a record; rows under a further one
    /// are refused. Each model with other passive parameters answers anew about the same record: a
    /// party that has many of them trained may work out its features from small differences.
    /// Approve a version that you asked for. The approval is recorded in the ledger; it holds for
    /// all versions with the same passive parameters, and a running coordinator follows it from its
    /// next request on.
    Approve {
        /// The version, as `coordinator ledger show` and the log name it.
        #[arg(value_name = "VERSION")]
        version: String,
        /// The coordinator's config file, which names its state directory and its ledger.
        #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
        config: PathBuf,
        /// Print JSON instead of text.
        #[arg(long)]
        json: bool,
    },
}

impl LedgerArgs {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`]: what is wrong with the URL, or what the database says.
    pub async fn run(self) -> Result<(), CliError> {
        let now = SystemTime::now();
        let (json, text, value) = match self.command {
            Command::Show { place, party, record: None } => {
                let summary =
                    ledger::summary(&place.ledger, party.as_deref()).await.map_err(failure)?;
                (place.json, summary_text(&summary), to_json(&summary)?)
            }
            Command::Show { place, party, record: Some(record) } => {
                let uses = ledger::record_uses(&place.ledger, &record, party.as_deref())
                    .await
                    .map_err(failure)?;
                (place.json, uses_text(&uses), to_json(&uses)?)
            }
            Command::Verify { config, ledger, trust, json } => {
                return verify(config, ledger, trust, json).await;
            }
            Command::Backup { place, out } => {
                ledger::backup(&place.ledger, &out).await.map_err(failure)?;
                let out = out.display().to_string();
                (
                    place.json,
                    format!("the ledger was copied to {out}\n"),
                    to_json(&serde_json::json!({ "backup": out }))?,
                )
            }
            Command::Retain { place, days, free_budgets } => {
                let forgot = ledger::retain(&place.ledger, days, free_budgets, now)
                    .await
                    .map_err(failure)?;
                let freed = if free_budgets {
                    format!("deleted {} records: their budgets begin anew", forgot.freed_records)
                } else {
                    "no budget was freed".into()
                };
                let text = format!(
                    "forgot {} request ids, the times of {} rows and {} links of the chain of releases; {freed}\n",
                    forgot.request_ids, forgot.times, forgot.links
                );
                (place.json, text, to_json(&forgot)?)
            }
            Command::Erase { place, record } => {
                let erased = ledger::erase(&place.ledger, &record, now).await.map_err(failure)?;
                let text = match erased.rows {
                    0 => "the ledger holds no entry under this id\n".into(),
                    rows => format!(
                        "erased {rows} rows; their {} queries stay counted\n",
                        erased.queries
                    ),
                };
                (place.json, text, to_json(&erased)?)
            }
            Command::Approve { version, config, json } => {
                let (fingerprint, new) = approve(&version, &config, now).await?;
                let text = match new {
                    true => format!("approved {version}, passive parameters {fingerprint}\n"),
                    false => format!(
                        "passive parameters {fingerprint} of {version} were approved before\n"
                    ),
                };
                let value =
                    serde_json::json!({ "version": version, "passive": fingerprint, "new": new });
                (json, text, to_json(&value)?)
            }
        };
        let mut out = std::io::stdout().lock();
        if json { writeln!(out, "{value}") } else { out.write_all(text.as_bytes()) }
            .map_err(CliError::failed)
    }
}

/// Checks the chain and prints the result; fails if any check does.
async fn verify(
    config: Option<PathBuf>,
    url: Option<String>,
    trust: Vec<String>,
    json: bool,
) -> Result<(), CliError> {
    if let Some(bad) = trust
        .iter()
        .find(|key| key.len() != 64 || !key.bytes().all(|digit| digit.is_ascii_hexdigit()))
    {
        return Err(CliError::Input(format!(
            "--trust {bad}: a public key is 64 hexadecimal digits"
        )));
    }
    let (state_dir, url) = match (config, url) {
        (None, None) => {
            let ways = "name the ledger to verify: --config FILE, the coordinator's config file, or --ledger URL, a ledger alone";
            return Err(CliError::Input(ways.into()));
        }
        (None, Some(url)) => (None, url),
        (Some(path), url) => {
            let file = ConfigFile::<ConfigValues>::read(&path).map_err(CliError::input)?;
            let ConfigValues { state_dir, ledger, budget, .. } = &file.values;
            let kept =
                || file.error("`kept = false` in [ledger]: without a ledger there is no chain");
            let ledger =
                ledger.config(state_dir, *budget).ok_or_else(|| CliError::input(kept()))?;
            (Some(state_dir.clone()), url.unwrap_or(ledger.url))
        }
    };
    let verified = ledger::verify(&url, state_dir.as_deref(), &trust).await.map_err(failure)?;
    let text = if json { to_json(&verified)? + "\n" } else { verified_text(&verified) };
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(CliError::failed)?;
    match verified.findings.len() {
        0 => Ok(()),
        1 => Err(CliError::Failed(
            "the ledger does not agree with its chain of releases: see above".into(),
        )),
        n => Err(CliError::Failed(format!(
            "the ledger does not agree with its chain of releases in {n} points: see above"
        ))),
    }
}

/// Approves a version. Returns the fingerprint of its passive parameters, and `true` if they were
/// not approved before.
async fn approve(
    version: &str,
    config: &Path,
    now: SystemTime,
) -> Result<(String, bool), CliError> {
    let file = ConfigFile::<ConfigValues>::read(config).map_err(CliError::input)?;
    let ConfigValues { state_dir, ledger, budget, .. } = &file.values;
    let kept =
        || file.error("`kept = false` in [ledger]: without a ledger there is nothing to approve");
    let ledger = ledger.config(state_dir, *budget).ok_or_else(|| CliError::input(kept()))?;
    let version = ModelVersion::new(version).map_err(CliError::input)?;
    let manifest = read_manifest(state_dir, &version).map_err(CliError::failed)?;
    let missing = || {
        CliError::Input(format!("no version {version} was published in {}", state_dir.display()))
    };
    let fingerprint = manifest.ok_or_else(missing)?.passive_fingerprint();
    let new = ledger::approve(&ledger.url, &version, &fingerprint, now).await.map_err(failure)?;
    // In private releases the same parameters have another name.
    let (named, private) = (private_version(&version), private_fingerprint(&fingerprint));
    let named = named.map_err(CliError::input)?;
    ledger::approve(&ledger.url, &named, &private, now).await.map_err(failure)?;
    Ok((fingerprint, new))
}

fn failure(error: LedgerError) -> CliError {
    match error {
        LedgerError::Url(_) | LedgerError::Missing | LedgerError::Unsupported(_) => {
            CliError::input(error)
        }
        _ => CliError::failed(error),
    }
}

fn to_json(value: &impl Serialize) -> Result<String, CliError> {
    serde_json::to_string_pretty(value).map_err(CliError::failed)
}
