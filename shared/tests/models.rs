//! What holds of every sub-model and every head: gradients, checkpoints, storage.
#![allow(missing_docs, clippy::unwrap_used)]

use nalgebra::DMatrix;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_shared::model::contract::{BackwardError, HeadGradients, Origin, Parametrised, Tensor, Use, start_of};
use vfl_shared::model::{
    Combiner, Head, HeadLearner, ModelSpec, Parameters, ShareStore, SubModelSpec, TrainingConfig, TrainingValues,
    cross_entropy, kinds,
};
use vfl_shared::testing::gradients::{check_head, check_neighbours, check_sub_model};
use vfl_shared::types::{LogitShare, Logits, OutputGradient, ShapeError};

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| 2.0 * rng.random::<f64>() - 1.0)
}

/// Moves every parameter away from where training starts.
fn stir(model: &mut dyn Parametrised, seed: u64) {
    for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
        let values = random(tensor.values.len(), 1, seed + at as u64);
        tensor.values.copy_from_slice(values.as_slice());
    }
}

/// Every kind of the register with default settings, at both kinds of party.
fn origins() -> Vec<Origin> {
    let spec = |kind: &str| SubModelSpec::new(kind, 4, Default::default()).unwrap();
    kinds::names()
        .flat_map(|kind| {
            [false, true].map(|active| Origin { spec: spec(kind), features: 5, active, start: start_of(7) })
        })
        .collect()
}

#[test]
fn gradients_of_every_kind_are_those_of_central_differences() {
    for origin in origins() {
        let mut model = kinds::start(&origin).unwrap();
        stir(&mut *model, 3);
        check_sub_model(&mut *model, &random(5, 6, 11), 1e-6);
    }
}

#[test]
fn no_kind_has_outputs_that_depend_on_neighbours() {
    for origin in origins() {
        let mut model = kinds::start(&origin).unwrap();
        stir(&mut *model, 3);
        check_neighbours(&*model, &random(5, 70, 12));
    }
}

/// A gradient belongs to one forward pass, and has its shape.
#[test]
fn no_kind_takes_a_gradient_of_another_batch() {
    for origin in origins() {
        let mut model = kinds::start(&origin).unwrap();
        assert_eq!(model.backward(&random(4, 6, 1), false).err(), Some(BackwardError::NoBatch));
        for (rows, columns) in [(4, 7), (3, 6)] {
            model.forward(random(5, 6, 2)).unwrap();
            assert!(matches!(model.backward(&random(rows, columns, 1), false), Err(BackwardError::Shape(_))));
        }
        model.forward(random(5, 6, 2)).unwrap();
        assert!(model.backward(&random(4, 6, 1), false).unwrap().inputs.is_none());
        assert_eq!(model.backward(&random(4, 6, 1), false).err(), Some(BackwardError::NoBatch));
        assert!(model.outputs(&random(6, 6, 2)).is_err(), "another number of features");
    }
}

#[test]
fn every_kind_comes_back_from_disk_to_the_bit() {
    for origin in origins() {
        let mut model = kinds::start(&origin).unwrap();
        stir(&mut *model, 5);
        let parameters = Parameters::of(&*model, model.snapshot());
        let dir = tempfile::tempdir().unwrap();
        let store = ShareStore::open(dir.path()).unwrap();
        let names: Vec<String> = (0..5).map(|i| format!("f{i}")).collect();
        let stored = store.stored(&store.put(&parameters, &names).unwrap()).unwrap();
        assert_eq!((stored.model().spec(), stored.model().features()), (&origin.spec, 5));
        assert_eq!(Parameters::of(stored.model(), stored.model().snapshot()), parameters);
        let block = random(5, 9, 6);
        assert_eq!(stored.model().outputs(&block).unwrap(), model.outputs(&block).unwrap());
        // Blocks of another shape or name are not taken.
        for change in [0, 1] {
            let mut other = parameters.clone();
            match change {
                0 => other.blocks[0].shape.reverse(),
                _ => other.blocks[0].name.push('x'),
            }
            assert!(store.put(&other, &names).is_err(), "{:?}", other.blocks[0].name);
        }
    }
}

#[test]
fn a_stored_model_of_an_unknown_kind_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = ShareStore::open(dir.path()).unwrap();
    let spec = SubModelSpec::new("from_the_future", 2, Default::default()).unwrap();
    let said = store.put(&Parameters { spec, features: 0, blocks: Vec::new() }, &[]).unwrap_err().to_string();
    assert!(said.contains("`from_the_future`") && said.contains("`softmax_regression`"), "{said}");
}

