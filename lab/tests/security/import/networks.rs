//! Networks from safetensors files in service: what is served is a forward pass written in plain loops, with and without a top model,
//! and what does not fit together is refused.

use std::path::PathBuf;

use vfl_coordinator::import::import_top;
use vfl_core::model::contract::{SubModelOrigin, start_of};
use vfl_core::model::{NetworkFile, Parameters, Settings, SubModelSpec, kinds};
use vfl_core::types::ModelVersion;
use vfl_state::ShareStore;

use super::*;

const PARTIES: [&str; 3] = ["active", "passive-1", "passive-2"];

fn settings(text: &str) -> Settings {
    serde_json::from_str(text).unwrap()
}

/// A perceptron with parameters from −1 to 1, its biases too; `bias`: of the outputs also.
fn perceptron(of: (&str, u32), inputs: usize, bias: bool, seed: u64) -> Parameters {
    let spec = SubModelSpec::new("mlp", of.1, settings(of.0)).unwrap();
    let mut model = kinds::start(&SubModelOrigin {
        spec,
        features: inputs,
        active: bias,
        start: start_of(seed),
    })
    .unwrap();
    for (at, tensor) in model.tensors_mut().into_iter().enumerate() {
        for (i, v) in tensor.values.iter_mut().enumerate() {
            *v = ((seed as f64 + 1.0) * (at as f64 + 1.7) * (i as f64 + 0.3) * 12.9898).sin();
        }
    }
    Parameters::of(&*model, model.snapshot())
}

/// One record through a perceptron.
fn forward(parameters: &Parameters, activation: impl Fn(f64) -> f64, mut a: Vec<f64>) -> Vec<f64> {
    let layers = parameters.blocks.iter().filter(|block| block.shape.len() == 2).count();
    for place in 1..=layers {
        let find = |what: &str| {
            parameters.blocks.iter().find(|block| block.name == format!("layer{place}.{what}"))
        };
        let (weights, bias) = (find("weights").unwrap(), find("bias"));
        let outputs = weights.shape[1];
        let z = (0..outputs).map(|o| {
            let sum: f64 =
                a.iter().enumerate().map(|(i, v)| v * weights.values[i * outputs + o]).sum();
            sum + bias.map_or(0.0, |bias| bias.values[o])
        });
        a = if place < layers { z.map(&activation).collect() } else { z.collect() };
    }
    a
}

fn softmax(z: &[f64]) -> Vec<f64> {
    let sum: f64 = z.iter().map(|z| z.exp()).sum();
    z.iter().map(|z| z.exp() / sum).collect()
}

impl Here {
    fn network(&self, party: &str, parameters: &Parameters) -> NetworkFile {
        let model = kinds::restore(parameters).unwrap();
        NetworkFile::of(&*model, &self.names(party), self.dataset.class_names())
    }

    fn write(&self, name: &str, file: &NetworkFile) -> PathBuf {
        let path = self.dir.path().join(format!("{name}.safetensors"));
        std::fs::write(&path, file.to_bytes().unwrap()).unwrap();
        path
    }

    fn import_network(&self, party: &str, file: &NetworkFile) -> Result<ImportReport, ImportError> {
        import_parameters(ImportRequest {
            path: &self.write(party, file),
            state_dir: &(&self.deployment.party_dir(party)).into(),
            feature_names: &self.names(party),
            encodings: None,
            max_classes: None,
            classes: (party == "active").then(|| self.dataset.class_names()),
            active_party: &PartyName::new("active").unwrap(),
        })
    }

    /// Stages a top model whose inputs have these names.
    fn import_top(
        &self,
        parameters: &Parameters,
        inputs: &[String],
        classes: &[String],
    ) -> Result<ImportReport, ImportError> {
        let model = kinds::restore(parameters).unwrap();
        let path = self.write("top", &NetworkFile::of(&*model, inputs, classes));
        import_top(
            &path,
            &self.deployment.party_dir("coordinator"),
            &PartyName::new("active").unwrap(),
        )
    }

