//! Describes the figures of one audit in words. A verdict covers the attacks that ran and nothing
//! else.

use vfl_present::number::percent_below;
use vfl_present::significant;

use super::added_risk;
use super::attack_result::Outcome;
use super::document::Audit;
use super::errors::Errors;
use super::level::{EXACT_MSE, Level, Verdict};
use super::noisy_verdict::noised;

/// Compares the attacks of one audit with the two guesses.
#[must_use]
pub fn verdict(audit: &Audit) -> Verdict {
    if let Some(verdict) = added_risk::verdict(audit) {
        return verdict;
    }
    let not_run =
        audit.attacks.iter().filter(|a| matches!(a.outcome, Outcome::NotRun { .. })).count();
    let Some((name, errors)) = audit.strongest() else {
        let text = if not_run > 0 {
            "no attack could run against this release, so nothing is known about it"
        } else {
            "no attack was run against this release, so nothing is known about it"
        };
        return Verdict { level: Level::Unmeasured, text: text.into() };
    };

    if errors.sigma.is_some() {
        return noised(audit, name, errors, not_run);
    }
    let (mse, half, mean) = (errors.mse, audit.baselines.half.mse, audit.baselines.column_mean.mse);
    let [e, h, c] = [mse, half, mean].map(significant);
    let by_feature = ByFeature::of(audit);
    let (mut level, mut text) = if mean <= EXACT_MSE {
        (
            Level::ColumnMean,
            format!("the features do not vary: guessing the column mean has error {c} already"),
        )
    } else if mse <= EXACT_MSE {
        let what = match audit.features() {
            Some(1) => "the feature".into(),
            Some(d) => format!("the {d} features"),
            None => "the features".into(),
        };
        let others = match audit.scored().filter(|(_, errors)| errors.mse <= EXACT_MSE).count() {
            0 | 1 => String::new(),
            2 => "; so does 1 more attack".into(),
            n => format!("; so do {} more attacks", n - 1),
        };
        (
            Level::Exact,
            format!("{name} rebuilds {what} exactly: error {e} against {h} of guessing ½{others}"),
        )
    } else if mse < mean.min(half) {
        let cut = percent_below(mse, mean.min(half));
        let (guess, this, other) = if mean <= half {
            ("the column mean", &c, format!("guessing ½: {h}"))
        } else {
            ("½", &h, format!("column mean: {c}"))
        };
        (
            Level::Partial,
            format!(
                "{name} cuts the error of guessing {guess} by {cut}: {e} against {this} ({other})"
            ),
        )
    } else if mse < half {
        let text = format!(
            "no better than guessing the column mean: the smallest error, of {name}, is {e} against {c} (guessing ½: {h})"
        );
        (Level::ColumnMean, text)
    } else {
        let text = format!(
            "no better than guessing ½: the smallest error, of {name}, is {e} against {h} (column mean: {c})"
        );
        (Level::Half, text)
    };

    if level != Level::Exact && by_feature.exact > 0 {
        level = level.min(Level::SomeExact);
        let comes = if by_feature.exact == 1 { "comes" } else { "come" };
        text.push_str(&format!(
            "; yet {} of the {} features {comes} back exactly",
            by_feature.exact, by_feature.of
        ));
    } else if level > Level::Partial && by_feature.better > 0 {
        text.push_str(&format!(
            "; yet for {} of the {} features some attack does better than either guess",
            by_feature.better, by_feature.of
        ));
    }
    if not_run > 0 {
        text.push_str(&format!(
            "; {not_run} attack{} could not run",
            if not_run == 1 { "" } else { "s" }
        ));
    }
    Verdict { level, text }
}

/// The number of features that some attack rebuilds or at least improves on: an overall error hides
/// single features.
struct ByFeature {
    exact: usize,
    better: usize,
    of: usize,
}

impl ByFeature {
    fn of(audit: &Audit) -> Self {
        let attacks: Vec<&Errors> = audit.scored().map(|(_, errors)| errors).collect();
        let guesses =
            audit.baselines.half.per_feature.iter().zip(&audit.baselines.column_mean.per_feature);
        let (mut exact, mut better, mut of) = (0, 0, 0);
        for (feature, (half, mean)) in guesses.enumerate() {
            of += 1;
            let guess = half.min(*mean);
            let best = attacks
                .iter()
                .filter_map(|e| e.per_feature.get(feature))
                .copied()
                .fold(f64::INFINITY, f64::min);
            // A feature that does not vary is known without an attack.
            if guess > EXACT_MSE {
                exact += usize::from(best <= EXACT_MSE);
                better += usize::from(best < guess);
            }
        }
        Self { exact, better, of }
    }
}
