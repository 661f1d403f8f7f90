//! Defenses over the sockets: answers that do not move, policies that need parameters or calibration scores, and adversaries
//! that ask more than once.

use std::collections::BTreeSet;

use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::{Audit, DefenseKnowledge, Observations, Outcome, Shares, ThreatModel};
use vfl_coordinator::config::Budgets;
use vfl_defense::{DefenseConfig, Policy};
use vfl_passive_party::config::Grant;
use vfl_protocol::pb;
use vfl_server::service::Role;

use super::support::{Trained, coordinator_client, score, test_ids, trained};

pub(super) fn defense(text: &str) -> Vec<vfl_defense::DefenseConfig> {
    text.parse::<Policy>().unwrap().defenses
}

/// Whatever a policy draws, it draws once for a record.
#[tokio::test(flavor = "multi_thread")]
async fn asking_again_gives_the_same_bytes() {
    let mut here = trained(2, 2, 2).await;
    let ids = test_ids(&here.dataset, 0, 5);
    let mut answers = BTreeSet::new();
    for (policy, times) in [
        ("gaussian_noise (sigma = 0.1)", 1000),
        ("dp_gaussian (epsilon = 0.5)", 20),
        ("privee_dp", 20),
        ("privee_dp_plus_plus", 20),
        ("order_preserving_encryption", 20),
    ] {
        here = here.with_budgets(Budgets::UNLIMITED, |spec| spec.defenses = defense(policy)).await;
        let mut distinct = BTreeSet::new();
        for _ in 0..times {
            let answer = score(&here.deployment, &ids).await.unwrap();
            distinct.insert(prost::Message::encode_to_vec(&answer));
        }
        assert_eq!(distinct.len(), 1, "{policy}");
        answers.extend(distinct);
        // In another batch and another order, too.
        let turned = score(&here.deployment, &ids.select(&[3, 1])).await.unwrap();
        let all = score(&here.deployment, &ids).await.unwrap();
        let rows = |answer: pb::ScoreResponse| -> Vec<Vec<u8>> {
            match answer.release.unwrap().kind.unwrap() {
                pb::release::Kind::Probabilities(m) | pb::release::Kind::Numbers(m) => {
                    m.values.chunks(8 * m.columns as usize).map(<[u8]>::to_vec).collect()
                }
                pb::release::Kind::Ciphertexts(m) => {
                    m.values.chunks(8 * m.columns as usize).map(<[u8]>::to_vec).collect()
                }
                pb::release::Kind::Labels(_) => panic!("labels came"),
            }
        };
        let (turned, all) = (rows(turned), rows(all));
        assert_eq!(turned, [all[3].clone(), all[1].clone()], "{policy}");
    }
    assert_eq!(answers.len(), 5, "every policy draws its own");
    here.deployment.stop().await.unwrap();
}

