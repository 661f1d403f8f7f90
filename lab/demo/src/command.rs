//! The command line that repeats a demonstration.

use vfl_auditor::report::{MAX_EXACT, Threshold};
use vfl_core::metrics::Metric;
use vfl_core::model::privacy::PrivacyValues;
use vfl_core::model::{Combiner, EMBEDDING_WIDTH, ModelConfig, Settings, TrainingMode};
use vfl_datasets::{Dataset, DatasetSpec};
use vfl_studies::{DataSpec, TableSpec};
use vfl_transform::TransformConfig;

use super::plan::{
    DEFAULT_EPOCHS, DEFAULT_KNOWN_RECORDS, DEFAULT_RECORDS, DemoPlan, default_policies,
    every_policy,
};

/// Returns the names of metrics.
pub(super) fn names(metrics: &[&'static dyn Metric]) -> Vec<&'static str> {
    metrics.iter().map(|m| m.name()).collect()
}

/// Returns the command line of a plan with `d` passive features.
pub(super) fn command(plan: &DemoPlan, dataset: &Dataset, d: usize) -> String {
    let k = dataset.class_names().len();
    let mut command = "cloison demo".to_owned();
    match &plan.data {
        DataSpec::Set(set) => set_options(&mut command, set, plan, d),
        DataSpec::Tables(tables) => table_options(&mut command, tables),
    }
    match &plan.imported {
        Some(model) => {
            let option = if plan.outputs.is_some() { "scores" } else { "parameters" };
            command.push_str(&format!(" --{option} {}", quoted(&model.file.to_string_lossy())));
        }
        None => training_options(&mut command, plan),
    }
    if plan.policies != default_policies() {
        if every_policy(k) == plan.policies {
            command.push_str(" --policy all");
        } else {
            plan.policies
                .iter()
                .for_each(|policy| command.push_str(&format!(" --policy '{policy}'")));
        }
    }
    for (option, transform) in
        [("transform", &plan.transform), ("train-transform", &plan.training_transform)]
    {
        if *transform != (TransformConfig::None {}) {
            command.push_str(&format!(" --{option} '{transform}'"));
        }
    }
    let epochs = plan.training.values().epochs;
    if let Some(privacy) = &plan.privacy {
        let PrivacyValues { clip, noise, .. } = privacy.values();
        command.push_str(&format!(" --privacy-noise {noise} --privacy-clip {clip}"));
    }
    if let Some((privacy, _)) = plan.private_trainings.first() {
        let noise =
            plan.private_trainings.iter().map(|(privacy, _)| privacy.values().noise.to_string());
        command.push_str(&format!(" --private-trainings {}", noise.collect::<Vec<_>>().join(",")));
        if plan.privacy.is_none() {
            command.push_str(&format!(" --privacy-clip {}", privacy.values().clip));
        }
    }
    if plan.privacy.is_some() || epochs != DEFAULT_EPOCHS {
        command.push_str(&format!(" --epochs {epochs}"));
    }
    if plan.show_network && plan.imported.is_none() {
        command.push_str(" --show-network");
    }
    if let Some(metrics) = &plan.metrics {
        let named = if metrics.is_empty() { "none".to_owned() } else { names(metrics).join(",") };
        command.push_str(&format!(" --metrics {named}"));
    }
    let default = (Threshold::MaxExact, MAX_EXACT);
    for (threshold, limit) in plan.thresholds.given().filter(|given| *given != default) {
        command.push_str(&format!(" --{} {limit}", threshold.name().replace('_', "-")));
    }
    if plan.records != DEFAULT_RECORDS {
        command.push_str(&format!(" --records {}", plan.records));
    }
    if plan.known_records != DEFAULT_KNOWN_RECORDS {
        command.push_str(&format!(" --known-records {}", plan.known_records));
    }
    if !plan.schema {
        command.push_str(" --features nothing");
    }
    command
}

/// Appends the options of a data set and of a window of its columns.
fn set_options(command: &mut String, set: &DatasetSpec, plan: &DemoPlan, d: usize) {
    let (name, seed) = (set.name, plan.seed);
    command.push_str(&format!(" --dataset {name} --seed {seed} --passive-features {d}"));
    if plan.first_column != 0 {
        command.push_str(&format!(" --first-column {}", plan.first_column));
    }
    if plan.passive_parties != 1 {
        command.push_str(&format!(" --passive-parties {}", plan.passive_parties));
    }
    if set.variant != name.default_variant() {
        command.push_str(&format!(" --variant {}", set.variant));
    }
}

/// Appends the options of the caller's own tables.
fn table_options(command: &mut String, tables: &TableSpec) {
    let mut add =
        |option: &str, value: &str| command.push_str(&format!(" --{option} {}", quoted(value)));
    tables.files.iter().for_each(|file| add("table", &file.to_string_lossy()));
    tables.id.iter().for_each(|column| add("id", column));
    tables.label.iter().for_each(|column| add("label", column));
    if tables.number_label {
        command.push_str(" --number-label");
    }
    let mut add =
        |option: &str, value: &str| command.push_str(&format!(" --{option} {}", quoted(value)));
    tables.passive.iter().for_each(|columns| add("passive", &columns.join(",")));
    if !tables.left_out.is_empty() {
        add("leave-out", &tables.left_out.join(","));
    }
    tables.test_ids.iter().for_each(|file| add("test-ids", &file.to_string_lossy()));
    add("seed", &tables.seed.to_string());
}

/// Returns a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/,".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Appends the mode of a training and the options of its model.
fn training_options(command: &mut String, plan: &DemoPlan) {
    let training = plan.training.values();
    let noise = plan.privacy.is_some() || !plan.private_trainings.is_empty();
    let default = match plan.linear() && !noise {
        true => TrainingMode::Private,
        false => TrainingMode::Plain,
    };
    if training.mode != default {
        command.push_str(&format!(" --mode {}", training.mode));
    }
    model_options(command, &training.model);
}

/// Appends the options of a model that is not softmax regression.
fn model_options(command: &mut String, model: &ModelConfig) {
    if model.is_default() {
        return;
    }
    let widths = |settings: &Settings| {
        let hidden =
            settings.get("hidden").and_then(|hidden| hidden.as_array()).into_iter().flatten();
        hidden.map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    let settings = model.settings();
    if let Some(link) = settings.get("link").and_then(|link| link.as_str()) {
        command.push_str(&format!(" --link {link}"));
    } else if settings.contains_key("hidden") {
        command.push_str(&format!(" --hidden {}", widths(settings)));
        if let Some(activation) =
            settings.get("activation").and_then(|activation| activation.as_str())
        {
            command.push_str(&format!(" --activation {activation}"));
        }
    } else {
        command.push_str(&format!(" --{}", model.kind()));
    }
    if model.combiner() == Combiner::Concat {
        command.push_str(&format!(" --embedding {}", model.width().unwrap_or(EMBEDDING_WIDTH)));
    }
    if let Some(top) = model.top() {
        command.push_str(&format!(" --top {}", widths(top)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command line that these options give is parsed to the same options again.
    #[test]
    fn a_network_is_asked_for_by_the_same_options() {
        let settings = |value: serde_json::Value| value.as_object().unwrap().clone();
        let perceptron =
            || settings(serde_json::json!({ "hidden": [32, 8], "activation": "relu" }));
        let image = settings(serde_json::json!({ "channels": 1, "height": 28 }));
        let top = settings(serde_json::json!({ "hidden": [7], "activation": "relu" }));
        for (model, options) in [
            (ModelConfig::default(), ""),
            (
                ModelConfig::new(Combiner::Sum, "mlp", None, perceptron()).unwrap(),
                " --hidden 32,8 --activation relu",
            ),
            (
                ModelConfig::new(Combiner::Concat, "mlp", Some(16), perceptron())
                    .unwrap()
                    .with_top(top)
                    .unwrap(),
                " --hidden 32,8 --activation relu --embedding 16 --top 7",
            ),
            (
                ModelConfig::new(Combiner::Concat, "residual", Some(64), image).unwrap(),
                " --residual --embedding 64",
            ),
        ] {
            let mut command = String::new();
            model_options(&mut command, &model);
            assert_eq!(command, options);
        }
    }
}
