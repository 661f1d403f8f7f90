//! The division of a perceptron of all parties' features among the parties.
//!
//! The first layer is affine: W₁ x + b₁ = (W₁,act y + b₁) + Σ W₁,pas x. Each party computes its own
//! addend as an embedding, without a hidden layer of its own, and the coordinator's top model adds
//! them in its first layer and computes the rest. The scores are those of the whole, up to
//! rounding.

use serde_json::json;

use super::contract::{Block, Parameters};
use super::feature_scales::{self, FeatureScales};
use super::parameter_file::{places, problem};
use super::{
    Combiner, ModelConfig, NetworkFile, NetworkFileError, Settings, SubModelSpec, TOP_KIND,
};
use crate::data::schema::FeatureSpec;
use crate::types::PartyName;

/// The parts of a perceptron of all parties' features.
pub struct NetworkDivision {
    /// The part of each party, the active party's first: its addend to the first hidden layer.
    pub parts: Vec<NetworkFile>,
    /// The part of the coordinator. Its inputs are named PARTY.1, PARTY.2, …
    pub top: NetworkFile,
}

/// The layers of a whole perceptron.
struct Layers<'a> {
    /// The first layer's weights, inputs × outputs, row by row, and its bias.
    first: (&'a Block, &'a Block),
    /// The blocks of all later layers.
    later: &'a [Block],
}

impl NetworkFile {
    /// Returns the same network for features that are normalised by these ranges, (min, max) per
    /// feature: the file's own are of features in their own units.
    ///
    /// # Errors
    /// [`NetworkFileError::Model`] unless it is a perceptron with a hidden layer, or for a
    /// parameter that is too large afterwards.
    pub fn rescaled(&self, ranges: &[(f64, f64)]) -> Result<Self, NetworkFileError> {
        let Layers { first: (weights, bias), .. } = self.layers()?;
        let width = bias.values.len();
        let (mut scaled, mut moved) = (weights.values.clone(), bias.values.clone());
        for (row, (min, max)) in scaled.chunks_exact_mut(width).zip(ranges) {
            for (weight, bias) in row.iter_mut().zip(&mut moved) {
                *bias += *weight * min;
                *weight *= max - min;
            }
        }
        if let Some(problem) = scaled.iter().chain(&moved).find_map(|value| problem(*value)) {
            return Err(NetworkFileError::Model(format!(
                "a parameter of the first layer is {problem}"
            )));
        }
        let mut rescaled = self.clone();
        for (block, values) in rescaled.parameters.blocks.iter_mut().zip([scaled, moved]) {
            block.values = values;
        }
        Ok(rescaled)
    }

    /// Returns the same network for features that are normalised by their schemas, from one of
    /// features in their own units, or in those of the scale and range that the file names.
    ///
    /// # Errors
    /// [`NetworkFileError`] for another scale than that of the schema, and as
    /// [`NetworkFile::rescaled`].
    pub fn normalised(&self, features: &[FeatureSpec]) -> Result<Self, NetworkFileError> {
        self.rescaled(&feature_scales::ends(&self.scales, features)?)
    }

    /// Returns the configuration of the model that [`NetworkFile::divide`] makes: a top model that
    /// takes one embedding of each party, as wide as the first hidden layer.
    ///
    /// # Errors
    /// [`NetworkFileError::Model`] unless it is a perceptron with a hidden layer;
    /// [`NetworkFileError::Spec`] if it is too wide.
    pub fn divided_model(&self) -> Result<ModelConfig, NetworkFileError> {
        let width = self.layers()?.first.1.values.len() as u32;
        let config = ModelConfig::new(Combiner::Concat, TOP_KIND, Some(width), no_hidden_layer())?;
        Ok(config.with_top(self.parameters.spec.settings().clone())?)
    }

