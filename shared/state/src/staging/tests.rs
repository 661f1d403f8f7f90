//! Tests of staged parameters.

use super::*;

const FILE: &str = r#"{"schema":1,"class_names":["no","yes"],"feature_names":["b","a"],"weights":[[1,2],[3,4]]BIAS}"#;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn import(
    dir: &Path,
    bias: &str,
    features: &[&str],
    classes: Option<&[&str]>,
) -> Result<ImportReport, ImportError> {
    let path = dir.join("parameters.json");
    std::fs::write(&path, FILE.replace("BIAS", bias)).unwrap();
    let classes = classes.map(names);
    let active = PartyName::new("shop").unwrap();
    import_parameters(ImportRequest {
        path: &path,
        state_dir: &(&dir.join("state")).into(),
        feature_names: &names(features),
        encodings: None,
        max_classes: None,
        classes: classes.as_deref(),
        active_party: &active,
    })
}

#[test]
fn what_is_stored_is_in_the_order_of_the_schema() {
    let dir = tempfile::tempdir().unwrap();
    let store = ShareStore::open(&dir.path().join("state")).unwrap();
    let found = import(dir.path(), "", &["a", "b"], None).unwrap();
    assert!(found.reordered && found.replaced.is_none());
    assert_eq!(
        found.class_names,
        names(&["no", "yes"]),
        "a passive party has no classes of its own"
    );
    let share = store.stored(&found.digest).unwrap();
    assert_eq!(
        share.linear().unwrap().weights().row(0),
        nalgebra::RowDVector::from_vec(vec![2.0, 1.0])
    );
    assert_eq!(share.feature_names, names(&["a", "b"]));
    let active = import(dir.path(), ",\"bias\":[5,6]", &["b", "a"], Some(&["yes", "no"])).unwrap();
    assert_eq!(active.replaced.as_deref(), Some(found.digest.as_str()));
    assert_eq!(active.class_names, names(&["yes", "no"]));
    let share = store.stored(&active.digest).unwrap();
    assert_eq!(
        share.linear().unwrap().weights().row(0),
        nalgebra::RowDVector::from_vec(vec![3.0, 4.0])
    );
    assert_eq!(share.linear().unwrap().bias().unwrap().as_slice(), [6.0, 5.0]);
    #[cfg(unix)]
    for file in ["imports/staged.json".to_owned(), format!("shares/{}.json", active.digest)] {
        use std::os::unix::fs::PermissionsExt;
        let mode =
            std::fs::metadata(dir.path().join("state").join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_what_was_staged_stays() {
    let dir = tempfile::tempdir().unwrap();
    let staged = import(dir.path(), "", &["a", "b"], None).unwrap();
    for (bias, features, classes, says) in [
        (",\"bias\":[5,6]", &["a", "b"][..], None, "not for a passive party"),
        ("", &["a", "b"], Some(&["no", "yes"][..]), "`bias` is missing"),
        ("", &["a", "c"], None, "`c` missing, `b` unknown here"),
        ("", &["a"], None, "`b` unknown here"),
        (
            ",\"bias\":[5,6]",
            &["a", "b"],
            Some(&["no", "maybe"]),
            "`maybe` missing, `yes` unknown here",
        ),
    ] {
        let said = import(dir.path(), bias, features, classes).unwrap_err().to_string();
        assert!(said.contains("parameters.json") && said.contains(says), "{said}");
    }
    let still = Staging::of(&dir.path().join("state")).staged().unwrap().unwrap();
    assert_eq!(still.digest, staged.digest);
    let missing = import_parameters(ImportRequest {
        path: &dir.path().join("none.json"),
        state_dir: &(&dir.path().join("state")).into(),
        feature_names: &names(&["a"]),
        encodings: None,
        max_classes: None,
        classes: None,
        active_party: &PartyName::new("shop").unwrap(),
    });
    assert!(missing.unwrap_err().to_string().contains("none.json: cannot be read"));
    std::fs::write(dir.path().join("two.json"), FILE.replace("BIAS", "")).unwrap();
    let state_dir = dir.path().join("state").as_path().into();
    let before = Staging::of(&state_dir).staged().unwrap();
    let many = import_parameters(ImportRequest {
        path: &dir.path().join("two.json"),
        state_dir: &state_dir,
        feature_names: &names(&["a", "b"]),
        encodings: None,
        max_classes: Some(1),
        classes: None,
        active_party: &PartyName::new("shop").unwrap(),
    });
    let said = many.unwrap_err().to_string();
    assert!(
        said.contains("2 classes, and --max-classes is 1") && said.contains("1.0 bits"),
        "{said}"
    );
    assert_eq!(Staging::of(&state_dir).staged().unwrap(), before, "what was staged stays");
}

#[test]
fn a_staging_is_used_once_and_another_of_the_same_share_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let staging = Staging::of(dir.path());
    assert!(staging.staged().unwrap().is_none() && staging.withdraw().unwrap().is_none());
    let party = PartyName::new("shop").unwrap();
    let version = ModelVersion::new("m-1").unwrap();
    let first = staging.stage("0".repeat(64), party.clone(), names(&["a", "b"]), None).unwrap();
    assert_eq!(staging.used_for(&first).unwrap(), None);
    assert_eq!(staging.use_for(&first, &version).unwrap(), version);
    let other = ModelVersion::new("m-2").unwrap();
    assert_eq!(staging.use_for(&first, &other).unwrap(), version, "one staging, one version");
    assert_eq!(Staging::of(dir.path()).used_for(&first).unwrap(), Some(version));
    let again = staging.stage("0".repeat(64), party, names(&["a", "b"]), None).unwrap();
    assert_eq!(staging.used_for(&again).unwrap(), None);
    assert_eq!(staging.withdraw().unwrap(), Some(again));
    assert_eq!(staging.staged().unwrap(), None);
    std::fs::write(dir.path().join("imports/staged.json"), "{\"schema\":1").unwrap();
    let said = staging.staged().unwrap_err().to_string();
    assert!(
        said.contains("staged.json is damaged") && said.contains("import the parameters again"),
        "{said}"
    );
    std::fs::remove_dir_all(dir.path().join("imports")).unwrap();
}
