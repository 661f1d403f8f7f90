//! The release surfaces: every way in which a party can learn something, audited by a report or
//! not.

use serde::{Deserialize, Serialize};
use vfl_defense::{DefenseConfig, Policy};

/// The disclosure by a training on secret shares.
const PRIVATE_TRAINING: &str = "The parties computed on secret shares: each learned its own parameters and the number of epochs, and \
     nobody another's features, labels, scores or parameters, as long as no two of the active party, the coordinator and the passive \
     party that computes join hands. What the model tells is in the figures above.";

/// The disclosure by a plain training. A rendered report states it unless the training was private.
pub const TRAINING_DISCLOSURE: &str = "A row of the training gradient is c − e_y: a plain training tells every passive party \
     the labels of the training records, and the active party their scores at every step. No serving defense changes that. An \
     active party that trains honestly can reconstruct the passive features of all records that were trained on, without knowing one: on \
     satellite all 12 passive features with a root mean square error below 1e-7 after 8 steps of one batch (cloison transcript --known 0).";

/// Returns the disclosure by a training on secret shares, or by a plain one.
pub(crate) fn disclosure(private: bool) -> &'static str {
    if private { PRIVATE_TRAINING } else { TRAINING_DISCLOSURE }
}

/// A way in which something leaves a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurfaceKind {
    /// No answer at all.
    Nothing,
    /// The predicted class only.
    ClassLabel,
    /// The order of the classes.
    Ranking,
    /// Scores with few decimals.
    RoundedScore,
    /// All scores, full precision.
    ScoreVector,
    /// A party's own term of the logits.
    PartialLogit,
    /// Parameters withheld (black box).
    ParametersHidden,
    /// Parameters after a transform.
    ParametersTransformed,
    /// True parameters (white box).
    ParametersTrue,
    /// The training protocol itself.
    Training,
}

impl SurfaceKind {
    /// All kinds, from the least to the most revealing in serving, training last.
    pub const ALL: [Self; 10] = [
        Self::Nothing,
        Self::ClassLabel,
        Self::Ranking,
        Self::RoundedScore,
        Self::ScoreVector,
        Self::PartialLogit,
        Self::ParametersHidden,
        Self::ParametersTransformed,
        Self::ParametersTrue,
        Self::Training,
    ];

    /// Returns the surface of the scores behind a policy, by its defenses.
    #[must_use]
    pub fn of_policy(policy: &Policy) -> Self {
        Self::of_names(policy.defenses.iter().map(DefenseConfig::name))
    }

    /// Returns the surface of the scores behind the text of a policy, whose parameters may be
    /// unknown.
    pub(super) fn of_text(text: &str) -> Self {
        let names = text.split(" then ").filter_map(|part| part.split([' ', '(', ',']).next());
        Self::of_names(names)
    }

    /// Returns the surface of the scores behind defenses, by their names.
    fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let surface = |name| match name {
            "class_label" => Self::ClassLabel,
            "ranking" => Self::Ranking,
            "rounding" => Self::RoundedScore,
            _ => Self::ScoreVector,
        };
        // The last step of a policy may only take away: the least revealing one decides.
        names.map(surface).min().unwrap_or(Self::ScoreVector)
    }

    /// Returns the name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::ClassLabel => "class label",
            Self::Ranking => "ranking",
            Self::RoundedScore => "rounded score",
            Self::ScoreVector => "score vector",
            Self::PartialLogit => "partial logit",
            Self::ParametersHidden => "parameters, hidden",
            Self::ParametersTransformed => "parameters, transformed",
            Self::ParametersTrue => "parameters, true",
            Self::Training => "training",
        }
    }
}

/// The entry of a surface in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Surface {
    /// The kind of surface.
    pub surface: SurfaceKind,
    /// True if this report measures it.
    pub audited: bool,
    /// The report's note on the surface.
    pub note: String,
}

impl Surface {
    /// Returns all surfaces with plain notes; those in `audited` are marked as measured.
    #[must_use]
    pub fn list(audited: &[SurfaceKind]) -> Vec<Self> {
        SurfaceKind::ALL
            .into_iter()
            .map(|surface| {
                let audited = audited.contains(&surface);
                let note = match (surface, audited) {
                    (SurfaceKind::Training, _) => TRAINING_DISCLOSURE.to_owned(),
                    (SurfaceKind::Nothing, true) => {
                        "attacked in this report: records that the active party has no score of, by scores that it estimates \
                         from labels of its own"
                            .into()
                    }
                    (SurfaceKind::Nothing, false) => {
                        "not attacked in this report; the baselines show what guessing achieves".into()
                    }
                    (_, true) => "attacked in this report".into(),
                    (_, false) => "not attacked in this report, which says nothing about it".into(),
                };
                Self { surface, audited, note }
            })
            .collect()
    }

    /// Replaces the note.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::SurfaceKind::{ClassLabel, Ranking, RoundedScore, ScoreVector};
    use crate::report::Policy;

    #[test]
    fn a_policy_that_is_read_back_has_the_surface_of_the_one_written() {
        for (text, surface, none) in [
            ("none", ScoreVector, true),
            ("none, unbound shares", ScoreVector, true),
            ("privee_dp (epsilon = 0.5, template = \"householder\")", ScoreVector, false),
            ("rounding (decimals = 2), fresh noise", RoundedScore, false),
            ("temperature (temperature = 2.0) then rounding (decimals = 1)", RoundedScore, false),
            ("rounding (decimals = 2) then ranking, fresh noise", Ranking, false),
            ("ranking then class_label", ClassLabel, false),
        ] {
            let written = Policy::from(&text.parse::<vfl_defense::Policy>().unwrap());
            let json = serde_json::to_string(&written).unwrap();
            let read: Policy = serde_json::from_str(&json).unwrap();
            for policy in [&written, &read] {
                assert_eq!((policy.surface(), policy.is_none()), (surface, none), "{text}");
            }
            assert_eq!(read, written, "{text}");
        }
        let unknown: Policy = serde_json::from_str(r#"{"name":"of a later version"}"#).unwrap();
        assert_eq!((unknown.surface(), unknown.is_none()), (ScoreVector, false));
    }

    #[test]
    fn a_policy_with_parameters_of_another_version_has_the_surface_of_its_name() {
        for (name, surface) in [
            ("class_label", ClassLabel),
            ("ranking", Ranking),
            ("rounding", RoundedScore),
            ("temperature (new = 1) then class_label (new = 1), fresh noise", ClassLabel),
            ("privee_dp", ScoreVector),
        ] {
            let read: Policy = serde_json::from_value(
                serde_json::json!({ "name": name, "parameters": { "new": 1 } }),
            )
            .unwrap();
            assert_eq!((&read.policy, read.surface()), (&None, surface), "{name}");
        }
    }
}
