//! The same errors from one independent computation, for comparison with ours.
//!
//! It was done in one place with scikit-learn, on another split: logistic regression with C = 100
//! on at most 12 000 rows, 70 % of them for training, ranges over all rows, category codes in
//! sorted order, the last columns passive. Its control is a linear regression of the passive on the
//! active features with a ridge by cross-validation; ours is the mean of the Gaussian of the
//! moments. Its attack is linear too, as `conditional_mean` is. It trained until convergence; our
//! training stops early, and scores of smaller weights reveal other directions.

use vfl_datasets::DatasetName;

use crate::{Check, CheckKind, Document};

/// The curves whose errors [`Row::errors`] has, in its order.
const CURVES: [&str; 7] = [
    "half_star",
    "column_mean",
    "moments_conditional_mean",
    "records_200_control",
    "records_200_conditional_mean",
    "all_records_control",
    "all_records_conditional_mean",
];

/// The largest difference that counts as agreement, relative or absolute.
const RELATIVE: f64 = 0.25;
const ABSOLUTE: f64 = 0.0005;

/// The errors of a data set with its last `d` columns passive.
pub(super) struct Row {
    dataset: DatasetName,
    /// The number of features of all parties.
    features: usize,
    pub(super) d: usize,
    /// The mean squared error per feature of each curve, with exact scores, in the white box.
    errors: [f64; 7],
}

const fn row(dataset: DatasetName, d: usize, features: usize, errors: [f64; 7]) -> Row {
    Row { dataset, features, d, errors }
}

const ROWS: [Row; 9] = [
    row(DatasetName::Bank, 5, 20, [0.1026, 0.0849, 0.0363, 0.0575, 0.0248, 0.0540, 0.0218]),
    row(DatasetName::Bank, 10, 20, [0.1287, 0.0504, 0.0388, 0.0419, 0.0332, 0.0395, 0.0311]),
    row(DatasetName::Adult, 7, 14, [0.1485, 0.0620, 0.0554, 0.0605, 0.0569, 0.0593, 0.0538]),
    row(DatasetName::Credit, 5, 23, [0.0715, 0.0007, 0.0005, 0.0006, 0.0005, 0.0005, 0.0004]),
    row(DatasetName::Grid, 6, 12, [0.0698, 0.0834, 0.0698, 0.0735, 0.0589, 0.0696, 0.0557]),
    row(DatasetName::Satellite, 9, 36, [0.0101, 0.0348, 0.0008, 0.0029, 0.0006, 0.0026, 0.0005]),
    row(DatasetName::Satellite, 18, 36, [0.0287, 0.0353, 0.0039, 0.0046, 0.0025, 0.0043, 0.0022]),
    row(DatasetName::Pendigits, 12, 16, [0.0228, 0.1024, 0.0042, 0.0748, 0.0036, 0.0738, 0.0033]),
    row(DatasetName::Robot, 12, 24, [0.1284, 0.0781, 0.0485, 0.0638, 0.0420, 0.0606, 0.0394]),
];

/// Returns the rows of a data set with so many features, by its name.
pub(super) fn rows(dataset: &str, features: usize) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.dataset.as_str() == dataset && row.features == features)
}

impl Row {
    /// Compares the errors of the document at its point `at` with those of the row.
    pub(super) fn beside(&self, document: &Document, at: usize) -> Check {
        let pairs: Vec<(&str, f64, f64)> = CURVES
            .iter()
            .zip(self.errors)
            .filter_map(|(curve, there)| {
                Some((*curve, *document.curve(curve)?.mean.get(at)?, there))
            })
            .collect();
        let off = |(_, here, there): &&(&str, f64, f64)| {
            let difference = (here - there).abs();
            difference > RELATIVE * there && difference > ABSOLUTE
        };
        let said =
            |(curve, here, there): &(&str, f64, f64)| format!("{curve} {there:.4}, here {here:.4}");
        let violations: Vec<String> = pairs.iter().filter(off).map(said).collect();
        Check {
            id: format!("reference_d{}", self.d),
            kind: CheckKind::Ours,
            claim: format!(
                "{}, {} of {} passive: the errors of an independent computation (scikit-learn, in one place, another split), \
                 within {:.0} % or {ABSOLUTE}",
                self.dataset,
                self.d,
                self.features,
                100.0 * RELATIVE
            ),
            holds: violations.is_empty(),
            comparisons: pairs.len() as u64,
            detail: pairs.iter().map(said).collect::<Vec<_>>().join("; "),
            violations,
        }
    }
}
