//! The policy of `defend`: names, texts and settings of the command line.

use toml::{Table, Value};
use vfl_shared::cli::key_value;
use vfl_shared::policy::{DefenseConfig, NoiseMode, Policy};

/// A setting of the command line.
struct Setting {
    key: &'static str,
    /// What it is where neither the command line nor the config's own default says; TOML.
    default: Option<&'static str>,
    kind: Kind,
    /// What it takes, for the help.
    takes: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Whole,
    Number,
    List,
    /// A word or a truth value.
    Other,
}

const fn setting(key: &'static str, default: Option<&'static str>, kind: Kind, takes: &'static str) -> Setting {
    Setting { key, default, kind, takes }
}

const DELTA: Setting = setting("delta", None, Kind::Number, "above 0 and below 1; default 1e-5");
const SENSITIVITY: Setting = setting("sensitivity", None, Kind::Number, "above 0; default 0.1");
const TEMPLATE: Setting = setting("template", None, Kind::Other, "identity (default), householder or fisip");
const AS_PUBLISHED: Setting =
    setting("as_published", None, Kind::Other, "true or false (default): as the authors' code");

/// The settings of a defense, by its name.
fn settings(name: &str) -> &'static [Setting] {
    match name {
        "logit_noise" => {
            const {
                &[
                    setting("scheme", Some("1"), Kind::Whole, "1 (default), 2 or 3"),
                    setting(
                        "alpha",
                        Some("0.5"),
                        Kind::Number,
                        "noise budget, at least 0; in scheme 3 below 1; default 0.5",
                    ),
                ]
            }
        }
        "temperature" => const { &[setting("temperature", Some("2.0"), Kind::Number, "1e-6 to 1e6; default 2")] },
        "rounding" => const { &[setting("decimals", Some("2"), Kind::Whole, "0 to 15; default 2")] },
        "top_k" => const { &[setting("k", Some("1"), Kind::Whole, "1 to the number of classes less 1; default 1")] },
        "class_label" => const { &[setting("softening", None, Kind::Number, "0 (default), or up to below 1/classes")] },
        "gaussian_noise" => const { &[setting("sigma", Some("0.1"), Kind::Number, "above 0; default 0.1")] },
        "dp_gaussian" => {
            const {
                &[
                    setting("epsilon", Some("0.5"), Kind::Number, "above 0, a guarantee up to 1; default 0.5"),
                    DELTA,
                    setting("sensitivity", None, Kind::Number, "above 0; default sqrt 2"),
                ]
            }
        }
        "privee_dp" => {
            const {
                &[
                    setting("sigma", None, Kind::Number, "at least 0, in place of epsilon"),
                    setting("epsilon", None, Kind::Number, "above 0; default 0.1"),
                    DELTA,
                    SENSITIVITY,
                    TEMPLATE,
                    AS_PUBLISHED,
                ]
            }
        }
        "privee_dp_plus_plus" => {
            const {
                &[
                    setting(
                        "sigma",
                        None,
                        Kind::List,
                        "one value for each class or two ends, not falling, in place of epsilon",
                    ),
                    setting("epsilon", None, Kind::List, "likewise, not rising; default 0.1,0.05"),
                    DELTA,
                    SENSITIVITY,
                    TEMPLATE,
                    AS_PUBLISHED,
                ]
            }
        }
        "codebook" => {
            const { &[setting("size", None, Kind::Whole, "at least the number of classes; default four times that")] }
        }
        _ => &[],
    }
}

/// The defenses and their settings, for the help.
pub(super) fn help() -> String {
    let mut out = String::new();
    for name in DefenseConfig::NAMES {
        out.push_str(&format!("\n  {name}"));
        for setting in settings(name) {
            out.push_str(&format!("\n    {}: {}", setting.key, setting.takes));
        }
    }
    out
}

/// What the command line asks for.
pub(super) struct Asked {
    pub(super) policy: Policy,
    /// What stands for a score of 0 before the logarithm.
    pub(super) zero_floor: f64,
}

/// The default of `zero_floor`: no score that a model gives without underflow is smaller.
const ZERO_FLOOR: f64 = 1e-300;

/// Puts together names, policy texts and settings, for `classes` classes.
pub(super) fn policy(defenses: &[String], set: &[String], classes: usize) -> Result<Asked, String> {
    let mut pairs = Vec::with_capacity(set.len());
    for pair in set {
        let (key, value) = key_value(pair).map_err(|e| format!("--set {e}"))?;
        pairs.push((key, value, false));
    }
    let mut asked = Asked { policy: Policy::default(), zero_floor: ZERO_FLOOR };
    for text in defenses {
        let mut text = text.trim();
        if let Some(before) = text.strip_suffix("fresh noise").and_then(|b| b.trim_end().strip_suffix(',')) {
            (asked.policy.noise, text) = (NoiseMode::Fresh, before.trim_end());
        }
        for part in text.split(" then ").map(str::trim) {
            let config = match DefenseConfig::NAMES.into_iter().find(|name| *name == part) {
                Some(name) => from_settings(name, &mut pairs, classes)?,
                None => part.parse::<DefenseConfig>().map_err(|e| e.to_string())?,
            };
            asked.policy.defenses.push(config);
        }
    }
    for (key, value, used) in pairs {
        if key == "zero_floor" {
            let floor = value.parse().ok().filter(|floor: &f64| *floor >= f64::MIN_POSITIVE && *floor < 1.0);
            asked.zero_floor = floor.ok_or_else(|| {
                format!("--set zero_floor is `{value}`, expected a number above 0 (2.3e-308 or more) and below 1")
            })?;
        } else if !used {
            return Err(unknown(key, &asked.policy));
        }
    }
    Ok(asked)
}

