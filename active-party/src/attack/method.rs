//! Attacks by name: what an entry of the register holds, and the attack that it becomes with its settings.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use rand::Rng;

use super::settings::{AnySetting, BASE};
use super::{AdversaryView, Attack, AttackError, Needs, Parameters, Reconstruction, Settings};

/// Why a name or a setting was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MethodError {
    /// No attack of that name.
    #[error("there is no attack {name:?}; there are: {}", Method::all().map(Method::as_str).collect::<Vec<_>>().join(", "))]
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
    /// A setting of another attack.
    #[error(
        "{method} has no setting `{key}`; it takes: {}",
        Settings::all().iter().map(|s| s.key()).filter(|key| method.takes(key, &Settings::default())).collect::<Vec<_>>().join(", ")
    )]
    NotTaken {
        /// The attack.
        method: Method,
        /// The setting.
        key: &'static str,
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

/// What an attack is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// It runs on any model whose parameters are known, and takes the release for the true scores.
    General,
    /// It takes the release for the true scores, and runs on some models only: of one passive feature, or of few dimensions.
    Special,
    /// It knows the policy or suspects a transform.
    Adaptive,
    /// It needs more than a release and parameters: records of the adversary's own, or the help of another party.
    Helped,
}

/// An attack in the register.
pub struct Entry {
    /// The name.
    pub name: &'static str,
    /// What it is for.
    pub group: Group,
    /// Its settings, beside those of all attacks.
    pub settings: &'static [&'static dyn AnySetting],
    /// The attack with its settings.
    pub build: fn(&Settings) -> Box<dyn Attack>,
    /// Whether it applies what is known of the features by itself. For the others the runner puts the features' ranges on
    /// [0, 1] and moves estimates of discrete features to their levels.
    pub informed: bool,
    /// The same attack without its clipping to [0, 1], where it clips.
    pub unclipped: Option<&'static Entry>,
}

impl Entry {
    /// An attack without settings of its own.
    pub const fn new(name: &'static str, group: Group, build: fn(&Settings) -> Box<dyn Attack>) -> Self {
        Self { name, group, settings: &[], build, informed: false, unclipped: None }
    }
}

/// An attack of the register, by name.
#[derive(Clone, Copy)]
pub struct Method(pub(super) &'static Entry);

impl Method {
    /// All attacks there are, in the order of the register.
    pub fn all() -> impl Iterator<Item = Self> {
        super::REGISTER.iter().copied()
    }

    /// Those that run on one release.
    pub fn on_one_release() -> impl Iterator<Item = Self> {
        Self::all().filter(|method| method.0.group != Group::Helped && *method != Self::ChosenShares)
    }

    /// Those that run on any model whose parameters are known, and take the release for the true scores.
    pub fn general() -> impl Iterator<Item = Self> {
        Self::all().filter(|method| method.0.group == Group::General)
    }

    /// The name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0.name
    }

    /// What it is for.
    #[must_use]
    pub fn group(self) -> Group {
        self.0.group
    }

    /// Its settings, beside those of all attacks.
    #[must_use]
    pub fn settings(self) -> &'static [&'static dyn AnySetting] {
        self.0.settings
    }

    /// Whether it takes the setting of this name: its own ones, those of all attacks, and those of the attack that it runs in the end.
    #[must_use]
    pub fn takes(self, key: &str, settings: &Settings) -> bool {
        let own = |method: Self| method.settings().iter().any(|setting| setting.key() == key);
        own(self) || Settings::is_common(key) || self.base(settings).is_some_and(own)
    }

    /// Whether another attack can be built upon it: it knows the parameters and runs on one release.
    #[must_use]
    pub fn is_base(self) -> bool {
        // What wraps a base is none: it would have to be built to be asked.
        self != Self::UndoTransform
            && Self::on_one_release().any(|method| method == self)
            && self.plain(&Settings::default()).needs().parameters != Parameters::Hidden
    }

    /// The same attack without its clipping to [0, 1]; `None` where it does not clip.
    #[must_use]
    pub(in crate::attack) fn unclipped(self) -> Option<Self> {
        self.0.unclipped.map(Self)
    }

    /// The attack that it runs in the end, for one that wraps another.
    #[must_use]
    pub fn base(self, settings: &Settings) -> Option<Self> {
        let wraps = self.settings().iter().any(|setting| setting.key() == BASE.key);
        wraps.then(|| settings.get(&BASE).unwrap_or(Self::ClampedHalfStar))
    }

    /// The attack itself, with these settings.
    #[must_use]
    pub fn build(self, settings: &Settings) -> Box<dyn Attack> {
        let attack = self.plain(settings);
        Box::new(Checked(if self.0.informed { attack } else { settings.knowledge().wrap(attack) }))
    }

    /// The attack without what is known of the features.
    pub(in crate::attack) fn plain(self, settings: &Settings) -> Box<dyn Attack> {
        (self.0.build)(settings)
    }
}

/// An attack whose estimates are numbers, or an error.
#[derive(Debug)]
struct Checked(Box<dyn Attack>);

impl Attack for Checked {
    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn reconstruct(&self, view: &AdversaryView<'_>, rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let found = self.0.reconstruct(view, rng)?;
        let finite = found.estimates.iter().all(|v| v.is_finite());
        if finite { Ok(found) } else { Err(AttackError::NotFinite { what: "an estimate" }) }
    }
}

/// By name: names are distinct.
impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Method {}

impl Hash for Method {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
        Self::all().find(|m| m.as_str() == name).ok_or_else(|| MethodError::Name { name: clip(name) })
    }
}

pub(super) fn clip(text: &str) -> String {
    text.chars().take(80).collect()
}
