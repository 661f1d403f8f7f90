//! A recommendation as text, and as JSON.

use std::fmt::Write;

use serde::Serialize;
use serde_json::{Value, json};
use vfl_defense::{DefenseConfig, Policy};
use vfl_present::ColumnKind::{Name, Right};
use vfl_present::{Frame, Table};

use super::{Demands, Recommendation, Trial};
use crate::report::{Threshold, points};

/// The limits of every recommendation.
const NOT_COVERED: &str = "\
This does not cover: an adversary that knows more records, or other ones, than was assumed; better attacks than those that were tried;
parameters that are released; what training tells; another model. Audit again after each training (cloison audit).";

/// The `[[defense]]` tables of a coordinator's config.
#[derive(Serialize)]
struct DefenseTables<'a> {
    defense: &'a [DefenseConfig],
}

/// Returns the part of the coordinator's config that sets the policy.
///
/// # Errors
/// If a parameter is not a number of TOML.
pub fn coordinator_config(policy: &Policy) -> Result<String, toml::ser::Error> {
    let none = [DefenseConfig::None {}];
    let defense = if policy.defenses.is_empty() { &none[..] } else { &policy.defenses };
    toml::to_string(&DefenseTables { defense })
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent.abs() < 9.95 { format!("{percent:.1}") } else { format!("{percent:.0}") }
}

/// Returns the added risk with its interval.
fn added(trial: &Trial) -> String {
    let Some(added) = &trial.added else { return "not measured".into() };
    let (low, high) = added.interval;
    format!("{} % ({} to {})", percent(added.value), percent(low), percent(high))
}

/// Returns the compared share of records that are reconstructed to within 0.1.
fn exact_share(trial: &Trial) -> String {
    trial
        .exact_share()
        .map_or_else(|| "not measured".into(), |share| format!("{} %", percent(share)))
}

fn share(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "–".into(), |value| format!("{value:.decimals$}"))
}

impl Trial {
    fn exact_share(&self) -> Option<f64> {
        self.results.iter().find(|result| result.threshold == Threshold::MaxExactShare)?.figure
    }
}

impl Demands {
    /// Describes each demand in words.
    fn words(&self) -> Vec<String> {
        let threshold = |(threshold, limit): (Threshold, f64)| match threshold {
            Threshold::MaxAddedRisk => {
                format!(
                    "the scores add at most {} % for any attribute (upper end of the interval)",
                    percent(limit)
                )
            }
            Threshold::MaxExactShare => {
                format!(
                    "at most {} % of the records come back with every value to within 0.1",
                    percent(limit)
                )
            }
            Threshold::MaxBits => {
                format!("the policy tells at most {limit} bits of a record, whoever attacks it")
            }
            Threshold::MaxExact => {
                format!(
                    "attacks are certain of at most {} % of the records, every value of them",
                    percent(limit)
                )
            }
        };
        let loss = self
            .max_accuracy_loss
            .map(|limit| format!("at most {} points of accuracy are lost", percent(limit)));
        self.thresholds.given().map(threshold).chain(loss).collect()
    }
}

