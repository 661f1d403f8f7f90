//! The policies that are computed on shares, and what the active party makes of what is opened.

use nalgebra::DMatrix;
use vfl_core::types::ReleasedScores;
use vfl_defense::{DefenseConfig, Policy};
use vfl_mpc::{Logits, MpcError, PartyIndex, Session};

/// The most decimals of scores that are rounded on shares.
const MOST_DECIMALS: u32 = 4;

/// A release that is computed on shares and opened to the active party alone.
#[derive(Debug, Clone, PartialEq)]
pub enum PrivateRelease {
    /// Exact softmax scores.
    Scores,
    /// The label.
    Label,
    /// A score for the label, and one for each other class.
    SoftLabel(Vec<f64>),
    /// One score for each rank, the best first.
    Ranking(Vec<f64>),
    /// Softmax scores rounded to so many decimals.
    Rounded(u32),
}

impl PrivateRelease {
    /// Returns the release of a policy. `rank_scores` are the scores that it gives to ranks.
    ///
    /// # Errors
    /// A message that names the policy if it is not computed on shares.
    pub fn of(policy: &Policy, rank_scores: &[f64]) -> Result<Self, String> {
        let ranks = || match rank_scores {
            [] => Err(format!("the scores that `{policy}` gives to ranks are missing")),
            scores => Ok(scores.to_vec()),
        };
        match &policy.defenses[..] {
            [] | [DefenseConfig::None {}] => Ok(Self::Scores),
            [DefenseConfig::ClassLabel { softening }] if *softening == 0.0 => Ok(Self::Label),
            [DefenseConfig::ClassLabel { .. }] => ranks().map(Self::SoftLabel),
            [DefenseConfig::Ranking {}] => ranks().map(Self::Ranking),
            [DefenseConfig::Rounding { decimals }] if *decimals <= MOST_DECIMALS => {
                Ok(Self::Rounded(*decimals))
            }
            _ => Err(format!(
                "`{policy}` is not computed on shares: none, class_label, ranking and rounding to at most {MOST_DECIMALS} decimals \
                 are, each alone; take one of them, or `release = \"plain\"` in [serving], under which the coordinator sees all scores"
            )),
        }
    }

    /// Checks that a policy is computed on shares.
    ///
    /// # Errors
    /// As [`PrivateRelease::of`].
    pub fn check(policy: &Policy) -> Result<(), String> {
        let ranks = if Self::takes_rank_scores(policy) { &[0.0; 2][..] } else { &[] };
        Self::of(policy, ranks).map(drop)
    }

    /// Returns `true` if the release takes the scores that the policy gives to ranks.
    #[must_use]
    pub fn takes_rank_scores(policy: &Policy) -> bool {
        match &policy.defenses[..] {
            [DefenseConfig::ClassLabel { softening }] => *softening != 0.0,
            [DefenseConfig::Ranking {}] => true,
            _ => false,
        }
    }

    /// Returns the release of no record.
    #[must_use]
    pub fn empty(&self, classes: usize) -> ReleasedScores {
        match self {
            Self::Label => ReleasedScores::Labels { classes, labels: Vec::new() },
            Self::Rounded(_) => ReleasedScores::Numbers(DMatrix::zeros(classes, 0)),
            _ => ReleasedScores::Probabilities(DMatrix::zeros(classes, 0)),
        }
    }

    /// Computes the release of logits, and opens it to the first party, which alone gets `Some`.
    ///
    /// # Errors
    /// Those of the session.
    pub(super) fn compute(
        &self,
        session: &mut Session,
        logits: &Logits,
    ) -> Result<Option<ReleasedScores>, MpcError> {
        let (n, k) = (logits.records(), logits.classes());
        let to = PartyIndex::FIRST;
        // What is opened is class after class.
        let columns =
            |scores: Vec<f64>| DMatrix::from_row_iterator(k, n, scores.into_iter().take(k * n));
        let ranked = |order: Vec<usize>, scores: &[f64]| {
            let mut released = vec![0.0; k];
            order.into_iter().zip(scores).for_each(|(class, score)| released[class] = *score);
            released
        };
        Ok(match self {
            Self::Scores => session
                .release_scores(to, logits)?
                .map(|scores| ReleasedScores::Probabilities(columns(scores))),
            Self::Label => session.release_label(to, logits)?.map(|labels| {
                let labels = labels.into_iter().map(|label| label as u32).collect();
                ReleasedScores::Labels { classes: k, labels }
            }),
            Self::SoftLabel(scores) => session.release_label(to, logits)?.map(|labels| {
                let others = |label| (0..k).filter(move |class| *class != label);
                let order = |label| std::iter::once(label).chain(others(label)).collect();
                let released = labels.into_iter().flat_map(|label| ranked(order(label), scores));
                ReleasedScores::Probabilities(DMatrix::from_iterator(k, n, released))
            }),
            Self::Ranking(scores) => session.release_ranking(to, logits)?.map(|orders| {
                let released = orders.into_iter().flat_map(|order| ranked(order, scores));
                ReleasedScores::Probabilities(DMatrix::from_iterator(k, n, released))
            }),
            Self::Rounded(decimals) => {
                session.release_rounded_scores(to, logits, *decimals)?.map(|units| {
                    let step = 10_f64.powi(*decimals as i32);
                    let scores = units.into_iter().map(|unit| f64::from(unit) / step).collect();
                    ReleasedScores::Numbers(columns(scores))
                })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_policy_is_computed_on_shares_or_refused_by_its_name() {
        let release = |text: &str, ranks: &[f64]| PrivateRelease::of(&text.parse().unwrap(), ranks);
        let scores = [0.7, 0.2, 0.1];
        assert_eq!(release("none", &[]), Ok(PrivateRelease::Scores));
        assert_eq!(release("class_label", &[]), Ok(PrivateRelease::Label));
        let soft = release("class_label (softening = 0.1)", &scores);
        assert_eq!(soft, Ok(PrivateRelease::SoftLabel(scores.to_vec())));
        assert_eq!(release("ranking", &scores), Ok(PrivateRelease::Ranking(scores.to_vec())));
        assert_eq!(release("rounding (decimals = 4)", &[]), Ok(PrivateRelease::Rounded(4)));
        for (text, ranks) in [
            ("ranking", &[][..]),
            ("rounding (decimals = 5)", &[]),
            ("gaussian_noise (sigma = 0.1)", &[]),
            ("top_k (k = 1)", &[]),
            ("rounding (decimals = 2) then class_label", &[]),
        ] {
            let Ok(policy) = text.parse::<Policy>() else { continue };
            let refused = PrivateRelease::of(&policy, ranks).unwrap_err();
            assert!(refused.contains(&policy.to_string()), "{refused}");
        }
    }
}
