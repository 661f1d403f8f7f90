//! `transform`: rewrites the parameters of a case for release, without any service.

mod settings;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use nalgebra::DMatrix;
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vfl_core::metrics::Interpretability;
use vfl_core::types::FeatureBlock;
use vfl_server::cli::{CliError, case_file};
use vfl_transform::assess::{AttackErrors, release_errors};
use vfl_transform::{RewrittenParameters, TransformConfig, natural_distance, rewrite};

use super::case::{self, BY_WEIGHTS, number};

/// The arguments of `passive-party transform`.
#[derive(Debug, Args)]
#[command(after_help = after_help())]
pub struct TransformArgs {
    /// The case file (JSON).
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    /// The transform (see below). Default: the one that the case names.
    #[arg(long, value_name = "NAME")]
    transform: Option<String>,
    /// A setting, key=value, lists as 0,2,3 (see below); may be given more than once. Overrides the
    /// case's settings.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of the secrets of a transform and of searches: anyone who knows it can undo the
    /// transform. Default: drawn from the operating system and never shown.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The output file for the rewritten parameters (JSON), without the summary; `-` for standard
    /// output, with the summary on standard error.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the summary as JSON: g, errors and objective, which must not be handed on.
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    format!(
        "\
Examples:
  passive-party transform --case case.json --transform complement --out release.json
  passive-party transform --case case.json --transform stiefel --set epsilon=0.05 --out release.json
  passive-party transform --case case.json --transform selective --set features=0,3 --out -

A case holds `schema` (1), `kind` (\"transform\"), `w_pas` (k rows of d weights), and as needed `transform`, `case` (i or ii, \
for stiefel), `settings`, and `x_pas` (n records of d features in [0, 1]) for transforms that are fitted to them:
{{\"schema\":1,\"kind\":\"transform\",\"transform\":\"negate\",\"w_pas\":[[0.5,1],[0,2]],\"x_pas\":[[0.2,0.9],[0.4,0.1]]}}. \
`expected` is accepted and never read. With another --transform than the case's, those of its settings count that the new one \
knows.

The output file holds `schema`, `transform`, `w_n` and `bias_shift`: what is released. The summary is for you alone, since it \
says how far from the true parameters that is: `g` (V (33)), with `x_pas` the errors `mse` of an adversary that has exact scores \
and takes the release for the true parameters, before and after, and where there was a search its `objective`.

Transforms and their settings:{}",
        settings::help()
    )
}

/// A case file of kind `transform`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "schema")]
    _schema: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default)]
    transform: Option<String>,
    #[serde(default)]
    case: Option<Value>,
    w_pas: Vec<Vec<f64>>,
    #[serde(default)]
    x_pas: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    settings: Map<String, Value>,
    #[serde(default, rename = "expected")]
    _expected: IgnoredAny,
}

/// The output file: the release and nothing else, since the file may be handed on.
#[derive(Debug, Serialize)]
struct Output {
    /// The version of this structure.
    schema: u32,
    transform: &'static str,
    w_n: Vec<Vec<f64>>,
    bias_shift: Vec<f64>,
    #[serde(skip)]
    summary: Summary,
}

/// The summary of a release for this party alone. It holds no parameter, but statistics of the true
/// ones.
#[derive(Debug, Serialize)]
struct Summary {
    #[serde(skip)]
    shape: (usize, usize),
    /// The configured ε; a secret ε' is not shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    epsilon: Option<f64>,
    g: f64,
    mean_log_odds_change: f64,
    max_log_odds_change: f64,
    sign_flips: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mse: Option<Errors>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<Effort>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Errors {
    #[serde(flatten)]
    after: AttackErrors,
    before: AttackErrors,
}

#[derive(Debug, Serialize)]
struct Effort {
    starts: u32,
    steps: u64,
    gradient_norm: f64,
}

impl TransformArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let text = case_file::read(&self.case)?;
        let (content, summary) =
            transform_case(&text, self.transform.as_deref(), &self.set, self.seed, self.json)
                .map_err(|reason| case_file::refused(&self.case, &reason))?;
        case_file::write(&self.out, &content)?;
        if self.out.as_os_str() == "-" {
            std::io::stderr().write_all(summary.as_bytes()).map_err(CliError::failed)
        } else {
            std::io::stdout().write_all(summary.as_bytes()).map_err(CliError::failed)
        }
    }
}

/// Returns the output of `passive-party transform` for the text of a case file: the content of the
/// output file, and the summary, as JSON or for a reader. Without a seed, the secrets of the
/// transform are drawn from the operating system.
///
/// # Errors
/// A message that says what is wrong with the case, or why the transform cannot be made. It
/// contains no feature and no parameter.
pub fn transform_case(
    text: &str,
    name: Option<&str>,
    set: &[String],
    seed: Option<u64>,
    json: bool,
) -> Result<(Vec<u8>, String), String> {
    let output = transformed(text, name, set, seed)?;
    let mut content = serde_json::to_vec(&output).map_err(|e| e.to_string())?;
    content.push(b'\n');
    let summary = match json {
        true => {
            let (k, d) = output.summary.shape;
            let head = serde_json::json!({"schema": 1, "transform": output.transform, "classes": k, "features": d});
            let mut all = serde_json::to_value(&output.summary).map_err(|e| e.to_string())?;
            if let (Some(all), Value::Object(head)) = (all.as_object_mut(), head) {
                all.extend(head);
            }
            all.to_string() + "\n"
        }
        false => table(output.transform, &output.summary),
    };
    Ok((content, summary))
}

