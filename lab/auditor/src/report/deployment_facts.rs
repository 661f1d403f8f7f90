//! The facts about the deployment that a report takes from the findings of an audit.

use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::types::PartyName;
use vfl_transform::TransformConfig;

use crate::audit::Findings;
use crate::report::surface::disclosure;
use crate::report::{
    Deployment as DeploymentFacts, Observations, ParameterKnowledge, Party, Role, Surface,
    SurfaceKind, TRAINING_DISCLOSURE, TrainingFacts,
};

/// Lists the audited surfaces: the releases, records without a score, and the parameters as they
/// are shown.
#[must_use]
pub fn surfaces(findings: &Findings) -> Vec<Surface> {
    surfaces_of(findings, [])
}

/// Lists the audited surfaces, with those of policies that were audited separately.
pub fn surfaces_of(
    findings: &Findings,
    apart: impl IntoIterator<Item = SurfaceKind>,
) -> Vec<Surface> {
    let seen = findings.audits.iter().filter(|audit| audit.threat_model.sees_scores());
    let mut audited: Vec<SurfaceKind> = seen.map(|audit| audit.policy.surface()).collect();
    audited.extend(apart);
    if findings.audits.iter().any(|a| a.threat_model.observations == Observations::NoScore) {
        audited.push(SurfaceKind::Nothing);
    }
    let parameters = match findings.parameters() {
        ParameterKnowledge::True => SurfaceKind::ParametersTrue,
        ParameterKnowledge::Transformed => SurfaceKind::ParametersTransformed,
        ParameterKnowledge::Hidden | ParameterKnowledge::Auxiliary { .. } => {
            SurfaceKind::ParametersHidden
        }
    };
    audited.push(parameters);
    let shown: Vec<String> = findings
        .feature_names
        .iter()
        .zip(&findings.shown)
        .map(|((party, _), s)| format!("{party}: {s}"))
        .collect();
    let imported = findings.model.training.imported;
    let said = |surface: Surface| {
        match surface.surface {
        SurfaceKind::ParametersTransformed if surface.audited => {
            surface.with_note(format!("attacked in this report: {}", shown.join("; ")))
        }
        SurfaceKind::Training if imported => surface.with_note(format!(
            "the model audited was imported, not trained here; of every model that is trained here: {TRAINING_DISCLOSURE}"
        )),
        SurfaceKind::Training => surface.with_note(disclosure(findings.model.training.private)),
        _ => surface,
    }
    };
    Surface::list(&audited).into_iter().map(said).collect()
}

/// Returns the parties and their model, as the audit saw them.
#[must_use]
pub fn deployment_facts(findings: &Findings, test_accuracy: Option<f64>) -> DeploymentFacts {
    let model = &findings.model;
    let training = model.training;
    let mut parties = vec![
        Party::new("active", Role::Active, model.active_features),
        Party::new("coordinator", Role::Coordinator, 0),
    ];
    for (name, features) in &findings.feature_names {
        parties.push(Party::with_feature_names(name.as_str(), Role::Passive, features.clone()));
    }
    for (party, shown) in parties.iter_mut().skip(2).zip(&findings.shown) {
        party.parameters_shown = Some(shown.to_string());
    }
    DeploymentFacts {
        parties,
        model_version: model.version.as_str().to_owned(),
        n_active: model.active_features,
        d_passive: findings.feature_names.iter().map(|(_, f)| f.len()).sum(),
        classes: model.class_names.len(),
        training: TrainingFacts {
            epochs: training.epochs.into(),
            steps: training.steps,
            imported: training.imported,
            private: training.private,
        },
        private_release: model.private_release,
        test_accuracy,
    }
}

/// Returns true if the transform draws from the operating system, so that the parameters and
/// records do not determine it.
pub fn draws_from_the_os(transform: &TransformConfig) -> bool {
    use TransformConfig as T;
    !matches!(
        transform,
        T::None {}
            | T::Negate {}
            | T::Complement {}
            | T::Selective { .. }
            | T::LeastSquaresOptimal {}
    )
}

/// Describes the privacy that the parties state for their training.
pub fn privacy_notes(privacy: &[(PartyName, PrivacyStatement)]) -> Vec<String> {
    if privacy.is_empty() {
        return Vec::new();
    }
    let each = privacy
        .iter()
        .map(|(party, privacy)| format!("The parameters of `{party}` have {privacy}."));
    let what = "The privacy is of a party's stored parameters, for one record's features there, given the gradients that it received. \
                Shares, embeddings and scores are not covered.";
    each.chain([what.to_owned()]).collect()
}
