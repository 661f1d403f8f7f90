//! A sub-model, or a top model, that its owner shows to another party: with all its parameters, in
//! the form in which it is stored.

use std::fmt;

use vfl_core::model::{Parameters, SubModel, SubModelSpec, binary, kinds};

use crate::{MAX_MESSAGE_BYTES, Refusal, RefusalKind, WireError};

/// The largest number of bytes of a message that parameters and names may take. Other fields take
/// less than the rest.
const LIMIT: usize = MAX_MESSAGE_BYTES - (1 << 20);

/// Bytes of a block beside its values: its name, shape and place.
const PER_BLOCK: usize = 256;

/// A model that is shown to another party.
#[derive(Clone, PartialEq)]
pub struct ShownModel {
    parameters: Parameters,
    input_names: Vec<String>,
}

/// Shows sizes, not parameters.
impl fmt::Debug for ShownModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShownModel({:?})", self.parameters)
    }
}

impl ShownModel {
    /// Takes all parameters of a model, whose inputs have these names.
    ///
    /// # Errors
    /// As [`ShownModel::fits`].
    pub fn of(model: &dyn SubModel, input_names: &[String]) -> Result<Self, Refusal> {
        Self::fits(model, input_names)?;
        Ok(Self {
            parameters: Parameters::of(model, model.snapshot()),
            input_names: input_names.to_vec(),
        })
    }

    /// Checks that a model fits a message.
    ///
    /// # Errors
    /// PERMISSION_DENIED if it does not: then it is not shown.
    pub fn fits(model: &dyn SubModel, input_names: &[String]) -> Result<(), Refusal> {
        let blocks: usize = model.tensors().iter().map(|t| size_of_val(t.values) + PER_BLOCK).sum();
        // Each name in quotation marks that are escaped themselves, and a comma.
        let bytes = blocks + input_names.iter().map(|name| 2 * name.len() + 5).sum::<usize>();
        if bytes <= LIMIT {
            return Ok(());
        }
        let (mib, limit) = (bytes.div_ceil(1 << 20), LIMIT >> 20);
        let message = format!(
            "the parameters take {mib} MiB and are not shown: a message holds {limit} MiB of them"
        );
        Err(Refusal::new(RefusalKind::PermissionDenied, message))
    }

    /// Returns the names of the inputs.
    #[must_use]
    pub fn input_names(&self) -> &[String] {
        &self.input_names
    }

    /// Encodes the model for a message.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        binary::encode(&self.parameters, &self.input_names)
    }

    /// Reads a model from a message: it has this kind, width and settings, and this many inputs.
    ///
    /// # Errors
    /// [`WireError`] names the problem.
    pub fn from_wire(
        bytes: &[u8],
        spec: &SubModelSpec,
        inputs: usize,
    ) -> Result<(Self, Box<dyn SubModel>), WireError> {
        let wrong = |reason: String| WireError::Content { field: "model", reason };
        let (parameters, input_names) = binary::decode(bytes).map_err(wrong)?;
        if parameters.spec != *spec || parameters.features != inputs {
            let (kind, width) = (spec.kind(), spec.width());
            let reason =
                format!("it is not the model's `{kind}` of {inputs} inputs and {width} outputs");
            return Err(wrong(reason));
        }
        let model = kinds::restore(&parameters).map_err(|e| wrong(e.to_string()))?;
        Ok((Self { parameters, input_names }, model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfl_core::model::contract::{SubModelOrigin, start_of};

    fn model(hidden: &str, features: usize) -> Box<dyn SubModel> {
        let settings =
            SubModelSpec::parse_settings(&format!(r#"{{"hidden":[{hidden}]}}"#)).unwrap();
        let spec = SubModelSpec::new("mlp", 3, settings).unwrap();
        kinds::start(&SubModelOrigin { spec, features, active: false, start: start_of(1) }).unwrap()
    }

    fn names(features: usize) -> Vec<String> {
        (0..features).map(|at| format!("f{at}")).collect()
    }

    #[test]
    fn what_is_shown_comes_back_to_the_bit_or_is_refused() {
        let sent = model("4", 5);
        let shown = ShownModel::of(&*sent, &names(5)).unwrap();
        let wire = shown.to_wire();
        let (read, restored) = ShownModel::from_wire(&wire, sent.spec(), 5).unwrap();
        assert_eq!((&read, restored.snapshot()), (&shown, sent.snapshot()));
        let other = model("5", 5);
        for (bytes, spec, inputs) in [
            (&wire[..], other.spec(), 5),
            (&wire, sent.spec(), 6),
            (&wire[..wire.len() - 1], sent.spec(), 5),
            (&[], sent.spec(), 5),
        ] {
            assert!(
                ShownModel::from_wire(bytes, spec, inputs).is_err(),
                "{} bytes, {inputs} inputs",
                bytes.len()
            );
        }
        assert!(
            !format!("{shown:?}").contains(&sent.snapshot()[0][0].to_string()),
            "no parameter is printed"
        );
    }

    /// A model that fits by the count fits a message: the count is no less than the bytes sent.
    #[test]
    fn a_model_that_does_not_fit_a_message_is_not_shown() {
        let large = model("4000", 600);
        let refused = ShownModel::of(&*large, &names(600)).unwrap_err();
        assert_eq!(refused.kind, RefusalKind::PermissionDenied);
        assert!(
            refused.message.contains("19 MiB") && refused.message.contains("holds 15 MiB"),
            "{refused}"
        );
        let fits = model("3200", 600);
        let wire = ShownModel::of(&*fits, &names(600)).unwrap().to_wire();
        assert!(wire.len() > 14 << 20 && wire.len() <= LIMIT, "{}", wire.len());
    }
}
