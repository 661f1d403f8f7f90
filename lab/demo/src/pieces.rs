//! A demonstration in pieces that several processes compute. Each piece is stored once it is
//! finished; the report is assembled when all exist. It equals the report of one process byte for
//! byte, except for draws from the operating system: trainings with privacy, and policies with
//! fresh noise.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use vfl_attack::Method;
use vfl_auditor::audit::{Plan, tell_costs};
use vfl_auditor::report::{
    Audit, PrivateTraining, Report, SCHEMA_VERSION, Sweep, Thresholds, draws_from_the_os,
};
use vfl_core::hex;
use vfl_core::model::TrainingMode;
use vfl_datasets::{Dataset, vertical_split};
use vfl_defense::Policy;
use vfl_present::progress::say;
use vfl_present::result_cache::{ResultCache, Shard, StoreUrl};

use super::command::command;
use super::demo_deployment::{DemoDeployment, serve};
use super::plan::DemoPlan;
use super::private::private_training;
use super::report::report;
use super::sweep::SweepInput;

/// The place of the pieces, and the part that this process computes.
#[derive(Debug, Clone)]
pub struct Sharing {
    /// The directory of the files: those of pieces go into `pieces` in it.
    pub out: PathBuf,
    /// A store for pieces besides that directory.
    pub store: Option<StoreUrl>,
    /// The part of the pieces to compute; `None`: all.
    pub shard: Option<Shard>,
}

/// The result of computing pieces.
#[derive(Debug, Default)]
pub struct PieceSummary {
    /// The number of pieces computed now.
    pub computed: usize,
    /// The number of pieces found in the folder.
    pub kept: usize,
    /// The number of pieces taken from the store.
    pub fetched: usize,
    /// The number of missing pieces that other parts compute.
    pub elsewhere: usize,
    /// The number of pieces that are in files and could not be put into the store.
    pub unstored: usize,
    /// The report, unless only a part was computed.
    pub report: Option<Report>,
}

/// One piece of a demonstration.
#[derive(Debug, Clone, Copy)]
enum Piece {
    /// The audits of the policy at this index.
    Policy(usize),
    /// Everything that does not depend on policies: the deployment, and the audits of records
    /// without a score.
    Frame,
    /// The error by number of passive features.
    Sweep,
    /// The training with privacy at this index.
    Private(usize),
}

/// The stored form of a piece.
#[derive(Debug, Serialize, Deserialize)]
struct StoredPiece {
    /// The key of the settings that it was computed from.
    key: String,
    /// The version of the model; trainings with privacy have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    found: PieceResult,
}

/// The result of a piece.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PieceResult {
    Audits(Vec<Audit>),
    Frame(Box<Report>),
    Sweep(Box<Sweep>),
    Private(Box<PrivateTraining>),
}

impl Piece {
    fn all(plan: &DemoPlan) -> Vec<Self> {
        let policies = (0..plan.policies.len()).map(Self::Policy);
        let private = (0..plan.private_trainings.len()).map(Self::Private);
        policies
            .chain([Self::Frame])
            .chain(plan.sweeps().then_some(Self::Sweep))
            .chain(private)
            .collect()
    }

    /// Describes the piece in words that no other piece has.
    fn name(self, plan: &DemoPlan) -> String {
        match self {
            Self::Policy(at) => {
                plan.policies.get(at).map_or_else(String::new, |policy| format!("policy {policy}"))
            }
            Self::Frame => "the deployment, and records without a score".into(),
            Self::Sweep => "the error by number of passive features".into(),
            Self::Private(at) => {
                let noise =
                    plan.private_trainings.get(at).map(|(privacy, _)| privacy.values().noise);
                format!("trained with noise {}", noise.unwrap_or_default())
            }
        }
    }

    /// Returns the plan without the settings that the piece does not depend on.
    fn plan(self, plan: &DemoPlan) -> DemoPlan {
        if let Self::Frame = self {
            return plan.clone();
        }
        let policies = match self {
            Self::Policy(at) => plan.policies.get(at).cloned().into_iter().collect(),
            _ => vec![Policy::default()],
        };
        let private_trainings = match self {
            Self::Private(at) => plan.private_trainings.get(at).cloned().into_iter().collect(),
            _ => Vec::new(),
        };
        let sweep = matches!(self, Self::Sweep);
        DemoPlan {
            policies,
            private_trainings,
            sweep,
            thresholds: Thresholds::default(),
            ..plan.clone()
        }
    }

