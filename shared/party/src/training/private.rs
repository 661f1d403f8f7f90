//! A data holder's part of a private training.

use std::time::Duration;

use nalgebra::DMatrix;
use tokio::sync::mpsc;
use vfl_core::model::contract::start_of;
use vfl_core::model::{Parameters, SubModel, kinds};
use vfl_core::types::LogitShare;
use vfl_protocol::training::computation::ComputationLayout;
use vfl_protocol::training::messages::{Command, Progress, Ready, Reply, Step};
use vfl_protocol::training::{CommandStream, Conversation};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_server::service::Credentials;
use vfl_state::blocking::waiting;
use vfl_state::journal::Proposal;

use super::blocks::RemoteRecords;
use super::events::{TrainingEvent, max_batch, unexpected};
use super::gate::AdmittedTraining;
use super::source::{RecordSource, TrainingRecords};
use crate::computation::{Member, Places, Program, TrainingLabels};

/// The time that another party may take for one message.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time in which the coordinator says why a computation ended.
const REASON: Duration = Duration::from_secs(5);
/// The most records of which the coordinator may have logit shares.
const CALIBRATION_RECORDS: usize = 10_000;
/// The epochs that may wait to be reported.
const REPORTS: usize = 1024;

/// The access of a party to private trainings.
#[derive(Clone, Copy)]
pub struct PrivateAccess<'a> {
    /// The identity with which it opens sessions with other data holders.
    pub credentials: &'a Credentials,
    /// The labels of the records, at the active party.
    pub labels: Option<TrainingLabels<'a>>,
}

/// A private training that this party was asked to take part in.
pub(super) struct PrivateTask {
    pub(super) proposal: Proposal,
    pub(super) layout: ComputationLayout,
    pub(super) records: TrainingRecords,
}

/// Checks that the party can take part in a private training; returns what it needs.
pub(super) fn check_private<'a>(
    access: Option<PrivateAccess<'a>>,
    layout: Option<&ComputationLayout>,
    privacy: bool,
) -> Result<PrivateAccess<'a>, Refusal> {
    let access = access
        .ok_or_else(|| Refusal::precondition("this party takes no part in private trainings"))?;
    if layout.is_none() {
        return Err(Refusal::invalid("`layout`: missing, in a private training"));
    }
    if privacy {
        return Err(Refusal::precondition(
            "`privacy` in [training] is of plain trainings: parameters trained on secret shares take no noise; leave it out, or \
             train with `mode = \"plain\"`",
        ));
    }
    Ok(access)
}

/// Computes with the other parties until this one has its parameters.
pub(super) async fn compute<S: CommandStream>(
    talk: &mut Conversation<'_, S>,
    source: &dyn RecordSource,
    access: PrivateAccess<'_>,
    task: PrivateTask,
    admitted: &mut Option<AdmittedTraining>,
    on_event: &mut (impl FnMut(TrainingEvent) + Send),
) -> Result<OwnModel, Refusal> {
    let PrivateTask { proposal, layout, records } = task;
    let calibration = layout.calibration;
    let block = whole_block(source, &proposal, records).await?;
    let classes = u32::try_from(proposal.class_names.len()).unwrap_or(u32::MAX);
    let sub_model = Some(proposal.config.values().model.sub_model(classes)?);
    let ready = Ready { features: block.nrows() as u32, sub_model };
    talk.reply(Reply::Ready(ready)).await?;
    let features = match talk.next().await? {
        Command::Compute { features } => features,
        other => return Err(unexpected("compute", &other)),
    };
    let name = access.credentials.identity().name().clone();
    let own = match access.labels {
        Some(_) => Member::Active(name),
        None => Member::Passive(name),
    };
    let program = Program::new(&proposal, &layout, &features)?;
    let places = Places::new(proposal.active_party.clone(), layout);
    let place = places.place(&own).filter(|place| program.features(*place) == block.nrows());
    let place = place
        .ok_or_else(|| Refusal::invalid("`features` does not have this party's own number"))?;
    let own_start = admitted.as_ref().map(AdmittedTraining::start).transpose()?.flatten();
    let start = own_start.unwrap_or_else(|| start_of(proposal.config.values().seed));
    let prepared = waiting(|| program.prepare(&block, access.labels, (&start, place)))?;
    if let Some(admitted) = admitted.as_mut() {
        // Durable before anything that depends on the features leaves.
        admitted.begin().await?;
    }
    let (epoch_reports, mut reports) = mpsc::channel(REPORTS);
    let mut journal = admitted.as_ref().map(AdmittedTraining::journal);
    let watch = move |epoch: usize| {
        let _ = epoch_reports.try_send(epoch as u32);
        journal.as_mut().is_none_or(|reach| reach(epoch as u64))
    };
    let (channels, arrivals) =
        places.channels(own, talk.replies(), |piece| Reply::Piece(piece).into())?;
    let work = channels.compute(access.credentials, program, Some(prepared), PATIENCE, watch);
    let mut work = std::pin::pin!(work);
    let epochs = proposal.config.values().epochs;
    let computed = loop {
        tokio::select! {
            computed = &mut work => break computed,
            Some(epoch) = reports.recv() => {
                if let Some(admitted) = admitted.as_mut() {
                    admitted.reached(u64::from(epoch));
                }
                on_event(TrainingEvent::Progress(Progress::of_epoch(epoch, epochs)));
            }
            command = talk.next() => match command? {
                Command::Piece(piece) => arrivals.deliver(piece).await?,
                other => return Err(unexpected("a piece of the computation", &other)),
            },
        }
    };
    let computed = match computed {
        Ok(computed) => computed,
        Err(refusal) => return Err(reason(talk, refusal).await),
    };
    talk.reply(Reply::Computed(computed.epochs)).await?;
    let parameters = computed
        .parameters
        .ok_or_else(|| Refusal::internal("the computation opened no parameters"))?;
    let model = kinds::restore(&parameters).map_err(|e| Refusal::internal(e.to_string()))?;
    let block = calibration.then_some(block);
    Ok(OwnModel { parameters, model, block, left: CALIBRATION_RECORDS })
}

