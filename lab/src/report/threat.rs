//! What the adversary of an audit knows and does.

use serde::{Deserialize, Serialize};

/// The adversary: the active party, honest in the protocol unless `shares` says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreatModel {
    /// What it knows of the passive parties' parameters.
    pub parameters: ParameterKnowledge,
    /// What it knows of the defense.
    pub defense: DefenseKnowledge,
    /// How often it sees each record's release.
    pub observations: Observations,
    /// Which logit shares it sends.
    pub shares: Shares,
    /// The passive parties whose joint features it is after; empty means all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target: Vec<String>,
    /// Passive parties that help it: their logit shares of the records are known to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub colluding: Vec<String>,
    /// Records that it knows whole, and from them the moments of the features. 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub known_records: usize,
    /// Whether it knows the means and covariances of the passive features, and no record: their owner plays it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub moments: bool,
    /// What it knows of the passive features beside [0, 1], in words: `binary = all`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// What is known of the passive parties' parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ParameterKnowledge {
    /// The true parameters: white box.
    True,
    /// Parameters after the passive party's transform.
    Transformed,
    /// None, but some records with all their features and scores: black box.
    Auxiliary {
        /// How many such records.
        records: usize,
    },
    /// None: black box.
    Hidden,
}

/// What is known of the defense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DefenseKnowledge {
    /// Nothing, or nothing that its attacks use: the release is taken for the true scores.
    Unknown,
    /// Which defense it is, with its parameters (but no secret key).
    Known,
}

/// How often the release of one record is seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Observations {
    /// Never: what is known of a record is its other features, and labels of other records.
    NoScore,
    /// The first of the attacked records once, the others never.
    ScoresOfSome {
        /// How many.
        records: usize,
    },
    /// Once.
    OneScorePerRecord,
    /// Several times, with what randomness the defense has.
    Repeated {
        /// Times per record.
        times: u64,
    },
}

/// Which logit shares the adversary sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shares {
    /// Those of its true features and parameters.
    Honest,
    /// Any that help it.
    Chosen,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl ThreatModel {
    /// The papers' adversary: true parameters, honest shares, one score per record, all passive parties as target.
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

    /// Whether it knows records whole, or moments, so that a control knows the same without scores.
    #[must_use]
    pub fn informed(&self) -> bool {
        self.known_records > 0 || self.moments
    }

    /// Whether the scores of all attacked records are released to it. If not, the audit is of what it knows without them.
    #[must_use]
    pub fn sees_scores(&self) -> bool {
        !matches!(self.observations, Observations::NoScore | Observations::ScoresOfSome { .. })
    }

    /// What the adversary knows and does, one phrase per point.
    #[must_use]
    pub fn phrases(&self) -> Vec<String> {
        let mut phrases = vec![
            match self.parameters {
                ParameterKnowledge::True => "knows the true parameters of the model (white box)".into(),
                ParameterKnowledge::Transformed => "knows the passive parameters after a transform".into(),
                ParameterKnowledge::Auxiliary { records } => {
                    format!("knows no passive parameter, but {records} auxiliary records (black box)")
                }
                ParameterKnowledge::Hidden => "knows no passive parameter (black box)".into(),
            },
            match self.defense {
                _ if self.observations == Observations::NoScore => "estimates scores from labels of its own".into(),
                DefenseKnowledge::Unknown => "takes what is released for the true scores (defense unknown)".into(),
                DefenseKnowledge::Known => "knows the defense and its parameters".into(),
            },
            match self.observations {
                Observations::NoScore => "sees no score of the records it attacks".into(),
                Observations::ScoresOfSome { records } => {
                    format!("sees the undefended scores of {records} of the records it attacks, none of the others")
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
