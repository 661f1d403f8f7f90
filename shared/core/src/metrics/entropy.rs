//! The conditional entropy of a discrete feature given its estimate.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use nalgebra::DMatrix;

use super::error::{comparable, finite};
use super::{Direction, Metric, MetricError, Reconstruction, Unit};

/// [`conditional_entropy`] in an audit: the mean of H(X | X̂) over the features that take 2 to
/// [`ConditionalEntropy::MOST_VALUES`] values over the records. Not defined if no feature does.
///
/// No bound is proved for it: which features count depends on the truth.
#[derive(Debug)]
pub struct ConditionalEntropy;

impl ConditionalEntropy {
    /// The number of intervals that estimates are cut into. An audit has 100 records or more, well
    /// above bins · values.
    pub const BINS: NonZeroUsize = NonZeroUsize::new(8).unwrap();
    /// The largest number of values of a feature that counts as discrete.
    pub const MOST_VALUES: usize = 8;
}

impl Metric for ConditionalEntropy {
    fn name(&self) -> &'static str {
        "conditional_entropy"
    }

    fn title(&self) -> &'static str {
        "entropy left (bits)"
    }

    fn meaning(&self) -> &'static str {
        "bits of a discrete feature (2 to 8 values) that its estimate leaves unknown, mean over these features"
    }

    fn unit(&self) -> Unit {
        Unit::Bits
    }

    fn direction(&self) -> Direction {
        Direction::Lower
    }

    fn measure(&self, of: &Reconstruction<'_>) -> Result<Option<f64>, MetricError> {
        let entropies = conditional_entropy(of.estimates, of.truth, Self::BINS, Self::MOST_VALUES)?;
        let left: Vec<f64> = entropies
            .into_iter()
            .flatten()
            .filter(|e| e.values > 1)
            .map(|e| e.given_estimate)
            .collect();
        Ok((!left.is_empty()).then(|| left.iter().sum::<f64>() / left.len() as f64))
    }

    fn sensitivity(&self, _: &DMatrix<f64>) -> Option<f64> {
        None
    }
}

/// Entropies of one discrete feature, in bits, from the frequencies over the records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeatureEntropy {
    /// Number of different values of the feature.
    pub values: usize,
    /// H(X): the entropy of the feature, at most log2 of `values`.
    pub feature: f64,
    /// H(X | X̂): the entropy that the estimate leaves, in [0, `feature`]. At 0 the estimate
    /// determines the feature, whatever its mean squared error.
    pub given_estimate: f64,
}

/// Computes H(X_i) and H(X_i | X̂_i) of every feature i that takes at most `most_values` values
/// over the records; `None` for the others, for which frequencies say nothing. `estimates` and
/// `truth` are d × n.
///
/// R section IX proposes the conditional entropy for cases where the mean squared error fails: it
/// measures whether the estimate *determines* the feature, not whether it is near, so that x̂ = 1 −
/// x, or any other name for the values, counts as perfect. R speaks of finite alphabets and does
/// not say how to treat an estimate that is a real number. Here it is cut into at most `bins`
/// intervals, once of equal width over the feature's own range of estimates and once of equal count
/// (equal estimates stay together), and the lesser entropy counts. The first cut keeps clusters of
/// any size apart; outliers do not spoil the second. A cut only loses information, so each entropy
/// is an upper bound on H(X | X̂), and the lesser is the better one.
///
/// Frequencies of n records understate entropy, by about (bins − 1)(values − 1) / (2 n ln 2) bits
/// if the estimate says nothing: keep bins · values far below n. Features are taken one by one.
/// Bring estimates in an unknown order into the order of the truth first
/// ([`permutation_matched_mse`](super::permutation_matched_mse)).
///
/// # Errors
/// [`MetricError`] if the shapes differ, there is no feature or no record, or a value is not
/// finite.
pub fn conditional_entropy(
    estimates: &DMatrix<f64>,
    truth: &DMatrix<f64>,
    bins: NonZeroUsize,
    most_values: usize,
) -> Result<Vec<Option<FeatureEntropy>>, MetricError> {
    let (d, n) = comparable(estimates, truth)?;
    finite("the estimates", estimates)?;
    finite("the truth", truth)?;
    let bins = bins.get();
    let mut entropies = Vec::with_capacity(d);
    let mut estimate = Vec::with_capacity(n);
    for feature in 0..d {
        let Some((symbols, values)) = alphabet(truth.row(feature).iter(), most_values) else {
            entropies.push(None);
            continue;
        };
        estimate.clear();
        estimate.extend(estimates.row(feature).iter());
        let h = |cut: &[usize]| left_over(&symbols, values, cut);
        let feature = h(&vec![0; n]);
        // An uninformative cut gives H(X) only up to rounding.
        let given_estimate =
            h(&equal_width(&estimate, bins)).min(h(&equal_count(&estimate, bins))).min(feature);
        entropies.push(Some(FeatureEntropy { values, feature, given_estimate }));
    }
    Ok(entropies)
}

