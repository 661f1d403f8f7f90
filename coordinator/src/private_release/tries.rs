//! Requests that come again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use vfl_protocol::{Refusal, RefusalKind};

/// The most times that a request of one name is computed.
const MOST_TRIES: u32 = 5;
/// The most names of requests that are remembered.
const REMEMBERED: usize = 1 << 16;

/// The number of times that each named request was computed: the ledger takes a request that comes
/// again for the same one, at no cost, but it is computed anew.
#[derive(Default)]
pub(super) struct Tries(Mutex<HashMap<String, u32>>);

impl Tries {
    /// Checks that a request may be computed once more.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED after [`MOST_TRIES`] times.
    pub(super) fn check(&self, request_id: &str) -> Result<(), Refusal> {
        let tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match tries.get(request_id) {
            Some(count) if *count >= MOST_TRIES => Err(Refusal::new(
                RefusalKind::ResourceExhausted,
                format!(
                    "a request is computed at most {MOST_TRIES} times; give it another id, at its cost"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Takes note that a request is computed. One without a name is charged each time.
    pub(super) fn computed(&self, request_id: String) {
        if request_id.is_empty() {
            return;
        }
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= REMEMBERED {
            tries.clear();
        }
        *tries.entry(request_id).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_named_request_is_computed_a_few_times_and_one_without_a_name_as_often_as_it_is_charged() {
        let tries = Tries::default();
        for _ in 0..MOST_TRIES {
            for name in ["a", ""] {
                tries.check(name).unwrap();
                tries.computed(name.to_owned());
            }
        }
        assert_eq!(tries.check("a").unwrap_err().kind, RefusalKind::ResourceExhausted);
        assert!(tries.check("").is_ok() && tries.check("b").is_ok());
    }
}
