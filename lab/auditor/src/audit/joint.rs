//! Combines the errors of several passive parties into one figure.

use vfl_core::metrics::{Attribute, AttributeFigures};
use vfl_numerics::{three_significant_digits, two_sided_normal};
use vfl_protocol::scoring::ReportedError;
use vfl_transform::scoring::{Gain, Halves};

use crate::report::{AddedRisk, Errors, MetricFigure, PartyError, PartyFigure};

/// Returns the number of a party's features, which weights its errors among those of other parties.
fn feature_count(error: &ReportedError) -> f64 {
    error.by_feature.len() as f64
}

/// Combines the errors of several passive parties into the mean over all features and each
/// feature's own error. Noise of different parties is independent.
pub(super) fn joint(parties: &[(String, ReportedError)]) -> Errors {
    let per_feature: Vec<f64> =
        parties.iter().flat_map(|(_, e)| e.by_feature.iter().copied()).collect();
    let d = per_feature.len().max(1) as f64;
    let weighted: f64 = parties.iter().map(|(_, e)| e.mse * feature_count(e)).sum();
    let noised = parties.iter().any(|(_, e)| e.sigma.is_some());
    let mse = weighted / d;
    let mut errors =
        Errors::new(if noised { mse } else { three_significant_digits(mse) }, per_feature);
    if noised {
        let share = |e: &ReportedError| e.sigma.unwrap_or(0.0) * feature_count(e) / d;
        errors.sigma = Some(parties.iter().map(|(_, e)| share(e).powi(2)).sum::<f64>().sqrt());
        let each = |e: &ReportedError| {
            std::iter::repeat_n(e.sigma_by_feature.unwrap_or(0.0), e.by_feature.len())
        };
        errors.per_feature_sigma = parties.iter().flat_map(|(_, e)| each(e)).collect();
    }
    errors.metrics = joint_metrics(parties);
    if parties.len() < 2 {
        return errors;
    }
    let part = |(party, e): &(String, ReportedError)| PartyError {
        party: party.clone(),
        mse: e.mse,
        sigma: e.sigma,
    };
    errors.with_parties(parties.iter().map(part).collect())
}

/// Returns the figures of an attribute with noise. Their intervals hold jointly for `all`
/// attributes in 95 of 100 scorings (Bonferroni). `None` without noise.
pub(super) fn together(
    attribute: &Attribute,
    attack: &ReportedError,
    control: &ReportedError,
    all: usize,
) -> Option<AttributeFigures> {
    let z = two_sided_normal(0.05 / all.max(1) as f64);
    let (attack, control) = (
        (&attack.by_feature[..], attack.sigma_by_feature?),
        (&control.by_feature[..], control.sigma_by_feature?),
    );
    Some(AttributeFigures::of_noised(attribute, attack, control, z))
}

