//! `train` and `predict`: clients of the running service.

use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::types::{RecordIds, ReleasedScores, RowStatus};
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_protocol::pb::release::Kind;
use vfl_protocol::pb::train_job_event::Event;
use vfl_protocol::{
    MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError, broken, pb, peer_failure, read_scores,
    require,
};
use vfl_server::cli::CliError;
use vfl_server::service::{Peer, channel};

use crate::config::ClientSettings;
use crate::predict::most_records;

/// The number of records in one call of `predict`.
const CALL_RECORDS: usize = 8192;
/// The number of records in the first call, which tells the number of classes: the scores fit a
/// message for up to 8000 classes.
const FIRST_RECORDS: usize = 256;

/// The arguments of `active-party train`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  active-party train --config active.toml
The service must be running (`active-party serve`), and the coordinator must allow training. [model] in the config file says \
what each party trains (`kind = \"softmax_regression\"`, `\"mlp\"` or `\"residual\"`) and how the coordinator combines the outputs \
(`combiner = \"sum\"` or `\"concat\"`). The first of each is the default.")]
pub struct TrainArgs {
    /// The config file of the running service (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// A file with the ids to train on, one a line; overrides the config's `train_ids`.
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,
}

/// The arguments of `active-party predict`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  active-party predict --config active.toml --ids customers.ids --out scores.csv
The output has a row per scored record: id, then a column per class (or `label`), and `status` if the config has a [fallback]. \
Records that could not be scored are left out and counted on standard error.")]
pub struct PredictArgs {
    /// The config file of the running service (TOML).
    #[arg(long, value_name = "FILE", env = "CLOISON_CONFIG")]
    config: PathBuf,
    /// A file with the ids to score, one a line.
    #[arg(long, value_name = "FILE")]
    ids: PathBuf,
    /// The output file for the scores (CSV); `-` for standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
}

pub(super) fn read_ids(path: &Path) -> Result<RecordIds, CliError> {
    vfl_features::read_ids(path).map_err(CliError::input)
}

pub(super) fn connect(
    settings: &ClientSettings,
) -> Result<ActivePartyClient<tonic::transport::Channel>, CliError> {
    let channel = channel(&settings.credentials, &settings.service).map_err(CliError::input)?;
    Ok(ActivePartyClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES))
}

pub(super) fn failure(service: &Peer, status: &tonic::Status) -> CliError {
    if broken(status) {
        let refusal = peer_failure(&format!("our own service, {service},"), status);
        return CliError::Failed(format!("{refusal}; start it with `active-party serve`"));
    }
    CliError::failed(Refusal::said(RefusalKind::from_code(status.code()), status.message()))
}

impl TrainArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let settings = ClientSettings::read(&self.config).map_err(CliError::input)?;
        if let Some(notice) = &settings.notice {
            let _ = writeln!(std::io::stderr(), "note: {notice}");
        }
        let ids = match self.ids.as_ref().or(settings.train_ids.as_ref()) {
            Some(path) => Some(read_ids(path)?),
            None => None,
        };
        let request = pb::TrainJobRequest {
            config: Some((&settings.training).into()),
            ids: ids.as_ref().map(Into::into),
        };
        let mut client = connect(&settings)?;
        let failed = |status: &tonic::Status| failure(&settings.service, status);
        let mut events = client.train(request).await.map_err(|s| failed(&s))?.into_inner();
        let live = std::io::stderr().is_terminal();
        let mut err = std::io::stderr();
        while let Some(event) = events.message().await.map_err(|s| failed(&s))? {
            match event.event {
                Some(Event::Progress(p)) => {
                    let validation = match (p.validation_loss, p.validation_accuracy) {
                        (Some(loss), Some(right)) => {
                            format!(", validation loss {loss:.4}, accuracy {right:.3}")
                        }
                        _ => String::new(),
                    };
                    let loss = p.training_loss.map(|loss| format!(": loss {loss:.4}"));
                    let loss = loss.unwrap_or_default();
                    let line = format!("epoch {:>4} of {}{loss}{validation}", p.epoch, p.epochs);
                    let _ = if live {
                        write!(err, "\r{line:<78}").and_then(|()| err.flush())
                    } else if p.epoch % 10 == 1 {
                        writeln!(err, "{line}")
                    } else {
                        Ok(())
                    };
                }
                Some(Event::Published(p)) => {
                    if live {
                        let _ = writeln!(err);
                    }
                    let line = format!(
                        "model {} is in service: {} training and {} validation records, {} epochs, epoch {} published",
                        p.model_version,
                        p.training_records,
                        p.validation_records,
                        p.epochs,
                        p.best_epoch
                    );
                    let private = privacy_lines(&p).map_err(|e| {
                        CliError::Failed(format!(
                            "{line}\nour own service says of the privacy what cannot be: {e}"
                        ))
                    })?;
                    return writeln!(std::io::stdout(), "{line}{private}")
                        .map_err(CliError::failed);
                }
                None => {}
            }
        }
        Err(CliError::failed("the service ended the training without a word"))
    }
}

