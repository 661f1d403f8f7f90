//! The content of all renderers as text: the terminal table and the page must not differ.

use vfl_core::metrics::Direction;
use vfl_present::{RowKind, change, figure, four, ratio, significant};
use vfl_transform::scoring::accountant::least_error;

use super::attack_result::{AttackResult, Outcome, Status};
use super::certificate;
use super::document::{
    Audit, MetricFacts, Report, Role, ScoringFacts, ScoringMode, TrainingFacts, Utility,
};
use super::errors::Errors;
use super::threat::DefenseKnowledge;

/// The text for a missing figure.
pub(super) const NONE: &str = "–";

/// The limits of a verdict, which every reader must be told.
pub(super) const SCOPE: &str = "A verdict covers the attacks listed, under the threat model stated, on the records \
     scored. It is not a guarantee: an attack that is not listed may do better.";

/// Returns the adversary's knowledge, in a word.
pub(super) fn adversary(audit: &Audit) -> &'static str {
    match audit.threat_model.defense {
        _ if audit.threat_model.known_records > 0 => "informed",
        _ if audit.threat_model.moments => "informed by moments",
        DefenseKnowledge::Unknown => "unaware",
        DefenseKnowledge::Known => "aware",
    }
}

/// Returns the addition to a defense's name if the adversary knows it.
pub(super) fn against(audit: &Audit) -> &'static str {
    match audit.threat_model.defense {
        DefenseKnowledge::Unknown => "",
        DefenseKnowledge::Known => ", known to the adversary",
    }
}

/// The summary of one defense: against an adversary that takes its release for the true scores, and
/// against one that knows it.
pub(super) struct SummaryLine<'a> {
    /// The first audit of the defense; its costs are those of all.
    pub(super) audit: &'a Audit,
    /// The strongest attack that does not know the defense.
    pub(super) unaware: Option<BestAttack>,
    /// The strongest attack that knows the defense.
    pub(super) aware: Option<BestAttack>,
}

/// The strongest attack and its error.
pub(super) struct BestAttack {
    pub(super) name: String,
    pub(super) mse: f64,
    /// The standard deviation of the error's noise.
    pub(super) sigma: Option<f64>,
}

/// Returns the ratio of an error to a baseline, if noise leaves the baseline well above 0.
pub(super) fn ratio_to(mse: f64, baseline: &Errors) -> Option<String> {
    let lost = baseline.sigma.is_some_and(|sigma| baseline.mse <= 2.0 * sigma);
    if lost { None } else { ratio(mse, baseline.mse) }
}

/// The heading of the column of [`AttackResult::score_mismatch`].
const SCORE_MISMATCH: &str = "score MSE";

/// Explains the metrics of the report, one sentence each.
pub(super) fn metrics(report: &Report) -> Vec<String> {
    let one = |metric: &MetricFacts| {
        let way = match metric.direction {
            Direction::Higher => "higher",
            Direction::Lower => "lower",
        };
        format!("{}: {}. The {way}, the better for the adversary.", metric.title, metric.meaning)
    };
    let told = report
        .audits
        .iter()
        .flat_map(|audit| &audit.attacks)
        .any(|attack| attack.score_mismatch.is_some());
    let scores = told.then(|| {
        format!(
            "{SCORE_MISMATCH}: the mean squared difference of the released scores and those that the model gives at the estimates. The \
             adversary sees it without the truth; estimates far from the truth may have 0."
        )
    });
    report.metrics.iter().map(one).chain(scores).collect()
}

/// Explains the scoring by each party, in sentences.
pub(super) fn scoring(report: &Report) -> Vec<String> {
    report.scoring.iter().map(one_scoring).collect()
}

fn one_scoring(s: &ScoringFacts) -> String {
    let of = format!("Scoring by {} of {} {} records", s.party, s.records, s.what);
    match s.mode {
        ScoringMode::Trusted => format!(
            "{of}: without noise, to three significant digits, because it trusts the auditor (mode = \"trusted\"). An auditor who chooses \
             the estimates reads the records from some hundred such answers."
        ),
        ScoringMode::Noised => {
            let rho = |x: Option<f64>| significant(x.unwrap_or(0.0));
            format!(
                "{of}: every figure carries noise, ± is one standard deviation of it. This audit spent rho = {}, {} of {} is left for these \
                 records. Of the attacks of a session the best was chosen, at random in favour of small errors, and its figures alone were \
                 told. Whatever is asked, an estimate of one feature of a record keeps an error of at least {:.2} of its standard \
                 deviation.",
                rho(s.rho_spent),
                rho(s.rho_left),
                rho(s.rho_total),
                least_error(s.rho_total.unwrap_or(f64::INFINITY))
            )
        }
    }
}