/// Returns the added risk of an attack on the features of several parties over its control, named
/// `control`. `gains` has each party's gain, in the order of `attack`.
///
/// The interval of several parties is the mean of their intervals, weighted by the errors of their
/// controls. It is valid however the errors of the parties depend on each other.
pub(super) fn added_risk(
    control: &str,
    attack: &[(String, ReportedError)],
    controls: &[(String, ReportedError)],
    gains: &[Option<Gain>],
) -> AddedRisk {
    let total = |told: &[(String, ReportedError)]| {
        told.iter().map(|(_, e)| e.mse * feature_count(e)).sum::<f64>()
    };
    let features: f64 = controls.iter().map(|(_, e)| feature_count(e)).sum();
    let (error, guess) = (total(attack), total(controls));
    let mut risk = AddedRisk {
        control: control.into(),
        control_mse: three_significant_digits(guess / features.max(1.0)),
        value: (guess > 0.0).then(|| three_significant_digits((1.0 - error / guess).min(1.0))),
        low: None,
        high: None,
        halves: None,
    };
    if let [Some(gain)] = gains {
        risk.value = gain.value;
    }
    // Weighted in the same way as the interval, so that the value lies in it.
    let values: Option<Vec<f64>> = gains.iter().map(|gain| gain.and_then(|g| g.value)).collect();
    if let Some(values) = values.filter(|values| guess > 0.0 && values.len() > 1) {
        let weights = controls.iter().map(|(_, e)| e.mse * feature_count(e) / guess);
        risk.value = Some(weights.zip(values).map(|(w, value)| w * value).sum());
    }
    let ends: Option<Vec<(f64, f64)>> =
        gains.iter().map(|gain| gain.and_then(|g| g.interval)).collect();
    if let Some(ends) = ends.filter(|_| guess > 0.0) {
        let weights = controls.iter().map(|(_, e)| e.mse * feature_count(e) / guess);
        let (low, high) = weights
            .zip(&ends)
            .fold((0.0, 0.0), |(l, h), (w, (low, high))| (l + w * low, h + w * high));
        (risk.low, risk.high) = (Some(low), Some(high));
    }
    // Halves are weighted by the controls of all records.
    let halves: Option<Vec<_>> = gains.iter().map(|gain| gain.and_then(|g| g.halves)).collect();
    risk.halves = halves.filter(|_| guess > 0.0).map(|halves| {
        let weights = controls.iter().map(|(_, e)| e.mse * feature_count(e) / guess);
        let add = |all: Halves, (w, of): (f64, Halves)| Halves {
            first: all.first + w * of.first,
            second: all.second + w * of.second,
        };
        weights.zip(halves).fold(Halves { first: 0.0, second: 0.0 }, add)
    });
    risk
}

