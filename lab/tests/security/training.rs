//! An active party that trains in order to read features, not to get a model.
//!
//! It speaks the training protocol itself, so that it can choose records, labels, classes, configuration and logit shares.

use nalgebra::{DMatrix, DVector};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use vfl_core::model::{TrainingConfig, TrainingMode, TrainingValues};
use vfl_core::types::{LogitShare, PartyName, RecordIds};
use vfl_datasets::private_training::train_in_the_clear;
use vfl_numerics::PseudoInverse;
use vfl_passive_party::config::TrainingPolicy;
use vfl_protocol::pb::RowStatus;
use vfl_protocol::pb::training_command::Command;
use vfl_protocol::pb::training_reply::Reply;
use vfl_protocol::{decode_columns, pb};
use vfl_server::service::Role;
use vfl_state::journal::Journal;
use vfl_testbed::deployment::{Deployment, DeploymentSpec};

use super::support::{
    Trained, coordinator_client, dataset, score, spec, split, trained, training_ids,
};

/// Training as the attacker conducts it.
struct Conduct {
    replies: mpsc::Sender<pb::TrainingReply>,
    commands: Streaming<pb::TrainingCommand>,
    step: u64,
}

impl Conduct {
    /// Opens a training on records with labels of the attacker's choice.
    async fn open(
        deployment: &Deployment,
        config: &TrainingConfig,
        classes: usize,
        ids: &RecordIds,
        labels: &[u32],
    ) -> Result<Self, Status> {
        let class_names = (0..classes).map(|c| format!("c{c}")).collect();
        Self::open_named(deployment, config, class_names, ids, labels).await
    }

    async fn open_named(
        deployment: &Deployment,
        config: &TrainingConfig,
        class_names: Vec<String>,
        ids: &RecordIds,
        labels: &[u32],
    ) -> Result<Self, Status> {
        let (replies, outgoing) = mpsc::channel(16);
        let start = pb::TrainingStart {
            config: Some(config.into()),
            class_names,
            record_count: ids.len() as u32,
        };
        let labelled = pb::LabelledRecords { ids: Some(ids.into()), labels: labels.to_vec() };
        for reply in [Reply::Start(start), Reply::Labelled(labelled)] {
            replies.send(pb::TrainingReply { reply: Some(reply) }).await.unwrap();
        }
        let mut client = coordinator_client(deployment, Role::ActiveParty);
        let commands = client.train(ReceiverStream::new(outgoing)).await?.into_inner();
        let mut conduct = Self { replies, commands, step: 0 };
        match conduct.next().await? {
            Command::Begin(_) => {}
            other => panic!("expected begin, got {other:?}"),
        }
        conduct.reply(Reply::Ready(pb::TrainingReady { features: 4, sub_model: None })).await;
        Ok(conduct)
    }

    async fn reply(&self, reply: Reply) {
        // Whoever has ended the stream says why in its status.
        let _ = self.replies.send(pb::TrainingReply { reply: Some(reply) }).await;
    }

    async fn next(&mut self) -> Result<Command, Status> {
        loop {
            let message = self
                .commands
                .message()
                .await?
                .ok_or_else(|| Status::unavailable("the stream has ended"))?;
            match message.command.unwrap() {
                Command::Progress(_) => {}
                command => return Ok(command),
            }
        }
    }

    /// The next batch, and the gradient (k × B) of the one before.
    async fn step(&mut self) -> Result<(Vec<u32>, Option<DMatrix<f64>>), Status> {
        let Command::Step(step) = self.next().await? else { panic!("expected a step") };
        self.step = step.step;
        let gradient =
            step.gradient.map(|g| decode_columns("gradient", &g, g.rows as usize, None).unwrap());
        Ok((step.batch, gradient))
    }

    async fn share(&self, share: DMatrix<f64>) {
        let shares = LogitShare::new(share).unwrap();
        let shares = pb::BatchShares { step: self.step, shares: Some(shares.into()) };
        self.reply(Reply::Shares(shares)).await;
    }
}

fn config(values: TrainingValues) -> TrainingConfig {
    TrainingConfig::try_from(values).unwrap()
}

