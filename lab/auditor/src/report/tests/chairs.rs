//! Tests of the table that says who can learn what of whom.

use super::fixture;
use crate::report::chairs::Knowledge::{Excluded, Measured, NotMeasured, Own, Told};
use crate::report::chairs::{Knowledge, chairs};
use crate::report::{Party, Report, Role, render_html};

/// Features of the active party and of passive parties, labels, records, parameters.
fn row(report: &Report, name: &str) -> [Knowledge; 5] {
    let chairs = chairs(report);
    let chair = chairs.iter().find(|chair| chair.name == name).unwrap();
    std::array::from_fn(|at| chair.cells[at].knowledge)
}

fn with_training(private: bool, imported: bool) -> Report {
    let mut report = fixture::report();
    report.deployment.training.private = private;
    report.deployment.training.imported = imported;
    report
}

#[test]
fn a_plain_training_tells_every_party() {
    let report = with_training(false, false);
    assert_eq!(row(&report, "active party"), [Own, Told, Own, Own, Told]);
    assert_eq!(row(&report, "a passive party"), [Told, Own, Told, Told, Told]);
    assert_eq!(row(&report, "coordinator"), [Told, Told, Told, Told, NotMeasured]);
}

#[test]
fn a_private_release_tells_the_coordinator_nothing() {
    let mut report = with_training(true, false);
    let before = row(&report, "coordinator");
    assert_eq!(before, [NotMeasured, NotMeasured, Excluded, Told, NotMeasured]);
    report.deployment.private_release = true;
    let after = row(&report, "coordinator");
    assert_eq!(after, [Excluded, Excluded, Excluded, Told, Excluded]);
    report.deployment.training.private = false;
    assert_eq!(row(&report, "coordinator"), [Told, Told, Told, Told, NotMeasured]);
}

/// Embeddings are another thing than shares: the coordinator's cell says where they are measured.
#[test]
fn the_coordinators_cell_names_the_measurement_of_embeddings() {
    let reasons = |report: &Report| {
        let rows = chairs(report);
        let chair = rows.into_iter().find(|chair| chair.name == "coordinator").unwrap();
        chair.cells.map(|cell| cell.reason)
    };
    for imported in [false, true] {
        let report = with_training(false, imported);
        for reason in &reasons(&report)[..2] {
            assert!(reason.contains("cloison transcript --combiner concat"), "{reason}");
        }
    }
    let mut private = with_training(true, false);
    private.deployment.private_release = true;
    assert!(!reasons(&private)[0].contains("concat"));
}

#[test]
fn a_private_training_tells_only_parties_that_join_hands() {
    let report = with_training(true, false);
    assert_eq!(row(&report, "active party"), [Own, Measured, Own, Own, NotMeasured]);
    let passive = row(&report, "a passive party");
    assert_eq!(passive, [Excluded, Own, Excluded, Told, Excluded]);
    let pair = row(&report, "a passive party and coordinator");
    assert_eq!(pair, [Told, Own, Told, Told, Told]);
    let pair = row(&report, "active party and coordinator");
    assert_eq!(pair, [Own, Told, Own, Own, Told]);
}

/// Without a training here nobody is told anything by one, and serving shows the coordinator logit
/// shares all the same.
#[test]
fn an_imported_model_tells_by_its_serving_alone() {
    let mut report = with_training(false, true);
    assert_eq!(row(&report, "active party"), [Own, Measured, Own, Own, NotMeasured]);
    assert_eq!(row(&report, "a passive party"), [Excluded, Own, Excluded, Excluded, Excluded]);
    let coordinator = row(&report, "coordinator");
    assert_eq!(coordinator, [NotMeasured, NotMeasured, Excluded, Excluded, NotMeasured]);
    report.audits.clear();
    report.sweep = None;
    assert_eq!(row(&report, "active party")[1], NotMeasured);
}

#[test]
fn parameters_that_are_shown_are_told() {
    let mut report = with_training(true, false);
    for (shown, knowledge) in [("nothing", NotMeasured), ("true parameters", Told)] {
        let passive = report.deployment.parties.iter_mut().find(|p| p.role == Role::Passive);
        passive.unwrap().parameters_shown = Some(shown.into());
        assert_eq!(row(&report, "active party")[4], knowledge, "{shown}");
    }
}

/// Two passive parties have a row of their own, and a pair of one with the active party tells of
/// the other.
#[test]
fn several_passive_parties_are_told_apart() {
    let mut report = with_training(true, false);
    assert!(chairs(&report).iter().all(|chair| chair.name != "two passive parties"));
    assert_eq!(row(&report, "active and a passive party")[1], Own);
    let other = Party::with_feature_names("hospital", Role::Passive, Vec::new());
    report.deployment.parties.push(other);
    assert_eq!(row(&report, "two passive parties")[1], Excluded);
    assert_eq!(row(&report, "active and a passive party")[1], Told);
}

#[test]
fn the_page_has_every_chair() {
    let report = with_training(true, false);
    let page = render_html(&report).unwrap();
    for chair in chairs(&report) {
        assert!(page.contains(chair.name), "{}", chair.name);
    }
}
