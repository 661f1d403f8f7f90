//! The whole pipeline once: split data by columns, run three services over loopback sockets, train,
//! serve, attack and defend a model, and write a report.

mod command;
mod demo_deployment;
mod deployment_folder;
pub mod inference;
mod pieces;
mod plan;
mod private;
mod records;
mod report;
pub mod scale;
mod scores;
mod sweep;

pub use pieces::{PieceSummary, Sharing, check_shared, share};
pub use plan::{
    DEFAULT_EPOCHS, DEFAULT_KNOWN_RECORDS, DEFAULT_RECORDS, DemoPlan, ImportedModel,
    ImportedParameters, default_number_policies, default_policies, every_policy, predicted_range,
};

pub use demo_deployment::serve;
pub(crate) use demo_deployment::{DemoDeployment, accuracy};
pub use deployment_folder::DeploymentFolder;
pub use scores::ScoredModel;

use vfl_auditor::report::Report;

use private::private_training;
use report::report;
use sweep::SweepInput;

/// Runs the demo and returns the report.
///
/// # Errors
/// An error that names the step that failed.
pub async fn run(plan: &DemoPlan) -> anyhow::Result<Report> {
    let served = serve(plan).await?;
    let test_accuracy = served.test_accuracy().await?;
    let findings = served.audit(&served.full_plan(plan)).await?;
    let (mut report, to_sweep) =
        (report(plan, &served, &findings, test_accuracy), SweepInput::gather(&served, plan)?);
    let DemoDeployment { deployment, dataset, .. } = served;
    deployment.stop().await?;
    if let Some(to_sweep) = to_sweep {
        report.sweep = Some(to_sweep.sweep(&dataset, plan).await?);
    }
    for (privacy, training) in &plan.private_trainings {
        report.private_trainings.push(private_training(plan, *privacy, training).await?);
    }
    Ok(report)
}
