//! The active party's own part of the logits, in the form that attacks take: W_act y + b.
//!
//! Attacks work on features y and a linear map of them. A nonlinear sub-model is brought into that
//! form: its own outputs z_act (w × n) stand below its features. Under the combiner `sum` these are
//! its part of the logits, and W_act = [0 | I], b = 0 select them. Under `concat` this party has no
//! part of the logits: W_act = 0, b = 0, and the outputs are there as something that the adversary
//! knows.

use nalgebra::{DMatrix, DVector};
use vfl_core::model::Combiner;
use vfl_core::types::FeatureBlock;
use vfl_protocol::Refusal;
use vfl_state::StoredShare;

/// Returns W_act (k × d', for the d' rows of [`features`]) and b (k) for a model of k = `classes`
/// classes.
///
/// # Errors
/// INTERNAL for a share without a bias, which is a passive party's.
pub(crate) fn map(
    share: &StoredShare,
    combiner: Combiner,
    classes: usize,
) -> Result<(DMatrix<f64>, DVector<f64>), Refusal> {
    let (d, k) = (share.model().features(), share.model().spec().width() as usize);
    if combiner == Combiner::Concat {
        return Ok((DMatrix::zeros(classes, d + k), DVector::zeros(classes)));
    }
    let Ok(linear) = share.linear() else {
        let below = DMatrix::from_fn(k, d + k, |i, j| if j == d + i { 1.0 } else { 0.0 });
        return Ok((below, DVector::zeros(k)));
    };
    let bias = linear
        .bias()
        .cloned()
        .ok_or_else(|| Refusal::internal("this party's share has no bias"))?;
    Ok((linear.weights().clone(), bias))
}

/// Returns the features (d × n). Those of a nonlinear sub-model have its outputs below them (d + w
/// × n).
///
/// # Errors
/// INTERNAL if the sub-model does not take the features.
pub(crate) fn features(share: &StoredShare, block: FeatureBlock) -> Result<FeatureBlock, Refusal> {
    if share.linear().is_ok() {
        return Ok(block);
    }
    let internal = |e: &dyn std::fmt::Display| Refusal::internal(e.to_string());
    let outputs = share.model().outputs(block.matrix()).map_err(|e| internal(&e))?;
    let (d, k) = (block.features(), outputs.width());
    let mut below = block.into_matrix().resize_vertically(d + k, 0.0);
    below.rows_mut(d, k).copy_from(outputs.matrix());
    FeatureBlock::new(below).map_err(|e| internal(&e))
}

#[cfg(test)]
mod tests {
    use vfl_core::model::contract::{ParameterRole, SubModelOrigin, start_of};
    use vfl_core::model::{Parameters, SubModelSpec, kinds};
    use vfl_state::ShareStore;

    use super::*;

    /// Attacks compute the sub-model's output from both, and its features stay in their rows.
    #[test]
    fn map_and_features_give_the_outputs_of_every_kind() {
        for kind in kinds::names() {
            let settings = match kind {
                "residual" => serde_json::json!({ "height": 2, "blocks": 1, "filters": [2] }),
                "generalized_linear" => serde_json::json!({ "link": "log" }),
                _ => serde_json::json!({}),
            };
            let width = if kind == "generalized_linear" { 1 } else { 3 };
            let spec =
                SubModelSpec::new(kind, width, settings.as_object().unwrap().clone()).unwrap();
            let mut model = kinds::start(&SubModelOrigin {
                spec,
                features: 4,
                active: true,
                start: start_of(2),
            })
            .unwrap();
            for tensor in model
                .tensors_mut()
                .into_iter()
                .filter(|tensor| tensor.used != ParameterRole::Statistic)
            {
                tensor
                    .values
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, v)| *v += 0.1 * (i as f64 + 1.0).sin());
            }
            let dir = tempfile::tempdir().unwrap();
            let store = ShareStore::open(dir.path()).unwrap();
            let names: Vec<String> = (0..4).map(|i| format!("f{i}")).collect();
            let digest = store.put(Parameters::of(&*model, model.snapshot()), &names).unwrap();
            let share = store.stored(&digest).unwrap();
            let y = DMatrix::from_fn(4, 7, |i, j| ((i * 3 + j * 5) % 11) as f64 / 10.0);
            let (w_act, bias) = map(&share, Combiner::Sum, width as usize).unwrap();
            let seen = features(&share, FeatureBlock::new(y.clone()).unwrap()).unwrap();
            assert_eq!(seen.matrix().rows(0, 4), y, "{kind}");
            let mut z = w_act * seen.matrix();
            z.column_iter_mut().for_each(|mut z| z += &bias);
            let outputs = model.outputs(&y).unwrap();
            assert!(
                (z - outputs.matrix()).amax() < 1e-12 && outputs.matrix().amax() > 0.01,
                "{kind}"
            );
            if share.linear().is_err() {
                let (none, bias) = map(&share, Combiner::Concat, 5).unwrap();
                assert_eq!(
                    (none * seen.matrix(), bias),
                    (DMatrix::zeros(5, 7), DVector::zeros(5)),
                    "{kind}"
                );
            }
        }
    }
}
