use vfl_core::data::table::FeatureStore;
use vfl_core::model::contract::start_of;
use vfl_core::model::{
    Combiner, HeadLearner, ModelConfig, ModelSpec, PartyLearner, Schedule, TrainingConfig,
    TrainingValues, cross_entropy, heads, train_central,
};
use vfl_core::types::FeatureBlock;
use vfl_datasets as data;
use vfl_datasets::{DatasetName, DatasetSpec, SyntheticFields, SyntheticParameters, partition};
use vfl_protocol::{RefusalKind, pb};
use vfl_server::service::Role;
use vfl_state::ShareStore;
use vfl_state::journal::Journal;

use super::networks::{embeddings, top_digest};
use super::support::{
    active_client, config, coordinator_client, dataset, deploy, split, training_ids,
};

/// Training over the sockets gives what training with all features in one place gives, to 1e-9, with 1 and 3 passive parties.
#[tokio::test(flavor = "multi_thread")]
async fn distributed_training_is_central_training() {
    let dataset = dataset();
    let config = config(12);
    let ids = training_ids(&dataset);
    let positions = &dataset.split().train;
    let x = dataset.x().select_columns(positions);
    let labels: Vec<u32> = positions.iter().map(|&p| dataset.labels()[p]).collect();
    let central = train_central(&config, dataset.class_names().len(), &x, &labels);
    for parties in [1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let split = split(&dataset, parties, 2);
        let deployment = deploy(dir.path(), &dataset, &split).await;
        let mut epochs = 0;
        let published = deployment.train(&config, &ids, |_| epochs += 1).await.unwrap();
        assert_eq!((published.epochs, published.best_epoch), (central.epochs, central.best_epoch));
        assert!(epochs > 0 && epochs <= published.epochs);
        let version = published.version;
        let load = |name: &str| {
            ShareStore::open(&deployment.party_dir(name)).unwrap().load(&version).unwrap()
        };
        let mut worst = 0.0f64;
        let active = load("active").linear().unwrap().clone();
        let mut compare = |weights: &nalgebra::DMatrix<f64>, columns: &[usize]| {
            worst = worst.max((weights - central.weights.select_columns(columns)).amax());
        };
        compare(active.weights(), split.active());
        for party in split.passive() {
            compare(load(party.name.as_str()).linear().unwrap().weights(), &party.columns);
        }
        worst = worst.max((active.bias().unwrap() - &central.bias).amax());
        assert!(worst < 1e-9, "{parties} passive parties: parameters differ by {worst:e}");
        assert!(central.weights.amax() > 0.5, "the comparison is of a model that has learned");
        deployment.stop().await.unwrap();
    }
}

/// Over the sockets and in one process the same seed puts the same bytes on the parties' disks. `lab/datasets/tests/digests.rs` has the
/// digests that it gave at all times.
#[tokio::test(flavor = "multi_thread")]
async fn sockets_change_no_bit_of_a_model() {
    let settings = |value: serde_json::Value| value.as_object().unwrap().clone();
    let residual = settings(serde_json::json!({ "height": 1, "blocks": 1, "filters": [4, 8] }));
    let residual = ModelConfig::new(Combiner::Concat, "residual", Some(5), residual).unwrap();
    for model in [ModelConfig::default(), embeddings(&[6], 5, &[7]), residual] {
        sockets_change_no_bit_of(model).await;
    }
}

