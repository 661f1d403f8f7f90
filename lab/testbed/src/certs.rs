//! The certificates of a deployment: one authority, and one certificate per party with its identity
//! as a URI name.
//!
//! Each certificate also has a DNS name, `NAME.TRUST-DOMAIN`, for gRPC clients of others that can
//! check only such names. Cloison itself never reads it.
//!
//! Certificates for two parties, as `cloison certs` makes them:
//!
//! ```
//! let dir = tempfile::tempdir()?;
//! let parties = ["coordinator/c", "active-party/a"].map(str::to_owned);
//! vfl_testbed::certs::write(dir.path(), "example", 30, &parties)?;
//! assert!(dir.path().join("ca.pem").exists() && dir.path().join("a.key").exists());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use time::{Duration, OffsetDateTime};
use vfl_core::types::{NameError, PartyName};
use vfl_server::service::{IdentityError, PeerIdentity, Role, TlsPem};
use vfl_state::files::write_atomic;

/// Errors from making certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    /// The certificate library refused.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// The trust domain or role is not valid.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The name of a party is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The failed action: "read" or "write".
        action: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The cause of the failure.
        source: std::io::Error,
    },
    /// The certificate exists already.
    #[error("{} is there already; certificates are not overwritten, remove it to make a new one", path.display())]
    Exists {
        /// The path of the existing file.
        path: PathBuf,
    },
    /// The party is not of the form ROLE/NAME.
    #[error(
        "party {0:?} is not of the form ROLE/NAME with a name of its own other than ca, for example passive-party/bank-a"
    )]
    Party(String),
}

/// An authority that signs the certificates of one trust domain.
pub struct Authority {
    trust_domain: String,
    ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
    key_pem: String,
    lifetime: Duration,
}

impl Authority {
    /// Creates an authority in memory whose certificates last `days`.
    ///
    /// # Errors
    /// [`CertsError`] for a malformed trust domain.
    pub fn new(trust_domain: &str, days: u32) -> Result<Self, CertsError> {
        // Checks the trust domain once, before anything is signed.
        PeerIdentity::new(trust_domain, Role::Auditor, PartyName::new("check")?)?;
        let lifetime = Duration::days(i64::from(days));
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("Cloison CA of {trust_domain}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        valid(&mut params, lifetime);
        let ca_pem = params.self_signed(&key)?.pem();
        let key_pem = key.serialize_pem();
        Ok(Self {
            trust_domain: trust_domain.to_owned(),
            ca_pem,
            issuer: Issuer::new(params, key),
            key_pem,
            lifetime,
        })
    }

    fn load(
        trust_domain: &str,
        days: u32,
        ca_pem: String,
        key_pem: String,
    ) -> Result<Self, CertsError> {
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, KeyPair::from_pem(&key_pem)?)?;
        let lifetime = Duration::days(i64::from(days));
        Ok(Self { trust_domain: trust_domain.to_owned(), ca_pem, issuer, key_pem, lifetime })
    }

    /// Issues a certificate and key for one party.
    ///
    /// # Errors
    /// [`CertsError`] if it cannot be signed.
    pub fn issue(&self, role: Role, name: &PartyName) -> Result<TlsPem, CertsError> {
        let identity = PeerIdentity::new(&self.trust_domain, role, name.clone())?;
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, format!("{role}/{name}"));
        params.subject_alt_names = vec![SanType::URI(identity.uri().try_into()?)];
        if let Some(name) = dns_name(&identity) {
            params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, self.lifetime);
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(TlsPem { ca: self.ca_pem.clone(), certificate, key: key.serialize_pem() })
    }
}

