//! The records of one request on their way through the engine.

use vfl_core::types::{RecordIds, RowStatus};

use crate::ledger::RowVerdict;

/// The records of one request: the status of each so far, and those that have a column among the
/// shares, and later among the logits.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The ids of the records.
    pub(crate) ids: RecordIds,
    /// The status of each record.
    pub(crate) status: Vec<RowStatus>,
    /// The records with a column, in its order, by their positions in the request.
    pub(crate) rows: Vec<usize>,
}

impl Batch {
    /// Creates a batch of records that all are OK and have a column.
    pub(crate) fn new(ids: RecordIds) -> Self {
        let n = ids.len();
        Self { ids, status: vec![RowStatus::Ok; n], rows: (0..n).collect() }
    }

    /// Gives the status `why` to each record that is OK so far and `refused`.
    pub(crate) fn mark(&mut self, refused: impl IntoIterator<Item = bool>, why: RowStatus) {
        for (status, refused) in self.status.iter_mut().zip(refused) {
            if refused && *status == RowStatus::Ok {
                *status = why;
            }
        }
    }

    /// Writes the ledger's verdicts into the status of each record.
    ///
    /// The ledger has the last word: a row beyond its budget does not show whether its record
    /// exists.
    pub(crate) fn refuse(&mut self, verdicts: &[RowVerdict]) {
        for (status, verdict) in self.status.iter_mut().zip(verdicts) {
            match verdict {
                RowVerdict::Granted => {}
                RowVerdict::ShareChanged => *status = RowStatus::ShareChanged,
                RowVerdict::RecordBudget | RowVerdict::BitsBudget => {
                    *status = RowStatus::BudgetSpent;
                }
                RowVerdict::ModelBudget => *status = RowStatus::ModelBudgetSpent,
            }
        }
    }

    /// Takes note that only the records with a column that are `held` by all parties have one from
    /// now on. The others are NOT_FOUND.
    pub(crate) fn keep_held(&mut self, held: &[bool]) {
        for (&row, held) in self.rows.iter().zip(held) {
            if !held {
                self.status[row] = RowStatus::NotFound;
            }
        }
        let mut held = held.iter();
        self.rows.retain(|_| held.next().is_some_and(|held| *held));
    }

    /// Drops the columns of records that are no longer OK. Returns the ids of the others, and their
    /// columns.
    pub(crate) fn keep_ok<C>(
        &mut self,
        columns: C,
        select: impl FnOnce(&C, &[usize]) -> C,
    ) -> (RecordIds, C) {
        let is_ok = |column: &usize| self.status[self.rows[*column]] == RowStatus::Ok;
        let columns = if (0..self.rows.len()).all(|column| is_ok(&column)) {
            columns
        } else {
            let kept: Vec<usize> = (0..self.rows.len()).filter(is_ok).collect();
            self.rows = kept.iter().map(|&column| self.rows[column]).collect();
            select(&columns, &kept)
        };
        let all = self.rows.len() == self.ids.len();
        (if all { self.ids.clone() } else { self.ids.select(&self.rows) }, columns)
    }
}
