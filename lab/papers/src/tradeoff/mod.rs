//! V figures 9 to 13: the error of the attack on rewritten parameters by their distance from the
//! true ones, g = (1/(k d)) ‖W_n − W_pas‖² (V (33)).
//!
//! The adversary takes W_n for W_pas and has exact scores. `half_star` is the attack throughout:
//! with d < k and A of full rank it equals least squares. Distances are shares of (1/(k d))
//! ‖W_pas‖², the mean square of a weight, since the papers' own values of ε depend on the weights
//! of their models; cases iii and iv have no bound from a share of about 1 on.

mod by_features;
mod checks;
mod curves;
mod experiment;

pub(super) use by_features::run as by_features;
pub(super) use curves::run;
