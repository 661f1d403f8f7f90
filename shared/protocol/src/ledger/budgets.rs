//! The budgets of one active party. An honest service stays within the defaults; a careless or
//! hostile one does not get past them.

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The budgets of one active party; `None` is unlimited, which a config says as `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budgets {
    /// Most distinct records, ever. A request that would pass it is refused as a whole and costs
    /// nothing. It bounds the ledger's size too, at some 200 bytes for each record, model and
    /// policy: unknown ids cost a record.
    #[serde(deserialize_with = "limit")]
    pub records: Option<u64>,
    /// Most queries of one record that are granted, across models and policies. The rows beyond it
    /// are refused.
    #[serde(deserialize_with = "limit")]
    pub queries_per_record: Option<u64>,
    /// Most models under which one record is answered: distinct parameters of the passive parties,
    /// not versions. Rows under a further one are refused unless the operator has approved it.
    #[serde(deserialize_with = "limit")]
    pub models_per_record: Option<u64>,
    /// Most bits that may be told of one record, over all models and policies
    /// ([`leakage`](vfl_defense::Policy::leakage)), above 0. Rows of an answer that would
    /// tell more are refused. Repeating an answer under the same passive parameters and the same
    /// policy tells nothing new.
    #[serde(deserialize_with = "bits")]
    pub bits_per_record: Option<f64>,
    /// Most rows in a minute, and at once. A request that comes too early is refused as a whole and
    /// costs nothing.
    #[serde(deserialize_with = "limit")]
    pub rows_per_minute: Option<u64>,
}

impl Budgets {
    /// No limit at all: for measurements.
    pub const UNLIMITED: Self = Self {
        records: None,
        queries_per_record: None,
        models_per_record: None,
        bits_per_record: None,
        rows_per_minute: None,
    };
}

impl Default for Budgets {
    /// Returns the defaults. A million records: with two models of each, the ledger stays below
    /// half a gigabyte. Ten queries of a record: a bound share and keyed noise answer them alike,
    /// so more than a few are a defect or an attack. Two models: the one in service and its
    /// successor. Bits are not limited: the default policy has no finite bound. 600 000 rows a
    /// minute: a nightly run of as many goes through at once, a longer one at 10 000 rows a second.
    fn default() -> Self {
        Self {
            records: Some(1_000_000),
            queries_per_record: Some(10),
            models_per_record: Some(2),
            bits_per_record: None,
            rows_per_minute: Some(600_000),
        }
    }
}

/// Reads a whole number, or `"unlimited"`. Ledgers keep the budgets in JSON, where unlimited is
/// null.
fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct Limit;

    impl Visitor<'_> for Limit {
        type Value = Option<u64>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a whole number from 0, or \"unlimited\"")
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            Ok(Some(value))
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            u64::try_from(value)
                .map(Some)
                .map_err(|_| E::invalid_value(serde::de::Unexpected::Signed(value), &self))
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
            match value {
                "unlimited" => Ok(None),
                _ => Err(E::invalid_value(serde::de::Unexpected::Str(value), &self)),
            }
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }

    deserializer.deserialize_any(Limit)
}

/// Reads a finite number above 0, or `"unlimited"`.
fn bits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Bits {
        Number(f64),
        Word(String),
        Unlimited(()),
    }
    match Bits::deserialize(deserializer) {
        Ok(Bits::Number(bits)) if bits > 0.0 && bits.is_finite() => Ok(Some(bits)),
        Ok(Bits::Unlimited(())) => Ok(None),
        Ok(Bits::Word(word)) if word == "unlimited" => Ok(None),
        _ => Err(D::Error::custom("expected a finite number above 0, or \"unlimited\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlimited_is_said_in_so_many_words() {
        let read = |text: &str| toml::from_str::<Budgets>(text);
        assert_eq!(read("").unwrap(), Budgets::default());
        let some = read("records = \"unlimited\"\nqueries_per_record = 400").unwrap();
        assert_eq!(
            some,
            Budgets { records: None, queries_per_record: Some(400), ..Budgets::default() }
        );
        for bad in
            ["records = -1", "records = \"none\"", "records = 1.5", "records = true", "record = 1"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        for (text, bits) in [("6", Some(6.0)), ("2.5", Some(2.5)), ("\"unlimited\"", None)] {
            assert_eq!(read(&format!("bits_per_record = {text}")).unwrap().bits_per_record, bits);
        }
        for bad in ["0", "-1.0", "nan", "inf", "\"none\"", "true", "[]"] {
            let error = read(&format!("bits_per_record = {bad}")).unwrap_err().to_string();
            assert!(
                error.contains("bits_per_record") && error.contains("above 0"),
                "{bad}: {error}"
            );
        }
        let some = Budgets { bits_per_record: Some(0.1 + 0.2), ..Budgets::default() };
        for budgets in [Budgets::default(), Budgets::UNLIMITED, some] {
            let text = serde_json::to_string(&budgets).unwrap();
            assert_eq!(serde_json::from_str::<Budgets>(&text).unwrap(), budgets, "{text}");
        }
    }
}
