//! All parties in one process over loopback sockets, and certificates for them.

pub mod certs;
pub mod deployment;
