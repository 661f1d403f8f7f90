//! The active party's view of a training set and of the model trained on it, as numbers.

use anyhow::Context;
use nalgebra::{DMatrix, DVector};
use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use vfl_core::model::TrainingValues;
use vfl_core::types::FeatureBlock;
use vfl_datasets::local_training::{LocalTraining, learners, start};
use vfl_numerics::softmax_columns;
use vfl_transform::{TransformConfig, rewrite};

use super::population::place_of;
use crate::runs::{Seeds, passive_weights};
use crate::subject::Subject;

/// The settings of trainings on sets of records of a population.
pub(super) struct Recipe<'a> {
    /// The training settings except the seed, of which each model has its own.
    pub(super) training: &'a TrainingValues,
    /// The index of the feature whose mean is the property, among all passive features side by
    /// side.
    pub(super) feature: usize,
    /// The transforms of the passive weights before they are shown.
    pub(super) transforms: &'a [TransformConfig],
    /// The population that records are from.
    pub(super) subject: &'a Subject,
    /// True for each record of the group.
    pub(super) members: &'a [bool],
    /// The seeds of everything random.
    pub(super) seeds: Seeds,
}

/// The active party's view of one training set and its model.
pub(super) struct View {
    /// The true mean of the feature over the group's records.
    pub(super) property: f64,
    /// The shares of the classes, the means of the active features, and these means over the group.
    pub(super) data: Vec<f64>,
    /// The active party's own parameters: weights and bias, less their means over the classes.
    pub(super) own: Vec<f64>,
    /// The mean scores over the group, and over each class.
    pub(super) scores: Vec<f64>,
    /// The passive weights as shown under each transform.
    pub(super) shown: Vec<ReleasedWeights>,
}

/// The passive weights (k × d) less their means over the classes, in three forms.
pub(super) struct ReleasedWeights {
    /// The weights as they are.
    pub(super) weights: Vec<f64>,
    /// The columns sorted by length, the longest first: invariant to a secret order of the
    /// features.
    pub(super) sorted: Vec<f64>,
    /// The inner products of the rows: invariant to a rotation of the features.
    pub(super) products: Vec<f64>,
}

impl Recipe<'_> {
    /// Trains on these records, with a name that no other model has, and computes the view of data,
    /// parameters and scores.
    ///
    /// # Errors
    /// If the training diverges, or no record is of the group.
    pub(super) fn view(&self, name: &str, records: &[usize]) -> anyhow::Result<View> {
        let classes = self.subject.classes();
        let config = self.seeds.config(self.training, format_args!("model {name}, training"))?;
        let labels: Vec<u32> = records.iter().map(|&record| self.subject.labels[record]).collect();
        let blocks: Vec<FeatureBlock> =
            self.subject.blocks.iter().map(|block| block.select(records)).collect();
        let group: Vec<usize> =
            (0..records.len()).filter(|&at| self.members[records[at]]).collect();
        anyhow::ensure!(
            !group.is_empty(),
            "no record of the group is in a training set; raise --records"
        );

        let parties = learners(&config, classes, blocks.iter().cloned(), None)?;
        let mut trained = LocalTraining::train(&config, classes, parties, &labels, start(&config))?;
        let positions: Vec<u32> = (0..records.len() as u32).collect();
        let mut scores = trained.logits(&positions, true)?.matrix().clone();
        softmax_columns(&mut scores);

        let sub_models = trained.sub_models()?;
        let linear = sub_models.first().and_then(|active| active.linear());
        let (active, weights) = linear
            .zip(passive_weights(&sub_models))
            .context("the model is not a softmax regression")?;
        let mut own: Vec<f64> = centred(active.weights()).iter().copied().collect();
        if let Some(bias) = active.bias() {
            own.extend(bias.add_scalar(-bias.mean()).iter());
        }
        let mut shown = Vec::with_capacity(self.transforms.len());
        for transform in self.transforms {
            // The secret of a transform is drawn afresh for every training.
            let seed = self.seeds.of(format_args!("model {name}, secret of {transform}"));
            let mut rng = ChaCha20Rng::from_seed(seed);
            shown.push(ReleasedWeights::of(&centred(
                &rewrite(transform, &weights, None, &mut rng)?.weights,
            )));
        }
        let (place, row) =
            place_of(&blocks, self.feature).context("there is no such passive feature")?;
        let feature = blocks[place].matrix().row(row);
        let property = group.iter().map(|&at| feature[at]).sum::<f64>() / group.len() as f64;
        Ok(View {
            property,
            data: data_view(classes, &labels, blocks[0].matrix(), &group),
            own,
            scores: score_view(classes, &labels, &scores, &group),
            shown,
        })
    }
}

