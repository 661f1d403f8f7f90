//! Conversions between wire messages and domain types. All stateless validation of input happens
//! here.

use std::sync::Arc;

use bytes::Bytes;
use nalgebra::DMatrix;
use vfl_core::types::{
    ConfidenceScores, FeatureBlock, IdError, LogitShare, Logits, ModelVersion, NameError,
    PackedIds, PartyName, RecordIds, ReleasedScores, ShapeError, SimplexError, all_finite,
};

use super::pb;
use super::releasable::Releasable;

/// The maximum number of records in one prediction message.
pub const MAX_PREDICTION_ROWS: usize = 16_384;

/// Errors from converting a message. They name the field and never show a value of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A required field is missing.
    #[error("field `{field}` is missing")]
    Missing {
        /// The name of the field.
        field: &'static str,
    },
    /// The bytes of a matrix do not match its rows and columns.
    #[error(
        "`{field}` says {rows} × {columns} but holds {bytes} bytes, expected 8 · rows · columns, or 4 for 32-bit numbers"
    )]
    MatrixBytes {
        /// The name of the field.
        field: &'static str,
        /// The rows that the message declares.
        rows: u32,
        /// The columns that the message declares.
        columns: u32,
        /// The bytes that the message has.
        bytes: usize,
    },
    /// A matrix or a list has the wrong size.
    #[error("`{field}` has {got} {unit}, expected {expected}")]
    Size {
        /// The name of the field.
        field: &'static str,
        /// The unit: rows, columns or entries.
        unit: &'static str,
        /// The expected number.
        expected: usize,
        /// The number that was received.
        got: usize,
    },
    /// A matrix contains NaN or infinity.
    #[error("`{field}` holds a value that is not finite, in row {row}")]
    NotFinite {
        /// The name of the field.
        field: &'static str,
        /// The row, from 0.
        row: usize,
    },
    /// A prediction asks for no record, or for too many.
    #[error("a request takes 1 to {} records, {got} came", MAX_PREDICTION_ROWS)]
    Rows {
        /// The number of records asked for.
        got: usize,
    },
    /// A record id is invalid.
    #[error("`{field}`: {source}")]
    Ids {
        /// The name of the field.
        field: &'static str,
        /// The error of the ids.
        source: IdError,
    },
    /// A name is invalid.
    #[error("`{field}`: {source}")]
    Name {
        /// The name of the field.
        field: &'static str,
        /// The error of the name.
        source: NameError,
    },
    /// A number is out of its range.
    #[error("`{field}` is out of range: {reason}")]
    Range {
        /// The name of the field.
        field: &'static str,
        /// The allowed range.
        reason: &'static str,
    },
    /// A matrix has invalid content (scores off the simplex, fewer than two classes).
    #[error("`{field}`: {reason}")]
    Content {
        /// The name of the field.
        field: &'static str,
        /// The reason for the error.
        reason: String,
    },
}

/// Returns the value of a required field.
///
/// # Errors
/// [`WireError::Missing`] with the field's name.
pub fn require<T>(field: &'static str, value: Option<T>) -> Result<T, WireError> {
    value.ok_or(WireError::Missing { field })
}

/// Writes releasable data (one record per column) as a wire matrix (one record per row). The memory
/// layout is the same.
///
/// ```
/// use nalgebra::DMatrix;
/// use vfl_protocol::encode_columns;
/// use vfl_core::types::LogitShare;
///
/// let share = LogitShare::new(DMatrix::zeros(3, 2))?;
/// let message = encode_columns(&share);
/// assert_eq!((message.rows, message.columns), (2, 3));
/// # Ok::<(), vfl_core::types::ShapeError>(())
/// ```
///
/// Features have no wire form, and neither has the matrix that holds them:
///
/// ```compile_fail,E0277
/// use nalgebra::DMatrix;
/// use vfl_protocol::encode_columns;
/// use vfl_core::types::FeatureBlock;
///
/// let block = FeatureBlock::new(DMatrix::zeros(3, 2)).expect("finite");
/// let message = encode_columns(block.matrix());
/// ```
#[must_use]
pub fn encode_columns(outgoing: &impl Releasable) -> pb::Matrix {
    encode(outgoing.columns())
}

/// The bytes of a 32-bit number.
const NARROW: usize = 4;

/// Encodes a matrix. Only for [`Releasable`] types and released scores.
fn encode(columns: &DMatrix<f64>) -> pb::Matrix {
    encode_owned(columns.clone())
}

/// Like [`encode`], without a copy: the message takes over the memory of the numbers.
fn encode_owned(columns: DMatrix<f64>) -> pb::Matrix {
    let (rows, width) = (columns.ncols() as u32, columns.nrows() as u32);
    let mut values: Vec<f64> = columns.data.into();
    if cfg!(target_endian = "big") {
        values.iter_mut().for_each(|v| *v = f64::from_bits(v.to_bits().to_le()));
    }
    pb::Matrix { rows, columns: width, values: Bytes::from_owner(Numbers(values)) }
}