    /// Divides the network among parties with these features, the active party first.
    ///
    /// # Errors
    /// [`NetworkFileError::Model`] unless it is a perceptron with a hidden layer;
    /// [`NetworkFileError::NoClasses`] without names of the classes; [`NetworkFileError::File`]
    /// unless every feature is of one party.
    pub fn divide(
        &self,
        parties: &[(PartyName, Vec<String>)],
    ) -> Result<NetworkDivision, NetworkFileError> {
        if self.class_names.is_empty() {
            return Err(NetworkFileError::NoClasses);
        }
        let Layers { first: (weights, bias), later } = self.layers()?;
        let names: Vec<String> =
            parties.iter().flat_map(|(_, features)| features.iter().cloned()).collect();
        let rows = places("feature_names", "features", &self.feature_names, &names)?;
        let width = bias.values.len();
        let embedding = SubModelSpec::new(TOP_KIND, width as u32, no_hidden_layer())?;
        let mut rows = rows.into_iter();
        let parts = parties.iter().enumerate().map(|(at, (_, features))| {
            let own = rows.by_ref().take(features.len());
            let values =
                own.flat_map(|row| &weights.values[row * width..(row + 1) * width]).copied();
            let shape = vec![features.len(), width];
            let own = Block { name: weights.name.clone(), shape, values: values.collect() };
            // The bias is the active party's.
            let blocks = std::iter::once(own).chain((at == 0).then(|| bias.clone())).collect();
            Self {
                parameters: Parameters {
                    spec: embedding.clone(),
                    features: features.len(),
                    blocks,
                },
                feature_names: features.clone(),
                class_names: self.class_names.clone(),
                scales: FeatureScales::new(),
            }
        });
        let parts = parts.collect();
        let inputs =
            parties.iter().flat_map(|(name, _)| (1..=width).map(move |n| format!("{name}.{n}")));
        Ok(NetworkDivision { parts, top: self.top(parties.len(), later, inputs.collect()) })
    }

    /// Returns the top model: a first layer that adds the embeddings of so many parties, unit by
    /// unit, and the later layers.
    fn top(&self, parties: usize, later: &[Block], inputs: Vec<String>) -> Self {
        let Parameters { spec, blocks, .. } = &self.parameters;
        let width = inputs.len() / parties.max(1);
        let unit =
            |input: usize| (0..width).map(move |at| f64::from(u8::from(input % width == at)));
        let add = (0..inputs.len()).flat_map(unit).collect();
        let names = blocks.iter().map(|block| block.name.clone());
        let first = [(vec![inputs.len(), width], add), (vec![width], vec![0.0; width])];
        let first = names.zip(first).map(|(name, (shape, values))| Block { name, shape, values });
        let blocks = first.chain(later.iter().cloned()).collect();
        Self {
            parameters: Parameters { spec: spec.clone(), features: inputs.len(), blocks },
            feature_names: inputs,
            class_names: self.class_names.clone(),
            scales: FeatureScales::new(),
        }
    }

    /// Returns the layers of a whole perceptron.
    fn layers(&self) -> Result<Layers<'_>, NetworkFileError> {
        let Parameters { spec, blocks, .. } = &self.parameters;
        match blocks.as_slice() {
            [weights, bias, later @ ..]
                if spec.kind() == TOP_KIND
                    && later.len().is_multiple_of(2)
                    && !later.is_empty() =>
            {
                Ok(Layers { first: (weights, bias), later })
            }
            _ => Err(NetworkFileError::Model(format!(
                "a network of all parties' features is an `{TOP_KIND}` with a hidden layer and a bias in each layer; this is `{}` of {} blocks",
                spec.kind(),
                blocks.len()
            ))),
        }
    }
}