impl ReleasedWeights {
    fn of(weights: &DMatrix<f64>) -> Self {
        let mut columns: Vec<DVector<f64>> =
            weights.column_iter().map(|column| column.into_owned()).collect();
        columns.sort_by(|a, b| b.norm().total_cmp(&a.norm()));
        let products = weights * weights.transpose();
        let k = weights.nrows();
        Self {
            weights: weights.iter().copied().collect(),
            sorted: columns.iter().flat_map(|column| column.iter().copied()).collect(),
            products: (0..k)
                .flat_map(|i| (0..=i).map(move |j| (i, j)))
                .map(|at| products[at])
                .collect(),
        }
    }
}

/// Subtracts the mean of each column: a number that all classes share changes no score.
fn centred(weights: &DMatrix<f64>) -> DMatrix<f64> {
    let mut centred = weights.clone();
    for mut column in centred.column_iter_mut() {
        let mean = column.mean();
        column.add_scalar_mut(-mean);
    }
    centred
}

fn data_view(classes: usize, labels: &[u32], active: &DMatrix<f64>, group: &[usize]) -> Vec<f64> {
    let n = labels.len().max(1) as f64;
    let mut shares = vec![0.0; classes];
    labels.iter().for_each(|label| shares[*label as usize] += 1.0 / n);
    let of_all = active.column_mean();
    let of_group = active.select_columns(group).column_mean();
    let size = group.len() as f64 / n;
    shares
        .into_iter()
        .chain([size])
        .chain(of_all.iter().copied())
        .chain(of_group.iter().copied())
        .collect()
}

fn score_view(classes: usize, labels: &[u32], scores: &DMatrix<f64>, group: &[usize]) -> Vec<f64> {
    let mut view: Vec<f64> = scores.select_columns(group).column_mean().iter().copied().collect();
    for class in 0..classes as u32 {
        let of_class: Vec<usize> = (0..labels.len()).filter(|&at| labels[at] == class).collect();
        // A class without records gets the mean of all.
        let mean = if of_class.is_empty() {
            scores.column_mean()
        } else {
            scores.select_columns(&of_class).column_mean()
        };
        view.extend(mean.iter());
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forms that are invariant to a secret order or rotation: the sorted columns, and the
    /// inner products of the rows.
    #[test]
    fn forms_do_not_move_with_what_they_are_made_against() {
        let weights = DMatrix::from_row_slice(2, 3, &[1.0, -2.0, 0.5, 0.25, 3.0, 1.0]);
        let shown = ReleasedWeights::of(&weights);
        let permuted = ReleasedWeights::of(&weights.select_columns(&[2, 0, 1]));
        assert_eq!(shown.sorted, permuted.sorted);
        assert_ne!(shown.weights, permuted.weights);
        assert_eq!(shown.products, [5.25, -5.25, 10.0625]);
        let (sin, cos) = 0.7f64.sin_cos();
        let turn = DMatrix::from_row_slice(3, 3, &[cos, sin, 0.0, -sin, cos, 0.0, 0.0, 0.0, -1.0]);
        let turned = ReleasedWeights::of(&(&weights * turn));
        for (a, b) in shown.products.iter().zip(&turned.products) {
            assert!((a - b).abs() < 1e-12);
        }
        assert!((shown.sorted[0] - turned.sorted[0]).abs() > 0.01);
    }

    #[test]
    fn what_is_known_of_the_data_and_the_scores() {
        let active = DMatrix::from_row_slice(1, 4, &[0.0, 0.2, 0.4, 1.0]);
        let view = data_view(3, &[0, 1, 1, 1], &active, &[0, 1]);
        let expected = [0.25, 0.75, 0.0, 0.5, 0.4, 0.1];
        assert!(
            view.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12) && view.len() == 6,
            "{view:?}"
        );
        let scores = DMatrix::from_row_slice(2, 2, &[0.9, 0.3, 0.1, 0.7]);
        let view = score_view(2, &[0, 0], &scores, &[1]);
        let expected = [0.3, 0.7, 0.6, 0.4, 0.6, 0.4];
        assert!(
            view.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12) && view.len() == 6,
            "{view:?}"
        );
    }
}
