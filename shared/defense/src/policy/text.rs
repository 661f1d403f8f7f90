//! The text form of defenses and policies.

use std::fmt;
use std::str::FromStr;

use toml::{Table, Value};

use super::{DefenseConfig, Facts, NoiseMode, Policy};

/// The error for a text that is not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a policy: {reason} (written as `rounding (decimals = 2)`; several with `then` between them)"
)]
pub struct PolicyTextError {
    /// The text, cut to 120 characters.
    text: String,
    /// The problem with it.
    reason: String,
}

impl PolicyTextError {
    fn new(text: &str, reason: impl fmt::Display) -> Self {
        Self { text: text.chars().take(120).collect(), reason: reason.to_string() }
    }
}

impl fmt::Display for DefenseConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The parameters as the config file has them, by name, on one line. Noise is keyed by this
        // text.
        let shown: Vec<String> =
            self.parameters().iter().map(|(key, value)| format!("{key} = {value}")).collect();
        match shown.as_slice() {
            [] => f.pad(self.name()),
            parameters => f.pad(&format!("{} ({})", self.name(), parameters.join(", "))),
        }
    }
}

impl FromStr for DefenseConfig {
    type Err = PolicyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let (name, parameters) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => match rest.trim_end().strip_suffix(')') {
                Some(parameters) => (name.trim(), parameters),
                None => return Err(PolicyTextError::new(text, "the bracket is not closed")),
            },
        };
        // An unknown name is reported before any problem with its parameters.
        let facts = Facts::named(name).map_err(|e| PolicyTextError::new(text, e))?;
        let parameters = match parameters.trim() {
            "" => Table::new(),
            some => inline_table(some).map_err(|reason| PolicyTextError::new(text, reason))?,
        };
        Self::from_parameters(facts.name, parameters).map_err(|e| PolicyTextError::new(text, e))
    }
}

/// Parses the text between the braces of an inline table.
fn inline_table(inner: &str) -> Result<Table, String> {
    let mut holder: Table = toml::from_str(&format!("parameters = {{ {inner} }}"))
        .map_err(|e| e.message().to_owned())?;
    match (holder.remove("parameters"), holder.is_empty()) {
        (Some(Value::Table(table)), true) => Ok(table),
        _ => Err("the bracket holds more than parameters".to_owned()),
    }
}

const FRESH: &str = "fresh noise";
const UNBOUND: &str = "unbound shares";

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.defenses.iter().map(ToString::to_string).collect();
        if parts.is_empty() {
            parts.push("none".to_owned());
        }
        let mut text = parts.join(" then ");
        if self.noise == NoiseMode::Fresh {
            text = format!("{text}, {FRESH}");
        }
        if self.unbound_shares {
            text = format!("{text}, {UNBOUND}");
        }
        f.pad(&text)
    }
}

impl FromStr for Policy {
    type Err = PolicyTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut policy = Self::default();
        let mut rest = text.trim();
        // The options come last, in any order.
        loop {
            if let Some(before) =
                rest.strip_suffix(FRESH).and_then(|b| b.trim_end().strip_suffix(','))
            {
                (policy.noise, rest) = (NoiseMode::Fresh, before.trim_end());
            } else if let Some(before) =
                rest.strip_suffix(UNBOUND).and_then(|b| b.trim_end().strip_suffix(','))
            {
                (policy.unbound_shares, rest) = (true, before.trim_end());
            } else {
                break;
            }
        }
        policy.defenses = rest.split(" then ").map(str::parse).collect::<Result<_, _>>()?;
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_read_back() {
        for text in [
            "none",
            "rounding (decimals = 2)",
            "temperature (temperature = 2.5) then rounding (decimals = 1)",
            "privee_dp_plus_plus (as_published = false, delta = 1e-5, epsilon = [0.1, 0.05], sensitivity = 0.1, template = \"householder\")",
            "gaussian_noise (sigma = 0.1), fresh noise, unbound shares",
            "class_label",
        ] {
            let policy: Policy = text.parse().unwrap();
            let again: Policy = policy.to_string().parse().unwrap();
            assert_eq!(policy, again, "{text}");
        }
        assert_eq!(
            "rounding (decimals = 2)".parse::<Policy>().unwrap().to_string(),
            "rounding (decimals = 2)"
        );
        assert_eq!(Policy::default().to_string(), "none");
    }

    #[test]
    fn errors_name_the_thing() {
        for (text, part) in [
            ("privee", "no defense `privee`"),
            ("rounding (decimals = 2", "not closed"),
            ("rounding", "`decimals` is missing"),
            ("rounding (decimals = 2, k = 1)", "no parameter `k`; it takes decimals"),
            ("rounding (decimals = -1)", "`decimals` is -1, expected a whole number"),
            ("rounding (decimals = \"few\")", "`decimals` is the text \"few\""),
            ("rounding (decimals = 2.5)", "`decimals` is 2.5"),
            ("privee_dp (template = \"stiefel\")", "expected one of identity, householder, fisip"),
            ("privee_dp (as_published = 1)", "expected true or false"),
            (
                "privee_dp_plus_plus (sigma = [1.0, true])",
                "`sigma` is a list that holds more than numbers",
            ),
            ("rounding (name = \"none\", decimals = 2)", "no parameter `name`"),
            ("rounding (decimals = 2 }\nx = { y = 1)", "more than parameters"),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
