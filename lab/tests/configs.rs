//! The sample configs parse, and name what they are to name.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::PathBuf;

use vfl_shared::config::ConfigFile;

fn example(dir: &str, name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples")).join(dir).join(format!("{name}.toml"))
}

#[test]
fn every_sample_config_parses() {
    for dir in ["local", "compose"] {
        let coordinator =
            ConfigFile::<vfl_coordinator::config::ConfigValues>::read(&example(dir, "coordinator")).unwrap();
        let passive = ConfigFile::<vfl_passive_party::config::ConfigValues>::read(&example(dir, "passive-1")).unwrap();
        let active = ConfigFile::<vfl_active_party::config::ConfigValues>::read(&example(dir, "active")).unwrap();
        assert_eq!(active.values.passive_parties, coordinator.values.passive_parties);
        assert_eq!(passive.values.listen.port(), 7101);
        assert!(
            coordinator.values.training.allowed && coordinator.values.audit.allowed && passive.values.audit.allowed
        );
        // The demonstration trusts its auditor, by name.
        assert_eq!(passive.values.audit.mode, vfl_passive_party::config::AuditMode::Trusted);
        passive.values.audit.check().unwrap();
        assert!(active.values.model.is_default(), "the samples say what the default is");
    }
}

/// A model that this version does not have is refused when the file is read, with the line.
#[test]
fn a_model_that_is_not_there_is_refused_with_its_line() {
    let path = example("local", "active");
    let text = std::fs::read_to_string(&path).unwrap();
    let (kind, combiner) = ("kind = \"softmax_regression\"", "combiner = \"sum\"");
    for (from, to, says) in [
        (combiner, "combiner = \"concat\"", "`concat` has no implementation in this version; use `sum`"),
        (combiner, "combiner = \"mean\"", "expected `sum` or `concat`"),
        (kind, "kind = \"mlp\"", "this version knows `softmax_regression`"),
        (kind, "kind = \"softmax_regression\"\nhidden = [8]", "`hidden` is unknown: it has no settings"),
        (combiner, "combiner = \"sum\"\nwidth = 0", "`width` is 0, expected 1 to 65536"),
        (combiner, "combiner = \"sum\"\nwidth = 70000", "`width` is 70000"),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replace(from, to);
        let read = ConfigFile::<vfl_active_party::config::ConfigValues>::parse(&path, &changed);
        let said = read.map(drop).unwrap_err().to_string();
        assert!(said.contains(says) && said.contains("active.toml") && said.contains("line"), "{said}");
    }
}
