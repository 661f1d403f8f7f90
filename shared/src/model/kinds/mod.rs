//! The register of kinds of sub-models. The contracts are in [`contract`](super::contract).
//!
//! A new kind of sub-model is a file in this directory and two lines here: its module and its place in `KINDS`.

mod layers;
mod mlp;
mod mlp_settings;
mod pytorch;
mod residual;
mod softmax_regression;

use super::contract::{Kind, Origin, Parameters, SubModel};
use super::spec::{ModelConfigValues, check_top};
use super::{Combiner, ModelConfig, Settings, SpecError, SubModelSpec, TOP_KIND};

/// Every kind of sub-model.
const KINDS: &[&dyn Kind] = &[&softmax_regression::SoftmaxRegressionKind, &mlp::MlpKind, &residual::ResidualKind];

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

/// Whether the outputs of a sub-model are W x + b. Those of an unknown kind are not.
#[must_use]
pub fn is_linear(spec: &SubModelSpec) -> bool {
    find(spec.kind()).is_ok_and(|kind| kind.linear())
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

/// A linear sub-model is attacked, released and transformed as a part of a sum: under `concat` it would be taken for what it is not.
pub(super) fn check_kind(combiner: Combiner, kind: &str) -> Result<(), SpecError> {
    match combiner {
        Combiner::Concat if find(kind)?.linear() => Err(SpecError::ConcatKind { kind: kind.to_owned() }),
        _ => Ok(()),
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
        let config = Self::new(v.combiner, v.kind, v.width, v.settings)?;
        v.top.map_or(Ok(config.clone()), |top| config.with_top(top))
    }
}

impl ModelConfig {
    /// A checked choice; `width` is the output width of each party, `None`: one output per class, under `concat`
    /// [`EMBEDDING_WIDTH`](super::EMBEDDING_WIDTH).
    ///
    /// # Errors
    /// [`SpecError`] for an unknown kind or settings that it does not take, a kind that the combiner does not take, or a width out of
    /// range.
    pub fn new(
        combiner: Combiner,
        kind: impl Into<String>,
        width: Option<u32>,
        settings: Settings,
    ) -> Result<Self, SpecError> {
        let spec = SubModelSpec::new(kind, width.unwrap_or(1), settings)?;
        spec.check()?;
        check_kind(combiner, &spec.kind)?;
        Ok(Self { combiner, kind: spec.kind, width, settings: spec.settings, top: None })
    }

    /// The same with a top model of these settings: those of the kind `mlp`.
    ///
    /// # Errors
    /// [`SpecError::Top`] without combiner `concat`, or for settings that a top model does not take.
    pub fn with_top(self, top: Settings) -> Result<Self, SpecError> {
        if self.combiner != Combiner::Concat {
            check_top(self.combiner, true)?;
        }
        let spec = SubModelSpec::new(TOP_KIND, 1, top)?;
        spec.check().map_err(|e| match e {
            SpecError::Settings { reason, .. } => SpecError::Top { reason },
            other => other,
        })?;
        Ok(Self { top: Some(spec.settings), ..self })
    }
}
