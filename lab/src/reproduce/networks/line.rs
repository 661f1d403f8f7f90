//! A line of a figure, and gradient inversion as figures on networks run it.

use super::super::Options;
use super::super::contender::Wanted;
use super::split::Architecture;

/// A shadow that takes the place of the passive party's parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shadow {
    /// Its hidden layers of 8 units; 0: linear.
    pub(super) layers: usize,
    /// The records that it is fitted to, as a share of τ.
    pub(super) share: f64,
    /// Whether it is fitted by divergences, as J's are, or by squared log-ratios.
    pub(super) printed: bool,
}

/// A line of a figure: on which of its architectures.
pub(super) struct Line {
    pub(super) architecture: Architecture,
    pub(super) wanted: Wanted,
    /// What takes the place of the passive party's parameters, where they are not known.
    pub(super) shadow: Option<Shadow>,
}

/// J's gradient inversion, with what `--gia` says.
pub(super) fn of_paper(curve: &'static str, options: &Options) -> Wanted {
    let given = options.inversion.iter().map(|(k, v)| (k.as_str(), v.as_str()));
    let wanted = Wanted::new("gradient_inversion").called(curve).with([("preset", "j")]).with(given);
    wanted.at_most(options.inversion_records)
}

/// Gradient inversion with the settings of this program, from ½.
pub(super) fn converged(curve: &'static str, options: &Options) -> Wanted {
    Wanted::new("gradient_inversion").called(curve).with([("start", "half")]).at_most(options.inversion_records)
}
