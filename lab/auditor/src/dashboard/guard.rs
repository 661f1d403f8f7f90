//! Access control of the dashboard. Other users of the machine can reach its address, so a request
//! needs a token. Other pages of the same browser can too, so a form needs a second secret.

use std::net::SocketAddr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use form_urlencoded::parse;
use rand::TryRng;
use rand::rngs::SysRng;
use subtle::ConstantTimeEq;
use vfl_core::hex;

/// A secret of 256 random bits, as hexadecimal digits.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    /// Draws a secret from the operating system.
    ///
    /// # Errors
    /// A sentence if the system gives no random bytes.
    pub(super) fn draw() -> Result<Self, String> {
        let mut bytes = [0u8; 32];
        SysRng
            .try_fill_bytes(&mut bytes)
            .map_err(|e| format!("the operating system gives no random bytes: {e}"))?;
        Ok(Self(hex(bytes)))
    }

    /// Returns true if a text is this secret. The comparison's time depends only on the length.
    pub(super) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }

    /// Returns the text of the secret.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

/// The name of the form field that holds the secret.
pub(super) const FIELD: &str = "form_secret";

/// The secrets and host names that requests are checked against.
pub(super) struct Guard {
    /// The secret in the printed URL.
    token: Secret,
    /// The secret in the cookie.
    session: Secret,
    /// The secret in every form.
    form: Secret,
    /// The allowed values of `Host`.
    hosts: Vec<String>,
    /// The name of the cookie. It has the port, since cookies of dashboards on other ports are sent
    /// too.
    cookie: String,
}

/// The decision on a request.
pub(super) enum Admission {
    /// The request goes on to its page.
    Admitted,
    /// The request has the token and gets the cookie.
    Greeted,
    Refused(Refused),
}

/// The reasons that a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// `Host` is not the dashboard's address: the name of another site points at this machine.
    Host,
    /// The request has neither cookie nor token.
    Stranger,
}

impl Guard {
    /// Draws the secrets of a dashboard at an address.
    ///
    /// # Errors
    /// A sentence if the system gives no random bytes.
    pub(super) fn new(address: SocketAddr) -> Result<Self, String> {
        let port = address.port();
        let mut hosts = vec![address.to_string(), format!("localhost:{port}")];
        if port == 80 {
            hosts.extend([address.ip().to_string(), "localhost".into()]);
        }
        let cookie = format!("cloison-{port}");
        Ok(Self {
            token: Secret::draw()?,
            session: Secret::draw()?,
            form: Secret::draw()?,
            hosts,
            cookie,
        })
    }

    /// Returns the secret of the URL.
    pub(super) fn token(&self) -> &Secret {
        &self.token
    }

    /// Returns the secret of forms.
    pub(super) fn form(&self) -> &Secret {
        &self.form
    }

    /// Decides on a request.
    pub(super) fn admit(&self, request: &Parts) -> Admission {
        if !self.is_host(&request.headers, &request.uri) {
            return Admission::Refused(Refused::Host);
        }
        let query = request.uri.query().unwrap_or_default();
        let brings = request.uri.path() == "/"
            && parse(query.as_bytes()).any(|(key, value)| key == "token" && self.token.is(&value));
        match self.has_cookie(&request.headers) {
            // With or without the cookie: a redirect removes the token from the address bar.
            _ if brings => Admission::Greeted,
            true => Admission::Admitted,
            false => Admission::Refused(Refused::Stranger),
        }
    }

    fn is_host(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let ours = |host: &str| self.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host));
        let mut named = headers.get_all(header::HOST).iter();
        let one = named.next().and_then(|host| host.to_str().ok()).is_some_and(ours)
            && named.next().is_none();
        one && uri.authority().is_none_or(|authority| ours(authority.as_str()))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        all.flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .any(|(name, value)| name == self.cookie && self.session.is(value))
    }

    /// Returns the header that sets the cookie.
    pub(super) fn set_cookie(&self) -> Option<HeaderValue> {
        let cookie =
            format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, self.session.reveal());
        HeaderValue::from_str(&cookie).ok()
    }
}

