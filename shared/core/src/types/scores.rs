//! Feature blocks, logit shares, logits, confidence scores and releases of scores.

use std::fmt;

use nalgebra::DMatrix;

/// Errors from checking the shape and values of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The number of rows or columns is wrong.
    #[error("{what} has {got} {unit}, expected {expected}")]
    Size {
        /// The name of the matrix.
        what: &'static str,
        /// The unit: rows, columns or another dimension.
        unit: &'static str,
        /// The expected number.
        expected: usize,
        /// The number that was given.
        got: usize,
    },
    /// A value is NaN or infinite.
    #[error("{what} holds a value that is not finite, at record {record}")]
    NotFinite {
        /// The name of the matrix.
        what: &'static str,
        /// The position of the record, from 0.
        record: usize,
    },
    /// There are fewer than two classes.
    #[error(
        "{what} has {got} classes, at least 2 are needed (a binary model has k = 2, a number one output)"
    )]
    TooFewClasses {
        /// The name of the matrix.
        what: &'static str,
        /// The number of classes that was given.
        got: usize,
    },
}

/// Returns true if no value is NaN or infinite. There is no early exit, so that one instruction
/// checks several values.
pub fn all_finite(values: &[f64]) -> bool {
    values.iter().fold(true, |finite, v| finite & v.is_finite())
}

fn check_finite(what: &'static str, m: &DMatrix<f64>) -> Result<(), ShapeError> {
    if all_finite(m.as_slice()) {
        return Ok(());
    }
    match m.as_slice().iter().position(|v| !v.is_finite()) {
        Some(at) => Err(ShapeError::NotFinite { what, record: at / m.nrows().max(1) }),
        None => Ok(()),
    }
}

macro_rules! block {
    ($(#[$doc:meta])* $type:ident, $what:literal, $min_rows:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq)]
        pub struct $type(DMatrix<f64>);

        impl $type {
            /// Checks and wraps a matrix with one record per column.
            ///
            /// # Errors
            /// [`ShapeError::NotFinite`] on NaN or infinity; [`ShapeError::TooFewClasses`] if the
            /// matrix has classes and fewer than two.
            pub fn new(columns: DMatrix<f64>) -> Result<Self, ShapeError> {
                if columns.nrows().checked_sub($min_rows).is_none() {
                    return Err(ShapeError::TooFewClasses { what: $what, got: columns.nrows() });
                }
                check_finite($what, &columns)?;
                Ok(Self(columns))
            }

            /// Returns the matrix, one record per column.
            #[must_use]
            pub fn matrix(&self) -> &DMatrix<f64> {
                &self.0
            }

            /// Returns the matrix by value.
            #[must_use]
            pub fn into_matrix(self) -> DMatrix<f64> {
                self.0
            }

            /// Returns the number of records.
            #[must_use]
            pub fn records(&self) -> usize {
                self.0.ncols()
            }
        }

        /// Shows the shape only: the values are private.
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({} × {}, values withheld)", stringify!($type), self.0.nrows(), self.0.ncols())
            }
        }
    };
}

block! {
    /// Features of `n` records at one party: `d × n`, normalised to [0, 1] by their declared
    /// ranges.
    ///
    /// It has no conversion to a wire message: only a [`LogitShare`] can leave a passive party.
    FeatureBlock, "feature block", 0
}
block! {
    /// One party's outputs: `w × n`, unbounded, w the output width of its sub-model. Under the
    /// combiner `sum` it is the party's term of the logits, so that w is the number of classes k;
    /// the active party's share includes the bias.
    LogitShare, "logit share", 0
}
block! {
    /// The sum of all logit shares, before the link function: `k × n`, unbounded. Of a model of a
    /// number it is the linear predictor, k = 1.
    Logits, "logits", 1
}

/// The number of values that [`FeatureBlock::select`] prefetches together: half of a typical
/// first-level cache.
const TOGETHER: usize = 2048;
/// The number of values in a cache line.
const LINE: usize = 8;

