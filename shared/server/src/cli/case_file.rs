//! Case files: the JSON input of offline commands, and their output. Errors name the file and never
//! a value of it.

use std::io::Write;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use vfl_core::json::json_error;
use vfl_state::files::write_atomic;

use super::CliError;

/// The schema version of all case files.
const SCHEMA: u64 = 1;

/// Reads the text of a case file.
///
/// # Errors
/// [`CliError::Input`] naming the file.
pub fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path)
        .map_err(|e| CliError::Input(format!("cannot read the case file {}: {e}", path.display())))
}

/// Returns the error of an invalid case file, with its name.
#[must_use]
pub fn refused(path: &Path, reason: &str) -> CliError {
    CliError::Input(format!("case file {}: {reason}", path.display()))
}

/// Parses the text of a case file of one kind. Schema and kind are checked first, so that a file of
/// another kind is not rejected for its fields.
///
/// # Errors
/// A message that says what is wrong with the text and quotes no value of it.
pub fn parse<T: DeserializeOwned>(text: &str, kind: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: u64,
        kind: String,
    }
    let head: Head = serde_json::from_str(text).map_err(|e| json_error(&e))?;
    if head.schema != SCHEMA || head.kind != kind {
        let found: String = head.kind.chars().take(80).collect();
        return Err(format!(
            "expected schema {SCHEMA} and kind {kind:?}, got {} and {found:?}",
            head.schema
        ));
    }
    serde_json::from_str(text).map_err(|e| json_error(&e))
}

/// Writes to a file, or to standard output for `-`.
///
/// # Errors
/// [`CliError::Failed`] naming the file.
pub fn write(out: &Path, content: &[u8]) -> Result<(), CliError> {
    if out.as_os_str() == "-" {
        return std::io::stdout().write_all(content).map_err(CliError::failed);
    }
    write_atomic(out, content, true)
        .map_err(|e| CliError::Failed(format!("cannot write {}: {e}", out.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Case {
        schema: u32,
        kind: String,
        x_pas: Vec<f64>,
    }

    #[test]
    fn kind_and_schema_come_before_the_fields() {
        let error = |text: &str| parse::<Case>(text, "assess").unwrap_err();
        assert!(
            parse::<Case>("{\"schema\": 1, \"kind\": \"assess\", \"x_pas\": [0.5]}", "assess")
                .is_ok()
        );
        let other = error("{\"schema\": 1, \"kind\": \"attack\", \"w_act\": []}");
        assert_eq!(other, "expected schema 1 and kind \"assess\", got 1 and \"attack\"");
        assert!(error("{\"schema\": 2, \"kind\": \"assess\"}").contains("got 2"));
        assert!(
            error("{\"schema\": 1, \"kind\": \"assess\", \"y\": 1}").contains("unknown field `y`")
        );
        let value = error("{\"schema\": 1, \"kind\": \"assess\", \"x_pas\": \"s3cret\"}");
        assert!(!value.contains("s3cret"), "{value}");
    }
}
