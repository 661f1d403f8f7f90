//! What holds of every sub-model and every head: gradients, checkpoints, storage.
#![allow(missing_docs, clippy::unwrap_used)]

use nalgebra::DMatrix;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_core::gradient_checks::{check_head, check_neighbours, check_sub_model};
use vfl_core::model::contract::{
    BackwardError, HeadGradients, ParameterRole, Parametrised, SubModelOrigin, Tensor, start_of,
};
use vfl_core::model::{
    Combiner, Head, HeadLearner, ModelSpec, Parameters, SubModelSpec, TrainingConfig,
    TrainingValues, cross_entropy, heads, kinds,
};
use vfl_core::types::{LogitShare, Logits, OutputGradient, ShapeError};
use vfl_state::ShareStore;

fn random(rows: usize, columns: usize, seed: u64) -> DMatrix<f64> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    DMatrix::from_fn(rows, columns, |_, _| 2.0 * rng.random::<f64>() - 1.0)
}

/// Moves every parameter away from where training starts, and leaves running statistics.
fn stir(model: &mut dyn Parametrised, seed: u64) {
    for (at, tensor) in model
        .tensors_mut()
        .into_iter()
        .enumerate()
        .filter(|(_, t)| t.used != ParameterRole::Statistic)
    {
        let values = random(tensor.values.len(), 1, seed + at as u64);
        tensor.values.copy_from_slice(values.as_slice());
    }
}

/// Every kind of the register with default settings, or the smallest where it needs some, at both kinds of party.
fn origins() -> Vec<SubModelOrigin> {
    let spec = |kind: &str| {
        let settings = match kind {
            "residual" => serde_json::json!({ "height": 1, "blocks": 1, "filters": [3] }),
            "generalized_linear" => serde_json::json!({ "link": "log" }),
            _ => serde_json::json!({}),
        };
        let width = if kind == "generalized_linear" { 1 } else { 4 };
        SubModelSpec::new(kind, width, settings.as_object().unwrap().clone()).unwrap()
    };
    kinds::names()
        .flat_map(|kind| {
            [false, true].map(|active| SubModelOrigin {
                spec: spec(kind),
                features: 5,
                active,
                start: start_of(7),
            })
        })
        .collect()
}

