//! Whoever has no certificate takes no service from those who have one; whoever has one holds little memory; and a certificate
//! that is denied is worth nothing, at once.

use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::codegen::Service;
use tonic::transport::Channel;
use tonic::{Code, Status};
use vfl_coordinator::config::Budgets;
use vfl_core::types::PartyName;
use vfl_load::flood;
use vfl_protocol::pb;
use vfl_protocol::pb::coordinator_client::CoordinatorClient;
use vfl_server::service::{
    Credentials, Limits, Peer, Role, TlsFiles, anonymous_channel, anonymous_connection, channel,
    check_health, raise_descriptor_limit,
};
use vfl_testbed::certs;

use super::support::{credentials, score, test_ids, trained};

const DESCRIBE: &str = "/vfl.v1.Coordinator/DescribeModel";
/// No legitimate call may take longer: what the parties themselves wait for each other.
const DEADLINE: Duration = Duration::from_secs(5);

async fn in_time<T>(what: &str, call: impl Future<Output = Result<T, Status>>) -> T {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(status)) => panic!("{what}: {status}"),
        Err(_) => panic!("{what}: nothing in {DEADLINE:?}"),
    }
}

/// Sends one body as it is and gives the status that came back.
async fn post(channel: &Channel, path: &'static str, body: Bytes) -> Status {
    let mut channel = channel.clone();
    std::future::poll_fn(|cx| Service::poll_ready(&mut channel, cx)).await.unwrap();
    let request = http::Request::post(path)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(tonic::body::Body::new(Full::new(body)))
        .unwrap();
    let response = channel.call(request).await.unwrap();
    match Status::from_header_map(response.headers()) {
        Some(status) => status,
        None => {
            let trailers =
                response.into_body().collect().await.unwrap().trailers().cloned().unwrap();
            Status::from_header_map(&trailers).unwrap()
        }
    }
}

fn framed(message: &[u8], says: usize) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(says as u32);
    body.put_slice(message);
    body.freeze()
}

/// The same at the doors of all three parties at once, while predictions go from the active party through all of them.
#[tokio::test(flavor = "multi_thread")]
async fn predictions_go_through_the_whole_deployment_while_every_door_is_flooded() {
    raise_descriptor_limit();
    // The same records are asked for again and again.
    let here = trained(1, 2, 1).await.with_budgets(Budgets::UNLIMITED, |_| ()).await;
    let deployment = &here.deployment;
    let doors: Vec<Peer> = [deployment.coordinator_peer(), deployment.active_peer()]
        .into_iter()
        .chain(deployment.passive_peers())
        .collect();
    let auditor = credentials(deployment, Role::Auditor);
    let stop = CancellationToken::new();
    let mut floods = tokio::task::JoinSet::new();
    for door in &doors {
        let (silent, stop_silent) = (door.clone(), stop.clone());
        floods.spawn(async move { flood::silent(silent, 300, stop_silent).await.unwrap() });
        floods.spawn(flood::idle_tls(auditor.clone(), door.clone(), 100, stop.clone()));
    }
    let ids = test_ids(&here.dataset, 0, 20);
    let until = Instant::now() + Duration::from_secs(5);
    let mut calls = 0;
    while Instant::now() < until {
        // `score` makes a new connection to the active party each time.
        let scored = in_time("a prediction", score(deployment, &ids)).await;
        assert!(scored.row_status.iter().all(|&s| s == pb::RowStatus::Ok as i32));
        for door in &doors {
            check_health(&auditor, door, DEADLINE).await.unwrap();
        }
        calls += 1;
    }
    stop.cancel();
    let opened: Vec<usize> = floods.join_all().await;
    assert!(
        calls >= 5 && opened.iter().all(|&n| n >= 100),
        "{calls} calls, {opened:?} connections"
    );
    here.deployment.stop().await.unwrap();
}