/// Returns a line for each party that trained with privacy.
fn privacy_lines(published: &pb::TrainingPublished) -> Result<String, WireError> {
    let mut lines = String::new();
    for pb::training_published::PartyPrivacy { party, privacy } in &published.privacy {
        let privacy = PrivacyStatement::try_from(&require("privacy", *privacy)?)?;
        lines.push_str(&format!("\nprivacy of the parameters of `{party}`: {privacy}"));
    }
    Ok(lines)
}

impl PredictArgs {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let settings = ClientSettings::read(&self.config).map_err(CliError::input)?;
        let ids = read_ids(&self.ids)?;
        let mut client = connect(&settings)?;
        // A new name for each run, so that the same command again is another request.
        let name = format!("predict-{:016x}", rand::random_range(0..=u64::MAX));
        let mut rows = Vec::new();
        let mut failed = Vec::new();
        let (mut model, mut answered) = (None, None);
        let mut own = 0;
        let (mut from, mut records) = (0, FIRST_RECORDS);
        while from < ids.len() {
            let chunk = ids.slice(from, from + records);
            // With a request id the service asks again, at no cost, if a coordinator stops during
            // the call.
            let request_id = format!("{name}/{from}");
            let answer =
                client.predict(pb::ScoreRequest { ids: Some((&chunk).into()), request_id }).await;
            let answer = answer.map_err(|s| failure(&settings.service, &s))?.into_inner();
            let wrong = |e| CliError::Failed(format!("our own service answered with {e}"));
            // Where the fallback alone answers, there is no version.
            let version = &answer.model_version;
            if !version.is_empty() && *model.get_or_insert_with(|| version.clone()) != *version {
                let message = "another model was published while the records were being scored; score them again";
                return Err(CliError::failed(message));
            }
            let kind = answer.release.as_ref().and_then(|r| r.kind.as_ref());
            // Scores that need not sum to 1 are scores too.
            let is_scores =
                kind.is_some_and(|k| matches!(k, Kind::Probabilities(_) | Kind::Numbers(_)));
            let kind = kind.filter(|_| !is_scores).map(std::mem::discriminant);
            let form = (answer.class_names.clone(), is_scores, kind);
            if *answered.get_or_insert_with(|| form.clone()) != form {
                let message = "answers have different forms, those of the parties together and those of the fallback; score the records again";
                return Err(CliError::failed(message));
            }
            records = CALL_RECORDS.min(most_records(&answer.class_names));
            let classes = &answer.class_names;
            let scores = answer.release.as_ref();
            let read = read_scores(&answer.row_status, scores, chunk.len(), classes.len());
            let (status, released) = read.map_err(wrong)?;
            let scored: Vec<usize> =
                (0..status.len()).filter(|&at| status[at].is_scored()).collect();
            let marks = scored.iter().map(|&at| status[at].as_str());
            let marks = settings.fallback.then(|| marks.collect::<Vec<_>>());
            let written = (&chunk.select(&scored), marks.as_deref());
            write_rows(&mut rows, from == 0, classes, written, &released)
                .map_err(CliError::failed)?;
            own += status.iter().filter(|status| **status == RowStatus::Fallback).count();
            failed.extend(status.into_iter().filter(|status| !status.is_scored()));
            from += chunk.len();
        }
        if self.out.as_os_str() == "-" {
            let mut out = BufWriter::new(std::io::stdout().lock());
            out.write_all(&rows).and_then(|()| out.flush()).map_err(CliError::failed)?;
        } else {
            vfl_state::files::write_atomic(&self.out, &rows, true).map_err(|e| {
                CliError::Failed(format!("cannot write {}: {e}", self.out.display()))
            })?;
        }
        if own > 0 {
            let all = ids.len();
            let _ =
                writeln!(std::io::stderr(), "{own} of {all} records have scores of the fallback");
        }
        for status in RowStatus::ALL {
            let records = failed.iter().filter(|failed| **failed == status).count();
            if records > 0 {
                let _ = writeln!(
                    std::io::stderr(),
                    "{records} of {} records could not be scored: {}",
                    ids.len(),
                    why_not(status)
                );
            }
        }
        match ids.len() - failed.len() {
            0 => Err(CliError::Unmet(
                "no record was scored; if no party holds them, compare how ids are written here and there (`check` of a party with its data in memory tells the forms)".into(),
            )),
            _ => Ok(()),
        }
    }
}

