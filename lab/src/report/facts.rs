//! What the renderers show, already in words: the terminal table and the page must not differ in what they say.

use super::document::{AttackResult, Audit, Errors, Outcome, Report, Role, Status, Utility};
use super::number::{change, four, ratio, significant};
use super::threat::DefenseKnowledge;

/// Stands where there is no figure.
pub(super) const NONE: &str = "–";

/// What every reader must be told beside the verdicts.
pub(super) const SCOPE: &str = "A verdict covers the attacks listed, under the threat model stated, on the records \
     scored. It is not a guarantee: an attack that is not listed may do better.";

/// What an audit's adversary makes of the defense, in one word.
pub(super) fn adversary(audit: &Audit) -> &'static str {
    match audit.threat_model.defense {
        DefenseKnowledge::Unknown => "unaware",
        DefenseKnowledge::Known => "aware",
    }
}

/// What to add to a defense's name where the adversary knows it.
pub(super) fn against(audit: &Audit) -> &'static str {
    match audit.threat_model.defense {
        DefenseKnowledge::Unknown => "",
        DefenseKnowledge::Known => ", known to the adversary",
    }
}

/// One defense in the summary: against an adversary that takes its release for the true scores, and against one that knows it.
pub(super) struct SummaryLine<'a> {
    /// The first audit of the defense; its costs are those of all.
    pub(super) audit: &'a Audit,
    /// The strongest attack and its error.
    pub(super) unaware: Option<(String, f64)>,
    /// Likewise, of those that know the defense.
    pub(super) aware: Option<(String, f64)>,
}