impl SummaryLine<'_> {
    /// Returns the stronger of both attacks.
    pub(super) fn strongest(&self) -> Option<&BestAttack> {
        self.unaware.iter().chain(&self.aware).min_by(|a, b| a.mse.total_cmp(&b.mse))
    }
}

/// Returns the summary of each defense, in the order of the report.
pub(super) fn summary(report: &Report) -> Vec<SummaryLine<'_>> {
    let mut lines: Vec<SummaryLine<'_>> = Vec::new();
    // Adversaries that know moments have a table of their own, with their controls.
    for audit in report.audits.iter().filter(|audit| !audit.threat_model.informed()) {
        let found = audit.strongest().map(|(name, errors)| BestAttack {
            name: name.to_owned(),
            mse: errors.mse,
            sigma: errors.sigma,
        });
        let known = audit.threat_model.defense == DefenseKnowledge::Known;
        // The two adversaries of one defense stand next to each other.
        let place = match lines.last_mut() {
            Some(last) if known && last.aware.is_none() && last.audit.policy == audit.policy => {
                last
            }
            _ => {
                lines.push(SummaryLine { audit, unaware: None, aware: None });
                let Some(last) = lines.last_mut() else { continue };
                last
            }
        };
        *(if known { &mut place.aware } else { &mut place.unaware }) = found;
    }
    lines
}

/// One row of an attack table.
pub(super) struct Row {
    pub(super) name: String,
    /// The way in which the estimates were found.
    pub(super) how: String,
    pub(super) mse: String,
    /// The ratio to the error of guessing ½.
    pub(super) vs_half: String,
    /// The ratio to the error of guessing the column mean.
    pub(super) vs_mean: String,
    /// The figures by metric, in the order of [`Rows::metrics`].
    pub(super) by_metric: Vec<String>,
    /// The error by attacked party, in the order of [`Rows::parties`].
    pub(super) by_party: Vec<String>,
    pub(super) kind: RowKind,
}

/// The attack table of one audit.
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// The attacked parties, if there are several with errors of their own.
    pub(super) parties: Vec<String>,
    /// The headings of the metrics that some row has.
    pub(super) metrics: Vec<String>,
    /// The attacks that ran but were not scored, names grouped by reason.
    pub(super) not_scored: Vec<(String, String)>,
    /// The attacks that could not run, with the reason.
    pub(super) not_run: Vec<(String, String)>,
}

impl Row {
    /// Returns the error on a party, by its place in [`Rows::parties`].
    pub(super) fn party(&self, at: usize) -> &str {
        self.by_party.get(at).map_or(NONE, String::as_str)
    }

    /// Returns the figure of a metric, by its place in [`Rows::metrics`].
    pub(super) fn metric(&self, at: usize) -> &str {
        self.by_metric.get(at).map_or(NONE, String::as_str)
    }
}

