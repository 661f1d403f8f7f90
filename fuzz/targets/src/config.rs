//! Config files of the three parties and of the auditor: their text, not the files they name.

use std::path::Path;

use serde::de::DeserializeOwned;
use vfl_attack::StatedKnowledge;
use vfl_auditor::AuditConfig;
use vfl_core::model::{TrainingConfig, TrainingMode, TrainingValues};
use vfl_defense::Policy;
use vfl_passive_party::config::{Grant, ReleasePolicy, check_release, check_training};
use vfl_server::config::ConfigFile;
use vfl_server::service::Role;

use crate::input::bounded;
use crate::policies;

/// The letter of a config (`c`oordinator, `p`assive party, `a`ctive party, a`u`dit), then its TOML.
///
/// # Panics
/// If an error shows the password of a ledger.
pub fn config(data: &[u8]) {
    let Some((kind, rest)) = bounded(data).split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    match kind {
        b'c' => coordinator(text),
        b'p' => passive_party(text),
        b'a' => active_party(text),
        b'u' => audit(text),
        _ => {}
    }
}

fn read<T: DeserializeOwned>(text: &str) -> Option<T> {
    match ConfigFile::<T>::parse(Path::new("fuzzed.toml"), text) {
        Ok(file) => Some(file.values),
        Err(error) => {
            let shown = format!("{error} {error:?}");
            assert!(
                !holds_password(text) || !shown.contains(PASSWORD),
                "an error shows a password: {shown}"
            );
            None
        }
    }
}

const PASSWORD: &str = "hunter2";
const URL: &str = "url = \"postgres://u:hunter2@";

/// Whether the password stands in the text, and nowhere but in a URL on a line of its own: an error may show keys.
fn holds_password(text: &str) -> bool {
    text.contains(PASSWORD)
        && text.lines().filter(|line| line.contains(PASSWORD)).all(|line| line.starts_with(URL))
}

fn coordinator(text: &str) {
    use vfl_coordinator::config::ConfigValues;
    let Some(values) = read::<ConfigValues>(text) else { return };
    if holds_password(text) {
        assert!(!format!("{values:?}").contains(PASSWORD), "what was read shows a password");
    }
    let _ = values.limits.check();
    let ledger = values.ledger.config(&values.state_dir, values.budget);
    if let Some(Err(error)) = ledger.map(|ledger| ledger.check()) {
        let shown = format!("{error} {error:?}");
        assert!(
            !holds_password(text) || !shown.contains(PASSWORD),
            "an error shows a password: {shown}"
        );
    }
    for party in &values.passive_parties {
        assert!(!party.peer(Role::PassiveParty).to_string().is_empty());
    }
    policies::exercise(&Policy { defenses: values.defense, ..Policy::default() });
}

fn passive_party(text: &str) {
    use vfl_passive_party::config::ConfigValues;
    let Some(values) = read::<ConfigValues>(text) else { return };
    let _ = (values.limits.check(), check_training(&values.training));
    // The map that a model is trained under makes the demands of a release of the same name.
    let trained = ReleasePolicy {
        to_active_party: Grant::Transformed(values.training.transform),
        ..ReleasePolicy::default()
    };
    for policy in [&values.release, &trained] {
        for features in 1..=4 {
            let _ = check_release(policy, features);
        }
    }
}

fn active_party(text: &str) {
    use vfl_active_party::config::ConfigValues;
    let Some(ConfigValues { training: t, model, .. }) = read(text) else { return };
    let values = TrainingValues {
        mode: t.mode.unwrap_or(TrainingMode::Private),
        epochs: t.epochs,
        batch_size: t.batch_size,
        learning_rate: t.learning_rate,
        l2: t.l2,
        validation_share: t.validation_share,
        patience: t.patience,
        seed: t.seed,
        shuffle_block: t.shuffle_block,
        label_scale: None,
        model,
    };
    if let Ok(config) = TrainingConfig::try_from(values.clone()) {
        assert_eq!(config.values(), &values);
    }
}

fn audit(text: &str) {
    let Some(config) = read::<AuditConfig>(text) else { return };
    if let Ok((features, policies)) = config.check() {
        assert!(!policies.is_empty());
        assert!(features.pairs().all(|(key, _)| StatedKnowledge::is_setting(key)));
        policies.iter().for_each(policies::exercise);
    }
}
