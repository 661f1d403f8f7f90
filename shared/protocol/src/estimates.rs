//! Estimates that the auditor passes on from the active party to the passive party that scores
//! them, whole and in rows of a message.

use std::fmt;

use nalgebra::DMatrix;
use vfl_core::types::Estimates;

use super::convert::{WireError, decode_columns, encode_columns, require};
use super::pb;

/// The estimates of all features of a passive party, one row per record, as bytes that are passed
/// on unchanged. Whoever scores them checks them.
#[derive(Clone)]
pub struct EncodedEstimates(pb::Matrix);

/// Shows sizes, not values.
impl fmt::Debug for EncodedEstimates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedEstimates({} × {})", self.0.rows, self.0.columns)
    }
}

impl EncodedEstimates {
    /// Returns ½ for every value.
    #[must_use]
    pub fn halves(records: usize, features: usize) -> Self {
        let values: Vec<u8> =
            std::iter::repeat_n(0.5f64.to_le_bytes(), features * records).flatten().collect();
        Self(pb::Matrix { rows: records as u32, columns: features as u32, values: values.into() })
    }

    /// Combines several estimates of the same features. Column i comes from `all[chosen[0][i]]` in
    /// rows in even places, and from `all[chosen[1][i]]` in odd places. `None` if an estimate is
    /// missing or has another shape.
    #[must_use]
    pub fn of_cells(all: &[&Self], chosen: &[Vec<usize>; 2]) -> Option<Self> {
        let (rows, columns) = all.first().map(|of| (of.0.rows, of.0.columns))?;
        let bytes = rows as usize * columns as usize * 8;
        let fits =
            |of: &&Self| (of.0.rows, of.0.columns, of.0.values.len()) == (rows, columns, bytes);
        if chosen.iter().any(|of| of.len() != columns as usize) || !all.iter().all(fits) {
            return None;
        }
        let mut values = Vec::with_capacity(bytes);
        for (row, chosen) in (0..rows as usize).zip(chosen.iter().cycle()) {
            for (column, from) in chosen.iter().enumerate() {
                let at = (row * columns as usize + column) * 8;
                values.extend_from_slice(all.get(*from)?.0.values.get(at..at + 8)?);
            }
        }
        Some(Self(pb::Matrix { rows, columns, values: values.into() }))
    }

    /// Returns the number of values.
    #[must_use]
    pub fn values(&self) -> u64 {
        u64::from(self.0.rows) * u64::from(self.0.columns)
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> usize {
        self.0.rows as usize
    }

    /// Reads the values of `records` records (`features` × `records`).
    ///
    /// # Errors
    /// As [`decode_columns`].
    pub fn decode(&self, records: usize, features: usize) -> Result<DMatrix<f64>, WireError> {
        decode_columns("estimates", &self.0, records, Some(features))
    }
}

/// Rows of the estimates of one candidate, or of the control.
#[derive(Debug, Clone)]
pub struct EstimateRows {
    /// The rows: records in their order.
    pub rows: EncodedEstimates,
    /// True if further rows of these estimates come in the next message.
    pub more: bool,
    /// True if they are the control of the scoring.
    pub control: bool,
}

impl EstimateRows {
    /// Splits the estimates of one candidate, or of the control, into messages of as many rows as
    /// fit into `bytes`.
    #[must_use]
    pub fn split(
        EncodedEstimates(estimates): EncodedEstimates,
        control: bool,
        bytes: usize,
    ) -> Vec<Self> {
        let row_bytes = (estimates.columns as usize).max(1) * 8;
        let most = (bytes / row_bytes).max(1);
        let rows = estimates.rows as usize;
        if rows <= most || estimates.values.len() != rows * row_bytes {
            return vec![Self { rows: EncodedEstimates(estimates), more: false, control }];
        }
        let message = |from: usize| {
            let to = (from + most).min(rows);
            let values = estimates.values.slice(from * row_bytes..to * row_bytes);
            let part = pb::Matrix { rows: (to - from) as u32, columns: estimates.columns, values };
            Self { rows: EncodedEstimates(part), more: to < rows, control }
        };
        (0..rows).step_by(most).map(message).collect()
    }
}

impl From<EstimateRows> for pb::Estimates {
    fn from(EstimateRows { rows, more, control }: EstimateRows) -> Self {
        Self { rows: Some(rows.into()), more, control }
    }
}

impl TryFrom<pb::Estimates> for EstimateRows {
    type Error = WireError;

    fn try_from(pb::Estimates { rows, more, control }: pb::Estimates) -> Result<Self, WireError> {
        Ok(Self { rows: require("rows", rows)?.into(), more, control })
    }
}

impl From<&Estimates> for EncodedEstimates {
    fn from(estimates: &Estimates) -> Self {
        Self(encode_columns(estimates))
    }
}

impl From<pb::Matrix> for EncodedEstimates {
    fn from(rows: pb::Matrix) -> Self {
        Self(rows)
    }
}

impl From<EncodedEstimates> for pb::Matrix {
    fn from(EncodedEstimates(rows): EncodedEstimates) -> Self {
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::tests::comes_back;

    #[test]
    fn cells_are_taken_where_they_were_chosen() {
        let of = |first: f64| {
            let values: Vec<u8> =
                (0..9).flat_map(|i| (first + f64::from(i)).to_le_bytes()).collect();
            EncodedEstimates(pb::Matrix { rows: 3, columns: 3, values: values.into() })
        };
        let (a, b) = (of(0.0), of(10.0));
        let mixed = EncodedEstimates::of_cells(&[&a, &b], &[vec![1, 0, 1], vec![0, 0, 1]])
            .unwrap()
            .0
            .values;
        let mixed: Vec<f64> =
            mixed.chunks(8).map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(mixed, [10.0, 1.0, 12.0, 3.0, 4.0, 15.0, 16.0, 7.0, 18.0]);
        let same = |of: usize| [vec![of, 0, 0], vec![0, 0, 0]];
        assert!(EncodedEstimates::of_cells(&[&a, &b], &same(2)).is_none());
        assert!(
            EncodedEstimates::of_cells(&[&a, &EncodedEstimates::halves(1, 3)], &same(1)).is_none()
        );
        assert!(
            EncodedEstimates::of_cells(&[&a], &[vec![0, 0], vec![0, 0]]).is_none()
                && EncodedEstimates::of_cells(&[], &same(0)).is_none()
        );
    }

    #[test]
    fn estimates_that_do_not_fit_one_message_go_out_in_rows() {
        for control in [false, true] {
            let split = |bytes| EstimateRows::split(EncodedEstimates::halves(5, 3), control, bytes);
            let messages = split(2 * 3 * 8);
            assert!(messages.iter().all(|message| message.control == control));
            let sizes: Vec<_> =
                messages.iter().map(|message| (message.rows.records(), message.more)).collect();
            assert_eq!(sizes, [(2, true), (2, true), (1, false)]);
            let bytes: usize = messages.iter().map(|message| message.rows.0.values.len()).sum();
            assert_eq!(bytes, 5 * 3 * 8);
            let [whole] = &split(5 * 3 * 8)[..] else { panic!("they fit one message") };
            assert_eq!((whole.rows.records(), whole.more, whole.control), (5, false, control));
        }
    }

    #[test]
    fn every_field_of_estimates_comes_back() {
        for (more, control) in [(true, false), (false, true)] {
            let rows =
                pb::Matrix { rows: 2, columns: 1, values: (1..=16).collect::<Vec<u8>>().into() };
            comes_back::<_, EstimateRows>(pb::Estimates { rows: Some(rows), more, control });
        }
    }
}