    /// Returns a key that is unique among the pieces of all plans.
    fn key(self, plan: &DemoPlan, dataset: &Dataset, passive_features: usize) -> String {
        let of = self.plan(plan);
        // The command leaves out settings that it has no option for.
        let settings = serde_json::json!({
            "schema": SCHEMA_VERSION,
            "program": env!("CARGO_PKG_VERSION"),
            "piece": self.name(plan),
            "command": command(&of, dataset, passive_features),
            "window": of.passive_features.is_some(),
            "training": of.training,
            "private_trainings": of.private_trainings,
            "sweeps": of.sweeps(),
            "data": dataset.data_hash(),
        });
        hex(Sha256::digest(settings.to_string().as_bytes()))
    }
}

impl PieceResult {
    fn is_of(&self, piece: Piece) -> bool {
        matches!(
            (self, piece),
            (Self::Audits(_), Piece::Policy(_))
                | (Self::Frame(_), Piece::Frame)
                | (Self::Sweep(_), Piece::Sweep)
                | (Self::Private(_), Piece::Private(_))
        )
    }
}

/// Checks that a plan can be computed in pieces: every process must train the same model and
/// release the same parameters.
///
/// # Errors
/// The reason why not, in words of the command line.
pub fn check_shared(plan: &DemoPlan) -> Result<(), String> {
    if plan.privacy.is_some() {
        return Err(
            "--privacy-noise: its noise is from the operating system, so that each process would have another model"
                .into(),
        );
    }
    if plan.imported.is_some() {
        return Err(
            "--parameters: a model that needs no training is not divided into pieces".into()
        );
    }
    if plan.training.values().mode == TrainingMode::Private {
        return Err(
            "--mode private: its shares are from the operating system, so that each process would have a model with other last \
             digits; take --mode plain"
                .into(),
        );
    }
    for (option, transform) in
        [("--transform", &plan.transform), ("--train-transform", &plan.training_transform)]
    {
        if draws_from_the_os(transform) {
            return Err(format!(
                "{option} {transform}: it is drawn from the operating system, so that each process would have another one"
            ));
        }
    }
    let mut policies = plan.policies.iter();
    while let Some(policy) = policies.next() {
        if policies.as_slice().contains(policy) {
            return Err(format!("policy `{policy}` is named twice: pieces are of one policy each"));
        }
    }
    let undefended: Vec<String> =
        plan.policies.iter().filter(|p| p.is_none()).map(ToString::to_string).collect();
    if let [first, second, ..] = undefended.as_slice() {
        return Err(format!(
            "policies `{first}` and `{second}` have no defense, both: name one of them"
        ));
    }
    let mut noises = plan.private_trainings.iter().map(|(privacy, _)| privacy.values().noise);
    while let Some(noise) = noises.next() {
        if noises.clone().any(|other| other == noise) {
            return Err(format!("--private-trainings: {noise} is named twice"));
        }
    }
    Ok(())
}

/// Computes the pieces that are missing, takes the others from the folder or else from the store,
/// and assembles the report if none is missing. Blocks, and runs the parties on `runtime`; call it
/// where blocking is allowed.
///
/// # Errors
/// An error that names the cause: a plan that [`check_shared`] refuses, a file that cannot be
/// written, a store that cannot be read or, before the first piece is computed, not be written to,
/// or pieces of different models. Pieces that were finished before are kept.
pub fn share(plan: &DemoPlan, sharing: &Sharing, runtime: &Handle) -> anyhow::Result<PieceSummary> {
    check_shared(plan).map_err(anyhow::Error::msg)?;
    let dataset = plan.data.load_any()?;
    let split =
        vertical_split(&dataset, plan.first_column, plan.passive_features, plan.passive_parties)?;
    let passive_features = split.passive().iter().map(|p| p.columns.len()).sum();
    let keeper = ResultCache::open(&sharing.out, sharing.store.as_ref(), "pieces")?;
    let ours = |at: usize| sharing.shard.is_none_or(|shard| shard.has(at));
    let mut came = PieceSummary::default();
    let mut there: Vec<(usize, Piece, StoredPiece)> = Vec::new();
    let mut missing: Vec<(usize, Piece, String)> = Vec::new();
    for (at, piece) in Piece::all(plan).into_iter().enumerate() {
        let key = piece.key(plan, &dataset, passive_features);
        let place = keeper.piece(&key);
        let read = |bytes: &[u8]| {
            serde_json::from_slice::<StoredPiece>(bytes)
                .ok()
                .filter(|kept| kept.key == key && kept.found.is_of(piece))
        };
        if let Some(kept) = keeper.in_folder(&place, read) {
            came.kept += 1;
            if ours(at) {
                keeper.catch_up(&place);
            }
            there.push((at, piece, kept));
        } else if !ours(at) {
            came.elsewhere += 1;
        } else if let Some(kept) = keeper.in_store(&place, read)? {
            came.fetched += 1;
            there.push((at, piece, kept));
        } else {
            missing.push((at, piece, key));
        }
    }
    drop(dataset);
    if !missing.is_empty() {
        keeper.try_store()?;
    }
    let mut served = None;
    let pieces = missing.len();
    for (i, (at, piece, key)) in missing.into_iter().enumerate() {
        say(&format!("piece {} of {pieces}: {}", i + 1, piece.name(plan)));
        let (found, model) = runtime.block_on(compute(plan, piece, &mut served))?;
        let place = keeper.piece(&key);
        let kept = StoredPiece { key, model, found };
        let mut text = serde_json::to_vec(&kept)?;
        text.push(b'\n');
        keeper.keep(&place, text)?;
        came.computed += 1;
        there.push((at, piece, kept));
    }
    if let Some(DemoDeployment { deployment, .. }) = served {
        runtime.block_on(deployment.stop())?;
    }
    came.unstored = keeper.finish();
    if sharing.shard.is_none() {
        there.sort_by_key(|(at, ..)| *at);
        came.report = Some(together(
            plan,
            there.into_iter().map(|(_, piece, kept)| (piece, kept)).collect(),
        )?);
    }
    Ok(came)
}

