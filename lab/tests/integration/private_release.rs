//! Predictions on secret shares, over sockets: the coordinator sees no logit and no score.

use vfl_coordinator::config::Budgets;
use vfl_core::types::{ReleasedScores, RowStatus};
use vfl_defense::DefenseConfig;
use vfl_party::computation::release::ServingMode;
use vfl_passive_party::config::ServingPolicy;
use vfl_protocol::{pb, read_scores};
use vfl_server::service::Role;

use super::support::{Trained, coordinator_client, credentials, score, test_ids, trained};

/// Lets the first passive party compute, as the coordinator chooses.
fn private() -> ServingPolicy {
    ServingPolicy {
        mode: ServingMode::Private,
        computing_party: Some(vfl_core::types::PartyName::new("passive-1").unwrap()),
        policies: None,
    }
}

fn defense(text: &str) -> Vec<DefenseConfig> {
    text.parse::<vfl_defense::Policy>().unwrap().defenses
}

async fn released(here: &Trained, records: std::ops::Range<usize>) -> (Vec<RowStatus>, ReleasedScores) {
    let ids = test_ids(&here.dataset, records.start, records.end);
    let answer = score(&here.deployment, &ids).await.unwrap();
    let k = here.dataset.class_names().len();
    read_scores(&answer.row_status, answer.release.as_ref(), ids.len(), k).unwrap()
}

fn numbers(released: &ReleasedScores) -> Vec<f64> {
    match released {
        ReleasedScores::Probabilities(m) | ReleasedScores::Numbers(m) => m.iter().copied().collect(),
        ReleasedScores::Labels { labels, .. } => labels.iter().map(|l| f64::from(*l)).collect(),
        ReleasedScores::Ciphertexts(_) => unreachable!("no policy here encrypts"),
    }
}

/// With one, two and four passive parties, each policy releases on shares what it releases plainly.
#[tokio::test(flavor = "multi_thread")]
async fn shares_release_what_the_plain_service_releases() {
    for parties in [1, 2, 4] {
        let mut here = trained(parties, 2, 4).await;
        // Each policy is asked about records of its own: ten queries are a record's budget.
        for (at, policy) in [
            "none",
            "class_label",
            "class_label (softening = 0.1)",
            "ranking",
            "rounding (decimals = 3)",
            "rounding (decimals = 0)",
        ]
        .into_iter()
        .enumerate()
        {
            let records = 60 * at..60 * (at + 1);
            here = here.again(|spec| spec.defenses = defense(policy)).await;
            let (_, plain) = released(&here, records.clone()).await;
            here = here
                .again(|spec| (spec.defenses, spec.serving) = (defense(policy), private()))
                .await;
            let (status, shared) = released(&here, records.clone()).await;
            assert!(status.iter().all(|status| *status == RowStatus::Ok), "{policy}");
            let (plain_kind, kind) =
                (std::mem::discriminant(&plain), std::mem::discriminant(&shared));
            assert_eq!(plain_kind, kind, "{parties} parties, {policy}");
            let (plain, shared) = (numbers(&plain), numbers(&shared));
            assert_eq!(plain.len(), shared.len());
            let worst = plain.iter().zip(&shared).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(worst < 1e-9, "{parties} parties, {policy}: {worst:e}");
        }
        here.deployment.stop().await.unwrap();
    }
}
