//! `[serving]`: the part that this party takes in predictions.

use serde::Deserialize;
use vfl_core::types::PartyName;
use vfl_defense::Policy;
use vfl_party::computation::release::{PrivateRelease, ServingMode};

/// The `[serving]` table.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServingPolicy {
    /// The least private way in which this party answers. Default `"plain"`: the coordinator gets
    /// its logits of the records that are asked for. Under `"private"` it gives them to nobody, and
    /// takes part in private releases alone.
    pub mode: ServingMode,
    /// Another passive party that may compute on shares of this party's logits, with the active
    /// party and the coordinator: no two of these three join hands. Default none: this party
    /// computes itself.
    pub computing_party: Option<PartyName>,
    /// The policies of private releases that this party takes part in, as texts such as
    /// `"rounding (decimals = 2)"`. Under another policy this party computes nothing. Default: all.
    pub policies: Option<Vec<String>>,
}

impl ServingPolicy {
    /// Returns `true` if this party takes part in private releases under a policy.
    #[must_use]
    pub fn allows(&self, policy: &Policy) -> bool {
        let is_policy =
            |text: &String| text.parse::<Policy>().is_ok_and(|allowed| allowed == *policy);
        self.policies.as_ref().is_none_or(|policies| policies.iter().any(is_policy))
    }

    /// Checks the table.
    ///
    /// # Errors
    /// A message that says what is wrong and how to mend it.
    pub fn check(&self) -> Result<(), String> {
        for text in self.policies.iter().flatten() {
            let policy: Policy = text.parse().map_err(|e| format!("`policies`: {e}"))?;
            PrivateRelease::check(&policy).map_err(|e| format!("`policies`: {e}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> ServingPolicy {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_party_allows_all_policies_or_those_that_it_lists() {
        let all = table("");
        let some =
            table("mode = \"private\"\npolicies = [\"class_label\", \"rounding (decimals = 2)\"]");
        assert_eq!(some.check(), Ok(()));
        let policy = |text: &str| text.parse::<Policy>().unwrap();
        for text in ["none", "class_label", "rounding (decimals = 2)"] {
            assert!(all.allows(&policy(text)));
            assert_eq!(some.allows(&policy(text)), text != "none", "{text}");
        }
        assert!(!some.allows(&policy("rounding (decimals = 3)")));
    }

    #[test]
    fn what_is_no_policy_or_not_private_is_refused_by_its_name() {
        for (text, says) in [("dp", "dp"), ("top_k (k = 1)", "top_k")] {
            let table = table(&format!("policies = [\"{text}\"]"));
            let refused = table.check().unwrap_err();
            assert!(refused.contains("policies") && refused.contains(says), "{refused}");
        }
        assert!(toml::from_str::<ServingPolicy>("mode = \"open\"").is_err());
    }
}
