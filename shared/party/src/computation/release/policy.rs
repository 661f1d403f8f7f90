//! The policies that are computed on shares, and what the active party makes of what is opened.

use nalgebra::DMatrix;
use vfl_core::model::Link;
use vfl_core::types::ReleasedScores;
use vfl_defense::{Bins, DefenseConfig, Policy};
use vfl_mpc::{
    LARGEST_THRESHOLD, Logits, MOST_THRESHOLDS, MOST_WORDS, MpcError, PartyIndex, Session,
};

/// The most decimals of scores that are rounded on shares.
const MOST_DECIMALS: u32 = 4;
/// The most bins of a number.
const MOST_BINS: usize = MOST_THRESHOLDS + 1;
/// The way out for a policy that is not computed on shares.
const PLAIN: &str = "`mode = \"plain\"` in [serving], under which the coordinator sees all scores";

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
    /// The largest softmax scores, rounded, and 0 for the other classes.
    RoundedTop {
        /// The number of scores that are not 0 by rule.
        largest: usize,
        /// Their decimals.
        decimals: u32,
    },
    /// The nearest of these vectors to the softmax scores, among those of the predicted class.
    Word(Vec<Vec<f64>>),
    /// A number, exact.
    Number(Link),
    /// The middle of the bin that a number lies in.
    Bin {
        /// The linear predictors at which the next bin begins, rising.
        thresholds: Vec<f64>,
        /// The middle of each bin.
        middles: Vec<f64>,
    },
}

/// The outputs of a model whose answers are computed on shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelOutputs {
    /// The number of classes; 1 for a number.
    pub classes: usize,
    /// The link: scores of classes, or a number.
    pub link: Link,
}

impl PrivateRelease {
    /// Returns the release of a policy. `vectors` are those that it releases, one after the other,
    /// of a number for each of `classes`: one that gives scores to ranks, or the words of a
    /// codebook.
    ///
    /// # Errors
    /// A message that names the policy if it is not computed on shares, or if its vectors are
    /// missing.
    pub fn of(
        policy: &Policy,
        vectors: &[f64],
        ModelOutputs { classes, link }: ModelOutputs,
    ) -> Result<Self, String> {
        if link.is_numeric() {
            return Self::of_number(policy, link);
        }
        if link == Link::OneVsRest && !Self::is_of_order(policy) {
            return Err(format!(
                "`{policy}` is not computed on shares for a one-vs-rest model: class_label is; take that, or {PLAIN}"
            ));
        }
        let ranks = || match vectors.len() == classes {
            true => Ok(vectors.to_vec()),
            false => Err(format!("the scores that `{policy}` gives to ranks are missing")),
        };
        match policy.defenses[..] {
            [] | [DefenseConfig::None {}] => Ok(Self::Scores),
            [DefenseConfig::ClassLabel { softening: 0.0 }] => Ok(Self::Label),
            [DefenseConfig::ClassLabel { .. }] => ranks().map(Self::SoftLabel),
            [DefenseConfig::Ranking {}] => ranks().map(Self::Ranking),
            [DefenseConfig::Rounding { decimals }] if decimals <= MOST_DECIMALS => {
                Ok(Self::Rounded(decimals))
            }
            [DefenseConfig::TopK { k }, DefenseConfig::Rounding { decimals }]
                if decimals <= MOST_DECIMALS =>
            {
                Ok(Self::RoundedTop { largest: k as usize, decimals })
            }
            [DefenseConfig::Codebook { size }] if size as usize <= MOST_WORDS => {
                let words: Vec<Vec<f64>> =
                    vectors.chunks(classes.max(1)).map(<[f64]>::to_vec).collect();
                match words.len() {
                    0 => Err(format!("the words of `{policy}` are missing")),
                    got if got > size as usize => {
                        Err(format!("`{policy}` came with {got} words, more than its size"))
                    }
                    _ => Ok(Self::Word(words)),
                }
            }
            [DefenseConfig::TopK { k }] => Err(format!(
                "`{policy}` is not computed on shares, `top_k (k = {k}) then rounding (decimals = {MOST_DECIMALS})` is: take that, \
                 or {PLAIN}"
            )),
            _ => Err(format!(
                "`{policy}` is not computed on shares: none, class_label, ranking, codebook of at most {MOST_WORDS} words, rounding \
                 to at most {MOST_DECIMALS} decimals, and top_k with such rounding behind it are; take one of them, or {PLAIN}"
            )),
        }
    }

