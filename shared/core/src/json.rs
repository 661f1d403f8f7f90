//! Errors of JSON texts, without the values in them.

/// Describes the error in a JSON text without quoting its value: case files hold features and
/// scores, files of state parameters.
#[must_use]
pub fn json_error(error: &serde_json::Error) -> String {
    let words = error.to_string();
    // "invalid type: VALUE, expected KIND at line L column C"; the other messages name keys and
    // places only.
    match (words.find(':'), words.rfind(", expected ")) {
        (Some(kind), Some(expected)) if words.starts_with("invalid ") && kind < expected => {
            format!("{}{}", &words[..kind], &words[expected..])
        }
        _ => words,
    }
}

#[cfg(test)]
mod tests {
    use super::json_error;

    #[test]
    fn the_value_is_left_out_and_the_place_is_not() {
        let error =
            serde_json::from_str::<Vec<u8>>("[1, \"secret, expected nothing: 7\"]").unwrap_err();
        let words = json_error(&error);
        assert!(!words.contains("secret") && !words.contains('7'), "{words}");
        assert!(words.contains("expected u8 at line 1 column"), "{words}");
    }
}
