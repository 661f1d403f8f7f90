//! Requests that come again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use vfl_protocol::{Refusal, RefusalKind};

/// The most times that a request of one name is computed.
const MOST_TRIES: u32 = 5;
/// The most names of requests that are remembered.
const REMEMBERED: usize = 1 << 16;

/// The number of times that each named request came: the ledger takes a request that comes again
/// for the same one, at no cost, but it is computed anew.
#[derive(Default)]
pub(super) struct Tries(Mutex<HashMap<String, u32>>);

impl Tries {
    /// Takes note of one more try.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED after [`MOST_TRIES`].
    pub(super) fn one_more(&self, request_id: &str) -> Result<(), Refusal> {
        if request_id.is_empty() {
            return Ok(());
        }
        let mut tries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tries.len() >= REMEMBERED {
            tries.clear();
        }
        let count = tries.entry(request_id.to_owned()).or_default();
        *count += 1;
        match *count > MOST_TRIES {
            true => Err(Refusal::new(
                RefusalKind::ResourceExhausted,
                format!(
                    "a request is computed at most {MOST_TRIES} times; give it another id, at its cost"
                ),
            )),
            false => Ok(()),
        }
    }
}
