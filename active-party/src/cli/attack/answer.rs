//! What a case is answered with.

/// The text of an output file, and what is to be said beside it.
pub(super) struct Answer {
    pub(super) content: Vec<u8>,
    pub(super) remarks: Vec<String>,
}

impl From<Vec<u8>> for Answer {
    fn from(content: Vec<u8>) -> Self {
        Self { content, remarks: Vec::new() }
    }
}

/// The text of an output file.
pub(super) fn output(content: &impl serde::Serialize) -> Result<Vec<u8>, String> {
    let mut text = serde_json::to_vec(content).map_err(|e| e.to_string())?;
    text.push(b'\n');
    Ok(text)
}
