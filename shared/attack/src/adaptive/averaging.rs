//! Averaging over repeated questions. It removes noise that is drawn anew, but not noise that is
//! keyed by the record; the answers show which of the two it is.

use nalgebra::DMatrix;
use rand::Rng;
use rayon::prelude::*;
use vfl_core::types::ReleasedScores;
use vfl_defense::policy::{NoiseMode, Template};
use vfl_numerics::{ActiveSet, NearestOutcome, Polytope};

use super::KnownPolicy;
use super::interval::number_estimate;
use super::privee::Privee;
use crate::second_order::{self, Fit};
use crate::{
    AdversaryView, Attack, AttackError, Entry, Evidence, Group, Need, Needs, NoisyScores,
    Parameters, Questions, Reconstruction, RecordOutcome, RepeatedQuestions, Setting, Status,
    Termination,
};

/// Returns the mean of several releases of the same records, in the same order.
///
/// # Errors
/// [`AttackError::Releases`] if there is none or they differ in kind or shape;
/// [`AttackError::Unfit`] for labels and ciphertexts, which have no mean.
pub fn average(
    releases: &[ReleasedScores],
) -> Result<(ReleasedScores, RepeatedQuestions), AttackError> {
    let first = releases.first().ok_or(AttackError::Releases { reason: "there is none" })?;
    let mut all = Vec::with_capacity(releases.len());
    for release in releases {
        match (release, first) {
            (ReleasedScores::Probabilities(m), ReleasedScores::Probabilities(f))
            | (ReleasedScores::Numbers(m), ReleasedScores::Numbers(f)) => {
                if m.shape() != f.shape() {
                    return Err(AttackError::Releases {
                        reason: "they are not of the same records",
                    });
                }
                all.push(m);
            }
            (ReleasedScores::Labels { .. } | ReleasedScores::Ciphertexts(_), _) => {
                return Err(AttackError::unfit("averaging", "score vectors", release));
            }
            _ => return Err(AttackError::Releases { reason: "they are not of one kind" }),
        }
    }
    let (k, n) = all[0].shape();
    let mut mean = DMatrix::zeros(k, n);
    all.iter().for_each(|m| mean += *m);
    mean /= all.len() as f64;
    let different = |record: usize| {
        let bits =
            |m: &&DMatrix<f64>| m.column(record).iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        all.iter().map(bits).collect::<std::collections::HashSet<_>>().len()
    };
    let distinct = (0..n).map(different).min().unwrap_or(1);
    if distinct == 1 && (0..n).all(|record| different(record) == 1) {
        // To the bit, which a mean of equal numbers need not be.
        mean.copy_from(all[0]);
    }
    let averaged = RepeatedQuestions { queries: all.len(), distinct };
    let mean = match first {
        ReleasedScores::Probabilities(_) => ReleasedScores::Probabilities(mean),
        _ => ReleasedScores::Numbers(mean),
    };
    Ok((mean, averaged))
}

/// The likeliest features behind noisy scores: the minimum over the box of Σ (ĉ_j − c_j(x))²/s_j²
/// plus the squared distance to ½ in units of the standard deviation of a uniform feature. s is the
/// standard deviation of the noise, which falls with the number of questions that were averaged.
/// For Gaussian noise ĉ is the release; for PRIVEE the mean of 1 + u σ is divided out first.
///
/// Gauss-Newton; the likelihood is not convex in x, so the point is a local optimum from ½.
#[derive(Debug, Clone, PartialEq)]
pub struct Averaging {
    /// The known policy. If σ of Gaussian noise is secret, it is estimated: the sum of a release
    /// misses 1 by the noise.
    pub known: KnownPolicy,
    /// The number of different answers averaged into the release. `None`: the number in the view,
    /// or 1.
    pub averaged: Option<usize>,
}

/// The most Gauss-Newton steps. Some 4 to 10 are usual.
const STEPS: u32 = 30;

const PRIOR: f64 = 0.288_675_134_594_812_9;

