//! The likelihood-ratio attack on one release, from the releases of shadow models for the same
//! record (N. Carlini, S. Chien, M. Nasr, S. Song, A. Terzis, F. Tramèr, *Membership Inference
//! Attacks From First Principles*, IEEE S&P 2022, arXiv:2112.03570, algorithm 1).
//!
//! A release is reduced to one number φ, which is larger if the release favours the true class y
//! more:
//!
//! - scores p: φ = ln max(p_y, 1e-12) − ln max(Σ_{j≠y} max(p_j, 0), 1e-12), the paper's
//!   logit-scaled confidence;
//! - a label: 1 if it is y, else 0;
//! - order-preserving ciphertexts c: φ = ln(c_y + ½) − ln(max_{j≠y} c_j + ½).
//!
//! With μ and σ² the mean and variance of φ(record) among the shadow models that were trained with
//! the record, and among those without it, the score is Λ = ln N(φ; μ_in, σ²_in) − ln N(φ; μ_out,
//! σ²_out). Labels have Bernoulli distributions in place of normal ones, whose probabilities are
//! counted with one more hit and one more miss.

use vfl_core::types::ReleasedScores;

/// The floor of scores, and of sums of scores, in a logarithm.
const SCORE_FLOOR: f64 = 1e-12;
/// The number of shadow models from which each record has its own variances. With fewer models, one
/// variance for all records works better, as the paper found.
const OWN_VARIANCES_FROM: usize = 64;
/// The least variance: a share of the pooled one, and an absolute number. Discrete releases may not
/// vary at all.
const VARIANCE_FLOOR: (f64, f64) = (1e-6, 1e-12);

/// The distribution of φ among shadow models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likelihood {
    /// The distribution for scores and ciphertexts.
    Normal,
    /// The distribution for labels.
    Bernoulli,
}

/// Returns φ of each record.
pub(super) fn statistics(released: &ReleasedScores, labels: &[u32]) -> (Vec<f64>, Likelihood) {
    match released {
        ReleasedScores::Probabilities(scores) | ReleasedScores::Numbers(scores) => {
            let each = scores.as_slice().chunks_exact(scores.nrows().max(1)).zip(labels);
            (each.map(|(p, y)| confidence(p, *y as usize)).collect(), Likelihood::Normal)
        }
        ReleasedScores::Ciphertexts(ciphers) => {
            let each = ciphers.as_slice().chunks_exact(ciphers.nrows().max(1)).zip(labels);
            (each.map(|(c, y)| lead(c, *y as usize)).collect(), Likelihood::Normal)
        }
        ReleasedScores::Labels { labels: released, .. } => {
            let each = released.iter().zip(labels);
            (
                each.map(|(label, y)| f64::from(u8::from(label == y))).collect(),
                Likelihood::Bernoulli,
            )
        }
    }
}

/// Returns φ of scores. The other scores are added up, not subtracted from 1: near 1 the difference
/// would have no digits left.
fn confidence(p: &[f64], y: usize) -> f64 {
    let others: f64 = p.iter().enumerate().filter(|(j, _)| *j != y).map(|(_, p)| p.max(0.0)).sum();
    p[y].max(SCORE_FLOOR).ln() - others.max(SCORE_FLOOR).ln()
}

fn lead(c: &[u64], y: usize) -> f64 {
    let largest = c.iter().enumerate().filter(|(j, _)| *j != y).map(|(_, c)| *c).max().unwrap_or(0);
    (c[y] as f64 + 0.5).ln() - (largest as f64 + 0.5).ln()
}

/// The count, sum and sum of squares of values.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    /// Adds a value, or removes it if `times` is −1.
    fn add(&mut self, value: f64, times: f64) {
        self.count += times;
        self.sum += times * value;
        self.squares += times * value * value;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    /// Returns the sum of the squared distances from the mean.
    fn spread(&self) -> f64 {
        (self.squares - self.sum * self.mean()).max(0.0)
    }
}

