//! How to compute a figure.

use super::contender::Pairs;

/// How to compute a figure.
#[derive(Debug, Clone)]
pub struct Options {
    /// Test records attacked in every split; all of them if `None`.
    pub records: Option<usize>,
    /// Records that gradient inversion, which is slow, attacks in every split at most.
    pub inversion_records: usize,
    /// Settings of gradient inversion over the figure's own.
    pub inversion: Pairs,
    /// Curves to compute; none named: all.
    pub attacks: Vec<String>,
    /// Numbers of passive features; none named: all of the figure.
    pub dimensions: Vec<usize>,
    /// Splits for each number of passive features: this many windows, evenly spread; `None`: the figure's own number.
    pub windows: Option<usize>,
    /// Training records, the first of these in an order that the seed draws, that an adversary fits a model of its own to, and
    /// that models are trained on again for a figure; `None`: all.
    pub own_records: Option<usize>,
    /// Seed of draws and of attacks.
    pub seed: u64,
    /// Threads at work; no figure depends on it.
    pub threads: usize,
}

impl Default for Options {
    /// R's 1000 records and 100 for gradient inversion, everything in the figure, on all cores.
    fn default() -> Self {
        Self {
            records: Some(1000),
            inversion_records: 100,
            inversion: Pairs::new(),
            attacks: Vec::new(),
            dimensions: Vec::new(),
            windows: None,
            own_records: Some(4000),
            seed: 7,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}
