//! `defend`: applies a defense to a file of scores, without any service.

mod report;
mod scores;
mod settings;

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use nalgebra::DMatrix;
use serde::Deserialize;
use serde::de::IgnoredAny;
use vfl_core::types::Logits;
use vfl_defense::policy::NoiseMode;
use vfl_defense::{DefenseConfig, Grants, Noise, NoiseSecret, Pipeline, PipelineOutput};
use vfl_server::cli::CliError;

use report::Report;
use scores::ScoreFile;

/// The arguments of `coordinator defend`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct DefendArgs {
    /// The scores (CSV): a header `id,<class>,<class>,…` and a probability vector per record.
    #[arg(long, value_name = "FILE")]
    scores: PathBuf,
    /// The name of a defense, or a policy as its text; may be given more than once, in order.
    #[arg(long, value_name = "NAME", required = true)]
    defense: Vec<String>,
    /// Calibration scores (CSV), for defenses that are fitted on scores (`ranking`, `codebook`,
    /// `purifier`). Default: the scores themselves.
    #[arg(long, value_name = "FILE")]
    fit: Option<PathBuf>,
    /// A case file (JSON) with `w_pas`, for `logit_noise` schemes 1 and 2.
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// A setting, key=value or defense.key=value, lists as 1,2,3 (see below); may be given more
    /// than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of the key that noise is drawn with: the same seed, record and policy give the same
    /// answer.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Labels (CSV, `id,label`), for the change of accuracy and the calibration error.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Number of the largest scores that the report compares as a set. Default: 5, or all but one.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// File for the released scores (CSV); `-` for standard output, with the report on standard
    /// error.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    format!(
        "\
Examples:
  coordinator defend --scores scores.csv --defense rounding --set decimals=1 --out rounded.csv
  coordinator defend --scores scores.csv --defense codebook --fit calibration.csv --set size=64 --out coded.csv
  coordinator defend --scores scores.csv --defense logit_noise --parameters case.json --set alpha=4 --out noisy.csv
  coordinator defend --scores scores.csv --defense 'temperature (temperature = 2.0) then rounding (decimals = 1)' --out -

The output has the columns of the input in the same order: scores, ciphertexts as whole numbers, or for a label 1 in the \
column of the class and 0 in the others. Noise is keyed by the record's id; end a policy with `, fresh noise` to draw it by \
the record's place. Logarithms of the scores stand for logits; zero_floor (default 1e-300) stands for a score of 0 there.

Defenses and their settings:{}",
        settings::help()
    )
}

impl DefendArgs {
    /// Applies the defense to the file, writes the released scores and prints the report.
    ///
    /// # Errors
    /// [`CliError::Input`] for a bad file or setting, naming it, the line and the fix;
    /// [`CliError::Failed`] where the output cannot be written.
    pub fn run(self) -> Result<(), CliError> {
        let (content, report) = self.defend(&scores::content).map_err(CliError::Input)?;
        let report = match self.json {
            true => serde_json::to_string_pretty(&report).map_err(CliError::failed)? + "\n",
            false => report.to_string(),
        };
        if self.out.as_os_str() == "-" {
            std::io::stdout().write_all(&content).map_err(CliError::failed)?;
            return std::io::stderr().write_all(report.as_bytes()).map_err(CliError::failed);
        }
        vfl_state::files::write_atomic(&self.out, &content, true)
            .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", self.out.display())))?;
        std::io::stdout().write_all(report.as_bytes()).map_err(CliError::failed)
    }

    /// Returns the content that [`run`](DefendArgs::run) writes to its output file, and the report
    /// as text. `read` gives the content of a file.
    ///
    /// # Errors
    /// A message about the file or setting at fault; it shows no score and no parameter of a file.
    pub fn answer(
        &self,
        read: &dyn Fn(&Path) -> std::io::Result<Vec<u8>>,
    ) -> Result<(Vec<u8>, String), String> {
        self.defend(read).map(|(content, report)| (content, report.to_string()))
    }

