//! A control for adversaries that know whole records: for each attribute, the imputation that errs
//! least on the known records.
//!
//! It chooses by records that are not under attack, which costs an audit with noise nothing. A
//! control chosen by its error on the records under attack errs less on them than on others. Then
//! the gain of attacks over it would be reported too low.

use nalgebra::DMatrix;
use rand::Rng;

use super::Prior;
use super::regression::{into_ranges, regressed};
use crate::sizes::same;
use crate::{
    AdversaryView, Attack, AttackError, AuxiliaryRecords, Entry, FeatureKnowledge, Group, Need,
    Needs, Reconstruction, StatedKnowledge, Status,
};

/// The number of parts that known records are split into: each is estimated from the others.
const FOLDS: usize = 5;
/// The most known records that the choice is made by.
const CHOSEN_BY: usize = 2000;

/// A control that takes, for each attribute, the one of three imputations that errs least on known
/// records that it was not made from: the mean, the mean given the active features (`imputation`),
/// and a regression on these (`kernel_imputation`).
#[derive(Debug, Clone)]
pub struct BestImputation {
    /// The knowledge of the features: estimates are moved into their ranges, and the columns of a
    /// group are chosen together.
    pub stated: StatedKnowledge,
}

pub(crate) static BEST_IMPUTATION: Entry = Entry {
    informed: true,
    ..Entry::new("best_imputation", Group::Informed, |settings| {
        Box::new(BestImputation { stated: settings.into() })
    })
};

impl Attack for BestImputation {
    fn needs(&self) -> Needs {
        Needs { auxiliary: Need::Yes, ..Needs::default() }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let records = view.side_information().auxiliary.ok_or(AttackError::NoAuxiliary)?;
        same("auxiliary passive features", "features", view.target_features(), records.features())?;
        let known = self.stated.about(view.target_features())?;
        let all: Vec<usize> = (0..records.records()).collect();
        let estimates: Vec<DMatrix<f64>> = each(records, &all, view.active().matrix(), &known)?;
        let errors = left_out(records, &known)?;
        let mut best = DMatrix::zeros(view.target_features(), view.records());
        for columns in attributes(&known) {
            let total = |of: usize| columns.clone().map(|column| errors[of][column]).sum::<f64>();
            // Of equals take the first, which is the simplest.
            let Some(least) = (0..IMPUTATIONS).min_by(|a, b| total(*a).total_cmp(&total(*b)))
            else {
                continue;
            };
            columns.for_each(|column| best.set_row(column, &estimates[least].row(column)));
        }
        Ok(Reconstruction::new(best, Status::Baseline))
    }
}

/// Returns the columns of each attribute: those of a group together, any other by itself.
fn attributes(known: &FeatureKnowledge) -> Vec<std::ops::Range<usize>> {
    let alone = |column: &usize| !known.groups().iter().any(|group| group.contains(column));
    let single = (0..known.features()).filter(alone).map(|column| column..column + 1);
    known.groups().iter().cloned().chain(single).collect()
}

/// The number of imputations to choose from.
const IMPUTATIONS: usize = 3;

/// Returns three estimates (d × n) of records with active features `y`, from the known records in
/// these `places`: the mean, the mean given the active features, and a regression on these.
fn each(
    records: &AuxiliaryRecords,
    places: &[usize],
    y: &DMatrix<f64>,
    known: &FeatureKnowledge,
) -> Result<Vec<DMatrix<f64>>, AttackError> {
    let (x, own) =
        (records.x.matrix().select_columns(places), records.y.matrix().select_columns(places));
    let mean = x.column_mean();
    let (given, _) = Prior::of_records(&x, &own)?.given(y)?;
    let regressed = regressed(&x, &[own], std::slice::from_ref(y))?;
    let mut each = vec![DMatrix::from_fn(mean.len(), y.ncols(), |i, _| mean[i]), given, regressed];
    each.iter_mut().for_each(|estimates| into_ranges(estimates, known));
    Ok(each)
}

