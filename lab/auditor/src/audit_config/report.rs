//! Makes a report of the findings of an audit.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use vfl_core::hex;
use vfl_core::types::RecordIds;
use vfl_defense::Policy;

use super::ConfiguredAudit;
use crate::audit::Findings;
use crate::report::{
    DataFacts, Generated, MetricFacts, Policy as PolicyFacts, Report, deployment_facts, surfaces,
};

impl ConfiguredAudit {
    /// Returns the report of the findings.
    pub fn report(&self, findings: Findings) -> Report {
        let Self { plan, thresholds, text, .. } = self;
        let none = findings.audits.iter().find(|a| a.policy.is_none());
        let accuracy = none.or(findings.audits.first()).and_then(|a| a.utility.accuracy);
        let deployment = deployment_facts(&findings, accuracy);
        let training = findings.model.training;
        let facts = DataFacts {
            name: "deployment".into(),
            variant: None,
            columns: None,
            source: "the parties' own records; the hash is that of the audited ids".into(),
            records: plan.ids.len()
                + (training.training_records + training.validation_records) as usize,
            training: training.training_records as usize,
            validation: training.validation_records as usize,
            test: plan.ids.len(),
            features: deployment.n_active + deployment.d_passive,
            classes: deployment.classes,
            sha256: hex(Sha256::digest(text.as_bytes())),
        };
        let config = serde_json::json!({
            "seed": plan.seed,
            "records": plan.ids.len(),
            "policies": plan.policies.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "attacks": plan.attacks.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "schema": plan.schema,
            "features": plan.features.pairs().collect::<BTreeMap<_, _>>(),
            "rho": plan.rho,
            "max_added_risk": thresholds.max_added_risk,
            "max_exact_share": thresholds.max_exact_share,
            "max_exact": thresholds.max_exact,
            "max_bits": thresholds.max_bits,
            "metrics": findings.metrics.iter().map(|m| m.name()).collect::<Vec<_>>(),
            "auxiliary_records": plan.help.auxiliary_ids.as_ref().map(RecordIds::len),
            "colluding": plan.help.colluding.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        let title = format!("Cloison audit of model {}", deployment.model_version);
        let command = "cloison audit --config audit.toml";
        let mut report =
            Report::new(title, command, plan.seed, Generated::new(config), facts, deployment);
        report.surfaces = surfaces(&findings);
        report.in_service = Some(in_service(&findings.model.policy, &plan.policies));
        report.audits = findings.audits;
        report.scoring = findings.scoring;
        report.metrics = findings.metrics.iter().map(|m| MetricFacts::of(*m)).collect();
        if none_missing(&report) {
            report.notes.push(
                "No audit without a defense was made: accuracy is that of the first defense."
                    .into(),
            );
        }
        report.demand(*thresholds);
        if !thresholds.is_empty() && report.judged() != report.in_service.as_ref() {
            let live = report.in_service.as_ref().map(PolicyFacts::label).unwrap_or_default();
            report.notes.push(format!(
                "The coordinator has `{live}` in service, which this audit does not have: the thresholds are demanded of the first policy \
                 audited instead."
            ));
        }
        report
    }
}

/// Returns the policy in service in the form of the audited policies, so that the two can be
/// compared.
fn in_service(live: &Policy, audited: &[Policy]) -> PolicyFacts {
    let same = |policy: &&Policy| **policy == *live || (policy.is_none() && live.is_none());
    match audited.iter().find(same) {
        Some(policy) => policy.into(),
        // In words, a form that no audited policy of one defense has.
        None => PolicyFacts::in_words(live),
    }
}

fn none_missing(report: &Report) -> bool {
    report.audits.iter().all(|a| !a.policy.is_none())
}
