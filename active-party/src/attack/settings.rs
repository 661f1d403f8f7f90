//! Settings of attacks, as `key=value` pairs give them: the means by which each attack states and reads its own.

use std::collections::BTreeMap;

use super::Replacement;
use super::text::clip;

/// Why a setting was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// No setting of that name.
    #[error("there is no setting {key:?}; there are: {known}")]
    Key {
        /// What came, cut to 80 characters.
        key: String,
        /// The settings there are, with commas.
        known: String,
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

pub(super) static ZERO_FLOOR: Setting<Replacement> = Setting {
    key: "zero_floor",
    takes: "what stands for a score of 0: a number above 0 and at most 0.5 (default 1e-12)",
    read: |value| Replacement::new(value.parse().ok()?).ok(),
};

/// Settings of attacks. Every value has been accepted by the setting of its name; each attack looks at its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Pairs that are known to be accepted, as they were made from values.
    pub(super) fn accepted(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self { values: pairs.into_iter().collect() }
    }

    /// Takes the value in, if one of these settings has this name and takes it.
    pub(super) fn accept(
        &mut self,
        all: &[&'static dyn AnySetting],
        key: &str,
        value: &str,
    ) -> Result<(), SettingError> {
        let known = all.iter().find(|s| s.key() == key).ok_or_else(|| SettingError::Key {
            key: clip(key),
            known: all.iter().map(|s| s.key()).collect::<Vec<_>>().join(", "),
        })?;
        if !known.accepts(value) {
            return Err(SettingError::Value { key: known.key(), value: clip(value), expected: known.takes() });
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
}

/// A finite number of at least 0.
pub(super) fn weight(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|n: &f64| *n >= 0.0 && n.is_finite())
}

/// Finite numbers with separators.
pub(super) fn numbers(text: &str, separator: char) -> Option<Vec<f64>> {
    text.split(separator).map(|n| n.trim().parse().ok().filter(|n: &f64| n.is_finite())).collect()
}
