//! Passive parties that help the adversary.
//!
//! z = W_act y + Σ W_p x_p + b has one term per passive party. A party that colludes shows the
//! adversary its logit share of the records, its term W_p x_p, which moves to the known side. The
//! others are attacked as if there were no more. [`Coalition`](super::Coalition) is the same for an
//! adversary that holds the colluders' features.

use nalgebra::DMatrix;
use rand::Rng;
use vfl_core::types::FeatureBlock;

use super::entry::{Base, Entry, Group};
use super::{
    AdversaryView, Attack, AttackError, Colluders, Evidence, KnownModel, Need, Needs,
    Reconstruction, StatedKnowledge,
};

/// The attack with colluders. Their shares move to the known side, and the inner attack estimates
/// the features of the others. The features of the colluders are no target: their estimates are ½.
#[derive(Debug)]
pub struct Collusion {
    /// The attack on the others.
    pub inner: Box<dyn Attack>,
    /// The knowledge of all features, those of the colluders included.
    pub knowledge: StatedKnowledge,
}

/// The entry of `coalition`. Its settings state knowledge of all features; the base gets the part
/// about the other parties.
pub(super) static COALITION: Entry =
    Entry::upon("coalition", Group::Helped, Base::CHOSEN, |settings, base| {
        Box::new(Collusion { inner: base, knowledge: settings.into() })
    });

impl Attack for Collusion {
    fn needs(&self) -> Needs {
        Needs { colluders: Need::Yes, ..self.inner.needs() }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let Some(Colluders { features, shares }) = view.side_information().colluders else {
            return Err(AttackError::Missing {
                what: "passive parties that collude with the adversary",
            });
        };
        let model = view.model();
        let w_pas = model.output_weights()?;
        let (k, n) = (model.classes(), view.records());
        super::sizes::same("features of colluders", "features", w_pas.ncols(), features.len())?;
        super::sizes::same("shares of colluders", "classes", k, shares.nrows())?;
        super::sizes::same("shares of colluders", "records", n, shares.ncols())?;
        let others: Vec<usize> = (0..features.len()).filter(|&i| !features[i]).collect();
        if others.is_empty() {
            return Err(AttackError::NoTarget);
        }
        // The shares count as k more features of the adversary, whose weights are the unit matrix.
        let w_act = model.active_weights();
        let known =
            DMatrix::from_fn(k, w_act.ncols() + k, |i, j| match j.checked_sub(w_act.ncols()) {
                None => w_act[(i, j)],
                Some(class) => f64::from(u8::from(class == i)),
            });
        let own = view.active().matrix();
        let y =
            DMatrix::from_fn(own.nrows() + k, n, |i, record| match i.checked_sub(own.nrows()) {
                None => own[(i, record)],
                Some(class) => shares[(class, record)],
            });
        let y = FeatureBlock::new(y)?;
        let reduced =
            KnownModel::white_box(known, model.bias().clone(), w_pas.select_columns(&others))?
                .with_link(model.link());
        let helping: Vec<usize> = (0..features.len()).filter(|&i| features[i]).collect();
        let mut side = view.side_information();
        let prior = match side.prior {
            Some(prior) => {
                super::sizes::same("moments", "features", features.len(), prior.features())?;
                Some(prior.learning(
                    &others,
                    &helping,
                    &w_pas.select_columns(&helping),
                    own.nrows(),
                ))
            }
            None => None,
        };
        side.prior = prior.as_ref();
        let view = view.with_active(&reduced, &y)?.with_side_information(side);
        let found = match &self.knowledge {
            nothing if nothing.leaves_attacks() => self.inner.reconstruct(&view, rng)?,
            stated => {
                let of_others = stated.about(features.len())?.select(&others);
                of_others.inform(&*self.inner, stated.exact, &view, rng)?
            }
        };
        let mut estimates = DMatrix::from_element(features.len(), n, 0.5);
        for (row, &feature) in found.estimates.row_iter().zip(&others) {
            estimates.row_mut(feature).copy_from(&row);
        }
        // The evidence is only about the others' features, and the estimates are about all.
        Ok(Reconstruction { estimates, evidence: Evidence::Nothing, ..found })
    }
}
