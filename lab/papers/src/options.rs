//! The options of a figure's computation.

use super::curve_spec::SettingPairs;

/// The options of a figure's computation.
#[derive(Debug, Clone)]
pub struct Options {
    /// The number of test records attacked in every split; `None`: all.
    pub records: Option<usize>,
    /// The most records of every split that gradient inversion attacks, as it is slow.
    pub inversion_records: usize,
    /// Settings of gradient inversion that override the figure's own.
    pub inversion: SettingPairs,
    /// The curves to compute; empty: all.
    pub attacks: Vec<String>,
    /// The numbers of passive features; empty: the figure's own.
    pub dimensions: Vec<usize>,
    /// The number of splits for each number of passive features, as evenly spread windows; `None`:
    /// the figure's own number.
    pub windows: Option<usize>,
    /// The number of training records that an adversary fits its own model to, and that models are
    /// retrained on for a figure; `None`: all. They are the first in an order that the seed draws.
    pub own_records: Option<usize>,
    /// The seed of draws and of attacks.
    pub seed: u64,
    /// The number of threads; no figure depends on it.
    pub threads: usize,
}

impl Default for Options {
    /// Returns R's 1000 records and 100 for gradient inversion, everything in the figure, on all
    /// cores.
    fn default() -> Self {
        Self {
            records: Some(1000),
            inversion_records: 100,
            inversion: SettingPairs::new(),
            attacks: Vec::new(),
            dimensions: Vec::new(),
            windows: None,
            own_records: Some(4000),
            seed: 7,
            threads: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}
