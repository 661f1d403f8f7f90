//! Outputs of a party's part that another program computed, by record.

use std::collections::HashMap;
use std::fmt;

use nalgebra::DMatrix;
use vfl_core::types::{LogitShare, RecordIds, RowStatus, ShapeError};
use vfl_protocol::ShareAnswer;

/// Outputs by record id, w × n, which are added to those of the stored parameters.
///
/// With them a party takes part in predictions with any model. It has no parameters then that say
/// anything of its outputs, and its rules must not release the stored ones.
#[derive(Clone, PartialEq)]
pub struct RecordOutputs {
    places: HashMap<Box<str>, usize>,
    outputs: DMatrix<f64>,
}

/// Shows the shape only: outputs are private.
impl fmt::Debug for RecordOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (w, n) = self.outputs.shape();
        write!(f, "RecordOutputs({w} × {n}, values withheld)")
    }
}

impl RecordOutputs {
    /// Wraps the outputs (w × n) of n records.
    ///
    /// # Errors
    /// [`ShapeError`] for another number of records, or an output that is not finite.
    pub fn new(ids: &RecordIds, outputs: DMatrix<f64>) -> Result<Self, ShapeError> {
        let (expected, got) = (ids.len(), outputs.ncols());
        if expected != got {
            return Err(ShapeError::Size { what: "outputs", unit: "records", expected, got });
        }
        let outputs = LogitShare::new(outputs)?.matrix().clone();
        Ok(Self { places: ids.iter().map(Box::from).zip(0..).collect(), outputs })
    }

    /// Adds the outputs to the shares of the records of a request. A record without outputs is not
    /// found.
    ///
    /// # Errors
    /// [`ShapeError`] if the model has another number of outputs, or a sum is not finite.
    pub(crate) fn added_to(
        &self,
        ids: &RecordIds,
        answer: ShareAnswer,
    ) -> Result<ShareAnswer, ShapeError> {
        let (expected, got) = (self.outputs.nrows(), answer.share.width());
        if expected != got {
            return Err(ShapeError::Size { what: "outputs", unit: "numbers", expected, got });
        }
        let mut status = answer.status;
        let mut kept = Vec::new();
        let mut sums = Vec::new();
        let mut columns = answer.share.matrix().column_iter().enumerate();
        for (status, id) in status.iter_mut().zip(ids.iter()) {
            if *status != RowStatus::Ok {
                continue;
            }
            let Some((column, share)) = columns.next() else { break };
            match self.places.get(id) {
                Some(&place) => {
                    kept.push(column);
                    sums.extend(
                        share.iter().zip(self.outputs.column(place).iter()).map(|(a, b)| a + b),
                    );
                }
                None => *status = RowStatus::NotFound,
            }
        }
        let share = LogitShare::new(DMatrix::from_vec(expected, kept.len(), sums))?;
        Ok(ShareAnswer { status, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_added_by_record() {
        let ids = |names: &[&str]| RecordIds::new(names.iter().copied()).unwrap();
        let outputs = DMatrix::from_row_slice(2, 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let outputs = RecordOutputs::new(&ids(&["a", "b", "c"]), outputs).unwrap();
        // The party does not hold d, and has no outputs of e.
        let status = [RowStatus::Ok, RowStatus::NotFound, RowStatus::Ok, RowStatus::Ok];
        let share = DMatrix::from_row_slice(2, 3, &[0.5, 0.0, 0.0, 0.0, 0.0, 0.25]);
        let share = LogitShare::new(share).unwrap();
        let answer = ShareAnswer { status: status.to_vec(), share };
        let found = outputs.added_to(&ids(&["c", "d", "e", "a"]), answer).unwrap();
        let (ok, missing) = (RowStatus::Ok, RowStatus::NotFound);
        assert_eq!(found.status, [ok, missing, missing, ok]);
        assert_eq!(found.share.matrix(), &DMatrix::from_row_slice(2, 2, &[3.5, 1.0, 6.0, 4.25]));
        let narrow =
            ShareAnswer { status: vec![ok], share: LogitShare::new(DMatrix::zeros(3, 1)).unwrap() };
        assert!(outputs.added_to(&ids(&["a"]), narrow).is_err());
        assert!(RecordOutputs::new(&ids(&["a"]), DMatrix::zeros(2, 3)).is_err());
        assert!(RecordOutputs::new(&ids(&["a"]), DMatrix::from_element(1, 1, f64::NAN)).is_err());
    }
}
