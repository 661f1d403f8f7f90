//! What the pages show, and what none of them may.

use super::browser::{Here, here};
use super::support::{score, test_ids};

/// What no page may hold: a record, the secret of the address, a key, a place of the ledger, a script, a style that the policy forbids.
fn is_clean(here: &Here, path: &str, body: &str) {
    let token = here.url.split_once("token=").unwrap().1;
    let cookie = here.cookie.split_once('=').unwrap().1;
    for never in [
        "synthetic-0",
        token,
        cookie,
        "PRIVATE KEY",
        "ledger.sqlite",
        "<script",
        "javascript:",
        " style=",
        "onload=",
    ] {
        assert!(!body.contains(never), "{path} holds {never}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_there_and_clean() {
    let here = here("[\"half\", \"least_squares\"]", true).await;
    score(&here.trained.deployment, &test_ids(&here.trained.dataset, 200, 210)).await.unwrap();
    let mut pages = Vec::new();
    for (path, says) in [
        (
            "/",
            &[
                "All 3 parties answer",
                "passive-1",
                here.trained.version.as_str(),
                "Spent by active",
                "10, ",
            ][..],
        ),
        (
            "/model",
            &["How it came about", "2 epochs", "Not asked yet", "Features of the passive parties"],
        ),
        ("/audits", &["No audit yet", "Start an audit"]),
        (
            "/audits/new",
            &[
                "120 records",
                "rounding (decimals = 1)",
                "least_squares",
                "value=\"11\"",
                "in service",
            ],
        ),
        ("/audits/running", &["No audit has run"]),
        ("/ledger", &["Record id", "Spent by active"]),
    ] {
        let answer = here.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        for text in says {
            assert!(answer.body.contains(text), "{path} lacks {text}: {}", answer.body);
        }
        is_clean(&here, path, &answer.body);
        for (header, value) in [
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(answer.header(header), Some(value), "{path}");
        }
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("form-action 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("script-src") && !policy.contains("unsafe"), "{policy}");
        pages.push(answer.body);
    }
    // Every link of every page leads somewhere.
    let links = pages
        .iter()
        .flat_map(|page| page.split("href=\"").skip(1))
        .filter_map(|after| after.split('"').next());
    let links: std::collections::BTreeSet<&str> =
        links.filter(|link| link.starts_with('/')).collect();
    assert!(links.len() >= 7, "{links:?}");
    for link in links {
        assert_eq!(here.get(link).await.status, 200, "{link}");
    }
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_parties_show_of_their_parameters_is_asked_by_hand() {
    let here = here("[\"half\"]", false).await;
    let asked = here.post("/model", "/model/ask", &[]).await;
    assert_eq!((asked.status, asked.header("location")), (303, Some("/model")));
    let page = here.get("/model").await;
    assert!(
        page.body.contains("true parameters") && page.body.contains("scores without noise"),
        "{}",
        page.body
    );
    is_clean(&here, "/model", &page.body);
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_party_that_is_gone_is_named_with_what_to_do() {
    let mut here = here("[\"half\"]", false).await;
    here.trained.deployment.stop_passive(0).await;
    let page = here.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("1 of 3 parties do not answer"), "{}", page.body);
    assert!(
        page.body.contains("is not reachable") && page.body.contains("Is it started"),
        "{}",
        page.body
    );
    drop(here.leave().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ledger_is_searched_by_post_and_only_where_it_is_given() {
    let with = here("[\"half\"]", true).await;
    let ids = test_ids(&with.trained.dataset, 200, 203);
    score(&with.trained.deployment, &ids).await.unwrap();
    let id = ids.iter().next().unwrap().to_string();
    let found = with.post("/ledger", "/ledger", &[("record", &id)]).await;
    assert_eq!(found.status, 200);
    assert!(
        found.body.contains(&id) && found.body.contains(&with.trained.version),
        "{}",
        found.body
    );
    let none = with.post("/ledger", "/ledger", &[("record", "nobody")]).await;
    assert!(none.body.contains("no entry under this id"), "{}", none.body);
    // The id is not kept, and an address with it is not looked at.
    assert!(!with.get("/ledger").await.body.contains(&id));
    assert!(!with.get(&format!("/ledger?record={id}")).await.body.contains("rows granted"));
    with.end().await;

    let without = here("[\"half\"]", false).await;
    assert!(without.get("/ledger").await.body.contains("was not given a ledger"));
    without.end().await;
}
