//! A sub-model as JSON, for case files. It has the content of a safetensors file
//! ([`NetworkFile`](super::NetworkFile)), with PyTorch's names and layout of its parameters.
//!
//! ```json
//! {"kind": "mlp", "settings": {"activation": "sigmoid"}, "features": 2,
//!  "parameters": {"0.weight": [[0.1, 0.2], [0.3, 0.4]], "0.bias": [0.5, 0.6], "2.weight": [[0.7, 0.8]], "2.bias": [0.9]}}
//! ```

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

use super::contract::{Block, ExternalParameters};
use super::parameter_file::problem;
use super::{NetworkFileError, Settings, SubModel, kinds};

/// The largest number of inputs. A model is created with them before its parameters are checked.
const MOST_FEATURES: usize = 100_000;

/// A sub-model read from JSON, not checked yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JsonNetwork {
    kind: String,
    #[serde(default)]
    settings: Settings,
    /// Number of inputs.
    features: usize,
    /// The names of the layers in their order; by default that of the numbers in their names.
    #[serde(default)]
    layers: Option<Vec<String>>,
    /// The parameters by name.
    parameters: BTreeMap<String, NestedNumbers>,
}

/// Shows the size only: parameters are private.
impl fmt::Debug for JsonNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WrittenNetwork({}, {} inputs, values withheld)", self.kind, self.features)
    }
}

/// Numbers in lists of lists, the outermost dimension first.
#[derive(Deserialize)]
#[serde(untagged)]
enum NestedNumbers {
    Number(f64),
    List(Vec<NestedNumbers>),
}

impl NestedNumbers {
    /// Returns the lengths of the first lists, from the outermost to the innermost.
    fn shape(&self) -> Vec<usize> {
        let (mut shape, mut at) = (Vec::new(), self);
        while let Self::List(list) = at {
            shape.push(list.len());
            match list.first() {
                Some(first) => at = first,
                None => break,
            }
        }
        shape
    }

    /// Puts the numbers into `values`. Returns true if all lists have the lengths of `shape`.
    fn collect(&self, shape: &[usize], values: &mut Vec<f64>) -> bool {
        match (self, shape) {
            (Self::Number(value), []) => {
                values.push(*value);
                true
            }
            (Self::List(list), [length, inner @ ..]) if list.len() == *length => {
                list.iter().all(|part| part.collect(inner, values))
            }
            _ => false,
        }
    }
}

impl JsonNetwork {
    /// Checks the parameters and creates the model.
    ///
    /// # Errors
    /// [`NetworkFileError`] names the block or the setting, and the fix: lists of different
    /// lengths, numbers that are not finite or beyond 10⁶, or blocks that do not make a model of
    /// the kind.
    pub fn restore(self) -> Result<Box<dyn SubModel>, NetworkFileError> {
        if !(1..=MOST_FEATURES).contains(&self.features) {
            let problem = format!("`features` is {}, expected 1 to {MOST_FEATURES}", self.features);
            return Err(NetworkFileError::Model(problem));
        }
        let mut blocks = Vec::with_capacity(self.parameters.len());
        for (name, nested) in self.parameters {
            let (shape, mut values) = (nested.shape(), Vec::new());
            let even = nested.collect(&shape, &mut values);
            let wrong = if even {
                values.iter().find_map(|v| problem(*v))
            } else {
                Some("its lists differ in length")
            };
            if let Some(problem) = wrong {
                return Err(NetworkFileError::Block { name, problem });
            }
            blocks.push(Block { name, shape, values });
        }
        let exchanged = ExternalParameters {
            settings: self.settings,
            features: self.features,
            blocks,
            layers: self.layers,
        };
        let parameters =
            kinds::find(&self.kind)?.adopt_pytorch(exchanged).map_err(NetworkFileError::Model)?;
        Ok(kinds::restore(&parameters)?)
    }
}

#[cfg(test)]
mod tests {
    use nalgebra::DMatrix;

    use super::*;
    use crate::model::contract::{SubModelOrigin, start_of};
    use crate::model::{NetworkFile, Parameters, SubModelSpec};

    fn restore(text: &serde_json::Value) -> Result<Box<dyn SubModel>, String> {
        let written: JsonNetwork =
            serde_json::from_value(text.clone()).map_err(|e| e.to_string())?;
        written.restore().map_err(|e| e.to_string())
    }

    fn small() -> serde_json::Value {
        serde_json::json!({
            "kind": "mlp", "settings": {"activation": "tanh"}, "features": 2,
            "parameters": {
                "0.weight": [[0.5, -1.0], [0.25, 2.0], [1.0, 0.0]], "0.bias": [0.1, 0.2, 0.3],
                "2.weight": [[1.0, 2.0, 3.0], [-1.0, 0.5, 0.0]], "2.bias": [0.5, -0.5]
            }
        })
    }

