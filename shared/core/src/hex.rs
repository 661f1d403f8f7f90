//! Hexadecimal encoding of bytes: hashes, names and secrets.

/// Encodes bytes, as two lower-case digits each.
#[must_use]
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    // Digits come from a table, without formatting each byte: a ledger writes a share with every
    // record.
    let digits = bytes
        .as_ref()
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]]);
    digits.map(char::from).collect()
}

/// Decodes exactly `N` bytes of two digits each, in either case; the inverse of [`hex()`]. `None`
/// for any other text.
#[must_use]
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |d: u8| char::from(d).to_digit(16);
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_round_trip(bytes: [u8; 16]) {
            prop_assert_eq!(unhex(&hex(bytes)), Some(bytes));
            prop_assert_eq!(unhex(&hex(bytes).to_uppercase()), Some(bytes));
        }
    }

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex([0x00, 0x0f, 0xa0, 0xff]), "000fa0ff");
        assert_eq!(hex([]), "");
        assert_eq!(unhex("000fA0ff"), Some([0x00, 0x0f, 0xa0, 0xff]));
        for bad in ["00g0", "000", "000000", "+1+1", "é00"] {
            assert_eq!(unhex::<2>(bad), None, "{bad}");
        }
    }
}
