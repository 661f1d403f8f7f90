//! The text output of a run: a table.

use super::report::{AttackFigures, MembershipReport};
use crate::estimate::Estimate;
use crate::study::Report;
use crate::table::plain_table;

fn percent(estimate: &Estimate) -> String {
    format!("{:.2} ± {:.2} %", 100.0 * estimate.mean, 100.0 * estimate.standard_error)
}

fn share(estimate: &Estimate) -> String {
    format!("{:.3} ± {:.3}", estimate.mean, estimate.standard_error)
}

/// Returns the table row of one attack, which begins with these cells.
fn cells([policy, accuracy, name]: [String; 3], attack: &AttackFigures) -> [String; 9] {
    [
        policy,
        accuracy,
        name,
        percent(&attack.tpr_at_1_percent),
        format!("{:.1}", attack.times_guessing),
        attack.tpr_at_0_1_percent.as_ref().map_or_else(|| "–".into(), percent),
        share(&attack.auc),
        format!("{:.3}", attack.balanced_accuracy.mean),
        attack.verdict.as_str().to_owned(),
    ]
}

impl Report for MembershipReport {
    fn text(&self) -> String {
        let header = [
            "policy",
            "accuracy",
            "attack",
            "TPR at 1 %",
            "× guess",
            "TPR at 0.1 %",
            "AUC",
            "balanced",
            "verdict",
        ];
        let rows = self.policies.iter().flat_map(|row| {
            let accuracy = format!("{:.3}", row.accuracy_on_others.mean);
            [
                cells([row.policy.clone(), accuracy, "ratio".into()], &row.likelihood_ratio),
                cells([String::new(), String::new(), "threshold".into()], &row.threshold),
            ]
        });
        let table = plain_table(header, &[0, 2, 8], rows);
        format!("{}\n\n{table}\n\n{}", self.heading(), self.legend())
    }
}

impl MembershipReport {
    /// Describes the data, the training and the overfitting of the model.
    fn heading(&self) -> String {
        let v = &self.training;
        let stopping = match v.validation_share {
            0.0 => "no early stopping".to_owned(),
            share => format!("early stopping on {:.0} % of them", 100.0 * share),
        };
        let privacy = self.privacy.as_ref().map_or_else(String::new, |privacy| {
            format!("Every party trained with differential privacy of its parameters: {privacy}.\n")
        });
        let (on_members, on_others) = match self.policies.first() {
            Some(none) => (none.accuracy_on_members.mean, none.accuracy_on_others.mean),
            None => (f64::NAN, f64::NAN),
        };
        format!(
            "{}\n\
             {} records; {} models of {}, each trained on half of them: {} epochs, batches of {}, step size {}, penalty {}, {stopping}\n\
             {privacy}Accuracy without a defense: {on_members:.3} on records that were trained on, {on_others:.3} on others, a gap of \
             {:.3} ± {:.3}.",
            self.subject,
            self.records,
            self.models,
            v.model.kind(),
            v.epochs,
            v.batch_size,
            v.learning_rate,
            v.l2,
            self.accuracy_gap.mean,
            self.accuracy_gap.standard_error,
        )
    }

    /// Explains the columns.
    fn legend(&self) -> String {
        let guessing = &self.guessing;
        let seldom = match guessing.tpr_at_0_1_percent {
            Some(guessed) => format!(", and {:.2} % at 0.1 %", 100.0 * guessed),
            None => String::new(),
        };
        let few = match guessing.tpr_at_0_1_percent {
            Some(_) => String::new(),
            None => format!(
                "TPR at 0.1 % takes 1000 records that were not trained on, hence --records 2000: here are {}.\n",
                self.records
            ),
        };
        format!(
            "Accuracy: of what is released, on records that were not trained on. ratio: the likelihood ratio of each record's own\n\
             distributions, with shadow models. threshold: one for all records. TPR at 1 %: share of the members that the attack names\n\
             where it names at most 1 % of the other records; guessing reaches {:.2} % by this measure{seldom}.\n\
             Balanced: the best threshold in hindsight; guessing reaches {:.3}. AUC: guessing reaches 0.5. ±: standard error over targets.\n\
             {few}\
             caught: the lower end of the 95 % interval of TPR at 1 % is at least 5 times guessing.\n\
             above guessing: the lower end of the interval of TPR at 1 %, or of AUC, is above guessing.\n\
             like guessing: neither is. That is of these two attacks and of one answer for each record; it proves no privacy.\n",
            100.0 * guessing.tpr_at_1_percent,
            guessing.balanced_accuracy,
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use vfl_core::model::TrainingValues;
    use vfl_datasets::set_facts::SetFacts;

    use super::super::report::{Guessing, PolicyRow, Verdict};
    use super::*;
    use crate::subject::SubjectFacts;

    fn report(resolved: bool) -> MembershipReport {
        let of = |mean| Estimate { mean, standard_error: 0.0123 };
        let attack = |tpr, verdict| AttackFigures {
            tpr_at_1_percent: of(tpr),
            times_guessing: tpr / 0.011,
            tpr_at_0_1_percent: resolved.then(|| of(tpr / 8.0)),
            auc: of(0.612),
            balanced_accuracy: of(0.587),
            verdict,
        };
        let row = |policy: &str| PolicyRow {
            policy: policy.into(),
            accuracy_on_members: of(0.99),
            accuracy_on_others: of(0.81),
            likelihood_ratio: attack(0.0876, Verdict::Caught),
            threshold: attack(0.012, Verdict::LikeGuessing),
        };
        let set = SetFacts {
            dataset: "satellite".into(),
            variant: "all".into(),
            columns: 36,
            features: 36,
        };
        MembershipReport {
            subject: SubjectFacts {
                set: Some(set),
                data_hash: Some("00".into()),
                classes: 6,
                active_features: 31,
                passive_features: 5,
            },
            passive_parties: 1,
            records: 1000,
            models: 64,
            training: TrainingValues { validation_share: 0.0, ..TrainingValues::default() },
            privacy: None,
            seed: 7,
            accuracy_gap: of(0.18),
            guessing: Guessing {
                tpr_at_1_percent: 0.011,
                tpr_at_0_1_percent: resolved.then_some(0.002),
                balanced_accuracy: 0.52,
            },
            policies: vec![
                row("none"),
                row("temperature (temperature = 2.0) then rounding (decimals = 1)"),
            ],
        }
    }

    #[test]
    fn the_table_says_what_was_found() {
        let said = report(true).text();
        let parts = [
            "0.990 on records",
            "8.76 ± 1.23 %",
            "8.0",
            "0.612 ± 0.012",
            "caught",
            "like guessing",
            "0.20 % at 0.1 %",
        ];
        for part in parts {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(!said.contains("--records 2000") && said.ends_with('\n'), "{said}");
    }

    /// A figure that cannot be measured is not shown as a number.
    #[test]
    fn a_level_that_too_few_records_resolve_is_left_out() {
        let said = report(false).text();
        assert!(said.contains("--records 2000") && said.contains('–'), "{said}");
        let json = serde_json::to_value(report(false)).unwrap();
        assert!(json["policies"][0]["likelihood_ratio"]["tpr_at_0_1_percent"].is_null());
        assert_eq!(json["dataset"], "satellite");
        assert_eq!(json["policies"][0]["likelihood_ratio"]["verdict"], "caught");
    }
}
