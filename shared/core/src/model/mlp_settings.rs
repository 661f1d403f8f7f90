//! Settings of a perceptron: `hidden = [8, 8]`, `activation = "sigmoid"`.

use super::{
    Activation, Combiner, GENERALIZED_LINEAR, Link, ModelConfig, SOFTMAX_REGRESSION, Settings,
    TOP_KIND,
};

/// The largest number of hidden layers.
const MOST_LAYERS: usize = 16;
/// The largest number of weights between hidden layers: 8 MB of parameters, and as much for each of
/// Adam's moments, gradients and checkpoint.
const MOST_WEIGHTS: usize = 1_000_000;
/// The largest width of a hidden layer.
const MOST_UNITS: u64 = 4096;

/// The name of the default activation.
pub(super) const DEFAULT_ACTIVATION: &str = "sigmoid";

/// The checked settings. The default is J's network: two hidden layers of 8, sigmoid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MlpSettings {
    hidden: Vec<usize>,
    activation: Activation,
}

/// The hidden layers of a perceptron.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HiddenLayers {
    /// Their widths, the first one first; at least one.
    pub widths: Vec<usize>,
    /// Their function.
    pub activation: Activation,
}

impl ModelConfig {
    /// Returns the hidden layers of a perceptron that is trained on secret shares; `None` for a
    /// regression, which has none.
    ///
    /// # Errors
    /// The models that are trained on shares, for another one.
    pub fn private_layers(&self) -> Result<Option<HiddenLayers>, &'static str> {
        if self.combiner() != Combiner::Sum {
            return Err("combiner `sum`, or `plain`: a top model is not trained on shares");
        }
        match self.kind() {
            SOFTMAX_REGRESSION => Ok(None),
            GENERALIZED_LINEAR => match self.link() {
                Ok(Link::Identity | Link::Log) => Ok(None),
                _ => Err("link `identity` or `log`; other models of a number are imported"),
            },
            // `mlp`, as top models are.
            TOP_KIND => {
                let read = MlpSettings::read(self.settings());
                let MlpSettings { hidden: widths, activation } =
                    read.map_err(|_| "valid settings of `mlp`")?;
                if widths.is_empty() {
                    return Err("an `mlp` with a hidden layer, `softmax_regression`, or `plain`");
                }
                Ok(Some(HiddenLayers { widths, activation }))
            }
            _ => Err("kind `softmax_regression`, `mlp` or `generalized_linear`, or `plain`"),
        }
    }
}

impl MlpSettings {
    /// Reads and checks settings.
    ///
    /// # Errors
    /// The problem and its fix.
    pub(super) fn read(settings: &Settings) -> Result<Self, String> {
        let mut read = Self { hidden: vec![8, 8], activation: Activation::Sigmoid };
        for (key, value) in settings {
            match key.as_str() {
                "hidden" => {
                    let units = |v: &serde_json::Value| {
                        v.as_u64().filter(|units| (1..=MOST_UNITS).contains(units))
                    };
                    let hidden: Option<Vec<usize>> = value
                        .as_array()
                        .and_then(|all| all.iter().map(|v| units(v).map(|u| u as usize)).collect());
                    read.hidden = hidden.filter(|hidden| hidden.len() <= MOST_LAYERS).ok_or_else(|| {
                        format!(
                            "`hidden` is a list of at most {MOST_LAYERS} widths from 1 to {MOST_UNITS}, such as [8, 8]"
                        )
                    })?;
                }
                "activation" => {
                    read.activation = match value.as_str() {
                        Some("sigmoid") => Activation::Sigmoid,
                        Some("tanh") => Activation::Tanh,
                        Some("relu") => Activation::Relu,
                        _ => return Err("`activation` is \"sigmoid\", \"tanh\" or \"relu\"".into()),
                    };
                }
                other => {
                    return Err(format!("`{other}` is unknown: it has `hidden` and `activation`"));
                }
            }
        }
        let weights: usize =
            read.hidden.iter().zip(read.hidden.iter().skip(1)).map(|(a, b)| a * b).sum();
        if weights > MOST_WEIGHTS {
            return Err(format!(
                "`hidden` has {weights} weights between its layers, at most {MOST_WEIGHTS} are taken"
            ));
        }
        Ok(read)
    }

    /// Returns the number of values that a record has on its way through all layers.
    pub(super) fn values(&self, outputs: usize) -> u64 {
        (self.hidden.iter().sum::<usize>() + outputs) as u64
    }

    /// Returns the widths and activations of all layers, the outputs last.
    pub(super) fn layers(
        &self,
        outputs: usize,
    ) -> impl Iterator<Item = (usize, Option<Activation>)> + '_ {
        self.hidden.iter().map(|units| (*units, Some(self.activation))).chain([(outputs, None)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: serde_json::Value) -> Result<MlpSettings, String> {
        MlpSettings::read(settings.as_object().unwrap())
    }

    #[test]
    fn what_is_given_is_read_and_the_rest_is_the_papers() {
        let default = read(serde_json::json!({})).unwrap();
        assert_eq!(
            default,
            read(serde_json::json!({ "hidden": [8, 8], "activation": "sigmoid" })).unwrap()
        );
        let one = read(serde_json::json!({ "hidden": [128], "activation": "relu" })).unwrap();
        let layers: Vec<_> = one.layers(64).collect();
        assert_eq!(layers, [(128, Some(Activation::Relu)), (64, None)]);
        let linear = read(serde_json::json!({ "hidden": [] })).unwrap();
        assert_eq!(linear.layers(3).collect::<Vec<_>>(), [(3, None)]);
    }

    #[test]
    fn other_settings_are_refused_with_what_is_taken() {
        for (settings, says) in [
            (serde_json::json!({ "hidden": vec![1; 17] }), "at most 16 widths"),
            (serde_json::json!({ "hidden": [0] }), "from 1 to 4096"),
            (serde_json::json!({ "hidden": [4097] }), "from 1 to 4096"),
            (serde_json::json!({ "hidden": [4096, 4096] }), "16777216 weights between its layers"),
            (serde_json::json!({ "hidden": [8.5] }), "such as [8, 8]"),
            (serde_json::json!({ "hidden": 8 }), "is a list"),
            (serde_json::json!({ "activation": "gelu" }), "\"relu\""),
            (serde_json::json!({ "activation": 1 }), "\"relu\""),
            (serde_json::json!({ "layers": [8] }), "`layers` is unknown"),
        ] {
            let said = read(settings.clone()).unwrap_err();
            assert!(said.contains(says), "{settings}: {said}");
        }
    }

    #[test]
    fn slopes_are_those_of_differences() {
        for activation in [Activation::Sigmoid, Activation::Tanh, Activation::Relu] {
            for z in [-2.0, -0.3, 0.4, 3.0] {
                let h = 1e-6;
                let difference = (activation.of(z + h) - activation.of(z - h)) / (2.0 * h);
                assert!(
                    (activation.slope(activation.of(z)) - difference).abs() < 1e-9,
                    "{activation:?} at {z}"
                );
            }
        }
    }
}