impl Averaging {
    /// Returns ĉ and its standard deviations (k × n).
    fn likely(
        &self,
        released: &DMatrix<f64>,
        averaged: usize,
    ) -> Result<(DMatrix<f64>, DMatrix<f64>), AttackError> {
        let (k, n) = released.shape();
        let queries = averaged.max(1) as f64;
        let (_, at_scores) = self.known.stages();
        let policy = || AttackError::Policy {
            attack: "averaging",
            expected: "gaussian_noise, dp_gaussian, privee_dp or privee_dp_plus_plus (in order kept) alone at the scores",
            got: self.known.policy.to_string(),
        };
        let sigma = match at_scores.as_slice() {
            [defense] => defense.gaussian_sigma(),
            _ => None,
        };
        if let Some(sigma) = sigma {
            let deviation = if self.known.scale_known {
                sigma / queries.sqrt()
            } else {
                // The scores sum to 1, so the deviation of a released sum from 1 has variance k s².
                (released.column_iter().map(|c| (c.sum() - 1.0).powi(2)).sum::<f64>()
                    / (n * k).max(1) as f64)
                    .sqrt()
            };
            return Ok((released.clone(), DMatrix::from_element(k, n, deviation.max(1e-9))));
        }
        match at_scores.as_slice() {
            // Scores without a defense: only the round-off of double precision is left.
            [] => Ok((released.clone(), DMatrix::from_element(k, n, 1e-9))),
            [defense] => {
                let privee = Privee::new(defense, k)
                    .filter(|p| p.template != Template::Fisip)
                    .ok_or_else(policy)?;
                let sigma = if self.known.scale_known {
                    privee.scale
                } else {
                    privee.estimate(released).likely
                };
                let (mut likely, mut deviation) = (released.clone(), released.clone());
                let offset = privee.offset(k);
                for record in 0..n {
                    let draws = privee.draws(released.column(record).as_slice());
                    for (j, draw) in draws.iter().enumerate() {
                        let middle = 1.0 + 0.5 * (draw.least + draw.greatest) * draw.share * sigma;
                        let width = (draw.greatest - draw.least) * draw.share * sigma;
                        let c = (released[(j, record)] + offset).max(0.0) / middle;
                        likely[(j, record)] = c;
                        deviation[(j, record)] =
                            (c * width / middle / (12.0 * queries).sqrt()).max(1e-9);
                    }
                }
                Ok((likely, deviation))
            }
            _ => Err(policy()),
        }
    }
}

static AVERAGED: Setting<usize> = Setting {
    key: "averaged",
    takes: "how many different answers averaging was given the mean of: a whole number above 0 (default 1)",
    read: |value| value.trim().parse().ok().filter(|n| *n > 0),
};

pub(crate) static AVERAGING: Entry = Entry {
    settings: &[
        KnownPolicy::SETTINGS[0],
        KnownPolicy::SETTINGS[1],
        KnownPolicy::SETTINGS[2],
        &AVERAGED,
    ],
    ..Entry::new("averaging", Group::Adaptive, |settings| {
        Box::new(Averaging { known: settings.into(), averaged: settings.get(&AVERAGED) })
    })
};

impl Attack for Averaging {
    fn needs(&self) -> Needs {
        let parameters = Parameters::Differentiable;
        Needs { repeated: Need::IfThere, parameters, ..Needs::EQUATIONS }
    }

    fn reconstruct(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        if view.model().needs_tangents() {
            return self.through_network(view, rng);
        }
        let w_pas = view.weights()?;
        let system = view.linear()?;
        if view.model().link().is_numeric() {
            let repeated = view.side_information().repeated;
            // Rounding makes equal answers of different draws.
            let fresh = self.known.policy.noise == NoiseMode::Fresh;
            let answers = repeated.map(|r| if fresh { r.queries } else { r.distinct });
            let averaged = self.averaged.or(answers).unwrap_or(1);
            let found = number_estimate(&self.known, view, averaged, rng)?;
            return Ok(Reconstruction { questions: repeated.map(Questions::Repeated), ..found });
        }
        let NoiseModel { stretch, likely, deviation, repeated } = self.release(view)?;
        let scaled = w_pas / stretch;
        let known = view.known_logits() / stretch;
        let (d, n) = (w_pas.ncols(), view.records());
        let mut estimates = DMatrix::from_element(d, n, 0.5);
        let mut outcomes = Vec::new();
        if d > 0 {
            let fit = |work: &mut ActiveSet, (record, x): (usize, &mut [f64])| {
                let (ended, iterations, objective) = descend(
                    &scaled,
                    known.column(record).as_slice(),
                    likely.column(record).as_slice(),
                    deviation.column(record).as_slice(),
                    work,
                    x,
                );
                RecordOutcome { ended, iterations, objective }
            };
            let columns = estimates.as_mut_slice().par_chunks_mut(d).enumerate();
            columns.map_init(ActiveSet::default, fit).collect_into_vec(&mut outcomes);
        }
        let solved = system.solved(&estimates, view.b_prime()?);
        let status = Status::Centre { rank: solved.rank };
        let (weights, known) = (w_pas.clone(), view.known_logits());
        let evidence =
            NoisyScores { weights, known, stretch, scores: likely, deviation, through: None };
        Ok(Reconstruction {
            solved: Some(solved),
            outcomes,
            evidence: Evidence::NoisyScores(evidence),
            questions: repeated.map(Questions::Repeated),
            ..Reconstruction::new(estimates, status)
        })
    }
}

