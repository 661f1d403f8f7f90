//! Tests of the document and its renderers on reports built in code.
#![allow(clippy::unwrap_used)]

mod chairs;
mod choice;
mod fixture;
mod moments;
mod opening;
mod thresholds;
mod tidy;
mod worst;

use std::path::Path;

use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;
use vfl_core::metrics::{Correlation, METRICS};
use vfl_core::model::privacy::PrivacyStatement;

use super::*;

fn invalid(report: &Report) -> String {
    match report.check() {
        Err(ReportError::Invalid { field, problem }) => format!("{field} {problem}"),
        other => panic!("expected an invalid report, got {other:?}"),
    }
}

#[test]
fn json_round_trip_gives_the_same_report_and_bytes() {
    for report in [fixture::report(), fixture::informed(), fixture::hostile()] {
        let text = report.to_json().unwrap();
        let again = Report::from_json(&text).unwrap();
        assert_eq!(again, report);
        assert_eq!(again.to_json().unwrap(), text);
        assert!(text.ends_with("}\n") && !text.ends_with("\n\n"));
    }
}

/// Every object of the document refuses a field that is not in the schema, the free-form ones (configuration and policy
/// parameters) apart.
#[test]
fn unknown_fields_are_refused_at_every_level() {
    fn objects(value: &Value, path: String, out: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                let free = path.ends_with("/config") || path.ends_with("/parameters");
                if free {
                    return;
                }
                out.push(path.clone());
                map.iter().for_each(|(key, value)| objects(value, format!("{path}/{key}"), out));
            }
            Value::Array(items) => {
                items
                    .iter()
                    .enumerate()
                    .for_each(|(i, value)| objects(value, format!("{path}/{i}"), out));
            }
            _ => {}
        }
    }
    let document = serde_json::to_value(fixture::hostile()).unwrap();
    let mut paths = Vec::new();
    objects(&document, String::new(), &mut paths);
    assert!(paths.len() > 60, "{}", paths.len());
    for path in paths {
        let mut changed = document.clone();
        let object = changed.pointer_mut(&path).and_then(Value::as_object_mut).unwrap();
        object.insert("surprise".into(), json!(1));
        let refused = Report::from_json(&changed.to_string());
        assert!(matches!(refused, Err(ReportError::Json(_))), "{path}: {refused:?}");
    }
}

#[test]
fn an_imported_model_was_not_trained_here() {
    let trained = fixture::report();
    let mut imported = trained.clone();
    imported.deployment.training =
        TrainingFacts { epochs: 0, steps: 0, imported: true, private: false };
    assert_eq!(Report::from_json(&imported.to_json().unwrap()).unwrap(), imported);
    assert!(!trained.to_json().unwrap().contains("imported"));
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (text, of) in [
        (flat(render_table(&imported, 100, false)), "table"),
        (flat(render_html(&imported).unwrap()), "page"),
    ] {
        assert!(text.contains("imported, not trained here"), "{of}");
        assert!(
            !text.contains(" 0 epochs") && !text.contains("This deployment was trained on"),
            "{of}"
        );
        assert!(
            text.contains(TRAINING_DISCLOSURE),
            "{of}: whatever a report is of, it says what training tells"
        );
    }
    assert!(!render_html(&trained).unwrap().contains("imported"));
    // Epochs of a training that did not take place.
    imported.deployment.training.steps = 5;
    assert_eq!(
        invalid(&imported),
        "deployment.training counts epochs or steps of a model that was imported"
    );
}

/// A row for each model that was trained with noise, wherever a report is shown, with the figures of its audits.
#[test]
fn models_trained_with_noise_stand_beside_the_policies() {
    let mut report = fixture::informed();
    let exact = report.audits.iter().filter(|audit| audit.policy.is_none()).cloned().collect();
    let privacy =
        PrivacyStatement { clip: 1.0, noise: 4.0, epsilon: 8.0751, delta: 1e-5, steps: 10 };
    report.private_trainings =
        vec![PrivateTraining { privacy, test_accuracy: 0.7881, audits: exact }];
    let again = Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(again, report);
    let (table, summary, html) = (
        render_table(&report, 120, false),
        render_summary(&report, 100, false),
        render_html(&report).unwrap(),
    );
    for (of, text) in [("table", &table), ("summary", &summary), ("page", &html)] {
        // ε is rounded up; the fixture's scores add 71 % to what 200 records tell.
        for part in ["8.08", "0.788", "71 %", "69 to 74"] {
            assert!(text.contains(part), "{part} in the {of}: {text}");
        }
    }
    assert!(summary.lines().count() <= 40);
    let csv = render_csv(&report).unwrap();
    let rows: Vec<&str> =
        csv.lines().filter(|row| row.contains("none, trained with noise 4")).collect();
    assert!(rows.iter().any(|row| row.contains("added_risk")) && rows.len() > 10, "{rows:?}");
    report.private_trainings[0].test_accuracy = 1.5;
    assert_eq!(invalid(&report), "private_trainings[0].test_accuracy is 1.5, it must be in [0, 1]");
    report.private_trainings[0].test_accuracy = 0.5;
    report.private_trainings[0].privacy.delta = 1.0;
    assert!(
        invalid(&report).starts_with("private_trainings[0].privacy holds no statement"),
        "{}",
        invalid(&report)
    );
}