/// What the live service releases is described, and fitted or directed policies work from what the training left.
#[tokio::test(flavor = "multi_thread")]
async fn policies_get_what_they_need_or_say_what_they_lack() {
    let mut here = trained(1, 3, 2).await;
    let ids = test_ids(&here.dataset, 0, 200);
    for policy in ["logit_noise (alpha = 2.0, scheme = 1)", "ranking", "codebook (size = 8)"] {
        here = here.again(|spec| spec.defenses = defense(policy)).await;
        let described = coordinator_client(&here.deployment, Role::Auditor)
            .describe_model(pb::DescribeModelRequest {})
            .await
            .unwrap()
            .into_inner();
        let told = Policy::try_from(&described.policy.unwrap()).unwrap();
        assert_eq!(told.to_string(), policy);
        let answer = score(&here.deployment, &ids).await.unwrap();
        let Some(pb::release::Kind::Probabilities(m)) = answer.release.unwrap().kind else {
            panic!("{policy}")
        };
        let distinct: BTreeSet<&[u8]> = m.values.chunks(8 * m.columns as usize).collect();
        let most = match policy {
            "ranking" => (1..=m.columns as usize).product(),
            "codebook (size = 8)" => 8,
            _ => 200,
        };
        assert!((2..=most).contains(&distinct.len()), "{policy}: {} releases", distinct.len());
    }
    here =
        here.again(|spec| spec.defenses = defense("logit_noise (alpha = 2.0, scheme = 1)")).await;
    let open = |policy: &str| pb::OpenAuditRequest {
        model_version: here.version.clone(),
        policy: Some((&policy.parse::<Policy>().unwrap()).into()),
        ids: Some((&ids).into()),
        active_party: "active".into(),
    };
    let mut auditor = coordinator_client(&here.deployment, Role::Auditor);
    let opened = auditor.open_audit(open("ranking")).await.unwrap().into_inner();
    let promise = opened.promise.unwrap();
    assert!(promise.keeps_ranking && promise.keeps_arg_max && !promise.randomised);
    let k = here.dataset.class_names().len();
    let bits: f64 = (1..=k).map(|i| (i as f64).log2()).sum();
    assert!((promise.bits.unwrap() - bits).abs() < 1e-12);
    for (policy, bits) in
        [("class_label", Some((k as f64).log2())), ("class_label, unbound shares", None)]
    {
        let opened = auditor.open_audit(open(policy)).await.unwrap().into_inner();
        assert_eq!(opened.promise.unwrap().bits, bits, "{policy}");
    }
    let opened =
        auditor.open_audit(open("dp_gaussian (epsilon = 0.5)")).await.unwrap().into_inner();
    let notes = opened.promise.unwrap().notes.join(" ");
    assert!(notes.contains("one answer") && notes.contains("nothing is said"), "{notes}");
    let refused = auditor.open_audit(open("codebook (size = 1)")).await.unwrap_err();
    assert!(refused.message().contains("size"), "{}", refused.message());

    // Without the grant the coordinator says whose it is.
    let deployment = here.deployment;
    deployment.stop().await.unwrap();
    let mut spec = super::support::spec(here.dir.path(), &here.dataset, &here.split);
    spec.release.to_coordinator = Grant::Nothing;
    let deployment = vfl_testbed::deployment::Deployment::start(spec).await.unwrap();
    let mut auditor = coordinator_client(&deployment, Role::Auditor);
    let open = pb::OpenAuditRequest {
        model_version: here.version.clone(),
        policy: Some((&"logit_noise (alpha = 2.0, scheme = 1)".parse::<Policy>().unwrap()).into()),
        ids: Some((&ids).into()),
        active_party: "active".into(),
    };
    let refused = auditor.open_audit(open).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert!(
        refused.message().contains("passive-1") && refused.message().contains("to_coordinator"),
        "{refused}"
    );
    deployment.stop().await.unwrap();
}

async fn audits(here: &Trained, policies: &[&str], queries: u32) -> Vec<Audit> {
    let plan = Plan {
        training_ids: None,
        ids: test_ids(&here.dataset, 0, 150),
        policies: policies.iter().map(|p| p.parse().unwrap()).collect(),
        attacks: vec![Method::ClampedHalfStar.into()],
        features: Default::default(),
        schema: true,
        aware: true,
        queries,
        rho: None,
        metrics: None,
        help: Default::default(),
        seed: 3,
    };
    audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap().audits
}

fn aware(audits: &[Audit]) -> Vec<(f64, Vec<String>)> {
    let known = audits.iter().filter(|a| a.threat_model.defense == DefenseKnowledge::Known);
    known
        .map(|audit| match &audit.attacks[0].outcome {
            Outcome::Ran { errors, .. } => (errors.mse, audit.remarks.clone()),
            Outcome::NotScored { reason, .. } | Outcome::NotRun { reason, .. } => {
                panic!("{} has no error: {reason}", audit.attacks[0].name)
            }
        })
        .collect()
}

/// Chosen shares and averaging recover what the defense hides, until shares are bound and noise is keyed.
#[tokio::test(flavor = "multi_thread")]
async fn bound_shares_and_keyed_noise_stop_those_who_ask_again() {
    // One feature fewer than the classes: whoever has the logits has the features.
    let here = trained(1, 2, 6).await;
    let free = "gaussian_noise (sigma = 0.05), fresh noise";
    let cancelled = "gaussian_noise (sigma = 0.05), unbound shares";
    let policies = [
        "class_label, unbound shares",
        "class_label",
        free,
        "gaussian_noise (sigma = 0.05)",
        cancelled,
    ];
    let found = audits(&here, &policies, 200).await;
    let [chosen, bound, averaged, keyed, cancelled] = &aware(&found)[..] else {
        panic!("five audits")
    };
    assert!(
        cancelled.0 < 1e-6 && keyed.0 > 1e-4,
        "chosen shares on noise: {:e}, bound {:e}",
        cancelled.0,
        keyed.0
    );
    assert!(chosen.0 < 1e-9, "chosen shares on labels: {:e}", chosen.0);
    assert!(bound.0 > 1e3 * chosen.0.max(1e-9), "bound: {:e}", bound.0);
    assert!(averaged.0 < 0.5 * keyed.0, "averaged: {:e}, keyed: {:e}", averaged.0, keyed.0);
    assert!(averaged.1[0].contains("200 distinct"), "{:?}", averaged.1);
    assert!(keyed.1[0].contains("1 distinct"), "{:?}", keyed.1);
    here.deployment.stop().await.unwrap();
}

