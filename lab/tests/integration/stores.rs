//! A deployment whose parties keep their features in SQLite, or in Parquet files on disk, trains and serves what one with tables in memory
//! does, to the last bit.

use std::sync::Arc;

use parquet::basic::{Compression, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use vfl_core::data::table::FeatureTable;
use vfl_core::model::{Combiner, ModelConfig, TrainingConfig, TrainingValues};
use vfl_core::types::{ModelVersion, PartyName, RecordIds};
use vfl_features::features::Features;
use vfl_features::stores::{ParquetConfig, ParquetStore, SqliteConfig, SqliteStore, load_sqlite};
use vfl_protocol::pb;
use vfl_state::ShareStore;
use vfl_testbed::deployment::Deployment;

use super::support::{dataset, score, spec, split, training_ids};

/// The table in a SQLite file, filled as `load-features` fills it.
async fn sqlite(dir: &std::path::Path, name: &PartyName, table: &FeatureTable) -> Features {
    let csv = dir.join(format!("{name}.csv"));
    table.write_csv(&mut std::fs::File::create(&csv).unwrap()).unwrap();
    let config = SqliteConfig::new(dir.join(format!("{name}.sqlite")));
    let schema = table.normalised_schema();
    assert_eq!(
        load_sqlite(&config, &schema, &csv, false).await.unwrap() as usize,
        table.ids().len()
    );
    Features::Remote(Arc::new(SqliteStore::new(config, schema).unwrap()))
}

/// The table in a Parquet file that stays on disk, in pages and row groups of few rows.
fn parquet(dir: &std::path::Path, name: &PartyName, table: &FeatureTable) -> Features {
    let schema = table.normalised_schema();
    let quoted = |column: &str, kind: &str| {
        let kind = if kind == "DOUBLE" { PhysicalType::DOUBLE } else { PhysicalType::BYTE_ARRAY };
        let column =
            Type::primitive_type_builder(column, kind).with_repetition(Repetition::REQUIRED);
        Arc::new(column.build().unwrap())
    };
    let label = schema.label().map(|label| quoted(&label.column, "TEXT"));
    let fields = std::iter::once(quoted(schema.id_column(), "TEXT"))
        .chain(schema.features().iter().map(|feature| quoted(&feature.name, "DOUBLE")))
        .chain(label);
    let root = Type::group_type_builder("rows").with_fields(fields.collect()).build().unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_data_page_row_count_limit(70)
        .set_write_batch_size(35)
        .build();
    let path = dir.join(format!("{name}.parquet"));
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(root), Arc::new(properties)).unwrap();
    let (n, d) = (table.ids().len(), schema.len());
    for from in (0..n).step_by(300) {
        let to = (from + 300).min(n);
        let mut group = writer.next_row_group().unwrap();
        let mut at = 0;
        while let Some(mut column) = group.next_column().unwrap() {
            if (1..=d).contains(&at) {
                let values: Vec<f64> = table
                    .block()
                    .matrix()
                    .row(at - 1)
                    .columns(from, to - from)
                    .iter()
                    .copied()
                    .collect();
                column.typed::<DoubleType>().write_batch(&values, None, None).unwrap();
            } else {
                let text = |row: usize| match (at, table.labels(), schema.label()) {
                    (0, ..) => ByteArray::from(table.ids().get(row).unwrap()),
                    (_, Some(labels), Some(label)) => {
                        ByteArray::from(label.classes[labels[row] as usize].as_str())
                    }
                    _ => panic!("no such column"),
                };
                let values: Vec<ByteArray> = (from..to).map(text).collect();
                column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
            }
            column.close().unwrap();
            at += 1;
        }
        group.close().unwrap();
    }
    writer.close().unwrap();
    Features::Remote(Arc::new(ParquetStore::open(&ParquetConfig::on_disk(path), schema).unwrap()))
}