/// A connection without an identity ends by itself, whatever it does or does not do.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_gets_one_answer_or_five_seconds() {
    let here = trained(1, 2, 1).await;
    let (auditor, peer) =
        (credentials(&here.deployment, Role::Auditor), here.deployment.coordinator_peer());
    let patience = Duration::from_secs(10);

    let mut silent = TcpStream::connect(&peer.address).await.unwrap();
    let mut idle = anonymous_connection(&auditor, &peer).await.unwrap();
    let began = Instant::now();
    let (mut sink, mut other) = ([0; 64], Vec::new());
    let dropped = tokio::time::timeout(patience, silent.read(&mut sink))
        .await
        .expect("a silent connection stays");
    assert!(matches!(dropped, Ok(0) | Err(_)));
    let _ = tokio::time::timeout(patience, idle.read_to_end(&mut other))
        .await
        .expect("an idle stranger stays");
    assert!(began.elapsed() >= Duration::from_secs(2), "it has time to ask");

    // The answer, and then no second one: the connection goes.
    let nobody = anonymous_channel(&auditor, &peer).unwrap();
    let status = post(&nobody, DESCRIBE, framed(&[], 0)).await;
    assert_eq!(status.code(), Code::Unauthenticated);
    let asked = Instant::now();
    let mut raw = nobody.clone();
    let again = async {
        std::future::poll_fn(|cx| Service::poll_ready(&mut raw, cx)).await?;
        let request = http::Request::post(DESCRIBE).header("content-type", "application/grpc");
        let response = raw.call(request.body(tonic::body::Body::empty()).unwrap()).await?;
        Ok::<_, tonic::transport::Error>(Status::from_header_map(response.headers()).unwrap())
    };
    // Either it broke under the call, or the channel had already opened another connection, which has its own answer.
    match tokio::time::timeout(patience, again).await.expect("a stranger's second call hangs") {
        Ok(status) => assert_eq!(status.code(), Code::Unauthenticated),
        Err(_) => assert!(asked.elapsed() < Duration::from_secs(5)),
    }
    here.deployment.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_the_callers_fault() {
    let here = trained(1, 2, 1).await;
    let auditor = credentials(&here.deployment, Role::Auditor);
    let channel = channel(&auditor, &here.deployment.coordinator_peer()).unwrap();
    let bad = [
        ("bytes that are no protobuf", framed(&[0xff; 7], 7), Code::InvalidArgument),
        ("an unknown wire type", framed(&[0x0f], 1), Code::InvalidArgument),
        ("a message cut short", framed(&[1, 2], 9), Code::InvalidArgument),
        ("no message", Bytes::new(), Code::InvalidArgument),
        ("half a header", Bytes::from_static(&[0, 0]), Code::InvalidArgument),
        (
            "a message marked as compressed",
            Bytes::from_static(&[1, 0, 0, 0, 0]),
            Code::InvalidArgument,
        ),
        ("two messages", [framed(&[], 0), framed(&[], 0)].concat().into(), Code::InvalidArgument),
        ("a message too large for this call", framed(&[0; 100], (64 << 10) + 1), Code::OutOfRange),
    ];
    for (what, body, code) in bad {
        let status = post(&channel, DESCRIBE, body).await;
        assert_eq!(status.code(), code, "{what}: {status}");
    }
    assert_eq!(post(&channel, DESCRIBE, framed(&[], 0)).await.code(), Code::Ok);
    here.deployment.stop().await.unwrap();
}

/// Passes connections on to a server, all but the first `drops`, which it hangs up on as a flooded server does.
async fn flaky(server: &Peer, drops: usize) -> Peer {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let flaky = Peer { address: listener.local_addr().unwrap().to_string(), ..server.clone() };
    let target = server.address.clone();
    tokio::spawn(async move {
        for taken in 0.. {
            let Ok((mut here, _)) = listener.accept().await else { return };
            if taken < drops {
                // Some before a byte was read, some in the handshake.
                if taken % 2 == 1 {
                    let _ = here.read(&mut [0; 64]).await;
                }
                continue;
            }
            let mut there = TcpStream::connect(&target).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut here, &mut there).await });
        }
    });
    flaky
}

/// A flooded server drops handshakes, and ours may be among them: whoever calls does not notice, and is told when it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_dropped_before_the_server_spoke_is_tried_again() {
    let files = Files::new();
    let server = files.serve(Limits::default()).await;
    let active = files.credentials("a");
    for drops in [0, 1, 4] {
        let once =
            CoordinatorClient::new(channel(&active, &flaky(&server.peer, drops).await).unwrap())
                .describe_model(pb::DescribeModelRequest {})
                .await
                .unwrap_err();
        assert_eq!(once.code(), Code::FailedPrecondition, "no model yet, {drops} dropped: {once}");
    }
    let never = channel(&active, &flaky(&server.peer, usize::MAX).await).unwrap();
    let mut client = CoordinatorClient::new(never);
    let refused = client.describe_model(pb::DescribeModelRequest {});
    let refused = tokio::time::timeout(DEADLINE, refused).await.expect("it gives up").unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    server.stop().await;
}

