//! Checks of J's claims on figures 14 and 15. If a claim has no number, the claim text gives ours
//! after "here".

use super::super::document::{Check, CheckKind, Document};

/// The indices of defenses among the points.
const NONE: usize = 0;
const NOISE_TENTH: usize = 5;
const NOISE_ONE: usize = 6;
const LABEL: usize = 7;
const PURIFIER: usize = 8;
const PURIFIER_RANDOM: usize = 9;
const EPSILON_TEN: usize = 10;
const EPSILON_ONE: usize = 11;
const EPSILON_TENTH: usize = 12;

/// The share of the undefended accuracy up to which an attack's accuracy counts as reduced.
const REDUCED: f64 = 0.9;
/// The loss of the model's accuracy up to which it counts as near the undefended one.
const NEAR: f64 = 0.02;

/// Checks the claims on the white box, and again on the black box.
pub(super) fn checks(document: &Document) -> Vec<Check> {
    let mut found = of_curve(document, "accuracy_of_attack", ("", ""));
    found.extend(of_curve(document, "accuracy_of_attack_black_box", ("black_box_", "black box: ")));
    found
}

fn of_curve(document: &Document, curve: &str, (of, setting): (&str, &str)) -> Vec<Check> {
    let values = |name: &str| document.curve(name).map_or(&[][..], |curve| curve.mean.as_slice());
    let (model, attack, half) =
        (values("accuracy_of_model"), values(curve), values("accuracy_of_half"));
    let lost = |at: usize| model[NONE] - model[at];
    let reduced = |at: usize| attack[at] <= REDUCED * attack[NONE];
    let told = |at: usize| {
        format!(
            "model {:.4} from {:.4}, attack {:.3} from {:.3}",
            model[at], model[NONE], attack[at], attack[NONE]
        )
    };
    let check = |id: &str, claim: &str, holds: bool, detail: String| Check {
        id: format!("{of}{id}"),
        kind: CheckKind::Paper,
        claim: format!("{setting}{claim} (J section 6.2)"),
        holds,
        comparisons: 1,
        detail,
        violations: Vec::new(),
    };
    let budgets = [EPSILON_TEN, EPSILON_ONE, EPSILON_TENTH];
    let of_budgets = || {
        let each =
            budgets.iter().map(|&at| format!("model {:.4}, attack {:.3}", model[at], attack[at]));
        let each = each.collect::<Vec<_>>().join("; ");
        format!(
            "ε = 10, 1, 0.1: {each}; without noise model {:.4}, attack {:.3}",
            model[NONE], attack[NONE]
        )
    };
    vec![
        check(
            "alignment",
            "entity alignment does not prevent the attack: with it, as without a defense, the attack is more accurate than ½ is",
            attack[NONE] > half[NONE],
            format!("attack {:.3}, ½ {:.3}", attack[NONE], half[NONE]),
        ),
        check(
            "noisy_training",
            "no training with noise is a good balance; here: none brings the attack's accuracy to nine tenths and keeps the model's to two \
             points",
            !budgets.iter().any(|&at| reduced(at) && lost(at) <= NEAR),
            of_budgets(),
        ),
        check(
            "epsilon_ten",
            "training with noise of ε = 10 does not prevent the attack; here: its accuracy stays above nine tenths",
            !reduced(EPSILON_TEN),
            told(EPSILON_TEN),
        ),
        check(
            "smaller_epsilon",
            "with a smaller ε both accuracies fall; here: from ε = 10 to 0.1, the model's by more than two points",
            attack[EPSILON_TENTH] < attack[EPSILON_TEN]
                && model[EPSILON_TEN] - model[EPSILON_TENTH] > NEAR,
            of_budgets(),
        ),
        check(
            "label",
            "a label alone reduces the attack's accuracy and not the model's; here: to nine tenths at most",
            reduced(LABEL) && lost(LABEL).abs() <= 1e-12,
            told(LABEL),
        ),
        check(
            "noise_tenth",
            "noise of 0.1 is a good balance; here: the attack's accuracy falls to nine tenths at most, the model's by two points at most",
            reduced(NOISE_TENTH) && lost(NOISE_TENTH) <= NEAR,
            told(NOISE_TENTH),
        ),
        check(
            "noise_one",
            "noise of 1 costs the model much; here: five points at least",
            lost(NOISE_ONE) >= 0.05,
            told(NOISE_ONE),
        ),
        check(
            "purifier",
            "a purifier reduces the attack's accuracy at a negligible loss; here: to nine tenths at most, and by one point at most",
            reduced(PURIFIER) && lost(PURIFIER) <= 0.01,
            told(PURIFIER),
        ),
        check(
            "purifier_random",
            "a purifier of random vectors does better than one of real scores: a lower accuracy of the attack",
            attack[PURIFIER_RANDOM] < attack[PURIFIER],
            format!(
                "attack {:.3} and {:.3}, model {:.4} and {:.4}",
                attack[PURIFIER_RANDOM], attack[PURIFIER], model[PURIFIER_RANDOM], model[PURIFIER]
            ),
        ),
    ]
}
