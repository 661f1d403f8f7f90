//! Figures by attribute: what is told in either mode, and what it costs.

use super::*;

/// A scoring of the truth itself beside the mean, by attribute.
fn by_attribute(evaluation: &Evaluation, rho: Option<f64>) -> ScoringRequest {
    let (d, n) = evaluation.shape();
    // Off by little in the first feature, by the mean in the second.
    let block = table();
    let truth = block.memory().unwrap().block().matrix().columns(0, n).into_owned();
    let estimates =
        DMatrix::from_fn(d, n, |i, j| if i == 0 { truth[(0, j)] } else { truth.row(1).mean() });
    ScoringRequest {
        candidates: vec![evaluation.scorable(estimates).unwrap()],
        control: Control::ColumnMean,
        by_attribute: true,
        ..asked(evaluation, rho)
    }
}

#[test]
fn without_noise_each_attribute_has_its_figures() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let evaluations = open(dir.path(), policy(AuditMode::Trusted));
    let set = evaluations.start(&table, &ids(0, 200)).unwrap();
    let (scored, left) = set.score(&by_attribute(&set, None)).unwrap();
    let [told] = scored.errors.as_slice() else { panic!("one candidate") };
    let [a, b] = told.attributes.as_slice() else { panic!("two attributes") };
    assert_eq!((a.attribute.as_str(), b.attribute.as_str()), ("a", "b"));
    assert_eq!((a.removed.unwrap().value, b.removed.unwrap().value), (Some(1.0), Some(0.0)));
    assert_eq!((a.exact.unwrap().attack, b.exact.unwrap().attack), (1.0, 0.0));
    assert_eq!(a.event.as_ref().unwrap().named, 20);
    assert!(a.removed.unwrap().halves.is_some());
    // It costs what the candidate costs.
    let plain = ScoringRequest { by_attribute: false, ..by_attribute(&set, None) };
    let (plainly, after) = set.score(&plain).unwrap();
    let (
        RemainingBudget::Trusted { scorings: before },
        RemainingBudget::Trusted { scorings: after },
    ) = (left, after)
    else {
        panic!()
    };
    assert_eq!(before - after, 1);
    let bare = ScoredCandidate { attributes: Vec::new(), ..told.clone() };
    assert_eq!(plainly.errors, [bare]);
    let alone = ScoringRequest { control: Control::None, ..by_attribute(&set, None) };
    let refused = set.score(&alone).unwrap_err();
    assert_eq!(refused.kind, RefusalKind::InvalidArgument);
    assert!(
        refused.message.contains("`by_attribute` takes `by_feature` and a control"),
        "{refused}"
    );
}

#[test]
fn with_noise_the_share_removed_alone_is_told_and_read_off_the_errors() {
    let (dir, table) = (tempfile::tempdir().unwrap(), table());
    let evaluations = open(dir.path(), policy(AuditMode::Noised));
    let set = evaluations.start(&table, &ids(0, 400)).unwrap();
    let (scored, left) = set.score(&by_attribute(&set, Some(RHO / 2.0))).unwrap();
    let RemainingBudget::Noised { spent, .. } = left else { panic!("{left:?}") };
    assert!((spent - RHO / 2.0).abs() < 1e-12);
    let (error, control) = (&scored.errors[0].error, scored.control.as_ref().unwrap());
    for (feature, told) in scored.errors[0].attributes.iter().enumerate() {
        let removed = told.removed.unwrap();
        let ratio = error.by_feature[feature] / control.by_feature[feature];
        assert!(
            (removed.value.unwrap() - (1.0 - ratio).min(1.0)).abs() < 1e-12,
            "nothing beside what is told"
        );
        assert!(
            told.error.is_none()
                && told.event.is_none()
                && told.exact.is_none()
                && removed.halves.is_none()
        );
    }
    // The intervals of both hold together: each is wider than that of 95 % alone. That of the
    // second feature, whose ratio is 1; noise may take that of the first below 0, where it is cut.
    let sigma = |e: &ReportedError| e.sigma_by_feature.unwrap();
    let alone =
        Gain::of((error.by_feature[1], sigma(error)), (control.by_feature[1], sigma(control)))
            .interval;
    let together = scored.errors[0].attributes[1].removed.unwrap();
    let ((low, high), lower, higher) =
        (alone.unwrap(), together.low.unwrap(), together.high.unwrap());
    assert!(lower < low && higher > high, "{lower} {low} {high} {higher}");
}