fn unknown(key: &str, policy: &Policy) -> String {
    let known: Vec<String> = policy
        .defenses
        .iter()
        .map(|config| {
            let keys: Vec<_> = settings(config.name()).iter().map(|s| s.key).collect();
            format!("{} takes {}", config.name(), if keys.is_empty() { "none".into() } else { keys.join(", ") })
        })
        .collect();
    let key: String = key.chars().take(80).collect();
    format!(
        "--set: no setting `{key}` of a defense named without brackets; {}; zero_floor is there for all",
        known.join("; ")
    )
}

/// The config of a bare name, with all settings of the command line that it knows.
fn from_settings(
    name: &'static str,
    pairs: &mut [(&str, &str, bool)],
    classes: usize,
) -> Result<DefenseConfig, String> {
    let mut table = Table::new();
    table.insert("name".into(), Value::String(name.into()));
    for setting in settings(name) {
        if let Some(default) = setting.default {
            table.insert(setting.key.into(), value(default, setting.kind));
        }
        for (key, text, used) in pairs.iter_mut() {
            if *key == setting.key || key.split_once('.') == Some((name, setting.key)) {
                table.insert(setting.key.into(), value(text, setting.kind));
                *used = true;
            }
        }
    }
    if name == "codebook" && !table.contains_key("size") {
        table.insert("size".into(), Value::Integer(4 * classes as i64));
    }
    Value::Table(table).try_into().map_err(|e: toml::de::Error| {
        let takes: Vec<_> = settings(name).iter().map(|s| format!("`{}` takes {}", s.key, s.takes)).collect();
        format!("--set of `{name}`: {} ({})", e.message(), takes.join("; "))
    })
}

/// A value as TOML has it; a word that is none is a string. One number where a list is wanted stands for both ends.
fn value(text: &str, kind: Kind) -> Value {
    match kind {
        Kind::List => {
            let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
            let mut list: Vec<Value> = inner.split(',').map(|part| value(part.trim(), Kind::Number)).collect();
            if list.len() == 1 {
                list.push(list[0].clone());
            }
            Value::Array(list)
        }
        Kind::Number => match text.parse() {
            Ok(number) => Value::Float(number),
            Err(_) => Value::String(text.into()),
        },
        Kind::Whole => match text.parse() {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::String(text.into()),
        },
        Kind::Other => match text.parse() {
            Ok(truth) => Value::Boolean(truth),
            Err(_) => Value::String(text.trim_matches('"').into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(defenses: &[&str], set: &[&str]) -> Result<String, String> {
        let owned = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        policy(&owned(defenses), &owned(set), 3).map(|asked| asked.policy.to_string())
    }

    #[test]
    fn every_name_has_defaults_and_every_setting_is_known() {
        for name in DefenseConfig::NAMES {
            assert!(of(&[name], &[]).unwrap().starts_with(name));
            for setting in settings(name) {
                let text = match (setting.kind, setting.key) {
                    (_, "template") => "fisip",
                    (Kind::Other, _) => "true",
                    (Kind::List, "epsilon") => "0.3,0.2",
                    (Kind::List, _) => "0.2,0.3",
                    (Kind::Whole, _) => "3",
                    (Kind::Number, _) => "0.25",
                };
                let config = of(&[name], &[&format!("{}={text}", setting.key)]).unwrap();
                assert!(config.contains(setting.key), "{config}");
                assert!(help().contains(setting.key));
            }
        }
    }

    #[test]
    fn names_texts_and_settings_go_together() {
        let of = |defenses: &[&str], set: &[&str]| of(defenses, set).unwrap();
        assert_eq!(of(&["rounding"], &["decimals=1"]), "rounding (decimals = 1)");
        assert_eq!(of(&["rounding"], &["rounding.decimals=1"]), "rounding (decimals = 1)");
        assert_eq!(
            of(&["temperature", "rounding"], &["decimals=3", "temperature=4"]),
            "temperature (temperature = 4.0) then rounding (decimals = 3)"
        );
        assert_eq!(
            of(&["temperature (temperature = 1.5) then rounding, fresh noise"], &[]),
            "temperature (temperature = 1.5) then rounding (decimals = 2), fresh noise"
        );
        let list = of(&["privee_dp_plus_plus"], &["sigma=1,2,3", "template=householder"]);
        assert!(list.contains("sigma = [1.0, 2.0, 3.0]") && list.contains("householder"), "{list}");
        assert!(of(&["privee_dp_plus_plus"], &["epsilon=0.1"]).contains("epsilon = [0.1, 0.1]"));
        assert_eq!(of(&["codebook"], &[]), "codebook (size = 12)");
        // A config cannot be broken out of.
        assert!(super::policy(&["privee_dp".into()], &["template=fisip\"\nname = \"none".into()], 3).is_err());
    }

    #[test]
    fn errors_name_the_setting_and_the_known_ones() {
        let error = |defenses: &[&str], set: &[&str]| of(defenses, set).unwrap_err();
        for (defenses, set, parts) in [
            (&["rounding"][..], &["digits=1"][..], &["`digits`", "rounding takes decimals"][..]),
            (&["none"], &["k=1"], &["none takes none"]),
            (&["rounding (decimals = 1)"], &["decimals=2"], &["without brackets"]),
            (&["rounding"], &["decimals"], &["key=value"]),
            (&["rounding"], &["decimals=few"], &["rounding", "0 to 15"]),
            (&["rounding"], &["decimals=-1"], &["rounding"]),
            (&["privee"], &[], &["no defense `privee`", "privee_dp"]),
            (&["rounding"], &["zero_floor=0"], &["zero_floor"]),
            (&[""], &[], &["no defense"]),
        ] {
            let error = error(defenses, set);
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
