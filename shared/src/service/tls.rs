//! Keys and certificates of one party, and the TLS 1.3 configurations made of them.
//!
//! A client checks its server's *identity* (role and name, from the URI name of the certificate), not its host name: the
//! name in the config is what the operator means, whatever address the peer has today.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::identity::{IdentityError, PeerIdentity};

/// Why a party's TLS material was refused.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} {}: {source} (make certificates with `cloison certs`)", path.display())]
    Read {
        /// certificate, key or CA.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A PEM text without the wanted object, or malformed.
    #[error("the {what} is not valid PEM: {reason}")]
    Pem {
        /// certificate, key or CA.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// The certificate is not an identity.
    #[error("our own certificate is no identity: {0}")]
    Identity(#[from] IdentityError),
    /// Certificate, key and CA do not go together.
    #[error("certificate, key and CA do not go together: {0}")]
    Mismatch(String),
}

/// The PEM texts of one party: its CA, its certificate chain and its key.
#[derive(Clone)]
pub struct TlsPem {
    /// The deployment's certificate authority.
    pub ca: String,
    /// The party's certificate, then intermediates if any.
    pub certificate: String,
    /// The party's private key.
    pub key: String,
}

impl fmt::Debug for TlsPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsPem(key withheld)")
    }
}

impl TlsPem {
    /// Reads the three files.
    ///
    /// # Errors
    /// [`TlsError::Read`] naming the file.
    pub fn read(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |what, path: &Path| {
            std::fs::read_to_string(path).map_err(|source| TlsError::Read { what, path: path.to_owned(), source })
        };
        Ok(Self {
            ca: read("CA certificate", ca)?,
            certificate: read("certificate", certificate)?,
            key: read("private key", key)?,
        })
    }
}

/// One party's credentials, checked: who it is, and how it serves and connects.
#[derive(Clone)]
pub struct Credentials {
    identity: PeerIdentity,
    server: Arc<ServerConfig>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?}, key withheld)", self.identity)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Credentials {
    /// Parses and checks a party's PEM texts.
    ///
    /// # Errors
    /// [`TlsError`] if a text is not PEM, the certificate is no identity, or key, certificate and CA do not go together.
    pub fn new(pem: &TlsPem) -> Result<Self, TlsError> {
        let certificates = |what, text: &str| -> Result<Vec<CertificateDer<'static>>, TlsError> {
            let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            let found = found.map_err(|e| TlsError::Pem { what, reason: e.to_string() })?;
            if found.is_empty() {
                return Err(TlsError::Pem { what, reason: "no certificate in it".into() });
            }
            Ok(found)
        };
        let chain = certificates("certificate", &pem.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes())
            .map_err(|e| TlsError::Pem { what: "private key", reason: e.to_string() })?;
        let identity = PeerIdentity::from_certificate(&chain[0])?;
        let mut roots = RootCertStore::empty();
        for ca in certificates("CA certificate", &pem.ca)? {
            roots.add(ca).map_err(|e| TlsError::Mismatch(e.to_string()))?;
        }
        let roots = Arc::new(roots);
        let mismatch = |e: &dyn fmt::Display| TlsError::Mismatch(e.to_string());
        // A caller without a certificate gets through the handshake so that each RPC can tell it UNAUTHENTICATED;
        // rustls would only drop the connection, which reads as "transport error" at the other end.
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|e| mismatch(&e))?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| mismatch(&e))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|e| mismatch(&e))?;
        server.alpn_protocols = vec![b"h2".to_vec()];
        verify_chain(&chain[0], &chain[1..], &roots, UnixTime::now()).map_err(|e| mismatch(&e))?;
        Ok(Self { identity, server: Arc::new(server), roots, chain, key: Arc::new(key) })
    }

    /// Who this party is.
    #[must_use]
    pub fn identity(&self) -> &PeerIdentity {
        &self.identity
    }

    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    /// A client configuration that accepts exactly one peer.
    pub(super) fn client_config(&self, expected: PeerIdentity) -> Result<Arc<ClientConfig>, TlsError> {
        let verifier = IdentityVerifier { expected, roots: self.roots.clone(), provider: provider() };
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| TlsError::Mismatch(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|e| TlsError::Mismatch(e.to_string()))?;
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(client))
    }

    /// These credentials, trusting the authorities that `other` trusts: for tests of what a server makes of a certificate
    /// of an authority that it does not know.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn trusting_as(&self, other: &Self) -> Self {
        Self { roots: other.roots.clone(), ..self.clone() }
    }

    /// A client configuration that shows no certificate: for tests of what such a caller is told.
    #[cfg(feature = "test-util")]
    pub(super) fn anonymous_client_config(&self, expected: PeerIdentity) -> Result<Arc<ClientConfig>, TlsError> {
        let verifier = IdentityVerifier { expected, roots: self.roots.clone(), provider: provider() };
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| TlsError::Mismatch(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(client))
    }
}

fn verify_chain(
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let certificate = ParsedCertificate::try_from(end_entity)?;
    rustls::client::verify_server_cert_signed_by_trust_anchor(
        &certificate,
        roots,
        intermediates,
        now,
        provider().signature_verification_algorithms.all,
    )
}

/// Accepts a server whose certificate is signed by the deployment's CA and names the expected role and party.
#[derive(Debug)]
struct IdentityVerifier {
    expected: PeerIdentity,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for IdentityVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        verify_chain(end_entity, intermediates, &self.roots, now)?;
        let identity = PeerIdentity::from_certificate(end_entity).map_err(|e| rustls::Error::General(e.to_string()))?;
        if identity == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(format!("its certificate says {identity:?}, expected {:?}", self.expected)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