proptest! {
    /// Under `sum` every party gets the gradient of the logits, whatever the shares were.
    #[test]
    fn the_sum_gives_each_party_the_same_gradient(k in 2u32..8, passive in 1usize..25, n in 0usize..9, seed in any::<u64>()) {
        let mut head = kinds::head(&ModelSpec::softmax_regression(k, passive).unwrap(), k).unwrap();
        let classes = k as usize;
        prop_assert_eq!(head.widths(), vec![classes; passive + 1]);
        let shares: Vec<_> = (0..=passive as u64).map(|p| LogitShare::new(random(classes, n, seed ^ p)).unwrap()).collect();
        let sum = shares.iter().skip(1).fold(shares[0].matrix().clone(), |z, share| z + share.matrix());
        let logits = head.forward(shares).unwrap();
        prop_assert_eq!(logits.matrix(), &sum);
        let gradient = random(classes, n, seed.wrapping_add(99));
        let HeadGradients { parties, parameters } = head.backward(gradient.clone()).unwrap();
        prop_assert_eq!(parties.len(), passive + 1);
        prop_assert!(parameters.is_empty());
        prop_assert!(parties.iter().all(|party| party.matrix() == &gradient));
        prop_assert_eq!(head.backward(gradient).err(), Some(BackwardError::NoBatch));
    }
}

#[test]
fn the_gradients_of_the_sum_are_those_of_central_differences() {
    let mut head = kinds::head(&ModelSpec::softmax_regression(3, 4).unwrap(), 3).unwrap();
    let outputs: Vec<_> = (0..5).map(|p| random(3, 6, p)).collect();
    check_head(&mut *head, &outputs, 1e-6);
}

#[test]
fn a_head_takes_no_other_parties_than_its_own() {
    let model = ModelSpec::softmax_regression(3, 2).unwrap();
    let head = kinds::head(&model, 3).unwrap();
    let shares = |widths: &[usize]| widths.iter().map(|&w| LogitShare::new(random(w, 4, 1)).unwrap()).collect();
    assert!(head.combine(shares(&[3, 3, 3])).is_ok());
    for wrong in [&[3, 3][..], &[3, 3, 3, 3], &[2, 2, 2], &[3, 2, 3], &[]] {
        assert!(head.combine(shares(wrong)).is_err(), "{wrong:?}");
    }
    let said = kinds::head(&model, 4).unwrap_err().to_string();
    assert!(said.contains("one output per class: 4, and the active party has `width` 3"), "{said}");
    let each = SubModelSpec::softmax_regression(3);
    let concat = ModelSpec::new(Combiner::Concat, each.clone(), vec![each]).unwrap();
    assert!(kinds::head(&concat, 3).unwrap_err().to_string().contains("combiner `concat` has no implementation"));
}

/// A linear top model over outputs side by side, z = V [o_1; o_2; …] + c. It is here to try the contract with a head that has
/// parameters and takes parties of different widths.
#[derive(Debug)]
struct LinearTop {
    widths: Vec<usize>,
    weights: DMatrix<f64>,
    bias: DMatrix<f64>,
    batch: Option<DMatrix<f64>>,
}

impl LinearTop {
    fn new(classes: usize, widths: &[usize]) -> Self {
        let weights = random(classes, widths.iter().sum(), 4);
        Self { widths: widths.to_vec(), weights, bias: DMatrix::zeros(classes, 1), batch: None }
    }

    fn beside(&self, outputs: Vec<LogitShare>) -> DMatrix<f64> {
        let n = outputs[0].records();
        let mut all = DMatrix::zeros(self.widths.iter().sum(), n);
        let mut from = 0;
        for (outputs, &width) in outputs.iter().zip(&self.widths) {
            all.rows_mut(from, width).copy_from(outputs.matrix());
            from += width;
        }
        all
    }

    fn logits(&self, inputs: &DMatrix<f64>) -> Result<Logits, ShapeError> {
        let mut z = &self.weights * inputs;
        z.column_iter_mut().for_each(|mut column| column += self.bias.column(0));
        Logits::new(z)
    }
}

