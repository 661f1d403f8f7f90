//! Who is let in: the token, the name of the host, the secret of forms.

use super::browser::{form, here, raw};

/// All paths there are, and one that there is not.
const PATHS: [&str; 12] = [
    "/",
    "/model",
    "/audits",
    "/audits/new",
    "/audits/running",
    "/audits/stop",
    "/audit/x",
    "/audit/x/report.html",
    "/compare?first=x&second=y",
    "/ledger",
    "/style.css",
    "/nothing",
];

#[tokio::test(flavor = "multi_thread")]
async fn without_the_token_every_path_is_closed() {
    let here = here("[\"half\"]", true).await;
    let port = here.address.port();
    let token = here.url.split_once("token=").unwrap().1.to_owned();
    let wrong_cookie = format!("cloison-{port}={}", "0".repeat(64));
    let as_cookie = format!("cloison-{port}={token}");
    for path in PATHS {
        for cookie in ["", &wrong_cookie, &as_cookie] {
            for method in ["GET", "POST", "HEAD", "OPTIONS", "DELETE"] {
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {cookie}\r\nContent-Length: 0\r\n\r\n",
                    here.address
                );
                let answer = raw(here.address, request.as_bytes()).await;
                assert_eq!(answer.status, 403, "{method} {path} with `{cookie}`");
                assert!(!answer.body.contains(&token), "{path}");
            }
        }
    }
    // The token opens the first page alone, and a longer or shorter one nothing.
    for path in [
        format!("/audits?token={token}"),
        format!("/?token={token}0"),
        format!("/?token={}", &token[1..]),
        "/?token=".into(),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", here.address);
        assert_eq!(raw(here.address, request.as_bytes()).await.status, 403, "{path}");
    }
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_host_is_refused_though_it_has_the_cookie() {
    let here = here("[\"half\"]", false).await;
    let port = here.address.port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        (format!("localhost:{port}"), 200),
        (format!("evil.example:{port}"), 403),
        ("127.0.0.1".into(), 403),
        ("localhost".into(), 403),
        (format!("127.0.0.1:{port}.evil.example"), 403),
    ] {
        let request =
            format!("GET /audits HTTP/1.1\r\nHost: {host}\r\nCookie: {}\r\n\r\n", here.cookie);
        assert_eq!(raw(here.address, request.as_bytes()).await.status, status, "{host}");
    }
    let none = format!("GET /audits HTTP/1.0\r\nCookie: {}\r\n\r\n", here.cookie);
    assert_eq!(raw(here.address, none.as_bytes()).await.status, 403, "without a host");
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_need_their_secret() {
    let here = here("[\"half\"]", true).await;
    let fields = [("policy", "none"), ("attack", "file:0"), ("seed", "1")];
    let good = here.get("/audits/new").await.secret();
    for (path, fields) in [
        ("/audits/new", &fields[..]),
        ("/audits/stop", &[]),
        ("/model/ask", &[]),
        ("/ledger", &[("record", "x")]),
    ] {
        for secret in [None, Some(""), Some("0"), Some(&good[1..])] {
            let secret: Vec<(&str, &str)> =
                secret.map(|secret| ("form_secret", secret)).into_iter().collect();
            let answer = here.send(path, &form(&[&secret[..], fields].concat())).await;
            assert_eq!(answer.status, 403, "{path} with {secret:?}");
            assert!(answer.body.contains("Nothing was done"), "{path}");
        }
    }
    // A page of another origin of the same browser, which has the cookie.
    let body = form(&[
        ("form_secret", good.as_str()),
        ("policy", "none"),
        ("attack", "file:0"),
        ("seed", "1"),
    ]);
    let request = format!(
        "POST /audits/new HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nSec-Fetch-Site: same-site\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        here.address,
        here.cookie,
        body.len()
    );
    assert_eq!(raw(here.address, request.as_bytes()).await.status, 403);
    assert_eq!(here.folders(), Vec::<String>::new(), "an audit was begun");
    here.end().await;
}

/// A caller that says nothing takes no place for long, and a full house still answers in the end.
#[tokio::test(flavor = "multi_thread")]
async fn silent_callers_give_their_places_back() {
    let here = here("[\"half\"]", false).await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(tokio::net::TcpStream::connect(here.address).await.unwrap());
    }
    assert_eq!(here.get("/audits").await.status, 200);
    drop(silent);
    here.end().await;
}
