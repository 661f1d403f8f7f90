//! The program `cloison-reproduce`: figures of the papers on the command line, with models that
//! three parties train and serve over sockets where a figure asks for it.

pub mod cli;
mod sockets;

pub use sockets::train_and_serve;
