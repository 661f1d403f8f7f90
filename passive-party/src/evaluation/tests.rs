//! What is counted, on disk and across restarts, failing disks, changes of mode and renewals.

mod by_attribute;
mod coverage;
mod played;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nalgebra::DMatrix;
use vfl_core::data::schema::{FeatureSchema, FeatureSpec};
use vfl_core::data::table::FeatureTable;
use vfl_core::types::{FeatureBlock, RecordIds};
use vfl_features::features::Features;
use vfl_protocol::scoring::{ReportedCandidates, ReportedError, ScoredCandidate};
use vfl_protocol::{Refusal, RefusalKind};
use vfl_state::files;
use vfl_transform::scoring::Gain;
use vfl_transform::scoring::accountant::RHO;

use super::record::set_name;
use super::scoring::ScoringAnswer;
use super::*;
use crate::config::{AuditMode, AuditPolicy};

/// 500 records of two features.
fn table() -> Features {
    let features = ["a", "b"].map(|name| FeatureSpec::numeric(name, 0.0, 1.0)).to_vec();
    let ids = RecordIds::new((0..500).map(|i| format!("r{i}"))).unwrap();
    let block = DMatrix::from_fn(2, 500, |f, r| ((r * 7 + f * 13) % 101) as f64 / 100.0);
    let schema = FeatureSchema::new(features, None).unwrap();
    FeatureTable::new(schema, ids, FeatureBlock::new(block).unwrap(), None).unwrap().into()
}

fn ids(from: usize, to: usize) -> RecordIds {
    RecordIds::new((from..to).map(|i| format!("r{i}"))).unwrap()
}

fn policy(mode: AuditMode) -> AuditPolicy {
    AuditPolicy { allowed: true, mode, ..Default::default() }
}

/// Where the record of a directory is.
fn path(dir: &Path) -> PathBuf {
    record::file(&dir.into()).path().to_owned()
}

fn open(dir: &Path, policy: AuditPolicy) -> Arc<Evaluations> {
    Arc::new(Evaluations::open(dir, policy).unwrap())
}

/// One candidate, ½ everywhere.
fn asked(evaluation: &Evaluation, rho: Option<f64>) -> ScoringRequest {
    let (d, n) = evaluation.shape();
    let candidate = evaluation.scorable(DMatrix::from_element(d, n, 0.5)).unwrap();
    ScoringRequest {
        candidates: vec![candidate],
        moments: false,
        control: Control::None,
        told: ReportedCandidates::All,
        by_feature: true,
        by_attribute: false,
        metrics: Vec::new(),
        rho,
    }
}

fn score(evaluation: &Evaluation, rho: f64) -> Result<(ScoringAnswer, RemainingBudget), Refusal> {
    evaluation.score(&asked(evaluation, Some(rho)))
}

#[test]
fn rho_is_spent_to_the_last_and_stays_spent_after_a_restart() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let evaluations = open(dir.path(), policy(AuditMode::Noised));
    let set = evaluations.start(&table, &ids(0, 100)).unwrap();
    assert_eq!(set.rho(), (RHO, RHO));
    assert!(set.baselines().unwrap().is_none(), "a baseline is a function of the truth: it costs");
    for round in 1..=3 {
        let (scored, left) = score(&set, RHO / 4.0).unwrap();
        assert!(scored.errors[0].error.sigma.unwrap() > 0.0);
        let RemainingBudget::Noised { spent, left } = left else { panic!("{left:?}") };
        assert!(
            (spent - RHO / 4.0).abs() < 1e-12
                && (left - RHO * f64::from(4 - round) / 4.0).abs() < 1e-12
        );
    }
    drop(evaluations);
    let evaluations = open(dir.path(), policy(AuditMode::Noised));
    // The same set in another order is the same set.
    let reversed = RecordIds::new((0..100).rev().map(|i| format!("r{i}"))).unwrap();
    let again = evaluations.start(&table, &reversed).unwrap();
    let refused = score(&again, RHO / 2.0).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::ResourceExhausted);
    assert!(refused.message.contains("0.021725 is left"), "{refused}");
    score(&again, RHO / 4.0).unwrap();
    assert_eq!(again.rho().1, 0.0);
    let refused = again.score(&asked(&again, None)).unwrap_err();
    assert!(
        refused.message.contains("0.005") && refused.message.contains("0.000000 is left"),
        "{refused}"
    );
    // Another set has its own budget.
    score(&evaluations.start(&table, &ids(100, 200)).unwrap(), RHO).unwrap();
}

