//! The choice of the strongest adaptive attack on a policy.

use vfl_defense::policy::{NoiseMode, ReleaseKind};
use vfl_defense::{DefenseConfig, Policy};

/// Returns the name of the strongest adaptive attack on a policy. Returns `None` if there is no
/// defense, and so nothing to adapt to, or if no attack here adapts to one of the defenses
/// ([`ReleaseKind::Unstudied`]).
///
/// If shares are not bound, it is `chosen_shares`; if noise is drawn anew, it is `averaging`. Both
/// need more than one release. Of several defenses, the one that leaves the least decides.
#[must_use]
pub fn strongest_on(policy: &Policy) -> Option<&'static str> {
    if policy.is_none() {
        return None;
    }
    if policy.unbound_shares {
        return Some("chosen_shares");
    }
    let leaves: Vec<ReleaseKind> = policy.defenses.iter().map(DefenseConfig::leaves).collect();
    strongest(&leaves, policy.noise)
}

/// Returns the strongest attack on one release of a chain of defenses that leave these, of which
/// one or more change the scores.
fn strongest(leaves: &[ReleaseKind], noise: NoiseMode) -> Option<&'static str> {
    let all: Vec<ReleaseKind> =
        leaves.iter().copied().filter(|l| *l != ReleaseKind::Everything).collect();
    let any = |what: ReleaseKind| all.contains(&what);
    let (at_logits, at_scores): (Vec<ReleaseKind>, Vec<ReleaseKind>) = all
        .iter()
        .copied()
        .partition(|l| matches!(l, ReleaseKind::Scaled | ReleaseKind::Projected));
    let projected = any(ReleaseKind::Projected);
    Some(if any(ReleaseKind::Unstudied) {
        return None;
    } else if any(ReleaseKind::NoisyLabel) {
        "noisy_label"
    } else if any(ReleaseKind::Label) {
        "label_cone"
    } else if any(ReleaseKind::Purified)
        && !any(ReleaseKind::Ciphertexts)
        && !any(ReleaseKind::Order)
        && !any(ReleaseKind::Word)
    {
        "shadow_purifier"
    } else if any(ReleaseKind::Word) {
        if projected { "label_cone" } else { "codebook_cell" }
    } else if projected {
        // Both schemes keep the arg max, and nothing else if another defense follows.
        if at_scores.is_empty() && at_logits.len() == 1 { "noise_direction" } else { "label_cone" }
    } else if at_scores == [ReleaseKind::Ciphertexts] {
        // Ciphertexts that keep the order lie near their scores.
        "interval"
    } else if any(ReleaseKind::Ciphertexts) || any(ReleaseKind::Order) {
        "ranking_cone"
    } else if any(ReleaseKind::Noised)
        || (any(ReleaseKind::OrderNoised) && noise == NoiseMode::Fresh)
    {
        "averaging"
    } else if at_scores.is_empty() {
        "noise_direction"
    } else if any(ReleaseKind::OrderNoised) && any(ReleaseKind::Largest) {
        "label_cone"
    } else {
        // Rounded scores, the largest ones, and noise that keeps the order: each score lies between
        // two bounds.
        "interval"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_attack() {
        for (text, want) in [
            ("none", None),
            ("rounding (decimals = 1)", Some("interval")),
            ("temperature (temperature = 2.0) then rounding (decimals = 1)", Some("interval")),
            ("temperature (temperature = 2.0)", Some("noise_direction")),
            ("top_k (k = 2)", Some("interval")),
            ("logit_noise (scheme = 1, alpha = 1.0)", Some("noise_direction")),
            (
                "logit_noise (scheme = 2, alpha = 1.0) then rounding (decimals = 2)",
                Some("label_cone"),
            ),
            ("privee_dp", Some("interval")),
            ("privee_dp then top_k (k = 2)", Some("label_cone")),
            ("privee_dp_plus_plus, fresh noise", Some("averaging")),
            ("gaussian_noise (sigma = 0.1)", Some("averaging")),
            ("ranking", Some("ranking_cone")),
            ("privee_dp then order_preserving_encryption", Some("ranking_cone")),
            ("order_preserving_encryption", Some("interval")),
            ("class_label", Some("label_cone")),
            ("class_label, unbound shares", Some("chosen_shares")),
            ("codebook (size = 16)", Some("codebook_cell")),
            ("purifier", Some("shadow_purifier")),
            (
                "temperature (temperature = 2.0) then purifier then rounding (decimals = 2)",
                Some("shadow_purifier"),
            ),
            ("purifier then class_label", Some("label_cone")),
            ("randomized_label (epsilon = 1.0)", Some("noisy_label")),
        ] {
            assert_eq!(strongest_on(&text.parse().unwrap()), want, "{text}");
        }
    }
    #[test]
    fn an_unstudied_defense_has_no_attack_that_knows_it() {
        for noise in [NoiseMode::Keyed, NoiseMode::Fresh] {
            assert_eq!(strongest(&[ReleaseKind::Rounded], noise), Some("interval"));
            assert_eq!(strongest(&[ReleaseKind::Unstudied], noise), None);
            assert_eq!(strongest(&[ReleaseKind::Unstudied, ReleaseKind::Label], noise), None);
        }
    }

    #[test]
    fn every_studied_defense_has_an_attack_that_knows_it() {
        for facts in DefenseConfig::ALL {
            for example in (facts.examples)(4) {
                let studied =
                    !matches!(example.leaves(), ReleaseKind::Everything | ReleaseKind::Unstudied);
                let policy = Policy::of(example);
                assert_eq!(strongest_on(&policy).is_some(), studied, "{policy}");
            }
        }
    }
}
