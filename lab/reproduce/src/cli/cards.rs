//! The command `cloison reproduce --all`.

use std::io::Write;
use std::path::Path;

use vfl_papers::cards::{Plan, RunSummary, Summary, Verdict, make, read_folder, shelf, summary};
use vfl_present::progress::say;
use vfl_present::result_cache::Shard;
use vfl_server::cli::CliError;
use vfl_state::files::write_atomic;

/// Returns the name of the file with the seconds that each card took when it was computed. They
/// differ from run to run, so no other file has them. Parts that run at the same time have a file
/// each.
fn times_file(shard: Option<Shard>) -> String {
    shard.map_or("times.json".into(), |Shard { part, of }| format!("times-{part}-of-{of}.json"))
}

/// Computes all cards, those of a folder or those of the program, and writes the page once all
/// exist.
pub(super) fn all_cards(plan: &Plan, folder: Option<&Path>) -> Result<(), CliError> {
    let shelf = folder.map_or_else(shelf, read_folder).map_err(CliError::input)?;
    let RunSummary { documents, computed, kept, fetched, failed, left_out, elsewhere, unstored } =
        make(&shelf.cards, plan).map_err(|e| CliError::Failed(e.to_string()))?;
    let seconds = computed.iter().fold(0.0, |sum, (_, seconds)| sum + seconds);
    let from_store =
        if plan.store.is_some() { format!("; from the store: {fetched}") } else { String::new() };
    say(&format!(
        "cards computed: {} in {seconds:.0} s; there already: {kept}{from_store}",
        computed.len()
    ));
    keep_times(&plan.out.join(times_file(plan.shard)), &computed)?;
    for (id, why) in &left_out {
        say(&format!("left out by --quick: {id}: {why}"));
    }
    for (id, why) in &failed {
        say(&format!("not computed: {id}: {why}"));
    }
    let stored = match &plan.store {
        Some(url) if unstored > 0 => Err(CliError::Failed(format!(
            "{unstored} cards and models are not in the store {url}, but all of them are in {}: run the same command again when the store \
             can be written to",
            plan.out.display()
        ))),
        _ => Ok(()),
    };
    if elsewhere > 0 {
        let place =
            plan.store.as_ref().map_or_else(|| plan.out.display().to_string(), ToString::to_string);
        say(&format!(
            "{elsewhere} cards of other parts are not there: without --shard, the page is made once all parts are in {place}"
        ));
        return stored;
    }
    let Summary { verdicts, html, markdown, json, wrong } =
        summary(&shelf, &documents, plan.quick).map_err(CliError::failed)?;
    for (name, text) in [("index.html", &html), ("README.md", &markdown), ("results.json", &json)] {
        write(&plan.out.join(name), text)?;
    }
    let mut out = std::io::stdout();
    for verdict in Verdict::ALL {
        let count = verdicts.iter().filter(|v| **v == verdict).count();
        // A reader that stops early (`| head`) is not a failure.
        let _ = writeln!(out, "{:<16}{count:>4}", verdict.as_str());
    }
    say(&format!("written: {}", plan.out.join("index.html").display()));
    wrong.iter().for_each(|what| say(what));
    let judged = match (failed.len(), wrong.len()) {
        (0, 0) => return stored,
        (0, n) => format!("{n} things are to be put right in the cards, see above"),
        (n, _) => format!("{n} cards could not be computed; the page says \"not made\" of them"),
    };
    if let Err(why) = stored {
        say(&why.to_string());
    }
    Err(CliError::Failed(judged))
}

/// Adds the times of this run to those of earlier ones.
fn keep_times(path: &Path, computed: &[(String, f64)]) -> Result<(), CliError> {
    if computed.is_empty() {
        return Ok(());
    }
    let read =
        |text: String| serde_json::from_str::<std::collections::BTreeMap<String, f64>>(&text).ok();
    let mut times = std::fs::read_to_string(path).ok().and_then(read).unwrap_or_default();
    times.extend(computed.iter().cloned());
    let text = serde_json::to_string_pretty(&times).map_err(CliError::failed)?;
    write(path, &format!("{text}\n"))
}

fn write(path: &Path, text: &str) -> Result<(), CliError> {
    write_atomic(path, text.as_bytes(), false)
        .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", path.display())))
}
