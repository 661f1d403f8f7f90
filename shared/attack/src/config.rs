//! An attack with its settings, as configurations name it: `"half_star"`, or `{ name = "half_star",
//! binary = "all" }`.

use std::fmt;

use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Attack, Method, MethodError, Settings};

/// An attack with settings that it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttackConfig {
    method: Method,
    settings: Settings,
}

impl AttackConfig {
    /// Creates an attack with these `key`, `value` pairs.
    ///
    /// # Errors
    /// [`MethodError`] naming a setting that this attack does not take, or whose value is not
    /// valid.
    pub fn new<'a>(
        method: Method,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, MethodError> {
        let settings = Settings::read(pairs)?;
        let other = settings.pairs().map(|(key, _)| key).find(|key| !method.takes(key, &settings));
        match other {
            Some(key) => Err(MethodError::NotTaken { method, key }),
            None => Ok(Self { method, settings }),
        }
    }

    /// Returns the name of the attack.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the settings of the attack.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Builds the attack with its settings.
    #[must_use]
    pub fn build(&self) -> Box<dyn Attack> {
        self.method.build(&self.settings)
    }
}

impl From<Method> for AttackConfig {
    fn from(method: Method) -> Self {
        Self { method, settings: Settings::default() }
    }
}

/// The name, and in brackets the settings that were given: `half_star (binary = all)`.
impl fmt::Display for AttackConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.method.as_str())?;
        for (at, (key, value)) in self.settings.pairs().enumerate() {
            write!(f, "{}{key} = {value}", if at == 0 { " (" } else { ", " })?;
        }
        if self.settings.pairs().next().is_some() { f.write_str(")") } else { Ok(()) }
    }
}

impl Serialize for AttackConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.method.as_str())?;
        for (key, value) in self.settings.pairs() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// A value of a setting, as configurations write it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Truth(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truth(value) => value.fmt(f),
            Self::Whole(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

struct ConfigVisitor;

impl<'de> Visitor<'de> for ConfigVisitor {
    type Value = AttackConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of an attack, or a table with its `name` and settings")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<AttackConfig, E> {
        name.parse::<Method>().map(AttackConfig::from).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AttackConfig, A::Error> {
        let (mut method, mut pairs) = (None, Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value::<Value>()?.to_string();
            if key == "name" {
                method = Some(value.parse::<Method>().map_err(de::Error::custom)?);
            } else {
                pairs.push((key, value));
            }
        }
        let method = method.ok_or_else(|| de::Error::missing_field("name"))?;
        let pairs = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        AttackConfig::new(method, pairs).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for AttackConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConfigVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AttackConfig, String> {
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    #[test]
    fn names_and_tables_are_read_and_written_back() {
        let plain = read("\"half_star\"").unwrap();
        assert_eq!(plain, Method::HalfStar.into());
        assert_eq!(plain.to_string(), "half_star");
        let text = r#"{"name":"gradient_inversion","binary":"all","projected":false,"steps":7,"stop_loss":0.5}"#;
        let tagged = read(text).unwrap();
        assert_eq!(
            tagged.to_string(),
            "gradient_inversion (binary = all, projected = false, steps = 7, stop_loss = 0.5)"
        );
        assert_eq!(read(&serde_json::to_string(&tagged).unwrap()).unwrap(), tagged);
    }

    #[test]
    fn a_setting_that_the_attack_does_not_take_is_refused_by_name() {
        let why = read(r#"{"name":"half_star","steps":7}"#).unwrap_err();
        assert!(why.contains("half_star") && why.contains("`steps`"), "{why}");
        // What wraps another attack takes the settings of that one.
        assert!(read(r#"{"name":"agnostic","base":"gradient_inversion","steps":7}"#).is_ok());
        assert!(read(r#"{"name":"agnostic","steps":7}"#).is_err());
        assert!(read(r#"{"name":"half_star","zero_floor":2}"#).unwrap_err().contains("zero_floor"));
        assert!(read(r#"{"steps":7}"#).unwrap_err().contains("name"));
    }
}