impl FeatureBlock {
    /// Returns the features of the records at `positions`, in that order.
    ///
    /// # Panics
    /// If a position is not below the number of records, unless there are no features.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Self {
        let (d, all) = (self.0.nrows(), self.0.as_slice());
        let record = |position: &usize| &all[position * d..(position + 1) * d];
        let mut values = Vec::with_capacity(d * positions.len());
        for some in positions.chunks((TOGETHER / d.max(1)).max(1)) {
            // The records may lie anywhere in memory. Reading one value of each cache line first
            // lets the processor wait for many lines at once.
            let lines =
                some.iter().flat_map(|at| record(at).iter().step_by(LINE).chain(record(at).last()));
            std::hint::black_box(lines.fold(0, |seen, v| seen ^ v.to_bits()));
            some.iter().for_each(|at| values.extend_from_slice(record(at)));
        }
        Self(DMatrix::from_vec(d, positions.len(), values))
    }

    /// Returns the number of features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.0.nrows()
    }
}

impl LogitShare {
    /// Returns the shares of the records at `positions`, in that order.
    ///
    /// # Panics
    /// If a position is not below the number of records.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Self {
        Self(self.0.select_columns(positions))
    }

    /// Returns the output width: numbers per record.
    #[must_use]
    pub fn width(&self) -> usize {
        self.0.nrows()
    }
}

impl Logits {
    /// Sums logit shares in the order given (parties in the order of their names, so that the sum
    /// is reproducible).
    ///
    /// # Errors
    /// [`ShapeError::Size`] if the shares differ in shape or there is none;
    /// [`ShapeError::NotFinite`] if the sum overflows.
    pub fn sum(
        first: LogitShare,
        others: impl IntoIterator<Item = LogitShare>,
    ) -> Result<Self, ShapeError> {
        let mut z = first.0;
        for LogitShare(share) in others {
            if share.nrows() != z.nrows() {
                return Err(ShapeError::Size {
                    what: "logit share",
                    unit: "classes",
                    expected: z.nrows(),
                    got: share.nrows(),
                });
            }
            if share.ncols() != z.ncols() {
                return Err(ShapeError::Size {
                    what: "logit share",
                    unit: "records",
                    expected: z.ncols(),
                    got: share.ncols(),
                });
            }
            z += share;
        }
        Self::new(z)
    }

    /// Returns the logits of the records at `positions`, in that order.
    ///
    /// # Panics
    /// If a position is not below the number of records.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Self {
        Self(self.0.select_columns(positions))
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.0.nrows()
    }
}

/// Confidence scores: `k × n`, every column on the probability simplex (entries in [0, 1], sum 1
/// within 1e-9).
///
/// Undefended scores never leave the coordinator: only [`ReleasedScores`] do.
#[derive(Clone, PartialEq)]
pub struct ConfidenceScores(DMatrix<f64>);

/// Errors from checking a matrix of confidence scores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SimplexError {
    /// The shape is wrong or a value is not finite.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A column is off the probability simplex.
    #[error(
        "the scores of record {record} are not a probability vector (entries in [0, 1] that sum to 1 within 1e-9)"
    )]
    OffSimplex {
        /// The position of the record, from 0.
        record: usize,
    },
}

impl ConfidenceScores {
    /// Checks and wraps scores, one record per column.
    ///
    /// # Errors
    /// [`SimplexError`] if an entry is not finite or a column is not a probability vector.
    pub fn new(columns: DMatrix<f64>) -> Result<Self, SimplexError> {
        if columns.nrows() < 2 {
            return Err(ShapeError::TooFewClasses {
                what: "confidence scores",
                got: columns.nrows(),
            }
            .into());
        }
        check_finite("confidence scores", &columns)?;
        for (record, column) in columns.column_iter().enumerate() {
            let in_range = column.iter().all(|&v| (0.0..=1.0 + 1e-9).contains(&v));
            if !in_range || (column.sum() - 1.0).abs() > 1e-9 {
                return Err(SimplexError::OffSimplex { record });
            }
        }
        Ok(Self(columns))
    }

    /// Applies the link function of the model, column by column: softmax after subtracting the
    /// column's maximum.
    ///
    /// Scores are exact to a few units in the last place; the smallest may underflow to 0 when
    /// logits differ by more than 745 nats.
    #[must_use]
    pub fn softmax(logits: Logits) -> Self {
        let mut m = logits.0;
        vfl_numerics::softmax_columns(&mut m);
        Self(m)
    }

    /// Returns the matrix, one record per column.
    #[must_use]
    pub fn matrix(&self) -> &DMatrix<f64> {
        &self.0
    }

