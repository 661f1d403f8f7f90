//! The family of a regression's labels: the mean that follows from the linear predictor by the
//! canonical link, of a generalised linear model (McCullagh and Nelder, 2.2.4), and its loss.
//!
//! With a canonical link the gradient of a record's loss in its predictor is mean − label whatever
//! the family is. Means follow the predictors instead of being computed anew: along a change Δη,
//! those of a number move by Δη, and those of a count solve dμ = μ dη, of which a step takes the
//! midpoint rule. Its error is of third order in Δη, and a count's mean stays above 0: it is
//! multiplied by 1 + Δη + Δη²/2.

use crate::arithmetic::product_parts;
use crate::error::MpcError;
use crate::session::Session;
use crate::shares::Shares;

/// The family of a regression's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Family {
    /// Classes: softmax, cross-entropy, one predictor a class.
    #[default]
    Multinomial,
    /// A number, the predictor itself, with half its squared error. Labels should have a mean of
    /// about 0 and a mean square of at most 1.
    Gaussian,
    /// A count of at least 0, e^η, with half its deviance, μ − t η. Labels should have a mean of
    /// about 1.
    Poisson,
}

impl Family {
    /// Returns the bound of the loss's curvature in one record's predictor. Böhning (1992) for
    /// classes. A count's is its mean, which has no bound: 4 times the mean label is taken.
    pub(crate) fn curvature(self) -> f64 {
        match self {
            Self::Multinomial => 0.5,
            Self::Gaussian => 1.0,
            Self::Poisson => 4.0,
        }
    }

    /// Returns the mean at the predictor 0.
    pub(crate) fn start(self, classes: usize) -> f64 {
        match self {
            Self::Multinomial => 1.0 / classes.max(1) as f64,
            Self::Gaussian => 0.0,
            Self::Poisson => 1.0,
        }
    }

    /// Returns the bits by which a record's part of the validation score may exceed that of
    /// classes, which the representation leaves free.
    #[must_use]
    pub fn score_bits(self) -> u32 {
        match self {
            Self::Multinomial => 0,
            Self::Gaussian => 6,
            Self::Poisson => 4,
        }
    }

    /// Returns true if a regression has one predictor and not one a class.
    #[must_use]
    pub fn is_number(self) -> bool {
        self != Self::Multinomial
    }
}

/// The means of all records, class after class, as they follow their predictors.
pub(crate) struct Means {
    family: Family,
    pub(crate) values: Shares,
    /// The predictors, which the score of counts takes.
    predictors: Option<Shares>,
}

impl Means {
    /// Returns the means at the predictor 0.
    pub(crate) fn start(session: &Session, of: (Family, u64), (n, k): (usize, usize)) -> Self {
        let (family, start) = of;
        let predictors = (family == Family::Poisson).then(|| session.public(&vec![0; n * k]));
        Self { family, values: session.public(&vec![start; n * k]), predictors }
    }

    /// Follows a change of the predictors, in so many parts. Four rounds a part and half of it for
    /// classes, two for counts, none for numbers.
    ///
    /// # Errors
    /// Those of links.
    pub(crate) fn follow(
        &mut self,
        session: &mut Session,
        moved: &Shares,
        (records, bits, parts): (usize, u32, usize),
    ) -> Result<(), MpcError> {
        if let Some(predictors) = &mut self.predictors {
            *predictors = predictors.plus(moved)?;
        }
        if self.family == Family::Gaussian {
            self.values = self.values.plus(moved)?;
            return Ok(());
        }
        // A part is a fraction of the change: a power of two that products are cut by.
        let cut = bits + parts.trailing_zeros();
        for _ in 0..parts {
            let half = self.slope(session, &self.values, moved, (records, bits, cut + 1))?;
            let half = self.values.plus(&half)?;
            let whole = self.slope(session, &half, moved, (records, bits, cut))?;
            self.values = self.values.plus(&whole)?;
        }
        Ok(())
    }

    /// Returns the change of the means at a point, along a change of the predictors that is cut by
    /// a power of two.
    fn slope(
        &self,
        session: &mut Session,
        at: &Shares,
        moved: &Shares,
        (records, bits, cut): (usize, u32, u32),
    ) -> Result<Shares, MpcError> {
        match self.family {
            Family::Poisson => session.multiply_truncated(at, moved, cut),
            _ => session.softmax_step(at, moved, records, bits, cut),
        }
    }

    /// Computes this party's part of the validation score, of all records but the first `trained`,
    /// with 2 `bits` fraction bits: the sum of squared residuals, or of counts that of μ − t η.
    ///
    /// # Errors
    /// [`MpcError::Shape`] for labels of other records.
    pub(crate) fn score_part(
        &self,
        labels: &Shares,
        (records, trained): (usize, usize),
        bits: u32,
    ) -> Result<u64, MpcError> {
        let residuals = self.values.minus(labels)?;
        let Some(predictors) = &self.predictors else {
            return Ok(sum_of_squares_part(&residuals, records, trained));
        };
        let fits = product_parts(labels, predictors)?;
        let parts = self.values.own.iter().zip(fits).skip(trained);
        Ok(parts
            .fold(0, |sum: u64, (mean, fit)| sum.wrapping_add((mean << bits).wrapping_sub(fit))))
    }
}

/// Computes this party's part of the sum of squares of all residuals but those of the first
/// `trained` of n records; `residuals` holds class after class.
pub(crate) fn sum_of_squares_part(residuals: &Shares, records: usize, trained: usize) -> u64 {
    let classes = residuals.own.chunks_exact(records).zip(residuals.next.chunks_exact(records));
    let pairs = classes.flat_map(|(own, next)| own[trained..].iter().zip(&next[trained..]));
    pairs.fold(0, |sum, (own, next)| {
        sum.wrapping_add(own.wrapping_mul(own.wrapping_add(next.wrapping_mul(2))))
    })
}
