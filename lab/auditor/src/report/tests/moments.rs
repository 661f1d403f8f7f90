//! An adversary that knows moments alone, beside one that knows records, and without it.

use super::fixture;
use crate::report::{
    Compliance, Report, Threshold, Thresholds, render_csv, render_html, render_summary,
    render_table,
};

/// The demo with an adversary at exact scores that knows moments: they add 90 % to what it can guess.
fn with_moments() -> Report {
    let mut report = fixture::informed();
    let mut audit = report
        .audits
        .iter()
        .find(|a| a.policy.is_none() && a.threat_model.known_records > 0)
        .unwrap()
        .clone();
    audit.threat_model.known_records = 0;
    audit.threat_model.moments = true;
    for attack in &mut audit.attacks {
        if let Some(risk) = &mut attack.added_risk {
            risk.control = "imputation (moments = own)".into();
            (risk.value, risk.low, risk.high, risk.halves) =
                (Some(0.9), Some(0.88), Some(0.91), None);
        }
    }
    report.audits.insert(1, audit);
    report
}

fn of_none(report: &Report) -> (Compliance, Option<f64>) {
    let none = report.audits.iter().find(|a| a.policy.is_none()).unwrap();
    let results = report.compliance(&none.policy);
    let result = results.iter().find(|result| result.threshold == Threshold::MaxAddedRisk).unwrap();
    (result.compliance, result.figure)
}

/// The control of whoever knows records is the better one: what the scores add to it is what a threshold is about.
#[test]
fn known_records_are_judged_and_moments_are_not() {
    let mut report = with_moments();
    report.demand(Thresholds::new(Some(0.8), None).unwrap());
    report.check().unwrap();
    assert_eq!(of_none(&report), (Compliance::Met, Some(0.74)));
    // Nor without known records: nothing is measured then that a threshold is about.
    let mut alone = with_moments();
    alone.audits.retain(|audit| audit.threat_model.known_records == 0);
    alone.demand(Thresholds::new(Some(0.8), None).unwrap());
    alone.check().unwrap();
    assert_eq!(of_none(&alone), (Compliance::NotMeasured, None));
}

#[test]
fn the_reader_is_told_of_both() {
    let report = with_moments();
    let summary = render_summary(&report, 100, false);
    assert!(summary.contains("adversary that knows 200 records"), "{summary}");
    assert!(
        summary
            .contains("to one who knows only means and covariances: they remove 90 % (88 to 91 %)"),
        "{summary}"
    );
    let csv = render_csv(&report).unwrap();
    assert!(csv.contains("informed by moments") && csv.contains("informed,"), "{csv}");
    let page = render_html(&report).unwrap();
    assert!(
        page.contains("informed, knows means and covariances")
            && page.contains("their owner plays it")
    );
    // In the table of added risks a defense has one line, that of the stronger control.
    let table = render_table(&report, 120, false);
    let added = table
        .lines()
        .skip_while(|line| !line.contains("What the scores add"))
        .take_while(|l| !l.trim().is_empty());
    assert!(
        added.clone().count() > 4 && !added.clone().any(|line| line.contains("90 %")),
        "{table}"
    );
    assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
}

/// Moments are measured at exact scores alone: no policy is recommended for what the others were not measured by.
#[test]
fn moments_alone_recommend_nothing() {
    let mut report = with_moments();
    report.audits.retain(|audit| audit.threat_model.known_records == 0);
    let summary = render_summary(&report, 100, false);
    assert!(summary.contains("The strongest attack on each policy"), "{summary}");
    assert!(
        summary.contains("to one who knows only means and covariances: they remove 90 %"),
        "{summary}"
    );
    let mut without = report.clone();
    without.audits.retain(|audit| !audit.threat_model.moments);
    let next = |report: &Report| {
        render_summary(report, 100, false).split("Next: ").nth(1).unwrap().to_owned()
    };
    assert_eq!(next(&report), next(&without), "what to do next is what it is without moments");
    assert!(render_html(&report).unwrap().contains("their owner plays it"));
}
