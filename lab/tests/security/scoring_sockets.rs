//! The same over sockets: a passive party that answers with noise, a reader that spends its budget, and an honest audit of it.

use nalgebra::DMatrix;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status, Streaming};
use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::{Level, Outcome, ScoringMode, verdict};
use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::{FeatureStore, FeatureTable};
use vfl_core::metrics::{METRICS, metrics_named};
use vfl_core::types::FeatureBlock;
use vfl_passive_party::config::{AuditPolicy, ReleasePolicy, Settings, TrainingPolicy};
use vfl_protocol::pb::evaluate_reconstruction_request::Message as Ask;
use vfl_protocol::pb::evaluate_reconstruction_response::Message as Answer;
use vfl_protocol::pb::passive_party_client::PassivePartyClient;
use vfl_protocol::{RefusalKind, pb};
use vfl_server::service::{Role, channel};
use vfl_transform::scoring::accountant::RHO;

use super::support::{Trained, credentials, spec, test_ids, trained};

/// The first passive party again, with its state and its address, and with the audit policy of somebody who sets nothing but
/// `allowed`.
async fn with_defaults(
    here: &mut Trained,
    release: ReleasePolicy,
) -> (std::sync::Arc<vfl_core::data::table::FeatureTable>, CancellationToken) {
    with_policy(here, release, AuditPolicy { allowed: true, ..Default::default() }).await
}

