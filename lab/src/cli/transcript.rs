//! The command `cloison transcript`.

use std::io::Write;

use clap::Args;
use vfl_core::model::TrainingValues;
use vfl_present::ColumnKind::{Name, Right};
use vfl_present::progress::{Progress, say};
use vfl_present::{ColumnKind, Frame, Table};
use vfl_server::cli::{CliError, positive};
use vfl_studies::transcript::{Accuracy, TranscriptPlan, TranscriptReport, run};

use super::data::DataArgs;

/// The arguments of `cloison transcript`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison transcript --passive-features 12 --epochs 1,2,5,10
  cloison transcript --dataset satellite --passive-features 12 --known 12 --epochs 1,2,5,10,20,50,100
  cloison transcript --dataset pendigits --passive-features 12 --known 24 --json

Trains in this process with the parties' own code and keeps what an honest active party receives: the gradients of its batches, \
beside its own shares. It knows the passive features of --known training records and no parameter. The table says how well it \
then reconstructs the passive features of the other training records, by number of epochs. Errors are of features in [0, 1].")]
pub struct TranscriptArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Training records whose passive features the active party knows.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = positive)]
    known: usize,
    /// Numbers of epochs to measure at. One training is run, for the largest number.
    #[arg(long, value_name = "E,…", value_delimiter = ',', default_value = "1,2,5,10,20")]
    epochs: Vec<u32>,
    /// Records per step.
    #[arg(long, value_name = "N", default_value_t = TrainingValues::default().batch_size)]
    batch_size: u32,
    /// Step size of Adam.
    #[arg(long, value_name = "X", default_value_t = TrainingValues::default().learning_rate)]
    learning_rate: f64,
    /// Weight of the squared norm of all weights.
    #[arg(long, value_name = "X", default_value_t = TrainingValues::default().l2)]
    l2: f64,
    /// The most iterations of the attack, for each number of epochs.
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = positive)]
    iterations: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl TranscriptArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        // Minutes of computation must not block the runtime's threads.
        tokio::task::spawn_blocking(move || self.compute()).await.map_err(CliError::failed)?
    }

    fn compute(self) -> Result<(), CliError> {
        let plan = TranscriptPlan {
            data: self.data.spec()?,
            first_column: self.data.first_column,
            passive_features: self.data.passive_features,
            passive_parties: self.data.passive_parties.into(),
            training: TrainingValues {
                batch_size: self.batch_size,
                learning_rate: self.learning_rate,
                l2: self.l2,
                seed: self.data.seed,
                ..Default::default()
            },
            known: self.known,
            epochs: self.epochs,
            iterations: self.iterations,
            seed: self.data.seed,
        };
        let mut bar = Progress::start("measuring what a training tells", plan.epochs.len() as u64);
        let shared = std::cell::RefCell::new((0u64, &mut bar));
        let report = run(
            &plan,
            |what| {
                let (done, bar) = &mut *shared.borrow_mut();
                bar.at(*done, what);
            },
            |row| {
                shared.borrow_mut().0 += 1;
                say(&format!(
                    "{} epochs: error over variance {:.2e}",
                    row.epochs, row.accuracy.error_over_variance
                ));
            },
        );
        let report = report.map_err(CliError::input)?;
        bar.done("done");
        let text = if self.json {
            serde_json::to_string_pretty(&report).map_err(CliError::failed)?
        } else {
            table(&report)
        };
        // A reader that stops early (`| head`) is not a failure.
        let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
        Ok(())
    }
}

const COLUMNS: [(&str, ColumnKind); 6] = [
    ("estimate", Name),
    ("mean squared error", Right),
    ("error / variance", Right),
    ("values within 0.01", Right),
    ("records within 0.01", Right),
    ("median largest error", Right),
];

fn table(report: &TranscriptReport) -> String {
    let line = |what: String, a: &Accuracy| {
        [
            what,
            format!("{:.2e}", a.mean_squared_error),
            format!("{:.2e}", a.error_over_variance),
            format!("{:.1} %", 100.0 * a.values_within_0_01),
            format!("{:.1} %", 100.0 * a.records_within_0_01),
            format!("{:.1e}", a.median_largest_error),
        ]
    };
    let without = [
        line("½".into(), &report.half),
        line("column means".into(), &report.column_means),
        line("means of the known records".into(), &report.known_means),
        line("regression from the known records, no training".into(), &report.without_training),
    ];
    let attack = report.attack.iter().map(|row| {
        let unit = if row.epochs == 1 { "epoch" } else { "epochs" };
        line(format!("transcript of {} {unit}", row.epochs), &row.accuracy)
    });
    let table = Table::of_rows(COLUMNS, without.into_iter().chain(attack));
    let table = table.text(Frame::Full, Some(110), false);
    format!(
        "{}, {} classes, {} active and {} passive features, {} training records, {} of them known; batches of {}, step size {}\n{table}\n\
         Every feature is in [0, 1]; all training records that are not known are counted.",
        report.set,
        report.classes,
        report.active_features,
        report.passive_features,
        report.training_records,
        report.known_records,
        report.training.batch_size,
        report.training.learning_rate,
    )
}
