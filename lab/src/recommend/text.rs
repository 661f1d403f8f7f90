//! A recommendation in words, and as JSON.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::{Value, json};
use vfl_shared::policy::{DefenseConfig, Policy};

use super::{Recommendation, Trial};

/// What no recommendation covers.
const NOT_COVERED: &str = "\
This does not cover: an adversary that knows more records, or other ones, than was assumed; better attacks than those that were tried;
parameters that are released; what training tells; another model. Audit again after each training (cloison audit).";

/// The `[[defense]]` tables of a coordinator's config.
#[derive(Serialize)]
struct Pasted<'a> {
    defense: &'a [DefenseConfig],
}

/// What stands for a policy in the config of the coordinator.
///
/// # Errors
/// If a parameter is no number of TOML.
pub fn coordinator_config(policy: &Policy) -> Result<String, toml::ser::Error> {
    let none = [DefenseConfig::None {}];
    let defense = if policy.defenses.is_empty() { &none[..] } else { &policy.defenses };
    toml::to_string(&Pasted { defense })
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// Added risk with its interval.
fn added(trial: &Trial) -> String {
    let Some(added) = &trial.added else { return "not measured".into() };
    let (low, high) = added.interval;
    format!("{} % ({} to {})", percent(added.value), percent(low), percent(high))
}

fn share(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.decimals$}"))
}

impl Recommendation {
    /// A table of what was tried, the recommendation, what to paste, and what it does not cover. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let limit = percent(self.max_added_risk);
        let (searched, fresh) = self.records;
        let mut out = format!(
            "Searched on {searched} records, for an adversary that knows {} others whole and the policy. A policy meets the threshold \
             if the upper\nend of its interval is at most {limit} %.\n\n",
            self.known_records
        );
        let table = |trials: &[Trial]| {
            let mut table = Table::new();
            table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
            table.set_header(["policy", "added risk (95 %)", "meets", "accuracy", "total variation"]);
            for trial in trials {
                let meets = if trial.meets(self.max_added_risk) { "yes" } else { "no" };
                table.add_row([
                    trial.policy.to_string(),
                    added(trial),
                    meets.into(),
                    share(trial.utility.accuracy, 4),
                    share(trial.utility.total_variation, 3),
                ]);
            }
            for column in table.column_iter_mut().skip(1) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
            lines.join("\n")
        };
        let _ = writeln!(out, "{}\n", table(&self.tried));
        if self.confirmed.is_empty() {
            let _ = writeln!(out, "None of them meets it. Whoever may not exceed {limit} % releases no scores.");
            return out;
        }
        let candidates = match self.confirmed.len() {
            1 => "The only candidate".to_owned(),
            count => format!("The {count} cheapest candidates"),
        };
        let _ = writeln!(out, "{candidates}, on {fresh} fresh records:\n\n{}\n", table(&self.confirmed));
        match self.recommended() {
            None => {
                let _ = writeln!(
                    out,
                    "None meets it on fresh records. Audit more records, which makes the interval narrower, or release no scores."
                );
            }
            Some(trial) => {
                let changed = trial.utility.arg_max_kept.map(|kept| 1.0 - kept).filter(|changed| *changed > 0.0);
                let changed = changed.map_or_else(String::new, |share| {
                    format!(" It changes the predicted class of {} % of the records.", percent(share))
                });
                let _ = writeln!(out, "Recommended: {}.{changed} In the coordinator's config:\n", trial.policy);
                let config = coordinator_config(&trial.policy).unwrap_or_else(|e| format!("# {e}\n"));
                out.extend(config.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n"));
                let _ = writeln!(out, "\n{NOT_COVERED}");
            }
        }
        out
    }

    /// All of it, for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let trial = |trial: &Trial| {
            json!({
                "policy": trial.policy.to_string(),
                "utility": trial.utility,
                "attack": trial.added.as_ref().map(|added| &added.attack),
                "added_risk": trial.added.as_ref().map(|added| added.value),
                "low": trial.added.as_ref().map(|added| added.interval.0),
                "high": trial.added.as_ref().map(|added| added.interval.1),
                "meets": trial.meets(self.max_added_risk),
            })
        };
        let all = |trials: &[Trial]| trials.iter().map(trial).collect::<Vec<_>>();
        json!({
            "max_added_risk": self.max_added_risk,
            "known_records": self.known_records,
            "records": self.records.0,
            "fresh_records": self.records.1,
            "tried": all(&self.tried),
            "confirmed": all(&self.confirmed),
            "recommended": self.recommended().map(|trial| trial.policy.to_string()),
            "coordinator_config": self.recommended().and_then(|trial| coordinator_config(&trial.policy).ok()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recommend::Added;
    use crate::report::Utility;

    fn trial(policy: &str, high: f64, accuracy: f64) -> Trial {
        let added = Added { attack: "gaussian".into(), value: high - 0.03, interval: (high - 0.06, high) };
        let utility = Utility { accuracy: Some(accuracy), total_variation: Some(0.1), ..Utility::default() };
        Trial { policy: policy.parse().unwrap(), utility, added: Some(added) }
    }

    fn of(tried: &[Trial], confirmed: &[Trial]) -> Recommendation {
        Recommendation {
            max_added_risk: 0.2,
            known_records: 200,
            records: (500, 500),
            tried: tried.to_vec(),
            confirmed: confirmed.to_vec(),
        }
    }

    #[test]
    fn the_cheapest_that_is_confirmed_is_recommended() {
        let (near, far) = (trial("rounding (decimals = 1)", 0.21, 0.85), trial("class_label", 0.1, 0.85));
        let found = of(&[trial("rounding (decimals = 1)", 0.19, 0.85), far.clone()], &[near.clone(), far.clone()]);
        // The first met the threshold in the search only.
        assert_eq!(found.recommended(), Some(&far));
        let text = found.text();
        assert!(
            text.contains("Recommended: class_label.") && text.contains("[[defense]]\n    name = \"class_label\""),
            "{text}"
        );
        assert!(text.contains("7.0 % (4.0 to 10)") && text.contains("This does not cover"), "{text}");
        assert_eq!(found.json()["recommended"], "class_label");
        let none = of(std::slice::from_ref(&near), std::slice::from_ref(&near));
        assert!(
            none.recommended().is_none() && none.text().contains("None meets it on fresh records"),
            "{}",
            none.text()
        );
        let nothing = of(&[Trial { added: None, ..far }], &[]);
        assert!(nothing.text().contains("not measured") && nothing.text().contains("releases no scores"));
    }

    /// What is to be pasted reads back as the same policy.
    #[test]
    fn what_is_pasted_is_the_policy() {
        #[derive(serde::Deserialize)]
        struct Read {
            defense: Vec<DefenseConfig>,
        }
        for ladder in super::super::ladders::ladders(6) {
            for policy in ladder.rungs() {
                let text = coordinator_config(policy).unwrap();
                let read: Read = toml::from_str(&text).unwrap();
                assert_eq!(read.defense, policy.defenses, "{text}");
            }
        }
        assert_eq!(coordinator_config(&Policy::default()).unwrap(), "[[defense]]\nname = \"none\"\n");
    }
}
