//! What the prior says without any score: the control of every attack with the same prior. An error of the attack above that of
//! its control is not the release's doing (Jayaraman and Evans, CCS 2022).

use rand::Rng;

use super::Moments;
use super::used::MOMENTS;
use crate::attack::entry::{Entry, Group};
use crate::attack::{AdversaryView, Attack, AttackError, Need, Needs, Reconstruction, Status, contract};

/// The mean of the prior given the active features, clipped to [0, 1].
#[derive(Debug, Clone, Copy)]
pub struct Imputation {
    /// The moments it uses. With those of the passive features alone it is their mean.
    pub moments: Moments,
}

/// `imputation`.
pub(in crate::attack) static IMPUTATION: Entry = Entry {
    settings: &[&MOMENTS],
    ..Entry::new("imputation", Group::Informed, |settings| Box::new(Imputation { moments: settings.into() }))
};

impl Attack for Imputation {
    fn needs(&self) -> Needs {
        Needs { prior: Need::Yes, ..Needs::default() }
    }

    fn reconstruct(&self, view: &AdversaryView<'_>, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let (mut means, _) = self.moments.of(view)?.given(view.active().matrix())?;
        contract::clamp(&mut means);
        Ok(Reconstruction::new(means, Status::Baseline))
    }
}