#[test]
fn what_is_no_price_is_refused_and_costs_nothing() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let set = open(dir.path(), policy(AuditMode::Noised)).start(&table, &ids(0, 100)).unwrap();
    for rho in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
        assert_eq!(score(&set, rho).unwrap_err().kind, RefusalKind::InvalidArgument, "{rho}");
    }
    let nothing = ScoringRequest { candidates: Vec::new(), ..asked(&set, None) };
    assert_eq!(set.score(&nothing).unwrap_err().kind, RefusalKind::InvalidArgument);
    assert_eq!(set.rho().1, RHO);
}

/// No two requests at once get more than there is.
#[test]
fn the_budget_holds_under_many_requests_at_once() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let set =
        Arc::new(open(dir.path(), policy(AuditMode::Noised)).start(&table, &ids(0, 100)).unwrap());
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let set = set.clone();
            std::thread::spawn(move || (0..4).filter(|_| score(&set, RHO / 16.0).is_ok()).count())
        })
        .collect();
    let granted: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(granted, 16);
}

/// The disk refuses: no answer, nothing spent. It takes it again: all as before.
#[test]
fn without_a_disk_there_is_no_answer() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    for mode in [AuditMode::Noised, AuditMode::Trusted] {
        let dir = dir.path().join(mode.as_str());
        std::fs::create_dir(&dir).unwrap();
        let evaluations = open(&dir, policy(mode));
        let set = evaluations.start(&table, &ids(0, 100)).unwrap();
        let file = path(&dir);
        let before = std::fs::read(&file).unwrap();
        // A directory that holds something cannot be replaced by a file.
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir_all(file.join("in the way")).unwrap();
        let rho = (mode == AuditMode::Noised).then_some(0.01);
        for _ in 0..3 {
            let refused = set.score(&asked(&set, rho)).unwrap_err();
            assert_eq!(refused.kind, RefusalKind::Internal);
            assert!(refused.message.contains("cannot count the scoring on disk"), "{refused}");
        }
        assert_eq!(
            evaluations.start(&table, &ids(100, 200)).unwrap_err().kind,
            RefusalKind::Internal
        );
        let missing = evaluations.start(&table, &ids(450, 550)).unwrap_err();
        assert_eq!(
            missing.kind,
            RefusalKind::Internal,
            "not a word on membership that is not counted: {missing}"
        );
        std::fs::remove_dir_all(&file).unwrap();
        std::fs::write(&file, before).unwrap();
        let (_, left) = set.score(&asked(&set, rho)).unwrap();
        match left {
            RemainingBudget::Noised { left, .. } => assert!((left - (RHO - 0.01)).abs() < 1e-12),
            RemainingBudget::Trusted { scorings } => assert_eq!(scorings, 255),
        }
        // What was answered is what the disk says.
        let told = scorings(&dir, &policy(mode)).unwrap().sets.remove(0);
        assert_eq!(
            (told.noised_answers, told.scorings),
            if mode == AuditMode::Noised { (1, 0) } else { (0, 1) }
        );
    }
}

#[test]
fn sets_are_equal_or_disjoint() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let evaluations = open(dir.path(), policy(AuditMode::Noised));
    evaluations.start(&table, &ids(0, 100)).unwrap();
    let overlap = evaluations.start(&table, &ids(99, 250)).unwrap_err();
    assert_eq!(overlap.kind, RefusalKind::FailedPrecondition);
    assert!(overlap.message.contains("overlaps"), "{overlap}");
    assert_eq!(
        evaluations.start(&table, &ids(0, 99)).unwrap_err().kind,
        RefusalKind::InvalidArgument
    );
    evaluations.start(&table, &ids(100, 250)).unwrap();
    evaluations.start(&table, &ids(0, 100)).unwrap();
}

