//! Attacks by name, with their settings.

use std::fmt;
use std::str::FromStr;

use rand::Rng;

use super::adaptive::{
    Averaging, Centre, CodebookCell, Interval, LabelCone, NoiseDirection, RankingCone, UndoTransform,
};
use super::{
    AdversaryView, Attack, AttackError, ChebyshevExact, Constant, ConstrainedLeastSquares, HalfStar, LeastSquares,
    OneFeature, Random, Rcc1, Rcc2, Reconstruction, Requirements, Settings,
};

/// Why a name or a setting was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MethodError {
    /// No attack of that name.
    #[error("there is no attack {name:?}; there are: {}", Method::ALL.into_iter().chain(Method::APART).map(Method::as_str).collect::<Vec<_>>().join(", "))]
    Name {
        /// What came, cut to 80 characters.
        name: String,
    },
    /// No setting of that name.
    #[error("there is no setting {key:?}; there are: {}", Settings::names())]
    Key {
        /// What came, cut to 80 characters.
        key: String,
    },
    /// A value that is not what the setting takes.
    #[error("setting `{key}` is {value:?}, expected {expected}")]
    Value {
        /// The setting.
        key: &'static str,
        /// What came, cut to 80 characters.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
}

/// The attacks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// Uniform guesses.
    Random,
    /// 0 everywhere.
    Zero,
    /// ½ everywhere.
    Half,
    /// The least-norm solution.
    LeastSquares,
    /// The same, clipped.
    ClampedLeastSquares,
    /// The solution nearest to ½.
    HalfStar,
    /// The same, clipped.
    ClampedHalfStar,
    /// The best fit within the box.
    ConstrainedLeastSquares,
    /// The first relaxation of the Chebyshev centre.
    Rcc1,
    /// The second relaxation of the Chebyshev centre.
    Rcc2,
    /// One passive feature in the black box.
    OneFeature,
    /// Descent towards the released scores.
    GradientInversion,
    /// The Chebyshev centre itself, where the null space is small.
    ChebyshevExact,
    /// Adaptive: intervals of scores.
    Interval,
    /// Adaptive: the order of the scores.
    RankingCone,
    /// Adaptive: the predicted class.
    LabelCone,
    /// Adaptive: the words of a codebook.
    CodebookCell,
    /// Adaptive: the known direction of noise at the logits.
    NoiseDirection,
    /// Adaptive: noise averaged over repeated questions.
    Averaging,
    /// Adaptive: logit shares of the adversary's own choice.
    ChosenShares,
    /// Adaptive: parameters that may be transformed.
    UndoTransform,
    /// Scores that were never asked for, estimated from the adversary's own labelled records.
    Agnostic,
}

impl Method {
    /// All attacks that run on one release.
    pub const ALL: [Self; 20] = [
        Self::Random,
        Self::Zero,
        Self::Half,
        Self::LeastSquares,
        Self::ClampedLeastSquares,
        Self::HalfStar,
        Self::ClampedHalfStar,
        Self::ConstrainedLeastSquares,
        Self::Rcc1,
        Self::Rcc2,
        Self::OneFeature,
        Self::GradientInversion,
        Self::ChebyshevExact,
        Self::Interval,
        Self::RankingCone,
        Self::LabelCone,
        Self::CodebookCell,
        Self::NoiseDirection,
        Self::Averaging,
        Self::UndoTransform,
    ];

    /// Those that do not run on one release: `chosen_shares` asks by itself
    /// ([`ChosenShares`](super::adaptive::ChosenShares)), `agnostic` needs labelled records ([`Agnostic`](super::Agnostic)).
    pub const APART: [Self; 2] = [Self::ChosenShares, Self::Agnostic];

    /// The adaptive attacks. `averaging` is worth more on the [mean of several releases](super::adaptive::average) than on one,
    /// and `chosen_shares` runs on none: it asks by itself ([`ChosenShares`](super::adaptive::ChosenShares)).
    pub const ADAPTIVE: [Self; 8] = [
        Self::Interval,
        Self::RankingCone,
        Self::LabelCone,
        Self::CodebookCell,
        Self::NoiseDirection,
        Self::Averaging,
        Self::ChosenShares,
        Self::UndoTransform,
    ];

