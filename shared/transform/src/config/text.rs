//! The text form of transforms: `stiefel (epsilon = 0.1)`, as in options and reports.

use std::fmt;
use std::str::FromStr;

use super::TransformConfig;

/// The error for a text that is not a transform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a transform: {reason} (written as `complement` or `stiefel (epsilon = 0.1)`)"
)]
pub struct TransformTextError {
    /// The text, cut to 120 characters.
    text: String,
    /// The problem with it.
    reason: String,
}

/// Shows a transform with its settings, on one line. [`FromStr`] reads it back.
impl fmt::Display for TransformConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings as the config file has them.
        let settings = match toml::Value::try_from(self) {
            Ok(toml::Value::Table(table)) => {
                let shown = table.iter().filter(|(key, _)| *key != "name");
                shown.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        };
        match settings.as_slice() {
            [] => f.pad(self.name()),
            settings => f.pad(&format!("{} ({})", self.name(), settings.join(", "))),
        }
    }
}

impl FromStr for TransformConfig {
    type Err = TransformTextError;

    fn from_str(text: &str) -> Result<Self, TransformTextError> {
        #[derive(serde::Deserialize)]
        struct Holder {
            transform: TransformConfig,
        }
        let refuse = |reason: &str| TransformTextError {
            text: text.chars().take(120).collect(),
            reason: reason.to_owned(),
        };
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
            assert_eq!(text.parse::<TransformConfig>().unwrap().to_string(), text);
        }
        for (text, says) in [
            ("stifel", "stifel"),
            ("stiefel (epsilon = 0.1", "not closed"),
            ("stiefel", "epsilon"),
            ("negate (k = 1)", "k"),
            ("a\" }\nb = { c = \"d", "letters"),
        ] {
            let refused = text.parse::<TransformConfig>().unwrap_err().to_string();
            assert!(refused.contains(says), "{text}: {refused}");
        }
    }
}
