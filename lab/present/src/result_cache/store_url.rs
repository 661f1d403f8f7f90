//! The address of a store.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Errors from parsing the address of a store. They do not show the text, which may hold
/// credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreUrlError {
    /// The address has credentials before the bucket.
    #[error(
        "--store: credentials are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: leave them out of the address"
    )]
    Credentials,
    /// The address has another form.
    #[error(
        "--store: expected s3://BUCKET/PREFIX, with letters, digits and -_.=+ in the names, or file:///FOLDER, an absolute path without \
         %, ? and #"
    )]
    Form,
}

/// The address of a store. Its text form holds no credentials: [`FromStr`] refuses an address with
/// any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `s3://BUCKET/PREFIX`
    S3 {
        /// The name of the bucket.
        bucket: String,
        /// The prefix of all object names; may be empty.
        prefix: String,
    },
    /// `file:///FOLDER`
    Folder(PathBuf),
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Folder(folder) => write!(f, "file://{}", folder.display()),
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    /// Parses an address.
    ///
    /// # Errors
    /// [`StoreUrlError`], which does not show the text.
    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.=+".contains(c);
        let segment = |s: &str| !s.is_empty() && !matches!(s, "." | "..") && s.chars().all(plain);
        if let Some(rest) = text.strip_prefix("s3://") {
            if rest.contains('@') {
                return Err(StoreUrlError::Credentials);
            }
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
            if segment(bucket) && (prefix.is_empty() || prefix.split('/').all(segment)) {
                return Ok(Self::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() });
            }
        }
        match text.strip_prefix("file://") {
            Some(folder) if folder.starts_with('/') && !folder.contains(['%', '?', '#', '\n']) => {
                Ok(Self::Folder(PathBuf::from(folder)))
            }
            _ => Err(StoreUrlError::Form),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "s3://bucket",
            "s3://bucket/a/b=1",
            "s3://my.bucket-1/sweeps",
            "file:///var/store",
            "file:///a b",
        ] {
            assert_eq!(text.parse::<StoreUrl>().unwrap().to_string(), text);
        }
        assert_eq!("s3://bucket/a/".parse::<StoreUrl>().unwrap().to_string(), "s3://bucket/a");
        for text in [
            "",
            "s3://",
            "s3:///a",
            "s3://b/../c",
            "s3://b//c",
            "s3://b/a?x=1",
            "file://host/a",
            "file://",
            "/a",
            "gs://b",
            "https://b",
            "file:///a%20b",
        ] {
            assert!(matches!(text.parse::<StoreUrl>(), Err(StoreUrlError::Form)), "{text}");
        }
    }

    #[test]
    fn credentials_are_refused_and_not_shown() {
        let error = "s3://AKIDEXAMPLE:topsecret@bucket/a".parse::<StoreUrl>().unwrap_err();
        assert_eq!(error, StoreUrlError::Credentials);
        assert!(!format!("{error} {error:?}").contains("topsecret"));
    }
}
