//! Checks of J's claims on figures 7, 9 and 10.

use super::super::curve_spec::CurveRun;
use super::super::document::{Check, CheckKind, Document};
use super::super::statistics::{Mean, mean, student_tail};

/// The curves of figure 9, with J's settings.
pub(super) const LAYERS: [&str; 3] = ["one_layer", "two_layers", "three_layers"];

/// The bound for what J calls an error "near 0".
const NEAR_ZERO: f64 = 0.01;

/// The errors of every split: by contender, point and split. Splits have the same order for all
/// contenders, so that two of them can be compared split by split.
pub(super) struct SplitErrors<'a> {
    pub(super) contenders: &'a [CurveRun],
    pub(super) errors: &'a [Vec<Vec<f64>>],
}

impl SplitErrors<'_> {
    fn of(&self, curve: &str) -> Option<&[Vec<f64>]> {
        self.contenders.iter().position(|c| c.curve == curve).map(|at| self.errors[at].as_slice())
    }

    /// Checks at each point that the errors of two curves are related as claimed. `off` gets the
    /// difference a − b over the splits of a point, as a mean with its standard error, and returns
    /// true for a violation.
    pub(super) fn compare(
        &self,
        document: &Document,
        (a, b): (&str, &str),
        claim: String,
        off: impl Fn(Mean) -> bool,
    ) -> Option<Check> {
        let (of_a, of_b) = (self.of(a)?, self.of(b)?);
        let violations: Vec<String> = of_a
            .iter()
            .zip(of_b)
            .enumerate()
            .filter_map(|(i, (a_here, b_here))| {
                let differences: Vec<f64> = a_here.iter().zip(b_here).map(|(a, b)| a - b).collect();
                let difference = mean(differences.iter().copied());
                off(difference).then(|| {
                    let at = |errors: &[f64]| mean(errors.iter().copied()).mean;
                    format!(
                        "d = {}: {a} {:.4}, {b} {:.4}",
                        document.axis.points[i],
                        at(a_here),
                        at(b_here)
                    )
                })
            })
            .collect();
        Some(Check {
            id: format!("{a}_and_{b}"),
            kind: CheckKind::Paper,
            claim,
            holds: violations.is_empty(),
            comparisons: of_a.len() as u64,
            detail: format!("not so at {} of {} points", violations.len(), of_a.len()),
            violations,
        })
    }

    /// Checks that the errors of `more` are above those of `few`: by Student's test at 5 % on the
    /// differences of each split's mean over the points. Splits share records and, where windows
    /// overlap, columns, so that the level is nominal.
    fn rises(&self, document: &Document, (few, more): (&str, &str)) -> Option<Check> {
        let (of_few, of_more) = (self.of(few)?, self.of(more)?);
        let claim = format!(
            "from {few} to {more} the error rises (J section 5.2.2, figure 9; in the mean over the points, by Student's test at 5 % over the splits)"
        );
        let mut check = self.compare(document, (few, more), claim, |fall| fall.mean > 0.0)?;
        let splits = of_few.first()?.len();
        let points = of_few.len() as f64;
        let rise = |split: usize| {
            let of_points = of_few.iter().zip(of_more);
            of_points.map(|(few, more)| more[split] - few[split]).sum::<f64>() / points
        };
        let rise = mean((0..splits).map(rise).collect::<Vec<_>>().into_iter());
        check.holds = significant(rise, splits);
        check.comparisons = 1;
        check.detail = format!(
            "higher by {:.4} ± {:.4} over {splits} splits; lower at {} of {points} points",
            rise.mean,
            rise.standard_error,
            check.violations.len()
        );
        Some(check)
    }

    /// Figure 9: the error rises with the number of layers, and stays below a random guess.
    pub(super) fn by_depth(&self, document: &Document, of: &str) -> Vec<Check> {
        let names = LAYERS.map(|name| format!("{name}{of}"));
        let rises = names
            .windows(2)
            .filter_map(|pair| self.rises(document, (pair[0].as_str(), pair[1].as_str())));
        let below = names.iter().filter_map(|name| {
            let claim = format!(
                "{name}: an error smaller than that of a random guess (J section 5.2.2, figure 9)"
            );
            self.compare(document, (name, "random"), claim, |d| d.mean >= 0.0)
        });
        rises.chain(below).collect()
    }

    /// Figure 10: tanh does as well as sigmoid, and relu somewhat worse, "for most of the
    /// datasets".
    pub(super) fn by_activation(&self, document: &Document, of: &str) -> Vec<Check> {
        let [relu, sigmoid, tanh] = ["relu", "sigmoid", "tanh"].map(|name| format!("{name}{of}"));
        let alike = format!(
            "{tanh} does as sigmoid does (J section 5.2.2, figure 10; two standard errors of the difference allowed)"
        );
        let larger = |other: &str| {
            let claim = format!(
                "{relu} has a larger error than {other} (J section 5.2.2, figure 10; for most data sets)"
            );
            self.compare(document, (&relu, other), claim, |d| d.mean <= 0.0)
        };
        let alike = self
            .compare(document, (&tanh, &sigmoid), alike, |d| d.mean.abs() > 2.0 * d.standard_error);
        [alike, larger(&sigmoid), larger(&tanh)].into_iter().flatten().collect()
    }
}