/// Identified or not, one party holds its number of connections and no more, and is told why.
#[tokio::test(flavor = "multi_thread")]
async fn one_peer_is_held_to_its_number_of_connections() {
    let files = Files::new();
    let limits = Limits { max_connections_per_peer: 3, ..Limits::default() };
    let server = files.serve(limits).await;
    let active = files.credentials("a");
    let mut held = Vec::new();
    for _ in 0..3 {
        let channel = channel(&active, &server.peer).unwrap();
        assert_eq!(
            post(&channel, DESCRIBE, framed(&[], 0)).await.code(),
            Code::FailedPrecondition,
            "no model yet"
        );
        held.push(channel);
    }
    let fourth = post(&channel(&active, &server.peer).unwrap(), DESCRIBE, framed(&[], 0)).await;
    assert_eq!(fourth.code(), Code::ResourceExhausted, "{fourth}");
    let other =
        post(&channel(&files.credentials("b"), &server.peer).unwrap(), DESCRIBE, framed(&[], 0))
            .await;
    assert_eq!(other.code(), Code::FailedPrecondition, "the room of another peer is its own");
    server.stop().await;
}

/// Certificates of a coordinator `c` and two active parties `a`, `b`, and a deny list.
struct Files(tempfile::TempDir);

struct Server {
    peer: Peer,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<Result<(), vfl_coordinator::service::RunError>>,
}

impl Server {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

impl Files {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let parties = ["coordinator/c", "active-party/a", "active-party/b"].map(str::to_owned);
        certs::write(dir.path(), "test", 2, &parties).unwrap();
        std::fs::write(dir.path().join("denied"), "# nobody yet\n").unwrap();
        Self(dir)
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn tls(&self, name: &str) -> TlsFiles {
        let (certificate, key) = (self.at(&format!("{name}.pem")), self.at(&format!("{name}.key")));
        TlsFiles { ca: self.at("ca.pem"), certificate, key, deny_list: Some(self.at("denied")) }
    }

    fn credentials(&self, name: &str) -> Credentials {
        Credentials::read(&TlsFiles { deny_list: None, ..self.tls(name) }).unwrap()
    }

    /// As `openssl x509 -serial` prints it.
    fn serial(&self, name: &str) -> String {
        let pem = std::fs::read(self.at(&format!("{name}.pem"))).unwrap();
        let (_, pem) = x509_parser::pem::parse_x509_pem(&pem).unwrap();
        pem.parse_x509().unwrap().raw_serial().iter().map(|b| format!("{b:02X}")).collect()
    }

