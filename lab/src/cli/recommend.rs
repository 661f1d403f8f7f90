//! The command `cloison recommend`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use vfl_auditor::audit::{Help, Plan, Targets};
use vfl_auditor::recommend::{Demands, Recommendation};
use vfl_auditor::report::Thresholds;
use vfl_auditor::{ConfiguredAudit, recommend};
use vfl_datasets::set_facts::SetFacts;
use vfl_demo as demo;
use vfl_demo::DemoPlan;
use vfl_present::progress::{Progress, say};
use vfl_server::cli::CliError;

use super::data::DataArgs;
use super::demo::DemoArgs;
use super::thresholds::ThresholdArgs;

/// The arguments of `cloison recommend`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison recommend --dataset satellite --passive-features 18 --max-added-risk 0.2
  cloison recommend --config audit.toml --max-added-risk 0.1

The added risk of a policy is 1 - (error of the strongest attack) / (error of its control), of the attribute that the \
scores tell most of; attack and attribute are chosen on one half of the records and read off the other. Attack and \
control know the same records whole; the control has no score. A policy meets the threshold if the upper end of the 95 \
% interval does. The search tries every defense that needs no parameters, with several settings each, on one half of \
the records. The cheapest three that meet all demands are scored again on the other half. Cheapest: the fewest records \
whose predicted class changes, then the least total variation distance. The lost accuracy is compared as it was \
measured, without an interval. --max-exact-share counts the attacks that know the policy and no record too.

With --config, the deployment, the records, the known records (`auxiliary_ids`) and thresholds that are not given here are those of the \
config of `cloison audit`; its attacks and defenses are not looked at. Passive parties must score without noise (mode = \"trusted\") or \
leave enough budget, and allow up to 380 scorings (max_scorings). The records must be others than those of an audit before, or the \
parties' owners begin anew (passive-party scorings begin-anew): both halves overlap with the set of that audit. Exit code 3: no policy meets the demands.")]
pub struct RecommendArgs {
    #[command(flatten)]
    thresholds: ThresholdArgs,
    /// The largest loss of accuracy that the policy may cause, from 0 to 1, as a share of the
    /// records: 0.02 stands for two points.
    #[arg(long, value_name = "L", allow_negative_numbers = true)]
    max_accuracy_loss: Option<f64>,
    /// The config of an audit of a running deployment. Without it, a demonstration is started on a
    /// data set.
    // `data_dir` may be set in the environment of every command, so it is not in this list: it
    // chooses nothing by itself.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dataset", "tables", "variant", "records", "known_records", "epochs"])]
    config: Option<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
    /// Test records for search and confirmation together, at least 200.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    records: usize,
    /// Test records that the adversary knows with all their features. None of them is attacked.
    #[arg(long, value_name = "N", default_value_t = demo::DEFAULT_KNOWN_RECORDS)]
    known_records: usize,
    /// Epochs of training at most.
    #[arg(long, value_name = "N", default_value_t = demo::DEFAULT_EPOCHS)]
    epochs: u32,
    /// Directory for recommendation.json.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

impl RecommendArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let found = match &self.config {
            Some(config) => {
                let ConfiguredAudit { targets, plan, thresholds, .. } =
                    ConfiguredAudit::read(config, None, self.thresholds.given())?;
                search(&targets, &plan, demands(thresholds, self.max_accuracy_loss)?).await?
            }
            None => {
                let demands = demands(self.thresholds.checked()?, self.max_accuracy_loss)?;
                let Self { data, records, known_records, epochs, .. } = self.clone();
                let args = DemoArgs::of(data, records, known_records, epochs);
                demonstrate(&args.plan()?, demands).await?
            }
        };
        std::fs::create_dir_all(&self.out)
            .map_err(|e| CliError::Failed(format!("cannot make {}: {e}", self.out.display())))?;
        let path = self.out.join("recommendation.json");
        let json = format!("{:#}\n", found.json());
        vfl_state::files::write_atomic(&path, json.as_bytes(), false).map_err(CliError::failed)?;
        let text = if self.json { json } else { found.text() };
        // A reader that stops early (`| head`) is not a failure.
        let _ = write!(std::io::stdout(), "{text}");
        say(&format!("written: {}", path.display()));
        match found.recommended() {
            Some(_) => Ok(()),
            None => Err(CliError::Unmet("no policy that was tried meets the demands".into())),
        }
    }
}