/// Transforms the text of a case file.
fn transformed(
    text: &str,
    name: Option<&str>,
    set: &[String],
    seed: Option<u64>,
) -> Result<Output, String> {
    let mut rng = match seed {
        Some(seed) => ChaCha20Rng::seed_from_u64(seed),
        None => ChaCha20Rng::from_rng(&mut rand::rng()),
    };
    let case: Case = case_file::parse(text, "transform")?;
    let w_pas = case::weights(&case.w_pas)?;
    let x =
        case.x_pas.as_deref().map(|x| case::records(x, w_pas.ncols(), BY_WEIGHTS)).transpose()?;
    let named = name
        .or(case.transform.as_deref())
        .ok_or("the case names no `transform`; name one with --transform")?;
    let own = case.transform.as_deref() == Some(named) || case.transform.is_none();
    let given = settings::SettingSources { settings: case.settings, case: case.case, own, set };
    let config = settings::config(named, given, natural_distance(&w_pas))?;
    let rewritten = rewrite(&config, &w_pas, x.as_ref(), &mut rng).map_err(|e| e.to_string())?;
    let summary = summarise(&config, &w_pas, &rewritten, x.as_ref())?;
    Ok(Output {
        schema: 1,
        transform: config.name(),
        w_n: rewritten.weights.row_iter().map(|row| row.iter().copied().collect()).collect(),
        bias_shift: rewritten.bias_shift.iter().copied().collect(),
        summary,
    })
}

fn summarise(
    config: &TransformConfig,
    w_pas: &DMatrix<f64>,
    rewritten: &RewrittenParameters,
    x: Option<&FeatureBlock>,
) -> Result<Summary, String> {
    let distance = Interpretability::of(w_pas, &rewritten.weights).map_err(|e| e.to_string())?;
    let errors = |x| -> Result<Errors, vfl_transform::assess::AssessError> {
        let still = &rewritten.bias_shift * 0.0;
        Ok(Errors {
            after: release_errors(w_pas, &rewritten.weights, &rewritten.bias_shift, x)?,
            before: release_errors(w_pas, w_pas, &still, x)?,
        })
    };
    Ok(Summary {
        shape: w_pas.shape(),
        epsilon: config.epsilon(),
        g: distance.g,
        mean_log_odds_change: distance.mean_log_odds_change,
        max_log_odds_change: distance.max_log_odds_change,
        sign_flips: distance.sign_flips,
        mse: x.map(errors).transpose().map_err(|e| e.to_string())?,
        objective: rewritten.search.map(|s| s.objective),
        search: rewritten.search.filter(|s| s.steps > 0).map(|s| Effort {
            starts: s.starts,
            steps: s.steps,
            gradient_norm: s.gradient_norm,
        }),
        notes: x.and_then(case::outside).into_iter().collect(),
    })
}

/// Writes the summary for a reader. It contains no parameter.
fn table(transform: &str, summary: &Summary) -> String {
    let (k, d) = summary.shape;
    let mut out = format!("{transform}: classes {k}, passive features {d}\n\n");
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<44} {value}");
    };
    if let Some(epsilon) = summary.epsilon {
        line("epsilon", number(epsilon));
    }
    line("g, distance from the true parameters (V 33)", number(summary.g));
    line("log odds ratio of one unit, mean change", number(summary.mean_log_odds_change));
    line("log odds ratio of one unit, largest change", number(summary.max_log_odds_change));
    line("share of log odds ratios that change sign", number(summary.sign_flips));
    if let Some(objective) = summary.objective {
        line("objective", number(objective));
    }
    if let Some(Effort { starts, steps, gradient_norm }) = summary.search {
        line("starts", format!("{starts:>12}"));
        line("steps over all starts", format!("{steps:>12}"));
        line("gradient norm at the end", number(gradient_norm));
    }
    match &summary.mse {
        Some(Errors { after, before }) => {
            let _ = writeln!(out, "\nMean squared error per feature, exact scores");
            let _ = writeln!(out, "{:<18} {:>12} {:>12}", "attack", "before", "after");
            for (name, before, after) in [
                ("least_squares", before.least_squares, after.least_squares),
                ("half_star", before.half_star, after.half_star),
            ] {
                let _ = writeln!(out, "{name:<18} {} {}", number(before), number(after));
            }
            out.push_str("\nAfter: the adversary takes the release for the true parameters. One that knows better does better.\n");
        }
        None => out.push_str("\nGive `x_pas` to foretell what an adversary makes of it.\n"),
    }
    for note in &summary.notes {
        let _ = writeln!(out, "Note: {note}");
    }
    out
}

#[cfg(test)]
mod tests;
