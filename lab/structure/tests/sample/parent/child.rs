use super::{Leaf, Parent};

pub fn child() -> (Parent, Leaf) {
    (Parent, Leaf)
}