/// Numbers that are read as their little-endian bytes.
struct Numbers(Vec<f64>);

impl AsRef<[u8]> for Numbers {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Reads a wire matrix (one record per row) into a block (one record per column), with as many
/// records and, if given, as many entries per record as the caller expects.
///
/// # Errors
/// [`WireError`] when the sizes are wrong or contradict the bytes, or a value is not finite.
pub fn decode_columns(
    field: &'static str,
    matrix: &pb::Matrix,
    records: usize,
    entries: Option<usize>,
) -> Result<DMatrix<f64>, WireError> {
    let columns = read_columns(field, matrix, records, entries)?;
    if !all_finite(columns.as_slice()) {
        let at = columns.iter().position(|v| !v.is_finite()).unwrap_or(0);
        return Err(WireError::NotFinite { field, row: at / columns.nrows().max(1) });
    }
    Ok(columns)
}

/// Like [`decode_columns`], for a type that checks itself that all values are finite.
fn read_columns(
    field: &'static str,
    matrix: &pb::Matrix,
    records: usize,
    entries: Option<usize>,
) -> Result<DMatrix<f64>, WireError> {
    let (rows, columns) = (matrix.rows as usize, matrix.columns as usize);
    let bytes = |each| rows.checked_mul(columns).and_then(|n| n.checked_mul(each));
    let (wide, got) = (bytes(8), Some(matrix.values.len()));
    if wide != got && bytes(NARROW) != got {
        return Err(WireError::MatrixBytes {
            field,
            rows: matrix.rows,
            columns: matrix.columns,
            bytes: matrix.values.len(),
        });
    }
    if rows != records {
        return Err(WireError::Size { field, unit: "rows", expected: records, got: rows });
    }
    if let Some(expected) = entries
        && columns != expected
    {
        return Err(WireError::Size { field, unit: "columns", expected, got: columns });
    }
    let values: Vec<f64> = match wide == got {
        true => matrix.values.as_chunks().0.iter().map(|v| f64::from_le_bytes(*v)).collect(),
        false => {
            matrix.values.as_chunks().0.iter().map(|v| f64::from(f32::from_le_bytes(*v))).collect()
        }
    };
    Ok(DMatrix::from_vec(columns, rows, values))
}

impl TryFrom<pb::RecordIds> for RecordIds {
    type Error = WireError;

    fn try_from(ids: pb::RecordIds) -> Result<Self, WireError> {
        let PackedIds { text, ends } = Arc::unwrap_or_clone(ids.0);
        RecordIds::from_packed(text, ends).map_err(|source| WireError::Ids { field: "ids", source })
    }
}

impl From<&RecordIds> for pb::RecordIds {
    fn from(ids: &RecordIds) -> Self {
        Self(ids.share_packed())
    }
}

impl From<RecordIds> for pb::RecordIds {
    fn from(ids: RecordIds) -> Self {
        Self(ids.share_packed())
    }
}

impl WireError {
    /// Reads a model version.
    ///
    /// # Errors
    /// [`WireError::Name`] if it is empty or malformed.
    pub fn model_version(version: String) -> Result<ModelVersion, WireError> {
        ModelVersion::new(version)
            .map_err(|source| WireError::Name { field: "model_version", source })
    }

    /// Reads a party's name from a field.
    ///
    /// # Errors
    /// [`WireError::Name`] if it is empty or malformed.
    pub fn party_name(field: &'static str, name: String) -> Result<PartyName, WireError> {
        PartyName::new(name).map_err(|source| WireError::Name { field, source })
    }

