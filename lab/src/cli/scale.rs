//! The command `cloison scale`.

use std::io::Write;

use clap::Args;
use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_datasets::set_facts::SetFacts;
use vfl_demo::scale::{Row, ScalePlan, run};
use vfl_present::ColumnKind::Right;
use vfl_present::progress::{Progress, say};
use vfl_present::{Frame, Table};
use vfl_server::cli::CliError;

use super::data::DataArgs;
use super::model::ModelArgs;

/// The arguments of `cloison scale`
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  cloison scale --dataset satellite --parties 2,3,4
  cloison scale --dataset mnist --hidden 128 --activation relu --embedding 64 --parties 2,5,25 --epochs 5
  cloison scale --dataset cifar10 --residual --embedding 64 --parties 2 --epochs 10

Starts all parties in this process, trains over sockets of this machine with mutual TLS, and asks for predictions as a client does. \
The features are dealt out evenly and in their order, those of images row by row; for --residual images are cut by columns of \
pixels. The active party is one of the parties. Times are of this machine, with all parties on it.")]
pub struct ScaleArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    model: ModelArgs,
    /// Numbers of parties, including the active one.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,3,5",
        value_parser = clap::value_parser!(u8).range(2..=65))]
    parties: Vec<u8>,
    /// Training records. Default: all.
    #[arg(long, value_name = "N")]
    train_records: Option<usize>,
    /// Epochs of training at most.
    #[arg(long, value_name = "N", default_value_t = 10)]
    epochs: u32,
    /// Records per step.
    #[arg(long, value_name = "N", default_value_t = TrainingValues::default().batch_size)]
    batch_size: u32,
    /// Step size of Adam.
    #[arg(long, value_name = "X", default_value_t = 1e-3)]
    learning_rate: f64,
    /// Weight of the squared norm of all weights.
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    l2: f64,
    /// Timed predictions of one record each.
    #[arg(long, value_name = "N", default_value_t = 500)]
    predictions: usize,
    /// Print JSON, which has every epoch, instead of a table.
    #[arg(long)]
    json: bool,
}

impl ScaleArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let image = self.data.spec()?.image();
        let training = TrainingConfig::try_from(TrainingValues {
            epochs: self.epochs,
            batch_size: self.batch_size,
            learning_rate: self.learning_rate,
            l2: self.l2,
            seed: self.data.seed,
            model: self.model.model(image)?,
            ..Default::default()
        })
        .map_err(CliError::input)?;
        let plan = ScalePlan {
            parties: self.parties.iter().map(|&n| n.into()).collect(),
            training,
            image_parts: image.filter(|_| self.model.residual),
            records: self.train_records,
            predictions: self.predictions,
            seed: self.data.seed,
        };
        let dataset = self.data.load()?;
        for &parties in &plan.parties {
            vfl_demo::scale::split(&dataset, plan.image_parts, parties).map_err(CliError::input)?;
        }
        say(&format!("{}, {} classes", SetFacts::of(&dataset), dataset.class_names().len()));
        let mut bar = Progress::start(
            "training and serving",
            u64::from(self.epochs) * plan.parties.len() as u64,
        );
        let mut done = 0;
        let rows = run(&dataset, &plan, |parties, p| {
            done += 1;
            let accuracy =
                p.validation_accuracy.map_or(String::new(), |a| format!(", accuracy {a:.4}"));
            bar.at(done, &format!("{parties} parties, epoch {}: {}{accuracy}", p.epoch, p.words()));
        });
        let rows = rows.await.map_err(|e| CliError::Failed(format!("{e:#}")))?;
        bar.done("done");
        let text = if self.json {
            serde_json::to_string_pretty(&rows).map_err(CliError::failed)?
        } else {
            table(&rows)
        };
        // A reader that stops early (`| head`) is not a failure.
        let _ = writeln!(std::io::stdout(), "{}", text.trim_end());
        Ok(())
    }
}

fn table(rows: &[Row]) -> String {
    let rows = || rows.iter();
    Table::new()
        .column("parties", Right, rows().map(|row| row.parties.to_string()))
        .column("features of one", Right, rows().map(|row| row.most_features.to_string()))
        .column("accuracy", Right, rows().map(|row| format!("{:.4}", row.test_accuracy)))
        .column("training s", Right, rows().map(|row| format!("{:.1}", row.seconds)))
        .column("steps", Right, rows().map(|row| row.steps.to_string()))
        .column("ms a step", Right, rows().map(|row| format!("{:.2}", row.step_ms)))
        .column("bytes a record", Right, rows().map(|row| row.prediction_bytes.to_string()))
        .column("p50 ms", Right, rows().map(|row| format!("{:.2}", row.p50_ms)))
        .column("p99 ms", Right, rows().map(|row| format!("{:.2}", row.p99_ms)))
        .text(Frame::Full, Some(110), false)
}
