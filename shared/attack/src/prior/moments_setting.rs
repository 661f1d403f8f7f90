//! The choice of the moments that an attack uses.

use crate::sizes::same;
use crate::{AdversaryView, AttackError, Prior, Setting, Settings};

/// The choice of the moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moments {
    /// All known moments, those with the active features included.
    #[default]
    Joint,
    /// Those of the passive features alone. Few records tell them better than the joint ones.
    Own,
}

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
    /// Returns these moments of a view.
    pub(super) fn of(self, view: &AdversaryView<'_>) -> Result<Prior, AttackError> {
        let prior = view.prior()?;
        same("moments", "features", view.target_features(), prior.features())?;
        Ok(match self {
            Self::Joint => prior.clone(),
            Self::Own => prior.own(),
        })
    }
}
