//! A ledger that is lost takes budgets and bound shares with it; a database that asks for a password in plaintext gets one.

use std::path::Path;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use vfl_coordinator::ledger::{Ledger, LedgerConfig, summary};
use vfl_datasets::{Dataset, VerticalSplit};
use vfl_protocol::pb::RowStatus;
use vfl_testbed::deployment::Deployment;

use super::support::{Trained, score, spec, test_ids, trained};

/// Parties that are stopped, and their state.
struct Stopped {
    dir: TempDir,
    dataset: Dataset,
    split: VerticalSplit,
}

/// What a coordinator on this state says; `None` if it starts.
async fn complaint(here: &Stopped, begin_new: bool) -> Option<String> {
    let deployment =
        Deployment::start_with(spec(here.dir.path(), &here.dataset, &here.split), |_, settings| {
            settings.ledger.as_mut().unwrap().begin_new = begin_new;
            Ok(())
        });
    deployment.await.unwrap().stop().await.err().map(|e| format!("{e:#}"))
}

fn remove(state: &Path, names: &[&str]) {
    for name in names {
        let _ = std::fs::remove_file(state.join(name));
    }
}

const LEDGER: [&str; 3] = ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"];

/// A model in service, a record asked for, all parties stopped.
async fn asked() -> Stopped {
    let Trained { dir, dataset, split, deployment, .. } = trained(1, 2, 1).await;
    let answer = score(&deployment, &test_ids(&dataset, 0, 3)).await.unwrap();
    assert_eq!(answer.row_status, [RowStatus::Ok as i32; 3]);
    deployment.stop().await.unwrap();
    Stopped { dir, dataset, split }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_that_is_gone_is_missed() {
    let here = asked().await;
    let state = here.dir.path().join("coordinator");
    let backup = tempfile::tempdir().unwrap();
    std::fs::copy(state.join(LEDGER[0]), backup.path().join("old")).unwrap();
    remove(&state, &LEDGER);
    let said = complaint(&here, false).await.unwrap();
    assert!(said.contains("gone") && said.contains("--begin-new-ledger"), "{said}");
    assert!(!state.join(LEDGER[0]).exists(), "nothing was begun in silence");
    std::fs::write(state.join(LEDGER[0]), b"").unwrap();
    assert!(complaint(&here, false).await.unwrap().contains("missing or empty"));
    assert_eq!(complaint(&here, true).await, None);
    assert_eq!(complaint(&here, false).await, None);
    // The old one is another ledger now.
    remove(&state, &LEDGER);
    std::fs::copy(backup.path().join("old"), state.join(LEDGER[0])).unwrap();
    assert!(complaint(&here, false).await.unwrap().contains("another ledger"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_noise_secret_that_is_gone_is_not_replaced() {
    let here = asked().await;
    let state = here.dir.path().join("coordinator");
    let secret = state.join("noise.secret");
    let kept = std::fs::read(&secret).unwrap();
    std::fs::remove_file(&secret).unwrap();
    // The state directory knows, and without it the ledger does.
    for _ in 0..2 {
        let said = complaint(&here, false).await.unwrap();
        assert!(said.contains("noise.secret") && said.contains("restore it"), "{said}");
        assert!(!secret.exists(), "no other secret was made");
        remove(&state, &["ledger.mark"]);
    }
    vfl_state::files::write_atomic(&secret, &kept, true).unwrap();
    assert_eq!(complaint(&here, false).await, None);
}

/// Speaks PostgreSQL without TLS to whoever asks, and asks for the password. Gives all that was sent to it.
async fn without_tls(listener: TcpListener) -> Vec<u8> {
    let (mut socket, _) = listener.accept().await.unwrap();
    let mut sent = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(n @ 1..) = socket.read(&mut buffer).await {
        sent.extend_from_slice(&buffer[..n]);
        // `SSLRequest`: 80877103. Then, whatever comes: `AuthenticationCleartextPassword`.
        let answer: &[u8] = match sent.len() {
            8 if sent[4..] == 80_877_103_u32.to_be_bytes() => b"N",
            _ => &[b'R', 0, 0, 0, 8, 0, 0, 0, 3],
        };
        socket.write_all(answer).await.unwrap();
    }
    sent
}

/// 0.0.0.0 reaches this machine, and is not a loopback address: what holds for it holds for every server elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_elsewhere_gets_no_password_in_plaintext() {
    for (host, verified) in [("0.0.0.0", true), ("127.0.0.1", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url =
            format!("postgres://u:hunter2@{host}:{}/d", listener.local_addr().unwrap().port());
        let server = tokio::spawn(without_tls(listener));
        let error = match verified {
            true => Ledger::open(&LedgerConfig::new(url), "5f3a").await.unwrap_err().to_string(),
            // The server above does get a password, where it is on this machine.
            false => {
                let asked =
                    tokio::time::timeout(std::time::Duration::from_secs(3), summary(&url, None))
                        .await;
                asked.map_or_else(|_| "no answer".into(), |error| error.unwrap_err().to_string())
            }
        };
        assert!(!error.contains("hunter2"), "{error}");
        let sent = server.await.unwrap();
        assert_eq!(sent.windows(7).any(|w| w == b"hunter2"), !verified, "{host}: {sent:?}");
        assert!(!verified || (sent.len() == 8 && error.contains("TLS")), "{error}: {sent:?}");
    }
}
