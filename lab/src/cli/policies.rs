//! The policies that a demonstration audits.

use vfl_core::model::Link;
use vfl_defense::{NumberPipeline, Pipeline, Policy};
use vfl_demo::{default_number_policies, default_policies, every_policy};
use vfl_present::progress::say;
use vfl_server::cli::CliError;

/// Parses the policies: `all` stands for every defense, none for those of the demo.
pub(super) fn policies(texts: &[String], classes: usize) -> Result<Vec<Policy>, CliError> {
    let mut policies = Vec::new();
    for text in texts {
        if text == "all" {
            policies.extend(every_policy(classes));
            continue;
        }
        let policy: Policy = text.parse().map_err(CliError::input)?;
        Pipeline::check(&policy.defenses)
            .map_err(|e| CliError::Input(format!("policy `{policy}`: {e}")))?;
        policies.push(policy);
    }
    if policies.is_empty() {
        policies = default_policies();
    }
    Ok(policies)
}

/// Parses the policies for a model of a number; the default ones if none are named.
pub(super) fn number_policies(
    texts: &[String],
    link: Link,
    range: (f64, f64),
) -> Result<Vec<Policy>, CliError> {
    if texts.is_empty() {
        let policies = default_number_policies(range);
        if policies.len() < 2 {
            let (lower, upper) = range;
            say(&format!("no bins are tried: none are between {lower:e} and {upper:e}"));
        }
        return Ok(policies);
    }
    let parsed = texts.iter().map(|text| {
        let policy: Policy = text.parse().map_err(CliError::input)?;
        NumberPipeline::build(&policy.defenses, link)
            .map_err(|e| CliError::Input(format!("policy `{policy}`: {e}")))?;
        Ok(policy)
    });
    parsed.collect()
}
