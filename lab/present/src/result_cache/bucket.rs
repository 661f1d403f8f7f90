//! A bucket of S3, where the program was built with it (feature `s3`).

use object_store::ObjectStore;

use super::store_error::StoreError;
use super::store_url::StoreUrl;

#[cfg(feature = "s3")]
pub(super) use with_s3::open_bucket;

/// Refuses a bucket, and names the fix.
#[cfg(not(feature = "s3"))]
pub(super) fn open_bucket(
    url: &StoreUrl,
    _: &str,
) -> Result<(Box<dyn ObjectStore>, bool), StoreError> {
    Err(StoreError::WithoutS3 { url: url.clone() })
}

#[cfg(feature = "s3")]
mod with_s3 {
    use std::time::Duration;

    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as Key};
    use object_store::{BackoffConfig, ClientConfigKey, RetryConfig};

    use super::super::store_error::cause;
    use super::{ObjectStore, StoreError, StoreUrl};

    /// A failed request is retried at most four times, until this time after the first try.
    const RETRIES: RetryConfig = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(5),
            base: 2.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(60),
    };

    /// The limits of time for one connection, for one request with its answer, and for an idle
    /// connection.
    const TIMES: [(ClientConfigKey, &str); 3] = [
        (ClientConfigKey::ConnectTimeout, "5 seconds"),
        (ClientConfigKey::Timeout, "30 seconds"),
        (ClientConfigKey::PoolIdleTimeout, "10 seconds"),
    ];

    /// Opens a bucket with the settings of the environment. Returns true with it if these have a
    /// key.
    pub(crate) fn open_bucket(
        url: &StoreUrl,
        bucket: &str,
    ) -> Result<(Box<dyn ObjectStore>, bool), StoreError> {
        // Fails harmlessly if it is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(RETRIES);
        for (key, value) in TIMES {
            builder = builder.with_config(Key::Client(key), value);
        }
        let setting = |name, reason| StoreError::Setting { url: url.clone(), name, reason };
        // These go into headers.
        for (key, name) in [
            (Key::AccessKeyId, "AWS_ACCESS_KEY_ID"),
            (Key::SecretAccessKey, "AWS_SECRET_ACCESS_KEY"),
            (Key::Token, "AWS_SESSION_TOKEN"),
            (Key::Region, "AWS_REGION"),
        ] {
            let value = builder.get_config_value(&key);
            if value.is_some_and(|v| v.is_empty() || !v.chars().all(|c| c.is_ascii_graphic())) {
                return Err(setting(name, "is empty, or has a space or a line break in it"));
            }
        }
        for (key, name) in
            [(Key::Endpoint, "AWS_ENDPOINT_URL"), (Key::S3Endpoint, "AWS_ENDPOINT_URL_S3")]
        {
            let value = builder.get_config_value(&key);
            if value.is_some_and(|v| !is_endpoint(&v)) {
                return Err(setting(name, "is not an address as https://HOST:PORT"));
            }
        }
        let has = |key| builder.get_config_value(&key).is_some();
        let has_keys = has(Key::AccessKeyId);
        if has_keys != has(Key::SecretAccessKey) {
            let name = if has_keys { "AWS_SECRET_ACCESS_KEY" } else { "AWS_ACCESS_KEY_ID" };
            return Err(setting(name, "is missing: the key and its secret belong together"));
        }
        let http =
            builder.get_config_value(&Key::Client(ClientConfigKey::AllowHttp)).unwrap_or_default();
        let endpoints = [Key::Endpoint, Key::S3Endpoint]
            .map(|key| builder.get_config_value(&key).unwrap_or_default());
        if endpoints.iter().any(|e| e.starts_with("http://")) && http.eq_ignore_ascii_case("false")
        {
            return Err(setting(
                "AWS_ALLOW_HTTP",
                "is not true, but AWS_ENDPOINT_URL is an address without TLS",
            ));
        }
        let objects = builder
            .build()
            .map_err(|e| StoreError::Build { url: url.clone(), reason: cause(&e) })?;
        Ok((Box::new(objects), has_keys))
    }

    /// Returns true if a text is the address of a server, without credentials in it.
    fn is_endpoint(text: &str) -> bool {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let uri = text.parse::<http::Uri>().ok();
        rest.is_some_and(|rest| !rest.contains(['@', '?', '#']))
            && uri.is_some_and(|uri| uri.host().is_some())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn endpoints_have_a_host_and_no_credentials() {
            assert!(is_endpoint("http://127.0.0.1:9000") && is_endpoint("https://s3.example"));
            for text in [
                "127.0.0.1:9000",
                "https://",
                "https://key:secret@host",
                "ftp://host",
                "https://host\n",
            ] {
                assert!(!is_endpoint(text), "{text}");
            }
        }
    }
}