async fn sockets_change_no_bit_of(model: ModelConfig) {
    let dataset = dataset();
    let split = split(&dataset, 2, 3);
    let values = TrainingValues {
        epochs: 3,
        validation_share: 0.0,
        seed: 11,
        model,
        ..TrainingValues::default()
    };
    let config = TrainingConfig::try_from(values).unwrap();
    let (ids, k) = (training_ids(&dataset), dataset.class_names().len());
    let dir = tempfile::tempdir().unwrap();
    let deployment = deploy(&dir.path().join("sockets"), &dataset, &split).await;
    let published = deployment.train(&config, &ids, |_| ()).await.unwrap();
    let version = published.version;

    let columns: Vec<&[usize]> = std::iter::once(split.active())
        .chain(split.passive().iter().map(|p| &p.columns[..]))
        .collect();
    let x = dataset.x().select_columns(&dataset.split().train);
    let labels: Vec<u32> = dataset.split().train.iter().map(|&p| dataset.labels()[p]).collect();
    let mut parties: Vec<PartyLearner> = columns
        .iter()
        .enumerate()
        .map(|(at, rows)| {
            let block = FeatureBlock::new(x.select_rows(*rows)).unwrap();
            PartyLearner::new(&config, k, block, at == 0).unwrap()
        })
        .collect();
    let specs = parties.iter().map(|party| party.spec().clone()).collect::<Vec<_>>();
    let model =
        config.values().model.model(k as u32, specs[0].clone(), specs[1..].to_vec()).unwrap();
    let mut head = HeadLearner::new(&config, heads::start(&model, k as u32, start_of(11)).unwrap());
    let mut schedule = Schedule::new(&config, ids.len());
    for _ in 0..3 {
        for batch in schedule.next_epoch() {
            let shares =
                parties.iter_mut().map(|party| party.shares(&batch, false).unwrap()).collect();
            let y: Vec<u32> = batch.iter().map(|&p| labels[p as usize]).collect();
            let (_, gradient, _) = cross_entropy(head.logits(shares, false).unwrap(), &y);
            for (party, gradient) in parties.iter_mut().zip(head.update(gradient).unwrap()) {
                party.update(gradient.matrix()).unwrap();
            }
        }
    }
    let store = ShareStore::open(&dir.path().join("here")).unwrap();
    for ((party, columns), name) in
        parties.iter().zip(columns).zip(["active", "passive-1", "passive-2"])
    {
        let names: Vec<String> =
            columns.iter().map(|&c| dataset.features()[c].name.clone()).collect();
        let here = store.put(party.parameters(false).unwrap(), &names).unwrap();
        let there =
            ShareStore::open(&deployment.party_dir(name)).unwrap().load(&version).unwrap().digest;
        assert_eq!(here, there, "{name}");
    }
    if let Some(top) = head.parameters(false).unwrap() {
        let there = ShareStore::open(&deployment.party_dir("coordinator").join("top")).unwrap();
        let values =
            there.stored(&top_digest(&deployment, version.as_str())).unwrap().model().snapshot();
        assert_eq!(values, top.blocks.into_iter().map(|block| block.values).collect::<Vec<_>>());
    }
    deployment.stop().await.unwrap();
}

/// A model that cannot be trained is refused by name before any training is written down, and what is in service says what it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_trained_is_refused_by_name() {
    let dataset = dataset();
    let dir = tempfile::tempdir().unwrap();
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 2, 2)).await;
    let (ids, k) = (training_ids(&dataset), dataset.class_names().len() as u32);
    let plain = pb::ModelConfig {
        combiner: pb::Combiner::Sum as i32,
        kind: "softmax_regression".into(),
        width: None,
        settings: String::new(),
        top: None,
    };
    for (model, says) in [
        (
            pb::ModelConfig { combiner: pb::Combiner::Concat as i32, ..plain.clone() },
            "combiner `concat` does not take `softmax_regression`",
        ),
        (pb::ModelConfig { combiner: 9, ..plain.clone() }, "`combiner` is out of range"),
        (
            pb::ModelConfig { kind: "forest".into(), ..plain.clone() },
            "this version knows `softmax_regression`, `one_vs_rest`, `mlp`",
        ),
        (
            pb::ModelConfig {
                kind: "mlp".into(),
                settings: r#"{"hidden":[0]}"#.into(),
                ..plain.clone()
            },
            "`hidden` is a list of at most 16 widths",
        ),
        (
            pb::ModelConfig { settings: r#"{"hidden":[8]}"#.into(), ..plain.clone() },
            "`hidden` is unknown",
        ),
        (pb::ModelConfig { width: Some(0), ..plain.clone() }, "`width` is 0"),
        (
            pb::ModelConfig { top: Some("{}".into()), ..plain.clone() },
            "combiner `sum` has no top model",
        ),
        (pb::ModelConfig { width: Some(u32::MAX), ..plain.clone() }, "`width` is 4294967295"),
        (pb::ModelConfig { width: Some(k + 1), ..plain.clone() }, "one output per class"),
    ] {
        let config = pb::TrainingConfig { model: Some(model), ..(&config(1)).into() };
        let request = pb::TrainJobRequest { config: Some(config), ids: Some((&ids).into()) };
        let mut client = active_client(&deployment);
        let refused = match client.train(request).await {
            Err(status) => status,
            Ok(events) => events.into_inner().message().await.unwrap_err(),
        };
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains(says), "{refused}");
    }
    for party in ["coordinator", "passive-1"] {
        assert!(
            Journal::list(&deployment.party_dir(party).join("trainings")).unwrap().is_empty(),
            "{party}"
        );
    }
    // What is the default may be said.
    let config = pb::TrainingConfig {
        model: Some(pb::ModelConfig { width: Some(k), ..plain }),
        ..(&config(1)).into()
    };
    deployment.train(&TrainingConfig::try_from(&config).unwrap(), &ids, |_| ()).await.unwrap();
    let mut coordinator = coordinator_client(&deployment, Role::ActiveParty);
    let described =
        coordinator.describe_model(pb::DescribeModelRequest {}).await.unwrap().into_inner();
    let model = ModelSpec::try_from(&described.model.unwrap()).unwrap();
    assert_eq!(model, ModelSpec::softmax_regression(k, 2).unwrap());
    deployment.stop().await.unwrap();
}

