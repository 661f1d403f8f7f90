//! Renders reports as tables of the documents.

use anyhow::{Context, ensure};
use vfl_auditor::report::{
    Audit, DefenseKnowledge, Observations, Policy, PolicyVerdict, Report, added_risk,
    certificate_factor, points, render_table,
};
use vfl_present::{ColumnKind, Table, figure, significant};

/// The cell text if there is no figure.
const NONE: &str = "–";

/// The width of a report in a document.
const WIDTH: usize = 100;

/// The defenses in the README.
const IN_README: [&str; 4] =
    ["none", "rounding (decimals = 2)", "privee_dp (epsilon = 0.1)", "class_label"];

/// Returns an excerpt of the terminal output: undefended scores, the summary, and what the scores
/// add.
pub(super) fn excerpt(reports: &[&Report]) -> anyhow::Result<String> {
    let printed = render_table(only(reports)?, WIDTH, false);
    let section = |from: &str, before: &str| -> anyhow::Result<String> {
        let at = printed.find(from).with_context(|| format!("the report has no `{from}`"))?;
        let rest = printed.get(at..).unwrap_or_default();
        Ok(rest.split_once(before).map_or(rest, |(section, _)| section).trim_end().to_owned())
    };
    let attacks = section("Defense: none\n", "By other metrics:")?;
    let summary = section("Summary: ", "\n\n")?;
    let added = section("What the scores add", "Scoring by ")?;
    Ok(format!("```text\n{attacks}\n\n{summary}\n\n{added}\n```"))
}

/// Renders every defense: the adversaries of the papers, the cost of the defense, and the adversary
/// that knows records with all features.
pub(super) fn defenses(reports: &[&Report]) -> anyhow::Result<String> {
    let report = only(reports)?;
    let head = [
        "defense",
        "unaware",
        "aware",
        "aware attack",
        "accuracy",
        "KL, nats",
        "bits",
        "with scores",
        "control",
    ];
    let head: Vec<&str> =
        head.into_iter().chain(["mean", "worst attribute (95 %)", "certain"]).collect();
    let row = |line: Line| {
        vec![
            code(&line.defense),
            line.unaware,
            line.aware,
            line.attack,
            line.accuracy,
            line.kl,
            line.bits,
            line.with_scores,
            line.control,
            line.added,
            line.worst,
            line.certain,
        ]
    };
    Ok(format!("{}\n\n{}", markdown(&head, lines(report)?.into_iter().map(row)), guesses(report)?))
}

/// Renders the defenses of the README, in fewer columns.
pub(super) fn readme(reports: &[&Report]) -> anyhow::Result<String> {
    let report = only(reports)?;
    let lines: Vec<Line> =
        lines(report)?.into_iter().filter(|l| IN_README.contains(&l.defense.as_str())).collect();
    ensure!(lines.len() == IN_README.len(), "a defense of the README is not in the report");
    let head = ["defense", "unaware", "aware", "bits", "mean", "worst attribute (95 %)", "certain"];
    let row = |line: Line| {
        let shown = [line.unaware, line.aware, line.bits, line.added, line.worst, line.certain];
        [code(&line.defense)].into_iter().chain(shown).collect()
    };
    Ok(format!("{}\n\n{}", markdown(&head, lines.into_iter().map(row)), guesses(report)?))
}

