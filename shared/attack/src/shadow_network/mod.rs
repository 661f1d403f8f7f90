//! The black box with auxiliary records if the passive model may be a network (J section 4.3.2,
//! algorithm 2, and 5.3.2). From records whose passive features it knows, and their scores, the
//! adversary trains a network of an architecture that it guesses, by Adam. It then attacks through
//! this network as in the white box.
//!
//! It knows the active party's own part of the logits. The shadow stands for the sum of the passive
//! parties' parts, whatever they are: a linear model, one network or several. J (22) asks for as
//! many records as the network has parameters, divided by the classes.

mod fit;
mod settings;

pub use fit::{FittedShadow, ShadowLoss, fit_shadow};
pub use settings::{Architecture, MAX_STARTS, NetworkTraining};

use std::sync::Arc;

use nalgebra::DVector;
use rand::Rng;
use vfl_core::types::ReleasedScores;

use self::settings::{ACTIVATION, PENALTY, RATE, SHADOW, STARTS, STEPS};
use super::entry::{Base, BaseChoice, Entry, Group};
use super::shadow_model::{BIAS, FIT};
use super::{
    AdversaryView, Attack, AttackError, Descent, KnownModel, KnownNetwork, Need, Needs, Parameters,
    Reconstruction, Settings, ShadowBias, ShadowFit, StatedKnowledge,
};

/// The attack that trains a shadow on auxiliary records, then runs another attack on it as if it
/// were the passive model.
///
/// Status, outcomes and residuals of the reconstruction are those of the inner attack on the
/// shadow.
#[derive(Debug)]
pub struct ShadowNetwork {
    /// The adversary's guess of the passive model's architecture.
    pub architecture: Architecture,
    /// The loss of the fit. `None`: squared log-ratios, or divergences if a score of the records is
    /// 0 or below, which has no logarithm.
    pub fit: Option<ShadowFit>,
    /// The knowledge of the bias. If it is unknown, the last layer has one.
    pub bias: ShadowBias,
    /// The settings of the training. Those that are left open follow the fit.
    pub settings: Settings,
    /// The attack on the shadow.
    pub inner: Box<dyn Attack>,
}

/// The default base, which takes networks by itself.
const BASE: Base =
    Base { name: |_| "gradient_inversion", chosen: BaseChoice::Base, unclipped: false };

pub(super) static SHADOW_NETWORK: Entry = Entry {
    settings: &[&SHADOW, &ACTIVATION, &FIT, &BIAS, &STEPS, &RATE, &PENALTY, &STARTS],
    // Records known whole give moments, so this attack has a control with the same knowledge.
    ..Entry::upon("shadow_network", Group::Informed, BASE, |settings, base| {
        // The knowledge of the features goes to the base, which has parameters.
        let inner = StatedKnowledge::from(settings).wrap(base);
        Box::new(ShadowNetwork {
            architecture: settings.into(),
            fit: settings.get(&FIT),
            bias: settings.get(&BIAS).unwrap_or(ShadowBias::Unknown),
            settings: settings.clone(),
            inner,
        })
    })
};

impl FittedShadow {
    /// Returns the model with the shadow in place of the passive parameters: weights if the shadow
    /// is linear, else a network.
    ///
    /// # Errors
    /// [`AttackError::View`] if it is of another number of classes.
    pub fn in_place(self, model: &KnownModel) -> Result<KnownModel, AttackError> {
        let (w_act, bias) = (model.active_weights().clone(), model.bias().clone());
        if let Some([layer]) = self.model.layers().as_deref() {
            let shift = layer.bias.cloned().unwrap_or_else(|| DVector::zeros(bias.len()));
            return KnownModel::white_box(w_act, bias + shift, layer.weights.clone());
        }
        KnownModel::of_network(w_act, bias, KnownNetwork::summed(vec![Arc::from(self.model)]))
    }
}

/// Returns the default loss for this release of the records.
fn fit_for(released: &ReleasedScores) -> ShadowFit {
    let divergence = ShadowFit::Gradient(Descent::default());
    match released {
        ReleasedScores::Probabilities(c) | ReleasedScores::Numbers(c)
            if c.iter().all(|c| *c > 0.0) =>
        {
            ShadowFit::LeastSquares
        }
        ReleasedScores::Ciphertexts(_) => ShadowFit::LeastSquares,
        _ => divergence,
    }
}

impl Attack for ShadowNetwork {
    fn needs(&self) -> Needs {
        Needs {
            auxiliary: Need::Yes,
            numbers: false,
            ..Needs { parameters: Parameters::Hidden, ..self.inner.needs() }
        }
    }

    /// Adds a remark on the divergence of the shadow's scores from those of the records, before the
    /// training and after.
    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let auxiliary = view.side_information().auxiliary.ok_or(AttackError::NoAuxiliary)?;
        let Self { architecture, bias, settings, inner, .. } = self;
        let fit = self.fit.unwrap_or_else(|| fit_for(auxiliary.released()));
        let training = NetworkTraining::read(settings, fit);
        let fitted =
            fit_shadow(view.model(), auxiliary, architecture, (fit, *bias), &training, rng)?;
        let (parameters, (before, after)) = (fitted.parameters, fitted.divergence);
        let model = fitted.in_place(view.model())?;
        let mut found = inner.reconstruct(&view.under(&model)?, rng)?;
        found.remarks.push(format!(
            "a shadow model ({architecture}, {parameters} parameters) was fitted to {} records: divergence of their scores {before:.2e} \
             at the start, {after:.2e} at the end",
            auxiliary.records()
        ));
        Ok(found)
    }
}
