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
    }
}