/// The moments of the models without a record, and of those with it.
type SplitMoments = [Moments; 2];

/// φ of every record under every model. Each model in turn is the target; the others are its
/// shadows.
pub(super) struct Shadows<'a> {
    models: usize,
    /// Record by record, true for each model that was trained with it.
    members: &'a [bool],
    /// Record by record, φ under each model. For normal distributions, φ of the first model is
    /// subtracted.
    values: Vec<f64>,
    /// The moments of each record over all models.
    totals: Vec<SplitMoments>,
    likelihood: Likelihood,
}

impl<'a> Shadows<'a> {
    /// Creates the table from φ by model. `members` marks, record by record, the models that were
    /// trained with it.
    pub(super) fn new(members: &'a [bool], by_model: &[&[f64]], likelihood: Likelihood) -> Self {
        let models = by_model.len().max(1);
        let mut values = Vec::with_capacity(members.len());
        let mut totals = Vec::with_capacity(members.len() / models);
        for (record, row) in members.chunks_exact(models).enumerate() {
            // If all models release the same, all differences are exactly 0, and all ratios are
            // tied.
            let origin = match (likelihood, by_model.first()) {
                (Likelihood::Normal, Some(first)) => first[record],
                _ => 0.0,
            };
            let mut sides = SplitMoments::default();
            for (statistics, member) in by_model.iter().zip(row) {
                let value = statistics[record] - origin;
                sides[usize::from(*member)].add(value, 1.0);
                values.push(value);
            }
            totals.push(sides);
        }
        Self { models, members, values, totals, likelihood }
    }

    /// Returns the moments of a record over the shadows of a target.
    ///
    /// One model besides the target is left out: the next one on the other side of the record's
    /// membership. Otherwise the target's side would have one shadow fewer, which alone would
    /// reveal a little of the membership.
    fn of_record(&self, record: usize, target: usize) -> SplitMoments {
        let at = record * self.models..(record + 1) * self.models;
        let (row, values) = (&self.members[at.clone()], &self.values[at]);
        let mut sides = self.totals[record];
        let own = row[target];
        sides[usize::from(own)].add(values[target], -1.0);
        let mut others = (1..self.models).map(|step| (target + step) % self.models);
        if let Some(partner) = others.find(|&other| row[other] != own) {
            sides[usize::from(!own)].add(values[partner], -1.0);
        }
        sides
    }

    /// Returns Λ of every record for one target.
    pub(super) fn ratios(&self, target: usize) -> Vec<f64> {
        let each: Vec<SplitMoments> =
            (0..self.totals.len()).map(|record| self.of_record(record, target)).collect();
        let value = |record: usize| self.values[record * self.models + target];
        if self.likelihood == Likelihood::Bernoulli {
            return each
                .iter()
                .enumerate()
                .map(|(record, sides)| bernoulli(value(record), sides))
                .collect();
        }
        let pooled = [pooled(&each, 0), pooled(&each, 1)];
        let own = self.models > OWN_VARIANCES_FROM;
        let log_density = |x: f64, side: &Moments, pooled: f64| {
            let variance = if own { side.spread() / (side.count - 1.0).max(1.0) } else { pooled };
            let variance = variance.max(VARIANCE_FLOOR.0 * pooled + VARIANCE_FLOOR.1);
            -0.5 * (variance.ln() + (x - side.mean()).powi(2) / variance)
        };
        let ratio = |(record, [without, with]): (usize, &SplitMoments)| {
            let x = value(record);
            log_density(x, with, pooled[1]) - log_density(x, without, pooled[0])
        };
        each.iter().enumerate().map(ratio).collect()
    }
}

/// Returns the variance around the records' own means, pooled over all records.
fn pooled(each: &[SplitMoments], side: usize) -> f64 {
    let spread: f64 = each.iter().map(|sides| sides[side].spread()).sum();
    let freedom: f64 = each.iter().map(|sides| sides[side].count - 1.0).sum();
    spread / freedom.max(1.0)
}

