//! The parts that the case files of `assess` and `transform` share.

use nalgebra::DMatrix;
use vfl_core::types::FeatureBlock;

/// Reads `w_pas`, k × d.
pub(super) fn weights(w_pas: &[Vec<f64>]) -> Result<DMatrix<f64>, String> {
    let k = w_pas.len();
    if k < 2 {
        return Err(format!(
            "`w_pas` has {k} rows, a model has at least 2 classes (binary is k = 2)"
        ));
    }
    let d = w_pas[0].len();
    if d == 0 {
        return Err("`w_pas` has no column, so there is no feature to attack".into());
    }
    let values = rows("w_pas", d, "the first row of `w_pas` has", w_pas)?;
    Ok(DMatrix::from_row_iterator(k, d, values))
}

/// Reads `x_pas`, d × n: a record is a row in the file and a column here.
pub(super) fn records(x_pas: &[Vec<f64>], d: usize, because: &str) -> Result<FeatureBlock, String> {
    if x_pas.is_empty() {
        return Err("`x_pas` holds no record".into());
    }
    let x = DMatrix::from_iterator(d, x_pas.len(), rows("x_pas", d, because, x_pas)?);
    FeatureBlock::new(x).map_err(|e| format!("`x_pas`: {e}"))
}

/// The reason for an expected `d` that comes from `w_pas`.
pub(super) const BY_WEIGHTS: &str = "the first row of `w_pas` has";

/// Returns all values of rows, which must have `d` values each.
fn rows<'a>(
    name: &str,
    d: usize,
    because: &str,
    rows: &'a [Vec<f64>],
) -> Result<impl Iterator<Item = f64> + use<'a>, String> {
    match rows.iter().position(|row| row.len() != d) {
        Some(at) => {
            Err(format!("row {at} of `{name}` has {} values, {because} {d}", rows[at].len()))
        }
        None => Ok(rows.iter().flatten().copied()),
    }
}

/// Says how many values are outside [0, 1], if any are: `half` and `half_star` take that range for
/// granted.
pub(super) fn outside(x: &FeatureBlock) -> Option<String> {
    let all = x.matrix().len();
    let count = x.matrix().iter().filter(|v| !(0.0..=1.0).contains(*v)).count();
    (count > 0).then(|| {
        format!(
            "{count} of {all} values of `x_pas` are outside [0, 1], the range that half and half_star take for granted"
        )
    })
}

/// Formats a number, twelve columns wide.
pub(super) fn number(v: f64) -> String {
    if v != 0.0 && !(1e-5..1e5).contains(&v.abs()) {
        format!("{v:>12.3e}")
    } else {
        format!("{v:>12.6}")
    }
}