/// Numbers the different values in order of appearance; `None` if there are more than `most`.
fn alphabet<'a>(x: impl Iterator<Item = &'a f64>, most: usize) -> Option<(Vec<usize>, usize)> {
    let mut numbers = HashMap::new();
    let mut symbols = Vec::new();
    for value in x {
        let next = numbers.len();
        // −0 and 0 are one value.
        symbols.push(*numbers.entry((value + 0.0).to_bits()).or_insert(next));
        if numbers.len() > most {
            return None;
        }
    }
    Some((symbols, numbers.len()))
}

/// Returns the interval of each estimate when their range is cut into `bins` of the same width.
fn equal_width(estimates: &[f64], bins: usize) -> Vec<usize> {
    let (low, high) = estimates
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &e| (l.min(e), h.max(e)));
    // Halves, so that a range of the greatest numbers does not overflow.
    let width = high / 2.0 - low / 2.0;
    let place = |e: f64| if width > 0.0 { (e / 2.0 - low / 2.0) / width } else { 0.0 };
    // The conversion saturates; the greatest estimate belongs to the last interval.
    estimates.iter().map(|&e| ((place(e) * bins as f64) as usize).min(bins - 1)).collect()
}

/// Returns the interval of each estimate when their order is cut into `bins` of the same count,
/// equal ones together.
fn equal_count(estimates: &[f64], bins: usize) -> Vec<usize> {
    let n = estimates.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_unstable_by(|&a, &b| (estimates[a] + 0.0).total_cmp(&(estimates[b] + 0.0)));
    let mut interval = vec![0; n];
    let mut first = 0;
    for rank in 0..n {
        if estimates[order[rank]] > estimates[order[first]] {
            first = rank;
        }
        interval[order[rank]] = (first as u128 * bins as u128 / n as u128) as usize;
    }
    interval
}

