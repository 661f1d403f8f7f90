//! The knowledge and actions of an audit's adversary.

use serde::{Deserialize, Serialize};

/// The adversary: the active party, honest in the protocol unless `shares` says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreatModel {
    /// The knowledge of the passive parties' parameters.
    pub parameters: ParameterKnowledge,
    /// The knowledge of the defense.
    pub defense: DefenseKnowledge,
    /// The number of releases that it sees of each record.
    pub observations: Observations,
    /// The logit shares that it sends.
    pub shares: Shares,
    /// The passive parties whose joint features it attacks; empty means all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<String>,
    /// The passive parties that help it: it knows their logit shares of the records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub colluding: Vec<String>,
    /// The number of whole records that it knows, from which it estimates the moments of the
    /// features; 0 if none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known_records: usize,
    /// True if it knows the means and covariances of the passive features, but no record: their
    /// owner simulates it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moments: bool,
    /// The knowledge of the passive features beyond [0, 1], in words: `binary = all`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// The knowledge of the passive parties' parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ParameterKnowledge {
    /// The true parameters: white box.
    True,
    /// Parameters after the passive party's transform.
    Transformed,
    /// No parameters, but some records with all their features and scores: black box.
    Auxiliary {
        /// The number of these records.
        records: usize,
    },
    /// No parameters: black box.
    Hidden,
}

/// The knowledge of the defense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefenseKnowledge {
    /// No knowledge, or none that its attacks use: the release is taken for the true scores.
    Unknown,
    /// The defense with its parameters (but no secret key).
    Known,
}

/// The number of observed releases of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Observations {
    /// None: only its other features, and labels of other records, are known.
    NoScore,
    /// One release of each of the first attacked records, none of the others.
    ScoresOfSome {
        /// The number of the first records.
        records: usize,
    },
    /// One release of each record.
    OneScorePerRecord,
    /// Several releases of each record, with the randomness of the defense, if any.
    Repeated {
        /// The number of releases per record.
        times: u64,
    },
}

/// The logit shares that the adversary sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shares {
    /// The shares of its true features and parameters.
    Honest,
    /// Any shares that help it.
    Chosen,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl ThreatModel {
    /// Returns the papers' adversary: true parameters, honest shares, one score per record, all
    /// passive parties as target.
    #[must_use]
    pub fn white_box(defense: DefenseKnowledge) -> Self {
        Self {
            parameters: ParameterKnowledge::True,
            defense,
            observations: Observations::OneScorePerRecord,
            shares: Shares::Honest,
            target: Vec::new(),
            colluding: Vec::new(),
            known_records: 0,
            moments: false,
            features: Vec::new(),
        }
    }

    /// Returns true if it knows whole records or moments, so that a control with the same knowledge
    /// but no scores exists.
    #[must_use]
    pub fn informed(&self) -> bool {
        self.known_records > 0 || self.moments
    }

    /// Returns true if it sees the scores of all attacked records. If not, the audit is about its
    /// knowledge without them.
    #[must_use]
    pub fn sees_scores(&self) -> bool {
        !matches!(self.observations, Observations::NoScore | Observations::ScoresOfSome { .. })
    }

    /// Describes the adversary's knowledge and actions, one phrase per point.
    #[must_use]
    pub fn phrases(&self) -> Vec<String> {
        let mut phrases = vec![
            match self.parameters {
                ParameterKnowledge::True => {
                    "knows the true parameters of the model (white box)".into()
                }
                ParameterKnowledge::Transformed => {
                    "knows the passive parameters after a transform".into()
                }
                ParameterKnowledge::Auxiliary { records } => {
                    format!(
                        "knows no passive parameter, but {records} auxiliary records (black box)"
                    )
                }
                ParameterKnowledge::Hidden => "knows no passive parameter (black box)".into(),
            },
            match self.defense {
                _ if self.observations == Observations::NoScore => {
                    "estimates scores from labels of its own".into()
                }
                DefenseKnowledge::Unknown => {
                    "takes what is released for the true scores (defense unknown)".into()
                }
                DefenseKnowledge::Known => "knows the defense and its parameters".into(),
            },
            match self.observations {
                Observations::NoScore => "sees no score of the records it attacks".into(),
                Observations::ScoresOfSome { records } => {
                    format!(
                        "sees the undefended scores of {records} of the records it attacks, none of the others"
                    )
                }
                Observations::OneScorePerRecord => "sees one score per record".into(),
                Observations::Repeated { times } => format!("sees {times} releases per record"),
            },
            match self.shares {
                Shares::Honest => "sends honest logit shares".into(),
                Shares::Chosen => "may choose its logit shares".into(),
            },
        ];
        if !self.target.is_empty() {
            phrases.push(format!("is after the features of {}", self.target.join(", ")));
        }
        if !self.colluding.is_empty() {
            phrases.push(format!("is helped by {}", self.colluding.join(", ")));
        }
        if self.known_records > 0 {
            phrases.push(format!(
                "knows {} records with all their features, and so the means and covariances",
                self.known_records
            ));
        }
        if self.moments {
            phrases.push(
                "knows the means and covariances of the passive features, and no record; their owner plays it and tells its error alone"
                    .into(),
            );
        }
        if !self.features.is_empty() {
            phrases.push(format!("knows of the passive features: {}", self.features.join(", ")));
        }
        phrases
    }
}
