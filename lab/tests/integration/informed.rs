//! An adversary that knows moments of the features from records that it knows whole, beside a control without scores, over the sockets.

use nalgebra::DMatrix;
use vfl_attack::{AttackConfig, Method, Prior};
use vfl_auditor::audit::informed_attacks;
use vfl_auditor::report::{AttackResult, Audit, DefenseKnowledge, Outcome, Refused, worst};
use vfl_core::metrics::{AttributeFigures, mse};
use vfl_numerics::KernelRidge;
use vfl_passive_party::config::Grant;

use super::helped::{
    RECORDS, auxiliary, errors, known, near, passive_columns, plan, report, run, values,
};
use super::support::{Trained, test_ids, trained};

/// Records that the adversary knows.
pub(super) const KNOWN: usize = 80;

/// A deployment whose active party knows the passive features of the test records after the audited ones.
async fn informed(grant: Grant) -> Trained {
    informed_about(RECORDS, grant).await
}

/// A deployment whose active party knows the passive features of the test records from this one on.
pub(super) async fn informed_about(from: usize, grant: Grant) -> Trained {
    let white = trained(1, 7, 6).await;
    let table = known(&white, from, from + KNOWN);
    let change = |spec: &mut vfl_testbed::deployment::DeploymentSpec| {
        spec.release.to_active_party = grant;
        spec.help.known = Some(table);
    };
    white.again(change).await
}

fn attack<'a>(audit: &'a Audit, name: &str) -> &'a AttackResult {
    audit
        .attacks
        .iter()
        .find(|a| a.name == name)
        .unwrap_or_else(|| panic!("{name} is not in {audit:?}"))
}

/// The errors of the controls, computed apart from the joint sample: imputation with all moments, and with the passive ones alone, and a
/// regression.
fn imputed(here: &Trained) -> [f64; 3] {
    let passive = passive_columns(here);
    let active: Vec<usize> = here.split.active().to_vec();
    let (x, y) = (
        values(here, &passive, RECORDS, RECORDS + KNOWN),
        values(here, &active, RECORDS, RECORDS + KNOWN),
    );
    let (truth, own) = (values(here, &passive, 0, RECORDS), values(here, &active, 0, RECORDS));
    let prior = Prior::of_records(&x, &y).unwrap();
    let error =
        |means: DMatrix<f64>| mse(&means.map(|v| v.clamp(0.0, 1.0)), &truth).unwrap().overall;
    let (joint, _) = prior.given(&own).unwrap();
    let constant = DMatrix::from_fn(truth.nrows(), RECORDS, |i, _| x.row(i).mean());
    let regression = KernelRidge::fit(&y, &x).unwrap().predict(&own);
    [error(joint), error(constant), error(regression)]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_control_is_scored_and_attacks_say_what_they_add_to_it() {
    let here = informed(Grant::TrueParameters).await;
    let mut asked = plan(
        &here,
        informed_attacks(),
        auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + KNOWN)),
    );
    asked.policies = vec!["none".parse().unwrap(), "rounding (decimals = 1)".parse().unwrap()];
    let findings = run(&here, &asked).await.unwrap();
    let [plain, rounded] = &findings.audits[..] else {
        panic!("two audits: {:?}", findings.audits)
    };
    let controls = imputed(&here);
    let names = ["imputation", "imputation (moments = own)", "kernel_imputation"];
    for (audit, defense) in [(plain, DefenseKnowledge::Unknown), (rounded, DefenseKnowledge::Known)]
    {
        assert_eq!(
            (audit.threat_model.known_records, audit.threat_model.defense),
            (KNOWN, defense)
        );
        // The same records and no score: the same errors behind every defense.
        names.iter().zip(controls).for_each(|(name, error)| near(errors(audit, name).mse, error));
        let least = controls.into_iter().fold(1.0, f64::min);
        let chosen = attack(audit, "gaussian").added_risk.as_ref().unwrap();
        // Attacks are held against the best control of each attribute, which each half of the records chose for the other.
        let compared = errors(audit, &chosen.control).mse;
        assert!(
            compared <= 1.02 * least && errors(audit, "best_imputation").mse <= 1.05 * least,
            "{compared} {controls:?}"
        );
        let attacks = [
            "gaussian",
            "gaussian (moments = own)",
            "posterior_mean",
            "posterior_mean (moments = own)",
            "kernel_ridge",
        ];
        for name in attacks {
            let (attack, mse) = (attack(audit, name), errors(audit, name).mse);
            let added = attack.added_risk.as_ref().unwrap();
            assert_eq!(added.control, chosen.control);
            near(added.control_mse, compared);
            let (value, low, high) =
                (added.value.unwrap(), added.low.unwrap(), added.high.unwrap());
            assert!((value - (1.0 - mse / compared)).abs() < 0.01, "{name}: {value}");
            assert!(
                low < value && value < high && high - low < 1.0,
                "{name}: {low} {value} {high}"
            );
            by_attribute(attack, value);
        }
    }
    let best = |audit: &Audit| errors(audit, audit.strongest().unwrap().0).mse;
    let least = plain.added_risk().unwrap().2.control_mse;
    assert!(best(plain) < 0.9 * least, "exact scores add to what is known: {}", best(plain));
    assert!(best(plain) <= best(rounded), "and tell no less than rounded ones");
    report(&findings);
    let worst = worst(&[plain], None).unwrap();
    let mean = plain.added_risk().unwrap().2.value.unwrap();
    assert!(
        worst.risk.high.unwrap() >= mean,
        "no less than the mean over features: {:?} {mean}",
        worst.risk
    );
}

