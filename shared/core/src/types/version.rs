//! Names of parties and of published models.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Errors from checking a name. They do not contain the text, which may be something else in the
/// wrong place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the {kind} is not a valid name: 1 to 64 of a-z, A-Z, 0-9, '-', '_', '.', not starting with '.'"
)]
pub struct NameError {
    kind: &'static str,
}

fn check(kind: &'static str, name: &str) -> Result<(), NameError> {
    let ok = (1..=64).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if ok { Ok(()) } else { Err(NameError { kind }) }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Box<str>);

        impl $type {
            /// Checks and wraps a name.
            ///
            /// # Errors
            /// [`NameError`] unless the name is 1 to 64 letters, digits, `-`, `_` or `.`, not
            /// starting with `.`.
            pub fn new(name: impl Into<Box<str>>) -> Result<Self, NameError> {
                let name = name.into();
                check($kind, &name)?;
                Ok(Self(name))
            }

            /// Returns the name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.into()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($type), self.0)
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }
    };
}

name! {
    /// The name of one party, unique in a deployment. It is part of the party's certificate and
    /// orders the logit shares.
    PartyName, "party"
}
name! {
    /// The version of a published model: assigned by the coordinator, one for all parties, a hash
    /// of what was stored.
    ModelVersion, "model version"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_paths() {
        for bad in ["", "..", ".x", "a/b", "a b", "é", &"x".repeat(65)] {
            assert!(PartyName::new(bad).is_err(), "{bad:?}");
        }
        assert!(ModelVersion::new("m-0123abcd").is_ok());
    }
}
