//! Settings of gradient inversion.

use nalgebra::DMatrix;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, StandardNormal};

use super::Loss;
use crate::{AnySetting, Setting, Settings};

/// The most steps of a descent.
pub const MAX_STEPS: u32 = 1_000_000;

/// The start of a descent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// 0 for every feature (J algorithm 1).
    Zero,
    /// ½ for every feature, the centre of the box.
    Half,
    /// Uniform numbers in [0, 1) (the text of J section 4.3.1), drawn record after record: the
    /// first records of a set start as they do in the whole set.
    Random,
    /// Standard normal numbers (P's code for what it calls a generative regression network), drawn
    /// record after record.
    Normal,
}

impl Start {
    /// All starts, in order.
    pub const ALL: [Self; 4] = [Self::Zero, Self::Half, Self::Random, Self::Normal];

    /// Returns the name: `zero`, `half`, `random`, `normal`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Zero => "zero",
            Self::Half => "half",
            Self::Random => "random",
            Self::Normal => "normal",
        }
    }

    /// Returns the start of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == name)
    }

    pub(super) fn points(self, features: usize, records: usize, rng: &mut dyn Rng) -> DMatrix<f64> {
        match self {
            Self::Zero => DMatrix::zeros(features, records),
            Self::Half => DMatrix::from_element(features, records, 0.5),
            // `from_fn` goes column by column, which is record by record.
            Self::Random => DMatrix::from_fn(features, records, |_, _| rng.random::<f64>()),
            Self::Normal => DMatrix::from_fn(features, records, |_, _| StandardNormal.sample(rng)),
        }
    }
}

/// The point of a descent that is the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Iterate {
    /// The last point.
    Final,
    /// The point of least loss, the start included; the first of equals.
    Best,
}

impl Iterate {
    /// All choices, in order.
    pub const ALL: [Self; 2] = [Self::Final, Self::Best];

    /// Returns the name: `final`, `best`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Best => "best",
        }
    }

    /// Returns the choice of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|i| i.as_str() == name)
    }
}

/// The order of the steps of gradient inversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Adam, on gradients.
    First,
    /// Levenberg-Marquardt, on the slopes of the log-ratios of exact scores.
    Second,
}

impl Order {
    /// Returns the name: `first`, `second`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
        }
    }

    /// Returns the order of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::First, Self::Second].into_iter().find(|order| order.as_str() == name)
    }
}

/// Errors from a setting out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum GradientInversionError {
    /// The number of steps is out of range.
    #[error("`steps` is {got}, expected 1 to {MAX_STEPS}")]
    Steps {
        /// The number given.
        got: u32,
    },
    /// The learning rate is out of range.
    #[error("`learning_rate` is {got}, expected above 0 and at most 1")]
    LearningRate {
        /// The learning rate given.
        got: f64,
    },
    /// The loss at which a record stops is out of range.
    #[error("`stop_loss` is {got}, expected a finite number of at least 0")]
    StopLoss {
        /// The loss given.
        got: f64,
    },
}

/// The gradient inversion attack, with its settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradientInversion {
    /// The order; `None`: the second on exact scores of models that are not linear, else the first.
    pub(super) order: Option<Order>,
    /// The loss; `None` to choose it by the release.
    pub(super) loss: Option<Loss>,
    pub(super) start: Start,
    pub(super) projected: bool,
    pub(super) steps: u32,
    pub(super) learning_rate: f64,
    pub(super) stop_loss: f64,
    pub(super) iterate: Iterate,
}

impl Default for GradientInversion {
    /// Returns steps of second order on exact scores of models that are not linear. By first order:
    /// squared logarithms, the loss of R's experiments (D(c‖ĉ) if a released score is 0 or
    /// below), from 0 within the box, up to 10 000 steps at a learning rate of 0.01, or fewer if
    /// the loss reaches 1e-14, and the last point. These steps reach convergence. With fewer they
    /// do not: the divergences are flat in what classes of small scores tell, and 1000 steps of
    /// them leave most of a record with one solution undetermined.
    fn default() -> Self {
        Self {
            order: None,
            loss: None,
            start: Start::Zero,
            projected: true,
            steps: 10_000,
            learning_rate: 0.01,
            stop_loss: 1e-14,
            iterate: Iterate::Final,
        }
    }
}