/// Returns true if a mean over splits is above 0 by Student's test, at a level of 5 %. One split
/// tells no spread and is never significant.
fn significant(difference: Mean, splits: usize) -> bool {
    splits > 1
        && difference.mean > 0.0
        && student_tail(difference.mean / difference.standard_error, splits - 1) < 0.05
}

/// Checks the claims on figure 7.
pub(super) fn seventh(document: &Document, total: usize) -> Vec<Check> {
    let pairs = [
        ("gia", "grn"),
        ("gia_converged", "grn"),
        ("second_order", "grn"),
        ("gia_recipe", "grn_recipe"),
        ("second_order_recipe", "grn_recipe"),
    ];
    let near = pairs.iter().filter_map(|(curve, _)| near_zero(document, curve, total));
    let lower = pairs.iter().filter_map(|(curve, grn)| {
        below(
            document,
            curve,
            grn,
            &format!("{curve}: below the generative regression network (J section 5.2.2)"),
        )
    });
    near.chain(lower).collect()
}

/// Checks that with a tenth of the features (a point is the nearest number of them) the error is
/// near 0.
fn near_zero(document: &Document, name: &str, total: usize) -> Option<Check> {
    let curve = document.curve(name)?;
    let points = &document.axis.points;
    let few: Vec<usize> = (0..points.len()).filter(|&i| 10 * points[i] <= total + 5).collect();
    let violations: Vec<String> = few
        .iter()
        .filter(|&&i| curve.mean[i] > NEAR_ZERO)
        .map(|&i| format!("d = {}: {:.4}", points[i], curve.mean[i]))
        .collect();
    (!few.is_empty()).then(|| Check {
        id: format!("{name}_near_0"),
        kind: CheckKind::Paper,
        claim: format!(
            "{name}: with a tenth of the features passive, the error is near 0 (J section 5.2.2; here: at most {NEAR_ZERO})"
        ),
        holds: violations.is_empty(),
        comparisons: few.len() as u64,
        detail: format!("at most {:.4}", few.iter().map(|&i| curve.mean[i]).fold(0.0, f64::max)),
        violations,
    })
}

/// Checks that one curve lies below another at every point.
pub(super) fn below(document: &Document, low: &str, high: &str, claim: &str) -> Option<Check> {
    let (a, b) = (document.curve(low)?, document.curve(high)?);
    let violations: Vec<String> = (0..a.mean.len())
        .filter(|&i| a.mean[i] >= b.mean[i])
        .map(|i| {
            let (point, symbol) = (document.axis.points[i], &document.axis.symbol);
            format!("{symbol} = {point}: {low} {:.4}, {high} {:.4}", a.mean[i], b.mean[i])
        })
        .collect();
    Some(Check {
        id: format!("{low}_below_{high}"),
        kind: CheckKind::Paper,
        claim: claim.into(),
        holds: violations.is_empty(),
        comparisons: a.mean.len() as u64,
        detail: format!(
            "{low} is not below {high} at {} of {} points",
            violations.len(),
            a.mean.len()
        ),
        violations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four splits: Student's t of 3 degrees of freedom exceeds 2.353 with 5 % (tables).
    #[test]
    fn a_rise_counts_where_chance_does_not_explain_it() {
        let of = |mean, standard_error| Mean { mean, standard_error };
        assert!(!significant(of(0.0235, 0.01), 4));
        assert!(significant(of(0.0236, 0.01), 4));
        assert!(!significant(of(0.0236, 0.01), 3));
        assert!(!significant(of(-0.5, 0.01), 4));
        // Equal differences leave no doubt; one split leaves all of it.
        assert!(significant(of(0.01, 0.0), 4));
        assert!(!significant(of(0.5, 0.0), 1));
    }
}
