//! The head with a top model. The parties' outputs are embeddings, concatenated in the order of the
//! parties, h = [h_act; h_1; …]. A perceptron at the coordinator computes logits from them, z =
//! top(h) (P 4.1).

use nalgebra::DMatrix;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;

use super::contract::{
    BackwardError, Head, HeadGradients, InitialSeed, Parameters, Parametrised, SubModel,
    SubModelOrigin, Tensor,
};
use super::{Combiner, ModelSpec, SpecError, SubModelSpec, kinds};
use crate::types::{LogitShare, Logits, OutputGradient, ShapeError};

/// The number of records that go through the top model at once in service.
const AT_ONCE: usize = 512;

/// A head that concatenates embeddings and computes logits from them.
#[derive(Debug)]
pub struct Concat {
    classes: usize,
    widths: Vec<usize>,
    /// Maps Σ w × n to k × n, with a bias.
    top: Box<dyn SubModel>,
}

impl Concat {
    /// Creates the head before its training.
    ///
    /// # Errors
    /// [`SpecError::Top`] for a top model that is missing or of another number of classes.
    pub fn start(spec: &ModelSpec, classes: u32, start: InitialSeed) -> Result<Self, SpecError> {
        let top = top(spec, classes)?;
        // A stream of its own, apart from those that the parties draw from with the same seed.
        let mut rng = ChaCha20Rng::from_seed(start);
        rng.set_stream(3);
        let features = spec.widths().iter().sum();
        // The role decides whether outputs have a bias: here they have one.
        let origin =
            SubModelOrigin { spec: top.clone(), features, active: true, start: rng.random() };
        Ok(Self::of(spec, classes, kinds::start(&origin)?))
    }

    /// Creates the head of a model in service from the stored parameters of its top model.
    ///
    /// # Errors
    /// As [`Concat::start`], and [`SpecError::Parameters`] for parameters of another top model.
    pub fn restore(
        spec: &ModelSpec,
        classes: u32,
        parameters: &Parameters,
    ) -> Result<Self, SpecError> {
        let top = top(spec, classes)?;
        let features: usize = spec.widths().iter().sum();
        if parameters.spec != *top || parameters.features != features {
            let reason = format!(
                "they are not of a top model of {features} inputs with the model's settings"
            );
            return Err(SpecError::Parameters { kind: parameters.spec.kind().to_owned(), reason });
        }
        Ok(Self::of(spec, classes, kinds::restore(parameters)?))
    }

    fn of(spec: &ModelSpec, classes: u32, top: Box<dyn SubModel>) -> Self {
        Self { classes: classes as usize, widths: spec.widths(), top }
    }

    /// Concatenates all outputs of a record in one column.
    fn side_by_side(&self, outputs: &[LogitShare]) -> Result<DMatrix<f64>, ShapeError> {
        let size =
            |unit, expected, got| ShapeError::Size { what: "embedding", unit, expected, got };
        if outputs.len() != self.widths.len() {
            return Err(size("parties", self.widths.len(), outputs.len()));
        }
        let records = outputs.first().map_or(0, LogitShare::records);
        let mut all = DMatrix::zeros(self.widths.iter().sum(), records);
        let mut from = 0;
        for (output, &width) in outputs.iter().zip(&self.widths) {
            if output.width() != width {
                return Err(size("numbers", width, output.width()));
            }
            if output.records() != records {
                return Err(size("records", records, output.records()));
            }
            all.rows_mut(from, width).copy_from(output.matrix());
            from += width;
        }
        Ok(all)
    }
}

/// Returns the top model of a specification, if its width fits the classes.
fn top(spec: &ModelSpec, classes: u32) -> Result<&SubModelSpec, SpecError> {
    let refused = |reason| SpecError::Top { reason };
    let top =
        spec.top().ok_or_else(|| refused("combiner `concat` needs a top model".to_owned()))?;
    if top.width() != classes {
        return Err(refused(format!(
            "it has {} outputs, the model {classes} classes",
            top.width()
        )));
    }
    Ok(top)
}

impl Parametrised for Concat {
    fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        self.top.tensors()
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        self.top.tensors_mut()
    }
}

impl Head for Concat {
    fn combiner(&self) -> Combiner {
        Combiner::Concat
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Computes some records at a time, so that the values between the layers take little memory. A
    /// record's logits do not depend on the other records.
    fn combine(&self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError> {
        let all = self.side_by_side(&outputs)?;
        let mut logits = DMatrix::zeros(self.classes, all.ncols());
        for from in (0..all.ncols()).step_by(AT_ONCE) {
            let n = AT_ONCE.min(all.ncols() - from);
            let part = self.top.outputs(&all.columns(from, n).into_owned())?;
            logits.columns_mut(from, n).copy_from(part.matrix());
        }
        Logits::new(logits)
    }

    fn forward(&mut self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError> {
        let embeddings = self.side_by_side(&outputs)?;
        Logits::new(self.top.forward(embeddings)?.into_matrix())
    }

    fn top(&self) -> Option<&dyn SubModel> {
        Some(&*self.top)
    }

    /// Gives each party its rows of ∂L/∂h.
    fn backward(&mut self, gradient: DMatrix<f64>) -> Result<HeadGradients, BackwardError> {
        let gradients = self.top.backward(&gradient, true)?;
        let inputs = gradients
            .inputs
            .unwrap_or_else(|| DMatrix::zeros(self.widths.iter().sum(), gradient.ncols()));
        let mut from = 0;
        let parties = self.widths.iter().map(|&width| {
            let rows = inputs.rows(from, width).into_owned();
            from += width;
            OutputGradient::new(rows)
        });
        Ok(HeadGradients { parties: parties.collect(), parameters: gradients.parameters })
    }
}
