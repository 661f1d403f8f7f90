//! Encoding of source columns as numbers: categories become steps, groups of binary features, or
//! label means.

use nalgebra::DMatrix;
use serde::{Deserialize, Serialize};
use vfl_core::data::one_hot;
use vfl_core::data::schema::{FeatureKind, FeatureSpec, MAX_FEATURES};

/// The encoding of categorical columns. Numbers pass through. A missing value ("unknown", "?") is a
/// category like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// One ordinal feature: the category's place in the data set's fixed order, from 0.
    #[default]
    Ordinal,
    /// One binary feature per category, all with the same group.
    OneHot,
    /// One numeric feature: the mean of the class number over the records of the category (the
    /// share of class 1 where there are two classes). It needs the labels, which a passive party
    /// does not have, so no deployment can do this: it is for the lab, to repeat figures of R and
    /// J.
    MeanLabel {
        /// The records that the mean is taken over.
        over: MeanOver,
    },
}

/// The records that a label mean is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeanOver {
    /// All records, test records included, as in the code behind R's figures: the labels of the
    /// test records leak into their features.
    AllRows,
    /// The training records alone. A category without any training record gets the mean over all
    /// training records.
    TrainingRows,
}

/// Errors from encoding a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// Too many one-hot features.
    #[error(
        "{got} features after encoding, at most {MAX_FEATURES} are allowed; use the ordinal encoding"
    )]
    TooManyFeatures {
        /// The number of features after encoding.
        got: usize,
    },
}

/// One column of a source.
#[derive(Debug, Clone)]
pub(super) struct RawColumn {
    pub(super) name: String,
    pub(super) values: RawValues,
}

/// The values of a column, one per record.
#[derive(Debug, Clone)]
pub(super) enum RawValues {
    /// Numbers of some kind.
    Numbers(FeatureKind, Vec<f64>),
    /// Pixels, from 0 to 255.
    Bytes(Vec<u8>),
    /// Categories in a fixed order, and the index of each record's category in it.
    Categories(Vec<String>, Vec<u32>),
}

/// Encodes columns and returns the features (ranges not yet set) and their values, d × n.
pub(super) fn encode(
    columns: &[RawColumn],
    labels: &[u32],
    train: &[usize],
    encoding: Encoding,
) -> Result<(Vec<FeatureSpec>, DMatrix<f64>), EncodeError> {
    let records = labels.len();
    let all: Vec<usize>;
    let mean_over = match encoding {
        Encoding::MeanLabel { over: MeanOver::AllRows } => {
            all = (0..records).collect();
            &all
        }
        _ => train,
    };
    let width = |column: &RawColumn| match (&column.values, encoding) {
        (RawValues::Categories(categories, _), Encoding::OneHot) => categories.len(),
        _ => 1,
    };
    let d: usize = columns.iter().map(width).sum();
    if d > MAX_FEATURES {
        return Err(EncodeError::TooManyFeatures { got: d });
    }
    let mut features = Vec::with_capacity(d);
    let mut x = DMatrix::zeros(d, records);
    let single = |name: &str, kind| FeatureSpec { kind, ..FeatureSpec::numeric(name, 0.0, 1.0) };
    for RawColumn { name, values } in columns {
        let row = features.len();
        match (values, encoding) {
            (RawValues::Numbers(kind, numbers), _) => {
                features.push(single(name, *kind));
                x.row_mut(row).iter_mut().zip(numbers).for_each(|(x, &v)| *x = v);
            }
            (RawValues::Bytes(bytes), _) => {
                features.push(single(name, FeatureKind::Numeric));
                x.row_mut(row).iter_mut().zip(bytes).for_each(|(x, &v)| *x = f64::from(v));
            }
            (RawValues::Categories(categories, codes), Encoding::OneHot) => {
                features.extend(categories.iter().map(|category| one_hot(name, category)));
                for (record, &code) in codes.iter().enumerate() {
                    x[(row + code as usize, record)] = 1.0;
                }
            }
            (RawValues::Categories(_, codes), Encoding::Ordinal) => {
                features.push(single(name, FeatureKind::Ordinal));
                x.row_mut(row).iter_mut().zip(codes).for_each(|(x, &code)| *x = f64::from(code));
            }
            (RawValues::Categories(categories, codes), Encoding::MeanLabel { .. }) => {
                features.push(single(name, FeatureKind::Numeric));
                let means = label_means(categories.len(), codes, labels, mean_over);
                x.row_mut(row)
                    .iter_mut()
                    .zip(codes)
                    .for_each(|(x, &code)| *x = means[code as usize]);
            }
        }
    }
    Ok((features, x))
}

/// Returns the mean class number per category over the given records. A category without any of
/// them gets the mean over all of them.
fn label_means(categories: usize, codes: &[u32], labels: &[u32], records: &[usize]) -> Vec<f64> {
    let mut sums = vec![(0.0, 0.0); categories];
    for &record in records {
        let (sum, count) = &mut sums[codes[record] as usize];
        *sum += f64::from(labels[record]);
        *count += 1.0;
    }
    let total: f64 = sums.iter().map(|s| s.0).sum();
    let overall = total / (records.len().max(1) as f64);
    sums.into_iter().map(|(sum, count)| if count > 0.0 { sum / count } else { overall }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn columns() -> Vec<RawColumn> {
        let categories = ["a", "b", "c"].map(String::from).to_vec();
        vec![
            RawColumn {
                name: "n".into(),
                values: RawValues::Numbers(FeatureKind::Numeric, vec![5.0, -1.0, 2.0, 9.0]),
            },
            RawColumn {
                name: "c".into(),
                values: RawValues::Categories(categories, vec![0, 1, 0, 2]),
            },
        ]
    }

    #[test]
    fn categories_become_what_is_asked() {
        let labels = [0, 1, 1, 0];
        let row = |encoding, row: usize| {
            let (features, x) = encode(&columns(), &labels, &[0, 1], encoding).unwrap();
            (features[row].clone(), x.row(row).iter().copied().collect::<Vec<_>>())
        };
        assert_eq!(row(Encoding::Ordinal, 0).1, [5.0, -1.0, 2.0, 9.0]);
        assert_eq!(row(Encoding::Ordinal, 1).1, [0.0, 1.0, 0.0, 2.0]);
        let (spec, values) = row(Encoding::OneHot, 3);
        assert_eq!(
            (spec.name.as_str(), spec.group.as_deref(), spec.kind),
            ("c=c", Some("c"), FeatureKind::Binary)
        );
        assert_eq!(values, [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(row(Encoding::MeanLabel { over: MeanOver::AllRows }, 1).1, [0.5, 1.0, 0.5, 0.0]);
        // Category c has no training record: the mean of all training labels stands for it.
        assert_eq!(
            row(Encoding::MeanLabel { over: MeanOver::TrainingRows }, 1).1,
            [0.0, 1.0, 0.0, 0.5]
        );
    }
}
