//! Checks a document beyond its types, before it is written, rendered or believed.

use vfl_core::metrics::{AttributeFigures, ControlledFigure, ErrorReduction};

use super::attack_result::{AddedRisk, AttackResult, AttributeResult, Outcome, Status};
use super::build::config_sha256;
use super::document::{Audit, Party, READ_VERSIONS, Report, Role, SweepPoint};
use super::errors::{Errors, MetricFigure};
use super::surface::SurfaceKind;
use super::threat::ThreatModel;
use super::verdicts::verdicts;
use super::{ReportError, judge};

type CheckResult = Result<(), ReportError>;

fn refuse<T>(field: impl Into<String>, problem: impl Into<String>) -> Result<T, ReportError> {
    Err(ReportError::Invalid { field: field.into(), problem: problem.into() })
}

/// Checks that `x` is finite and in `[low, high]`.
fn within(field: &str, x: f64, low: f64, high: f64) -> CheckResult {
    if (low..=high).contains(&x) && x.is_finite() {
        return Ok(());
    }
    let range = if high.is_finite() {
        format!("in [{low}, {high}]")
    } else {
        format!("finite and at least {low}")
    };
    refuse(field, format!("is {x}, it must be {range}"))
}

fn optional(field: &str, x: Option<f64>, low: f64, high: f64) -> CheckResult {
    x.map_or(Ok(()), |x| within(field, x, low, high))
}

impl Report {
    /// Checks the numbers (finite, in range), lengths (errors by feature and by party), names
    /// (targets are passive parties), the configuration's hash, and that every surface is listed
    /// once.
    ///
    /// # Errors
    /// [`ReportError::Version`], or [`ReportError::Invalid`] with the first wrong field.
    pub fn check(&self) -> CheckResult {
        if !READ_VERSIONS.contains(&self.schema_version.into()) {
            return Err(ReportError::Version { got: self.schema_version.into() });
        }
        if self.generated.config_sha256 != config_sha256(&self.generated.config) {
            return refuse("generated.config_sha256", "is not the hash of generated.config");
        }
        optional("deployment.test_accuracy", self.deployment.test_accuracy, 0.0, 1.0)?;
        for party in &self.deployment.parties {
            if !party.feature_names.is_empty() && party.feature_names.len() != party.features {
                let problem = format!(
                    "holds {} names for {} features",
                    party.feature_names.len(),
                    party.features
                );
                return refuse(
                    format!("deployment.parties[{:?}].feature_names", party.name),
                    problem,
                );
            }
        }
        let held: usize = self.passive_parties().map(|p| p.features).sum();
        if held != self.deployment.d_passive {
            let problem =
                format!("is {}, but the passive parties hold {held}", self.deployment.d_passive);
            return refuse("deployment.d_passive", problem);
        }
        for kind in SurfaceKind::ALL {
            match self.surfaces.iter().filter(|s| s.surface == kind).count() {
                1 => {}
                n => {
                    return refuse(
                        "surfaces",
                        format!("list \"{}\" {n} times, not once", kind.label()),
                    );
                }
            }
        }
        let training = &self.deployment.training;
        if training.imported && (training.epochs, training.steps) != (0, 0) {
            return refuse(
                "deployment.training",
                "counts epochs or steps of a model that was imported",
            );
        }
        let thresholds = self.thresholds.unwrap_or_default();
        if let Err(problem) = thresholds.checked() {
            return refuse("thresholds", problem);
        }
        for (i, audit) in self.audits.iter().enumerate() {
            self.check_audit(&format!("audits[{i}]"), audit)?;
            if audit.thresholds != judge::results(&thresholds, audit) {
                return refuse(
                    format!("audits[{i}].thresholds"),
                    "are not what the thresholds and figures of the audit give",
                );
            }
        }
        for (i, scoring) in self.scoring.iter().enumerate() {
            let field = format!("scoring[{i}]");
            if !self.passive_parties().any(|p| p.name == scoring.party) {
                return refuse(
                    field,
                    format!("names {:?}, which is not a passive party", scoring.party),
                );
            }
            for rho in [scoring.rho_spent, scoring.rho_left, scoring.rho_total] {
                optional(&field, rho, 0.0, f64::INFINITY)?;
            }
        }
        for (i, metric) in self.metrics.iter().enumerate() {
            if self.metrics.iter().take(i).any(|other| other.name == metric.name) {
                return refuse(
                    format!("metrics[{i}]"),
                    format!("describes {:?} a second time", metric.name),
                );
            }
        }
        if let Some(sweep) = &self.sweep {
            self.check_names("sweep.threat_model", &sweep.threat_model)?;
            if !sweep.points.is_sorted_by(|a, b| a.d < b.d)
                || sweep.points.first().is_some_and(|p| p.d == 0)
            {
                return refuse(
                    "sweep.points",
                    "are not in strictly increasing order of d, from 1 on",
                );
            }
            sweep.points.iter().try_for_each(check_point)?;
        }
        for (i, row) in self.inferences.iter().enumerate() {
            for (name, figure) in [
                ("value", row.value),
                ("low", row.low),
                ("high", row.high),
                ("without", row.without),
            ] {
                within(
                    &format!("inferences[{i}].{name}"),
                    figure,
                    f64::NEG_INFINITY,
                    f64::INFINITY,
                )?;
            }
        }
        for (i, training) in self.private_trainings.iter().enumerate() {
            let field = format!("private_trainings[{i}]");
            if let Err(error) = training.privacy.checked() {
                return refuse(format!("{field}.privacy"), format!("holds no statement: {error}"));
            }
            within(&format!("{field}.test_accuracy"), training.test_accuracy, 0.0, 1.0)?;
            for (j, audit) in training.audits.iter().enumerate() {
                self.check_audit(&format!("{field}.audits[{j}]"), audit)?;
            }
        }
        if !self.verdicts.is_empty() && self.verdicts != verdicts(self) {
            return refuse("verdicts", "are not what the figures of the document give");
        }
        Ok(())
    }

