//! Which of the moments that are known an attack uses.

use crate::attack::settings::Setting;
use crate::attack::sizes::same;
use crate::attack::{AdversaryView, AttackError, Prior, Settings};

/// Which moments are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moments {
    /// All that are known, with the active features where they are.
    #[default]
    Joint,
    /// Those of the passive features alone. From few records they are known better than the joint ones.
    Own,
}

/// `moments`.
pub(super) static MOMENTS: Setting<Moments> = Setting {
    key: "moments",
    takes: "which moments imputation, conditional_mean, gaussian and posterior_mean use: `joint` (with the active features, the \
            default) or `own` (of the passive features alone)",
    read: |value| match value.trim() {
        "joint" => Some(Moments::Joint),
        "own" => Some(Moments::Own),
        _ => None,
    },
};

impl From<&Settings> for Moments {
    fn from(settings: &Settings) -> Self {
        settings.get(&MOMENTS).unwrap_or_default()
    }
}

impl Moments {
    /// These moments of a view.
    pub(super) fn of(self, view: &AdversaryView<'_>) -> Result<Prior, AttackError> {
        let prior = view.prior()?;
        same("moments", "features", view.target_features(), prior.features())?;
        Ok(match self {
            Self::Joint => prior.clone(),
            Self::Own => prior.own(),
        })
    }
}
