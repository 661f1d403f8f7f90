//! `cloison reproduce`.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use vfl_shared::cli::CliError;
use vfl_shared::data::{BankColumns, DatasetName};

use super::BankChoice;
use crate::progress::say;
use crate::reproduce::{Figure, Options, ReproduceError, Subject, SubjectSpec, render_table, run, write};

/// What to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Choice {
    /// Say which figures there are, what each shows and how long it takes.
    List,
    /// Errors of ten attacks by the number of passive features.
    #[value(name = "r-fig4")]
    RFig4,
    /// Theorem 2: closed forms and bounds beside the measured errors.
    #[value(name = "r-fig5")]
    RFig5,
    /// One feature in the black box, by the number of predictions.
    #[value(name = "r-fig7")]
    RFig7,
    /// Schemes that keep the class: error by the divergence they cost.
    #[value(name = "r-fig13")]
    RFig13,
    /// Gradient inversion from 0, from ½ and from a random point.
    #[value(name = "r-fig14")]
    RFig14,
    /// Shadow models, by the number of auxiliary records.
    #[value(name = "j-fig11a")]
    JFig11a,
}

impl Choice {
    fn figure(self) -> Option<Figure> {
        match self {
            Self::List => None,
            Self::RFig4 => Some(Figure::RFig4),
            Self::RFig5 => Some(Figure::RFig5),
            Self::RFig7 => Some(Figure::RFig7),
            Self::RFig13 => Some(Figure::RFig13),
            Self::RFig14 => Some(Figure::RFig14),
            Self::JFig11a => Some(Figure::JFig11a),
        }
    }
}

/// Roughly how long a whole figure takes on two cores.
fn duration(figure: Figure) -> &'static str {
    match figure {
        Figure::RFig4 => "some minutes on satellite, for gradient_inversion and rcc1 (5 seconds without the two)",
        Figure::RFig5 => "some seconds",
        Figure::RFig7 => "some seconds, training included",
        Figure::RFig13 => "half a minute",
        Figure::RFig14 => "some minutes",
        Figure::JFig11a => "some minutes",
    }
}

/// How many test records.
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
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// `cloison reproduce`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison reproduce list                                               figures, data sets, durations
  cloison reproduce r-fig4 --dataset satellite --data-dir DIR          the whole figure
  cloison reproduce r-fig4 --dimensions 1,6,12 --attacks half_star,rcc2,half --records 200
  cloison reproduce r-fig4 --dataset robot --records all --model weights.json
  cloison reproduce r-fig14 --gia steps=2000 --gia learning_rate=0.001
  cloison reproduce j-fig11a --dataset bank

Everything is computed in this process from exact scores; nothing is served. Writes OUT/FIGURE-DATASET.json, the figures'
source, and OUT/FIGURE-DATASET.html, a page with the plot. A model file is JSON with `W`, one row of weights per class,
and `b`; `test_row_in_file`, if there, says which rows of the data set were its test set.")]
pub struct ReproduceArgs {
    /// The figure, or `list`.
    #[arg(value_name = "FIGURE", value_enum)]
    figure: Choice,
    /// Data set: satellite, robot, bank or synthetic. Default: the figure's first.
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// Where the public data sets are (scripts/fetch-datasets.sh fetches them).
    #[arg(long, value_name = "DIR", env = "CLOISON_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Columns of the bank data set.
    #[arg(long, value_enum, default_value = "authors")]
    bank_columns: BankChoice,
    /// Take the model's weights from this file instead of training one.
    #[arg(long, value_name = "FILE.json")]
    model: Option<PathBuf>,
    /// Test records attacked in every split, the same ones in each; or `all`.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = records)]
    records: Records,
    /// Records of every split that gradient_inversion attacks at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive)]
    gia_records: usize,
    /// A setting of gradient_inversion; may be repeated. Default: the paper's (R: loss=rkl, start=zero; J: loss=mse).
    #[arg(long = "gia", value_name = "KEY=VALUE", value_parser = setting)]
    gia: Vec<(String, String)>,
    /// Only these curves of the figure.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    attacks: Vec<String>,
    /// Only these numbers of passive features. Default: 1 to 0.9 of the features.
    #[arg(long, value_name = "D,…", value_delimiter = ',')]
    dimensions: Vec<usize>,
    /// Seed of training, draws and attacks.
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// Threads; no result depends on it. Default: one per core.
    #[arg(long, value_name = "N", value_parser = positive)]
    threads: Option<usize>,
    /// Where the files go.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Print the document as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "expected a whole number above 0".into())
}

impl ReproduceArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        // Minutes of arithmetic have no place on the runtime's threads.
        tokio::task::spawn_blocking(move || self.compute()).await.map_err(CliError::failed)?
    }

    fn compute(self) -> Result<(), CliError> {
        let Some(figure) = self.figure.figure() else {
            print(&list());
            return Ok(());
        };
        let dataset = match &self.dataset {
            None => figure.datasets()[0],
            Some(name) => {
                let name: DatasetName = name.parse().map_err(CliError::input)?;
                figure.on(name).map_err(CliError::input)?
            }
        };
        let bank_columns = match self.bank_columns {
            BankChoice::WithoutDuration => BankColumns::WithoutDuration,
            BankChoice::Authors => BankColumns::Authors,
        };
        say(&format!("{}: {} on {dataset}", figure.as_str(), figure.title()));
        if self.model.is_none() {
            say("training the model");
        }
        let spec = SubjectSpec { dataset, data_dir: self.data_dir, bank_columns, model: self.model, seed: self.seed };
        let subject = Subject::load(&spec).map_err(told)?;
        let options = Options {
            records: self.records.0,
            inversion_records: self.gia_records,
            inversion: self.gia,
            attacks: self.attacks,
            dimensions: self.dimensions,
            seed: self.seed,
            threads: self.threads.unwrap_or(Options::default().threads),
        };
        let document = run(figure, &subject, &options).map_err(told)?;
        let [json, html] = write(&document, &self.out).map_err(told)?;
        if self.json {
            print(&document.to_json().map_err(told)?);
        } else {
            let width = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok()).unwrap_or(120);
            print(&render_table(&document, width));
        }
        say(&format!("figure: {} and {}", html.display(), json.display()));
        Ok(())
    }
}

/// Bad input, or work that failed.
fn told(error: ReproduceError) -> CliError {
    use ReproduceError as E;
    match error {
        E::Attack { .. }
        | E::NotFinite { .. }
        | E::Defense { .. }
        | E::Shape(_)
        | E::Metric(_)
        | E::Threads(_)
        | E::Json(_)
        | E::Plot(_)
        | E::NothingToRun { .. }
        | E::Write { .. } => CliError::failed(error),
        _ => CliError::input(error),
    }
}

/// A reader that has seen enough (`| head`) is no failure.
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
            duration(figure)
        ));
    }
    out
}
