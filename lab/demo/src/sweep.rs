//! The error by number of passive features: the same model under each split.

use vfl_attack::{AttackConfig, Method};
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::{DefenseKnowledge, Sweep, SweepError, SweepPoint, ThreatModel};
use vfl_coordinator::registry::TrainingSummary;
use vfl_core::types::RecordIds;
use vfl_datasets::{Dataset, vertical_split};
use vfl_defense::Policy;
use vfl_present::progress::Progress;
use vfl_testbed::deployment::{Help, WholeModel, WholeParameters, white_box};
use vfl_transform::TransformConfig;

use super::demo_deployment::{DemoDeployment, deploy};
use super::plan::DemoPlan;

/// The attacks in the sweep.
const SWEPT: [Method; 4] =
    [Method::LeastSquares, Method::ClampedLeastSquares, Method::HalfStar, Method::ClampedHalfStar];

/// The number of scored records at each point of the sweep.
const SWEEP_RECORDS: usize = 500;

/// A trained model to divide along other columns, and the records to attack under each split.
pub(super) struct SweepInput {
    whole: WholeModel,
    audited: RecordIds,
}

impl SweepInput {
    /// Assembles the trained model from the parties' own files. Only the lab can, as it made them
    /// all. `None` if the plan asks for no sweep or allows none.
    pub(super) fn gather(served: &DemoDeployment, plan: &DemoPlan) -> anyhow::Result<Option<Self>> {
        if !plan.sweeps() {
            return Ok(None);
        }
        let DemoDeployment { deployment, dataset, split, published, training_ids, .. } = served;
        let whole = match (published, &plan.imported) {
            (Some(published), _) => {
                let (weights, bias) = deployment.whole_model(dataset, split, &published.version)?;
                let summary = TrainingSummary {
                    config: plan.training.clone(),
                    epochs: published.epochs,
                    best_epoch: published.best_epoch,
                    steps: published.steps,
                    training_records: published.training_records,
                    validation_records: published.validation_records,
                };
                let link = plan.training.values().model.link()?;
                WholeModel {
                    parameters: WholeParameters::Linear { link, weights, bias },
                    class_names: dataset.class_names().to_vec(),
                    summary: Some(summary),
                    training_ids: training_ids.clone(),
                }
            }
            (None, Some(model)) => model.whole()?,
            (None, None) => return Ok(None),
        };
        Ok(Some(Self { whole, audited: served.audited() }))
    }

    /// Deploys the same model under each split, and audits it over the sockets each time.
    pub(super) async fn sweep(&self, dataset: &Dataset, plan: &DemoPlan) -> anyhow::Result<Sweep> {
        sweep(dataset, &self.whole, plan, &self.audited).await
    }
}

/// Returns the numbers of passive features in the sweep: all of them if they are few, otherwise
/// evenly spread.
fn sweep_points(total: usize) -> Vec<usize> {
    let most = (total * 9 / 10).max(1);
    if most <= 14 {
        return (1..=most).collect();
    }
    let mut points: Vec<usize> = (0..14).map(|i| 1 + i * (most - 1) / 13).collect();
    points.dedup();
    points
}

async fn sweep(
    dataset: &Dataset,
    whole: &WholeModel,
    plan: &DemoPlan,
    audited: &RecordIds,
) -> anyhow::Result<Sweep> {
    let total = dataset.features().len();
    let points = sweep_points(total);
    let ids = audited.slice(0, SWEEP_RECORDS);
    let mut bar = Progress::start("sweeping the number of passive features", points.len() as u64);
    let mut found = Vec::with_capacity(points.len());
    for (done, &d) in points.iter().enumerate() {
        bar.at(done as u64, &format!("d = {d}"));
        let split = vertical_split(dataset, plan.first_column, Some(d), 1)?;
        let state = tempfile::tempdir()?;
        whole.publish(state.path(), dataset, &split)?;
        let none = TransformConfig::None {};
        let shown = (white_box(), none, None);
        let help = Help { moments: true, ..Help::default() };
        let deployment =
            deploy(dataset, &split, state.path(), plan.seed, shown, (help, None)).await?;
        let attacks = SWEPT.map(AttackConfig::from).to_vec();
        let audit_plan = Plan {
            metrics: Some(Vec::new()),
            ..Plan::of(ids.clone(), vec![Policy::default()], attacks, plan.seed)
        };
        let findings = audit::run(&deployment.targets(), &audit_plan, |_, _, _| ()).await?;
        deployment.stop().await?;
        let Some(audit) = findings.audits.first() else { continue };
        // The owner's simulated adversary comes last, without its control, which is the column mean
        // of other records.
        let played = findings
            .audits
            .iter()
            .filter(|audit| audit.threat_model.moments)
            .flat_map(|a| &a.attacks);
        let attacks = audit.attacks.iter().chain(played.filter(|a| a.added_risk.is_some()).take(1));
        found.push(SweepPoint {
            d,
            half: audit.baselines.half.mse,
            column_mean: audit.baselines.column_mean.mse,
            attacks: attacks.map(|a| SweepError { name: a.name.clone(), mse: a.mse() }).collect(),
        });
    }
    bar.done(&format!("{} splits deployed and audited", found.len()));
    Ok(Sweep {
        policy: (&Policy::default()).into(),
        threat_model: ThreatModel::white_box(DefenseKnowledge::Unknown),
        records: ids.len(),
        points: found,
    })
}