    /// Those that run on any model whose parameters are known: not the one for a single feature in the black box, nor the one
    /// for a small null space.
    pub const GENERAL: [Self; 11] = [
        Self::Random,
        Self::Zero,
        Self::Half,
        Self::LeastSquares,
        Self::ClampedLeastSquares,
        Self::ConstrainedLeastSquares,
        Self::HalfStar,
        Self::ClampedHalfStar,
        Self::Rcc1,
        Self::Rcc2,
        Self::GradientInversion,
    ];

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Zero => "zero",
            Self::Half => "half",
            Self::LeastSquares => "least_squares",
            Self::ClampedLeastSquares => "clamped_least_squares",
            Self::HalfStar => "half_star",
            Self::ClampedHalfStar => "clamped_half_star",
            Self::ConstrainedLeastSquares => "constrained_least_squares",
            Self::Rcc1 => "rcc1",
            Self::Rcc2 => "rcc2",
            Self::OneFeature => "one_feature",
            Self::GradientInversion => "gradient_inversion",
            Self::ChebyshevExact => "chebyshev_exact",
            Self::Interval => "interval",
            Self::RankingCone => "ranking_cone",
            Self::LabelCone => "label_cone",
            Self::CodebookCell => "codebook_cell",
            Self::NoiseDirection => "noise_direction",
            Self::Averaging => "averaging",
            Self::ChosenShares => "chosen_shares",
            Self::UndoTransform => "undo_transform",
            Self::Agnostic => "agnostic",
        }
    }

    /// Whether another attack can be built upon it: it knows the parameters and runs on one release.
    #[must_use]
    pub fn is_base(self) -> bool {
        // What wraps a base is none: it would have to be built to be asked.
        self != Self::UndoTransform
            && Self::ALL.contains(&self)
            && self.plain(&Settings::default()).requirements().parameters
    }

    /// The attack itself, with these settings. What the ones [apart](Method::APART) give says only what they need.
    #[must_use]
    pub fn build(self, settings: &Settings) -> Box<dyn Attack> {
        let attack = self.plain(settings);
        // What is known of the features goes to the base, and to the evidence.
        Box::new(Checked(if self == Self::UndoTransform { attack } else { settings.knowledge.wrap(attack) }))
    }

    /// The attack without what is known of the features.
    pub(in crate::attack) fn plain(self, settings: &Settings) -> Box<dyn Attack> {
        let known = &settings.adaptive;
        match self {
            Self::Random => Box::new(Random),
            Self::Zero => Box::new(Constant(0.0)),
            Self::Half => Box::new(Constant(0.5)),
            Self::LeastSquares => Box::new(LeastSquares { clamped: false }),
            Self::ClampedLeastSquares => Box::new(LeastSquares { clamped: true }),
            Self::HalfStar => Box::new(HalfStar { clamped: false }),
            Self::ClampedHalfStar => Box::new(HalfStar { clamped: true }),
            Self::ConstrainedLeastSquares => Box::new(ConstrainedLeastSquares),
            Self::Rcc1 => Box::new(Rcc1),
            Self::Rcc2 => Box::new(Rcc2),
            Self::OneFeature => Box::new(OneFeature { case: settings.one_feature_case }),
            Self::GradientInversion => Box::new(settings.gradient_inversion),
            Self::ChebyshevExact => Box::new(ChebyshevExact),
            Self::Interval => Box::new(Interval { known: known.clone() }),
            Self::RankingCone => Box::new(RankingCone { centre: known.centre.unwrap_or(Centre::Analytic) }),
            Self::LabelCone => Box::new(LabelCone { centre: known.centre.unwrap_or(Centre::Analytic) }),
            Self::CodebookCell => Box::new(CodebookCell { centre: known.centre.unwrap_or(Centre::Likely) }),
            Self::NoiseDirection => Box::new(NoiseDirection { known: known.clone() }),
            Self::Averaging => Box::new(Averaging { known: known.clone(), queries: settings.averaged }),
            Self::ChosenShares => Box::new(Apart(AttackError::NeedsOracle { attack: "chosen_shares" })),
            Self::UndoTransform => Box::new(UndoTransform::from(settings)),
            Self::Agnostic => Box::new(Apart(AttackError::NoLabelled { attack: "agnostic" })),
        }
    }
}

/// An attack that does not run on a release, with the reason.
#[derive(Debug)]
struct Apart(AttackError);

impl Attack for Apart {
    fn requirements(&self) -> Requirements {
        Requirements { parameters: true }
    }

    fn reconstruct(&self, _view: &AdversaryView, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        Err(self.0.clone())
    }
}

/// An attack whose estimates are numbers, or an error.
#[derive(Debug)]
struct Checked(Box<dyn Attack>);

impl Attack for Checked {
    fn requirements(&self) -> Requirements {
        self.0.requirements()
    }

    fn reconstruct(&self, view: &AdversaryView, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let found = self.0.reconstruct(view, rng)?;
        let finite = found.estimates.iter().all(|v| v.is_finite());
        if finite { Ok(found) } else { Err(AttackError::NotFinite { what: "an estimate" }) }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl AsRef<str> for Method {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(name: &str) -> Result<Self, MethodError> {
        Self::ALL
            .into_iter()
            .chain(Self::APART)
            .find(|m| m.as_str() == name)
            .ok_or_else(|| MethodError::Name { name: clip(name) })
    }
}

pub(super) fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