fn bernoulli(x: f64, [without, with]: &SplitMoments) -> f64 {
    let log_probability = |side: &Moments| {
        let hit = (side.sum + 1.0) / (side.count + 2.0);
        if x > 0.5 { hit.ln() } else { (1.0 - hit).ln() }
    };
    log_probability(with) - log_probability(without)
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use nalgebra::DMatrix;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::super::curve::Figures;
    use super::super::models::Membership;
    use super::*;

    /// Mean figures over all targets.
    fn figures(membership: &Membership, by_model: &[Vec<f64>], likelihood: Likelihood) -> Figures {
        let by_model: Vec<&[f64]> = by_model.iter().map(Vec::as_slice).collect();
        let shadows = Shadows::new(membership.flags(), &by_model, likelihood);
        let n = by_model.len() as f64;
        let mut mean = Figures { tpr: [0.0; 2], auc: 0.0, balanced_accuracy: 0.0 };
        for target in 0..by_model.len() {
            let found = Figures::of(&shadows.ratios(target), &membership.of_model(target));
            mean.tpr.iter_mut().zip(found.tpr).for_each(|(sum, tpr)| *sum += tpr);
            mean.auc += found.auc;
            mean.balanced_accuracy += found.balanced_accuracy;
        }
        // Divided once, so that a value that is the same for all targets stays the same.
        Figures {
            tpr: mean.tpr.map(|sum| sum / n),
            auc: mean.auc / n,
            balanced_accuracy: mean.balanced_accuracy / n,
        }
    }

    /// φ = N(μ_record, 1), and δ more if the model was trained with the record. The means of
    /// records are far apart, so that one threshold for all of them does worse.
    fn simulated(
        records: usize,
        models: usize,
        delta: f64,
        seed: u64,
    ) -> (Membership, Vec<Vec<f64>>) {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let membership = Membership::draw(records, models, &mut rng);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let means: Vec<f64> = (0..records).map(|_| 3.0 * normal()).collect();
        let by_model = (0..models)
            .map(|model| {
                let members = membership.of_model(model);
                let each = means.iter().zip(members);
                each.map(|(mean, member)| mean + delta * f64::from(u8::from(member)) + normal())
                    .collect()
            })
            .collect();
        (membership, by_model)
    }

    /// With equal variances the ratio rises with φ, so that TPR = Φ(Φ⁻¹(FPR) + δ) and AUC =
    /// Φ(δ/√2), up to what the estimates of the means cost. Φ⁻¹(0.01) = −2.3263.
    #[test]
    fn normal_statistics_have_the_closed_form() {
        for (models, delta, tpr, auc, tolerance) in [
            (60, 2.326_347_874, 0.5, 0.950_002, 0.035),
            (60, 3.326_347_874, 0.841_345, 0.990_687, 0.03),
            // Each record's own variances are rougher estimates.
            (80, 2.326_347_874, 0.5, 0.950_002, 0.055),
        ] {
            let (membership, by_model) = simulated(2000, models, delta, 5);
            let found = figures(&membership, &by_model, Likelihood::Normal);
            assert!((found.tpr[0] - tpr).abs() < tolerance, "{models} models, {delta}: {found:?}");
            assert!(found.tpr[0] < tpr + 0.015, "nothing beats the closed form: {found:?}");
            assert!((found.auc - auc).abs() < 0.006, "{models} models, {delta}: {found:?}");
            // One threshold for all records is far below it.
            let one = Figures::of(&by_model[0], &membership.of_model(0));
            assert!(one.tpr[0] < 0.2 && one.auc < 0.82, "{one:?}");
        }
    }

    /// Nothing to find: neither side has more shadows than the other, however few there are.
    #[test]
    fn without_a_difference_it_guesses() {
        for (models, tolerance) in [(60, 0.006), (8, 0.025)] {
            let (membership, by_model) = simulated(2000, models, 0.0, 6);
            let found = figures(&membership, &by_model, Likelihood::Normal);
            assert!((found.auc - 0.5).abs() < tolerance, "{found:?}");
            assert!(found.tpr[0] < 0.016, "{found:?}");
        }
    }

    /// A value that does not vary reveals nothing, and does not divide by zero.
    #[test]
    fn constants_are_ties() {
        let (membership, _) = simulated(300, 10, 0.0, 7);
        let constant: Vec<Vec<f64>> =
            (0..10).map(|_| (0..300).map(|record| 0.1 * f64::from(record)).collect()).collect();
        let by_model: Vec<&[f64]> = constant.iter().map(Vec::as_slice).collect();
        let ratios = Shadows::new(membership.flags(), &by_model, Likelihood::Normal).ratios(3);
        assert!(ratios.iter().all(|ratio| *ratio == ratios[0] && ratio.is_finite()));
        let found = figures(&membership, &constant, Likelihood::Normal);
        assert_eq!((found.tpr, found.auc), ([0.0; 2], 0.5));
    }

    /// Labels by hand: 3 of 3 shadows with the record are right, 1 of 3 without it.
    #[test]
    fn labels_are_counted_with_one_more_of_each() {
        let of = |count: f64, sum: f64| Moments { count, sum, squares: sum };
        let sides = [of(3.0, 1.0), of(3.0, 3.0)];
        assert!((bernoulli(1.0, &sides) - (0.8f64 / 0.4).ln()).abs() < 1e-15);
        assert!((bernoulli(0.0, &sides) - (0.2f64 / 0.6).ln()).abs() < 1e-15);
    }

    /// A label that is right for members alone reveals every member; one that is always right
    /// reveals nobody.
    #[test]
    fn labels_tell_what_they_tell() {
        let (membership, _) = simulated(400, 12, 0.0, 8);
        let told: Vec<Vec<f64>> = (0..12)
            .map(|model| {
                membership.of_model(model).into_iter().map(|m| f64::from(u8::from(m))).collect()
            })
            .collect();
        let found = figures(&membership, &told, Likelihood::Bernoulli);
        assert_eq!((found.tpr, found.auc), ([1.0; 2], 1.0));
        let always: Vec<Vec<f64>> = (0..12).map(|_| vec![1.0; 400]).collect();
        let found = figures(&membership, &always, Likelihood::Bernoulli);
        assert_eq!((found.tpr, found.auc), ([0.0; 2], 0.5));
    }

    /// The statistic of each kind of release, by hand.
    #[test]
    fn a_release_becomes_one_number() {
        let scores = DMatrix::from_column_slice(3, 2, &[0.5, 0.3, 0.2, 1.0, 0.0, -0.5]);
        let expected = [(0.3f64 / 0.7).ln(), -(1e-12f64.ln())];
        for released in
            [ReleasedScores::Probabilities(scores.clone()), ReleasedScores::Numbers(scores)]
        {
            let (found, likelihood) = statistics(&released, &[1, 0]);
            assert_eq!(likelihood, Likelihood::Normal);
            found
                .iter()
                .zip(expected)
                .for_each(|(found, expected)| assert!((found - expected).abs() < 1e-12));
        }
        let labels = ReleasedScores::Labels { classes: 3, labels: vec![2, 1] };
        assert_eq!(statistics(&labels, &[2, 0]), (vec![1.0, 0.0], Likelihood::Bernoulli));
        let ciphers = ReleasedScores::Ciphertexts(DMatrix::from_column_slice(3, 1, &[9u64, 4, 0]));
        let (found, likelihood) = statistics(&ciphers, &[0]);
        assert_eq!(likelihood, Likelihood::Normal);
        assert!((found[0] - (9.5f64 / 4.5).ln()).abs() < 1e-15);
    }
}
