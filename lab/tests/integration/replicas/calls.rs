//! Predictions with a request id while coordinators stop or lose their database: asked again by themselves, and recorded once.

use tokio::net::TcpStream;
use vfl_active_party::scoring::Scorer;
use vfl_coordinator::ledger::summary;
use vfl_core::types::RowStatus;
use vfl_datasets as data;
use vfl_datasets::{DatasetName, DatasetSpec, SyntheticFields, SyntheticParameters, partition};
use vfl_protocol::RefusalKind;
use vfl_state::ShareStore;

use super::proxy::{Line, Proxy};
use super::*;

impl Shared {
    /// The active party as a client of coordinators at these addresses.
    fn scorer(&self, address: &str) -> Scorer {
        let tables = partition::divide(&self.dataset, &split(&self.dataset, 2, 2), 9).unwrap();
        let peer = Peer { address: address.to_owned(), ..self.deployment.coordinator_peer() };
        let store = ShareStore::open(&self.dir.path().join("active")).unwrap();
        let (credentials, patience) =
            (&self.deployment.active_credentials, Duration::from_secs(60));
        Scorer::new(credentials, peer, tables.active.into(), store, patience).unwrap()
    }

    /// Rows in the ledger: recorded, and refused among them.
    async fn recorded(&self) -> (u64, u64) {
        let parties = summary(&self.schema.url, None).await.unwrap().parties;
        parties.first().map_or((0, 0), |party| (party.queries, party.refused))
    }
}

/// The coordinator says UNAVAILABLE, as it has lost its connection to the database twice under one request.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_an_id_is_asked_again_where_the_coordinator_is_unavailable() {
    let Some(here) = shared("none", Budgets::UNLIMITED).await else { return };
    here.deployment.train(&config(1), &training_ids(&here.dataset), |_| ()).await.unwrap();
    let scorer = here.scorer(&here.deployment.coordinator_peer().address);
    let model = scorer.describe().await.unwrap();
    let ids = test_ids(&here.dataset, 0, 5);
    for name in ["evening", ""] {
        let held = here.schema.hold_writes().await;
        let lost = async {
            let mut ended = 0;
            for _ in 0..2 {
                ended = here.schema.end_waiting_writer(ended).await;
            }
            held.close().await.unwrap();
        };
        let (answer, ()) = tokio::join!(scorer.score(&model, &ids, None, name), lost);
        if name.is_empty() {
            let refusal = answer.unwrap_err();
            assert_eq!(refusal.kind, RefusalKind::Unavailable, "{refusal}");
            assert!(refusal.to_string().contains("ledger is not available"), "{refusal}");
        } else {
            assert_eq!(answer.unwrap().status, [RowStatus::Ok; 5]);
        }
        assert_eq!(
            here.recorded().await,
            (5, 0),
            "once, and nothing of the request that was refused"
        );
    }
    here.end().await;
}

/// A coordinator that stops answers what it has begun of a stream, and says UNAVAILABLE to the rest. That goes to the other one.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_with_an_id_goes_on_at_the_next_coordinator_when_one_stops() {
    // A stream of nine messages: a coordinator has eight under way.
    let synthetic =
        SyntheticParameters::try_from(SyntheticFields { records: 10_000, ..Default::default() })
            .unwrap();
    let dataset =
        data::load(&DatasetSpec { synthetic, ..DatasetSpec::new(DatasetName::Synthetic, None, 3) })
            .unwrap();
    let Some(here) = shared_on(dataset, "none", Budgets::UNLIMITED).await else { return };
    here.deployment.train(&config(1), &here.dataset.ids().slice(0, 1200), |_| ()).await.unwrap();
    let (stops, stays) = (here.second("stops").await, here.second("stays").await);
    // Nobody is at the other address until the stream is under way.
    let other = Proxy::start(stays.peer.address.parse().unwrap(), Line::Dead).await;
    let scorer = here.scorer(&format!("{}, {}", other.address, stops.peer.address));
    let model = scorer.describe().await.unwrap();
    let ids = here.dataset.ids().slice(1200, 9700);
    let held = here.schema.hold_writes().await;
    let stop = async {
        here.schema.until(WAITING_WRITERS).await;
        stops.stop.cancel();
        // From then on it takes nothing new.
        while TcpStream::connect(&stops.peer.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        other.set(Line::Open);
        held.close().await.unwrap();
    };
    let (answer, ()) = tokio::join!(scorer.score(&model, &ids, None, "evening"), stop);
    let answer = answer.unwrap();
    assert!(answer.status.iter().all(|status| *status == RowStatus::Ok));
    assert_eq!(answer.status.len(), 8500);
    assert_eq!(here.recorded().await, (8500, 0));
    // The same again, through the one that is left: nothing is recorded twice, and the bytes are the same.
    let again = scorer.score(&model, &ids, None, "evening").await.unwrap();
    assert_eq!(again.released, answer.released);
    assert_eq!(here.recorded().await, (8500, 0));
    stops.end().await;
    stays.end().await;
    here.end().await;
}
