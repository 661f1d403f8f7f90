//! The routes from requests to pages.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;
use vfl_protocol::ledger::{RecordUse, Summary};

use super::app::{App, ReadLedger};
use super::draft::{Draft, Errors, Source};
use super::error_page::ErrorPage;
use super::form::Fields;
use super::format::why;
use super::pages::{self, AuditForm, AuditList, PartyAnswers, RecordSearch};
use super::runner::{Stage, StartError};
use super::shell::{ICON, NavPage, page, style_sheet};
use super::store::{Piece, ReportState};
use crate::audit::{self, said, standing};
use crate::audit_config::ConfiguredAudit;
use crate::report::Report;

/// The time limit for a party's answer to a page.
const PATIENCE: Duration = Duration::from_secs(4);
/// The time limit for passive parties to look up the audited records.
const OPENING: Duration = Duration::from_secs(30);
/// The seconds after which a page that watches an audit reloads.
const RELOAD: u32 = 3;
/// The longest record id that is searched for, in bytes.
const LONGEST_ID: usize = 4096;
/// The content security policy of a report: it runs and loads nothing.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

type Shared = State<Arc<App>>;
type Answer<T = Html<String>> = Result<T, ErrorPage>;

/// Returns the router of all pages.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(service))
        .route("/model", get(model))
        .route("/model/ask", axum::routing::post(ask))
        .route("/audits", get(audits))
        .route("/audits/new", get(new).post(start))
        .route("/audits/running", get(watch))
        .route("/audits/stop", get(confirm).post(stop))
        .route("/audit/{name}", get(audit_page))
        .route("/audit/{name}/{file}", get(piece))
        .route("/compare", get(compare))
        .route("/ledger", get(totals).post(record))
        .route("/style.css", get(style))
        .route("/icon.svg", get(icon))
        .route("/favicon.ico", get(icon))
        .fallback(missing)
        .method_not_allowed_fallback(no_such_method)
        .with_state(app)
}

/// Runs work on files or certificates off the threads that serve connections.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Answer<T> {
    let failed = |_| ErrorPage::setting("This is a defect of the dashboard. Its log says more.");
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

async fn source(app: &Arc<App>) -> Answer<(Source, ConfiguredAudit)> {
    let app = app.clone();
    apart(move || app.source()).await?
}

async fn missing() -> ErrorPage {
    ErrorPage::missing("The address is not one of this dashboard.")
}

async fn no_such_method() -> ErrorPage {
    ErrorPage::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "This cannot be done here",
        "Go on from a page of the dashboard.",
    )
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], style_sheet())
}

async fn icon() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "image/svg+xml")], ICON)
}

async fn service(State(app): Shared) -> Answer {
    let (_, audited) = source(&app).await?;
    let standing = standing(&audited.targets, PATIENCE).await;
    Ok(page(NavPage::Service, "Service", None, &pages::service(&audited.targets, &standing)))
}

async fn model(State(app): Shared) -> Answer {
    let (_, audited) = source(&app).await?;
    let standing = standing(&audited.targets, PATIENCE).await;
    let content =
        pages::model(&standing, app.asked().as_ref(), audited.plan.ids.len(), app.guard.form());
    Ok(page(NavPage::Model, "Model", None, &content))
}

async fn ask(State(app): Shared, request: Request<Body>) -> Answer<Redirect> {
    Fields::read(request, &app.guard).await?;
    let (_, audited) = source(&app).await?;
    let asked = said(&audited.targets, &audited.plan.ids, OPENING).await;
    let (model, said) = asked.map_err(|refusal| {
        let text = why(&refusal);
        ErrorPage::new(
            StatusCode::BAD_GATEWAY,
            "The coordinator does not say which model is in service",
            text,
        )
        .next("/", "See who answers")
    })?;
    app.keep(PartyAnswers {
        at: SystemTime::now(),
        version: model.version.as_str().to_owned(),
        said,
    });
    Ok(Redirect::to("/model"))
}

