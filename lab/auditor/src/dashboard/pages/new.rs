//! The form that starts an audit.

use maud::{Markup, html};
use vfl_defense::{DefenseConfig, Policy};
use vfl_present::said;

use crate::dashboard::draft::{Draft, Errors, Source, place_of};
use crate::dashboard::format::counted;
use crate::dashboard::guard::Secret;
use crate::dashboard::shell::secret;

/// The content of the form.
pub(in crate::dashboard) struct AuditForm<'a> {
    /// The config file.
    pub(in crate::dashboard) source: &'a Source,
    /// The number of records in its file of ids.
    pub(in crate::dashboard) records: usize,
    /// The policy in service, if known.
    pub(in crate::dashboard) live: Option<&'a Policy>,
    /// The values of the fields.
    pub(in crate::dashboard) draft: &'a Draft,
    /// The errors of the fields.
    pub(in crate::dashboard) errors: &'a Errors,
}

/// Renders the page.
pub(in crate::dashboard) fn new(new: &AuditForm<'_>, form: &Secret) -> Markup {
    let AuditForm { source, draft, errors, .. } = new;
    html! {
        @if **errors != Errors::default() {
            div class="trouble" role="alert" {
                p { strong { "The audit was not started." } " What is wrong stands beside the field." }
                @if let Some(other) = &errors.other { p { (said(other)) } }
            }
        }
        form method="post" action="/audits/new" {
            (secret(form))
            div class="card" {
                dl {
                    dt { "Records" }
                    dd { (counted(new.records, "record")) " of " code { (said(&source.values().ids.display().to_string())) } ", as the configuration says" }
                }
                p class="small muted" { "Each policy runs against each attack, in a session of its own. What is spent of the records' budget stays spent." }
            }
            (policies(new))
            (attacks(new))
            div class="card" {
                (field("seed", "Seed", "A whole number. The same seed draws the same random numbers.", &draft.seed, errors.seed.as_deref(), "numeric"))
                (field("rho", "Budget, rho", "The most that the audit may spend of the records' budget where a party answers with noise. Empty: all that is left.", &draft.rho, errors.rho.as_deref(), "decimal"))
            }
            p class="ways" { button class="button" type="submit" { "Start the audit" } " " a href="/audits" { "Back to the audits" } }
        }
    }
}

fn wrong(id: &str, error: Option<&str>) -> Markup {
    html! { @if let Some(error) = error { p class="wrong" id=(format!("{id}-wrong")) { (said(error)) } } }
}

fn field(
    id: &str,
    label: &str,
    help: &str,
    value: &str,
    error: Option<&str>,
    mode: &str,
) -> Markup {
    let described =
        if error.is_some() { format!("{id}-wrong {id}-help") } else { format!("{id}-help") };
    html! {
        div class="field" {
            label for=(id) { (label) }
            (wrong(id, error))
            input id=(id) name=(id) value=(value) inputmode=(mode) autocomplete="off" maxlength="40"
                aria-describedby=(described) aria-invalid=[error.map(|_| "true")];
            p class="small muted" id=(format!("{id}-help")) { (help) }
        }
    }
}

fn tick(name: &str, value: &str, label: &str, ticked: bool, tag: Option<&str>) -> Markup {
    html! {
        label class="tick" {
            input type="checkbox" name=(name) value=(value) checked[ticked];
            span { (said(label)) @if let Some(tag) = tag { " " span class="tag" { (tag) } } }
        }
    }
}

fn policies(new: &AuditForm<'_>) -> Markup {
    let of_file: Vec<String> = new.source.policies.iter().map(ToString::to_string).collect();
    let live = new.live.map(ToString::to_string);
    let further = live.clone().filter(|live| !of_file.contains(live));
    let error = new.errors.policies.as_deref();
    html! {
        fieldset class="card" aria-describedby=[error.map(|_| "policies-wrong")] {
            legend { "Policies" }
            (wrong("policies", error))
            @for policy in of_file.iter().chain(&further) {
                (tick("policy", policy, policy, new.draft.policies.contains(policy), (live.as_ref() == Some(policy)).then_some("in service")))
            }
            div class="field" {
                label for="more" { "Further policies, one a line" }
                textarea id="more" name="more" rows="2" spellcheck="false" aria-describedby="more-help" { (new.draft.more) }
                p class="small muted" id="more-help" { "As in the configuration: " code { "temperature (temperature = 2.0) then rounding (decimals = 1)" } }
            }
            details {
                summary { "Defenses to write there, with their parameters" }
                ul class="defenses" {
                    @for facts in DefenseConfig::ALL {
                        li { code { (facts.name) } @for (at, parameter) in facts.parameters.iter().enumerate() { (if at == 0 { ": " } else { ", " }) (parameter.name) } }
                    }
                }
            }
        }
    }
}

fn attacks(new: &AuditForm<'_>) -> Markup {
    let chosen = |value: &str| new.draft.attacks.iter().any(|attack| attack == value);
    let error = new.errors.attacks.as_deref();
    let further: Vec<_> = new.source.further().collect();
    html! {
        fieldset class="card" aria-describedby=[error.map(|_| "attacks-wrong")] {
            legend { "Attacks" }
            (wrong("attacks", error))
            p class="small muted" { "With the settings of the configuration. " code { "docs/methods.md" } " says what each of them does." }
            div class="columns" {
                @for (at, attack) in new.source.values().attacks.iter().enumerate() {
                    @let value = place_of(at);
                    (tick("attack", &value, &attack.to_string(), chosen(&value), None))
                }
            }
            @if !further.is_empty() {
                details open[further.iter().any(|method| chosen(method.as_str()))] {
                    summary { "Attacks that the configuration does not name" }
                    div class="columns" {
                        @for method in &further { (tick("attack", method.as_str(), method.as_str(), chosen(method.as_str()), None)) }
                    }
                }
            }
        }
    }
}
