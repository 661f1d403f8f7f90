//! Labels that are sometimes replaced by another: the probability of each predicted class given the
//! released label, and the mean of the features under it.

use nalgebra::DMatrix;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use vfl_defense::DefenseConfig;
use vfl_defense::policy::kept_label_probability;
use vfl_numerics::arg_max;

use super::KnownPolicy;
use crate::{
    AdversaryView, Attack, AttackError, Entry, Evidence, Group, Needs, NoisyScores, Reconstruction,
    RecordOutcome, Status, Termination,
};

/// The number of draws of the features, the same for all records.
const DRAWS: usize = 2048;

/// The mean of the features given the released label ℓ, if they are uniform in [0, 1]: E[x | ℓ] =
/// E[x P(ℓ | y(x))] / E[P(ℓ | y(x))]. Here y(x) is the class that the model predicts from x and the
/// adversary's own logits, and P is the channel of `randomized_label`. So a label that the own
/// logits make impossible tells nothing. Without the defense the label is taken to be right.
///
/// Expectations are means over 2048 draws of x, one matrix for all records. They add 1/(12 × 2048)
/// to the error if the label tells nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct NoisyLabel {
    /// The policy, which states ε.
    pub known: KnownPolicy,
}

impl NoisyLabel {
    /// Returns the probabilities that a label is the predicted class, and that it is one given
    /// other class.
    fn channel(&self, classes: usize) -> (f64, f64) {
        let defenses = self.known.policy.defenses.iter();
        let epsilon = defenses.rev().find_map(|defense| match defense {
            DefenseConfig::RandomizedLabel { epsilon } => Some(*epsilon),
            _ => None,
        });
        let kept = epsilon.map_or(1.0, |epsilon| kept_label_probability(classes, epsilon));
        (kept, (1.0 - kept) / (classes as f64 - 1.0))
    }

    /// Returns the evidence of the labels about the scores, for estimators that know moments. (1[ℓ
    /// = j] − q)/(p − q) is an unbiased estimate of the indicator that j is the predicted class,
    /// with variance at most p (1 − p)/(p − q)² or q (1 − q)/(p − q)². The indicator stands for the
    /// score, up to the variance of a uniform number.
    fn evidence(&self, view: &AdversaryView<'_>, labels: &[u32]) -> Result<Evidence, AttackError> {
        let (weights, known) = (view.model().output_weights()?.clone(), view.known_logits());
        let (k, n) = known.shape();
        let (p, q) = self.channel(k);
        let gap = (p - q).max(1e-6);
        let scores = DMatrix::from_fn(k, n, |j, record| {
            (f64::from(u8::from(labels[record] as usize == j)) - q) / gap
        });
        let variance = (p * (1.0 - p)).max(q * (1.0 - q)) / (gap * gap) + 1.0 / 12.0;
        let deviation = DMatrix::from_element(k, n, variance.sqrt());
        let stretch = self.known.stretch().unwrap_or(1.0);
        Ok(Evidence::NoisyScores(NoisyScores {
            weights,
            known,
            stretch,
            scores,
            deviation,
            through: None,
        }))
    }
}

pub(crate) static NOISY_LABEL: Entry = Entry {
    settings: KnownPolicy::SETTINGS,
    ..Entry::new("noisy_label", Group::Adaptive, |settings| {
        Box::new(NoisyLabel { known: settings.into() })
    })
};

impl Attack for NoisyLabel {
    fn needs(&self) -> Needs {
        super::cones::ORDERS
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let weights = view.model().output_weights()?;
        let (known, labels) = (view.known_logits(), view.released()?.predicted_labels());
        let (d, n, k) = (weights.ncols(), view.records(), weights.nrows());
        let (kept, other) = self.channel(k);
        let mut draws = ChaCha8Rng::seed_from_u64(rng.next_u64());
        let x = DMatrix::from_fn(d, DRAWS, |_, _| draws.random::<f64>());
        let shares = weights * &x;
        let mut estimates = DMatrix::from_element(d, n, 0.5);
        let mut outcomes = Vec::new();
        if d > 0 {
            let fit = |logits: &mut Vec<f64>, (record, estimate): (usize, &mut [f64])| {
                let (own, label) = (known.column(record), labels[record] as usize);
                let (mut total, mut sum) = (0.0, vec![0.0; d]);
                for (share, x) in shares.column_iter().zip(x.column_iter()) {
                    logits.clear();
                    logits.extend(share.iter().zip(own.iter()).map(|(share, own)| share + own));
                    let weight = if arg_max(logits) == label { kept } else { other };
                    total += weight;
                    sum.iter_mut().zip(x.iter()).for_each(|(sum, x)| *sum += weight * x);
                }
                if total > 0.0 {
                    estimate
                        .iter_mut()
                        .zip(&sum)
                        .for_each(|(estimate, sum)| *estimate = sum / total);
                    return RecordOutcome {
                        ended: Termination::Solved,
                        iterations: 0,
                        objective: 0.0,
                    };
                }
                RecordOutcome {
                    ended: Termination::NearestConsistent,
                    iterations: 0,
                    objective: 0.0,
                }
            };
            let columns = estimates.as_mut_slice().par_chunks_mut(d).enumerate();
            columns.map_init(Vec::new, fit).collect_into_vec(&mut outcomes);
        } else {
            outcomes =
                vec![
                    RecordOutcome { ended: Termination::Solved, iterations: 0, objective: 0.0 };
                    n
                ];
        }
        let solved = match view.model().needs_tangents() {
            true => None,
            false => Some(view.linear()?.solved(&estimates, view.b_prime()?)),
        };
        let rank = solved.as_ref().map_or(d.min(k - 1), |of| of.rank);
        let (status, evidence) = (Status::Centre { rank }, self.evidence(view, &labels)?);
        Ok(Reconstruction { solved, outcomes, evidence, ..Reconstruction::new(estimates, status) })
    }
}
