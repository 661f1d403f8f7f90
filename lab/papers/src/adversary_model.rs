//! V figure 8: the accuracy of the adversary's own model, by the number of active features.

use vfl_attack::agnostic::AdversaryModel;
use vfl_attack::{AgnosticSettings, Replacement};
use vfl_core::metrics::accuracy;
use vfl_core::types::{FeatureBlock, ReleasedScores};
use vfl_present::progress::Progress;

use super::agnostic::own;
use super::document::{Axis, Check, CheckKind, Curve, CurveRole, Document, Measure};
use super::experiment_model::ExperimentModel;
use super::statistics::mean;
use super::sweep::{select, starts};
use super::workers::in_order;
use super::{Figure, Options, ReproduceError, blank};

/// The default number of windows for each number of active features.
const WINDOWS: usize = 4;

/// Computes the figure: `--dimensions` are numbers of active features here.
pub(super) fn run(
    subject: &ExperimentModel,
    options: &Options,
) -> Result<Document, ReproduceError> {
    let total = subject.features();
    let mut dimensions = options.dimensions.clone();
    if dimensions.is_empty() {
        dimensions = (0..8).map(|i| 1 + i * (total - 1) / 7).collect();
    }
    dimensions.sort_unstable();
    dimensions.dedup();
    if let Some(&got) = dimensions.iter().find(|&&d| d < 1 || d > total) {
        return Err(ReproduceError::Dimension { got, total });
    }
    let starts = starts(total, options.windows.or(Some(WINDOWS)));
    // All features together have only one window.
    let pieces: Vec<(usize, usize)> = dimensions
        .iter()
        .flat_map(|&d| {
            starts.iter().take(if d == total { 1 } else { usize::MAX }).map(move |&k0| (d, k0))
        })
        .collect();
    let test = subject.test_records();
    let labelled = subject.own_records(options.own_records, options.seed);
    let work = |piece: usize| -> Result<(f64, bool), ReproduceError> {
        let (d, k0) = pieces[piece];
        let failed = |error| ReproduceError::Attack { curve: "am".into(), d: total - d, k0, error };
        let mut active: Vec<usize> = (0..d).map(|i| (k0 + i) % total).collect();
        active.sort_unstable();
        let own = own(&labelled, &active)?;
        let settings = AgnosticSettings::default();
        let (model, fit) = AdversaryModel::fit(
            &settings,
            &subject.training,
            subject.classes(),
            &own,
            None,
            Replacement::default(),
        )
        .map_err(failed)?;
        let y = FeatureBlock::new(select(test, &active, test.ncols()))?;
        let scores = ReleasedScores::Probabilities(model.scores(&y).map_err(failed)?.into_matrix());
        Ok((accuracy(&scores.predicted_labels(), &subject.labels)?, fit.converged))
    };
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); dimensions.len()];
    let mut short = 0u64;
    let mut progress = Progress::start("v-fig8", pieces.len() as u64);
    in_order(options.threads, pieces.len(), work, |piece, (accuracy, converged)| {
        let place = dimensions.iter().position(|d| *d == pieces[piece].0).unwrap_or_default();
        found[place].push(accuracy);
        short += u64::from(!converged);
        progress.at(piece as u64 + 1, &format!("{} active features", pieces[piece].0));
        Ok(())
    })?;
    progress.done(&format!("v-fig8: {} models fitted", pieces.len()));

    let mut document = blank(Figure::VFig8, subject, options.seed, test.ncols());
    document.axis = Axis {
        label: "number of active features".into(),
        symbol: "active".into(),
        points: dimensions.clone(),
        determined_up_to: None,
    };
    document.measure = Measure::linear("accuracy on the prediction records");
    let means: Vec<f64> = found.iter().map(|of| mean(of.iter().copied()).mean).collect();
    let joint = subject.model.accuracy;
    for (name, role, mean) in [
        ("am", CurveRole::Measured, means.clone()),
        ("vfl", CurveRole::Guess, vec![joint; dimensions.len()]),
    ] {
        document.curves.push(Curve {
            name: name.into(),
            role,
            of: None,
            x: dimensions.iter().map(|&d| d as f64).collect(),
            mean,
            standard_error: None,
            spread: None,
        });
    }
    document.checks.push(Check {
        id: "joint_accuracy".into(),
        kind: CheckKind::Paper,
        claim: "the joint model is right on at least 85 % (V section III)".into(),
        holds: joint >= 0.85,
        comparisons: 1,
        detail: format!("{joint:.4}"),
        violations: Vec::new(),
    });
    let falls: Vec<String> = dimensions
        .windows(2)
        .zip(means.windows(2))
        .filter(|(_, m)| m[1] < m[0])
        .map(|(d, m)| format!("{} to {} active features: {:.4} to {:.4}", d[0], d[1], m[0], m[1]))
        .collect();
    document.checks.push(Check {
        id: "rises_with_features".into(),
        kind: CheckKind::Paper,
        claim: "the adversary's model grows more accurate with every active feature (V remark 18)"
            .into(),
        holds: falls.is_empty(),
        comparisons: dimensions.len().saturating_sub(1) as u64,
        detail: format!("from {:.4} to {:.4}", means[0], means[means.len() - 1]),
        violations: falls,
    });
    document.notes.push(format!(
        "{} windows of each number of active features; models fitted to {} of {} training records",
        starts.len(),
        labelled.1.len(),
        subject.others.ncols()
    ));
    if short > 0 {
        document
            .notes
            .push(format!("{short} fits used up their epochs before the loss stopped falling"));
    }
    Ok(document)
}

/// Returns the gain in accuracy of the joint model over the adversary's, with about half of the
/// features active.
pub(super) fn gain(document: &Document) -> Option<f64> {
    let (am, vfl) = (document.curve("am")?, document.curve("vfl")?);
    let middle = am.mean.len() / 2;
    Some(vfl.mean.get(middle)? - am.mean.get(middle)?)
}