impl Rows {
    /// Returns the attacks as the document lists them, then guesses, then the two baselines. The
    /// attack `half` repeats the baseline of that name and is left out, unless the two differ.
    pub(super) fn of(report: &Report, audit: &Audit) -> Self {
        let half = &audit.baselines.half;
        let mean = &audit.baselines.column_mean;
        let parties: Vec<String> = match half.per_party.len() {
            0 | 1 => Vec::new(),
            _ => half.per_party.iter().map(|p| p.party.clone()).collect(),
        };
        let ran = audit.attacks.iter().filter_map(|attack| match &attack.outcome {
            Outcome::Ran { errors, .. } => Some(errors),
            Outcome::NotScored { .. } | Outcome::NotRun { .. } => None,
        });
        let all: Vec<&Errors> = ran.chain([half, mean]).collect();
        let has = |metric: &MetricFacts, errors: &Errors| {
            errors.metrics.iter().any(|m| m.name == metric.name)
        };
        let metrics: Vec<&MetricFacts> = report
            .metrics
            .iter()
            .filter(|metric| all.iter().any(|errors| has(metric, errors)))
            .collect();

        let figures = |name: String, how: String, errors: &Errors, kind: RowKind| Row {
            name,
            how,
            mse: figure(errors.mse, errors.sigma),
            vs_half: ratio_to(errors.mse, half).unwrap_or_else(|| NONE.into()),
            vs_mean: ratio_to(errors.mse, mean).unwrap_or_else(|| NONE.into()),
            by_metric: metrics
                .iter()
                .map(|metric| {
                    let found = errors.metrics.iter().find(|m| m.name == metric.name);
                    let told = found.and_then(|m| m.value.map(|value| figure(value, m.sigma)));
                    told.unwrap_or_else(|| NONE.into())
                })
                .collect(),
            by_party: parties
                .iter()
                .map(|party| {
                    let part = errors.per_party.iter().find(|p| p.party == *party);
                    part.map_or_else(|| NONE.into(), |p| figure(p.mse, p.sigma))
                })
                .collect(),
            kind,
        };

        let strongest = audit.strongest().map(|(name, _)| name);
        let mismatches = audit.attacks.iter().any(|attack| attack.score_mismatch.is_some());
        let (mut attacks, mut guesses, mut not_run) = (Vec::new(), Vec::new(), Vec::new());
        let mut not_scored: Vec<(String, String)> = Vec::new();
        for attack in audit.attacks.iter().filter(|attack| !repeats_half(audit, attack)) {
            match &attack.outcome {
                Outcome::Ran { status, errors } => {
                    let kind = match status {
                        Status::Guess => RowKind::Guess,
                        _ if strongest == Some(attack.name.as_str()) => RowKind::Strongest,
                        _ => RowKind::Attack,
                    };
                    let mut row = figures(attack.name.clone(), how(*status), errors, kind);
                    row.by_metric.extend(
                        mismatches.then(|| {
                            attack.score_mismatch.map_or_else(|| NONE.into(), significant)
                        }),
                    );
                    match kind {
                        RowKind::Guess => guesses.push(row),
                        _ => attacks.push(row),
                    }
                }
                Outcome::NotScored { reason, .. } => {
                    match not_scored.iter_mut().find(|(_, r)| r == reason) {
                        Some((names, _)) => *names = format!("{names}, {}", attack.name),
                        None => not_scored.push((attack.name.clone(), reason.clone())),
                    }
                }
                Outcome::NotRun { reason, .. } => {
                    attacks.push(Row {
                        name: attack.name.clone(),
                        how: "not run".into(),
                        mse: NONE.into(),
                        vs_half: NONE.into(),
                        vs_mean: NONE.into(),
                        by_metric: vec![NONE.into(); metrics.len() + usize::from(mismatches)],
                        by_party: vec![NONE.into(); parties.len()],
                        kind: RowKind::NotRun,
                    });
                    not_run.push((attack.name.clone(), reason.clone()));
                }
            }
        }
        attacks.append(&mut guesses);
        for (name, errors) in [("guessing ½", half), ("guessing the column mean", mean)] {
            let mut row = figures(name.into(), "baseline".into(), errors, RowKind::Guess);
            row.by_metric.extend(mismatches.then(|| NONE.into()));
            attacks.push(row);
        }
        let scores = mismatches.then(|| SCORE_MISMATCH.to_owned());
        let metrics =
            metrics.into_iter().map(|metric| metric.title.clone()).chain(scores).collect();
        Self { rows: attacks, parties, metrics, not_scored, not_run }
    }
}

/// Returns true if an attack repeats the baseline of guessing ½.
pub(super) fn repeats_half(audit: &Audit, attack: &AttackResult) -> bool {
    attack.name == "half" && attack.mse() == Some(audit.baselines.half.mse)
}

/// Explains on how many records attacks had no solution or ran out of steps, with one sentence for
/// attacks of equal number.
pub(super) fn limits(audit: &Audit) -> Vec<String> {
    let of = |count: fn(&AttackResult) -> u64, says: &dyn Fn(u64) -> String| {
        let mut groups: Vec<(u64, Vec<&str>)> = Vec::new();
        for attack in audit.attacks.iter().filter(|a| count(a) > 0 && !repeats_half(audit, a)) {
            match groups.iter_mut().find(|(n, _)| *n == count(attack)) {
                Some((_, names)) => names.push(&attack.name),
                None => groups.push((count(attack), vec![&attack.name])),
            }
        }
        groups
            .into_iter()
            .map(|(n, names)| format!("{}: {}", names.join(", "), says(n)))
            .collect::<Vec<_>>()
    };
    let records = audit.records;
    let mut said = of(|a| a.nearest_consistent, &|n| {
        format!(
            "no features in [0, 1] give the released scores of {n} of {records} records; the nearest scores that some give \
             were taken"
        )
    });
    said.extend(of(|a| a.step_limit, &|n| {
        format!("stopped at the limit of steps on {n} of {records} records")
    }));
    said
}