/// Trains, then scores records that are held, mixed with some that are not.
async fn train_and_score(
    deployment: &Deployment,
    config: &TrainingConfig,
    ids: &RecordIds,
) -> (String, pb::ScoreResponse) {
    let published = deployment.train(config, &training_ids(&dataset()), |_| ()).await.unwrap();
    (published.version.into(), score(deployment, ids).await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn features_in_any_store_give_the_same_bits() {
    let mlp = serde_json::json!({ "hidden": [5] });
    let mlp =
        ModelConfig::new(Combiner::Sum, "mlp", None, mlp.as_object().unwrap().clone()).unwrap();
    let all_together = features_in_any_store_give_the_same_bits_of(ModelConfig::default(), 0).await;
    let in_blocks = features_in_any_store_give_the_same_bits_of(ModelConfig::default(), 640).await;
    assert_ne!(all_together, in_blocks, "another order gives another model");
    features_in_any_store_give_the_same_bits_of(mlp, 0).await;
}

/// Gives the digests of the parameters.
async fn features_in_any_store_give_the_same_bits_of(
    model: ModelConfig,
    shuffle_block: u32,
) -> Vec<String> {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split = split(&dataset, 2, 3);
    let values = TrainingValues {
        epochs: 3,
        validation_share: 0.2,
        seed: 7,
        model,
        shuffle_block,
        ..Default::default()
    };
    let config = TrainingConfig::try_from(values).unwrap();
    let test = &dataset.split().test;
    let mut asked: Vec<String> =
        dataset.ids().select(&test[..test.len().min(90)]).iter().map(str::to_owned).collect();
    asked.insert(3, "nobody".into());
    let asked = RecordIds::new(&asked).unwrap();

    let mut found = Vec::new();
    for name in ["memory", "sqlite", "parquet"] {
        let home = dir.path().join(name);
        std::fs::create_dir(&home).unwrap();
        let spec = spec(&home.join("state"), &dataset, &split);
        let mut stores = std::collections::HashMap::new();
        if name == "sqlite" {
            let tables = &spec.tables;
            let active = PartyName::new("active").unwrap();
            stores.insert(active.clone(), sqlite(&home, &active, &tables.active).await);
            for (party, table) in &tables.passive {
                stores.insert(party.clone(), sqlite(&home, party, table).await);
            }
        }
        if name == "parquet" {
            let active = PartyName::new("active").unwrap();
            stores.insert(active.clone(), parquet(&home, &active, &spec.tables.active));
            let passive = spec.tables.passive.iter();
            stores.extend(
                passive.map(|(party, table)| (party.clone(), parquet(&home, party, table))),
            );
        }
        let place = |party: &PartyName, table: FeatureTable| {
            Ok(stores.remove(party).unwrap_or_else(|| table.into()))
        };
        let deployment = Deployment::start_from(spec, |_, _| Ok(()), place).await.unwrap();
        let (version, answer) = train_and_score(&deployment, &config, &asked).await;
        let version = ModelVersion::new(version).unwrap();
        let digests: Vec<String> = ["active", "passive-1", "passive-2"]
            .map(|party| {
                ShareStore::open(&deployment.party_dir(party))
                    .unwrap()
                    .load(&version)
                    .unwrap()
                    .digest
            })
            .into();
        deployment.stop().await.unwrap();
        found.push((digests, answer.row_status, answer.release));
    }
    let [memory, elsewhere @ ..] = &found[..] else { panic!("three deployments") };
    for other in elsewhere {
        assert_eq!(memory.0, other.0, "the parties' parameters");
        assert_eq!(memory.1, other.1, "the status of every row");
        assert!(memory.2.is_some() && memory.2 == other.2, "the scores");
    }
    memory.0.clone()
}

/// One record that the store lacks stops the training before its first step; without it the training runs.
#[tokio::test(flavor = "multi_thread")]
async fn records_that_a_store_does_not_hold_stop_a_training() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split = split(&dataset, 1, 3);
    let spec = spec(&dir.path().join("state"), &dataset, &split);
    let (party, table) = &spec.tables.passive[0];
    // All records but the first of the training.
    let ids = training_ids(&dataset);
    let kept: Vec<usize> =
        (0..table.ids().len()).filter(|&at| table.ids().get(at) != ids.get(0)).collect();
    let fewer = FeatureTable::new(
        table.normalised_schema(),
        table.ids().select(&kept),
        vfl_core::data::table::FeatureStore::fetch_at(table, &kept).unwrap(),
        None,
    );
    let features = sqlite(dir.path(), party, &fewer.unwrap()).await;
    let mut place = Some(features);
    let place = |name: &PartyName, table: FeatureTable| match name.as_str() {
        "active" => Ok(table.into()),
        _ => Ok(place.take().unwrap()),
    };
    let deployment = Deployment::start_from(spec, |_, _| Ok(()), place).await.unwrap();
    let values = TrainingValues { epochs: 2, seed: 7, ..TrainingValues::default() };
    let config = TrainingConfig::try_from(values).unwrap();
    let refused = deployment.train(&config, &ids, |_| ()).await.unwrap_err();
    assert!(refused.message.contains("some of the"), "{refused}");
    let rest = ids.slice(1, ids.len());
    deployment.train(&config, &rest, |_| ()).await.unwrap();
    deployment.stop().await.unwrap();
}
