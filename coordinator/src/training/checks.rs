//! Checks of the active party's logit shares in a training, which the coordinator alone sees.
//!
//! An active party that does not follow the protocol can choose its shares so that the residuals of
//! all records but a few known ones vanish, and read the other parties' features of these few out
//! of the next step. These checks raise the price of that. They do not prevent all leakage: honest
//! shares show the active party the same records' scores at every step.

use nalgebra::DMatrix;
use vfl_core::model::contract::Kind;
use vfl_core::model::{SpecError, SubModelSpec, TrainingConfig, kinds};
use vfl_core::types::LogitShare;
use vfl_protocol::{Refusal, RefusalKind};

/// Smallest residual that teaches more than a little. A residual is what is left of a record's
/// scores after its label. At the minimum of the loss on the public sets the median of a batch of
/// 64 is above 7e-4 on each of them.
const NO_RESIDUAL: f64 = 1e-5;
/// Largest ratio of the size of a batch to its effective number of records, (Σ r)² / Σ r² over its
/// residuals. At the same minimum the effective number is above 4 of 64.
const CONCENTRATION: f64 = 32.0;
/// Relative tolerance for rounding.
const SLACK: f64 = 1e-9;

/// The bound on the active party's shares of one training.
#[derive(Clone)]
pub(super) struct ShareBound {
    config: TrainingConfig,
    kind: &'static dyn Kind,
    spec: SubModelSpec,
    features: u32,
}

impl ShareBound {
    /// Creates the bound for an active party's sub-model of so many features.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown kind.
    pub(super) fn new(
        config: &TrainingConfig,
        spec: &SubModelSpec,
        features: u32,
    ) -> Result<Self, SpecError> {
        Ok(Self {
            config: config.clone(),
            kind: kinds::find(spec.kind())?,
            spec: spec.clone(),
            features,
        })
    }

    /// Checks the shares after `updates` updates. A softmax regression starts at 0, so that its
    /// first shares are 0.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if no model that was trained so far gives such shares.
    pub(super) fn check(&self, share: &LogitShare, updates: u64) -> Result<(), Refusal> {
        let most = self.kind.largest_output(&self.config, &self.spec, self.features, updates);
        if share.matrix().amax() <= most * (1.0 + SLACK) {
            return Ok(());
        }
        Err(Refusal::invalid(format!(
            "the active party's logit shares pass {most:.3}, the most that {updates} steps of this training can make of \
             parameters where it starts; let `active-party` compute them"
        )))
    }
}

/// Checks the gradient of a batch (k × B: scores minus labels, over B) before it leaves.
///
/// # Errors
/// FAILED_PRECONDITION when most records have hardly a residual left, or a few have nearly all of
/// it: the next step would show those alone.
pub fn check_residuals(gradient: &DMatrix<f64>) -> Result<(), Refusal> {
    let records = gradient.ncols();
    let residuals: Vec<f64> = gradient.column_iter().map(|g| g.amax() * records as f64).collect();
    let gone = residuals.iter().filter(|r| **r <= NO_RESIDUAL).count();
    let (sum, squares) = residuals.iter().fold((0.0, 0.0), |(s, q), r| (s + r, q + r * r));
    let effective = if squares > 0.0 { sum * sum / squares } else { 0.0 };
    if 2 * gone <= records && effective * CONCENTRATION >= records as f64 {
        return Ok(());
    }
    let message = format!(
        "{gone} of the {records} records of a batch have hardly a residual left, and the batch counts for \
         {effective:.1} records, so that the gradient would show a few records alone; train with a validation share, fewer epochs or a larger `l2`"
    );
    Err(Refusal::new(RefusalKind::FailedPrecondition, message))
}