/// Before: "1 of the 100 records are not held here", as often as one liked.
#[test]
fn membership_is_asked_a_bounded_number_of_times() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let few = AuditPolicy { max_refused_openings: 3, ..policy(AuditMode::Noised) };
    let evaluations = open(dir.path(), few);
    evaluations.start(&table, &ids(0, 100)).unwrap();
    let one = evaluations.start(&table, &ids(401, 501)).unwrap_err();
    assert_eq!(one.kind, RefusalKind::NotFound);
    assert!(
        one.message.starts_with("some of the 100 records are not held here (2 more"),
        "not how many: {one}"
    );
    let many = evaluations.start(&table, &ids(450, 650)).unwrap_err();
    assert!(many.message.starts_with("100 or more of the 200 records"), "{many}");
    drop(evaluations);
    // A restart changes nothing. An overlap tells of records too, and counts.
    let evaluations = open(dir.path(), few);
    assert_eq!(
        evaluations.start(&table, &ids(50, 150)).unwrap_err().kind,
        RefusalKind::FailedPrecondition
    );
    for (from, to) in [(401, 501), (200, 300), (50, 150), (5000, 5200)] {
        let refused = evaluations.start(&table, &ids(from, to)).unwrap_err();
        assert_eq!(
            refused.kind,
            RefusalKind::ResourceExhausted,
            "held, not held or scored: the same answer"
        );
        assert!(refused.message.contains("passive-party scorings renew"), "{refused}");
    }
    evaluations.start(&table, &ids(0, 100)).unwrap();
    drop(evaluations);
    renew(dir.path(), None, "a list was wrong").unwrap();
    open(dir.path(), few).start(&table, &ids(200, 300)).unwrap();
}

#[test]
fn trusted_answers_are_bounded_by_set_in_sets_and_in_all() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let few = AuditPolicy {
        max_scorings: 3,
        max_total_scorings: 5,
        max_sets: 2,
        ..policy(AuditMode::Trusted)
    };
    let evaluations = open(dir.path(), few);
    let first = evaluations.start(&table, &ids(0, 100)).unwrap();
    let (half, mean) = first.baselines().unwrap().unwrap();
    assert!(mean.mse <= half.mse && half.sigma.is_none());
    let one = asked(&first, None);
    assert_eq!(
        first.score(&asked(&first, Some(0.01))).unwrap_err().kind,
        RefusalKind::InvalidArgument
    );
    let two = ScoringRequest { candidates: vec![one.candidates[0].clone(); 2], ..one.clone() };
    let (scored, left) = first.score(&two).unwrap();
    assert_eq!((scored.errors.len(), left), (2, RemainingBudget::Trusted { scorings: 1 }));
    assert_eq!(scored.errors[0].error, half, "½ is ½");
    let refused = first.score(&two).unwrap_err();
    assert!(refused.message.contains("2 candidates, and 1 scorings"), "{refused}");
    first.score(&one).unwrap();
    assert_eq!(first.score(&one).unwrap_err().kind, RefusalKind::ResourceExhausted);

    let second = evaluations.start(&table, &ids(100, 200)).unwrap();
    assert_eq!(second.scorings_left(), 2, "of five in all");
    second.score(&two).unwrap();
    assert_eq!(second.score(&one).unwrap_err().kind, RefusalKind::ResourceExhausted);
    for (from, to) in [(200, 300), (450, 550)] {
        let refused = evaluations.start(&table, &ids(from, to)).unwrap_err();
        assert_eq!(
            refused.kind,
            RefusalKind::ResourceExhausted,
            "no third set, and not a word on its records"
        );
    }
}

