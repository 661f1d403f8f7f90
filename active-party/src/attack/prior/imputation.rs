//! What the prior says without any score: the control of every attack with the same prior. An error of the attack above that of
//! its control is not the release's doing (Jayaraman and Evans, CCS 2022).

use rand::Rng;

use crate::attack::entry::{Entry, Group};
use crate::attack::{AdversaryView, Attack, AttackError, Need, Needs, Reconstruction, Status, contract};

/// The mean of the prior given the active features, clipped to [0, 1].
#[derive(Debug, Clone, Copy)]
pub struct Imputation;

/// `imputation`.
pub(in crate::attack) static IMPUTATION: Entry = Entry::new("imputation", Group::Informed, |_| Box::new(Imputation));

impl Attack for Imputation {
    fn needs(&self) -> Needs {
        Needs { prior: Need::Yes, ..Needs::default() }
    }

    fn reconstruct(&self, view: &AdversaryView<'_>, _rng: &mut dyn Rng) -> Result<Reconstruction, AttackError> {
        let (mut means, _) = view.prior()?.given(view.active().matrix())?;
        contract::clamp(&mut means);
        Ok(Reconstruction::new(means, Status::Baseline))
    }
}
