//! Attacks that use knowledge of the features, and the settings that state it.

use rand::Rng;

use super::settings::{AnySetting, Setting, numbers};
use super::{
    AdversaryView, Attack, AttackError, ExactBinary, FeatureKnowledge, Needs, RangeScaling,
    Reconstruction, Settings, Snap, StatedKnowledge,
};

static LOWER: Setting<Vec<f64>> = Setting {
    key: "lower",
    takes: "the least value of each passive feature: one number for all, or one for each, with commas (default 0)",
    read: |value| numbers(value, ','),
};
static UPPER: Setting<Vec<f64>> = Setting {
    key: "upper",
    takes: "the greatest value of each passive feature: one number for all, or one for each, with commas (default 1)",
    read: |value| numbers(value, ','),
};
static BINARY: Setting<Option<Vec<usize>>> = Setting {
    key: "binary",
    takes: "which passive features are at one end of their range or the other: `all`, or positions from 0, with commas",
    read: |value| match value.trim() {
        "all" => Some(None),
        positions => {
            Some(Some(positions.split(',').map(|p| p.trim().parse().ok()).collect::<Option<_>>()?))
        }
    },
};
static LEVELS: Setting<Vec<(usize, Vec<f64>)>> = Setting {
    key: "levels",
    takes: "the values that passive features take: position:value/value/..., with commas (as 0:0/0.5/1,3:0/1)",
    read: |value| {
        let feature = |text: &str| {
            let (position, levels) = text.split_once(':')?;
            Some((position.trim().parse().ok()?, numbers(levels, '/')?))
        };
        value.split(',').map(feature).collect()
    },
};
static DISCRETE: Setting<bool> = Setting {
    key: "discrete",
    takes: "what is made of `binary` and `levels`: `snap` (to the nearest, the default) or `exact` (all assignments of the two-valued ones)",
    read: |value| match value.trim() {
        "snap" => Some(false),
        "exact" => Some(true),
        _ => None,
    },
};
static STEP: Setting<Vec<f64>> = Setting {
    key: "step",
    takes: "the distance of neighbouring values of each passive feature, as a share of its range: one number for all, or one for each, \
            with commas; 0 is not known (default)",
    read: |value| numbers(value, ','),
};
static GROUPS: Setting<Vec<(usize, usize)>> = Setting {
    key: "groups",
    takes: "columns of which exactly one is 1: first-last of each group, with commas (as 0-3,4-9)",
    read: |value| {
        let group = |text: &str| {
            let (first, last) = text.split_once('-')?;
            Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
        };
        value.split(',').map(group).collect()
    },
};
static WIDTH: Setting<Vec<f64>> = Setting {
    key: "width",
    takes: "the width of each feature's declared range in its own units, for grids that have to be found: one number for all, or one \
            for each, with commas; 0 is not known (default)",
    read: |value| numbers(value, ','),
};

impl From<&Settings> for StatedKnowledge {
    fn from(settings: &Settings) -> Self {
        Self {
            lower: settings.get(&LOWER).unwrap_or_default(),
            upper: settings.get(&UPPER).unwrap_or_default(),
            binary: settings.get(&BINARY),
            levels: settings.get(&LEVELS).unwrap_or_default(),
            exact: settings.get(&DISCRETE).unwrap_or_default(),
            step: settings.get(&STEP).unwrap_or_default(),
            groups: settings.get(&GROUPS).unwrap_or_default(),
            width: settings.get(&WIDTH).unwrap_or_default(),
        }
    }
}

impl StatedKnowledge {
    /// Returns true if the setting of this name states something about the features.
    #[must_use]
    pub fn is_setting(key: &str) -> bool {
        Self::SETTINGS.iter().any(|setting| setting.key() == key)
    }

    /// The settings that state knowledge of the features.
    pub(super) const SETTINGS: &'static [&'static dyn AnySetting] =
        &[&LOWER, &UPPER, &BINARY, &LEVELS, &DISCRETE, &STEP, &GROUPS, &WIDTH];

    /// Returns an attack that uses this knowledge; `attack` itself if no ranges and levels are
    /// stated. Grids, groups and widths do not change an attack that ignores them, so the attacks
    /// of the papers give the same results with them and without.
    #[must_use]
    pub fn wrap(&self, attack: Box<dyn Attack>) -> Box<dyn Attack> {
        if self.leaves_attacks() {
            attack
        } else {
            Box::new(KnowledgeWrapper { attack, stated: self.clone() })
        }
    }
}

/// An attack with stated knowledge, which is applied once the number of features is known.
#[derive(Debug)]
struct KnowledgeWrapper {
    attack: Box<dyn Attack>,
    stated: StatedKnowledge,
}

impl Attack for KnowledgeWrapper {
    fn needs(&self) -> Needs {
        self.attack.needs()
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        self.stated.about(view.target_features())?.inform(
            &*self.attack,
            self.stated.exact,
            view,
            rng,
        )
    }
}

impl FeatureKnowledge {
    /// Runs an attack that uses this knowledge; `exact` as in [`StatedKnowledge`].
    pub(super) fn inform(
        self,
        attack: &dyn Attack,
        exact: bool,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let discrete = self.levels().iter().any(Option::is_some);
        // The attack works on [0, 1], where all assignments are tried too; values are made exact
        // last, in their own units. A baseline does not look at the scores, and assignments are
        // chosen by them.
        if discrete && exact && attack.needs().white_box() {
            let exact = ExactBinary { inner: attack, knowledge: self.in_units()? };
            let mapped = RangeScaling { inner: exact, knowledge: self.clone() };
            Snap { inner: mapped, knowledge: self }.reconstruct(view, rng)
        } else if discrete {
            let mapped = RangeScaling { inner: attack, knowledge: self.clone() };
            Snap { inner: mapped, knowledge: self }.reconstruct(view, rng)
        } else {
            RangeScaling { inner: attack, knowledge: self }.reconstruct(view, rng)
        }
    }
}