/// Logits up to one number a record: the logarithm of a softmax, which a gradient gives away.
fn log_scores(gradient: &DMatrix<f64>, labels: &[u32]) -> DMatrix<f64> {
    let n = gradient.ncols() as f64;
    let mut scores = gradient * n;
    for (mut column, &label) in scores.column_iter_mut().zip(labels) {
        column[label as usize] += 1.0;
    }
    scores.map(|c| c.max(1e-300).ln())
}

/// The review's first attack, a black box: saturated shares take the targets out of the first gradient, so that the passive
/// weights follow from records that the attacker knows; the second step then shows W x of every target, undefended.
///
/// `known` are the first records of `ids`; gives estimates of the others' passive features.
async fn read_by_saturation(
    deployment: &Deployment,
    ids: &RecordIds,
    known: &DMatrix<f64>,
    classes: usize,
) -> Result<DMatrix<f64>, Status> {
    let (d, n) = (known.nrows(), ids.len());
    let labels: Vec<u32> = (0..n).map(|i| (i % classes) as u32).collect();
    let values = TrainingValues {
        epochs: 3,
        batch_size: n as u32,
        learning_rate: 0.1,
        l2: 0.0,
        validation_share: 0.0,
        ..Default::default()
    };
    let learning_rate = values.learning_rate;
    let mut conduct = Conduct::open(deployment, &config(values), classes, ids, &labels).await?;
    let (first, _) = conduct.step().await?;
    let is_known = |position: u32| (position as usize) < known.ncols();
    let saturated = DMatrix::from_fn(classes, n, |c, j| {
        let position = first[j];
        if !is_known(position) && labels[position as usize] as usize == c { 1000.0 } else { 0.0 }
    });
    conduct.share(saturated).await;
    let (second, gradient) = conduct.step().await?;
    // What the passive party made of the gradient: Adam's first step, on the known records alone.
    let gradient = gradient.unwrap();
    let mut slope = DMatrix::zeros(classes, d);
    for (column, &position) in gradient.column_iter().zip(&first) {
        if is_known(position) {
            slope += column * known.column(position as usize).transpose();
        }
    }
    let weights = slope.map(|g: f64| -learning_rate * g / (g.abs() + 1e-8));
    conduct.share(DMatrix::zeros(classes, n)).await;
    let (_, gradient) = conduct.step().await?;
    let batch_labels: Vec<u32> = second.iter().map(|&p| labels[p as usize]).collect();
    let logs = log_scores(&gradient.unwrap(), &batch_labels);
    let differences = |m: &DMatrix<f64>| {
        DMatrix::from_fn(m.nrows() - 1, m.ncols(), |i, j| m[(i, j)] - m[(i + 1, j)])
    };
    let inverse = PseudoInverse::new(&differences(&weights)).unwrap().matrix;
    let found = inverse * differences(&logs);
    let mut estimates = DMatrix::zeros(d, n - known.ncols());
    for (column, &position) in found.column_iter().zip(&second) {
        if !is_known(position) {
            estimates.set_column(position as usize - known.ncols(), &column);
        }
    }
    Ok(estimates)
}

/// A deployment with four passive features, a model in service, and rules of the caller's choice.
async fn deployed(consent: impl FnOnce(&mut TrainingPolicy)) -> Trained {
    trained(1, 4, 1).await.again(|spec| consent(&mut spec.consent)).await
}

fn passive_features(here: &Trained, ids: &RecordIds) -> DMatrix<f64> {
    let columns = &here.split.passive()[0].columns;
    let positions: Vec<usize> =
        ids.iter().map(|id| here.dataset.ids().iter().position(|i| i == id).unwrap()).collect();
    here.dataset.x().select_columns(&positions).select_rows(columns)
}

#[tokio::test(flavor = "multi_thread")]
async fn saturated_shares_do_not_read_features() {
    let here = deployed(|_| ()).await;
    let k = here.dataset.class_names().len();
    let all = here.dataset.ids();
    let (few, many) = (all.slice(0, 312), all.slice(0, 1200));
    let known = passive_features(&here, &all.slice(0, 12));
    let attack = async |ids: &RecordIds, classes| {
        read_by_saturation(&here.deployment, ids, &known, classes).await
    };
    for (ids, classes, says) in
        [(&few, k, "min_records"), (&many, 13, "max_classes"), (&few, 13, "max_classes")]
    {
        let refused = attack(ids, classes).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        assert!(refused.message().contains(says), "{}", refused.message());
    }
    // Within the passive party's rules it is the coordinator that sees the shares.
    let refused = attack(&many, k).await.unwrap_err();
    assert!(refused.message().contains("logit shares pass 0.000"), "{}", refused.message());
    here.deployment.stop().await.unwrap();
}

