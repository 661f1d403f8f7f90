//! What each role is shown of the parameters, and what it is told of that.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use vfl_shared::numerics::three_significant_digits;
use vfl_shared::rpc::pb::release_parameters_response::Kind;
use vfl_shared::rpc::{Refusal, RefusalKind, WireError, encode_columns, pb};
use vfl_shared::service::Role;
use vfl_shared::types::{ModelVersion, ReleasedWeights};

use crate::config::{Grant, ReleasePolicy};
use crate::logits::LogitServer;
use crate::release::{Release, ReleaseError, Releases, releases};
use crate::transform::TransformConfig;
use crate::words::transform_words;

/// The release policy at work.
#[derive(Debug)]
pub struct Showing {
    policy: ReleasePolicy,
    /// What is done to the features before training.
    trained_on: TransformConfig,
    releases: Releases,
}

impl Showing {
    /// Follows a policy for models trained on features under `trained_on`, with the releases of a state directory, which is
    /// locked. What was released under another policy is logged.
    ///
    /// # Errors
    /// As [`Releases::open`].
    pub fn open(
        state_dir: &Path,
        lock: &Arc<File>,
        policy: ReleasePolicy,
        trained_on: TransformConfig,
    ) -> Result<Self, ReleaseError> {
        let to_active = Role::ActiveParty.as_str();
        match (policy.to_active_party.transform(), releases(state_dir)) {
            (_, Err(error)) => tracing::warn!(%error, "a stored release cannot be read"),
            (Some(now), Ok(before)) => {
                for release in before.iter().filter(|r| r.role == to_active && r.transform != now) {
                    tracing::warn!(
                        version = %release.version, released_under = release.transform.name(), policy = now.name(),
                        "the parameters of this model were released under another transform and are refused under this one"
                    );
                }
            }
            (None, Ok(_)) => {}
        }
        Ok(Self { policy, trained_on, releases: Releases::open(state_dir, lock)? })
    }

    /// What a caller of this role is shown of a version.
    ///
    /// # Errors
    /// PERMISSION_DENIED without a grant, FAILED_PRECONDITION for a version that is not here, and as [`Releases::shown`].
    pub async fn release(
        &self,
        logits: &Arc<LogitServer>,
        role: Role,
        version: String,
    ) -> Result<pb::ReleaseParametersResponse, Refusal> {
        let (grant, key) = match role {
            Role::Coordinator => (&self.policy.to_coordinator, "to_coordinator"),
            _ => (&self.policy.to_active_party, "to_active_party"),
        };
        let Some(transform) = grant.transform() else {
            let message = format!(
                "the release policy of this passive party grants the {} no parameters (`{key}` in [release])",
                role.words()
            );
            return Err(Refusal::new(RefusalKind::PermissionDenied, message));
        };
        let version = WireError::model_version(version)?;
        let share = logits.share(&version)?;
        let true_ones = share.linear()?.weights();
        // One row per class: the transpose of "one record per row".
        let mut answer = pb::ReleaseParametersResponse {
            weights: Some(encode_columns(&ReleasedWeights::granted(true_ones))),
            feature_names: share.feature_names.clone(),
            ..Default::default()
        };
        // The coordinator gets the true ones and is told so; what it does with them the active party does not see.
        if role == Role::Coordinator {
            answer.set_kind(Kind::True);
            return Ok(answer);
        }
        let release = self.releases.shown(logits, &version, role, &transform).await?;
        if let Some(weights) = &release.weights {
            answer.weights = Some(encode_columns(&ReleasedWeights::granted(weights)));
        }
        if !self.policy.disclosed {
            answer.set_kind(Kind::Undisclosed);
            return Ok(answer);
        }
        let trained_on = match self.trained_on {
            TransformConfig::None {} => String::new(),
            ref map => format!("trained on transformed features: {}", transform_words(map)),
        };
        if release.weights.is_none() {
            answer.set_kind(Kind::True);
            answer.transform = trained_on;
            return Ok(answer);
        }
        answer.set_kind(Kind::Transformed);
        answer.transform = match trained_on.as_str() {
            "" => transform_words(&transform),
            _ => format!("{}; {trained_on}", transform_words(&transform)),
        };
        answer.interpretability = distance_told(&transform, release.interpretability);
        if release.bias_shift.iter().any(|&b| b != 0.0) {
            answer.bias_shift = release.bias_shift.iter().copied().collect();
        }
        Ok(answer)
    }

