//! The command `cloison audit`: audits a running deployment as its auditor.

use std::path::PathBuf;

use clap::Args;
use vfl_auditor::ConfiguredAudit;
use vfl_auditor::audit::run;
use vfl_present::progress::Progress;
use vfl_server::cli::CliError;

use super::deliver::OutputArgs;
use super::thresholds::ThresholdArgs;

/// The arguments of `cloison audit`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cloison audit --config audit.toml --out out

The config names the auditor's certificate, the three kinds of parties, a file with at least 100 record ids that were not \
used in training, the attacks and the defenses; see examples/local/audit.toml. The features of the records never leave \
their owner: it scores the reconstructions itself. By default it adds noise to what it tells and keeps a budget for these records; the \
audit then shows the best attack of each session and its error with sigma, and `rho` in the config bounds what it spends.

Two kinds of help make further audits behind each policy. `auxiliary_ids` names a file with ids of records whose passive features \
the active party knows (`known_csv` in its config): `shadow_model` estimates the parameters from them; `shadow_network` \
trains a network in place of one that is hidden; `gaussian` and `posterior_mean` take their means and covariances. The last three stand \
beside imputations, which have no score. `colluding` lists passive \
parties that lend the active party their logit shares (`[collusion]` in their configs): `coalition` attacks the others.

Thresholds (`--max-added-risk`, `--max-exact-share`, `--max-exact`, or `max_added_risk` and the like in the config) are demanded of the \
policy that the coordinator has in service, or if that is not audited of the first policy audited.")]
pub struct AuditArgs {
    /// The config file (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help = super::metrics::metrics_help("Overrides `metrics` in the config. "))]
    metrics: Option<Vec<String>>,
    #[command(flatten)]
    thresholds: ThresholdArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl AuditArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let audited =
            ConfiguredAudit::read(&self.config, self.metrics.as_deref(), self.thresholds.given())?;
        let plan = &audited.plan;
        let mut bar =
            Progress::start("auditing", (plan.policies.len() * plan.attacks.len()) as u64);
        let findings =
            run(&audited.targets, plan, |done, _, stage| bar.at(done as u64, stage)).await;
        let findings = findings.map_err(CliError::failed)?;
        bar.done(&format!(
            "{} attacks against {} defenses",
            plan.attacks.len(),
            plan.policies.len()
        ));
        self.output.deliver(&audited.report(findings))
    }
}
