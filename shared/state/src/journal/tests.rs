//! Tests of the journal of trainings.

use vfl_core::model::TrainingValues;

use super::*;

fn proposal(ids: &[&str]) -> Proposal {
    Proposal {
        active_party: PartyName::new("active").unwrap(),
        config: TrainingConfig::try_from(TrainingValues::default()).unwrap(),
        class_names: vec!["a".into(), "b".into()],
        ids: RecordIds::new(ids).unwrap(),
    }
}

#[test]
fn what_was_begun_is_known_after_a_restart_whether_or_not_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    let version = ModelVersion::new("m-1").unwrap();
    assert_eq!(journal.begin(&proposal(&["r1", "r2"]), 1000).unwrap(), 1);
    for step in 1..=9 {
        journal.reach(1, step).unwrap();
    }
    assert_eq!(journal.begin(&proposal(&["r2", "r3"]), 2000).unwrap(), 2);
    journal.end(2, 7, Some(&version), 2001).unwrap();
    journal.refuse(&PartyName::new("active").unwrap(), 2002).unwrap();
    let before = journal.trainings();
    drop(journal);
    let again = Journal::open(dir.path()).unwrap();
    assert_eq!(again.trainings(), before);
    assert_eq!((before[0].steps, before[0].ended_at), (8, None));
    assert_eq!((before[1].steps, before[1].published.as_ref()), (7, Some(&version)));
    assert_eq!(again.records(&before[1]).unwrap(), RecordIds::new(["r2", "r3"]).unwrap());
    let counts = |today, ever| Counts { today, ever };
    assert_eq!(again.counts(2003), counts(3, 2));
    assert_eq!(again.counts(1000 + DAY_S), counts(2, 2));
    assert_eq!(again.counts(2002 + DAY_S), counts(0, 2));
    // A clock that was set back.
    assert_eq!(again.counts(0), counts(3, 2));
}

#[test]
fn a_line_cut_off_by_a_crash_is_forgotten_and_damage_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    let journal = Journal::open(dir.path()).unwrap();
    journal.begin(&proposal(&["r1"]), 1).unwrap();
    journal.begin(&proposal(&["r2"]), 2).unwrap();
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    let first = whole.iter().position(|&b| b == b'\n').unwrap() + 1;
    for cut in first..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        assert_eq!(journal.trainings().len(), 1, "cut at {cut}");
        assert_eq!(journal.begin(&proposal(&["r2"]), 2).unwrap(), 2);
        drop(journal);
        assert_eq!(std::fs::read(&path).unwrap(), whole);
    }
    let mut torn = whole.clone();
    torn[first / 2] = 0;
    std::fs::write(&path, &torn).unwrap();
    let error = Journal::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("line 1") && error.contains("damaged"), "{error}");
    std::fs::write(&path, &whole[first..]).unwrap();
    assert!(
        matches!(Journal::open(dir.path()), Err(JournalError(StateFileError::Damaged { .. }))),
        "its first line is gone"
    );
}

#[test]
fn changed_ids_are_damage() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(dir.path()).unwrap();
    journal.begin(&proposal(&["r1", "r2"]), 1).unwrap();
    let training = journal.trainings().remove(0);
    let file = journal.ids_file(&training.ids);
    let path = file.path();
    std::fs::write(path, "r1\n").unwrap();
    assert!(matches!(
        journal.records(&training),
        Err(JournalError(StateFileError::Damaged { .. }))
    ));
    std::fs::remove_file(path).unwrap();
    assert!(matches!(
        journal.records(&training),
        Err(JournalError(StateFileError::Damaged { .. }))
    ));
}
