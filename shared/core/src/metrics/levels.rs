//! The share of records whose estimate gives the value of a discrete feature.

use nalgebra::DMatrix;

use super::error::{comparable, finite};
use super::{ConditionalEntropy, Direction, Metric, MetricError, Reconstruction, Unit};

/// Returns, for each feature that takes 2 to `most_values` values over the records, the share of
/// records, in [0, 1], whose estimate is nearest to the true value (the least of equally near ones
/// counts as nearest); `None` for the others. `estimates` and `truth` are d × n.
///
/// For a feature with two values, the estimate with the least expected squared error is the
/// probability of the greater one, scaled to their distance. The nearest value is then the likelier
/// one.
///
/// # Errors
/// [`MetricError`] if the shapes differ, there is no feature or no record, or a value is not
/// finite.
pub fn levels_right(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    most_values: usize,
) -> Result<Vec<Option<f64>>, MetricError> {
    let (d, n) = comparable(estimates, truth)?;
    finite("the estimates", estimates)?;
    finite("the truth", truth)?;
    let of = |feature: usize| {
        let levels = levels(truth.row(feature).iter(), most_values)?;
        let nearest =
            |e: f64| levels.iter().copied().min_by(|a, b| (a - e).abs().total_cmp(&(b - e).abs()));
        let right = (0..n)
            .filter(|&r| nearest(estimates[(feature, r)]) == Some(truth[(feature, r)]))
            .count();
        Some(right as f64 / n as f64)
    };
    Ok((0..d).map(of).collect())
}

/// Returns the different values in increasing order; `None` if there is only one, or more than
/// `most`.
fn levels<'a>(x: impl Iterator<Item = &'a f64>, most: usize) -> Option<Vec<f64>> {
    let mut levels: Vec<f64> = Vec::new();
    for value in x {
        if let Err(place) = levels
            .binary_search_by(|level| level.partial_cmp(value).unwrap_or(std::cmp::Ordering::Equal))
        {
            levels.insert(place, *value);
            if levels.len() > most {
                return None;
            }
        }
    }
    (levels.len() > 1).then_some(levels)
}

/// [`levels_right`] in an audit: the mean over the features that take 2 to
/// [`ConditionalEntropy::MOST_VALUES`] values over the records. Not defined if no feature does.
///
/// No bound is proved for it: which features count depends on the truth.
#[derive(Debug)]
pub struct LevelsRight;

impl Metric for LevelsRight {
    fn name(&self) -> &'static str {
        "levels_right"
    }

    fn title(&self) -> &'static str {
        "levels right"
    }

    fn meaning(&self) -> &'static str {
        "share of records for which the value of a discrete feature (2 to 8 values) is the one nearest to the estimate, mean over these \
         features; the advantage over a control is the difference of both figures"
    }

    fn unit(&self) -> Unit {
        Unit::Share
    }

    fn direction(&self) -> Direction {
        Direction::Higher
    }

    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError> {
        let shares = levels_right(of.estimates, of.truth, ConditionalEntropy::MOST_VALUES)?;
        let shares: Vec<f64> = shares.into_iter().flatten().collect();
        Ok((!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64))
    }

    fn sensitivity(&self, _: &DMatrix<f64>) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_level_counts() {
        let truth = DMatrix::from_row_slice(
            3,
            4,
            &[
                0.0, 0.0, 1.0, 1.0, //
                0.0, 0.5, 1.0, 0.5, //
                0.1, 0.2, 0.3, 0.4,
            ],
        );
        let estimates = DMatrix::from_row_slice(
            3,
            4,
            &[
                0.49, 0.51, 0.9, -3.0, //
                0.24, 0.26, 0.7, 0.74, //
                0.1, 0.2, 0.3, 0.4,
            ],
        );
        let found = levels_right(&estimates, &truth, 3).unwrap();
        assert_eq!(found, [Some(0.5), Some(0.75), None], "the third has four values");
        // Of two equally near levels the lower one.
        let half = DMatrix::from_element(3, 4, 0.5);
        assert_eq!(levels_right(&half, &truth, 3).unwrap()[0], Some(0.5));
        let constant = DMatrix::from_element(1, 3, 0.3);
        assert_eq!(levels_right(&constant, &constant, 8).unwrap(), [None], "nothing to tell");
    }

    /// The mean of a feature with two values, which is the best guess without knowledge, gives the
    /// commoner one.
    #[test]
    fn the_mean_guesses_the_commoner_value() {
        let truth = DMatrix::from_fn(1, 10, |_, j| if j < 7 { 1.0 } else { 0.0 });
        let mean = DMatrix::from_element(1, 10, 0.7);
        assert_eq!(levels_right(&mean, &truth, 8).unwrap(), [Some(0.7)]);
    }

    #[test]
    fn bad_input_is_refused() {
        let truth = DMatrix::from_fn(2, 5, |i, j| ((i + j) % 2) as f64);
        assert!(matches!(
            levels_right(&truth.transpose(), &truth, 8),
            Err(MetricError::Size { .. })
        ));
        let mut spoiled = truth.clone();
        spoiled[(1, 1)] = f64::NAN;
        assert!(matches!(
            levels_right(&spoiled, &truth, 8),
            Err(MetricError::NotFinite { what: "the estimates" })
        ));
        assert!(matches!(
            levels_right(&truth, &spoiled, 8),
            Err(MetricError::NotFinite { what: "the truth" })
        ));
    }
}
