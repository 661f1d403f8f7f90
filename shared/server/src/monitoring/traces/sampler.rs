//! The sampling of traces: a share of the requests that begin here, and those that a caller
//! samples, limited by a rate.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::context::Context;
use super::queue::Counts;

/// The sampler of one party. A caller that marks its trace as sampled requests spans, within the
/// limit of the rate.
#[derive(Debug)]
pub(super) struct Sampler {
    share: f64,
    rate: Rate,
    counts: Counts,
}

impl Sampler {
    /// Creates a sampler that takes this share, 0 to 1, of the requests without a trace, and at
    /// most so many spans per second of all requests.
    pub(super) fn new(share: f64, spans_per_second: u32, counts: Counts) -> Self {
        Self { share, rate: Rate::new(spans_per_second, Instant::now()), counts }
    }

    /// Returns true if a request is to be recorded.
    pub(super) fn takes(&self, parent: Option<Context>) -> bool {
        let wanted = match parent {
            Some(parent) => parent.sampled,
            None => self.share > 0.0 && rand::random_range(0.0..1.0) < self.share,
        };
        let taken = wanted && self.rate.open(Instant::now());
        if wanted && !taken {
            self.counts.limited();
        }
        taken
    }

    /// Counts a span of a recorded request that has begun.
    pub(super) fn spend(&self) {
        self.rate.spend();
    }
}

/// A token bucket, with one token per span, which fills in a second. A request begins only if there
/// is a token. Its spans may overdraw the bucket, so that no trace is cut in the middle; the debt
/// is paid off before the next request.
#[derive(Debug)]
struct Rate {
    per_second: f64,
    /// The tokens, and the time at which they were counted.
    bucket: Mutex<(f64, Instant)>,
}

impl Rate {
    fn new(per_second: u32, now: Instant) -> Self {
        let per_second = f64::from(per_second);
        Self { per_second, bucket: Mutex::new((per_second, now)) }
    }

    fn open(&self, now: Instant) -> bool {
        let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, at) = *bucket;
        let more = now.saturating_duration_since(at).as_secs_f64() * self.per_second;
        *bucket = ((tokens + more).min(self.per_second), now.max(at));
        bucket.0 >= 1.0
    }

    fn spend(&self) {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner).0 -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn whoever_asks_for_spans_gets_no_more_than_the_rate() {
        let began = Instant::now();
        let rate = Rate::new(10, began);
        let mut spans = 0;
        // A hundred seconds of a caller that has every call traced, a thousand a second and five
        // spans each.
        for call in 0..100_000_u64 {
            if rate.open(began + Duration::from_millis(call)) {
                (0..5).for_each(|_| rate.spend());
                spans += 5;
            }
        }
        assert!((995..=1015).contains(&spans), "{spans}");
        // A trace that has begun is whole, and what it took is paid off.
        let rate = Rate::new(10, began);
        assert!(rate.open(began));
        (0..30).for_each(|_| rate.spend());
        assert!(!rate.open(began + Duration::from_millis(2050)));
        assert!(rate.open(began + Duration::from_millis(2150)));
    }

    #[test]
    fn a_caller_decides_for_its_trace_and_the_share_for_others() {
        let parent = |sampled| Some(Context::root(sampled));
        let never = Sampler::new(0.0, 1000, Counts::default());
        assert!(never.takes(parent(true)) && !never.takes(parent(false)) && !never.takes(None));
        let always = Sampler::new(1.0, 1000, Counts::default());
        assert!(always.takes(parent(true)) && !always.takes(parent(false)) && always.takes(None));
        let half = Sampler::new(0.5, 1000, Counts::default());
        let taken = (0..10_000).filter(|_| half.takes(None)).count();
        // Outside of this once in 10^15 runs.
        assert!((4600..=5400).contains(&taken), "{taken}");
    }
}
