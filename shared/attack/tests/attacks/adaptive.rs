//! Adaptive attacks: the truth lies in every set that a known defense leaves, and who knows the defense does no worse than who
//! does not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use nalgebra::{DMatrix, DVector};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha20Rng;
use vfl_attack::adaptive::{
    Averaging, ChosenShares, CodebookCell, Interval, LabelCone, NoiseDirection, RankingCone,
    average,
};
use vfl_attack::{
    Answer, Attack, AttackError, Centre, KnownPolicy, Method, OracleError, Reconstruction,
    Settings, ShareOracle, Termination, adaptive_for,
};
use vfl_core::metrics::mse;
use vfl_core::types::ReleasedScores;
use vfl_defense::Policy;
use vfl_numerics::{Polytope, arg_max};

use crate::fixture::run;
use crate::simulated::*;

fn known(policy: &str) -> KnownPolicy {
    policy.parse::<Policy>().unwrap().into()
}

fn secret(policy: &str) -> KnownPolicy {
    KnownPolicy { scale_known: false, ..known(policy) }
}

fn error(found: &Reconstruction, world: &World) -> f64 {
    mse(&found.estimates, &world.truth).unwrap().overall
}

fn reconstruct(attack: &dyn Attack, world: &World, released: &ReleasedScores) -> Reconstruction {
    let found =
        attack.reconstruct(&world.view(released), &mut ChaCha20Rng::seed_from_u64(1)).unwrap();
    assert!(found.estimates.iter().all(|v| (0.0..=1.0).contains(v)));
    found
}

fn interval(policy: &str, centre: Centre) -> Interval {
    Interval { known: KnownPolicy { centre: Some(centre), ..known(policy) } }
}

/// A random model with random records; some features at the ends of their range.
fn drawn(seed: u64) -> World {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let (k, d, a) = (rng.random_range(2..8), rng.random_range(1..16), rng.random_range(0..4));
    let scale = [0.5, 2.0, 6.0][rng.random_range(0..3)];
    let w = DMatrix::from_fn(k, d + a, |_, _| scale * (2.0 * rng.random::<f64>() - 1.0));
    let bias = DVector::from_fn(k, |_, _| 2.0 * rng.random::<f64>() - 1.0);
    let x = DMatrix::from_fn(d + a, 12, |_, _| (1.4 * rng.random::<f64>() - 0.2).clamp(0.0, 1.0));
    World::new(&w, &bias, &x, d)
}

