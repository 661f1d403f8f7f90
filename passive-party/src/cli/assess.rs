//! `assess`: computes how much the release of parameters reveals, without any service.

mod plot;

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use vfl_core::data::{RecordBits, read_schema};
use vfl_server::cli::{CliError, case_file};
use vfl_transform::assess::{
    Assessment, BitsBound, Candidate, PretrainingBounds, ReleasedBits, assess, before_training,
    bits_bounds, candidates, released_bits,
};

use super::case::{self, BY_WEIGHTS, number};

/// The arguments of `passive-party assess`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  passive-party assess --case case.json
  passive-party assess --case case.json --out assessment.json --plot candidates.svg
  passive-party assess --case case.json --bits 2.58,10
  passive-party assess --case features.json --before-training 4 --schema features.toml

A case holds `schema` (1), `kind` (\"assess\"), `w_pas` (k rows of d weights) and `x_pas` (n records of d features in \
[0, 1]): {\"schema\":1,\"kind\":\"assess\",\"w_pas\":[[0.5,1],[0,2]],\"x_pas\":[[0.2,0.9],[0.4,0.1]]}. `expected` is accepted and \
never read. Values outside [0, 1] are used as they are, with a note.

Without `w_pas`, `classes` in the case or --before-training gives the number of classes, and the answer is what can be said \
before any training: bounds for each rank that the parameters may come to have.

Candidates are releases to choose from (`passive-party transform` makes them), the nearest to the true parameters first, with \
the errors of an adversary that takes the release for the true parameters. One that knows better does better.

The informed adversary knows means and covariances of the passive features too. informed_linear is the least error of an affine estimate \
from exact scores, informed_control its error without scores; the added risk is 1 − their ratio. If a defense tells at most so many bits \
about a record, no attack of this adversary errs less than the table says (--bits, or `bits` in the case). That is proved for Gaussian \
features that do not depend on the active party's. For others it is a guide: an attack that is not linear, or that knows how active and \
passive features go together, may do better.

The last table has the bits that policies tell of one record at most, whatever the model and the adversary. With --schema it stands beside \
the bits of a record: a policy that tells fewer cannot tell all records apart, one that tells more may give whole records away.

The errors are those of an adversary with exact scores that knows all parameters; a defense or fewer parameters can otherwise \
only be judged by attacking (`cloison audit`). The output says much about the records it was made from: it stays here.")]
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
    /// Draw the candidates: errors by distance from the true parameters (SVG).
    #[arg(long, value_name = "FILE", conflicts_with = "before_training")]
    plot: Option<PathBuf>,
    /// Seed of the candidates that draw random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The most bits that all answers about a record reveal, at least 0; the least error of an
    /// informed adversary is given for each [default: `bits` of the case; else 1, log2 k
    /// (`class_label`), 5, log2 k! (`ranking`) and 10].
    #[arg(long, value_name = "B,B,...", value_delimiter = ',', conflicts_with = "before_training")]
    bits: Vec<f64>,
    /// The schema of the features (features.toml): count the bits of one record by it.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Do not read `w_pas`: bounds for a model of this many classes, from the features alone.
    #[arg(long, value_name = "CLASSES")]
    before_training: Option<usize>,
}

/// A case file of kind `assess`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "schema")]
    _schema: IgnoredAny,
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    #[serde(default)]
    w_pas: Option<Vec<Vec<f64>>>,
    #[serde(default)]
    classes: Option<usize>,
    #[serde(default)]
    bits: Option<Vec<f64>>,
    x_pas: Vec<Vec<f64>>,
    #[serde(default, rename = "expected")]
    _expected: IgnoredAny,
}

/// The assessment of trained parameters.
#[derive(Debug, Serialize)]
struct TrainedAssessment {
    #[serde(flatten)]
    assessment: Assessment,
    informed_bits: Vec<BitsBound>,
    candidates: Vec<Candidate>,
    #[serde(flatten)]
    told: BitsTable,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// The bits of policies, beside those of a record.
#[derive(Debug, Serialize)]
struct BitsTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    record_bits: Option<RecordBits>,
    released_bits: Vec<ReleasedBits>,
}

impl BitsTable {
    fn new(classes: usize) -> Self {
        Self { record_bits: None, released_bits: released_bits(classes) }
    }
}

