//! The parameters of a defense as a table of named, typed values: the one way from a policy text, a command line or a message to
//! a [`DefenseConfig`], and back.

use toml::{Table, Value};

use super::config::DefenseConfig;
use super::defense::Facts;
use super::facts::{Absent, Parameter, ParameterKind};

/// The most numbers of one list: one for each class.
const MAX_NUMBERS: usize = 65_536;

/// Why parameters are none of a defense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No defense has this name.
    #[error("there is no defense `{name}`; there are: {}", DefenseConfig::NAMES.join(", "))]
    NoDefense {
        /// The name, cut to 80 characters.
        name: String,
    },
    /// The defense has no such parameter.
    #[error("defense `{defense}` has no parameter `{parameter}`; it takes {takes}")]
    Unknown {
        /// The defense.
        defense: &'static str,
        /// The name given, cut to 80 characters.
        parameter: String,
        /// The parameters that there are.
        takes: String,
    },
    /// A parameter that must be given is not.
    #[error("defense `{defense}`: `{parameter}` is missing, expected {expected}")]
    Missing {
        /// The defense.
        defense: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What it takes.
        expected: String,
    },
    /// A value of another type.
    #[error("defense `{defense}`: `{parameter}` is {got}, expected {expected}")]
    Unfit {
        /// The defense.
        defense: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value, cut to 80 characters.
        got: String,
        /// What it takes.
        expected: String,
    },
    /// The defense does not take this table for another reason.
    #[error("defense `{defense}`: {reason}")]
    Refused {
        /// The defense.
        defense: &'static str,
        /// Why.
        reason: String,
    },
}

/// What came, as far as an error shows it.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

impl ParameterKind {
    /// What a value must be, in words.
    fn words(self) -> String {
        match self {
            Self::Whole => "a whole number".to_owned(),
            Self::Number => "a number".to_owned(),
            Self::Truth => "true or false".to_owned(),
            Self::Word(all) => format!("one of {}", all.join(", ")),
            Self::Numbers => format!("a list of at most {MAX_NUMBERS} numbers"),
        }
    }

    fn fits(self, value: &Value) -> bool {
        let number = |value: &Value| matches!(value, Value::Float(_) | Value::Integer(_));
        match (self, value) {
            (Self::Whole, Value::Integer(whole)) => u32::try_from(*whole).is_ok(),
            (Self::Number, value) => number(value),
            (Self::Truth, Value::Boolean(_)) => true,
            (Self::Word(all), Value::String(word)) => all.contains(&word.as_str()),
            (Self::Numbers, Value::Array(list)) => list.len() <= MAX_NUMBERS && list.iter().all(number),
            _ => false,
        }
    }

    /// The value that a text of the command line stands for. A text that is none of this type becomes a string, which
    /// [`DefenseConfig::from_parameters`] then refuses. One number where a list is wanted stands for both ends.
    #[must_use]
    pub fn read(self, text: &str) -> Value {
        let string = || Value::String(text.trim_matches('"').to_owned());
        match self {
            Self::Whole => text.parse().map_or_else(|_| string(), Value::Integer),
            Self::Number => text.parse().map_or_else(|_| string(), Value::Float),
            Self::Truth => text.parse().map_or_else(|_| string(), Value::Boolean),
            Self::Word(_) => string(),
            Self::Numbers => {
                let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
                let mut list: Vec<Value> = inner.split(',').map(|part| Self::Number.read(part.trim())).collect();
                if list.len() == 1 {
                    list.push(list[0].clone());
                }
                Value::Array(list)
            }
        }
    }
}

