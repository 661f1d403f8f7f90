//! The adversary that knows the means and covariances of the passive features, played by their owner, over the sockets.

use nalgebra::DMatrix;
use vfl_attack::Method;
use vfl_auditor::audit::{Findings, Help};
use vfl_auditor::report::Audit;
use vfl_core::metrics::mse;
use vfl_numerics::{GaussianSystem, row_differences};
use vfl_passive_party::config::Grant;
use vfl_transform::TransformConfig;

use super::helped::{RECORDS, auxiliary, errors, known, near, passive_columns, plan, report, run};
use super::metrics::weights;
use super::support::{Trained, test_ids, trained};

/// A deployment whose passive parties play.
async fn playing(
    parties: usize,
    change: impl FnOnce(&Trained, &mut vfl_testbed::deployment::DeploymentSpec),
) -> Trained {
    let here = trained(parties, 6, 6).await;
    let mut spec = super::support::spec(here.dir.path(), &here.dataset, &here.split);
    change(&here, &mut spec);
    here.again(|plain| {
        *plain = spec;
        plain.help.moments = true;
    })
    .await
}

fn played(findings: &Findings) -> Vec<&Audit> {
    findings.audits.iter().filter(|audit| audit.threat_model.moments).collect()
}

/// The errors of the attack and of its control, from the data set and the stored parameters.
fn expected(here: &Trained) -> (f64, f64) {
    let columns = passive_columns(here);
    let scored: Vec<usize> = here.dataset.split().test[..RECORDS].to_vec();
    let all = here.dataset.x();
    let of = |positions: &[usize]| {
        DMatrix::from_fn(columns.len(), positions.len(), |i, j| all[(columns[i], positions[j])])
    };
    let others: Vec<usize> = (0..all.ncols()).filter(|p| !scored.contains(p)).collect();
    let (truth, others) = (of(&scored), of(&others));
    let mean = others.column_mean();
    let centred = DMatrix::from_fn(others.nrows(), others.ncols(), |i, j| others[(i, j)] - mean[i]);
    let covariance = &centred * centred.transpose() / others.ncols() as f64;
    let a = row_differences(&weights(here));
    let means = DMatrix::from_fn(truth.nrows(), truth.ncols(), |i, _| mean[i]);
    let likeliest =
        GaussianSystem::new(&a, &covariance).unwrap().likeliest_in_box(&means, &(&a * &truth)).x;
    (mse(&likeliest, &truth).unwrap().overall, mse(&means, &truth).unwrap().overall)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_plays_an_adversary_that_knows_its_moments() {
    let here = playing(1, |_, _| ()).await;
    let mut asked = plan(&here, vec![Method::HalfStar.into()], Help::default());
    asked.policies.push("rounding (decimals = 2)".parse().unwrap());
    let findings = run(&here, &asked).await.unwrap();
    let [audit] = played(&findings)[..] else { panic!("one: {:?}", findings.audits) };
    assert!(audit.policy.is_none(), "exact scores alone are played");
    let (attack, control) = expected(&here);
    near(errors(audit, "gaussian (moments = own)").mse, attack);
    near(errors(audit, "imputation (moments = own)").mse, control);
    let (_, strongest, risk) = audit.added_risk().unwrap();
    assert!(strongest.mse <= attack * 1.006 && risk.low.unwrap() > 0.0, "{risk:?}");
    assert!(risk.low <= risk.value && risk.value <= risk.high && risk.halves.is_some());
    assert!(!strongest.metrics.is_empty() && strongest.per_feature.len() == 6);
    assert_eq!(audit.utility, findings.audits[0].utility);
    let json = report(&findings);
    assert!(json.contains("\"moments\": true"), "the threat model says so");
}

/// Where the adversary of the papers has no parameters, where they are not the ones that scores are made with, or where several parties'
/// shares are summed, the owner does not know what scores tell.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_not_played_where_the_owner_does_not_know_what_scores_tell() {
    let half = || vec![Method::Half.into()];
    for here in [
        playing(1, |_, spec| spec.release.to_active_party = Grant::Nothing).await,
        playing(1, |_, spec| {
            spec.release.to_active_party = Grant::Transformed(TransformConfig::Negate {})
        })
        .await,
        playing(2, |_, _| ()).await,
    ] {
        let findings = run(&here, &plan(&here, half(), Help::default())).await.unwrap();
        assert!(played(&findings).is_empty() && !findings.audits.is_empty());
    }
    // Nor behind a defense, nor without the owner's leave.
    let here = playing(1, |_, _| ()).await;
    let mut asked = plan(&here, half(), Help::default());
    asked.policies = vec!["class_label".parse().unwrap()];
    assert!(played(&run(&here, &asked).await.unwrap()).is_empty());
    let silent = here.again(|_| ()).await;
    assert!(
        played(&run(&silent, &plan(&silent, half(), Help::default())).await.unwrap()).is_empty()
    );
}

/// Both adversaries stand in one report, each with its own control.
#[tokio::test(flavor = "multi_thread")]
async fn known_records_and_moments_are_audited_side_by_side() {
    let here =
        playing(1, |here, spec| spec.help.known = Some(known(here, RECORDS, RECORDS + 80))).await;
    let help = auxiliary(test_ids(&here.dataset, RECORDS, RECORDS + 80));
    let mut attacks = vec![Method::HalfStar.into()];
    attacks.extend(vfl_auditor::audit::informed_attacks());
    let findings = run(&here, &plan(&here, attacks, help)).await.unwrap();
    let [moments] = played(&findings)[..] else { panic!("one") };
    assert_eq!(moments.threat_model.known_records, 0);
    let (attack, control) = expected(&here);
    near(errors(moments, "gaussian (moments = own)").mse, attack);
    near(errors(moments, "imputation (moments = own)").mse, control);
    assert!(
        findings
            .audits
            .iter()
            .any(|audit| audit.threat_model.known_records == 80 && audit.added_risk().is_some())
    );
    report(&findings);
}
