// Defined in one.rs, whatever passes it on.
use crate::One;

pub fn three() -> Option<One> {
    None
}