/// The same with this audit policy.
async fn with_policy(
    here: &mut Trained,
    release: ReleasePolicy,
    audit: AuditPolicy,
) -> (std::sync::Arc<vfl_core::data::table::FeatureTable>, CancellationToken) {
    let peer = here.deployment.passive_peers().remove(0);
    here.deployment.stop_passive(0).await;
    let (_, table) = spec(here.dir.path(), &here.dataset, &here.split).tables.passive.remove(0);
    let table = std::sync::Arc::new(table);
    let settings = Settings {
        credentials: here.deployment.credentials(Role::PassiveParty, peer.name.as_str()).unwrap(),
        limits: vfl_server::service::Limits::default(),
        monitoring: Default::default(),
        state_dir: (&here.deployment.party_dir(peer.name.as_str())).into(),
        features: table.clone().into(),
        release,
        serving: Default::default(),
        training: TrainingPolicy::default(),
        audit,
        collusion: Default::default(),
        alignment: Default::default(),
        outputs: None,
    };
    // A connection of another test may have the port for a moment.
    let mut tries = 0;
    let listener = loop {
        match tokio::net::TcpListener::bind(&peer.address).await {
            Ok(listener) => break listener,
            Err(error) => assert!(tries < 100, "{error}"),
        }
        tries += 1;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    let stop = CancellationToken::new();
    tokio::spawn(vfl_passive_party::service::run(
        settings,
        listener,
        stop.clone().cancelled_owned(),
    ));
    (table, stop)
}

struct Call {
    asks: mpsc::Sender<pb::EvaluateReconstructionRequest>,
    answers: Streaming<pb::EvaluateReconstructionResponse>,
    opened: pb::EvaluationOpened,
}

impl Call {
    async fn open(here: &Trained, ids: &vfl_core::types::RecordIds) -> Result<Self, Status> {
        let peer = here.deployment.passive_peers().remove(0);
        let auditor = channel(&credentials(&here.deployment, Role::Auditor), &peer).unwrap();
        let (asks, outgoing) = mpsc::channel(4);
        let message = Some(Ask::Ids(ids.into()));
        asks.send(pb::EvaluateReconstructionRequest { message, ..Default::default() })
            .await
            .unwrap();
        let mut client = PassivePartyClient::new(auditor);
        let mut answers =
            client.evaluate_reconstruction(ReceiverStream::new(outgoing)).await?.into_inner();
        let Some(Answer::Opened(opened)) = answers.message().await?.unwrap().message else {
            panic!("not opened")
        };
        Ok(Self { asks, answers, opened })
    }

    async fn send(&self, message: Ask) {
        let _ = self
            .asks
            .send(pb::EvaluateReconstructionRequest {
                message: Some(message),
                ..Default::default()
            })
            .await;
    }

    async fn score(
        &mut self,
        estimates: &DMatrix<f64>,
        rho: Option<f64>,
    ) -> Result<pb::Scored, Status> {
        self.score_by(estimates, rho, &[]).await
    }

    async fn score_by(
        &mut self,
        estimates: &DMatrix<f64>,
        rho: Option<f64>,
        metrics: &[&str],
    ) -> Result<pb::Scored, Status> {
        let values: Vec<u8> = estimates.as_slice().iter().flat_map(|v| v.to_le_bytes()).collect();
        let (rows, columns) = (estimates.ncols() as u32, estimates.nrows() as u32);
        // In two messages, as estimates that are too large for one come.
        let cut = 40 * estimates.nrows() * 8;
        for (values, rows, more) in
            [(values[..cut].to_vec(), 40, true), (values[cut..].to_vec(), rows - 40, false)]
        {
            let rows = Some(pb::Matrix { rows, columns, values: values.into() });
            self.send(Ask::Estimates(pb::Estimates { rows, more, control: false })).await;
        }
        self.send(Ask::Score(pb::Score {
            told: pb::score::Told::All.into(),
            by_feature: true,
            by_attribute: false,
            rho,
            metrics: metrics.iter().map(|&name| name.to_owned()).collect(),
            ..Default::default()
        }))
        .await;
        match self.answers.message().await?.unwrap().message {
            Some(Answer::Scored(scored)) => Ok(scored),
            other => panic!("{other:?}"),
        }
    }
}

/// 129 answers over sockets, the whole budget: the records are read no better than by their mean; then nothing is answered, not on a
/// new call either. By default a scoring spends 0.005, and there are 17.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_over_sockets_spends_the_budget_and_reads_nothing() {
    let mut here = trained(1, 4, 1).await;
    let (table, stop) = with_defaults(&mut here, ReleasePolicy::default()).await;
    let ids = test_ids(&here.dataset, 0, 100);
    let mut call = Call::open(&here, &ids).await.unwrap();
    assert_eq!(call.opened.mode(), pb::ScoringMode::Noised);
    assert_eq!((call.opened.rho_total, call.opened.rho_left), (Some(RHO), Some(RHO)));
    assert!(
        call.opened.half.is_none() && call.opened.column_mean.is_none(),
        "a function of the truth is not free"
    );

    let (n, answers) = (100, 129);
    let truth = table.fetch(&ids).unwrap();
    let truth = truth.matrix();
    let sign =
        |row: usize, i: usize| if (row & i).count_ones().is_multiple_of(2) { 0.5 } else { -0.5 };
    let mut told = Vec::new();
    for row in 0..answers {
        let estimates =
            DMatrix::from_fn(4, n, |_, i| if row == 0 { 0.5 } else { 0.5 + sign(row - 1, i) });
        let scored = call.score(&estimates, Some(RHO / answers as f64)).await.unwrap();
        let error = scored.errors[0].error.clone().unwrap();
        assert!(error.sigma.unwrap() > 0.0 && scored.rho_left.unwrap() >= 0.0);
        told.push(error);
    }
    // What read 100 x 12 values to 1e-3 before: here each figure is off by many standard deviations of a feature, so that the best
    // reader weighs it next to nothing.
    let mut error = 0.0;
    let mut spread = 0.0;
    for f in 0..4 {
        let mean = truth.row(f).mean();
        let variance = truth.row(f).variance();
        let noise = 2.0 * told[0].sigma_by_feature.unwrap().powi(2) * (n * n) as f64;
        for i in 0..n {
            let sum: f64 = (1..answers)
                .map(|row| {
                    2.0 * sign(row - 1, i)
                        * (told[row].mse_by_feature[f] - told[0].mse_by_feature[f] - 0.25)
                        * n as f64
                })
                .sum();
            // x = ½ − sum / 128 with noise of variance `noise` / 128, weighed against the prior.
            let weight = variance / (variance + noise / 128.0);
            let read = mean + weight * (0.5 - sum / 128.0 - mean);
            error += (read - truth[(f, i)]).powi(2);
        }
        spread += variance * n as f64;
    }
    let left = (error / spread).sqrt();
    println!("over sockets: {left:.3} of the standard deviation over all records");
    assert!((0.9..1.1).contains(&left), "{left}");

    let refused = call.score(truth, Some(0.001)).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("0.000000 is left"), "{refused}");
    let mut again = Call::open(&here, &ids).await.unwrap();
    assert_eq!(again.opened.rho_left, Some(0.0));
    assert_eq!(again.score(truth, None).await.unwrap_err().code(), Code::ResourceExhausted);

    let mut other = Call::open(&here, &test_ids(&here.dataset, 100, 200)).await.unwrap();
    let half = DMatrix::from_element(4, 100, 0.5);
    for _ in 0..17 {
        assert_eq!(other.score(&half, None).await.unwrap().rho_spent, Some(0.005));
    }
    assert_eq!(other.score(&half, None).await.unwrap_err().code(), Code::ResourceExhausted);
    stop.cancel();
}

