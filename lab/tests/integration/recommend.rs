//! The search for a defense, over the sockets.

use vfl_auditor::audit::Plan;
use vfl_auditor::recommend::{CONFIRMED, Demands, Recommendation};
use vfl_auditor::report::{Audit, Policy, Thresholds, worst};
use vfl_auditor::{audit, recommend};
use vfl_defense::DefenseConfig;
use vfl_passive_party::config::Grant;

use super::helped::{auxiliary, plan};
use super::informed::{KNOWN, informed_about};
use super::support::{Trained, test_ids};

/// Records of search and confirmation together; known records follow.
const BOTH: usize = 220;

fn at_most(max_added_risk: f64) -> Demands {
    Demands {
        thresholds: Thresholds::new(Some(max_added_risk), None).unwrap(),
        max_accuracy_loss: None,
    }
}

async fn search(here: &Trained, plan: &Plan, demands: Demands) -> Recommendation {
    recommend::run(&here.deployment.targets(), plan, demands, |_, _, _| ()).await.unwrap()
}

fn of(here: &Trained) -> Plan {
    let known = auxiliary(test_ids(&here.dataset, BOTH, BOTH + KNOWN));
    Plan {
        ids: test_ids(&here.dataset, 0, BOTH),
        policies: Vec::new(),
        ..plan(here, Vec::new(), known)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_threshold_decides_which_defense_is_recommended() {
    let here = informed_about(BOTH, Grant::TrueParameters).await;
    let plan = of(&here);
    // Exact scores rebuild these features: nearly everything is their doing, and the least that is done to them is the cheapest.
    let lax = search(&here, &plan, at_most(0.999)).await;
    let chosen = lax.recommended().unwrap();
    assert!(!chosen.policy.is_none(), "{}", lax.text());
    assert!(chosen.utility.total_variation.unwrap() < 0.01, "{}", lax.text());
    assert_eq!((lax.records, lax.known_records), ((BOTH / 2, BOTH / 2), KNOWN));

    // Whoever accepts less gets something that met the threshold on fresh records, and nothing cheaper did.
    let none = lax.tried.iter().find(|t| t.policy.is_none()).unwrap().added.clone().unwrap();
    let strict = search(&here, &plan, at_most(0.5 * none.interval.0)).await;
    assert!(strict.tried.iter().any(|t| t.policy.is_none() && !t.meets()));
    assert!(strict.confirmed.len() <= CONFIRMED);
    let text = strict.text();
    match strict.recommended() {
        Some(trial) => {
            assert!(trial.meets() && !trial.policy.is_none());
            let at = strict.confirmed.iter().position(|t| t == trial).unwrap();
            assert!(strict.confirmed[..at].iter().all(|t| !t.meets()));
            // An audit of the same records behind what is recommended says the same.
            let fresh = plan.ids.slice(BOTH / 2, BOTH);
            let attacks = audit::informed_attacks();
            let again =
                Plan { ids: fresh, policies: vec![trial.policy.clone()], attacks, ..plan.clone() };
            let findings =
                audit::run(&here.deployment.targets(), &again, |_, _, _| ()).await.unwrap();
            let audits: Vec<&Audit> = findings
                .audits
                .iter()
                .filter(|a| a.policy == Policy::from(&trial.policy))
                .collect();
            let added = trial.added.as_ref().unwrap();
            let told = worst(&audits, None).unwrap();
            assert_eq!(
                (told.attack, Some(told.figures.attribute.clone())),
                (&*added.attack, added.attribute.clone())
            );
            assert_eq!(
                (told.risk.value, told.risk.high),
                (Some(added.value), Some(added.interval.1))
            );
            assert!(text.contains("[[defense]]"), "{text}");
        }
        None => assert!(text.contains("None"), "{text}"),
    }
    let free =
        recommend::run(&here.deployment.targets(), &plan, Demands::default(), |_, _, _| ()).await;
    assert!(free.unwrap_err().message.contains("nothing is demanded"));
    here.deployment.stop().await.unwrap();
    // Nothing keeps scores from adding less than nothing: what is tried does not depend on luck alone. Three searches are more scorings
    // than a party answers of one set of records.
    let here = informed_about(BOTH, Grant::TrueParameters).await;
    let plan = of(&here);
    let impossible = search(&here, &plan, at_most(1e-6)).await;
    let coarsest = |t: &&recommend::Trial| {
        matches!(t.policy.defenses[..], [DefenseConfig::Rounding { decimals: 0 }])
    };
    assert!(impossible.tried.iter().any(|t| coarsest(&t)), "the end of a ladder is asked about");
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_lost_accuracy_is_of_the_same_records() {
    let here = informed_about(BOTH, Grant::TrueParameters).await;
    let plan = of(&here);
    // No accuracy may be lost, and hardly any record may come back.
    let demands = Demands {
        thresholds: Thresholds::new(None, Some(0.2)).unwrap(),
        max_accuracy_loss: Some(0.0),
    };
    let careful = search(&here, &plan, demands).await;
    assert!(
        careful.tried.iter().all(|t| t.results.len() == 2 && t.results[0].figure.is_some()),
        "{}",
        careful.text()
    );
    let exposed = careful.tried.iter().find(|t| t.policy.is_none()).unwrap();
    assert!(!exposed.meets(), "exact scores rebuild these features: {}", careful.text());
    // What is lost is lost against exact scores of the same records, in whichever round a policy is tried.
    let exact = exposed.utility.accuracy.unwrap();
    for trial in &careful.tried {
        let lost = exact - trial.utility.accuracy.unwrap();
        assert!((trial.accuracy_loss().unwrap() - lost).abs() < 1e-12, "{}: {lost}", trial.policy);
    }
    let chosen = careful.recommended().expect("labels keep the class and rebuild few records");
    assert!(
        chosen.results[0].figure.unwrap() <= 0.2 && chosen.accuracy_loss() == Some(0.0),
        "{}",
        careful.text()
    );
    // The same without the limit costs nothing else; with a limit that nothing meets, nothing is recommended.
    let dear = Demands { thresholds: at_most(1e-6).thresholds, ..demands };
    assert!(search(&here, &plan, dear).await.recommended().is_none());
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_needs_known_records_and_enough_others() {
    let here = informed_about(BOTH, Grant::TrueParameters).await;
    let plan = of(&here);
    let refused = async |plan: &Plan| {
        recommend::run(&here.deployment.targets(), plan, at_most(0.1), |_, _, _| ())
            .await
            .unwrap_err()
            .message
    };
    let blind = Plan { help: Default::default(), ..plan.clone() };
    assert!(refused(&blind).await.contains("`auxiliary_ids`"));
    let few = Plan { ids: plan.ids.slice(0, 199), ..plan.clone() };
    let said = refused(&few).await;
    assert!(said.contains("199 records are too few") && said.contains("at least 200"), "{said}");
    here.deployment.stop().await.unwrap();
}
