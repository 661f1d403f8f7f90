//! `[release]`: the parameters that this party shows, and to whom.

use serde::Deserialize;
use vfl_transform::{FeatureMap, TransformConfig, TransformError, check_search};

use crate::training_map;

/// The parameters that a role gets: `"nothing"`, `"true_parameters"`, or `{ transformed = { name =
/// "stiefel", epsilon = 0.1 } }`.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// Nothing: for that role the party is a black box.
    #[default]
    Nothing,
    /// The true parameters: a white box.
    TrueParameters,
    /// Parameters rewritten by a transform, once for each share (R remark 6, V section V-B).
    /// Predictions still come from the true ones.
    Transformed(TransformConfig),
}

impl Grant {
    /// Returns the transform from the true parameters to the release: [`TransformConfig::None`] for
    /// the true ones, `None` if nothing is released.
    #[must_use]
    pub fn transform(&self) -> Option<TransformConfig> {
        match self {
            Self::Nothing => None,
            Self::TrueParameters => Some(TransformConfig::None {}),
            Self::Transformed(config) => Some(config.clone()),
        }
    }
}

/// The `[release]` table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReleasePolicy {
    /// The grant to the active party. Default nothing.
    pub to_active_party: Grant,
    /// The grant to the coordinator: nothing, or the true parameters, which it needs to place noise
    /// at the logits (`logit_noise`). It sees all scores anyway. Default nothing.
    pub to_coordinator: Grant,
    /// True if the active party is told the transform of its parameters, and their distance from
    /// the true ones if that reveals no secret. If false, it is told that they may be transformed,
    /// whatever they are (V remark 10), and gets no bias shift, which would reveal the transform.
    /// Default true.
    pub disclosed: bool,
}

impl Default for ReleasePolicy {
    fn default() -> Self {
        Self { to_active_party: Grant::Nothing, to_coordinator: Grant::Nothing, disclosed: true }
    }
}

/// Checks what can be known of a policy before there is a model, for a party with `features`
/// features.
///
/// # Errors
/// A message that says what is wrong and how to mend it.
pub fn check_release(policy: &ReleasePolicy, features: usize) -> Result<(), String> {
    if let Grant::Transformed(config) = &policy.to_coordinator {
        return Err(format!(
            "`to_coordinator` grants parameters transformed by {}; the coordinator needs the true A = J W_pas to place noise at \
             the logits, and nothing else of them: grant \"true_parameters\" or \"nothing\"",
            config.name()
        ));
    }
    let Grant::Transformed(config) = &policy.to_active_party else { return Ok(()) };
    let refuse =
        |reason: &str| Err(format!("`to_active_party`: transform `{}`: {reason}", config.name()));
    let at_least_0 = |v: f64| v.is_finite() && v >= 0.0;
    match config {
        TransformConfig::SingleFeature { .. } if features != 1 => {
            return refuse(&format!(
                "is for a party of one feature, this one holds {features}; take stiefel"
            ));
        }
        TransformConfig::Stiefel { epsilon, .. }
        | TransformConfig::SingleFeature { epsilon, .. }
        | TransformConfig::Binary { epsilon, .. }
            if !at_least_0(*epsilon) =>
        {
            return refuse("`epsilon` must be finite and at least 0");
        }
        TransformConfig::Stiefel { penalty, starts, .. } => {
            check_search(*penalty, *starts).map_err(|e| format!("`to_active_party`: {e}"))?;
        }
        _ => {}
    }
    // A map of the features has the same requirements.
    match FeatureMap::new(config, features, &mut training_map::trial()) {
        Ok(_) | Err(TransformError::NotOfFeatures { .. }) => Ok(()),
        Err(error) => Err(format!("`to_active_party`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> ReleasePolicy {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn grants_read_as_documented() {
        assert_eq!(policy(""), ReleasePolicy::default());
        assert!(policy("").disclosed);
        let shown = policy(
            "to_active_party = { transformed = { name = \"complement\" } }\ndisclosed = false",
        );
        assert_eq!(shown.to_active_party, Grant::Transformed(TransformConfig::Complement {}));
        assert!(!shown.disclosed);
        let table = policy("[to_active_party.transformed]\nname = \"stiefel\"\nepsilon = 0.1");
        assert_eq!(table.to_active_party.transform().map(|t| t.name()), Some("stiefel"));
        for bad in [
            "to_active_party = \"all\"",
            "to_active_party = { transformed = { name = \"negate\", k = 1 } }",
            "told = 1",
        ] {
            assert!(toml::from_str::<ReleasePolicy>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_released_is_refused_with_the_reason() {
        let transformed = |what: &str| format!("{{ transformed = {{ {what} }} }}");
        for (features, key, grant, says) in [
            (3, "to_coordinator", "name = \"negate\"", "true A"),
            (3, "to_active_party", "name = \"single_feature\", epsilon = 0.1", "holds 3"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = -0.1", "`epsilon`"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = nan", "`epsilon`"),
            (3, "to_active_party", "name = \"stiefel\", epsilon = 0.1, starts = 0", "`starts`"),
            (
                3,
                "to_active_party",
                "name = \"stiefel\", epsilon = 0.1, starts = 100000",
                "1 to 1000",
            ),
            (
                3,
                "to_active_party",
                "name = \"stiefel\", epsilon = 0.1, penalty = -1.0",
                "`penalty`",
            ),
        ] {
            let policy = policy(&format!("{key} = {}", transformed(grant)));
            let refused = check_release(&policy, features).unwrap_err();
            assert!(refused.contains(says) && refused.contains(key), "{grant}: {refused}");
        }
        for (features, grant) in
            [(1, "name = \"single_feature\", epsilon = 0.1"), (3, "name = \"complement\"")]
        {
            let policy = policy(&format!("to_active_party = {}", transformed(grant)));
            assert_eq!(check_release(&policy, features), Ok(()), "{grant}");
        }
    }
}
