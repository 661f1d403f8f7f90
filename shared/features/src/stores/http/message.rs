//! The messages of `BatchFetchFeature`, the feature service of SecretFlow-Serving, in the JSON form
//! of protocol buffers (`secretflow_serving/spis/batch_feature_service.proto`,
//! `protos/feature.proto`, `spis/error_code.proto`).

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use vfl_core::data::Cell;

/// A request for features of records.
#[derive(Debug, Serialize)]
pub(super) struct FetchRequest<'a> {
    pub(super) header: Header<'a>,
    pub(super) model_service_id: &'a str,
    pub(super) party_id: &'a str,
    pub(super) feature_fields: &'a [Field],
    pub(super) param: Param<'a>,
}

#[derive(Debug, Serialize)]
pub(super) struct Header<'a> {
    pub(super) data: &'a BTreeMap<String, String>,
}

/// The records of a request.
#[derive(Debug, Serialize)]
pub(super) struct Param<'a> {
    /// The query of each record: here its id.
    pub(super) query_datas: Vec<&'a str>,
    /// The context of all queries.
    pub(super) query_context: &'a str,
}

/// A requested feature.
#[derive(Debug, Serialize)]
pub(super) struct Field {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
}

/// The `FieldType` of numbers and of text.
pub(super) const DOUBLE: &str = "FIELD_DOUBLE";
pub(super) const STRING: &str = "FIELD_STRING";

/// The values of `ErrorCode`.
pub(super) mod code {
    pub(crate) const OK: i32 = 0;
    pub(crate) const DEADLINE_EXCEEDED: i32 = 4;
    pub(crate) const NOT_FOUND: i32 = 5;
    pub(crate) const INTERNAL_ERROR: i32 = 13;
    pub(crate) const UNAUTHENTICATED: i32 = 16;
}

/// The answer. In the JSON of protocol buffers, missing fields are zero or empty.
#[derive(Deserialize)]
pub(super) struct FetchResponse {
    #[serde(default)]
    pub(super) status: Status,
    #[serde(default)]
    pub(super) features: Vec<Feature>,
}

#[derive(Default, Deserialize)]
pub(super) struct Status {
    #[serde(default)]
    pub(super) code: i32,
}

/// A column of the answer.
#[derive(Deserialize)]
pub(super) struct Feature {
    pub(super) field: FieldName,
    #[serde(default)]
    pub(super) value: Values,
}

#[derive(Deserialize)]
pub(super) struct FieldName {
    #[serde(default)]
    pub(super) name: String,
}

/// The value of each record, in one of the lists.
#[derive(Default, Deserialize)]
pub(super) struct Values {
    #[serde(default)]
    i32s: Vec<Number>,
    #[serde(default)]
    i64s: Vec<Number>,
    #[serde(default)]
    fs: Vec<Number>,
    #[serde(default)]
    ds: Vec<Number>,
    #[serde(default)]
    ss: Vec<Option<String>>,
    #[serde(default)]
    bs: Vec<Option<bool>>,
}

impl Values {
    /// Returns the values, if there are `n` of them and all in one list.
    pub(super) fn cells(&self, n: usize) -> Option<Vec<Cell<'_>>> {
        let lists = [&self.i32s, &self.i64s, &self.fs, &self.ds];
        let all =
            lists.iter().map(|list| list.len()).sum::<usize>() + self.ss.len() + self.bs.len();
        if all != n {
            return None;
        }
        if let Some(numbers) = lists.iter().find(|list| list.len() == n) {
            return Some(numbers.iter().map(|number| number.cell()).collect());
        }
        if self.ss.len() == n {
            return Some(
                self.ss
                    .iter()
                    .map(|text| text.as_deref().map_or(Cell::Missing, Cell::Text))
                    .collect(),
            );
        }
        let truth = |value: &Option<bool>| value.map_or(Cell::Missing, Cell::Bool);
        (self.bs.len() == n).then(|| self.bs.iter().map(truth).collect())
    }
}

/// A number in JSON: a number, or text for 64-bit integers and for values that are not finite.
enum Number {
    Real(f64),
    Integer(i64),
    Missing,
}

impl Number {
    fn cell(&self) -> Cell<'static> {
        match *self {
            Self::Real(value) => Cell::Real(value),
            Self::Integer(value) => Cell::Integer(value),
            Self::Missing => Cell::Missing,
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
                Ok(Number::Real(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                Ok(Number::Integer(value))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
                Ok(i64::try_from(value).map_or(Number::Real(value as f64), Number::Integer))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                if let Ok(whole) = text.parse() {
                    return Ok(Number::Integer(whole));
                }
                text.parse().map(Number::Real).map_err(|_| E::custom("text that is no number"))
            }

            fn visit_unit<E: Error>(self) -> Result<Number, E> {
                Ok(Number::Missing)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// The request as `MessageToJsonString` with `preserve_proto_field_names` writes it; an answer
    /// as it may be written.
    #[test]
    fn messages_are_those_of_the_service() {
        let data = BTreeMap::from([("trace".to_owned(), "7".to_owned())]);
        let fields = [Field { name: "age".into(), kind: DOUBLE }];
        let request = FetchRequest {
            header: Header { data: &data },
            model_service_id: "m",
            party_id: "bank",
            feature_fields: &fields,
            param: Param { query_datas: vec!["r1"], query_context: "c" },
        };
        let text = r#"{"header":{"data":{"trace":"7"}},"model_service_id":"m","party_id":"bank","feature_fields":[{"name":"age","type":"FIELD_DOUBLE"}],"param":{"query_datas":["r1"],"query_context":"c"}}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let read = |value: &str| {
            let text = format!(
                r#"{{"features":[{{"field":{{"name":"f","type":"FIELD_INT64"}},"value":{value}}}]}}"#
            );
            let answer: FetchResponse = serde_json::from_str(&text).unwrap();
            assert_eq!(answer.status.code, code::OK);
            let cells = answer.features[0].value.cells(2)?;
            Some(
                cells
                    .into_iter()
                    .map(|cell| cell.text().map(std::borrow::Cow::into_owned).ok())
                    .collect::<Vec<_>>(),
            )
        };
        let some = |a: &str, b: &str| Some(vec![Some(a.to_owned()), Some(b.to_owned())]);
        assert_eq!(read(r#"{"i64s":["9007199254740993","2"]}"#), some("9007199254740993", "2"));
        assert_eq!(read(r#"{"i32s":[1,-2],"ds":[]}"#), some("1", "-2"));
        // A number, and no text: an id or a category is none.
        assert_eq!(read(r#"{"ds":[0.5,"NaN"]}"#), Some(vec![Some("0.5".into()), None]));
        assert_eq!(read(r#"{"fs":[0.1,null]}"#), Some(vec![Some("0.1".into()), None]));
        assert_eq!(read(r#"{"ss":["a","b"]}"#), some("a", "b"));
        assert_eq!(read(r#"{"bs":[true,false]}"#), some("true", "false"));
        for bad in
            ["{}", r#"{"ds":[1.0]}"#, r#"{"ds":[1.0],"ss":["a"]}"#, r#"{"ds":[1.0,2.0,3.0]}"#]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
