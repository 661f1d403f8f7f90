//! Estimates on their way from the active party to the passive party that scores them.

use vfl_shared::rpc::pb;

/// Estimates of all features of a passive party, one row per record. They are passed on as they came.
#[derive(Debug, Clone)]
pub(crate) struct Estimates(pb::Matrix);

impl Estimates {
    /// ½ for every value.
    pub(crate) fn halves(records: usize, features: usize) -> Self {
        let values: Vec<u8> = std::iter::repeat_n(0.5f64.to_le_bytes(), features * records).flatten().collect();
        Self(pb::Matrix { rows: records as u32, columns: features as u32, values: values.into() })
    }

    /// How many values there are.
    pub(crate) fn values(&self) -> u64 {
        u64::from(self.0.rows) * u64::from(self.0.columns)
    }

    /// The estimates in messages of as many rows as fit into `bytes`.
    pub(super) fn messages(self, bytes: usize) -> Vec<pb::Estimates> {
        let Self(estimates) = self;
        let row_bytes = (estimates.columns as usize).max(1) * 8;
        let most = (bytes / row_bytes).max(1);
        let rows = estimates.rows as usize;
        if rows <= most || estimates.values.len() != rows * row_bytes {
            return vec![pb::Estimates { rows: Some(estimates), more: false, control: false }];
        }
        let piece = |from: usize| {
            let to = (from + most).min(rows);
            let values = estimates.values.slice(from * row_bytes..to * row_bytes);
            let piece = pb::Matrix { rows: (to - from) as u32, columns: estimates.columns, values };
            pb::Estimates { rows: Some(piece), more: to < rows, control: false }
        };
        (0..rows).step_by(most).map(piece).collect()
    }
}

impl From<pb::Matrix> for Estimates {
    fn from(rows: pb::Matrix) -> Self {
        Self(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_that_do_not_fit_one_message_go_out_in_rows() {
        let messages = Estimates::halves(5, 3).messages(2 * 3 * 8);
        let sizes: Vec<_> = messages.iter().map(|m| (m.rows.as_ref().unwrap().rows, m.more)).collect();
        assert_eq!(sizes, [(2, true), (2, true), (1, false)]);
        let bytes: usize = messages.iter().map(|m| m.rows.as_ref().unwrap().values.len()).sum();
        assert_eq!(bytes, 5 * 3 * 8);
        assert_eq!(Estimates::halves(5, 3).messages(5 * 3 * 8).len(), 1);
    }
}
