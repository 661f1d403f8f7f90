//! Who may call what: every cell of the table with real certificates, and what a caller without a good one is told.

use std::path::Path;

use bytes::Bytes;
use tonic::Code;
use tonic::transport::Channel;
use vfl_core::types::PartyName;
use vfl_protocol::{RefusalKind, pb};
use vfl_server::service::{
    ACCESS_TABLE, Credentials, Peer, PeerIdentity, Role, TlsPem, anonymous_channel, channel,
    channel_expecting, check_health,
};
use vfl_testbed::certs;
use vfl_testbed::certs::Authority;

use super::raw;
use super::support::{credentials, dataset, deploy, server_of, split};

/// The first message of the default value, and what came of it.
async fn ask(channel: &Channel, path: &'static str) -> Result<(), tonic::Status> {
    raw::call(channel, path, vec![Bytes::new()], 1).await.1
}

/// `/package.Service/Method` of every RPC in the project's proto files.
fn declared() -> Vec<String> {
    let of = |dir| {
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto").join(dir)).unwrap()
    };
    let mut found = Vec::new();
    for entry in of("vfl/v1").chain(of("inference")) {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let (mut package, mut service) = (String::new(), String::new());
        for line in text.lines().map(str::trim) {
            if let Some(rest) = line.strip_prefix("package ") {
                package = rest.trim_end_matches(';').into();
            } else if let Some(rest) = line.strip_prefix("service ") {
                service = rest.trim_end_matches('{').trim().into();
            } else if let Some(rest) = line.strip_prefix("rpc ") {
                found.push(format!(
                    "/{package}.{service}/{}",
                    rest.split('(').next().unwrap().trim()
                ));
            }
        }
    }
    found.sort();
    found
}

/// An RPC that is declared and not in the table would be served to nobody; one in the table twice, or not declared, is a slip.
#[test]
fn the_table_names_every_declared_rpc_once() {
    let mut named: Vec<String> = ACCESS_TABLE
        .iter()
        .map(|(p, _)| (*p).to_owned())
        .filter(|p| !p.starts_with("/grpc."))
        .collect();
    named.sort();
    assert_eq!(named, declared());
    assert!(named.len() >= 15, "the proto files were read");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_of_the_table_is_kept() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 1, 2)).await;
    let everywhere: Vec<Peer> = [deployment.coordinator_peer(), deployment.active_peer()]
        .into_iter()
        .chain(deployment.passive_peers())
        .collect();
    let mut table = String::new();
    for &(path, allowed) in ACCESS_TABLE {
        let servers = if path.starts_with("/grpc.") {
            everywhere.clone()
        } else {
            vec![server_of(&deployment, path)]
        };
        for server in servers {
            table.push_str(&format!("{path:48} at {:14}", server.role));
            for role in Role::ALL {
                let channel = channel(&credentials(&deployment, role), &server).unwrap();
                let refused_by_table = match ask(&channel, path).await {
                    Ok(()) => false,
                    Err(status) => match status.code() {
                        Code::Unauthenticated => panic!("{path}, {role}: {status}"),
                        // A policy may refuse too; the table's own words are these.
                        Code::PermissionDenied => status.message().contains(" is for the "),
                        Code::Unavailable | Code::DataLoss | Code::Unimplemented => {
                            panic!("{path}, {role}: {status}")
                        }
                        _ => false,
                    },
                };
                assert_eq!(!refused_by_table, allowed.contains(&role), "{path} called by {role}");
                table.push_str(if refused_by_table { " denied " } else { " allowed" });
            }
            let nobody =
                anonymous_channel(&credentials(&deployment, Role::Auditor), &server).unwrap();
            let status = ask(&nobody, path).await.unwrap_err();
            assert_eq!(
                status.code(),
                Code::Unauthenticated,
                "{path} without a certificate: {status}"
            );
            assert!(status.message().contains("no certificate"), "{status}");
            table.push_str(" none: unauthenticated\n");
        }
    }
    println!("roles: {:?}\n{table}", Role::ALL.map(Role::as_str));
    deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_not_in_the_table_is_served_to_nobody() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 1, 2)).await;
    let paths = [
        "/vfl.v1.Coordinator/Nothing",
        "/vfl.v2.Coordinator/Predict",
        "/",
        "/grpc.reflection.v2.ServerReflection/ServerReflectionInfo",
        "/inference.GRPCInferenceService/ModelStreamInfer",
    ];
    for role in Role::ALL {
        let channel =
            channel(&credentials(&deployment, role), &deployment.coordinator_peer()).unwrap();
        for path in paths {
            let status = ask(&channel, path).await.unwrap_err();
            assert_eq!(status.code(), Code::PermissionDenied, "{path}, {role}: {status}");
        }
    }
    // What another party serves is not served here, whoever asks.
    let channel =
        channel(&credentials(&deployment, Role::Coordinator), &deployment.coordinator_peer())
            .unwrap();
    let status = ask(&channel, "/vfl.v1.PassiveParty/ComputeLogits").await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status}");
    deployment.stop().await.unwrap();
}