/// Returns the mean squared error of each imputation on each feature (d), over known records that
/// it was not made from. With a single record all errors are infinite.
fn left_out(
    records: &AuxiliaryRecords,
    known: &FeatureKnowledge,
) -> Result<Vec<Vec<f64>>, AttackError> {
    let (n, d) = (records.records().min(CHOSEN_BY), records.features());
    let mut errors = vec![vec![if n < 2 { f64::INFINITY } else { 0.0 }; d]; IMPUTATIONS];
    for fold in 0..if n < 2 { 0 } else { FOLDS.min(n) } {
        let (held, others): (Vec<usize>, Vec<usize>) =
            (0..n).partition(|place| place % FOLDS == fold);
        let (y, truth) =
            (records.y.matrix().select_columns(&held), records.x.matrix().select_columns(&held));
        for (errors, estimates) in errors.iter_mut().zip(each(records, &others, &y, known)?) {
            let away = estimates - &truth;
            errors
                .iter_mut()
                .zip(away.row_iter())
                .for_each(|(error, away)| *error += away.norm_squared() / n as f64);
        }
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;
    use rand_distr::StandardNormal;
    use vfl_core::types::{FeatureBlock, ReleasedScores};

    use super::*;
    use crate::{KnownModel, Method, Replacement, Settings, SideInformation, run};

    const ACTIVE: usize = 24;

    /// Draws passive features of records: one that its own mean alone tells, one that is linear in
    /// all active ones, and a category of three that is a product of two. Returns active and
    /// passive features, d × n.
    fn draw(n: usize, rng: &mut ChaCha20Rng) -> (DMatrix<f64>, DMatrix<f64>) {
        let y = DMatrix::from_fn(ACTIVE, n, |_, _| rng.random::<f64>());
        let mut x = DMatrix::zeros(5, n);
        for j in 0..n {
            let mut noise = |size: f64| size * rng.sample::<f64, _>(StandardNormal);
            x[(0, j)] = 0.5 + noise(0.1);
            x[(1, j)] = y.column(j).mean() + noise(0.05);
            let product = (y[(2, j)] - 0.5) * (y[(3, j)] - 0.5) + noise(0.01);
            let category = if product < -0.05 { 0 } else { usize::from(product > 0.05) + 1 };
            x[(2 + category, j)] = 1.0;
        }
        (y, x.map(|v| v.clamp(0.0, 1.0)))
    }

    /// Errors of controls by feature on 4000 records, from `n` that are known.
    fn errors(n: usize, seed: u64) -> Vec<Vec<f64>> {
        let rng = &mut ChaCha20Rng::seed_from_u64(seed);
        let ((own, known), (y, truth)) = (draw(n, rng), draw(4000, rng));
        let block = |m: DMatrix<f64>| FeatureBlock::new(m).unwrap();
        let scores = ReleasedScores::Probabilities(DMatrix::from_element(2, n, 0.5));
        let records =
            AuxiliaryRecords::new(block(own), block(known), scores, Replacement::default())
                .unwrap();
        let model =
            KnownModel::black_box(DMatrix::zeros(2, ACTIVE), vec![0.0; 2].into(), 5).unwrap();
        let y = block(y);
        let view = AdversaryView::without_scores(&model, &y, Replacement::default()).unwrap();
        let prior = records.prior().unwrap();
        let view = view.with_side_information(SideInformation {
            auxiliary: Some(&records),
            prior: Some(&prior),
            ..SideInformation::default()
        });
        let own = Settings::read([("moments", "own")]).unwrap();
        let groups = Settings::read([("groups", "2-4")]).unwrap();
        let plain = Settings::default();
        let all = [
            (Method::BestImputation, groups),
            (Method::Imputation, own),
            (Method::Imputation, plain.clone()),
            (Method::KernelImputation, plain),
        ];
        let of = |(method, settings): (Method, Settings)| {
            let estimates = run(&*method.build(&settings), &view, 1).unwrap().estimates;
            (estimates - &truth).row_iter().map(|row| row.norm_squared() / 4000.0).collect()
        };
        all.into_iter().map(of).collect()
    }

    /// On records that it has not seen it errs hardly more than the best of the three on each
    /// attribute. Of 3000 known records the moments take all and the regression 500, so that each
    /// does better on one attribute: then it errs less on all than any of them.
    #[test]
    fn the_best_imputation_of_each_attribute_is_taken() {
        for (n, slack) in [(60, 1.10), (300, 1.03), (3000, 1.02)] {
            let mut totals = [[0.0; 3]; 4];
            for seed in 0..6 {
                for (total, errors) in totals.iter_mut().zip(errors(n, seed)) {
                    let attributes = [errors[0], errors[1], errors[2..].iter().sum()];
                    total.iter_mut().zip(attributes).for_each(|(total, error)| *total += error);
                }
            }
            let [best, others @ ..] = totals;
            for attribute in 0..3 {
                let least = others.iter().map(|of| of[attribute]).fold(f64::INFINITY, f64::min);
                assert!(best[attribute] <= slack * least, "{n} {attribute}: {best:?} {others:?}");
            }
            let all = |of: &[f64; 3]| of.iter().sum::<f64>();
            assert!(
                n < 3000 || others.iter().all(|of| all(&best) < all(of)),
                "{n}: {best:?} {others:?}"
            );
        }
    }

    /// Two records, one record: no record can be left out of one.
    #[test]
    fn few_records_are_enough() {
        for n in [1, 2, 3] {
            assert!(errors(n, 5)[0].iter().all(|error| error.is_finite()), "{n}");
        }
    }
}
