//! The state that the parties of a deployment report to the auditor, without an audit.

use std::time::Duration;

use futures_util::future::join_all;
use vfl_core::data::schema::FeatureSpec;
use vfl_core::types::RecordIds;
use vfl_protocol::ledger::Summary;
use vfl_protocol::{Refusal, ShownParameters};
use vfl_server::service::{Peer, check_health};

use super::client::{Coordinator, Scoring, features};
use super::model::Model;
use super::plan::Targets;

/// The state of all parties.
pub(crate) struct DeploymentState {
    /// Ok if the coordinator answers.
    pub(crate) coordinator: Result<(), Refusal>,
    pub(crate) model: Result<Model, Refusal>,
    /// The spending in the live service; `None` if no ledger is kept.
    pub(crate) ledger: Result<Option<Summary>, Refusal>,
    /// Ok if the active party answers.
    pub(crate) active: Result<(), Refusal>,
    /// The passive parties in the order of the targets, with their features if they answer.
    pub(crate) passive: Vec<(Peer, Result<Vec<FeatureSpec>, Refusal>)>,
}

/// Asks all parties at once for their state, each for at most `patience`.
pub(crate) async fn standing(targets: &Targets, patience: Duration) -> DeploymentState {
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
        let (model, ledger) = tokio::join!(
            within(patience, peer, client.describe()),
            within(patience, peer, client.ledger())
        );
        (health, model, ledger)
    };
    let ((coordinator, model, ledger), active, passive) =
        tokio::join!(coordinator, check_health(credentials, &targets.active, patience), passive);
    DeploymentState { coordinator, model, ledger, active, passive }
}

async fn within<T>(
    patience: Duration,
    peer: &Peer,
    call: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    let late = |_| Refusal::unavailable(format!("{peer} did not answer in time"));
    tokio::time::timeout(patience, call).await.map_err(late)?
}

/// A passive party's answer when the scorings of a set of records are opened.
#[derive(Debug, Clone)]
pub(crate) struct ScoringOffer {
    /// The parameters that it shows the active party.
    pub(crate) shown: ShownParameters,
    /// The remaining budget of audits of these records.
    pub(crate) left: PartyBudget,
}

/// The remaining budget of audits of a set of records at a passive party.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PartyBudget {
    /// The number of further scorings, at a party without noise.
    Scorings(u32),
    /// The budget in ρ, at a party with noise.
    Rho {
        /// The budget left.
        left: f64,
        /// The total budget.
        total: f64,
    },
}

/// Opens the scorings of the records at every passive party, as an audit would, and closes them
/// again. Nothing is scored or spent, but from then on the parties treat these records as one set.
///
/// # Errors
/// [`Refusal`] if the coordinator does not name the model in service. The refusal of a party is in
/// its result.
pub(crate) async fn said(
    targets: &Targets,
    ids: &RecordIds,
    patience: Duration,
) -> Result<(Model, Vec<(String, Result<ScoringOffer, Refusal>)>), Refusal> {
    let client = Coordinator::new(&targets.credentials, &targets.coordinator)?;
    let model = within(patience, &targets.coordinator, client.describe()).await?;
    let version = &model.version;
    let all = join_all(targets.passive.iter().map(|peer| async move {
        let opened =
            within(patience, peer, Scoring::open(&targets.credentials, peer, version, ids)).await;
        let said = opened.map(|(_, opened)| ScoringOffer {
            shown: opened.shown,
            left: match opened.noised {
                true => PartyBudget::Rho {
                    left: opened.rho_left.unwrap_or(0.0),
                    total: opened.rho_total.or(opened.rho_left).unwrap_or(0.0),
                },
                false => PartyBudget::Scorings(opened.scorings_left),
            },
        });
        (peer.name.as_str().to_owned(), said)
    }));
    let all = all.await;
    Ok((model, all))
}