fn contains_truth(sets: &[Polytope], world: &World, what: &str) {
    assert_eq!(sets.len(), world.truth.ncols());
    for (record, set) in sets.iter().enumerate() {
        let mut x: Vec<f64> = world.truth.column(record).iter().copied().collect();
        x.resize(set.unknowns(), 0.0);
        let misfit = set.misfit(&x);
        assert!(misfit <= 1e-9, "{what}: record {record} lies {misfit:e} outside of its set");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// The invariant: whatever the defense, the set derived from its release holds the truth.
    #[test]
    fn every_set_holds_the_truth(seed in any::<u64>()) {
        let world = drawn(seed);
        let c = world.scores();
        let k = c.nrows();
        let mut rng = ChaCha20Rng::seed_from_u64(seed ^ 1);
        let sigma = [0.3, 4.84, 48.0][rng.random_range(0..3)];
        let ramp: Vec<f64> = (0..k).map(|r| sigma * (1.0 + r as f64 / (k - 1) as f64)).collect();
        let (temperature, kept) = (0.5 + 3.0 * rng.random::<f64>(), rng.random_range(1..k + 1));
        let cooled = softmax(&(&world.logits / temperature));
        let intervals = [
            ("none".to_owned(), ReleasedScores::Probabilities(c.clone()), true),
            ("rounding (decimals = 0)".into(), rounding(&c, 0), true),
            ("rounding (decimals = 1)".into(), rounding(&c, 1), true),
            ("rounding (decimals = 3)".into(), rounding(&c, 3), true),
            ("rounding (decimals = 15)".into(), rounding(&c, 15), true),
            (format!("temperature (temperature = {temperature:?})"), ReleasedScores::Probabilities(cooled.clone()), true),
            (format!("temperature (temperature = {temperature:?}) then rounding (decimals = 2)"), rounding(&cooled, 2), true),
            (format!("top_k (k = {kept})"), top_k(&c, kept, false), true),
            (format!("top_k (k = {kept})"), top_k(&c, kept, true), true),
            (format!("privee_dp (sigma = {sigma:?})"), privee(&c, &vec![sigma; k], false, &mut rng), true),
            (format!("privee_dp (sigma = {sigma:?}, template = \"householder\")"), privee(&c, &vec![sigma; k], true, &mut rng), true),
            ("privee_dp".into(), privee(&c, &vec![sigma; k], false, &mut rng), false),
            ("privee_dp (template = \"householder\")".into(), privee(&c, &vec![sigma; k], true, &mut rng), false),
            (format!("privee_dp_plus_plus (sigma = [{:?}, {:?}])", sigma, 2.0 * sigma), privee(&c, &ramp, false, &mut rng), true),
            ("privee_dp_plus_plus (sigma = [1.0, 2.0])".into(), privee(&c, &ramp, false, &mut rng), false),
            (format!("privee_dp (sigma = {sigma:?}, template = \"fisip\")"), fisip(&c, sigma, &mut rng), true),
        ];
        for (policy, released, scale_known) in &intervals {
            let attack = Interval { known: KnownPolicy { scale_known: *scale_known, ..known(policy) } };
            contains_truth(&attack.polytopes(&world.view(released)).unwrap(), &world, policy);
            // And whatever centre is taken is a number.
            for centre in [Centre::Half, Centre::Analytic, Centre::Posterior, Centre::Likely] {
                let attack = Interval { known: KnownPolicy { centre: Some(centre), ..attack.known.clone() } };
                reconstruct(&attack, &world, released);
            }
            if policy.starts_with("privee") && !policy.contains("fisip") {
                let scores = attack.scores(released).unwrap();
                prop_assert!(scores.scores.column_iter().all(|c| (c.sum() - 1.0).abs() < 1e-9));
                for (at, c) in c.iter().enumerate() {
                    prop_assert!(scores.lower[at] <= c + 1e-12 && *c <= scores.upper[at] + 1e-12, "{policy}");
                }
            }
        }
        let cone = RankingCone { centre: Centre::Half };
        for released in [ranking(&c), encrypted(&c), privee(&c, &ramp, false, &mut rng), rounding(&c, 1), label(&c)] {
            contains_truth(&cone.polytopes(&world.view(&released)).unwrap(), &world, "ranking_cone");
            let cone = LabelCone { centre: Centre::Half };
            if !matches!(released, ReleasedScores::Numbers(_)) {
                contains_truth(&cone.polytopes(&world.view(&released)).unwrap(), &world, "label_cone");
            }
        }
        let words = codebook(&c, 3);
        let cells = CodebookCell { centre: Centre::Analytic };
        contains_truth(&cells.polytopes(&world.view(&words)).unwrap(), &world, "codebook_cell");
        for centre in [Centre::Half, Centre::Analytic, Centre::Posterior, Centre::Likely] {
            reconstruct(&CodebookCell { centre }, &world, &words);
            reconstruct(&RankingCone { centre }, &world, &words);
        }
    }

    /// The same for noise along a direction, its length known.
    #[test]
    fn noise_along_a_direction_leaves_the_truth_in_its_set(seed in any::<u64>(), alpha in 0.01..30.0f64) {
        let world = drawn(seed);
        for scheme in [1, 2] {
            let released = ReleasedScores::Probabilities(softmax(&noisy_logits(&world, scheme, alpha)));
            let policy = format!("logit_noise (scheme = {scheme}, alpha = {alpha:?})");
            let attack = NoiseDirection { known: known(&policy) };
            let sets = attack.polytopes(&world.view(&released)).unwrap();
            for (record, set) in sets.iter().enumerate() {
                let x: Vec<f64> = world.truth.column(record).iter().copied().collect();
                prop_assert!(set.misfit(&x) <= 1e-6, "{policy}, record {record}: {:e}", set.misfit(&x));
            }
            let attack = NoiseDirection { known: secret(&policy) };
            reconstruct(&attack, &world, &released);
        }
    }
}

/// Knowing the defense is worth something: on the golden rows the adaptive attack beats the strongest of those that take the
/// release for the scores, by the mean over all records, at every width.
#[test]
fn knowing_the_defense_never_costs() {
    for (name, widths) in [("satellite", [5, 18]), ("robot", [3, 12])] {
        for d in widths {
            let world = World::golden(name, d);
            let c = world.scores();
            let k = c.nrows();
            let mut rng = ChaCha20Rng::seed_from_u64(4);
            let releases = [
                ("rounding (decimals = 1)", rounding(&c, 1), true, 0.05),
                ("rounding (decimals = 2)", rounding(&c, 2), true, 0.005),
                (
                    "privee_dp (sigma = 4.84)",
                    privee(&c, &vec![4.84; k], false, &mut rng),
                    false,
                    1e-12,
                ),
                (
                    "privee_dp (sigma = 48.0)",
                    privee(&c, &vec![48.0; k], false, &mut rng),
                    false,
                    1e-12,
                ),
                ("ranking", ranking(&c), true, 1e-12),
                ("class_label", label(&c), true, 0.01),
            ];
            let half = error(&run(Method::Half, &world.view(&releases[0].1)), &world);
            for (policy, released, scale_known, floor) in &releases {
                let naive = [Method::ClampedHalfStar, Method::Rcc2]
                    .map(|m| error(&run(m, &world.view_with(released, *floor)), &world));
                let adaptive = KnownPolicy { scale_known: *scale_known, ..known(policy) };
                let method = adaptive_for(&adaptive.policy).unwrap();
                let settings = adaptive.settings();
                let got = error(&reconstruct(&*method.build(&settings), &world, released), &world);
                let best = naive[0].min(naive[1]);
                assert!(got <= best, "{name}, d = {d}, {policy}: {got:.5}, naive {naive:.5?}");
                assert!(got <= half, "{name}, d = {d}, {policy}: {got:.5}, half {half:.5}");
            }
        }
    }
}

/// Behind randomised response: whoever weighs a label by the channel errs less than whoever takes it for the predicted class, the
/// more so the more often it is another, and never more than the guess of a half by more than its draws account for.
#[test]
fn a_label_weighed_by_its_channel_beats_one_that_is_taken_for_true() {
    for (name, widths) in [("satellite", [5, 18]), ("robot", [3, 12])] {
        for d in widths {
            let world = World::golden(name, d);
            let c = world.scores();
            let (k, n) = c.shape();
            let half = error(&run(Method::Half, &world.view(&label(&c))), &world);
            let mut errors = Vec::new();
            for epsilon in [0.5f64, 1.0, 2.0, 50.0] {
                let mut rng = ChaCha20Rng::seed_from_u64(11);
                let kept = epsilon.exp() / (epsilon.exp() + k as f64 - 1.0);
                let labels = (0..n).map(|record| {
                    let truth = arg_max(c.column(record).as_slice());
                    let other = (truth + rng.random_range(1..k)) % k;
                    (if rng.random::<f64>() < kept { truth } else { other }) as u32
                });
                let released = ReleasedScores::Labels { classes: k, labels: labels.collect() };
                let policy = known(&format!("randomized_label (epsilon = {epsilon:?})"));
                let method = adaptive_for(&policy.policy).unwrap();
                assert_eq!(method, Method::NoisyLabel);
                let got = error(
                    &reconstruct(&*method.build(&policy.settings()), &world, &released),
                    &world,
                );
                let naive = error(
                    &reconstruct(&LabelCone { centre: Centre::Analytic }, &world, &released),
                    &world,
                );
                let posterior = error(
                    &reconstruct(&LabelCone { centre: Centre::Posterior }, &world, &released),
                    &world,
                );
                if epsilon < 50.0 {
                    assert!(
                        got < naive && got < posterior,
                        "{name}, {d}, {epsilon}: {got:.5}, {naive:.5} {posterior:.5}"
                    );
                }
                assert!(got <= half + 1e-3, "{name}, d = {d}, {epsilon}: {got:.5}, half {half:.5}");
                errors.push(got);
            }
            assert!(errors[3] < errors[0], "{name}, d = {d}: {errors:.5?}");
        }
    }
}

/// PRIVEE with a secret σ: the scores come back to under 1e-3, and under 1 % of the error of guessing their mean.
#[test]
fn privee_gives_its_scores_away() {
    for (name, d) in [("satellite", 5), ("robot", 3)] {
        let world = World::golden(name, d);
        let c = world.scores();
        let k = c.nrows();
        let mean = c.column_mean();
        let guess =
            c.column_iter().map(|c| (c - &mean).norm_squared()).sum::<f64>() / c.len() as f64;
        for sigma in [4.84, 48.0] {
            for (householder, template) in [(false, "identity"), (true, "householder")] {
                for seed in 0..3 {
                    let released = privee(
                        &c,
                        &vec![sigma; k],
                        householder,
                        &mut ChaCha20Rng::seed_from_u64(seed),
                    );
                    let attack =
                        Interval { known: secret(&format!("privee_dp (template = {template:?})")) };
                    let found = attack.scores(&released).unwrap();
                    let off = (&found.scores - &c).norm_squared() / c.len() as f64;
                    let (lower, likely, upper) = found.sigma.unwrap();
                    assert!(
                        lower <= sigma && sigma <= upper,
                        "{name}: σ {lower} to {upper}, {sigma}"
                    );
                    assert!((likely / sigma - 1.0).abs() < 0.05, "{name}: σ {likely}, {sigma}");
                    assert!(
                        off < 1e-3 && off < 0.01 * guess,
                        "{name}, σ = {sigma}: {off:.2e}, guess {guess:.2e}"
                    );
                }
            }
        }
    }
}

/// As the defense fades the attack becomes what it is without one.
#[test]
fn a_defense_that_fades_leaves_the_undefended_attack() {
    for (name, d) in [("satellite", 5), ("satellite", 18), ("robot", 12)] {
        let world = World::golden(name, d);
        let c = world.scores();
        let undefended = ReleasedScores::Probabilities(c.clone());
        let plain = run(Method::Rcc2, &world.view(&undefended)).estimates;
        let mut rng = ChaCha20Rng::seed_from_u64(5);
        let faint = privee(&c, &vec![1e-9; c.nrows()], false, &mut rng);
        for (policy, released, tolerance) in [
            ("none", undefended, 1e-9),
            ("rounding (decimals = 15)", rounding(&c, 15), 1e-4),
            ("privee_dp (sigma = 1e-9)", faint, 1e-5),
        ] {
            let found = reconstruct(&interval(policy, Centre::Half), &world, &released);
            // Of scores as small as half a step nothing is left.
            let clear: Vec<usize> = (0..c.ncols()).filter(|&r| c.column(r).min() > 1e-8).collect();
            assert!(clear.len() > 20, "{name}: {} records", clear.len());
            let off =
                (found.estimates.select_columns(&clear) - plain.select_columns(&clear)).amax();
            assert!(off < tolerance, "{name}, d = {d}, {policy}: {off:e}");
        }
    }
}

/// The known direction is taken out: with its length known scheme 1 hides nothing; scheme 2 only what the maximum hides.
#[test]
fn noise_along_a_known_direction_is_taken_out() {
    for (name, d) in
        [("satellite", 3), ("satellite", 5), ("satellite", 18), ("robot", 3), ("robot", 12)]
    {
        let world = World::golden(name, d);
        let plain = run(Method::Rcc2, &world.view(&ReleasedScores::Probabilities(world.scores())));
        for (scheme, alpha) in [(1, 10.0), (2, 1.0), (2, 10.0)] {
            let noisy = noisy_logits(&world, scheme, alpha);
            let released = ReleasedScores::Probabilities(softmax(&noisy));
            let policy = format!("logit_noise (scheme = {scheme}, alpha = {alpha:?})");
            let found = reconstruct(&NoiseDirection { known: known(&policy) }, &world, &released);
            let mut exact = 0;
            for record in 0..world.truth.ncols() {
                let mut z: Vec<f64> = noisy.column(record).iter().copied().collect();
                z.sort_by(|a, b| b.total_cmp(a));
                let off = (found.estimates.column(record) - plain.estimates.column(record)).amax();
                if scheme == 1 || z[0] > z[1] {
                    assert!(off < 1e-9, "{name}, d = {d}, {policy}, record {record}: {off:e}");
                    exact += 1;
                }
            }
            assert!(exact > 0, "{name}, {policy}: all tied");
            let naive = error(&run(Method::Rcc2, &world.view(&released)), &world);
            let (got, clear) = (error(&found, &world), error(&plain, &world));
            assert!(
                got <= naive + 1e-12 && got >= clear - 1e-3,
                "{name}, {policy}: {clear:.5} {got:.5} {naive:.5}"
            );
            // With α secret something is lost, but the box and the other records leave little of it.
            let blind = error(
                &reconstruct(&NoiseDirection { known: secret(&policy) }, &world, &released),
                &world,
            );
            assert!(
                blind <= naive + 1e-9,
                "{name}, d = {d}, {policy}: α secret {blind:.5}, naive {naive:.5}"
            );
        }
        for (policy, stretched) in [
            ("temperature (temperature = 2.5)", &world.logits / 2.5),
            ("logit_noise (scheme = 3, alpha = 0.6)", &world.logits * 0.4),
        ] {
            let released = ReleasedScores::Probabilities(softmax(&stretched));
            let found = reconstruct(&NoiseDirection { known: known(policy) }, &world, &released);
            let off = (found.estimates - &plain.estimates).amax();
            assert!(off < 1e-9, "{name}, d = {d}, {policy}: {off:e}");
        }
    }
}

#[test]
fn fresh_noise_is_averaged_away_and_keyed_noise_shows_itself() {
    let world = World::golden("satellite", 18);
    let c = world.scores();
    let mut rng = ChaCha20Rng::seed_from_u64(6);
    let releases: Vec<ReleasedScores> = (0..400).map(|_| gaussian(&c, 0.1, &mut rng)).collect();
    let mut errors = Vec::new();
    for queries in [1, 20, 400] {
        let (mean, averaged) = average(&releases[..queries]).unwrap();
        assert_eq!((averaged.queries, averaged.distinct), (queries, queries));
        let attack = Averaging {
            known: known("gaussian_noise (sigma = 0.1), fresh noise"),
            averaged: Some(averaged.distinct),
        };
        errors.push(error(&reconstruct(&attack, &world, &mean), &world));
        let naive = error(&run(Method::Rcc2, &world.view_with(&mean, 0.005)), &world);
        assert!(errors[errors.len() - 1] < naive, "{queries}: {errors:?}, naive {naive}");
    }
    let half = error(&run(Method::Half, &world.view(&releases[0])), &world);
    assert!(
        errors[0] < half && errors[1] < errors[0] && errors[2] < errors[1],
        "{errors:?}, half {half}"
    );

    let keyed = vec![releases[0].clone(); 5];
    let (mean, averaged) = average(&keyed).unwrap();
    assert_eq!((averaged.queries, averaged.distinct), (5, 1));
    assert!(mean == releases[0]);
    assert!(average(&[]).is_err() && average(&[label(&c)]).is_err());
    let other = ReleasedScores::Numbers(DMatrix::zeros(c.nrows(), 3));
    assert!(matches!(average(&[releases[0].clone(), other]), Err(AttackError::Releases { .. })));
}

/// A coordinator with keyed noise that may bind the first share of each record.
struct Simulated<'a> {
    world: &'a World,
    /// z less the honest share: the passive part.
    passive: DMatrix<f64>,
    bound: Option<Mutex<Vec<Option<Vec<u64>>>>>,
    asked: AtomicUsize,
    release: fn(&[f64], usize) -> Answer,
    fail_after: usize,
}