impl GradientInversion {
    /// Returns J's own settings (algorithm 1, section 6.1): squared differences from 0, not
    /// confined to the box, a learning rate of 0.001. J does not state the number of steps; 10 000,
    /// the default, is ours.
    #[must_use]
    pub fn of_paper_j() -> Self {
        Self {
            order: Some(Order::First),
            loss: Some(Loss::Mse),
            projected: false,
            learning_rate: 1e-3,
            stop_loss: 0.0,
            ..Self::default()
        }
    }

    /// Returns P's settings, which are in its code and not in its text: from 0, clipped to the box,
    /// 500 steps of 0.001 (the 0.1 of its configuration file is not read). The loss is the squared
    /// differences that P reports (table 5). Of the minimised loss the text says only "divergence".
    #[must_use]
    pub fn of_paper_p() -> Self {
        Self {
            order: Some(Order::First),
            steps: 500,
            learning_rate: 1e-3,
            loss: Some(Loss::Mse),
            stop_loss: 0.0,
            ..Self::default()
        }
    }

    /// Returns the settings of P's code for what it calls a generative regression network, for
    /// MNIST: no generator, but 50 steps of 0.1 on the features from normal numbers, not clipped.
    #[must_use]
    pub fn of_paper_p_without_generator() -> Self {
        Self {
            start: Start::Normal,
            projected: false,
            steps: 50,
            learning_rate: 0.1,
            ..Self::of_paper_p()
        }
    }

    /// Returns the settings with steps of this order.
    #[must_use]
    pub fn with_order(self, order: Order) -> Self {
        Self { order: Some(order), ..self }
    }

    /// Returns the settings with this loss, of first order as all that follow.
    #[must_use]
    pub fn with_loss(self, loss: Loss) -> Self {
        Self { loss: Some(loss), ..self.by_gradients() }
    }

    /// Returns the settings by first order, which the others are of.
    fn by_gradients(self) -> Self {
        Self { order: Some(Order::First), ..self }
    }

    /// Returns the settings with this start.
    #[must_use]
    pub fn with_start(self, start: Start) -> Self {
        Self { start, ..self.by_gradients() }
    }

    /// Returns the settings with or without clipping to [0, 1] after every step.
    #[must_use]
    pub fn with_projected(self, projected: bool) -> Self {
        Self { projected, ..self.by_gradients() }
    }

    /// Returns the settings with this choice of the estimate.
    #[must_use]
    pub fn with_iterate(self, iterate: Iterate) -> Self {
        Self { iterate, ..self.by_gradients() }
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.steps
    }

    /// Returns the settings with this number of steps, 1 to [`MAX_STEPS`].
    ///
    /// # Errors
    /// [`GradientInversionError::Steps`] out of range.
    pub fn with_steps(self, steps: u32) -> Result<Self, GradientInversionError> {
        if (1..=MAX_STEPS).contains(&steps) {
            Ok(Self { steps, ..self.by_gradients() })
        } else {
            Err(GradientInversionError::Steps { got: steps })
        }
    }

    /// Returns the settings with this learning rate λ, in (0, 1]: about the most that a feature
    /// moves in one step.
    ///
    /// # Errors
    /// [`GradientInversionError::LearningRate`] out of range.
    pub fn with_learning_rate(self, learning_rate: f64) -> Result<Self, GradientInversionError> {
        if learning_rate > 0.0 && learning_rate <= 1.0 {
            Ok(Self { learning_rate, ..self.by_gradients() })
        } else {
            Err(GradientInversionError::LearningRate { got: learning_rate })
        }
    }

    /// Returns the settings with this `stop_loss`, finite and at least 0. A record stops once its
    /// loss is at or below it; with 0 it takes all steps.
    ///
    /// # Errors
    /// [`GradientInversionError::StopLoss`] out of range.
    pub fn with_stop_loss(self, stop_loss: f64) -> Result<Self, GradientInversionError> {
        if stop_loss >= 0.0 && stop_loss.is_finite() {
            Ok(Self { stop_loss, ..self.by_gradients() })
        } else {
            Err(GradientInversionError::StopLoss { got: stop_loss })
        }
    }
}

/// A set of settings by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Preset {
    #[default]
    Own,
    /// The settings of paper J.
    J,
    /// The settings of paper P.
    P,
    /// The settings of paper P's code in place of a generator.
    PGrn,
}

