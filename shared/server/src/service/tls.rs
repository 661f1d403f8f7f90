//! The keys and certificates of one party, and the TLS 1.3 configurations made of them.
//!
//! A client checks its server's *identity* (role and name, from the URI name of the certificate),
//! not its host name: the operator's config names the peer, whatever address it has today.
//!
//! All listeners and channels of a party share its credentials, which can be renewed. New
//! connections use the new material; existing ones stay open, unless their peer's certificate is
//! denied.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use serde::Deserialize;

use super::deny::{DeniedCertificate, DenyList, DenyListError, Link, Links};
use super::identity::{IdentityError, PeerIdentity};
use super::identity_verifier::{IdentityVerifier, provider, verify_chain};

/// Errors from a party's TLS material.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read the {what} {}: {source} (make certificates with `cloison certs`)", path.display())]
    Read {
        /// The kind of file: certificate, key or CA.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// A PEM text is malformed or lacks the expected object.
    #[error("the {what} is not valid PEM: {reason}")]
    Pem {
        /// The kind of text: certificate, key or CA.
        what: &'static str,
        /// The error of the parser.
        reason: String,
    },
    /// The certificate is not an identity.
    #[error("our own certificate is no identity: {0}")]
    Identity(#[from] IdentityError),
    /// Certificate, key and CA do not match each other.
    #[error("certificate, key and CA do not go together: {0}")]
    Mismatch(String),
    /// The first certificate is an authority's, not the party's own.
    #[error(
        "the first certificate of our own file is an authority's; this party's own comes first, then those between it and the CA"
    )]
    Order,
    /// The certificate has expired, or is not valid yet.
    #[error(
        "our own certificate is valid from {from} to {to}, and not now; make another one, or set the clock"
    )]
    NotNow {
        /// The start of its validity.
        from: String,
        /// The end of its validity.
        to: String,
    },
    /// Others than its owner may read the private key.
    #[error(
        "the private key {} can be read by others than its owner (mode {mode:o}); run chmod 600 on it. Of a key that belongs to another \
         user, as in a Kubernetes volume with `fsGroup`, mode 440 will do", path.display()
    )]
    Exposed {
        /// The path of the key.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// The deny list cannot be read.
    #[error(transparent)]
    DenyList(#[from] DenyListError),
    /// The new certificate belongs to another party.
    #[error(
        "the new certificate is that of {found}, this is {expected}; a running service does not change who it is"
    )]
    Renamed {
        /// The identity in the new certificate.
        found: String,
        /// The identity of this party.
        expected: String,
    },
}

/// The table `[tls]`: PEM files, and the certificates that are refused nevertheless.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// The deployment's certificate authority.
    pub ca: PathBuf,
    /// This party's certificate.
    pub certificate: PathBuf,
    /// This party's private key, which only its owner may read.
    pub key: PathBuf,
    /// The serial numbers of denied certificates, in hexadecimal, one per line, comments after `#`.
    /// Default none.
    #[serde(default)]
    pub deny_list: Option<PathBuf>,
}

/// The PEM texts of one party: its CA, its certificate chain and its key.
#[derive(Clone)]
pub struct TlsPem {
    /// The deployment's certificate authority.
    pub ca: String,
    /// The party's certificate, followed by intermediates, if any.
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
    /// Reads the CA, certificate and key files.
    ///
    /// # Errors
    /// [`TlsError::Read`] naming the file; [`TlsError::Exposed`] if others than its owner may read
    /// the key.
    pub fn read(ca: &Path, certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |what, path: &Path| {
            let text = std::fs::read_to_string(path);
            let text =
                text.map_err(|source| TlsError::Read { what, path: path.to_owned(), source })?;
            Ok::<_, TlsError>(text.trim_start_matches('\u{feff}').to_owned())
        };
        let pem = Self {
            ca: read("CA certificate", ca)?,
            certificate: read("certificate", certificate)?,
            key: read("private key", key)?,
        };
        owner_only(key).map(|()| pem)
    }
}

#[cfg(unix)]
fn owner_only(key: &Path) -> Result<(), TlsError> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let read = |source| TlsError::Read { what: "private key", path: key.to_owned(), source };
    let about = std::fs::metadata(key).map_err(read)?;
    let mode = about.permissions().mode() & 0o777;
    // For a key that another user owns, the process has read access through the group.
    let ours = is_ours(about.uid());
    let others = if ours { 0o077 } else { 0o037 };
    if mode & others == 0 { Ok(()) } else { Err(TlsError::Exposed { path: key.to_owned(), mode }) }
}

/// Returns true if a file of this user is the process's own. Root owns what it reads.
#[cfg(unix)]
fn is_ours(owner: u32) -> bool {
    let us = rustix::process::geteuid();
    us.is_root() || us.as_raw() == owner
}

