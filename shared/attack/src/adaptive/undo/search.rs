//! A search of hypotheses that are too many to try them all: descent from one to its best
//! neighbour.

use super::Hypothesis;
use super::transform_evidence::{HypothesisTester, Verdict};
use crate::AttackError;

/// The most features whose signs, or order, are searched.
pub(super) const MAX_SEARCHED: usize = 24;

/// The number of records that a descent uses. The best hypothesis that it finds is judged on all.
const RECORDS: usize = 64;

/// The number of records that a neighbour of a hypothesis is tested on, in the order of the
/// release. A neighbour that explains them counts as one that explains all.
pub(super) const NEIGHBOUR_RECORDS: usize = 200;

/// The most rounds of a descent.
const ROUNDS: usize = 12;

/// The most hypotheses that all descents of one search evaluate: a second or two of one core.
const MAX_TRIED: usize = 1500;

/// The result of a search.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The verdict on the best hypothesis. If the evidence does not rule it out, also those on its
    /// neighbours that are not ruled out.
    pub(super) verdicts: Vec<Verdict>,
    /// The number of hypotheses evaluated.
    pub(super) tried: usize,
    /// True if the search ended at this limit.
    pub(super) cut: bool,
}

/// Returns the hypothesis of a state for each feature: 0 unchanged, 1 negated, 2 complemented.
fn features(states: &[usize]) -> Hypothesis {
    let of = |state| (0..states.len()).filter(|&i| states[i] == state).collect();
    Hypothesis::Features { negated: of(1), complemented: of(2) }
}

fn permutation(order: &[usize]) -> Hypothesis {
    Hypothesis::Permutation(order.to_vec())
}

/// Returns every order that differs from this one by a swap of two features.
fn swapped(order: &[usize]) -> Vec<Vec<usize>> {
    let d = order.len();
    let pairs = (0..d).flat_map(|i| (i + 1..d).map(move |j| (i, j)));
    let swap = |(i, j)| {
        let mut order = order.to_vec();
        order.swap(i, j);
        order
    };
    pairs.map(swap).collect()
}

/// Searches the signs of the features by coordinate descent from equal states. If something tells
/// the features apart, it also searches their order, by swaps of two.
pub(super) fn search(court: &HypothesisTester<'_>, d: usize) -> Result<Search, AttackError> {
    let mut search = Search::default();
    let states: &[usize] = if court.sees_complements() { &[0, 1, 2] } else { &[0, 1] };
    let changed = |at: usize, state: usize| {
        move |states: &[usize]| {
            let mut states = states.to_vec();
            states[at] = state;
            states
        }
    };
    let changes: Vec<_> =
        (0..d).flat_map(|at| states.iter().map(move |&state| changed(at, state))).collect();
    let starts = states.iter().map(|&state| vec![state; d]);
    if let Some(best) = search.descend(court, starts, &changes, features)? {
        let neighbours = changes
            .iter()
            .map(|change| change(&best))
            .filter(|other| *other != best)
            .map(|s| features(&s));
        search.judge(court, &features(&best), neighbours)?;
    }
    if court.sees_order() {
        let swap = |i: usize, j: usize| {
            move |order: &[usize]| {
                let mut order = order.to_vec();
                order.swap(i, j);
                order
            }
        };
        let swaps: Vec<_> = (0..d).flat_map(|i| (i + 1..d).map(move |j| swap(i, j))).collect();
        if let Some(best) =
            search.descend(court, std::iter::once((0..d).collect()), &swaps, permutation)?
        {
            search.judge(
                court,
                &permutation(&best),
                swapped(&best).iter().map(|o| permutation(o)),
            )?;
        }
    }
    Ok(search)
}

/// Returns the orders one swap away from the released one that the evidence does not rule out.
pub(super) fn other_orders(
    court: &HypothesisTester<'_>,
    d: usize,
) -> Result<Vec<Hypothesis>, AttackError> {
    let order: Vec<usize> = (0..d).collect();
    let mut found = Vec::new();
    for other in swapped(&order) {
        let accepted = court.accepts(&permutation(&other), NEIGHBOUR_RECORDS)?;
        found.extend(accepted.map(|v| v.hypothesis));
    }
    Ok(found)
}

impl Search {
    /// Returns the cost of a hypothesis; `None` at the limit of the search.
    fn cost(
        &mut self,
        court: &HypothesisTester<'_>,
        hypothesis: &Hypothesis,
    ) -> Result<Option<f64>, AttackError> {
        if self.tried == MAX_TRIED {
            self.cut = true;
            return Ok(None);
        }
        self.tried += 1;
        court.cost(hypothesis, RECORDS).map(Some)
    }

    /// Returns the cheapest end of the descents from `starts`.
    fn descend(
        &mut self,
        court: &HypothesisTester<'_>,
        starts: impl Iterator<Item = Vec<usize>>,
        changes: &[impl Fn(&[usize]) -> Vec<usize>],
        read: impl Fn(&[usize]) -> Hypothesis,
    ) -> Result<Option<Vec<usize>>, AttackError> {
        let mut best: Option<(f64, Vec<usize>)> = None;
        for mut at in starts {
            let Some(mut cost) = self.cost(court, &read(&at))? else { break };
            'descent: for _ in 0..ROUNDS {
                let before = cost;
                for change in changes {
                    let other = change(&at);
                    if other == at {
                        continue;
                    }
                    let Some(tried) = self.cost(court, &read(&other))? else { break 'descent };
                    if tried < cost {
                        (cost, at) = (tried, other);
                    }
                }
                if cost >= before {
                    break;
                }
            }
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, at));
            }
        }
        Ok(best.map(|(_, at)| at))
    }

    /// Judges the best on all records and, if it is not ruled out, its neighbours on the first
    /// ones.
    fn judge(
        &mut self,
        court: &HypothesisTester<'_>,
        best: &Hypothesis,
        neighbours: impl Iterator<Item = Hypothesis>,
    ) -> Result<(), AttackError> {
        let verdict = court.judge(best)?;
        // If the best is out, its neighbours are too, or as good as.
        let rejected = verdict.rejected();
        self.verdicts.push(verdict);
        if rejected {
            return Ok(());
        }
        for neighbour in neighbours {
            self.verdicts.extend(court.accepts(&neighbour, NEIGHBOUR_RECORDS)?);
        }
        Ok(())
    }
}
