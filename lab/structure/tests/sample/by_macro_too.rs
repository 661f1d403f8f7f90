use crate::by_macro::first;

pub fn second() {
    first();
}