/// An honest audit under the defaults: within the budget, with σ beside every error, and a verdict that says no more than the noise lets
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_fits_the_budget_and_says_its_noise() {
    let mut here = trained(1, 2, 6).await;
    let release = vfl_testbed::deployment::white_box();
    let (_, stop) = with_defaults(&mut here, release).await;
    let plan = Plan {
        training_ids: None,
        ids: test_ids(&here.dataset, 0, 300),
        aware: true,
        queries: 3,
        rho: None,
        metrics: None,
        help: Default::default(),
        policies: ["none", "class_label"].map(|p| p.parse().unwrap()).into(),
        attacks: [Method::Half, Method::LeastSquares, Method::HalfStar, Method::Rcc2]
            .map(Into::into)
            .to_vec(),
        features: Default::default(),
        schema: true,
        seed: 11,
    };
    let findings = audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let [scoring] = &findings.scoring[..] else { panic!("{:?}", findings.scoring) };
    assert_eq!(scoring.mode, ScoringMode::Noised);
    assert!(
        scoring.rho_spent.unwrap() <= RHO && scoring.rho_left.unwrap() < RHO / 2.0,
        "{scoring:?}"
    );
    for audit in &findings.audits {
        assert!(
            audit.baselines.half.sigma.is_some() && audit.baselines.column_mean.sigma.is_some()
        );
        let ran = audit.attacks.iter().filter(|a| matches!(a.outcome, Outcome::Ran { .. }));
        let ran: Vec<_> = ran.collect();
        assert!(ran.len() <= 1, "the best alone");
        for attack in ran {
            let Outcome::Ran { errors, .. } = &attack.outcome else { continue };
            // 1 / (n √(2ρ)) at most, for the 8 parts of this plan.
            assert!(
                errors.sigma.unwrap() <= 1.02 / (300.0 * (2.0 * RHO / 8.0).sqrt()),
                "{errors:?}"
            );
            assert_eq!(errors.per_feature_sigma.len(), 2);
        }
    }
    let none = &findings.audits[0];
    let (name, errors) = none.strongest().unwrap();
    // Two features, five classes: without a defense the reconstruction is exact, and the noise hides that it is.
    assert!(errors.mse.abs() < 5.0 * errors.sigma.unwrap(), "{name}: {errors:?}");
    let said = verdict(none);
    assert!(matches!(said.level, Level::Partial | Level::Unresolved), "{said:?}");
    println!("300 records: {}", said.text);

    // An auditor may spend less; what no audit can be made of is refused before it has cost anything.
    let spent = Plan { rho: Some(1e-5), ..plan };
    let small = audit::run(&here.deployment.targets(), &spent, |_, _, _| ()).await.unwrap_err();
    assert_eq!(small.kind, RefusalKind::ResourceExhausted);
    assert!(
        small.message.contains("may spend rho = 0.000010")
            && small.message.contains("scorings renew"),
        "{small}"
    );
    stop.cancel();
}

