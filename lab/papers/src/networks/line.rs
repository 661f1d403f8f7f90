//! A curve of a figure, and gradient inversion as figures on networks run it.

use super::super::Options;
use super::super::curve_spec::CurveSpec;
use super::super::recipe::STEPS;
use super::split::Architecture;

/// A shadow model in place of the passive party's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shadow {
    /// The number of its hidden layers of 8 units; 0: linear.
    pub(super) layers: usize,
    /// The number of records that it is fitted to, as a share of τ.
    pub(super) share: f64,
    /// True if it is fitted by divergences, as J's shadows are; otherwise it is fitted by squared
    /// log-ratios.
    pub(super) printed: bool,
}

/// A curve of a figure, with the architecture that it is measured on.
pub(super) struct NetworkCurve {
    pub(super) architecture: Architecture,
    pub(super) wanted: CurveSpec,
    /// The shadow in place of the passive party's parameters, if these are not known.
    pub(super) shadow: Option<Shadow>,
}

/// Requests J's gradient inversion, with the settings of `--gia`.
pub(super) fn of_paper(curve: &'static str, options: &Options) -> CurveSpec {
    let given = options.inversion.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let wanted =
        CurveSpec::new("gradient_inversion").called(curve).with([("preset", "j")]).with(given);
    wanted.at_most(options.inversion_records)
}

/// Requests gradient inversion by first order with the settings of this program, from ½.
pub(super) fn converged(curve: &'static str, options: &Options) -> CurveSpec {
    CurveSpec::new("gradient_inversion")
        .called(curve)
        .with([("start", "half")])
        .at_most(options.inversion_records)
}

/// Requests gradient inversion by the recipe with which J's sentences on networks hold: J's second
/// loss, from ½, confined to [0, 1] (J (16)), with the settings of `--gia`.
pub(super) fn by_recipe(curve: &'static str, options: &Options) -> CurveSpec {
    let given = options.inversion.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    CurveSpec::new("gradient_inversion")
        .called(curve)
        .with([("preset", "j"), ("loss", "kl"), ("start", "half"), ("projected", "true")])
        .with([("steps", STEPS)])
        .with(given)
        .at_most(options.inversion_records)
}

/// Requests gradient inversion by second order.
pub(super) fn second_order(curve: &'static str, options: &Options) -> CurveSpec {
    CurveSpec::new("gradient_inversion").called(curve).at_most(options.inversion_records)
}
