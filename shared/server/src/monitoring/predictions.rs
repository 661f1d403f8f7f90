//! The prediction metrics of all three parties: rows by outcome, and time.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use vfl_core::types::RowStatus;

use super::peer_metrics::durations;

/// The rows by outcome, and the time of the answers.
#[derive(Debug, Clone)]
pub struct Predictions {
    rows: Family<[(&'static str, &'static str); 1], Counter>,
    seconds: Histogram,
}

impl Default for Predictions {
    fn default() -> Self {
        Self { rows: Family::default(), seconds: durations() }
    }
}

impl Predictions {
    /// Registers the rows as `NAME_rows` and the time as `NAME_prediction`, where `of` describes
    /// the predictions.
    pub fn register(&self, registry: &mut Registry, prefix: &str, of: &str) {
        let help = format!("Rows answered by outcome: {of}");
        registry.register(format!("{prefix}rows"), help, self.rows.clone());
        let help = format!("Time from a request to its answer at this party: {of}");
        registry.register_with_unit(
            format!("{prefix}prediction"),
            help,
            Unit::Seconds,
            self.seconds.clone(),
        );
    }

    /// Counts the rows of an answer and records its duration.
    pub fn answered(&self, rows: &[RowStatus], took: Duration) {
        for status in RowStatus::ALL {
            let count = rows.iter().filter(|row| **row == status).count() as u64;
            if count > 0 {
                self.rows.get_or_create(&[("status", status.as_str())]).inc_by(count);
            }
        }
        self.seconds.observe(took.as_secs_f64());
    }
}
