//! Tests of the store of shares.

use vfl_core::model::SubModelSpec;
use vfl_core::model::contract::{SubModelOrigin, start_of};

use super::*;

fn parameters(seed: f64) -> LinearParameters {
    let weights = DMatrix::from_fn(3, 2, |i, j| seed / (1.0 + i as f64 + 0.1 * j as f64));
    LinearParameters::new(weights, Some(DVector::from_vec(vec![seed, 1e-300, -seed]))).unwrap()
}

#[test]
fn shares_come_back_to_the_bit_and_versions_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = ShareStore::open(dir.path()).unwrap();
    let names = vec!["a".to_owned(), "b".to_owned()];
    let (v1, v2) = (ModelVersion::new("m-1").unwrap(), ModelVersion::new("m-2").unwrap());
    let one = store.put(&parameters(0.1), &names).unwrap();
    assert!(matches!(store.load(&v1), Err(StoreError::Unknown { .. })), "stored is not published");
    store.bind(&v1, &one).unwrap();
    let two = store.put(&parameters(0.7), &names).unwrap();
    store.bind(&v2, &two).unwrap();
    let again = ShareStore::open(dir.path()).unwrap();
    assert_eq!(*again.load(&v1).unwrap().linear().unwrap(), parameters(0.1));
    assert_eq!(*again.load(&v2).unwrap().linear().unwrap(), parameters(0.7));
    again.bind(&v1, &one).unwrap();
    assert!(
        matches!(again.bind(&v1, &two), Err(StoreError::Rebound { .. })),
        "a published version never changes"
    );
}

#[test]
fn a_version_remembers_the_map_it_was_trained_under_and_its_share_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let plain = ShareStore::open(dir.path()).unwrap();
    let mapped = plain.clone().under_map("aa".into());
    let names = vec!["a".to_owned(), "b".to_owned()];
    let (v1, v2) = (ModelVersion::new("m-1").unwrap(), ModelVersion::new("m-2").unwrap());
    let digest = plain.put(&parameters(0.1), &names).unwrap();
    assert_eq!(
        mapped.put(&parameters(0.1), &names).unwrap(),
        digest,
        "a peer learns nothing of the map"
    );
    plain.bind(&v1, &digest).unwrap();
    mapped.bind(&v2, &digest).unwrap();
    for store in [&plain, &mapped] {
        let (one, two) = (store.load(&v1).unwrap(), store.load(&v2).unwrap());
        assert_eq!((one.feature_map, two.feature_map.as_deref()), (None, Some("aa")));
        assert_eq!((one.digest, two.digest), (digest.clone(), digest.clone()));
    }
    assert!(matches!(mapped.bind(&v1, &digest), Err(StoreError::Rebound { .. })));
    // As written before there were maps.
    let file = format!("{{\"schema\":1,\"share\":\"{digest}\"}}\n");
    assert_eq!(std::fs::read_to_string(plain.version_file(&v1).path()).unwrap(), file);
}

/// Other ranges, or categories in another order, give other numbers for the same records. A
/// schema that only describes them in another way does not.
#[test]
fn a_share_remembers_the_schema_it_was_made_for() {
    let schema = |max: f64, steps: &str, more: &str| {
        let text = format!(
            "id = \"id\"\n[[features]]\nname = \"a\"\nkind = \"numeric\"\nmin = 0\nmax = {max}\n{more}\n\
             [[features]]\nname = \"b\"\nkind = \"ordinal\"\ncategories = [{steps}]\n"
        );
        FeatureSchema::from_toml(&text).unwrap()
    };
    let (levels, other) = (r#""low", "mid", "high""#, r#""high", "mid", "low""#);
    let first = schema(100.0, levels, "");
    let dir = tempfile::tempdir().unwrap();
    let store = ShareStore::open(dir.path()).unwrap().with_encodings(first.encodings());
    let plain = ShareStore::open(dir.path()).unwrap();
    let names = vec!["a".to_owned(), "b".to_owned()];
    let settings = SubModelSpec::parse_settings("{\"hidden\":[2]}").unwrap();
    let spec = SubModelSpec::new("mlp", 3, settings).unwrap();
    let network =
        kinds::start(&SubModelOrigin { spec, features: 2, active: false, start: start_of(1) })
            .unwrap();
    let values = network.tensors().iter().map(|tensor| tensor.values.to_vec()).collect();
    let network = Parameters::of(&*network, values);
    for (at, parameters) in [Parameters::from(&parameters(0.1)), network].into_iter().enumerate() {
        let [bound, free] =
            ["m", "m-old"].map(|name| ModelVersion::new(format!("{name}-{at}")).unwrap());
        let digest = store.put(parameters.clone(), &names).unwrap();
        assert_eq!(
            plain.put(parameters, &names).unwrap(),
            digest,
            "the ledger's name of the model is of its numbers"
        );
        store.bind(&bound, &digest).unwrap();
        plain.bind(&free, &digest).unwrap();
        let share = store.load(&bound).unwrap();
        for same in
            [&first, &schema(100.0, levels, "step = 1"), &schema(100.0, levels, "clamp = true")]
        {
            assert_eq!(share.check_schema(same), Ok(()));
        }
        let wider = share.check_schema(&schema(200.0, levels, "")).unwrap_err();
        assert_eq!(wider, "`a` with 0 to 100, which has 0 to 200 now");
        let turned = share.check_schema(&schema(100.0, other, "")).unwrap_err();
        assert!(turned.contains("`b`") && turned.contains("\"low\" < \"mid\""), "{turned}");
        // A share of before says nothing, and only its names are compared.
        assert_eq!(store.load(&free).unwrap().check_schema(&schema(200.0, other, "")), Ok(()));
    }
    let lines = ShareStore::of_other_schemas(dir.path(), &schema(200.0, levels, ""));
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].contains("model m-0 was made for `a` with 0 to 100, which has 0 to 200 now"),
        "{lines:?}"
    );
    assert_eq!(ShareStore::of_other_schemas(dir.path(), &first), Vec::<String>::new());
}

#[test]
fn a_changed_or_half_written_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = ShareStore::open(dir.path()).unwrap();
    let version = ModelVersion::new("m-1").unwrap();
    let digest = store.put(&parameters(0.1), &["a".into(), "b".into()]).unwrap();
    store.bind(&version, &digest).unwrap();
    let file = store.share_file(&digest, ShareFormat::Json).unwrap();
    let content = std::fs::read(file.path()).unwrap();
    std::fs::write(file.path(), &content[..content.len() / 2]).unwrap();
    assert!(matches!(store.load(&version), Err(StoreError::File(StateFileError::Damaged { .. }))));
    assert!(matches!(store.bind(&version, "../../etc/passwd"), Err(StoreError::Digest(_))));
}
