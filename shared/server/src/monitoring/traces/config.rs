//! The table `[traces]` of every party's config file.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::Uri;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use serde::Deserialize;
use tonic::transport::Endpoint;

/// The default share of requests without a trace that are sampled: all of them, up to
/// [`SPANS_PER_SECOND`]. An operator who enables traces sees the first prediction, and a busy party
/// traces a part of them.
const SAMPLE: f64 = 1.0;
/// The default limit of spans per second of one party. A prediction has about five at each.
const SPANS_PER_SECOND: u32 = 100;
/// The highest limit that may be set.
const MOST_SPANS_PER_SECOND: u32 = 100_000;
/// The default port of OTLP over gRPC.
const PORT: u16 = 4317;
/// The error of a configuration that names a collector, in a program that cannot send to one.
pub(super) const WITHOUT_OTLP: &str = "\
    this program was built without traces (feature `otlp`): build it with \
    `cargo build --release --workspace --bins --features full`, or leave [traces] out";

/// The table `[traces]`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TracesTable {
    /// The collector, an OTLP receiver over gRPC: `http://127.0.0.1:4317`, or `https://HOST:PORT`.
    /// Default: nothing is traced.
    pub endpoint: Option<String>,
    /// The authority of the collector's certificate (PEM). Default: the system's trusted
    /// authorities.
    pub ca_file: Option<PathBuf>,
    /// True if `http` may go to another machine. Default false: there is no TLS.
    pub expose: bool,
    /// The share of requests without a trace of their caller that are traced, 0 to 1. Default 1.
    pub sample: Option<f64>,
    /// The maximum number of spans recorded per second, for all callers together. Default 100.
    pub spans_per_second: Option<u32>,
}

/// The checked settings of the collector of a party's spans.
#[derive(Debug, Clone)]
pub struct Collector {
    pub(super) endpoint: Uri,
    pub(super) transport: Endpoint,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub(super) sample: f64,
    pub(super) spans_per_second: u32,
}

impl TracesTable {
    /// Checks the table and reads the authority it names. Returns `None` if nothing is traced.
    ///
    /// # Errors
    /// A message that says what is wrong and how to fix it.
    pub fn check(&self) -> Result<Option<Collector>, String> {
        self.collector().and_then(|collector| exportable(collector, cfg!(feature = "otlp")))
    }

    fn collector(&self) -> Result<Option<Collector>, String> {
        let Self { endpoint, ca_file, expose, sample, spans_per_second } = self;
        let Some(endpoint) = endpoint else {
            return match *self == Self::default() {
                true => Ok(None),
                false => Err("`endpoint`, where traces are sent, is missing".into()),
            };
        };
        let form =
            "`endpoint` is `http://127.0.0.1:PORT` or `https://HOST:PORT`, without user and path";
        let uri: Uri = endpoint.parse().map_err(|_| form)?;
        let bracketed = uri.host().unwrap_or_default();
        let bare = bracketed
            .strip_prefix('[')
            .and_then(|h| h.strip_suffix(']'))
            .unwrap_or(bracketed)
            .to_owned();
        let user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
        if bare.is_empty() || user || uri.path() != "/" || uri.query().is_some() {
            return Err(form.into());
        }
        let tls = match uri.scheme_str() {
            Some("https") => {
                let name = ServerName::try_from(bare.clone()).map_err(|_| form)?;
                Some((tls(ca_file.as_deref())?, name))
            }
            Some("http") if ca_file.is_some() => return Err("`ca_file` is for `https`".into()),
            Some("http") if *expose || is_here(&bare) => None,
            Some("http") => {
                return Err(
                    "`endpoint` is on another machine, and spans would go there without TLS: use `https`, or set \
                            `expose = true` where the network keeps others out"
                        .into(),
                );
            }
            _ => return Err(form.into()),
        };
        let sample = sample.unwrap_or(SAMPLE);
        if !(0.0..=1.0).contains(&sample) {
            return Err("`sample` is a share, 0 to 1".into());
        }
        let spans_per_second = spans_per_second.unwrap_or(SPANS_PER_SECOND);
        if !(1..=MOST_SPANS_PER_SECOND).contains(&spans_per_second) {
            return Err(format!("`spans_per_second` is 1 to {MOST_SPANS_PER_SECOND}"));
        }
        let port = uri.port_u16().unwrap_or(PORT);
        // The transport receives open connections and need not know of TLS; the collector is
        // addressed by its original URI.
        let transport = Endpoint::from_shared(format!("http://{bracketed}:{port}"))
            .map_err(|_| form)?
            .origin(uri.clone());
        Ok(Some(Collector {
            endpoint: uri,
            transport,
            host: bare,
            port,
            tls,
            sample,
            spans_per_second,
        }))
    }
}

