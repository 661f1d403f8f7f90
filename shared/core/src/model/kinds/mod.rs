//! The register of kinds of sub-models. The contracts are in [`contract`](super::contract).
//!
//! A new kind of sub-model is a file in this directory and two lines here: its module and its place
//! in `KINDS`.

mod generalized_linear;
mod layers;
mod mlp;
mod pytorch;
mod residual;
mod softmax_regression;

use super::contract::{Kind, Parameters, SubModel, SubModelOrigin};
use super::spec::{ModelConfigValues, check_top};
use super::{
    Combiner, Link, ModelConfig, ModelSpec, ONE_VS_REST, SOFTMAX_REGRESSION, Settings, SpecError,
    SubModelSpec, TOP_KIND,
};

/// Every kind of sub-model.
const KINDS: &[&dyn Kind] = &[
    &softmax_regression::ClassesKind { name: SOFTMAX_REGRESSION },
    &softmax_regression::ClassesKind { name: ONE_VS_REST },
    &mlp::MlpKind,
    &residual::ResidualKind,
    &generalized_linear::GeneralizedLinearKind,
];

/// Returns the names of all kinds.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name())
}

/// Returns the kind of this name.
///
/// # Errors
/// [`SpecError::Kind`], which lists the known kinds.
pub fn find(name: &str) -> Result<&'static dyn Kind, SpecError> {
    KINDS.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
        let known = names().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
        SpecError::Kind { kind: name.to_owned(), known }
    })
}

/// Returns true if the outputs of a sub-model are W x + b. Returns false for an unknown kind.
#[must_use]
pub fn is_linear(spec: &SubModelSpec) -> bool {
    find(spec.kind()).is_ok_and(|kind| kind.linear())
}

/// Creates a sub-model before its training.
///
/// # Errors
/// [`SpecError`] for an unknown kind, or settings and a width that it does not take.
pub fn start(origin: &SubModelOrigin) -> Result<Box<dyn SubModel>, SpecError> {
    origin.spec.check()?;
    find(origin.spec.kind())?.start(origin)
}

/// Creates a sub-model from its stored parameters.
///
/// # Errors
/// [`SpecError`] for an unknown kind, or parameters that are not of this kind.
pub fn restore(parameters: &Parameters) -> Result<Box<dyn SubModel>, SpecError> {
    parameters.spec.check()?;
    find(parameters.spec.kind())?.restore(parameters)
}

/// Refuses linear sub-models under `concat`: attacks, releases and transforms treat them as parts
/// of a sum.
pub(super) fn check_kind(combiner: Combiner, kind: &str) -> Result<(), SpecError> {
    match combiner {
        Combiner::Concat if find(kind)?.linear() => {
            Err(SpecError::ConcatKind { kind: kind.to_owned() })
        }
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

impl SubModelSpec {
    /// Returns the link that the sub-model states: softmax for all kinds but models of numbers and
    /// [`ONE_VS_REST`].
    ///
    /// # Errors
    /// [`SpecError::Settings`] for settings that the kind does not take.
    pub fn link(&self) -> Result<Link, SpecError> {
        generalized_linear::link_of(self)
    }
}

impl ModelSpec {
    /// Returns the link of the model: the one that all its sub-models state.
    ///
    /// # Errors
    /// [`SpecError::Links`] if they state different ones, [`SpecError::Settings`] for settings that
    /// a kind does not take.
    pub fn link(&self) -> Result<Link, SpecError> {
        let link = self.active().link()?;
        for (at, passive) in self.passive().iter().zip(1..).map(|(spec, at)| (at, spec)) {
            let theirs = passive.link()?;
            if theirs != link {
                return Err(SpecError::Links { active: link, passive: theirs, at });
            }
        }
        Ok(link)
    }
}

impl TryFrom<ModelConfigValues> for ModelConfig {
    type Error = SpecError;

    fn try_from(v: ModelConfigValues) -> Result<Self, SpecError> {
        let config = Self::new(v.combiner, v.kind, v.width, v.settings)?;
        v.top.map_or(Ok(config.clone()), |top| config.with_top(top))
    }
}

impl ModelConfig {
    /// Creates a checked configuration. `width` is the output width of each party; `None` stands
    /// for one output per class, and under `concat` for
    /// [`EMBEDDING_WIDTH`](super::EMBEDDING_WIDTH).
    ///
    /// # Errors
    /// [`SpecError`] for an unknown kind or settings that it does not take, a kind that the
    /// combiner does not take, or a width out of range.
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

    /// Adds a top model with these settings, which are those of the kind `mlp`.
    ///
    /// # Errors
    /// [`SpecError::Top`] without combiner `concat`, or for settings that a top model does not
    /// take.
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
