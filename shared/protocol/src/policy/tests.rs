//! Every defense comes back from each of its forms, and what is stated of defenses agrees with what serde reads.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use prost::Message;
use toml::{Table, Value};
use vfl_defense::policy::*;

use super::*;
use crate::pb::defense::parameter::Value as WireValue;

fn number() -> impl Strategy<Value = f64> {
    use proptest::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![3 => POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO, 1 => Just(1e-5), 1 => Just(0.1)]
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(number(), 0..6)
}

fn template() -> impl Strategy<Value = Template> {
    prop_oneof![Just(Template::Identity), Just(Template::Householder), Just(Template::Fisip)]
}

fn training() -> impl Strategy<Value = PurifierTraining> {
    prop_oneof![
        Just(PurifierTraining::Scores),
        Just(PurifierTraining::Random),
        Just(PurifierTraining::Normal)
    ]
}

/// Every defense with any parameters, in range or not.
fn any_defense() -> impl Strategy<Value = DefenseConfig> {
    use DefenseConfig::*;
    let shared = || (number(), number(), template(), any::<bool>());
    prop_oneof![
        Just(None {}),
        any::<u32>().prop_map(|decimals| Rounding { decimals }),
        any::<u32>().prop_map(|k| TopK { k }),
        number().prop_map(|softening| ClassLabel { softening }),
        number().prop_map(|epsilon| RandomizedLabel { epsilon }),
        number().prop_map(|temperature| Temperature { temperature }),
        (any::<u32>(), number()).prop_map(|(scheme, alpha)| LogitNoise { scheme, alpha }),
        number().prop_map(|sigma| GaussianNoise { sigma }),
        (number(), number(), number(), any::<bool>()).prop_map(
            |(epsilon, delta, sensitivity, as_published)| {
                DpGaussian { epsilon, delta, sensitivity, as_published }
            }
        ),
        (prop::option::of(number()), prop::option::of(number()), shared()).prop_map(
            |(sigma, epsilon, (delta, sensitivity, template, as_published))| PriveeDp {
                sigma,
                epsilon,
                delta,
                sensitivity,
                template,
                as_published
            }
        ),
        (numbers(), numbers(), shared()).prop_map(
            |(sigma, epsilon, (delta, sensitivity, template, as_published))| {
                PriveeDpPlusPlus { sigma, epsilon, delta, sensitivity, template, as_published }
            }
        ),
        Just(OrderPreservingEncryption {}),
        Just(Ranking {}),
        any::<u32>().prop_map(|size| Codebook { size }),
        (number(), number(), any::<u32>()).prop_map(|(lower, upper, count)| Bins {
            lower,
            upper,
            count
        }),
        (training(), number())
            .prop_map(|(training, label_weight)| Purifier { training, label_weight }),
    ]
}

