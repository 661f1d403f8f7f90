//! The dashboard: pages for the auditor of a running deployment, served to the browser of the
//! machine that it runs on.
//!
//! Pages are rendered on the server and work without a script. Access control (`guard`) precedes
//! all of them, as do limits on connections (`listen`) and forms (`form`). `routes` asks and reads,
//! `pages` shows. Audits run by the code of `cloison audit`.

mod app;
mod draft;
mod error_page;
mod form;
mod format;
mod guard;
mod listen;
mod pages;
mod routes;
mod runner;
mod shell;
mod store;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use axum::response::IntoResponse;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tower::ServiceExt;
use vfl_server::cli::CliError;

pub use app::ReadLedger;
pub use listen::listen;

use app::App;
use guard::{Admission, Guard, Refused, harden};

/// The settings of a dashboard.
pub struct Settings {
    /// The config file of `cloison audit`.
    pub config: PathBuf,
    /// The folder of audits.
    pub out: PathBuf,
    /// The reader of the coordinator's ledger, for its operator.
    pub ledger: Option<ReadLedger>,
}

/// A dashboard that can be served.
pub struct Dashboard {
    app: Arc<App>,
    address: SocketAddr,
}

impl Dashboard {
    /// Creates a dashboard at the address of a listener, with new secrets.
    ///
    /// # Errors
    /// [`CliError::Input`] naming the config file and what is wrong in it; [`CliError::Failed`] if
    /// the folder of audits cannot be made or the system gives no random bytes.
    pub fn new(settings: Settings, address: SocketAddr) -> Result<Self, CliError> {
        let guard = Guard::new(address).map_err(CliError::Failed)?;
        let app = App::new(settings.config, &settings.out, settings.ledger, guard)?;
        Ok(Self { app: Arc::new(app), address })
    }

    /// Returns the address to open. It holds a secret that grants the rights of the auditor.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.app.guard.token().reveal())
    }

    /// Serves until `shutdown` completes. A running audit is then stopped, and its sessions are
    /// closed.
    pub async fn serve(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let (app, router) = (self.app.clone(), routes::router(self.app.clone()));
        let serving =
            listen::accept(listener, move |request| answer(app.clone(), router.clone(), request));
        tokio::select! {
            () = serving => {}
            () = shutdown => {}
        }
        self.app.runner.close().await;
    }
}

/// Answers one request; a request that is not admitted reaches no page.
async fn answer(app: Arc<App>, router: Router, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut response = match app.guard.admit(&parts) {
        Admission::Admitted => {
            let request = Request::from_parts(parts, Body::new(body));
            router.oneshot(request).await.unwrap_or_else(|never| match never {})
        }
        Admission::Greeted => {
            let mut response = shell::greeting().into_response();
            if let Some(cookie) = app.guard.set_cookie() {
                response.headers_mut().insert(header::SET_COOKIE, cookie);
            }
            response
        }
        Admission::Refused(why) => {
            let (title, text) = match why {
                Refused::Host => (
                    "This is not the address of the dashboard",
                    "Open the address that the dashboard printed when it was started. A tunnel must keep its host and port.",
                ),
                Refused::Stranger => (
                    "The dashboard does not know this browser",
                    "Open the address that the dashboard printed when it was started: it ends with a token. Each start has a new one.",
                ),
            };
            (StatusCode::FORBIDDEN, shell::bare(title, text)).into_response()
        }
    };
    harden(response.headers_mut());
    response
}
