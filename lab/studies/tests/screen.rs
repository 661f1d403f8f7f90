//! Screening of data sets on real data: what V says of its sets.
#![allow(missing_docs, clippy::unwrap_used)]

use vfl_core::model::{TrainingConfig, TrainingValues};
use vfl_datasets::{DatasetName, DatasetSpec};
use vfl_studies::screen::{Experiment, ScreenReport};
use vfl_studies::{Report, Study};

fn report(spec: DatasetSpec) -> ScreenReport {
    let training =
        TrainingConfig::try_from(TrainingValues { l2: 0.0, ..TrainingValues::default() }).unwrap();
    Experiment::prepare(&spec.into(), training).unwrap().run(&|_| ()).unwrap()
}

/// Pendigits is one of V's sets: accurate enough, and its coordinates go together. A feature that hardly moves logits is not important,
/// and one that is important moves them.
#[test]
fn one_of_the_papers_sets_passes() {
    let report = report(DatasetSpec::new(DatasetName::Pendigits, None, 7));
    assert!(
        report.accurate() && report.dependent(),
        "{} {}",
        report.accuracy,
        report.mean_explained
    );
    assert!(report.mean_explained > 0.4, "{}", report.mean_explained);
    assert_eq!(report.features.len(), 16);
    let (first, last) = (&report.features[0], &report.features[15]);
    assert!(first.contributes && first.importance > 5.0 * last.importance, "{first:?} {last:?}");
    assert!(first.reach > last.reach, "{first:?} {last:?}");
    let said = report.text();
    for part in ["pendigits", "met", "nats", &first.name] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert_eq!(serde_json::to_value(&report).unwrap()["dataset"], "pendigits");
}

/// Robot's softmax regression is right on 7 of 10 records, which V's rule leaves out; some of its sensors do not measurably contribute.
#[test]
fn a_set_that_the_rule_leaves_out_is_named() {
    let report = report(DatasetSpec::new(DatasetName::Robot, None, 7));
    assert!(!report.accurate(), "{}", report.accuracy);
    assert!(report.text().contains("not met"));
    assert!(report.idle().all(|row| row.importance < 0.02));
}
