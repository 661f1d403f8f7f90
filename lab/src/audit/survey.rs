//! What the parties of a deployment say of themselves to its auditor, without an audit.

use std::time::Duration;

use futures_util::future::join_all;
use vfl_coordinator::ledger::Summary;
use vfl_shared::data::FeatureSpec;
use vfl_shared::rpc::Refusal;
use vfl_shared::service::{Peer, check_health};
use vfl_shared::transform::ShownParameters;
use vfl_shared::types::RecordIds;

use super::client::{Coordinator, Scoring, features};
use super::model::Model;
use super::plan::Targets;

/// How the parties stand.
pub(crate) struct Standing {
    /// Whether the coordinator answers.
    pub(crate) coordinator: Result<(), Refusal>,
    /// The model in service.
    pub(crate) model: Result<Model, Refusal>,
    /// What was spent in the live service; `None`: no ledger is kept.
    pub(crate) ledger: Result<Option<Summary>, Refusal>,
    /// Whether the active party answers.
    pub(crate) active: Result<(), Refusal>,
    /// The passive parties in the order of the targets: their features if they answer.
    pub(crate) passive: Vec<(Peer, Result<Vec<FeatureSpec>, Refusal>)>,
}

/// Asks all parties at once how they stand; none has longer than `patience`.
pub(crate) async fn standing(targets: &Targets, patience: Duration) -> Standing {
    let credentials = &targets.credentials;
    let passive = join_all(targets.passive.iter().map(|peer| async move {
        let health = check_health(credentials, peer, patience).await;
        let described = match health {
            Ok(()) => within(patience, peer, features(credentials, peer)).await,
            Err(refusal) => Err(refusal),
        };
        (peer.clone(), described)
    }));
    let peer = &targets.coordinator;
    let coordinator = async {
        let health = check_health(credentials, peer, patience).await;
        let client = match health.clone().and_then(|()| Coordinator::new(credentials, peer)) {
            Ok(client) => client,
            Err(refusal) => return (health, Err(refusal.clone()), Err(refusal)),
        };
        let (model, ledger) =
            tokio::join!(within(patience, peer, client.describe()), within(patience, peer, client.ledger()));
        (health, model, ledger)
    };
    let ((coordinator, model, ledger), active, passive) =
        tokio::join!(coordinator, check_health(credentials, &targets.active, patience), passive);
    Standing { coordinator, model, ledger, active, passive }
}

async fn within<T>(
    patience: Duration,
    peer: &Peer,
    call: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let late = |_| Refusal::unavailable(format!("{peer} did not answer in time"));
    tokio::time::timeout(patience, call).await.map_err(late)?
}

/// What a passive party says as the scorings of a set of records are opened.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    /// What it shows the active party of its parameters.
    pub(crate) shown: ShownParameters,
    /// What audits of these records have left.
    pub(crate) left: Left,
}

/// What audits of a set of records have left at a passive party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Left {
    /// It answers without noise so many times more.
    Scorings(u32),
    /// It answers with noise: what is left of what the records may cost, both in ρ.
    Rho {
        /// What is left.
        left: f64,
        /// All of it.
        total: f64,
    },
}

/// Opens the scorings of the records at every passive party, as an audit of them would, and closes them again: nothing is scored or
/// spent, and from then on these records are one set to the parties.
///
/// # Errors
/// [`Refusal`] if the coordinator does not say which model is in service. That of a party stands in its place.
pub(crate) async fn said(
    targets: &Targets,
    ids: &RecordIds,
    patience: Duration,
) -> Result<(Model, Vec<(String, Result<Said, Refusal>)>), Refusal> {
    let client = Coordinator::new(&targets.credentials, &targets.coordinator)?;
    let model = within(patience, &targets.coordinator, client.describe()).await?;
    let version = &model.version;
    let all = join_all(targets.passive.iter().map(|peer| async move {
        let opened = within(patience, peer, Scoring::open(&targets.credentials, peer, version, ids)).await;
        let said = opened.map(|(_, opened)| Said {
            shown: opened.shown,
            left: match opened.noised {
                true => Left::Rho { left: opened.rho_left, total: opened.rho_total.unwrap_or(opened.rho_left) },
                false => Left::Scorings(opened.scorings_left),
            },
        });
        (peer.name.as_str().to_owned(), said)
    }));
    let all = all.await;
    Ok((model, all))
}