    /// What the active party is shown, for the auditor: of a version, with the distance its transform came to.
    ///
    /// # Errors
    /// As [`Releases::shown`].
    pub async fn described(
        &self,
        logits: &Arc<LogitServer>,
        version: Option<&ModelVersion>,
    ) -> Result<pb::ShownParameters, Refusal> {
        let release = match (&self.policy.to_active_party, version) {
            (Grant::Transformed(transform), Some(version)) => {
                Some(self.releases.shown(logits, version, Role::ActiveParty, transform).await?)
            }
            _ => None,
        };
        Ok(self.words(release.as_deref()))
    }

    fn words(&self, release: Option<&Release>) -> pb::ShownParameters {
        let transform = self.policy.to_active_party.transform();
        let granted = transform.is_some();
        let transform = transform.filter(|t| *t != TransformConfig::None {});
        let trained_on = match &self.trained_on {
            TransformConfig::None {} => None,
            map => Some(format!("trained on transformed features: {}", transform_words(map))),
        };
        let mut description = match (granted, &transform, &trained_on) {
            (false, _, None) => "nothing".to_owned(),
            (false, _, Some(map)) => format!("nothing ({map})"),
            (true, None, None) => "true parameters".to_owned(),
            (true, None, Some(map)) => map.clone(),
            (true, Some(transform), map) => {
                let mut said = format!("transformed: {}", transform_words(transform));
                if let Some(release) = release {
                    said.push_str(&format!(", g = {}", three_significant_digits(release.interpretability)));
                }
                if let Some(map) = map {
                    said.push_str(&format!("; {map}"));
                }
                said
            }
        };
        if granted && !self.policy.disclosed {
            description.push_str("; the active party is told only that parameters may be transformed");
        }
        pb::ShownParameters {
            granted,
            transformed: transform.is_some(),
            trained_on_transformed: trained_on.is_some(),
            disclosed: self.policy.disclosed,
            description,
        }
    }
}

/// g as the active party is told of it, where it gives away nothing that is secret: where W_n and the settings alone say what
/// W_pas is, and where ε is agreed (to three significant digits of what a search came to). The exact g of a secret permutation or
/// rotation is an equation on it, with which whoever knows that there are d! of them picks the right one; and of a distance
/// drawn in secret it is the secret.
fn distance_told(transform: &TransformConfig, g: f64) -> Option<f64> {
    match transform {
        TransformConfig::None {}
        | TransformConfig::Negate {}
        | TransformConfig::Complement {}
        | TransformConfig::Selective { .. } => Some(g),
        TransformConfig::Stiefel { randomised: false, .. } => Some(three_significant_digits(g)),
        TransformConfig::SingleFeature { randomised: false, epsilon }
        | TransformConfig::Binary { randomised: false, epsilon } => Some(*epsilon),
        TransformConfig::Permute {}
        | TransformConfig::RandomOrthonormal {}
        | TransformConfig::LeastSquaresOptimal {}
        | TransformConfig::Stiefel { .. }
        | TransformConfig::SingleFeature { .. }
        | TransformConfig::Binary { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::parse_transform;

    #[test]
    fn the_distance_is_told_where_it_gives_nothing_away() {
        for (text, told) in [
            ("negate", Some(0.123_456)),
            ("complement", Some(0.123_456)),
            ("selective (features = [1])", Some(0.123_456)),
            ("stiefel (epsilon = 0.1)", Some(0.123)),
            ("binary (epsilon = 0.1)", Some(0.1)),
            ("single_feature (epsilon = 0.1)", Some(0.1)),
            ("permute", None),
            ("random_orthonormal", None),
            ("least_squares_optimal", None),
            ("stiefel (epsilon = 0.1, randomised = true)", None),
            ("binary (epsilon = 0.1, randomised = true)", None),
            ("single_feature (epsilon = 0.1, randomised = true)", None),
        ] {
            assert_eq!(distance_told(&parse_transform(text).unwrap(), 0.123_456), told, "{text}");
        }
    }
}
