//! `align`: a client of the running service.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use vfl_core::types::{PartyName, RecordIds, RecordIdsBuilder};
use vfl_protocol::alignment::Summary;
use vfl_protocol::pb::align_job_event::Event;
use vfl_protocol::{LIST_CHUNK_RECORDS, pb};
use vfl_server::cli::CliError;

use super::client::{connect, failure, read_ids};
use crate::config::ClientSettings;

/// The interval of progress lines if standard error is not a terminal.
const SELDOM: Duration = Duration::from_secs(10);

/// The arguments of `active-party align`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  active-party align --config active.toml --passive-party bank --out common.ids

The service must be running (`active-party serve`), and both parties must allow alignments ([alignment] in their config files). Both \
learn which ids they have in common and how many each has, and nothing else; the coordinator learns how many each has. The ids in \
common are written sorted, one a line, readable by their owner alone. The passive party has the same file.

A run counts for `max_runs` of each party from the moment that anything depending on its ids leaves it, also if it is cut off then. \
docs/alignment.md has the protocol.")]
pub struct AlignArgs {
    /// The config file of the running service (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// The passive party, by the name in its certificate.
    #[arg(long, value_name = "NAME")]
    passive_party: String,
    /// A file with the ids to align, one a line, all held by this party. Default: those of `ids` in
    /// [alignment], or all that it holds.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
    /// The output file for the ids in common.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

impl AlignArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let settings = ClientSettings::read(&self.config).map_err(CliError::input)?;
        let passive = PartyName::new(self.passive_party.as_str())
            .map_err(|e| CliError::Input(format!("--passive-party: {e}")))?;
        let ids = self.ids.as_deref().map(read_ids).transpose()?;
        let mut client = connect(&settings)?;
        let failed = |status: &tonic::Status| failure(&settings.service, status);
        let requests = tokio_stream::iter(requests(&passive, ids.as_ref()));
        let mut events = client.align(requests).await.map_err(|s| failed(&s))?.into_inner();
        let mut progress = ProgressLine::new();
        let mut common = RecordIdsBuilder::default();
        while let Some(event) = events.message().await.map_err(|s| failed(&s))? {
            match event.event {
                Some(Event::Progress(p)) => progress.tell(&p),
                Some(Event::Common(ids)) => {
                    let ids = RecordIds::try_from(ids).map_err(|e| wrong(&e))?;
                    ids.iter().for_each(|id| common.push(id));
                }
                Some(Event::Done(summary)) => {
                    progress.end();
                    let common = common.finish().map_err(|e| wrong(&e))?;
                    return self.keep(&passive, &common, &summary.into());
                }
                None => {}
            }
        }
        Err(CliError::failed("the service ended the alignment without a word"))
    }

    fn keep(
        &self,
        passive: &PartyName,
        common: &RecordIds,
        summary: &Summary,
    ) -> Result<(), CliError> {
        if common.len() as u64 != summary.common {
            return Err(wrong(&"fewer ids than it says"));
        }
        let text: String = common.iter().flat_map(|id| [id, "\n"]).collect();
        vfl_state::files::write_atomic(&self.out, text.as_bytes(), true).map_err(|e| {
            let state = "the service has kept them in its state directory, under alignments/";
            CliError::Failed(format!("cannot write {}: {e}; {state}", self.out.display()))
        })?;
        let said = if self.json { json(summary) } else { words(passive, summary) };
        writeln!(std::io::stdout(), "{said}").map_err(CliError::failed)
    }
}

fn wrong(error: &dyn std::fmt::Display) -> CliError {
    CliError::Failed(format!("our own service answered with {error}"))
}

/// Builds the messages of a request: the name of the passive party in the first, and the ids in
/// chunks.
fn requests(passive: &PartyName, ids: Option<&RecordIds>) -> Vec<pb::AlignJobRequest> {
    let count = ids.map_or(0, RecordIds::len);
    let chunks = (0..count).step_by(LIST_CHUNK_RECORDS);
    let mut all: Vec<pb::AlignJobRequest> = chunks
        .filter_map(|from| ids.map(|ids| ids.slice(from, from + LIST_CHUNK_RECORDS)))
        .map(|chunk| pb::AlignJobRequest { passive_party: String::new(), ids: Some(chunk.into()) })
        .collect();
    if all.is_empty() {
        all.push(pb::AlignJobRequest::default());
    }
    all[0].passive_party = passive.as_str().to_owned();
    all
}

fn words(passive: &PartyName, s: &Summary) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "{} of {} records are held by `{passive}` too, which holds {}; run {}, {:.1} s, {:.1} MiB sent, {:.1} MiB received; runs left with \
         `{passive}`: {}",
        s.common,
        s.sizes.own,
        s.sizes.theirs,
        s.run,
        s.milliseconds as f64 / 1000.0,
        mib(s.sent_bytes),
        mib(s.received_bytes),
        s.runs_left
    )
}

fn json(s: &Summary) -> String {
    serde_json::json!({
        "own": s.sizes.own,
        "theirs": s.sizes.theirs,
        "common": s.common,
        "milliseconds": s.milliseconds,
        "sent_bytes": s.sent_bytes,
        "received_bytes": s.received_bytes,
        "run": s.run,
        "runs_left": s.runs_left,
    })
    .to_string()
}

/// The progress on standard error: one line overwritten in place on a terminal, otherwise a line
/// every [`SELDOM`].
struct ProgressLine {
    live: bool,
    told: Option<Instant>,
}

impl ProgressLine {
    fn new() -> Self {
        Self { live: std::io::stderr().is_terminal(), told: None }
    }

    fn tell(&mut self, p: &pb::AlignmentProgress) {
        let line = format!("{}: {} of {}", p.stage, p.done, p.total);
        let mut err = std::io::stderr();
        if self.live {
            let _ = write!(err, "\r{line:<78}").and_then(|()| err.flush());
        } else if self.told.is_none_or(|told| told.elapsed() >= SELDOM) {
            let _ = writeln!(err, "{line}");
            self.told = Some(Instant::now());
        }
    }

    fn end(&self) {
        if self.live {
            let _ = writeln!(std::io::stderr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_the_passive_party_once_and_every_id() {
        let passive = PartyName::new("bank").unwrap();
        let ids = RecordIds::new((0..LIST_CHUNK_RECORDS + 1).map(|i| format!("r{i}"))).unwrap();
        let sent = requests(&passive, Some(&ids));
        let names: Vec<&str> = sent.iter().map(|m| m.passive_party.as_str()).collect();
        assert_eq!(names, ["bank", ""]);
        let again = sent.into_iter().flat_map(|m| {
            let ids = RecordIds::try_from(m.ids.unwrap()).unwrap();
            ids.iter().map(str::to_owned).collect::<Vec<_>>()
        });
        assert_eq!(RecordIds::new(again).unwrap(), ids);
        assert_eq!(
            requests(&passive, None),
            [pb::AlignJobRequest { passive_party: "bank".into(), ids: None }]
        );
    }
}
