//! Products of matrices: one element is sent per element of the result, whatever the inner
//! dimension is.

use std::fmt;
use std::ops::Range;

use crate::error::{MpcError, check_length};
use crate::session::Session;
use crate::shares::Shares;

/// A matrix over Z_2^64, stored by columns.
#[derive(Clone, PartialEq, Eq)]
pub struct RingMatrix {
    rows: usize,
    columns: usize,
    values: Vec<u64>,
}

impl fmt::Debug for RingMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingMatrix({} x {} withheld)", self.rows, self.columns)
    }
}

impl RingMatrix {
    /// Creates a matrix from its columns, one after the other.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless there are `rows` times `columns` values.
    pub fn new(rows: usize, columns: usize, values: Vec<u64>) -> Result<Self, MpcError> {
        check_length("a matrix", values.len(), rows.saturating_mul(columns))?;
        Ok(Self { rows, columns, values })
    }

    /// Returns the values, column by column.
    #[must_use]
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Returns the transpose.
    #[must_use]
    pub fn transpose(&self) -> Self {
        let Self { rows, columns, values } = self;
        let at = |row: usize| (0..*columns).map(move |column| values[column * rows + row]);
        Self { rows: *columns, columns: *rows, values: (0..*rows).flat_map(at).collect() }
    }

    /// Adds a product to a matrix of its size (column by column).
    fn add_product_to(&self, other: &Self, sums: &mut [u64]) {
        if self.rows == 0 {
            return;
        }
        let columns = other.values.chunks_exact(other.rows.max(1));
        for (sums, factors) in sums.chunks_exact_mut(self.rows).zip(columns) {
            for (column, factor) in self.values.chunks_exact(self.rows).zip(factors) {
                for (sum, value) in sums.iter_mut().zip(column) {
                    *sum = sum.wrapping_add(value.wrapping_mul(*factor));
                }
            }
        }
    }
}

/// Computes the scalar product of two columns.
fn dot(one: &[u64], other: &[u64]) -> u64 {
    one.iter().zip(other).fold(0, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)))
}

/// One party's shares of a matrix.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedMatrix {
    own: RingMatrix,
    next: RingMatrix,
}

impl fmt::Debug for SharedMatrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMatrix({} x {} withheld)", self.rows(), self.columns())
    }
}

impl SharedMatrix {
    /// Creates a matrix of shares from those of its columns, one after the other.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless there are `rows` times `columns` of them.
    pub fn new(rows: usize, columns: usize, shares: Shares) -> Result<Self, MpcError> {
        let Shares { own, next } = shares;
        let matrix = |values| RingMatrix::new(rows, columns, values);
        Ok(Self { own: matrix(own)?, next: matrix(next)? })
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.own.rows
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.own.columns
    }

    /// Returns the shares of the columns, one after the other.
    pub(crate) fn shares(&self) -> Shares {
        Shares { own: self.own.values.clone(), next: self.next.values.clone() }
    }

    /// Returns this party's own component of the columns, one after the other.
    pub(crate) fn own_values(&self) -> &[u64] {
        &self.own.values
    }

    /// Returns the shares of some neighbouring rows.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for rows that do not exist.
    pub(crate) fn row_range(&self, rows: Range<usize>) -> Result<Self, MpcError> {
        let of = |matrix: &RingMatrix| {
            let columns = matrix.values.chunks_exact(matrix.rows.max(1));
            let values = columns.filter_map(|column| column.get(rows.clone())).flatten().copied();
            RingMatrix::new(rows.len(), matrix.columns, values.collect())
        };
        Ok(Self { own: of(&self.own)?, next: of(&self.next)? })
    }

    /// Returns the shares of the columns, one after the other.
    #[must_use]
    pub fn into_shares(self) -> Shares {
        Shares { own: self.own.values, next: self.next.values }
    }

    /// Returns the shares of the transpose.
    #[must_use]
    pub fn transpose(&self) -> Self {
        Self { own: self.own.transpose(), next: self.next.transpose() }
    }

    /// Computes this party's part of selfᵀ `other` over the first `first` rows of both, column by
    /// column, as for single elements.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless both have as many rows.
    pub(crate) fn transposed_product_parts(
        &self,
        other: &Self,
        first: usize,
    ) -> Result<Vec<u64>, MpcError> {
        check_length("a column of the second factor", other.rows(), self.rows())?;
        let (mut parts, rows) = (vec![0; self.columns() * other.columns()], self.rows().max(1));
        let first = first.min(self.rows());
        let mut sums = vec![0; first];
        let others = other.own.values.chunks_exact(rows).zip(other.next.values.chunks_exact(rows));
        for (parts, (y, y_next)) in parts.chunks_exact_mut(self.columns().max(1)).zip(others) {
            let (y, y_next) = (&y[..first], &y_next[..first]);
            sums.iter_mut().zip(y.iter().zip(y_next)).for_each(|(sum, (y, y_next))| {
                *sum = y.wrapping_add(*y_next);
            });
            let columns = self.own.values.chunks_exact(rows);
            let columns = columns.zip(self.next.values.chunks_exact(rows));
            for (part, (x, x_next)) in parts.iter_mut().zip(columns) {
                *part = dot(&x[..first], &sums).wrapping_add(dot(&x_next[..first], y));
            }
        }
        Ok(parts)
    }

    /// Computes this party's part of the product, as for single elements.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless this one has as many columns as `other` has rows.
    pub(crate) fn product_parts(&self, other: &Self) -> Result<Vec<u64>, MpcError> {
        check_length("a column of the second factor", other.rows(), self.columns())?;
        let both = other.own.values.iter().zip(&other.next.values);
        let both = both.map(|(own, next)| own.wrapping_add(*next)).collect();
        let both = RingMatrix { values: both, ..RingMatrix::clone(&other.own) };
        let mut parts = vec![0; self.rows() * other.columns()];
        self.own.add_product_to(&both, &mut parts);
        self.next.add_product_to(&other.own, &mut parts);
        Ok(parts)
    }
}

impl Session {
    /// Multiplies matrices, without truncation. One round, 8 bytes per element of the result and
    /// party.
    ///
    /// # Errors
    /// [`MpcError::Shape`] unless the first has as many columns as the second has rows; errors of
    /// links.
    pub fn multiply_matrices(
        &mut self,
        one: &SharedMatrix,
        other: &SharedMatrix,
    ) -> Result<SharedMatrix, MpcError> {
        let shares = self.reshare(one.product_parts(other)?)?;
        SharedMatrix::new(one.rows(), other.columns(), shares)
    }

    /// Multiplies matrices and divides by 2^`bits`, as [`Session::truncate`] does. Two rounds.
    ///
    /// # Errors
    /// As [`Session::multiply_matrices`] and [`Session::truncate`].
    pub fn multiply_matrices_truncated(
        &mut self,
        one: &SharedMatrix,
        other: &SharedMatrix,
        bits: u32,
    ) -> Result<SharedMatrix, MpcError> {
        let shares = self.truncate_parts(one.product_parts(other)?, bits)?;
        SharedMatrix::new(one.rows(), other.columns(), shares)
    }
}
