//! The text form of defenses and policies.

use std::fmt;
use std::str::FromStr;

use super::{DefenseConfig, NoiseMode, Policy};

/// Why a text is not a policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a policy: {reason} (written as `rounding (decimals = 2)`; several with `then` between them)")]
pub struct PolicyTextError {
    /// What came, cut to 120 characters.
    text: String,
    /// What is wrong with it.
    reason: String,
}

impl PolicyTextError {
    fn new(text: &str, reason: impl fmt::Display) -> Self {
        Self { text: text.chars().take(120).collect(), reason: reason.to_string() }
    }
}

impl fmt::Display for DefenseConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The parameters as the config file has them, on one line.
        let shown = match toml::Value::try_from(self) {
            Ok(toml::Value::Table(mut table)) => {
                table.remove("name");
                table.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        };
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
        if !Self::NAMES.contains(&name) {
            let known = Self::NAMES.join(", ");
            return Err(PolicyTextError::new(text, format!("there is no defense `{name}`; there are: {known}")));
        }
        let comma = if parameters.trim().is_empty() { "" } else { "," };
        #[derive(serde::Deserialize)]
        struct Holder {
            defense: DefenseConfig,
        }
        toml::from_str::<Holder>(&format!("defense = {{ name = \"{name}\"{comma} {parameters} }}"))
            .map(|holder| holder.defense)
            .map_err(|e| PolicyTextError::new(text, e.message()))
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
        // The options stand last, in any order.
        loop {
            if let Some(before) = rest.strip_suffix(FRESH).and_then(|b| b.trim_end().strip_suffix(',')) {
                (policy.noise, rest) = (NoiseMode::Fresh, before.trim_end());
            } else if let Some(before) = rest.strip_suffix(UNBOUND).and_then(|b| b.trim_end().strip_suffix(',')) {
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
        assert_eq!("rounding (decimals = 2)".parse::<Policy>().unwrap().to_string(), "rounding (decimals = 2)");
        assert_eq!(Policy::default().to_string(), "none");
    }

    #[test]
    fn errors_name_the_thing() {
        for (text, part) in [
            ("privee", "no defense `privee`"),
            ("rounding (decimals = 2", "not closed"),
            ("rounding", "decimals"),
            ("rounding (decimals = 2, k = 1)", "unknown field `k`"),
            ("rounding (decimals = -1)", "decimals"),
        ] {
            let error = text.parse::<Policy>().unwrap_err().to_string();
            assert!(error.contains(part) || part == "decimals" && error.contains("invalid value"), "{text}: {error}");
        }
    }

    #[test]
    fn every_name_is_one_of_the_list() {
        for name in DefenseConfig::NAMES {
            let parameters = match name {
                "logit_noise" => "(scheme = 1, alpha = 1.0)",
                "temperature" => "(temperature = 1.0)",
                "rounding" => "(decimals = 1)",
                "top_k" => "(k = 1)",
                "gaussian_noise" => "(sigma = 1.0)",
                "dp_gaussian" => "(epsilon = 1.0)",
                "codebook" => "(size = 2)",
                _ => "",
            };
            assert_eq!(format!("{name}{parameters}").parse::<DefenseConfig>().unwrap().name(), name);
        }
    }
}
