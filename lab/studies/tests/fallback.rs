//! Two answers about a record: more than either, and as much as their equations are worth.
#![allow(missing_docs, clippy::unwrap_used)]

use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_core::types::PartyName;
use vfl_datasets::{DatasetName, DatasetSpec};
use vfl_studies::fallback::{AnswerRow, Answers, Experiment, FallbackPlan};
use vfl_studies::{Report, Study, SubjectSpec};

fn plan(passive_features: usize, passive_parties: usize, without: Option<&str>) -> FallbackPlan {
    let values = TrainingValues { epochs: 20, ..TrainingValues::default() };
    FallbackPlan {
        subject: SubjectSpec {
            data: DatasetSpec::new(DatasetName::Robot, None, 7).into(),
            first_column: 0,
            passive_features: Some(passive_features),
            passive_parties,
        },
        without: without.map(|name| PartyName::new(name).unwrap()),
        training: TrainingConfig::try_from(values).unwrap(),
        records: 100,
        seed: 7,
    }
}

/// Three equations in six features of each party tell little; the same number in six alone tells more; six in all are what both give.
#[test]
fn a_fallback_tells_more_of_the_parties_that_are_left_and_two_answers_of_all() {
    let report = Experiment::prepare(&plan(12, 2, None)).unwrap().run(&|_| ()).unwrap();
    assert_eq!(report.without.as_str(), "passive-2");
    assert_eq!((report.shared_features, report.missing_features, report.records), (6, 6, 100));
    let row = |answers, attack: &str, party: &str| -> &AnswerRow {
        let found = report.rows.iter().find(|row| {
            row.answers == answers && row.attack == attack && row.parties[0].as_str() == party
        });
        found.unwrap()
    };
    let told = |answers, party| {
        let row = row(answers, "posterior_mean", party);
        1.0 - row.error / row.control
    };
    let (all, fallback) = (told(Answers::All, "passive-1"), told(Answers::Fallback, "passive-1"));
    let both = told(Answers::Both, "passive-1");
    assert!(both > fallback - 0.05, "{fallback} {both}");
    assert!(fallback > all + 0.2 && both > all + 0.2, "{all} {fallback} {both}");
    // Once the others are known, all equations are about the party that was away.
    let (alone, after) = (told(Answers::All, "passive-2"), told(Answers::Both, "passive-2"));
    assert!(after > alone + 0.1, "{alone} {after}");
    let grid = |answers| row(answers, "informed_lattice", "passive-1").exact_records;
    assert!(grid(Answers::Fallback) > 0.99 && grid(Answers::Both) > 0.99, "{report:?}");
    let both = row(Answers::Both, "posterior_mean", "passive-1");
    assert_eq!((both.equations, both.unknowns), (6, 12));
    let text = report.text();
    assert!(text.contains("without passive-2") && text.contains("both"), "{text}");
}

#[test]
fn what_has_no_second_answer_is_refused_by_name() {
    let refusal = |plan: &FallbackPlan| format!("{:#}", Experiment::prepare(plan).err().unwrap());
    assert!(refusal(&plan(8, 1, None)).contains("--passive-parties 2"));
    assert!(refusal(&plan(8, 2, Some("bank"))).contains("--without bank: the passive parties are"));
    let few = FallbackPlan { records: 3, ..plan(8, 2, None) };
    assert!(refusal(&few).contains("--records is 3"));
}
