//! Settings of attacks, as `key=value` pairs give them.

use super::method::clip;
use super::{MethodError, Replacement, StatedKnowledge};

/// Settings of attacks. Each attack looks at its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// What stands for a score of 0, and for the scores behind a label.
    pub replacement: Replacement,
    /// What is known of the passive features.
    pub knowledge: StatedKnowledge,
}

/// A setting: its name, and what it takes, with the default.
type Key = (&'static str, &'static str);

const ZERO_FLOOR: Key =
    ("zero_floor", "what stands for a score of 0: a number above 0 and at most 0.5 (default 1e-12)");
const LOWER: Key =
    ("lower", "the least value of each passive feature: one number for all, or one for each, with commas (default 0)");
const UPPER: Key = (
    "upper",
    "the greatest value of each passive feature: one number for all, or one for each, with commas (default 1)",
);
const BINARY: Key = (
    "binary",
    "which passive features are at one end of their range or the other: `all`, or positions from 0, with commas",
);
const LEVELS: Key =
    ("levels", "the values that passive features take: position:value/value/..., with commas (as 0:0/0.5/1,3:0/1)");
const DISCRETE: Key = (
    "discrete",
    "what is made of `binary` and `levels`: `snap` (to the nearest, the default) or `exact` (all assignments)",
);

impl Settings {
    /// The settings there are, each with what it takes.
    pub const KEYS: [Key; 6] = [ZERO_FLOOR, LOWER, UPPER, BINARY, LEVELS, DISCRETE];

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
        match key {
            ZERO_FLOOR => self.replacement = Replacement::new(value.parse().ok()?).ok()?,
            LOWER => self.knowledge.lower = numbers(value, ',')?,
            UPPER => self.knowledge.upper = numbers(value, ',')?,
            BINARY if value.trim() == "all" => self.knowledge.binary = Some(None),
            BINARY => {
                let positions = value.split(',').map(|p| p.trim().parse().ok()).collect::<Option<_>>()?;
                self.knowledge.binary = Some(Some(positions));
            }
            LEVELS => {
                let feature = |text: &str| {
                    let (position, levels) = text.split_once(':')?;
                    Some((position.trim().parse().ok()?, numbers(levels, '/')?))
                };
                self.knowledge.levels = value.split(',').map(feature).collect::<Option<_>>()?;
            }
            DISCRETE => {
                self.knowledge.exact = match value.trim() {
                    "snap" => false,
                    "exact" => true,
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(())
    }
}

/// Finite numbers with separators.
fn numbers(text: &str, separator: char) -> Option<Vec<f64>> {
    text.split(separator).map(|n| n.trim().parse().ok().filter(|n: &f64| n.is_finite())).collect()
}
