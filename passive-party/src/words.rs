//! Transforms in words: `stiefel (epsilon = 0.1)`, as options, messages and reports have them.

use crate::transform::TransformConfig;

/// Why a text is not a transform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a transform: {reason} (written as `complement` or `stiefel (epsilon = 0.1)`)")]
pub struct TransformTextError {
    /// What came, cut to 120 characters.
    text: String,
    /// What is wrong with it.
    reason: String,
}

/// A transform with its settings, on one line. [`parse_transform`] reads it back.
#[must_use]
pub fn transform_words(config: &TransformConfig) -> String {
    // The settings as the config file has them.
    let settings = match toml::Value::try_from(config) {
        Ok(toml::Value::Table(table)) => {
            let shown = table.iter().filter(|(key, _)| *key != "name");
            shown.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>()
        }
        _ => Vec::new(),
    };
    if settings.is_empty() { config.name().to_owned() } else { format!("{} ({})", config.name(), settings.join(", ")) }
}

/// Reads a transform as [`transform_words`] writes it.
///
/// # Errors
/// [`TransformTextError`] naming what is wrong: the name, a setting, or the bracket.
pub fn parse_transform(text: &str) -> Result<TransformConfig, TransformTextError> {
    #[derive(serde::Deserialize)]
    struct Holder {
        transform: TransformConfig,
    }
    let refuse =
        |reason: &str| TransformTextError { text: text.chars().take(120).collect(), reason: reason.to_owned() };
    let (name, settings) = match text.trim().split_once('(') {
        None => (text.trim(), ""),
        Some((name, rest)) => match rest.strip_suffix(')') {
            Some(settings) => (name.trim(), settings.trim()),
            None => return Err(refuse("the bracket is not closed")),
        },
    };
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(refuse("a name is letters, digits and `_`"));
    }
    let comma = if settings.is_empty() { "" } else { ", " };
    toml::from_str::<Holder>(&format!("transform = {{ name = \"{name}\"{comma}{settings} }}"))
        .map(|holder| holder.transform)
        .map_err(|e| refuse(e.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back() {
        for text in [
            "none",
            "complement",
            "selective (features = [0, 2])",
            "stiefel (epsilon = 0.1)",
            "stiefel (case = \"ii\", epsilon = 0.25, randomised = true, starts = 4)",
            "binary (epsilon = 0.5)",
        ] {
            assert_eq!(transform_words(&parse_transform(text).unwrap()), text);
        }
        for (text, says) in [
            ("stifel", "stifel"),
            ("stiefel (epsilon = 0.1", "not closed"),
            ("stiefel", "epsilon"),
            ("negate (k = 1)", "k"),
            ("a\" }\nb = { c = \"d", "letters"),
        ] {
            let refused = parse_transform(text).unwrap_err().to_string();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
