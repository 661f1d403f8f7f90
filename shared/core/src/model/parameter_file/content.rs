//! The content of a parameter file, as JSON has it.

use std::fmt;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::super::Link;
use super::super::feature_scales::FeatureScales;

/// A number, or NaN for `null`. The place of the NaN is named later, which serde cannot do.
pub(super) struct Number(pub(super) f64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Number, E> {
                Ok(Number(v))
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Number, E> {
                Ok(Number(v as f64))
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<Number, E> {
                Ok(Number(v as f64))
            }
            fn visit_unit<E: serde::de::Error>(self) -> Result<Number, E> {
                Ok(Number(f64::NAN))
            }
            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Number, E> {
                // The error does not repeat the text.
                Err(E::invalid_type(Unexpected::Other("text"), &self))
            }
        }
        deserializer.deserialize_any(NumberVisitor)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Content {
    pub(super) schema: u32,
    #[serde(default)]
    pub(super) link: Link,
    pub(super) class_names: Vec<String>,
    pub(super) feature_names: Vec<String>,
    pub(super) weights: Vec<Vec<Number>>,
    pub(super) bias: Option<Vec<Number>>,
    #[serde(default)]
    pub(super) samples: Vec<Sample>,
    /// The scales of the features that the weights are of.
    #[serde(default)]
    pub(super) scales: FeatureScales,
}

/// A record with the scores that another program gave it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sample {
    pub(super) features: Vec<Number>,
    pub(super) scores: Vec<Number>,
}

#[derive(Serialize)]
pub(super) struct ParameterFileJson<'a> {
    pub(super) schema: u32,
    #[serde(skip_serializing_if = "is_softmax")]
    pub(super) link: Link,
    pub(super) class_names: &'a [String],
    pub(super) feature_names: &'a [String],
    pub(super) weights: Vec<Vec<f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bias: Option<&'a [f64]>,
}

fn is_softmax(link: &Link) -> bool {
    *link == Link::Softmax
}

/// Replaces NaN and the infinities by `null`. They are not JSON, yet many programs write them; as
/// `null` their place in the file can be named.
pub(super) fn without_nan(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut rest, mut quoted) = (text, false);
    while let Some((&byte, after)) = rest.split_first() {
        if !quoted
            && let Some(after) =
                [&b"NaN"[..], b"Infinity", b"-Infinity"].iter().find_map(|w| rest.strip_prefix(*w))
        {
            out.extend_from_slice(b"null");
            rest = after;
            continue;
        }
        out.push(byte);
        rest = after;
        match (byte, rest.split_first()) {
            (b'"', _) => quoted = !quoted,
            (b'\\', Some((&escaped, after))) if quoted => {
                out.push(escaped);
                rest = after;
            }
            _ => {}
        }
    }
    out
}
