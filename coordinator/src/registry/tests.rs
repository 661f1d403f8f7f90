//! Tests of the registry of published models.

use vfl_core::model::contract::start_of;
use vfl_core::model::privacy::PrivacyStatement;
use vfl_core::model::{Combiner, SubModelSpec, TrainingConfig, heads};
use vfl_core::types::PartyName;

use super::*;

fn manifest(seed: u64) -> Manifest {
    let entry = |name: &str| PartyEntry {
        name: PartyName::new(name).unwrap(),
        features: 2,
        share: "0".repeat(64),
        privacy: None,
    };
    let config =
        TrainingConfig::try_from(vfl_core::model::TrainingValues { seed, ..Default::default() })
            .unwrap();
    let training = TrainingSummary {
        config,
        epochs: 1,
        best_epoch: 1,
        steps: 1,
        training_records: 2,
        validation_records: 0,
    };
    let ids = RecordIds::new(["r1", "r2"]).unwrap();
    let (model, classes) =
        (ModelSpec::softmax_regression(2, 1).unwrap(), vec!["a".into(), "b".into()]);
    Manifest::new(model, classes, entry("active"), vec![entry("p")], Some(training), &ids).unwrap()
}

#[test]
fn the_model_in_service_survives_a_restart_and_a_crash_before_the_switch() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path()).unwrap();
    assert!(registry.current().is_none());
    registry.commit(manifest(1), None).unwrap();
    // A crash after the manifest, before the pointer: the file is there, nothing points to it.
    let other = manifest(2);
    std::fs::write(manifest_path(dir.path(), &other.version), serde_json::to_vec(&other).unwrap())
        .unwrap();
    let again = Registry::open(dir.path()).unwrap().current().unwrap();
    assert_eq!(again.manifest.version, manifest(1).version);
    assert!(again.saw_in_training("r1") && !again.saw_in_training("r3"));
}

/// As written before models could be imported: the very bytes, and the version that their hash gave.
#[test]
fn an_older_manifest_keeps_its_version() {
    let old = r#"{"schema":1,"version":"m-e079b4238183700c","class_names":["a","b"],"active_party":{"name":"active","features":2,"share":"0000000000000000000000000000000000000000000000000000000000000000"},"passive_parties":[{"name":"p","features":2,"share":"0000000000000000000000000000000000000000000000000000000000000000"}],"training":{"config":{"epochs":100,"batch_size":64,"learning_rate":0.01,"l2":0.00001,"validation_share":0.1,"patience":10,"seed":1},"epochs":1,"best_epoch":1,"steps":1,"training_records":2,"validation_records":0},"training_ids":["r1","r2"]}"#;
    let now = manifest(1);
    let read: Manifest = serde_json::from_str(old).unwrap();
    assert_eq!(read.rehashed().unwrap(), now.version);
    assert_eq!(read.model().unwrap(), now.model().unwrap());
    let dir = tempfile::tempdir().unwrap();
    Registry::open(dir.path()).unwrap();
    std::fs::write(manifest_path(dir.path(), &now.version), old).unwrap();
    std::fs::write(dir.path().join("current"), format!("{}\n", now.version)).unwrap();
    let served = Registry::open(dir.path()).unwrap().current().unwrap();
    assert_eq!((&served.manifest.version, &served.spec), (&now.version, &now.model().unwrap()));
    assert_eq!(served.passive_fingerprint, now.passive_fingerprint());
}

/// A model under a top model whose parameters, all `value`, are stored in the registry.
fn with_top(registry: &Registry, value: f64) -> Manifest {
    let plain = manifest(1);
    let party = SubModelSpec::new("mlp", 3, Default::default()).unwrap();
    let top = SubModelSpec::new(
        "mlp",
        2,
        serde_json::json!({ "hidden": [] }).as_object().unwrap().clone(),
    )
    .unwrap();
    let model = ModelSpec::new(Combiner::Concat, party.clone(), vec![party], Some(top)).unwrap();
    let mut head = heads::start(&model, 2, start_of(1)).unwrap();
    head.tensors_mut().into_iter().for_each(|tensor| tensor.values.fill(value));
    let parameters = Parameters::of(head.top().unwrap(), head.snapshot());
    let inputs: Vec<String> = (1..=6).map(|n| format!("h{n}")).collect();
    let digest = registry.store_top(parameters, &inputs).unwrap();
    let parties = (plain.passive_parties, plain.training);
    let ids = RecordIds::new(["r1", "r2"]).unwrap();
    Manifest::with_top(model, Some(digest), plain.class_names, plain.active_party, parties, &ids)
        .unwrap()
}

