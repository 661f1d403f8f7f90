//! The shell of every page that the lab writes: one file that needs only a browser, without
//! scripts, fonts, images or network.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::plot::ink;
use crate::text::printable;

const STYLE: &str = include_str!("style.css");

/// Forbids everything but the page's own style, so that a name that escapes from its place can do
/// nothing.
const CONTENT_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The frame of a page: title, facts and source.
pub struct Shell<'a> {
    /// Title and heading.
    pub title: &'a str,
    /// The program that writes the page.
    pub generator: &'a str,
    /// A sentence below the heading; empty: none.
    pub lead: &'a str,
    /// The facts about the subject of the page, by label; empty: none.
    pub facts: Vec<(&'static str, Markup)>,
    /// The name of the file with the same content for programs.
    pub source: String,
    /// The version of the schema of that file.
    pub schema_version: u32,
}

/// Returns the style sheet of all pages, and the inks of their plots.
pub fn style_sheet() -> String {
    [STYLE, &ink::style_sheet()].concat()
}

/// Prepares text of a document for a page: removes control characters; maud escapes the rest.
pub fn said(text: &str) -> Markup {
    html! { (printable(text)) }
}

impl Shell<'_> {
    /// Returns the page around this content. The same content gives the same bytes.
    pub fn page(&self, content: &Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                    meta name="generator" content=(printable(self.generator));
                    title { (said(self.title)) }
                    style { (PreEscaped(style_sheet())) }
                }
                body {
                    main {
                        header {
                            h1 { (said(self.title)) }
                            @if !self.lead.is_empty() { p class="lead" { (self.lead) } }
                            @if !self.facts.is_empty() {
                                div class="card" {
                                    dl { @for (label, value) in &self.facts { dt { (label) } dd { (value) } } }
                                }
                            }
                        }
                        (content)
                        footer class="small muted" {
                            "Written by " (said(self.generator)) " from " (said(&self.source)) ", schema version " (self.schema_version) "."
                        }
                    }
                }
            }
        };
        page.into_string()
    }
}
