//! Parameters of any kind in a binary file. The layout is that of safetensors, so that other
//! programs can read the values; the metadata contain what this program needs besides.
//!
//! ```text
//! length of the header (8 bytes, little-endian) · header (JSON, padded with spaces to 8 bytes) · values (64-bit, little-endian)
//! ```
//!
//! The metadata contain the version of the format, the kind of model with its settings and widths,
//! the names of the features, and the SHA-256 of the values. Equal parameters give equal bytes,
//! since a stored share is identified by the hash of its file: keys are in alphabetical order,
//! blocks in the order of the model. A file with any other layout is refused.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::contract::{Block, Parameters};
use super::{SpecError, SubModelSpec};
use crate::hex;

/// The version of the format.
const VERSION: &str = "1";
/// The key of the metadata in the header.
const METADATA: &str = "__metadata__";
/// Bytes of a value.
const BYTES: usize = 8;

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Tensor(TensorEntry),
    Metadata(Metadata),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TensorEntry {
    data_offsets: [usize; 2],
    dtype: String,
    shape: Vec<usize>,
}

/// The metadata of a file, all as text because safetensors allows nothing else.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Metadata {
    feature_names: String,
    format: String,
    kind: String,
    settings: String,
    sha256: String,
    version: String,
    width: String,
}

/// Encodes parameters and feature names as the content of a file.
pub fn encode(parameters: &Parameters, feature_names: &[String]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut header = BTreeMap::new();
    for Block { name, shape, values } in &parameters.blocks {
        let from = data.len();
        values.iter().for_each(|v| data.extend_from_slice(&v.to_le_bytes()));
        let entry = TensorEntry {
            data_offsets: [from, data.len()],
            dtype: "F64".to_owned(),
            shape: shape.clone(),
        };
        header.insert(name.clone(), Entry::Tensor(entry));
    }
    let spec = &parameters.spec;
    let metadata = Metadata {
        // A list of texts: serialisation cannot fail.
        feature_names: serde_json::to_string(feature_names).unwrap_or_default(),
        format: "cloison parameters".to_owned(),
        kind: spec.kind().to_owned(),
        settings: spec.settings_text(),
        sha256: hex(Sha256::digest(&data)),
        version: VERSION.to_owned(),
        width: spec.width().to_string(),
    };
    header.insert(METADATA.to_owned(), Entry::Metadata(metadata));
    let mut header = serde_json::to_vec(&header).unwrap_or_default();
    header.resize(header.len().next_multiple_of(BYTES), b' ');
    let mut content = (header.len() as u64).to_le_bytes().to_vec();
    content.extend_from_slice(&header);
    content.extend_from_slice(&data);
    content
}

