//! Errors from using a store.

use std::error::Error;
use std::io;

use super::store_url::StoreUrl;

/// Errors from using a store. No variant holds credentials, or the body of a server's answer, which
/// may repeat them.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The server does not know the bucket.
    #[error("store {url}: there is no bucket {bucket}: make it, or correct the name")]
    NoBucket {
        /// The URL of the store.
        url: StoreUrl,
        /// The name of the bucket.
        bucket: String,
    },
    /// The credentials are wrong or insufficient.
    #[error(
        "store {url}: the credentials are refused ({reason}): check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and \
         that they may list the bucket, and read and write its objects"
    )]
    Refused {
        /// The URL of the store.
        url: StoreUrl,
        /// The error code of the answer.
        reason: String,
    },
    /// The environment has no credentials, and neither has the machine.
    #[error(
        "store {url}: there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )]
    NoKeys {
        /// The URL of the store.
        url: StoreUrl,
    },
    /// The program was built without S3.
    #[error(
        "store {url}: this program was built without S3 (feature `s3`): build it with `cargo build --release --workspace --bins --features full`, or \
         name a folder, as file:///FOLDER"
    )]
    WithoutS3 {
        /// The URL of the store.
        url: StoreUrl,
    },
    /// An environment variable cannot be used.
    #[error("store {url}: the environment variable {name} {reason}")]
    Setting {
        /// The URL of the store.
        url: StoreUrl,
        /// The name of the variable.
        name: &'static str,
        /// The fault of its value.
        reason: &'static str,
    },
    /// The server did not answer.
    #[error(
        "store {url}: cannot be reached ({reason}): check AWS_ENDPOINT_URL, AWS_REGION and the network"
    )]
    Unreachable {
        /// The URL of the store.
        url: StoreUrl,
        /// The cause of the error.
        reason: String,
    },
    /// The client could not be created.
    #[error(
        "store {url}: {reason}: look at the AWS_* variables of the environment, and at the CA certificates of the system"
    )]
    Build {
        /// The URL of the store.
        url: StoreUrl,
        /// The cause of the error.
        reason: String,
    },
    /// The answer was unexpected.
    #[error(
        "store {url}: the server answers {reason}: check AWS_ENDPOINT_URL and AWS_REGION, or try again later"
    )]
    Answer {
        /// The URL of the store.
        url: StoreUrl,
        /// The code or status of the answer.
        reason: String,
    },
    /// The folder cannot be used.
    #[error("store {url}: {reason}: name a folder that this user can read and write")]
    Folder {
        /// The URL of the store.
        url: StoreUrl,
        /// The cause of the error.
        reason: String,
    },
    /// The runtime could not be started.
    #[error("cannot start a runtime for the store: {0}")]
    Runtime(io::Error),
}

/// Returns the error code in the answer of an S3 server, such as `NoSuchBucket`.
pub(super) fn code(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    (code.len() <= 64 && code.chars().all(|c| c.is_ascii_alphanumeric())).then_some(code)
}

/// Returns the HTTP status of an error answer.
pub(super) fn status(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("Server returned non-2xx status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// Returns the innermost cause of an error in at most 200 characters, or the code or status of a
/// server's answer.
pub(super) fn cause(error: &object_store::Error) -> String {
    if let Some(code) = code(&error.to_string()) {
        return code.to_owned();
    }
    let mut innermost: &dyn Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    if text.starts_with("Server returned") {
        let status = text.split_once("status code: ").and_then(|(_, rest)| rest.split(':').next());
        return status.map_or_else(
            || "the server reports an error".to_owned(),
            |status| format!("status {status}"),
        );
    }
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "Generic S3 error: Error performing GET http://host/bucket in 2ms - Server returned non-2xx status code: 403 \
        Forbidden: <Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>AKIDEXAMPLE</AWSAccessKeyId></Error>";

    #[test]
    fn answers_are_known_by_code_and_status_and_not_repeated() {
        assert_eq!((code(ANSWER), status(ANSWER)), (Some("SignatureDoesNotMatch"), Some(403)));
        for (text, shown) in [
            (ANSWER, "SignatureDoesNotMatch"),
            (
                "Server returned non-2xx status code: 502 Bad Gateway: <html>AKIDEXAMPLE</html>",
                "status 502 Bad Gateway",
            ),
            ("Server returned error response: AKIDEXAMPLE", "the server reports an error"),
            ("tls: bad\nrecord", "tls: badrecord"),
        ] {
            assert_eq!(
                cause(&object_store::Error::Generic { store: "S3", source: text.into() }),
                shown
            );
        }
        assert_eq!(
            (code("<Code>a b</Code>"), code("<Code>a"), status("status code: x")),
            (None, None, None)
        );
    }
}