    /// Returns the release of a policy of numbers.
    fn of_number(policy: &Policy, link: Link) -> Result<Self, String> {
        match policy.defenses[..] {
            [] | [DefenseConfig::None {}] => Ok(Self::Number(link)),
            [DefenseConfig::Bins { lower, upper, count }] if count as usize <= MOST_BINS => {
                let bins = Bins::new(lower, upper, count).map_err(|e| e.to_string())?;
                let thresholds = bins.edges().map(|edge| link.predictor(edge)).collect();
                let middles = (0..count).map(|place| bins.middle(place)).collect();
                Ok(Self::Bin { thresholds, middles })
            }
            _ => Err(format!(
                "`{policy}` is not computed on shares for a model of a number: none and at most {MOST_BINS} bins are; take one of them, \
                 or {PLAIN}"
            )),
        }
    }

    /// Checks that a policy is computed on shares, of classes or of numbers.
    ///
    /// # Errors
    /// As [`PrivateRelease::of`].
    pub fn check(policy: &Policy) -> Result<(), String> {
        if let [DefenseConfig::Bins { .. }] = policy.defenses[..] {
            return Self::of_number(policy, Link::Identity).map(drop);
        }
        let vectors = if Self::takes_ranks(policy) || Self::takes_words(policy) {
            &[0.5; 2][..]
        } else {
            &[]
        };
        Self::of(policy, vectors, ModelOutputs { classes: 2, link: Link::Softmax }).map(drop)
    }

    /// Checks that a policy is computed on shares for a model of this link.
    ///
    /// # Errors
    /// As [`PrivateRelease::of`].
    pub fn check_for(policy: &Policy, link: Link) -> Result<(), String> {
        match link {
            Link::Softmax => Self::check(policy),
            _ => Self::of(policy, &[0.5; 2], ModelOutputs { classes: 2, link }).map(drop),
        }
    }

    /// Returns `true` if the release depends on the order of the classes alone, which is that of
    /// the outputs under every link of classes.
    fn is_of_order(policy: &Policy) -> bool {
        matches!(
            policy.defenses[..],
            [DefenseConfig::ClassLabel { .. }] | [DefenseConfig::Ranking {}]
        )
    }

    /// Returns `true` if the release takes the scores that the policy gives to ranks.
    #[must_use]
    pub fn takes_ranks(policy: &Policy) -> bool {
        match policy.defenses[..] {
            [DefenseConfig::ClassLabel { softening }] => softening != 0.0,
            [DefenseConfig::Ranking {}] => true,
            _ => false,
        }
    }

    /// Returns `true` if the release takes the words of a codebook.
    #[must_use]
    pub fn takes_words(policy: &Policy) -> bool {
        matches!(policy.defenses[..], [DefenseConfig::Codebook { .. }])
    }

    /// Returns the release of no record.
    #[must_use]
    pub fn empty(&self, classes: usize) -> ReleasedScores {
        match self {
            Self::Label => ReleasedScores::Labels { classes, labels: Vec::new() },
            Self::Rounded(_) | Self::RoundedTop { .. } | Self::Number(_) | Self::Bin { .. } => {
                ReleasedScores::Numbers(DMatrix::zeros(classes, 0))
            }
            _ => ReleasedScores::Probabilities(DMatrix::zeros(classes, 0)),
        }
    }

    /// Returns the most numbers of a record that are compared at once.
    pub(super) fn comparisons(&self, classes: usize) -> usize {
        match self {
            Self::Bin { thresholds, .. } => thresholds.len().max(1),
            _ => classes,
        }
    }

