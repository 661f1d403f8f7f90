//! What only the HTTP feature service does.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;
use vfl_features::features::Features;
use vfl_features::stores::{HttpConfig, HttpStore};
use vfl_protocol::RefusalKind;

use crate::rows::rows;
use crate::service::{Mode, Service};
use crate::site::{ids, schema};

fn store(config: HttpConfig) -> Features {
    Features::Remote(Arc::new(HttpStore::new(config, schema()).unwrap()))
}

fn plain(service: &Service) -> HttpConfig {
    HttpConfig::new(format!(
        "http://localhost:{}/BatchFeatureService/BatchFetchFeature",
        service.port
    ))
}

#[tokio::test]
async fn bad_answers_are_no_scores() {
    let service = Service::start(&rows(10), None).await;
    let features =
        store(HttpConfig { max_response_bytes: 100_000, timeout_ms: 500, ..plain(&service) });
    let asked = ids(["r1", "r2"]);
    features.lookup(&asked).await.unwrap();
    for (mode, kind, says) in [
        (Mode::Status(503), RefusalKind::Unavailable, "HTTP status 503"),
        (Mode::Status(408), RefusalKind::Unavailable, "HTTP status 408"),
        (Mode::Status(429), RefusalKind::Unavailable, "HTTP status 429"),
        (Mode::Status(400), RefusalKind::Internal, "HTTP status 400"),
        (Mode::Status(404), RefusalKind::Internal, "HTTP status 404"),
        (Mode::Status(302), RefusalKind::Internal, "HTTP status 302"),
        (Mode::Code(4), RefusalKind::Unavailable, "its own time is over"),
        (Mode::Code(13), RefusalKind::Unavailable, "internal error"),
        (Mode::Code(16), RefusalKind::Unavailable, "not authenticated"),
        (Mode::Code(3), RefusalKind::Internal, "error code 3"),
        (Mode::Garbage, RefusalKind::Internal, "not the JSON"),
        (Mode::Large(100_001), RefusalKind::Internal, "max_response_bytes"),
        (Mode::Short, RefusalKind::Internal, "column income has not one value for each"),
        (Mode::Twice, RefusalKind::Internal, "column income is not in it once"),
        (Mode::Without, RefusalKind::Internal, "column income is not in it once"),
        (Mode::Anonymous, RefusalKind::Internal, "column customer id is not in it once"),
        (Mode::Late(Duration::from_secs(2)), RefusalKind::Unavailable, "500 ms are over"),
    ] {
        service.set(mode);
        let error = features.lookup(&asked).await.unwrap_err();
        assert_eq!(vfl_features::features::refusal(&error).kind, kind, "{mode:?}: {error}");
        assert!(error.to_string().contains(says), "{mode:?}: {error}");
        assert!(
            !error.to_string().contains("r1") && !error.to_string().contains("0.977"),
            "{error}"
        );
    }
    service.set(Mode::Well);
    features.lookup(&asked).await.unwrap();
}

/// A service that takes one id for another has not got the record: each spelling would have a share, noise and budgets of its own.
#[tokio::test]
async fn another_spelling_is_another_record() {
    let service = Service::start(&rows(10), None).await;
    service.set(Mode::IgnoringCase);
    let features = store(plain(&service));
    let found = features.lookup(&ids(["R1", "r1", "R2", "r3"])).await.unwrap();
    assert_eq!(found.held, [1, 3]);
    assert_eq!(found.block, features.lookup(&ids(["r1", "r3"])).await.unwrap().block);
    assert_eq!(features.lookup(&ids(["R1"])).await.unwrap().held, Vec::<usize>::new());
}

/// The service refuses a request with an unknown record as a whole.
#[tokio::test]
async fn unknown_records_are_found_by_halves() {
    let service = Service::start(&rows(1000), None).await;
    let config = HttpConfig {
        service_id: "credit".into(),
        party_id: "bank".into(),
        query_context: "live".into(),
        header: [("token".to_owned(), "t".to_owned())].into(),
        ..plain(&service)
    };
    let features = store(config.clone());
    let asked = ids((0..1024).map(|i| {
        if i % 300 == 5 { format!("x{i}") } else { format!("r{}", i % 1000 + 2000 * (i / 1000)) }
    }));
    let found = features.lookup(&asked).await.unwrap();
    let held: Vec<usize> = (0..1000).filter(|i| i % 300 != 5).collect();
    assert_eq!(found.held, held);
    let last = service.last.lock().unwrap().clone();
    assert_eq!(last["header"]["data"]["token"], "t");
    assert_eq!((&last["model_service_id"], &last["party_id"]), (&"credit".into(), &"bank".into()));
    assert_eq!(last["param"]["query_context"], "live");
    assert_eq!(
        last["feature_fields"][2],
        serde_json::json!({"name": "income", "type": "FIELD_DOUBLE"})
    );

    let few = store(HttpConfig { max_requests: 20, ..config });
    let before = service.asked();
    let error = few.lookup(&asked).await.unwrap_err();
    assert!(error.to_string().contains("max_requests"), "{error}");
    assert_eq!(service.asked() - before, 20);
}

