//! The text output of a measurement: a table.

use vfl_core::types::PartyName;

use super::{AnswerRow, Answers, FallbackReport};
use crate::study::Report;
use crate::table::plain_table;

impl Report for FallbackReport {
    fn text(&self) -> String {
        let header = [
            "answers",
            "attack",
            "equations",
            "unknowns",
            "features of",
            "error",
            "control",
            "whole",
            "most told",
            "told",
        ];
        let rows = self.rows.iter().map(cells);
        let table = plain_table(header, &[0, 1, 4, 8], rows);
        let Self { set, classes, records, without, shared_features, missing_features, .. } = self;
        format!(
            "{set}, {classes} classes; {shared_features} features of {}, {missing_features} of {without}\n\
             accuracy with {without} {:.1} %, without {:.1} %\n\n{table}\n\n\
             answers: the exact scores that the adversary has of a record: of all parties, of the fallback without {without}, or both.\n\
             error, control: mean squared error of the attack, and of the best imputation without a score, on {records} test records.\n\
             whole: records of which all these features are reconstructed to 1e-6 of their range.\n\
             told: share of the control's error that the attack removes, of the attribute of which it removes most (from 100 records on chosen on half of them, measured on the others).\n",
            names(&self.parties),
            100.0 * self.accuracy,
            100.0 * self.fallback_accuracy,
        )
    }
}

fn names(parties: &[PartyName]) -> String {
    parties.iter().map(|party| party.as_str()).collect::<Vec<_>>().join(", ")
}

fn cells(row: &AnswerRow) -> [String; 10] {
    let answers = match row.answers {
        Answers::All => "all parties",
        Answers::Fallback => "fallback",
        Answers::Both => "both",
    };
    let (name, told) = match &row.most_told {
        Some(most) => (most.attribute.clone(), format!("{:.0} %", 100.0 * most.share)),
        None => ("none varies".into(), String::new()),
    };
    [
        answers.into(),
        row.attack.clone(),
        row.equations.to_string(),
        row.unknowns.to_string(),
        names(&row.parties),
        format!("{:.4}", row.error),
        format!("{:.4}", row.control),
        format!("{:.1} %", 100.0 * row.exact_records),
        name,
        told,
    ]
}
