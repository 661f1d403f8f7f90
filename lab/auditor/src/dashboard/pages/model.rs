//! The page of the model: its training, the parameters that each party shows, and its features.

use std::time::SystemTime;

use maud::{Markup, html};
use vfl_core::data::schema::FeatureSpec;
use vfl_present::ColumnKind::{Name, Number, Text};
use vfl_present::{Table, said, significant};
use vfl_protocol::{Refusal, ShownParameters};

use crate::audit::{DeploymentState, Model, PartyBudget, ScoringOffer};
use crate::dashboard::format::{counted, when, why};
use crate::dashboard::guard::Secret;
use crate::dashboard::shell::secret;
use crate::report::scroll;

/// The last answers of the passive parties.
#[derive(Clone)]
pub(in crate::dashboard) struct PartyAnswers {
    /// The time of the answers.
    pub(in crate::dashboard) at: SystemTime,
    /// The model version that they are about.
    pub(in crate::dashboard) version: String,
    /// The answer of each party, by its name.
    pub(in crate::dashboard) said: Vec<(String, Result<ScoringOffer, Refusal>)>,
}

/// Renders the page. `records` is the number of records that the configuration names.
pub(in crate::dashboard) fn model(
    standing: &DeploymentState,
    asked: Option<&PartyAnswers>,
    records: usize,
    form: &Secret,
) -> Markup {
    html! {
        @match &standing.model {
            Err(refusal) => p class="trouble" { (said(&why(refusal))) },
            Ok(model) => {
                p class="lead" { "Version " code { (said(model.version.as_str())) } }
                (training(model))
                (shown(model, asked, records, form))
            }
        }
        (features(standing))
    }
}

fn training(model: &Model) -> Markup {
    let facts = model.training;
    html! {
        section aria-labelledby="training" {
            h2 id="training" { "How it came about" }
            div class="card" {
                dl {
                    @if facts.imported {
                        dt { "Training" } dd { "elsewhere: its parameters were imported" }
                    } @else {
                        dt { "Training" } dd { (counted(facts.epochs as usize, "epoch")) ", " (facts.steps) " steps" }
                    }
                    dt { "Records" } dd { (facts.training_records) " trained on, " (facts.validation_records) " set aside to choose the epoch" }
                    dt { "Combiner" } dd { (model.combiner) }
                    dt { (counted(model.class_names.len(), "class")) } dd { (said(&model.class_names.join(", "))) }
                    @for (party, privacy) in &model.privacy {
                        dt { "Privacy of " (said(party)) } dd { (privacy) ", as that party states" }
                    }
                }
            }
        }
    }
}

/// Explains what the shown parameters give an adversary.
fn meaning(shown: &ShownParameters) -> &'static str {
    match shown {
        s if !s.granted => {
            "The active party is shown no parameters: attacks that need them do not run."
        }
        s if s.transformed() || s.trained_on_transformed() => {
            "The active party is shown parameters that are not those of the features: attacks first undo that."
        }
        _ => {
            "The active party is shown the true parameters: attacks solve the model's own equations."
        }
    }
}

fn shown(model: &Model, asked: Option<&PartyAnswers>, records: usize, form: &Secret) -> Markup {
    let asked = asked.filter(|asked| asked.version == model.version.as_str());
    html! {
        section aria-labelledby="shown" {
            h2 id="shown" { "What each party shows of its parameters" }
            div class="card" {
                @if let Some(asked) = asked {
                    @for (party, answer) in &asked.said {
                        h3 { (said(party)) }
                        @match answer {
                            Ok(answer) => {
                                p { "Shows " strong { (said(&answer.shown.to_string())) } ". " (meaning(&answer.shown)) }
                                p class="small" { (left(answer.left)) }
                            }
                            Err(refusal) => p { (said(&why(refusal))) },
                        }
                    }
                    p class="small muted" { "Asked " (when(asked.at)) "." }
                } @else {
                    p { "Not asked yet." }
                }
                @if model.top_shown { p { "The coordinator shows the active party the top model." } }
                form method="post" action="/model/ask" {
                    (secret(form))
                    button type="submit" { @if asked.is_some() { "Ask again" } @else { "Ask the passive parties" } }
                    p class="small muted" {
                        "This is the first step of an audit of the " (counted(records, "record")) " that the configuration names. "
                        "Nothing is scored or spent. From then on these records are one set to the parties."
                    }
                }
            }
        }
    }
}

fn left(left: PartyBudget) -> String {
    match left {
        PartyBudget::Scorings(left) => {
            format!(
                "It trusts this auditor and scores without noise, {left} times more for these records."
            )
        }
        PartyBudget::Rho { left, total } => format!(
            "It scores with noise. Of the budget of these records, rho = {} of {} is left.",
            significant(left),
            significant(total)
        ),
    }
}

fn features(standing: &DeploymentState) -> Markup {
    html! {
        section aria-labelledby="features" {
            h2 id="features" { "Features of the passive parties" }
            p class="small muted" { "As their owners describe them in public. No value of a record is in this." }
            @for (peer, described) in &standing.passive {
                @match described {
                    Err(refusal) => div class="card" { h3 { (said(peer.name.as_str())) } p { (said(&why(refusal))) } },
                    Ok(features) => {
                        details class="card" {
                            summary { h3 { (said(peer.name.as_str())) ", " (counted(features.len(), "feature")) } }
                            (scroll(&format!("Features of {}", peer.name), &table(features).html()))
                        }
                    }
                }
            }
        }
    }
}

fn table(features: &[FeatureSpec]) -> Table {
    let features = || features.iter();
    let step =
        |feature: &FeatureSpec| feature.step.map_or_else(String::new, |step| step.to_string());
    let range = |feature: &FeatureSpec| {
        let scale = feature.scale.as_ref().map_or_else(String::new, |scale| format!(", {scale}"));
        format!("{} to {}{scale}", feature.min, feature.max)
    };
    Table::new()
        .column("feature", Name, features().map(|feature| &feature.name))
        .column("kind", Text, features().map(|feature| feature.kind.to_string()))
        .column("declared range", Number, features().map(range))
        .column("step", Number, features().map(step))
}
