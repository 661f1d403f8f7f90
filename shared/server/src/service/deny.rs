//! The deny list of certificates, by serial number, and the open connections that it cuts.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls_pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The maximum length of a certificate's serial number in bytes (RFC 5280, section 4.1.2.2), with
/// one for the sign.
const MAX_SERIAL_BYTES: usize = 21;

/// Errors from reading a deny list.
#[derive(Debug, thiserror::Error)]
pub enum DenyListError {
    /// The file cannot be read.
    #[error("cannot read the deny list {}: {source}", path.display())]
    Read {
        /// The path of the list.
        path: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
    /// A line is not a serial number.
    #[error("deny list {}, line {line}: a line is one serial number in hexadecimal, or a comment after #", path.display())]
    Line {
        /// The path of the list.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
}

/// The serial number of a certificate: big-endian, without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Serial(Box<[u8]>);

impl Serial {
    fn new(bytes: &[u8]) -> Self {
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        Self(bytes[zeros..].into())
    }

    /// Parses hexadecimal digits, with or without colons between them, as `openssl x509 -serial`
    /// and `-text` print them.
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        let digits: Vec<u8> = text
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).map(|d| d as u8))
            .collect::<Option<_>>()?;
        if digits.is_empty() || digits.len() > 2 * MAX_SERIAL_BYTES {
            return None;
        }
        let odd = digits.len() % 2;
        let mut bytes = Vec::with_capacity(digits.len() / 2 + odd);
        bytes.extend(digits.iter().take(odd));
        bytes.extend(digits.get(odd..)?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
        Some(Self::new(&bytes))
    }

    /// Returns the serial number of a certificate in DER; `None` if it cannot be read. TLS has
    /// refused such a certificate before.
    fn of(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(Self::new(certificate.raw_serial()))
    }
}

/// The serial numbers of certificates that are refused although an authority has signed them.
#[derive(Debug, Default)]
pub(super) struct DenyList(HashSet<Serial>);

impl DenyList {
    /// Reads a list: one serial number per line, comments after `#`.
    pub(super) fn read(path: &Path) -> Result<Self, DenyListError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| DenyListError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|line| DenyListError::Line { path: path.to_owned(), line })
    }

    fn parse(text: &str) -> Result<Self, usize> {
        let mut serials = HashSet::new();
        for (i, line) in text.lines().enumerate() {
            let serial = line.split_once('#').map_or(line, |(before, _)| before).trim();
            if !serial.is_empty() {
                serials.insert(Serial::parse(serial).ok_or(i + 1)?);
            }
        }
        Ok(Self(serials))
    }

    /// Returns the number of serial numbers.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// One of the certificates is denied: the peer's, or that of an authority between it and ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the certificate is on the deny list")]
pub(super) struct DeniedCertificate;

#[derive(Debug)]
struct OpenLink {
    serials: Vec<Serial>,
    cut: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    denied: DenyList,
    next: u64,
    open: HashMap<u64, OpenLink>,
}

/// The deny list in force, and all connections under these credentials, in both directions.
#[derive(Debug, Default)]
pub(super) struct Links(Mutex<State>);

impl Links {
    pub(super) fn new(denied: DenyList) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State { denied, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection whose peer has shown these certificates.
    pub(super) fn admit(
        self: &Arc<Self>,
        chain: &[CertificateDer<'_>],
    ) -> Result<Link, DeniedCertificate> {
        let serials: Vec<Serial> = chain
            .iter()
            .map(|der| Serial::of(der).ok_or(DeniedCertificate))
            .collect::<Result<_, _>>()?;
        let mut state = self.state();
        if serials.iter().any(|s| state.denied.0.contains(s)) {
            return Err(DeniedCertificate);
        }
        let key = state.next;
        state.next += 1;
        let cut = CancellationToken::new();
        state.open.insert(key, OpenLink { serials, cut: cut.clone() });
        drop(state);
        Ok(Link { links: self.clone(), key, cut })
    }

    /// Replaces the list and cuts the connections of the certificates on it. Returns their number.
    pub(super) fn deny(&self, denied: DenyList) -> usize {
        let mut state = self.state();
        state.denied = denied;
        let gone = state
            .open
            .values()
            .filter(|open| open.serials.iter().any(|s| state.denied.0.contains(s)));
        gone.inspect(|open| open.cut.cancel()).count()
    }
}

/// A connection that is cut when its peer's certificate is denied.
#[derive(Debug)]
pub(super) struct Link {
    links: Arc<Links>,
    key: u64,
    cut: CancellationToken,
}

impl Link {
    pub(super) fn cut(&self) -> &CancellationToken {
        &self.cut
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.links.state().open.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_list_reads_as_documented() {
        let list =
            DenyList::parse("# lost in March\n\n0a:1B:2c\n00DEADBEEF # bank-a\n0x7\n").unwrap();
        assert_eq!(list.len(), 3);
        for (text, bytes) in [
            ("a1b2c", [0x0a, 0x1b, 0x2c].as_slice()),
            ("deadbeef", &[0xde, 0xad, 0xbe, 0xef]),
            ("7", &[7]),
        ] {
            assert_eq!(Serial::parse(text), Some(Serial::new(bytes)));
            assert!(list.0.contains(&Serial::new(bytes)), "{text}");
        }
        for (bad, line) in [("12\nxyz", 2), ("::", 1), ("12 34", 1), (&"f".repeat(43), 1)] {
            assert_eq!(DenyList::parse(bad).unwrap_err(), line, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_serial_is_the_number_however_it_is_written(bytes in proptest::collection::vec(any::<u8>(), 1..20)) {
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            let colons = bytes.iter().map(|b| format!("{b:02X}")).collect::<Vec<_>>().join(":");
            let bare = hex.trim_start_matches('0');
            let serial = Serial::new(&bytes);
            prop_assert_eq!(Serial::parse(&hex), Some(serial.clone()));
            prop_assert_eq!(Serial::parse(&colons), Some(serial.clone()));
            if !bare.is_empty() {
                prop_assert_eq!(Serial::parse(bare), Some(serial));
            }
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
            let _ = DenyList::parse(&text);
        }
    }
}
