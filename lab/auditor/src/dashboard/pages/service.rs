//! The page of the service: the state of the parties, the model and policy in service, and the
//! spending.

use maud::{Markup, html};
use vfl_present::ColumnKind::{Hash, Name, Text};
use vfl_present::{Table, said};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_server::service::Peer;

use crate::audit::{DeploymentState, Targets};
use crate::dashboard::format::{budgets, counted, spent, why};

/// Renders the page.
pub(in crate::dashboard) fn service(targets: &Targets, standing: &DeploymentState) -> Markup {
    let passive = standing.passive.iter().map(|(peer, said)| (peer, said.as_ref().map(|_| ())));
    let all: Vec<(&str, &Peer, Result<(), &Refusal>)> = [
        ("Coordinator", &targets.coordinator, standing.coordinator.as_ref().copied()),
        ("Active party", &targets.active, standing.active.as_ref().copied()),
    ]
    .into_iter()
    .chain(passive.map(|(peer, said)| ("Passive party", peer, said)))
    .collect();
    let silent = all.iter().filter(|(_, _, said)| said.is_err()).count();
    let answer = |state: &Result<(), &Refusal>| match state {
        Ok(()) => html! { span class="badge good" { "answers" } },
        Err(_) => html! { span class="badge bad" { "no answer" } },
    };
    let table = Table::new()
        .column("party", Name, all.iter().map(|(_, peer, _)| peer.name.as_str()))
        .column("role", Text, all.iter().map(|(role, ..)| *role))
        .column("address", Hash, all.iter().map(|(_, peer, _)| &peer.address))
        .column("state", Text, all.iter().map(|(.., state)| answer(state)));
    html! {
        p class="lead" {
            @if silent == 0 { "All " (counted(all.len(), "party")) " answer." }
            @else { (silent) " of " (counted(all.len(), "party")) " do not answer." }
        }
        section aria-labelledby="parties" {
            h2 id="parties" { "Parties" }
            div class="card" {
                (table.cards())
                @for (_, _, state) in &all { @if let Err(refusal) = state { p class="small" { (said(&why(refusal))) } } }
            }
        }
        (in_service(standing))
        section aria-labelledby="spent" {
            h2 id="spent" { "Budgets of the live service" }
            div class="card" {
                @match &standing.ledger {
                    Ok(Some(summary)) => {
                        p class="small muted" { "What each active party may ask for, and what it has asked for, as the coordinator's ledger counts it." }
                        (budgets(&summary.budgets))
                        (spent(summary))
                    }
                    Ok(None) => p { "The coordinator keeps no ledger: nothing bounds what is asked." },
                    Err(refusal) => p { (said(&why(refusal))) },
                }
            }
        }
    }
}

fn in_service(standing: &DeploymentState) -> Markup {
    html! {
        section aria-labelledby="served" {
            h2 id="served" { "Model and policy in service" }
            div class="card" {
                @match &standing.model {
                    Ok(model) => {
                        dl {
                            dt { "Version" } dd class="hash" { (said(model.version.as_str())) }
                            dt { "Policy" } dd { strong { (said(&model.policy.to_string())) } }
                            dt { (counted(model.class_names.len(), "class")) } dd { (said(&model.class_names.join(", "))) }
                            dt { "Features" } dd {
                                (counted(model.active_features, "feature")) " of the active party"
                                @for (party, features) in model.passive_parties.iter().zip(&model.passive_features) {
                                    ", " (features) " of " (said(party))
                                }
                            }
                        }
                        @if model.policy.is_none() {
                            p class="small" { "Scores leave as they are. An audit says what that gives away, and what a defense would cost." }
                        }
                        p class="ways" { a href="/audits/new" { "Start an audit" } " " a href="/model" { "More of the model" } }
                    }
                    Err(refusal) => {
                        p { (said(&why(refusal))) }
                        @if refusal.kind == RefusalKind::FailedPrecondition {
                            p { "Train or import one: " code { "active-party train" } "." }
                        }
                    }
                }
            }
        }
    }
}
