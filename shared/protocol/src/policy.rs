//! Policies on the wire.

use toml::{Table, Value};
use vfl_defense::policy::{NoiseMode, cut};
use vfl_defense::{DefenseConfig, Policy};

use crate::pb::defense::parameter::Value as WireValue;
use crate::pb::defense::{Numbers, Parameter};
use crate::{WireError, pb};

/// The largest number of defenses of one policy.
const MAX_DEFENSES: usize = 8;
/// The largest number of parameters of one defense in a message.
const MAX_PARAMETERS: usize = 16;

fn refused(reason: String) -> WireError {
    WireError::Content { field: "policy", reason }
}

/// Reads the value of a parameter. Numbers must be finite.
fn value(defense: &str, parameter: &Parameter) -> Result<Value, WireError> {
    let fault = |what: String| {
        refused(format!("defense `{}`: `{}` {what}", cut(defense), cut(&parameter.name)))
    };
    let finite = |number: f64| match number.is_finite() {
        true => Ok(Value::Float(number)),
        false => Err(fault(format!("holds {number}, expected finite numbers"))),
    };
    Ok(match &parameter.value {
        None => return Err(fault("has no value".to_owned())),
        Some(WireValue::Number(number)) => finite(*number)?,
        Some(WireValue::Whole(whole)) => Value::Integer(*whole),
        Some(WireValue::Truth(truth)) => Value::Boolean(*truth),
        Some(WireValue::Text(text)) => Value::String(text.clone()),
        Some(WireValue::Numbers(list)) => Value::Array(
            list.values.iter().map(|number| finite(*number)).collect::<Result<_, _>>()?,
        ),
    })
}

impl TryFrom<&pb::Defense> for DefenseConfig {
    type Error = WireError;

    fn try_from(defense: &pb::Defense) -> Result<Self, WireError> {
        let pb::Defense { name, parameters } = defense;
        if name.is_empty() {
            return Err(WireError::Missing { field: "defense" });
        }
        if parameters.len() > MAX_PARAMETERS {
            let (field, unit, got) = ("defense", "parameters", parameters.len());
            return Err(WireError::Size { field, unit, expected: MAX_PARAMETERS, got });
        }
        let mut table = Table::new();
        for parameter in parameters {
            let value = value(name, parameter)?;
            if table.insert(parameter.name.clone(), value).is_some() {
                return Err(refused(format!(
                    "defense `{}`: `{}` is given twice",
                    cut(name),
                    cut(&parameter.name)
                )));
            }
        }
        Self::from_parameters(name, table).map_err(|e| refused(e.to_string()))
    }
}

impl From<&DefenseConfig> for pb::Defense {
    fn from(config: &DefenseConfig) -> Self {
        let wire = |value| match value {
            Value::Float(number) => Some(WireValue::Number(number)),
            Value::Integer(whole) => Some(WireValue::Whole(whole)),
            Value::Boolean(truth) => Some(WireValue::Truth(truth)),
            Value::String(text) => Some(WireValue::Text(text)),
            Value::Array(list) => Some(WireValue::Numbers(Numbers {
                values: list.iter().filter_map(Value::as_float).collect(),
            })),
            // No parameter is a date or a table; the receiver would refuse it by name.
            Value::Datetime(_) | Value::Table(_) => None,
        };
        let parameters = config.parameters().into_iter();
        Self {
            name: config.name().to_owned(),
            parameters: parameters
                .map(|(name, value)| Parameter { name, value: wire(value) })
                .collect(),
        }
    }
}

impl TryFrom<&pb::Policy> for Policy {
    type Error = WireError;

    fn try_from(policy: &pb::Policy) -> Result<Self, WireError> {
        if policy.defenses.len() > MAX_DEFENSES {
            let (unit, got) = ("defenses", policy.defenses.len());
            return Err(WireError::Size { field: "policy", unit, expected: MAX_DEFENSES, got });
        }
        Ok(Self {
            defenses: policy
                .defenses
                .iter()
                .map(DefenseConfig::try_from)
                .collect::<Result<_, _>>()?,
            noise: if policy.fresh_noise { NoiseMode::Fresh } else { NoiseMode::Keyed },
            unbound_shares: policy.unbound_shares,
        })
    }
}

impl From<&Policy> for pb::Policy {
    fn from(policy: &Policy) -> Self {
        Self {
            defenses: policy.defenses.iter().map(pb::Defense::from).collect(),
            fresh_noise: policy.noise == NoiseMode::Fresh,
            unbound_shares: policy.unbound_shares,
        }
    }
}

#[cfg(test)]
mod tests;
