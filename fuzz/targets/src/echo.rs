//! Errors show no value of the input.

use serde_json::Value;

/// Numbers shorter than this are not looked for: an error counts lines and columns, and names limits.
const SHORTEST: usize = 8;

/// Checks that no number among `values` stands in `message`, unless it stands in a text that is `public`.
///
/// Only what reads as a number with a decimal point and has at least 8 characters is looked for, so that no line number is taken for
/// a feature.
///
/// # Panics
/// If one does.
pub fn shows_no_value<'a>(
    message: &str,
    values: impl IntoIterator<Item = &'a str>,
    public: &[&str],
) {
    for value in values {
        let value = value.trim();
        let looked_for = value.len() >= SHORTEST
            && value.contains('.')
            && value.parse::<f64>().is_ok_and(f64::is_finite);
        if looked_for && message.contains(value) && !public.iter().any(|text| text.contains(value))
        {
            panic!("an error shows a value of the input, {value}: {message}");
        }
    }
}

/// What a JSON text holds, apart: numbers that no error may show, and texts that it may.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    pub(crate) numbers: Vec<String>,
    /// Strings, keys, and the numbers of settings.
    pub(crate) public: Vec<String>,
}

impl Contents {
    pub(crate) fn of(value: &Value) -> Self {
        let mut contents = Self::default();
        contents.collect(value, false);
        contents
    }

    fn collect(&mut self, value: &Value, setting: bool) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) if setting => self.public.push(number.to_string()),
            Value::Number(number) => self.numbers.push(number.to_string()),
            Value::String(text) => self.public.push(text.clone()),
            Value::Array(all) => all.iter().for_each(|value| self.collect(value, setting)),
            Value::Object(all) => {
                for (key, value) in all {
                    self.public.push(key.clone());
                    let setting = setting
                        || matches!(key.as_str(), "settings" | "case" | "classes" | "schema");
                    self.collect(value, setting);
                }
            }
        }
    }

    /// Checks that a refusal shows none of the numbers; `public` beside what the text itself allows.
    pub(crate) fn are_not_in(&self, message: &str, public: &[&str]) {
        let all: Vec<&str> =
            self.public.iter().map(String::as_str).chain(public.iter().copied()).collect();
        shows_no_value(message, self.numbers.iter().map(String::as_str), &all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "shows a value")]
    fn a_value_that_is_shown_is_found() {
        shows_no_value("expected 1, got 0.12345678", ["0.12345678"], &["0.5"]);
    }

    #[test]
    fn what_is_public_may_be_shown() {
        shows_no_value(
            "outside 0 to 0.12345678",
            ["0.12345678", "12345678"],
            &["max = 0.12345678"],
        );
        let contents = Contents::of(
            &serde_json::json!({"w_pas": [[0.12345678]], "settings": {"epsilon": 0.87654321}}),
        );
        assert_eq!(contents.numbers, ["0.12345678"]);
        contents.are_not_in("`epsilon` is 0.87654321", &[]);
    }
}