/// Combines the metrics of several passive parties: the mean weighted by features, over the parties
/// where a metric is defined. A metric that some party was not asked for, such as that of a guess
/// with noise, is left out.
fn joint_metrics(parties: &[(String, ReportedError)]) -> Vec<MetricFigure> {
    let Some((_, first)) = parties.first() else { return Vec::new() };
    let mut joint = Vec::new();
    for name in first.metrics.iter().map(|m| &m.metric) {
        let told = parties.iter().filter_map(|(party, e)| {
            let figure = e.metrics.iter().find(|m| m.metric == *name)?;
            Some((party, feature_count(e), figure))
        });
        let told: Vec<_> = told.collect();
        if told.len() < parties.len() {
            continue;
        }
        let defined: Vec<_> =
            told.into_iter().filter_map(|(p, d, m)| m.value.map(|v| (p, d, v, m.sigma))).collect();
        let features: f64 = defined.iter().map(|(_, d, ..)| d).sum();
        let mean = defined.iter().map(|(_, d, value, _)| d * value).sum::<f64>() / features;
        let noise = defined
            .iter()
            .map(|(_, d, _, sigma)| (d * sigma.unwrap_or(0.0) / features).powi(2))
            .sum::<f64>();
        let noised = defined.iter().any(|(.., sigma)| sigma.is_some());
        let value = if noised { mean } else { three_significant_digits(mean) };
        let part = |(party, _, value, sigma): &(&String, f64, f64, Option<f64>)| PartyFigure {
            party: (*party).clone(),
            value: *value,
            sigma: *sigma,
        };
        joint.push(MetricFigure {
            name: name.clone(),
            value: (!defined.is_empty()).then_some(value),
            sigma: noised.then(|| noise.sqrt()),
            per_party: if parties.len() < 2 {
                Vec::new()
            } else {
                defined.iter().map(part).collect()
            },
        });
    }
    joint
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;
    use rand_distr::StandardNormal;
    use vfl_core::data::schema::FeatureSpec;
    use vfl_core::metrics::attributes;

    fn told(party: &str, mse: f64, features: usize) -> (String, ReportedError) {
        let by_feature = vec![mse; features];
        (
            party.into(),
            ReportedError {
                mse,
                by_feature,
                sigma: None,
                sigma_by_feature: None,
                metrics: Vec::new(),
            },
        )
    }

    /// Three parties have five attributes each, of which the attack reveals nothing. Among the
    /// intervals of all fifteen, one claims a leak in at most 5 of 100 audits. Intervals of each
    /// party by itself do in 7.
    #[test]
    fn intervals_of_several_parties_hold_together() {
        let schema = attributes(
            &(0..5).map(|i| FeatureSpec::numeric(format!("x{i}"), 0.0, 1.0)).collect::<Vec<_>>(),
        );
        let mut rng = ChaCha20Rng::seed_from_u64(11);
        let (sigma, audits) = (0.002, 4000);
        let mut errors = || {
            let by_feature =
                (0..5).map(|_| 0.04 + sigma * rng.sample::<f64, _>(StandardNormal)).collect();
            ReportedError {
                mse: 0.04,
                by_feature,
                sigma: None,
                sigma_by_feature: Some(sigma),
                metrics: Vec::new(),
            }
        };
        let mut leaks = [0; 2];
        for _ in 0..audits {
            let told: Vec<_> = (0..3).map(|_| (errors(), errors())).collect();
            for (leaks, all) in leaks.iter_mut().zip([15, 5]) {
                let low = |told: &(ReportedError, ReportedError), of: &Attribute| {
                    together(of, &told.0, &told.1, all)?.removed?.low
                };
                let claims = |told: &(ReportedError, ReportedError)| {
                    schema.iter().any(|of| low(told, of).unwrap() > 0.0)
                };
                *leaks += usize::from(told.iter().any(claims));
            }
        }
        // Half of the misses of two-sided intervals are claimed leaks.
        let rate = leaks.map(|leaks| leaks as f64 / f64::from(audits));
        assert!(rate[0] < 0.035 && rate[1] > 0.05, "{rate:?}");
        let exact = ReportedError { sigma_by_feature: None, ..errors() };
        assert!(together(&schema[0], &exact, &exact, 15).is_none());
    }

    /// Two parties: the figure is that of all features together, and the interval contains it.
    #[test]
    fn what_is_added_of_two_parties_is_that_of_all_features() {
        let attack = [told("a", 0.02, 3), told("b", 0.01, 1)];
        let control = [told("a", 0.04, 3), told("b", 0.08, 1)];
        let halves = |value| Halves { first: value, second: value + 0.1 };
        let gain = |value, low, high| {
            Some(Gain {
                value: Some(value),
                interval: Some((low, high)),
                halves: Some(halves(value)),
            })
        };
        let risk = added_risk(
            "imputation",
            &attack,
            &control,
            &[gain(0.5, 0.4, 0.6), gain(0.875, 0.8, 0.95)],
        );
        // (3 · 0.02 + 0.01) / (3 · 0.04 + 0.08) = 0.35; the controls weigh 0.6 and 0.4.
        assert!((risk.value.unwrap() - 0.65).abs() < 1e-12 && risk.control_mse == 0.05);
        let (low, high) = (risk.low.unwrap(), risk.high.unwrap());
        assert!(
            (low - (0.6 * 0.4 + 0.4 * 0.8)).abs() < 1e-12
                && (high - (0.6 * 0.6 + 0.4 * 0.95)).abs() < 1e-12
        );
        let halves = risk.halves.unwrap();
        let first = 0.6 * 0.5 + 0.4 * 0.875;
        assert!(
            (halves.first - first).abs() < 1e-12 && (halves.second - first - 0.1).abs() < 1e-12
        );
        // Nothing is claimed if one party gives no interval, or if the control has no error.
        let open = added_risk("imputation", &attack, &control, &[gain(0.5, 0.4, 0.6), None]);
        assert_eq!((open.value, open.low, open.high, open.halves), (Some(0.65), None, None, None));
        let sure = [told("a", 0.0, 3), told("b", 0.0, 1)];
        let none = added_risk("imputation", &attack, &sure, &[None, None]);
        assert_eq!((none.value, none.low, none.high), (None, None, None));
    }
}
