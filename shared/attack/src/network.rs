//! A model with sub-models that are not linear, as an adversary that has them knows it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use nalgebra::DMatrix;
use vfl_core::model::{DenseLayer, LANES, Lanes, Pass, SubModel};

use super::AttackError;
use super::differentiable::{Differentiable, LogitBlock};
use super::sizes::same;

/// The passive parties' sub-models, and the way from their outputs and the adversary's own to the
/// logits.
#[derive(Clone)]
pub struct KnownNetwork {
    /// In the order of the parties; their features stand side by side.
    parts: Vec<Arc<dyn SubModel>>,
    /// The top model on embeddings side by side, the adversary's own first. `None`: outputs are
    /// logit shares and are added.
    top: Option<Arc<dyn SubModel>>,
}

/// Shows sizes only: parameters are private.
impl fmt::Debug for KnownNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let combined = if self.top.is_some() { "under a top model" } else { "summed" };
        write!(f, "KnownNetwork({:?}, {combined})", self.parts)
    }
}

impl KnownNetwork {
    /// Creates a network whose outputs are added to the adversary's own part of the logits.
    #[must_use]
    pub fn summed(parts: Vec<Arc<dyn SubModel>>) -> Self {
        Self { parts, top: None }
    }

    /// Creates a network whose outputs stand below the adversary's own and go through a top model.
    ///
    /// # Errors
    /// [`AttackError::View`] if the top model has no more inputs than the parts have outputs.
    pub fn under_top(
        parts: Vec<Arc<dyn SubModel>>,
        top: Arc<dyn SubModel>,
    ) -> Result<Self, AttackError> {
        let known = Self { parts, top: Some(top) };
        let outputs = known.outputs();
        if known.own_width() == 0 {
            same("the top model", "inputs", outputs + 1, outputs)?;
        }
        Ok(known)
    }

    /// Returns the number of passive features.
    #[must_use]
    pub fn features(&self) -> usize {
        self.parts.iter().map(|part| part.features()).sum()
    }

    /// Returns the number of outputs of all parts together.
    fn outputs(&self) -> usize {
        self.parts.iter().map(|part| part.spec().width() as usize).sum()
    }

    /// Returns the number of outputs of the adversary's own sub-model that the top model takes; 0
    /// without a top model.
    pub(super) fn own_width(&self) -> usize {
        self.top.as_ref().map_or(0, |top| top.features().saturating_sub(self.outputs()))
    }

    /// Returns the approximate number of multiplications for the logits of a record.
    pub(super) fn work(&self) -> u64 {
        self.parts.iter().chain(&self.top).map(|model| model.work()).sum()
    }

    /// Returns the layers of each party's sub-model, if outputs are added and every activation
    /// between them has an inverse.
    ///
    /// # Errors
    /// [`AttackError::NotInvertible`] naming the part without an inverse.
    pub(super) fn summed_layers(&self) -> Result<Vec<Vec<DenseLayer<'_>>>, AttackError> {
        if self.top.is_some() {
            return Err(AttackError::NotInvertible { what: "a top model".into() });
        }
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let kind = part.spec().kind();
            let layers = part.layers().filter(|layers| !layers.is_empty());
            let layers = layers.ok_or_else(|| AttackError::NotInvertible {
                what: format!("a sub-model of kind `{kind}`"),
            })?;
            if layers
                .iter()
                .filter_map(|layer| layer.activation)
                .any(|activation| activation.inverse(0.5).is_none())
            {
                return Err(AttackError::NotInvertible { what: "relu".into() });
            }
            parts.push(layers);
        }
        Ok(parts)
    }

    /// Checks the outputs against the number of classes.
    pub(super) fn check(&self, classes: usize) -> Result<(), AttackError> {
        let check = |model: &Arc<dyn SubModel>| {
            same("a sub-model", "outputs", classes, model.spec().width() as usize)
        };
        match &self.top {
            Some(top) => check(top)?,
            None => self.parts.iter().try_for_each(check)?,
        }
        Ok(())
    }

    /// Returns the logits of n records. `known` is the part of them that the adversary adds (k ×
    /// n), or its own embeddings (w × n).
    ///
    /// # Errors
    /// [`AttackError::NotDifferentiable`] for a kind of sub-model without a pass.
    pub(super) fn logits(&self, known: DMatrix<f64>) -> Result<NetworkLogits<'_>, AttackError> {
        let all = self.parts.iter().chain(&self.top);
        for model in all {
            if model.pass().is_none() {
                return Err(AttackError::NotDifferentiable {
                    kind: model.spec().kind().to_owned(),
                });
            }
        }
        Ok(NetworkLogits { of: self, known })
    }
}