    /// Returns the matrix by value.
    #[must_use]
    pub fn into_matrix(self) -> DMatrix<f64> {
        self.0
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.0.ncols()
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.0.nrows()
    }
}

/// Shows the shape only: the values are private.
impl fmt::Debug for ConfidenceScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfidenceScores({} × {}, values withheld)", self.0.nrows(), self.0.ncols())
    }
}

/// The coordinator's release, after the defense: one record per column, or one label per record.
#[derive(Clone, PartialEq)]
pub enum ReleasedScores {
    /// Probability vectors: `k × n`, columns on the simplex.
    Probabilities(DMatrix<f64>),
    /// Numbers that need not be a probability vector (rounded scores do not sum to 1): `k × n`.
    Numbers(DMatrix<f64>),
    /// The predicted class of each record, from 0.
    Labels {
        /// The number of classes k of the model.
        classes: usize,
        /// One label per record, each below `classes`.
        labels: Vec<u32>,
    },
    /// Order-preserving ciphertexts: `k × n`, larger where the score is larger.
    Ciphertexts(DMatrix<u64>),
}

impl ReleasedScores {
    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        match self {
            Self::Probabilities(m) | Self::Numbers(m) => m.ncols(),
            Self::Labels { labels, .. } => labels.len(),
            Self::Ciphertexts(m) => m.ncols(),
        }
    }

    /// Returns the number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        match self {
            Self::Probabilities(m) | Self::Numbers(m) => m.nrows(),
            Self::Labels { classes, .. } => *classes,
            Self::Ciphertexts(m) => m.nrows(),
        }
    }

    /// Returns the releases of the records at `positions`, in that order.
    ///
    /// # Panics
    /// If a position is not below the number of records.
    #[must_use]
    pub fn select(&self, positions: &[usize]) -> Self {
        match self {
            Self::Probabilities(m) => Self::Probabilities(m.select_columns(positions)),
            Self::Numbers(m) => Self::Numbers(m.select_columns(positions)),
            Self::Ciphertexts(m) => Self::Ciphertexts(m.select_columns(positions)),
            Self::Labels { classes, labels } => Self::Labels {
                classes: *classes,
                labels: positions.iter().map(|&p| labels[p]).collect(),
            },
        }
    }

    /// Returns the predicted class of each record: the arg max (the lowest index wins ties), or the
    /// label itself.
    #[must_use]
    pub fn predicted_labels(&self) -> Vec<u32> {
        match self {
            Self::Probabilities(m) | Self::Numbers(m) => {
                m.column_iter().map(|c| vfl_numerics::arg_max(c.as_slice()) as u32).collect()
            }
            Self::Labels { labels, .. } => labels.clone(),
            Self::Ciphertexts(m) => m.column_iter().map(|c| arg_max_of(c.as_slice())).collect(),
        }
    }
}

fn arg_max_of(values: &[u64]) -> u32 {
    let mut best = 0;
    for (at, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = at;
        }
    }
    best as u32
}

/// Shows kind and shape only.
impl fmt::Debug for ReleasedScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Probabilities(_) => "Probabilities",
            Self::Numbers(_) => "Numbers",
            Self::Labels { .. } => "Labels",
            Self::Ciphertexts(_) => "Ciphertexts",
        };
        write!(
            f,
            "ReleasedScores::{kind}({} × {}, values withheld)",
            self.classes(),
            self.records()
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_are_selected_as_columns_are(
            (d, n) in (0usize..40, 1usize..30),
            asked in proptest::collection::vec(any::<prop::sample::Index>(), 0..200),
        ) {
            let block = FeatureBlock::new(DMatrix::from_fn(d, n, |i, j| (i * 31 + j) as f64 / 7.0)).unwrap();
            let positions: Vec<usize> = asked.iter().map(|at| at.index(n)).collect();
            prop_assert_eq!(block.select(&positions).into_matrix(), block.matrix().select_columns(&positions));
        }
    }

    #[test]
    fn records_of_many_features_are_selected_one_at_a_time() {
        let block =
            FeatureBlock::new(DMatrix::from_fn(3 * TOGETHER, 3, |i, j| (i + j) as f64)).unwrap();
        assert_eq!(block.select(&[2, 0]).into_matrix(), block.matrix().select_columns(&[2, 0]));
    }
}
