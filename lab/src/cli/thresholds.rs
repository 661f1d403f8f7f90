//! The options `--max-added-risk`, `--max-exact-share`, `--max-exact` and `--max-bits`.

use clap::Args;
use vfl_auditor::report::Thresholds;
use vfl_server::cli::CliError;

/// The thresholds for the policy in service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Args)]
pub struct ThresholdArgs {
    /// The largest accepted added risk, from 0 to 1, of any attribute of any passive party. The
    /// upper end of the 95 % interval of the worst one must not be above it. Not met: exit code 3,
    /// after everything is written.
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    max_added_risk: Option<f64>,
    /// The largest accepted share of records, from 0 to 1, of which an attack estimates every value
    /// to within 0.1. It adds the metric records_within. Not met: exit code 3.
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    max_exact_share: Option<f64>,
    /// The largest accepted share of records, from 0 to 1, that an attack knows it has
    /// reconstructed exactly. 0.01 if another threshold is given. Not met: exit code 3.
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    max_exact: Option<f64>,
    /// The most bits that the policy may tell about a record, whatever the model and the attacker,
    /// above 0. Exact scores have no bound and meet no limit. Not met: exit code 3.
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    max_bits: Option<f64>,
}

impl ThresholdArgs {
    /// Returns the thresholds that are given, not yet checked.
    pub(super) fn given(self) -> Thresholds {
        let Self { max_added_risk, max_exact_share, max_exact, max_bits } = self;
        Thresholds { max_added_risk, max_exact_share, max_exact, max_bits }
    }

    /// Returns the thresholds that are given, checked.
    ///
    /// # Errors
    /// [`CliError::Input`] if one is out of its range.
    pub(super) fn checked(self) -> Result<Thresholds, CliError> {
        self.given().checked().map_err(CliError::Input)
    }
}
