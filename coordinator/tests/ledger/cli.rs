//! `coordinator ledger`, as an operator calls it.

use std::process::{Command, Output};

use vfl_coordinator::ledger::{Budgets, RowVerdict, SpendRequest};
use vfl_coordinator::registry::{Manifest, PartyEntry, Registry, TrainingSummary};
use vfl_core::model::{ModelSpec, TrainingConfig, TrainingValues};
use vfl_core::types::{PartyName, RecordIds};

use crate::site::{Site, granted, request, shares};

fn ledger(site: &Site, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coordinator"));
    command.arg("ledger").args(args).env("CLOISON_LEDGER", &site.url).output().unwrap()
}

fn text_of(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&text_of(output)).unwrap()
}

async fn commands_work_beside_a_running_coordinator(site: &Site) {
    let running = site.open(Budgets { records: Some(5), ..Budgets::UNLIMITED }).await;
    assert!(text_of(&ledger(site, &["show"])).contains("nothing was asked yet"));
    granted(&running, shares(request(["ann", "bob"]), 1)).await;
    let shown = text_of(&ledger(site, &["show"]));
    assert!(
        shown.contains("active: 2 records asked for, 3 left; 2 queries, 0 of them refused"),
        "{shown}"
    );
    assert!(shown.contains("2027-01-15 08:00:00Z"), "{shown}");
    let shown = json(&ledger(site, &["show", "--json", "--party", "active"]));
    assert_eq!(shown["parties"][0]["uses"][0]["model"], "m-1");
    assert_eq!(
        json(&ledger(site, &["show", "--json", "--party", "nobody"]))["parties"],
        serde_json::json!([])
    );
    let forgot = text_of(&ledger(site, &["retain", "--days", "0"]));
    assert!(forgot.contains("no budget was freed"), "{forgot}");
    assert_eq!(json(&ledger(site, &["erase", "--record", "ann", "--json"]))["rows"], 1);
    assert!(text_of(&ledger(site, &["erase", "--record", "ann"])).contains("no entry"));
    let uses = json(&ledger(site, &["show", "--record", "ann", "--json"]));
    assert_eq!((&uses[0]["erased"], &uses[0]["queries"]), (&true.into(), &1.into()));
    granted(&running, shares(request(["ann"]), 1)).await;
    let verified = text_of(&ledger(site, &["verify"]));
    let fixed = json(&ledger(site, &["verify", "--json"]))["fixed"].clone();
    let noted = format!(
        "note down elsewhere: link {} has hash {};",
        fixed["link"],
        fixed["hash"].as_str().unwrap()
    );
    assert!(verified.contains(&noted), "{verified}");
    running.close().await;
}

/// A version in the state directory, approved by name while a coordinator runs.
async fn a_version_is_approved_by_name(site: &Site) {
    let state = tempfile::tempdir().unwrap();
    let entry = |name: &str| PartyEntry {
        name: PartyName::new(name).unwrap(),
        features: 1,
        share: "0".repeat(64),
        privacy: None,
    };
    let training = TrainingSummary {
        config: TrainingConfig::try_from(TrainingValues::default()).unwrap(),
        epochs: 1,
        best_epoch: 1,
        steps: 1,
        training_records: 2,
        validation_records: 0,
    };
    let (ids, classes) = (RecordIds::new(["r1", "r2"]).unwrap(), vec!["a".into(), "b".into()]);
    let model = ModelSpec::softmax_regression(2, 1).unwrap();
    let manifest =
        Manifest::new(model, classes, entry("active"), vec![entry("p")], Some(training), &ids)
            .unwrap();
    let (version, passive) = (manifest.version.clone(), manifest.passive_fingerprint());
    Registry::open(state.path()).unwrap().commit(manifest, None).unwrap();
    let config = state.path().join("coordinator.toml");
    let text = format!(
        "listen = \"127.0.0.1:1\"\nstate_dir = {:?}\n[tls]\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n\
         [[passive_parties]]\nname = \"p\"\naddress = \"h:1\"\n[ledger]\nurl = {:?}\n",
        state.path(),
        site.url
    );
    std::fs::write(&config, text).unwrap();
    let running = site.open(Budgets { models_per_record: Some(1), ..Budgets::UNLIMITED }).await;
    granted(&running, request(["ann"])).await;
    let under =
        || SpendRequest { passive: passive.clone(), model: version.clone(), ..request(["ann"]) };
    assert_eq!(running.spend(under()).await, Ok(vec![RowVerdict::ModelBudget]));
    let config = config.to_str().unwrap();
    let approve = |version: &str, more: &[&str]| {
        ledger(site, &[&["approve", version, "--config", config], more].concat())
    };
    let said = text_of(&approve(version.as_str(), &[]));
    assert!(said.contains(&format!("approved {version}, passive parameters {passive}")), "{said}");
    granted(&running, under()).await;
    let again = json(&approve(version.as_str(), &["--json"]));
    assert_eq!((&again["new"], &again["passive"]), (&false.into(), &passive.as_str().into()));
    let shown = text_of(&ledger(site, &["show"]));
    assert!(
        shown.contains(&format!("approved version {version}")) && shown.contains(&passive),
        "{shown}"
    );
    let unknown = approve("m-0000000000000000", &[]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&unknown.stderr)
            .contains("no version m-0000000000000000 was published")
    );
    running.close().await;
}

crate::both_engines!(commands_work_beside_a_running_coordinator, a_version_is_approved_by_name);

#[test]
fn bad_input_has_its_exit_code() {
    let site = Site::sqlite();
    let none = ledger(&site, &["show"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&none.stderr).contains("there is no ledger there"));
    assert!(!site.path().exists(), "reading makes no ledger");
    let url = ledger(&site, &["show", "--ledger", "mysql://x"]);
    assert_eq!(url.status.code(), Some(2));
    let mut nothing = Command::new(env!("CARGO_BIN_EXE_coordinator"));
    nothing.args(["ledger", "verify"]).env_remove("CLOISON_LEDGER").env_remove("CLOISON_CONFIG");
    let nothing = nothing.output().unwrap();
    assert_eq!(nothing.status.code(), Some(2));
    let said = String::from_utf8_lossy(&nothing.stderr);
    assert!(
        said.contains("--config FILE, the coordinator's config file, or --ledger URL"),
        "{said}"
    );
}