impl Recommendation {
    /// Returns a table of the trials, the recommendation, the config to paste, and what it does not
    /// cover. Ends with a newline.
    #[must_use]
    pub fn text(&self) -> String {
        let (searched, fresh) = self.records;
        let data = self.set.as_ref().map_or_else(String::new, |set| format!("Data: {set}.\n"));
        let mut out = format!(
            "{data}Searched on {searched} records, for an adversary that knows {} others whole and the policy.\nDemanded: {}.\n\n",
            self.known_records,
            self.demands.words().join(";\n")
        );
        let shares = self.demands.thresholds.max_exact_share.is_some();
        let meets =
            |trial: &Trial| match (trial.meets(), trial.affordable(self.demands.max_accuracy_loss))
            {
                (false, _) => "no",
                (true, false) => "costs too much",
                (true, true) => "yes",
            };
        let lost = |trial: &Trial| trial.accuracy_loss().map_or_else(|| "–".into(), points);
        let variation = |trial: &Trial| share(trial.utility.total_variation, 3);
        let table = |trials: &[Trial]| {
            let trials = || trials.iter();
            Table::new()
                .column("policy", Name, trials().map(|trial| trial.policy.to_string()))
                .column("added risk (95 %)", Right, trials().map(added))
                .column_if(shares, "exact", Right, trials().map(exact_share))
                .column("meets", Right, trials().map(meets))
                .column("accuracy", Right, trials().map(|t| share(t.utility.accuracy, 4)))
                .column("lost", Right, trials().map(lost))
                .column("total variation", Right, trials().map(variation))
                .text(Frame::None, None, false)
        };
        let _ = writeln!(
            out,
            "{}\nLost: percentage points of accuracy on these records.\n",
            table(&self.tried)
        );
        if !self.unfitted.is_empty() {
            let names = self.unfitted.join(", ");
            let _ = writeln!(
                out,
                "Not tried: {names}. The model was imported or trained on secret shares, and these are fitted on scores of a training.\n"
            );
        }
        if self.confirmed.is_empty() {
            let _ = writeln!(out, "None of them meets that. Demand less, or release no scores.");
            return out;
        }
        let candidates = match self.confirmed.len() {
            1 => "The only candidate".to_owned(),
            count => format!("The {count} cheapest candidates"),
        };
        let _ = writeln!(
            out,
            "{candidates}, on {fresh} fresh records:\n\n{}\n",
            table(&self.confirmed)
        );
        match self.recommended() {
            None => {
                let _ = writeln!(
                    out,
                    "None meets that on fresh records. Audit more records, which makes intervals narrower, or release no scores."
                );
            }
            Some(trial) => {
                let changed = trial
                    .utility
                    .arg_max_kept
                    .map(|kept| 1.0 - kept)
                    .filter(|changed| *changed > 0.0);
                let changed = changed.map_or_else(String::new, |share| {
                    format!(
                        " It changes the predicted class of {} % of the records.",
                        percent(share)
                    )
                });
                let _ = writeln!(
                    out,
                    "Recommended: {}.{changed} In the coordinator's config:\n",
                    trial.policy
                );
                let config =
                    coordinator_config(&trial.policy).unwrap_or_else(|e| format!("# {e}\n"));
                out.extend(
                    config.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n"),
                );
                let _ = writeln!(out, "\n{NOT_COVERED}");
            }
        }
        out
    }

