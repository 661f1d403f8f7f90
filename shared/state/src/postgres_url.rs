//! Connection options of PostgreSQL databases. Connections to other machines always use TLS.
//!
//! The coordinator's ledger and the parties' feature stores share these rules.

use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// Errors from reading a URL. The message never quotes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(pub &'static str);

/// The parameters that a URL may have. The library logs others with their values, which may be a
/// misspelt parameter's password.
const PARAMETERS: [&str; 18] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "statement-cache-capacity",
    "options",
];

/// Reads `postgres://…`. Without an `sslmode`, the server's certificate and host name are verified,
/// unless the server is on this machine. `application` is the name under which the server lists the
/// connection, unless the URL has one.
///
/// # Errors
/// [`UrlError`] if the URL is malformed or allows plaintext with another machine.
pub fn options(url: &str, application: &str) -> Result<PgConnectOptions, UrlError> {
    let malformed = UrlError(
        "the part after `postgres://` is malformed; expected USER:PASSWORD@HOST:PORT/DATABASE",
    );
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let keys =
        || query.split('&').filter(|p| !p.is_empty()).map(|p| p.split('=').next().unwrap_or(p));
    let known = |key: &str| {
        PARAMETERS.contains(&key) || key.starts_with("options[") || key.starts_with("options%5B")
    };
    if !keys().all(known) {
        return Err(UrlError("a parameter after `?` is not one that PostgreSQL connections take"));
    }
    // The parser's own message may quote the URL with its password.
    let options = PgConnectOptions::from_str(url).map_err(|_| malformed)?;
    let options = match options.get_application_name() {
        None => options.application_name(application),
        Some(_) => options,
    };
    if is_here(&options) || matches!(options.get_ssl_mode(), PgSslMode::VerifyFull) {
        return Ok(options);
    }
    let asked = keys().any(|key| matches!(key, "sslmode" | "ssl-mode"))
        || std::env::var_os("PGSSLMODE").is_some();
    if asked {
        return Err(UrlError(
            "a database on another machine takes `sslmode=verify-full` (with `sslrootcert=FILE` for an authority of your own): \
             anything less sends the password to whoever answers; set it, or leave `sslmode` out",
        ));
    }
    Ok(options.ssl_mode(PgSslMode::VerifyFull))
}

/// Reads the URL of a config table, which is either in the table or the only line of a file.
///
/// # Errors
/// A message that names the key and never quotes the URL.
pub fn named(
    url: Option<&str>,
    url_file: Option<&Path>,
    application: &str,
) -> Result<PgConnectOptions, String> {
    let url = match (url, url_file) {
        (Some(url), None) => url.to_owned(),
        (None, Some(file)) => {
            let read = std::fs::read_to_string(file);
            read.map_err(|e| format!("cannot read `url_file` {}: {e}", file.display()))?
                .trim()
                .to_owned()
        }
        _ => return Err("name `url`, or `url_file`, and not both".into()),
    };
    if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
        return Err("`url` begins with `postgres://`".into());
    }
    options(&url, application).map_err(|e| e.to_string())
}

/// Returns true if the server is on this machine: a Unix socket or a loopback address.
fn is_here(options: &PgConnectOptions) -> bool {
    let host = options.get_host();
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    options.get_socket().is_some()
        || host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn mode(url: &str) -> Result<PgSslMode, UrlError> {
        options(url, "test").map(|o| o.get_ssl_mode())
    }

    #[test]
    fn a_server_elsewhere_is_verified() {
        // PGSSLMODE would change what is expected here.
        assert!(std::env::var_os("PGSSLMODE").is_none());
        for elsewhere in ["db.example", "10.0.0.7", "[2001:db8::1]", "127.0.0.1.example", "0.0.0.0"]
        {
            let url = format!("postgres://u:hunter2@{elsewhere}/ledger");
            assert!(matches!(mode(&url), Ok(PgSslMode::VerifyFull)), "{url}");
            assert!(matches!(
                mode(&format!("{url}?sslmode=verify-full")),
                Ok(PgSslMode::VerifyFull)
            ));
            for less in ["disable", "allow", "prefer", "require", "verify-ca", "PREFER"] {
                for key in ["sslmode", "ssl-mode"] {
                    let error = mode(&format!("{url}?{key}={less}")).unwrap_err().to_string();
                    assert!(
                        error.contains("verify-full") && !error.contains("hunter2"),
                        "{less}: {error}"
                    );
                }
            }
        }
        // The destination of the connection counts, not the text before the `/`.
        assert!(
            mode("postgres://u:hunter2@127.0.0.1/ledger?host=db.example&sslmode=prefer").is_err()
        );
        let moved = mode("postgres://u:hunter2@127.0.0.1/ledger?hostaddr=10.0.0.7");
        assert!(matches!(moved, Ok(PgSslMode::VerifyFull)));
    }

    #[test]
    fn a_server_on_this_machine_is_asked_as_its_url_says() {
        for here in ["127.0.0.1", "127.8.9.1", "[::1]", "localhost", "%2Fvar%2Frun%2Fpostgresql"] {
            let url = format!("postgres://u:hunter2@{here}/ledger");
            assert!(matches!(mode(&url), Ok(PgSslMode::Prefer)), "{url}");
            assert!(matches!(mode(&format!("{url}?sslmode=disable")), Ok(PgSslMode::Disable)));
        }
        assert!(matches!(
            mode("postgres://u@h/ledger?host=/run/postgresql"),
            Ok(PgSslMode::Prefer)
        ));
    }

    #[test]
    fn what_is_misspelt_is_refused_and_not_repeated() {
        for bad in [
            "postgres://u@127.0.0.1/ledger?pasword=hunter2",
            "postgres://u@127.0.0.1/ledger?hunter2",
            "postgres://u:hunter2@127.0.0.1:port/ledger",
            "postgres://u@127.0.0.1/ledger?port=hunter2",
            "postgres://u:1?hunter2=x@127.0.0.1/ledger",
        ] {
            let error = options(bad, "test").unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
