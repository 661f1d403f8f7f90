//! Tests of the configuration.

use super::*;

/// The refusal of a policy names the limit of bits and settings that keep to it, and `check`
/// says how many bits are told.
/// A number is no score of one class: `bins` alone bounds it, and the limits say so.
#[test]
fn a_number_has_bits_behind_bins_alone() {
    let policy = |text: &str| text.parse::<Policy>().unwrap();
    let said = policy_in_bits(&policy("rounding (decimals = 2)"), &[1]);
    assert!(said.starts_with("warning") && said.contains("no finite bound"), "{said}");
    let bins = policy("bins (lower = 0.0, upper = 10.0, count = 16)");
    let said = policy_in_bits(&bins, &[1]);
    assert!(said.contains("4.00 bits for a number"), "{said}");
    let serving = ServingPolicy { max_bits: Some(3.5), ..ServingPolicy::default() };
    for told in [&bins, &policy("rounding (decimals = 0)")] {
        let refused = serving.check_bits(told, 1).unwrap_err();
        assert!(refused.contains("`bins` with a `count` of at most 11"), "{refused}");
        assert!(refused.contains("for a number"), "{refused}");
    }
    let fits = policy("bins (lower = 0.0, upper = 10.0, count = 11)");
    assert_eq!(serving.check_bits(&fits, 1), Ok(()));
}

#[test]
fn a_limit_of_bits_refuses_policies_beyond_it() {
    let check = |most: f64, text: &str, classes| {
        let serving = ServingPolicy { max_bits: Some(most), ..ServingPolicy::default() };
        serving.check_bits(&text.parse().unwrap(), classes)
    };
    assert_eq!(check(7.0, "rounding (decimals = 2)", 2), Ok(()));
    let error = check(7.0, "rounding (decimals = 2)", 6).unwrap_err();
    for part in [
        "28.84 bits",
        "`max_bits = 7`",
        "6 classes",
        "codebook (size = 128)",
        "rounding (decimals = 0)",
        "class_label",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let error = check(0.5, "none", 2).unwrap_err();
    assert!(
        error.contains("no finite bound: exact scores") && error.contains("randomized_label"),
        "{error}"
    );
    assert_eq!(ServingPolicy::default().check_bits(&Policy::default(), 2), Ok(()));
    let budgets = Budgets { bits_per_record: Some(2.0), ..Budgets::default() };
    let budgeted = ServingPolicy::default().within(&budgets);
    assert_eq!(budgeted.check_bits(&"class_label".parse().unwrap(), 4), Ok(()));
    let error = budgeted.check_bits(&"class_label".parse().unwrap(), 5).unwrap_err();
    assert!(
        error.contains("`bits_per_record = 2` in [budget] for 5 classes: at most 2.32 bits"),
        "{error}"
    );
    assert!(
        policy_in_bits(&Policy::default(), &[2])
            .starts_with("warning: [defense] `none`: no finite bound")
    );
    let said = policy_in_bits(&"rounding (decimals = 1)".parse().unwrap(), &[2, 10]);
    assert!(said.contains("3.46 bits for 2 classes, 19.55 bits for 10 classes"), "{said}");
}

/// No error and no log shows a database's password, whatever is wrong with its line.
#[test]
fn no_message_shows_the_ledgers_password() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("coordinator.toml");
    let secret = "postgres://u:hunter2@db.example/ledger";
    let tls = "[tls]\nca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n";
    let peers = "[[passive_parties]]\nname = \"p\"\naddress = \"h:1\"\n";
    let head = format!("listen = \"127.0.0.1:1\"\nstate_dir = \"s\"\n{tls}{peers}[ledger]\n");
    for (line, says) in [
        (format!("url = \"{secret}"), "line 11, column"),
        (format!("url = [\"{secret}\"]"), "key `ledger.url`"),
        (format!("kept = \"{secret}\""), "key `ledger.kept`"),
        (format!("request_memory_h = \"{secret}\""), "expected u64"),
        (format!("urls = \"{secret}\""), "unknown field `urls`"),
    ] {
        std::fs::write(&path, format!("{head}{line}\n")).unwrap();
        let error = Settings::read(&path).unwrap_err();
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(says) && !shown.contains("hunter2"), "{line}: {shown}");
    }
    std::fs::write(&path, format!("{head}url = \"{secret}\"\n")).unwrap();
    let values = ConfigFile::<ConfigValues>::read(&path).unwrap();
    assert_eq!(values.values.ledger.url.as_deref(), Some(secret));
    assert!(!format!("{values:?}").contains("hunter2"));
}
