//! Text tensors as bytes: each element is its length in 4 bytes, little-endian, then its UTF-8.

use vfl_protocol::Refusal;

/// Splits a tensor into its elements, without a copy.
///
/// # Errors
/// INVALID_ARGUMENT unless there are exactly `count` elements.
pub(super) fn split(mut tensor: &[u8], count: usize) -> Result<Vec<&[u8]>, Refusal> {
    // A wrong count reserves no memory: an element has 4 bytes at least.
    let mut elements = Vec::with_capacity(count.min(tensor.len() / 4));
    while !tensor.is_empty() {
        let found = tensor.split_first_chunk().and_then(|(length, rest)| {
            rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
        });
        let Some((element, rest)) = found else {
            return Err(Refusal::invalid(format!(
                "the tensor `ids` ends in the middle of element {}: each is its length in 4 bytes, little-endian, then the id",
                elements.len()
            )));
        };
        if elements.len() == count {
            return Err(Refusal::invalid(format!(
                "the tensor `ids` has more elements than its shape says, {count}"
            )));
        }
        elements.push(element);
        tensor = rest;
    }
    if elements.len() == count {
        return Ok(elements);
    }
    let message =
        format!("the tensor `ids` has {} elements, its shape says {count}", elements.len());
    Err(Refusal::invalid(message))
}

/// Joins elements to a tensor.
pub(super) fn join<'a>(elements: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    let mut tensor = Vec::new();
    for element in elements {
        tensor.extend_from_slice(&(element.len() as u32).to_le_bytes());
        tensor.extend_from_slice(element.as_bytes());
    }
    tensor
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_form_is_that_of_the_protocol() {
        assert_eq!(join(["ab", ""]), [2, 0, 0, 0, b'a', b'b', 0, 0, 0, 0]);
    }

    #[test]
    fn a_tensor_of_another_size_is_refused() {
        let two = join(["a", "b"]);
        for (bytes, count, says) in [
            (&two[..], 1, "more elements"),
            (&two, 3, "2 elements"),
            (&two[..9], 2, "middle of element 1"),
            (&two[..7], 2, "middle of element 1"),
            (&[255, 255, 255, 255, 0], 1, "middle of element 0"),
            (&[], 1, "0 elements"),
        ] {
            let refusal = split(bytes, count).unwrap_err();
            assert!(refusal.message.contains(says), "{refusal}");
        }
    }

    proptest! {
        #[test]
        fn what_is_put_together_comes_apart(elements in proptest::collection::vec("\\PC{0,9}", 0..9)) {
            let tensor = join(elements.iter().map(String::as_str));
            let parts: Vec<&[u8]> = elements.iter().map(String::as_bytes).collect();
            prop_assert_eq!(split(&tensor, elements.len()).unwrap(), parts);
        }

        #[test]
        fn no_bytes_make_the_reader_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            count in any::<usize>(),
        ) {
            let _ = split(&bytes, count);
        }
    }
}
