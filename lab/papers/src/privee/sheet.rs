//! The shared parts of P's tables: a document of columns, and the check that compares the loss with
//! the feature error.

use vfl_attack::Method;
use vfl_core::model::TrainingConfig;

use super::super::document::{
    AttackFacts, Axis, Check, CheckKind, Curve, CurveRole, Document, Measure, ModelOrigin,
};
use super::super::experiment_model::ExperimentModel;
use super::super::statistics::mean;
use super::super::{Figure, Options, ReproduceError, blank};

/// The results of one point, by name of a curve.
pub(super) type PointResults = Vec<(String, f64)>;

/// The axis of a table.
pub(super) struct TableAxis {
    /// The label in words.
    pub(super) label: &'static str,
    /// The symbol of the axis.
    pub(super) symbol: &'static str,
    /// The unit that follows a point in a sentence.
    pub(super) unit: &'static str,
    /// The name of the quantity in an error message.
    pub(super) what: &'static str,
    /// The points of the paper.
    pub(super) of_paper: &'static [usize],
    /// The least and the largest valid point.
    pub(super) range: (usize, usize),
}

impl TableAxis {
    /// Returns the requested points, or the paper's.
    ///
    /// # Errors
    /// [`ReproduceError::Point`] with the first one out of range.
    pub(super) fn wanted(&self, options: &Options) -> Result<Vec<usize>, ReproduceError> {
        let (what, (from, to)) = (self.what, self.range);
        let wanted = if options.dimensions.is_empty() {
            self.of_paper.to_vec()
        } else {
            options.dimensions.clone()
        };
        match wanted.iter().find(|point| !(from..=to).contains(*point)) {
            Some(&got) => Err(ReproduceError::Point { what, got, from, to }),
            None => Ok(wanted),
        }
    }
}

/// An attack of a table: its name, and the settings of its gradient inversion.
pub(super) type NamedSettings = (&'static str, &'static [(&'static str, &'static str)]);

/// Returns a document with a column for each result of the points.
pub(super) fn sheet(
    (figure, subject, options): (Figure, &ExperimentModel, &Options),
    (points, values): (&TableAxis, &[usize]),
    (found, cpu): (&[PointResults], std::time::Duration),
    (attacks, config): (&[NamedSettings], &TrainingConfig),
    records: usize,
) -> Document {
    let mut document = blank(figure, subject, options.seed, records);
    let (label, symbol) = (points.label.into(), points.symbol.into());
    document.axis = Axis { label, symbol, points: values.to_vec(), determined_up_to: None };
    document.measure = Measure {
        label: "loss as P prints it; error of features where a curve's name ends in _error; points of accuracy where it begins so".into(),
        linear: false,
    };
    for (at, (name, _)) in found.first().into_iter().flatten().enumerate() {
        document.curves.push(Curve {
            name: name.clone(),
            role: if name.ends_with("_error") { CurveRole::Attack } else { CurveRole::Measured },
            of: None,
            x: values.iter().map(|point| *point as f64).collect(),
            mean: found.iter().map(|of| of[at].1).collect(),
            standard_error: None,
            spread: None,
        });
    }
    for (attack, settings) in attacks {
        document.attacks.push(AttackFacts {
            curve: (*attack).into(),
            method: Method::GradientInversion.to_string(),
            settings: settings
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            records,
            // This includes the training of the models, which all attacks share.
            cpu_seconds: cpu.as_secs_f64() / attacks.len() as f64,
        });
        document.checks.extend(check(&document, attack, points.unit));
    }
    document.model.origin = ModelOrigin::EachSplit { config: config.values().clone() };
    let of_test =
        document.curve("accuracy_inference").map_or(&[][..], |curve| curve.mean.as_slice());
    document.model.accuracy = mean(of_test.iter().copied()).mean / 100.0;
    document
}

/// Checks what the loss hides (our check): under PRIVEE the loss grows many times over, and the
/// error of the features does not.
fn check(document: &Document, attack: &str, unit: &str) -> Option<Check> {
    let of =
        |name: &str| document.curve(&format!("{attack}_{name}")).map(|curve| curve.mean.as_slice());
    let (loss, loss_none) = (of("privee_dp")?, of("none")?);
    let (error, error_none, aware) =
        (of("privee_dp_error")?, of("none_error")?, of("privee_dp_aware_error")?);
    let told: Vec<String> = document
        .axis
        .points
        .iter()
        .enumerate()
        .map(|(i, point)| {
            format!(
                "{point}{unit}: loss {:.3} from {:.3}, error {:.4} from {:.4}, {:.4} for who knows it",
                loss[i], loss_none[i], error[i], error_none[i], aware[i]
            )
        })
        .collect();
    Some(Check {
        id: format!("{attack}_loss_hides"),
        kind: CheckKind::Ours,
        claim: format!(
            "{attack}: behind PRIVEE the loss grows more than the error of the features (errata P1)"
        ),
        holds: (0..loss.len())
            .all(|i| loss[i] / loss_none[i].max(1e-12) > error[i] / error_none[i].max(1e-12)),
        comparisons: loss.len() as u64,
        detail: told.join("; "),
        violations: Vec::new(),
    })
}
