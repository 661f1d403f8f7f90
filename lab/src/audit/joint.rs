//! The errors of several passive parties as one figure.

use vfl_shared::numerics::three_significant_digits;

use super::told::{ErrorsTold, GainTold};
use crate::report::{AddedRisk, Errors, MetricFigure, PartyError, PartyFigure};

/// Puts the errors of several passive parties together: the mean over all features, and each feature's own. Noise of different parties is
/// independent.
pub(super) fn joint(parties: &[(String, ErrorsTold)]) -> Errors {
    let per_feature: Vec<f64> = parties.iter().flat_map(|(_, e)| e.by_feature.iter().copied()).collect();
    let d = per_feature.len().max(1) as f64;
    let weighted: f64 = parties.iter().map(|(_, e)| e.mse * e.features()).sum();
    let noised = parties.iter().any(|(_, e)| e.sigma.is_some());
    let mse = weighted / d;
    let mut errors = Errors::new(if noised { mse } else { three_significant_digits(mse) }, per_feature);
    if noised {
        let share = |e: &ErrorsTold| e.sigma.unwrap_or(0.0) * e.features() / d;
        errors.sigma = Some(parties.iter().map(|(_, e)| share(e).powi(2)).sum::<f64>().sqrt());
        let each = |e: &ErrorsTold| std::iter::repeat_n(e.sigma_by_feature.unwrap_or(0.0), e.by_feature.len());
        errors.per_feature_sigma = parties.iter().flat_map(|(_, e)| each(e)).collect();
    }
    errors.metrics = joint_metrics(parties);
    if parties.len() < 2 {
        return errors;
    }
    let part = |(party, e): &(String, ErrorsTold)| PartyError { party: party.clone(), mse: e.mse, sigma: e.sigma };
    errors.with_parties(parties.iter().map(part).collect())
}

/// What an attack on the features of several parties adds to its control, whose name is `control`. `gains` has what each party says, in
/// the order of `attack`.
///
/// The interval of several parties is the mean of theirs, weighted as their controls are: it holds what it says however the errors
/// of the parties depend on each other.
pub(super) fn added_risk(
    control: &str,
    attack: &[(String, ErrorsTold)],
    controls: &[(String, ErrorsTold)],
    gains: &[Option<GainTold>],
) -> AddedRisk {
    let total = |told: &[(String, ErrorsTold)]| told.iter().map(|(_, e)| e.mse * e.features()).sum::<f64>();
    let features: f64 = controls.iter().map(|(_, e)| e.features()).sum();
    let (error, guess) = (total(attack), total(controls));
    let mut risk = AddedRisk {
        control: control.into(),
        control_mse: three_significant_digits(guess / features.max(1.0)),
        value: (guess > 0.0).then(|| three_significant_digits(1.0 - error / guess)),
        low: None,
        high: None,
    };
    if let [Some(gain)] = gains {
        risk.value = gain.value;
    }
    let ends: Option<Vec<(f64, f64)>> = gains.iter().map(|gain| gain.and_then(|g| g.interval)).collect();
    if let Some(ends) = ends.filter(|_| guess > 0.0) {
        let weights = controls.iter().map(|(_, e)| e.mse * e.features() / guess);
        let (low, high) = weights.zip(&ends).fold((0.0, 0.0), |(l, h), (w, (low, high))| (l + w * low, h + w * high));
        (risk.low, risk.high) = (Some(low), Some(high));
    }
    risk
}

/// Puts the metrics of several passive parties together: the mean weighted by features, over the parties where a metric is defined.
/// One that a party was not asked for, as that of a guess with noise, is left out.
fn joint_metrics(parties: &[(String, ErrorsTold)]) -> Vec<MetricFigure> {
    let Some((_, first)) = parties.first() else { return Vec::new() };
    let mut joint = Vec::new();
    for name in first.metrics.iter().map(|m| &m.metric) {
        let told = parties.iter().filter_map(|(party, e)| {
            let figure = e.metrics.iter().find(|m| m.metric == *name)?;
            Some((party, e.features(), figure))
        });
        let told: Vec<_> = told.collect();
        if told.len() < parties.len() {
            continue;
        }
        let defined: Vec<_> = told.into_iter().filter_map(|(p, d, m)| m.value.map(|v| (p, d, v, m.sigma))).collect();
        let features: f64 = defined.iter().map(|(_, d, ..)| d).sum();
        let mean = defined.iter().map(|(_, d, value, _)| d * value).sum::<f64>() / features;
        let noise = defined.iter().map(|(_, d, _, sigma)| (d * sigma.unwrap_or(0.0) / features).powi(2)).sum::<f64>();
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
            per_party: if parties.len() < 2 { Vec::new() } else { defined.iter().map(part).collect() },
        });
    }
    joint
}