/// The report states what the adversary used: the answers it asked for and the shares it sent, defense by defense.
#[tokio::test(flavor = "multi_thread")]
async fn the_threat_model_is_what_the_attacks_used() {
    let here = trained(1, 2, 6).await;
    let once = (Observations::OneScorePerRecord, Shares::Honest);
    let often = (Observations::Repeated { times: 7 }, Shares::Honest);
    // Halving takes more questions than can be told beforehand; with noise that is keyed to the share one more is enough.
    let chosen = (Observations::Repeated { times: 2 }, Shares::Chosen);
    let cases = [
        ("rounding (decimals = 1)", once),
        ("top_k (k = 2)", once),
        ("class_label", once),
        ("randomized_label (epsilon = 1.0)", once),
        ("temperature (temperature = 4.0)", once),
        ("logit_noise (scheme = 1, alpha = 2.0)", once),
        ("gaussian_noise (sigma = 0.1)", often),
        ("dp_gaussian (epsilon = 0.5)", often),
        ("privee_dp (epsilon = 0.1, template = \"householder\")", once),
        ("privee_dp_plus_plus (template = \"householder\")", once),
        ("order_preserving_encryption", once),
        ("ranking", once),
        ("codebook (size = 16)", once),
        ("purifier", once),
        ("class_label, unbound shares", chosen),
        ("gaussian_noise (sigma = 0.05), unbound shares", chosen),
    ];
    let mut defenses: Vec<&str> =
        cases.iter().filter_map(|(text, _)| text.split([' ', ',']).next()).collect();
    defenses.dedup();
    let mut missing: Vec<&str> =
        DefenseConfig::NAMES.into_iter().filter(|name| !defenses.contains(name)).collect();
    // Bins are of numbers: `numbers.rs`.
    missing.retain(|name| !["none", "bins"].contains(name));
    assert!(missing.is_empty(), "no case for {missing:?}");
    let found = audits(&here, &cases.map(|(text, _)| text), 7).await;
    for (audits, (text, (observations, shares))) in found.chunks(2).zip(cases) {
        let [unknown, known] = audits else { panic!("{text}: two audits") };
        println!("{text}: {}", known.threat_model.phrases().join(", "));
        let mut white_box = ThreatModel::white_box(DefenseKnowledge::Unknown);
        white_box.features = vec!["the public schema".to_owned()];
        assert_eq!(unknown.threat_model, white_box, "{text}");
        assert_eq!(
            (known.threat_model.defense, known.threat_model.shares),
            (DefenseKnowledge::Known, shares),
            "{text}"
        );
        match (known.threat_model.observations, observations) {
            (Observations::Repeated { times }, Observations::Repeated { times: least })
                if shares == Shares::Chosen =>
            {
                assert!(times >= least, "{text}: {times}");
            }
            (used, stated) => assert_eq!(used, stated, "{text}"),
        }
    }
    here.deployment.stop().await.unwrap();
}

/// Whoever divides an order-preserving ciphertext by their number has the score to four digits and more, without a key.
#[test]
fn order_preserving_encryption_gives_the_scores_away() {
    use nalgebra::DMatrix;
    use rand::{RngExt, SeedableRng};
    use vfl_attack::KnownPolicy;
    use vfl_attack::adaptive::Interval;
    use vfl_core::types::Logits;
    use vfl_defense::{Grants, Noise, Pipeline};

    let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(5);
    let logits = Logits::new(DMatrix::from_fn(6, 300, |_, _| 8.0 * rng.random::<f64>())).unwrap();
    let policy: Policy = "order_preserving_encryption".parse().unwrap();
    let pipeline = Pipeline::build(&policy.defenses, 6, &Grants::default()).unwrap();
    let made = pipeline.release(logits, Noise::fresh([9; 32])).unwrap();
    let found = Interval { known: KnownPolicy::from(policy) }.scores(&made.released).unwrap();
    let truth = made.scores.matrix();
    let off = (&found.scores - truth).amax();
    assert!(off < 5e-5, "{off:e}");
    for ((low, high), c) in found.lower.iter().zip(&found.upper).zip(truth.iter()) {
        assert!(low <= c && c <= high, "{low} {c} {high}");
    }
}