    fn shape(field: &'static str, error: ShapeError) -> Self {
        match error {
            ShapeError::NotFinite { record, .. } => Self::NotFinite { field, row: record },
            ShapeError::Size { unit, expected, got, .. } => {
                Self::Size { field, unit, expected, got }
            }
            error @ ShapeError::TooFewClasses { .. } => {
                Self::Content { field, reason: error.to_string() }
            }
        }
    }
}

/// Reads the logit shares of a wire matrix with one row per record.
///
/// # Errors
/// [`WireError`] when the sizes are not the expected ones or a value is not finite.
pub fn read_share(
    field: &'static str,
    matrix: Option<&pb::Matrix>,
    records: usize,
    entries: Option<usize>,
) -> Result<LogitShare, WireError> {
    let columns = read_columns(field, require(field, matrix)?, records, entries)?;
    LogitShare::new(columns).map_err(|e| WireError::shape(field, e))
}

/// Reads the logits of a wire matrix with one row per record.
///
/// # Errors
/// As [`read_share`].
pub fn read_logits(
    field: &'static str,
    matrix: Option<&pb::Matrix>,
    records: usize,
    entries: Option<usize>,
) -> Result<Logits, WireError> {
    let columns = read_columns(field, require(field, matrix)?, records, entries)?;
    Logits::new(columns).map_err(|e| WireError::shape(field, e))
}

/// Checks the size of a share that was read without knowing it: `records` records of `width`
/// outputs each.
///
/// # Errors
/// [`WireError::Size`] naming the field.
pub fn check_share_size(
    share: &LogitShare,
    field: &'static str,
    records: usize,
    width: usize,
) -> Result<(), WireError> {
    let size = |unit, expected, got| WireError::Size { field, unit, expected, got };
    if share.records() != records {
        return Err(size("rows", records, share.records()));
    }
    if share.width() != width {
        return Err(size("columns", width, share.width()));
    }
    Ok(())
}

/// One row per record. If all numbers are 32-bit ones, like those of a residual network, they are
/// sent as 32-bit numbers; the reader gets the same bits.
impl From<LogitShare> for pb::Matrix {
    fn from(share: LogitShare) -> Self {
        let columns = share.into_matrix();
        let narrow = |v: &f64| f64::from(*v as f32).to_bits() == v.to_bits();
        if !columns.iter().all(narrow) {
            return encode_owned(columns);
        }
        let mut bytes = vec![0u8; NARROW * columns.len()];
        for (to, v) in bytes.chunks_exact_mut(NARROW).zip(columns.iter()) {
            to.copy_from_slice(&(*v as f32).to_le_bytes());
        }
        Self {
            rows: columns.ncols() as u32,
            columns: columns.nrows() as u32,
            values: Bytes::from(bytes),
        }
    }
}

impl From<ReleasedScores> for pb::Release {
    fn from(scores: ReleasedScores) -> Self {
        use pb::release::Kind;
        let kind = match scores {
            ReleasedScores::Probabilities(m) => Kind::Probabilities(encode_owned(m)),
            ReleasedScores::Numbers(m) => Kind::Numbers(encode_owned(m)),
            ReleasedScores::Labels { classes, labels } => {
                Kind::Labels(pb::Labels { classes: classes as u32, labels })
            }
            ReleasedScores::Ciphertexts(m) => Kind::Ciphertexts(pb::Ciphertexts {
                rows: m.ncols() as u32,
                columns: m.nrows() as u32,
                values: m.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into(),
            }),
        };
        Self { kind: Some(kind) }
    }
}

/// Reads a release with one row, or one label, per record.
///
/// # Errors
/// [`WireError`] when the kind is missing, the sizes are wrong, a value is not finite, a
/// probability vector is off the simplex or a label is out of range.
pub fn read_release(
    release: Option<&pb::Release>,
    records: usize,
    classes: usize,
) -> Result<ReleasedScores, WireError> {
    use pb::release::Kind;
    let field = "release";
    match require(field, release.and_then(|r| r.kind.as_ref()))? {
        Kind::Probabilities(m) => {
            let columns = read_columns(field, m, records, Some(classes))?;
            let scores = ConfidenceScores::new(columns).map_err(|e| match e {
                SimplexError::Shape(e) => WireError::shape(field, e),
                e @ SimplexError::OffSimplex { .. } => {
                    WireError::Content { field, reason: e.to_string() }
                }
            })?;
            Ok(ReleasedScores::Probabilities(scores.into_matrix()))
        }
        Kind::Numbers(m) => {
            Ok(ReleasedScores::Numbers(decode_columns(field, m, records, Some(classes))?))
        }
        Kind::Labels(pb::Labels { classes: k, labels }) => {
            if *k as usize != classes {
                return Err(WireError::Size {
                    field,
                    unit: "classes",
                    expected: classes,
                    got: *k as usize,
                });
            }
            if labels.len() != records {
                return Err(WireError::Size {
                    field,
                    unit: "labels",
                    expected: records,
                    got: labels.len(),
                });
            }
            if labels.iter().any(|l| l >= k) {
                return Err(WireError::Range {
                    field,
                    reason: "a label is not below the number of classes",
                });
            }
            Ok(ReleasedScores::Labels { classes, labels: labels.clone() })
        }
        Kind::Ciphertexts(pb::Ciphertexts { rows, columns, values }) => {
            let size = |unit, expected, got: u32| WireError::Size {
                field,
                unit,
                expected,
                got: got as usize,
            };
            if *rows as usize != records {
                return Err(size("rows", records, *rows));
            }
            if *columns as usize != classes {
                return Err(size("columns", classes, *columns));
            }
            let (words, rest) = values.as_chunks::<8>();
            if !rest.is_empty() || words.len() as u64 != u64::from(*rows) * u64::from(*columns) {
                return Err(WireError::MatrixBytes {
                    field,
                    rows: *rows,
                    columns: *columns,
                    bytes: values.len(),
                });
            }
            let words = words.iter().map(|word| u64::from_le_bytes(*word));
            Ok(ReleasedScores::Ciphertexts(DMatrix::from_iterator(classes, records, words)))
        }
    }
}
// A feature block deliberately has no wire form: it cannot leave its owner.
const _: fn(FeatureBlock) -> DMatrix<f64> = FeatureBlock::into_matrix;

#[cfg(test)]
pub(crate) mod tests;