impl SummaryLine<'_> {
    /// The stronger of both.
    pub(super) fn strongest(&self) -> Option<&(String, f64)> {
        self.unaware.iter().chain(&self.aware).min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// The defenses of a report, in its order.
pub(super) fn summary(report: &Report) -> Vec<SummaryLine<'_>> {
    let mut lines: Vec<SummaryLine<'_>> = Vec::new();
    for audit in &report.audits {
        let found = audit.strongest().map(|(name, errors)| (name.to_owned(), errors.mse));
        let known = audit.threat_model.defense == DefenseKnowledge::Known;
        // The two adversaries of one defense stand next to each other.
        let place = match lines.last_mut() {
            Some(last) if known && last.aware.is_none() && last.audit.policy == audit.policy => last,
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
    /// How the estimates come about.
    pub(super) how: String,
    pub(super) mse: String,
    /// Ratio to the error of guessing ½.
    pub(super) vs_half: String,
    /// Ratio to the error of guessing the column mean.
    pub(super) vs_mean: String,
    /// Shares within the tolerance, if any attack of the table has them.
    pub(super) hits: String,
    /// Error by attacked party, in the order of [`Rows::parties`].
    pub(super) by_party: Vec<String>,
    pub(super) kind: RowKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    /// The attack with the smallest error.
    Strongest,
    /// Any other attack.
    Attack,
    /// A guess or a baseline.
    Guess,
    /// An attack without figures.
    NotRun,
}

/// The attack table of one audit.
pub(super) struct Rows {
    pub(super) rows: Vec<Row>,
    /// The attacked parties, if there are several with errors of their own.
    pub(super) parties: Vec<String>,
    /// What the column of hits means, if there is one.
    pub(super) hits: Option<String>,
    /// Attacks that could not run, with the reason.
    pub(super) not_run: Vec<(String, String)>,
}

impl Rows {
    /// Attacks as the document lists them, then guesses, then the two baselines. The attack `half` is the baseline of
    /// that name over again and is left out, unless the two differ.
    pub(super) fn of(audit: &Audit) -> Self {
        let half = &audit.baselines.half;
        let mean = &audit.baselines.column_mean;
        let parties: Vec<String> = match half.per_party.len() {
            0 | 1 => Vec::new(),
            _ => half.per_party.iter().map(|p| p.party.clone()).collect(),
        };
        let tolerances: Vec<_> = audit
            .attacks
            .iter()
            .filter_map(|attack| match &attack.outcome {
                Outcome::Ran { within_tolerance, .. } => *within_tolerance,
                Outcome::NotRun { .. } => None,
            })
            .collect();
        let one_tolerance =
            tolerances.first().filter(|first| tolerances.iter().all(|t| t.tolerance == first.tolerance));
        let hits = match (tolerances.is_empty(), one_tolerance) {
            (true, _) => None,
            (false, Some(t)) => {
                Some(format!("hits: share of values / of whole records within {} of the truth", t.tolerance))
            }
            (false, None) => Some("hits: share of values / of whole records within the tolerance of the truth".into()),
        };

        let figures = |name: String, how: String, errors: &Errors, kind: RowKind| Row {
            name,
            how,
            mse: significant(errors.mse),
            vs_half: ratio(errors.mse, half.mse).unwrap_or_else(|| NONE.into()),
            vs_mean: ratio(errors.mse, mean.mse).unwrap_or_else(|| NONE.into()),
            hits: NONE.into(),
            by_party: parties
                .iter()
                .map(|party| {
                    let part = errors.per_party.iter().find(|p| p.party == *party);
                    part.map_or_else(|| NONE.into(), |p| significant(p.mse))
                })
                .collect(),
            kind,
        };

        let strongest = audit.strongest().map(|(name, _)| name);
        let (mut attacks, mut guesses, mut not_run) = (Vec::new(), Vec::new(), Vec::new());
        for attack in audit.attacks.iter().filter(|attack| !repeats_half(audit, attack)) {
            match &attack.outcome {
                Outcome::Ran { status, errors, within_tolerance } => {
                    let kind = match status {
                        Status::Guess => RowKind::Guess,
                        _ if strongest == Some(attack.name.as_str()) => RowKind::Strongest,
                        _ => RowKind::Attack,
                    };
                    let mut row = figures(attack.name.clone(), how(*status), errors, kind);
                    if let Some(shares) = within_tolerance {
                        let share = |x: Option<f64>| x.map_or_else(|| NONE.to_owned(), four);
                        row.hits = format!("{} / {}", share(shares.features), share(shares.records));
                    }
                    match kind {
                        RowKind::Guess => guesses.push(row),
                        _ => attacks.push(row),
                    }
                }
                Outcome::NotRun { reason } => {
                    attacks.push(Row {
                        name: attack.name.clone(),
                        how: "not run".into(),
                        mse: NONE.into(),
                        vs_half: NONE.into(),
                        vs_mean: NONE.into(),
                        hits: NONE.into(),
                        by_party: vec![NONE.into(); parties.len()],
                        kind: RowKind::NotRun,
                    });
                    not_run.push((attack.name.clone(), reason.clone()));
                }
            }
        }
        attacks.append(&mut guesses);
        attacks.push(figures("guessing ½".into(), "baseline".into(), half, RowKind::Guess));
        attacks.push(figures("guessing the column mean".into(), "baseline".into(), mean, RowKind::Guess));
        Self { rows: attacks, parties, hits, not_run }
    }

    /// One column of the table.
    pub(super) fn column(&self, of: impl Fn(&Row) -> &str) -> Vec<String> {
        self.rows.iter().map(|row| of(row).to_owned()).collect()
    }
}

/// Whether an attack is the baseline of guessing ½ over again.
pub(super) fn repeats_half(audit: &Audit, attack: &AttackResult) -> bool {
    attack.name == "half" && attack.mse() == Some(audit.baselines.half.mse)
}

fn how(status: Status) -> String {
    match status {
        Status::Guess => "guess".into(),
        Status::Unique => "unique solution".into(),
        Status::Search => "search".into(),
        Status::LeastNorm { rank, unknowns } => format!("rank {rank} of {unknowns}"),
        Status::IterationLimit { iterations } => format!("stopped at {iterations} iterations"),
    }
}

/// The utility of a release: label and value, absent figures said to be absent.
pub(super) fn utility(utility: &Utility) -> Vec<(&'static str, String)> {
    let undefined = || "not defined here".to_owned();
    let accuracy = match (utility.accuracy, utility.accuracy_change) {
        (Some(accuracy), Some(by)) => format!("{} ({})", four(accuracy), change(by)),
        (Some(accuracy), None) => four(accuracy),
        (None, Some(by)) => change(by),
        (None, None) => undefined(),
    };
    let mut figures = vec![
        ("accuracy", accuracy),
        ("mean KL", utility.mean_kl_nats.map_or_else(undefined, |x| format!("{} nats", significant(x)))),
        ("total variation", utility.total_variation.map_or_else(undefined, significant)),
        ("arg max kept", utility.arg_max_kept.map_or_else(undefined, four)),
    ];
    if let Some(bits) = utility.bits {
        figures.push(("at most", format!("{} bits a record", significant(bits))));
    }
    figures
}

/// What was audited: label and value.
pub(super) fn about(report: &Report) -> Vec<(&'static str, String)> {
    let data = &report.data;
    let deployment = &report.deployment;
    let parties: Vec<String> = deployment
        .parties
        .iter()
        .map(|party| match party.role {
            Role::Active => format!("{} (active, {})", party.name, counted(party.features, "feature")),
            Role::Passive => {
                let shows = party.parameters_shown.as_ref().map(|s| format!("; shows: {s}")).unwrap_or_default();
                format!("{} (passive, {}{shows})", party.name, counted(party.features, "feature"))
            }
            Role::Coordinator => format!("{} (coordinator)", party.name),
        })
        .collect();
    vec![
        (
            "data",
            format!(
                "{}: {}, {}, {} ({} training, {} validation, {} test)",
                data.name,
                counted(data.records, "record"),
                counted(data.features, "feature"),
                counted(data.classes, "class"),
                data.training,
                data.validation,
                data.test
            ),
        ),
        ("parties", parties.join(", ")),
        (
            "model",
            format!(
                "version {}, {} classes, trained for {}, {}; test accuracy without a defense {}",
                deployment.model_version,
                deployment.classes,
                counted(deployment.training.epochs, "epoch"),
                counted(deployment.training.steps, "step"),
                four(deployment.test_accuracy)
            ),
        ),
    ]
}

/// The program and its version.
pub(super) fn tool(report: &Report) -> String {
    match &report.tool.revision {
        Some(revision) => format!("{} {} ({revision})", report.tool.name, report.tool.version),
        None => format!("{} {}", report.tool.name, report.tool.version),
    }
}

/// `1 record`, `2 records`, `2 classes`.
pub(super) fn counted(n: impl TryInto<u64>, what: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    let ending = match (n, what.ends_with('s')) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{n} {what}{ending}")
}
