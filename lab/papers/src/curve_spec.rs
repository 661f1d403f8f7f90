//! The attacks of a figure, by name, so that a figure can request attacks that this build does not
//! have.

use std::collections::BTreeMap;
use std::str::FromStr;

use vfl_attack::{Method, Settings};

use super::ReproduceError;
use super::document::CurveRole;

/// Settings as `key=value` pairs.
pub type SettingPairs = Vec<(String, String)>;

/// A curve that a figure requests.
pub(super) struct CurveSpec {
    /// The name of the curve.
    pub(super) curve: &'static str,
    /// The name of the method.
    pub(super) method: &'static str,
    /// The settings that are not the method's defaults.
    pub(super) settings: SettingPairs,
    /// The role of the curve: guess or attack.
    pub(super) role: CurveRole,
    /// The most records of each split to attack.
    pub(super) at_most: Option<usize>,
    /// True if it knows means and covariances of all features, from the records that are not in the
    /// test set.
    pub(super) informed: bool,
    /// True if it knows the public schema: ranges, and the grids that the values lie on.
    pub(super) schema: bool,
}

impl CurveSpec {
    /// Requests a method by its own name, with its defaults, on all records.
    pub(super) fn new(method: &'static str) -> Self {
        let guess = matches!(method, "random" | "zero" | "half");
        let role = if guess { CurveRole::Guess } else { CurveRole::Attack };
        Self {
            curve: method,
            method,
            settings: SettingPairs::new(),
            role,
            at_most: None,
            informed: false,
            schema: false,
        }
    }

    /// Renames the curve, for figures that run a method more than once.
    pub(super) fn called(mut self, curve: &'static str) -> Self {
        self.curve = curve;
        self
    }

    /// Requests the adversaries that the papers leave out: they know means and covariances of all
    /// features from other records, with scores and without.
    pub(super) fn beyond() -> [Self; 2] {
        let one = |method, curve| Self {
            informed: true,
            role: CurveRole::Beyond,
            ..Self::new(method).called(curve)
        };
        [one("conditional_mean", "informed"), one("imputation", "control")]
    }

    /// Requests another adversary that the papers leave out: it knows the grids that the features
    /// lie on.
    pub(super) fn counting() -> Self {
        Self { schema: true, role: CurveRole::Beyond, ..Self::new("lattice") }
    }

    /// Adds settings; the last value of a key counts.
    pub(super) fn with<'a>(
        mut self,
        settings: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        self.settings.extend(settings.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())));
        self
    }

    /// Limits it to `records` records of each split.
    pub(super) fn at_most(mut self, records: usize) -> Self {
        self.at_most = Some(records);
        self
    }
}

/// An attack that will run.
pub(super) struct CurveRun {
    pub(super) curve: &'static str,
    pub(super) role: CurveRole,
    pub(super) method: Method,
    pub(super) settings: Settings,
    /// The settings as given, for the document.
    pub(super) given: BTreeMap<String, String>,
    /// The number of records of each split.
    pub(super) records: usize,
    /// True if it knows means and covariances.
    pub(super) informed: bool,
    /// True if it knows the public schema.
    pub(super) schema: bool,
    /// The index among all attacks of the figure, which determines its random numbers; leaving
    /// others out does not change it.
    pub(super) place: u64,
}

/// Picks the figure's attacks that `only` names (none named: all), on at most `records` records.
///
/// Attacks that this build does not have are returned as notes.
///
/// # Errors
/// [`ReproduceError::NotInFigure`] for a name the figure does not have, [`ReproduceError::Method`]
/// for settings that the method does not take.
pub(super) fn pick(
    wanted: Vec<CurveSpec>,
    only: &[String],
    records: usize,
) -> Result<(Vec<CurveRun>, Vec<String>), ReproduceError> {
    if let Some(name) = only.iter().find(|name| wanted.iter().all(|w| w.curve != name.as_str())) {
        let known = wanted.iter().map(|w| w.curve).collect::<Vec<_>>().join(", ");
        return Err(ReproduceError::NotInFigure { name: name.chars().take(80).collect(), known });
    }
    let (mut contenders, mut notes) = (Vec::new(), Vec::new());
    for (place, wanted) in wanted.into_iter().enumerate() {
        if !only.is_empty() && only.iter().all(|name| name != wanted.curve) {
            continue;
        }
        let Ok(method) = Method::from_str(wanted.method) else {
            notes.push(format!(
                "{} is left out: this build has no attack {}",
                wanted.curve, wanted.method
            ));
            continue;
        };
        contenders.push(CurveRun {
            curve: wanted.curve,
            role: wanted.role,
            method,
            settings: Settings::read(
                wanted.settings.iter().map(|(k, v)| (k.as_str(), v.as_str())),
            )?,
            given: wanted.settings.into_iter().collect(),
            records: wanted.at_most.map_or(records, |most| most.min(records)),
            informed: wanted.informed,
            schema: wanted.schema,
            place: place as u64,
        });
    }
    Ok((contenders, notes))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn wanted() -> Vec<CurveSpec> {
        vec![
            CurveSpec::new("zero"),
            CurveSpec::new("no_such_attack"),
            CurveSpec::new("half").called("h").at_most(5),
        ]
    }

    #[test]
    fn what_this_build_lacks_becomes_a_note() {
        let (picked, notes) = pick(wanted(), &[], 7).unwrap();
        let facts: Vec<_> =
            picked.iter().map(|c| (c.curve, c.method, c.records, c.place)).collect();
        assert_eq!(facts, [("zero", Method::Zero, 7, 0), ("h", Method::Half, 5, 2)]);
        assert_eq!(notes, ["no_such_attack is left out: this build has no attack no_such_attack"]);
    }

    #[test]
    fn a_choice_keeps_places_and_refuses_strangers() {
        let (picked, notes) = pick(wanted(), &["h".into()], 3).unwrap();
        assert_eq!((picked.len(), picked[0].place, picked[0].records, notes.len()), (1, 2, 3, 0));
        let error = pick(wanted(), &["half".into()], 3).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("half") && error.contains("zero, no_such_attack, h"), "{error}");
        let bad = vec![CurveSpec::new("zero").with([("zero_floor", "2")])];
        assert!(matches!(pick(bad, &[], 1), Err(ReproduceError::Method(_))));
    }
}
