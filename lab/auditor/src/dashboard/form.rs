//! Reads forms. A form must be small, come from the dashboard's own pages and carry their secret.

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use http_body_util::BodyExt;

use super::error_page::ErrorPage;
use super::guard::{FIELD, Guard, from_elsewhere};

/// The largest form, in bytes.
const LARGEST: usize = 64 << 10;
/// The most bytes of a larger form that are read and dropped, so that its sender receives the
/// answer that it is too large.
const DRAINED: usize = 16 << 20;

/// The fields of a form, in order.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Parses the fields of a query.
    pub(super) fn of_query(query: Option<&str>) -> Self {
        Self::parse(query.unwrap_or_default().as_bytes())
    }

    /// Reads the body of a POST.
    ///
    /// # Errors
    /// [`ErrorPage`] if it is no form, too large, or not from a page of this dashboard.
    pub(super) async fn read(request: Request<Body>, guard: &Guard) -> Result<Self, ErrorPage> {
        let (parts, body) = request.into_parts();
        let bytes = bounded(body).await?;
        if !is_form(&parts.headers) {
            return Err(ErrorPage::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "This is no form",
                "The dashboard takes forms of its own pages alone.",
            ));
        }
        let fields = Self::parse(&bytes);
        let ours = fields.one(FIELD).is_some_and(|secret| guard.form().is(secret));
        if !ours || from_elsewhere(&parts.headers) {
            return Err(ErrorPage::new(
                StatusCode::FORBIDDEN,
                "This form is not of this dashboard",
                "Nothing was done. The form lacks the secret that the dashboard puts into its pages: it is of another site, or of a \
                 dashboard that has ended. Open the page again and send the form from there.",
            ));
        }
        Ok(fields)
    }

    fn parse(bytes: &[u8]) -> Self {
        Self(
            form_urlencoded::parse(bytes)
                .map(|(key, value)| (key.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// Returns the first field with this name.
    pub(super) fn one(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns all fields with this name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let kind =
        headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';')
        .next()
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded"))
}

async fn bounded(mut body: Body) -> Result<Vec<u8>, ErrorPage> {
    let (mut bytes, mut seen) = (Vec::new(), 0usize);
    while let Some(frame) = body.frame().await {
        let broken =
            |_| ErrorPage::new(StatusCode::BAD_REQUEST, "The form broke off", "Send it again.");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        seen = seen.saturating_add(data.len());
        if seen <= LARGEST {
            bytes.extend_from_slice(&data);
        } else if seen > DRAINED {
            break;
        }
    }
    if seen > LARGEST {
        return Err(ErrorPage::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The form is too large",
            format!("A form has {} KiB at most. Name fewer policies.", LARGEST >> 10),
        ));
    }
    Ok(bytes)
}