/// Computes H(X | B) = Σ_b P(b) H(X | b) in bits, X one of `values` symbols.
fn left_over(symbols: &[usize], values: usize, intervals: &[usize]) -> f64 {
    // Only intervals that occur are counted, so the number of intervals may be anything.
    let mut numbers = HashMap::new();
    let mut counts: Vec<u32> = Vec::new();
    for (&x, b) in symbols.iter().zip(intervals) {
        let next = numbers.len();
        let row = *numbers.entry(b).or_insert(next);
        if row == next {
            counts.resize((row + 1) * values, 0);
        }
        counts[row * values + x] += 1;
    }
    let mut bits = 0.0;
    for interval in counts.chunks_exact(values) {
        let total: f64 = interval.iter().map(|&c| f64::from(c)).sum();
        bits += interval
            .iter()
            .filter(|&&c| c > 0)
            .map(|&c| f64::from(c) * (total / f64::from(c)).log2())
            .sum::<f64>();
    }
    bits / symbols.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BINS: NonZeroUsize = NonZeroUsize::new(8).unwrap();

    fn of(feature: &[f64], estimate: &[f64], bins: NonZeroUsize) -> FeatureEntropy {
        let row = |v: &[f64]| DMatrix::from_row_slice(1, v.len(), v);
        conditional_entropy(&row(estimate), &row(feature), bins, 16).unwrap()[0].unwrap()
    }

    #[test]
    fn equals_the_closed_forms() {
        let x = [0.0, 0.0, 0.0, 1.0];
        let h = 0.25 * 4f64.log2() + 0.75 * (4f64 / 3.0).log2();
        let close = |got: FeatureEntropy, given: f64| {
            assert_eq!(got.values, 2);
            assert!(
                (got.feature - h).abs() < 1e-15 && (got.given_estimate - given).abs() < 1e-15,
                "{got:?}, {given}"
            );
        };
        close(of(&x, &[0.5; 4], BINS), h);
        // Perfect under another name, and far from the truth.
        close(of(&x, &[9.0, 9.0, 9.0, -9.0], BINS), 0.0);
        // Half of the records: two zeros known, the others a fair coin.
        close(of(&x, &[0.1, 0.1, 0.9, 0.9], BINS), 0.5);
        // One interval tells nothing.
        close(of(&x, &[9.0, 9.0, 9.0, -9.0], NonZeroUsize::MIN), h);
        assert_eq!(
            of(&[0.3; 5], &[0.0, 0.1, 0.2, 0.3, 0.4], BINS),
            FeatureEntropy { values: 1, feature: 0.0, given_estimate: 0.0 }
        );
        assert_eq!(of(&[0.0, -0.0], &[0.0, 1.0], BINS).values, 1);
        let uniform: Vec<f64> = (0..16).map(f64::from).collect();
        assert!((of(&uniform, &uniform, BINS).feature - 4.0).abs() < 1e-14);
        assert!((of(&uniform, &uniform, BINS).given_estimate - 1.0).abs() < 1e-14);
    }

    /// Each of the two cuts is needed, with rounding noise and 1000 records.
    #[test]
    fn a_rare_value_and_an_outlier_hide_nothing() {
        let rare: Vec<f64> = (0..1000).map(|i| f64::from(i % 50 == 0)).collect();
        let noisy: Vec<f64> =
            rare.iter().enumerate().map(|(i, x)| x + 1e-12 * ((i * 37 % 101) as f64)).collect();
        assert_eq!(of(&rare, &noisy, BINS).given_estimate, 0.0);
        let even: Vec<f64> = (0..1000).map(|i| f64::from(i % 2 == 0)).collect();
        let mut outlier = even.clone();
        outlier[3] = 1e9;
        let left = of(&even, &outlier, BINS);
        assert!(left.feature > 0.999 && left.given_estimate < 0.05, "{left:?}");
    }

    #[test]
    fn many_values_are_left_out_and_bad_input_is_refused() {
        let truth = DMatrix::from_fn(2, 5, |i, j| if i == 0 { j as f64 } else { (j % 2) as f64 });
        let found = conditional_entropy(&truth, &truth, BINS, 4).unwrap();
        assert!(found[0].is_none() && found[1].is_some());
        let turned = truth.transpose();
        assert!(matches!(
            conditional_entropy(&turned, &truth, BINS, 4),
            Err(MetricError::Size { .. })
        ));
        let empty = DMatrix::zeros(2, 0);
        assert!(matches!(
            conditional_entropy(&empty, &empty, BINS, 4),
            Err(MetricError::Empty { .. })
        ));
        for bad in [f64::NAN, f64::INFINITY] {
            let mut estimates = truth.clone();
            estimates[(1, 1)] = bad;
            let refused = |what| Err(MetricError::NotFinite { what });
            assert_eq!(conditional_entropy(&estimates, &truth, BINS, 4), refused("the estimates"));
            assert_eq!(conditional_entropy(&truth, &estimates, BINS, 4), refused("the truth"));
        }
        let huge = DMatrix::from_row_slice(1, 3, &[-f64::MAX, 0.0, f64::MAX]);
        let most = NonZeroUsize::new(usize::MAX).unwrap();
        assert_eq!(
            conditional_entropy(&huge, &huge, most, 4).unwrap()[0].unwrap().given_estimate,
            0.0
        );
    }

    proptest! {
        /// Conditioning never adds entropy; renaming the values or moving and stretching the
        /// estimates changes nothing.
        #[test]
        fn names_do_not_matter(n in 1usize..60, seed in proptest::collection::vec(0u32..1000, 120), bins in 1usize..9) {
            let x: Vec<f64> = seed[..n].iter().map(|v| f64::from(v % 3)).collect();
            // Multiples of 1/64, so that moving and doubling them is exact.
            let e: Vec<f64> = seed[60..60 + n].iter().map(|v| f64::from(v % 40) / 64.0).collect();
            let bins = NonZeroUsize::new(bins).unwrap();
            let found = of(&x, &e, bins);
            prop_assert!((0.0..=found.feature).contains(&found.given_estimate));
            prop_assert!(found.feature <= (found.values as f64).log2() + 1e-12);
            let renamed = of(&x.iter().map(|v| 7.0 - 2.0 * v).collect::<Vec<_>>(), &e.iter().map(|v| 2.0 * v + 1.0).collect::<Vec<_>>(), bins);
            prop_assert!((renamed.given_estimate - found.given_estimate).abs() < 1e-12, "{renamed:?} {found:?}");
            prop_assert!((renamed.feature - found.feature).abs() < 1e-12);
            // Equal count alone: any increasing map.
            let cubed: Vec<f64> = e.iter().map(|v| v.powi(3)).collect();
            prop_assert_eq!(equal_count(&e, bins.get()), equal_count(&cubed, bins.get()));
        }
    }
}
