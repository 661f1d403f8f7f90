//! The trace context that parties pass on: the trace of a span, and the span itself as the parent.

use rand::Rng;
use tonic::metadata::MetadataMap;
use vfl_core::hex;

/// The header of W3C Trace Context.
pub(super) const HEADER: &str = "traceparent";
/// The length of a context in a message: the id of the trace (16), the id of the span (8), flags
/// (1).
pub const WIRE_BYTES: usize = 25;
/// The flag of a trace whose spans are recorded.
const SAMPLED: u8 = 1;

/// The id of a trace.
pub(super) type TraceId = [u8; 16];
/// The id of a span within its trace.
pub(super) type SpanId = [u8; 8];

/// The context of a span, for the work below it. Neither id is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) sampled: bool,
}

/// Returns random bytes that are not all zero.
fn id<const N: usize>() -> [u8; N] {
    let mut id = [0; N];
    while id == [0; N] {
        rand::rng().fill_bytes(&mut id);
    }
    id
}

impl Context {
    /// Creates the context of the first span of a trace.
    pub(super) fn root(sampled: bool) -> Self {
        Self { trace: id(), span: id(), sampled }
    }

    /// Returns the context of another span of the same trace.
    pub(super) fn next(self, sampled: bool) -> Self {
        Self { trace: self.trace, span: id(), sampled }
    }

    fn new(trace: TraceId, span: SpanId, flags: u8) -> Option<Self> {
        (trace != [0; 16] && span != [0; 8]).then_some(Self {
            trace,
            span,
            sampled: flags & SAMPLED != 0,
        })
    }

    /// Reads the `traceparent` header of a call. Returns `None` if there is none, or more than one,
    /// or if its version is not 00.
    #[must_use]
    pub fn of(metadata: &MetadataMap) -> Option<Self> {
        let mut headers = metadata.get_all(HEADER).iter();
        match (headers.next(), headers.next()) {
            (Some(header), None) => Self::from_header(header.as_encoded_bytes()),
            _ => None,
        }
    }

    /// Parses `00-TRACE-SPAN-FLAGS`, in lower-case hexadecimal.
    fn from_header(header: &[u8]) -> Option<Self> {
        let mut fields = header.split(|byte| *byte == b'-');
        let mut next = || fields.next();
        let (version, trace, span, flags) = (next()?, next()?, next()?, next()?);
        if next().is_some() || version != b"00" {
            return None;
        }
        let [flags] = from_hex(flags)?;
        Self::new(from_hex(trace)?, from_hex(span)?, flags)
    }

    /// Formats the context as the value of `traceparent`.
    pub(super) fn header(&self) -> String {
        format!("00-{}-{}-{:02x}", hex(self.trace), hex(self.span), self.flags())
    }

    /// Reads the context in a message. `None` if it is empty or malformed.
    #[must_use]
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; WIRE_BYTES] = bytes.try_into().ok()?;
        let (trace, rest) = bytes.split_first_chunk()?;
        let (span, flags) = rest.split_first_chunk()?;
        Self::new(*trace, *span, *flags.first()?)
    }

    /// Encodes the context for a message, [`WIRE_BYTES`] long.
    #[must_use]
    pub fn to_wire(&self) -> Vec<u8> {
        [&self.trace[..], &self.span, &[self.flags()]].concat()
    }

    fn flags(&self) -> u8 {
        if self.sampled { SAMPLED } else { 0 }
    }
}

/// Reads exactly `N` bytes in lower-case hexadecimal.
fn from_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(*pair.first()?)? << 4 | digit(*pair.last()?)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(headers: &[&str]) -> Option<Context> {
        let mut metadata = MetadataMap::new();
        for header in headers {
            metadata.append(HEADER, header.parse().unwrap());
        }
        Context::of(&metadata)
    }

    #[test]
    fn the_header_of_the_specification_is_read_and_written() {
        let context = of(&[GOOD]).unwrap();
        assert!(context.sampled);
        assert_eq!(context.header(), GOOD);
        let not_sampled = GOOD.replace("-01", "-00");
        assert!(!of(&[&not_sampled]).unwrap().sampled);
        // Of the flags only the first is known; others are not passed on.
        assert_eq!(of(&[&GOOD.replace("-01", "-ff")]).unwrap().header(), GOOD);
    }

    #[test]
    fn what_is_malformed_is_as_if_it_were_not_there() {
        let zero_trace = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let zero_span = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        for bad in [
            "",
            "00",
            zero_trace,
            zero_span,
            &GOOD.replace("00-", "01-"),
            &GOOD.replace("00-", "ff-"),
            &GOOD.to_uppercase(),
            &format!("{GOOD}-"),
            &format!("{GOOD}-00"),
            &format!("{GOOD}0"),
            &format!(" {GOOD}"),
            &GOOD.replace('-', "_"),
            &GOOD.replace("b7", "g7"),
            &"0".repeat(10_000),
        ] {
            assert_eq!(of(&[bad]), None, "{bad}");
        }
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[GOOD, GOOD]), None, "which of them?");
        let wire = of(&[GOOD]).unwrap().to_wire();
        for bad in [&[][..], &wire[1..], &[&wire[..], &[0]].concat(), &[0; WIRE_BYTES], &[b'x'; 55]]
        {
            assert_eq!(Context::from_wire(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_hold_all_of_it(sampled: bool) {
            let context = Context::root(sampled);
            prop_assert_eq!(of(&[&context.header()]), Some(context));
            prop_assert_eq!(Context::from_wire(&context.to_wire()), Some(context));
        }

        #[test]
        fn nothing_that_comes_does_harm(header in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Context::from_header(&header);
            if let Some(context) = Context::from_wire(&header) {
                prop_assert_eq!(&context.to_wire()[..24], &header[..24]);
            }
        }
    }
}