/// The bounds for a model without parameters.
#[derive(Debug, Serialize)]
struct UntrainedAssessment {
    #[serde(flatten)]
    bounds: PretrainingBounds,
    #[serde(flatten)]
    told: BitsTable,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum CaseAssessment {
    Trained(Box<TrainedAssessment>),
    Untrained(UntrainedAssessment),
}

impl AssessArgs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let text = case_file::read(&self.case)?;
        let refused = |reason: String| case_file::refused(&self.case, &reason);
        let mut found =
            assessed(&text, self.before_training, self.seed, &self.bits).map_err(refused)?;
        if let Some(path) = &self.schema {
            found.table_of_bits().record_bits = Some(record_bits(path)?);
        }
        if let Some(path) = &self.plot {
            let CaseAssessment::Trained(found) = &found else {
                return Err(refused(
                    "there is nothing to plot without `w_pas`; leave --plot out".into(),
                ));
            };
            let svg = plot::svg(&found.candidates, found.assessment.mse_half)
                .map_err(CliError::Failed)?;
            case_file::write(path, svg.as_bytes())?;
        }
        let content = match (&self.out, self.json) {
            (None, false) => found.table().into_bytes(),
            _ => json(&found).map_err(CliError::failed)?,
        };
        case_file::write(&self.out.unwrap_or_else(|| "-".into()), &content)
    }
}

/// Returns the bits of a record under a schema file.
fn record_bits(path: &std::path::Path) -> Result<RecordBits, CliError> {
    read_schema(path).map(|schema| RecordBits::of(&schema)).map_err(CliError::input)
}

impl CaseAssessment {
    fn table_of_bits(&mut self) -> &mut BitsTable {
        match self {
            Self::Trained(found) => &mut found.told,
            Self::Untrained(found) => &mut found.told,
        }
    }

    /// Returns the tables for a reader.
    fn table(&self) -> String {
        match self {
            Self::Trained(found) => table(found),
            Self::Untrained(found) => bounds_table(found),
        }
    }
}

/// Returns the output of `passive-party assess` for the text of a case file: as JSON, and for a
/// reader. `before` is the number of classes of a model that is not trained yet.
///
/// # Errors
/// A message that says what is wrong with the case. It contains no feature and no parameter.
pub fn assess_case(
    text: &str,
    before: Option<usize>,
    seed: u64,
) -> Result<(Vec<u8>, String), String> {
    let found = assessed(text, before, seed, &[])?;
    Ok((json(&found).map_err(|e| e.to_string())?, found.table()))
}

/// The most numbers of bits in one call.
const MAX_BITS: usize = 64;

/// Returns the usual numbers of bits for k classes: one bit, `class_label`, `codebook (size = 32)`,
/// `ranking`, ten bits. They are in rising order.
fn usual_bits(classes: usize) -> Vec<f64> {
    let of_label = (classes as f64).log2();
    let of_ranking = (2..=classes).map(|rank| (rank as f64).log2()).sum();
    let mut bits = vec![1.0, of_label, 5.0, of_ranking, 10.0];
    bits.sort_by(f64::total_cmp);
    bits.dedup();
    bits
}

/// Assesses the text of a case file. `bits` take the place of those of the case.
fn assessed(
    text: &str,
    before: Option<usize>,
    seed: u64,
    bits: &[f64],
) -> Result<CaseAssessment, String> {
    let case: Case = case_file::parse(text, "assess")?;
    let rows = case.w_pas.as_ref().map(Vec::len);
    if let (Some(rows), Some(classes)) = (rows, case.classes)
        && rows != classes
    {
        return Err(format!("`classes` is {classes}, `w_pas` has {rows} rows; leave one out"));
    }
    if let (None, Some(w_pas)) = (before, &case.w_pas) {
        let w_pas = case::weights(w_pas)?;
        let x_pas = case::records(&case.x_pas, w_pas.ncols(), BY_WEIGHTS)?;
        let assessment = assess(&w_pas, &x_pas).map_err(|e| e.to_string())?;
        let bits = match (bits, case.bits) {
            ([], Some(bits)) => bits,
            ([], None) => usual_bits(w_pas.nrows()),
            (bits, _) => bits.to_vec(),
        };
        if bits.len() > MAX_BITS {
            return Err(format!(
                "{} numbers of bits; at most {MAX_BITS} can be asked for",
                bits.len()
            ));
        }
        let informed_bits = bits_bounds(&w_pas, &x_pas, &bits).map_err(|e| e.to_string())?;
        let (candidates, mut notes) =
            candidates(&w_pas, &x_pas, seed).map_err(|e| e.to_string())?;
        notes.extend(case::outside(&x_pas));
        let told = BitsTable::new(w_pas.nrows());
        return Ok(CaseAssessment::Trained(Box::new(TrainedAssessment {
            assessment,
            informed_bits,
            candidates,
            told,
            notes,
        })));
    }
    if !bits.is_empty() {
        return Err("--bits needs `w_pas`, which says what the scores tell".into());
    }
    let classes = before.or(case.classes).ok_or(
        "the case has no `w_pas`; give `classes` or --before-training for what can be said without",
    )?;
    let d = case.x_pas.first().map_or(0, Vec::len);
    let x_pas = case::records(&case.x_pas, d, "the first row of `x_pas` has")?;
    let bounds = before_training(classes, &x_pas).map_err(|e| e.to_string())?;
    let told = BitsTable::new(classes);
    Ok(CaseAssessment::Untrained(UntrainedAssessment {
        bounds,
        told,
        notes: case::outside(&x_pas).into_iter().collect(),
    }))
}