/// Refuses a collector, and names the fix, where there is no exporter.
fn exportable(
    collector: Option<Collector>,
    has_exporter: bool,
) -> Result<Option<Collector>, String> {
    match collector {
        Some(_) if !has_exporter => Err(WITHOUT_OTLP.into()),
        _ => Ok(collector),
    }
}

/// Returns true if a host is this machine.
fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn tls(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let wrong = |e: &dyn std::fmt::Display| {
                format!("cannot read certificates from {}: {e}", path.display())
            };
            for certificate in CertificateDer::pem_file_iter(path).map_err(|e| wrong(&e))? {
                roots.add(certificate.map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
            }
            if roots.is_empty() {
                return Err(wrong(&"there is none in it"));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(
                    "this system trusts no authority: name the collector's in `ca_file`".into()
                );
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config =
        builder.map_err(|e| e.to_string())?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<Collector>, String> {
        toml::from_str::<TracesTable>(text).map_err(|e| e.to_string())?.check()
    }

    #[test]
    fn traces_are_off_and_go_to_this_machine_unless_encrypted_or_said_otherwise() {
        assert!(read("").unwrap().is_none());
        for good in [
            "endpoint = \"http://127.0.0.1:4317\"",
            "endpoint = \"http://[::1]:4317/\"",
            "endpoint = \"http://localhost\"",
            "endpoint = \"http://10.0.0.1:4317\"\nexpose = true",
            "endpoint = \"http://127.0.0.1:4317\"\nsample = 0.0",
            "endpoint = \"http://127.0.0.1:4317\"\nsample = 1\nspans_per_second = 1",
        ] {
            let collector = read(good).unwrap().unwrap();
            assert_eq!((collector.port, collector.tls.is_none()), (4317, true), "{good}");
        }
        let collector = read("endpoint = \"http://127.0.0.1\"").unwrap().unwrap();
        assert_eq!((collector.sample, collector.spans_per_second), (1.0, 100));
        for (bad, says) in [
            ("endpoint = \"http://10.0.0.1:4317\"", "expose = true"),
            ("endpoint = \"http://collector.example:4317\"", "use `https`"),
            ("endpoint = \"http://localhost.example:4317\"", "use `https`"),
            ("endpoint = \"127.0.0.1:4317\"", "without user and path"),
            ("endpoint = \"grpc://127.0.0.1:4317\"", "without user and path"),
            ("endpoint = \"http://me:hunter2@127.0.0.1:4317\"", "without user and path"),
            ("endpoint = \"http://127.0.0.1:4317/v1/traces\"", "without user and path"),
            ("endpoint = \"\"", "without user and path"),
            (
                "endpoint = \"http://127.0.0.1:4317\"\nca_file = \"ca.pem\"",
                "`ca_file` is for `https`",
            ),
            (
                "endpoint = \"https://collector:4317\"\nca_file = \"/nowhere/ca.pem\"",
                "cannot read certificates",
            ),
            ("endpoint = \"http://127.0.0.1:4317\"\nsample = 1.5", "0 to 1"),
            ("endpoint = \"http://127.0.0.1:4317\"\nsample = nan", "0 to 1"),
            ("endpoint = \"http://127.0.0.1:4317\"\nspans_per_second = 0", "1 to 100000"),
            ("sample = 0.5", "`endpoint`"),
            ("expose = true", "`endpoint`"),
            ("ratio = 1", "unknown field"),
        ] {
            let refused = read(bad).map(|_| ()).unwrap_err();
            assert!(refused.contains(says) && !refused.contains("hunter2"), "{bad}: {refused}");
        }
    }

    #[test]
    fn a_collector_is_refused_with_the_feature_to_build_with_where_there_is_no_exporter() {
        let collector = read("endpoint = \"http://127.0.0.1:4317\"").unwrap();
        let refused = exportable(collector, false).map(|_| ()).unwrap_err();
        assert!(refused.contains("feature `otlp`") && refused.contains("--features full"));
        assert!(exportable(None, false).unwrap().is_none());
    }

    #[test]
    fn an_authority_that_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        std::fs::write(&path, "nothing").unwrap();
        let refused = read(&format!(
            "endpoint = \"https://collector:4317\"\nca_file = {:?}",
            path.display().to_string()
        ));
        assert!(refused.unwrap_err().contains("there is none in it"));
    }
}
