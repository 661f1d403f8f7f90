//! Generalised linear models of a number: one output w x, and at the active party w x + b. The
//! coordinator adds the outputs and applies the inverse of the link.

use super::softmax_regression::{LinearSubModel, adopt_linear, largest_linear_output, to_linear};
use crate::model::contract::{
    Block, ExternalParameters, Kind, Parameters, SubModel, SubModelOrigin,
};
use crate::model::{
    GENERALIZED_LINEAR, Link, ONE_VS_REST, Settings, SpecError, SubModelSpec, TrainingConfig,
};

/// The entry of the kind in the register.
pub(super) struct GeneralizedLinearKind;

/// The key of the only setting.
const LINK: &str = "link";

/// Returns the link of the settings.
fn link(settings: &Settings) -> Result<Link, String> {
    if let Some(key) = settings.keys().find(|key| *key != LINK) {
        return Err(format!("`{key}` is unknown: the only setting is `{LINK}`"));
    }
    let name = settings.get(LINK).and_then(|value| value.as_str());
    name.and_then(Link::named)
        .filter(|link| link.is_numeric())
        .ok_or_else(|| format!("`{LINK}` is needed: identity, log or logit"))
}

/// Returns the link of a sub-model: that of the settings for this kind, and of classes for all
/// others.
///
/// # Errors
/// [`SpecError::Settings`] for settings that this kind does not take.
pub(super) fn link_of(spec: &SubModelSpec) -> Result<Link, SpecError> {
    match spec.kind() {
        GENERALIZED_LINEAR => link(spec.settings())
            .map_err(|reason| SpecError::Settings { kind: spec.kind().to_owned(), reason }),
        ONE_VS_REST => Ok(Link::OneVsRest),
        _ => Ok(Link::Softmax),
    }
}

/// Checks that there is one output.
fn check_width(spec: &SubModelSpec) -> Result<(), SpecError> {
    match spec.width() {
        1 => Ok(()),
        width => Err(SpecError::Parameters {
            kind: GENERALIZED_LINEAR.to_owned(),
            reason: format!(
                "it has {width} outputs, and a number is one: the label of the active party's schema says `kind = \"number\"`"
            ),
        }),
    }
}

impl Kind for GeneralizedLinearKind {
    fn name(&self) -> &'static str {
        GENERALIZED_LINEAR
    }

    fn check(&self, settings: &Settings) -> Result<(), String> {
        link(settings).map(drop)
    }

    fn linear(&self) -> bool {
        true
    }

    fn tells_records_apart(&self) -> bool {
        true
    }

    /// Creates a model that is 0, as trainings on secret shares begin.
    fn start(&self, origin: &SubModelOrigin) -> Result<Box<dyn SubModel>, SpecError> {
        check_width(&origin.spec)?;
        Ok(LinearSubModel::start(origin))
    }

    fn restore(&self, parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
        check_width(&parameters.spec)?;
        LinearSubModel::restore(parameters)
    }

    /// Returns the blocks of an `nn.Linear`: `weight`, `bias`.
    fn to_pytorch(&self, parameters: &Parameters) -> Vec<Block> {
        to_linear(parameters)
    }

    fn adopt_pytorch(&self, exchanged: ExternalParameters) -> Result<Parameters, String> {
        adopt_linear(exchanged, GENERALIZED_LINEAR)
    }

    fn reorder(&self, parameters: &Parameters, order: &[usize]) -> Option<Parameters> {
        Some(parameters.with_rows_of_first(order))
    }

    fn largest_output(
        &self,
        config: &TrainingConfig,
        _: &SubModelSpec,
        features: u32,
        updates: u64,
    ) -> f64 {
        largest_linear_output(config, features, updates)
    }
}