/// Returns the DNS name of a party, if its name is one label of letters, digits and hyphens. A name
/// with a dot gets none: `a.b` of `c` and `a` of `b.c` would be the same, and a client that checks
/// nothing else would take one for the other.
fn dns_name(identity: &PeerIdentity) -> Option<String> {
    let name = format!("{}.{}", identity.name(), identity.trust_domain()).to_ascii_lowercase();
    let label = |label: &str| {
        let inside =
            label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        (1..=63).contains(&label.len())
            && inside
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let good =
        !identity.name().as_str().contains('.') && name.len() <= 253 && name.split('.').all(label);
    good.then_some(name)
}

fn valid(params: &mut CertificateParams, lifetime: Duration) {
    let now = OffsetDateTime::now_utc();
    // Valid from a day ago, as the clocks of machines differ.
    params.not_before = now - Duration::days(1);
    params.not_after = now + lifetime;
}

/// Writes the certificates of a deployment to a directory: `ca.pem`, `ca.key`, and `NAME.pem`,
/// `NAME.key` per party. Uses an authority that exists there again, so that a party can be added
/// later.
///
/// # Errors
/// [`CertsError`]; nothing is overwritten.
pub fn write(
    dir: &Path,
    trust_domain: &str,
    days: u32,
    parties: &[String],
) -> Result<Vec<PathBuf>, CertsError> {
    let parties = parties.iter().map(|p| parse(p)).collect::<Result<Vec<_>, _>>()?;
    let mut names = std::collections::HashSet::new();
    if let Some((role, name)) =
        parties.iter().find(|(_, name)| name.as_str() == "ca" || !names.insert(name))
    {
        return Err(CertsError::Party(format!("{role}/{name}")));
    }
    for (_, name) in &parties {
        for path in [dir.join(format!("{name}.pem")), dir.join(format!("{name}.key"))] {
            if path.exists() {
                return Err(CertsError::Exists { path });
            }
        }
    }
    let (ca_path, key_path) = (dir.join("ca.pem"), dir.join("ca.key"));
    let mut written = Vec::new();
    let mut put = |path: PathBuf, text: &str, private| -> Result<(), CertsError> {
        write_atomic(&path, text.as_bytes(), private).map_err(|source| CertsError::Io {
            action: "write",
            path: path.clone(),
            source,
        })?;
        written.push(path);
        Ok(())
    };
    let authority = if ca_path.exists() {
        let read = |path: &Path| {
            fs::read_to_string(path).map_err(|source| CertsError::Io {
                action: "read",
                path: path.to_owned(),
                source,
            })
        };
        Authority::load(trust_domain, days, read(&ca_path)?, read(&key_path)?)?
    } else {
        let authority = Authority::new(trust_domain, days)?;
        put(key_path, &authority.key_pem, true)?;
        put(ca_path, &authority.ca_pem, false)?;
        authority
    };
    for (role, name) in parties {
        let pem = authority.issue(role, &name)?;
        put(dir.join(format!("{name}.key")), &pem.key, true)?;
        put(dir.join(format!("{name}.pem")), &pem.certificate, false)?;
    }
    Ok(written)
}

fn parse(party: &str) -> Result<(Role, PartyName), CertsError> {
    let (role, name) = party.split_once('/').ok_or_else(|| CertsError::Party(party.to_owned()))?;
    Ok((role.parse()?, PartyName::new(name)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfl_server::service::Credentials;

    #[test]
    fn certificates_are_identities_and_a_party_can_be_added() {
        let dir = tempfile::tempdir().unwrap();
        let party = |p: &str| vec![p.to_owned()];
        write(dir.path(), "demo", 30, &party("coordinator/c")).unwrap();
        write(dir.path(), "demo", 30, &party("passive-party/p")).unwrap();
        for (name, role) in [("c", Role::Coordinator), ("p", Role::PassiveParty)] {
            let at = |end: &str| dir.path().join(format!("{name}.{end}"));
            let pem = TlsPem::read(&dir.path().join("ca.pem"), &at("pem"), &at("key")).unwrap();
            assert_eq!(Credentials::new(&pem).unwrap().identity().role(), role);
        }
        assert!(matches!(
            write(dir.path(), "demo", 30, &party("auditor/p")),
            Err(CertsError::Exists { .. })
        ));
        assert!(matches!(write(dir.path(), "demo", 30, &party("p")), Err(CertsError::Party(_))));
        assert!(matches!(
            write(dir.path(), "demo", 30, &party("auditor/ca")),
            Err(CertsError::Party(_))
        ));
        let twice = ["auditor/a".to_owned(), "passive-party/a".to_owned()];
        assert!(matches!(write(dir.path(), "demo", 30, &twice), Err(CertsError::Party(_))));
        assert!(write(dir.path(), "demo", 30, &party("king/x")).is_err());
        assert!(write(dir.path(), "demo", 30, &party("auditor/../x")).is_err());
    }

    #[test]
    fn a_party_has_one_dns_name_or_none() {
        for (trust_domain, name, expected) in [
            ("cloison.local", "active", Some("active.cloison.local")),
            ("demo", "Bank-A", Some("bank-a.demo")),
            ("b.c", "a", Some("a.b.c")),
            ("c", "a.b", None),
            ("c", "a_b", None),
            ("c", "-a", None),
            ("c_d", "a", None),
            ("c..d", "a", None),
        ] {
            let identity =
                PeerIdentity::new(trust_domain, Role::ActiveParty, PartyName::new(name).unwrap())
                    .unwrap();
            assert_eq!(dns_name(&identity).as_deref(), expected, "{name} of {trust_domain}");
        }
        let long = PartyName::new("a".repeat(64)).unwrap();
        let identity = PeerIdentity::new("demo", Role::ActiveParty, long.clone()).unwrap();
        assert_eq!(dns_name(&identity), None);
        // It is an identity all the same.
        Credentials::new(
            &Authority::new("demo", 1).unwrap().issue(Role::ActiveParty, &long).unwrap(),
        )
        .unwrap();
    }

    #[test]
    fn an_expired_or_foreign_certificate_is_no_credential() {
        let (one, other) =
            (Authority::new("demo", 30).unwrap(), Authority::new("demo", 30).unwrap());
        let name = PartyName::new("p").unwrap();
        let mut pem = one.issue(Role::PassiveParty, &name).unwrap();
        pem.ca = other.issue(Role::PassiveParty, &name).unwrap().ca;
        assert!(Credentials::new(&pem).is_err(), "signed by another authority");
    }

    /// Mistakes with files of another authority are named in the words of who has to mend them.
    #[test]
    fn a_mistake_with_certificates_is_named() {
        let said =
            |pem: &TlsPem| Credentials::new(pem).err().map(|e| e.to_string()).unwrap_or_default();
        let authority = Authority::new("mistakes", 30).unwrap();
        let name = PartyName::new("bank-a").unwrap();
        let good = authority.issue(Role::PassiveParty, &name).unwrap();
        assert_eq!(said(&good), "");
        let of = |certificate: &str, key: &str| {
            said(&TlsPem {
                ca: good.ca.clone(),
                certificate: certificate.to_owned(),
                key: key.to_owned(),
            })
        };
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgj3qppquz7DwICCAAw\nDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEOezkUHxQnMh8pDIg5PHAFwEgZAz\n+QC2DHL6pA7NyLM0ObwkB3kIEiJoGTyoUxTVSngEQk14Eo839qWulPsMsY9G+Rm6\n9EScT5XeZtU0SKXeRNAovAuE6NQt57laFquDya4rgH7FtPBhbqh9TU9mr4UerfaK\n9SHqQLe8XF+qx4wRBOOtl/tPwx4YHHoH10IiAGF0s+N+dEGtY86IdL4rdxWv6D8=\n-----END ENCRYPTED PRIVATE KEY-----\n";
        // P-521, made for this test.
        let wide = "-----BEGIN PRIVATE KEY-----\nMIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIBsBgl/wl9F9bN3VM2\nNwz9C12MlNoaKPIX4aoGeHsr+Mc2yNwYN6RqYe2f1tjj4Rzw9ykRdM5NMKOFfL0R\ngktRDSmhgYkDgYYABAFA4RoGj/C9EucpM0R1c3nrFoKsRV69z1DxJv1lwhlGlm8h\naMdB6GFq/eRA9e4U7q/5XqfFhtfpKTShWQntrHpn1wBubo3k2AdMwA2STq/5F4n6\nE9K2wiXtGEH0KmD4MJ5LEeKLAzcCNHdZY0xwAH6kdVsTKrMHI1OSkicLZf8fRKI4\nyg==\n-----END PRIVATE KEY-----\n";
        let other = Authority::new("others", 30).unwrap().issue(Role::PassiveParty, &name).unwrap();
        for (said, says) in [
            (of(&good.certificate, encrypted), "it is encrypted"),
            (of(&good.certificate, wide), "P-256 or P-384"),
            (of(&good.key, &good.certificate), "are certificate and key swapped?"),
            (of(&good.certificate, &good.certificate), "are certificate and key swapped?"),
            (
                of(&format!("{}{}", good.ca, good.certificate), &good.key),
                "this party's own comes first",
            ),
            (of(&other.certificate, &other.key), "does not lead to the CA"),
        ] {
            assert!(said.contains(says), "{says}: {said}");
        }
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, text) in
            [("ca", &good.ca), ("certificate", &good.certificate), ("key", &good.key)]
        {
            vfl_state::files::write_atomic(&path(name), format!("\u{feff}{text}").as_bytes(), true)
                .unwrap();
        }
        let read = TlsPem::read(&path("ca"), &path("certificate"), &path("key")).unwrap();
        assert_eq!(said(&read), "", "a byte order mark is no part of PEM");
        // A certificate of the past says its dates.
        let mut past = Authority::new("mistakes", 30).unwrap();
        past.lifetime = Duration::hours(-12);
        let past = said(&past.issue(Role::PassiveParty, &name).unwrap());
        assert!(past.contains("is valid from") && past.contains("and not now"), "{past}");
    }
}