/// The logits of a network, with a part that is known.
pub(super) struct NetworkLogits<'a> {
    of: &'a KnownNetwork,
    known: DMatrix<f64>,
}

/// A party's part of a block.
struct Part<'a> {
    pass: Box<dyn Pass + 'a>,
    /// Its features among all, and its outputs among all outputs (not the adversary's).
    features: Range<usize>,
    outputs: Range<usize>,
}

struct NetworkBlock<'a> {
    parts: Vec<Part<'a>>,
    top: Option<Box<dyn Pass + 'a>>,
    known: Vec<Lanes>,
    /// All outputs; under a top model the adversary's own come first and stay.
    outputs: Vec<Lanes>,
    /// The slopes in the outputs.
    slopes: Vec<Lanes>,
}

impl Differentiable for NetworkLogits<'_> {
    fn block(&self, records: [usize; LANES]) -> Box<dyn LogitBlock + '_> {
        let known: Vec<Lanes> = (0..self.known.nrows())
            .map(|row| Lanes(std::array::from_fn(|l| self.known[(row, records[l])])))
            .collect();
        let (mut features, mut outputs) = (0, 0);
        let parts = self.of.parts.iter().filter_map(|part| {
            let (d, w) = (part.features(), part.spec().width() as usize);
            let part = Part {
                pass: part.pass()?,
                features: features..features + d,
                outputs: outputs..outputs + w,
            };
            (features, outputs) = (features + d, outputs + w);
            Some(part)
        });
        let parts = parts.collect();
        let top = self.of.top.as_ref().and_then(|top| top.pass());
        let mut all = if top.is_some() { known.clone() } else { Vec::new() };
        all.resize(all.len() + outputs, Lanes::all(0.0));
        let slopes = all.clone();
        Box::new(NetworkBlock { parts, top, known, outputs: all, slopes })
    }
}

impl LogitBlock for NetworkBlock<'_> {
    fn logits(&mut self, x: &[Lanes], logits: &mut [Lanes]) {
        let own = if self.top.is_some() { self.known.len() } else { 0 };
        for Part { pass, features, outputs } in &mut self.parts {
            pass.outputs(&x[features.clone()], &mut self.outputs[own..][outputs.clone()]);
        }
        match &mut self.top {
            Some(top) => top.outputs(&self.outputs, logits),
            None => {
                logits.copy_from_slice(&self.known);
                for share in self.outputs.chunks_exact(logits.len()) {
                    for (logit, share) in logits.iter_mut().zip(share) {
                        for l in 0..LANES {
                            logit.0[l] += share.0[l];
                        }
                    }
                }
            }
        }
    }

    fn pull_back(&mut self, slopes: &[Lanes], gradient: &mut [Lanes]) {
        let own = if self.top.is_some() { self.known.len() } else { 0 };
        if let Some(top) = &mut self.top {
            top.pull_back(slopes, &mut self.slopes);
        }
        for Part { pass, features, outputs } in &mut self.parts {
            let slopes = if own > 0 { &self.slopes[own..][outputs.clone()] } else { slopes };
            pass.pull_back(slopes, &mut gradient[features.clone()]);
        }
    }
}