/// Returns the features of all records, d × n, from memory or from their source.
async fn whole_block(
    source: &dyn RecordSource,
    proposal: &Proposal,
    records: TrainingRecords,
) -> Result<DMatrix<f64>, Refusal> {
    match records {
        TrainingRecords::Here(block) => Ok(block.into_matrix()),
        TrainingRecords::Elsewhere { features } => {
            RemoteRecords::new(source, proposal.ids.clone(), features, 0).all().await
        }
    }
}

/// A party's own parameters at the end of a private training.
pub(super) struct OwnModel {
    parameters: Parameters,
    /// The model that they make.
    model: Box<dyn SubModel>,
    /// The features, d × n, if the coordinator may have logit shares of some records.
    block: Option<DMatrix<f64>>,
    /// The records that it may still have them of.
    left: usize,
}

impl OwnModel {
    pub(super) fn parameters(&self) -> Parameters {
        self.parameters.clone()
    }

    /// Returns the approximate number of multiplications of a step.
    pub(super) fn work(&self, step: &Step) -> u64 {
        (step.batch.len() as u64).saturating_mul(self.model.work())
    }

    /// Computes the logit shares of a step's records, w × B.
    pub(super) fn calibrate(&mut self, step: &Step) -> Result<LogitShare, Refusal> {
        let Some(block) = &self.block else {
            return Err(Refusal::invalid("logit shares are no part of this private training"));
        };
        let positions: Vec<usize> = step.batch.iter().map(|&position| position as usize).collect();
        let most = max_batch(self.parameters.spec.width() as usize).min(self.left);
        let evaluation = step.evaluation && step.gradient.is_none();
        if !evaluation || positions.len() > most || positions.iter().any(|&p| p >= block.ncols()) {
            return Err(Refusal::invalid(format!(
                "a step after a private training takes at most {most} records of it, for evaluation"
            )));
        }
        self.left -= positions.len();
        let shares = self.model.outputs(&block.select_columns(&positions));
        shares.map_err(|e| Refusal::invalid(e.to_string()))
    }
}

/// Returns why a computation ended: a party that lost its link learns the reason from the
/// coordinator, which knows who went away.
async fn reason<S: CommandStream>(talk: &mut Conversation<'_, S>, refusal: Refusal) -> Refusal {
    if !matches!(refusal.kind, RefusalKind::Unavailable | RefusalKind::DeadlineExceeded) {
        return refusal;
    }
    let told = tokio::time::timeout(REASON, async {
        loop {
            if let Err(told) = talk.next().await {
                return told;
            }
        }
    });
    told.await.unwrap_or(refusal)
}