fn json(found: &CaseAssessment) -> Result<Vec<u8>, serde_json::Error> {
    let mut content = serde_json::to_vec(found)?;
    content.push(b'\n');
    Ok(content)
}

/// Writes the numbers for a reader: closed forms beside the errors of attacks on the records, then
/// the bounds.
fn table(found: &TrainedAssessment) -> String {
    let (a, mut out) = (&found.assessment, String::new());
    let Assessment { classes, features, records, rank, nul, .. } = a;
    let lines = [
        ("least_squares", a.mse_ls, a.empirical.least_squares, Some((a.lb_ls, a.ub_ls))),
        (
            "half_star",
            a.mse_half_star,
            a.empirical.half_star,
            Some((a.lb_half_star, a.ub_half_star)),
        ),
        ("half", a.mse_half, a.empirical.half, None),
        ("zero", a.mse_zero, a.empirical.zero, None),
        (
            "informed_linear",
            a.mse_informed_linear,
            a.empirical.informed_linear,
            Some((a.lb_informed_linear, a.ub_informed_linear)),
        ),
        ("informed_control", a.mse_informed_control, a.empirical.informed_control, None),
    ];
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "\
Mean squared error per feature if the true parameters are released and scores are exact.
Classes {classes}, passive features {features}, records {records}. A = J W_pas has rank {rank}, nullity {nul}.

{:<16} {:>12} {:>12} {:>12} {:>12}
",
        "attack", "closed form", "on records", "at least", "at most"
    );
    for (name, closed_form, empirical, bounds) in lines {
        let _ = write!(out, "{name:<16} {} {}", number(closed_form), number(empirical));
        let _ = match bounds {
            Some((least, most)) => writeln!(out, " {} {}", number(least), number(most)),
            None => writeln!(out, " {:>12} {:>12}", "-", "-"),
        };
    }
    let explained = [
        (a.lb_mu, "any A⁺b' + (I − A⁺A) z with a fixed z errs by at least this (R 52)"),
        (
            a.negate_mse_increase,
            "more error of least_squares and of half_star if trained on 1 − x (R VIII-D)",
        ),
        (
            a.least_squares_optimal_mse,
            "error of least_squares after the best orthonormal transform (R theorem 3)",
        ),
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
    informed_tables(&mut out, a, &found.informed_bits);
    candidates_table(&mut out, &found.candidates);
    released_table(&mut out, &found.told);
    for note in &found.notes {
        let _ = writeln!(out, "Note: {note}");
    }
    out
}

/// Writes how much the adversary that knows the moments gains by exact scores, and by so many bits.
fn informed_tables(out: &mut String, a: &Assessment, bounds: &[BitsBound]) {
    out.push_str("\nThe informed adversary knows the means and covariances of the features.");
    if let Some(risk) = a.informed_added_risk {
        // Writing to a string cannot fail.
        let _ =
            write!(out, " Exact scores take {:.1} % of its error away (added risk).", 100.0 * risk);
    }
    out.push('\n');
    if bounds.is_empty() {
        return;
    }
    out.push_str("If at most so many bits are told about a record, no attack of this adversary errs less:\n\n");
    let _ = writeln!(out, "{:>12} {:>12} {:>14}", "bits", "at least", "added risk");
    for bound in bounds {
        let _ = write!(out, "{} {}", number(bound.bits), number(bound.mse));
        let _ = match bound.added_risk {
            Some(risk) => writeln!(out, " {:>12.1} %", 100.0 * risk),
            None => writeln!(out, " {:>14}", "-"),
        };
    }
    out.push_str(
        "
`class_label` tells at most log2 k bits, `ranking` log2 k!, `codebook` log2 size; different answers about a record add up. That no
attack errs less is proved for Gaussian features that do not depend on the active party's. For others it is a guide.
",
    );
}

