//! The command `cloison reproduce`, a program of its own.

mod cards;

use std::io::Write;
use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use vfl_datasets::DatasetName;
use vfl_papers::cards::Plan;
use vfl_papers::{
    Document, ExperimentModel, ExperimentModelSpec, Figure, Options, ReproduceError, Training,
    compare, render_table, run, write,
};
use vfl_present::ShardChoice;
use vfl_present::progress::say;
use vfl_present::result_cache::{Shard, StoreUrl};
use vfl_server::cli::{CliError, ManArgs, key_value, positive};
use vfl_server::telemetry;

use crate::train_and_serve;
use cards::all_cards;

/// The value of the argument FIGURE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    List,
    One(Figure),
}

/// The choice `list` and every figure.
static CHOICES: [Choice; Figure::ALL.len() + 1] = {
    let mut all = [Choice::List; Figure::ALL.len() + 1];
    let mut i = 0;
    while i < Figure::ALL.len() {
        all[i + 1] = Choice::One(Figure::ALL[i]);
        i += 1;
    }
    all
};

impl ValueEnum for Choice {
    fn value_variants<'a>() -> &'a [Self] {
        &CHOICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self {
            Self::List => PossibleValue::new("list")
                .help("Say which figures there are, what each shows, on which data, and how long it takes"),
            Self::One(figure) => PossibleValue::new(figure.as_str()).help(figure.title()),
        })
    }
}

/// The number of test records; `None`: all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Records(Option<usize>);

fn records(text: &str) -> Result<Records, String> {
    match text.parse::<usize>() {
        _ if text == "all" => Ok(Records(None)),
        Ok(n) if n > 0 => Ok(Records(Some(n))),
        _ => Err("expected a whole number above 0, or `all`".into()),
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = key_value(text)?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The arguments of `cloison reproduce`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison reproduce list                                               figures, data sets, durations
  cloison reproduce r-fig4 --dataset satellite                         the whole figure
  cloison reproduce r-fig4 --dimensions 1,6,12 --attacks half_star,rcc2,half --records 200
  cloison reproduce r-fig4 --dataset robot --records all --model weights.json
  cloison reproduce r-fig14 --gia steps=2000 --gia learning_rate=0.001
  cloison reproduce j-fig11a --dataset bank
  cloison reproduce v-fig4                                             one document for each of its four data sets
  cloison reproduce priors                                             adversaries that know moments, and their controls
  cloison reproduce --all --quick --out out/papers                     every figure and table beside what was published
  cloison reproduce --all --quick --shard 2/4 --store s3://results/quick --out out/papers

The model is trained by three parties in this process over sockets with mutual TLS, and the scores of the test records are \
what the coordinator serves, where --over-sockets says so. r-fig4, 5, 7, 13, 14 and j-fig5, 6, 11a, 12, 14 train in one place \
unless asked, r-fig8 to 12 to full convergence; j-fig7 to 10, 11b, \
13, 15 and P's tables train networks in one place, anew for every split, and take no model file. \
Writes OUT/FIGURE-DATASET.json, the figures' source, and OUT/FIGURE-DATASET.html, a page with the plot; for another --variant \
than the figure's own OUT/FIGURE-DATASET-VARIANT.json and .html. A model file is JSON with `W`, one row of weights per class, \
and `b`; `test_row_in_file`, if there, says which rows of the data set were its test set.")]
pub struct ReproduceArgs {
    /// The figure, or `list`.
    #[arg(value_name = "FIGURE", value_enum, required_unless_present_any = ["all", "list"])]
    figure: Option<Choice>,
    /// Compute all cards: every figure and table of the papers beside what was published, with a
    /// verdict on each. Writes index.html, README.md and results.json into --out. Cards that exist
    /// there are not computed again.
    #[arg(
        long,
        conflicts_with_all = [
            "figure", "dataset", "variant", "model", "records", "gia_records", "gia", "attacks", "dimensions", "windows", "own_records",
            "over_sockets", "l2", "json",
        ]
    )]
    all: bool,
    /// List figures, data sets and durations.
    #[arg(long, conflicts_with_all = ["figure", "all"])]
    list: bool,
    /// With --all: fewer records, windows and points, and no image sets.
    #[arg(long, requires = "all")]
    quick: bool,
    /// With --all: only part I of N of the cards, as 2/4. `slurm` takes I and N from the task of a
    /// Slurm job array, `kubernetes/N` takes I from the pod of an Indexed Job. --all
    /// without --shard makes the page from parts that are in one folder or one store.
    #[arg(long, requires = "all", value_name = "I/N")]
    shard: Option<ShardChoice>,
    /// With --all: a store to read finished cards and trained models from and to write them to,
    /// besides --out: s3://BUCKET/PREFIX or file:///FOLDER. Parts then need no folder in common. S3
    /// takes AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL and
    /// AWS_ALLOW_HTTP.
    #[arg(long, requires = "all", value_name = "URL")]
    store: Option<String>,
    /// With --all: the cards in this folder instead of those that come with the program.
    #[arg(long, requires = "all", value_name = "DIR")]
    cards: Option<PathBuf>,
    /// Data set; `list` shows those of each figure. Default: the figure's first, or all of them if
    /// the figure shows several.
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Directory of the public data sets (scripts/fetch-datasets.sh fetches them).
    #[arg(long, value_name = "DIR", env = "CLOISON_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Columns of the data set, for which papers make different choices. bank: without_duration,
    /// authors, all; adult: all, without_education; grid: without_stab, with_stab. Default: the
    /// choice of the figure's paper.
    #[arg(long, value_name = "NAME", alias = "bank-columns")]
    variant: Option<String>,
    /// Take the model's weights from this file instead of training one.
    #[arg(long, value_name = "FILE.json")]
    model: Option<PathBuf>,
    /// Records attacked in every split, the same ones in each; or `all`. Default: 1000; 300 in
    /// figures of the papers over sockets, 100 in j-fig5, 6, 7, 9, 10, 11b and 13.
    #[arg(long, value_name = "N", value_parser = records)]
    records: Option<Records>,
    /// The most records of every split that gradient_inversion attacks.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive)]
    gia_records: usize,
    /// A setting of gradient_inversion; may be repeated, and applies to the curves with the paper's
    /// settings. Default: R: loss=rkl, start=zero, 1000 steps; J: preset=j, 10000 steps; j-fig11a
    /// and j-fig12: loss=mse, 1000 steps.
    #[arg(long = "gia", value_name = "KEY=VALUE", value_parser = setting)]
    gia: Vec<(String, String)>,
    /// Only these curves of the figure.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    attacks: Vec<String>,
    /// Only these numbers of passive features. Default: 1 to 0.9 of the features, or some of these.
    /// p-tables counts attack strengths in percent here, p-table10 100 ε, p-table11-12 parties.
    #[arg(long, value_name = "D,…", value_delimiter = ',')]
    dimensions: Vec<usize>,
    /// Splits of each number of passive features: windows of columns, evenly spread. Default: all,
    /// or a selection if a split is slow.
    #[arg(long, value_name = "N", value_parser = positive)]
    windows: Option<usize>,
    /// Training records that an adversary fits its own model to, and that models are retrained on;
    /// or `all`.
    #[arg(long, value_name = "N", default_value = "4000", value_parser = records)]
    own_records: Records,
    /// Train the model and serve the test scores by three parties over sockets. Default: by figure.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    over_sockets: Option<bool>,
    /// Weight of the squared norm of all weights in the training of the figure's model. Default:
    /// that of the figure's paper.
    #[arg(long, value_name = "X")]
    l2: Option<f64>,
    /// Seed of training, draws and attacks.
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Threads; no result depends on it. Default: one per core.
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Directory for the files.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print the document as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// The command line of `cloison-reproduce`, which `cloison reproduce` calls.
#[derive(Debug, Parser)]
#[command(name = "cloison-reproduce", bin_name = "cloison reproduce", version)]
#[command(
    about = "Compute a figure of the papers on real data; write its numbers and a page with \
                   the plot"
)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    args: ReproduceArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the page of the manual, or write it into a folder.
    #[command(hide = true)]
    Man(ManArgs),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] with the exit code.
    pub async fn run(self) -> Result<(), CliError> {
        telemetry::init("warn,vfl_coordinator::service=error", false);
        match self.command {
            None => self.args.run().await,
            Some(Command::Man(args)) => args.run(Self::command()),
        }
    }
}

