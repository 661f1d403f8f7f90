//! One look-up that hangs, or fails, in the feature store of a passive party: nobody else who asks the coordinator notices.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;
use tonic::{Code, Status};
use vfl_core::data::table::FeatureTable;
use vfl_core::types::{PartyName, RecordIds};
use vfl_features::features::Features;
use vfl_features::stores::{HttpConfig, HttpStore};
use vfl_protocol::pb;
use vfl_testbed::deployment::{Deployment, DeploymentSpec};

use super::feature_service::FeatureService;
use super::support::{config, dataset, score, spec, split, test_ids, training_ids};

/// How long the passive party waits for its store. The coordinator waits for 10 s.
const STORE_MS: u64 = 6000;

struct Here {
    deployment: Arc<Deployment>,
    service: FeatureService,
    /// Records that no training saw.
    ids: RecordIds,
    _dir: TempDir,
}

/// A model in service whose passive party keeps its features behind an HTTP feature service.
async fn here() -> Here {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let split = split(&dataset, 1, 3);
    // An HTTP service cannot list its records.
    let spec = DeploymentSpec { alignment: None, ..spec(dir.path(), &dataset, &split) };
    let table = &spec.tables.passive[0].1;
    let service = FeatureService::start(table).await;
    let url = format!("http://127.0.0.1:{}/BatchFeatureService/BatchFetchFeature", service.port);
    // More connections than look-ups of a stream: what bounds these is the stream.
    let config_of = HttpConfig { timeout_ms: STORE_MS, connections: 64, ..HttpConfig::new(url) };
    let store = HttpStore::new(config_of, table.normalised_schema()).unwrap();
    let mut store = Some(Features::Remote(Arc::new(store)));
    let place = |name: &PartyName, table: FeatureTable| match name.as_str() {
        "active" => Ok(table.into()),
        _ => Ok(store.take().unwrap()),
    };
    let deployment = Deployment::start_from(spec, |_, _| Ok(()), place).await.unwrap();
    deployment.train(&config(2), &training_ids(&dataset), |_| ()).await.unwrap();
    Here { deployment: Arc::new(deployment), service, ids: test_ids(&dataset, 0, 12), _dir: dir }
}

impl Here {
    fn id(&self, at: usize) -> &str {
        self.ids.get(at).unwrap()
    }

    /// Asks for the scores of one record, as a caller of its own.
    async fn ask(&self, at: usize) -> Result<Option<pb::Release>, Status> {
        score(&self.deployment, &self.ids.slice(at, at + 1)).await.map(|answer| answer.release)
    }

    /// The same, under way.
    fn asked(&self, at: usize) -> tokio::task::JoinHandle<Result<Option<pb::Release>, Status>> {
        let (deployment, one) = (self.deployment.clone(), self.ids.slice(at, at + 1));
        tokio::spawn(async move { score(&deployment, &one).await.map(|answer| answer.release) })
    }

    /// The answers of these callers, who ask at once.
    async fn all(&self, at: std::ops::Range<usize>) -> Vec<Option<pb::Release>> {
        join_all(at.map(|at| self.ask(at))).await.into_iter().map(Result::unwrap).collect()
    }

    async fn stop(self) {
        Arc::into_inner(self.deployment).unwrap().stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_that_hangs_holds_up_nobody_else() {
    let here = here().await;
    let expected = here.all(2..12).await;
    assert!(expected.iter().all(Option::is_some));
    here.service.hold(here.id(0));
    let hangs = here.asked(0);
    here.service.holds(here.id(0)).await;
    assert_eq!(here.all(2..12).await, expected);
    assert!(!hangs.is_finished(), "the others were answered before the store's time was up");
    let late = hangs.await.unwrap().unwrap_err();
    assert_eq!(late.code(), Code::Unavailable, "{late}");
    assert!(
        late.message().contains("the feature store of this passive party does not answer"),
        "{late}"
    );
    assert!(!late.message().contains(here.id(0)), "{late}");
    // Nor do more look-ups that hang than run side by side: they end with their time, and the stream is as before.
    here.service.hold(here.id(1));
    let bad: Vec<_> = (0..10).map(|at| here.asked(at % 2)).collect();
    for hangs in join_all(bad).await {
        assert!(matches!(
            hangs.unwrap().unwrap_err().code(),
            Code::Unavailable | Code::DeadlineExceeded
        ));
    }
    here.service.release(here.id(0));
    here.service.release(here.id(1));
    assert_eq!(here.all(2..12).await, expected);
    assert!(here.ask(0).await.unwrap().is_some());
    here.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_that_fails_is_the_answer_to_its_own_question() {
    let here = here().await;
    let expected = here.all(1..12).await;
    here.service.spoil(here.id(0));
    // Two under way: one of them fails while the store keeps the other back.
    here.service.hold(here.id(1));
    let slow = here.asked(1);
    here.service.holds(here.id(1)).await;
    for _ in 0..3 {
        let failed = here.ask(0).await.unwrap_err();
        assert_eq!(failed.code(), Code::Internal, "{failed}");
        assert!(failed.message().contains("cannot read the features of the records"), "{failed}");
        assert!(failed.message().contains("passive party `passive-1`"), "{failed}");
        assert_eq!(here.all(2..12).await, expected[1..]);
    }
    assert!(!slow.is_finished());
    here.service.release(here.id(1));
    let answered =
        tokio::time::timeout(Duration::from_secs(60), slow).await.unwrap().unwrap().unwrap();
    assert_eq!(answered, expected[0]);
    here.stop().await;
}
