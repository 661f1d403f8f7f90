//! Settings of a shadow that is a network: its architecture and its training.

use std::fmt;

use vfl_core::model::{Activation, SubModelSpec};

use crate::gradient_inversion::MAX_STEPS;
use crate::settings::weight;
use crate::{Setting, Settings, ShadowFit};

/// The most starts of a training.
pub const MAX_STARTS: u32 = 100;

/// The architecture that the adversary guesses: hidden layers and their activation. Without hidden
/// layers the shadow is linear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Architecture {
    /// Widths of the hidden layers, from the features to the logits.
    pub hidden: Vec<u32>,
    /// The activation of the hidden layers.
    pub activation: Activation,
}

impl Default for Architecture {
    /// Returns J's network: two hidden layers of 8, sigmoid.
    fn default() -> Self {
        Self { hidden: vec![8, 8], activation: Activation::Sigmoid }
    }
}

/// Writes the architecture as in a setting: `8,8 sigmoid`, `linear`.
impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hidden.is_empty() {
            return f.write_str("linear");
        }
        let widths: Vec<String> = self.hidden.iter().map(u32::to_string).collect();
        write!(f, "{} {}", widths.join(","), name(self.activation))
    }
}

fn name(activation: Activation) -> &'static str {
    match activation {
        Activation::Sigmoid => "sigmoid",
        Activation::Tanh => "tanh",
        Activation::Relu => "relu",
    }
}

impl Architecture {
    /// Returns the architecture as a sub-model with these outputs.
    pub(super) fn spec(&self, outputs: u32) -> Result<SubModelSpec, vfl_core::model::SpecError> {
        let settings =
            serde_json::json!({ "hidden": self.hidden, "activation": name(self.activation) });
        SubModelSpec::new("mlp", outputs, settings.as_object().cloned().unwrap_or_default())
    }

    /// Reads widths as in a setting; `None` if there cannot be such layers.
    fn widths(text: &str) -> Option<Vec<u32>> {
        if text.trim() == "linear" {
            return Some(Vec::new());
        }
        let hidden =
            text.split(',').map(|width| width.trim().parse().ok()).collect::<Option<Vec<u32>>>()?;
        let guess = Self { hidden, ..Self::default() };
        let there_can_be = guess.spec(1).and_then(|spec| spec.check()).is_ok();
        there_can_be.then_some(guess.hidden)
    }
}

/// The training of a shadow: Adam on all records at once, with a rate that is divided by ten twice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkTraining {
    /// The steps of each start, J's T: 1 to 1 000 000.
    pub steps: u32,
    /// The learning rate, J's λ, above 0 and at most 1.
    pub learning_rate: f64,
    /// Weight of the penalty Σ w² of the weights (not of biases), at least 0.
    pub l2: f64,
    /// The number of random starts: 1 to [`MAX_STARTS`].
    pub starts: u32,
}

impl NetworkTraining {
    /// Returns 6000 steps from 0.05 down, and the best of three starts. The penalty is 1e-4 beside
    /// squared log-ratios and 1e-6 beside divergences, which are that much flatter.
    #[must_use]
    pub fn of(fit: ShadowFit) -> Self {
        let l2 = if matches!(fit, ShadowFit::LeastSquares) { 1e-4 } else { 1e-6 };
        Self { steps: 6000, learning_rate: 0.05, l2, starts: 3 }
    }

    /// Reads the settings, with defaults for the rest.
    pub(super) fn read(settings: &Settings, fit: ShadowFit) -> Self {
        let default = Self::of(fit);
        Self {
            steps: settings.get(&STEPS).unwrap_or(default.steps),
            learning_rate: settings.get(&RATE).unwrap_or(default.learning_rate),
            l2: settings.get(&PENALTY).unwrap_or(default.l2),
            starts: settings.get(&STARTS).unwrap_or(default.starts),
        }
    }
}

pub(super) static SHADOW: Setting<Vec<u32>> = Setting {
    key: "shadow",
    takes: "architecture that shadow_network guesses: `linear`, or the widths of hidden layers with commas, as 8,8 (default 8,8)",
    read: Architecture::widths,
};
pub(super) static ACTIVATION: Setting<Activation> = Setting {
    key: "shadow_activation",
    takes: "what the hidden layers of shadow_network apply: `sigmoid`, `tanh` or `relu` (default sigmoid)",
    read: |value| {
        let all = [Activation::Sigmoid, Activation::Tanh, Activation::Relu];
        all.into_iter().find(|activation| name(*activation) == value.trim())
    },
};
pub(super) static STEPS: Setting<u32> = Setting {
    key: "shadow_steps",
    takes: "steps of the training of shadow_network: a whole number from 1 to 1000000 (default 6000)",
    read: |value| value.parse().ok().filter(|steps| (1..=MAX_STEPS).contains(steps)),
};
pub(super) static RATE: Setting<f64> = Setting {
    key: "shadow_rate",
    takes: "learning rate of shadow_network, which ends at a hundredth of it: a number above 0 and at most 1 (default 0.05)",
    read: |value| value.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0),
};
pub(super) static PENALTY: Setting<f64> = Setting {
    key: "shadow_l2",
    takes: "weight of the squared weights of shadow_network beside its misfit: a number of at least 0 (default 0.0001, and 0.000001 with \
            shadow_fit = gradient)",
    read: weight,
};
pub(super) static STARTS: Setting<u32> = Setting {
    key: "shadow_starts",
    takes: "from how many first parameters shadow_network is trained; the one of least loss counts: 1 to 100 (default 3)",
    read: |value| value.parse().ok().filter(|starts| (1..=MAX_STARTS).contains(starts)),
};

impl From<&Settings> for Architecture {
    fn from(settings: &Settings) -> Self {
        let default = Self::default();
        Self {
            hidden: settings.get(&SHADOW).unwrap_or(default.hidden),
            activation: settings.get(&ACTIVATION).unwrap_or(default.activation),
        }
    }
}