async fn audits(State(app): Shared) -> Answer {
    let store = app.store.clone();
    apart(move || {
        let (entries, more) = store.list().map_err(ErrorPage::setting)?;
        let running = app.runner.watch().filter(|watched| !watched.stage.ended());
        let listed = AuditList { entries: &entries, more, running: running.as_ref() };
        Ok(page(NavPage::Audits, "Audits", None, &pages::audits(&listed)))
    })
    .await?
}

/// Renders the form with a draft and its errors.
async fn form(
    app: &App,
    source: &Source,
    audited: &ConfiguredAudit,
    draft: &Draft,
    errors: &Errors,
) -> Html<String> {
    let asked = tokio::time::timeout(PATIENCE, audit::model(&audited.targets)).await;
    let live = asked.ok().and_then(Result::ok).map(|model| model.policy);
    let new =
        AuditForm { source, records: audited.plan.ids.len(), live: live.as_ref(), draft, errors };
    page(NavPage::Audits, "Start an audit", None, &pages::new(&new, app.guard.form()))
}

fn busy() -> ErrorPage {
    let text = "One audit runs at a time, since audits of the same records spend one budget. Wait until it has ended, or stop it.";
    ErrorPage::new(StatusCode::CONFLICT, "An audit runs already", text)
        .next("/audits/running", "Watch it")
}

async fn new(State(app): Shared) -> Answer {
    if app.runner.running().is_some() {
        return Err(busy());
    }
    let (source, audited) = source(&app).await?;
    Ok(form(&app, &source, &audited, &Draft::of(&source), &Errors::default()).await)
}

async fn start(State(app): Shared, request: Request<Body>) -> Answer<Response> {
    let draft = Draft::from_form(&Fields::read(request, &app.guard).await?);
    let (source, audited) = source(&app).await?;
    let (checked, tried) = (app.clone(), draft.clone());
    let (source, begun) = apart(move || {
        let begun = tried.ready(&source).map(|ready| checked.runner.start(ready));
        (source, begun)
    })
    .await?;
    match begun {
        Ok(Ok(())) => Ok(Redirect::to("/audits/running").into_response()),
        Ok(Err(StartError::Busy)) => Err(busy()),
        Ok(Err(StartError::Store(why))) => Err(ErrorPage::setting(why)),
        Err(errors) => {
            let page = form(&app, &source, &audited, &draft, &errors).await;
            Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
        }
    }
}

async fn watch(State(app): Shared, RawQuery(query): RawQuery) -> Html<String> {
    let Some(watched) = app.runner.watch() else {
        return page(NavPage::Audits, "No audit runs", None, &pages::nothing());
    };
    let title = match watched.stage {
        Stage::Running { .. } => "An audit runs",
        Stage::Stopping => "An audit is being stopped",
        Stage::Done => "The audit is done",
        Stage::Stopped => "The audit was stopped",
        Stage::Failed(_) => "The audit failed",
    };
    let still = Fields::of_query(query.as_deref()).one("still").is_some();
    let reload = (!still && !watched.stage.ended()).then_some(RELOAD);
    page(NavPage::Audits, title, reload, &pages::watch(&watched, still))
}

async fn confirm(State(app): Shared) -> Response {
    match app.runner.watch().filter(|watched| !watched.stage.ended()) {
        Some(watched) => page(
            NavPage::Audits,
            "Stop this audit?",
            None,
            &pages::stop(&watched, app.guard.form()),
        )
        .into_response(),
        None => Redirect::to("/audits/running").into_response(),
    }
}

async fn stop(State(app): Shared, request: Request<Body>) -> Answer<Redirect> {
    Fields::read(request, &app.guard).await?;
    app.runner.stop();
    Ok(Redirect::to("/audits/running"))
}

fn no_audit() -> ErrorPage {
    ErrorPage::missing("There is no audit of this name in the folder of audits.")
}

