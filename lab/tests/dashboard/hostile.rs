//! Input that means harm: markup in names, paths that lead out, bodies without end, reports that are none.

use std::fs;

use super::browser::{form, here, raw};

const MARKUP: &str = "<img src=x onerror=alert(1)>";

#[tokio::test(flavor = "multi_thread")]
async fn markup_in_names_and_reports_is_text() {
    let here = here("[\"half\"]", true).await;
    let fields = [("policy", "none"), ("attack", "file:0"), ("seed", "1")];
    assert_eq!(here.post("/audits/new", "/audits/new", &fields).await.status, 303);
    here.watch().await;
    let [name] = &here.folders()[..] else { panic!("one audit") };
    // A report whose names are markup, in a folder whose name is.
    let text = fs::read_to_string(here.audits.join(name).join("report.json")).unwrap();
    let mut report: serde_json::Value = serde_json::from_str(&text).unwrap();
    report["title"] = MARKUP.into();
    report["deployment"]["model_version"] = MARKUP.into();
    report["audits"][0]["policy"]["name"] = MARKUP.into();
    report["in_service"]["name"] = MARKUP.into();
    report["audits"][0]["attacks"][0]["name"] = MARKUP.into();
    // They would be of other names; a document without them is judged where it is read.
    report.as_object_mut().unwrap().remove("verdicts");
    let odd = format!("{}\" autofocus onfocus=alert(1) x=\"", MARKUP.replace('/', ""));
    for folder in [odd.as_str(), "plain"] {
        fs::create_dir(here.audits.join(folder)).unwrap();
        fs::write(here.audits.join(folder).join("report.json"), report.to_string()).unwrap();
    }
    fs::create_dir(here.audits.join("broken")).unwrap();
    fs::write(here.audits.join("broken/report.json"), format!("{{\"{MARKUP}\": 1}}")).unwrap();
    let encoded: String = odd.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let pages = [
        here.get("/audits").await,
        here.get("/audit/plain").await,
        here.get(&format!("/audit/{encoded}")).await,
        here.get("/audit/broken").await,
        here.get(&format!("/compare?first={encoded}&second=plain")).await,
        here.post(
            "/audits/new",
            "/audits/new",
            &[("more", MARKUP), ("attack", "file:0"), ("seed", MARKUP)],
        )
        .await,
        here.post("/ledger", "/ledger", &[("record", MARKUP)]).await,
    ];
    for (at, page) in pages.iter().enumerate() {
        assert!(
            page.status == 200 || page.status == 422,
            "page {at}: {} {}",
            page.status,
            page.body
        );
        assert!(page.body.contains("&lt;img"), "page {at} shows the name: {}", page.body);
        assert!(
            !page.body.contains("<img") && !page.body.contains("\" autofocus onfocus"),
            "page {at}: {}",
            page.body
        );
    }
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_path_leads_out_of_the_folder() {
    let here = here("[\"half\"]", false).await;
    let dir = here.config.parent().unwrap();
    // Files of the names that are served, beside the folder of audits.
    for file in ["report.html", "report.json", "report.csv"] {
        fs::write(dir.join(file), "outside").unwrap();
    }
    for path in [
        "/audit/../audit.toml",
        "/audit/%2e%2e/audit.toml",
        "/audit/%2E%2E/report.html",
        "/audit/..%2f/report.html",
        "/audit/%2e%2e%2f%2e%2e%2fauditor/report.html",
        "/audit/.%00./report.html",
        "/audit/./report.html",
        "/audit/x/..%2f..%2freport.html",
        "/audit/~/report.html",
        "/audit/~/audit.toml",
        "/audit/~/auditor.key",
        "/audit/x/%2e%2e%2fauditor.key",
        "/../../etc/passwd",
        "//etc/passwd",
    ] {
        let answer = here.get(path).await;
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.contains("outside") && !answer.body.contains("[tls]"), "{path}");
    }
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_are_refused_and_forgotten() {
    let here = here("[\"half\"]", false).await;
    let secret = here.get("/audits/new").await.secret();
    let body = form(&[("form_secret", secret.as_str()), ("more", &"x".repeat(10 << 20))]);
    assert_eq!(here.send("/audits/new", &body).await.status, 413);
    // Without an end that is told beforehand, too.
    let head = format!(
        "POST /audits/new HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        here.address, here.cookie
    );
    let mut chunked = head.into_bytes();
    for _ in 0..160 {
        chunked.extend_from_slice(b"10000\r\n");
        chunked.extend(std::iter::repeat_n(b'x', 0x10000));
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(raw(here.address, &chunked).await.status, 413);
    // Headers without end, another kind of body, a body that is no text.
    let long =
        format!("GET / HTTP/1.1\r\nHost: {}\r\nX: {}\r\n\r\n", here.address, "x".repeat(1 << 20));
    assert!([0, 431].contains(&raw(here.address, long.as_bytes()).await.status));
    let json = format!(
        "POST /audits/new HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}",
        here.address, here.cookie
    );
    assert_eq!(raw(here.address, json.as_bytes()).await.status, 415);
    assert_eq!(here.send("/audits/new", "form_secret=%ff%fe&=&&&===").await.status, 403);
    assert_eq!(here.folders(), Vec::<String>::new());
    assert_eq!(here.get("/").await.status, 200);
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_that_there_are_not_change_nothing() {
    let here = here("[\"half\"]", false).await;
    for (method, path) in
        [("DELETE", "/audits"), ("PUT", "/audits/new"), ("POST", "/"), ("GET", "/model/ask")]
    {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Length: 0\r\n\r\n",
            here.address, here.cookie
        );
        let answer = raw(here.address, request.as_bytes()).await;
        assert_eq!(answer.status, 405, "{method} {path}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
    }
    here.end().await;
}
