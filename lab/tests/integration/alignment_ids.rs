//! Alignments of the ids of a file, and what becomes of the result where a party cannot have its own copy.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tonic::Code;
use tonic::transport::Channel;
use vfl_active_party::config as active_config;
use vfl_core::types::PartyName;
use vfl_features::features::Features;
use vfl_features::stores::{HttpConfig, HttpStore};
use vfl_party::alignment::runs;
use vfl_passive_party::config as passive_config;
use vfl_protocol::pb::active_party_client::ActivePartyClient;
use vfl_server::service::{Peer, Role, channel};
use vfl_testbed::deployment::Deployment;

use super::alignment::{ask_of, lines, part, parties, results};
use super::feature_service::FeatureService;
use super::support::{dataset, spec, split};

/// The passive party of a deployment, exchanged for one with another place for its features and other rules.
async fn exchange(
    deployment: &mut Deployment,
    features: Features,
    alignment: passive_config::AlignmentTable,
) {
    let peer = deployment.passive_peers().remove(0);
    deployment.stop_passive(0).await;
    let settings = passive_config::Settings {
        credentials: deployment.credentials(Role::PassiveParty, peer.name.as_str()).unwrap(),
        limits: Default::default(),
        monitoring: Default::default(),
        state_dir: (&deployment.party_dir(peer.name.as_str())).into(),
        features,
        release: Default::default(),
        serving: Default::default(),
        training: Default::default(),
        audit: Default::default(),
        collusion: Default::default(),
        alignment,
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
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    tokio::spawn(async move {
        vfl_passive_party::service::run(settings, listener, std::future::pending()).await.unwrap();
    });
}

/// A second service of the active party, with features and rules of its own.
async fn second_active(
    deployment: &Deployment,
    dir: &Path,
    features: Features,
    alignment: active_config::AlignmentTable,
) -> ActivePartyClient<Channel> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let settings = active_config::Settings {
        credentials: deployment.active_credentials.clone(),
        limits: Default::default(),
        monitoring: Default::default(),
        state_dir: dir.into(),
        features,
        numbers: None,
        coordinator: deployment.coordinator_peer(),
        passive_parties: Vec::new(),
        peer_timeout: Duration::from_secs(30),
        audits_allowed: false,
        fallback: None,
        audit_time: Duration::from_secs(3600),
        known: None,
        privacy: None,
        alignment,
    };
    tokio::spawn(async move {
        vfl_active_party::service::run(settings, listener, std::future::pending()).await.unwrap();
    });
    let peer = Peer { role: Role::ActiveParty, name: PartyName::new("active").unwrap(), address };
    ActivePartyClient::new(channel(&deployment.active_credentials, &peer).unwrap())
}

/// A passive party whose features are behind an HTTP feature service aligns the ids of a file, without those that it does not hold; and a
/// place for its own copy that cannot be written costs neither party the run.
#[tokio::test(flavor = "multi_thread")]
async fn ids_of_a_file_are_aligned_and_a_copy_that_cannot_be_written_is_the_operators_affair() {
    let dir = tempfile::tempdir().unwrap();
    let (mut deployment, common) = parties(dir.path(), None).await;
    let (_, table) =
        spec(dir.path(), &dataset(), &split(&dataset(), 1, 2)).tables.passive.remove(0);
    let service = FeatureService::start(&table).await;
    let store = HttpStore::new(
        HttpConfig::new(format!(
            "http://127.0.0.1:{}/BatchFeatureService/BatchFetchFeature",
            service.port
        )),
        table.normalised_schema(),
    );
    let file = dir.path().join("align.ids");
    let listed: String = common
        .slice(0, 60)
        .iter()
        .chain(["nobody-1", "nobody-2"])
        .map(|id| format!("{id}\n"))
        .collect();
    std::fs::write(&file, listed).unwrap();
    std::fs::write(dir.path().join("taken"), "").unwrap();
    let rules = passive_config::AlignmentTable {
        allowed: true,
        active_party: Some(PartyName::new("active").unwrap()),
        least_common: 50,
        ids: Some(file),
        out: Some(dir.path().join("taken/common.ids")),
        ..Default::default()
    };
    exchange(&mut deployment, Features::Remote(Arc::new(store.unwrap())), rules).await;

    // The active party has a file too: ten ids more, one of which it does not hold.
    let own = spec(dir.path(), &dataset(), &split(&dataset(), 1, 2)).tables.active;
    let own = part(&own, &(0..1200).collect::<Vec<_>>());
    let file = dir.path().join("active.ids");
    let listed: String =
        common.slice(5, 70).iter().chain(["nobody-3"]).map(|id| format!("{id}\n")).collect();
    std::fs::write(&file, listed).unwrap();
    let rules =
        active_config::AlignmentTable { allowed: true, ids: Some(file), ..Default::default() };
    let second = dir.path().join("second");
    let client = second_active(&deployment, &second, own.into(), rules).await;
    let outside = ask_of(client.clone(), Some(&common.slice(60, 75))).await.unwrap_err();
    assert_eq!(outside.code(), Code::FailedPrecondition, "{outside}");
    assert!(
        outside.message().contains("5 of 15 ids to align are not in the file `ids`"),
        "{outside}"
    );

    let mut tries = 0;
    let (found, summary) = loop {
        match ask_of(client.clone(), None).await {
            // The coordinator has not found the passive party's new connection yet.
            Err(refused) if refused.code() == Code::Unavailable && tries < 100 => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            ended => break ended.unwrap(),
        }
    };
    assert_eq!((summary.sizes.own, summary.sizes.theirs), (65, 60));
    assert_eq!(found, common.slice(5, 60));
    let state = dir.path().join("passive-1");
    let kept = lines(&state.join("alignments/1-active.ids"));
    assert!(kept.iter().map(String::as_str).eq(found.iter()));
    let ended = runs(&state).unwrap()[0].ended.clone().unwrap();
    assert_eq!(ended.common, 55);
    assert!(ended.out_failed.unwrap().contains("taken/common.ids"));
    assert_eq!(results(&second), ["1-passive-1.ids"]);
}
