use super::three;

pub struct Two;

fn two(pb: u8) -> u8 {
    three::three();
    pb
}
