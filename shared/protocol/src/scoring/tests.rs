//! Every field of the messages of scorings comes back.

use std::array::from_fn;

use vfl_core::metrics::METRICS;
use vfl_transform::TransformConfig;

use super::*;
use crate::convert::tests::comes_back;
use crate::pb::attribute_figures::{Beside, Event, event};

/// An error with every field, whose figures lie above `from`.
fn error(from: f64) -> pb::ReconstructionError {
    let metric = |metric: &str, at: f64| pb::MetricFigure {
        metric: metric.to_owned(),
        value: Some(from + at),
        sigma: Some(from + at + 0.01),
    };
    pb::ReconstructionError {
        mse: from + 0.1,
        mse_by_feature: vec![from + 0.2, from + 0.3],
        sigma: Some(from + 0.4),
        sigma_by_feature: Some(from + 0.5),
        metrics: vec![metric("a", 0.6), metric("b", 0.7)],
    }
}

/// The figures of an attribute, with every field.
fn figures(event: event::Event) -> pb::AttributeFigures {
    let beside = |at: f64| Some(Beside { attack: at, control: at + 0.5 });
    let half = |at: f64| pb::removed::Half { value: at, deviation: at + 0.5 };
    let removed = |at: f64| {
        Some(pb::Removed {
            value: Some(at),
            low: Some(at - 0.1),
            high: Some(at + 0.1),
            halves: vec![half(at + 0.2), half(at + 0.3)],
        })
    };
    pb::AttributeFigures {
        attribute: "late".into(),
        columns: vec![2, 4],
        error: beside(1.0),
        removed: removed(2.0),
        removed_ranks: removed(3.0),
        event: Some(Event { event: Some(event), named: 20, having: 30, right: beside(4.0) }),
        auc: beside(5.0),
        top_category: beside(6.0),
        within: beside(7.0),
        tolerance: 8.0,
        exact: beside(9.0),
        percentile_1: beside(10.0),
        percentile_5: beside(11.0),
    }
}

#[test]
fn every_field_of_an_opening_comes_back() {
    let transform = |text: &str| Some((&text.parse::<TransformConfig>().unwrap()).into());
    for mode in [pb::ScoringMode::Noised, pb::ScoringMode::Trusted] {
        for at in 0..3 {
            let [granted, disclosed, moments] = from_fn(|flag| flag == at);
            comes_back::<_, ScoringInfo>(pb::EvaluationOpened {
                feature_names: vec!["a".into(), "b".into()],
                half: Some(error(1.0)),
                column_mean: Some(error(2.0)),
                scorings_left: 3,
                shown: Some(pb::ShownParameters {
                    granted,
                    transformed: true,
                    trained_on_transformed: true,
                    disclosed,
                    of_weights: transform("stiefel (epsilon = 0.1)"),
                    interpretability: Some(4.0),
                    of_features: transform("negate"),
                }),
                mode: mode.into(),
                rho_total: Some(5.0),
                rho_left: Some(6.0),
                rho_per_scoring: Some(7.0),
                moments,
            });
        }
    }
}

#[test]
fn every_field_of_a_question_comes_back() {
    let score = |told, control, at: usize| {
        let [by_feature, moments, by_attribute] = from_fn(|flag| flag == at);
        pb::Score {
            told,
            by_feature,
            control,
            rho: Some(0.25),
            metrics: METRICS.iter().rev().map(|metric| metric.name().to_owned()).collect(),
            moments,
            by_attribute,
        }
    };
    let (all_told, all_controls) = (0..=2, 0..=4);
    for told in all_told {
        for control in all_controls.clone() {
            (0..3).for_each(|at| comes_back::<_, Question>(score(told, control, at)));
        }
    }
    assert!(Question::try_from(score(3, 0, 0)).is_err());
    assert!(Question::try_from(score(0, 5, 0)).is_err());
}

#[test]
fn every_field_of_an_answer_comes_back() {
    for event in [
        event::Event::Rarer(12.0),
        event::Event::NotUsual(13.0),
        event::Event::TopDecile(14.0),
        event::Event::Category("job=a".into()),
    ] {
        comes_back::<_, ScoringReport>(pb::Scored {
            best: Some(1),
            errors: vec![pb::scored::Candidate {
                candidate: 2,
                error: Some(error(1.0)),
                gain: Some(pb::Gain {
                    value: Some(0.1),
                    low: Some(0.2),
                    high: Some(0.3),
                    halves: Some(pb::Halves { first: 0.4, second: 0.5 }),
                }),
                attributes: vec![figures(event)],
            }],
            control: Some(error(2.0)),
            clipped: vec![3, 4],
            rho_spent: Some(5.0),
            rho_left: Some(6.0),
            scorings_left: 7,
        });
    }
}
