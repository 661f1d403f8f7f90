//! Tests of the command `ledger`.

use super::*;

#[test]
fn times_are_utc_and_forgotten_ones_say_so() {
    assert_eq!(when(Some(951_782_400)), "2000-02-29 00:00:00Z");
    assert_eq!(when(None), "forgotten");
}
