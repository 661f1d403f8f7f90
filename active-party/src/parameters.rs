//! The passive parameters as their owners release them: as an adversary takes them, and as what it is told makes of them.

use std::sync::Arc;
use std::time::Duration;

use nalgebra::{DMatrix, DVector};
use tonic::transport::Channel;
use vfl_shared::rpc::pb::passive_party_client::PassivePartyClient;
use vfl_shared::rpc::{Refusal, RefusalKind, WireError, decode_columns, pb, peer_failure, require};
use vfl_shared::service::Peer;

use crate::attack::{AttackError, KnownModel};
use crate::scoring::{ModelDescription, Scorer};
use crate::told::undone;

/// What the active party knows of the model.
pub(crate) struct Known {
    /// With the parameters as released; a black box if one party releases none.
    pub(crate) released: Arc<KnownModel>,
    /// With what was told of their transforms turned back, if that is possible and there is any.
    pub(crate) undone: Option<Undone>,
}

/// A model whose transforms were turned back.
#[derive(Clone)]
pub(crate) struct Undone {
    pub(crate) model: Arc<KnownModel>,
    /// What was told, party by party.
    pub(crate) told: String,
}

/// One party's release.
struct Released {
    /// k × d.
    weights: DMatrix<f64>,
    /// What is added to the bias to read them, k.
    shift: DVector<f64>,
    /// What was told of transforms; empty if nothing.
    transform: String,
    /// Whether anything is told at all.
    disclosed: bool,
}

impl Known {
    /// Asks every passive party of the model for the parameters it releases.
    ///
    /// # Errors
    /// [`Refusal`] naming the party that is down or answers with nonsense. A refusal to release is no error.
    pub(crate) async fn ask(
        scorer: &Scorer,
        passive: &[(Peer, PassivePartyClient<Channel>)],
        timeout: Duration,
        model: &ModelDescription,
        target: usize,
    ) -> Result<Self, Refusal> {
        let share = scorer.share(&model.version)?;
        let internal = |e: AttackError| Refusal::internal(e.to_string());
        let linear = share.linear()?;
        let Some(bias) = linear.bias().cloned() else {
            return Err(Refusal::internal("this party's share has no bias"));
        };
        let w_act = linear.weights().clone();
        let k = w_act.nrows();
        let mut parts = Vec::with_capacity(model.passive_parties.len());
        for (name, features) in &model.passive_parties {
            let found = passive.iter().find(|(peer, _)| peer.name.as_str() == name);
            let part = match found {
                Some((peer, client)) => ask(peer, client.clone(), timeout, model, *features, k).await?,
                None => None,
            };
            let Some(part) = part else {
                let released = KnownModel::black_box(w_act, bias, target).map_err(internal)?;
                return Ok(Self { released: Arc::new(released), undone: None });
            };
            parts.push((name, part));
        }
        let undone = turned_back(&w_act, &bias, &parts).map(|found| {
            let told = parts.iter().filter(|(_, p)| !p.transform.is_empty());
            let told: Vec<String> = told.map(|(name, p)| format!("{name}: {}", p.transform)).collect();
            found.map(|model| Undone { model: Arc::new(model), told: told.join("; ") })
        });
        let undone = undone.transpose().map_err(internal)?;
        let shift = parts.iter().fold(bias, |bias, (_, p)| bias + &p.shift);
        let weights = side_by_side(k, parts.iter().map(|(_, p)| &p.weights));
        let released = Arc::new(KnownModel::white_box(w_act, shift, weights).map_err(internal)?);
        Ok(Self { released, undone })
    }
}

/// The model with all transforms turned back; `None` if one is not told well enough, or if there are none.
fn turned_back(
    w_act: &DMatrix<f64>,
    bias: &DVector<f64>,
    parts: &[(&String, Released)],
) -> Option<Result<KnownModel, AttackError>> {
    if parts.iter().any(|(_, p)| !p.disclosed) || parts.iter().all(|(_, p)| p.transform.is_empty()) {
        return None;
    }
    let found = parts.iter().map(|(_, p)| undone(&p.weights, &p.transform)).collect::<Option<Vec<_>>>()?;
    let shifted = found.iter().fold(bias.clone(), |bias, (_, shift)| bias + shift);
    let weights = side_by_side(w_act.nrows(), found.iter().map(|(weights, _)| weights));
    Some(KnownModel::white_box(w_act.clone(), shifted, weights))
}

fn side_by_side<'a>(k: usize, blocks: impl Iterator<Item = &'a DMatrix<f64>>) -> DMatrix<f64> {
    let values: Vec<f64> = blocks.flat_map(|b| b.as_slice().iter().copied()).collect();
    DMatrix::from_vec(k, values.len() / k.max(1), values)
}

/// What one party releases; `None` if its policy grants nothing.
async fn ask(
    peer: &Peer,
    mut client: PassivePartyClient<Channel>,
    timeout: Duration,
    model: &ModelDescription,
    features: usize,
    k: usize,
) -> Result<Option<Released>, Refusal> {
    let request = pb::ReleaseParametersRequest { model_version: model.version.as_str().to_owned() };
    let answer = match tokio::time::timeout(timeout, client.release_parameters(request)).await {
        Err(_) => {
            return Err(Refusal::new(RefusalKind::DeadlineExceeded, format!("{peer} did not answer in time")));
        }
        Ok(Err(status)) if status.code() == tonic::Code::PermissionDenied => return Ok(None),
        Ok(Err(status)) => return Err(peer_failure(&peer.to_string(), &status)),
        Ok(Ok(answer)) => answer.into_inner(),
    };
    let disclosed = answer.kind() != pb::release_parameters_response::Kind::Undisclosed;
    let matrix = require("weights", answer.weights)?;
    let wrong = |e: WireError| Refusal::internal(format!("{peer} answered with {e}"));
    // One row per class on the wire: the transpose of one record per row.
    let weights = decode_columns("weights", &matrix, k, Some(features)).map_err(wrong)?.transpose();
    let shift = match answer.bias_shift.len() {
        0 => DVector::zeros(k),
        n if n == k && answer.bias_shift.iter().all(|v| v.is_finite()) => DVector::from_vec(answer.bias_shift),
        _ => {
            let reason = "one finite number per class, or none";
            return Err(wrong(WireError::Range { field: "bias_shift", reason }));
        }
    };
    Ok(Some(Released { weights, shift, transform: answer.transform, disclosed }))
}
