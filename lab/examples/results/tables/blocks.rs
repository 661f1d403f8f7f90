//! The blocks between markers in a document.

use std::ops::Range;

use anyhow::{Context, bail};

const BEGIN: &str = "<!-- results: ";
const END: &str = "<!-- /results -->";

/// Returns the names of the blocks of a document, in its order.
///
/// # Errors
/// If a block has no end, or begins within another.
pub(crate) fn names(text: &str) -> anyhow::Result<Vec<String>> {
    Ok(blocks(text)?.into_iter().map(|(name, _)| name).collect())
}

/// Returns the document with `content` in the block `name`.
///
/// # Errors
/// If the document has no such block, or a broken one.
pub(crate) fn replace(text: &str, name: &str, content: &str) -> anyhow::Result<String> {
    let found = blocks(text)?.into_iter().find(|(block, _)| block == name);
    let (_, place) = found.with_context(|| format!("there is no `{BEGIN}{name} -->`"))?;
    let mut new = text.to_owned();
    new.replace_range(place, &format!("\n\n{}\n\n", content.trim()));
    Ok(new)
}

/// Finds every block: its name, and the range of its content.
fn blocks(text: &str) -> anyhow::Result<Vec<(String, Range<usize>)>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some((_, after)) = text.get(at..).and_then(|rest| rest.split_once(BEGIN)) {
        let (name, content) =
            after.split_once(" -->").context("a marker of results is not closed")?;
        let (content, rest) =
            content.split_once(END).with_context(|| format!("the block `{name}` has no end"))?;
        if content.contains(BEGIN) {
            bail!("a block begins before the end of `{name}`");
        }
        let end = text.len() - rest.len() - END.len();
        found.push((name.to_owned(), end - content.len()..end));
        at = end;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a\n<!-- results: x -->\n\nold\n\n<!-- /results -->\nb\n<!-- results: y -->\n<!-- /results -->\n";

    #[test]
    fn a_block_is_replaced_and_nothing_else() {
        assert_eq!(names(TEXT).unwrap(), ["x", "y"]);
        let new = replace(TEXT, "x", "new\n").unwrap();
        assert_eq!(new, TEXT.replace("old", "new"));
        assert_eq!(replace(&new, "x", "new").unwrap(), new);
        assert_eq!(replace(&new, "y", "2").unwrap(), new.replace("y -->\n", "y -->\n\n2\n\n"));
    }

    #[test]
    fn broken_blocks_are_refused() {
        assert!(replace(TEXT, "z", "").is_err());
        assert!(names("<!-- results: x -->").is_err());
        assert!(names("<!-- results: x --> <!-- results: y --> <!-- /results -->").is_err());
    }
}
