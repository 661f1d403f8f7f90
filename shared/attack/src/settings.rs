//! Settings of attacks, as `key=value` pairs give them. Each attack states and reads its own.

use std::collections::BTreeMap;

use super::Replacement;
use super::text::clip;

/// Errors from a setting.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// There is no setting of that name.
    #[error("there is no setting {key:?}; there are: {known}")]
    Key {
        /// The name given, cut to 80 characters.
        key: String,
        /// The names of all settings, with commas.
        known: String,
    },
    /// The setting does not take the value.
    #[error("setting `{key}` is {value:?}, expected {expected}")]
    Value {
        /// The name of the setting.
        key: &'static str,
        /// The value given, cut to 80 characters.
        value: String,
        /// The values that it takes.
        expected: &'static str,
    },
}

/// A setting: its name, the values that it takes, and their reader.
#[derive(Debug)]
pub struct Setting<T: 'static> {
    /// The name of the setting.
    pub key: &'static str,
    /// The values that it takes, with the default.
    pub takes: &'static str,
    /// The reader of its value; `None` for text that is no value.
    pub read: fn(&str) -> Option<T>,
}

/// A setting of any type.
pub trait AnySetting: Send + Sync {
    /// Returns the name of the setting.
    fn key(&self) -> &'static str;

    /// Returns the values that it takes, with the default.
    fn takes(&self) -> &'static str;

    /// Returns true if it takes this value.
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

/// Settings of attacks. Every value has been accepted by the setting of its name; each attack reads
/// only its own.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    values: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Creates settings from pairs that are known to be accepted, because they were made from
    /// values.
    pub(super) fn accepted(pairs: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self { values: pairs.into_iter().collect() }
    }

    /// Adds the value, if one of these settings has this name and takes it.
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
            return Err(SettingError::Value {
                key: known.key(),
                value: clip(value),
                expected: known.takes(),
            });
        }
        self.values.insert(known.key(), value.to_owned());
        Ok(())
    }

    /// Returns the value of a setting, if it was given.
    #[must_use]
    pub fn get<T>(&self, setting: &Setting<T>) -> Option<T> {
        self.values.get(setting.key).and_then(|value| (setting.read)(value))
    }

    /// Returns true if the setting of this name was given.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Returns the pairs, sorted by name.
    pub fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(key, value)| (*key, value.as_str()))
    }

    /// Returns the replacement of a score of 0, and of the scores behind a label.
    #[must_use]
    pub fn replacement(&self) -> Replacement {
        self.get(&ZERO_FLOOR).unwrap_or_default()
    }
}

/// Reads a finite number of at least 0.
pub(super) fn weight(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|n: &f64| *n >= 0.0 && n.is_finite())
}

/// Reads finite numbers with separators.
pub(super) fn numbers(text: &str, separator: char) -> Option<Vec<f64>> {
    text.split(separator).map(|n| n.trim().parse().ok().filter(|n: &f64| n.is_finite())).collect()
}
