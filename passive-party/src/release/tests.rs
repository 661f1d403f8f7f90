use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::model::{LinearParameters, Link, ParameterFile};
use vfl_core::types::{FeatureBlock, RecordIds};
use vfl_protocol::RefusalKind;
use vfl_state::ShareStore;

use super::*;

#[test]
fn dates_are_those_of_the_calendar() {
    // From `date -u -d @N`.
    for (seconds, text) in [
        (0, "1970-01-01 00:00:00"),
        (951_782_400, "2000-02-29 00:00:00"),
        (1_795_293_466, "2026-11-21 20:37:46"),
        (4_107_542_399, "2100-02-28 23:59:59"),
        (4_107_542_400, "2100-03-01 00:00:00"),
    ] {
        assert_eq!(utc(seconds), text);
    }
}

/// A party of `d` features on disk that holds a model of these weights under each of these versions.
struct Party {
    dir: tempfile::TempDir,
    logits: Arc<LogitServer>,
    lock: Arc<Option<File>>,
    releases: Releases,
}

fn party(models: &[(&str, DMatrix<f64>)]) -> Party {
    let dir = tempfile::tempdir().unwrap();
    let d = models[0].1.ncols();
    let specs: Vec<_> = (0..d).map(|j| FeatureSpec::numeric(format!("f{j}"), 0.0, 1.0)).collect();
    let names: Vec<String> = specs.iter().map(|f| f.name.clone()).collect();
    let x = FeatureBlock::new(DMatrix::from_fn(d, 4, |i, j| 0.1 + 0.2 * ((i + 2 * j) % 4) as f64))
        .unwrap();
    let ids = RecordIds::new(["a", "b", "c", "d"]).unwrap();
    let table = FeatureTable::new(FeatureSchema::new(specs, None).unwrap(), ids, x, None).unwrap();
    let store = ShareStore::open(dir.path()).unwrap();
    for (version, weights) in models {
        let digest = match weights.nrows() {
            1 => {
                let (label, weights) = (vec!["price".to_owned()], weights.clone());
                let part = ParameterFile::of_link(Link::Log, label, names.clone(), weights, None);
                store.put(part.unwrap().stored().unwrap(), &names).unwrap()
            }
            _ => store.put(&LinearParameters::new(weights.clone(), None).unwrap(), &names).unwrap(),
        };
        store.bind(&ModelVersion::new(*version).unwrap(), &digest).unwrap();
    }
    let logits = Arc::new(LogitServer::new(Arc::new(table), store));
    let lock = Arc::new(Some(vfl_state::files::lock(&dir.path().join("lock")).unwrap().unwrap()));
    let releases = Releases::open(dir.path(), &lock).unwrap();
    Party { dir, logits, lock, releases }
}

impl Party {
    async fn shown(
        &self,
        version: &str,
        transform: &TransformConfig,
    ) -> Result<Arc<Release>, Refusal> {
        let version = ModelVersion::new(version).unwrap();
        self.releases.shown(&self.logits, &version, Role::ActiveParty, transform).await
    }

    fn files(&self) -> usize {
        std::fs::read_dir(dir(self.dir.path()).path()).unwrap().count()
    }
}

/// The bounds here are ‖w − mean w‖²/k = 0.0324 and ‖A‖²/(4d) = 0.0324: statistics of W_pas.
#[tokio::test]
async fn no_refusal_and_no_log_tells_a_bound_or_a_path() {
    let weights = DMatrix::from_column_slice(2, 1, &[0.25, 0.61]);
    let party = party(&[("m-1", weights.clone())]);
    for transform in [
        TransformConfig::SingleFeature { epsilon: 1.0, randomised: false },
        TransformConfig::Binary { epsilon: 1.0, randomised: false },
    ] {
        let error = rewrite(&transform, &weights, party.logits.block(), &mut secret()).unwrap_err();
        assert!(
            error.to_string().contains("3.24"),
            "the command for whoever holds the parameters: {error}"
        );
        let logged = MakeReleaseError::from(error).to_string();
        assert!(
            logged.contains(transform.name()) && logged.contains("`epsilon` is 1,"),
            "{logged}"
        );
        assert!(!logged.contains("3.24"), "{logged}");
        let refused = party.shown("m-1", &transform).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
        assert!(refused.message.ends_with(
            "the transform in [release] does not go with these parameters; the passive party's log says why"
        ));
        for hidden in [transform.name(), "epsilon", "24"] {
            assert!(!refused.message.contains(hidden), "{refused}");
        }
    }
    assert_eq!(party.files(), 0);
    // A file that cannot be read: the log alone knows where it is.
    let share = party.logits.share(&ModelVersion::new("m-1").unwrap()).unwrap();
    std::fs::write(
        dir(party.dir.path()).path().join(format!("{}-active-party.json", share.digest)),
        "{}",
    )
    .unwrap();
    let refused = party.shown("m-1", &TransformConfig::Negate {}).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Internal);
    for hidden in [party.dir.path().to_str().unwrap(), "negate", "json"] {
        assert!(!refused.message.contains(hidden), "{refused}");
    }
}