#[test]
fn settings_are_checked() {
    let refused = |config: HttpConfig| HttpStore::new(config, schema()).err().unwrap().to_string();
    let of = HttpConfig::new;
    for (config, says) in [
        (of("http://features.example/x"), "on this machine"),
        (of("http://10.0.0.7:80/x"), "on this machine"),
        (of("https://127.0.0.1/x"), "`ca_file`"),
        (of("ftp://127.0.0.1/x"), "begins with"),
        (of("https://user:hunter2@127.0.0.1/x"), "without a user"),
        (
            HttpConfig { ca_file: Some("/nowhere.pem".into()), ..of("https://127.0.0.1/x") },
            "/nowhere.pem",
        ),
        (
            HttpConfig { cert_file: Some("c.pem".into()), ..of("https://127.0.0.1/x") },
            "come together",
        ),
        (HttpConfig { timeout_ms: 0, ..of("http://127.0.0.1/x") }, "`timeout_ms`"),
        (HttpConfig { connections: 0, ..of("http://127.0.0.1/x") }, "`connections`"),
        (HttpConfig { max_records: 0, ..of("http://127.0.0.1/x") }, "`max_records`"),
    ] {
        let said = refused(config);
        assert!(said.contains(says) && !said.contains("hunter2"), "{said}");
    }
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }
}

/// A service that asks for a certificate, with one of its own for 127.0.0.1.
#[tokio::test]
async fn both_sides_show_certificates() {
    let (authority, other, dir) =
        (Authority::new(), Authority::new(), tempfile::tempdir().unwrap());
    let (certificate, key) = authority.issue("127.0.0.1");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.issuer_certificate()).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .unwrap();
    let secret = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(vec![certificate.der().clone()], secret)
        .unwrap();
    let service = Service::start(&rows(5), Some(TlsAcceptor::from(Arc::new(server)))).await;

    let write = |name: &str, text: String| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let ca_file = write("ca.pem", authority.pem.clone());
    let wrong_ca = write("other.pem", other.pem.clone());
    let ours = authority.issue("client");
    let (cert_file, key_file) =
        (write("c.pem", ours.0.pem()), write("c.key", ours.1.serialize_pem()));
    let strangers = other.issue("client");
    let (wrong_cert, wrong_key) =
        (write("s.pem", strangers.0.pem()), write("s.key", strangers.1.serialize_pem()));
    let config = |host: &str, ca_file, cert_file, key_file| HttpConfig {
        ca_file,
        cert_file,
        key_file,
        ..HttpConfig::new(format!("https://{host}:{}/fetch", service.port))
    };
    let good = store(config("127.0.0.1", ca_file.clone(), cert_file.clone(), key_file.clone()));
    assert_eq!(good.lookup(&ids(["r1", "x"])).await.unwrap().held, [0]);
    for (why, bad) in [
        ("another authority", config("127.0.0.1", wrong_ca, cert_file.clone(), key_file.clone())),
        ("another name", config("localhost", ca_file.clone(), cert_file, key_file)),
        ("no certificate", config("127.0.0.1", ca_file.clone(), None, None)),
        ("a stranger's certificate", config("127.0.0.1", ca_file, wrong_cert, wrong_key)),
    ] {
        let error = store(bad).lookup(&ids(["r1"])).await.unwrap_err();
        assert_eq!(
            vfl_features::features::refusal(&error).kind,
            RefusalKind::Unavailable,
            "{why}: {error}"
        );
    }
}

impl Authority {
    fn issuer_certificate(&self) -> rustls_pki_types::CertificateDer<'static> {
        use rustls_pki_types::pem::PemObject;
        rustls_pki_types::CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()
    }
}
