//! The options `--max-added-risk` and `--max-exact-share`.

use clap::Args;
use vfl_shared::cli::CliError;

use crate::report::Thresholds;

/// What is demanded of the policy in service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct ThresholdArgs {
    /// The largest added risk that is accepted, from 0 to 1. The upper end of the 95 % interval of the strongest informed attack
    /// must not be above it. Not met: exit code 3, after everything is written.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    max_added_risk: Option<f64>,
    /// The largest share of records, from 0 to 1, of which any attack may estimate every value to within 0.1. It adds the metric
    /// records_within. Not met: exit code 3.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    max_exact_share: Option<f64>,
}

impl ThresholdArgs {
    /// What is given here, not yet checked.
    pub(super) fn given(self) -> Thresholds {
        Thresholds { max_added_risk: self.max_added_risk, max_exact_share: self.max_exact_share }
    }

    /// The thresholds given here.
    ///
    /// # Errors
    /// [`CliError::Input`] if one is no number from 0 to 1.
    pub(super) fn checked(self) -> Result<Thresholds, CliError> {
        Thresholds::new(self.max_added_risk, self.max_exact_share).map_err(CliError::Input)
    }
}