/// Renders transforms of the parameters, with a report for each.
pub(super) fn transforms(reports: &[&Report]) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for report in reports {
        let party = report.passive_parties().next().context("no passive party")?;
        let shown =
            party.parameters_shown.as_deref().context("the report does not say what is shown")?;
        let audit = |defense| {
            let of = |a: &&Audit| {
                scored_once(a) && a.threat_model.defense == defense && !a.threat_model.informed()
            };
            report.audits.iter().find(of)
        };
        let of = |audit: &Audit, attack: &str| {
            audit.attacks.iter().find(|a| a.name == attack).and_then(|a| a.mse()).map(significant)
        };
        let unaware = audit(DefenseKnowledge::Unknown).and_then(|a| of(a, "clamped_half_star"));
        let aware = audit(DefenseKnowledge::Known);
        let said =
            aware.and_then(|a| a.remarks.iter().find_map(|r| r.strip_prefix("undo_transform: ")));
        // Keep the finding, without the evidence.
        let said = said.and_then(|said| said.split([':', ',', ';', '(']).next()).map(str::trim_end);
        let (name, g) =
            match shown.strip_prefix("transformed: ").and_then(|s| s.rsplit_once(", g = ")) {
                Some((name, g)) => (code(name), g),
                None => (shown.to_owned(), "0"),
            };
        rows.push(vec![
            name,
            g.to_owned(),
            or_none(unaware),
            or_none(aware.and_then(|a| of(a, "undo_transform"))),
            or_none(said.map(ToOwned::to_owned)),
        ]);
    }
    let head = ["shown", "g", "unaware", "aware", "what the aware attack says"];
    Ok(format!("{}\n\n{}", markdown(&head, rows), guesses(reports.first().context("no report")?)?))
}

/// The table row of one defense, as text.
struct Line {
    defense: String,
    unaware: String,
    aware: String,
    /// The strongest attack that knows the defense.
    attack: String,
    accuracy: String,
    kl: String,
    bits: String,
    /// The error of the adversary that knows records with all features.
    with_scores: String,
    /// The error of that adversary without any score.
    control: String,
    /// The share of that error that scores remove, over all features.
    added: String,
    /// The same share for the worst attribute, with its name.
    worst: String,
    /// The share of records that an attack is certain to have reconstructed exactly.
    certain: String,
}

/// Returns the defenses of a report, in its order.
fn lines(report: &Report) -> anyhow::Result<Vec<Line>> {
    let added = added_risk::lines(report);
    let mut lines: Vec<Line> = Vec::new();
    for audit in report.audits.iter().filter(|a| scored_once(a) && !a.threat_model.informed()) {
        let label = audit.policy.label();
        let defense = named(audit);
        let best = audit.strongest();
        let error = or_none(best.map(|(_, errors)| figure(errors.mse, errors.sigma)));
        if audit.threat_model.defense == DefenseKnowledge::Known {
            let line = lines
                .iter_mut()
                .find(|line| line.defense == defense)
                .context("an aware adversary alone")?;
            (line.aware, line.attack) = (error, or_none(best.map(|(name, _)| code(name))));
            continue;
        }
        let of = added.iter().find(|line| line.defense == label);
        let of = of.with_context(|| format!("nothing says what the scores of {defense} add"))?;
        lines.push(Line {
            unaware: error,
            aware: NONE.into(),
            attack: NONE.into(),
            accuracy: or_none(audit.utility.accuracy_change.map(change)),
            kl: or_none(audit.utility.mean_kl_nats.map(significant)),
            bits: or_none(audit.utility.bits.map(significant)),
            with_scores: of.error.clone(),
            control: of.control.clone(),
            added: format!("{} ({})", of.added, of.interval.replace(" %", "")).replace('-', "−"),
            worst: or_none(report.verdicts.iter().find(|v| v.policy == label).and_then(worst)),
            certain: or_none(certain(report, &audit.policy)),
            defense,
        });
    }
    Ok(lines)
}

/// Returns the share of the control's error that is removed for the worst attribute, and its name.
fn worst(verdict: &PolicyVerdict) -> Option<String> {
    let (risk, attribute) = (verdict.risk.as_ref()?, verdict.attribute.as_ref()?);
    let interval = risk
        .low
        .zip(risk.high)
        .map(|(low, high)| format!(" ({} to {})", points(low), points(high)));
    let text =
        format!("{} %{}", points(risk.value?), interval.unwrap_or_default()).replace('-', "−");
    Some(format!("{text} {}", code(attribute)))
}

/// Returns the largest share of records that an attack on the scores of a policy is certain of, in
/// percent.
fn certain(report: &Report, policy: &Policy) -> Option<String> {
    let of_policy =
        report.audits.iter().filter(|audit| audit.policy == *policy && scored_once(audit));
    let shares = of_policy.flat_map(|audit| {
        audit
            .attacks
            .iter()
            .filter_map(|attack| Some(attack.certain? as f64 / audit.records.max(1) as f64))
    });
    shares.max_by(f64::total_cmp).map(|share| format!("{} %", points(share)))
}