/// Returns the checked demands on a policy.
fn demands(thresholds: Thresholds, max_accuracy_loss: Option<f64>) -> Result<Demands, CliError> {
    if thresholds.is_empty() {
        let message = "say what a policy must meet: --max-added-risk 0.1, --max-exact-share 0.05 or --max-bits 4";
        return Err(CliError::Input(message.into()));
    }
    match max_accuracy_loss {
        Some(loss) if !(0.0..=1.0).contains(&loss) => Err(CliError::Input(format!(
            "max_accuracy_loss is {loss}; give a number from 0 to 1, as 0.02 for two points"
        ))),
        max_accuracy_loss => Ok(Demands { thresholds, max_accuracy_loss }),
    }
}

/// Searches for a defense of a demonstration that adds little risk, a tenth at most unless
/// thresholds are given. `None`, with a note, if there are too few test records.
pub(super) async fn recommend_for(
    args: &DemoArgs,
    thresholds: ThresholdArgs,
    max_accuracy_loss: f64,
) -> Result<Option<Recommendation>, CliError> {
    let mut thresholds = thresholds.checked()?;
    if thresholds.is_empty() {
        thresholds = Thresholds { max_added_risk: Some(0.1), ..thresholds };
    }
    let demands = demands(thresholds, Some(max_accuracy_loss))?;
    let plan = args.plan()?;
    let test = args.data.load()?.split().test.len();
    let attacked = args.records.min(test - args.known_records.min(test / 2));
    if attacked < LEAST_RECORDS {
        say(&format!(
            "no search for a defense: it takes {LEAST_RECORDS} test records, and {attacked} are left"
        ));
        return Ok(None);
    }
    demonstrate(&plan, demands).await.map(Some)
}

/// The fewest records of a search: half of them confirm it.
const LEAST_RECORDS: usize = 200;

/// Searches on a demonstration.
async fn demonstrate(plan: &DemoPlan, demands: Demands) -> Result<Recommendation, CliError> {
    let failed = |e: anyhow::Error| CliError::Failed(format!("{e:#}"));
    let served = vfl_demo::serve(plan).await.map_err(failed)?;
    let audit = Plan {
        help: Help { auxiliary_ids: served.known(), ..Help::default() },
        ..Plan::of(served.audited(), Vec::new(), Vec::new(), plan.seed)
    };
    let found = search(&served.deployment.targets(), &audit, demands).await;
    let set = SetFacts::of(&served.dataset);
    served.deployment.stop().await.map_err(failed)?;
    Ok(Recommendation { set: Some(set), ..found? })
}

async fn search(
    targets: &Targets,
    plan: &Plan,
    demands: Demands,
) -> Result<Recommendation, CliError> {
    let mut bar = Progress::start("searching", 0);
    let found = recommend::run(targets, plan, demands, |done, _, stage| {
        bar.at(done as u64, stage);
    })
    .await
    .map_err(CliError::failed)?;
    bar.done(&format!(
        "{} policies tried, {} on fresh records",
        found.tried.len(),
        found.confirmed.len()
    ));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: RecommendArgs,
    }

    /// A directory of data sets in the environment is meant for other commands and does no harm
    /// here.
    #[test]
    fn a_running_deployment_is_searched_wherever_data_sets_lie() {
        let parsed = |more: &[&str]| {
            let words = ["recommend", "--config", "audit.toml", "--max-added-risk", "0.1"]
                .iter()
                .chain(more);
            Command::try_parse_from(words)
        };
        parsed(&["--data-dir", "sets"]).unwrap();
        for choice in [["--dataset", "bank"], ["--variant", "all"], ["--epochs", "3"]] {
            let said = parsed(&choice).unwrap_err().to_string();
            assert!(said.contains(choice[0]) && said.contains("--config"), "{said}");
        }
    }
}