/// Records that the model separates leave a few residuals at last, whose gradient would show those records alone: it is not sent.
/// The best parameters so far go into service if there is a validation set to know them by, and none otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_training_with_nothing_left_to_learn_ends_with_its_best_parameters() {
    let fields = SyntheticFields { class_sep: 20.0, flip_y: 0.0, ..SyntheticFields::default() };
    let mut spec = DatasetSpec::new(DatasetName::Synthetic, None, 3);
    spec.synthetic = SyntheticParameters::new(fields).unwrap();
    let dataset = data::load(&spec).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 1, 4)).await;
    let ids = training_ids(&dataset);
    let (epochs, patience) = (2000, 2000);
    let values = |validation_share| {
        let values = TrainingValues {
            epochs,
            patience,
            learning_rate: 0.1,
            l2: 0.0,
            validation_share,
            seed: 5,
            batch_size: 512,
            ..TrainingValues::default()
        };
        TrainingConfig::try_from(values).unwrap()
    };
    let refused = deployment.train(&values(0.0), &ids, |_| ()).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    assert!(refused.message.contains("hardly a residual left"), "{refused}");
    let mut accuracy = None;
    let published =
        deployment.train(&values(0.1), &ids, |p| accuracy = p.validation_accuracy).await.unwrap();
    assert!(
        published.epochs < epochs && (1..published.epochs).contains(&published.best_epoch),
        "{published:?}"
    );
    assert_eq!(accuracy, Some(1.0));
    deployment.stop().await.unwrap();
}

/// A passive party that dies in mid-training is named to the active party, the old model stays in service, and training can
/// be started again.
#[tokio::test(flavor = "multi_thread")]
async fn a_party_lost_in_training_is_named_and_the_old_model_stays() {
    let dataset = dataset();
    let dir = tempfile::tempdir().unwrap();
    let split = split(&dataset, 2, 2);
    let mut deployment = deploy(dir.path(), &dataset, &split).await;
    let ids = training_ids(&dataset);
    let first = deployment.train(&config(2), &ids, |_| ()).await.unwrap();

    let (tell, told) = tokio::sync::oneshot::channel();
    let mut tell = Some(tell);
    let long = TrainingValues { epochs: 100_000, patience: 100_000, ..config(1).values().clone() };
    let long = TrainingConfig::try_from(long).unwrap();
    let refusal = {
        let mut client = active_client(&deployment);
        let request = vfl_protocol::pb::TrainJobRequest {
            config: Some((&long).into()),
            ids: Some((&ids).into()),
        };
        let watch = tokio::spawn(async move {
            let mut events = client.train(request).await.unwrap().into_inner();
            loop {
                match events.message().await {
                    Ok(Some(_)) => drop(tell.take().map(|t| t.send(()))),
                    Ok(None) => panic!("training ended"),
                    Err(status) => return status,
                }
            }
        });
        told.await.unwrap();
        deployment.stop_passive(1).await;
        watch.await.unwrap()
    };
    assert_eq!(RefusalKind::from_code(refusal.code()), RefusalKind::Unavailable, "{refusal}");
    assert!(refusal.message().contains("passive-2"), "{}", refusal.message());

    deployment.restart_passive(1).await.unwrap();
    let model = vfl_protocol::pb::DescribeModelRequest {};
    let channel = vfl_server::service::channel(
        &deployment.active_credentials,
        &deployment.coordinator_peer(),
    )
    .unwrap();
    let mut coordinator = vfl_protocol::pb::coordinator_client::CoordinatorClient::new(channel);
    let described = coordinator.describe_model(model).await.unwrap().into_inner();
    assert_eq!(described.model_version, first.version.as_str(), "the old model is in service");
    let test = dataset.ids().select(&dataset.split().test[..50]);
    let request =
        vfl_protocol::pb::ScoreRequest { ids: Some((&test).into()), ..Default::default() };
    let scored = active_client(&deployment).predict(request).await.unwrap().into_inner();
    assert_eq!(scored.row_status, vec![1; 50]);
    deployment.train(&config(3), &ids, |_| ()).await.expect("training can be started again");
    deployment.stop().await.unwrap();
}

/// The data of the parties stand in different orders, so nothing above rests on row order.
#[test]
fn parties_hold_their_records_in_different_orders() {
    let dataset = dataset();
    let tables = partition::divide(&dataset, &split(&dataset, 1, 2), 9).unwrap();
    assert_ne!(tables.active.ids(), tables.passive[0].1.ids());
    assert_eq!(tables.active.len(), tables.passive[0].1.len());
}