#[cfg(not(unix))]
fn owner_only(_key: &Path) -> Result<(), TlsError> {
    Ok(())
}

/// The material with which a party currently serves and connects.
struct Material {
    server: Arc<ServerConfig>,
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

struct Inner {
    identity: PeerIdentity,
    material: RwLock<Arc<Material>>,
    links: Arc<Links>,
    files: Option<TlsFiles>,
}

/// The checked credentials of one party: its identity, and its TLS configurations. Clones share
/// renewed material.
#[derive(Clone)]
pub struct Credentials {
    inner: Arc<Inner>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?}, key withheld)", self.identity())
    }
}

/// Describes the fault of a text that holds no private key.
fn key_problem(text: &str, found: &dyn fmt::Display) -> String {
    if text.contains("ENCRYPTED") {
        return "it is encrypted, and a service has nobody to ask for the password; write it without one (`openssl pkey -in KEY -out PLAIN`)"
            .into();
    }
    match text.contains("-----BEGIN CERTIFICATE-----") {
        true => "it is a certificate; are certificate and key swapped?".into(),
        false => found.to_string(),
    }
}

fn is_authority(certificate: &CertificateDer<'_>) -> bool {
    x509_parser::parse_x509_certificate(certificate)
        .is_ok_and(|(_, certificate)| certificate.is_ca())
}

/// Checks that a certificate is valid now.
fn check_validity(certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(certificate) else {
        return Ok(());
    };
    let validity = certificate.validity();
    match validity.is_valid() {
        true => Ok(()),
        false => Err(TlsError::NotNow {
            from: validity.not_before.to_string(),
            to: validity.not_after.to_string(),
        }),
    }
}

impl Material {
    fn new(pem: &TlsPem) -> Result<(PeerIdentity, Self), TlsError> {
        let certificates = |what, text: &str| -> Result<Vec<CertificateDer<'static>>, TlsError> {
            let found: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            let found = found.map_err(|e| TlsError::Pem { what, reason: e.to_string() })?;
            match found.is_empty() {
                true if text.contains("PRIVATE KEY-----") => Err(TlsError::Pem {
                    what,
                    reason: "it is a private key; are certificate and key swapped?".into(),
                }),
                true => Err(TlsError::Pem { what, reason: "no certificate in it".into() }),
                false => Ok(found),
            }
        };
        let chain = certificates("certificate", &pem.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).map_err(|e| TlsError::Pem {
            what: "private key",
            reason: key_problem(&pem.key, &e),
        })?;
        let identity = match PeerIdentity::from_certificate(&chain[0]) {
            Err(IdentityError::UriCount { count: 0 }) if is_authority(&chain[0]) => {
                return Err(TlsError::Order);
            }
            identity => identity?,
        };
        check_validity(&chain[0])?;
        let mut roots = RootCertStore::empty();
        for ca in certificates("CA certificate", &pem.ca)? {
            roots.add(ca).map_err(|e| TlsError::Mismatch(e.to_string()))?;
        }
        let roots = Arc::new(roots);
        let mismatch = |e: &dyn fmt::Display| TlsError::Mismatch(e.to_string());
        // A caller without a certificate passes the handshake, so that each RPC can answer
        // UNAUTHENTICATED; rustls would only drop the connection, which looks like "transport
        // error" at the other end.
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|e| mismatch(&e))?;
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| mismatch(&e))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|e| match e.to_string() {
                said if said.contains("failed to parse private key") => TlsError::Mismatch(
                    "the private key is of no kind that is supported; ECDSA on P-256 or P-384, Ed25519, and RSA from 2048 bits are".into(),
                ),
                said => TlsError::Mismatch(said),
            })?;
        server.alpn_protocols = vec![b"h2".to_vec()];
        // No session outlives its connection: each one verifies the peer's certificate anew.
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        verify_chain(&chain[0], &chain[1..], &roots, UnixTime::now()).map_err(|e| match e {
            rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer) => TlsError::Mismatch(
                "our own certificate does not lead to the CA; put the certificates between them behind it in its file, or name its CA".into(),
            ),
            e => mismatch(&e),
        })?;
        Ok((identity, Self { server: Arc::new(server), roots, chain, key }))
    }
}

impl Credentials {
    /// Parses and checks a party's PEM texts.
    ///
    /// # Errors
    /// [`TlsError`] if a text is not PEM, the certificate has no identity, or key, certificate and
    /// CA do not match.
    pub fn new(pem: &TlsPem) -> Result<Self, TlsError> {
        Self::build(pem, DenyList::default(), None)
    }

