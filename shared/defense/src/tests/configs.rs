//! Parameters out of range, and lists that do not go together, are refused by name.

use super::*;

fn error(policy: &str, classes: Option<usize>) -> Option<String> {
    let policy: Policy = policy.parse().unwrap();
    let ground = Ground::new(4);
    let result = match classes {
        None => Pipeline::check(&policy.defenses),
        Some(k) => Pipeline::build(&policy.defenses, k, &ground.grants()).map(drop),
    };
    result.err().map(|e| e.to_string())
}

#[test]
fn parameters_out_of_range_are_named() {
    for (policy, setting) in [
        ("rounding (decimals = 16)", "decimals"),
        ("logit_noise (scheme = 0, alpha = 1.0)", "scheme"),
        ("logit_noise (scheme = 4, alpha = 1.0)", "scheme"),
        ("logit_noise (scheme = 1, alpha = -1.0)", "alpha"),
        ("logit_noise (scheme = 2, alpha = nan)", "alpha"),
        ("logit_noise (scheme = 2, alpha = inf)", "alpha"),
        ("logit_noise (scheme = 3, alpha = 1.0)", "alpha"),
        ("temperature (temperature = 0.0)", "temperature"),
        ("temperature (temperature = nan)", "temperature"),
        ("temperature (temperature = inf)", "temperature"),
        ("top_k (k = 0)", "`k`"),
        ("class_label (softening = 0.5)", "softening"),
        ("class_label (softening = -0.1)", "softening"),
        ("class_label (softening = nan)", "softening"),
        ("gaussian_noise (sigma = 0.0)", "sigma"),
        ("gaussian_noise (sigma = nan)", "sigma"),
        ("gaussian_noise (sigma = inf)", "sigma"),
        ("dp_gaussian (epsilon = 0.0)", "epsilon"),
        ("dp_gaussian (epsilon = nan)", "epsilon"),
        ("dp_gaussian (epsilon = 1e-300)", "epsilon"),
        ("dp_gaussian (epsilon = 1.0, delta = 0.0)", "delta"),
        ("dp_gaussian (epsilon = 1.0, delta = 1.0)", "delta"),
        ("dp_gaussian (epsilon = 1.0, delta = nan)", "delta"),
        ("dp_gaussian (epsilon = 1.0, sensitivity = 0.0)", "sensitivity"),
        ("privee_dp (epsilon = 0.0)", "epsilon"),
        ("privee_dp (sigma = -1.0)", "sigma"),
        ("privee_dp (sigma = nan)", "sigma"),
        ("privee_dp (sigma = 1.0, epsilon = 1.0)", "epsilon"),
        ("privee_dp (sensitivity = nan)", "sensitivity"),
        ("privee_dp (sensitivity = 1e12)", "epsilon"),
        ("privee_dp_plus_plus (sensitivity = 1e12)", "sensitivity"),
        ("privee_dp_plus_plus (sigma = [1.0, 0.5])", "sigma"),
        ("privee_dp_plus_plus (epsilon = [0.1, 0.2])", "epsilon"),
        ("privee_dp_plus_plus (epsilon = [0.1, 0.0])", "epsilon"),
        ("privee_dp_plus_plus (epsilon = [nan, nan])", "epsilon"),
        ("privee_dp_plus_plus (sigma = [1.0])", "sigma"),
        ("privee_dp_plus_plus (sigma = [0.5, 1.0], epsilon = [0.2, 0.1])", "epsilon"),
        ("codebook (size = 1)", "size"),
        ("codebook (size = 2000000)", "size"),
    ] {
        for classes in [None, Some(4)] {
            let error = error(policy, classes).unwrap_or_else(|| panic!("{policy} passes"));
            assert!(error.contains(setting), "{policy}: {error}");
        }
    }
}

#[test]
fn what_depends_on_the_model_is_refused_there_alone() {
    for (policy, part) in [
        ("top_k (k = 4)", "1 to 3"),
        ("class_label (softening = 0.25)", "1/4"),
        ("privee_dp_plus_plus (sigma = [0.5, 1.0, 2.0])", "two values, or 4"),
        ("codebook (size = 3)", "4 (one for each class)"),
    ] {
        assert_eq!(error(policy, None), None, "{policy}");
        let error = error(policy, Some(4)).unwrap_or_else(|| panic!("{policy} passes"));
        assert!(error.contains(part), "{policy}: {error}");
    }
    for (policy, part) in [
        ("ranking", "4 classes"),
        ("codebook (size = 9)", "4 classes"),
        ("logit_noise (scheme = 1, alpha = 1.0)", "these are of 4"),
    ] {
        let error = error(policy, Some(3)).unwrap_or_else(|| panic!("{policy} passes"));
        assert!(error.contains(part), "{policy}: {error}");
    }
}

