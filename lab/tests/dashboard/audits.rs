//! Audits that are started, watched, stopped and compared on the pages.

use vfl_attack::Method;
use vfl_auditor::audit;
use vfl_auditor::audit::Plan;
use vfl_auditor::report::Report;
use vfl_core::metrics::Correlation;

use super::browser::{Here, RECORDS, here};
use super::support::test_ids;

fn report(here: &Here, name: &str) -> Report {
    let text = std::fs::read_to_string(here.audits.join(name).join("report.json")).unwrap();
    Report::from_json(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_from_the_form_finds_what_the_same_plan_finds() {
    let here = here("[\"half\", \"least_squares\"]", false).await;
    let fields = [
        ("policy", "none"),
        ("more", "class_label"),
        ("attack", "file:1"),
        ("attack", "half_star"),
        ("seed", "5"),
        ("rho", ""),
    ];
    let started = here.post("/audits/new", "/audits/new", &fields).await;
    assert_eq!(
        (started.status, started.header("location")),
        (303, Some("/audits/running")),
        "{}",
        started.body
    );
    let ended = here.watch().await;
    assert!(ended.body.contains("The report is written"), "{}", ended.body);
    let [name] = &here.folders()[..] else { panic!("one audit") };
    let found = report(&here, name);

    // The same plan, by the code that the command line calls.
    let policies = ["none", "class_label"].map(|policy| policy.parse().unwrap()).into();
    let attacks = [Method::LeastSquares, Method::HalfStar].map(Into::into).into();
    let plan = Plan {
        aware: true,
        queries: 3,
        metrics: Some(vec![&Correlation]),
        ..Plan::of(test_ids(&here.trained.dataset, 0, RECORDS), policies, attacks, 5)
    };
    let findings =
        audit::run(&here.trained.deployment.targets(), &plan, |_, _, _| ()).await.unwrap();
    let bytes = |audits: &[vfl_auditor::report::Audit]| serde_json::to_string(audits).unwrap();
    assert_eq!(bytes(&found.audits), bytes(&findings.audits));

    // Its files are served as they are, and the list and its own page have its figures.
    for (file, kind) in [
        ("report.html", "text/html; charset=utf-8"),
        ("report.json", "application/json"),
        ("report.csv", "text/csv; charset=utf-8"),
    ] {
        let served = here.get(&format!("/audit/{name}/{file}")).await;
        assert_eq!((served.status, served.header("content-type")), (200, Some(kind)));
        assert!(served.header("content-security-policy").unwrap().contains("sandbox"));
        assert_eq!(
            served.body,
            std::fs::read_to_string(here.audits.join(name).join(file)).unwrap(),
            "{file}"
        );
    }
    for path in ["/audits".to_owned(), format!("/audit/{name}")] {
        let page = here.get(&path).await;
        assert_eq!(page.status, 200);
        assert!(
            page.body.contains("rebuilt exactly") && page.body.contains("class_label"),
            "{path}: {}",
            page.body
        );
        assert!(!page.body.contains("synthetic-0"), "{path}");
    }
    // The configuration that is kept asks for the same again.
    let kept = here.get(&format!("/audit/{name}/audit.toml")).await.body;
    assert!(
        kept.contains("seed = 5") && kept.contains("class_label") && !kept.contains("PRIVATE"),
        "{kept}"
    );
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_form_stands_beside_its_field() {
    let here = here("[\"half\"]", false).await;
    for (fields, id, says) in [
        (
            &[("more", "rounding (decimals = 99)"), ("attack", "file:0"), ("seed", "1")][..],
            "policies-wrong",
            "decimals",
        ),
        (&[("policy", "none"), ("seed", "1")], "attacks-wrong", "at least one attack"),
        (&[("policy", "none"), ("attack", "no_such"), ("seed", "1")], "attacks-wrong", "attack"),
        (&[("policy", "none"), ("attack", "file:0"), ("seed", "x")], "seed-wrong", "whole number"),
        (
            &[("policy", "none"), ("attack", "file:0"), ("seed", "1"), ("rho", "-1")],
            "rho-wrong",
            "above 0",
        ),
    ] {
        let answer = here.post("/audits/new", "/audits/new", fields).await;
        assert_eq!(answer.status, 422, "{fields:?}");
        let (_, beside) = answer
            .body
            .split_once(&format!("id=\"{id}\">"))
            .unwrap_or_else(|| panic!("{id}: {}", answer.body));
        let beside = beside.split("</p>").next().unwrap();
        assert!(beside.contains(says), "{beside}");
        assert_eq!(answer.body.matches("class=\"wrong\"").count(), 1, "{}", answer.body);
    }
    assert_eq!(here.folders(), Vec::<String>::new());
    here.end().await;
}

/// One at a time; a stopped one has no report and leaves no session open, so that the next one may have all of them.
#[tokio::test(flavor = "multi_thread")]
async fn one_audit_runs_at_a_time_and_can_be_stopped() {
    // A long descent behind each of many policies: it does not end by itself while the test looks.
    let here = here("[{ name = \"gradient_inversion\", stop_loss = 0.0 }, \"rcc2\"]", false).await;
    let policies: String =
        (1..=12).map(|k| format!("temperature (temperature = {k}.5)\n")).collect();
    let fields =
        [("more", policies.as_str()), ("attack", "file:0"), ("attack", "file:1"), ("seed", "5")];
    let started = here.post("/audits/new", "/audits/new", &fields).await;
    assert_eq!(started.status, 303, "{}", started.body);
    let page = here.get("/audits/running").await;
    assert!(
        page.body.contains("<progress") && page.body.contains("http-equiv=\"refresh\""),
        "{}",
        page.body
    );
    let still = here.get("/audits/running?still").await;
    assert!(
        still.body.contains("<progress") && !still.body.contains("http-equiv=\"refresh\""),
        "{}",
        still.body
    );

    let refused = here.get("/audits/new").await;
    assert_eq!(refused.status, 409);
    assert!(refused.body.contains("One audit runs at a time"), "{}", refused.body);
    let secret = here.get("/audits/stop").await.secret();
    let again = super::browser::form(&[&[("form_secret", secret.as_str())][..], &fields].concat());
    assert_eq!(here.send("/audits/new", &again).await.status, 409);
    assert_eq!(here.folders().len(), 1);

    let stopped = here.post("/audits/stop", "/audits/stop", &[]).await;
    assert_eq!(stopped.status, 303);
    let ended = here.watch().await;
    assert!(ended.body.contains("The audit was stopped"), "{}", ended.body);
    let [name] = &here.folders()[..] else { panic!("one audit") };
    assert!(!here.audits.join(name).join("report.json").exists());
    assert!(here.get("/audits").await.body.contains("It has no report."));

    // 16 sessions are open at once at most: had one of a stopped audit stayed open, the last of these would be refused.
    for round in 0..17 {
        let secret = here.get("/audits/new").await.secret();
        let body =
            super::browser::form(&[&[("form_secret", secret.as_str())][..], &fields].concat());
        assert_eq!(here.send("/audits/new", &body).await.status, 303, "round {round}");
        let secret = here.get("/audits/stop").await.secret();
        here.send("/audits/stop", &super::browser::form(&[("form_secret", &secret)])).await;
        let ended = here.watch().await;
        assert!(ended.body.contains("The audit was stopped"), "round {round}: {}", ended.body);
    }
    here.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_audit_says_why() {
    let mut here = here("[\"half\"]", false).await;
    here.trained.deployment.stop_passive(0).await;
    let started = here
        .post(
            "/audits/new",
            "/audits/new",
            &[("policy", "none"), ("attack", "file:0"), ("seed", "1")],
        )
        .await;
    assert_eq!(started.status, 303);
    let ended = here.watch().await;
    assert!(
        ended.body.contains("The audit failed") && ended.body.contains("passive-1"),
        "{}",
        ended.body
    );
    assert!(here.get("/audits").await.body.contains("is not reachable"));
    drop(here.leave().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_audits_side_by_side_name_what_differs() {
    let here = here("[\"half\", \"least_squares\"]", false).await;
    for (seed, more) in [("1", ""), ("1", "class_label")] {
        let fields = [
            ("policy", "none"),
            ("more", more),
            ("attack", "file:0"),
            ("attack", "file:1"),
            ("seed", seed),
        ];
        assert_eq!(here.post("/audits/new", "/audits/new", &fields).await.status, 303);
        let ended = here.watch().await;
        assert!(ended.body.contains("The report is written"), "{}", ended.body);
    }
    let mut names = here.folders();
    names.sort();
    let list = here.get("/audits").await;
    assert!(list.body.contains("Compare two audits"), "{}", list.body);
    let page = here.get(&format!("/compare?first={}&second={}", names[0], names[1])).await;
    assert_eq!(page.status, 200, "{}", page.body);
    for text in ["second only", "same", "differs", "class_label", &names[0], &names[1]] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    let same = here.get(&format!("/compare?first={0}&second={0}", names[0])).await;
    assert!(same.body.contains("0 of "), "{}", same.body);
    assert!(!same.body.contains("differs</span>"), "{}", same.body);
    for lost in ["/compare", "/compare?first=..&second=..", "/compare?first=nothing&second=nothing"]
    {
        assert_eq!(here.get(lost).await.status, 404, "{lost}");
    }
    here.end().await;
}
