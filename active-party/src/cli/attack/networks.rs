//! Networks in place of weights in a case of kind `attack`: the sub-models of all parties and their
//! combiner.

use std::sync::Arc;

use nalgebra::{DMatrix, DVector};
use serde::Deserialize;
use vfl_attack::{KnownModel, KnownNetwork};
use vfl_core::model::{Combiner, JsonNetwork, ModelSpec, Parameters, SubModel, heads};

/// The networks of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Networks {
    combiner: Combiner,
    active: JsonNetwork,
    passive: Vec<JsonNetwork>,
    /// Only for combiner `concat`.
    #[serde(default)]
    top: Option<JsonNetwork>,
}

/// The adversary's own sub-model, whose outputs stand below its features.
pub(super) struct OwnSubModel(Box<dyn SubModel>);

fn restored(what: &str, written: JsonNetwork) -> Result<Box<dyn SubModel>, String> {
    written.restore().map_err(|e| format!("`networks.{what}`: {e}"))
}

impl Networks {
    /// Builds the model and returns it with the adversary's own sub-model.
    pub(super) fn read(self) -> Result<(KnownModel, OwnSubModel), String> {
        let own = restored("active", self.active)?;
        let mut parts: Vec<Arc<dyn SubModel>> = Vec::with_capacity(self.passive.len());
        for (at, written) in self.passive.into_iter().enumerate() {
            parts.push(restored(&format!("passive[{at}]"), written)?.into());
        }
        let top = self.top.map(|top| restored("top", top)).transpose()?;
        let width = top.as_ref().unwrap_or(&own).spec().width();
        if width < 2 {
            return Err(format!(
                "`networks`: the logits are of {width} class, a model has at least 2 (binary is k = 2)"
            ));
        }
        // `heads::restore` checks kinds, widths and the top model. The head itself is not used.
        let told = |e: &dyn std::fmt::Display| format!("`networks`: {e}");
        let specs = parts.iter().map(|part| part.spec().clone()).collect();
        let top_spec = top.as_ref().map(|top| top.spec().clone());
        let spec = ModelSpec::new(self.combiner, own.spec().clone(), specs, top_spec)
            .map_err(|e| told(&e))?;
        let outputs: usize = spec.widths().iter().sum();
        if let Some(inputs) =
            top.as_ref().map(|top| top.features()).filter(|inputs| *inputs != outputs)
        {
            return Err(format!(
                "`networks.top` takes {inputs} inputs, and the sub-models have {outputs} outputs"
            ));
        }
        let stored = top.as_ref().map(|top| Parameters::of(&**top, top.snapshot()));
        heads::restore(&spec, width, stored.as_ref()).map_err(|e| told(&e))?;
        let (d, w, k) = (own.features(), own.spec().width() as usize, width as usize);
        // As for an active party: its outputs are a part of the logits or, under a top model,
        // embeddings that it knows.
        let (network, w_act) = match top {
            None => {
                let taken = DMatrix::from_fn(k, d + w, |i, j| if j == d + i { 1.0 } else { 0.0 });
                (KnownNetwork::summed(parts), taken)
            }
            Some(top) => {
                let network = KnownNetwork::under_top(parts, top.into()).map_err(|e| told(&e))?;
                (network, DMatrix::zeros(k, d + w))
            }
        };
        let model =
            KnownModel::of_network(w_act, DVector::zeros(k), network).map_err(|e| told(&e))?;
        Ok((model, OwnSubModel(own)))
    }
}

impl OwnSubModel {
    /// Returns the number of the adversary's features per record, without its outputs.
    pub(super) fn features(&self) -> usize {
        self.0.features()
    }

    /// Returns the number of outputs of the sub-model.
    pub(super) fn outputs(&self) -> usize {
        self.0.spec().width() as usize
    }

    /// Returns the adversary's features of n records (d_act × n) with its own outputs below them
    /// (d_act + w × n).
    pub(super) fn with_outputs(&self, y: DMatrix<f64>) -> Result<DMatrix<f64>, String> {
        let outputs =
            self.0.outputs(&y).map_err(|e| format!("`networks.active`: {e}"))?.into_matrix();
        let (d, w) = (y.nrows(), outputs.nrows());
        let mut below = y.resize_vertically(d + w, 0.0);
        below.rows_mut(d, w).copy_from(&outputs);
        Ok(below)
    }
}
