//! The identity of a peer: the URI subject alternative name of its certificate, in the form of a
//! SPIFFE id, `spiffe://<trust domain>/<role>/<name>`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vfl_core::types::PartyName;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The role of a party in a deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sums logit shares and applies the defense.
    Coordinator,
    /// Holds labels; queries predictions; may be the adversary.
    ActiveParty,
    /// Holds private features.
    PassiveParty,
    /// Opens audits and scores reconstructions; never the active party.
    Auditor,
}

impl Role {
    /// All roles, in a fixed order.
    pub const ALL: [Self; 4] =
        [Self::Coordinator, Self::ActiveParty, Self::PassiveParty, Self::Auditor];

    /// Returns the role as written in a certificate.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::ActiveParty => "active-party",
            Self::PassiveParty => "passive-party",
            Self::Auditor => "auditor",
        }
    }

    /// Returns the role in words, for messages.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::ActiveParty => "active party",
            Self::PassiveParty => "passive party",
            Self::Auditor => "auditor",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = IdentityError;

    fn from_str(role: &str) -> Result<Self, IdentityError> {
        Self::ALL
            .into_iter()
            .find(|r| r.as_str() == role)
            .ok_or_else(|| IdentityError::Role { role: clip(role) })
    }
}

/// Errors from reading an identity from a certificate or a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The certificate cannot be read.
    #[error("the certificate cannot be read: {reason}")]
    Certificate {
        /// The error of the parser.
        reason: String,
    },
    /// The certificate does not have exactly one URI name.
    #[error("the certificate has {count} URI names, an identity is exactly one")]
    UriCount {
        /// The number of URI names.
        count: usize,
    },
    /// The text is not of the form `spiffe://<trust domain>/<role>/<name>`.
    #[error("{uri:?} is not of the form spiffe://<trust domain>/<role>/<name>")]
    Form {
        /// The text, cut to 200 characters.
        uri: String,
    },
    /// There is no such role.
    #[error("{role:?} is no role; roles are coordinator, active-party, passive-party, auditor")]
    Role {
        /// The text, cut to 200 characters.
        role: String,
    },
}

fn clip(text: &str) -> String {
    text.chars().take(200).collect()
}

/// A peer's identity. It comes only from a verified certificate or, for the expected side of a
/// connection, from the operator's config: no request field names the caller.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PeerIdentity {
    trust_domain: Box<str>,
    role: Role,
    name: PartyName,
}

impl PeerIdentity {
    /// Creates an identity.
    ///
    /// # Errors
    /// [`IdentityError::Form`] if the trust domain is not 1 to 255 of a-z, 0-9, `-`, `_`, `.`.
    pub fn new(trust_domain: &str, role: Role, name: PartyName) -> Result<Self, IdentityError> {
        let ok = (1..=255).contains(&trust_domain.len())
            && trust_domain.bytes().all(|b| {
                b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_' | b'.')
            });
        if !ok {
            return Err(IdentityError::Form {
                uri: clip(&format!("spiffe://{trust_domain}/{role}/{name}")),
            });
        }
        Ok(Self { trust_domain: trust_domain.into(), role, name })
    }

    /// Reads the identity from a certificate in DER. It does not verify the certificate: TLS has
    /// done so.
    ///
    /// # Errors
    /// [`IdentityError`] when there is not exactly one URI name or it is malformed.
    pub fn from_certificate(der: &[u8]) -> Result<Self, IdentityError> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|e| IdentityError::Certificate { reason: e.to_string() })?;
        let names = certificate
            .subject_alternative_name()
            .map_err(|e| IdentityError::Certificate { reason: e.to_string() })?;
        let uris: Vec<&str> = names
            .iter()
            .flat_map(|n| &n.value.general_names)
            .filter_map(|n| if let GeneralName::URI(uri) = n { Some(*uri) } else { None })
            .collect();
        match uris[..] {
            [uri] => uri.parse(),
            _ => Err(IdentityError::UriCount { count: uris.len() }),
        }
    }

    /// Returns the trust domain, which stands for one deployment.
    #[must_use]
    pub fn trust_domain(&self) -> &str {
        &self.trust_domain
    }

    /// Returns the role of the party.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the party's name.
    #[must_use]
    pub fn name(&self) -> &PartyName {
        &self.name
    }

    /// Returns the identity as the URI of a certificate.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("spiffe://{}/{}/{}", self.trust_domain, self.role, self.name)
    }

    /// Describes the identity in messages: "passive party `bank-a`".
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} `{}`", self.role.words(), self.name)
    }
}

impl fmt::Display for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.role, self.name)
    }
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri())
    }
}

impl FromStr for PeerIdentity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Self, IdentityError> {
        let form = || IdentityError::Form { uri: clip(uri) };
        let mut parts = uri.strip_prefix("spiffe://").ok_or_else(form)?.split('/');
        let (Some(domain), Some(role), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(form());
        };
        Self::new(domain, role.parse()?, PartyName::new(name).map_err(|_| form())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn identities_are_read_and_refused() {
        let id: PeerIdentity = "spiffe://demo/passive-party/bank-a".parse().unwrap();
        assert_eq!(
            (id.role(), id.name().as_str(), id.trust_domain()),
            (Role::PassiveParty, "bank-a", "demo")
        );
        assert_eq!(id.uri().parse::<PeerIdentity>().unwrap(), id);
        for bad in [
            "",
            "https://demo/passive-party/a",
            "spiffe://demo/passive-party",
            "spiffe://demo/passive-party/a/b",
            "spiffe:///passive-party/a",
            "spiffe://Demo/passive-party/a",
            "spiffe://demo/passive-party/",
            "spiffe://demo/passive-party/..",
            "spiffe://demo/operator/a",
            "spiffe://demo/Auditor/a",
        ] {
            assert!(bad.parse::<PeerIdentity>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_certificate_makes_the_reader_panic(der in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(PeerIdentity::from_certificate(&der).is_err());
        }
    }
}
