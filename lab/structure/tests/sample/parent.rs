mod child;
mod leaf;

pub use leaf::Leaf;

pub struct Parent;

pub fn parent() {
    child::child();
}