/// Returns the settings of a perceptron that is a single affine layer.
fn no_hidden_layer() -> Settings {
    Settings::from_iter([("hidden".to_owned(), json!([]))])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use nalgebra::DMatrix;

    use super::*;
    use crate::model::{ModelSpec, SubModel, heads, kinds};
    use crate::types::LogitShare;

    /// A network of three classes and five features, with parameters that all differ.
    fn network(hidden: &[usize], activation: &str) -> NetworkFile {
        let settings = json!({ "hidden": hidden, "activation": activation });
        let spec = SubModelSpec::new("mlp", 3, settings.as_object().unwrap().clone()).unwrap();
        let mut inputs = 5;
        let mut blocks = Vec::new();
        for (at, &outputs) in (1..).zip(hidden.iter().chain([&3])) {
            let value = |n: usize| ((n * 37 + at * 11) % 29) as f64 / 7.0 - 2.0;
            let shapes = [("weights", vec![inputs, outputs]), ("bias", vec![outputs])];
            blocks.extend(shapes.map(|(what, shape)| Block {
                name: format!("layer{at}.{what}"),
                values: (0..shape.iter().product()).map(value).collect(),
                shape,
            }));
            inputs = outputs;
        }
        let parameters = Parameters { spec, features: 5, blocks };
        let model = kinds::restore(&parameters).unwrap();
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        NetworkFile::of(&*model, &names(&["a", "b", "c", "d", "e"]), &names(&["x", "y", "z"]))
    }

    fn party(name: &str) -> PartyName {
        PartyName::new(name).unwrap()
    }

    fn model(file: &NetworkFile) -> Box<dyn SubModel> {
        kinds::restore(file.parameters()).unwrap()
    }

    /// The parties' parts and the top model, put together as in service, give the outputs of the
    /// whole, though no party has its features in the order of the file.
    #[test]
    fn the_parts_make_the_whole() {
        let records = DMatrix::from_fn(5, 7, |i, j| ((i * 5 + j * 3) % 11) as f64 / 10.0);
        let columns = [vec![4, 0], vec![2], vec![3, 1]];
        let named =
            |columns: &Vec<usize>| columns.iter().map(|c| "abcde"[*c..=*c].to_owned()).collect();
        let names = [party("shop"), party("bank"), party("tax")];
        let parties: Vec<_> = names.into_iter().zip(columns.iter().map(named)).collect();
        for (hidden, activation) in [(&[4][..], "sigmoid"), (&[6, 2], "relu"), (&[3, 3, 2], "tanh")]
        {
            let whole = network(hidden, activation);
            let division = whole.divide(&parties).unwrap();
            let spec = |file: &NetworkFile| file.parameters().spec.clone();
            let (active, passive) = division.parts.split_first().unwrap();
            let passive: Vec<_> = passive.iter().map(spec).collect();
            let configured = whole.divided_model().unwrap();
            let configured = configured.model(3, spec(active), passive.clone()).unwrap();
            let top = Some(spec(&division.top));
            let together = ModelSpec::new(Combiner::Concat, spec(active), passive, top).unwrap();
            assert_eq!(together.widths(), configured.widths());
            assert_eq!(together.top(), configured.top());
            let head = heads::restore(&together, 3, Some(division.top.parameters())).unwrap();
            let outputs =
                division.parts.iter().zip(&columns).map(|(part, columns)| {
                    model(part).outputs(&records.select_rows(columns)).unwrap()
                });
            let logits = head.combine(outputs.collect::<Vec<LogitShare>>()).unwrap();
            let expected = model(&whole).outputs(&records).unwrap();
            let off = (logits.matrix() - expected.matrix()).amax();
            assert!(off < 1e-12, "{activation}: {off}");
            assert_eq!(
                division.top.feature_names()[4 % hidden[0]..][..1],
                [format!("shop.{}", 4 % hidden[0] + 1)]
            );
            // The bias is the active party's.
            let blocks = division.parts.iter().map(|part| part.parameters().blocks.len());
            assert_eq!(blocks.collect::<Vec<_>>(), [2, 1, 1]);
        }
    }

    #[test]
    fn features_in_their_own_units_are_converted() {
        let whole = network(&[4], "tanh");
        let ranges = [(-3.0, 5.0), (0.0, 1.0), (10.0, 12.0), (2.0, 2.5), (0.0, 100.0)];
        let normalised = DMatrix::from_fn(5, 3, |i, j| (i + 2 * j) as f64 / 9.0);
        let own = DMatrix::from_fn(5, 3, |i, j| {
            let (min, max) = ranges[i];
            min + (max - min) * normalised[(i, j)]
        });
        let expected = model(&whole).outputs(&own).unwrap();
        let rescaled = whole.rescaled(&ranges).unwrap();
        let off =
            (model(&rescaled).outputs(&normalised).unwrap().matrix() - expected.matrix()).amax();
        assert!(off < 1e-12, "{off}");
        let huge = whole.rescaled(&[(0.0, 1e9); 5]).unwrap_err().to_string();
        assert!(huge.contains("more than 1e6"), "{huge}");
    }

    #[test]
    fn other_networks_and_features_are_refused() {
        let names = [party("shop"), party("bank")];
        let divide = |file: &NetworkFile, bank: &[&str]| {
            let features =
                |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            let parties =
                [(names[0].clone(), features(&["a", "b"])), (names[1].clone(), features(bank))];
            file.divide(&parties).err().unwrap().to_string()
        };
        let whole = network(&[4], "tanh");
        assert!(divide(&whole, &["c", "d"]).contains("`e` unknown here"));
        assert!(divide(&whole, &["c", "d", "e", "f"]).contains("`f` missing"));
        let flat = divide(&network(&[], "tanh"), &["c", "d", "e"]);
        assert!(flat.contains("with a hidden layer"), "{flat}");
    }
}