impl Parametrised for LinearTop {
    fn tensors(&self) -> Vec<Tensor<&[f64]>> {
        vec![
            Tensor {
                name: "weights".into(),
                shape: vec![self.weights.ncols(), self.weights.nrows()],
                used: Use::Weight,
                values: self.weights.as_slice(),
            },
            Tensor {
                name: "bias".into(),
                shape: vec![self.bias.nrows()],
                used: Use::Free,
                values: self.bias.as_slice(),
            },
        ]
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        let (shape, k) = (vec![self.weights.ncols(), self.weights.nrows()], self.bias.nrows());
        vec![
            Tensor { name: "weights".into(), shape, used: Use::Weight, values: self.weights.as_mut_slice() },
            Tensor { name: "bias".into(), shape: vec![k], used: Use::Free, values: self.bias.as_mut_slice() },
        ]
    }
}

impl Head for LinearTop {
    fn combiner(&self) -> Combiner {
        Combiner::Concat
    }

    fn classes(&self) -> usize {
        self.weights.nrows()
    }

    fn widths(&self) -> &[usize] {
        &self.widths
    }

    fn combine(&self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError> {
        self.logits(&self.beside(outputs))
    }

    fn forward(&mut self, outputs: Vec<LogitShare>) -> Result<Logits, ShapeError> {
        let inputs = self.beside(outputs);
        let logits = self.logits(&inputs)?;
        self.batch = Some(inputs);
        Ok(logits)
    }

    fn backward(&mut self, gradient: DMatrix<f64>) -> Result<HeadGradients, BackwardError> {
        let inputs = self.batch.take().ok_or(BackwardError::NoBatch)?;
        let all = self.weights.tr_mul(&gradient);
        let mut from = 0;
        let mut parties = Vec::new();
        for &width in &self.widths {
            parties.push(OutputGradient::new(all.rows(from, width).into_owned()));
            from += width;
        }
        let weights = (&gradient * inputs.transpose()).as_slice().to_vec();
        Ok(HeadGradients { parties, parameters: vec![weights, gradient.column_sum().as_slice().to_vec()] })
    }
}

/// The contract carries a top model: parties of different widths, parameters at the coordinator, a gradient of its own for each
/// party; and a head learns, remembers its best parameters and goes back to them.
#[test]
fn the_contract_carries_a_top_model() {
    let widths = [2, 5, 1, 3];
    let mut head = LinearTop::new(3, &widths);
    let outputs: Vec<_> = widths.iter().zip(0..).map(|(&w, seed)| random(w, 40, seed)).collect();
    check_head(&mut head, &outputs, 1e-6);
    head.forward(outputs.iter().map(|m| LogitShare::new(m.clone()).unwrap()).collect()).unwrap();
    let parties = head.backward(random(3, 40, 9)).unwrap().parties;
    assert_eq!(parties.iter().map(|p| p.matrix().nrows()).collect::<Vec<_>>(), widths);

    let values = TrainingValues { learning_rate: 0.05, l2: 0.0, ..TrainingValues::default() };
    let mut learner = HeadLearner::new(&TrainingConfig::try_from(values).unwrap(), Box::new(head));
    assert_eq!(learner.widths(), widths);
    // Labels that the outputs of one party tell.
    let labels: Vec<u32> = outputs[1].column_iter().map(|o| u32::from(o[0] > 0.2) + u32::from(o[0] > -0.2)).collect();
    let shares = || outputs.iter().map(|m| LogitShare::new(m.clone()).unwrap()).collect::<Vec<_>>();
    let loss = |learner: &mut HeadLearner| cross_entropy(learner.logits(shares(), true).unwrap(), &labels).0;
    let first = loss(&mut learner);
    assert!(learner.restore().is_err(), "nothing was remembered");
    for _ in 0..200 {
        let (_, gradient, _) = cross_entropy(learner.logits(shares(), false).unwrap(), &labels);
        assert_eq!(learner.update(gradient).unwrap().len(), 4);
    }
    let learned = loss(&mut learner);
    assert!(learned < 0.3 * first, "{first} {learned}");
    learner.checkpoint();
    for _ in 0..5 {
        learner.logits(shares(), false).unwrap();
        // Away from the minimum.
        learner.update(random(3, 40, 8)).unwrap();
    }
    assert!(loss(&mut learner) > learned);
    learner.restore().unwrap();
    assert_eq!(loss(&mut learner), learned);
}
