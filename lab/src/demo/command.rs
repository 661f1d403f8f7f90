//! The command line that repeats a demonstration.

use vfl_passive_party::transform::TransformConfig;
use vfl_shared::data::{BankColumns, Dataset};
use vfl_shared::metrics::Metric;
use vfl_shared::model::privacy::PrivacyValues;

use super::plan::{DEFAULT_KNOWN_RECORDS, DEFAULT_RECORDS, DemoPlan, default_policies, every_policy};

/// Names of metrics.
pub(super) fn names(metrics: &[&'static dyn Metric]) -> Vec<&'static str> {
    metrics.iter().map(|m| m.name()).collect()
}

/// The command line of a plan, with `d` passive features.
pub(super) fn command(plan: &DemoPlan, dataset: &Dataset, d: usize) -> String {
    let k = dataset.class_names().len();
    let mut command = format!("cloison demo --dataset {} --seed {} --passive-features {d}", dataset.name(), plan.seed);
    if plan.first_column != 0 {
        command.push_str(&format!(" --first-column {}", plan.first_column));
    }
    if plan.passive_parties != 1 {
        command.push_str(&format!(" --passive-parties {}", plan.passive_parties));
    }
    match plan.data.bank_columns {
        BankColumns::WithoutDuration => {}
        BankColumns::Authors => command.push_str(" --bank-columns authors"),
        BankColumns::All => command.push_str(" --bank-columns all"),
    }
    let model = &plan.training.values().model;
    if !model.is_default() {
        let settings = model.settings();
        let hidden = settings.get("hidden").and_then(|hidden| hidden.as_array()).into_iter().flatten();
        command.push_str(&format!(" --hidden {}", hidden.map(ToString::to_string).collect::<Vec<_>>().join(",")));
        if let Some(activation) = settings.get("activation").and_then(|activation| activation.as_str()) {
            command.push_str(&format!(" --activation {activation}"));
        }
    }
    if plan.policies != default_policies() {
        if every_policy(k) == plan.policies {
            command.push_str(" --policy all");
        } else {
            plan.policies.iter().for_each(|policy| command.push_str(&format!(" --policy '{policy}'")));
        }
    }
    for (option, transform) in [("transform", &plan.transform), ("train-transform", &plan.training_transform)] {
        if *transform != (TransformConfig::None {}) {
            command.push_str(&format!(" --{option} '{transform}'"));
        }
    }
    if let Some(privacy) = &plan.privacy {
        let PrivacyValues { clip, noise, .. } = privacy.values();
        let epochs = plan.training.values().epochs;
        command.push_str(&format!(" --privacy-noise {noise} --privacy-clip {clip} --epochs {epochs}"));
    }
    if let Some(metrics) = &plan.metrics {
        let named = if metrics.is_empty() { "none".to_owned() } else { names(metrics).join(",") };
        command.push_str(&format!(" --metrics {named}"));
    }
    for (threshold, limit) in plan.thresholds.given() {
        command.push_str(&format!(" --{} {limit}", threshold.name().replace('_', "-")));
    }
    if plan.records != DEFAULT_RECORDS {
        command.push_str(&format!(" --records {}", plan.records));
    }
    if plan.known_records != DEFAULT_KNOWN_RECORDS {
        command.push_str(&format!(" --known-records {}", plan.known_records));
    }
    command
}