/// Shares just within what one update can make of parameters are too small to take a record out of a gradient.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_in_which_most_residuals_are_gone_is_not_taken() {
    let here = deployed(|_| ()).await;
    let k = here.dataset.class_names().len();
    let ids = here.dataset.ids().slice(0, 1200);
    let labels: Vec<u32> = (0..1200).map(|i| (i % k) as u32).collect();
    let values = TrainingValues {
        epochs: 150,
        batch_size: 1200,
        learning_rate: 0.1,
        validation_share: 0.0,
        ..Default::default()
    };
    let mut conduct =
        Conduct::open(&here.deployment, &config(values), k, &ids, &labels).await.unwrap();
    // The largest shares that pass: four features of the attacker's word, learning rate 0.1.
    let ended = loop {
        let (batch, _) = match conduct.step().await {
            Ok(step) => step,
            Err(status) => break status,
        };
        let most = 7.27 * 0.1 * 5.0 * (conduct.step - 1) as f64;
        let target = |position: u32| position >= 12;
        let share = DMatrix::from_fn(k, batch.len(), |c, j| match target(batch[j]) {
            true if labels[batch[j] as usize] as usize == c => most,
            true => -most,
            false => 0.0,
        });
        conduct.share(share).await;
    };
    assert_eq!(ended.code(), Code::FailedPrecondition, "{ended}");
    assert!(ended.message().contains("hardly a residual left"), "{}", ended.message());
    here.deployment.stop().await.unwrap();
}