    /// Returns all of it as JSON, for programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let trial = |trial: &Trial| {
            json!({
                "policy": trial.policy.to_string(),
                "utility": trial.utility,
                "attribute": trial.added.as_ref().and_then(|added| added.attribute.as_ref()),
                "attack": trial.added.as_ref().map(|added| &added.attack),
                "added_risk": trial.added.as_ref().map(|added| added.value),
                "low": trial.added.as_ref().map(|added| added.interval.0),
                "high": trial.added.as_ref().map(|added| added.interval.1),
                "exact_share": trial.exact_share(),
                "accuracy_loss": trial.accuracy_loss(),
                "meets": self.demands.met_by(trial),
            })
        };
        let all = |trials: &[Trial]| trials.iter().map(trial).collect::<Vec<_>>();
        let set = self.set.as_ref();
        json!({
            "dataset": set.map(|set| &set.dataset),
            "variant": set.map(|set| &set.variant),
            "columns": set.map(|set| set.columns),
            "features": set.map(|set| set.features),
            "max_added_risk": self.demands.thresholds.max_added_risk,
            "max_exact_share": self.demands.thresholds.max_exact_share,
            "max_exact": self.demands.thresholds.max_exact,
            "max_bits": self.demands.thresholds.max_bits,
            "max_accuracy_loss": self.demands.max_accuracy_loss,
            "known_records": self.known_records,
            "records": self.records.0,
            "fresh_records": self.records.1,
            "not_tried": self.unfitted,
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
    use crate::recommend::AddedRiskEstimate;
    use crate::report::{Compliance, ThresholdResult, Thresholds, Utility};
    use vfl_datasets::set_facts::SetFacts;

    /// A trial against a threshold of 0.2, which costs five points of accuracy.
    fn trial(policy: &str, high: f64, accuracy: f64) -> Trial {
        let added = AddedRiskEstimate {
            attack: "gaussian".into(),
            attribute: Some("income".into()),
            value: high - 0.03,
            interval: (high - 0.06, high),
        };
        let utility = Utility {
            accuracy: Some(accuracy),
            accuracy_change: Some(-0.05),
            total_variation: Some(0.1),
            ..Utility::default()
        };
        let result = ThresholdResult {
            threshold: Threshold::MaxAddedRisk,
            compliance: if high <= 0.2 { Compliance::Met } else { Compliance::NotMet },
            figure: Some(high),
            attack: Some("gaussian".into()),
            attribute: Some("income".into()),
        };
        Trial {
            policy: policy.parse().unwrap(),
            utility,
            added: Some(added),
            results: vec![result],
        }
    }

    fn of(tried: &[Trial], confirmed: &[Trial]) -> Recommendation {
        Recommendation {
            set: None,
            demands: Demands {
                thresholds: Thresholds::new(Some(0.2), None).unwrap(),
                max_accuracy_loss: None,
            },
            known_records: 200,
            records: (500, 500),
            unfitted: Vec::new(),
            tried: tried.to_vec(),
            confirmed: confirmed.to_vec(),
        }
    }

    #[test]
    fn the_cheapest_that_is_confirmed_is_recommended() {
        let (near, far) =
            (trial("rounding (decimals = 1)", 0.21, 0.85), trial("class_label", 0.1, 0.85));
        let found = of(
            &[trial("rounding (decimals = 1)", 0.19, 0.85), far.clone()],
            &[near.clone(), far.clone()],
        );
        // The first met the threshold in the search only.
        assert_eq!(found.recommended(), Some(&far));
        let text = found.text();
        assert!(
            text.contains("Recommended: class_label.")
                && text.contains("[[defense]]\n    name = \"class_label\""),
            "{text}"
        );
        assert!(
            text.contains("7.0 % (4.0 to 10)") && text.contains("This does not cover"),
            "{text}"
        );
        assert_eq!(found.json()["recommended"], "class_label");
        assert!(found.json()["dataset"].is_null() && text.starts_with("Searched on"), "{text}");
        let (dataset, variant) = ("bank".to_owned(), "all".to_owned());
        let set = Some(SetFacts { dataset, variant, columns: 20, features: 20 });
        let named = Recommendation { set, unfitted: vec!["ranking"], ..found };
        assert!(
            named.text().contains("Not tried: ranking. The model was imported or trained on"),
            "{}",
            named.text()
        );
        assert_eq!(
            (&named.json()["variant"], &named.json()["columns"]),
            (&json!("all"), &json!(20))
        );
        assert!(
            named.text().starts_with("Data: bank, variant all: 20 columns, 20 features.\n"),
            "{}",
            named.text()
        );
        let none = of(std::slice::from_ref(&near), std::slice::from_ref(&near));
        assert!(
            none.recommended().is_none()
                && none.text().contains("None meets that on fresh records"),
            "{}",
            none.text()
        );
        let mut frugal = of(std::slice::from_ref(&far), std::slice::from_ref(&far));
        frugal.demands.max_accuracy_loss = Some(0.049);
        let text = frugal.text();
        assert!(frugal.recommended().is_none() && text.contains("costs too much"), "{text}");
        assert!(text.contains("at most 4.9 points of accuracy are lost"), "{text}");
        frugal.demands.max_accuracy_loss = Some(0.05);
        assert_eq!(frugal.recommended(), Some(&far));
        let nothing = of(&[Trial { added: None, ..far }], &[]);
        assert!(
            nothing.text().contains("not measured") && nothing.text().contains("release no scores")
        );
    }

    /// The config to paste is parsed to the same policy.
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
        assert_eq!(
            coordinator_config(&Policy::default()).unwrap(),
            "[[defense]]\nname = \"none\"\n"
        );
    }
}
