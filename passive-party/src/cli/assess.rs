//! `assess`: what the release of the true parameters gives away, without any service.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use nalgebra::DMatrix;
use serde::Deserialize;
use vfl_shared::cli::CliError;
use vfl_shared::types::FeatureBlock;

use crate::assess::{Assessment, assess};

/// `passive-party assess`
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  passive-party assess --case case.json
  passive-party assess --case case.json --out assessment.json

A case holds `schema` (1), `kind` (\"assess\"), `w_pas` (k rows of d weights) and `x_pas` (n records of d features in
[0, 1]): {\"schema\":1,\"kind\":\"assess\",\"w_pas\":[[0.5,1],[0,2]],\"x_pas\":[[0.2,0.9],[0.4,0.1]]}. `expected` is accepted and
never read.

The errors are those of an adversary with exact scores that knows all parameters; a defense or fewer parameters can only
be judged by attacking (`cloison audit`). The output says much about the records it was made from: it stays here.")]
pub struct AssessArgs {
    /// The case file (JSON).
    #[arg(long, value_name = "FILE")]
    case: PathBuf,
    /// Write all numbers to a file as JSON, in place of the table; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON in place of the table, like `--out -`.
    #[arg(long)]
    json: bool,
}

/// A case file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    schema: u32,
    kind: String,
    w_pas: Vec<Vec<f64>>,
    x_pas: Vec<Vec<f64>>,
    #[serde(default, rename = "expected")]
    _expected: serde::de::IgnoredAny,
}

impl AssessArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let shown = self.case.display();
        let text = std::fs::read_to_string(&self.case)
            .map_err(|e| CliError::Input(format!("cannot read the case file {shown}: {e}")))?;
        let found = assess_case(&text).map_err(|reason| CliError::Input(format!("case file {shown}: {reason}")))?;
        let content = match &self.out {
            None if !self.json => table(&found).into_bytes(),
            _ => json(&found).map_err(CliError::failed)?,
        };
        match self.out.filter(|out| out.as_os_str() != "-") {
            None => std::io::stdout().write_all(&content).map_err(CliError::failed),
            Some(out) => vfl_shared::files::write_atomic(&out, &content, true)
                .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", out.display()))),
        }
    }
}

/// Assesses the text of a case file.
fn assess_case(text: &str) -> Result<Assessment, String> {
    let case: Case = serde_json::from_str(text).map_err(|e| vfl_shared::cli::json_error(&e))?;
    if case.schema != 1 || case.kind != "assess" {
        return Err(format!("expected schema 1 and kind \"assess\", got {} and {:?}", case.schema, case.kind));
    }
    let k = case.w_pas.len();
    if k < 2 {
        return Err(format!("`w_pas` has {k} rows, a model has at least 2 classes (binary is k = 2)"));
    }
    let d = case.w_pas[0].len();
    if d == 0 {
        return Err("`w_pas` has no column, so there is no feature to attack".into());
    }
    if case.x_pas.is_empty() {
        return Err("`x_pas` holds no record".into());
    }
    let w_pas = DMatrix::from_row_iterator(k, d, rows("w_pas", d, &case.w_pas)?);
    // A record is a row in the file and a column here.
    let x_pas = DMatrix::from_iterator(d, case.x_pas.len(), rows("x_pas", d, &case.x_pas)?);
    let x_pas = FeatureBlock::new(x_pas).map_err(|e| format!("`x_pas`: {e}"))?;
    assess(&w_pas, &x_pas).map_err(|e| e.to_string())
}

/// All values of rows that have `d` values each.
fn rows<'a>(name: &str, d: usize, rows: &'a [Vec<f64>]) -> Result<impl Iterator<Item = f64> + 'a, String> {
    match rows.iter().position(|row| row.len() != d) {
        Some(at) => {
            Err(format!("row {at} of `{name}` has {} values, the first row of `w_pas` has {d}", rows[at].len()))
        }
        None => Ok(rows.iter().flatten().copied()),
    }
}

fn json(found: &Assessment) -> Result<Vec<u8>, serde_json::Error> {
    let mut content = serde_json::to_vec(found)?;
    content.push(b'\n');
    Ok(content)
}

/// The numbers for a reader: closed forms beside what attacking the records gave, then the bounds.
fn table(a: &Assessment) -> String {
    let mut out = String::new();
    let Assessment { classes, features, records, rank, nul, .. } = a;
    let lines = [
        ("least_squares", a.mse_ls, a.empirical.least_squares, Some((a.lb_ls, a.ub_ls))),
        ("half_star", a.mse_half_star, a.empirical.half_star, Some((a.lb_half_star, a.ub_half_star))),
        ("half", a.mse_half, a.empirical.half, None),
        ("zero", a.mse_zero, a.empirical.zero, None),
    ];
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "\
Mean squared error per feature if the true parameters are released and scores are exact.
Classes {classes}, passive features {features}, records {records}. A = J W_pas has rank {rank}, nullity {nul}.

{:<15} {:>12} {:>12} {:>12} {:>12}
",
        "attack", "closed form", "on records", "at least", "at most"
    );
    for (name, closed_form, empirical, bounds) in lines {
        let _ = write!(out, "{name:<15} {} {}", number(closed_form), number(empirical));
        let _ = match bounds {
            Some((least, most)) => writeln!(out, " {} {}", number(least), number(most)),
            None => writeln!(out, " {:>12} {:>12}", "-", "-"),
        };
    }
    let explained = [
        (a.lb_mu, "any A⁺b' + (I − A⁺A) z with a fixed z errs by at least this (R 52)"),
        (a.negate_mse_increase, "more error of least_squares and of half_star if trained on 1 − x (R VIII-D)"),
        (a.least_squares_optimal_mse, "error of least_squares after the best orthonormal transform (R theorem 3)"),
    ];
    out.push('\n');
    for (value, what) in explained {
        let _ = writeln!(out, "{} {what}", number(value));
    }
    out.push_str(
        "\nClosed forms: R theorem 2. Bounds: R (50), (51), for every A of this rank, so that they are known before training.\n",
    );
    if *nul == 0 {
        out.push_str("The nullity is 0: the features themselves come back.\n");
    }
    out
}

/// Twelve columns wide.
fn number(v: f64) -> String {
    if v != 0.0 && !(1e-5..1e5).contains(&v) { format!("{v:>12.3e}") } else { format!("{v:>12.6}") }
}

#[cfg(test)]
mod tests;