impl<'a> Simulated<'a> {
    fn new(world: &'a World, binding: bool, release: fn(&[f64], usize) -> Answer) -> Self {
        let passive = &world.w_pas * &world.truth;
        let bound = binding.then(|| Mutex::new(vec![None; passive.ncols()]));
        Self { world, passive, bound, asked: AtomicUsize::new(0), release, fail_after: usize::MAX }
    }
}

impl std::fmt::Debug for Simulated<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Simulated")
    }
}

impl ShareOracle for Simulated<'_> {
    fn ask(&self, records: &[usize], shares: &DMatrix<f64>) -> Result<Vec<Answer>, OracleError> {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= self.fail_after {
            return Err(OracleError("deadline".into()));
        }
        let mut bound = self.bound.as_ref().map(|bound| bound.lock().unwrap());
        assert_eq!(self.world.truth.ncols(), self.passive.ncols());
        Ok(records
            .iter()
            .enumerate()
            .map(|(at, &record)| {
                let share = shares.column(at);
                if let Some(bound) = &mut bound {
                    let bits: Vec<u64> = share.iter().map(|s| s.to_bits()).collect();
                    if bound[record].get_or_insert_with(|| bits.clone()) != &bits {
                        return Answer::Refused;
                    }
                }
                let z = self.passive.column(record) + share;
                let c = softmax(&DMatrix::from_column_slice(z.len(), 1, z.as_slice()));
                (self.release)(c.as_slice(), record)
            })
            .collect())
    }
}

