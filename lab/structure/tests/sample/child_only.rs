use crate::two::Two;

pub struct Alone;

// A local name hides the item of the same name, and tests do not count.
fn alone(three: Two) -> Two {
    three
}

#[cfg(test)]
mod tests {
    use crate::one::One;
}
