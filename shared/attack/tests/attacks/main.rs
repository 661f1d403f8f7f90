//! The attacks against what was not written with them: golden vectors, published weights on public data, theorems.

#![allow(clippy::unwrap_used)]

mod adaptive;
mod agnostic;
mod black_box;
mod chebyshev;
mod curves;
mod fixture;
mod generative;
mod golden;
mod gradient_inversion;
mod informed;
mod knowledge;
mod lattice;
mod lattice_partial;
mod networks;
mod numbers;
mod one_vs_rest;
mod properties;
mod purified;
mod real_data;
mod second_order;
mod shadow_network;
mod simulated;
mod undo;
mod undo_claims;