#[tokio::test]
async fn the_same_share_under_another_version_is_released_once() {
    let weights = DMatrix::from_fn(3, 4, |i, j| (i as f64 - 1.2) * (j as f64 + 0.5));
    let mut near = weights.clone();
    near[(0, 0)] += 1e-12;
    let party = party(&[("m-1", weights.clone()), ("m-2", weights), ("m-3", near)]);
    let secret = TransformConfig::RandomOrthonormal {};
    let first = party.shown("m-1", &secret).await.unwrap();
    assert_eq!(party.shown("m-2", &secret).await.unwrap(), first, "from memory");
    let again = Releases::open(party.dir.path(), &party.lock).unwrap();
    let version = ModelVersion::new("m-2").unwrap();
    let read = again.shown(&party.logits, &version, Role::ActiveParty, &secret).await.unwrap();
    assert_eq!(read, first, "from disk");
    let refused = party.shown("m-2", &TransformConfig::Complement {}).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    for hidden in ["orthonormal", "complement"] {
        assert!(!refused.message.contains(hidden), "{refused}");
    }
    let listed = releases(party.dir.path()).unwrap();
    assert_eq!((listed.len(), listed[0].version.as_str()), (1, "m-1"));
    // Nearly the same is not the same: as documented.
    assert_ne!(party.shown("m-3", &secret).await.unwrap(), first);
    assert_eq!(party.files(), 2);
}

/// (2 · 10¹⁶⁰)² overflows where the weights themselves do not.
#[tokio::test]
async fn a_distance_that_overflows_is_refused_before_it_is_stored() {
    let party = party(&[("m-1", DMatrix::from_element(2, 2, 1e160))]);
    let refused = party.shown("m-1", &TransformConfig::Negate {}).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    assert_eq!(party.files(), 0);
    assert!(releases(party.dir.path()).unwrap().is_empty());
}

#[tokio::test]
async fn nothing_is_made_without_the_lock_on_the_directory() {
    let mut party = party(&[("m-1", DMatrix::identity(2, 2))]);
    party.lock = Arc::new(Some(tempfile::tempfile().unwrap()));
    let refused = party.shown("m-1", &TransformConfig::Negate {}).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable);
    assert_eq!(party.files(), 0);
}

/// Of a model of a number one row is released: −w of −x, and w of 1 − x with the shift that goes with it.
#[tokio::test]
async fn one_row_of_weights_is_rewritten_as_the_difference_of_two() {
    let w = DMatrix::from_row_slice(1, 3, &[0.25, -0.5, 2.0]);
    let all = TransformConfig::Complement {};
    let cases = [
        ("m-1", TransformConfig::Negate {}, -&w, 0.0),
        ("m-2", all, -&w, w.sum()),
        ("m-3", TransformConfig::None {}, w.clone(), 0.0),
    ];
    let party =
        party(&cases.each_ref().map(|(version, ..)| (*version, &w * version_scale(version))));
    for (version, transform, weights, shift) in &cases {
        let scale = version_scale(version);
        let release = party.shown(version, transform).await.unwrap();
        match &release.weights {
            Some(released) => assert!((released - weights * scale).amax() < 1e-12, "{version}"),
            None => assert_eq!(*transform, TransformConfig::None {}),
        }
        assert_eq!(release.bias_shift.len(), 1);
        assert!((release.bias_shift[0] - shift * scale).abs() < 1e-12, "{version}");
    }
}

/// Each version has weights of its own: one share is released under one transform.
fn version_scale(version: &str) -> f64 {
    version.trim_start_matches("m-").parse().unwrap()
}
