//! Thresholds: what meets them, what the document says of it, and what the reader is told.

use vfl_core::metrics::ErrorReduction;

use super::{fixture, invalid};
use crate::report::{
    AttackResult, Compliance, Errors, MetricFigure, PartyFigure, Policy, Report, Status, Threshold,
    Thresholds, not_met, render_html, render_summary,
};

fn demanded(max_added_risk: Option<f64>, max_exact_share: Option<f64>) -> Report {
    let mut report = fixture::informed();
    report.demand(Thresholds::new(max_added_risk, max_exact_share).unwrap());
    report
}

fn of(report: &Report, name: &str) -> Vec<(Threshold, Compliance, Option<f64>)> {
    let policy = report.audits.iter().map(|a| &a.policy).find(|p| p.name == name).unwrap();
    // What attacks are certain of has a test of its own.
    let asked =
        report.compliance(policy).into_iter().filter(|r| r.threshold != Threshold::MaxExact);
    asked.map(|r| (r.threshold, r.compliance, r.figure)).collect()
}

/// Records that an attack is certain of fail of themselves where any threshold is given: beyond 1 % unless another share is.
#[test]
fn records_that_an_attack_is_certain_of_are_counted() {
    let exact = |certain: Option<u64>, max_exact: Option<f64>| {
        let mut report = fixture::informed();
        report.audits[0].attacks[3].certain = certain;
        let thresholds =
            Thresholds { max_added_risk: Some(1.0), max_exact, ..Thresholds::default() };
        report.demand(thresholds.checked().unwrap());
        report.check().unwrap();
        let results = report.compliance(&fixture::policy("none"));
        let found = results.into_iter().find(|r| r.threshold == Threshold::MaxExact).unwrap();
        (found.compliance, found.figure, found.attack, not_met(&report))
    };
    use Compliance::{Met, NotMeasured, NotMet};
    assert_eq!(exact(None, Some(0.02)).0, NotMeasured);
    // 2000 records were attacked.
    assert_eq!(exact(None, None), (Met, Some(0.0), None, None));
    assert_eq!(exact(Some(20), None), (Met, Some(0.01), Some("least_squares".into()), None));
    let (compliance, figure, _, said) = exact(Some(21), None);
    assert_eq!((compliance, figure), (NotMet, Some(0.0105)));
    let said = said.unwrap();
    assert!(
        said.contains(
            "max_exact = 0.01: behind none, least_squares is certain to have rebuilt 1.1 %"
        ),
        "{said}"
    );
    assert_eq!(exact(Some(21), Some(0.5)).0, Met);
    assert_eq!(exact(Some(1), Some(0.0)).0, NotMet);
    let mut beyond = fixture::informed();
    beyond.audits[0].attacks[3].certain = Some(2001);
    assert!(invalid(&beyond).contains("counts more than the 2000 records"));
}

/// Bits are those of the policy, whatever attacks found: exact scores have no bound and meet none.
#[test]
fn bits_are_those_of_the_policy() {
    let found = |bits: Option<f64>, max_bits: f64| {
        let mut report = fixture::informed();
        report
            .audits
            .iter_mut()
            .filter(|a| a.policy.is_none())
            .for_each(|audit| audit.utility.bits = bits);
        let thresholds = Thresholds { max_bits: Some(max_bits), ..Thresholds::default() };
        report.demand(thresholds.checked().unwrap());
        report.check().unwrap();
        let results = report.compliance(&fixture::policy("none"));
        let [result] = &results[..] else { panic!("{results:?}") };
        (result.compliance, result.figure, not_met(&report).unwrap_or_default())
    };
    let (compliance, figure, said) = found(None, 100.0);
    assert_eq!((compliance, figure), (Compliance::NotMet, None));
    assert!(
        said.contains("max_bits = 100: no finite number of bits bounds what none tells"),
        "{said}"
    );
    let (compliance, figure, said) = found(Some(3.459), 3.0);
    assert_eq!((compliance, figure), (Compliance::NotMet, Some(3.459)));
    assert!(
        said.contains("max_bits = 3: none tells at most 3.46 bits a record, a factor of 11"),
        "{said}"
    );
    assert_eq!(found(Some(3.459), 3.5).0, Compliance::Met);
}

/// The upper end of the strongest informed attack decides, not its value and not the interval of a weaker attack.
#[test]
fn the_upper_end_of_the_interval_is_compared() {
    use {
        Compliance::{Met, NotMet},
        Threshold::MaxAddedRisk as Risk,
    };
    for (limit, compliance) in [(0.092, NotMet), (0.093, Met), (0.1, Met), (0.07, NotMet)] {
        let report = demanded(Some(limit), None);
        assert_eq!(of(&report, "class_label"), [(Risk, compliance, Some(0.093))], "{limit}");
        assert_eq!(of(&report, "none"), [(Risk, NotMet, Some(0.74))]);
        report.check().unwrap();
        assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    }
    // The audits without a control measure nothing, each by itself.
    let report = demanded(Some(0.1), None);
    let measured: Vec<Compliance> =
        report.audits.iter().map(|a| a.thresholds[0].compliance).collect();
    assert_eq!(
        measured,
        [vec![Compliance::NotMeasured; 4], vec![NotMet, NotMet, NotMet, Met]].concat()
    );
}

