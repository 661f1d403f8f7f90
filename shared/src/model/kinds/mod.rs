//! The register of what there is: kinds of sub-models, and combiners. The contracts are in [`contract`](super::contract).
//!
//! A new kind of sub-model is a file in this directory and two lines here: its module and its place in `KINDS`.

mod mlp;
mod mlp_settings;
mod softmax_regression;

use super::contract::{Head, Kind, Origin, Parameters, SubModel};
use super::spec::ModelConfigValues;
use super::{Combiner, ModelConfig, ModelSpec, Settings, SpecError, SubModelSpec, Sum};

/// Every kind of sub-model.
const KINDS: &[&dyn Kind] = &[&softmax_regression::SoftmaxRegressionKind, &mlp::MlpKind];

/// Names of all kinds.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name())
}

/// The kind of this name.
///
/// # Errors
/// [`SpecError::Kind`] naming those that there are.
pub fn find(name: &str) -> Result<&'static dyn Kind, SpecError> {
    KINDS.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let known = names().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
        SpecError::Kind { kind: name.to_owned(), known }
    })
}

/// A sub-model before its training.
///
/// # Errors
/// [`SpecError`] for an unknown kind, or settings and a width that it does not take.
pub fn start(origin: &Origin) -> Result<Box<dyn SubModel>, SpecError> {
    origin.spec.check()?;
    find(origin.spec.kind())?.start(origin)
}

/// A sub-model from its stored parameters.
///
/// # Errors
/// [`SpecError`] for an unknown kind, or parameters that are not of this kind.
pub fn restore(parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
    parameters.spec.check()?;
    find(parameters.spec.kind())?.restore(parameters)
}

/// Checks that this version has a head for the combiner.
///
/// # Errors
/// [`SpecError::Combiner`].
pub fn check_combiner(combiner: Combiner) -> Result<(), SpecError> {
    match combiner {
        Combiner::Sum => Ok(()),
        Combiner::Concat => Err(SpecError::Combiner { combiner }),
    }
}

/// The head of a model of `classes` classes.
///
/// # Errors
/// [`SpecError`] for an unknown kind of sub-model, a combiner without an implementation, or widths that it cannot take.
pub fn head(spec: &ModelSpec, classes: u32) -> Result<Box<dyn Head>, SpecError> {
    for sub_model in std::iter::once(spec.active()).chain(spec.passive()) {
        sub_model.check()?;
    }
    match spec.combiner() {
        Combiner::Sum => Ok(Box::new(Sum::of(spec, classes)?)),
        combiner @ Combiner::Concat => Err(SpecError::Combiner { combiner }),
    }
}

impl SubModelSpec {
    /// Checks that this version knows the kind and that it takes these settings.
    ///
    /// # Errors
    /// [`SpecError::Kind`] or [`SpecError::Settings`].
    pub fn check(&self) -> Result<(), SpecError> {
        check_settings(self.kind(), self.settings())
    }
}

fn check_settings(kind: &str, settings: &Settings) -> Result<(), SpecError> {
    let found = find(kind)?;
    found.check(settings).map_err(|reason| SpecError::Settings { kind: kind.to_owned(), reason })
}

impl TryFrom<ModelConfigValues> for ModelConfig {
    type Error = SpecError;

    fn try_from(v: ModelConfigValues) -> Result<Self, SpecError> {
        Self::new(v.combiner, v.kind, v.width, v.settings)
    }
}

impl ModelConfig {
    /// A checked choice; `width` is the output width of each party, `None`: one output per class.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown kind or settings that it does not take, a combiner without an implementation, or a width out of
    /// range.
    pub fn new(
        combiner: Combiner,
        kind: impl Into<String>,
        width: Option<u32>,
        settings: Settings,
    ) -> Result<Self, SpecError> {
        let spec = SubModelSpec::new(kind, width.unwrap_or(1), settings)?;
        spec.check()?;
        check_combiner(combiner)?;
        Ok(Self { combiner, kind: spec.kind, width, settings: spec.settings })
    }
}
