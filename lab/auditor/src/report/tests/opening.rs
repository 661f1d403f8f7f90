//! What a reader sees first: the verdict on the terminal and at the head of the page.

use unicode_width::UnicodeWidthStr;

use super::fixture;
use crate::report::summary::MOST_LINES;
use crate::report::{Policy, Report, Thresholds, render_html, render_summary};

/// The informed report with as many policies as there are defenses, with long parameters.
fn many(policies: usize) -> Report {
    let mut report = fixture::informed();
    let pair = [report.audits[0].clone(), report.audits[4].clone()];
    for i in report.audits.len() / 2..policies {
        for audit in &pair {
            let mut audit = audit.clone();
            audit.policy = Policy::new("order_preserving_logit_noise")
                .with("alpha", 0.25 * i as f64)
                .with("scheme", i);
            report.audits.push(audit);
        }
    }
    report
}

#[test]
fn the_verdict_fits_on_a_screen() {
    for (policies, all_shown) in [(4, true), (13, true), (60, false)] {
        let mut report = many(policies);
        report.demand(Thresholds::new(Some(0.1), Some(0.2)).unwrap());
        for width in [80, 100, 140] {
            let text = render_summary(&report, width, false);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() <= MOST_LINES, "{} lines\n{text}", lines.len());
            assert!(lines.iter().all(|line| line.width() <= width), "{width}\n{text}");
            // On 80 columns the sentences take more lines, and some policies give way.
            if width >= 100 {
                assert_eq!(!text.contains("more: --details"), all_shown, "{text}");
            }
            assert_eq!(text.matches("Next: ").count(), 1);
        }
    }
    for report in [fixture::report(), fixture::hostile()] {
        let text = render_summary(&report, 80, false);
        assert!(
            text.lines().count() <= MOST_LINES && text.lines().all(|line| line.width() <= 80),
            "{text}"
        );
    }
}

#[test]
fn there_is_a_sentence_for_each_surface_and_a_line_for_each_policy() {
    let report = fixture::informed();
    let text = render_summary(&report, 140, false);
    let html = render_html(&report).unwrap();
    for surface in ["Scores: ", "Rounded scores: ", "Class label: ", "Parameters: ", "Training: "] {
        assert_eq!(
            text.lines().filter(|line| line.starts_with(&format!("- {surface}"))).count(),
            1,
            "{text}"
        );
        assert_eq!(html.matches(&format!("<strong>{surface}</strong>")).count(), 1, "{surface}");
    }
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (policy, figures) in [
        ("none", "71 % 69 to 74 % 0.0015 0.0050"),
        ("rounding 3", "36 % 31 to 40 % 0.0032 0.0050"),
        ("class_label", "6.3 % 3.4 to 9.3 % 0.0047 0.0050"),
    ] {
        assert!(flat.contains(&format!("{policy} {figures}")), "{policy} {figures}: {flat}");
    }
    // Without a control nothing is claimed of what the scores add.
    let plain = render_summary(&fixture::report(), 140, false);
    assert!(
        !plain.contains("added risk") && plain.contains("Next: Do not serve none as it is"),
        "{plain}"
    );
}

/// Headings without a gap, one h1, a caption for every table and a scope for every head of a row or column.
#[test]
fn the_page_is_read_in_order() {
    let mut report = many(17);
    report.demand(Thresholds::new(Some(0.1), None).unwrap());
    for html in [render_html(&report).unwrap(), render_html(&fixture::report()).unwrap()] {
        let levels = html
            .match_indices("<h")
            .filter_map(|(at, _)| html[at + 2..].chars().next()?.to_digit(10));
        let levels: Vec<u32> = levels.collect();
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1);
        assert!(levels[0] == 1 && levels.windows(2).all(|two| two[1] <= two[0] + 1), "{levels:?}");
        let count = |text: &str| html.matches(text).count();
        assert_eq!(count("<table"), count("<caption>"));
        assert_eq!(count("<th ") + count("<th>"), count("<th scope="), "a head without a scope");
        assert_eq!(count("<svg"), count("role=\"img\""));
        // The verdict stands before everything else, and nothing long is unfolded.
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}"));
        assert!(
            at("<h2>Verdict</h2>") < at("What to do next.")
                && at("What to do next.") < at("<h2>Threat model</h2>")
        );
        assert!(
            at("<h2>Threat model</h2>") < at("<h2>Every figure</h2>")
                && !html.contains("<details open")
        );
    }
}

/// The plot of cost and risk: a marker, a bar and a name for each policy in both sizes; a threshold is a line of its own.
#[test]
fn the_frontier_has_every_policy() {
    let mut report = many(17);
    let plots = |report: &Report| -> Vec<String> {
        let html = render_html(report).unwrap();
        let svgs = html
            .split("<svg")
            .skip(1)
            .filter_map(|rest| rest.split("</svg>").next().map(str::to_owned));
        svgs.filter(|svg| svg.contains("accuracy lost against added risk")).collect()
    };
    let threshold = vfl_present::plot::ink::THRESHOLD.hex();
    let drawn = plots(&report);
    assert_eq!(drawn.len(), 2, "for wide and for narrow screens");
    for svg in &drawn {
        // A marker has two circles, a ring three.
        let blue = format!("fill=\"{}\"", vfl_present::plot::ink::SERIES[0].hex());
        assert_eq!(svg.matches(&blue).count(), 17);
        for audit in &report.audits {
            assert!(
                svg.contains(&audit.policy.name.chars().take(20).collect::<String>()),
                "{}",
                audit.policy.name
            );
        }
        assert!(!svg.contains(&threshold));
    }
    report.demand(Thresholds::new(Some(0.1), None).unwrap());
    assert!(plots(&report).iter().all(|svg| svg.contains(&threshold)));
    // The accuracy of nothing is known: there is nothing to draw.
    report.audits.iter_mut().for_each(|audit| audit.utility = Default::default());
    report.demand(Thresholds::new(Some(0.1), None).unwrap());
    assert!(plots(&report).is_empty());
}