/// Renders every defense with a finite number of bits: the bound on the factor by which a
/// probability grows, and the largest measured factor.
pub(super) fn certificates(reports: &[&Report]) -> anyhow::Result<String> {
    let report = only(reports)?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut seen: Vec<&Policy> = Vec::new();
    for audit in &report.audits {
        let Some(bits) = audit.utility.bits.filter(|_| scored_once(audit)) else { continue };
        if seen.contains(&&audit.policy) {
            continue;
        }
        seen.push(&audit.policy);
        let of_policy: Vec<&Audit> = report
            .audits
            .iter()
            .filter(|other| other.policy == audit.policy && scored_once(other))
            .collect();
        let most =
            of_policy.into_iter().flat_map(gains).max_by(|a, b| a.factor().total_cmp(&b.factor()));
        let (of, counts) = most.as_ref().map_or_else(
            || (NONE.to_owned(), NONE.to_owned()),
            |gain| {
                (significant(gain.factor()), format!("{}: {}", code(gain.attribute), gain.counts()))
            },
        );
        rows.push(vec![
            code(&named(audit)),
            significant(bits),
            certificate_factor(bits),
            of,
            counts,
        ]);
    }
    let head = [
        "defense",
        "bits",
        "a chance grows by at most",
        "measured",
        "named rightly, with and without the scores",
    ];
    Ok(markdown(&head, rows))
}

/// The numbers of correctly named records for an attribute.
struct Gain<'a> {
    attribute: &'a str,
    attack: f64,
    control: f64,
    named: u64,
}

impl Gain<'_> {
    fn factor(&self) -> f64 {
        self.attack / self.control
    }

    fn counts(&self) -> String {
        format!("{} and {} of {}", significant(self.attack), significant(self.control), self.named)
    }
}

/// The fewest records that a control must name correctly: a ratio to fewer is chance.
const LEAST_NAMED: f64 = 5.0;

/// Returns the gains for every attribute and attack whose control names enough records correctly.
fn gains(audit: &Audit) -> impl Iterator<Item = Gain<'_>> {
    let compared = audit.attacks.iter().filter(|attack| attack.added_risk.is_some());
    let figures = compared.flat_map(|attack| attack.attributes.iter().map(|of| &of.figures));
    figures.filter_map(|figures| {
        let event = figures.event.as_ref().filter(|event| event.control >= LEAST_NAMED)?;
        let (attack, control, named) = (event.attack, event.control, event.named);
        Some(Gain { attribute: &figures.attribute, attack, control, named })
    })
}

/// Returns the defense without the template of PRIVEE, which is the same in every run and stated
/// beside the table.
fn named(audit: &Audit) -> String {
    let mut policy = audit.policy.clone();
    policy.parameters.remove("template");
    policy.label()
}

/// Returns true if the adversary sees scores of the records that it attacks.
fn scored_once(audit: &Audit) -> bool {
    !matches!(
        audit.threat_model.observations,
        Observations::NoScore | Observations::ScoresOfSome { .. }
    )
}

/// Describes the errors of guessing on the same records.
fn guesses(report: &Report) -> anyhow::Result<String> {
    let audit = report.audits.first().context("the report has no audit")?;
    let [half, mean] =
        [&audit.baselines.half, &audit.baselines.column_mean].map(|errors| significant(errors.mse));
    Ok(format!(
        "{} records. Guessing ½ has error {half}, guessing the column mean {mean}.",
        audit.records
    ))
}

fn only<'a>(reports: &[&'a Report]) -> anyhow::Result<&'a Report> {
    reports.first().copied().context("no report")
}

fn change(x: f64) -> String {
    if x.abs() < 5e-4 { "0".into() } else { format!("{x:+.3}").replace('-', "−") }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| NONE.into())
}

fn markdown(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let columns = head.iter().map(|&name| (name, ColumnKind::Text));
    Table::of_rows(columns, rows).markdown()
}
