//! Command-line settings of the form `key=value`.

/// Splits a text into key and value, without blanks around them. The value is everything after the
/// first `=`.
///
/// ```
/// use vfl_server::cli::key_value;
///
/// assert_eq!(key_value("steps = 50"), Ok(("steps", "50")));
/// assert_eq!(key_value("steps"), Err("`steps` is not of the form key=value".to_owned()));
/// ```
///
/// # Errors
/// A message that quotes the beginning of a text without `=`, or without a key before it.
pub fn key_value(text: &str) -> Result<(&str, &str), String> {
    match text.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => Err(format!(
            "`{}` is not of the form key=value",
            text.chars().take(80).collect::<String>()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::key_value;

    #[test]
    fn the_first_equals_sign_separates() {
        assert_eq!(key_value(" a.b=c=d "), Ok(("a.b", "c=d")));
        assert_eq!(key_value("a="), Ok(("a", "")));
        assert!(key_value("=1").is_err() && key_value("").is_err());
        assert!(key_value(&"x".repeat(500)).unwrap_err().len() < 120);
    }
}
