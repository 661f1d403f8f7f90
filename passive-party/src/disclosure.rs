//! The release policy at work: the parameters that each role gets, and the statement about them.

use std::fs::File;
use std::sync::Arc;

use vfl_core::types::ModelVersion;
use vfl_numerics::three_significant_digits;
use vfl_protocol::{
    Refusal, RefusalKind, ReleasedParameters, ReleasedSubModel, ShownModel, ShownParameters,
    Statement,
};
use vfl_server::service::Role;
use vfl_state::state_dir::StateDir;
use vfl_transform::TransformConfig;

use crate::config::{Grant, ReleasePolicy};
use crate::logits::LogitServer;
use crate::release::{ReleaseError, Releases, releases};

/// The release policy, and the releases made under it.
#[derive(Debug)]
pub struct Disclosure {
    policy: ReleasePolicy,
    /// The transform of the features before training; `None` for none.
    trained_on: Option<TransformConfig>,
    releases: Releases,
}

impl Disclosure {
    /// Opens the releases of a state directory, which is locked unless several processes share it,
    /// under a policy for models trained on features under `trained_on`. Releases made under
    /// another policy are logged.
    ///
    /// # Errors
    /// Those of [`Releases::open`].
    pub fn open(
        state_dir: &StateDir,
        lock: &Arc<Option<File>>,
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
        let trained_on = Some(trained_on).filter(|map| *map != TransformConfig::None {});
        Ok(Self { policy, trained_on, releases: Releases::open(state_dir, lock)? })
    }

    /// Returns the parameters that a caller of this role gets of a version.
    ///
    /// # Errors
    /// PERMISSION_DENIED without a grant or if the grant does not go with the model,
    /// FAILED_PRECONDITION for a version that is not here, and those of [`Releases::shown`].
    pub async fn release(
        &self,
        logits: &Arc<LogitServer>,
        role: Role,
        version: &ModelVersion,
    ) -> Result<ReleasedSubModel, Refusal> {
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
        let share = logits.share(version)?;
        let disclosed = self.policy.disclosed;
        let linear = match share.linear() {
            Ok(linear) => linear,
            // A coordinator asks for something that only weights have, and a transform is of
            // weights.
            Err(e) if role == Role::Coordinator || transform != (TransformConfig::None {}) => {
                let message = format!("nothing of such a model is released under this policy: {e}");
                return Err(Refusal::new(RefusalKind::PermissionDenied, message));
            }
            Err(_) => {
                let model = ShownModel::of(share.model(), &share.feature_names)?;
                self.releases.shown(logits, version, role, &transform).await?;
                return Ok(ReleasedSubModel::Model { model, disclosed });
            }
        };
        // The coordinator gets the true parameters and is told so. The active party does not see
        // what it does with them.
        let true_ones = ReleasedParameters {
            weights: linear.weights().clone(),
            feature_names: share.feature_names.clone(),
            bias_shift: None,
            statement: Statement::True { of_features: None },
        };
        if role == Role::Coordinator {
            return Ok(ReleasedSubModel::Linear(true_ones));
        }
        let release = self.releases.shown(logits, version, role, &transform).await?;
        let shown = match &release.weights {
            Some(weights) => ReleasedParameters { weights: weights.clone(), ..true_ones },
            None => true_ones,
        };
        if !disclosed {
            return Ok(ReleasedSubModel::Linear(ReleasedParameters {
                statement: Statement::Undisclosed,
                ..shown
            }));
        }
        let of_features = self.trained_on.clone();
        if release.weights.is_none() {
            return Ok(ReleasedSubModel::Linear(ReleasedParameters {
                statement: Statement::True { of_features },
                ..shown
            }));
        }
        let interpretability = distance_told(&transform, release.interpretability);
        let shift = Some(&release.bias_shift).filter(|shift| shift.iter().any(|&b| b != 0.0));
        Ok(ReleasedSubModel::Linear(ReleasedParameters {
            bias_shift: shift.cloned(),
            statement: Statement::Transformed {
                of_weights: transform,
                interpretability,
                of_features,
            },
            ..shown
        }))
    }

    /// Describes for the auditor the parameters that the active party gets of a version. The
    /// distance of the transform has three significant digits.
    ///
    /// # Errors
    /// Those of [`Releases::shown`].
    pub async fn described(
        &self,
        logits: &Arc<LogitServer>,
        version: Option<&ModelVersion>,
    ) -> Result<ShownParameters, Refusal> {
        // Nothing of a network is shown under a transform of weights, or if it does not fit a
        // message.
        let shown = match (self.policy.to_active_party.transform(), version) {
            (Some(transform), Some(version)) => {
                let share = logits.share(version)?;
                let fits = ShownModel::fits(share.model(), &share.feature_names).is_ok();
                share.linear().is_ok() || (transform == TransformConfig::None {} && fits)
            }
            _ => true,
        };
        if !shown {
            return Ok(ShownParameters {
                granted: false,
                of_weights: None,
                interpretability: None,
                of_features: self.trained_on.clone(),
                disclosed: self.policy.disclosed,
            });
        }
        let release = match (&self.policy.to_active_party, version) {
            (Grant::Transformed(transform), Some(version)) => {
                Some(self.releases.shown(logits, version, Role::ActiveParty, transform).await?)
            }
            _ => None,
        };
        let transform = self.policy.to_active_party.transform();
        let granted = transform.is_some();
        let of_weights = transform.filter(|t| *t != TransformConfig::None {});
        let interpretability = release
            .filter(|_| of_weights.is_some())
            .map(|r| three_significant_digits(r.interpretability));
        Ok(ShownParameters {
            granted,
            of_weights,
            interpretability,
            of_features: self.trained_on.clone(),
            disclosed: self.policy.disclosed,
        })
    }
}

/// Returns g as the active party is told of it, if it reveals no secret: if W_n and the settings
/// alone determine W_pas, or if ε is agreed (the result of a search to three significant digits).
/// The exact g of a secret permutation or rotation is an equation on it: an adversary that knows
/// that there are d! permutations picks the right one by it. The g of a distance drawn in secret is
/// the secret itself.
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
            assert_eq!(distance_told(&text.parse().unwrap(), 0.123_456), told, "{text}");
        }
    }
}
