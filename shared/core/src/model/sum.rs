//! The head that adds: outputs are logit shares, z = Σ z_p, in the order of the parties. It has no
//! parameters. In models of one class against the rest each, the logits are ln σ(z).

use nalgebra::DMatrix;

use super::contract::{BackwardError, Head, HeadGradients, Parametrised, Tensor};
use super::{Combiner, Link, ModelSpec, SpecError};
use crate::types::{LogitShare, Logits, OutputGradient, ShapeError};

/// A head that adds logit shares.
#[derive(Debug)]
pub struct Sum {
    classes: usize,
    widths: Vec<usize>,
    link: Link,
    /// Number of records of the last forward pass.
    batch: Option<usize>,
}

impl Sum {
    /// Creates the head of a model of `classes` classes.
    ///
    /// # Errors
    /// [`SpecError::SumWidth`] if a party has another number of outputs.
    pub fn of(spec: &ModelSpec, classes: u32) -> Result<Self, SpecError> {
        let parties = std::iter::once(spec.active()).chain(spec.passive());
        for (at, party) in parties.enumerate() {
            if party.width() != classes {
                let party_words = if at == 0 {
                    "the active party".to_owned()
                } else {
                    format!("passive party {at}")
                };
                return Err(SpecError::SumWidth {
                    party: party_words,
                    got: party.width(),
                    classes,
                });
            }
        }
        let link = spec.link()?;
        Ok(Self { classes: classes as usize, widths: spec.widths(), link, batch: None })
    }
}

impl Parametrised for Sum {
    fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        Vec::new()
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        Vec::new()
    }
}

impl Head for Sum {
    fn combiner(&self) -> Combiner {
        Combiner::Sum
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn widths(&self) -> &[usize] {
        &self.widths
    }

    fn combine(&self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError> {
        let size =
            |unit, expected, got| ShapeError::Size { what: "logit share", unit, expected, got };
        if outputs.len() != self.widths.len() {
            return Err(size("parties", self.widths.len(), outputs.len()));
        }
        let mut outputs = outputs.into_iter();
        let Some(first) = outputs.next() else { return Err(size("parties", self.widths.len(), 0)) };
        if first.width() != self.classes {
            return Err(size("classes", self.classes, first.width()));
        }
        self.link.score_logits(Logits::sum(first, outputs)?)
    }

    fn forward(&mut self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError> {
        let logits = self.combine(outputs)?;
        self.batch = Some(logits.records());
        Ok(logits)
    }

    /// Gives each party the gradient of the logits, since ∂z/∂z_p is the identity. Models of one
    /// class against the rest each are not trained.
    fn backward(&mut self, gradient: DMatrix<f64>) -> Result<HeadGradients, BackwardError> {
        if self.link == Link::OneVsRest {
            return Err(BackwardError::NotTrained);
        }
        let records = self.batch.take().ok_or(BackwardError::NoBatch)?;
        let size = |unit, expected, got| ShapeError::Size { what: "gradient", unit, expected, got };
        if gradient.nrows() != self.classes {
            return Err(size("classes", self.classes, gradient.nrows()).into());
        }
        if gradient.ncols() != records {
            return Err(size("records", records, gradient.ncols()).into());
        }
        let gradient = OutputGradient::new(gradient);
        Ok(HeadGradients { parties: vec![gradient; self.widths.len()], parameters: Vec::new() })
    }
}
