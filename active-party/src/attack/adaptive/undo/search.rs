//! Hypotheses of which there are too many to try them all: descent from one to its best neighbour.

use super::Hypothesis;
use super::evidence::Court;
use crate::attack::AttackError;

/// The most features whose signs, or order, are searched.
pub(super) const MAX_SEARCHED: usize = 24;

/// Records that a search looks at; what it finds is judged on all.
const RECORDS: usize = 64;

/// Rounds of a descent.
const ROUNDS: usize = 12;

/// What becomes of each feature: 0 nothing, 1 negated, 2 complemented.
fn features(states: &[u8]) -> Hypothesis {
    let of = |state| (0..states.len()).filter(|&i| states[i] == state).collect();
    Hypothesis::Features { negated: of(1), complemented: of(2) }
}

/// The sign of each feature that explains most: coordinate descent from all features alike. With what else explains as much:
/// its neighbours, one feature apart.
pub(super) fn signs(court: &Court<'_>, d: usize) -> Result<Vec<Hypothesis>, AttackError> {
    let states: &[u8] = if court.sees_complements() { &[0, 1, 2] } else { &[0, 1] };
    let mut best: Option<(f64, Vec<u8>)> = None;
    for &start in states {
        let mut at = vec![start; d];
        let mut cost = court.cost(&features(&at), RECORDS)?;
        for _ in 0..ROUNDS {
            let before = cost;
            for i in 0..d {
                for &state in states {
                    let old = std::mem::replace(&mut at[i], state);
                    let tried = if old == state { cost } else { court.cost(&features(&at), RECORDS)? };
                    if tried < cost {
                        cost = tried;
                    } else {
                        at[i] = old;
                    }
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
    let Some((_, mut at)) = best else { return Ok(Vec::new()) };
    let mut found = vec![features(&at)];
    for i in 0..d {
        for &state in states {
            let old = std::mem::replace(&mut at[i], state);
            if old != state {
                found.push(features(&at));
            }
            at[i] = old;
        }
    }
    Ok(found)
}

/// The order of the features that explains most, by swaps of two, with its neighbours.
pub(super) fn orders(court: &Court<'_>, d: usize) -> Result<Vec<Hypothesis>, AttackError> {
    let mut at: Vec<usize> = (0..d).collect();
    let mut cost = court.cost(&Hypothesis::Permutation(at.clone()), RECORDS)?;
    let pairs = || (0..d).flat_map(|i| (i + 1..d).map(move |j| (i, j)));
    for _ in 0..ROUNDS {
        let before = cost;
        for (i, j) in pairs() {
            at.swap(i, j);
            let tried = court.cost(&Hypothesis::Permutation(at.clone()), RECORDS)?;
            if tried < cost {
                cost = tried;
            } else {
                at.swap(i, j);
            }
        }
        if cost >= before {
            break;
        }
    }
    let mut found = vec![Hypothesis::Permutation(at.clone())];
    for (i, j) in pairs() {
        at.swap(i, j);
        found.push(Hypothesis::Permutation(at.clone()));
        at.swap(i, j);
    }
    Ok(found)
}
