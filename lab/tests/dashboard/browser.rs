//! A deployment with a dashboard, and a browser of few words: one connection for each request, the cookie kept.

use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use vfl_auditor::dashboard::{Dashboard, Settings, listen};
use vfl_lab::cli::ledger_reader;
use vfl_server::service::Role;

use super::support::{Trained, test_ids, trained};

/// Records that the configuration names.
pub const RECORDS: usize = 120;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The secret of the forms of this page.
    pub fn secret(&self) -> String {
        let (_, after) = self.body.split_once("name=\"form_secret\" value=\"").expect("a form");
        after.split('"').next().unwrap().to_owned()
    }
}

/// Sends bytes on a connection of their own and reads what comes until its end.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(address).await.unwrap();
    // Whoever is refused before its last byte finds the connection closed.
    let _ = socket.write_all(bytes).await;
    let mut read = Vec::new();
    let _ = socket.read_to_end(&mut read).await;
    let text = String::from_utf8_lossy(&read).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let mut lines = head.lines();
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let header = |line: &str| {
        line.split_once(": ").map(|(key, value)| (key.to_ascii_lowercase(), value.to_owned()))
    };
    Answer { status, headers: lines.filter_map(header).collect(), body: body.to_owned() }
}

/// Fields as a form writes them.
pub fn form(fields: &[(&str, &str)]) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// A deployment with a dashboard.
pub struct Here {
    pub trained: Trained,
    /// The folder of audits.
    pub audits: PathBuf,
    pub config: PathBuf,
    pub address: SocketAddr,
    pub url: String,
    pub cookie: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Trains, writes the auditor's files and serves a dashboard of them. `attacks` is a list of TOML.
pub async fn here(attacks: &str, ledger: bool) -> Here {
    let trained = trained(1, 3, 2).await;
    let dir = trained.dir.path().join("auditor");
    std::fs::create_dir(&dir).unwrap();
    let pem = trained.deployment.pem(Role::Auditor, "auditor").unwrap();
    for (name, text) in
        [("ca.pem", &pem.ca), ("auditor.pem", &pem.certificate), ("auditor.key", &pem.key)]
    {
        vfl_state::files::write_atomic(&dir.join(name), text.as_bytes(), true).unwrap();
    }
    let ids: Vec<String> =
        test_ids(&trained.dataset, 0, RECORDS).iter().map(ToString::to_string).collect();
    std::fs::write(dir.join("test.ids"), ids.join("\n")).unwrap();
    let targets = trained.deployment.targets();
    let path = |name: &str| format!("{:?}", dir.join(name).display().to_string());
    let text = format!(
        "ids = {}\nseed = 11\nattacks = {attacks}\nmetrics = [\"correlation\"]\npolicies = [\"none\", \"rounding (decimals = 1)\"]\n\
         [tls]\nca = {}\ncertificate = {}\nkey = {}\n[coordinator]\nname = \"coordinator\"\naddress = \"{}\"\n\
         [active_party]\nname = \"active\"\naddress = \"{}\"\n[[passive_parties]]\nname = \"passive-1\"\naddress = \"{}\"\n",
        path("test.ids"),
        path("ca.pem"),
        path("auditor.pem"),
        path("auditor.key"),
        targets.coordinator.address,
        targets.active.address,
        targets.passive[0].address
    );
    let config = dir.join("audit.toml");
    std::fs::write(&config, text).unwrap();
    let audits = dir.join("audits");
    let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!(
        "sqlite:{}",
        trained.deployment.party_dir("coordinator").join("ledger.sqlite").display()
    );
    let settings = Settings {
        config: config.clone(),
        out: audits.clone(),
        ledger: ledger.then(|| ledger_reader(url)),
    };
    let dashboard = Dashboard::new(settings, address).unwrap();
    let url = dashboard.url();
    let stop = CancellationToken::new();
    let task = tokio::spawn(dashboard.serve(listener, stop.clone().cancelled_owned()));
    let mut here =
        Here { trained, audits, config, address, url, cookie: String::new(), stop, task };
    let query = here.url.split_once("/?").unwrap().1.to_owned();
    let greeted = here.get(&format!("/?{query}")).await;
    assert_eq!(greeted.status, 200);
    here.cookie = greeted.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    here
}

impl Here {
    /// Asks for a page with the cookie.
    pub async fn get(&self, path: &str) -> Answer {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n",
            self.address, self.cookie
        );
        raw(self.address, request.as_bytes()).await
    }

    /// Sends a body of a form with the cookie.
    pub async fn send(&self, path: &str, body: &str) -> Answer {
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.cookie,
            body.len()
        );
        raw(self.address, request.as_bytes()).await
    }

    /// Opens a page, and sends its form with these fields.
    pub async fn post(&self, page: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        let secret = self.get(page).await.secret();
        self.send(path, &form(&[&[("form_secret", secret.as_str())][..], fields].concat())).await
    }

    /// Watches the audit that runs until it ends, and gives the last page.
    pub async fn watch(&self) -> Answer {
        loop {
            let page = self.get("/audits/running").await;
            assert_eq!(page.status, 200);
            if !page.body.contains("http-equiv=\"refresh\"") {
                return page;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Names of the folders of audits.
    pub fn folders(&self) -> Vec<String> {
        let folders = std::fs::read_dir(&self.audits).unwrap();
        folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Stops the dashboard and all parties.
    pub async fn end(self) {
        let trained = self.leave().await;
        trained.deployment.stop().await.unwrap();
    }

    /// Stops the dashboard alone.
    pub async fn leave(self) -> Trained {
        self.stop.cancel();
        self.task.await.unwrap();
        self.trained
    }
}