/// A report of version 9 opens as it was: its thresholds and its verdict are on the mean over features.
#[test]
fn a_report_of_before_opens_and_is_judged_by_the_mean() {
    let mut old = fixture::informed();
    old.schema_version = 9;
    old.audits
        .iter_mut()
        .flat_map(|audit| &mut audit.attacks)
        .for_each(|attack| attack.attributes.clear());
    // What nobody demanded then is not demanded now.
    old.demand(Thresholds { max_added_risk: Some(0.1), ..Thresholds::default() });
    old.verdicts.clear();
    let mut document = serde_json::to_value(&old).unwrap();
    assert!(
        document["audits"][4]["attacks"][2].get("attributes").is_none()
            && document.get("verdicts").is_none()
    );
    let again = Report::from_json(&document.to_string()).unwrap();
    assert_eq!(again, old);
    assert!(!again.has_attributes());
    let unmet = again.unmet();
    assert_eq!((unmet.len(), unmet[0].figure, &unmet[0].attribute), (1, Some(0.74), &None));
    let text = render_summary(&again, 140, false);
    assert!(text.contains("behind class_label, the scores remove 6.3 % (3.4 to 9.3 %)"), "{text}");
    assert!(!text.contains("is told most"), "{text}");
    render_html(&again).unwrap();
    document["schema_version"] = json!(8);
    assert!(matches!(
        Report::from_json(&document.to_string()),
        Err(ReportError::Version { got: 8 })
    ));
}

#[test]
fn another_schema_version_is_named() {
    let mut document = serde_json::to_value(fixture::report()).unwrap();
    document["schema_version"] = json!(11);
    document["new_in_11"] = json!(true);
    let error = Report::from_json(&document.to_string()).unwrap_err().to_string();
    assert_eq!(error, "the report has schema version 11, this program reads versions 9 to 10");
}

