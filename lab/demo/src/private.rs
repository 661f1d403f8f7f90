//! Further models of a demonstration, trained with privacy.

use anyhow::Context;
use vfl_auditor::audit;
use vfl_auditor::report::PrivateTraining;
use vfl_core::model::TrainingConfig;
use vfl_core::model::privacy::PrivacyConfig;
use vfl_defense::Policy;
use vfl_present::progress::say;

use super::demo_deployment::{DemoDeployment, serve};
use super::plan::DemoPlan;

/// Deploys the same data and split again, trains with privacy, and audits the exact scores with the
/// same adversaries.
pub(super) async fn private_training(
    plan: &DemoPlan,
    privacy: PrivacyConfig,
    training: &TrainingConfig,
) -> anyhow::Result<PrivateTraining> {
    let noise = privacy.values().noise;
    say(&format!("once more, trained with noise {noise}"));
    let plan = DemoPlan {
        privacy: Some(privacy),
        training: training.clone(),
        policies: vec![Policy::default()],
        private_trainings: Vec::new(),
        ..plan.clone()
    };
    let served = serve(&plan).await?;
    let test_accuracy =
        served.test_accuracy().await?.context("a training with privacy is of classes")?;
    let findings =
        audit::run(&served.deployment.targets(), &served.plan(&plan), |_, _, _| ()).await?;
    let DemoDeployment { deployment, published, .. } = served;
    deployment.stop().await?;
    // All parties have the same updates, clip and noise, so they state the same.
    let stated = published
        .iter()
        .flat_map(|of| &of.privacy)
        .map(|(_, stated)| *stated)
        .max_by(|a, b| a.epsilon.total_cmp(&b.epsilon));
    let privacy = stated.ok_or_else(|| {
        anyhow::anyhow!("no party states the privacy it trained with (noise {noise})")
    })?;
    Ok(PrivateTraining { privacy, test_accuracy, audits: findings.audits })
}