/// Computes a piece, and returns it with the version of its model. The deployment of one piece
/// serves the next.
async fn compute(
    plan: &DemoPlan,
    piece: Piece,
    served: &mut Option<DemoDeployment>,
) -> anyhow::Result<(PieceResult, Option<String>)> {
    if let Piece::Private(at) = piece {
        let (privacy, training) = plan
            .private_trainings
            .get(at)
            .ok_or_else(|| anyhow::anyhow!("there is no training with privacy {at}"))?;
        return Ok((
            PieceResult::Private(Box::new(private_training(plan, *privacy, training).await?)),
            None,
        ));
    }
    let served = match served {
        Some(served) => served,
        none => none.insert(serve(plan).await?),
    };
    let full = served.full_plan(plan);
    let found = match piece {
        Piece::Policy(at) => {
            let policies = plan.policies.get(at).cloned().into_iter().collect();
            let attacks =
                full.attacks.iter().filter(|a| a.method() != Method::Agnostic).cloned().collect();
            let one = Plan { policies, attacks, training_ids: None, ..full };
            PieceResult::Audits(served.audit(&one).await?.audits)
        }
        Piece::Frame => {
            let test_accuracy = served.test_accuracy().await?;
            let attacks = vec![Method::Agnostic.into()];
            let findings = served.audit(&Plan { policies: Vec::new(), attacks, ..full }).await?;
            PieceResult::Frame(Box::new(report(plan, served, &findings, test_accuracy)))
        }
        Piece::Sweep | Piece::Private(_) => {
            let to_sweep = SweepInput::gather(served, plan)?;
            let to_sweep = to_sweep.ok_or_else(|| anyhow::anyhow!("the plan has no sweep"))?;
            PieceResult::Sweep(Box::new(to_sweep.sweep(&served.dataset, plan).await?))
        }
    };
    let version = served.published.as_ref().map(|of| of.version.as_str().to_owned());
    Ok((found, version))
}

/// Assembles the report from all pieces, which are in their order.
fn together(plan: &DemoPlan, pieces: Vec<(Piece, StoredPiece)>) -> anyhow::Result<Report> {
    let (mut frame, mut audits, mut sweep, mut private) = (None, Vec::new(), None, Vec::new());
    let of_models: Vec<_> = pieces
        .iter()
        .filter_map(|(piece, kept)| Some((piece, kept.model.as_ref()?, &kept.key)))
        .collect();
    let differ =
        of_models.windows(2).find(|pair| pair.iter().any(|(_, model, _)| *model != pair[0].1));
    if let Some([(one, model, _), (other, another, key)]) = differ {
        anyhow::bail!(
            "pieces are of different models: \"{}\" of {model}, \"{}\" of {another}. Processors of another type may train another one: remove \
             pieces/{key}.json, or those of the other, and compute them again",
            one.name(plan),
            other.name(plan)
        );
    }
    for (_, kept) in pieces {
        match kept.found {
            PieceResult::Audits(more) => audits.extend(more),
            PieceResult::Frame(report) => frame = Some(*report),
            PieceResult::Sweep(of) => sweep = Some(*of),
            PieceResult::Private(training) => private.push(*training),
        }
    }
    tell_costs(&mut audits);
    let mut report =
        frame.ok_or_else(|| anyhow::anyhow!("the piece of the deployment is missing"))?;
    audits.append(&mut report.audits);
    (report.audits, report.sweep, report.private_trainings) = (audits, sweep, private);
    report.demand(plan.thresholds);
    Ok(report)
}