    /// Computes the release of logits in this unit, and opens it to the first party, which alone
    /// gets `Some`.
    ///
    /// # Errors
    /// Those of the session.
    pub(super) fn compute(
        &self,
        session: &mut Session,
        logits: &Logits,
        unit: f64,
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
        let rounded = |units: Vec<u16>, decimals: u32| {
            let step = 10_f64.powi(decimals as i32);
            let scores = units.into_iter().map(|unit| f64::from(unit) / step).collect();
            ReleasedScores::Numbers(columns(scores))
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
            Self::Rounded(decimals) => session
                .release_rounded_scores(to, logits, *decimals)?
                .map(|units| rounded(units, *decimals)),
            Self::RoundedTop { largest, decimals } => session
                .release_rounded_top(to, logits, *largest, *decimals)?
                .map(|units| rounded(units, *decimals)),
            Self::Word(words) => session.release_word(to, logits, words)?.map(|nearest| {
                let released = nearest.into_iter().filter_map(|at| words.get(at)).flatten();
                ReleasedScores::Probabilities(DMatrix::from_iterator(k, n, released.copied()))
            }),
            Self::Number(link) => session.release_logits(to, logits)?.map(|predictors| {
                let number = |eta: f64| link.number(eta * unit).clamp(-f64::MAX, f64::MAX);
                ReleasedScores::Numbers(columns(predictors.into_iter().map(number).collect()))
            }),
            Self::Bin { thresholds, middles } => {
                // Beyond this no sum comes.
                let within = |t: &f64| (t / unit).clamp(-LARGEST_THRESHOLD, LARGEST_THRESHOLD);
                let thresholds: Vec<f64> = thresholds.iter().map(within).collect();
                session.release_place(to, logits, &thresholds)?.map(|places| {
                    let middles = places.into_iter().filter_map(|place| middles.get(place));
                    ReleasedScores::Numbers(columns(middles.copied().collect()))
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
        let outputs = ModelOutputs { classes: 3, link: Link::Softmax };
        let release = |text: &str, vectors: &[f64]| {
            PrivateRelease::of(&text.parse().unwrap(), vectors, outputs)
        };
        let scores = [0.7, 0.2, 0.1];
        assert_eq!(release("none", &[]), Ok(PrivateRelease::Scores));
        assert_eq!(release("class_label", &[]), Ok(PrivateRelease::Label));
        let soft = release("class_label (softening = 0.1)", &scores);
        assert_eq!(soft, Ok(PrivateRelease::SoftLabel(scores.to_vec())));
        assert_eq!(release("ranking", &scores), Ok(PrivateRelease::Ranking(scores.to_vec())));
        assert_eq!(release("rounding (decimals = 4)", &[]), Ok(PrivateRelease::Rounded(4)));
        let top = release("top_k (k = 2) then rounding (decimals = 3)", &[]);
        assert_eq!(top, Ok(PrivateRelease::RoundedTop { largest: 2, decimals: 3 }));
        let words = release("codebook (size = 3)", &scores.repeat(2));
        assert_eq!(words, Ok(PrivateRelease::Word(vec![scores.to_vec(); 2])));
        for (text, vectors) in [
            ("ranking", &[][..]),
            ("codebook (size = 3)", &[]),
            ("codebook (size = 3)", &[0.5; 12]),
            ("codebook (size = 257)", &[0.5; 3]),
            ("rounding (decimals = 5)", &[]),
            ("gaussian_noise (sigma = 0.1)", &[]),
            ("top_k (k = 1)", &[]),
            ("rounding (decimals = 2) then top_k (k = 1)", &[]),
            ("temperature (temperature = 2.0) then class_label", &[]),
        ] {
            let policy: Policy = text.parse().unwrap();
            let refused = PrivateRelease::of(&policy, vectors, outputs).unwrap_err();
            assert!(refused.contains(&policy.to_string()), "{refused}");
            let alone = PrivateRelease::check(&policy).is_err();
            assert_eq!(alone, !matches!(text, "ranking" | "codebook (size = 3)"), "{text}");
        }
    }
}