    async fn serve(&self, limits: Limits) -> Server {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = Peer { role: Role::Coordinator, name: PartyName::new("c").unwrap(), address };
        let settings = vfl_coordinator::config::Settings {
            credentials: Credentials::read(&self.tls("c")).unwrap(),
            limits,
            monitoring: Default::default(),
            state_dir: self.at("state"),
            passive_parties: vec![],
            peer_timeout: Duration::from_secs(1),
            active_party: None,
            training: Default::default(),
            publishing: Default::default(),
            defenses: Vec::new(),
            ledger: None,
            serving: Default::default(),
            release: Default::default(),
            audit: Default::default(),
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(vfl_coordinator::service::run(
            settings,
            listener,
            stop.clone().cancelled_owned(),
        ));
        Server { peer, stop, task }
    }

    /// A health watch: a call that stays open.
    async fn watch(
        &self,
        name: &str,
        server: &Server,
    ) -> tonic::Streaming<tonic_health::pb::HealthCheckResponse> {
        let channel = channel(&self.credentials(name), &server.peer).unwrap();
        let request = tonic_health::pb::HealthCheckRequest { service: String::new() };
        let watching =
            tonic_health::pb::health_client::HealthClient::new(channel).watch(request).await;
        let mut watching = watching.unwrap().into_inner();
        watching.message().await.unwrap().expect("the service serves");
        watching
    }
}

/// Whether a stream says nothing for a while, which is what an open watch does.
async fn open(watching: &mut tonic::Streaming<tonic_health::pb::HealthCheckResponse>) -> bool {
    tokio::time::timeout(Duration::from_secs(1), watching.message()).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_certificate_is_cut_off_while_others_go_on() {
    let files = Files::new();
    let server = files.serve(Limits::default()).await;
    let (mut lost, mut kept) = (files.watch("a", &server).await, files.watch("b", &server).await);
    assert!(open(&mut lost).await);
    std::fs::write(files.at("denied"), format!("# lost laptop\n{}  # a\n", files.serial("a")))
        .unwrap();
    // Nobody tells the server: it looks at its files.
    let ended = tokio::time::timeout(Duration::from_secs(20), lost.message())
        .await
        .expect("a denied peer is cut off");
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
    let refused =
        post(&channel(&files.credentials("a"), &server.peer).unwrap(), DESCRIBE, framed(&[], 0))
            .await;
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused}");
    assert!(refused.message().contains("deny list"), "{refused}");
    assert!(open(&mut kept).await, "who is not on the list keeps its streams");

    // A list that cannot be read leaves the old one in force; one without the certificate gives it back.
    std::fs::write(files.at("denied"), "this is no serial number\n").unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let still =
        post(&channel(&files.credentials("a"), &server.peer).unwrap(), DESCRIBE, framed(&[], 0))
            .await;
    assert_eq!(still.code(), Code::Unauthenticated, "{still}");
    std::fs::write(files.at("denied"), "").unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let again = post(
            &channel(&files.credentials("a"), &server.peer).unwrap(),
            DESCRIBE,
            framed(&[], 0),
        )
        .await;
        if again.code() == Code::FailedPrecondition {
            break;
        }
        assert!(Instant::now() < until, "{again}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(open(&mut kept).await);
    server.stop().await;
}

/// A client does not speak to a server whose certificate it denies, and hangs up on one that it comes to deny.
#[tokio::test(flavor = "multi_thread")]
async fn a_denied_server_is_not_spoken_to() {
    let files = Files::new();
    let server = files.serve(Limits::default()).await;
    let active = Credentials::read(&files.tls("a")).unwrap();
    let standing = channel(&active, &server.peer).unwrap();
    assert_eq!(post(&standing, DESCRIBE, framed(&[], 0)).await.code(), Code::FailedPrecondition);
    std::fs::write(files.at("denied"), files.serial("c")).unwrap();
    active.reload().unwrap();
    let refusal = check_health(&active, &server.peer, DEADLINE).await.unwrap_err();
    assert!(refusal.message.contains("deny list"), "{refusal}");
    let mut standing = tonic_health::pb::health_client::HealthClient::new(standing);
    let request = tonic_health::pb::HealthCheckRequest { service: String::new() };
    assert!(standing.check(request).await.is_err(), "the connection that was there is closed");
    server.stop().await;
}

/// New certificates are used from the next connection on; streams that are open stay open; a broken file changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_without_dropping_a_stream() {
    let files = Files::new();
    let server = files.serve(Limits::default()).await;
    let old = files.serial("c");
    let mut watching = files.watch("a", &server).await;

    // The same authority, a new key and certificate of the coordinator.
    let (pem, key) = (files.at("c.pem"), files.at("c.key"));
    let old_key = std::fs::read(&key).unwrap();
    std::fs::remove_file(&pem).unwrap();
    std::fs::remove_file(&key).unwrap();
    certs::write(files.0.path(), "test", 2, &["coordinator/c".to_owned()]).unwrap();
    let new = files.serial("c");
    assert_ne!(old, new);
    // A client that denies the old certificate gets through once the new one is shown.
    std::fs::write(files.at("old"), &old).unwrap();
    let picky = Credentials::read(&TlsFiles { deny_list: Some(files.at("old")), ..files.tls("a") })
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while check_health(&picky, &server.peer, DEADLINE).await.is_err() {
        assert!(Instant::now() < until, "the new certificate is not shown");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(open(&mut watching).await, "the stream from before the change is still there");

    // Half a renewal: a key that does not belong to the certificate. What was in force stays so.
    std::fs::write(&key, &old_key).unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    check_health(&picky, &server.peer, DEADLINE).await.unwrap();
    // A certificate of another party is not taken either.
    std::fs::write(&pem, std::fs::read(files.at("b.pem")).unwrap()).unwrap();
    std::fs::write(&key, std::fs::read(files.at("b.key")).unwrap()).unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    check_health(&picky, &server.peer, DEADLINE).await.unwrap();
    assert!(open(&mut watching).await);
    server.stop().await;
}

#[cfg(unix)]
#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let files = Files::new();
    for mode in [0o640, 0o604, 0o660, 0o644] {
        std::fs::set_permissions(files.at("a.key"), std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = Credentials::read(&files.tls("a")).unwrap_err().to_string();
        assert!(refused.contains("a.key") && refused.contains("chmod 600"), "{refused}");
    }
    std::fs::set_permissions(files.at("a.key"), std::fs::Permissions::from_mode(0o400)).unwrap();
    assert!(Credentials::read(&files.tls("a")).is_ok());
}