/// The figures by attribute come beside those of all features: what is removed of single attributes lies around what is removed of all.
fn by_attribute(attack: &AttackResult, all: f64) {
    // An attribute that does not vary over the records has no figures, and one whose control is exact nothing to remove.
    let told =
        attack.attributes.iter().filter_map(|of| Some((&of.figures, of.figures.removed?.value?)));
    let told: Vec<(&AttributeFigures, f64)> = told.collect();
    let (least, most) = (
        told.iter().fold(1.0, |a: f64, b| a.min(b.1)),
        told.iter().fold(-1e9, |a: f64, b| a.max(b.1)),
    );
    assert!(least <= all + 0.01 && all <= most + 0.01, "{}: {least} {all} {most}", attack.name);
    assert!(!told.is_empty(), "{}", attack.name);
    for (figures, removed) in told {
        let (error, event) = (
            figures.error.unwrap(),
            figures.event.as_ref().unwrap_or_else(|| panic!("{figures:?}")),
        );
        // Of each figure three digits are told.
        let ratio = error.attack / error.control;
        assert!(
            (1.0 - removed - ratio).abs() <= 0.02 * ratio + 1e-9,
            "{}: {removed} {ratio}",
            figures.attribute
        );
        assert!(event.named == RECORDS as u64 / 10 && event.attack <= event.named as f64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_parameters_the_control_alone_is_told() {
    let here = informed(Grant::Nothing).await;
    let attacks = vec![AttackConfig::from(Method::PosteriorMean)];
    let asked = plan(&here, attacks, auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + KNOWN)));
    let findings = run(&here, &asked).await.unwrap();
    let [audit] = &findings.audits[..] else { panic!("one audit") };
    near(errors(audit, "imputation").mse, imputed(&here)[0]);
    let refused = &attack(audit, "posterior_mean").outcome;
    assert!(
        matches!(refused, Outcome::NotRun { why: Refused::ParametersHidden, .. }),
        "{refused:?}"
    );
    assert!(audit.strongest().is_none());
    report(&findings);
}

/// The regression needs no parameters: it runs where they are hidden, beside its control.
#[tokio::test(flavor = "multi_thread")]
async fn scores_are_learnt_from_where_parameters_are_hidden() {
    let here = informed(Grant::Nothing).await;
    let attacks = vec![AttackConfig::from(Method::KernelRidge)];
    let asked = plan(&here, attacks, auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + KNOWN)));
    let findings = run(&here, &asked).await.unwrap();
    let [audit] = &findings.audits[..] else { panic!("one audit") };
    near(errors(audit, "kernel_imputation").mse, imputed(&here)[2]);
    let added = attack(audit, "kernel_ridge").added_risk.as_ref().unwrap();
    assert!(
        added.low.unwrap() > 0.0,
        "exact scores tell something to whoever knows no parameters: {added:?}"
    );
    report(&findings);
}
