//! Bits of policies: by the formulas, in chains, and as a choice of settings.

use super::*;

fn leakage(text: &str, classes: usize) -> Leakage {
    text.parse::<Policy>().unwrap().leakage(classes)
}

#[track_caller]
fn tells(text: &str, classes: usize, bits: f64) {
    let told = leakage(text, classes);
    assert!((told.bits().unwrap() - bits).abs() < 6e-3, "{text}, {classes} classes: {told}");
}

#[test]
fn single_defenses_have_the_bits_of_the_formulas() {
    for (text, classes, bits) in [
        ("rounding (decimals = 1)", 2, 3.46),
        ("rounding (decimals = 2)", 2, 6.66),
        ("rounding (decimals = 3)", 2, 9.97),
        ("gaussian_noise (sigma = 0.1)", 2, 2.73),
        ("gaussian_noise (sigma = 0.1)", 6, 7.94),
        ("gaussian_noise (sigma = 0.3)", 6, 3.924),
        ("class_label", 6, 2.585),
        ("class_label (softening = 0.01)", 6, 2.585),
        ("ranking", 6, 9.492),
        ("codebook (size = 32)", 6, 5.0),
        ("randomized_label (epsilon = 2.0)", 2, 0.817),
        ("randomized_label (epsilon = 2.0)", 6, 1.839),
    ] {
        tells(text, classes, bits);
    }
    // The Gaussian mechanism is noise of its scale.
    let sigma = DefenseConfig::DpGaussian {
        epsilon: 0.5,
        delta: 1e-5,
        sensitivity: 1.0,
        as_published: false,
    };
    let sigma = sigma.gaussian_sigma().unwrap();
    let told = leakage("dp_gaussian (epsilon = 0.5, sensitivity = 1.0)", 6).bits().unwrap();
    assert_eq!(told, leakage(&format!("gaussian_noise (sigma = {sigma:?})"), 6).bits().unwrap());
}

#[test]
fn what_leaves_a_continuum_has_no_finite_bound_and_says_why() {
    for (text, part) in [
        ("none", "exact scores"),
        ("temperature (temperature = 4.0)", "temperature"),
        ("top_k (k = 2)", "top_k"),
        ("top_k (k = 2) then none", "top_k"),
        ("logit_noise (scheme = 3, alpha = 0.5)", "logit_noise"),
        ("order_preserving_encryption", "order-preserving"),
        ("purifier", "purifier"),
        ("privee_dp", "PRIVEE"),
        ("privee_dp_plus_plus", "PRIVEE"),
        ("privee_dp then rounding (decimals = 1)", "probability vectors"),
        ("privee_dp then gaussian_noise (sigma = 0.1)", "probability vectors"),
        ("gaussian_noise (sigma = 0.1), fresh noise", "each answer"),
        ("gaussian_noise (sigma = 0.1) then ranking, fresh noise", "each answer"),
        ("class_label, unbound shares", "change its shares"),
    ] {
        let told = leakage(text, 4);
        assert!(told.bits().is_none() && told.multiplier().is_none(), "{text}: {told}");
        assert!(told.to_string().contains(part), "{text}: {told}");
    }
    assert!(Policy::default().leakage(2).bits().is_none());
}