    /// By hand: 2 inputs, 3 hidden units, 2 outputs.
    #[test]
    fn it_is_the_network_that_is_written() {
        let model = restore(&small()).unwrap();
        let x = [0.3, 0.8];
        let a = [
            (0.5 * x[0] - x[1] + 0.1f64).tanh(),
            (0.25 * x[0] + 2.0 * x[1] + 0.2f64).tanh(),
            (x[0] + 0.3f64).tanh(),
        ];
        let want = [a[0] + 2.0 * a[1] + 3.0 * a[2] + 0.5, -a[0] + 0.5 * a[1] - 0.5];
        let found = model.outputs(&DMatrix::from_column_slice(2, 1, &x)).unwrap();
        for (found, want) in found.matrix().iter().zip(want) {
            assert!((found - want).abs() < 1e-15, "{found} {want}");
        }
    }

    /// Every kind comes back from what [`NetworkFile`] would write of it.
    #[test]
    fn all_kinds_come_back() {
        for kind in kinds::names() {
            let settings = match kind {
                "residual" => serde_json::json!({ "height": 2, "blocks": 1, "filters": [2] }),
                "mlp" => serde_json::json!({ "hidden": [3], "activation": "relu" }),
                "generalized_linear" => serde_json::json!({ "link": "log" }),
                _ => serde_json::json!({}),
            };
            let settings = settings.as_object().unwrap().clone();
            let width = if kind == "generalized_linear" { 1 } else { 3 };
            let spec = SubModelSpec::new(kind, width, settings.clone()).unwrap();
            let origin = SubModelOrigin { spec, features: 4, active: true, start: start_of(5) };
            let model = kinds::start(&origin).unwrap();
            let parameters = Parameters::of(&*model, model.snapshot());
            let blocks = kinds::find(kind).unwrap().to_pytorch(&parameters);
            let nest = |block: &Block| {
                let mut level: Vec<serde_json::Value> =
                    block.values.iter().map(|v| serde_json::json!(v)).collect();
                for length in block.shape.iter().skip(1).rev() {
                    level = level
                        .chunks(*length)
                        .map(|c| serde_json::Value::Array(c.to_vec()))
                        .collect();
                }
                serde_json::Value::Array(level)
            };
            let named: serde_json::Map<_, _> =
                blocks.iter().map(|b| (b.name.clone(), nest(b))).collect();
            let text = serde_json::json!({"kind": kind, "settings": settings, "features": 4, "parameters": named});
            let back = restore(&text).unwrap();
            assert_eq!((back.spec(), back.snapshot()), (model.spec(), model.snapshot()), "{kind}");
            let names: Vec<String> = (0..4).map(|i| format!("f{i}")).collect();
            let file =
                NetworkFile::parse(&NetworkFile::of(&*model, &names, &[]).to_bytes().unwrap())
                    .unwrap();
            let same = Parameters::of(&*back, back.snapshot());
            assert!(*file.parameters() == same, "{kind}: as a file of the same model");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        type Change = fn(&mut serde_json::Value);
        let changes: [(&str, Change); 11] = [
            ("`lstm`", |t| t["kind"] = "lstm".into()),
            ("unknown field `weights`", |t| t["weights"] = 1.into()),
            ("`features` is 0, expected 1", |t| t["features"] = 0.into()),
            ("`features` is 100001", |t| t["features"] = 100_001.into()),
            ("takes 2 inputs, and there are 3", |t| t["features"] = 3.into()),
            ("`activation` is missing", |t| t["settings"] = serde_json::json!({})),
            ("block `0.weight`: its lists differ", |t| {
                t["parameters"]["0.weight"][1] = serde_json::json!([0.2])
            }),
            ("block `0.bias`: its lists differ", |t| {
                t["parameters"]["0.bias"][1] = serde_json::json!([0.2])
            }),
            ("block `2.bias`: more than 1e6", |t| t["parameters"]["2.bias"][0] = 1e7.into()),
            ("3 outputs and the next", |t| {
                t["parameters"]["2.weight"] = serde_json::json!([[0.1, 0.2], [0.3, 0.4]])
            }),
            ("Nested", |t| t["parameters"]["0.bias"][0] = "0.7316123".into()),
        ];
        for (says, change) in changes {
            let mut text = small();
            change(&mut text);
            let said = restore(&text).unwrap_err();
            assert!(said.contains(says) && !said.contains("7316"), "{says}: {said}");
        }
        let written: JsonNetwork = serde_json::from_value(small()).unwrap();
        assert_eq!(format!("{written:?}"), "WrittenNetwork(mlp, 2 inputs, values withheld)");
    }
}
