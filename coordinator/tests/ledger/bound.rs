//! The first share of a record and model is bound.

use vfl_coordinator::ledger::{Budgets, LedgerError, RowVerdict};

use crate::site::{Site, granted, model, request, shares};

async fn another_share_is_refused_and_costs(site: &Site) {
    use RowVerdict::{Granted, RecordBudget, ShareChanged};
    let budgets = Budgets { queries_per_record: Some(4), ..Budgets::default() };
    let ledger = site.open(budgets).await;
    granted(&ledger, shares(request(["a", "b"]), 1)).await;
    assert_eq!(ledger.spend(shares(request(["b", "c"]), 2)).await, Ok(vec![ShareChanged, Granted]));
    // Under another policy it is the same share; another model has its own.
    let mut other = shares(request(["a"]), 2);
    other.policy = "class_label".into();
    assert_eq!(ledger.spend(other).await, Ok(vec![ShareChanged]));
    granted(&ledger, model(shares(request(["a"]), 2), "m-2")).await;
    ledger.close().await;
    // What was bound outlives a restart, and a share that was refused was not bound.
    let ledger = site.open(budgets).await;
    granted(&ledger, shares(request(["a", "b"]), 1)).await;
    assert_eq!(ledger.spend(shares(request(["a", "c"]), 2)).await, Ok(vec![RecordBudget, Granted]));
    ledger.close().await;
}

async fn what_was_asked_without_a_share_is_bound_by_the_first_one(site: &Site) {
    use RowVerdict::{Granted, RecordBudget, ShareChanged};
    let ledger = site.open(Budgets { queries_per_record: Some(3), ..Budgets::default() }).await;
    granted(&ledger, request(["a"])).await;
    granted(&ledger, shares(request(["a"]), 1)).await;
    assert_eq!(ledger.spend(shares(request(["a"]), 2)).await, Ok(vec![ShareChanged]));
    // A row over the budget binds nothing.
    assert_eq!(ledger.spend(shares(model(request(["a", "b"]), "m-2"), 3)).await, Ok(vec![RecordBudget, Granted]));
    assert_eq!(site.number("SELECT count(share) FROM uses WHERE record = 'a'").await, 1);
    ledger.close().await;
}

async fn shares_are_one_per_record(site: &Site) {
    let ledger = site.open(Budgets::default()).await;
    let mut spend = shares(request(["a", "b"]), 1);
    spend.share_hashes.pop();
    assert_eq!(ledger.spend(spend).await, Err(LedgerError::ShareHashes { hashes: 1, records: 2 }));
    ledger.close().await;
}

crate::both_engines!(
    another_share_is_refused_and_costs,
    what_was_asked_without_a_share_is_bound_by_the_first_one,
    shares_are_one_per_record,
);
