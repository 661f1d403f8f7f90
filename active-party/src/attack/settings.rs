//! Settings of attacks, as `key=value` pairs give them.

use super::method::clip;
use super::{MethodError, Replacement};

/// Settings of attacks. Each attack looks at its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// What stands for a score of 0, and for the scores behind a label.
    pub replacement: Replacement,
}

/// A setting: its name, and what it takes, with the default.
type Key = (&'static str, &'static str);

const ZERO_FLOOR: Key =
    ("zero_floor", "what stands for a score of 0: a number above 0 and at most 0.5 (default 1e-12)");

impl Settings {
    /// The settings there are, each with what it takes.
    pub const KEYS: [Key; 1] = [ZERO_FLOOR];

    /// The names of all settings, with commas.
    #[must_use]
    pub fn names() -> String {
        Self::KEYS.map(|(name, _)| name).join(", ")
    }

    /// Reads `key`, `value` pairs; the last of a key counts.
    ///
    /// # Errors
    /// [`MethodError`] naming the setting that is unknown, or whose value it does not take.
    pub fn read<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, MethodError> {
        let mut settings = Self::default();
        for (key, value) in pairs {
            let key = Self::KEYS
                .into_iter()
                .find(|(name, _)| *name == key)
                .ok_or_else(|| MethodError::Key { key: clip(key) })?;
            settings.set(key, value).ok_or_else(|| MethodError::Value {
                key: key.0,
                value: clip(value),
                expected: key.1,
            })?;
        }
        Ok(settings)
    }

    fn set(&mut self, key: Key, value: &str) -> Option<()> {
        if key == ZERO_FLOOR {
            self.replacement = Replacement::new(value.parse().ok()?).ok()?;
        }
        Some(())
    }
}
