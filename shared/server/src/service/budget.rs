//! The byte budget of unfinished requests that a service holds: in total, and of one caller.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::identity::PeerIdentity;

/// One caller may hold a quarter of the budget: the others then still have room.
const SHARE: usize = 4;

/// The bytes of unfinished messages, in total and by caller.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    held: AtomicUsize,
    callers: Mutex<HashMap<PeerIdentity, Arc<AtomicUsize>>>,
}

impl Budget {
    /// Creates a budget of so many bytes.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, held: AtomicUsize::new(0), callers: Mutex::default() })
    }

    /// Opens the charge of one call of a caller, which holds nothing yet.
    pub(super) fn open(self: &Arc<Self>, caller: &PeerIdentity) -> Charge {
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        // The number of entries is bounded by the parties that the authority has named and that may
        // call here.
        let caller = match callers.get(caller) {
            Some(held) => held.clone(),
            None => callers.entry(caller.clone()).or_default().clone(),
        };
        Charge { budget: self.clone(), caller, bytes: AtomicUsize::new(0) }
    }

    /// Returns the most bytes that one caller may hold.
    pub(super) fn share(&self) -> usize {
        self.most / SHARE
    }

    #[cfg(test)]
    fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

fn add(held: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let after = |now: usize| now.checked_add(bytes).filter(|sum| *sum <= most);
    held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).is_ok()
}

/// The bytes that one call holds. They are returned when it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    caller: Arc<AtomicUsize>,
    bytes: AtomicUsize,
}

impl Charge {
    /// Sets the bytes that the call holds. If that exceeds the budget, returns false and changes
    /// nothing. One call reports from one task at a time.
    pub(super) fn set(&self, bytes: usize) -> bool {
        let now = self.bytes.load(Ordering::Relaxed);
        if bytes > now {
            let more = bytes - now;
            if !add(&self.caller, more, self.budget.share()) {
                return false;
            }
            if !add(&self.budget.held, more, self.budget.most) {
                self.caller.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            self.caller.fetch_sub(now - bytes, Ordering::Relaxed);
            self.budget.held.fetch_sub(now - bytes, Ordering::Relaxed);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        true
    }
}

impl Charge {
    /// Returns true if the caller holds all that one caller may hold.
    pub(super) fn is_spent(&self) -> bool {
        self.caller.load(Ordering::Relaxed) >= self.budget.share()
    }

    /// Counts so many bytes, also beyond the budget.
    pub(super) fn force(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        for held in [&self.caller, &self.budget.held] {
            held.fetch_add(bytes, Ordering::Relaxed);
            held.fetch_sub(before, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let _ = self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(n: usize) -> PeerIdentity {
        format!("spiffe://demo/active-party/p{n}").parse().unwrap()
    }

    #[test]
    fn one_caller_leaves_room_for_the_others() {
        let budget = Budget::new(400);
        let (greedy, again) = (budget.open(&peer(1)), budget.open(&peer(1)));
        assert!(greedy.set(60) && !again.set(41) && again.set(40));
        assert!(budget.open(&peer(2)).set(100));
        drop(greedy);
        assert!(again.set(100));
    }

    proptest! {
        #[test]
        fn the_sum_is_what_the_calls_hold(steps in proptest::collection::vec((0usize..8, 0usize..120), 0..100)) {
            let budget = Budget::new(400);
            let calls: Vec<Charge> = (0..8).map(|i| budget.open(&peer(i % 5))).collect();
            let mut held = [0usize; 8];
            for (call, bytes) in steps {
                if calls[call].set(bytes) {
                    held[call] = bytes;
                }
                prop_assert_eq!(budget.held(), held.iter().sum::<usize>());
                prop_assert!(budget.held() <= 400);
                for i in 0..5 {
                    let of_one: usize = held.iter().skip(i).step_by(5).sum();
                    prop_assert!(of_one <= 100);
                }
            }
            drop(calls);
            prop_assert_eq!(budget.held(), 0);
        }
    }
}
