//! Putting a model in service: the steps that trained and imported models share.

use std::collections::HashSet;

use vfl_core::data::schema::MAX_FEATURES;
use vfl_core::model::Link;
use vfl_core::types::{ConfidenceScores, ModelVersion, PartyName};
use vfl_defense::{NumberPipeline, Policy};
use vfl_protocol::training::messages::PublishedVersion;
use vfl_protocol::{Refusal, RefusalKind, WireError};

use crate::catalogue::PublishLock;
use crate::registry::{Manifest, Registry, TrainingSummary};

/// Refuses an active party that is not the one whose model is in service. `doing` ends the
/// sentence, such as "train another".
///
/// # Errors
/// PERMISSION_DENIED naming the owner.
pub(crate) fn check_owner(
    registry: &Registry,
    caller: &PartyName,
    doing: &str,
) -> Result<(), Refusal> {
    match registry.current() {
        Some(model) if model.manifest.active_party.name != *caller => {
            let owner = &model.manifest.active_party.name;
            let message =
                format!("the model in service is active party `{owner}`'s; only it may {doing}");
            Err(Refusal::new(RefusalKind::PermissionDenied, message))
        }
        _ => Ok(()),
    }
}

/// Runs the second phase of publishing. `confirmed` has every party bind its share to the
/// manifest's version; then, and only if all of them have, the coordinator switches. A failure
/// before the switch leaves the old version in service, whole at every party. Nobody is asked to
/// bind anything once the turn is lost.
///
/// # Errors
/// The error of `confirmed`; otherwise as [`PublishLock::check`] and [`PublishLock::publish`].
pub(crate) async fn put_in_service(
    turn: &mut PublishLock<'_>,
    manifest: Manifest,
    calibration: Option<ConfidenceScores>,
    confirmed: impl Future<Output = Result<(), Refusal>>,
) -> Result<(), Refusal> {
    turn.check().await?;
    confirmed.await?;
    turn.check().await?;
    turn.publish(manifest, calibration).await
}

/// Checks the class names of a model that is to be published.
///
/// # Errors
/// [`WireError::Range`] unless they are `least` to 65 536 distinct names of 1 to 128 bytes without
/// control characters. A model of a number has one, its label's.
pub(crate) fn check_class_names(names: &[String], least: usize) -> Result<(), WireError> {
    let distinct: HashSet<&String> = names.iter().collect();
    let good =
        |name: &String| (1..=128).contains(&name.len()) && !name.chars().any(char::is_control);
    if !(least..=65_536).contains(&names.len())
        || distinct.len() != names.len()
        || !names.iter().all(good)
    {
        let reason = match least {
            1 => "1 to 65536 distinct names of 1 to 128 bytes, one for a model of a number",
            _ => "2 to 65536 distinct names of 1 to 128 bytes",
        };
        return Err(WireError::Range { field: "class_names", reason });
    }
    Ok(())
}

/// Refuses a model of a number that the live defense could not be applied to.
pub(crate) fn check_numbers(live: &Policy, link: Link) -> Result<(), Refusal> {
    if !link.is_numeric() {
        return Ok(());
    }
    let built = NumberPipeline::build(&live.defenses, link);
    built.map(drop).map_err(|e| {
        Refusal::precondition(format!(
            "the coordinator's [defense] is `{live}`, which cannot be applied to a number: {e}"
        ))
    })
}

/// Checks the number of features that a party reports. The bound on an active party's shares of a
/// training grows with it.
///
/// # Errors
/// [`WireError::Range`] beyond what any party's data may have.
pub(crate) fn check_features(features: u32) -> Result<(), WireError> {
    if features as usize <= MAX_FEATURES {
        return Ok(());
    }
    Err(WireError::Range { field: "features", reason: "at most 10000" })
}

/// Describes the origin of a model: `training`, or, if there was none here, files; its training
/// elsewhere is then said to have used `training_ids` records. The privacy of its parties is left
/// out.
#[must_use]
pub fn published(
    version: &ModelVersion,
    training: Option<&TrainingSummary>,
    training_ids: usize,
) -> PublishedVersion {
    let version = version.clone();
    match training {
        Some(summary) => PublishedVersion {
            version,
            epochs: summary.epochs,
            best_epoch: summary.best_epoch,
            steps: summary.steps,
            training_records: summary.training_records,
            validation_records: summary.validation_records,
            imported: false,
            config: Some(summary.config.clone()),
            privacy: Vec::new(),
        },
        None => PublishedVersion {
            version,
            epochs: 0,
            best_epoch: 0,
            steps: 0,
            training_records: training_ids as u32,
            validation_records: 0,
            imported: true,
            config: None,
            privacy: Vec::new(),
        },
    }
}