/// Returns true if a browser reports that a page of another origin sent the request. Other clients
/// report nothing.
pub(super) fn from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

/// Sets the headers that forbid browsers to run scripts, cache, frame pages or tell other sites of
/// them.
pub(super) fn harden(headers: &mut HeaderMap) {
    const SAID: [(&str, &str); 6] = [
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in SAID {
        headers.insert(name, HeaderValue::from_static(value));
    }
    // A report has a policy of its own.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let request = headers
            .iter()
            .fold(Request::get(uri), |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    fn refused(guard: &Guard, uri: &str, headers: &[(&str, &str)]) -> Option<Refused> {
        match guard.admit(&parts(uri, headers)) {
            Admission::Refused(why) => Some(why),
            Admission::Admitted | Admission::Greeted => None,
        }
    }

    #[test]
    fn a_secret_is_itself_and_nothing_else() {
        let (one, other) = (Secret::draw().unwrap(), Secret::draw().unwrap());
        assert_eq!(one.reveal().len(), 64);
        assert!(
            one.is(one.reveal())
                && !one.is(other.reveal())
                && !one.is("")
                && !one.is(&one.reveal()[..63])
        );
    }

    #[test]
    fn only_the_listen_address_and_localhost_are_hosts() {
        let guard = Guard::new("127.0.0.1:8470".parse().unwrap()).unwrap();
        for host in ["127.0.0.1:8470", "localhost:8470", "LOCALHOST:8470"] {
            assert_eq!(refused(&guard, "/", &[("host", host)]), Some(Refused::Stranger), "{host}");
        }
        for host in [
            "127.0.0.1",
            "127.0.0.1:8471",
            "evil.example:8470",
            "localhost.:8470",
            "127.0.0.1:8470, evil",
        ] {
            assert_eq!(refused(&guard, "/", &[("host", host)]), Some(Refused::Host), "{host}");
        }
        assert_eq!(refused(&guard, "/", &[]), Some(Refused::Host));
        let two = [("host", "127.0.0.1:8470"), ("host", "evil.example:8470")];
        assert_eq!(refused(&guard, "/", &two), Some(Refused::Host));
        let absolute = refused(&guard, "http://evil.example:8470/", &[("host", "127.0.0.1:8470")]);
        assert_eq!(absolute, Some(Refused::Host));
    }

    #[test]
    fn the_token_gives_the_cookie_and_the_cookie_admits() {
        let guard = Guard::new("127.0.0.1:8470".parse().unwrap()).unwrap();
        let host = ("host", "127.0.0.1:8470");
        let url = format!("/?token={}", guard.token().reveal());
        assert!(matches!(guard.admit(&parts(&url, &[host])), Admission::Greeted));
        // The token opens the first page only.
        assert_eq!(
            refused(&guard, &url.replacen("/?", "/audits?", 1), &[host]),
            Some(Refused::Stranger)
        );
        let cookie = guard.set_cookie().unwrap();
        let said = cookie.to_str().unwrap();
        assert!(said.contains("HttpOnly") && said.contains("SameSite=Strict"), "{said}");
        assert!(
            !said.contains(guard.token().reveal()),
            "the cookie is another secret than that of the URL"
        );
        let pair = said.split(';').next().unwrap();
        assert!(matches!(
            guard.admit(&parts("/audits", &[host, ("cookie", pair)])),
            Admission::Admitted
        ));
        let among = format!("a=b; {pair}; c=d");
        assert!(matches!(
            guard.admit(&parts("/audits", &[host, ("cookie", &among)])),
            Admission::Admitted
        ));
        for other in [
            format!("{pair}0"),
            pair.replace("8470", "8471"),
            format!("cloison-8470={}", guard.token().reveal()),
        ] {
            assert_eq!(
                refused(&guard, "/audits", &[host, ("cookie", &other)]),
                Some(Refused::Stranger),
                "{other}"
            );
        }
    }
}