    /// Scores of 40 records that nobody trained on, beside `expected` of a record's features by party.
    async fn compare(&self, expected: impl Fn(&[Vec<f64>]) -> Vec<f64>) {
        let ids = test_ids(&self.dataset, 0, 40);
        let answer = score(&self.deployment, &ids).await.unwrap();
        let scores = probabilities(&answer, 40);
        for (j, &position) in self.dataset.split().test[..40].iter().enumerate() {
            let record = |party: &&str| {
                let columns = match *party {
                    "active" => self.split.active(),
                    _ => {
                        &self
                            .split
                            .passive()
                            .iter()
                            .find(|p| p.name.as_str() == *party)
                            .unwrap()
                            .columns
                    }
                };
                columns.iter().map(|&c| self.dataset.x()[(c, position)]).collect::<Vec<f64>>()
            };
            let expected = expected(&PARTIES.iter().map(record).collect::<Vec<_>>());
            for (i, expected) in expected.iter().enumerate() {
                assert!((scores[(i, j)] - expected).abs() < 1e-12, "record {j}, class {i}");
            }
        }
    }
}

/// Outputs with a bias at every party, as PyTorch makes them, are added like any others.
#[tokio::test(flavor = "multi_thread")]
async fn perceptrons_from_elsewhere_are_added() {
    let here = Here::new().await;
    let k = here.dataset.class_names().len() as u32;
    let each: Vec<Parameters> = (0u64..)
        .zip(PARTIES)
        .map(|(seed, party)| {
            perceptron(
                (r#"{"hidden":[4,3],"activation":"tanh"}"#, k),
                here.names(party).len(),
                true,
                seed,
            )
        })
        .collect();
    for (party, parameters) in PARTIES.iter().zip(&each) {
        let imported = here.import_network(party, &here.network(party, parameters)).unwrap();
        assert_eq!((imported.kind.as_str(), imported.width), ("mlp", k));
    }
    let published = here.publish(None).await.unwrap();
    assert!(published.imported);
    here.compare(|records| {
        let mut z = vec![0.0; k as usize];
        for (parameters, record) in each.iter().zip(records) {
            let share = forward(parameters, f64::tanh, record.clone());
            z.iter_mut().zip(share).for_each(|(z, s)| *z += s);
        }
        softmax(&z)
    })
    .await;
    // What is stored is what came, and goes out as it came.
    let version = ModelVersion::new(published.model_version).unwrap();
    let share =
        ShareStore::open(&here.deployment.party_dir("passive-1")).unwrap().load(&version).unwrap();
    let exported = NetworkFile::of(share.model(), &share.feature_names, here.dataset.class_names());
    assert!(exported == here.network("passive-1", &each[1]));
    here.refused(Code::FailedPrecondition, &["these very parameters are in service already"]).await;
    here.deployment.stop().await.unwrap();
}

/// Embeddings of different widths, and the coordinator's top model: good for one publication.
#[tokio::test(flavor = "multi_thread")]
async fn a_top_model_from_elsewhere_takes_the_embeddings() {
    let here = Here::new().await;
    let classes = here.dataset.class_names().to_vec();
    let k = classes.len() as u32;
    let widths = [3, 5, 2];
    let each: Vec<Parameters> = (10u64..)
        .zip(PARTIES.iter().zip(widths))
        .map(|(seed, (party, width))| {
            perceptron(
                (r#"{"hidden":[6],"activation":"sigmoid"}"#, width),
                here.names(party).len(),
                true,
                seed,
            )
        })
        .collect();
    for (party, parameters) in PARTIES.iter().zip(&each) {
        here.import_network(party, &here.network(party, parameters)).unwrap();
    }
    here.refused(
        Code::FailedPrecondition,
        &["makes no model", "`width` 3", "the coordinator's operator stages a top model"],
    )
    .await;

    let inputs: Vec<String> = PARTIES
        .iter()
        .zip(widths)
        .flat_map(|(party, width)| (1..=width).map(move |n| format!("{party}.{n}")))
        .collect();
    let top = perceptron((r#"{"hidden":[7],"activation":"relu"}"#, k), 10, true, 20);
    let mut wrong = inputs.clone();
    wrong.swap(3, 8);
    here.import_top(&top, &wrong, &classes).unwrap();
    here.refused(
        Code::FailedPrecondition,
        &["input 4 is `passive-2.1` there, expected `passive-1.1`"],
    )
    .await;
    let mut other = classes.clone();
    other.swap(0, 1);
    here.import_top(&top, &inputs, &other).unwrap();
    here.refused(
        Code::FailedPrecondition,
        &["the top model staged at the coordinator is of other classes"],
    )
    .await;
    let said = here.import_top(&top, &inputs, &classes[1..]).unwrap_err().to_string();
    assert!(said.contains("one per class"), "{said}");

    here.import_top(&top, &inputs, &classes).unwrap();
    let first = here.publish(None).await.unwrap().model_version;
    let expected = |records: &[Vec<f64>]| {
        let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
        let all = each
            .iter()
            .zip(records)
            .flat_map(|(p, record)| forward(p, sigmoid, record.clone()))
            .collect();
        softmax(&forward(&top, |z| z.max(0.0), all))
    };
    here.compare(expected).await;
    // Used: without another staging, outputs would be added.
    for (party, parameters) in PARTIES.iter().zip(&each) {
        here.import_network(party, &here.network(party, parameters)).unwrap();
    }
    here.refused(Code::FailedPrecondition, &["makes no model"]).await;
    here.compare(expected).await;
    let wide = perceptron((r#"{"hidden":[]}"#, 2048), here.names("passive-1").len(), true, 22);
    here.import_network("passive-1", &here.network("passive-1", &wide)).unwrap();
    here.import_top(&top, &inputs, &classes).unwrap();
    here.refused(
        Code::FailedPrecondition,
        &["embeddings have at most 2047 numbers", "outputs of 2048"],
    )
    .await;
    here.import_network("passive-1", &here.network("passive-1", &each[1])).unwrap();
    // Another top model of the same parts is another version.
    let other = perceptron((r#"{"hidden":[]}"#, k), 10, true, 21);
    here.import_top(&other, &inputs, &classes).unwrap();
    let second = here.publish(None).await.unwrap().model_version;
    assert_ne!(first, second);
    here.deployment.stop().await.unwrap();
}

/// A softmax regression may come in either form; under a top model it is refused, as in a training.
#[tokio::test(flavor = "multi_thread")]
async fn linear_parts_come_in_either_form_and_do_not_go_under_a_top_model() {
    let here = Here::new().await;
    for party in PARTIES {
        here.import(party, &here.part(&here.whole, party), "active").unwrap();
    }
    let by_json = here.publish(None).await.unwrap().model_version;
    let served = here.served().await;
    let store = ShareStore::open(&here.deployment.party_dir("passive-1")).unwrap();
    let share = store.load(&ModelVersion::new(by_json).unwrap()).unwrap();
    let file = NetworkFile::of(share.model(), &share.feature_names, here.dataset.class_names());
    let imported = here.import_network("passive-1", &file).unwrap();
    assert_eq!(imported.digest, share.digest, "the same share in the other form");

    let inputs: Vec<String> =
        PARTIES.iter().flat_map(|party| (1..=6).map(move |n| format!("{party}.{n}"))).collect();
    let k = here.dataset.class_names().len();
    let inputs: Vec<String> = inputs
        .into_iter()
        .filter(|name| name.ends_with(|c: char| ('1'..='6').contains(&c)))
        .collect();
    let top = perceptron((r#"{"hidden":[]}"#, k as u32), inputs.len(), true, 3);
    here.import_top(&top, &inputs, here.dataset.class_names()).unwrap();
    let refused = here.publish(None).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert_eq!(here.served().await, served);
    here.deployment.stop().await.unwrap();
}
