//! The pieces of a demonstration that several processes compute.

use tokio::runtime::Handle;
use vfl_auditor::report::Report;
use vfl_demo::{DemoPlan, PieceSummary, Sharing, share};
use vfl_present::progress::say;
use vfl_present::result_cache::Shard;
use vfl_server::cli::CliError;

/// Computes pieces, and returns the report if all exist.
pub(super) async fn shared(plan: DemoPlan, sharing: Sharing) -> Result<Option<Report>, CliError> {
    let (runtime, at) = (Handle::current(), sharing.clone());
    if let Some(Shard { part, of }) = sharing.shard {
        say(&format!("part {part} of {of}"));
    }
    let came = tokio::task::spawn_blocking(move || share(&plan, &at, &runtime))
        .await
        .map_err(CliError::failed)?;
    let PieceSummary { computed, kept, fetched, elsewhere, unstored, report } =
        came.map_err(|e| CliError::Failed(format!("{e:#}")))?;
    let from_store = if sharing.store.is_some() {
        format!("; from the store: {fetched}")
    } else {
        String::new()
    };
    say(&format!("pieces computed: {computed}; there already: {kept}{from_store}"));
    let out = sharing.out.display();
    let place = sharing.store.as_ref().map_or_else(|| out.to_string(), ToString::to_string);
    if unstored > 0 {
        return Err(CliError::Failed(format!(
            "{unstored} pieces are not in the store {place}, but all of them are in {out}: run the same command again when the store can be \
             written to"
        )));
    }
    match elsewhere {
        _ if report.is_some() => {}
        0 => say("the pieces of all parts are there: --merge makes the report"),
        _ => {
            say(&format!(
                "{elsewhere} pieces of other parts are not in {out}: --merge makes the report once all parts are in {place}"
            ));
        }
    }
    Ok(report)
}