async fn audit_page(State(app): Shared, Path(name): Path<String>) -> Answer {
    apart(move || {
        let entry = app.store.find(&name).map_err(ErrorPage::setting)?.ok_or_else(no_audit)?;
        let config = app.store.piece(&name, Piece::Config).is_ok_and(|config| config.is_some());
        let title = match &entry.kept {
            ReportState::Report(report) => report.title.clone(),
            _ => name,
        };
        Ok(page(NavPage::Audits, &title, None, &pages::audit(&entry, config)))
    })
    .await?
}

async fn piece(State(app): Shared, Path((name, file)): Path<(String, String)>) -> Answer<Response> {
    let piece =
        Piece::named(&file).ok_or_else(|| ErrorPage::missing("An audit has no such file."))?;
    let text = apart(move || app.store.piece(&name, piece)).await?.map_err(ErrorPage::setting)?;
    let text = text.ok_or_else(|| ErrorPage::missing("This audit has no such file."))?;
    let kind = match piece {
        Piece::Html => "text/html; charset=utf-8",
        Piece::Json => "application/json",
        Piece::Csv => "text/csv; charset=utf-8",
        Piece::Config => "application/toml",
    };
    let mut response = ([(header::CONTENT_TYPE, kind)], text).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(REPORT_POLICY));
    if piece != Piece::Html
        && let Ok(attachment) =
            HeaderValue::from_str(&format!("attachment; filename=\"{}\"", piece.file()))
    {
        headers.insert(header::CONTENT_DISPOSITION, attachment);
    }
    Ok(response)
}

async fn compare(State(app): Shared, RawQuery(query): RawQuery) -> Answer {
    let fields = Fields::of_query(query.as_deref());
    let name = |field: &str| fields.one(field).unwrap_or_default().to_owned();
    let names = [name("first"), name("second")];
    apart(move || {
        let report = |name: &str| -> Answer<Box<Report>> {
            match app.store.find(name).map_err(ErrorPage::setting)?.ok_or_else(no_audit)?.kept {
                ReportState::Report(report) => Ok(report),
                _ => Err(ErrorPage::missing("One of these audits has no report that can be read.")),
            }
        };
        let (first, second) = (report(&names[0])?, report(&names[1])?);
        let content = pages::compare((&names[0], &first), (&names[1], &second));
        Ok(page(NavPage::Audits, "Two audits", None, &content))
    })
    .await?
}

async fn read(ledger: &ReadLedger, record: Option<String>) -> Answer<(Summary, Vec<RecordUse>)> {
    ledger(record).await.map_err(|error| {
        let text = format!(
            "The ledger cannot be read: {error}. Mend it, or start the dashboard with another `--ledger`."
        );
        ErrorPage::new(StatusCode::BAD_GATEWAY, "The ledger cannot be read", text)
    })
}

async fn totals(State(app): Shared) -> Answer {
    let Some(ledger) = &app.ledger else {
        return Ok(page(NavPage::Ledger, "Ledger", None, &pages::no_ledger()));
    };
    let (summary, _) = read(ledger, None).await?;
    Ok(page(NavPage::Ledger, "Ledger", None, &pages::ledger(&summary, None, app.guard.form())))
}

async fn record(State(app): Shared, request: Request<Body>) -> Answer {
    let fields = Fields::read(request, &app.guard).await?;
    let Some(ledger) = &app.ledger else {
        return Ok(page(NavPage::Ledger, "Ledger", None, &pages::no_ledger()));
    };
    let record = fields.one("record").unwrap_or_default();
    if record.is_empty() || record.len() > LONGEST_ID {
        let text = format!("A record id has 1 to {LONGEST_ID} bytes.");
        return Err(ErrorPage::new(StatusCode::UNPROCESSABLE_ENTITY, "This is no record id", text)
            .next("/ledger", "Back to the ledger"));
    }
    let (summary, uses) = read(ledger, Some(record.to_owned())).await?;
    let searched = RecordSearch { record, uses: &uses };
    Ok(page(
        NavPage::Ledger,
        "Ledger",
        None,
        &pages::ledger(&summary, Some(&searched), app.guard.form()),
    ))
}
