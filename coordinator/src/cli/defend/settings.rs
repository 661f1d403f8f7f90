//! The policy of `defend`, from the names, texts and settings of the command line.

use toml::Table;
use vfl_defense::policy::{Facts, NoiseMode};
use vfl_defense::{DefenseConfig, Policy};
use vfl_server::cli::key_value;

/// Returns the help on the defenses and their settings.
pub(super) fn help() -> String {
    let mut out = String::new();
    for facts in DefenseConfig::ALL {
        out.push_str(&format!("\n  {}", facts.name));
        for parameter in facts.parameters {
            out.push_str(&format!("\n    {}: {}", parameter.name, parameter.help()));
        }
    }
    out
}

/// The policy and the settings that the command line asks for.
pub(super) struct DefendSettings {
    pub(super) policy: Policy,
    /// The value that replaces a score of 0 before the logarithm.
    pub(super) zero_floor: f64,
}

/// The default of `zero_floor`. No model gives a smaller score without underflow.
const ZERO_FLOOR: f64 = 1e-300;

/// Builds the policy for `classes` classes from names, policy texts and settings.
pub(super) fn policy(
    defenses: &[String],
    set: &[String],
    classes: usize,
) -> Result<DefendSettings, String> {
    let mut pairs = Vec::with_capacity(set.len());
    for pair in set {
        let (key, value) = key_value(pair).map_err(|e| format!("--set {e}"))?;
        pairs.push((key, value, false));
    }
    let mut asked = DefendSettings { policy: Policy::default(), zero_floor: ZERO_FLOOR };
    for text in defenses {
        let mut text = text.trim();
        if let Some(before) =
            text.strip_suffix("fresh noise").and_then(|b| b.trim_end().strip_suffix(','))
        {
            (asked.policy.noise, text) = (NoiseMode::Fresh, before.trim_end());
        }
        for part in text.split(" then ").map(str::trim) {
            let config = match Facts::named(part) {
                Ok(facts) => from_settings(facts, &mut pairs, classes)?,
                // Not a bare name: a text with its parameters in brackets, or a mistake.
                Err(_) => part.parse::<DefenseConfig>().map_err(|e| e.to_string())?,
            };
            asked.policy.defenses.push(config);
        }
    }
    for (key, value, used) in pairs {
        if key == "zero_floor" {
            let floor = value
                .parse()
                .ok()
                .filter(|floor: &f64| *floor >= f64::MIN_POSITIVE && *floor < 1.0);
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
        .map(|config| format!("{} takes {}", config.name(), config.facts().parameter_names()))
        .collect();
    let key: String = key.chars().take(80).collect();
    format!(
        "--set: no setting `{key}` of a defense named without brackets; {}; zero_floor is there for all",
        known.join("; ")
    )
}

/// Builds the config of a defense given by its bare name, with all settings of the command line
/// that it knows.
fn from_settings(
    facts: &Facts,
    pairs: &mut [(&str, &str, bool)],
    classes: usize,
) -> Result<DefenseConfig, String> {
    let mut table = Table::new();
    for parameter in facts.parameters {
        if let Some(default) = parameter.command_default(classes) {
            table.insert(parameter.name.into(), default);
        }
        for (key, text, used) in pairs.iter_mut() {
            if *key == parameter.name || key.split_once('.') == Some((facts.name, parameter.name)) {
                table.insert(parameter.name.into(), parameter.kind.read(text));
                *used = true;
            }
        }
    }
    DefenseConfig::from_parameters(facts.name, table).map_err(|e| format!("--set: {e}"))
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
        use vfl_defense::policy::ParameterKind;
        for facts in DefenseConfig::ALL {
            assert!(of(&[facts.name], &[]).unwrap().starts_with(facts.name));
            for parameter in facts.parameters {
                let text = match (parameter.kind, parameter.name) {
                    (ParameterKind::Word(words), _) => words[words.len() - 1],
                    (ParameterKind::Truth, _) => "true",
                    (ParameterKind::Numbers, "epsilon") => "0.3,0.2",
                    (ParameterKind::Numbers, _) => "0.2,0.3",
                    (ParameterKind::Whole, _) => "3",
                    (ParameterKind::Number, _) => "0.25",
                };
                let config = of(&[facts.name], &[&format!("{}={text}", parameter.name)]).unwrap();
                assert!(config.contains(parameter.name), "{config}");
                assert!(help().contains(&format!("{}: ", parameter.name)));
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
        // A setting cannot inject another key into the config.
        assert!(
            super::policy(&["privee_dp".into()], &["template=fisip\"\nname = \"none".into()], 3)
                .is_err()
        );
    }

    #[test]
    fn errors_name_the_setting_and_the_known_ones() {
        let error = |defenses: &[&str], set: &[&str]| of(defenses, set).unwrap_err();
        for (defenses, set, parts) in [
            (&["rounding"][..], &["digits=1"][..], &["`digits`", "rounding takes decimals"][..]),
            (&["none"], &["k=1"], &["none takes none"]),
            (&["rounding (decimals = 1)"], &["decimals=2"], &["without brackets"]),
            (&["rounding"], &["decimals"], &["key=value"]),
            (&["rounding"], &["decimals=few"], &["rounding", "`decimals`", "few", "0 to 15"]),
            (&["rounding"], &["decimals=-1"], &["rounding", "`decimals` is -1", "0 to 15"]),
            (
                &["privee_dp"],
                &["template=house"],
                &["privee_dp", "`template`", "house", "householder"],
            ),
            (
                &["privee_dp_plus_plus"],
                &["sigma=1,b"],
                &["privee_dp_plus_plus", "`sigma`", "\"b\""],
            ),
            (&["privee"], &[], &["no defense `privee`", "privee_dp"]),
            (&["rounding"], &["zero_floor=0"], &["zero_floor"]),
            (&[""], &[], &["no defense"]),
        ] {
            let error = error(defenses, set);
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
