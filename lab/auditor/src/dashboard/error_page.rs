//! Error pages with advice on what to do.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use maud::html;
use vfl_present::said;

use super::shell::{NavPage, page};

/// An error page.
#[derive(Debug)]
pub(super) struct ErrorPage {
    status: StatusCode,
    title: String,
    text: String,
    /// The link onwards: an address and its text.
    next: (&'static str, &'static str),
}

impl ErrorPage {
    /// Creates an error page with a title, and sentences that say what to do.
    pub(super) fn new(
        status: StatusCode,
        title: impl Into<String>,
        text: impl Into<String>,
    ) -> Self {
        Self { status, title: title.into(), text: text.into(), next: ("/", "Go to the service") }
    }

    /// Replaces the link onwards.
    pub(super) fn next(mut self, address: &'static str, words: &'static str) -> Self {
        self.next = (address, words);
        self
    }

    /// Returns the error that something does not exist.
    pub(super) fn missing(text: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is no such page", text)
            .next("/audits", "See the audits")
    }

    /// Returns the error that the configuration or a folder is not in order.
    pub(super) fn setting(text: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The dashboard's own files are not in order",
            text,
        )
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let (address, words) = self.next;
        let content = html! {
            p class="trouble" role="alert" { (said(&self.text)) }
            p { a href=(address) { (words) } }
        };
        (self.status, page(NavPage::Elsewhere, &self.title, None, &content)).into_response()
    }
}