static ORDER: Setting<Order> = Setting {
    key: "order",
    takes: "of the steps of gradient inversion: `second`, the default for exact scores of networks and one-vs-rest models where no other \
            setting of it is given, or `first`, which the other settings are of",
    read: |value| Order::named(value.trim()),
};
static PRESET: Setting<Preset> = Setting {
    key: "preset",
    takes: "settings of gradient inversion that are not given one by one: `own` (the default: to convergence), `j` (of that paper: \
            loss = mse, not projected, learning_rate = 0.001, stop_loss = 0), `p` (loss = mse, projected, steps = 500, \
            learning_rate = 0.001, stop_loss = 0) or `p_grn` (the same from normal numbers, not projected, 50 steps of 0.1: what \
            that paper's code does in place of a generator)",
    read: |value| match value.trim() {
        "own" => Some(Preset::Own),
        "j" => Some(Preset::J),
        "p" => Some(Preset::P),
        "p_grn" => Some(Preset::PGrn),
        _ => None,
    },
};
pub(crate) static LOSS: Setting<Loss> = Setting {
    key: "loss",
    takes: "what gradient inversion and generative regression lessen: `mse`, `kl`, `rkl` or `logsq` (default logsq, and kl where a \
            score is 0 or below; of generative regression mse)",
    read: Loss::named,
};
static START: Setting<Start> = Setting {
    key: "start",
    takes: "where gradient inversion starts: `zero`, `half`, `random` or `normal` (default zero)",
    read: Start::named,
};
static PROJECTED: Setting<bool> = Setting {
    key: "projected",
    takes: "whether gradient inversion stays in [0, 1]: `true` or `false` (default true)",
    read: |value| value.parse().ok(),
};
static STEPS: Setting<u32> = Setting {
    key: "steps",
    takes: "steps of gradient inversion: at most: a whole number from 1 to 1000000 (default 10000)",
    read: |value| value.parse().ok().filter(|steps| (1..=MAX_STEPS).contains(steps)),
};
pub(crate) static LEARNING_RATE: Setting<f64> = Setting {
    key: "learning_rate",
    takes: "of gradient inversion and generative regression: a number above 0 and at most 1 (default 0.01 and 0.001)",
    read: |value| value.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0),
};
static STOP_LOSS: Setting<f64> = Setting {
    key: "stop_loss",
    takes: "loss at which gradient inversion stops on a record: a number of at least 0 (default 1e-14; 0 is never)",
    read: |value| value.parse().ok().filter(|loss: &f64| *loss >= 0.0 && loss.is_finite()),
};
static ITERATE: Setting<Iterate> = Setting {
    key: "iterate",
    takes: "which point gradient inversion takes: `final` or `best` (default final)",
    read: Iterate::named,
};

impl From<&Settings> for GradientInversion {
    fn from(settings: &Settings) -> Self {
        let default = match settings.get(&PRESET).unwrap_or_default() {
            Preset::Own => Self::default(),
            Preset::J => Self::of_paper_j(),
            Preset::P => Self::of_paper_p(),
            Preset::PGrn => Self::of_paper_p_without_generator(),
        };
        let of_first = Self::OF_FIRST_ORDER.iter().any(|one| settings.has(one.key()));
        let order = if of_first { Some(Order::First) } else { default.order };
        Self {
            order: settings.get(&ORDER).or(order),
            loss: settings.get(&LOSS).or(default.loss),
            start: settings.get(&START).unwrap_or(default.start),
            projected: settings.get(&PROJECTED).unwrap_or(default.projected),
            steps: settings.get(&STEPS).unwrap_or(default.steps),
            learning_rate: settings.get(&LEARNING_RATE).unwrap_or(default.learning_rate),
            stop_loss: settings.get(&STOP_LOSS).unwrap_or(default.stop_loss),
            iterate: settings.get(&ITERATE).unwrap_or(default.iterate),
        }
    }
}

impl GradientInversion {
    /// The settings of the descent by first order, but the preset.
    const OF_FIRST_ORDER: [&'static dyn AnySetting; 7] =
        [&LOSS, &START, &PROJECTED, &STEPS, &LEARNING_RATE, &STOP_LOSS, &ITERATE];

    /// The settings that the attack takes.
    pub(super) const SETTINGS: &'static [&'static dyn AnySetting] =
        &[&ORDER, &PRESET, &LOSS, &START, &PROJECTED, &STEPS, &LEARNING_RATE, &STOP_LOSS, &ITERATE];
}
