//! The table `[metrics]` of every party's config file, and the checked settings of `[metrics]` and
//! `[traces]`.

use std::net::SocketAddr;

use serde::Deserialize;

use super::traces::Collector;

/// The table `[metrics]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsTable {
    /// The address that serves metrics, over plain HTTP, at `/metrics`. Default: none.
    pub listen: Option<SocketAddr>,
    /// True if `listen` may be an address that other machines reach. Default false: there is
    /// neither TLS nor a password.
    pub expose: bool,
}

impl MetricsTable {
    /// Checks the table; `service` is the address of the service itself.
    ///
    /// # Errors
    /// A message that says what is wrong and how to fix it.
    pub fn check(&self, service: SocketAddr) -> Result<(), String> {
        let Some(listen) = self.listen else {
            return match self.expose {
                true => Err("`expose = true` needs `listen`, the address that is exposed".into()),
                false => Ok(()),
            };
        };
        if !listen.ip().to_canonical().is_loopback() && !self.expose {
            return Err(
                "`listen` is an address that other machines reach, and metrics are served without TLS: listen on \
                 127.0.0.1, or set `expose = true` where the network lets only the Prometheus server in"
                    .into(),
            );
        }
        if listen.port() != 0 && listen.port() == service.port() && (listen.ip() == service.ip()) {
            return Err("`listen` is the address of the service itself; give the metrics a port of their own".into());
        }
        Ok(())
    }
}

/// The checked settings of monitoring. The default monitors nothing.
#[derive(Debug, Clone, Default)]
pub struct Monitoring {
    /// The address that serves metrics.
    pub metrics: Option<SocketAddr>,
    /// The collector to which spans of predictions are sent.
    pub traces: Option<Collector>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<MetricsTable, String> {
        let table: MetricsTable = toml::from_str(text).map_err(|e| e.to_string())?;
        table.check("127.0.0.1:7100".parse().unwrap()).map(|()| table)
    }

    #[test]
    fn metrics_are_off_and_on_loopback_unless_said_otherwise() {
        assert_eq!(read("").unwrap(), MetricsTable::default());
        for good in [
            "listen = \"127.0.0.1:9100\"",
            "listen = \"[::1]:9100\"",
            "listen = \"[::ffff:127.0.0.1]:9100\"",
            "listen = \"0.0.0.0:9100\"\nexpose = true",
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
        for (bad, says) in [
            ("listen = \"0.0.0.0:9100\"", "expose = true"),
            ("listen = \"[::]:9100\"", "expose = true"),
            ("listen = \"10.0.0.1:9100\"\nexpose = false", "expose = true"),
            ("expose = true", "needs `listen`"),
            ("listen = \"127.0.0.1:7100\"", "a port of their own"),
            ("listen = \"127.0.0.1\"", "invalid"),
            ("port = 9100", "unknown field"),
        ] {
            let refused = read(bad).unwrap_err();
            assert!(refused.contains(says), "{bad}: {refused}");
        }
    }
}
