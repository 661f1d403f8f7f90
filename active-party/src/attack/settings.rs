//! Settings of attacks, as `key=value` pairs give them: what is common to all attacks, and the means by which each attack states
//! and reads its own.

use std::collections::BTreeMap;

use super::method::{Method, MethodError, clip};
use super::{Replacement, StatedKnowledge};

/// A setting: its name, what it takes, and how a value is read.
#[derive(Debug)]
pub struct Setting<T: 'static> {
    /// The name.
    pub key: &'static str,
    /// What it takes, with the default.
    pub takes: &'static str,
    /// Its value; `None` for text that is none.
    pub read: fn(&str) -> Option<T>,
}

/// A setting of any type.
pub trait AnySetting: Send + Sync {
    /// The name.
    fn key(&self) -> &'static str;

    /// What it takes, with the default.
    fn takes(&self) -> &'static str;

    /// Whether it takes this value.
    fn accepts(&self, value: &str) -> bool;
}

impl<T> AnySetting for Setting<T> {
    fn key(&self) -> &'static str {
        self.key
    }

    fn takes(&self) -> &'static str {
        self.takes
    }

    fn accepts(&self, value: &str) -> bool {
        (self.read)(value).is_some()
    }
}

static ZERO_FLOOR: Setting<Replacement> = Setting {
    key: "zero_floor",
    takes: "what stands for a score of 0: a number above 0 and at most 0.5 (default 1e-12)",
    read: |value| Replacement::new(value.parse().ok()?).ok(),
};

/// The attack that one which wraps another runs in the end.
pub(super) static BASE: Setting<Method> = Setting {
    key: "base",
    takes: "the attack that agnostic, coalition, shadow_model and undo_transform run in the end: one that knows the parameters and runs on one \
            release (default clamped_half_star)",
    read: |value| value.trim().parse().ok().filter(|method: &Method| method.is_base()),
};

/// Settings that every attack takes: what stands for a score of 0, and what is known of the features.
static COMMON: &[&dyn AnySetting] = &[&ZERO_FLOOR];

/// Settings of attacks. Every value has been accepted by the setting of its name; each attack looks at its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// The settings there are, those common to all attacks first; each comes once.
    #[must_use]
    pub fn all() -> Vec<&'static dyn AnySetting> {
        let of_attacks = Method::all().flat_map(|method| method.settings().iter().copied());
        let mut all: Vec<&dyn AnySetting> = Vec::new();
        for setting in COMMON.iter().chain(StatedKnowledge::SETTINGS).copied().chain(of_attacks) {
            if !all.iter().any(|known| known.key() == setting.key()) {
                all.push(setting);
            }
        }
        all
    }

    /// Whether all attacks take the setting of this name.
    #[must_use]
    pub fn is_common(key: &str) -> bool {
        COMMON.iter().chain(StatedKnowledge::SETTINGS).any(|setting| setting.key() == key)
    }

    /// The names of all settings, with commas.
    #[must_use]
    pub fn names() -> String {
        Self::all().iter().map(|setting| setting.key()).collect::<Vec<_>>().join(", ")
    }

    /// Reads `key`, `value` pairs; the last of a key counts.
    ///
    /// # Errors
    /// [`MethodError`] naming the setting that is unknown, or whose value it does not take.
    pub fn read<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, MethodError> {
        let mut settings = Self::default();
        for (key, value) in pairs {
            settings.set(key, value)?;
        }
        Ok(settings)
    }

    /// The same with one setting more.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn with(mut self, key: &str, value: impl ToString) -> Result<Self, MethodError> {
        self.set(key, &value.to_string())?;
        Ok(self)
    }

    /// Pairs that are known to be accepted, as they were made from values.
    pub(super) fn accepted(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self { values: pairs.into_iter().collect() }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), MethodError> {
        let all = Self::all();
        let known = all.iter().find(|s| s.key() == key).ok_or_else(|| MethodError::Key { key: clip(key) })?;
        if !known.accepts(value) {
            return Err(MethodError::Value { key: known.key(), value: clip(value), expected: known.takes() });
        }
        self.values.insert(known.key(), value.to_owned());
        Ok(())
    }

    /// The value of a setting, if it was given.
    #[must_use]
    pub fn get<T>(&self, setting: &Setting<T>) -> Option<T> {
        self.values.get(setting.key).and_then(|value| (setting.read)(value))
    }

    /// The pairs, by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// What stands for a score of 0, and for the scores behind a label.
    #[must_use]
    pub fn replacement(&self) -> Replacement {
        self.get(&ZERO_FLOOR).unwrap_or_default()
    }

    /// What is known of the passive features.
    #[must_use]
    pub fn knowledge(&self) -> StatedKnowledge {
        StatedKnowledge::from(self)
    }
}

/// A finite number of at least 0.
pub(super) fn weight(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|n: &f64| *n >= 0.0 && n.is_finite())
}

/// Finite numbers with separators.
pub(super) fn numbers(text: &str, separator: char) -> Option<Vec<f64>> {
    text.split(separator).map(|n| n.trim().parse().ok().filter(|n: &f64| n.is_finite())).collect()
}