/// Exact answers void a budget: noise afterwards would promise what is gone.
#[test]
fn a_set_told_of_exactly_is_not_scored_with_noise() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    open(dir.path(), policy(AuditMode::Noised)).start(&table, &ids(0, 100)).unwrap();
    open(dir.path(), policy(AuditMode::Trusted)).start(&table, &ids(100, 200)).unwrap();
    let noised = open(dir.path(), policy(AuditMode::Noised));
    noised.start(&table, &ids(0, 100)).unwrap();
    let refused = noised.start(&table, &ids(100, 200)).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::FailedPrecondition);
    assert!(refused.message.contains("without noise before"), "{refused}");
    // An owner who comes to trust the auditor may have both scored so; from then on both are.
    open(dir.path(), policy(AuditMode::Trusted)).start(&table, &ids(0, 100)).unwrap();
    assert!(open(dir.path(), policy(AuditMode::Noised)).start(&table, &ids(0, 100)).is_err());
    let facts = scorings(dir.path(), &policy(AuditMode::Noised)).unwrap();
    assert!(facts.sets.iter().all(|s| s.told_exactly && s.least_error.is_none()));
    assert!(scoring_table(&facts).contains("nothing: it was told of without noise"));
}

/// Files of before noise say nothing of it: their sets were told of exactly.
#[test]
fn an_old_record_counts_as_exact_and_a_damaged_one_is_refused() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let all: Vec<String> = (0..100).map(|i| format!("r{i}")).collect();
    let mut sorted: Vec<&str> = all.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let old =
        serde_json::json!({"sets": [{"set": set_name(&sorted), "ids": sorted, "scorings": 7}]});
    std::fs::write(path(dir.path()), old.to_string()).unwrap();
    assert!(open(dir.path(), policy(AuditMode::Noised)).start(&table, &ids(0, 100)).is_err());
    let trusted = open(dir.path(), policy(AuditMode::Trusted)).start(&table, &ids(0, 100)).unwrap();
    assert_eq!(trusted.scorings_left(), 249);
    for damaged in [
        "",
        "{\"sets\":3}",
        &old.to_string().replace("\"scorings\":7", "\"scorings\":7,\"rho_spent\":-1.0"),
    ] {
        std::fs::write(path(dir.path()), damaged).unwrap();
        let refused =
            Evaluations::open(dir.path(), policy(AuditMode::Noised)).unwrap_err().to_string();
        assert!(
            refused.contains("is damaged") && refused.contains("restore it from a backup"),
            "{refused}"
        );
    }
}

/// An owner who trusts an auditor lets it choose other sets of the same records; noise never protects these records again.
#[test]
fn a_trusted_auditor_begins_anew_where_the_owner_says_so() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    assert!(matches!(begin_anew(dir.path(), "nothing yet"), Err(EvaluationError::NothingToClose)));
    let limited = AuditPolicy { max_sets: 1, ..policy(AuditMode::Trusted) };
    let trusted = open(dir.path(), limited);
    trusted.start(&table, &ids(0, 200)).unwrap();
    let halves = AuditPolicy { max_sets: 2, ..limited };
    let refused = open(dir.path(), halves).start(&table, &ids(0, 100)).unwrap_err();
    assert!(refused.message.contains("passive-party scorings begin-anew"), "{refused}");
    drop(trusted);
    let begun = begin_anew(dir.path(), "recommend on the records of the audit").unwrap();
    assert_eq!((begun.closed_sets, begun.set), (1, None));
    let anew = open(dir.path(), halves);
    for from in [0, 100] {
        anew.start(&table, &ids(from, from + 100)).unwrap();
    }
    // The limit counts from here, and so does the rule on overlaps.
    assert_eq!(
        anew.start(&table, &ids(200, 300)).unwrap_err().kind,
        RefusalKind::ResourceExhausted
    );
    drop(anew);
    let refused = open(dir.path(), AuditPolicy { max_sets: 9, ..halves })
        .start(&table, &ids(50, 150))
        .unwrap_err();
    assert!(refused.message.contains("overlaps"), "{refused}");
    begin_anew(dir.path(), "once more").unwrap();
    for from in [0, 50] {
        let refused = open(dir.path(), policy(AuditMode::Noised))
            .start(&table, &ids(from, from + 100))
            .unwrap_err();
        assert!(refused.message.contains("without noise before"), "{refused}");
    }
    let facts = scorings(dir.path(), &limited).unwrap();
    assert_eq!((facts.sets.len(), facts.trusted_sets_left), (3, 1));
    let text = scoring_table(&facts);
    assert!(
        text.contains("1 sets closed: recommend on") && text.contains("nothing: closed"),
        "{text}"
    );
}