#[test]
fn gradients_of_every_kind_are_those_of_central_differences() {
    // Differences need 64 bits: the layers of `residual` are checked in them where they are.
    for origin in origins().into_iter().filter(|origin| origin.spec.kind() != "residual") {
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
        let width = origin.spec.width() as usize;
        assert_eq!(model.backward(&random(width, 6, 1), false).err(), Some(BackwardError::NoBatch));
        for (rows, columns) in [(width, 7), (width + 1, 6)] {
            model.forward(random(5, 6, 2)).unwrap();
            assert!(matches!(
                model.backward(&random(rows, columns, 1), false),
                Err(BackwardError::Shape(_))
            ));
        }
        model.forward(random(5, 6, 2)).unwrap();
        assert!(model.backward(&random(width, 6, 1), false).unwrap().inputs.is_none());
        assert_eq!(model.backward(&random(width, 6, 1), false).err(), Some(BackwardError::NoBatch));
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
    let said = store
        .put(&Parameters { spec, features: 0, blocks: Vec::new() }, &[])
        .unwrap_err()
        .to_string();
    assert!(said.contains("`from_the_future`") && said.contains("`softmax_regression`"), "{said}");
}

proptest! {
    /// Under `sum` every party gets the gradient of the logits, whatever the shares were.
    #[test]
    fn the_sum_gives_each_party_the_same_gradient(k in 2u32..8, passive in 1usize..25, n in 0usize..9, seed in any::<u64>()) {
        let mut head = heads::start(&ModelSpec::softmax_regression(k, passive).unwrap(), k, start_of(0)).unwrap();
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
    let mut head =
        heads::start(&ModelSpec::softmax_regression(3, 4).unwrap(), 3, start_of(0)).unwrap();
    let outputs: Vec<_> = (0..5).map(|p| random(3, 6, p)).collect();
    check_head(&mut *head, &outputs, 1e-6);
}

#[test]
fn a_head_takes_no_other_parties_than_its_own() {
    let model = ModelSpec::softmax_regression(3, 2).unwrap();
    let head = heads::start(&model, 3, start_of(0)).unwrap();
    let shares = |widths: &[usize]| {
        widths.iter().map(|&w| LogitShare::new(random(w, 4, 1)).unwrap()).collect()
    };
    assert!(head.combine(shares(&[3, 3, 3])).is_ok());
    for wrong in [&[3, 3][..], &[3, 3, 3, 3], &[2, 2, 2], &[3, 2, 3], &[]] {
        assert!(head.combine(shares(wrong)).is_err(), "{wrong:?}");
    }
    let said = heads::start(&model, 4, start_of(0)).unwrap_err().to_string();
    assert!(said.contains("one output per class: 4, and the active party has `width` 3"), "{said}");
    let each = SubModelSpec::softmax_regression(3);
    let linear =
        ModelSpec::new(Combiner::Concat, each.clone(), vec![each], Some(mlp(3, &[4]))).unwrap();
    let said = |model: &ModelSpec, k| heads::start(model, k, start_of(0)).unwrap_err().to_string();
    assert!(
        said(&linear, 3).contains("`concat` does not take `softmax_regression`"),
        "{}",
        said(&linear, 3)
    );
    let model = concat(&[5, 7], 3, &[4]);
    let head = heads::start(&model, 3, start_of(0)).unwrap();
    assert!(head.combine(shares(&[5, 7])).is_ok());
    for wrong in [&[5][..], &[7, 5], &[5, 7, 7], &[12], &[]] {
        assert!(head.combine(shares(wrong)).is_err(), "{wrong:?}");
    }
    let uneven =
        vec![LogitShare::new(random(5, 4, 1)).unwrap(), LogitShare::new(random(7, 3, 1)).unwrap()];
    assert!(head.combine(uneven).is_err());
    assert!(
        said(&model, 4).contains("it has 3 outputs, the model 4 classes"),
        "{}",
        said(&model, 4)
    );
    // Nothing of such a size is asked for.
    let large = concat(&[60_000, 60_000], 3, &[4096]);
    assert!(said(&large, 3).contains("make 491532288 weights"), "{}", said(&large, 3));
}

fn mlp(width: u32, hidden: &[u32]) -> SubModelSpec {
    let settings = serde_json::json!({ "hidden": hidden, "activation": "tanh" });
    SubModelSpec::new("mlp", width, settings.as_object().unwrap().clone()).unwrap()
}

/// Perceptrons of these output widths under a top model.
fn concat(widths: &[u32], classes: u32, hidden: &[u32]) -> ModelSpec {
    let mut parties = widths.iter().map(|&width| mlp(width, &[3]));
    let active = parties.next().unwrap();
    ModelSpec::new(Combiner::Concat, active, parties.collect(), Some(mlp(classes, hidden))).unwrap()
}

#[test]
fn the_gradients_of_a_top_model_are_those_of_central_differences() {
    for (widths, hidden) in [(&[3, 5][..], &[][..]), (&[4, 1, 2], &[6]), (&[2, 2, 2, 2], &[5, 3])] {
        let mut head = heads::start(&concat(widths, 4, hidden), 4, start_of(0)).unwrap();
        stir(&mut *head, 11);
        let outputs: Vec<_> =
            widths.iter().zip(0..).map(|(&w, p)| random(w as usize, 6, p)).collect();
        check_head(&mut *head, &outputs, 1e-6);
    }
}

/// A top model adds nothing of its own: one that is linear with the identity in each party's place is the sum.
#[test]
fn a_top_model_of_identities_is_the_sum() {
    let mut head = heads::start(&concat(&[3, 3, 3], 3, &[]), 3, start_of(0)).unwrap();
    // 3 × 9, column by column: [I I I], and no bias.
    let identities = DMatrix::from_fn(3, 9, |i, j| f64::from(i == j % 3));
    head.put_back(&[identities.as_slice().to_vec(), vec![0.0; 3]]);
    let outputs: Vec<_> = (0..3).map(|p| LogitShare::new(random(3, 8, p)).unwrap()).collect();
    let sum = heads::start(&ModelSpec::softmax_regression(3, 2).unwrap(), 3, start_of(0)).unwrap();
    let added = sum.combine(outputs.clone()).unwrap().into_matrix();
    let through = head.combine(outputs).unwrap().into_matrix();
    assert!((added - through).amax() < 1e-14);
}

/// In service a record's logits do not depend on the records beside it: repeated questions have the same noise and binding.
#[test]
fn logits_of_a_top_model_do_not_depend_on_the_records_beside_it() {
    let head = heads::start(&concat(&[9, 16, 64], 11, &[32]), 11, start_of(3)).unwrap();
    let outputs: Vec<_> = [9, 16, 64].into_iter().zip(0..).map(|(w, p)| random(w, 70, p)).collect();
    let logits = |from: usize, n: usize| {
        let part =
            outputs.iter().map(|o| LogitShare::new(o.columns(from, n).into_owned()).unwrap());
        head.combine(part.collect()).unwrap().into_matrix()
    };
    let all = logits(0, 70);
    for (from, n) in [(0, 1), (69, 1), (3, 2), (10, 5), (0, 7), (30, 40)] {
        assert_eq!(logits(from, n), all.columns(from, n).into_owned(), "{n} records from {from}");
    }
}

/// What is stored of a top model comes back to the bit, and stands for no other model.
#[test]
fn a_top_model_is_stored_and_restored() {
    let model = concat(&[5, 7], 3, &[4]);
    let mut head = heads::start(&model, 3, start_of(0)).unwrap();
    stir(&mut *head, 5);
    let outputs = || {
        [5, 7]
            .into_iter()
            .zip(0..)
            .map(|(w, p)| LogitShare::new(random(w, 6, p)).unwrap())
            .collect()
    };
    let before = head.combine(outputs()).unwrap().into_matrix();
    let dir = tempfile::tempdir().unwrap();
    let store = ShareStore::open(dir.path()).unwrap();
    let names: Vec<String> = (0..12).map(|n| format!("h{n}")).collect();
    let top = head.top().unwrap();
    let digest = store.put(Parameters::of(top, top.snapshot()), &names).unwrap();
    let stored = store.stored(&digest).unwrap();
    let stored = Parameters::of(stored.model(), stored.model().snapshot());
    let again = heads::restore(&model, 3, Some(&stored)).unwrap();
    assert_eq!(again.combine(outputs()).unwrap().into_matrix(), before);
    for other in [concat(&[5, 8], 3, &[4]), concat(&[5, 7], 3, &[5]), concat(&[5, 7], 3, &[])] {
        let said = heads::restore(&other, 3, Some(&stored)).unwrap_err().to_string();
        assert!(said.contains("not of a top model of"), "{said}");
    }
    assert!(heads::restore(&model, 3, None).is_err());
    let sum = ModelSpec::softmax_regression(3, 1).unwrap();
    assert!(heads::restore(&sum, 3, Some(&stored)).is_err());
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
                used: ParameterRole::Weight,
                values: self.weights.as_slice(),
            },
            Tensor {
                name: "bias".into(),
                shape: vec![self.bias.nrows()],
                used: ParameterRole::Free,
                values: self.bias.as_slice(),
            },
        ]
    }

    fn tensors_mut(&mut self) -> Vec<Tensor<&mut [f64]>> {
        let (shape, k) = (vec![self.weights.ncols(), self.weights.nrows()], self.bias.nrows());
        vec![
            Tensor {
                name: "weights".into(),
                shape,
                used: ParameterRole::Weight,
                values: self.weights.as_mut_slice(),
            },
            Tensor {
                name: "bias".into(),
                shape: vec![k],
                used: ParameterRole::Free,
                values: self.bias.as_mut_slice(),
            },
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
        Ok(HeadGradients {
            parties,
            parameters: vec![weights, gradient.column_sum().as_slice().to_vec()],
        })
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
    let labels: Vec<u32> =
        outputs[1].column_iter().map(|o| u32::from(o[0] > 0.2) + u32::from(o[0] > -0.2)).collect();
    let shares = || outputs.iter().map(|m| LogitShare::new(m.clone()).unwrap()).collect::<Vec<_>>();
    let loss = |learner: &mut HeadLearner| {
        cross_entropy(learner.logits(shares(), true).unwrap(), &labels).0
    };
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