/// Checks the gradient that a passive party is sent of a batch, w × B, beside the `residuals` that
/// [`check_residuals`] let pass. A top model that the active party has saturated for all records
/// but a few passes on the gradient of these alone, however large all residuals are.
///
/// # Errors
/// As [`check_residuals`], of the residuals as far as the head passes them on: relative to the one
/// of which it passes on most.
pub(super) fn check_passed_on(residuals: &[f64], gradient: &DMatrix<f64>) -> Result<(), Refusal> {
    let passed: Vec<f64> = gradient.column_iter().map(|g| g.amax()).collect();
    let share =
        |(passed, residual): (&f64, &f64)| if *residual > 0.0 { passed / residual } else { 0.0 };
    let most = passed.iter().zip(residuals).map(share).fold(0.0, f64::max);
    if most <= 0.0 {
        return check_residuals(&DMatrix::zeros(1, gradient.ncols()));
    }
    check_residuals(&DMatrix::from_fn(1, gradient.ncols(), |_, j| passed[j] / most))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vfl_core::model::contract::{SubModelOrigin, start_of};
    use vfl_core::model::{
        Combiner, HeadLearner, ModelConfig, ModelSpec, PartyLearner, TrainingValues, cross_entropy,
        heads,
    };
    use vfl_core::types::FeatureBlock;

    fn config(learning_rate: f64, l2: f64) -> TrainingConfig {
        TrainingConfig::try_from(TrainingValues { learning_rate, l2, ..Default::default() })
            .unwrap()
    }

    #[test]
    fn the_first_shares_are_zero_and_saturated_ones_are_refused() {
        let bound =
            ShareBound::new(&config(0.01, 0.0), &SubModelSpec::softmax_regression(3), 8).unwrap();
        let share = |value| LogitShare::new(DMatrix::from_element(3, 2, value)).unwrap();
        bound.check(&share(0.0), 0).unwrap();
        assert!(bound.check(&share(1e-6), 0).is_err());
        bound.check(&share(0.65), 1).unwrap();
        let refused = bound.check(&share(40.0), 1).unwrap_err().to_string();
        assert!(refused.contains("1 steps") && !refused.contains("40"), "{refused}");
    }

    /// An active party may hold the labels alone, or few features: what its first biases make of
    /// them is no more than the bound.
    #[test]
    fn the_first_shares_of_few_features_are_within_the_bound() {
        for (features, activation) in [(0, "sigmoid"), (0, "tanh"), (0, "relu"), (1, "sigmoid")] {
            let settings = serde_json::json!({ "hidden": [32, 8], "activation": activation });
            let settings = settings.as_object().unwrap().clone();
            let model = ModelConfig::new(Combiner::Sum, "mlp", None, settings).unwrap();
            let spec = model.sub_model(3).unwrap();
            let values = TrainingValues { model, ..TrainingValues::default() };
            let config = TrainingConfig::try_from(values).unwrap();
            let bound = ShareBound::new(&config, &spec, features).unwrap();
            let of = features as usize;
            let origin = SubModelOrigin { spec, features: of, active: true, start: start_of(1) };
            let block = DMatrix::from_element(of, 5, 0.5);
            let share = kinds::start(&origin).unwrap().outputs(&block).unwrap();
            assert!(share.matrix().amax() > 0.0 || activation != "sigmoid");
            bound.check(&share, 0).unwrap();
        }
    }

    #[test]
    fn a_batch_of_spent_records_is_refused() {
        // Residuals that an active party can leave if it saturates its shares a little less.
        let batch = |spent: usize| {
            DMatrix::from_fn(3, 64, |_, j| if j < spent { 1e-8 / 64.0 } else { 0.1 / 64.0 })
        };
        check_residuals(&batch(0)).unwrap();
        check_residuals(&batch(32)).unwrap();
        assert!(check_residuals(&batch(33)).is_err());
        assert!(check_residuals(&batch(64)).is_err());
    }

    #[test]
    fn a_batch_of_one_record_among_many_is_refused() {
        let batch = |rest: f64| {
            DMatrix::from_fn(3, 64, |_, j| if j == 0 { 1.0 / 64.0 } else { rest / 64.0 })
        };
        check_residuals(&batch(0.02)).unwrap();
        let refused = check_residuals(&batch(1e-4)).unwrap_err().to_string();
        assert!(
            refused.contains("0 of the 64") && refused.contains("counts for 1.0 records"),
            "{refused}"
        );
        assert!(check_residuals(&DMatrix::zeros(3, 64)).is_err());
    }

    /// A top model with one hidden unit, saturated for all records but one: their residuals stay,
    /// and none of them is passed on.
    #[test]
    fn a_head_that_passes_on_one_record_alone_is_refused() {
        let settings = |value: serde_json::Value| value.as_object().unwrap().clone();
        let party =
            SubModelSpec::new("mlp", 2, settings(serde_json::json!({ "hidden": [] }))).unwrap();
        let top = settings(serde_json::json!({ "hidden": [1], "activation": "sigmoid" }));
        let top = SubModelSpec::new("mlp", 3, top).unwrap();
        let model =
            ModelSpec::new(Combiner::Concat, party.clone(), vec![party], Some(top)).unwrap();
        let head = heads::start(&model, 3, start_of(1)).unwrap();
        let mut head = HeadLearner::new(&config(0.01, 0.0), head);
        let labels: Vec<u32> = (0..64).map(|n| n % 3).collect();
        let mut passed_on = |saturated: usize| {
            let of_active = |i: usize, j: usize| {
                if j < saturated { [2000.0, -900.0][i] } else { 0.01 * j as f64 }
            };
            let active = LogitShare::new(DMatrix::from_fn(2, 64, of_active)).unwrap();
            let passive =
                LogitShare::new(DMatrix::from_fn(2, 64, |i, j| 0.1 * (i + j) as f64 / 64.0))
                    .unwrap();
            let logits = head.logits(vec![active, passive], false).unwrap();
            let (_, gradient, _) = cross_entropy(logits, &labels);
            check_residuals(&gradient).unwrap();
            let residuals: Vec<f64> = gradient.column_iter().map(|g| g.amax()).collect();
            let parties = head.update(gradient).unwrap();
            check_passed_on(&residuals, parties[1].matrix())
        };
        passed_on(0).unwrap();
        passed_on(20).unwrap();
        assert!(passed_on(63).unwrap_err().to_string().contains("hardly a residual left"));
        assert!(passed_on(64).is_err());
        // A sum passes gradients on as they are.
        let gradient = DMatrix::from_fn(3, 64, |i, j| 0.01 * (i + j % 7) as f64);
        let residuals: Vec<f64> = gradient.column_iter().map(|g| g.amax()).collect();
        check_passed_on(&residuals, &gradient).unwrap();
    }

    proptest! {
        /// Any gradients, even those made to move a parameter far: spikes after long silence,
        /// growing ones, alternating.
        #[test]
        fn no_training_passes_the_bound(
            d in 1usize..5,
            learning_rate in 1e-4f64..1.0,
            scales in proptest::collection::vec(-8i32..8, 1..60),
            signs in proptest::collection::vec(any::<bool>(), 60),
        ) {
            let config = config(learning_rate, 0.0);
            let block = FeatureBlock::new(DMatrix::from_element(d, 3, 1.0)).unwrap();
            let mut learner = PartyLearner::new(&config, 2, block, true).unwrap();
            let bound = ShareBound::new(&config, &SubModelSpec::softmax_regression(2), d as u32).unwrap();
            for (updates, (&scale, &up)) in scales.iter().zip(&signs).enumerate() {
                let share = learner.shares(&[0, 1, 2], false).unwrap();
                prop_assert!(bound.check(&share, updates as u64).is_ok());
                let g = 10f64.powi(scale) * if up { 1.0 } else { -1.0 };
                learner.update(&DMatrix::from_fn(2, 3, |i, _| if i == 0 { g } else { -g })).unwrap();
            }
        }
    }
}