fn wire(config: &DefenseConfig) -> pb::Defense {
    let bytes = pb::Defense::from(config).encode_to_vec();
    pb::Defense::decode(&bytes[..]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_defense_comes_back(config in any_defense()) {
        prop_assert_eq!(&DefenseConfig::try_from(&wire(&config)).unwrap(), &config);
        prop_assert_eq!(&config.to_string().parse::<DefenseConfig>().unwrap(), &config);
        prop_assert_eq!(&toml::from_str::<DefenseConfig>(&toml::to_string(&config).unwrap()).unwrap(), &config);
        let json = serde_json::to_value(&config).unwrap();
        prop_assert_eq!(&serde_json::from_value::<DefenseConfig>(json).unwrap(), &config);
        let policy = Policy { defenses: vec![config.clone(), config], noise: NoiseMode::Fresh, unbound_shares: true };
        prop_assert_eq!(&Policy::try_from(&pb::Policy::from(&policy)).unwrap(), &policy);
        prop_assert_eq!(&policy.to_string().parse::<Policy>().unwrap(), &policy);
    }

    /// The stated parameters are those that serde takes: the same names and types, and the same ones required.
    #[test]
    fn facts_agree_with_serde(config in any_defense()) {
        let facts = config.facts();
        let given = config.parameters();
        for (name, value) in &given {
            prop_assert!(facts.parameter(name).is_some(), "{} is not stated", name);
            let mut without = given.clone();
            without.remove(name);
            let read = DefenseConfig::from_parameters(facts.name, without.clone());
            without.insert("name".into(), facts.name.into());
            prop_assert_eq!(without.clone().try_into::<DefenseConfig>().ok(), read.ok());
            // Of another type.
            for other in [Value::Boolean(true), Value::String("x".into()), Value::Array(vec![Value::Float(1.0)])] {
                if std::mem::discriminant(&other) == std::mem::discriminant(value) && !other.is_str() {
                    continue;
                }
                let mut wrong = given.clone();
                wrong.insert(name.clone(), other);
                let error = DefenseConfig::from_parameters(facts.name, wrong.clone()).unwrap_err().to_string();
                prop_assert!(error.contains(facts.name) && error.contains(&format!("`{name}`")), "{}", error);
                wrong.insert("name".into(), facts.name.into());
                prop_assert!(wrong.try_into::<DefenseConfig>().is_err());
            }
        }
    }

    /// Whatever a message holds, it is a defense or refused with an error that is short.
    #[test]
    fn hostile_messages_are_refused(
        at in 0..DefenseConfig::NAMES.len(),
        named in any::<bool>(),
        name in ".{0,200}",
        parameters in prop::collection::vec((".{0,100}", 0..64usize, any::<f64>(), any::<i64>(), 0..8usize), 0..20),
    ) {
        let facts = DefenseConfig::ALL[at];
        let name = if named { facts.name.to_owned() } else { name };
        let parameters = parameters.into_iter().map(|(any_name, which, number, whole, kind)| {
            let stated = facts.parameters.get(which).map(|p| p.name.to_owned());
            let value = match kind {
                0 | 1 => Some(WireValue::Number(number)),
                2 => Some(WireValue::Whole(whole)),
                3 => Some(WireValue::Whole(whole % 100)),
                4 => Some(WireValue::Truth(whole % 2 == 0)),
                5 => Some(WireValue::Text(any_name.clone())),
                6 => Some(WireValue::Numbers(pb::defense::Numbers { values: vec![number; which] })),
                _ => None,
            };
            pb::defense::Parameter { name: stated.unwrap_or(any_name), value }
        });
        let message = pb::Defense { name, parameters: parameters.collect() };
        match DefenseConfig::try_from(&message) {
            Ok(config) => prop_assert_eq!(DefenseConfig::try_from(&wire(&config)).unwrap(), config),
            Err(error) => prop_assert!(error.to_string().len() < 2000, "{}", error),
        }
    }
}

/// What serde says of an unknown name lists the variants of the type itself.
#[test]
fn every_variant_is_stated() {
    let error = toml::from_str::<DefenseConfig>("name = \"no such defense\"").unwrap_err();
    let variants: BTreeSet<&str> = error.message().split('`').skip(3).step_by(2).collect();
    assert_eq!(variants, DefenseConfig::NAMES.into_iter().collect(), "{error}");
}

#[test]
fn the_strategy_makes_every_defense() {
    let mut runner = TestRunner::deterministic();
    let names = (0..1000).map(|_| any_defense().new_tree(&mut runner).unwrap().current().name());
    assert_eq!(names.collect::<BTreeSet<_>>(), DefenseConfig::NAMES.into_iter().collect());
}

#[test]
fn examples_are_of_their_own_defense() {
    for classes in [2, 3, 26, 1000] {
        for facts in DefenseConfig::ALL {
            // Bins are of a number, which is one output.
            let classes = if facts.name == "bins" { 1 } else { classes };
            let examples = (facts.examples)(classes);
            assert!(!examples.is_empty(), "{} has no example", facts.name);
            for example in examples {
                assert_eq!(example.name(), facts.name);
                assert_eq!(example.to_string().parse::<DefenseConfig>().unwrap(), example);
            }
        }
    }
}

#[test]
fn what_the_command_line_puts_is_a_defense() {
    for facts in DefenseConfig::ALL {
        let put =
            |p: &vfl_defense::policy::Parameter| Some((p.name.to_owned(), p.command_default(5)?));
        let table: Table = facts.parameters.iter().filter_map(put).collect();
        assert_eq!(DefenseConfig::from_parameters(facts.name, table).unwrap().name(), facts.name);
    }
}

fn parameter(name: &str, value: WireValue) -> pb::defense::Parameter {
    pb::defense::Parameter { name: name.into(), value: Some(value) }
}

#[test]
fn messages_are_refused_by_defense_and_parameter() {
    use WireValue::{Number, Numbers, Text, Truth, Whole};
    let list = |values| Numbers(pb::defense::Numbers { values });
    for (name, parameters, parts) in [
        ("", vec![], &["`defense` is missing"][..]),
        ("privee", vec![], &["no defense `privee`", "privee_dp"]),
        ("rounding", vec![], &["`rounding`", "`decimals` is missing", "0 to 15"]),
        (
            "rounding",
            vec![parameter("digits", Whole(2))],
            &["`rounding`", "no parameter `digits`", "decimals"],
        ),
        (
            "rounding",
            vec![parameter("name", Text("none".into()))],
            &["`rounding`", "no parameter `name`"],
        ),
        ("rounding", vec![parameter("decimals", Whole(-1))], &["`rounding`", "`decimals` is -1"]),
        (
            "rounding",
            vec![parameter("decimals", Whole(1 << 32))],
            &["`rounding`", "`decimals` is 4294967296"],
        ),
        (
            "rounding",
            vec![parameter("decimals", Number(2.0))],
            &["`rounding`", "`decimals` is 2", "whole number"],
        ),
        (
            "rounding",
            vec![parameter("decimals", Text("2".into()))],
            &["`rounding`", "`decimals`", "whole number"],
        ),
        (
            "rounding",
            vec![parameter("decimals", Whole(2)); 2],
            &["`rounding`", "`decimals` is given twice"],
        ),
        ("rounding", vec![parameter("decimals", Whole(2)); 17], &["17 parameters, expected 16"]),
        (
            "rounding",
            vec![pb::defense::Parameter { name: "decimals".into(), value: None }],
            &["`decimals` has no value"],
        ),
        (
            "temperature",
            vec![parameter("temperature", Number(f64::NAN))],
            &["`temperature`", "NaN", "finite"],
        ),
        (
            "gaussian_noise",
            vec![parameter("sigma", Number(f64::INFINITY))],
            &["`sigma`", "inf", "finite"],
        ),
        (
            "privee_dp",
            vec![parameter("template", Text("stiefel".into()))],
            &["`template`", "stiefel", "householder"],
        ),
        (
            "privee_dp",
            vec![parameter("as_published", Whole(1))],
            &["`as_published` is 1", "true or false"],
        ),
        (
            "privee_dp",
            vec![parameter("sigma", list(vec![1.0]))],
            &["`sigma` is a list of length 1", "a number"],
        ),
        ("privee_dp_plus_plus", vec![parameter("sigma", Number(1.0))], &["`sigma` is 1", "a list"]),
        (
            "privee_dp_plus_plus",
            vec![parameter("sigma", list(vec![f64::NAN]))],
            &["`sigma`", "finite"],
        ),
        (
            "privee_dp_plus_plus",
            vec![parameter("sigma", list(vec![1.0; 65_537]))],
            &["`sigma`", "65537", "65536"],
        ),
        (
            "class_label",
            vec![parameter("softening", Truth(true))],
            &["`softening` is true", "a number"],
        ),
    ] {
        let message = pb::Defense { name: name.into(), parameters };
        let error = DefenseConfig::try_from(&message).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let many = pb::Policy {
        defenses: vec![pb::Defense::from(&DefenseConfig::None {}); 9],
        ..Default::default()
    };
    assert!(Policy::try_from(&many).unwrap_err().to_string().contains("9 defenses"));
    let most = list(vec![1.0; 65_536]);
    let message = pb::Defense {
        name: "privee_dp_plus_plus".into(),
        parameters: vec![parameter("sigma", most)],
    };
    assert!(DefenseConfig::try_from(&message).is_ok());
}

/// A message of an older release, which had a field for each defense, is no defense at all.
#[test]
fn messages_of_older_releases_are_refused() {
    // `rounding { decimals: 2 }` was field 2.
    let old = pb::Defense::decode(&[0x12, 0x02, 0x08, 0x02][..]).unwrap();
    assert!(
        DefenseConfig::try_from(&old).unwrap_err().to_string().contains("`defense` is missing")
    );
}

/// Noise, ledgers and budgets are keyed by this text: it must not change.
#[test]
fn texts_stay_what_they_are() {
    let texts: Vec<String> = DefenseConfig::ALL
        .iter()
        .flat_map(|facts| (facts.examples)(4))
        .map(|config| config.to_string())
        .collect();
    assert_eq!(
        texts,
        [
            "none",
            "rounding (decimals = 2)",
            "rounding (decimals = 1)",
            "top_k (k = 2)",
            "class_label",
            "randomized_label (epsilon = 2.0)",
            "temperature (temperature = 4.0)",
            "logit_noise (alpha = 10.0, scheme = 1)",
            "logit_noise (alpha = 10.0, scheme = 2)",
            "logit_noise (alpha = 0.75, scheme = 3)",
            "gaussian_noise (sigma = 0.1)",
            "dp_gaussian (epsilon = 0.5)",
            "dp_gaussian (as_published = true, epsilon = 0.5)",
            "privee_dp (epsilon = 0.1, template = \"householder\")",
            "privee_dp (sigma = 48.0, template = \"householder\")",
            "privee_dp_plus_plus (template = \"householder\")",
            "order_preserving_encryption",
            "ranking",
            "codebook (size = 32)",
            "purifier",
            "purifier (training = \"random\")",
        ]
    );
    // Every parameter away from its default.
    let full = "privee_dp_plus_plus (as_published = true, delta = 0.001, epsilon = [0.5, 0.25], sensitivity = 1.0, \
                sigma = [1.0, 2.5], template = \"fisip\")";
    assert_eq!(full.parse::<DefenseConfig>().unwrap().to_string(), full);
}