    fn check_names(&self, field: &str, threat_model: &ThreatModel) -> CheckResult {
        for name in threat_model.target.iter().chain(&threat_model.colluding) {
            if !self.deployment.parties.iter().any(|p| p.role == Role::Passive && p.name == *name) {
                return refuse(
                    field,
                    format!("names {name:?}, which is not a passive party of the deployment"),
                );
            }
        }
        if let Some(both) =
            threat_model.target.iter().find(|name| threat_model.colluding.contains(name))
        {
            return refuse(field, format!("has {both:?} both as target and as helper"));
        }
        Ok(())
    }

    fn check_audit(&self, field: &str, audit: &Audit) -> CheckResult {
        self.check_names(&format!("{field}.threat_model"), &audit.threat_model)?;
        let u = &audit.utility;
        optional(&format!("{field}.utility.accuracy"), u.accuracy, 0.0, 1.0)?;
        optional(&format!("{field}.utility.accuracy_change"), u.accuracy_change, -1.0, 1.0)?;
        // Rounded scores may sum to more than 1: the divergence can then be slightly below 0.
        optional(
            &format!("{field}.utility.mean_kl_nats"),
            u.mean_kl_nats,
            f64::MIN,
            f64::INFINITY,
        )?;
        optional(
            &format!("{field}.utility.total_variation"),
            u.total_variation,
            0.0,
            f64::INFINITY,
        )?;
        optional(&format!("{field}.utility.bits"), u.bits, 0.0, f64::INFINITY)?;
        optional(&format!("{field}.utility.arg_max_kept"), u.arg_max_kept, 0.0, 1.0)?;
        optional(&format!("{field}.utility.mean_change"), u.mean_change, 0.0, 1.0)?;
        self.check_errors(&format!("{field}.baselines.half"), audit, &audit.baselines.half)?;
        self.check_errors(
            &format!("{field}.baselines.column_mean"),
            audit,
            &audit.baselines.column_mean,
        )?;
        for attack in &audit.attacks {
            let field = format!("{field}.attacks[{:?}]", attack.name);
            optional(
                &format!("{field}.score_mismatch"),
                attack.score_mismatch,
                0.0,
                f64::INFINITY,
            )?;
            if let Some(AddedRisk { control_mse, value, low, high, halves, .. }) =
                &attack.added_risk
            {
                within(
                    &format!("{field}.added_risk.control_mse"),
                    *control_mse,
                    f64::NEG_INFINITY,
                    f64::INFINITY,
                )?;
                for (name, figure) in [("value", value), ("low", low), ("high", high)] {
                    optional(
                        &format!("{field}.added_risk.{name}"),
                        *figure,
                        f64::NEG_INFINITY,
                        f64::INFINITY,
                    )?;
                }
                if low.zip(*high).is_some_and(|(low, high)| low > high) {
                    return refuse(
                        format!("{field}.added_risk"),
                        "has an interval that ends before it begins",
                    );
                }
                for (name, figure) in
                    halves.iter().flat_map(|h| [("first", h.first), ("second", h.second)])
                {
                    within(
                        &format!("{field}.added_risk.halves.{name}"),
                        figure,
                        f64::NEG_INFINITY,
                        f64::INFINITY,
                    )?;
                }
            }
            if attack.certain.is_some_and(|certain| certain > audit.records as u64) {
                return refuse(
                    format!("{field}.certain"),
                    format!("counts more than the {} records", audit.records),
                );
            }
            self.check_attributes(&format!("{field}.attributes"), audit, attack)?;
            let Outcome::Ran { status, errors } = &attack.outcome else { continue };
            self.check_errors(&field, audit, errors)?;
            if let Some((name, rank, unknowns)) = one_of_many(*status)
                && rank >= unknowns
            {
                return refuse(
                    field,
                    format!("is {name} with rank {rank} of {unknowns}: that would be unique"),
                );
            }
        }
        Ok(())
    }