#[test]
fn the_largest_share_of_any_attack_is_compared_and_not_that_of_the_control() {
    use {
        Compliance::{Met, NotMet},
        Threshold::MaxExactShare as Share,
    };
    let report = demanded(None, Some(0.05));
    // The control reaches 0.12 everywhere; `gaussian` 0.31 of what is added.
    assert_eq!(of(&report, "class_label"), [(Share, Met, Some(0.31 * 0.063))]);
    assert_eq!(of(&report, "none"), [(Share, NotMet, Some(0.31 * 0.71))]);

    // With noise the upper end counts, and of several parties the worst.
    let mut noised = fixture::informed();
    let attack = &mut noised.audits[7].attacks[2];
    let mut errors = Errors::new(0.004, Vec::new());
    errors.metrics = vec![MetricFigure {
        name: "records_within".into(),
        value: Some(0.02),
        sigma: Some(0.01),
        per_party: vec![PartyFigure { party: "insurer".into(), value: 0.03, sigma: Some(0.02) }],
    }];
    *attack = AttackResult::ran("posterior_mean", Status::Unique, errors);
    noised.demand(Thresholds::new(None, Some(0.069)).unwrap());
    let [(_, compliance, Some(figure))] = of(&noised, "class_label")[..] else {
        panic!("one figure")
    };
    assert!(compliance == NotMet && (figure - (0.03 + 1.96 * 0.02)).abs() < 1e-12, "{figure}");
}

#[test]
fn noise_without_a_bound_meets_nothing_and_what_is_not_measured_is_not_met() {
    let mut open = fixture::informed();
    let all = open.audits[7].attacks.iter_mut().flat_map(|attack| &mut attack.attributes);
    all.for_each(|of| {
        of.figures.error = None;
        of.figures.removed =
            Some(ErrorReduction { value: Some(1.0), low: None, high: None, halves: None });
    });
    open.demand(Thresholds::new(Some(1.0), None).unwrap());
    assert_eq!(of(&open, "class_label"), [(Threshold::MaxAddedRisk, Compliance::NotMet, None)]);

    let mut unmeasured = fixture::report();
    unmeasured.demand(Thresholds::new(Some(1.0), Some(1.0)).unwrap());
    let results: Vec<Compliance> = unmeasured.unmet().iter().map(|r| r.compliance).collect();
    assert_eq!(results, [Compliance::NotMeasured; 2]);
    let said = not_met(&unmeasured).unwrap();
    assert!(
        said.contains("max_added_risk = 1: nothing measures") && said.contains("`auxiliary_ids`"),
        "{said}"
    );

    let mut empty = fixture::report();
    empty.audits.clear();
    empty.demand(Thresholds::new(Some(0.1), None).unwrap());
    assert_eq!(empty.unmet().len(), 2, "where nothing was audited nothing is met");
    assert!(not_met(&empty).unwrap().ends_with("Audit at least one policy."));
}

#[test]
fn the_policy_in_service_is_judged_or_else_the_first_audited() {
    let mut report = demanded(Some(0.1), None);
    assert_eq!(report.judged(), Some(&fixture::policy("none")));
    let said = not_met(&report).unwrap();
    assert!(
        said.starts_with(
            "max_added_risk = 0.1: the scores behind none add up to 74 % (posterior_mean"
        ),
        "{said}"
    );
    assert!(
        said.ends_with(
            "that meet every threshold it costs least, at a cost of 0.0 points of accuracy."
        ),
        "{said}"
    );
    assert!(said.contains("Serve class_label instead") && said.lines().count() == 1, "{said}");

    report.in_service = Some(fixture::policy("class_label"));
    assert!(report.unmet().is_empty() && not_met(&report).is_none());
    assert!(
        render_summary(&report, 100, false)
            .contains("Next: Serve class_label: it meets every threshold")
    );
    report.in_service = Some(Policy::new("nothing of these"));
    assert_eq!(report.judged(), Some(&fixture::policy("none")));

    // Nothing is demanded: nothing fails, and nothing is written.
    let plain = fixture::informed();
    assert!(not_met(&plain).is_none() && !plain.to_json().unwrap().contains("threshold"));
    let strict = demanded(Some(0.0), None);
    assert!(not_met(&strict).unwrap().contains("No policy audited meets every threshold"));
}