#[test]
fn a_renewal_adds_a_budget_and_is_recorded() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let evaluations = open(dir.path(), policy(AuditMode::Noised));
    for from in [0, 100] {
        score(&evaluations.start(&table, &ids(from, from + 100)).unwrap(), RHO).unwrap();
    }
    drop(evaluations);
    let held = files::lock(&dir.path().join("lock")).unwrap().unwrap();
    assert!(matches!(renew(dir.path(), None, "yearly"), Err(EvaluationError::InUse)));
    drop(held);
    assert!(matches!(renew(dir.path(), None, " \n"), Err(EvaluationError::NoReason)));
    let first = scorings(dir.path(), &policy(AuditMode::Noised)).unwrap().sets.remove(0);
    assert_eq!((first.rho_left, first.noised_answers, first.told_exactly), (0.0, 1, false));
    for (prefix, count) in [("", 2), ("x", 0)] {
        let refused = renew(dir.path(), Some(prefix), "yearly").unwrap_err();
        assert!(
            matches!(refused, EvaluationError::NoSuchSet { count: c, .. } if c == count),
            "{refused}"
        );
    }
    let renewal = renew(dir.path(), Some(&first.set[..20]), "a new model").unwrap();
    assert_eq!(renewal.set.as_deref(), Some(first.set.as_str()));
    renew(dir.path(), None, "yearly").unwrap();
    let facts = scorings(dir.path(), &policy(AuditMode::Noised)).unwrap();
    let totals: Vec<f64> = facts.sets.iter().map(|s| s.rho_total).collect();
    assert!(
        (totals[0] - 3.0 * RHO).abs() < 1e-12 && (totals[1] - 2.0 * RHO).abs() < 1e-12,
        "{totals:?}"
    );
    // Rho adds up, and the promise shrinks with it.
    assert!(facts.sets[0].least_error.unwrap() < facts.sets[1].least_error.unwrap());
    assert!(
        (facts.sets[1].least_error.unwrap()
            - vfl_transform::scoring::accountant::least_error(2.0 * RHO))
        .abs()
            < 1e-12
    );
    assert_eq!(facts.renewals.len(), 2);
    let text = scoring_table(&facts);
    assert!(
        text.contains("a new model") && text.contains("all sets: yearly") && text.contains("UTC"),
        "{text}"
    );
    let set = open(dir.path(), policy(AuditMode::Noised)).start(&table, &ids(0, 100)).unwrap();
    score(&set, 2.0 * RHO).unwrap();
    assert_eq!(score(&set, RHO / 100.0).unwrap_err().kind, RefusalKind::ResourceExhausted);
}

/// Open scorings share a bounded memory, and a large one alone is let in.
#[test]
fn open_scorings_share_a_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let evaluations = open(dir.path(), policy(AuditMode::Trusted));
    let first = evaluations.room(100_000, 100).unwrap();
    let small: Vec<_> = (0..10).map(|_| evaluations.room(100, 2).unwrap()).collect();
    let refused = evaluations.room(100_000, 100).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::ResourceExhausted);
    assert!(refused.message.contains("of 256 MiB"), "{refused}");
    drop((first, small));
    drop(evaluations.room(1_000_000_000, 10_000).unwrap());
    drop(evaluations.room(100_000, 100).unwrap());
}
