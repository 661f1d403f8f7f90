//! A coordinator's key for the links of the chain of releases: Ed25519 (RFC 8032), in `ledger.key`
//! of its state directory.

use std::path::Path;
use std::sync::Arc;

use rand::Rng;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use vfl_core::{hex, unhex};
use vfl_state::secret_file::{self, SecretFileError};
use vfl_state::state_file::StateFile;

use super::LedgerError;

/// Advice for a file that holds no key.
const FIX: &str = "restore it from a backup, or remove it: a new key is made then, and `coordinator ledger verify` lists both";

/// The signer of links.
#[derive(Clone)]
pub(super) struct Signer {
    pair: Arc<Ed25519KeyPair>,
    public: String,
}

impl Signer {
    /// Opens the key of a state directory; creates one if there is none. Without a directory,
    /// creates one that is not kept.
    pub(super) fn open(state_dir: Option<&Path>) -> Result<Self, LedgerError> {
        let Some(dir) = state_dir else {
            let mut seed = [0; 32];
            rand::rng().fill_bytes(&mut seed);
            return Self::of(&seed);
        };
        Self::of(&secret_file::read_or_make(&key_file(dir)).map_err(failed)?)
    }

    fn of(seed: &[u8; 32]) -> Result<Self, LedgerError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        let pair = pair
            .map_err(|e| LedgerError::Key(format!("the key that signs the ledger's links: {e}")))?;
        let public = hex(pair.public_key().as_ref());
        Ok(Self { pair: Arc::new(pair), public })
    }

    /// Returns the public key, in hexadecimal digits.
    pub(super) fn public(&self) -> &str {
        &self.public
    }

    /// Returns the signature of a link's hash, in hexadecimal digits.
    pub(super) fn sign(&self, hash: &str) -> String {
        hex(self.pair.sign(&message(hash)).as_ref())
    }
}

fn key_file(state_dir: &Path) -> StateFile {
    StateFile::new(state_dir.join("ledger.key"), FIX)
}

/// Returns the public key of a state directory; `None` where there is no key.
pub(super) fn public_key(state_dir: &Path) -> Result<Option<String>, LedgerError> {
    let seed = secret_file::read(&key_file(state_dir)).map_err(failed)?;
    seed.map(|seed| Ok(Signer::of(&seed)?.public)).transpose()
}

/// Returns `true` if a signature of a link's hash is by this key.
pub(super) fn is_signed_by(public: &str, hash: &str, signature: &str) -> bool {
    let (Some(key), Some(signature)) = (unhex::<32>(public), unhex::<64>(signature)) else {
        return false;
    };
    UnparsedPublicKey::new(&ED25519, key).verify(&message(hash), &signature).is_ok()
}

/// Returns the message that is signed: nothing else that this key may ever sign begins so.
fn message(hash: &str) -> Vec<u8> {
    format!("cloison ledger link {hash}").into_bytes()
}

fn failed(error: SecretFileError) -> LedgerError {
    LedgerError::Key(format!("the key that signs the ledger's links: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, test 1: the public key of its secret key.
    #[test]
    fn the_key_is_that_of_the_rfc() {
        let seed =
            unhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let signer = Signer::of(&seed).unwrap();
        assert_eq!(
            signer.public(),
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
        );
        let signature = signer.sign("ab");
        assert!(is_signed_by(signer.public(), "ab", &signature));
        assert!(!is_signed_by(signer.public(), "ac", &signature));
        assert!(!is_signed_by(Signer::open(None).unwrap().public(), "ab", &signature));
        assert!(!is_signed_by("", "ab", &signature) && !is_signed_by(signer.public(), "ab", ""));
    }

    #[test]
    fn it_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(public_key(dir.path()).unwrap(), None);
        let first = Signer::open(Some(dir.path())).unwrap();
        assert_eq!(Signer::open(Some(dir.path())).unwrap().public(), first.public());
        assert_eq!(public_key(dir.path()).unwrap().as_deref(), Some(first.public()));
        std::fs::write(dir.path().join("ledger.key"), "short").unwrap();
        assert!(matches!(Signer::open(Some(dir.path())), Err(LedgerError::Key(_))));
    }
}