    fn check_attributes(&self, field: &str, audit: &Audit, attack: &AttackResult) -> CheckResult {
        let targets = self.targets(&audit.threat_model);
        for AttributeResult { party, figures } in &attack.attributes {
            let field = format!("{field}[{:?}]", figures.attribute);
            let Some(of) = targets.iter().find(|target| target.name == *party) else {
                return refuse(field, format!("names {party:?}, which is not attacked"));
            };
            if let Some(column) = figures.columns.iter().find(|column| **column >= of.features) {
                return refuse(
                    field,
                    format!("has the column {column} of {} features", of.features),
                );
            }
            check_figures(&field, figures)?;
        }
        Ok(())
    }

    fn check_errors(&self, field: &str, audit: &Audit, errors: &Errors) -> CheckResult {
        // Noise may move a figure below 0.
        let least = |sigma: Option<f64>| if sigma.is_some() { f64::MIN } else { 0.0 };
        within(&format!("{field}.mse"), errors.mse, least(errors.sigma), f64::INFINITY)?;
        optional(&format!("{field}.sigma"), errors.sigma, 0.0, f64::INFINITY)?;
        let sigmas = errors.per_feature_sigma.len();
        if sigmas != 0 && sigmas != errors.per_feature.len() {
            let problem = format!("has {sigmas} entries for {} errors", errors.per_feature.len());
            return refuse(format!("{field}.per_feature_sigma"), problem);
        }
        for (i, sigma) in errors.per_feature_sigma.iter().enumerate() {
            within(&format!("{field}.per_feature_sigma[{i}]"), *sigma, 0.0, f64::INFINITY)?;
        }
        let targets = self.targets(&audit.threat_model);
        let d: usize = targets.iter().map(|p| p.features).sum();
        let got = errors.per_feature.len();
        if got != 0 && got != d {
            return refuse(
                format!("{field}.per_feature"),
                format!("has {got} errors for {d} attacked features"),
            );
        }
        for (i, x) in errors.per_feature.iter().enumerate() {
            let least = least(errors.per_feature_sigma.get(i).copied());
            within(&format!("{field}.per_feature[{i}]"), *x, least, f64::INFINITY)?;
        }
        for part in &errors.per_party {
            if !targets.iter().any(|p| p.name == part.party) {
                return refuse(
                    format!("{field}.per_party"),
                    format!("names {:?}, which is not attacked", part.party),
                );
            }
            within(
                &format!("{field}.per_party[{:?}]", part.party),
                part.mse,
                least(part.sigma),
                f64::INFINITY,
            )?;
            optional(
                &format!("{field}.per_party[{:?}].sigma", part.party),
                part.sigma,
                0.0,
                f64::INFINITY,
            )?;
        }
        errors.metrics.iter().try_for_each(|figure| self.check_metric(field, &targets, figure))
    }

