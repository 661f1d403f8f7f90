//! Settings of the agnostic attack.

use super::super::Settings;
use super::super::settings::{AnySetting, Setting, weight};
use super::OutOfRange;

/// Settings of the agnostic attack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgnosticSettings {
    /// Weight α ≥ 0 of the squared log-ratios to scores seen. It has no effect if labels or
    /// ciphertexts were released.
    pub alpha: f64,
    /// Weight β ≥ 0 of the cross-entropy to the predicted classes seen.
    pub beta: f64,
    /// Weight of ‖W‖²_F, at least 0, of a model fitted to full convergence. `None`: the model is
    /// trained as the joint one was, penalty and early stop included.
    pub l2: Option<f64>,
    /// The rule for estimates out of range. It replaces the clipping of `clamped_least_squares` and
    /// `clamped_half_star`.
    pub out_of_range: OutOfRange,
    /// n_p, the number of records to ask about first, for callers that ask. The attack only passes
    /// it on to them.
    pub observed: usize,
}

impl Default for AgnosticSettings {
    /// Returns α = 1, β = 0 (V remark 1), the training of the joint model (V IV-B: the same kind of
    /// model on the same labels), and no records asked about first.
    fn default() -> Self {
        Self { alpha: 1.0, beta: 0.0, l2: None, out_of_range: OutOfRange::Clamp, observed: 0 }
    }
}

static OBSERVED: Setting<usize> = Setting {
    key: "observed",
    takes: "how many records agnostic asks about first, to refine its model: a whole number (default 0)",
    read: |value| value.trim().parse().ok(),
};
static ALPHA: Setting<f64> = Setting {
    key: "alpha",
    takes: "weight of the scores seen, in the model of agnostic: a number of at least 0 (default 1; nothing for labels)",
    read: weight,
};
static BETA: Setting<f64> = Setting {
    key: "beta",
    takes: "weight of the predicted classes seen, in the model of agnostic: a number of at least 0 (default 0)",
    read: weight,
};
static L2: Setting<f64> = Setting {
    key: "l2",
    takes: "weight of the squared weights in the model of agnostic, which is then fitted to full convergence: a number of at least 0 \
            (default: trained as the joint model was, with default settings if that is not known)",
    read: weight,
};
static OUT_OF_RANGE: Setting<OutOfRange> = Setting {
    key: "out_of_range",
    takes: "what agnostic makes of estimates out of range: `keep`, `clamp`, `half` (these become 1/2) or `all_half` (all of the \
            record do) (default clamp)",
    read: |value| OutOfRange::named(value.trim()),
};

impl From<&Settings> for AgnosticSettings {
    fn from(settings: &Settings) -> Self {
        let default = Self::default();
        Self {
            alpha: settings.get(&ALPHA).unwrap_or(default.alpha),
            beta: settings.get(&BETA).unwrap_or(default.beta),
            l2: settings.get(&L2),
            out_of_range: settings.get(&OUT_OF_RANGE).unwrap_or(default.out_of_range),
            observed: settings.get(&OBSERVED).unwrap_or(default.observed),
        }
    }
}

impl AgnosticSettings {
    /// The settings that the attack takes.
    pub(super) const SETTINGS: &'static [&'static dyn AnySetting] =
        &[&OBSERVED, &ALPHA, &BETA, &L2, &OUT_OF_RANGE];
}
