//! The check of a server's certificate: signed by the deployment's authority, and of the expected
//! party.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::identity::PeerIdentity;

/// Returns the cryptography of all connections.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Checks that a trusted authority has signed a certificate, and that both are valid `now`.
///
/// # Errors
/// As rustls reports them.
pub(super) fn verify_chain(
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

/// A verifier that accepts a server whose certificate is signed by the deployment's CA and names
/// the expected role and party.
#[derive(Debug)]
pub(super) struct IdentityVerifier {
    /// The role and name that the certificate must have.
    pub(super) expected: PeerIdentity,
    pub(super) roots: Arc<RootCertStore>,
    pub(super) provider: Arc<CryptoProvider>,
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
        let identity = PeerIdentity::from_certificate(end_entity)
            .map_err(|e| rustls::Error::General(e.to_string()))?;
        if identity == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::General(format!(
            "its certificate says {identity:?}, expected {:?}",
            self.expected
        )))
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