#[test]
fn what_is_lacking_is_said() {
    for (policy, part) in [
        ("ranking", "calibration"),
        ("codebook (size = 9)", "calibration"),
        ("logit_noise (scheme = 2, alpha = 1.0)", "weights"),
    ] {
        let policy: Policy = policy.parse().unwrap();
        assert_eq!(Pipeline::check(&policy.defenses), Ok(()));
        let error =
            Pipeline::build(&policy.defenses, 4, &Grants::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn lists_that_do_not_go_together_are_refused() {
    for policy in [
        "class_label then rounding (decimals = 1)",
        "class_label then none then rounding (decimals = 1)",
        "randomized_label (epsilon = 1.0) then rounding (decimals = 1)",
        "order_preserving_encryption then ranking",
        "rounding (decimals = 1) then temperature (temperature = 2.0)",
        "rounding (decimals = 1) then none then temperature (temperature = 2.0)",
    ] {
        for classes in [None, Some(4)] {
            assert!(error(policy, classes).unwrap().contains("cannot follow"), "{policy}");
        }
    }
    for policy in [
        "none then temperature (temperature = 2.0) then none then rounding (decimals = 1) then none",
        "class_label (softening = 0.01) then rounding (decimals = 1)",
        "ranking then order_preserving_encryption",
        "class_label then none",
    ] {
        for classes in [None, Some(4)] {
            assert_eq!(error(policy, classes), None, "{policy}");
        }
    }
}

#[test]
fn none_gives_out_what_it_gets() {
    let ground = Ground::new(4);
    let scores = random_scores(4, 50, 2);
    for text in
        ["rounding (decimals = 1)", "class_label", "order_preserving_encryption", "privee_dp"]
    {
        let alone: Policy = text.parse().unwrap();
        let mut longer = alone.clone();
        longer.defenses.push(DefenseConfig::None {});
        let [alone, longer] =
            [alone, longer].map(|p| Pipeline::build(&p.defenses, 4, &ground.grants()).unwrap());
        assert_eq!(alone.contract(), longer.contract());
        let released = |p: &Pipeline| release(p, &scores, Noise::fresh([1; 32])).released;
        assert_eq!(released(&alone), released(&longer));
    }
}

#[test]
fn a_list_is_as_tight_as_its_tightest_defense() {
    let contract = |text: &str| {
        let policy: Policy = text.parse().unwrap();
        Pipeline::build(&policy.defenses, 4, &Ground::new(4).grants()).unwrap().contract()
    };
    assert_eq!(contract("none").bits, None);
    assert!(
        (contract("gaussian_noise (sigma = 0.1) then rounding (decimals = 3)").bits.unwrap()
            - 5.907)
            .abs()
            < 1e-3
    );
    assert!((contract("ranking then class_label").bits.unwrap() - 2.0).abs() < 1e-12);
    assert!(
        (contract("ranking then rounding (decimals = 1)").bits.unwrap() - 24f64.log2()).abs()
            < 1e-12
    );
    let both = contract("ranking then order_preserving_encryption");
    assert!(
        both.keeps_ranking
            && both.keeps_arg_max
            && both.randomised
            && both.output == Output::Ciphertexts
    );
}

/// What all parties are told of a defense is what is made of it here.
#[test]
fn stated_facts_are_those_of_what_is_made() {
    for k in [2, 5] {
        let ground = Ground::new(k);
        for config in configs(k) {
            let facts = config.facts();
            assert_eq!(Pipeline::check(std::slice::from_ref(&config)), Ok(()), "{config}");
            let stated = definition_of(&config);
            let pipeline = ground.build(&config);
            assert_eq!(pipeline.changes_logits(), facts.at_logits, "{config}");
            let made = match (stated.make)(k, &ground.grants()).unwrap() {
                definition::BuiltDefense::AtLogits(defense) => defense.contract(),
                definition::BuiltDefense::AtScores(defense) => defense.contract(),
            };
            assert_eq!(stated.output, made.output, "{config}");
            assert!(stated.draws || !made.randomised, "{config}");
            let without = |grants: Grants<'_>| {
                Pipeline::build(std::slice::from_ref(&config), k, &grants).is_err()
            };
            assert_eq!(
                without(Grants { calibration: None, ..ground.grants() }),
                config.fitted(),
                "{config}"
            );
            let weightless = without(Grants { passive_weights: None, ..ground.grants() });
            assert_eq!(weightless, config.needs_passive_weights(), "{config}");
        }
    }
}