/// A metric told with noise costs its own part of ρ, and 129 answers of one read nothing. A metric without a bound is refused by what
/// the mode is called, before it has cost anything.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_with_noise_are_paid_for_or_refused() {
    let mut here = trained(1, 1, 1).await;
    let (table, stop) = with_defaults(&mut here, ReleasePolicy::default()).await;
    let ids = test_ids(&here.dataset, 0, 100);
    let truth = table.fetch(&ids).unwrap();
    let truth = truth.matrix();
    for metric in METRICS.iter().filter(|m| !m.bounded()) {
        let mut call = Call::open(&here, &ids).await.unwrap();
        let refused = call.score_by(truth, Some(0.001), &[metric.name()]).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{}", metric.name());
        assert!(
            refused.message().contains("mode = \"noised\"")
                && refused.message().contains(metric.name()),
            "{refused}"
        );
    }
    let mut call = Call::open(&here, &ids).await.unwrap();
    assert_eq!(call.opened.rho_left, Some(RHO), "a refusal costs nothing");

    // The mean squared error and one metric: two parts of a scoring.
    let (n, answers) = (100.0, 129);
    let rho = RHO / f64::from(answers);
    let mut read = Vec::new();
    let mut sigma = 0.0;
    for _ in 0..answers {
        // All estimates are the truth but that of record 7, which is so far off that only a value near it counts: the share of values
        // within 0.1 tells whether that record lies there.
        let mut estimates = truth.clone();
        estimates[(0, 7)] = 0.0;
        let scored = call.score_by(&estimates, Some(rho), &["values_within"]).await.unwrap();
        assert_eq!(scored.rho_spent, Some(rho));
        let figure = &scored.errors[0].error.as_ref().unwrap().metrics[0];
        sigma = figure.sigma.unwrap();
        let derived = 1.0 / n / (2.0 * rho / 2.0).sqrt();
        assert!((sigma / derived - 1.0).abs() < 0.01, "{sigma} {derived}");
        read.push(figure.value.unwrap());
    }
    // 99 or 100 of 100: the mean of all answers is off by more than the step between the two, so that it does not tell which.
    let error = sigma / f64::from(answers).sqrt();
    assert!(error > 2.0 / n, "{error}");
    let mean = read.iter().sum::<f64>() / f64::from(answers);
    assert!((mean - 1.0).abs() < 5.0 * error, "{mean}");
    assert!(read.iter().any(|v| *v > 1.0), "noise is not cut off, which keeps the mean right");
    assert_eq!(call.score(truth, Some(0.001)).await.unwrap_err().code(), Code::ResourceExhausted);
    stop.cancel();
}

/// An audit with noise asks for no metric of its own accord, and for those that are named within the budget.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_with_noise_buys_metrics_from_the_budget() {
    let mut here = trained(1, 2, 6).await;
    let (_, stop) = with_defaults(&mut here, vfl_testbed::deployment::white_box()).await;
    let plan = Plan {
        help: Default::default(),
        training_ids: None,
        ids: test_ids(&here.dataset, 0, 300),
        aware: false,
        queries: 1,
        rho: Some(RHO / 2.0),
        metrics: Some(metrics_named(["values_within", "permutation_matched_mse"]).unwrap()),
        policies: vec!["none".parse().unwrap()],
        attacks: vec![Method::LeastSquares.into(), Method::HalfStar.into()],
        features: Default::default(),
        schema: true,
        seed: 11,
    };
    let refused = Plan {
        metrics: Some(metrics_named(["values_within", "correlation"]).unwrap()),
        ..plan.clone()
    };
    let refused = audit::run(&here.deployment.targets(), &refused, |_, _, _| ()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    assert!(
        refused.message.contains("`correlation`") && refused.message.contains("noised"),
        "{refused}"
    );

    let findings = audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let spent = findings.scoring[0].rho_spent.unwrap();
    assert!(
        (spent - RHO / 2.0).abs() < 1e-9,
        "{spent}: refusals cost nothing, and the audit all that it may"
    );
    let none = &findings.audits[0];
    let (_, errors) = none.strongest().unwrap();
    // Two features, five classes: exact, up to the noise. Parts: choice, error, two metrics; two guesses, two metrics of one.
    let sigma = 1.02 / (300.0 * (2.0 * RHO / 2.0 / 8.0).sqrt());
    for (figure, exact) in errors.metrics.iter().zip([1.0, 0.0]) {
        assert!(figure.sigma.unwrap() <= sigma, "{figure:?}");
        assert!((figure.value.unwrap() - exact).abs() < 5.0 * figure.sigma.unwrap(), "{figure:?}");
    }
    assert_eq!((errors.metrics.len(), none.baselines.half.metrics.len()), (2, 2));
    assert!(
        none.baselines.column_mean.metrics.is_empty(),
        "it depends on the truth: no bound holds for it"
    );

    let silent = Plan { metrics: None, rho: None, ..plan };
    let findings = audit::run(&here.deployment.targets(), &silent, |_, _, _| ()).await.unwrap();
    assert!(
        findings.metrics.is_empty() && findings.audits[0].strongest().unwrap().1.metrics.is_empty()
    );
    stop.cancel();
}