/// A client speaks to the party it means and to no other, even one of the same deployment and role.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_somebody_else_is_not_spoken_to() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 1, 2)).await;
    let auditor = credentials(&deployment, Role::Auditor);
    let right = deployment.passive_peers().remove(0);
    let patience = std::time::Duration::from_secs(5);
    check_health(&auditor, &right, patience).await.unwrap();
    let wrong = [
        Peer { name: PartyName::new("other").unwrap(), ..right.clone() },
        Peer { role: Role::Coordinator, ..right.clone() },
        Peer { address: deployment.coordinator_peer().address, ..right.clone() },
    ];
    for peer in wrong {
        let refusal = check_health(&auditor, &peer, patience).await.unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Unavailable, "{peer}: {refusal}");
        assert!(refusal.message.contains("expected spiffe://"), "{peer}: {refusal}");
    }
    let stranger = Authority::new("cloison.demo", 1).unwrap();
    let pem = stranger.issue(Role::Auditor, &PartyName::new("auditor").unwrap()).unwrap();
    let refusal =
        check_health(&Credentials::new(&pem).unwrap(), &right, patience).await.unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Unavailable, "a server of another authority: {refusal}");
    deployment.stop().await.unwrap();
}

/// A certificate that another authority has signed, for the very role and name that may call.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_another_authority_gets_nothing() {
    let (dir, dataset) = (tempfile::tempdir().unwrap(), dataset());
    let deployment = deploy(dir.path(), &dataset, &split(&dataset, 1, 2)).await;
    let ours = credentials(&deployment, Role::ActiveParty);
    let pem = Authority::new("cloison.demo", 1)
        .unwrap()
        .issue(Role::ActiveParty, ours.identity().name())
        .unwrap();
    let forged = Credentials::new(&pem).unwrap().trusting_as(&ours);
    assert_eq!(forged.identity(), ours.identity(), "only the signature differs");
    let path = "/vfl.v1.Coordinator/DescribeModel";
    let served =
        ask(&channel(&ours, &deployment.coordinator_peer()).unwrap(), path).await.unwrap_err();
    assert_eq!(
        served.code(),
        Code::FailedPrecondition,
        "the true one reaches the service: {served}"
    );
    let refused =
        ask(&channel(&forged, &deployment.coordinator_peer()).unwrap(), path).await.unwrap_err();
    let at_the_door = matches!(
        refused.code(),
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
    );
    assert!(at_the_door && !refused.message().contains("model"), "{refused}");
    deployment.stop().await.unwrap();
}

/// A certificate of the same authority for another trust domain is verified and still nobody here.
#[tokio::test(flavor = "multi_thread")]
async fn another_trust_domain_is_nobody_here() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    certs::write(dir.path(), "ours.example", 1, &["coordinator/c".into(), "active-party/a".into()])
        .unwrap();
    certs::write(dir.path(), "theirs.example", 1, &["active-party/b".into()]).unwrap();
    let read = |name: &str| {
        let pem =
            TlsPem::read(&at("ca.pem"), &at(&format!("{name}.pem")), &at(&format!("{name}.key")))
                .unwrap();
        Credentials::new(&pem).unwrap()
    };
    let server = read("c");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = PartyName::new("c").unwrap();
    let peer = Peer {
        role: Role::Coordinator,
        name: name.clone(),
        address: listener.local_addr().unwrap().to_string(),
    };
    let stop = tokio_util::sync::CancellationToken::new();
    let settings = vfl_coordinator::config::Settings {
        credentials: server,
        limits: Default::default(),
        monitoring: Default::default(),
        state_dir: at("state"),
        passive_parties: vec![],
        peer_timeout: std::time::Duration::from_secs(1),
        active_party: None,
        training: Default::default(),
        publishing: Default::default(),
        defenses: Vec::new(),
        ledger: None,
        serving: Default::default(),
        release: Default::default(),
        audit: Default::default(),
    };
    let running = tokio::spawn(vfl_coordinator::service::run(
        settings,
        listener,
        stop.clone().cancelled_owned(),
    ));
    let expected = PeerIdentity::new("ours.example", Role::Coordinator, name).unwrap();
    for (caller, code) in [("a", Code::FailedPrecondition), ("b", Code::Unauthenticated)] {
        let channel = channel_expecting(&read(caller), &peer, expected.clone()).unwrap();
        let status = ask(&channel, "/vfl.v1.Coordinator/DescribeModel").await.unwrap_err();
        assert_eq!(status.code(), code, "{caller}: {status}");
        if caller == "b" {
            assert!(status.message().contains("trust domain"), "{status}");
        }
    }
    // By itself such a client does not even speak to the server.
    let mut client =
        pb::coordinator_client::CoordinatorClient::new(channel(&read("b"), &peer).unwrap());
    assert!(client.describe_model(pb::DescribeModelRequest {}).await.is_err());
    stop.cancel();
    running.await.unwrap().unwrap();
}
