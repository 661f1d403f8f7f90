//! The command line of the lab.

mod audit;
mod dashboard;
mod data;
mod deliver;
mod demo;
mod demo_pieces;
mod fallback;
mod labels;
mod membership;
mod metrics;
mod model;
mod parameters;
mod policies;
mod properties;
mod recommend;
mod scale;
mod screen;
mod sibling;
mod study;
mod tables;
mod thresholds;
mod transcript;
mod try_table;

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use vfl_datasets::partition;
use vfl_server::cli::{CliError, CompletionsArgs, ManArgs};
use vfl_server::telemetry;

pub use audit::AuditArgs;
pub use dashboard::{DashboardArgs, ledger_reader};
pub use data::DataArgs;
pub use demo::DemoArgs;
pub use fallback::FallbackArgs;
pub use labels::LabelsArgs;
pub use membership::MembershipArgs;
pub use model::ModelArgs;
pub use parameters::SplitParametersArgs;
pub use properties::PropertiesArgs;
pub use recommend::RecommendArgs;
pub use scale::ScaleArgs;
pub use screen::ScreenArgs;
pub use sibling::SiblingArgs;
pub use tables::TableArgs;
pub use thresholds::ThresholdArgs;
pub use transcript::TranscriptArgs;
pub use try_table::TryArgs;

use vfl_present::progress::say;
use vfl_testbed::certs;

/// Cloison: serve predictions of a vertically federated model, and learn how much of the data
/// provider's customers they give away. Without a command: demo.
#[derive(Debug, Parser)]
#[command(
    name = "cloison",
    version,
    after_help = "\
Examples:
  cloison                                                     the demo on embedded data
  cloison demo --dataset satellite                            the demo on a public data set
  cloison try credit.csv --label default --passive income,debt    a table of your own, from the schema to the verdict
  cloison certs --out certs --party coordinator/coordinator --party passive-party/bank-a
  cloison split-parameters --parameters model.json --active active.schema.toml \\
      --passive bank-a=bank-a.schema.toml --out parameters    a model trained elsewhere, one file per party to import
  cloison audit --config audit.toml --out out                 audit a running deployment
  cloison dashboard --config audit.toml                       the same in a browser, with what is in service
  cloison recommend --dataset satellite --max-added-risk 0.2  the defense that adds no more, at the least cost
  cloison reproduce r-fig4                                    a figure of the papers, computed again
  cloison transcript --passive-features 12 --epochs 1,5,10    what an honest training tells a party
  cloison membership --dataset satellite --records 2000       whether scores tell who was in the training set
  cloison screen --dataset pendigits                          how much each feature contributes to the model
  cloison labels --dataset satellite --passive-features 18    what a training tells a passive party of the labels
  cloison properties --dataset satellite --feature 3          what released weights tell of the mean of a passive feature
  cloison fallback --dataset satellite --passive-features 12 --passive-parties 2   what two answers about one record tell
  cloison scale --dataset satellite --hidden 8,8 --parties 2,4   one model with more and more parties
  cloison load                                                rows and calls per second, beside a bare echo

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 a threshold is not met. RUST_LOG sets the log filter (default warn)."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train, serve, attack and defend a model with all parties in this process, over sockets;
    /// write a report.
    Demo(Box<DemoArgs>),
    /// From a table of your own to a verdict: guess its schema, run all parties on it, audit,
    /// recommend a defense, and write what three machines need to serve it.
    Try(Box<TryArgs>),
    /// Audit a running deployment as its auditor; write a report.
    Audit(AuditArgs),
    /// Serve the auditor's pages: the service, its audits, and a form to start and watch one.
    Dashboard(DashboardArgs),
    /// Search for the defense that meets thresholds at the least cost.
    Recommend(Box<RecommendArgs>),
    /// Compute a figure of the papers on real data; write its numbers and a page with the plot.
    #[command(disable_help_flag = true)]
    Reproduce(SiblingArgs),
    /// Measure how much an honest training tells a party about the features of the others, by
    /// number of epochs.
    Transcript(Box<TranscriptArgs>),
    /// Measure whether released scores show who was in the training set, with and without each
    /// defense.
    Membership(Box<MembershipArgs>),
    /// Check whether a data set suits a study of attacks: accuracy, importance of each feature,
    /// dependence between features.
    Screen(ScreenArgs),
    /// Measure how much a training tells a passive party about the active party's labels, by number
    /// of epochs.
    Labels(Box<LabelsArgs>),
    /// Measure how much released parameters tell the active party about the training records as a
    /// whole, under each transform.
    Properties(Box<PropertiesArgs>),
    /// Measure what two answers about one record tell: of all parties, and of a fallback without
    /// one.
    Fallback(Box<FallbackArgs>),
    /// Train and serve one model with more and more parties; accuracy, times and bytes.
    Scale(Box<ScaleArgs>),
    /// Make the certificates of a deployment.
    Certs(CertsArgs),
    /// Split a data set by columns into one CSV file and schema per party.
    Partition(PartitionArgs),
    /// Split the parameters of a whole model, trained elsewhere, into one parameter file per party.
    SplitParameters(SplitParametersArgs),
    /// Measure the service with three processes, beside a bare gRPC echo of the same size.
    #[command(disable_help_flag = true)]
    Load(SiblingArgs),
    /// Print the script that completes this command in a shell.
    Completions(CompletionsArgs),
    /// Print the page of the manual, or write one for each command.
    Man(ManArgs),
}

