//! The answer to a case.

/// The text of an output file, and the remarks to print beside it.
pub(super) struct Answer {
    pub(super) content: Vec<u8>,
    pub(super) remarks: Vec<String>,
}

impl From<Vec<u8>> for Answer {
    fn from(content: Vec<u8>) -> Self {
        Self { content, remarks: Vec::new() }
    }
}

/// Returns the content as the text of an output file: JSON with a final newline.
pub(super) fn output(content: &impl serde::Serialize) -> Result<Vec<u8>, String> {
    let mut text = serde_json::to_vec(content).map_err(|e| e.to_string())?;
    text.push(b'\n');
    Ok(text)
}
