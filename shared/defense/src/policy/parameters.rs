//! The parameters of a defense as a table of named, typed values. Policy texts, command lines and
//! messages are all converted to and from [`DefenseConfig`] through it.

use toml::{Table, Value};

use super::config::DefenseConfig;
use super::facts::{DefaultValue, Facts, Parameter, ParameterKind};

/// The largest number of values in one list: one for each class.
const MAX_NUMBERS: usize = 65_536;

/// Errors from reading the parameters of a defense.
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
        /// The name of the defense.
        defense: &'static str,
        /// The name given, cut to 80 characters.
        parameter: String,
        /// The parameters that it takes.
        takes: String,
    },
    /// A required parameter is missing.
    #[error("defense `{defense}`: `{parameter}` is missing, expected {expected}")]
    Missing {
        /// The name of the defense.
        defense: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// The values that it takes.
        expected: String,
    },
    /// A value of another type.
    #[error("defense `{defense}`: `{parameter}` is {got}, expected {expected}")]
    Unfit {
        /// The name of the defense.
        defense: &'static str,
        /// The name of the parameter.
        parameter: &'static str,
        /// The value, cut to 80 characters.
        got: String,
        /// The values that it takes.
        expected: String,
    },
    /// The defense refuses the table for another reason.
    #[error("defense `{defense}`: {reason}")]
    Refused {
        /// The name of the defense.
        defense: &'static str,
        /// The reason for the refusal.
        reason: String,
    },
}

/// Cuts a text to the length that errors show.
pub fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

impl ParameterKind {
    /// Describes the values of this type.
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
            (Self::Numbers, Value::Array(list)) => {
                list.len() <= MAX_NUMBERS && list.iter().all(number)
            }
            _ => false,
        }
    }

    /// Reads a value from a text of the command line. A text that is not of this type becomes a
    /// string, which [`DefenseConfig::from_parameters`] then refuses. A single number in place of a
    /// list stands for both ends.
    #[must_use]
    pub fn read(self, text: &str) -> Value {
        let string = || Value::String(text.trim_matches('"').to_owned());
        match self {
            Self::Whole => text.parse().map_or_else(|_| string(), Value::Integer),
            Self::Number => text.parse().map_or_else(|_| string(), Value::Float),
            Self::Truth => text.parse().map_or_else(|_| string(), Value::Boolean),
            Self::Word(_) => string(),
            Self::Numbers => {
                let inner =
                    text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
                let mut list: Vec<Value> =
                    inner.split(',').map(|part| Self::Number.read(part.trim())).collect();
                if list.len() == 1 {
                    list.push(list[0].clone());
                }
                Value::Array(list)
            }
        }
    }
}

impl Parameter {
    /// Returns the value that the command line of `coordinator defend` uses if the parameter is not
    /// given, for a model of `classes` classes; `None` if the defense has a default of its own.
    #[must_use]
    pub fn command_default(&self, classes: usize) -> Option<Value> {
        let number = match self.absent {
            DefaultValue::Optional => return None,
            DefaultValue::Required(number) => number,
            DefaultValue::RequiredPerClass(number) => number * classes as f64,
        };
        Some(match self.kind {
            ParameterKind::Whole => Value::Integer(number as i64),
            ParameterKind::Number
            | ParameterKind::Truth
            | ParameterKind::Word(_)
            | ParameterKind::Numbers => Value::Float(number),
        })
    }

    /// Describes the values that the parameter takes, and the command line's default.
    #[must_use]
    pub fn help(&self) -> String {
        let takes = match self.kind {
            ParameterKind::Word(all) => format!("{}: {}", all.join(", "), self.takes),
            ParameterKind::Truth => format!("true or false: {}", self.takes),
            ParameterKind::Whole | ParameterKind::Number | ParameterKind::Numbers => {
                self.takes.to_owned()
            }
        };
        match self.absent {
            DefaultValue::Optional => takes,
            DefaultValue::Required(number) => format!("{takes}; default {number}"),
            DefaultValue::RequiredPerClass(number) => {
                format!("{takes}; default {number} times that")
            }
        }
    }

    fn expected(&self) -> String {
        format!("{} ({})", self.kind.words(), self.takes)
    }
}

/// Formats a value for an error.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("the text \"{}\"", cut(text)),
        Value::Array(list) => {
            match list.iter().find(|v| !matches!(v, Value::Float(_) | Value::Integer(_))) {
                Some(bad @ Value::String(_)) => format!("a list with {}", shown(bad)),
                Some(_) => "a list that holds more than numbers".to_owned(),
                None => format!("a list of length {}", list.len()),
            }
        }
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Table(_) => "a table".to_owned(),
        Value::Datetime(_) => "a date".to_owned(),
    }
}

impl Facts {
    /// Returns the facts of the defense of this name.
    ///
    /// # Errors
    /// [`ParameterError::NoDefense`], with the known names, if there is none.
    pub fn named(name: &str) -> Result<&'static Self, ParameterError> {
        let found = DefenseConfig::ALL.iter().find(|facts| facts.name == name);
        found.copied().ok_or_else(|| ParameterError::NoDefense { name: cut(name) })
    }
}

impl DefenseConfig {
    /// Returns the parameters that are not at their default, by name.
    #[must_use]
    pub fn parameters(&self) -> Table {
        // A table can hold all of them: numbers, truth values, words and lists of numbers.
        let mut table = Table::try_from(self).unwrap_or_default();
        table.remove("name");
        table
    }

    /// Creates the defense of this name with these parameters. Ranges are not checked here, but by
    /// the coordinator when it makes the defense.
    ///
    /// # Errors
    /// [`ParameterError`] names the defense and the parameter that is unknown, missing, or of
    /// another type.
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
                return Err(ParameterError::Unfit {
                    defense,
                    parameter,
                    got: shown(value),
                    expected,
                });
            }
        }
        let required = |parameter: &&Parameter| parameter.absent != DefaultValue::Optional;
        if let Some(parameter) =
            facts.parameters.iter().filter(required).find(|p| !parameters.contains_key(p.name))
        {
            let (parameter, expected) = (parameter.name, parameter.expected());
            return Err(ParameterError::Missing { defense, parameter, expected });
        }
        parameters.insert("name".to_owned(), Value::String(defense.to_owned()));
        // Only errors that the facts do not cover can occur here.
        parameters.try_into().map_err(|e: toml::de::Error| {
            let reason = e.message().to_owned();
            ParameterError::Refused { defense, reason }
        })
    }
}
