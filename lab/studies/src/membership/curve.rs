//! The receiver operating characteristic of a membership score, and the figures read off it.
//!
//! A threshold names every record at or above it a member. The true positive rate (TPR) is the
//! share of the members that it names, the false positive rate (FPR) that of the others. Records of
//! equal scores are named together or not at all.

use std::f64::consts::PI;

/// The false positive rates at which the true positive rate is reported.
pub(super) const LEVELS: [f64; 2] = [0.01, 0.001];

/// Tolerance of a product in doubles: 0.01 · 700 is a little above 7, other products are a little
/// below.
const ROUND_OFF: f64 = 1e-9;

/// The figures of the curve of one target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    /// The largest TPR of a threshold whose FPR does not exceed the level, for each of [`LEVELS`].
    pub(super) tpr: [f64; LEVELS.len()],
    /// The area under the curve: how often a member's score is above another record's, ties counted
    /// half.
    pub(super) auc: f64,
    /// The largest (TPR + 1 − FPR) / 2 of all thresholds.
    pub(super) balanced_accuracy: f64,
}

/// Returns how many of `others` may be named at a false positive rate.
fn allowed(level: f64, others: usize) -> usize {
    (level * others as f64 + ROUND_OFF).floor() as usize
}

/// Returns the expected TPR of a score without ties that does not depend on membership.
///
/// With m others allowed, the threshold stands just above the (m + 1)-th highest score of the
/// others, and an expected share of (m + 1) / (others + 1) of all other scores is above that. It is
/// a little more than the level, because the best of all thresholds is taken.
pub(super) fn guessed_tpr(level: f64, others: usize) -> f64 {
    ((allowed(level, others) + 1) as f64 / (others + 1) as f64).min(1.0)
}

/// Returns the expected balanced accuracy of such a score, whose threshold is chosen on the same
/// records.
///
/// ½ + ½ E(D), D the one-sided statistic of Kolmogorov and Smirnov. For large samples P(D > x) =
/// exp(−2 x² M) with M = members · others / (members + others), so that E(D) = √(π / (8 M)).
pub(super) fn guessed_balanced_accuracy(members: usize, others: usize) -> f64 {
    let m = members as f64 * others as f64 / (members + others).max(1) as f64;
    (0.5 + 0.5 * (PI / (8.0 * m.max(1.0))).sqrt()).min(1.0)
}

impl Figures {
    /// Computes the figures of scores that are higher where membership is likelier, one for each of
    /// `members`.
    pub(super) fn of(scores: &[f64], members: &[bool]) -> Self {
        let mut order: Vec<(f64, bool)> =
            scores.iter().copied().zip(members.iter().copied()).collect();
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let inside = order.iter().filter(|(_, member)| *member).count();
        let outside = order.len() - inside;
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let (mut named, mut wrongly) = (0, 0);
        let (mut tpr, mut pairs, mut balanced_accuracy) = ([0.0; LEVELS.len()], 0.0, 0.5f64);
        for tied in order.chunk_by(|a, b| a.0 == b.0) {
            let right = tied.iter().filter(|(_, member)| *member).count();
            let wrong = tied.len() - right;
            let below = outside - wrongly - wrong;
            pairs += right as f64 * (below as f64 + 0.5 * wrong as f64);
            named += right;
            wrongly += wrong;
            for (tpr, level) in tpr.iter_mut().zip(LEVELS) {
                if wrongly <= allowed(level, outside) {
                    *tpr = share(named, inside);
                }
            }
            let balanced = 0.5 * (share(named, inside) + 1.0 - share(wrongly, outside));
            balanced_accuracy = balanced_accuracy.max(balanced);
        }
        let auc = if inside == 0 || outside == 0 {
            0.5
        } else {
            pairs / (inside as f64 * outside as f64)
        };
        Self { tpr, auc, balanced_accuracy }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha20Rng;
    use rand_distr::{Distribution, StandardNormal};

    use super::*;

    /// By definition, threshold by threshold and pair by pair.
    fn naive(scores: &[f64], members: &[bool]) -> Figures {
        let of = |wanted: bool| -> Vec<f64> {
            scores
                .iter()
                .zip(members)
                .filter(|(_, member)| **member == wanted)
                .map(|(score, _)| *score)
                .collect()
        };
        let (inside, outside) = (of(true), of(false));
        let (mut tpr, mut balanced_accuracy) = ([0.0f64; LEVELS.len()], 0.5f64);
        for threshold in scores {
            let share = |of: &[f64]| {
                of.iter().filter(|score| *score >= threshold).count() as f64 / of.len() as f64
            };
            let (true_rate, false_rate) = (share(&inside), share(&outside));
            for (tpr, level) in tpr.iter_mut().zip(LEVELS) {
                if false_rate <= level + 1e-12 {
                    *tpr = tpr.max(true_rate);
                }
            }
            balanced_accuracy = balanced_accuracy.max(0.5 * (true_rate + 1.0 - false_rate));
        }
        let mut pairs = 0.0;
        for a in &inside {
            for b in &outside {
                pairs += if a > b { 1.0 } else { 0.5 * f64::from(u8::from(a == b)) };
            }
        }
        Figures { tpr, auc: pairs / (inside.len() * outside.len()) as f64, balanced_accuracy }
    }

    fn close(a: Figures, b: Figures) {
        assert_eq!(a.tpr, b.tpr);
        assert!((a.auc - b.auc).abs() < 1e-12, "{a:?} {b:?}");
        assert!((a.balanced_accuracy - b.balanced_accuracy).abs() < 1e-12, "{a:?} {b:?}");
    }

    #[test]
    fn figures_are_those_of_the_definition() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        for case in 0..60u32 {
            let n = rng.random_range(10..700);
            // Few levels make many ties. Members at the top make small false positive rates matter.
            let levels = [3.0, 40.0, 1e6][case as usize % 3];
            let mut members: Vec<bool> = (0..n).map(|_| rng.random::<bool>()).collect();
            (members[0], members[1]) = (true, false);
            let scores: Vec<f64> = members
                .iter()
                .map(|member| {
                    (levels * (rng.random::<f64>() + 0.2 * f64::from(u8::from(*member)))).floor()
                })
                .collect();
            close(Figures::of(&scores, &members), naive(&scores, &members));
        }
    }

