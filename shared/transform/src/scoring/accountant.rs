//! The budget of a set of records, in ρ of zero-concentrated differential privacy.
//!
//! A mechanism M is ρ-zCDP (Bun and Steinke 2016) if D_α(M(x) ‖ M(x′)) ≤ α ρ for every α > 1 and
//! all neighbours x, x′. Neighbours are two tables that differ in one record's features, whatever
//! these are, within \[0, 1\]; which records a set holds is no secret. ρ of answers that may depend
//! on earlier ones add up (lemma 2.3 there).
//!
//! Sets are equal or disjoint, so the record that two neighbours differ in belongs to one set and
//! answers about other sets do not depend on it. Each set therefore has a budget of its own, and
//! the budget of a set is that of each of its records.
//!
//! # The promise of a budget
//!
//! Let Y be all answers and X one feature of a record named beforehand, records being independent.
//! The share of the variance of X that any function of Y explains is at most χ²(X; Y), the χ²
//! divergence of the joint from the product distribution (its square root is at least the maximal
//! correlation). That is a mean over x of χ²(P_{Y|x} ‖ P_Y), which by convexity is at most the
//! largest χ²(P_{Y|x} ‖ P_{Y|x′}) = e^{D_2} − 1 ≤ e^{2ρ} − 1. So an estimate of X has a root mean
//! squared error of at least √(2 − e^{2ρ}) standard deviations ([`least_error`]): 0.9 at ρ = ½ ln
//! 1.19 = 0.08698. It holds against an adversary that knows the distribution and all the other
//! records.

/// The most that each record may cost over the life of the state directory, unless the owner renews
/// it. It leaves 0.9 of the standard deviation.
pub const RHO: f64 = 0.0869;

/// The least ρ of one answer. Below it, the noise is so large that the answer says nothing.
pub const LEAST_RHO: f64 = 1e-7;

/// The relative slack for sums of ρ that are exact in decimal and not in binary.
const SLACK: f64 = 1e-9;

/// Returns a lower bound on the root mean squared error of any estimate of a record's feature after
/// answers of `rho` in all, in standard deviations of the feature.
#[must_use]
pub fn least_error(rho: f64) -> f64 {
    (2.0 - (2.0 * rho).exp()).max(0.0).sqrt()
}

/// The error of a request for more than is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetExceeded {
    /// The requested ρ.
    pub asked: f64,
    /// The ρ that is left.
    pub left: f64,
}

/// The budget of a set of records, and the part that is spent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    total: f64,
    spent: f64,
}

impl Budget {
    /// Creates a budget of `total`, of which `spent` is gone.
    #[must_use]
    pub fn new(total: f64, spent: f64) -> Self {
        Self { total, spent }
    }

    /// Returns the whole budget.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.total
    }

    /// Returns the part that is spent.
    #[must_use]
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// Returns the part that is left, at least 0.
    #[must_use]
    pub fn left(&self) -> f64 {
        let left = self.total - self.spent;
        if left > self.total * SLACK { left } else { 0.0 }
    }

    /// Returns the budget after an answer of `rho`, which must be finite and above 0.
    ///
    /// # Errors
    /// [`BudgetExceeded`] if so much is not left.
    pub fn spend(self, rho: f64) -> Result<Self, BudgetExceeded> {
        let left = self.left();
        if !(rho > 0.0 && rho <= left * (1.0 + SLACK)) {
            return Err(BudgetExceeded { asked: rho, left });
        }
        Ok(Self { spent: (self.spent + rho).min(self.total), ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_leaves_nine_tenths_of_the_deviation() {
        assert!(least_error(RHO) >= 0.9 && least_error(RHO) < 0.901, "{}", least_error(RHO));
        assert_eq!(least_error(0.0), 1.0);
        assert_eq!(least_error(10.0), 0.0, "no promise is left");
    }

    #[test]
    fn equal_shares_use_a_budget_up_to_the_last() {
        for shares in [1, 3, 7, 16, 129, 1000] {
            let mut budget = Budget::new(RHO, 0.0);
            for _ in 0..shares {
                budget = budget.spend(RHO / f64::from(shares)).unwrap();
            }
            assert_eq!(budget.left(), 0.0, "{shares}");
            assert!(budget.spend(LEAST_RHO).is_err() && budget.spent() <= RHO);
        }
    }

    proptest! {
        /// For any requests in any order, the sum of the granted ones never passes the total, and a
        /// refusal names the part that is left.
        #[test]
        fn what_was_granted_never_passes_the_total(asked in prop::collection::vec(-0.01..0.05f64, 1..60)) {
            let (mut budget, mut granted) = (Budget::new(RHO, 0.0), 0.0);
            for rho in asked {
                match budget.spend(rho) {
                    Ok(after) => {
                        granted += rho;
                        budget = after;
                    }
                    Err(overspent) => {
                        prop_assert!(rho <= 0.0 || rho > overspent.left);
                        prop_assert_eq!(overspent.left, budget.left());
                    }
                }
                prop_assert!(granted <= RHO * (1.0 + 1e-8) && (budget.spent() - granted).abs() < 1e-8);
            }
        }

        #[test]
        fn nothing_that_is_not_a_number_is_granted(spent in 0.0..RHO) {
            for rho in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0] {
                prop_assert!(Budget::new(RHO, spent).spend(rho).is_err());
            }
        }
    }
}
