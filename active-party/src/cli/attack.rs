//! `attack`: one or more attacks on a case file, without any service.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use serde::{Deserialize, Serialize};
use vfl_shared::cli::CliError;
use vfl_shared::types::{FeatureBlock, RecordIds, ReleasedScores};

use crate::attack::{AdversaryView, AttackError, KnownModel, Method, Settings};

/// `active-party attack`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  active-party attack --case case.json --attack half_star,least_squares --out estimates.json
  active-party attack --case case.json --attack half_star --set zero_floor=0.005 --out -

A case holds `schema` (1), `kind` (\"attack\"), `w_act`, `w_pas` (k rows each), `b`, and `records` with `id`, `y_act` and the
released scores `c`. `truth` and `expected` are accepted and never read.")]
pub struct AttackArgs {
    /// The case file (JSON).
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    /// Names of attacks, separated by commas: random, zero, half, least_squares, clamped_least_squares, half_star,
    /// clamped_half_star.
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    attack: Vec<String>,
    /// A setting, key=value; may be given more than once. Settings: zero_floor (what stands for a score of 0).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of attacks that draw random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where the estimates go (JSON); `-` for standard output.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// A case file. What an attack must not see has no place to go to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    schema: u32,
    kind: String,
    w_act: Vec<Vec<f64>>,
    w_pas: Vec<Vec<f64>>,
    b: Vec<f64>,
    records: Vec<CaseRecord>,
    #[serde(default, rename = "truth")]
    _truth: serde::de::IgnoredAny,
    #[serde(default, rename = "expected")]
    _expected: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseRecord {
    id: String,
    y_act: Vec<f64>,
    c: Vec<f64>,
}

#[derive(Serialize)]
struct Output {
    attacks: Vec<AttackOutput>,
}

#[derive(Serialize)]
struct AttackOutput {
    name: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nullity: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition_number: Option<f64>,
    estimates: Vec<Estimate>,
}

#[derive(Serialize)]
struct Estimate {
    id: String,
    x: Vec<f64>,
    /// ‖A x − b'‖₂
    #[serde(skip_serializing_if = "Option::is_none")]
    residual: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
}

impl AttackArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let methods = self.attack.iter().map(|name| name.parse::<Method>());
        let methods = methods.collect::<Result<Vec<_>, _>>().map_err(CliError::input)?;
        let pairs = self.set.iter().map(|pair| {
            let known = || CliError::Input(format!("--set {pair:?} is not of the form key=value"));
            pair.split_once('=').ok_or_else(known)
        });
        let settings = Settings::read(pairs.collect::<Result<Vec<_>, _>>()?).map_err(CliError::input)?;
        let shown = self.case.display();
        let text = std::fs::read_to_string(&self.case)
            .map_err(|e| CliError::Input(format!("cannot read the case file {shown}: {e}")))?;
        let content = attack_case(&text, &methods, &settings, self.seed)
            .map_err(|reason| CliError::Input(format!("case file {shown}: {reason}")))?;
        if self.out.as_os_str() == "-" {
            return std::io::stdout().write_all(&content).map_err(CliError::failed);
        }
        vfl_shared::files::write_atomic(&self.out, &content, true)
            .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", self.out.display())))
    }
}

/// Runs attacks on the text of a case file and gives the text of the output file.
pub(crate) fn attack_case(text: &str, methods: &[Method], settings: &Settings, seed: u64) -> Result<Vec<u8>, String> {
    let case: Case = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if case.schema != 1 || case.kind != "attack" {
        return Err(format!("expected schema 1 and kind \"attack\", got {} and {:?}", case.schema, case.kind));
    }
    let k = case.b.len();
    if k < 2 {
        return Err(format!("`b` has {k} entries, a model has at least 2 classes (binary is k = 2)"));
    }
    let w_act = matrix("w_act", k, &case.w_act)?;
    let w_pas = matrix("w_pas", k, &case.w_pas)?;
    if w_pas.ncols() == 0 {
        return Err("`w_pas` has no column, so there is nothing to attack".into());
    }
    if case.records.is_empty() {
        return Err("`records` is empty".into());
    }
    let ids = RecordIds::new(case.records.iter().map(|r| &r.id)).map_err(|e| format!("`records`: {e}"))?;
    let y = columns("y_act", w_act.ncols(), case.records.iter().map(|r| &r.y_act))?;
    let c = columns("c", k, case.records.iter().map(|r| &r.c))?;
    let y = FeatureBlock::new(y).map_err(|e| format!("`y_act`: {e}"))?;
    let bias = DVector::from_vec(case.b);
    if !bias.iter().chain(w_act.iter()).chain(w_pas.iter()).all(|v| v.is_finite()) {
        return Err("a parameter is not finite".into());
    }
    let model = KnownModel::white_box(w_act, bias, w_pas).map_err(|e| e.to_string())?;
    let released = ReleasedScores::Numbers(c);
    let view =
        AdversaryView::new(&model, &y, &released, settings.replacement).map_err(|e: AttackError| e.to_string())?;
    let mut attacks = Vec::with_capacity(methods.len());
    for method in methods {
        let found = method.build(settings).reconstruct(&view, &mut ChaCha20Rng::seed_from_u64(seed));
        let found = found.map_err(|e| format!("{method}: {e}"))?;
        let estimates = ids.iter().zip(found.estimates.column_iter()).enumerate().map(|(i, (id, x))| Estimate {
            id: id.to_owned(),
            x: x.iter().copied().collect(),
            residual: found.solved.as_ref().map(|s| s.residuals[i]),
            ended: found.outcomes.get(i).map(|o| o.ended.as_str()),
            iterations: found.outcomes.get(i).map(|o| o.iterations),
            objective: found.outcomes.get(i).map(|o| o.objective),
        });
        attacks.push(AttackOutput {
            name: method.as_str(),
            status: found.status.as_str(),
            rank: found.solved.as_ref().map(|s| s.rank),
            nullity: found.solved.as_ref().map(|s| s.nullity),
            condition_number: found.solved.as_ref().map(|s| s.condition_number),
            estimates: estimates.collect(),
        });
    }
    let mut content = serde_json::to_vec(&Output { attacks }).map_err(|e| e.to_string())?;
    content.push(b'\n');
    Ok(content)
}

fn matrix(name: &str, k: usize, rows: &[Vec<f64>]) -> Result<DMatrix<f64>, String> {
    if rows.len() != k {
        return Err(format!("`{name}` has {} rows, `b` says there are {k} classes", rows.len()));
    }
    let d = rows[0].len();
    match rows.iter().position(|row| row.len() != d) {
        Some(at) => Err(format!("row {at} of `{name}` has {} columns, the first has {d}", rows[at].len())),
        None => Ok(DMatrix::from_row_iterator(k, d, rows.iter().flatten().copied())),
    }
}

fn columns<'a>(
    name: &str,
    d: usize,
    records: impl ExactSizeIterator<Item = &'a Vec<f64>>,
) -> Result<DMatrix<f64>, String> {
    let n = records.len();
    let mut values = Vec::with_capacity(d * n);
    for (at, record) in records.enumerate() {
        if record.len() != d {
            return Err(format!("`{name}` of record {at} has {} entries, expected {d}", record.len()));
        }
        if !record.iter().all(|v| v.is_finite()) {
            return Err(format!("`{name}` of record {at} holds a value that is not finite"));
        }
        values.extend_from_slice(record);
    }
    Ok(DMatrix::from_vec(d, n, values))
}

#[cfg(test)]
mod tests;