/// Returns the reason why a record was not scored.
fn why_not(status: RowStatus) -> &'static str {
    match status {
        RowStatus::NotFound => "a party does not hold them",
        RowStatus::TrainingRecord => "they were used in training",
        RowStatus::NotInSession => "they are not part of the audit session",
        RowStatus::ShareChanged => {
            "they were asked for before with another logit share, which is the one that counts"
        }
        RowStatus::BudgetSpent => {
            "the coordinator's budget of queries or of bits about them is spent"
        }
        RowStatus::ModelBudgetSpent => {
            "they were answered under as many models as the coordinator allows; its operator may approve this version"
        }
        RowStatus::Ok | RowStatus::Fallback => "no reason was given",
    }
}

fn write_rows(
    out: &mut Vec<u8>,
    header: bool,
    classes: &[String],
    (ids, marks): (&RecordIds, Option<&[&str]>),
    released: &ReleasedScores,
) -> std::io::Result<()> {
    let cells = |column: &dyn Fn(usize) -> Vec<String>| -> Vec<Vec<String>> {
        (0..ids.len()).map(column).collect()
    };
    let (columns, rows) = match released {
        ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => {
            (classes, cells(&|at| m.column(at).iter().map(f64::to_string).collect()))
        }
        ReleasedScores::Ciphertexts(m) => {
            (classes, cells(&|at| m.column(at).iter().map(u64::to_string).collect()))
        }
        ReleasedScores::Labels { labels, .. } => {
            let name = |at: usize| classes.get(labels[at] as usize).cloned().unwrap_or_default();
            (&["label".to_owned()][..], cells(&|at| vec![name(at)]))
        }
    };
    // Writing to a vector in memory cannot fail. csv quotes the fields that need it.
    let mut csv = csv::Writer::from_writer(out);
    if header {
        let status = marks.map(|_| "status");
        let names = std::iter::once("id").chain(columns.iter().map(String::as_str));
        csv.write_record(names.chain(status))?;
    }
    for (at, (id, row)) in ids.iter().zip(&rows).enumerate() {
        let status = marks.map(|marks| marks[at]);
        let row = std::iter::once(id).chain(row.iter().map(String::as_str));
        csv.write_record(row.chain(status))?;
    }
    csv.flush()
}
