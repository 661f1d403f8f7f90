//! `scorings`: lists the scorings in this party's state directory, and renews a spent budget.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use vfl_server::cli::CliError;
use vfl_transform::scoring::accountant::least_error;

use crate::config::{AuditMode, Settings};
use crate::evaluation::{EvaluationError, begin_anew, renew, scoring_table, scorings};

/// The arguments of `passive-party scorings`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  passive-party scorings --config passive-party.toml
  passive-party scorings --config passive-party.toml --json
  passive-party scorings renew --config passive-party.toml --reason \"yearly audit\"

A set is a list of records that an auditor had scored. Every noised answer about it spends some of its rho; what is spent does not come \
back by itself."
)]
pub struct ScoringsArgs {
    /// The config file, which names the state directory.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Print JSON in place of the table.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Allow the budget once more. Rho adds up: two budgets of 0.0869 promise what one of 0.1738
    /// does.
    Renew(RenewArgs),
    /// Close all sets (trusted mode): the auditor may open their records
    /// again, in whatever sets.
    BeginAnew(BeginAnewArgs),
}

/// The arguments of `passive-party scorings renew`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party scorings renew --config passive-party.toml --reason \"audit of the new model\" --set 3fa9

A service with a state_dir must be stopped; those that share [state] go on. The renewal is kept with its time and reason. Without --set it is for all sets known now, for the number of \
sets and scorings in all (trusted mode), and for refused openings. Sets of other records have a budget of their own and need none.")]
struct RenewArgs {
    /// The config file, which names the state directory.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The reason, which is recorded.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Renew one set only: the beginning of its hash.
    #[arg(long, value_name = "HASH")]
    set: Option<String>,
}

/// `passive-party scorings begin-anew`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party scorings begin-anew --config passive-party.toml --reason \"cloison recommend on the records of the audit\"

A trusted auditor is told exact errors, and two sets that differ in one record tell that record. So a set that overlaps another one is \
refused until the owner begins anew: the auditor has then what both tell. Limits on sets and scorings begin anew too. In \
noised mode the records stay refused. A service with a state_dir must be stopped; those that share [state] go on. Kept with its time and \
reason.")]
struct BeginAnewArgs {
    /// The config file, which names the state directory.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The reason, which is kept.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

impl ScoringsArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let content = match (self.command, self.config) {
            (Some(Command::Renew(args)), _) => args.run()?,
            (Some(Command::BeginAnew(args)), _) => args.run()?,
            (None, Some(config)) => {
                let settings = read(&config)?;
                let found =
                    scorings(&settings.state_dir, &settings.audit).map_err(CliError::failed)?;
                match self.json {
                    true => serde_json::to_string(&found).map_err(CliError::failed)? + "\n",
                    false => scoring_table(&found),
                }
            }
            (None, None) => return Err(CliError::Input("name the config file by --config".into())),
        };
        std::io::stdout().write_all(content.as_bytes()).map_err(CliError::failed)
    }
}

fn read(config: &std::path::Path) -> Result<Settings, CliError> {
    Settings::read(config).map(|(_, settings)| settings).map_err(|e| CliError::Input(e.to_string()))
}

/// Bad input, or a state directory that cannot be changed.
fn refused(error: EvaluationError) -> CliError {
    use EvaluationError as E;
    match error {
        E::NoSuchSet { .. } | E::NoReason | E::NothingToClose => CliError::Input(error.to_string()),
        other => CliError::failed(other),
    }
}

impl BeginAnewArgs {
    fn run(self) -> Result<String, CliError> {
        let settings = read(&self.config)?;
        if settings.audit.mode != AuditMode::Trusted {
            let message = "`mode` in [audit] is \"noised\": closing its sets would give up what noise protects; \
                           `renew` allows a budget once more";
            return Err(CliError::Input(message.into()));
        }
        let begun = begin_anew(&settings.state_dir, &self.reason).map_err(refused)?;
        let closed = begun.closed_sets;
        Ok(format!(
            "Begun anew and recorded: {closed} sets are closed, and their records may be opened again in trusted mode.\n"
        ))
    }
}

impl RenewArgs {
    fn run(self) -> Result<String, CliError> {
        let settings = read(&self.config)?;
        let renewed =
            renew(&settings.state_dir, self.set.as_deref(), &self.reason).map_err(refused)?;
        let facts = scorings(&settings.state_dir, &settings.audit).map_err(CliError::failed)?;
        let of = |set: &str| renewed.set.as_ref().is_none_or(|s| s == set);
        let most =
            facts.sets.iter().filter(|s| of(&s.set)).map(|s| s.rho_total).fold(0.0, f64::max);
        let promise = match most > 0.0 {
            true => format!(
                "Rho adds up: once all is spent ({most:.3}), an estimate of a record's feature keeps an error of at least {:.2} standard \
                 deviations.\n",
                least_error(most)
            ),
            false => "No set is known yet.\n".into(),
        };
        Ok(format!("Renewed and recorded.\n{promise}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use crate::cli::Cli;

    #[test]
    fn the_command_line_reads_as_documented() {
        Cli::command().debug_assert();
        let reads = |line: &str| Cli::try_parse_from(line.split(' ')).is_ok();
        for good in [
            "passive-party scorings --config p.toml",
            "passive-party scorings --config p.toml --json",
            "passive-party scorings renew --config p.toml --reason yearly",
            "passive-party scorings renew --config p.toml --reason yearly --set 3fa9",
            "passive-party scorings begin-anew --config p.toml --reason yearly",
        ] {
            assert!(reads(good), "{good}");
        }
        for bad in [
            "passive-party scorings",
            "passive-party scorings renew --config p.toml",
            "passive-party scorings begin-anew --config p.toml",
            "passive-party scorings --config p.toml renew --reason yearly",
        ] {
            assert!(!reads(bad), "{bad}");
        }
    }
}
