//! Describes results that carry noise. A difference smaller than the noise is reported as
//! undecided.

use vfl_present::figure;
use vfl_transform::scoring::Gain;

use super::document::Audit;
use super::errors::Errors;
use super::level::{EXACT_MSE, Level, Verdict};

/// The number of standard deviations of their noise by which two figures must differ: 95 %
/// two-sided.
pub(super) const Z: f64 = 1.96;

fn told(errors: &Errors) -> (f64, f64) {
    (errors.mse, errors.sigma.unwrap_or(0.0))
}

/// Returns true if `a` is below `b` by more than the noise of both.
fn below(a: &Errors, b: &Errors) -> bool {
    let noise = a.sigma.unwrap_or(0.0).hypot(b.sigma.unwrap_or(0.0));
    a.mse + Z * noise < b.mse
}

/// Returns the verdict on an audit whose strongest attack, `name`, has noisy errors.
pub(super) fn noised(audit: &Audit, name: &str, errors: &Errors, not_run: usize) -> Verdict {
    let (half, mean) = (&audit.baselines.half, &audit.baselines.column_mean);
    let [e, h, c] = [errors, half, mean].map(|x| figure(x.mse, x.sigma));
    let (guess, lower, this, other) = if mean.mse <= half.mse {
        ("the column mean", mean, &c, format!("guessing ½: {h}"))
    } else {
        ("½", half, &h, format!("column mean: {c}"))
    };
    let (level, mut text) = if below(errors, mean) && below(errors, half) {
        let cut = match Gain::of(told(errors), told(lower)).interval {
            Some((low, high)) => {
                format!("by {:.0} % to {:.0} % (95 %)", 100.0 * low.max(0.0), 100.0 * high)
            }
            None => "by a share that the noise hides".into(),
        };
        let mut text = format!(
            "{name} cuts the error of guessing {guess} {cut}: {e} against {this} ({other})"
        );
        if errors.mse - Z * errors.sigma.unwrap_or(0.0) <= EXACT_MSE {
            text.push_str("; at this noise it cannot be told from an exact reconstruction");
        }
        (Level::Partial, text)
    } else if below(mean, errors) && below(half, errors) {
        (
            Level::Half,
            format!(
                "no better than guessing ½: the smallest error, of {name}, is {e} against {h} (column mean: {c})"
            ),
        )
    } else if below(mean, errors) && below(errors, half) {
        let text = format!(
            "no better than guessing the column mean: the smallest error, of {name}, is {e} against {c} (guessing ½: {h})"
        );
        (Level::ColumnMean, text)
    } else {
        let text = format!(
            "the noise does not tell the smallest error, of {name}, from a guess: {e} against {c} of the column mean and {h} of ½; score \
             more records, or have the budget renewed"
        );
        (Level::Unresolved, text)
    };
    if not_run > 0 {
        text.push_str(&format!(
            "; {not_run} attack{} could not run",
            if not_run == 1 { "" } else { "s" }
        ));
    }
    Verdict { level, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{
        AttackResult, Baselines, DefenseKnowledge, Status, ThreatModel, Utility, verdict,
    };

    fn errors(mse: f64, sigma: f64) -> Errors {
        Errors { sigma: Some(sigma), ..Errors::new(mse, Vec::new()) }
    }

    fn audit(attack: f64, sigma: f64) -> Audit {
        let baselines = Baselines { half: errors(0.1, 0.001), column_mean: errors(0.06, 0.002) };
        let threat_model = ThreatModel::white_box(DefenseKnowledge::Unknown);
        let policy = &vfl_defense::Policy::default();
        let mut audit =
            Audit::new(policy.into(), threat_model, 1000, Utility::default(), baselines);
        audit.attacks = vec![AttackResult::ran("rcc2", Status::Unique, errors(attack, sigma))];
        audit
    }

    #[test]
    fn a_verdict_says_no_more_than_the_noise_lets_it() {
        for (mse, sigma, level, says) in [
            (
                0.03,
                0.002,
                Level::Partial,
                "cuts the error of guessing the column mean by 42 % to 57 % (95 %): 0.0300 ± 0.0020",
            ),
            (0.0, 0.002, Level::Partial, "cannot be told from an exact reconstruction"),
            (-0.001, 0.002, Level::Partial, "to 100 % (95 %)"),
            (
                0.03,
                0.02,
                Level::Unresolved,
                "does not tell the smallest error, of rcc2, from a guess",
            ),
            (0.08, 0.002, Level::ColumnMean, "no better than guessing the column mean"),
            (0.2, 0.002, Level::Half, "no better than guessing ½"),
        ] {
            let got = verdict(&audit(mse, sigma));
            assert_eq!(got.level, level, "{mse} ± {sigma}: {}", got.text);
            assert!(got.text.contains(says), "{mse} ± {sigma}: {}", got.text);
        }
    }
}