fn label_answer(c: &[f64], _record: usize) -> Answer {
    Answer::Label(arg_max(c) as u32)
}

/// The noise of a record is always the same.
fn keyed_answer(c: &[f64], record: usize) -> Answer {
    let column = DMatrix::from_column_slice(c.len(), 1, c);
    let ReleasedScores::Numbers(p) =
        gaussian(&column, 0.5, &mut ChaCha20Rng::seed_from_u64(record as u64))
    else {
        unreachable!()
    };
    Answer::Scores(p.as_slice().to_vec())
}

#[test]
fn chosen_shares_bring_the_logits_unless_the_first_is_bound() {
    let world = World::golden("robot", 3);
    let (k, n) = world.logits.shape();
    let passive = &world.w_pas * &world.truth;
    let want = DMatrix::from_fn(k - 1, n, |j, r| passive[(j + 1, r)] - passive[(0, r)]);
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    for (policy, answer) in [
        ("class_label, unbound shares", label_answer as fn(&[f64], usize) -> Answer),
        ("gaussian_noise (sigma = 0.5), unbound shares", keyed_answer),
    ] {
        assert_eq!(adaptive_for(&policy.parse().unwrap()), Some(Method::ChosenShares));
        let attack = ChosenShares { known: known(policy), ..ChosenShares::default() };
        let open = Simulated::new(&world, false, answer);
        let found = attack.gather(&world.model, &world.active, &open, &mut rng).unwrap();
        assert!(
            !found.stopped() && found.refused == 0 && found.gained.iter().all(|g| *g),
            "{policy}"
        );
        let label = policy.starts_with("class_label");
        if label {
            let off = (&found.differences - &want).amax();
            assert!(off < 1e-6, "{policy}: {off:e}");
            assert!(found.questions <= 1 + 40 * (k - 1), "{} questions", found.questions);
        } else {
            assert_eq!(found.questions, 2);
            // Small scores keep few digits beside noise of ½.
            let c = world.scores();
            for r in (0..n).filter(|&r| c.column(r).min() > 1e-8) {
                let off = (found.differences.column(r) - want.column(r)).amax();
                assert!(off < 1e-6, "{policy}, record {r}: {off:e}");
            }
        }
        let exact = error(&found.reconstruction, &world);
        assert!(exact < 1e-3, "{policy}: {exact:e}");

        let bound = Simulated::new(&world, true, answer);
        let found = attack.gather(&world.model, &world.active, &bound, &mut rng).unwrap();
        assert!(found.stopped() && found.refused == n, "{policy}: {} refused", found.refused);
        assert!(found.differences.iter().all(|d| d.is_nan()));
        let stopped = error(&found.reconstruction, &world);
        assert!(stopped > 10.0 * exact, "{policy}: {stopped:e} with binding, {exact:e} without");

        let broken = Simulated { fail_after: 1, ..Simulated::new(&world, false, answer) };
        let failed = attack.gather(&world.model, &world.active, &broken, &mut rng);
        assert!(matches!(failed, Err(AttackError::Oracle(_))), "{failed:?}");
    }
}