/// Writes the candidates, nearest to the true parameters first.
fn candidates_table(out: &mut String, candidates: &[Candidate]) {
    out.push_str(
        "\nCandidates: errors of an adversary that takes the release for the true parameters\n\n",
    );
    let _ = writeln!(
        out,
        "{:<30} {:>12} {:>13} {:>12} {:>12} {:>12}",
        "transform", "g", "least_squares", "before", "half_star", "before"
    );
    for candidate in candidates {
        let _ = writeln!(
            out,
            "{:<30} {} {:>13} {} {} {}",
            plot::name(candidate),
            number(candidate.g),
            number(candidate.errors.least_squares),
            number(candidate.before.least_squares),
            number(candidate.errors.half_star),
            number(candidate.before.half_star)
        );
    }
    out.push_str("\ng is V (33), the mean squared change of a weight. `passive-party transform` makes each of them.\n");
}

/// Writes the bits of policies, and of a record if the schema is known.
fn released_table(out: &mut String, told: &BitsTable) {
    out.push_str("\nBits of one record that policies tell at most, whatever the model, the adversary and what it knows besides\n");
    // Writing to a string cannot fail.
    if let Some(RecordBits { bits, unlimited }) = told.record_bits {
        let _ = write!(out, "A record of this schema has {bits:.1} bits");
        if unlimited > 0 {
            let _ = write!(
                out,
                ", and those of {unlimited} numeric features without a known grid: any number"
            );
        }
        out.push_str(".\n");
    }
    let _ = writeln!(out, "\n{:<34} {:>12}", "policy", "bits");
    for ReleasedBits { policy, bits, .. } in &told.released_bits {
        let _ = match bits {
            Some(bits) => writeln!(out, "{policy:<34} {bits:>12.2}"),
            None => writeln!(out, "{policy:<34} {:>12}", "no bound"),
        };
    }
    out.push_str(
        "
A policy that tells fewer bits than a record has cannot tell all records apart. Without a bound, or with more bits, records that lie on a
grid may be rebuilt exactly (docs/lattice.md). Noise is keyed by record; answers under other models or policies add up.
",
    );
}

/// Writes the bounds for a reader.
fn bounds_table(found: &UntrainedAssessment) -> String {
    let PretrainingBounds {
        classes,
        features,
        records,
        mse_half,
        mse_zero,
        mse_informed_control,
        by_rank,
    } = &found.bounds;
    let mut out = format!(
        "\
Mean squared error per feature before any training, if the true parameters will be released and scores are exact.
Classes {classes}, passive features {features}, records {records}.

{:>5} {:>8} {:>25} {:>25} {:>25}
{:>5} {:>8} {:>12} {:>12} {:>12} {:>12} {:>12} {:>12}
",
        "",
        "",
        "least_squares",
        "half_star",
        "informed_linear",
        "rank",
        "nullity",
        "at least",
        "at most",
        "at least",
        "at most",
        "at least",
        "at most"
    );
    for b in by_rank {
        let bounds = [
            b.lb_ls,
            b.ub_ls,
            b.lb_half_star,
            b.ub_half_star,
            b.lb_informed_linear,
            b.ub_informed_linear,
        ];
        let bounds = bounds.map(number).join(" ");
        let _ = writeln!(out, "{:>5} {:>8} {bounds}", b.rank, b.nul);
    }
    let _ = writeln!(out, "\n{} half\n{} zero", number(*mse_half), number(*mse_zero));
    let _ = writeln!(
        out,
        "{} informed_control: knows means and covariances, no score",
        number(*mse_informed_control)
    );
    out.push_str("\nBounds: R (50), (51), and the same for the best affine estimate that uses the covariances. Training nearly always gives the greatest rank.\n");
    released_table(&mut out, &found.told);
    for note in &found.notes {
        let _ = writeln!(out, "Note: {note}");
    }
    out
}

#[cfg(test)]
mod tests;