/// The top model is part of the version and of what keys noise and budgets; it comes back to the bit after a restart, and a file that
/// is gone or half written is named.
#[test]
fn a_top_model_is_part_of_what_is_published() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path()).unwrap();
    let (one, other) = (with_top(&registry, 0.5), with_top(&registry, 0.25));
    assert_ne!(one.version, other.version);
    assert_ne!(one.passive_fingerprint(), other.passive_fingerprint());
    registry.commit(one.clone(), None).unwrap();
    let served = Registry::open(dir.path()).unwrap().current().unwrap();
    assert_eq!(
        (&served.manifest.version, served.head.combiner()),
        (&one.version, Combiner::Concat)
    );
    assert!(served.head.snapshot().concat().iter().all(|v| *v == 0.5));
    // Stored and not committed: the old one stays.
    with_top(&registry, 0.75);
    assert_eq!(
        Registry::open(dir.path()).unwrap().current().unwrap().manifest.version,
        one.version
    );

    let mut file = std::fs::read_dir(dir.path().join("top").join("shares"))
        .unwrap()
        .map(|f| f.unwrap().path());
    let file =
        file.find(|f| f.to_string_lossy().contains(one.top.as_ref().unwrap().as_str())).unwrap();
    let content = std::fs::read(&file).unwrap();
    std::fs::write(&file, &content[..content.len() / 2]).unwrap();
    let said = Registry::open(dir.path()).err().unwrap().to_string();
    assert!(said.contains(&*file.to_string_lossy()), "{said}");
    std::fs::remove_file(&file).unwrap();
    let said = Registry::open(dir.path()).err().unwrap().to_string();
    assert!(
        said.contains("missing") && said.contains(one.top.as_ref().unwrap().as_str()),
        "{said}"
    );
    // A manifest that names no top model, or one that needs none, is not of this model.
    let text = serde_json::to_string(&one).unwrap();
    let none = text.replacen(&format!("\"top\":\"{}\",", one.top.as_ref().unwrap()), "", 1);
    assert!(none != text && serde_json::from_str::<Manifest>(&none).unwrap().rehashed().is_err());
    let sum = serde_json::to_string(&manifest(1)).unwrap().replacen("\"sum\"", "\"concat\"", 1);
    assert!(
        serde_json::from_str::<Manifest>(&sum)
            .err()
            .unwrap()
            .to_string()
            .contains("needs a top model")
    );
}

/// A manifest of another kind is another version; changed in place, it is damage.
#[test]
fn the_model_is_part_of_the_version() {
    let now = manifest(1);
    let text = serde_json::to_string(&now).unwrap();
    for (from, to) in
        [("\"kind\":\"softmax_regression\"", "\"kind\":\"other\""), ("\"width\":2", "\"width\":3")]
    {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text);
        let changed: Manifest = serde_json::from_str(&changed).unwrap();
        assert_ne!(changed.rehashed().unwrap(), now.version, "{to}");
    }
    // Taking the model out makes a manifest of schema 2 without one.
    let dir = tempfile::tempdir().unwrap();
    Registry::open(dir.path()).unwrap().commit(now.clone(), None).unwrap();
    let mut without = now.clone();
    without.model = None;
    std::fs::write(manifest_path(dir.path(), &now.version), serde_json::to_vec(&without).unwrap())
        .unwrap();
    assert!(matches!(
        Registry::open(dir.path()),
        Err(RegistryError::File(StateFileError::Damaged { .. }))
    ));
}