    /// Reads and checks a party's files. [`Credentials::reload`] can read them again;
    /// [`super::serve`] does so on SIGHUP and when they change.
    ///
    /// # Errors
    /// The errors of [`Credentials::new`] and [`TlsPem::read`]; [`TlsError::DenyList`] if the deny
    /// list cannot be read.
    pub fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let pem = TlsPem::read(&files.ca, &files.certificate, &files.key)?;
        Self::build(&pem, deny_list(files)?, Some(files.clone()))
    }

    fn build(pem: &TlsPem, denied: DenyList, files: Option<TlsFiles>) -> Result<Self, TlsError> {
        let (identity, material) = Material::new(pem)?;
        let material = RwLock::new(Arc::new(material));
        Ok(Self { inner: Arc::new(Inner { identity, material, links: Links::new(denied), files }) })
    }

    /// Reads the files again. New connections use the new material; those of newly denied
    /// certificates are closed, others stay. Invalid material changes nothing: a broken certificate
    /// does not prevent the use of a new deny list, nor the other way round. Credentials that were
    /// not read from files stay unchanged.
    ///
    /// # Errors
    /// [`TlsError`] for the first material that is invalid.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Some(files) = &self.inner.files else { return Ok(()) };
        let denied = deny_list(files).map(|list| {
            let (serials, cut) = (list.len(), self.inner.links.deny(list));
            tracing::info!(serials, connections_cut = cut, "the deny list is in force");
        });
        let renewed = TlsPem::read(&files.ca, &files.certificate, &files.key)
            .and_then(|pem| self.renew(&pem));
        denied.and(renewed)
    }

    fn renew(&self, pem: &TlsPem) -> Result<(), TlsError> {
        let (identity, material) = Material::new(pem)?;
        if identity != self.inner.identity {
            let (found, expected) = (identity.uri(), self.inner.identity.uri());
            return Err(TlsError::Renamed { found, expected });
        }
        *self.inner.material.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(material);
        Ok(())
    }

    /// Returns the paths that the credentials were read from.
    pub(super) fn files(&self) -> Option<&TlsFiles> {
        self.inner.files.as_ref()
    }

    /// Returns the identity of this party.
    #[must_use]
    pub fn identity(&self) -> &PeerIdentity {
        &self.inner.identity
    }

    /// Returns the end of the current certificate's validity, in Unix seconds; `None` if it cannot
    /// be read.
    #[must_use]
    pub fn expires(&self) -> Option<i64> {
        let material = self.material();
        let (_, certificate) = x509_parser::parse_x509_certificate(material.chain.first()?).ok()?;
        Some(certificate.validity().not_after.timestamp())
    }

    fn material(&self) -> Arc<Material> {
        self.inner.material.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the current server configuration.
    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        self.material().server.clone()
    }

    /// Registers a connection whose peer has shown these certificates, unless one of them is
    /// denied.
    pub(super) fn admit(&self, chain: &[CertificateDer<'_>]) -> Result<Link, DeniedCertificate> {
        self.inner.links.admit(chain)
    }

    /// Returns a client configuration with the current material that accepts exactly one peer.
    pub(super) fn client_config(
        &self,
        expected: PeerIdentity,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let material = self.material();
        let verifier =
            IdentityVerifier { expected, roots: material.roots.clone(), provider: provider() };
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|e| TlsError::Mismatch(e.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(material.chain.clone(), material.key.clone_key())
            .map_err(|e| TlsError::Mismatch(e.to_string()))?;
        client.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(client))
    }

    /// Returns these credentials with the trusted authorities of `other`, to test how a server
    /// treats a certificate of an authority that it does not know.
    #[cfg(feature = "test-util")]
    #[must_use]
    pub fn trusting_as(&self, other: &Self) -> Self {
        let (ours, theirs) = (self.material(), other.material());
        let material = Material {
            server: ours.server.clone(),
            roots: theirs.roots.clone(),
            chain: ours.chain.clone(),
            key: ours.key.clone_key(),
        };
        let (identity, material) = (self.identity().clone(), RwLock::new(Arc::new(material)));
        Self { inner: Arc::new(Inner { identity, material, links: Arc::default(), files: None }) }
    }

    /// Returns a client configuration that shows no certificate, to test the answer that such a
    /// caller gets.
    pub(super) fn anonymous_client_config(
        &self,
        expected: PeerIdentity,
    ) -> Result<Arc<ClientConfig>, TlsError> {
        let verifier = IdentityVerifier {
            expected,
            roots: self.material().roots.clone(),
            provider: provider(),
        };
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

fn deny_list(files: &TlsFiles) -> Result<DenyList, TlsError> {
    Ok(files.deny_list.as_deref().map(DenyList::read).transpose()?.unwrap_or_default())
}
