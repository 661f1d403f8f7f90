//! Cases of kind `one_feature`: one passive feature's part of the log-ratio, with unknown
//! parameters.

use serde::{Deserialize, Serialize};
use vfl_attack::{OneFeatureCase, OneFeatureError, one_feature, one_feature_of_mean};

use super::answer::output;

/// A case file. Fields that an attack must not see are ignored.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    #[serde(rename = "schema")]
    _schema: serde::de::IgnoredAny,
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    case: String,
    v: Vec<f64>,
    mean: Option<f64>,
    #[serde(default, rename = "truth")]
    _truth: serde::de::IgnoredAny,
    #[serde(default, rename = "expected")]
    _expected: serde::de::IgnoredAny,
}

#[derive(Serialize)]
struct Output {
    /// NaN, which JSON writes as null, where the estimate is undefined.
    x_hat: Vec<f64>,
}

/// Estimates the feature of a case and returns the output file.
pub(super) fn run(text: &str) -> Result<Vec<u8>, String> {
    let Case { case, v, mean, .. } =
        serde_json::from_str(text).map_err(|e| vfl_core::json::json_error(&e))?;
    let case: OneFeatureCase = case.parse().map_err(|e: OneFeatureError| format!("`case`: {e}"))?;
    if v.is_empty() {
        return Err("`v` is empty".into());
    }
    let found = match mean {
        Some(mean) if (0.0..=1.0).contains(&mean) => one_feature_of_mean(case, &v, mean),
        Some(mean) => return Err(format!("`mean` is {mean}, expected a number from 0 to 1")),
        None => one_feature(case, &v),
    };
    let x_hat = match found {
        Ok(x_hat) => x_hat,
        Err(OneFeatureError::Undefined { .. }) => vec![f64::NAN; v.len()],
        Err(error) => return Err(format!("`v`: {error}")),
    };
    output(&Output { x_hat })
}
