//! The policies that a search tries, in ladders. On each ladder a rung reveals no more than those
//! before it, so that bisection finds the first rung that meets a threshold.

use vfl_defense::policy::PurifierTraining;
use vfl_defense::{DefenseConfig, Policy};

/// Policies from the one that reveals most to the one that reveals least, and the state of the
/// search.
#[derive(Debug, Clone)]
pub(super) struct Ladder {
    rungs: Vec<Policy>,
    /// All rungs below this index do not meet the threshold.
    low: usize,
    /// The lowest rung known to meet it; the number of rungs if none is known.
    high: usize,
}

impl Ladder {
    fn new(rungs: Vec<Policy>) -> Self {
        Self { low: 0, high: rungs.len(), rungs }
    }

    /// Returns the name of the first defense that is fitted on scores of the model's training;
    /// `None` if no rung has one.
    pub(super) fn fitted(&self) -> Option<&'static str> {
        let defenses = self.rungs.iter().flat_map(|policy| &policy.defenses);
        defenses.into_iter().find(|defense| defense.fitted()).map(DefenseConfig::name)
    }

    /// Returns the most rungs that the search tests.
    pub(super) fn questions(&self) -> usize {
        (usize::BITS - self.rungs.len().leading_zeros()) as usize
    }

    /// Returns the rung to test next, `None` if the search is over.
    pub(super) fn next(&self) -> Option<(usize, &Policy)> {
        let rung = usize::midpoint(self.low, self.high);
        self.rungs.get(rung).filter(|_| self.low < self.high).map(|policy| (rung, policy))
    }

    /// Records the result of a tested rung.
    pub(super) fn told(&mut self, rung: usize, meets: bool) {
        if meets { self.high = self.high.min(rung) } else { self.low = self.low.max(rung + 1) }
    }

    /// Returns all rungs.
    #[cfg(test)]
    pub(super) fn rungs(&self) -> &[Policy] {
        &self.rungs
    }

    /// Returns the first rung that meets the threshold; `None` before the search is over, or if
    /// none does.
    pub(super) fn found(&self) -> Option<usize> {
        (self.low == self.high && self.high < self.rungs.len()).then_some(self.high)
    }
}

/// Returns the ladders for a model of so many classes. Defenses at the logits that need the passive
/// weights are left out, as a coordinator seldom has these.
pub(super) fn ladders(classes: usize) -> Vec<Ladder> {
    let ladder =
        |rungs: Vec<DefenseConfig>| Ladder::new(rungs.into_iter().map(Policy::of).collect());
    let rounding = |decimals| DefenseConfig::Rounding { decimals };
    let noise = |sigma| DefenseConfig::GaussianNoise { sigma };
    let top_k = |k: usize| DefenseConfig::TopK { k: k as u32 };
    let mut sizes: Vec<u32> =
        [256, 128, 64, 32, 16, 8, 4].into_iter().filter(|s| *s as usize > classes).collect();
    sizes.push(classes as u32);
    // All classes but one, half of them and so on, down to the largest alone.
    let mut kept: Vec<usize> =
        std::iter::successors(Some(classes - 1), |k| (*k > 1).then_some(k / 2)).collect();
    kept.dedup();
    let chain =
        |decimals| Policy { defenses: vec![top_k(1), rounding(decimals)], ..Policy::default() };
    let privee = |epsilon| DefenseConfig::PriveeDp {
        sigma: None,
        epsilon: Some(epsilon),
        delta: 1e-5,
        sensitivity: 0.1,
        template: Default::default(),
        as_published: false,
    };
    let mut all = vec![
        ladder(vec![DefenseConfig::None {}]),
        ladder((0..=4).rev().map(rounding).collect()),
        ladder([0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0].map(noise).into()),
        ladder(kept.into_iter().map(top_k).collect()),
        Ladder::new((0..=3).rev().map(chain).collect()),
        ladder(vec![DefenseConfig::Temperature { temperature: 4.0 }]),
        ladder([1.0, 0.1, 0.01].map(privee).into()),
        ladder(vec![DefenseConfig::OrderPreservingEncryption {}]),
        ladder(vec![DefenseConfig::Ranking {}]),
        ladder(sizes.into_iter().map(|size| DefenseConfig::Codebook { size }).collect()),
        ladder(vec![DefenseConfig::ClassLabel { softening: 0.0 }]),
        ladder(
            [4.0, 2.0, 1.0, 0.5].map(|epsilon| DefenseConfig::RandomizedLabel { epsilon }).into(),
        ),
    ];
    if classes <= vfl_defense::purifier::MAX_CLASSES {
        let purifier = |training| DefenseConfig::Purifier { training, label_weight: 0.0 };
        all.extend(
            [PurifierTraining::Scores, PurifierTraining::Random]
                .map(|of| ladder(vec![purifier(of)])),
        );
    }
    all.retain(|ladder| !ladder.rungs.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use vfl_defense::Pipeline;

    use super::*;

    /// Wherever the threshold lies, the search finds the first rung that meets it, with no more
    /// tests than announced.
    #[test]
    fn what_is_fitted_stands_on_ladders_of_its_own() {
        let fitted: Vec<&str> = ladders(3).iter().filter_map(Ladder::fitted).collect();
        assert!(fitted.contains(&"codebook") && fitted.contains(&"purifier"), "{fitted:?}");
        let others = ladders(3).into_iter().filter(|ladder| ladder.fitted().is_none());
        assert!(
            others
                .flat_map(|ladder| ladder.rungs)
                .flat_map(|rung| rung.defenses)
                .all(|defense| !defense.fitted())
        );
    }

    #[test]
    fn halving_finds_the_first_rung_that_meets_the_threshold() {
        for rungs in 1..9usize {
            for first in 0..=rungs {
                let policies = (0..rungs as u32)
                    .map(|decimals| Policy::of(DefenseConfig::Rounding { decimals }));
                let mut ladder = Ladder::new(policies.collect());
                let most = ladder.questions();
                let mut asked = 0;
                while let Some((rung, _)) = ladder.next() {
                    assert_eq!(ladder.found(), None);
                    ladder.told(rung, rung >= first);
                    asked += 1;
                }
                assert_eq!(ladder.found(), (first < rungs).then_some(first), "{first} of {rungs}");
                assert!(
                    asked <= most,
                    "{asked} questions for {rungs} rungs, at most {most} were said"
                );
            }
        }
    }

    /// Every policy is one that a coordinator accepts, for few classes and for many; none occurs
    /// twice.
    #[test]
    fn every_rung_is_a_policy_that_a_coordinator_takes() {
        for classes in [2, 3, 6, 10, 100, 1000] {
            let mut seen = Vec::new();
            for policy in ladders(classes).into_iter().flat_map(|ladder| ladder.rungs) {
                Pipeline::check(&policy.defenses).unwrap();
                let fits = policy.defenses.iter().all(|d| match d {
                    DefenseConfig::TopK { k } => (1..classes).contains(&(*k as usize)),
                    DefenseConfig::Codebook { size } => *size as usize >= classes,
                    _ => true,
                });
                assert!(fits, "{policy} for {classes} classes");
                assert!(!seen.contains(&policy), "{policy} comes twice for {classes} classes");
                seen.push(policy);
            }
        }
    }
}