/// Reads the content of a file: parameters and names of the features.
///
/// # Errors
/// The problem, in words without any value.
pub fn decode(content: &[u8]) -> Result<(Parameters, Vec<String>), String> {
    let cut = || "it is cut off".to_owned();
    let (length, rest) = content.split_first_chunk::<BYTES>().ok_or_else(cut)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header: BTreeMap<String, Entry> =
        serde_json::from_slice(header).map_err(|e| crate::json::json_error(&e))?;
    let (mut metadata, mut tensors) = (None, Vec::new());
    for (name, entry) in header {
        match entry {
            Entry::Metadata(found) => metadata = Some(found),
            Entry::Tensor(found) => tensors.push((name, found)),
        }
    }
    let metadata = metadata.ok_or("it has no metadata")?;
    if metadata.version != VERSION {
        let version: String = metadata.version.chars().take(20).collect();
        return Err(format!(
            "its format has version `{version}`, this program reads version {VERSION}"
        ));
    }
    if metadata.sha256 != hex(Sha256::digest(data)) {
        return Err("its values do not match their checksum".to_owned());
    }
    tensors.sort_by_key(|(_, tensor)| tensor.data_offsets);
    let mut blocks = Vec::with_capacity(tensors.len());
    for (name, TensorEntry { data_offsets: [from, to], dtype, shape }) in tensors {
        let size = shape.iter().try_fold(BYTES, |size, n| size.checked_mul(*n));
        let bytes = data.get(from..to).filter(|bytes| dtype == "F64" && Some(bytes.len()) == size);
        let bytes =
            bytes.ok_or_else(|| format!("block `{name}` does not lie where the header says"))?;
        let values: Vec<f64> = bytes.as_chunks().0.iter().map(|v| f64::from_le_bytes(*v)).collect();
        if !values.iter().all(|v| v.is_finite()) {
            return Err(format!("block `{name}` holds a value that is not finite"));
        }
        blocks.push(Block { name, shape, values });
    }
    let wrong = |e: SpecError| e.to_string();
    let settings = SubModelSpec::parse_settings(&metadata.settings).map_err(wrong)?;
    let width = metadata.width.parse().map_err(|_| "`width` is no number")?;
    let spec = SubModelSpec::new(metadata.kind, width, settings).map_err(wrong)?;
    let names: Vec<String> = serde_json::from_str(&metadata.feature_names)
        .map_err(|_| "`feature_names` is no list of names")?;
    let parameters = Parameters { spec, features: names.len(), blocks };
    // A set of parameters has exactly one file: gaps, overlaps, other orders and spare bytes are
    // refused.
    if encode(&parameters, &names) != content {
        return Err("its fields contradict each other".to_owned());
    }
    Ok((parameters, names))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> (Parameters, Vec<String>) {
        let settings =
            SubModelSpec::parse_settings(r#"{"activation":"tanh","hidden":[3]}"#).unwrap();
        let block = |name: &str, shape: &[usize]| Block {
            name: name.to_owned(),
            shape: shape.to_vec(),
            values: (0..shape.iter().product()).map(|i| 0.1 * i as f64 - 1.0).collect(),
        };
        let spec = SubModelSpec::new("other", 2, settings).unwrap();
        // Not in alphabetical order; one block without values.
        let blocks =
            vec![block("z.weights", &[3, 2]), block("a.bias", &[3]), block("none", &[0, 4])];
        (Parameters { spec, features: 2, blocks }, vec!["x".to_owned(), "\"ÿ".to_owned()])
    }

    #[test]
    fn parameters_come_back_to_the_bit_and_in_order() {
        let (parameters, names) = sample();
        let content = encode(&parameters, &names);
        assert_eq!(decode(&content).unwrap(), (parameters.clone(), names.clone()));
        let mut other = parameters;
        other.blocks[0].values[5] = f64::from_bits(other.blocks[0].values[5].to_bits() + 1);
        assert_ne!(encode(&other, &names), content);
    }

    #[test]
    fn a_later_format_is_named() {
        let (parameters, names) = sample();
        let content = encode(&parameters, &names);
        let text = String::from_utf8_lossy(&content).into_owned();
        assert!(text.contains("\"version\":\"1\""));
        let at = content.windows(13).position(|w| w == b"\"version\":\"1\"").unwrap();
        let mut later = content;
        later[at + 11] = b'2';
        assert!(decode(&later).unwrap_err().contains("version `2`"), "{:?}", decode(&later));
    }

    proptest! {
        #[test]
        fn no_changed_byte_is_read(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let (parameters, names) = sample();
            let mut content = encode(&parameters, &names);
            let at = at.index(content.len());
            content[at] ^= 1 << bit;
            // A changed name, setting or width is another file with another hash; it must not be
            // the same parameters.
            if let Ok(read) = decode(&content) {
                prop_assert_ne!(read, (parameters, names));
            }
        }

        #[test]
        fn no_cut_is_read(at in any::<prop::sample::Index>()) {
            let (parameters, names) = sample();
            let content = encode(&parameters, &names);
            prop_assert!(decode(&content[..at.index(content.len())]).is_err());
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