    fn check_metric(&self, field: &str, targets: &[&Party], figure: &MetricFigure) -> CheckResult {
        let field = format!("{field}.metrics[{:?}]", figure.name);
        let Some(metric) = self.metrics.iter().find(|m| m.name == figure.name) else {
            return refuse(field, "is not among the metrics that the report describes");
        };
        // Noise may move a figure out of its range.
        let range = |sigma: Option<f64>| {
            if sigma.is_some() { (f64::MIN, f64::MAX) } else { (0.0, metric.unit.most()) }
        };
        let (low, high) = range(figure.sigma);
        optional(&format!("{field}.value"), figure.value, low, high)?;
        optional(&format!("{field}.sigma"), figure.sigma, 0.0, f64::INFINITY)?;
        for part in &figure.per_party {
            if !targets.iter().any(|p| p.name == part.party) {
                return refuse(
                    format!("{field}.per_party"),
                    format!("names {:?}, which is not attacked", part.party),
                );
            }
            let (low, high) = range(part.sigma);
            within(&format!("{field}.per_party[{:?}]", part.party), part.value, low, high)?;
            optional(
                &format!("{field}.per_party[{:?}].sigma", part.party),
                part.sigma,
                0.0,
                f64::INFINITY,
            )?;
        }
        Ok(())
    }
}

fn check_figures(field: &str, figures: &AttributeFigures) -> CheckResult {
    let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
    for (name, removed) in [("removed", figures.removed), ("removed_ranks", figures.removed_ranks)]
    {
        let Some(ErrorReduction { value, low, high, halves }) = removed else { continue };
        let field = format!("{field}.{name}");
        let halves = halves.iter().flatten().flat_map(|half| [half.value, half.deviation]);
        for figure in [value, low, high].into_iter().flatten().chain(halves) {
            within(&field, figure, least, most)?;
        }
        let ordered = value
            .zip(low.zip(high))
            .is_none_or(|(value, (low, high))| low <= value && value <= high);
        if !ordered {
            return refuse(field, "lies outside its interval");
        }
    }
    let named = figures.event.as_ref();
    let event =
        named.map(|event| ControlledFigure { attack: event.attack, control: event.control });
    let all = [
        ("error", figures.error, most),
        ("event", event, named.map_or(0.0, |event| event.named as f64)),
        ("auc", figures.auc, 1.0),
        ("top_category", figures.top_category, 1.0),
        ("within", figures.within.map(|within| within.share), 1.0),
        ("exact", figures.exact, 1.0),
        ("percentile_1", figures.percentile_1, most),
        ("percentile_5", figures.percentile_5, most),
    ];
    for (name, figure, most) in all {
        let Some(ControlledFigure { attack, control }) = figure else { continue };
        within(&format!("{field}.{name}"), attack, 0.0, most)?;
        within(&format!("{field}.{name}"), control, 0.0, most)?;
    }
    Ok(())
}

fn check_point(point: &SweepPoint) -> CheckResult {
    let field = format!("sweep.points[d = {}]", point.d);
    within(&format!("{field}.half"), point.half, 0.0, f64::INFINITY)?;
    within(&format!("{field}.column_mean"), point.column_mean, 0.0, f64::INFINITY)?;
    for attack in &point.attacks {
        optional(&format!("{field}.attacks[{:?}]", attack.name), attack.mse, 0.0, f64::INFINITY)?;
    }
    Ok(())
}

/// Returns the name, rank and unknowns of a status that implies many solutions. A centre may belong
/// to a set that bounds leave although the equations determine all.
fn one_of_many(status: Status) -> Option<(&'static str, usize, usize)> {
    match status {
        Status::LeastNorm { rank, unknowns } => Some(("least_norm", rank, unknowns)),
        Status::NearestHalf { rank, unknowns } => Some(("nearest_half", rank, unknowns)),
        Status::Guess
        | Status::Unique
        | Status::BestFit { .. }
        | Status::Centre { .. }
        | Status::Posterior { .. }
        | Status::GridPoint { .. }
        | Status::Regression
        | Status::LayerByLayer
        | Status::Descent
        | Status::Scaled
        | Status::IterationLimit { .. } => None,
    }
}