    #[test]
    fn the_ends_of_the_scale() {
        let members: Vec<bool> = (0..400).map(|at| at % 2 == 0).collect();
        let told: Vec<f64> = members.iter().map(|member| f64::from(u8::from(*member))).collect();
        assert_eq!(
            Figures::of(&told, &members),
            Figures { tpr: [1.0; 2], auc: 1.0, balanced_accuracy: 1.0 }
        );
        // A threshold that names all members also names the others.
        let tied = vec![0.25; 400];
        assert_eq!(
            Figures::of(&tied, &members),
            Figures { tpr: [0.0; 2], auc: 0.5, balanced_accuracy: 0.5 }
        );
        // The two zeros are one score.
        let zeros: Vec<f64> =
            members.iter().map(|member| if *member { 0.0 } else { -0.0 }).collect();
        assert_eq!(Figures::of(&zeros, &members).auc, 0.5);
        let turned: Vec<f64> = told.iter().map(|score| -score).collect();
        assert_eq!(
            Figures::of(&turned, &members),
            Figures { tpr: [0.0; 2], auc: 0.0, balanced_accuracy: 0.5 }
        );
    }

    /// A whole number of false alarms is not lost to round-off.
    #[test]
    fn false_alarms_are_counted_as_whole_numbers() {
        let counts = [100, 300, 700, 1400, 2900, 5700].map(|others| allowed(0.01, others));
        assert_eq!(counts, [1, 3, 7, 14, 29, 57]);
        assert_eq!([999, 1000, 3000].map(|others| allowed(0.001, others)), [0, 1, 3]);
    }

    /// Two normal distributions √2 apart: a member is above another with probability Φ(1), the best
    /// threshold stands in the middle and has Φ(1/√2). Φ⁻¹(0.99) apart, half of the members are
    /// above 99 % of the others.
    #[test]
    fn two_normal_distributions_have_the_closed_form() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let members: Vec<bool> = (0..200_000).map(|at| at % 2 == 0).collect();
        let mut figures = |apart: f64| {
            let scores: Vec<f64> = members
                .iter()
                .map(|member| {
                    let normal: f64 = StandardNormal.sample(&mut rng);
                    normal + apart * f64::from(u8::from(*member))
                })
                .collect();
            Figures::of(&scores, &members)
        };
        let near = figures(std::f64::consts::SQRT_2);
        assert!((near.auc - 0.841_344_746).abs() < 0.004, "{near:?}");
        assert!((near.balanced_accuracy - 0.760_249_939).abs() < 0.005, "{near:?}");
        let far = figures(2.326_347_874);
        assert!((far.tpr[0] - 0.5).abs() < 0.02, "{far:?}");
    }

    /// The expected results of guessing, against the mean over many draws.
    #[test]
    fn guessing_reaches_what_it_is_said_to() {
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let members: Vec<bool> = (0..400).map(|at| at % 2 == 0).collect();
        let draws = 2000;
        let (mut tpr, mut balanced, mut auc) = (0.0, 0.0, 0.0);
        for _ in 0..draws {
            let scores: Vec<f64> = members.iter().map(|_| rng.random::<f64>()).collect();
            let figures = Figures::of(&scores, &members);
            tpr += figures.tpr[0] / f64::from(draws);
            balanced += figures.balanced_accuracy / f64::from(draws);
            auc += figures.auc / f64::from(draws);
        }
        assert!((guessed_tpr(0.01, 200) - 3.0 / 201.0).abs() < 1e-15);
        assert!((tpr - guessed_tpr(0.01, 200)).abs() < 0.0012, "{tpr}");
        assert!((balanced - guessed_balanced_accuracy(200, 200)).abs() < 0.004, "{balanced}");
        assert!((auc - 0.5).abs() < 0.003, "{auc}");
    }
}