/// The scores behind a release with noise, as the adversary models them.
struct NoiseModel {
    /// The divisor of the logits before the softmax.
    stretch: f64,
    /// The scores with their noise, k × n.
    likely: DMatrix<f64>,
    /// The standard deviation of the noise in each, k × n.
    deviation: DMatrix<f64>,
    repeated: Option<RepeatedQuestions>,
}

impl Averaging {
    /// Reads the release of a view.
    fn release(&self, view: &AdversaryView<'_>) -> Result<NoiseModel, AttackError> {
        let (ReleasedScores::Probabilities(released) | ReleasedScores::Numbers(released)) =
            view.released()?
        else {
            return Err(AttackError::unfit("averaging", "score vectors", view.released()?));
        };
        let stretch = self.known.stretch().ok_or_else(|| AttackError::Policy {
            attack: "averaging",
            expected: "temperature and logit_noise scheme 3 alone at the logits",
            got: self.known.policy.to_string(),
        })?;
        let repeated = view.side_information().repeated;
        let averaged = self.averaged.or(repeated.map(|r| r.distinct)).unwrap_or(1);
        let (likely, deviation) = self.likely(released, averaged)?;
        Ok(NoiseModel { stretch, likely, deviation, repeated })
    }

    /// Estimates the records of a model whose scores are no softmax of linear outputs.
    fn through_network(
        &self,
        view: &AdversaryView<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Reconstruction, AttackError> {
        let NoiseModel { stretch, likely, deviation, repeated } = self.release(view)?;
        let fit = |record: usize| {
            let (values, deviations) = (likely.column(record), deviation.column(record));
            let normal = values.iter().zip(deviations.iter());
            let least = Fit::LEAST_DEVIATION;
            Fit::Scores { normal: normal.map(|(c, s)| (*c, s.max(least))).collect(), stretch }
        };
        let found = second_order::likeliest(view, (0..view.records()).map(fit).collect(), rng)?;
        Ok(Reconstruction { questions: repeated.map(Questions::Repeated), ..found })
    }
}

/// Returns softmax(W x + known).
pub(crate) fn scores_at(w: &DMatrix<f64>, known: &[f64], x: &[f64]) -> Vec<f64> {
    let mut z = known.to_vec();
    for (w, x) in w.column_iter().zip(x) {
        z.iter_mut().zip(w.iter()).for_each(|(z, w)| *z += w * x);
    }
    let top = z.iter().fold(f64::NEG_INFINITY, |m, z| m.max(*z));
    z.iter_mut().for_each(|z| *z = (*z - top).exp());
    let sum: f64 = z.iter().sum();
    z.iter_mut().for_each(|z| *z /= sum);
    z
}

fn descend(
    w: &DMatrix<f64>,
    known: &[f64],
    likely: &[f64],
    deviation: &[f64],
    work: &mut ActiveSet,
    x: &mut [f64],
) -> (Termination, u32, f64) {
    let (k, d) = w.shape();
    let value = |x: &[f64], c: &[f64]| {
        let misfit: f64 =
            c.iter().zip(likely).zip(deviation).map(|((c, l), s)| ((c - l) / s).powi(2)).sum();
        misfit + x.iter().map(|x| ((x - 0.5) / PRIOR).powi(2)).sum::<f64>()
    };
    let half = vec![0.5; d];
    let mut c = scores_at(w, known, x);
    let mut best = value(x, &c);
    let mut next = vec![0.0; d];
    for step in 0..STEPS {
        let mut set = Polytope::unit_box(d);
        for j in 0..k {
            // ∂c_j = c_j (∂z_j − Σ c ∂z)
            let row: Vec<f64> = w
                .column_iter()
                .map(|w| c[j] * (w[j] - w.iter().zip(&c).map(|(w, c)| w * c).sum::<f64>()))
                .collect();
            let norm = row.iter().map(|r| r * r).sum::<f64>().sqrt();
            if norm > 1e-12 {
                let target =
                    likely[j] - c[j] + row.iter().zip(x.iter()).map(|(r, x)| r * x).sum::<f64>();
                set.add_giving(&row, target, target, deviation[j] / PRIOR);
            }
        }
        if set.nearest(&half, work, &mut next) != NearestOutcome::Found {
            return (Termination::StepLimit, step, best);
        }
        let mut length = 1.0;
        let improved = loop {
            let trial: Vec<f64> = x.iter().zip(&next).map(|(x, n)| x + length * (n - x)).collect();
            let there = scores_at(w, known, &trial);
            let reached = value(&trial, &there);
            if reached < best {
                let by = best - reached;
                x.copy_from_slice(&trial);
                (c, best) = (there, reached);
                break by > 1e-9 * (1.0 + best);
            }
            length *= 0.5;
            if length < 1e-4 {
                break false;
            }
        };
        if !improved {
            return (Termination::Solved, step + 1, best);
        }
    }
    (Termination::StepLimit, STEPS, best)
}
