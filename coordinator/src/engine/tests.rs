//! Tests of predictions.

use super::*;

#[test]
fn the_ledger_has_the_last_word_on_a_row() {
    use RowStatus::{
        BudgetSpent, ModelBudgetSpent, NotFound, NotInSession, Ok, ShareChanged, TrainingRecord,
    };
    use RowVerdict::{BitsBudget, Granted, ModelBudget, RecordBudget};
    let mut status = [Ok, TrainingRecord, Ok, Ok, Ok, Ok, Ok];
    let verdicts = [
        Granted,
        Granted,
        Granted,
        RecordBudget,
        BitsBudget,
        RowVerdict::ShareChanged,
        ModelBudget,
    ];
    // Asked for all but the training record; the second and the third of these are not held.
    let granted = settle(
        &mut status,
        &[0, 2, 3, 4, 5, 6],
        &[true, false, false, true, true, true],
        &verdicts,
    );
    assert_eq!(
        status,
        [Ok, TrainingRecord, NotFound, BudgetSpent, BudgetSpent, ShareChanged, ModelBudgetSpent]
    );
    // Of the columns summed, those of rows 0, 4, 5 and 6.
    assert_eq!(granted, [true, false, false, false]);
    // A session asks no ledger.
    let mut status = [NotInSession, Ok];
    assert_eq!(settle(&mut status, &[1], &[true], &[]), [true]);
    assert_eq!(status, [NotInSession, Ok]);
}
