//! The settings of `transform`, from a case and from the command line.

use serde_json::{Map, Value};
use vfl_server::cli::key_value;
use vfl_transform::TransformConfig;

/// A setting: its key, whether its value is a list, and its description.
struct Setting {
    key: &'static str,
    list: bool,
    takes: &'static str,
}

const fn setting(key: &'static str, takes: &'static str) -> Setting {
    Setting { key, list: false, takes }
}

const EPSILON: Setting = setting(
    "epsilon",
    "distance g from the true parameters, at least 0; default a tenth of the mean squared weight without its mean over classes",
);
const RANDOMISED: Setting =
    setting("randomised", "true or false (default): draw a secret distance from 0 to epsilon");

/// The transforms and their settings.
const TRANSFORMS: [(&str, &[Setting]); 10] = [
    ("none", &[]),
    ("negate", &[]),
    ("complement", &[]),
    ("permute", &[]),
    (
        "selective",
        &[Setting {
            key: "features",
            list: true,
            takes: "positions of the features to complement, from 0",
        }],
    ),
    ("random_orthonormal", &[]),
    ("least_squares_optimal", &[]),
    (
        "stiefel",
        &[
            EPSILON,
            RANDOMISED,
            setting(
                "case",
                "i (against half_star) or ii (against least_squares); default i if d >= k",
            ),
            setting(
                "penalty",
                "weight of (g - epsilon)^2, at least 0; default 100 (1/d) Tr K_0 / epsilon^2",
            ),
            setting("starts", "starting points of the search, 1 to 1000; default 32"),
        ],
    ),
    ("single_feature", &[EPSILON, RANDOMISED]),
    ("binary", &[EPSILON, RANDOMISED]),
];

/// Returns the transforms and their settings, for the help.
pub(super) fn help() -> String {
    let mut out = String::new();
    for (name, settings) in TRANSFORMS {
        out.push_str(&format!("\n  {name}"));
        for setting in settings {
            out.push_str(&format!("\n    {}: {}", setting.key, setting.takes));
        }
    }
    out
}

/// The settings that the case and the command line give.
pub(super) struct SettingSources<'a> {
    /// The case's settings.
    pub(super) settings: Map<String, Value>,
    /// The case's `case`.
    pub(super) case: Option<Value>,
    /// True if they are meant for this transform.
    pub(super) own: bool,
    /// The key=value pairs of the command line.
    pub(super) set: &'a [String],
}

/// Reads the config of a transform; `unit` is the unit of the default of `epsilon`.
pub(super) fn config(
    name: &str,
    given: SettingSources<'_>,
    unit: f64,
) -> Result<TransformConfig, String> {
    let Some((name, known)) = TRANSFORMS.iter().find(|(known, _)| *known == name) else {
        let names = TRANSFORMS.map(|(name, _)| name).join(", ");
        return Err(format!("no transform `{}`; there are {names}", shortened(name)));
    };
    let find = |key: &str| known.iter().find(|setting| setting.key == key);
    let unknown = |key: &str| {
        let keys: Vec<_> = known.iter().map(|setting| setting.key).collect();
        let keys = if keys.is_empty() { "no setting".to_owned() } else { keys.join(", ") };
        format!("no setting `{}` of `{name}`; it takes {keys}", shortened(key))
    };
    let mut table = Map::new();
    if find("epsilon").is_some() {
        table.insert("epsilon".into(), Value::from(0.1 * unit));
    }
    for (key, value) in
        given.settings.into_iter().chain(given.case.map(|case| ("case".to_owned(), case)))
    {
        match find(&key) {
            Some(_) => drop(table.insert(key, value)),
            None if !given.own => {}
            None => return Err(unknown(&key)),
        }
    }
    for pair in given.set {
        let (key, text) = key_value(pair).map_err(|e| format!("--set {e}"))?;
        let setting = find(key).ok_or_else(|| format!("--set: {}", unknown(key)))?;
        table.insert(setting.key.into(), value(text, setting.list));
    }
    table.insert("name".into(), Value::from(*name));
    serde_json::from_value(Value::Object(table)).map_err(|e| {
        let takes: Vec<_> =
            known.iter().map(|s| format!("`{}` takes {}", s.key, s.takes)).collect();
        let takes =
            if takes.is_empty() { "it takes no setting".to_owned() } else { takes.join("; ") };
        format!("settings of `{name}`: {} ({takes})", vfl_core::json::json_error(&e))
    })
}

/// Reads a value as JSON. A word that is not JSON is a string.
fn value(text: &str, list: bool) -> Value {
    if list {
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
        let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
        return Value::Array(parts.map(|part| value(part, false)).collect());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text.trim_matches('"')))
}

/// Returns the start of a text from the command line.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, set: &[&str]) -> Result<TransformConfig, String> {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        config(name, SettingSources { settings: Map::new(), case: None, own: true, set: &set }, 2.0)
    }

    #[test]
    fn every_name_and_every_setting_is_read() {
        for (name, known) in TRANSFORMS {
            let text = |key| match key {
                "features" => "0, 3",
                "randomised" => "true",
                "case" => "ii",
                "starts" => "4",
                _ => "0.25",
            };
            let set: Vec<String> =
                known.iter().map(|s| format!("{}={}", s.key, text(s.key))).collect();
            let found = read(name, &set.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
            assert_eq!(found.name(), name);
            // Nothing of what was set is lost.
            let Value::Object(kept) = serde_json::to_value(&found).unwrap() else { panic!() };
            assert_eq!(kept.len(), known.len() + 1, "{kept:?}");
            assert!(help().contains(name));
        }
        assert_eq!(read("binary", &[]).unwrap().epsilon(), Some(0.2));
    }

    #[test]
    fn errors_name_the_setting_and_the_known_ones() {
        for (name, set, parts) in [
            ("stiefle", &[][..], &["no transform `stiefle`", "stiefel"][..]),
            ("stiefel", &["size=1"], &["`size`", "epsilon, randomised, case, penalty, starts"]),
            ("negate", &["epsilon=1"], &["`epsilon`", "no setting"]),
            ("binary", &["epsilon"], &["key=value"]),
            ("binary", &["epsilon=much"], &["`binary`", "expected f64"]),
            ("stiefel", &["case=iii"], &["`stiefel`", "i (against half_star)"]),
            ("stiefel", &["starts=-1"], &["`stiefel`"]),
            ("selective", &[], &["features"]),
            ("selective", &["features=-1"], &["features"]),
        ] {
            let error = read(name, set).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
