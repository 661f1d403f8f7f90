//! Publishes imported parameters, from the active party's side: it sends a description of its
//! staged share, binds the share to the version it receives, and waits until the model is in
//! service.

use std::sync::Arc;
use std::time::Duration;

use vfl_core::types::{PartyName, RecordIds};
use vfl_party::training::Importer;
use vfl_protocol::training::messages::{
    PublishCommand, PublishReply, PublishStart, PublishedVersion,
};
use vfl_protocol::{LIST_CHUNK_RECORDS, Refusal, RefusalKind};
use vfl_server::service::off_thread;

use crate::scoring::Scorer;

/// The longest time of a publication. The coordinator has a time limit for each party and names the
/// one that was silent.
const PATIENCE: Duration = Duration::from_secs(600);

/// Publishes the staged parameters as a model of `class_names`. `training_ids` are the records that
/// the training elsewhere used; the list may be empty.
///
/// # Errors
/// [`Refusal`] of this party's own staging, or the coordinator's about itself or the passive
/// parties. The model in service stays in service.
pub async fn publish(
    scorer: &Scorer,
    importer: &Arc<Importer>,
    name: &PartyName,
    class_names: &[String],
    training_ids: &RecordIds,
) -> Result<PublishedVersion, Refusal> {
    let (of, classes, party) = (importer.clone(), class_names.to_vec(), name.clone());
    let (staged, share) = off_thread("publishing", move || of.staged(&party, &classes)).await?;
    let start = PublishStart {
        class_names: class_names.to_vec(),
        features: share.model().features() as u32,
        digest: staged.digest.clone(),
        training_id_count: training_ids.len() as u32,
        sub_model: Some(share.model().spec().clone()),
    };
    let conversation = converse(scorer, importer, name, start, training_ids);
    tokio::time::timeout(PATIENCE, conversation).await.map_err(|_| {
        let message =
            format!("{} did not publish in {} s", scorer.coordinator().peer(), PATIENCE.as_secs());
        Refusal::new(RefusalKind::DeadlineExceeded, message)
    })?
}

async fn converse(
    scorer: &Scorer,
    importer: &Arc<Importer>,
    name: &PartyName,
    start: PublishStart,
    training_ids: &RecordIds,
) -> Result<PublishedVersion, Refusal> {
    let (class_names, digest) = (start.class_names.clone(), start.digest.clone());
    let (tell, mut heard) = scorer.coordinator().publish(PublishReply::Start(start)).await?;
    let feed = async {
        for from in (0..training_ids.len()).step_by(LIST_CHUNK_RECORDS) {
            let to = (from + LIST_CHUNK_RECORDS).min(training_ids.len());
            let chunk = training_ids.slice(from, to);
            if !tell.send(PublishReply::TrainingIds(chunk)).await {
                // The coordinator has ended the stream; `read` receives the reason.
                return;
            }
        }
    };
    let read = async {
        let mut bound = false;
        loop {
            match heard.next().await? {
                PublishCommand::Publish(binding) if !bound => {
                    if binding.digest != digest {
                        return Err(Refusal::precondition(
                            "publish: `digest` is not that of the share staged here",
                        ));
                    }
                    let (of, party) = (importer.clone(), name.clone());
                    let (classes, share) = (class_names.clone(), digest.clone());
                    off_thread("publishing", move || {
                        of.bind(&party, &classes, &binding.version, &share)
                    })
                    .await?;
                    bound = true;
                    if !tell.send(PublishReply::Published).await {
                        return Err(heard.ended());
                    }
                }
                PublishCommand::Published(published) if bound => {
                    tracing::info!(version = %published.version, "imported parameters are in service");
                    return Ok(published);
                }
                _ => {
                    let wanted = if bound { "the last word" } else { "the version" };
                    return Err(Refusal::invalid(format!(
                        "publishing protocol: expected {wanted}"
                    )));
                }
            }
        }
    };
    let mut read = std::pin::pin!(read);
    tokio::select! {
        biased;
        answer = &mut read => answer,
        () = feed => read.await,
    }
}