impl ReproduceArgs {
    async fn run(self) -> Result<(), CliError> {
        // Minutes of computation must not block the runtime's threads.
        tokio::task::spawn_blocking(move || self.compute()).await.map_err(CliError::failed)?
    }

    fn compute(self) -> Result<(), CliError> {
        if self.all {
            let shard = self.shard.map(|choice| choice.resolve(|name| std::env::var(name).ok()));
            let shard = shard.transpose().map_err(CliError::input)?;
            if let Some(Shard { part, of }) = shard {
                say(&format!("part {part} of {of}"));
            }
            let store = self
                .store
                .as_deref()
                .map(str::parse::<StoreUrl>)
                .transpose()
                .map_err(CliError::input)?;
            let plan = Plan {
                out: self.out,
                data_dir: self.data_dir,
                quick: self.quick,
                seed: self.seed,
                threads: self.threads.unwrap_or(Options::default().threads),
                shard,
                store,
                parties: Some(train_and_serve),
            };
            return all_cards(&plan, self.cards.as_deref());
        }
        self.check_one_figure()?;
        let Some(Choice::One(figure)) = self.figure else {
            print(&list());
            return Ok(());
        };
        let named = match &self.dataset {
            None => None,
            Some(name) => {
                let name: DatasetName = name.parse().map_err(CliError::input)?;
                Some([figure.on(name).map_err(CliError::input)?])
            }
        };
        let datasets = named.as_ref().map_or(figure.default_datasets(), |one| one.as_slice());
        if self.model.is_some() && datasets.len() > 1 {
            return Err(CliError::input("a model file is of one data set: name it with --dataset"));
        }
        if self.variant.is_some() && datasets.len() > 1 {
            return Err(CliError::input("a variant is of one data set: name it with --dataset"));
        }
        let mut documents = datasets
            .iter()
            .map(|&dataset| self.document(figure, dataset))
            .collect::<Result<Vec<_>, _>>()?;
        compare(figure, &mut documents);
        for document in &documents {
            let [json, html] = write(document, &self.out).map_err(told)?;
            if self.json {
                print(&document.to_json().map_err(told)?);
            } else {
                let width =
                    std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(120);
                print(&render_table(document, width));
            }
            say(&format!("figure: {} and {}", html.display(), json.display()));
        }
        Ok(())
    }

