//! `coordinator ledger`, as an operator calls it.

use std::process::{Command, Output};

use vfl_coordinator::ledger::Budgets;

use crate::site::{Site, granted, request, shares};

fn ledger(site: &Site, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coordinator"));
    command.arg("ledger").args(args).env("CLOISON_LEDGER", &site.url).output().unwrap()
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&text(output)).unwrap()
}

async fn commands_work_beside_a_running_coordinator(site: &Site) {
    let running = site.open(Budgets { records: Some(5), ..Budgets::default() }).await;
    assert!(text(&ledger(site, &["show"])).contains("nothing was asked yet"));
    granted(&running, shares(request(["ann", "bob"]), 1)).await;
    let shown = text(&ledger(site, &["show"]));
    assert!(shown.contains("active: 2 records asked for, 3 left; 2 queries, 0 of them refused"), "{shown}");
    assert!(shown.contains("2027-01-15 08:00:00Z"), "{shown}");
    let shown = json(&ledger(site, &["show", "--json", "--party", "active"]));
    assert_eq!(shown["parties"][0]["uses"][0]["model"], "m-1");
    assert_eq!(json(&ledger(site, &["show", "--json", "--party", "nobody"]))["parties"], serde_json::json!([]));
    let forgot = text(&ledger(site, &["retain", "--days", "0"]));
    assert!(forgot.contains("no budget was freed"), "{forgot}");
    assert_eq!(json(&ledger(site, &["erase", "--record", "ann", "--json"]))["rows"], 1);
    assert!(text(&ledger(site, &["erase", "--record", "ann"])).contains("no entry"));
    let uses = json(&ledger(site, &["show", "--record", "ann", "--json"]));
    assert_eq!((&uses[0]["erased"], &uses[0]["queries"]), (&true.into(), &1.into()));
    granted(&running, shares(request(["ann"]), 1)).await;
    running.close().await;
}

crate::both_engines!(commands_work_beside_a_running_coordinator);

#[test]
fn bad_input_has_its_exit_code() {
    let site = Site::sqlite();
    let none = ledger(&site, &["show"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no ledger there"));
    assert!(!site.path().exists(), "reading makes no ledger");
    let url = ledger(&site, &["show", "--ledger", "mysql://x"]);
    assert_eq!(url.status.code(), Some(2));
}