#[test]
fn a_release_that_the_policy_does_not_fit_is_refused_by_name() {
    let world = World::golden("robot", 3);
    let c = world.scores();
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let vectors = ReleasedScores::Probabilities(c.clone());
    for (method, policy, released, part) in [
        (Method::Interval, "class_label", &vectors, "interval is made for"),
        (Method::Interval, "rounding (decimals = 1)", &label(&c), "labels were released"),
        (Method::Interval, "privee_dp_plus_plus (as_published = true)", &vectors, "privee"),
        (Method::CodebookCell, "codebook (size = 8)", &encrypted(&c), "ciphertexts were released"),
        (
            Method::NoiseDirection,
            "rounding (decimals = 1)",
            &vectors,
            "noise_direction is made for",
        ),
        (Method::Averaging, "rounding (decimals = 1)", &vectors, "averaging is made for"),
        (
            Method::ShadowPurifier,
            "rounding (decimals = 1)",
            &vectors,
            "shadow_purifier is made for one purifier",
        ),
        (Method::ShadowPurifier, "purifier", &encrypted(&c), "ciphertexts were released"),
        (Method::ChosenShares, "none", &vectors, "asks the coordinator"),
    ] {
        let settings = Settings::read([("policy", policy)]).unwrap();
        let failed = method
            .build(&settings)
            .reconstruct(&world.view(released), &mut rng)
            .unwrap_err()
            .to_string();
        assert!(failed.contains(part), "{method}: {failed}");
    }
    // Noise where rounding was promised: no scores fit, and the nearest that do are answered for.
    let odd = gaussian(&c, 0.5, &mut rng);
    let found = reconstruct(&interval("rounding (decimals = 2)", Centre::Half), &world, &odd);
    assert!(found.outcomes.iter().any(|o| o.ended == Termination::NearestConsistent));
    assert!(
        Settings::read([("policy", "rounding")]).is_err()
            && Settings::read([("centre", "top")]).is_err()
    );
    assert!(
        Settings::read([("sigma_known", "false"), ("centre", "analytic"), ("averaged", "3")])
            .is_ok()
    );
}