    /// Refuses what only `--all` takes: for a single figure it would be ignored.
    fn check_one_figure(&self) -> Result<(), CliError> {
        let of_all = [
            ("--quick", self.quick),
            ("--shard", self.shard.is_some()),
            ("--store", self.store.is_some()),
            ("--cards", self.cards.is_some()),
        ];
        match of_all.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(CliError::input(format!(
                "{flag} goes with --all, which computes every figure; for one figure choose --records, --windows and \
                 --dimensions"
            ))),
            None => Ok(()),
        }
    }

    /// Computes the figure on one data set.
    fn document(&self, figure: Figure, dataset: DatasetName) -> Result<Document, CliError> {
        let variant = match &self.variant {
            Some(text) => dataset.variant(text).map_err(CliError::input)?,
            None => figure.default_variant(dataset),
        };
        let training = match (figure.training(), self.over_sockets) {
            (fixed @ (Training::None | Training::EachSplit), _) => fixed,
            (default, None) => default,
            (_, Some(true)) => Training::OverSockets,
            (_, Some(false)) => Training::InOnePlace,
        };
        say(&format!("{}: {} on {dataset}, variant {variant}", figure.as_str(), figure.title()));
        if self.model.is_none() && training == Training::InOnePlace {
            say("training the model");
        }
        let spec = ExperimentModelSpec {
            dataset,
            data_dir: self.data_dir.clone(),
            variant,
            model: self.model.clone(),
            seed: self.seed,
            l2: self.l2,
            protocol: figure.protocol(),
            training,
            parties: Some(train_and_serve),
        };
        let subject = ExperimentModel::load(&spec).map_err(told)?;
        let options = Options {
            records: self.records.map_or(Some(figure.default_records()), |records| records.0),
            inversion_records: self.gia_records,
            inversion: self.gia.clone(),
            attacks: self.attacks.clone(),
            dimensions: self.dimensions.clone(),
            windows: self.windows,
            own_records: self.own_records.0,
            seed: self.seed,
            threads: self.threads.unwrap_or(Options::default().threads),
        };
        run(figure, &subject, &options).map_err(told)
    }
}

/// Maps an error to bad input or to failed work.
fn told(error: ReproduceError) -> CliError {
    use ReproduceError as E;
    match error {
        E::Attack { .. }
        | E::NotFinite { .. }
        | E::Defense { .. }
        | E::Shape(_)
        | E::Metric(_)
        | E::Prior(_)
        | E::Sockets(_)
        | E::Transform { .. }
        | E::Failed { .. }
        | E::Threads(_)
        | E::Json(_)
        | E::Plot(_)
        | E::NothingToRun { .. }
        | E::Store(_)
        | E::Write { .. } => CliError::failed(error),
        _ => CliError::input(error),
    }
}

/// Prints the text. A reader that stops early (`| head`) is not a failure.
fn print(text: &str) {
    let _ = write!(std::io::stdout(), "{text}");
}

fn list() -> String {
    let mut out = String::new();
    for figure in Figure::ALL {
        let datasets: Vec<&str> = figure.datasets().iter().map(|d| d.as_str()).collect();
        out.push_str(&format!(
            "{:<9} {}\n          {}\n          on {}; takes {}\n",
            figure.as_str(),
            figure.title(),
            figure.source(),
            datasets.join(", "),
            figure.takes()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flag of `--all` beside a figure was ignored without a word.
    #[tokio::test]
    async fn flags_of_all_figures_are_refused_for_one() {
        for flag in ["--quick", "--shard 1/2", "--store file:///nowhere", "--cards nowhere"] {
            let line = format!("cloison-reproduce r-fig4 --records 100 {flag}");
            let parsed = Cli::try_parse_from(line.split(' '));
            let refused = match parsed {
                Ok(cli) => cli.run().await.unwrap_err().to_string(),
                Err(error) => error.to_string(),
            };
            let name = flag.split(' ').next().unwrap();
            assert!(refused.contains(name) && refused.contains("--all"), "{line}: {refused}");
        }
        let listed = Cli::try_parse_from(["cloison-reproduce", "--list"]).unwrap();
        listed.run().await.unwrap();
    }
}
