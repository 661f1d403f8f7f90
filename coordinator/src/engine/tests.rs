//! Tests of predictions.

use super::*;

/// Logits whose columns are numbered from 0.
fn numbered(columns: usize) -> Logits {
    Logits::new(DMatrix::from_fn(2, columns, |_, column| column as f64)).unwrap()
}

#[test]
fn the_ledger_has_the_last_word_on_a_row() {
    use crate::ledger::RowVerdict::{self, BitsBudget, Granted, ModelBudget, RecordBudget};
    use RowStatus::{
        BudgetSpent, ModelBudgetSpent, NotFound, NotInSession, Ok, ShareChanged, TrainingRecord,
    };
    let ids = |ids: &str| RecordIds::new(ids.split(' ')).unwrap();
    let mut batch = Batch::new(ids("a b c d e f g"));
    batch.status[1] = TrainingRecord;
    // Asked for all but the training record; the second and the third of these are not held.
    let (asked, shares) = batch.keep_ok(numbered(7), Logits::select);
    assert_eq!((asked, shares.matrix()[5]), (ids("a c d e f g"), 3.0));
    batch.keep_held(&[true, false, false, true, true, true]);
    batch.refuse(&[
        Granted,
        Granted,
        Granted,
        RecordBudget,
        BitsBudget,
        RowVerdict::ShareChanged,
        ModelBudget,
    ]);
    assert_eq!(
        batch.status,
        [Ok, TrainingRecord, NotFound, BudgetSpent, BudgetSpent, ShareChanged, ModelBudgetSpent]
    );
    // Of the columns summed, those of rows 0, 4, 5 and 6, the first is released.
    assert_eq!(batch.rows, [0, 4, 5, 6]);
    let (released, logits) = batch.keep_ok(numbered(4), Logits::select);
    assert_eq!((released, logits), (ids("a"), numbered(1)));
    // A session asks no ledger.
    let mut batch = Batch::new(ids("a b"));
    batch.mark([true, false], NotInSession);
    let (asked, _) = batch.keep_ok(numbered(2), Logits::select);
    batch.keep_held(&[true]);
    let (released, logits) = batch.keep_ok(numbered(1), Logits::select);
    assert_eq!((asked, released, logits), (ids("b"), ids("b"), numbered(1)));
    assert_eq!(batch.status, [NotInSession, Ok]);
}