#[test]
fn a_chain_tells_no_more_than_its_defenses_and_order_counts_where_it_must() {
    for (text, classes, bits) in [
        ("temperature (temperature = 4.0) then rounding (decimals = 1)", 2, 3.46),
        ("none then rounding (decimals = 1) then none", 2, 3.46),
        ("rounding (decimals = 3) then gaussian_noise (sigma = 0.1)", 2, 9.97),
        ("gaussian_noise (sigma = 0.1) then rounding (decimals = 3)", 2, 2.73),
        ("gaussian_noise (sigma = 0.1) then ranking", 6, 7.94),
        ("ranking then class_label", 6, 2.585),
        ("privee_dp then class_label", 6, 2.585),
        ("privee_dp then codebook (size = 8)", 6, 3.0),
        // What stands before fresh noise bounds all answers.
        ("ranking then gaussian_noise (sigma = 0.1), fresh noise", 6, 9.492),
        // A score more than there are: the sum of the others.
        ("top_k (k = 1) then gaussian_noise (sigma = 0.1)", 2, 4.54),
    ] {
        tells(text, classes, bits);
    }
    // The largest of two scores to a decimal: 0.5 to 1 of either class, the bound counts what sums
    // do not exclude.
    let top = leakage("top_k (k = 1) then rounding (decimals = 1)", 2).bits().unwrap();
    assert!(top >= 12f64.log2() && top <= 21f64.log2() + 1e-9, "{top}");
}

/// Every example of every defense: a bound where the facts have one, and never less than a label's
/// for those that keep the label.
#[test]
fn every_example_is_bounded_or_says_why_not() {
    for classes in [2, 6, 60] {
        for example in DefenseConfig::ALL.iter().flat_map(|facts| (facts.examples)(classes)) {
            match Policy::of(example.clone()).leakage(classes) {
                Leakage::Bits { bits, by } => {
                    assert!(
                        bits.is_finite() && bits > 0.0 && by == example.name(),
                        "{example}: {bits}"
                    );
                }
                Leakage::Unbounded { reason } => assert!(reason.len() > 20, "{example}: {reason}"),
            }
        }
    }
}

#[test]
fn a_number_of_bits_chooses_the_setting_that_tells_most_within_it() {
    for classes in [2, 6, 30] {
        for bits in [0.2, 1.0, 2.6, 5.0, 10.0, 40.0] {
            for found in DefenseConfig::all_within_bits(classes, bits) {
                let told = Policy::of(found.clone()).leakage(classes).bits().unwrap();
                assert!(told <= bits + 1e-9, "{found}, {classes} classes: {told} of {bits}");
                let more = match &found {
                    DefenseConfig::Rounding { decimals } if *decimals < 15 => {
                        DefenseConfig::Rounding { decimals: decimals + 1 }
                    }
                    DefenseConfig::Codebook { size } if *size < 1 << 20 => {
                        DefenseConfig::Codebook { size: size + 1 }
                    }
                    // Below is the least that is tried.
                    DefenseConfig::GaussianNoise { sigma } if *sigma > 1e-11 => {
                        DefenseConfig::GaussianNoise { sigma: 0.98 * sigma }
                    }
                    DefenseConfig::RandomizedLabel { epsilon } if *epsilon < 50.0 => {
                        DefenseConfig::RandomizedLabel { epsilon: epsilon + 2e-3 }
                    }
                    _ => continue,
                };
                let told = Policy::of(more.clone()).leakage(classes).bits().unwrap();
                assert!(
                    told > bits,
                    "{found}, {classes} classes: {more} tells {told} of {bits} too"
                );
            }
        }
    }
    let within = |name, classes, bits| DefenseConfig::within_bits(name, classes, bits);
    assert_eq!(within("rounding", 2, 7.0), Some(DefenseConfig::Rounding { decimals: 2 }));
    assert_eq!(within("codebook", 6, 5.5), Some(DefenseConfig::Codebook { size: 45 }));
    assert_eq!(within("codebook", 6, 2.0), None);
    assert_eq!(within("none", 6, 50.0), None);
    assert_eq!(
        within("randomized_label", 6, 2.6),
        Some(DefenseConfig::RandomizedLabel { epsilon: 50.0 })
    );
    assert!(DefenseConfig::all_within_bits(6, f64::NAN).is_empty());
}

#[test]
fn the_multiplier_is_two_to_the_bits() {
    let told = leakage("codebook (size = 32)", 6);
    assert_eq!(told.multiplier(), Some(32.0));
    assert_eq!(told.to_string(), "at most 5.00 bits a record (`codebook`)");
}
