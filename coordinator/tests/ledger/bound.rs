//! The first share of a record and of what the passive parties contribute is bound.

use vfl_coordinator::ledger::{Budgets, LedgerError, RowVerdict};

use crate::site::{Site, granted, model, request, shares, version};

async fn another_share_is_refused(site: &Site) {
    use RowVerdict::{Granted, RecordBudget, ShareChanged};
    let budgets = Budgets { queries_per_record: Some(3), ..Budgets::UNLIMITED };
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

/// A class is renamed, a label of the training changed back: another version of the same passive parameters.
async fn another_version_of_the_same_passive_parameters_binds_nothing_anew(site: &Site) {
    use RowVerdict::{Granted, RecordBudget, ShareChanged};
    let budgets =
        Budgets { queries_per_record: Some(42), models_per_record: Some(1), ..Budgets::UNLIMITED };
    let mut ledger = site.open(budgets).await;
    granted(&ledger, shares(request(["a"]), 1)).await;
    for round in 0..40u8 {
        let name = format!("renamed-{round}");
        let changed = version(shares(request(["a"]), 2 + round), &name);
        assert_eq!(ledger.spend(changed).await, Ok(vec![ShareChanged]));
        granted(&ledger, version(shares(request(["a"]), 1), &name)).await;
        if round == 20 {
            ledger.close().await;
            ledger = site.open(budgets).await;
        }
    }
    // Counted across versions: 41 so far.
    assert_eq!(ledger.spend(version(shares(request(["a"]), 1), "last")).await, Ok(vec![Granted]));
    assert_eq!(
        ledger.spend(version(shares(request(["a"]), 1), "m-1")).await,
        Ok(vec![RecordBudget])
    );
    assert_eq!(site.number("SELECT count(share) FROM uses").await, 1);
    ledger.close().await;
}

async fn what_was_asked_without_a_share_is_bound_by_the_first_one(site: &Site) {
    use RowVerdict::{Granted, RecordBudget, ShareChanged};
    let ledger = site.open(Budgets { queries_per_record: Some(2), ..Budgets::UNLIMITED }).await;
    granted(&ledger, request(["a"])).await;
    granted(&ledger, shares(request(["a"]), 1)).await;
    // A row over the budget binds nothing.
    assert_eq!(
        ledger.spend(shares(model(request(["a", "b"]), "m-2"), 3)).await,
        Ok(vec![RecordBudget, Granted])
    );
    assert_eq!(ledger.spend(shares(request(["b"]), 2)).await, Ok(vec![Granted]));
    assert_eq!(ledger.spend(shares(model(request(["b"]), "m-2"), 2)).await, Ok(vec![RecordBudget]));
    assert_eq!(site.number("SELECT count(share) FROM uses WHERE record = 'a'").await, 1);
    ledger.close().await;
    let ledger = site.open(Budgets::UNLIMITED).await;
    assert_eq!(ledger.spend(shares(request(["a"]), 2)).await, Ok(vec![ShareChanged]));
    ledger.close().await;
}

async fn shares_are_one_per_record(site: &Site) {
    let ledger = site.open(Budgets::UNLIMITED).await;
    let mut spend = shares(request(["a", "b"]), 1);
    spend.share_hashes.pop();
    assert_eq!(ledger.spend(spend).await, Err(LedgerError::ShareHashes { hashes: 1, records: 2 }));
    ledger.close().await;
}

crate::both_engines!(
    another_share_is_refused,
    another_version_of_the_same_passive_parameters_binds_nothing_anew,
    what_was_asked_without_a_share_is_bound_by_the_first_one,
    shares_are_one_per_record,
);