/// An adversary that knows records whole, and its control: one control for all candidates, paid for once, within the budget.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_with_a_control_fits_the_budget() {
    let here = trained(1, 2, 6).await;
    let columns = &here.split.passive()[0].columns;
    let most = here.dataset.split().test.len() - 100;
    let positions = &here.dataset.split().test[most..];
    let x =
        DMatrix::from_fn(columns.len(), 100, |i, j| here.dataset.x()[(columns[i], positions[j])]);
    let known = test_ids(&here.dataset, most, most + 100);
    let names =
        (0..columns.len()).map(|i| FeatureSpec::numeric(format!("known {i}"), 0.0, 1.0)).collect();
    let schema = FeatureSchema::new(names, None).unwrap();
    let table =
        FeatureTable::new(schema, known.clone(), FeatureBlock::new(x).unwrap(), None).unwrap();
    let mut here = here.again(|spec| spec.help.known = Some(table)).await;
    let (_, stop) = with_defaults(&mut here, vfl_testbed::deployment::white_box()).await;
    let help = audit::Help { auxiliary_ids: Some(known), ..Default::default() };
    let ids = test_ids(&here.dataset, 0, most);
    let plan = Plan {
        help,
        ..Plan::of(ids, vec!["none".parse().unwrap()], audit::informed_attacks(), 11)
    };
    let findings = audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let scoring = &findings.scoring[0];
    assert!(scoring.rho_spent.unwrap() <= RHO, "{scoring:?}");
    let [audit] = &findings.audits[..] else { panic!("one audit") };
    assert_eq!(audit.threat_model.known_records, 100);
    let (name, errors) = audit.strongest().unwrap();
    let best = audit.attacks.iter().find(|a| a.name == name).unwrap();
    let added = best.added_risk.as_ref().unwrap();
    // Two features of five classes: the scores tell both, whatever is known beforehand.
    assert!(errors.mse.abs() < 5.0 * errors.sigma.unwrap(), "{errors:?}");
    assert_eq!(added.control, "best_imputation");
    let said = verdict(audit);
    match (added.low, added.high) {
        (Some(low), Some(high)) => {
            let value = added.value.unwrap();
            assert!(low < value && value <= high && high > 0.9, "{added:?}");
        }
        // The noise does not tell the control from 0: nothing is excluded, and nothing is claimed.
        _ => assert!(!said.text.contains("95 %"), "{said:?}"),
    }
    println!("{most} records, 100 known: {}", said.text);
    stop.cancel();
}

/// The adversary that knows the moments, played by a party that answers with noise: within the budget, and paid for like any other.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_owner_plays_is_told_with_noise_and_paid_for() {
    let mut here = trained(1, 2, 6).await;
    let leave = AuditPolicy { allowed: true, moments: true, ..Default::default() };
    let (_, stop) = with_policy(&mut here, vfl_testbed::deployment::white_box(), leave).await;
    let ids = test_ids(&here.dataset, 0, 300);
    let plan = Plan {
        rho: Some(RHO / 2.0),
        ..Plan::of(ids, vec!["none".parse().unwrap()], vec![Method::HalfStar.into()], 1)
    };
    let findings = audit::run(&here.deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let scoring = &findings.scoring[0];
    assert!((scoring.rho_spent.unwrap() - RHO / 2.0).abs() < 1e-9, "{scoring:?}");
    let played = findings.audits.iter().find(|audit| audit.threat_model.moments).unwrap();
    let (name, errors) = played.strongest().unwrap();
    // Of the two attacks one is told, and its control. Two features, five classes: exact, up to the noise.
    assert_eq!(played.attacks.len(), 2, "{name}");
    let sigma = errors.sigma.unwrap();
    assert!(sigma > 0.0 && errors.mse.abs() < 5.0 * sigma, "{errors:?}");
    let risk = played.added_risk().unwrap().2;
    assert_eq!(risk.control, "imputation (moments = own)");
    if let (Some(low), Some(high)) = (risk.low, risk.high) {
        assert!(low <= 1.0 && high > 0.9, "{risk:?}");
    }
    stop.cancel();
}
