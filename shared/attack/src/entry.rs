//! An entry of the attack register: the name, the settings and the constructor of an attack.

use super::Attack;
use super::settings::{AnySetting, Settings};

/// The purpose of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// It runs on any model whose parameters are known, and takes the release for the true scores.
    General,
    /// It takes the release for the true scores, and either runs on some models only (of one
    /// passive feature, of few dimensions), or takes much longer than the general ones.
    Special,
    /// It knows the policy or suspects a transform.
    Adaptive,
    /// It needs more than a release and parameters: records of the adversary's own, or the help of
    /// another party.
    Helped,
    /// It knows moments of the features or whole records, or is the control of an attack that does.
    Informed,
}

/// The source of the choice of the attack that another one runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BaseChoice {
    /// No setting: it is always the same.
    Fixed,
    /// The setting `base`: an attack that makes the estimates.
    Base,
    /// The setting `evidence`: an attack whose evidence is used, and not its estimates.
    Evidence,
}

/// The attack that another one runs.
#[derive(Clone, Copy)]
pub struct Base {
    /// The name of the default.
    pub name: fn(&Settings) -> &'static str,
    /// The source of the choice.
    pub chosen: BaseChoice,
    /// True if it runs without its own clipping to [0, 1].
    pub unclipped: bool,
}

impl Base {
    /// A base that the setting `base` chooses, `clamped_half_star` by default.
    pub const CHOSEN: Self =
        Self { name: |_| "clamped_half_star", chosen: BaseChoice::Base, unclipped: false };
}

/// The constructor of an attack from its settings.
#[derive(Clone, Copy)]
pub enum Constructor {
    /// The attack stands alone.
    Alone(fn(&Settings) -> Box<dyn Attack>),
    /// The attack runs another one.
    Upon(Base, fn(&Settings, Box<dyn Attack>) -> Box<dyn Attack>),
}

/// An attack in the register.
pub struct Entry {
    /// The name of the attack.
    pub name: &'static str,
    /// The purpose of the attack.
    pub group: Group,
    /// Its settings, besides `base` and those of all attacks.
    pub settings: &'static [&'static dyn AnySetting],
    /// The constructor of the attack.
    pub build: Constructor,
    /// True if it applies the knowledge of the features by itself. For the others the register
    /// scales the features' ranges to [0, 1] and moves estimates of discrete features to their
    /// levels.
    pub informed: bool,
    /// The same attack without its clipping to [0, 1], if it clips.
    pub unclipped: Option<&'static Entry>,
}

impl Entry {
    /// Creates the entry of an attack without settings of its own.
    pub const fn new(
        name: &'static str,
        group: Group,
        build: fn(&Settings) -> Box<dyn Attack>,
    ) -> Self {
        Self {
            name,
            group,
            settings: &[],
            build: Constructor::Alone(build),
            informed: false,
            unclipped: None,
        }
    }

    /// Creates the entry of an attack that runs another one, and has no settings of its own. It
    /// applies the knowledge of the features.
    pub const fn upon(
        name: &'static str,
        group: Group,
        base: Base,
        build: fn(&Settings, Box<dyn Attack>) -> Box<dyn Attack>,
    ) -> Self {
        Self {
            name,
            group,
            settings: &[],
            build: Constructor::Upon(base, build),
            informed: true,
            unclipped: None,
        }
    }
}