/// The arguments of `cloison certs`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cloison certs --out certs --party coordinator/coordinator --party active-party/active \\
      --party passive-party/bank-a --party auditor/auditor

Writes ca.pem, ca.key and NAME.pem, NAME.key per party. A party's identity is the URI name in its certificate, \
spiffe://TRUST-DOMAIN/ROLE/NAME; host names do not matter. The DNS name NAME.TRUST-DOMAIN beside it is for gRPC \
clients that are not ours. Run again with other parties to add them. Give each party ca.pem and its own two files, \
and keep ca.key to yourself. Roles: coordinator, active-party, passive-party, auditor.")]
pub struct CertsArgs {
    /// Directory for the files.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The deployment's name in all identities: a-z, 0-9, '-', '_', '.'.
    #[arg(long, value_name = "NAME", default_value = "cloison.local")]
    trust_domain: String,
    /// Days until the certificates expire.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// A party, ROLE/NAME; once per party.
    #[arg(long = "party", value_name = "ROLE/NAME", required = true)]
    parties: Vec<String>,
}

/// The arguments of `cloison partition`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  cloison partition --dataset satellite --passive-features 12 --out data

Writes active.csv, passive-1.csv and so on with a schema each, and train.ids, validation.ids, test.ids. Values are \
normalised to [0, 1]; every file has its rows in an order of its own.")]
pub struct PartitionArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Directory for the files.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] with the exit code.
    pub async fn run(self) -> Result<(), CliError> {
        // What an embedded coordinator warns of, at every deployment of a sweep, the verdict says
        // once.
        telemetry::init("warn,vfl_coordinator::service=error", false);
        match self.command {
            None => DemoArgs::default().run().await,
            Some(Command::Completions(args)) => args.run(Self::command()),
            Some(Command::Man(args)) => args.run(Self::command()),
            Some(Command::Demo(args)) => args.run().await,
            Some(Command::Try(args)) => args.run().await,
            Some(Command::Audit(args)) => args.run().await,
            Some(Command::Dashboard(args)) => args.run().await,
            Some(Command::Recommend(args)) => args.run().await,
            Some(Command::Reproduce(args)) => args.run("reproduce", "vfl-reproduce"),
            Some(Command::Transcript(args)) => args.run().await,
            Some(Command::Membership(args)) => args.run().await,
            Some(Command::Screen(args)) => args.run().await,
            Some(Command::Labels(args)) => args.run().await,
            Some(Command::Properties(args)) => args.run().await,
            Some(Command::Fallback(args)) => args.run().await,
            Some(Command::Scale(args)) => args.run().await,
            Some(Command::Certs(args)) => {
                let written = certs::write(&args.out, &args.trust_domain, args.days, &args.parties);
                let written = written.map_err(CliError::input)?;
                written.iter().for_each(|path| say(&format!("wrote {}", path.display())));
                Ok(())
            }
            Some(Command::Partition(args)) => {
                let dataset = args.data.load()?;
                let split = args.data.split(&dataset)?;
                let files = partition::partition(&dataset, &split, &args.out, args.data.seed);
                let files = files.map_err(CliError::failed)?;
                say(&format!(
                    "wrote {} and {} passive parties' files",
                    files.active.csv.display(),
                    files.passive.len()
                ));
                Ok(())
            }
            Some(Command::SplitParameters(args)) => args.run(),
            Some(Command::Load(args)) => args.run("load", "vfl-load"),
        }
    }
}
