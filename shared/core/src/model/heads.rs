//! The head of each combiner.

use super::contract::{Head, InitialSeed, Parameters};
use super::spec::check_top;
use super::{Combiner, Concat, ModelSpec, SpecError, SubModelSpec, Sum, kinds};

/// Creates the head of a model of `classes` classes before its training. Initial parameters are
/// drawn from `start`.
///
/// # Errors
/// [`SpecError`] for an unknown kind of sub-model, or widths, kinds or a top model that the
/// combiner cannot take.
pub fn start(
    spec: &ModelSpec,
    classes: u32,
    start: InitialSeed,
) -> Result<Box<dyn Head>, SpecError> {
    check_parties(spec)?;
    Ok(match spec.combiner() {
        Combiner::Sum => Box::new(Sum::of(spec, classes)?),
        Combiner::Concat => Box::new(Concat::start(spec, classes, start)?),
    })
}

/// Creates the head of a model in service. `top` are the stored parameters of its top model, if it
/// has one.
///
/// # Errors
/// As [`start`], and [`SpecError::Parameters`] for parameters of another top model.
pub fn restore(
    spec: &ModelSpec,
    classes: u32,
    top: Option<&Parameters>,
) -> Result<Box<dyn Head>, SpecError> {
    check_parties(spec)?;
    check_top(spec.combiner(), top.is_some())?;
    Ok(match top {
        None => Box::new(Sum::of(spec, classes)?),
        Some(top) => Box::new(Concat::restore(spec, classes, top)?),
    })
}

fn check_parties(spec: &ModelSpec) -> Result<(), SpecError> {
    for sub_model in std::iter::once(spec.active()).chain(spec.passive()) {
        sub_model.check()?;
        kinds::check_kind(spec.combiner(), sub_model.kind())?;
    }
    spec.top().map_or(Ok(()), SubModelSpec::check)
}