#[test]
fn the_configuration_hash_ignores_key_order_and_is_checked() {
    let one = Generated::new(serde_json::from_str(r#"{"b":1,"a":{"d":2,"c":[3]}}"#).unwrap());
    let two = Generated::new(serde_json::from_str(r#"{"a":{"c":[3],"d":2},"b":1}"#).unwrap());
    assert_eq!(one.config_sha256, two.config_sha256);
    // printf '%s' '{"a":{"c":[3],"d":2},"b":1}' | sha256sum
    assert_eq!(
        one.config_sha256,
        "5a860a8f687173507c3032d580ccd871a65e20c1f1997ac3cb1f996986a1e3ee"
    );
    let mut report = fixture::report();
    report.generated.config["batch"] = json!(65);
    assert_eq!(invalid(&report), "generated.config_sha256 is not the hash of generated.config");
}

#[test]
fn bad_content_is_refused_by_name() {
    type Spoil = fn(&mut Report);
    let figure = |value, sigma| MetricFigure {
        name: "correlation".into(),
        value,
        sigma,
        per_party: Vec::new(),
    };
    let mut described = fixture::report();
    described.metrics = vec![MetricFacts::of(&Correlation)];
    described.audits[0].baselines.half.metrics = vec![figure(Some(0.5), None)];
    described.check().unwrap();
    let mut twice = described.clone();
    twice.metrics.push(twice.metrics[0].clone());
    assert_eq!(invalid(&twice), "metrics[1] describes \"correlation\" a second time");
    let mut beyond = described.clone();
    beyond.audits[0].baselines.half.metrics = vec![figure(Some(1.5), None)];
    assert!(
        invalid(&beyond)
            .contains("half.metrics[\"correlation\"].value is 1.5, it must be in [0, 1]")
    );
    beyond.audits[0].baselines.half.metrics = vec![figure(Some(1.5), Some(0.3))];
    beyond.check().unwrap();
    described.metrics.clear();
    assert!(invalid(&described).contains("is not among the metrics that the report describes"));

    let cases: [(Spoil, &str); 14] = [
        (
            |r| r.audits[0].baselines.half.mse = f64::NAN,
            "audits[0].baselines.half.mse is NaN, it must be finite and at least 0",
        ),
        (
            |r| r.audits[1].baselines.column_mean.per_feature[2] = f64::INFINITY,
            "audits[1].baselines.column_mean.per_feature[2] is inf",
        ),
        (
            |r| {
                r.audits[0].attacks[3] =
                    AttackResult::ran("a", Status::Unique, Errors::new(-0.1, vec![]))
            },
            "audits[0].attacks[\"a\"].mse is -0.1",
        ),
        (
            |r| r.audits[0].baselines.half.per_feature.truncate(4),
            "has 4 errors for 5 attacked features",
        ),
        (
            |r| r.audits[0].utility.accuracy = Some(1.5),
            "audits[0].utility.accuracy is 1.5, it must be in [0, 1]",
        ),
        (
            |r| r.audits[0].utility.mean_kl_nats = Some(f64::NAN),
            "audits[0].utility.mean_kl_nats is NaN",
        ),
        (
            |r| r.audits[0].threat_model.target.push("nobody".into()),
            "names \"nobody\", which is not a passive party",
        ),
        (
            |r| r.audits[0].threat_model.target.push("bank".into()),
            "names \"bank\", which is not a passive party",
        ),
        (
            |r| r.surfaces.retain(|s| s.surface != SurfaceKind::Training),
            "surfaces list \"training\" 0 times",
        ),
        (|r| r.surfaces.push(r.surfaces[0].clone()), "surfaces list \"nothing\" 2 times"),
        (
            |r| r.deployment.d_passive = 6,
            "deployment.d_passive is 6, but the passive parties hold 5",
        ),
        (|r| r.deployment.parties[2].features = 4, "holds 5 names for 4 features"),
        (
            |r| r.sweep.as_mut().unwrap().points.swap(0, 1),
            "sweep.points are not in strictly increasing order",
        ),
        (
            |r| {
                r.audits[0].attacks[3] = AttackResult::ran(
                    "a",
                    Status::LeastNorm { rank: 5, unknowns: 5 },
                    Errors::new(0.1, vec![]),
                )
            },
            "is least_norm with rank 5 of 5",
        ),
    ];
    for (spoil, expected) in cases {
        let mut report = fixture::report();
        spoil(&mut report);
        assert!(invalid(&report).contains(expected), "{} should say {expected}", invalid(&report));
        assert!(report.to_json().is_err() && render_html(&report).is_err(), "{expected}");
    }
}

/// Display widths of the lines of each run of table lines.
fn tables(text: &str) -> Vec<Vec<usize>> {
    let is_table = |line: &&str| line.starts_with(['┌', '│', '╞', '├', '└', '╪']);
    let lines: Vec<&str> = text.lines().collect();
    let runs = lines.split(|line| !is_table(line)).filter(|run| !run.is_empty());
    runs.map(|run| run.iter().map(|line| line.width()).collect()).collect()
}

#[test]
fn table_lines_are_equally_wide_and_fit() {
    for report in [fixture::report(), fixture::hostile()] {
        for width in [60, 80, 100, 140] {
            let text = render_table(&report, width, false);
            let tables = tables(&text);
            assert!(tables.len() > report.audits.len(), "{text}");
            for widths in tables {
                assert!(
                    widths.iter().all(|w| *w == widths[0] && *w <= width),
                    "{width}: {widths:?}\n{text}"
                );
            }
        }
    }
}

#[test]
fn decimal_points_of_a_column_line_up() {
    let text = render_table(&fixture::report(), 100, false);
    let columns: Vec<Vec<usize>> = text
        .lines()
        .take_while(|line| !line.starts_with("Summary"))
        .filter(|line| {
            line.starts_with('│') && !line.contains("equations") && !line.contains("not run")
        })
        .map(|line| {
            let cells = line.split(['│', '┆']).skip(3).take(3);
            cells
                .map(|cell| cell.trim_end().chars().take_while(|c| !matches!(c, '.' | 'e')).count())
                .collect()
        })
        .collect();
    // Two baselines more, the attack `half` less.
    let rows_of_one_table = fixture::report().audits[0].attacks.len() + 1;
    for table in columns.chunks(rows_of_one_table).take(3) {
        for column in 0..3 {
            assert!(
                table.iter().all(|row| row[column] == table[0][column]),
                "column {column}: {table:?}\n{text}"
            );
        }
    }
}

#[test]
fn the_table_has_no_escape_codes_unless_asked() {
    for report in [fixture::report(), fixture::hostile()] {
        for render in [render_table, render_summary] {
            let plain = render(&report, 100, false);
            assert!(plain.chars().all(|c| c == '\n' || !c.is_control()), "{plain:?}");
            assert!(render(&report, 100, true).contains("\x1b["));
        }
    }
}

#[test]
fn both_renderings_say_what_training_tells() {
    let mut report = fixture::report();
    for surface in &mut report.surfaces {
        surface.note = "harmless".into();
    }
    let flat = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(render_table(&report, 100, false)).contains(TRAINING_DISCLOSURE));
    assert!(render_html(&report).unwrap().contains(TRAINING_DISCLOSURE));
}

#[test]
fn both_renderings_say_where_equations_had_no_solution_and_steps_ran_out() {
    let mut report = fixture::report();
    let records = report.audits[0].records;
    for attack in &mut report.audits[0].attacks {
        *attack = attack.clone().with_limits(7, 0);
    }
    let last = report.audits[0].attacks.last_mut().unwrap();
    *last = last.clone().with_limits(7, 3);
    let name = last.name.clone();
    let text = render_table(&report, 100, false).split_whitespace().collect::<Vec<_>>().join(" ");
    let page = render_html(&report).unwrap();
    for said in [
        format!("released scores of 7 of {records} records"),
        format!("{name}: stopped at the limit of steps on 3 of"),
    ] {
        assert!(text.contains(&said) && page.contains(&said), "{said}");
    }
    // One sentence for all attacks of the same number.
    assert_eq!(text.matches("released scores of 7 of").count(), 1);
    assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
}

/// A metric is shown with its heading, its figures and its meaning, in both renderings, and only by the audits that have it.
#[test]
fn both_renderings_show_the_metrics_of_the_list() {
    let mut report = fixture::report();
    let plain = render_table(&report, 120, false);
    assert!(!plain.contains("By other metrics"), "none was asked for");
    report.metrics = METRICS.iter().map(|m| MetricFacts::of(*m)).collect();
    let figures = |value: f64| {
        METRICS.iter().map(move |m| MetricFigure {
            name: m.name().into(),
            value: (m.name() != "conditional_entropy").then_some(value),
            sigma: None,
            per_party: Vec::new(),
        })
    };
    report.audits[0].baselines.half.metrics = figures(0.125).collect();
    if let Outcome::Ran { errors, .. } = &mut report.audits[0].attacks[4].outcome {
        errors.metrics = figures(0.876).collect();
    }
    let text = render_table(&report, 140, false);
    let page = render_html(&report).unwrap();
    assert_eq!(text.matches("By other metrics:").count(), 1, "one audit has figures");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for metric in METRICS {
        assert!(
            flat.contains(metric.meaning()) && page.contains(metric.meaning()),
            "{}",
            metric.name()
        );
        assert!(
            page.contains(&format!("<th scope=\"col\">{}</th>", metric.title())),
            "{}",
            metric.name()
        );
    }
    let defined = METRICS.len() - 1;
    assert_eq!(
        (text.matches("0.876").count(), text.matches("0.125").count()),
        (defined, defined),
        "{text}"
    );
    assert_eq!(
        (page.matches("0.876</td>").count(), page.matches("0.125</td>").count()),
        (defined, defined)
    );
    assert!(
        flat.contains("The lower, the better for the adversary.")
            && flat.contains("The higher, the better")
    );
    assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
}

/// What else is inferred is shown with its control wherever a report is.
#[test]
fn inferences_stand_beside_the_attacks() {
    let mut report = fixture::report();
    let row = |of, against: &str, value: f64, without: f64| Inference {
        of,
        against: against.into(),
        attack: "likelihood_ratio".into(),
        value,
        low: value - 0.01,
        high: value + 0.01,
        without,
        verdict: "caught".into(),
    };
    report.inferences = vec![
        row(InferredProperty::Members1Percent, "none", 0.0871, 0.0112),
        row(InferredProperty::Labels, "sum after 1 epoch", 1.0, 0.31),
    ];
    let again = Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(again, report);
    let (table, summary, html) = (
        render_table(&report, 140, false),
        render_summary(&report, 100, false),
        render_html(&report).unwrap(),
    );
    for (of, text) in [("table", &table), ("summary", &summary), ("page", &html)] {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["8.71", "1.12", "likelihood_ratio", "sum after 1 epoch", "100", "31"] {
            assert!(text.contains(part), "{part} in the {of}: {text}");
        }
    }
    assert!(summary.lines().count() <= 40);
    let csv = render_csv(&report).unwrap();
    assert!(
        csv.contains(",none,,likelihood_ratio,membership_tpr_at_1_percent,,,0.0871,,0.0112,,"),
        "{csv}"
    );
    report.inferences[0].low = f64::NAN;
    assert!(invalid(&report).starts_with("inferences[0].low"), "{}", invalid(&report));
}

/// The loss that the adversary sees has a column of its own on the page, a row in the CSV file, and no place in a table of
/// figures that nobody asked for.
#[test]
fn the_page_shows_how_far_scores_are() {
    let mut report = fixture::report();
    let plain = (render_table(&report, 120, false), render_html(&report).unwrap());
    assert!(!plain.1.contains("score MSE"));
    let attack = &mut report.audits[0].attacks[4];
    *attack = attack.clone().with_score_mismatch(Some(0.0123));
    let page = render_html(&report).unwrap();
    assert_eq!(page.matches("<th scope=\"col\">score MSE</th>").count(), 1, "one audit has it");
    assert_eq!(page.matches("0.0123</td>").count(), 1);
    assert!(page.contains("The adversary sees it without the truth"));
    assert_eq!(render_table(&report, 120, false), plain.0);
    assert!(render_csv(&report).unwrap().contains(",score_mismatch,,,0.0123,"));
    assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    report.audits[0].attacks[4].score_mismatch = Some(-1.0);
    assert!(invalid(&report).contains("score_mismatch is -1, it must be"), "{}", invalid(&report));
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    let html = render_html(&fixture::report()).unwrap();
    let without_namespace = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for reference in
        ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe"]
    {
        assert!(!without_namespace.contains(reference), "{reference}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.contains("prefers-color-scheme: dark"));
}

#[test]
fn hostile_names_are_text_and_nothing_else() {
    let html = render_html(&fixture::hostile()).unwrap();
    assert!(!html.contains("<script"), "a name became an element");
    assert!(html.contains("&lt;script&gt;"));
    assert!(html.chars().all(|c| c == '\n' || !c.is_control()));
    assert!(!html.contains('\u{202e}'));
    // Nothing that a name holds can end an attribute: quotes come escaped, and tags are only those of the templates.
    let tags: std::collections::BTreeSet<&str> =
        html.split('<').skip(1).filter_map(|rest| rest.split(['>', ' ', '\n']).next()).collect();
    let known = [
        "!DOCTYPE",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "header",
        "h1",
        "h2",
        "h3",
        "p",
        "div",
        "dl",
        "dt",
        "dd",
        "code",
        "span",
        "br",
        "section",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "strong",
        "figure",
        "figcaption",
        "article",
        "details",
        "summary",
        "ul",
        "li",
        "pre",
        "footer",
        "svg",
        "line",
        "polyline",
        "polygon",
        "rect",
        "circle",
        "text",
    ];
    for tag in tags {
        assert!(known.contains(&tag.trim_start_matches('/')), "{tag}");
    }
    assert_eq!(html.matches("<title>").count(), 1);
}

/// The plot of the sweep.
fn sweep_plot(html: &str) -> &str {
    let mut svgs = html.split("<svg").skip(1).filter_map(|rest| rest.split("</svg>").next());
    svgs.find(|svg| svg.contains("by number of passive features, one line per attack")).unwrap()
}

#[test]
fn the_sweep_has_one_line_per_attack_and_a_marker_per_point() {
    let report = fixture::report();
    let html = render_html(&report).unwrap();
    let plot = sweep_plot(&html);
    for ink in &vfl_present::plot::ink::SERIES[..4] {
        let line = format!("stroke=\"{}\"", ink.hex());
        let lines: Vec<&str> =
            plot.lines().filter(|l| l.starts_with("<polyline") && l.contains(&line)).collect();
        assert_eq!(lines.len(), 1, "{line}");
        let points = lines[0].split("points=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(points.split_whitespace().count(), 14);
        // 14 points, one entry of the legend (a bar and a marker).
        assert_eq!(plot.matches(&format!("fill=\"{}\"", ink.hex())).count(), 16);
    }
    let unused = vfl_present::plot::ink::SERIES[4].hex();
    assert!(!plot.contains(&unused));
}

#[test]
fn a_missing_figure_is_a_gap_in_its_line() {
    let mut report = fixture::report();
    report.sweep.as_mut().unwrap().points[7].attacks[2].mse = None;
    let html = render_html(&report).unwrap();
    let line = format!("stroke=\"{}\"", vfl_present::plot::ink::SERIES[2].hex());
    let lines = sweep_plot(&html)
        .lines()
        .filter(|l| l.starts_with("<polyline") && l.contains(&line))
        .count();
    assert_eq!(lines, 2);
}

#[test]
fn an_error_of_zero_is_drawn_in_the_band_and_labelled() {
    let mut report = fixture::report();
    for point in &mut report.sweep.as_mut().unwrap().points {
        point.attacks.iter_mut().for_each(|attack| attack.mse = Some(0.0));
    }
    let html = render_html(&report).unwrap();
    assert!(sweep_plot(&html).contains("0 or below 1e-16"));
    assert!(!html.contains("NaN") && !html.contains("inf,") && !html.contains("-2147483648"));
}

#[test]
fn degenerate_reports_render() {
    let report = fixture::report();
    let mut cases = Vec::new();
    let mut case = |change: &dyn Fn(&mut Report)| {
        let mut report = report.clone();
        change(&mut report);
        cases.push(report);
    };
    case(&|r| (r.sweep, r.audits) = (None, vec![]));
    case(&|r| r.sweep.as_mut().unwrap().points.clear());
    case(&|r| r.sweep.as_mut().unwrap().points.truncate(1));
    case(&|r| r.sweep.as_mut().unwrap().points.iter_mut().for_each(|p| p.attacks.clear()));
    case(&|r| r.audits.drain(..3).for_each(drop));
    case(&|r| r.audits.iter_mut().for_each(|a| a.attacks.truncate(4)));
    case(&|r| r.audits.iter_mut().for_each(|a| a.attacks.clear()));
    case(&|r| {
        r.audits.iter_mut().for_each(|a| {
            a.attacks = vec![AttackResult::not_run("half_star", Refused::Missing, "no scores")]
        })
    });
    case(&|r| {
        for audit in &mut r.audits {
            audit.baselines =
                Baselines { half: Errors::new(0.0, vec![]), column_mean: Errors::new(0.0, vec![]) };
            audit.attacks =
                vec![AttackResult::ran("half_star", Status::Unique, Errors::new(0.0, vec![]))];
        }
    });
    case(&|r| {
        r.audits[0].attacks[4] =
            AttackResult::ran("huge", Status::Unique, Errors::new(f64::MAX, vec![]))
    });
    case(&|r| {
        r.audits[0].attacks[4] =
            AttackResult::ran("tiny", Status::Unique, Errors::new(5e-324, vec![]))
    });
    case(&|r| r.sweep.as_mut().unwrap().points.iter_mut().for_each(|p| p.d *= usize::MAX / 100));
    for report in cases {
        let html = render_html(&report).unwrap();
        let table = render_table(&report, 100, false) + &render_summary(&report, 100, false);
        assert!(!html.contains("NaN") && !table.contains("NaN"));
        render_csv(&report).unwrap();
        assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    }
}

/// An audit of two features with errors by feature as given.
fn small_audit(attack: [f64; 2], half: [f64; 2], mean: [f64; 2]) -> Audit {
    let errors = |e: [f64; 2]| Errors::new((e[0] + e[1]) / 2.0, e.to_vec());
    let baselines = Baselines { half: errors(half), column_mean: errors(mean) };
    let threat_model = ThreatModel::white_box(DefenseKnowledge::Unknown);
    let mut audit =
        Audit::new(fixture::policy("none"), threat_model, 100, Utility::default(), baselines);
    audit.attacks = vec![
        AttackResult::ran("zero", Status::Guess, Errors::new(0.0, vec![0.0, 0.0])),
        AttackResult::ran("half_star", Status::Unique, errors(attack)),
    ];
    audit
}

#[test]
fn verdicts_say_what_the_figures_say() {
    let (half, mean) = ([0.09, 0.11], [0.05, 0.07]);
    let cases = [
        (
            [1e-27, 3e-27],
            Level::Exact,
            "half_star rebuilds the 2 features exactly: error 2.00e-27 against 0.100 of guessing ½",
        ),
        (
            [0.01, 0.02],
            Level::Partial,
            "half_star cuts the error of guessing the column mean by 75 %: 0.0150 against 0.0600 (guessing ½: 0.100)",
        ),
        (
            [0.06, 0.08],
            Level::ColumnMean,
            "no better than guessing the column mean: the smallest error, of half_star, is 0.0700 against 0.0600 (guessing ½: 0.100)",
        ),
        (
            [0.2, 0.3],
            Level::Half,
            "no better than guessing ½: the smallest error, of half_star, is 0.250 against 0.100 (column mean: 0.0600)",
        ),
        (
            [0.0, 0.3],
            Level::SomeExact,
            "no better than guessing ½: the smallest error, of half_star, is 0.150 against 0.100 (column mean: 0.0600); \
             yet 1 of the 2 features comes back exactly",
        ),
        (
            [0.01, 0.3],
            Level::Half,
            "no better than guessing ½: the smallest error, of half_star, is 0.155 against 0.100 (column mean: 0.0600); \
             yet for 1 of the 2 features some attack does better than either guess",
        ),
    ];
    for (attack, level, text) in cases {
        let got = verdict(&small_audit(attack, half, mean));
        assert_eq!((got.level, got.text.as_str()), (level, text));
    }
}

#[test]
fn a_verdict_claims_nothing_without_an_attack() {
    let mut audit = small_audit([0.0; 2], [0.1; 2], [0.1; 2]);
    audit.attacks.truncate(1);
    assert_eq!(verdict(&audit).level, Level::Unmeasured);
    audit.attacks.push(AttackResult::not_run("half_star", Refused::Missing, "no scores"));
    let got = verdict(&audit);
    assert_eq!(got.text, "no attack could run against this release, so nothing is known about it");
    audit.attacks.push(AttackResult::ran(
        "least_squares",
        Status::Unique,
        Errors::new(0.0, vec![0.0, 0.0]),
    ));
    assert!(verdict(&audit).text.ends_with("; 1 attack could not run"));
    // Features that do not vary are known without an attack.
    let constant = small_audit([0.0; 2], [0.1; 2], [0.0; 2]);
    assert_eq!(verdict(&constant).level, Level::ColumnMean);
}

#[test]
fn files_are_replaced_whole_and_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("a/b");
    let report = fixture::report();
    let written = write(&report, &out).unwrap();
    let ReportPaths { json, html, csv } = written;
    for (path, name) in [(&json, "report.json"), (&html, "report.html"), (&csv, "report.csv")] {
        assert_eq!(*path, out.join(name));
    }
    let bytes = || [&json, &html, &csv].map(|path| std::fs::read(path).unwrap());
    let first = bytes();
    assert_eq!(Report::from_json(std::str::from_utf8(&first[0]).unwrap()).unwrap(), report);
    write(&report, &out).unwrap();
    assert_eq!(bytes(), first, "the same report gave other bytes");

    // A report that cannot be rendered touches nothing.
    let mut broken = report.clone();
    broken.audits[0].baselines.half.mse = f64::NAN;
    write(&broken, &out).unwrap_err();
    assert_eq!(bytes(), first);
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3, "a temporary file was left behind");

    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = write(&report, &file.join("sub")).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot create the directory ") && error.contains("file/sub"),
        "{error}"
    );
}

/// Writes the fixtures to `CLOISON_REPORT_PREVIEW`, to be looked at; without the variable it does nothing.
#[test]
fn preview() {
    let Some(dir) = std::env::var_os("CLOISON_REPORT_PREVIEW") else { return };
    for (name, report) in [
        ("report", fixture::report()),
        ("informed", fixture::informed()),
        ("hostile", fixture::hostile()),
    ] {
        let out = Path::new(&dir).join(name);
        write(&report, &out).unwrap();
        std::fs::write(out.join("summary.txt"), render_summary(&report, 100, false)).unwrap();
        std::fs::write(out.join("table.txt"), render_table(&report, 100, false)).unwrap();
        std::fs::write(out.join("colour.txt"), render_table(&report, 100, true)).unwrap();
    }
}
