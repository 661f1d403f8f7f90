//! The estimate from the prior without any score: the control of every attack with the same prior.
//! If the error of the attack is above that of its control, the release is not the cause (Jayaraman
//! and Evans, CCS 2022).

use rand::Rng;

use super::Moments;
use super::moments_setting::MOMENTS;
use crate::{
    AdversaryView, Attack, AttackError, Entry, Group, Need, Needs, Reconstruction, Status, contract,
};

/// The mean of the prior given the active features, clipped to [0, 1].
#[derive(Debug, Clone, Copy)]
pub struct Imputation {
    /// The moments that it uses. With those of the passive features alone it is their mean.
    pub moments: Moments,
}

pub(crate) static IMPUTATION: Entry = Entry {
    settings: &[&MOMENTS],
    ..Entry::new("imputation", Group::Informed, |settings| {
        Box::new(Imputation { moments: settings.into() })
    })
};

impl Attack for Imputation {
    fn needs(&self) -> Needs {
        Needs { prior: Need::Yes, ..Needs::default() }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let (mut means, _) = self.moments.of(view)?.given(view.active().matrix())?;
        contract::clamp(&mut means);
        Ok(Reconstruction::new(means, Status::Baseline))
    }
}
