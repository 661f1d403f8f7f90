pub fn first() {
    println!("{}", crate::by_macro_too::second());
}
