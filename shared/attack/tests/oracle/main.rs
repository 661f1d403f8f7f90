//! The points of the box that the attacks take, against a second solver (Clarabel) and against the conditions that
//! characterise them (Karush-Kuhn-Tucker), on random systems with every degeneracy we know of.
//!
//! The semidefinite program needs the feature `sdp-oracle`, and a BLAS: see `Cargo.toml`.

#![allow(clippy::unwrap_used)]

mod cases;
#[path = "../attacks/fixture.rs"]
#[allow(dead_code, reason = "only the golden vectors are read here")]
mod fixture;
mod golden;
mod optimality;
mod polytope;
mod quadratic;
mod second_solver;
#[cfg(feature = "sdp-oracle")]
mod semidefinite;
mod subspace;