/// What a party says of its privacy is part of the version; without it nothing is written of privacy.
#[test]
fn privacy_is_part_of_the_version() {
    let without = manifest(1);
    assert!(!serde_json::to_string(&without).unwrap().contains("privacy"));
    let of = |epsilon| {
        let mut passive = without.passive_parties.clone();
        passive[0].privacy =
            Some(PrivacyStatement { clip: 1.0, noise: 4.0, epsilon, delta: 1e-5, steps: 10 });
        let ids = RecordIds::new(["r1", "r2"]).unwrap();
        let (classes, active) = (without.class_names.clone(), without.active_party.clone());
        Manifest::new(
            without.model().unwrap(),
            classes,
            active,
            passive,
            without.training.clone(),
            &ids,
        )
        .unwrap()
    };
    let private = of(8.079_406_222_420_491);
    assert!(private.version != without.version && private.version != of(8.0).version);
    // Noise and budgets are keyed by the parameters, which are the same.
    assert_eq!(private.passive_fingerprint(), without.passive_fingerprint());
    let text = serde_json::to_string(&private).unwrap();
    let read: Manifest = serde_json::from_str(&text).unwrap();
    assert!(read == private && read.rehashed().unwrap() == private.version);
    let changed = text.replacen("\"steps\":10", "\"steps\":1", 1);
    assert_ne!(
        serde_json::from_str::<Manifest>(&changed).unwrap().rehashed().unwrap(),
        private.version
    );
}

/// What a later version published is not served by guessing.
#[test]
fn a_model_that_this_version_does_not_know_is_named_with_the_fix() {
    let now = manifest(1);
    let text = serde_json::to_string(&now).unwrap().replacen(
        "\"kind\":\"softmax_regression\"",
        "\"kind\":\"other\"",
        1,
    );
    let mut later: Manifest = serde_json::from_str(&text).unwrap();
    later.version = later.rehashed().unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert!(Registry::open(dir.path()).unwrap().commit(later.clone(), None).is_err());
    std::fs::write(manifest_path(dir.path(), &later.version), serde_json::to_vec(&later).unwrap())
        .unwrap();
    std::fs::write(dir.path().join("current"), format!("{}\n", later.version)).unwrap();
    let said = Registry::open(dir.path()).unwrap_err().to_string();
    assert!(
        said.contains("`kind` is `other`") && said.contains("use the version that published it"),
        "{said}"
    );
}

#[test]
fn an_imported_model_says_so_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let of = |training| {
        let trained = manifest(1);
        let ids = RecordIds::new(["r1", "r2"]).unwrap();
        let model = trained.model().unwrap();
        Manifest::new(
            model,
            trained.class_names,
            trained.active_party,
            trained.passive_parties,
            training,
            &ids,
        )
        .unwrap()
    };
    let imported = of(None);
    assert_ne!(imported.version, of(manifest(1).training).version);
    Registry::open(dir.path()).unwrap().commit(imported, None).unwrap();
    let model = Registry::open(dir.path()).unwrap().current().unwrap();
    assert_eq!((&model.manifest.training, model.training_records()), (&None, 2));
    assert!(model.saw_in_training("r1") && !model.saw_in_training("r3"));
    let path = manifest_path(dir.path(), &model.manifest.version);
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, written.replace("\"r1\",", "")).unwrap();
    assert!(matches!(
        Registry::open(dir.path()),
        Err(RegistryError::File(StateFileError::Damaged { .. }))
    ));
}