/// What a training has shown counts from its first step on, aborted or not, at both parties and over a restart.
#[tokio::test(flavor = "multi_thread")]
async fn an_aborted_training_leaves_a_trace_and_its_records_are_not_served() {
    let here = deployed(|p| p.min_records = 300).await;
    let k = here.dataset.class_names().len();
    let ids = here.dataset.ids().select(&here.dataset.split().test).slice(0, 400);
    let before = score(&here.deployment, &ids.slice(0, 3)).await.unwrap();
    assert_eq!(before.row_status, vec![RowStatus::Ok as i32; 3]);
    let labels = vec![0; ids.len()];
    let values = TrainingValues { validation_share: 0.0, ..Default::default() };
    let mut conduct =
        Conduct::open(&here.deployment, &config(values), k, &ids, &labels).await.unwrap();
    for _ in 0..3 {
        let (batch, _) = conduct.step().await.unwrap();
        conduct.share(DMatrix::zeros(k, batch.len())).await;
    }
    conduct.step().await.unwrap();
    drop(conduct);
    let refused = vec![RowStatus::TrainingRecord as i32; 3];
    assert_eq!(score(&here.deployment, &ids.slice(0, 3)).await.unwrap().row_status, refused);
    let version = here.version.clone();
    let here = here.again(|_| ()).await;
    assert_eq!(score(&here.deployment, &ids.slice(0, 3)).await.unwrap().row_status, refused);
    let described = coordinator_client(&here.deployment, Role::Auditor)
        .describe_model(pb::DescribeModelRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(described.model_version, version, "the old model is in service");
    for party in ["passive-1", "coordinator"] {
        let trainings = Journal::list(&here.deployment.party_dir(party).join("trainings")).unwrap();
        let last = trainings.last().unwrap();
        assert_eq!(trainings.len(), 2, "{party}");
        assert_eq!(
            (last.active_party.as_str(), last.records, &last.published),
            ("active", 400, &None),
            "{party}"
        );
        assert!(last.steps >= 3, "{party}: {}", last.steps);
    }
    here.deployment.stop().await.unwrap();
}

/// The passive party's own rules, over sockets: each is refused with its name, and nothing is written down of it.
/// A million made-up ids took 265 MiB of the coordinator and 161 of a passive party that forbids training. Now the rules are looked at
/// before an id is asked for: this caller names none, and is refused all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_training_is_refused_before_a_record_is_named() {
    for (records, says) in [(1_000_000, "`allowed = true`"), (20_000_000, "2 to 10 million")] {
        let here = deployed(|p| p.allowed = false).await;
        let (replies, outgoing) = mpsc::channel(4);
        let config = Some((&config(TrainingValues::default())).into());
        let class_names = (0..3).map(|c| format!("c{c}")).collect();
        let start = pb::TrainingStart { config, class_names, record_count: records };
        replies.send(pb::TrainingReply { reply: Some(Reply::Start(start)) }).await.unwrap();
        let mut client = coordinator_client(&here.deployment, Role::ActiveParty);
        let answered = async {
            let mut commands = client.train(ReceiverStream::new(outgoing)).await?.into_inner();
            commands.message().await
        };
        let refused = tokio::time::timeout(std::time::Duration::from_secs(10), answered)
            .await
            .unwrap()
            .unwrap_err();
        assert!(refused.message().contains(says), "{refused}");
        here.deployment.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rule_of_the_passive_party_is_named() {
    type Rule = fn(&mut TrainingPolicy);
    let rules: [(Rule, &str); 9] = [
        (|p| p.allowed = false, "`allowed = true`"),
        (|p| p.active_party = Some(PartyName::new("other").unwrap()), "`active_party`"),
        (|p| p.max_classes -= 1, "max_classes"),
        (|p| p.class_names = vec!["x".into(), "y".into()], "class_names"),
        (|p| p.min_records = 100_000, "min_records"),
        (|p| p.min_batch = 65, "min_batch"),
        (|p| p.max_learning_rate = 0.001, "max_learning_rate"),
        (|p| p.max_epochs = 1, "max_epochs"),
        (|p| p.max_total = 1, "max_total"),
    ];
    let mut here = trained(1, 4, 1).await;
    let config = super::support::config(2);
    let ids = training_ids(&here.dataset);
    for (rule, says) in rules {
        here = here.again(|spec| rule(&mut spec.consent)).await;
        let refused = here.deployment.train(&config, &ids, |_| ()).await.unwrap_err();
        assert!(refused.message.contains(says), "{says}: {refused}");
        let trainings =
            Journal::list(&here.deployment.party_dir("passive-1").join("trainings")).unwrap();
        assert_eq!(trainings.len(), 1, "{says}");
    }
    here.deployment.stop().await.unwrap();
}

/// A single record of unknown features among validation records would be read from the validation loss: too few are refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_validation_set_has_a_minimum() {
    let here = trained(1, 4, 1).await;
    let ids = training_ids(&here.dataset);
    let config = |share: f64| {
        config(TrainingValues {
            epochs: 2,
            validation_share: share,
            ..super::support::config(2).values().clone()
        })
    };
    let share = 63.0 / ids.len() as f64;
    let refused = here.deployment.train(&config(share), &ids, |_| ()).await.unwrap_err();
    assert!(refused.message.contains("63 validation records"), "{refused}");
    here.deployment.train(&config(64.0 / ids.len() as f64), &ids, |_| ()).await.unwrap();
    here.deployment.stop().await.unwrap();
}

/// Whether records are held can be asked by proposing trainings: each such question counts.
#[tokio::test(flavor = "multi_thread")]
async fn membership_cannot_be_asked_for_without_end() {
    let here = deployed(|p| p.max_per_day = 3).await;
    let k = here.dataset.class_names().len();
    let mut names: Vec<String> = here.dataset.ids().iter().take(1100).map(str::to_owned).collect();
    names.push("a stranger".into());
    let ids = RecordIds::new(&names).unwrap();
    let labels = vec![0; ids.len()];
    let values = config(TrainingValues { validation_share: 0.0, ..Default::default() });
    let mut said = Vec::new();
    for _ in 0..4 {
        let ended = match Conduct::open(&here.deployment, &values, k, &ids, &labels).await {
            Ok(mut conduct) => conduct.step().await.unwrap_err(),
            Err(status) => status,
        };
        said.push(ended);
    }
    assert_eq!(said.iter().filter(|s| s.code() == Code::NotFound).count(), 2, "{said:?}");
    assert!(said[3].message().contains("max_per_day"), "{}", said[3].message());
    here.deployment.stop().await.unwrap();
}

/// A coordinator of another active party's configuration refuses this one, whatever is in service.
#[tokio::test(flavor = "multi_thread")]
async fn the_service_belongs_to_the_active_party_that_the_configuration_names() {
    let dataset = dataset();
    let dir = tempfile::tempdir().unwrap();
    let spec: DeploymentSpec = spec(dir.path(), &dataset, &split(&dataset, 1, 4));
    let deployment = Deployment::start_with(spec, |_, settings| {
        settings.active_party = Some(PartyName::new("somebody-else").unwrap());
        Ok(())
    })
    .await
    .unwrap();
    let refused = deployment
        .train(&super::support::config(1), &training_ids(&dataset), |_| ())
        .await
        .unwrap_err();
    assert!(refused.message.contains("somebody-else"), "{refused}");
    deployment.stop().await.unwrap();
}

/// The oracle of the attack: on exact gradients it finds the features, so that its refusals above are of a working attack.
#[test]
fn the_attack_is_sound() {
    let (d, k) = (4, 13);
    let features = |seed: usize, i: usize, j: usize| {
        ((seed * 7919 + i * 104_729 + j * 1_299_709) % 1000) as f64 / 1000.0
    };
    let known = DMatrix::from_fn(d, 12, |i, j| features(1, i, j));
    let x = DVector::from_fn(d, |i, _| features(2, i, 3));
    let mut slope = DMatrix::zeros(k, d);
    for j in 0..12 {
        let residual = DVector::from_fn(k, |c, _| 1.0 / k as f64 - f64::from(u8::from(c == j)));
        slope += residual * known.column(j).transpose();
    }
    let weights = slope.map(|g: f64| -0.1 * g / (g.abs() + 1e-8));
    let scores = {
        let z = (&weights * &x).map(f64::exp);
        let sum = z.sum();
        z / sum
    };
    let differences = |m: &DMatrix<f64>| {
        DMatrix::from_fn(m.nrows() - 1, m.ncols(), |i, j| m[(i, j)] - m[(i + 1, j)])
    };
    let mut gradient = DMatrix::from_column_slice(k, 1, scores.as_slice());
    gradient[(5, 0)] -= 1.0;
    let logs = log_scores(&gradient, &[5]);
    let found = PseudoInverse::new(&differences(&weights)).unwrap().matrix * differences(&logs);
    assert!((found.column(0) - x).amax() < 1e-9, "{found}");
}

/// Labels that put one record alone into a class make the bias of a private training of one epoch a
/// linear function of that record's features: the bias contains the passive centres. The active
/// party chooses the labels, receives the bias, and so learns one number of a record at each
/// training, which is why trainings are counted.
#[test]
fn the_bias_tells_one_number_of_a_record_that_is_alone_in_its_class() {
    let dataset = dataset();
    let split = split(&dataset, 1, 4);
    let positions = &dataset.split().train;
    let x = dataset.x().select_columns(positions);
    let (d, n) = (x.nrows(), x.ncols());
    let (mode, epochs, validation_share) = (TrainingMode::Private, 1, 0.0);
    let values = TrainingValues { mode, epochs, validation_share, ..Default::default() };
    let config = TrainingConfig::try_from(values).unwrap();
    let bias = |record: usize| {
        let mut labels = vec![0; n];
        labels[record] = 1;
        train_in_the_clear(&config, 2, (&x, &labels), &split).unwrap().bias[1]
    };
    let records: Vec<usize> = (0..d + 13).map(|at| 17 * at).collect();
    let told = DVector::from_iterator(records.len(), records.iter().map(|&record| bias(record)));
    let row = |at: usize, column: usize| if column < d { x[(column, records[at])] } else { 1.0 };
    let features = DMatrix::from_fn(records.len(), d + 1, row);
    let fitted = d + 3;
    let inverse = PseudoInverse::new(&features.rows(0, fitted).into_owned()).unwrap().matrix;
    let factors = inverse * told.rows(0, fitted);
    let error = (features * factors - &told).rows(fitted, 10).amax();
    let spread = told.max() - told.min();
    assert!(spread > 1e-5 && error < 1e-3 * spread, "{error:e} of {spread:e}");
}