    fn defend(&self, read: scores::FileReader<'_>) -> Result<(Vec<u8>, Report), String> {
        let file = ScoreFile::read(&self.scores, read)?;
        let k = file.classes.len();
        let asked = settings::policy(&self.defense, &self.set, k)?;
        Pipeline::check(&asked.policy.defenses).map_err(|e| e.to_string())?;
        let fit = self.fit.as_deref().map(|path| ScoreFile::read(path, read)).transpose()?;
        if let (Some(fit), Some(path)) = (&fit, &self.fit)
            && fit.classes != file.classes
        {
            let scores = self.scores.display();
            return Err(format!(
                "{}: its columns are not those of {scores}, in the same order",
                path.display()
            ));
        }
        let weights =
            self.parameters.as_deref().map(|path| read_weights(path, read)).transpose()?;
        let labels = self
            .labels
            .as_deref()
            .map(|path| scores::read_labels(path, read, &file))
            .transpose()?;
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        let key = NoiseSecret::new(seed).key("defend", &asked.policy.to_string());
        let grants = Grants {
            passive_weights: weights.as_ref(),
            calibration: Some(&fit.as_ref().unwrap_or(&file).scores),
            seed: key.training_seed(),
        };
        let pipeline = Pipeline::build(&asked.policy.defenses, k, &grants).map_err(|e| {
            let lacking = weights.is_none()
                && asked.policy.defenses.iter().any(DefenseConfig::needs_passive_weights);
            let hint = if lacking { "; --parameters CASE.json gives the weights" } else { "" };
            format!("{e}{hint}")
        })?;
        let noise = match asked.policy.noise {
            NoiseMode::Keyed => Noise::keyed(&key, &file.ids),
            NoiseMode::Fresh => Noise::fresh(seed),
        };
        let scores = file.scores.clone();
        let PipelineOutput { released, .. } = if pipeline.changes_logits() {
            let logits = Logits::new(scores.matrix().map(|c| c.max(asked.zero_floor).ln()))
                .map_err(|e| e.to_string())?;
            pipeline.release(logits, noise)
        } else {
            pipeline.release_scores(scores, noise)
        }
        .map_err(|e| e.to_string())?;
        let top = self.top.unwrap_or(5.min(k - 1));
        if !(1..=k).contains(&top) {
            return Err(format!("--top is {top}, expected 1 to {k}, the number of classes"));
        }
        let report =
            Report::new(&asked.policy, &pipeline, &file, &released, top, labels.as_deref())?;
        let content =
            scores::write(&file.classes, &file.ids, &released).map_err(|e| e.to_string())?;
        Ok((content, report))
    }
}

/// The part of a case file, of any kind, that is read here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    schema: u32,
    w_pas: Vec<Vec<f64>>,
    #[serde(default, rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default, rename = "w_act")]
    _w_act: IgnoredAny,
    #[serde(default, rename = "b")]
    _b: IgnoredAny,
    #[serde(default, rename = "records")]
    _records: IgnoredAny,
    #[serde(default, rename = "x_pas")]
    _x_pas: IgnoredAny,
    #[serde(default, rename = "truth")]
    _truth: IgnoredAny,
    #[serde(default, rename = "transform")]
    _transform: IgnoredAny,
    #[serde(default, rename = "case")]
    _case: IgnoredAny,
    #[serde(default, rename = "settings")]
    _settings: IgnoredAny,
    #[serde(default, rename = "expected")]
    _expected: IgnoredAny,
}

/// Reads W_pas (k × d) from a case file.
fn read_weights(path: &Path, read: scores::FileReader<'_>) -> Result<DMatrix<f64>, String> {
    let shown = path.display();
    let text = read(path).map_err(|e| format!("cannot read the case file {shown}: {e}"))?;
    let error = |problem: String| format!("case file {shown}: {problem}");
    let Case { schema, w_pas, .. } =
        serde_json::from_slice(&text).map_err(|e| error(vfl_core::json::json_error(&e)))?;
    if schema != 1 {
        return Err(error(format!("`schema` is {schema}, expected 1")));
    }
    let d = w_pas.first().map_or(0, Vec::len);
    match w_pas.iter().position(|row| row.len() != d) {
        Some(at) => Err(error(format!(
            "row {at} of `w_pas` has {} columns, the first has {d}",
            w_pas[at].len()
        ))),
        None => Ok(DMatrix::from_row_iterator(w_pas.len(), d, w_pas.into_iter().flatten())),
    }
}

#[cfg(test)]
mod tests;