impl Parameter {
    /// What the command line of `coordinator defend` puts where the parameter is not given, for a model of `classes` classes;
    /// `None` where the defense has a default of its own.
    #[must_use]
    pub fn command_default(&self, classes: usize) -> Option<Value> {
        let number = match self.absent {
            Absent::Optional => return None,
            Absent::Required(number) => number,
            Absent::RequiredPerClass(number) => number * classes as f64,
        };
        Some(match self.kind {
            ParameterKind::Whole => Value::Integer(number as i64),
            ParameterKind::Number | ParameterKind::Truth | ParameterKind::Word(_) | ParameterKind::Numbers => {
                Value::Float(number)
            }
        })
    }

    /// What the parameter takes, and what the command line puts where it is not given.
    #[must_use]
    pub fn help(&self) -> String {
        let takes = match self.kind {
            ParameterKind::Word(all) => format!("{}: {}", all.join(", "), self.takes),
            ParameterKind::Truth => format!("true or false: {}", self.takes),
            ParameterKind::Whole | ParameterKind::Number | ParameterKind::Numbers => self.takes.to_owned(),
        };
        match self.absent {
            Absent::Optional => takes,
            Absent::Required(number) => format!("{takes}; default {number}"),
            Absent::RequiredPerClass(number) => format!("{takes}; default {number} times that"),
        }
    }

    fn expected(&self) -> String {
        format!("{} ({})", self.kind.words(), self.takes)
    }
}

/// A value as an error shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text \"{}\"", cut(text)),
        Value::Array(list) => match list.iter().find(|v| !matches!(v, Value::Float(_) | Value::Integer(_))) {
            Some(bad @ Value::String(_)) => format!("a list with {}", shown(bad)),
            Some(_) => "a list that holds more than numbers".to_owned(),
            None => format!("a list of length {}", list.len()),
        },
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Table(_) => "a table".to_owned(),
        Value::Datetime(_) => "a date".to_owned(),
    }
}

impl Facts {
    /// The facts of the defense of this name.
    ///
    /// # Errors
    /// [`ParameterError::NoDefense`] if there is none, with the names that there are.
    pub fn named(name: &str) -> Result<&'static Self, ParameterError> {
        let found = DefenseConfig::ALL.iter().find(|facts| facts.name == name);
        found.copied().ok_or_else(|| ParameterError::NoDefense { name: cut(name) })
    }
}

impl DefenseConfig {
    /// The parameters that are not at their default, by name.
    #[must_use]
    pub fn parameters(&self) -> Table {
        // Numbers, truth values, words and lists of numbers: nothing that a table does not hold.
        let mut table = Table::try_from(self).unwrap_or_default();
        table.remove("name");
        table
    }

    /// The defense of this name with these parameters. Ranges are not checked here, but by the coordinator that makes the
    /// defense.
    ///
    /// # Errors
    /// [`ParameterError`] naming the defense and the parameter that is unknown, missing, or of another type.
    pub fn from_parameters(name: &str, mut parameters: Table) -> Result<Self, ParameterError> {
        let facts = Facts::named(name)?;
        let defense = facts.name;
        for (name, value) in &parameters {
            let parameter = facts.parameter(name).ok_or_else(|| {
                let (parameter, takes) = (cut(name), facts.parameter_names());
                ParameterError::Unknown { defense, parameter, takes }
            })?;
            if !parameter.kind.fits(value) {
                let (parameter, expected) = (parameter.name, parameter.expected());
                return Err(ParameterError::Unfit { defense, parameter, got: shown(value), expected });
            }
        }
        let required = |parameter: &&Parameter| parameter.absent != Absent::Optional;
        if let Some(parameter) = facts.parameters.iter().filter(required).find(|p| !parameters.contains_key(p.name)) {
            let (parameter, expected) = (parameter.name, parameter.expected());
            return Err(ParameterError::Missing { defense, parameter, expected });
        }
        parameters.insert("name".to_owned(), Value::String(defense.to_owned()));
        // Only what the facts leave out can be refused here.
        parameters.try_into().map_err(|e: toml::de::Error| {
            let reason = e.message().to_owned();
            ParameterError::Refused { defense, reason }
        })
    }
}
