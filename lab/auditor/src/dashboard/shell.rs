//! The frame of the dashboard's pages: the navigation around the content.

use axum::response::Html;
use maud::{DOCTYPE, Markup, html};
use vfl_present::said;

use super::guard::{FIELD, Secret};

/// The style of the dashboard, appended to that of all pages.
const STYLE: &str = include_str!("dashboard.css");

/// The icon of the dashboard: two parties and a partition between them.
pub(super) const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0b5fa5"/><circle cx="4.5" cy="8" r="2" fill="#fff"/><circle cx="11.5" cy="8" r="2" fill="#fff"/><rect x="7.5" y="2" width="1" height="12" fill="#fff"/></svg>"##;

/// The current page in the navigation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NavPage {
    Service,
    Model,
    Audits,
    Ledger,
    Elsewhere,
}

/// The pages, in the order of a first visit.
const PAGES: [(NavPage, &str, &str); 4] = [
    (NavPage::Service, "/", "Service"),
    (NavPage::Model, "/model", "Model"),
    (NavPage::Audits, "/audits", "Audits"),
    (NavPage::Ledger, "/ledger", "Ledger"),
];

/// Returns the style sheet of all pages.
pub(super) fn style_sheet() -> String {
    vfl_present::style_sheet() + STYLE
}

/// Renders a page. `reload` is the number of seconds after which it reloads.
pub(super) fn page(
    place: NavPage,
    title: &str,
    reload: Option<u32>,
    content: &Markup,
) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                @if let Some(seconds) = reload { meta http-equiv="refresh" content=(seconds); }
                title { (said(title)) " · Cloison" }
                link rel="icon" href="/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/style.css";
            }
            body {
                a class="skip" href="#content" { "Skip to the content" }
                header class="bar" {
                    span class="brand" { "Cloison" }
                    nav aria-label="Pages" {
                        @for (at, address, words) in PAGES {
                            a href=(address) aria-current=[(at == place).then_some("page")] { (words) }
                        }
                    }
                }
                main id="content" tabindex="-1" {
                    h1 { (said(title)) }
                    (content)
                }
            }
        }
    };
    Html(page.into_string())
}

/// Renders a page for visitors who are not admitted, without style and navigation.
pub(super) fn bare(title: &str, text: &str) -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Cloison" }
            }
            body { main { h1 { (title) } p { (text) } } }
        }
    };
    Html(page.into_string())
}

/// Renders the page behind the printed address. It redirects, so that the token leaves the address
/// bar.
pub(super) fn greeting() -> Html<String> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="color-scheme" content="light dark";
                meta http-equiv="refresh" content="0; url=/";
                title { "Cloison" }
            }
            body { main { p { a href="/" { "Open the dashboard" } } } }
        }
    };
    Html(page.into_string())
}

/// Renders the hidden field with the secret of forms.
pub(super) fn secret(form: &Secret) -> Markup {
    html! { input type="hidden" name=(FIELD) value=(form.reveal()); }
}