#[test]
fn calibration_scores_come_back_without_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let registry = Registry::open(dir.path()).unwrap();
    let scores =
        ConfidenceScores::new(DMatrix::from_vec(2, 3, vec![0.75, 0.25, 0.5, 0.5, 0.25, 0.75]))
            .unwrap();
    let sorted = DMatrix::from_vec(2, 3, vec![0.25, 0.75, 0.5, 0.5, 0.75, 0.25]);
    let first = manifest(1);
    assert_eq!(registry.calibration(&first).unwrap(), None);
    registry.commit(manifest(1), Some(&scores)).unwrap();
    assert_eq!(registry.calibration(&first).unwrap().unwrap().matrix(), &sorted);
    // Another version of the same passive parameters: what was fitted stays fitted on the same.
    let moved = ConfidenceScores::new(DMatrix::from_vec(2, 1, vec![0.125, 0.875])).unwrap();
    registry.commit(manifest(2), Some(&moved)).unwrap();
    assert_eq!(registry.calibration(&manifest(2)).unwrap().unwrap().matrix(), &sorted);
    let path = calibration_path(dir.path(), &first.passive_fingerprint());
    // Scores that an older version of this program kept under the version are taken over.
    let older = calibration_path(dir.path(), manifest(2).version.as_str());
    std::fs::rename(&path, &older).unwrap();
    assert_eq!(registry.calibration(&manifest(2)).unwrap().unwrap().matrix(), &sorted);
    registry.commit(manifest(3), Some(&moved)).unwrap();
    assert_eq!(registry.calibration(&manifest(3)).unwrap().unwrap().matrix(), &sorted);
    std::fs::remove_file(&older).unwrap();
    let content = std::fs::read(&path).unwrap();
    for cut in [0, 7, 8, 15, 16, content.len() - 8, content.len() - 1] {
        std::fs::write(&path, &content[..cut]).unwrap();
        let read = registry.calibration(&first);
        // Eight bytes are the number of classes alone: no record, which no defense is fitted on.
        assert!(read.is_err() || cut == 8, "{cut}");
    }
}

#[test]
fn the_fingerprint_moves_with_passive_parameters_alone() {
    let entry = |name: &str, digit: &str| PartyEntry {
        name: PartyName::new(name).unwrap(),
        features: 2,
        share: digit.repeat(64),
        privacy: None,
    };
    let of = |classes: &[&str], active: PartyEntry, passive: Vec<PartyEntry>, seed| {
        let training = manifest(seed).training;
        let ids = RecordIds::new(["r1", &format!("r{seed}")]).unwrap();
        let model = ModelSpec::softmax_regression(classes.len() as u32, passive.len()).unwrap();
        let classes = classes.iter().map(|&c| c.to_owned()).collect();
        Manifest::new(model, classes, active, passive, training, &ids).unwrap()
    };
    let first = of(&["a", "b"], entry("active", "0"), vec![entry("p", "1"), entry("q", "2")], 2);
    let renamed = of(&["a ", "B"], entry("other", "9"), vec![entry("p", "1"), entry("q", "2")], 3);
    assert_ne!(first.version, renamed.version);
    assert_eq!(first.passive_fingerprint(), renamed.passive_fingerprint());
    for (classes, passive) in [
        (&["a", "b"][..], vec![entry("p", "1"), entry("q", "3")]),
        (&["a", "b"], vec![entry("p", "2"), entry("q", "1")]),
        (&["a", "b"], vec![entry("p", "1"), entry("r", "2")]),
        (&["a", "b"], vec![entry("p", "1")]),
        (&["a", "b", "c"], vec![entry("p", "1"), entry("q", "2")]),
    ] {
        let other = of(classes, entry("active", "0"), passive, 2);
        assert_ne!(first.passive_fingerprint(), other.passive_fingerprint(), "{other:?}");
    }
}

#[test]
fn damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    Registry::open(dir.path()).unwrap().commit(manifest(1), None).unwrap();
    let path = manifest_path(dir.path(), &manifest(1).version);
    let shortened = std::fs::read_to_string(&path).unwrap().replace("\"r1\",", "");
    std::fs::write(&path, shortened).unwrap();
    assert!(
        matches!(
            Registry::open(dir.path()),
            Err(RegistryError::File(StateFileError::Damaged { .. }))
        ),
        "a training id is gone"
    );
    std::fs::write(&path, b"{\"schema\":1").unwrap();
    let error = Registry::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("damaged") && error.contains("m-"), "{error}");
    std::fs::write(dir.path().join("current"), b"../../etc").unwrap();
    assert!(matches!(
        Registry::open(dir.path()),
        Err(RegistryError::File(StateFileError::Damaged { .. }))
    ));
}
