//! The verdict on a policy as in the document, for readers that do not judge again.

use serde::{Deserialize, Serialize};
use vfl_core::metrics::EventFigures;

use super::attack_result::AddedRisk;
use super::level::Level;
use super::thresholds::ThresholdResult;

/// The verdict on one policy. It goes by the worst attribute of the worst-hit passive party.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyVerdict {
    /// The policy with its settings.
    pub policy: String,
    /// True if the thresholds apply to it.
    pub judged: bool,
    /// The success of the strongest attack.
    pub level: Level,
    /// The verdict in a sentence, without a capital and a full stop.
    pub sentence: String,
    /// The knowledge of the adversary of `attack`, in a word; absent if no attack ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knowledge: Option<String>,
    /// The attack that finds most of the worst attribute; if no attack has a control, the one with
    /// the smallest error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attack: Option<String>,
    /// The passive party of the worst attribute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<String>,
    /// The worst attribute; absent if no attack has a control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribute: Option<String>,
    /// The share of the control's error on that attribute that is removed. Its `control_mse` is in
    /// units of the attribute's variance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<AddedRisk>,
    /// The natural frequencies of that attribute; absent if the party does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<EventFigures>,
    /// The share of the control's error that the strongest attack removes on the mean over all
    /// features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<AddedRisk>,
    /// The accuracy that the policy costs, as a share; below 0 it gains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_lost: Option<f64>,
    /// The results for each threshold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ThresholdResult>,
}