/// Describes the way to an attack's estimates; for one solution of many, the number of independent
/// equations and of unknowns.
fn how(status: Status) -> String {
    match status {
        Status::Guess => "guess".into(),
        Status::Unique => "unique solution".into(),
        Status::LeastNorm { rank, unknowns } => format!("least norm, {rank} of {unknowns}"),
        Status::NearestHalf { rank, unknowns } => format!("nearest ½, {rank} of {unknowns}"),
        Status::BestFit { rank, unknowns } => format!("best fit, {rank} of {unknowns}"),
        Status::Centre { rank, unknowns } => format!("centre, {rank} of {unknowns}"),
        Status::Posterior { rank, unknowns } => format!("posterior, {rank} of {unknowns}"),
        Status::GridPoint { rank, unknowns } => format!("grid point, {rank} of {unknowns}"),
        Status::Regression => "regression on known records".into(),
        Status::LayerByLayer => "nearest the middle, layer by layer".into(),
        Status::Descent => "end of a descent".into(),
        Status::Scaled => "values scaled to [0, 1]".into(),
        Status::IterationLimit { iterations } => format!("stopped at {iterations} iterations"),
    }
}

/// Returns the utility of a release: label and value; an absent figure is stated to be absent.
pub(super) fn utility(utility: &Utility) -> Vec<(&'static str, String)> {
    let undefined = || "not defined here".to_owned();
    if let Some(change) = utility.mean_change {
        let mut figures = vec![("mean relative change", significant(change))];
        figures.extend(utility.bits.map(|bits| ("at most", certificate::bound(bits))));
        return figures;
    }
    let accuracy = match (utility.accuracy, utility.accuracy_change) {
        (Some(accuracy), Some(by)) => format!("{} ({})", four(accuracy), change(by)),
        (Some(accuracy), None) => four(accuracy),
        (None, Some(by)) => change(by),
        (None, None) => undefined(),
    };
    let mut figures = vec![
        ("accuracy", accuracy),
        (
            "mean KL",
            utility.mean_kl_nats.map_or_else(undefined, |x| format!("{} nats", significant(x))),
        ),
        ("total variation", utility.total_variation.map_or_else(undefined, significant)),
        ("arg max kept", utility.arg_max_kept.map_or_else(undefined, four)),
    ];
    if let Some(bits) = utility.bits {
        figures.push(("at most", certificate::bound(bits)));
    }
    figures
}

/// Returns the audited data, parties and model: label and value.
pub(super) fn about(report: &Report) -> Vec<(&'static str, String)> {
    let data = &report.data;
    let deployment = &report.deployment;
    let parties: Vec<String> = deployment
        .parties
        .iter()
        .map(|party| match party.role {
            Role::Active => {
                format!("{} (active, {})", party.name, counted(party.features, "feature"))
            }
            Role::Passive => {
                let shows = party
                    .parameters_shown
                    .as_ref()
                    .map(|s| format!("; shows: {s}"))
                    .unwrap_or_default();
                format!("{} (passive, {}{shows})", party.name, counted(party.features, "feature"))
            }
            Role::Coordinator => format!("{} (coordinator)", party.name),
        })
        .collect();
    vec![
        (
            "data",
            format!(
                "{}{}: {}, {}{}, {} ({} training, {} validation, {} test)",
                data.name,
                data.variant
                    .as_ref()
                    .map(|variant| format!(", variant {variant}"))
                    .unwrap_or_default(),
                counted(data.records, "record"),
                data.columns
                    .map(|columns| format!("{}, ", counted(columns, "column")))
                    .unwrap_or_default(),
                counted(data.features, "feature"),
                outputs(data.classes),
                data.training,
                data.validation,
                data.test
            ),
        ),
        ("parties", parties.join(", ")),
        (
            "model",
            format!(
                "version {}, {}, {}{}",
                deployment.model_version,
                outputs(deployment.classes),
                training(&deployment.training),
                deployment.test_accuracy.map_or_else(String::new, |accuracy| {
                    format!("; test accuracy without a defense {}", four(accuracy))
                })
            ),
        ),
    ]
}

/// Describes the outputs of a model, or the label of its data.
fn outputs(classes: usize) -> String {
    match classes {
        1 => "a number".to_owned(),
        _ => counted(classes, "class"),
    }
}

/// Describes the training of the model.
fn training(facts: &TrainingFacts) -> String {
    match facts.imported {
        true => "imported, not trained here".to_owned(),
        false => format!(
            "trained for {}, {}",
            counted(facts.epochs, "epoch"),
            counted(facts.steps, "step")
        ),
    }
}

/// Returns the program and its version.
pub(super) fn tool(report: &Report) -> String {
    match &report.tool.revision {
        Some(revision) => format!("{} {} ({revision})", report.tool.name, report.tool.version),
        None => format!("{} {}", report.tool.name, report.tool.version),
    }
}

/// Formats a count: `1 record`, `2 records`, `2 classes`.
pub(super) fn counted(n: impl TryInto<u64>, what: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    let ending = match (n, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {what}{ending}")
}