#[test]
fn a_document_that_says_otherwise_than_its_figures_is_refused() {
    let mut lies = demanded(Some(0.1), None);
    lies.audits[4].thresholds[0].compliance = Compliance::Met;
    assert!(invalid(&lies).starts_with("audits[4].thresholds are not what"));
    let mut silent = demanded(Some(0.1), None);
    silent.audits[4].thresholds.clear();
    assert!(invalid(&silent).starts_with("audits[4].thresholds are not what"));
    let mut undemanded = demanded(Some(0.1), None);
    undemanded.thresholds = None;
    assert!(invalid(&undemanded).starts_with("audits[0].thresholds are not what"));
    let mut beyond = demanded(Some(0.1), None);
    beyond.thresholds = Some(Thresholds { max_added_risk: Some(1.5), ..Thresholds::default() });
    assert_eq!(
        invalid(&beyond),
        "thresholds max_added_risk is 1.5; give a number from 0 to 1, as 0.1 for 10 %"
    );
}

#[test]
fn both_renderings_say_what_is_demanded_and_whether_it_is_met() {
    let report = demanded(Some(0.1), Some(0.05));
    let flat = render_summary(&report, 100, false).split_whitespace().collect::<Vec<_>>().join(" ");
    let html = render_html(&report).unwrap();
    for said in [
        "max_added_risk = 0.1: the scores behind none add up to 74 %",
        "max_exact_share = 0.05: behind none, gaussian estimates every value of 22.0 % of the records to within 0.1",
        "Serve class_label instead",
    ] {
        assert!(flat.contains(said), "{said}: {flat}");
        assert!(html.contains(said), "{said}");
    }
    assert!(flat.contains("Threshold not met: max_added_risk"));
    assert!(
        html.contains("accepted: 10 %")
            && !render_html(&fixture::informed()).unwrap().contains("accepted: ")
    );
}

/// The informed adversary of the fixture learns from records; a white box that solves the equations of exact scores finds everything.
/// The policy is then judged by the white box, in the document, on the page and in the terminal.
#[test]
fn an_attack_that_finds_more_than_the_informed_one_is_what_a_policy_is_judged_by() {
    use {
        Compliance::{Met, NotMet},
        Threshold::MaxAddedRisk as Risk,
    };
    let least_squares = |report: &mut Report, audit: usize, errors: Errors| {
        let attack = report.audits[audit]
            .attacks
            .iter_mut()
            .find(|attack| attack.name == "least_squares")
            .unwrap();
        *attack = AttackResult::ran("least_squares", Status::Unique, errors);
        report.demand(Thresholds::new(Some(0.8), None).unwrap());
    };
    let said = |report: &Report| {
        render_summary(report, 100, false).split_whitespace().collect::<Vec<_>>().join(" ")
    };

    let mut report = demanded(Some(0.8), None);
    assert_eq!(of(&report, "none"), [(Risk, Met, Some(0.74))]);
    assert!(!said(&report).contains("exactly"), "{}", said(&report));
    least_squares(&mut report, 0, fixture::errors(4e-27, 5));
    assert_eq!(of(&report, "none"), [(Risk, NotMet, Some(1.0))]);
    assert_eq!(report.unmet()[0].attack.as_deref(), Some("least_squares"));
    let exactly = "behind none, least_squares rebuilds all passive features exactly";
    assert!(said(&report).contains(exactly), "{}", said(&report));
    assert!(said(&report).contains("* none 100 % – 4.00e-27"), "{}", said(&report));
    assert!(render_html(&report).unwrap().contains(exactly));
    report.check().unwrap();

    // Within the interval of the informed attack it is not told from it, nor where noise covers the difference.
    for (mse, sigma) in [(0.005 * (1.0 - 0.74), None), (0.005 * 0.1, Some(0.001))] {
        let mut errors = fixture::errors(mse, 5);
        errors.sigma = sigma;
        least_squares(&mut report, 0, errors);
        assert_eq!(of(&report, "none"), [(Risk, Met, Some(0.74))], "{mse}");
    }
    // With noise that does not, the upper end is compared.
    let mut errors = fixture::errors(0.0005, 5);
    errors.sigma = Some(0.0001);
    least_squares(&mut report, 0, errors);
    let [(_, compliance, Some(figure))] = of(&report, "none")[..] else { panic!("one figure") };
    assert!(
        compliance == NotMet && (figure - (1.0 - (0.0005 - 1.96 * 0.0001) / 0.005)).abs() < 1e-12,
        "{figure}"
    );
    // Whoever is after other features is not compared.
    least_squares(&mut report, 0, fixture::errors(4e-27, 5));
    report.audits[0].threat_model.target = vec!["insurer".into()];
    assert_eq!(of(&report, "none"), [(Risk, Met, Some(0.74))]);
}
